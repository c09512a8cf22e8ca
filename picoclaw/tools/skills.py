"""`skill_search`, `skill_create` and `skill_update`: written instructions that the model finds, and may write.

What is written becomes an instruction of later turns, so that a person has to agree to the exact call.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from picoclaw.disk import create, explain, make_folder, write_atomic
from picoclaw.errors import SkillError, ToolError
from picoclaw.skills.choose import search
from picoclaw.skills.document import HIDDEN
from picoclaw.skills.library import FILE, LARGEST_FILE, Library
from picoclaw.skills.skill import Here, Skill, unmet
from picoclaw.tools.toolset import tool

_OWN_TIER = "workspace"
_LONGEST_DESCRIPTION = 1024
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FRONT = re.compile(r"(\ufeff?---[ \t]*\r?\n.*?^---[ \t]*)(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"^description[ \t]*:.*\n(?:(?:[ \t]*\r?\n)*[ \t]+\S.*\n)*", re.MULTILINE)


class SkillTools:
    """The skills of one workspace, and those that it shares."""

    def __init__(self, library: Library, here: Callable[[], Here], workspace: Path) -> None:
        """Touches nothing; `here` tells what this machine has."""
        self._library = library
        self._here = here
        self._workspace = workspace

    @tool(effect="read")
    def skill_search(self, query: str) -> str:
        """Find skills by what they are about."""
        self._library.look()
        here = self._here()
        usable = [skill for skill in self._library.skills.values() if not unmet(skill, here)]
        found = (skill for skill, _ in search(usable, query))
        lines = (f"{skill.name}: {skill.description} (read skills/{skill.name}/{FILE})" for skill in found)
        return "\n".join(lines) or f"none of the {len(usable)} skills has any word of {query!r}"

    @tool(effect="instruct")
    def skill_create(self, name: str, description: str, text: str) -> str:
        """Write a new skill, its SKILL.md."""
        if not _NAME.fullmatch(name):
            raise ToolError(
                f"{name!r} cannot name a skill; use small letters, digits and hyphens, at most 64, such as water-tank"
            )
        self._library.look()
        self._refuse_taken(name)
        folder = self._workspace / "skills" / name
        target = self._target(folder)
        front = f"---\nname: {json.dumps(name)}\ndescription: {json.dumps(_line(description), ensure_ascii=False)}\n---"
        data = _joined(front, text, "\n")
        _read(data, folder)
        with _explained(name):
            make_folder(target.parent)
            made = create(target, data)
        if not made:
            raise ToolError(f"skills/{name}/{FILE} exists already; edit_file changes it")
        return f"wrote skills/{name}/{FILE}: {len(data)} bytes; {self._seen(name, folder)}"

    @tool(effect="instruct")
    def skill_update(self, name: str, text: str, description: str = "") -> str:
        """Rewrite a skill."""
        self._library.look()
        folder = self._own(name).folder
        target = self._target(folder)
        with _explained(name):
            old = target.read_bytes()
        front, newline = _front(old, folder)
        if description:
            front = _with_description(front, _line(description), newline)
        data = _joined(front, text, newline)
        if description and _read(data, folder).description != _line(description):
            raise ToolError(
                f"the description of {name} cannot be replaced; edit_file skills/{folder.name}/{FILE} changes it"
            )
        with _explained(name):
            write_atomic(target, data)
        return f"rewrote skills/{folder.name}/{FILE}: {len(data)} bytes; {self._seen(name, folder)}"

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
        if found is not None:
            raise ToolError(f"{name} is a {found.tier} skill; copy it under another name with skill_create")
        if problem := self._problem(self._workspace / "skills" / name):
            raise ToolError(f"the skill {name} cannot be used: {problem}; edit_file skills/{name}/{FILE} mends it")
        raise ToolError(f"there is no skill {name!r}; skill_create adds one")

    def _target(self, folder: Path) -> Path:
        """The skill's file, links followed; refused where they lead out of the workspace's skills."""
        try:
            target, skills = (folder / FILE).resolve(), folder.parent.resolve()
            inside = target.is_relative_to(skills) and skills.is_relative_to(self._workspace.resolve())
        except (OSError, RuntimeError):
            inside = False
        if not inside:
            raise ToolError(
                f"skills/{folder.name} leads elsewhere by a link; take the link away, or choose another name"
            )
        return target

    def _seen(self, name: str, folder: Path) -> str:
        """Say what the next turn will make of the file, by looking as the next turn will."""
        self._library.look()
        skill = self._library.skills.get(name)
        if skill is None:
            return f"it cannot be used: {self._problem(folder) or '; '.join(self._library.notes)}"
        missing = unmet(skill, self._here())
        return "; ".join([f"not usable here: it {missing}" if missing else "usable from the next turn", *skill.notes])

    def _problem(self, folder: Path) -> str:
        return next((broken.problem for broken in self._library.broken if broken.folder == folder), "")


def _line(description: str) -> str:
    """The description as one line that a person sees whole."""
    line = " ".join(description.split())
    if not 1 <= len(line) <= _LONGEST_DESCRIPTION:
        raise ToolError(f"description has {len(line)} characters; say in 1 to {_LONGEST_DESCRIPTION} when to read it")
    if HIDDEN.search(line):
        raise ToolError("description holds invisible characters; leave them out")
    return line


def _joined(front: str, text: str, newline: str) -> bytes:
    """The whole file, as long as a skill may be."""
    if not text.strip() or "\0" in text:
        raise ToolError("text is empty or holds a NUL character; a skill is its instructions")
    if text.lstrip().partition("\n")[0].rstrip() == "---":
        raise ToolError("text begins with front matter (---); leave it out, name and description are arguments")
    data = f"{front}{newline}{newline}{text.strip()}\n".encode("utf-8", "replace")
    if len(data) > LARGEST_FILE:
        raise ToolError(f"the skill would have {len(data)} bytes, at most {LARGEST_FILE}: put a part into other files")
    return data


def _read(data: bytes, folder: Path) -> Skill:
    """Read a skill that is not yet written, as it will be read then."""
    from picoclaw.skills import fields

    try:
        return fields.skill(data.decode(), folder)
    except SkillError as error:
        raise ToolError(f"the skill would be of no use: {error}") from None


def _front(data: bytes, folder: Path) -> tuple[str, str]:
    """The front matter with its fences, and how it ends its lines."""
    found = _FRONT.match(data.decode("utf-8", "replace"))
    if found is None or "\r" in found[1].replace("\r\n", ""):
        raise ToolError(f"its front matter cannot be kept; edit_file skills/{folder.name}/{FILE} changes the text")
    return found[1], "\r\n" if "\r\n" in found[1] else "\n"


def _with_description(front: str, description: str, newline: str) -> str:
    """Put another description in place of the one that is there, and touch nothing else."""
    described = f"description: {json.dumps(description, ensure_ascii=False)}{newline}"
    return _DESCRIPTION.sub(lambda _: described, front, count=1)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"the skill {name} cannot be written: {explain(error)}") from None
