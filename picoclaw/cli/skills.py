"""`picoclaw skills`: which there are and where, why one cannot be used here, and what exactly the model reads."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from picoclaw.app import App
from picoclaw.cli.common import add_board_option, open_app
from picoclaw.errors import SkillError
from picoclaw.files import explain_os_error
from picoclaw.schema import find_nearest
from picoclaw.skills.library import SKILL_FILE, SkillLibrary, read_skill
from picoclaw.skills.skill import BrokenSkill, Skill, SkillContext, SkillNeeds, describe_unmet_needs, search_skills
from picoclaw.text import escape_unprintable, format_json


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    _add_shared_options(parser)
    words = parser.add_subparsers(dest="act", metavar="ACT")
    for name, purpose in (
        ("list", "name them all, and say what is wrong with which (the default)"),
        ("show", "print what the model reads of one"),
        ("search", "find as the model would, with scores"),
        ("check", "look for mistakes; exit code 1 when there is one"),
    ):
        word = words.add_parser(name, help=purpose, argument_default=argparse.SUPPRESS, allow_abbrev=False)
        _add_shared_options(word) if name == "list" else add_board_option(word)
        if name == "show":
            word.add_argument("name", metavar="NAME")
        elif name == "search":
            word.add_argument("query", metavar="WORD", nargs="+")
        elif name == "check":
            word.add_argument("path", metavar="PATH", nargs="?", default="", help="one skill or a folder of them")


def _add_shared_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Do it; all that is ever written is skills.cache, in a home that exists."""
    with open_app(given, make=False) as app:
        app.library.look()
        return _SUBCOMMANDS[given.act or "list"](app, given)


def _list_skills(app: App, given: argparse.Namespace) -> int:
    library, here = app.library, app.skill_context()
    skills = list(library.skills.values())
    missing = {skill.name: describe_unmet_needs(skill, here) for skill in skills}
    if given.json:
        print(format_json(_library_to_dict(library, missing)))
        return 0
    names = max((len(skill.name) for skill in skills), default=0)
    tiers = max((len(skill.tier) for skill in skills), default=0)
    for skill in skills:
        _print_lines([_truncate_line(f"{skill.name:{names}}  {skill.tier:{tiers}}  {skill.description}")])
        if missing[skill.name]:
            _print_lines([f"    not usable here: it {missing[skill.name]}"])
        _print_lines(f"    note: {note}" for note in skill.notes)
    _print_lines(_format_remarks(library))
    usable = sum(not why for why in missing.values())
    print(
        f"{_format_count(len(skills))}, {usable} usable here"
        + (f", {len(library.broken)} broken" * bool(library.broken))
    )
    return 0


def _library_to_dict(library: SkillLibrary, missing: Mapping[str, str]) -> dict[str, Any]:
    skills = library.skills.values()
    return {
        "skills": [
            skill._asdict() | {"needs": skill.needs._asdict(), "unmet": missing[skill.name]} for skill in skills
        ],
        "broken": [broken._asdict() for broken in library.broken],
        "shadowed": [
            {"name": hidden.name, "tier": hidden.tier, "folder": hidden.folder} for hidden in library.shadowed
        ],
        "notes": library.notes,
    }


def _format_remarks(library: SkillLibrary) -> Iterator[str]:
    """What is not in the list, and why."""
    yield from (_format_broken(broken) for broken in library.broken)
    yield from (f"note: {note}" for note in library.notes)


def _format_broken(broken: BrokenSkill) -> str:
    return f"broken: {broken.folder}: {broken.problem}"


def _show_skill(app: App, given: argparse.Namespace) -> int:
    skill = _find_skill(app.library, given.name)
    text = app.library.text(skill.name)
    missing = describe_unmet_needs(skill, app.skill_context())
    facts = {
        "lies in": f"{skill.folder} ({skill.tier})",
        "triggers": ", ".join(skill.triggers),
        "needs": _format_needs(skill.needs),
        "not usable here": missing and f"it {missing}",
        "tools": ", ".join(skill.tools),
        "model": skill.model,
        **{f"note {number}": note for number, note in enumerate(skill.notes, 1)},
    }
    _print_lines(
        [f"{skill.name}: {skill.description}", *(f"{name}: {value}" for name, value in facts.items() if value), "---"]
    )
    print(escape_unprintable(text))
    return 0


def _find_skill(library: SkillLibrary, name: str) -> Skill:
    if name in library.skills:
        return library.skills[name]
    for broken in library.broken:
        if broken.folder.name == name:
            raise SkillError(_format_line(f"{broken.folder}: {broken.problem}"))
    raise SkillError(f"there is no skill {name!r}{find_nearest(name, library.skills)}")


def _format_needs(needs: SkillNeeds) -> str:
    """All that is needed, in the order of its kinds; what can be chosen from is joined by 'or'."""
    kinds: dict[str, tuple[str, ...]] = needs._asdict() | {
        "programs": tuple("|".join(names) for names in needs.programs)
    }
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names).replace("|", " or ")


def _search_skills(app: App, given: argparse.Namespace) -> int:
    here = app.skill_context()
    usable = [skill for skill in app.library.skills.values() if not describe_unmet_needs(skill, here)]
    query = " ".join(given.query)
    found = search_skills(usable, query)
    _print_lines(_truncate_line(f"{score:6.2f}  {skill.name}: {skill.description}") for skill, score in found)
    if not found:
        _print_lines([f"none of the {len(usable)} skills that are usable here has any word of {query!r}"])
    return 0


def _check_skills(app: App, given: argparse.Namespace) -> int:
    skills, broken, notes = _load_path(given.path) if given.path else _list_library(app.library)
    _print_lines(_format_broken(found) for found in broken)
    here = app.skill_context()
    _print_lines(f"{skill.name}: {note}" for skill in skills for note in _list_notes(skill, here))
    _print_lines(f"note: {note}" for note in notes)
    counted = _format_count(len(skills) + len(broken))
    print(f"{counted}, {len(broken)} broken" if broken else f"{counted}, all good")
    return 1 if broken else 0


_CheckedSkills = tuple[Sequence[Skill], Sequence[BrokenSkill], Sequence[str]]


def _list_library(library: SkillLibrary) -> _CheckedSkills:
    return list(library.skills.values()), library.broken, library.notes


def _load_path(path: str) -> _CheckedSkills:
    """What lies at a path: one skill, or a folder of them."""
    named = Path(os.path.expanduser(path))  # noqa: PTH111 - Path raises for an unknown user, and for links in a circle
    folder = Path(os.path.realpath(named.parent if named.name == SKILL_FILE else named))
    if not (folder / SKILL_FILE).exists():
        library = SkillLibrary([("given", folder)])
        library.look()
        if library.skills or library.broken:
            return _list_library(library)
        raise SkillError(
            _format_line(f"{path}: no {SKILL_FILE} is there; name a skill's folder, or a folder of skills")
        )
    try:
        return [read_skill(folder)], [], []
    except SkillError as error:
        return [], [BrokenSkill(folder, "", str(error))], []
    except OSError as error:
        return [], [BrokenSkill(folder, "", f"{SKILL_FILE} cannot be read: {explain_os_error(error)}")], []


def _list_notes(skill: Skill, here: SkillContext) -> Iterator[str]:
    """What its writer may want to know: nothing of it keeps the skill from being used elsewhere."""
    yield from skill.notes
    if missing := describe_unmet_needs(skill, here):
        yield f"not usable here: it {missing}"
    for name in skill.tools:
        if name not in here.tools:
            yield f"tools: there is no tool {name!r} here{find_nearest(name, dict.fromkeys(here.tools))}"


def _format_count(count: int) -> str:
    return "1 skill" if count == 1 else f"{count} skills"


def _print_lines(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(_format_line(line))


def _format_line(text: str) -> str:
    return escape_unprintable(text).replace("\n", "\\n")


def _truncate_line(line: str) -> str:
    """As much as fits the terminal; a file or a pipe gets it whole."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return line if len(line) <= wide else f"{line[: wide - 1]}…"


_SUBCOMMANDS: Mapping[str, Callable[[App, argparse.Namespace], int]] = {
    "list": _list_skills,
    "show": _show_skill,
    "search": _search_skills,
    "check": _check_skills,
}
