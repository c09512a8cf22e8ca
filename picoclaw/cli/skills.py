"""`picoclaw skills`: which there are and where, why one cannot be used here, and what exactly the model reads."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from picoclaw.app import App
from picoclaw.cli.common import board_option, json_text, opened, printable
from picoclaw.disk import explain
from picoclaw.errors import SkillError
from picoclaw.schema import nearest
from picoclaw.skills.choose import search
from picoclaw.skills.library import FILE, Library, examine
from picoclaw.skills.skill import Broken, Here, Needs, Skill, unmet


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    _shared(parser)
    words = parser.add_subparsers(dest="act", metavar="ACT")
    for name, purpose in (
        ("list", "name them all, and say what is wrong with which (the default)"),
        ("show", "print what the model reads of one"),
        ("search", "find as the model would, with scores"),
        ("check", "look for mistakes; exit code 1 when there is one"),
    ):
        word = words.add_parser(name, help=purpose, argument_default=argparse.SUPPRESS, allow_abbrev=False)
        _shared(word) if name == "list" else board_option(word)
        if name == "show":
            word.add_argument("name", metavar="NAME")
        elif name == "search":
            word.add_argument("query", metavar="WORD", nargs="+")
        elif name == "check":
            word.add_argument("path", metavar="PATH", nargs="?", default="", help="one skill or a folder of them")


def _shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Do it; all that is ever written is skills.cache, in a home that exists."""
    with opened(given, make=False) as app:
        app.library.look()
        return _ACTS[given.act or "list"](app, given)


def _list(app: App, given: argparse.Namespace) -> int:
    library, here = app.library, app.here()
    skills = list(library.skills.values())
    missing = {skill.name: unmet(skill, here) for skill in skills}
    if given.json:
        print(json_text(_told(library, missing)))
        return 0
    names = max((len(skill.name) for skill in skills), default=0)
    tiers = max((len(skill.tier) for skill in skills), default=0)
    for skill in skills:
        _say([_cut(f"{skill.name:{names}}  {skill.tier:{tiers}}  {skill.description}")])
        if missing[skill.name]:
            _say([f"    not usable here: it {missing[skill.name]}"])
        _say(f"    note: {note}" for note in skill.notes)
    _say(_remarks(library))
    usable = sum(not why for why in missing.values())
    print(f"{_counted(len(skills))}, {usable} usable here" + (f", {len(library.broken)} broken" * bool(library.broken)))
    return 0


def _told(library: Library, missing: Mapping[str, str]) -> dict[str, Any]:
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


def _remarks(library: Library) -> Iterator[str]:
    """What is not in the list, and why."""
    yield from (_broken(broken) for broken in library.broken)
    yield from (f"note: {note}" for note in library.notes)


def _broken(broken: Broken) -> str:
    return f"broken: {broken.folder}: {broken.problem}"


def _show(app: App, given: argparse.Namespace) -> int:
    skill = _named(app.library, given.name)
    text = app.library.text(skill.name)
    missing = unmet(skill, app.here())
    facts = {
        "lies in": f"{skill.folder} ({skill.tier})",
        "triggers": ", ".join(skill.triggers),
        "needs": _worded(skill.needs),
        "not usable here": missing and f"it {missing}",
        "tools": ", ".join(skill.tools),
        "model": skill.model,
        **{f"note {number}": note for number, note in enumerate(skill.notes, 1)},
    }
    _say([f"{skill.name}: {skill.description}", *(f"{name}: {value}" for name, value in facts.items() if value), "---"])
    print(printable(text))
    return 0


def _named(library: Library, name: str) -> Skill:
    if name in library.skills:
        return library.skills[name]
    for broken in library.broken:
        if broken.folder.name == name:
            raise SkillError(_line(f"{broken.folder}: {broken.problem}"))
    raise SkillError(f"there is no skill {name!r}{nearest(name, library.skills)}")


def _worded(needs: Needs) -> str:
    """All that is needed, in the order of its kinds; what can be chosen from is joined by 'or'."""
    kinds: dict[str, tuple[str, ...]] = needs._asdict() | {
        "programs": tuple("|".join(names) for names in needs.programs)
    }
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names).replace("|", " or ")


def _search(app: App, given: argparse.Namespace) -> int:
    here = app.here()
    usable = [skill for skill in app.library.skills.values() if not unmet(skill, here)]
    query = " ".join(given.query)
    found = search(usable, query)
    _say(_cut(f"{score:6.2f}  {skill.name}: {skill.description}") for skill, score in found)
    if not found:
        _say([f"none of the {len(usable)} skills that are usable here has any word of {query!r}"])
    return 0


def _check(app: App, given: argparse.Namespace) -> int:
    skills, broken, notes = _given(given.path) if given.path else _all(app.library)
    _say(_broken(found) for found in broken)
    here = app.here()
    _say(f"{skill.name}: {note}" for skill in skills for note in _notes(skill, here))
    _say(f"note: {note}" for note in notes)
    counted = _counted(len(skills) + len(broken))
    print(f"{counted}, {len(broken)} broken" if broken else f"{counted}, all good")
    return 1 if broken else 0


_Found = tuple[Sequence[Skill], Sequence[Broken], Sequence[str]]


def _all(library: Library) -> _Found:
    return list(library.skills.values()), library.broken, library.notes


def _given(path: str) -> _Found:
    """What lies at a path: one skill, or a folder of them."""
    named = Path(os.path.expanduser(path))  # noqa: PTH111 - Path raises for an unknown user, and for links in a circle
    folder = Path(os.path.realpath(named.parent if named.name == FILE else named))
    if not (folder / FILE).exists():
        library = Library([("given", folder)])
        library.look()
        if library.skills or library.broken:
            return _all(library)
        raise SkillError(_line(f"{path}: no {FILE} is there; name a skill's folder, or a folder of skills"))
    try:
        return [examine(folder)], [], []
    except SkillError as error:
        return [], [Broken(folder, "", str(error))], []
    except OSError as error:
        return [], [Broken(folder, "", f"{FILE} cannot be read: {explain(error)}")], []


def _notes(skill: Skill, here: Here) -> Iterator[str]:
    """What its writer may want to know: nothing of it keeps the skill from being used elsewhere."""
    yield from skill.notes
    if missing := unmet(skill, here):
        yield f"not usable here: it {missing}"
    for name in skill.tools:
        if name not in here.tools:
            yield f"tools: there is no tool {name!r} here{nearest(name, dict.fromkeys(here.tools))}"


def _counted(count: int) -> str:
    return "1 skill" if count == 1 else f"{count} skills"


def _say(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(_line(line))


def _line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def _cut(line: str) -> str:
    """As much as fits the terminal; a file or a pipe gets it whole."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return line if len(line) <= wide else f"{line[: wide - 1]}…"


_ACTS: Mapping[str, Callable[[App, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "check": _check,
}
