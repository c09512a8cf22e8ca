"""`skill_search`, `skill_create` and `skill_update`: instructions that the model finds, and may write."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from picoclaw import files
from picoclaw.errors import SkillError, ToolError
from picoclaw.files import RootedPath, create_file, explain_os_error, write_atomic
from picoclaw.markdown import find_hidden
from picoclaw.records import NamedTuple
from picoclaw.security.policy import Effect
from picoclaw.skills import (
    MAX_SKILL_BYTES,
    SKILL_FILE,
    Skill,
    SkillContext,
    SkillLibrary,
    describe_unmet_needs,
    extract_body,
    search_skills,
    split_skill,
)
from picoclaw.text import pattern, remove_invisible
from picoclaw.tools.registry import tool

Values = Mapping[str, str | list[str]]
"""Front matter by its keys."""

_MAX_DESCRIPTION_CHARS = 1024
_BASE_FOLDER = "{baseDir}"
_FENCE = "---"
_OWN_TIER = "workspace"
_NAME = pattern(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FRONT = pattern(r"(\ufeff?---[ \t]*\r?\n.*?^---[ \t]*)(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def _build_front_matter(description: str, triggers: str) -> Values:
    """Take the arguments that belong in the front matter, without empty ones."""
    values: dict[str, str | list[str]] = {}
    if description:
        line = " ".join(description.split())
        if not 1 <= len(line) <= _MAX_DESCRIPTION_CHARS:
            raise ToolError(
                f"description has {len(line)} characters; say in 1 to {_MAX_DESCRIPTION_CHARS} when to read it"
            )
        if remove_invisible(line) != line:
            raise ToolError("description holds invisible characters; leave them out")
        values["description"] = line
    # a small model writes a list even where a text with commas is asked for
    listed = [" ".join(trigger.split()).strip("[]\"' ") for trigger in triggers.split(",")]
    if any(listed):
        values["triggers"] = [trigger for trigger in listed if trigger]
    return values


def _update_skill(found: bytes, given: Values, text: str, folder: Path) -> bytes:
    """Replace the text and the given front matter of a skill, keeping the owner's other lines and comments."""
    hint = f"the owner can change {folder / SKILL_FILE} in an editor"
    old, before = found.decode(), _read_facts(found, folder)[0]
    matched = _FRONT.match(old)
    if matched is None or "\r" in matched[1].replace("\r\n", ""):
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {hint}")
    front, newline = matched[1], "\r\n" if "\r\n" in matched[1] else "\n"
    for key, value in given.items():
        row = _format_field(key, value, newline)
        rows = re.search(rf"^{key}[ \t]*:.*\n(?:(?:[ \t]*\r?\n)*(?:[ \t]+\S|-[ \t]).*\n)*", front, re.MULTILINE)
        if before[key] and not rows:
            raise ToolError(f"the {key} of {folder.name} cannot be replaced; {hint}")
        fence = front.rindex("\n") + 1
        start, end = rows.span() if rows else (fence, fence)
        front = front[:start] + row + front[end:]
    body, old_body = _format_body(text, folder), split_skill(old)[1]
    # the owner's comments, which no model is shown, stay at the head
    comments = (old_body[start:end] for start, end, _ in find_hidden(old_body, trusting=False))
    data = _join_file(front, "\n".join([*(comment for comment in comments if comment not in body), body]), newline)
    if extract_body(data.decode(), folder) != extract_body(f"{_FENCE}\n{_FENCE}\n{body}", folder):
        raise ToolError(f"the comments of {folder.name} cannot be kept with this text; {hint}")
    if data == found:
        raise ToolError(f"the skill {folder.name} says just that already; nothing was changed")
    if _check_skill(data, folder, given) != {**before, **given}:
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {hint}")
    return data


def _check_skill(data: bytes, folder: Path, given: Values) -> Mapping[str, object]:
    """Parse the new file; returns its front matter."""
    facts, notes = _read_facts(data, folder)
    for key in given:
        if facts[key] != given[key]:
            raise ToolError(f"{key} cannot be used as it is: {'; '.join(notes)}")
    return facts


def _read_facts(data: bytes, folder: Path) -> tuple[Mapping[str, object], tuple[str, ...]]:
    from picoclaw.skills import frontmatter

    try:
        found = frontmatter.parse_skill(data.decode(), folder)
    except SkillError as error:
        raise ToolError(f"the skill would be of no use: {error}") from None
    return found._replace(notes=(), keywords="")._asdict() | {"triggers": list(found.triggers)}, found.notes


def _format_field(key: str, value: str | list[str], newline: str) -> str:
    return f"{key}: {json.dumps(value, ensure_ascii=False)}{newline}"


def _format_body(text: str, folder: Path) -> str:
    """Put the placeholder back where the model read the folder's path."""
    if not text.strip() or "\0" in text:
        raise ToolError("text is empty or holds a NUL character; a skill is its instructions")
    if text.lstrip().partition("\n")[0].rstrip() == _FENCE:
        raise ToolError("text begins with front matter (---); leave it out, name and description are arguments")
    return re.sub(rf"{re.escape(str(folder))}(?![\w-])", _BASE_FOLDER, text.strip())


def _join_file(front: str, body: str, newline: str) -> bytes:
    data = f"{front}{newline}{newline}{body}\n".encode("utf-8", "replace")
    if len(data) > MAX_SKILL_BYTES:
        raise ToolError(
            f"the skill would have {len(data)} bytes, at most {MAX_SKILL_BYTES}: put a part into other files"
        )
    return data


class _SkillWrite(NamedTuple):
    """What a call writes where, and what it replaces; None for a new file."""

    folder: Path
    target: RootedPath
    found: bytes | None
    data: bytes


class SkillTools:
    """Finds and writes skills.

    What is written becomes an instruction of later turns, so that a person has to agree to the exact call. A call that
    could not be done is refused before anybody is asked, and what the owner changes meanwhile is not overwritten.
    """

    def __init__(
        self,
        library: SkillLibrary,
        here: Callable[[], SkillContext],
        workspace: Path,
        rate: Callable[[str, Mapping[str, float]], Mapping[str, float]] = lambda _, words: words,
        readers: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """`here` tells what this machine has; `rate` combines scores of words with those of vectors, see search_skills.

        `readers` names who else is told what a skill of a name says.
        """
        self._library, self._here, self._workspace, self._rate = library, here, workspace, rate
        self._readers = readers
        self._asked: _SkillWrite | None = None

    @tool(effect="read", private=True)
    def skill_search(self, query: str) -> str:
        """Find skills (written instructions) by topic; then read_file the one that fits."""
        self._library.refresh()
        here = self._here()
        usable = [one for one in self._library.skills.values() if not describe_unmet_needs(one, here)]
        found = (one for one, _ in search_skills(usable, query, combine=self._rate))
        lines = (f"{one.name}: {one.description} (read skills/{one.name}/{SKILL_FILE})" for one in found)
        return "\n".join(lines) or f"none of the {len(usable)} skills has any word of {query!r}"

    def _explain_readers(self, arguments: Mapping[str, Any]) -> str:
        """Say who else follows what is written: a skill may be granted, and so may one that there was before."""
        readers = self._readers(arguments["name"])
        return f"{' and '.join(readers)} may use the skill too" if readers else ""

    def _get_create_effect(self, arguments: Mapping[str, Any]) -> Effect:
        self._asked = self._plan_create(**arguments)
        return "instruct"

    @tool(effect=_get_create_effect, means=_explain_readers)
    def skill_create(
        self,
        name: Annotated[str, "such as bee-hives"],
        description: Annotated[str, "one line: when to read it"],
        text: Annotated[str, "the instructions, Markdown"],
        triggers: Annotated[str, "words that bring it into a turn, with commas"] = "",
    ) -> str:
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

    @tool(effect=_get_update_effect, means=_explain_readers, binds=_bind_found, private=True)
    def skill_update(self, name: str, text: str, description: str = "", triggers: str = "") -> str:
        """Replace a skill's text; description and triggers stay unless given."""
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
        self._library.refresh()
        if same := self._library.skills.get(name):
            if same.tier == _OWN_TIER:
                raise ToolError(f"the skill {name} exists already; skill_update rewrites it")
            raise ToolError(f"{name} would hide the {same.tier} skill of that name; choose another name")
        folder = self._workspace / "skills" / name
        target = self._find_target(folder)
        with _explain_errors(name):
            if files.stat_rooted(target):
                raise ToolError(f"skills/{name}/{SKILL_FILE} exists already; write_file with mode=replace replaces it")
        given = {"name": name, **_build_front_matter(description or " ", triggers)}
        front = "".join([f"{_FENCE}\n", *(_format_field(key, value, "\n") for key, value in given.items()), _FENCE])
        data = _join_file(front, _format_body(text, folder), "\n")
        _check_skill(data, folder, given)
        return _SkillWrite(folder, target, None, data)

    def _plan_update(self, name: str, text: str, description: str, triggers: str) -> _SkillWrite:
        self._library.refresh()
        known = self._library.skills.get(name)
        if known is None or known.tier != _OWN_TIER:
            raise self._make_unknown_error(name, known)
        target = self._find_target(known.folder)
        with _explain_errors(name), os.fdopen(files.open_rooted(target), "rb") as file:
            found = file.read(MAX_SKILL_BYTES + 1)
        data = _update_skill(found, _build_front_matter(description, triggers), text, known.folder)
        return _SkillWrite(known.folder, target, found, data)

    def _make_unknown_error(self, name: str, shared: Skill | None) -> ToolError:
        folder = self._workspace / "skills" / name
        if problem := next((broken.problem for broken in self._library.broken if broken.folder == folder), ""):
            fix = f"write_file skills/{name}/{SKILL_FILE} with mode=replace replaces it"
            return ToolError(f"the skill {name} cannot be used: {problem}; {fix}")
        if shared:
            return ToolError(f"{name} is a {shared.tier} skill; copy it under another name with skill_create")
        return ToolError(f"there is no skill {name!r}; skill_create adds one")

    def _find_target(self, folder: Path) -> RootedPath:
        """The skill's file, links followed; refused where they lead out of the workspace's skills."""
        found = files.resolve_below(os.path.realpath(folder.parent), str(folder / SKILL_FILE))
        if found is None or not files.split_path(os.path.realpath(self._workspace), found.root):
            raise ToolError(
                f"skills/{folder.name} leads elsewhere by a link; take the link away, or choose another name"
            )
        return found

    def _describe_result(self, plan: _SkillWrite) -> str:
        self._library.refresh()
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
