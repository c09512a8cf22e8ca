"""`picoclaw skills`: which there are and where, why one cannot be used here, and what exactly the model reads."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from picoclaw.app import App
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import add_board_option, format_count, open_app, print_lines, print_safe
from picoclaw.errors import SkillError
from picoclaw.files import explain_os_error
from picoclaw.schema import find_nearest
from picoclaw.skills.library import SKILL_FILE, SkillLibrary, read_skill
from picoclaw.skills.skill import BrokenSkill, Skill, SkillContext, SkillNeeds, describe_unmet_needs, search_skills
from picoclaw.text import escape_unprintable, format_json, truncate


def options(parser: Parser) -> None:
    """Declare the verb's words."""
    purposes = {name: purpose for name, (purpose, _) in _SUBCOMMANDS.items()}
    add_board_option(parser)
    parser.add_flag("--json", help="print the list as JSON")
    words = parser.add_words(purposes)
    for word in words.values():
        add_board_option(word)
    words["list"].add_flag("--json", help="print the list as JSON")
    words["show"].add_argument("name", metavar="NAME")
    words["search"].add_argument("query", metavar="WORD", nargs="+")
    words["check"].add_argument("path", metavar="PATH", nargs="?", default="", help="one skill or a folder of them")


def run(given: Options) -> int:
    """Do it; all that is ever written is skills.cache, in a home that exists."""
    with open_app(given, make=False) as app:
        app.library.refresh()
        _, act = _SUBCOMMANDS[given.act or "list"]
        return act(app, given)


def _list_skills(app: App, given: Options) -> int:
    library, here = app.library, app.skill_context()
    skills = list(library.skills.values())
    missing = {skill.name: describe_unmet_needs(skill, here) for skill in skills}
    if given.json:
        listed = [skill._asdict() | {"needs": skill.needs._asdict(), "unmet": missing[skill.name]} for skill in skills]
        hidden = [{"name": one.name, "tier": one.tier, "folder": one.folder} for one in library.shadowed]
        broken = [one._asdict() for one in library.broken]
        print(format_json({"skills": listed, "broken": broken, "shadowed": hidden, "notes": library.notes}))
        return 0
    names = max((len(skill.name) for skill in skills), default=0)
    tiers = max((len(skill.tier) for skill in skills), default=0)
    for skill in skills:
        print_lines([_truncate_line(f"{skill.name:{names}}  {skill.tier:{tiers}}  {skill.description}")])
        if missing[skill.name]:
            print_lines([f"    not usable here: it {missing[skill.name]}"])
        print_lines(f"    note: {note}" for note in skill.notes)
    print_lines(_format_broken(broken) for broken in library.broken)
    print_lines(f"note: {note}" for note in library.notes)
    usable = sum(not why for why in missing.values())
    broken_count = f", {len(library.broken)} broken" if library.broken else ""
    print(f"{format_count(len(skills), 'skill')}, {usable} usable here{broken_count}")
    return 0


def _format_broken(broken: BrokenSkill) -> str:
    return f"broken: {broken.folder}: {broken.problem}"


def _show_skill(app: App, given: Options) -> int:
    library = app.library
    if given.name not in library.skills:
        for broken in library.broken:
            if broken.folder.name == given.name:
                raise SkillError(_to_line(f"{broken.folder}: {broken.problem}"))
        raise SkillError(f"there is no skill {given.name!r}{find_nearest(given.name, library.skills)}")
    skill = library.skills[given.name]
    text = library.read_body(skill.name)
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
    print_lines([f"{skill.name}: {skill.description}"])
    print_lines(f"{name}: {value}" for name, value in facts.items() if value)
    print_safe("---", text)
    return 0


def _format_needs(needs: SkillNeeds) -> str:
    """All that is needed, in the order of its kinds; what can be chosen from is joined by 'or'."""
    programs = tuple("|".join(names) for names in needs.programs)
    kinds: dict[str, tuple[str, ...]] = needs._asdict() | {"programs": programs}
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names).replace("|", " or ")


def _search_skills(app: App, given: Options) -> int:
    here = app.skill_context()
    usable = [skill for skill in app.library.skills.values() if not describe_unmet_needs(skill, here)]
    query = " ".join(given.query)
    found = search_skills(usable, query)
    print_lines(_truncate_line(f"{score:6.2f}  {skill.name}: {skill.description}") for skill, score in found)
    if not found:
        print_lines([f"none of the {len(usable)} skills that are usable here has any word of {query!r}"])
    return 0


_CheckedSkills = tuple[Sequence[Skill], Sequence[BrokenSkill], Sequence[str]]


def _check_skills(app: App, given: Options) -> int:
    skills, broken, notes = _load_path(given.path) if given.path else _list_library(app.library)
    print_lines(_format_broken(found) for found in broken)
    here = app.skill_context()
    print_lines(f"{skill.name}: {note}" for skill in skills for note in _list_notes(skill, here))
    print_lines(f"note: {note}" for note in notes)
    print(f"{format_count(len(skills) + len(broken), 'skill')}, {f'{len(broken)} broken' if broken else 'all good'}")
    return 1 if broken else 0


def _list_library(library: SkillLibrary) -> _CheckedSkills:
    return list(library.skills.values()), library.broken, library.notes


def _load_path(path: str) -> _CheckedSkills:
    """What lies at a path: one skill, or a folder of them."""
    named = Path(os.path.expanduser(path))  # noqa: PTH111 - Path raises for an unknown user, and for links in a circle
    folder = Path(os.path.realpath(named.parent if named.name == SKILL_FILE else named))
    if not (folder / SKILL_FILE).exists():
        library = SkillLibrary([("given", folder)])
        library.refresh()
        if library.skills or library.broken:
            return _list_library(library)
        raise SkillError(_to_line(f"{path}: no {SKILL_FILE} is there; name a skill's folder, or a folder of skills"))
    try:
        return [read_skill(folder)], [], []
    except SkillError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{SKILL_FILE} cannot be read: {explain_os_error(error)}"
    return [], [BrokenSkill(folder, "", problem)], []


def _list_notes(skill: Skill, here: SkillContext) -> Iterator[str]:
    """What its writer may want to know: nothing of it keeps the skill from being used elsewhere."""
    yield from skill.notes
    if missing := describe_unmet_needs(skill, here):
        yield f"not usable here: it {missing}"
    for name in skill.tools:
        if name not in here.tools:
            yield f"tools: there is no tool {name!r} here{find_nearest(name, dict.fromkeys(here.tools))}"


def _to_line(text: str) -> str:
    return escape_unprintable(text).replace("\n", "\\n")


def _truncate_line(line: str) -> str:
    """As much as fits the terminal; a file or a pipe gets it whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return truncate(line, width)


_SUBCOMMANDS: Mapping[str, tuple[str, Callable[[App, Options], int]]] = {
    "list": ("name them all, and say what is wrong with which (the default)", _list_skills),
    "show": ("print what the model reads of one", _show_skill),
    "search": ("find as the model would, with scores", _search_skills),
    "check": ("look for mistakes; exit code 1 when there is one", _check_skills),
}
