"""`picoclaw skills`: which there are, who may use them, why one cannot be used here, and what exactly the model reads."""

import os
import pwd
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.app import App
from picoclaw.cli.arguments import Options, Parser, Words
from picoclaw.cli.common import (
    add_board_option,
    confirm,
    format_count,
    open_app,
    print_lines,
    print_safe,
    require_terminal,
)
from picoclaw.errors import SkillError
from picoclaw.files import explain_os_error
from picoclaw.maintenance.household import (
    describe_grant,
    find_grantee,
    find_skill,
    grant_skill,
    name_grantee,
    revoke_skill,
)
from picoclaw.schema import find_nearest
from picoclaw.skills import (
    BUILT_IN,
    SKILL_FILE,
    BrokenSkill,
    Skill,
    SkillContext,
    SkillLibrary,
    SkillNeeds,
    describe_unmet_needs,
    read_skill,
    read_skill_files,
    search_skills,
)
from picoclaw.store.people import AGENT, EVERYONE, PERSON, SkillGrant, SkillGrants
from picoclaw.text import escape_unprintable, format_json, truncate

if TYPE_CHECKING:
    from picoclaw.shared_store.skills import ArrivedSkill, ArrivedSkills


def options(parser: Parser) -> None:
    add_board_option(parser)
    words = parser.add_words(_WORDS, "list")
    words["list"].add_argument("--json", "print the list as JSON")
    words["show"].add_argument("name")
    words["search"].add_argument("query WORD", nargs="+")
    for name, what in (("grant", "may use it"), ("revoke", "may use it no longer")):
        words[name].add_argument("name")
        words[name].add_argument("--person NAME", f"the member of [people] who {what}", default="")
        words[name].add_argument("--agent KEY", f"the agent of [agents] that {what}", default="")
    words["revoke"].add_argument("--everyone", "revoke only what `publish` has granted")
    words["publish"].add_argument("name")
    for name in ("agree", "decline"):
        words[name].add_argument("name")
        words[name].add_argument("--from BOARD", "the board, if several offer one", dest="origin", default="")
    words["check"].add_argument("path", "one skill or a folder of them", nargs="?", default="")


def run(given: Options) -> int:
    """Do it; of a home that exists, only what is granted and what can be made again is ever written."""
    with open_app(given, make=False) as app:
        app.library.refresh()
        return given.act(app, given)


def _list_skills(app: App, given: Options) -> int:
    library, here = app.library, app.skill_context()
    skills = list(library.skills.values())
    missing = {skill.name: describe_unmet_needs(skill, here) for skill in skills}
    grants, sent = _read_grants(app), _open_arrived(app)
    arrived = sent.list_waiting() if sent else []
    if given.json:
        listed = [
            skill._asdict()
            | {"needs": skill.needs._asdict(), "unmet": missing[skill.name]}
            | {
                "visibility": _name_visibility(skill, grants),
                "grants": [grant._asdict() for grant in grants.get(skill.name, [])],
            }
            for skill in skills
        ]
        hidden = [{"name": one.name, "tier": one.tier, "folder": one.folder} for one in library.shadowed]
        broken = [one._asdict() for one in library.broken]
        about = {"skills": listed, "broken": broken, "shadowed": hidden, "notes": library.notes}
        waiting = [{"name": one.name, "board": one.board, "version": one.version} for one in arrived]
        print(format_json(about | ({"arrived": waiting} if app.config.store.url else {})))
        return 0
    names = max((len(skill.name) for skill in skills), default=0)
    tiers = max((len(skill.tier) for skill in skills), default=0)
    for skill in skills:
        print_lines([_truncate_line(f"{skill.name:{names}}  {skill.tier:{tiers}}  {skill.description}")])
        print_lines(f"    {line}" for line in [*_describe_origin(app, skill), *_describe_grants(app, skill, grants)])
        if missing[skill.name]:
            print_lines([f"    not usable here: it {missing[skill.name]}"])
        print_lines(f"    note: {note}" for note in skill.notes)
    print_lines(_format_broken(broken) for broken in library.broken)
    print_lines(f"note: {note}" for note in library.notes)
    print_lines(
        f"note: {name} is granted, and there is no such skill any more: `picoclaw skills revoke {name}`"
        for name in grants
        if name not in library.skills
    )
    for one in arrived:
        print_lines(_describe_arrived(one, library))
    usable = sum(not why for why in missing.values())
    broken_count = f", {len(library.broken)} broken" if library.broken else ""
    print(f"{format_count(len(skills), 'skill')}, {usable} usable here{broken_count}")
    return 0


def _format_broken(broken: BrokenSkill) -> str:
    return f"broken: {broken.folder}: {broken.problem}"


def _show_skill(app: App, given: Options) -> int:
    library, skill = app.library, find_skill(app.library, given.name)
    text = library.read_body(skill.name)
    missing = describe_unmet_needs(skill, app.skill_context())
    facts = {
        "folder": f"{skill.folder} ({skill.tier})",
        **{f"use {number}": line for number, line in enumerate(_describe_grants(app, skill, _read_grants(app)), 1)},
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
    found = search_skills(usable, query, combine=app.rate_skills)
    print_lines(_truncate_line(f"{score:6.2f}  {skill.name}: {skill.description}") for skill, score in found)
    if not found:
        print_lines([f"none of the {len(usable)} skills that are usable here has any word of {query!r}"])
    return 0


# --- who may use what ---


def _read_grants(app: App) -> dict[str, list[SkillGrant]]:
    """The grants by skill; none in a home without a database."""
    found: dict[str, list[SkillGrant]] = {}
    if (app.config.home / "state.db").exists():
        for grant in SkillGrants(app.stores.database).all():
            found.setdefault(grant.skill, []).append(grant)
    return found


def _name_visibility(skill: Skill, grants: Mapping[str, list[SkillGrant]]) -> str:
    """public: everybody of the household; internal: those it was granted to; private: the owner."""
    given = grants.get(skill.name, [])
    if skill.tier == BUILT_IN or any(grant.grantee == EVERYONE for grant in given):
        return "public"
    return "internal" if given else "private"


def _describe_grants(app: App, skill: Skill, grants: Mapping[str, list[SkillGrant]]) -> Iterator[str]:
    for grant in grants.get(skill.name, []):
        yield f"{_name_visibility(skill, grants)}: {describe_grant(app.config, grant, skill)}"


def _grant_skill(app: App, given: Options) -> int:
    grantee = find_grantee(app.config, given.person, given.agent)
    if not grantee:
        raise SkillError("say to whom: --person NAME or --agent KEY; `picoclaw skills publish` is for everyone")
    return _keep_grant(app, given.name, grantee)


def _keep_grant(app: App, name: str, grantee: str) -> int:
    skill, config = find_skill(app.library, name), app.config
    if not config.home.is_dir():
        raise SkillError(f"{config.home} does not exist; `picoclaw init` makes it")
    print_lines(grant_skill(config, app.stores.database, skill, grantee, _name_user(), app.now()))
    return 0


def _name_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def _revoke_skill(app: App, given: Options) -> int:
    """Take grants back, also of a skill or for somebody that there is no longer."""
    named = [f"{PERSON}{given.person}"] if given.person else []
    named += [f"{AGENT}{given.agent}"] if given.agent else []
    named += [EVERYONE] if given.everyone else []
    if len(named) > 1:
        raise SkillError("name one at a time: --person, --agent or --everyone; without them all grants are taken back")
    grantee, is_known = named[0] if named else "", given.name in _read_grants(app)
    lines = revoke_skill(app.config, app.stores.database, given.name, grantee) if is_known else []
    if not lines:
        if not is_known:
            find_skill(app.library, given.name)
        raise SkillError(f"{given.name} is not granted to {name_grantee(grantee) or 'anybody'}")
    print_lines(lines)
    return 0


# --- what other boards have sent; nothing of it is imported without a store ---


def _open_arrived(app: App) -> "ArrivedSkills | None":
    if not app.config.store.url or not (app.config.home / "state.db").exists():
        return None
    from picoclaw.shared_store.skills import ArrivedSkills

    return ArrivedSkills(app.config, app.stores.database)


def _describe_origin(app: App, skill: Skill) -> Iterator[str]:
    arrived = _open_arrived(app)
    board, version = arrived.find_origin(skill.name) if arrived and skill.tier == "workspace" else ("", "")
    if board:
        yield f"arrived from {board}, version {version}"


def _describe_arrived(one: "ArrivedSkill", library: SkillLibrary) -> Iterator[str]:
    yield f"{one.name}  arrived from {one.board}, version {one.version}: it waits for your yes, and nothing uses it"
    if one.is_new and (present := library.skills.get(one.name)):
        yield f"    there is another {one.name} here ({present.tier}), which stays as it is until then"
    if not one.is_new:
        yield f"    the skill is here; granted there to {', '.join(name_grantee(grant.grantee) for grant in one.grants)}"
    yield f"    picoclaw skills agree {one.name} --from {one.board}, or decline"


def _find_arrived(app: App, given: Options) -> "tuple[ArrivedSkills, ArrivedSkill]":
    arrived = _open_arrived(app)
    if arrived is None:
        raise SkillError("no skills arrive here: there is no [store] that this board shares with others")
    found = [one for one in arrived.list_waiting() if one.name == given.name and given.origin in {"", one.board}]
    if not found:
        raise SkillError(f"no skill {given.name!r} waits for a yes; `picoclaw skills` shows those that do")
    if len({one.version for one in found}) > 1:
        raise SkillError(f"{given.name} has arrived from {', '.join(one.board for one in found)}: say --from BOARD")
    return arrived, found[0]


def _agree_skill(app: App, given: Options) -> int:
    """Show a skill that another board has sent, and take the owner's yes for exactly that."""
    require_terminal("a program may not agree to a skill: type this in a terminal, where a person reads it")
    arrived, one = _find_arrived(app, given)
    print_lines([f"{one.name} from {one.board}, version {one.version}:"])
    print_lines(_show_difference(app.library.skills.get(one.name), one) if one.is_new else ["the skill itself is here"])
    for grant in one.grants:
        kept = one.content.pinned.get(grant.pinned)
        which = f", version {grant.pinned}" if grant.pinned else ""
        print_lines([f"granted to {name_grantee(grant.grantee)} by {grant.granted_by} at {grant.granted_at}{which}"])
        if kept and grant.pinned != one.version:
            print_lines(line for file in kept for line in _show_file(*file))
    if (present := app.library.skills.get(one.name)) and one.is_new:
        print_lines([f"It will be used instead of the {present.tier} skill {one.name}, in {present.folder}"])
    if not confirm("Use it on this board?"):
        print("not agreed: it goes on waiting")
        return 1
    print_lines(arrived.agree(one))
    return 0


def _decline_skill(app: App, given: Options) -> int:
    arrived, one = _find_arrived(app, given)
    arrived.decline(one)
    print_lines(
        [f"{one.name} from {one.board}, version {one.version}, is not used, and asks no more; another version does"]
    )
    return 0


def _show_difference(present: Skill | None, one: "ArrivedSkill") -> Iterator[str]:
    """All files of a skill, and of those that this home has in another form, what is different."""
    import difflib

    before: dict[str, bytes] = {}
    if present:
        with suppress(SkillError, OSError):
            before = {path: data for path, data, _ in read_skill_files(present.folder)}
    for path, data, mode in one.content.files:
        old = before.pop(path, None)
        if old == data:
            yield f"--- {path}: as it is here"
        elif old is None or b"\0" in old + data:
            yield from _show_file(path, data, mode)
        else:
            lines, others = (text.decode(errors="replace").splitlines() for text in (old, data))
            yield from difflib.unified_diff(lines, others, f"{path} here", f"{path} of {one.board}", lineterm="")
    yield from (f"--- {path}: is not in it any more" for path in before)


def _show_file(path: str, data: bytes, mode: int) -> Iterator[str]:
    yield f"--- {path}: {len(data)} bytes{', a program' if mode & 0o100 else ''}"
    with suppress(UnicodeDecodeError):
        yield from data.decode().splitlines()


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
        raise SkillError(
            escape_unprintable(
                f"{path}: no {SKILL_FILE} is there; name a skill's folder, or a folder of skills"
            ).replace("\n", "\\n")
        )
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


def _truncate_line(line: str) -> str:
    """As much as fits the terminal; a file or a pipe gets it whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return truncate(line, width)


_WORDS: Words = {
    "list": ("list all skills and their problems (the default)", _list_skills),
    "show": ("print a skill as the model reads it", _show_skill),
    "search": ("search them as the model does, and print scores", _search_skills),
    "grant": ("let a member of the household use a skill, or an agent its present version", _grant_skill),
    "revoke": ("revoke grants from one or all", _revoke_skill),
    "publish": (
        "let all members of the household use a skill",
        lambda app, given: _keep_grant(app, given.name, EVERYONE),
    ),
    "agree": ("review a skill from another board, and use it here", _agree_skill),
    "decline": ("decline this version of a skill from another board", _decline_skill),
    "check": ("check for mistakes; exit code 1 if there are any", _check_skills),
}
