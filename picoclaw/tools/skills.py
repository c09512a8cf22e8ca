"""`skill_search`, `skill_create` and `skill_update`: written instructions that the model finds, and may write.

What is written becomes an instruction of later turns, so that a person has to agree to the exact call. A call that
could not be done is refused before anybody is asked, and what the owner changes meanwhile is not overwritten.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw import rooted
from picoclaw.disk import create, explain, write_atomic
from picoclaw.errors import ToolError
from picoclaw.rooted import Place
from picoclaw.skills.choose import search
from picoclaw.skills.library import FILE, LARGEST_FILE, Library
from picoclaw.skills.skill import Here, Skill, unmet
from picoclaw.tools import skill_text
from picoclaw.tools.toolset import tool
from picoclaw.trust.policy import Effect

_OWN_TIER = "workspace"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


class _Plan(NamedTuple):
    """What a call writes where, and what it found there; None when there was no file."""

    folder: Path
    target: Place
    found: bytes | None
    data: bytes


class SkillTools:
    """The skills of one workspace, and those that it shares."""

    def __init__(self, library: Library, here: Callable[[], Here], workspace: Path) -> None:
        """Touches nothing; `here` tells what this machine has."""
        self._library = library
        self._here = here
        self._workspace = workspace
        self._asked: _Plan | None = None

    @tool(effect="read", private=True)
    def skill_search(self, query: str) -> str:
        """Find skills by what they are about."""
        self._library.look()
        here = self._here()
        usable = [skill for skill in self._library.skills.values() if not unmet(skill, here)]
        found = (skill for skill, _ in search(usable, query))
        lines = (f"{skill.name}: {skill.description} (read skills/{skill.name}/{FILE})" for skill in found)
        return "\n".join(lines) or f"none of the {len(usable)} skills has any word of {query!r}"

    def _creating(self, arguments: Mapping[str, Any]) -> Effect:
        self._asked = self._created(**arguments)
        return "instruct"

    @tool(effect=_creating, later=("triggers",))
    def skill_create(self, name: str, description: str, text: str, triggers: str = "") -> str:
        """Write a new skill."""
        plan = self._unchanged(self._created(name, description, text, triggers))
        with _explained(plan.folder.name), rooted.folder(plan.target.above, make=True) as way:
            if not create(Path(plan.target.parts[-1]), plan.data, folder=way):
                raise _overtaken(plan.folder.name)
        return f"wrote {self._told(plan)}"

    def _updating(self, arguments: Mapping[str, Any]) -> Effect:
        self._asked = self._updated(**arguments)
        return "instruct"

    def _bound(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind what is replaced: a yes to that is none to what the owner writes there meanwhile."""
        import hashlib

        plan = self._updated(**arguments)
        return {f"sha256 of {plan.target.path} before": hashlib.sha256(plan.found or b"").hexdigest()}

    @tool(effect=_updating, binds=_bound, private=True)
    def skill_update(self, name: str, text: str, description: str = "", triggers: str = "") -> str:
        """Rewrite a skill."""
        plan = self._unchanged(self._updated(name, text, description, triggers))
        with _explained(plan.folder.name), rooted.folder(plan.target.above) as way:
            name = plan.target.parts[-1]
            mode = os.stat(name, dir_fd=way).st_mode & 0o777
            write_atomic(Path(f"{FILE}.bak"), plan.found or b"", mode, folder=way)
            write_atomic(Path(name), plan.data, folder=way)
        return f"rewrote {self._told(plan)}; {FILE}.bak holds what it was"

    def _unchanged(self, plan: _Plan) -> _Plan:
        """Return the plan if it is still the one that a person was asked about."""
        if plan != self._asked:
            raise _overtaken(plan.folder.name)
        return plan

    def _created(self, name: str, description: str, text: str, triggers: str) -> _Plan:
        if not _NAME.fullmatch(name):
            raise ToolError(
                f"{name!r} cannot name a skill; use small letters, digits and hyphens, at most 64, such as water-tank"
            )
        self._library.look()
        self._refuse_taken(name)
        folder = self._workspace / "skills" / name
        target = self._target(folder)
        with _explained(name):
            if rooted.look(target):
                raise ToolError(f"skills/{name}/{FILE} exists already; write_file with overwrite=true replaces it")
        given = {"name": name, **skill_text.values(description or " ", triggers)}
        return _Plan(folder, target, None, skill_text.created(given, text, folder))

    def _updated(self, name: str, text: str, description: str, triggers: str) -> _Plan:
        self._library.look()
        folder = self._own(name).folder
        target = self._target(folder)
        with _explained(name), os.fdopen(rooted.open_file(target), "rb") as file:
            found = file.read(LARGEST_FILE + 1)
        data = skill_text.updated(found, skill_text.values(description, triggers), text, folder)
        return _Plan(folder, target, found, data)

    def _refuse_taken(self, name: str) -> None:
        """A new skill neither replaces one nor hides one of those that the workspace does not hold."""
        same = self._library.skills.get(name)
        if same is not None and same.tier == _OWN_TIER:
            raise ToolError(f"the skill {name} exists already; skill_update rewrites it")
        if same is not None:
            raise ToolError(f"{name} would hide the {same.tier} skill of that name; choose another name")

    def _own(self, name: str) -> Skill:
        """The workspace's skill of this name; no other may be changed."""
        found = self._library.skills.get(name)
        if found is not None and found.tier == _OWN_TIER:
            return found
        folder = self._workspace / "skills" / name
        if problem := next((broken.problem for broken in self._library.broken if broken.folder == folder), ""):
            mended = f"write_file skills/{name}/{FILE} with overwrite=true replaces it"
            raise ToolError(f"the skill {name} cannot be used: {problem}; {mended}")
        if found is not None:
            raise ToolError(f"{name} is a {found.tier} skill; copy it under another name with skill_create")
        raise ToolError(f"there is no skill {name!r}; skill_create adds one")

    def _target(self, folder: Path) -> Place:
        """The skill's file, links followed; refused where they lead out of the workspace's skills."""
        found = rooted.settled(os.path.realpath(folder.parent), str(folder / FILE))
        if found is None or not rooted.below(os.path.realpath(self._workspace), found.root):
            raise ToolError(
                f"skills/{folder.name} leads elsewhere by a link; take the link away, or choose another name"
            )
        return found

    def _told(self, plan: _Plan) -> str:
        self._library.look()
        state = standing(self._library, plan.target.path, self._here())
        state = state or f"it cannot be used: {'; '.join(self._library.notes)}"
        return f"skills/{plan.folder.name}/{FILE}: {len(plan.data)} bytes; {state}"


def standing(library: Library, file: Path, here: Here | None = None) -> str:
    """Say what the library made of a SKILL.md at its last look, and whether it can be used `here`."""
    for skill in library.skills.values():
        if _is(skill.folder, file):
            missing = unmet(skill, here) if here else ""
            usable = "usable from the next turn" if here else ""
            return "; ".join(filter(None, [f"not usable here: it {missing}" if missing else usable, *skill.notes]))
    for broken in library.broken:
        if _is(broken.folder, file):
            return f"it cannot be used: {broken.problem}"
    hidden = next((skill for skill in library.shadowed if _is(skill.folder, file)), None)
    return f"it is not used: the {library.skills[hidden.name].tier} skill {hidden.name} is" if hidden else ""


def _is(folder: Path, file: Path) -> bool:
    return os.path.realpath(folder / FILE) == str(file)


def _overtaken(name: str) -> ToolError:
    return ToolError(f"skills/{name}/{FILE} was changed while the owner was asked; read it and try again")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"the skill {name} cannot be written: {explain(error)}") from None
