"""`skill_search`, `skill_create` and `skill_update`: instructions that the model finds, and may write."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw import files
from picoclaw.errors import SkillError, ToolError
from picoclaw.files import RootedPath, create_file, explain_os_error, write_atomic
from picoclaw.markdown import find_hidden, remove_invisible
from picoclaw.security.policy import Effect
from picoclaw.skills import skill
from picoclaw.skills.library import MAX_SKILL_BYTES, SKILL_FILE, SkillLibrary
from picoclaw.skills.selection import search_skills
from picoclaw.skills.skill import Skill, SkillContext, describe_unmet_needs
from picoclaw.tools.registry import tool

Values = Mapping[str, str | list[str]]
"""Front matter by its keys."""

_MAX_DESCRIPTION_CHARS = 1024
_BASE_FOLDER = "{baseDir}"
_FENCE = "---"
_FRONT = re.compile(r"(\ufeff?---[ \t]*\r?\n.*?^---[ \t]*)(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def build_front_matter(description: str, triggers: str) -> Values:
    """Take the arguments that belong in the front matter, without empty ones."""
    # a small model writes a list even where a text with commas is asked for
    listed = [" ".join(trigger.split()).strip("[]\"' ") for trigger in triggers.split(",")]
    said: Values = {"description": _clean_description(description)} if description else {}
    return {**said, "triggers": [trigger for trigger in listed if trigger]} if any(listed) else said


def _clean_description(description: str) -> str:
    line = " ".join(description.split())
    if not 1 <= len(line) <= _MAX_DESCRIPTION_CHARS:
        raise ToolError(f"description has {len(line)} characters; say in 1 to {_MAX_DESCRIPTION_CHARS} when to read it")
    if remove_invisible(line) != line:
        raise ToolError("description holds invisible characters; leave them out")
    return line


def build_skill(given: Values, text: str, folder: Path) -> bytes:
    front = "".join([f"{_FENCE}\n", *(_format_field(key, value, "\n") for key, value in given.items()), _FENCE])
    data = _join_file(front, _format_body(text, folder), "\n")
    _check_skill(data, folder, given)
    return data


def update_skill(found: bytes, given: Values, text: str, folder: Path) -> bytes:
    """Replace the text and the given front matter of a skill, keeping the owner's other lines and comments."""
    old, before = found.decode(), _get_facts(_parse_skill(found, folder))
    front, newline = _find_front_matter(old, folder)
    for key, value in given.items():
        front = _set_field(front, key, _format_field(key, value, newline), folder, known=bool(before[key]))
    body = _format_body(text, folder)
    data = _join_file(front, _keep_comments(old, body), newline)
    if skill.extract_body(data.decode(), folder) != skill.extract_body(f"{_FENCE}\n{_FENCE}\n{body}", folder):
        raise ToolError(f"the comments of {folder.name} cannot be kept with this text; {_get_edit_hint(folder)}")
    if data == found:
        raise ToolError(f"the skill {folder.name} says just that already; nothing was changed")
    if _check_skill(data, folder, given) != {**before, **given}:
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {_get_edit_hint(folder)}")
    return data


def _check_skill(data: bytes, folder: Path, given: Values) -> Mapping[str, object]:
    """Parse the new file; returns its front matter."""
    skill = _parse_skill(data, folder)
    facts = _get_facts(skill)
    for key in given:
        if facts[key] != given[key]:
            raise ToolError(f"{key} cannot be used as it is: {'; '.join(skill.notes)}")
    return facts


def _get_facts(skill: Skill) -> Mapping[str, object]:
    return skill._replace(notes=(), keywords="")._asdict() | {"triggers": list(skill.triggers)}


def _get_edit_hint(folder: Path) -> str:
    return f"the owner can change {folder / SKILL_FILE} in an editor"


def _format_field(key: str, value: str | list[str], newline: str) -> str:
    return f"{key}: {json.dumps(value, ensure_ascii=False)}{newline}"


def _find_front_matter(text: str, folder: Path) -> tuple[str, str]:
    """The front matter with its fences, and its line ending."""
    found = _FRONT.match(text)
    if found is None or "\r" in found[1].replace("\r\n", ""):
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {_get_edit_hint(folder)}")
    return found[1], "\r\n" if "\r\n" in found[1] else "\n"


def _set_field(front: str, key: str, row: str, folder: Path, *, known: bool) -> str:
    """Replace the rows of a key, or add one; touch nothing else."""
    there = re.compile(rf"^{key}[ \t]*:.*\n(?:(?:[ \t]*\r?\n)*(?:[ \t]+\S|-[ \t]).*\n)*", re.MULTILINE)
    if there.search(front):
        return there.sub(lambda _: row, front, count=1)
    if known:
        raise ToolError(f"the {key} of {folder.name} cannot be replaced; {_get_edit_hint(folder)}")
    before, newline, fence = front.rpartition("\n")
    return f"{before}{newline}{row}{fence}"


def _format_body(text: str, folder: Path) -> str:
    """Put the placeholder back where the model read the folder's path."""
    if not text.strip() or "\0" in text:
        raise ToolError("text is empty or holds a NUL character; a skill is its instructions")
    if text.lstrip().partition("\n")[0].rstrip() == _FENCE:
        raise ToolError("text begins with front matter (---); leave it out, name and description are arguments")
    return re.sub(rf"{re.escape(str(folder))}(?![\w-])", _BASE_FOLDER, text.strip())


def _keep_comments(old: str, body: str) -> str:
    """Keep the owner's comments, which no model is shown, at the head."""
    before = skill.split_skill(old)[1]
    comments = (before[start:end] for start, end, _ in find_hidden(before, trusting=False))
    return "\n".join([*(comment for comment in comments if comment not in body), body])


def _join_file(front: str, body: str, newline: str) -> bytes:
    data = f"{front}{newline}{newline}{body}\n".encode("utf-8", "replace")
    if len(data) > MAX_SKILL_BYTES:
        raise ToolError(
            f"the skill would have {len(data)} bytes, at most {MAX_SKILL_BYTES}: put a part into other files"
        )
    return data


def _parse_skill(data: bytes, folder: Path) -> Skill:
    from picoclaw.skills import frontmatter

    try:
        return frontmatter.parse_skill(data.decode(), folder)
    except SkillError as error:
        raise ToolError(f"the skill would be of no use: {error}") from None


# `skill_search`, `skill_create` and `skill_update`: written instructions that the model finds, and may write.
#
# What is written becomes an instruction of later turns, so that a person has to agree to the exact call. A call that
# could not be done is refused before anybody is asked, and what the owner changes meanwhile is not overwritten.

_OWN_TIER = "workspace"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


class _SkillWrite(NamedTuple):
    """What a call writes where, and what it replaces; None for a new file."""

    folder: Path
    target: RootedPath
    found: bytes | None
    data: bytes


class SkillTools:
    def __init__(self, library: SkillLibrary, here: Callable[[], SkillContext], workspace: Path) -> None:
        """`here` tells what this machine has."""
        self._library = library
        self._here = here
        self._workspace = workspace
        self._asked: _SkillWrite | None = None

    @tool(effect="read", private=True)
    def skill_search(self, query: str) -> str:
        """Find skills by what they are about."""
        self._library.look()
        here = self._here()
        usable = [skill for skill in self._library.skills.values() if not describe_unmet_needs(skill, here)]
        found = (skill for skill, _ in search_skills(usable, query))
        lines = (f"{skill.name}: {skill.description} (read skills/{skill.name}/{SKILL_FILE})" for skill in found)
        return "\n".join(lines) or f"none of the {len(usable)} skills has any word of {query!r}"

    def _get_create_effect(self, arguments: Mapping[str, Any]) -> Effect:
        self._asked = self._plan_create(**arguments)
        return "instruct"

    @tool(effect=_get_create_effect, later=("triggers",))
    def skill_create(self, name: str, description: str, text: str, triggers: str = "") -> str:
        """Write a new skill."""
        plan = self._require_unchanged(self._plan_create(name, description, text, triggers))
        with _explain_errors(plan.folder.name), files.open_folder(plan.target.above, make=True) as way:
            if not create_file(Path(plan.target.parts[-1]), plan.data, folder=way):
                raise _make_changed_error(plan.folder.name)
        return f"wrote {self._describe_result(plan)}"

    def _get_update_effect(self, arguments: Mapping[str, Any]) -> Effect:
        self._asked = self._plan_update(**arguments)
        return "instruct"

    def _bind_found(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind an approval to the contents that are replaced."""
        import hashlib

        plan = self._plan_update(**arguments)
        return {f"sha256 of {plan.target.path} before": hashlib.sha256(plan.found or b"").hexdigest()}

    @tool(effect=_get_update_effect, binds=_bind_found, private=True)
    def skill_update(self, name: str, text: str, description: str = "", triggers: str = "") -> str:
        """Rewrite a skill."""
        plan = self._require_unchanged(self._plan_update(name, text, description, triggers))
        with _explain_errors(plan.folder.name), files.open_folder(plan.target.above) as way:
            name = plan.target.parts[-1]
            mode = os.stat(name, dir_fd=way).st_mode & 0o777
            write_atomic(Path(f"{SKILL_FILE}.bak"), plan.found or b"", mode, folder=way)
            write_atomic(Path(name), plan.data, folder=way)
        return f"rewrote {self._describe_result(plan)}; {SKILL_FILE}.bak holds what it was"

    def _require_unchanged(self, plan: _SkillWrite) -> _SkillWrite:
        if plan != self._asked:
            raise _make_changed_error(plan.folder.name)
        return plan

    def _plan_create(self, name: str, description: str, text: str, triggers: str) -> _SkillWrite:
        if not _NAME.fullmatch(name):
            raise ToolError(
                f"{name!r} cannot name a skill; use small letters, digits and hyphens, at most 64, such as water-tank"
            )
        self._library.look()
        self._refuse_taken(name)
        folder = self._workspace / "skills" / name
        target = self._find_target(folder)
        with _explain_errors(name):
            if files.stat_rooted(target):
                raise ToolError(
                    f"skills/{name}/{SKILL_FILE} exists already; write_file with overwrite=true replaces it"
                )
        given = {"name": name, **build_front_matter(description or " ", triggers)}
        return _SkillWrite(folder, target, None, build_skill(given, text, folder))

    def _plan_update(self, name: str, text: str, description: str, triggers: str) -> _SkillWrite:
        self._library.look()
        folder = self._find_own(name).folder
        target = self._find_target(folder)
        with _explain_errors(name), os.fdopen(files.open_rooted(target), "rb") as file:
            found = file.read(MAX_SKILL_BYTES + 1)
        data = update_skill(found, build_front_matter(description, triggers), text, folder)
        return _SkillWrite(folder, target, found, data)

    def _refuse_taken(self, name: str) -> None:
        """Refuse a name that exists, or that would hide a shared skill."""
        same = self._library.skills.get(name)
        if same is not None and same.tier == _OWN_TIER:
            raise ToolError(f"the skill {name} exists already; skill_update rewrites it")
        if same is not None:
            raise ToolError(f"{name} would hide the {same.tier} skill of that name; choose another name")

    def _find_own(self, name: str) -> Skill:
        found = self._library.skills.get(name)
        if found is not None and found.tier == _OWN_TIER:
            return found
        folder = self._workspace / "skills" / name
        if problem := next((broken.problem for broken in self._library.broken if broken.folder == folder), ""):
            mended = f"write_file skills/{name}/{SKILL_FILE} with overwrite=true replaces it"
            raise ToolError(f"the skill {name} cannot be used: {problem}; {mended}")
        if found is not None:
            raise ToolError(f"{name} is a {found.tier} skill; copy it under another name with skill_create")
        raise ToolError(f"there is no skill {name!r}; skill_create adds one")

    def _find_target(self, folder: Path) -> RootedPath:
        """The skill's file, links followed; refused where they lead out of the workspace's skills."""
        found = files.resolve_below(os.path.realpath(folder.parent), str(folder / SKILL_FILE))
        if found is None or not files.split_path(os.path.realpath(self._workspace), found.root):
            raise ToolError(
                f"skills/{folder.name} leads elsewhere by a link; take the link away, or choose another name"
            )
        return found

    def _describe_result(self, plan: _SkillWrite) -> str:
        self._library.look()
        state = describe_state(self._library, plan.target.path, self._here())
        state = state or f"it cannot be used: {'; '.join(self._library.notes)}"
        return f"skills/{plan.folder.name}/{SKILL_FILE}: {len(plan.data)} bytes; {state}"


def describe_state(library: SkillLibrary, file: Path, here: SkillContext | None = None) -> str:
    """Say what the library made of a SKILL.md, and whether it can be used `here`."""
    for one in library.skills.values():
        if _is_skill_file(one.folder, file):
            missing = describe_unmet_needs(one, here) if here else ""
            usable = "usable from the next turn" if here else ""
            return "; ".join(filter(None, [f"not usable here: it {missing}" if missing else usable, *one.notes]))
    for broken in library.broken:
        if _is_skill_file(broken.folder, file):
            return f"it cannot be used: {broken.problem}"
    hidden = next((skill for skill in library.shadowed if _is_skill_file(skill.folder, file)), None)
    return f"it is not used: the {library.skills[hidden.name].tier} skill {hidden.name} is" if hidden else ""


def _is_skill_file(folder: Path, file: Path) -> bool:
    return os.path.realpath(folder / SKILL_FILE) == str(file)


def _make_changed_error(name: str) -> ToolError:
    return ToolError(f"skills/{name}/{SKILL_FILE} was changed while the owner was asked; read it and try again")


@contextmanager
def _explain_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"the skill {name} cannot be written: {explain_os_error(error)}") from None
