"""Front matter read strictly: plain YAML or JSON in which every value is a text, a list or a mapping of these.

Imports yaml, which costs 4 MB and 20 ms; import this module late.
"""

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import frontmatter
import yaml
from frontmatter.default_handlers import YAMLHandler

from picoclaw import skills as skills_skill
from picoclaw.errors import SkillError
from picoclaw.markdown import describe_hidden, remove_hidden
from picoclaw.messages import OLD_TOOL_NAMES
from picoclaw.skills import Skill, SkillNeeds
from picoclaw.text import fold_case, list_query_terms, pattern, reduce_to_vocabulary, remove_invisible

_MAX_DEPTH = 20
_TABS = pattern(r"^\t+", re.MULTILINE)
_STRUCTURED_KEYS = ("requires", "metadata", "triggers", "tools")
# A value on the lines of its key, which is neither a block scalar nor quoted from end to end.
_VALUE = pattern(r"^([A-Za-z_][\w-]*):[ \t]+(?![|>]|(\"|').*\2[ \t]*$)(\S.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the front matter of a SKILL.md, and remarks on how it had to be read. Raises SkillError."""
    notes: list[str] = []
    front, _ = frontmatter.parse(text, handler=_StrictHandler(notes))
    return front, notes


def _parse_json(text: str) -> Any:
    """Read JSON; raises SkillError for what is refused, ValueError for what is no JSON."""
    try:
        return _stringify(json.loads(text, object_pairs_hook=_require_unique_keys))
    except RecursionError:
        raise SkillError(f"the front matter is nested {_MAX_DEPTH} deep or more") from None


class _StrictHandler(YAMLHandler):
    """Where python-frontmatter is told what front matter is; by itself it takes aliases, tags and any first line."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self._notes = notes

    def split(self, text: str) -> tuple[str, str]:
        return skills_skill.split_skill(text)

    def load(self, fm: str, **_: object) -> Any:
        front, found = _TABS.sub(lambda tabs: "  " * len(tabs[0]), fm), None
        if front.lstrip().startswith("{"):
            with suppress(ValueError):
                found = _parse_json(front)
        if found is None:
            try:
                found = _parse_yaml(front)
            except _InvalidYaml as error:
                try:
                    found = _parse_yaml(_VALUE.sub(_quote_value, front))
                except _InvalidYaml:
                    raise SkillError(f"the front matter is not YAML: {error}") from None
                self._notes.append(
                    f"its front matter is not YAML ({error}); what stands behind a key was read as it is"
                )
        if not isinstance(found, dict):
            raise SkillError("the front matter is not a list of `key: value` lines")
        return found


class _InvalidYaml(Exception):
    """The text breaks the rules of YAML; `str()` says where and how."""


def _parse_yaml(front: str) -> Any:
    try:
        return yaml.load(front, Loader=_StrictLoader)  # noqa: S506 - it makes nothing but texts, lists and mappings
    except yaml.reader.ReaderError as error:
        raise SkillError(f"the front matter holds the character U+{int(error.character):04X}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 2}: " if mark else ""
        raise _InvalidYaml(f"{where}{error.problem or error.context}") from None
    except (ValueError, OverflowError):  # an escape such as "\UFFFFFFFF"
        raise SkillError("the front matter holds an escaped character that does not exist") from None


class _StrictLoader(yaml.BaseLoader):
    """The loader that leaves every scalar a text, without references, tags, double keys and deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = f"line {event.start_mark.line + 2} of the front matter"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SkillError(f"{line} has a YAML anchor or alias (& or *), which is refused; put the text into quotes")
        if getattr(event, "tag", None):
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise SkillError(f"{line} has the YAML tag {tag}, which is refused; put the text into quotes")
        _check_depth(self.depth)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def fetch_flow_collection_start(self, token: Any) -> None:
        _check_depth(self.flow_level)  # here already: the scanner looks far ahead of what is composed
        super().fetch_flow_collection_start(token)

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        value = super().construct_scalar(node)
        return "" if node.style is None and value in {"~", "null"} else str(value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = True) -> dict[Hashable, Any]:  # noqa: FBT001
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise SkillError(f"line {key.start_mark.line + 2} of the front matter has a key that is not a word")
        pairs = ((key.value, self.construct_object(value, deep=deep)) for key, value in node.value)
        return _require_unique_keys(pairs)


def _check_depth(depth: int) -> None:
    if depth >= _MAX_DEPTH:
        raise SkillError(f"the front matter is nested {_MAX_DEPTH} deep or more")


def _require_unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise SkillError(f"the front matter has the key {key!r} twice")
        found[key] = value
    return found


def _stringify(value: Any, depth: int = 0) -> Any:
    """Turn what JSON gives into texts, lists and mappings."""
    _check_depth(depth)
    if isinstance(value, dict):
        return {key: _stringify(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_stringify(inner, depth + 1) for inner in value]
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _quote_value(found: re.Match[str]) -> str:
    key, value = found[1], found[3]
    return found[0] if key in _STRUCTURED_KEYS else f"{key}: {json.dumps(' '.join(value.split()))}"


# From front matter to a skill: what its keys mean, in our form and in that of other projects.

_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1024
_MAX_TRIGGERS = 20
_MAX_TRIGGER_CHARS = 60
_MAX_REMARK_CHARS = 300
_SEARCHED_CHARS = 2000

# Keys that mean nothing are common and harmless, but for those by which somebody meant one of ours.
_MISTAKEN_KEYS = {
    "read_when": "description",
    "when_to_use": "description",
    "when-to-use": "description",
    "trigger": "triggers",
    "require": "requires",
    "requirements": "requires",
    "needs": "requires",
    "tool": "tools",
}

# The keys of `requires`, ours and then those of OpenClaw, nanobot and their kin, by the field of Needs.
_NEED_KEYS = {
    "tools": "tools",
    "programs": "programs",
    "bins": "programs",
    "devices": "devices",
    "parts": "parts",
    "environment": "environment",
    "env": "environment",
    "os": "systems",
}
_NEEDS_HINT = "say what it is: tools, programs, devices, parts or environment"

# Names by which another program calls models of one maker; a server of ours knows none of them.
_FOREIGN_MODELS = {"default", "haiku", "opus", "opusplan", "sonnet"}

# Single words that are said about anything.
_EVERYDAY_WORDS = (
    "add air all bad board bug call change check ci close code come data date day delete disk done edit error file"
    " find fix get go good help here home house issue know last light list log look mail make merge message minute"
    " month more morning name need new next night no note notes now number off ok okay old open page pi plan please pr"
    " print project pull push put question read report review room run save say search see send sensor set show start"
    " stop switch task tell temperature test text thing things time today tomorrow turn update very wait want water"
    " week why work write year yes yesterday"
)


def parse_skill(text: str, folder: Path) -> Skill:
    """Make a skill of the text of the SKILL.md in a folder; its tier is not known here. Raises SkillError."""
    front, notes = parse_front_matter(text)
    name = _read_name(front, folder, notes)
    description = _read_description(front, notes)
    blocks = list(_find_need_blocks(front, notes))
    triggers = tuple(_read_triggers(front, notes))
    listed = not _is_yes(front.get("disable-model-invocation"))
    mistaken = ((key, _MISTAKEN_KEYS[key]) for key in front if key in _MISTAKEN_KEYS)
    notes += [f"its key {key!r} means nothing; did you mean {meant}?" for key, meant in mistaken]
    if any(_is_yes(block.get("always")) for block in blocks):
        notes.append("its `always` is not followed: a skill is read when it is needed")
    if not listed:
        way = "only its triggers bring it into a turn" if triggers else "and without triggers nothing brings it in"
        notes.append(f"it is neither listed nor found, {way} (disable-model-invocation)")
    for trigger in triggers:
        if fold_case(trigger) in _EVERYDAY_WORDS.split() or not list_query_terms(trigger):
            notes.append(f"its trigger {trigger!r} is an everyday word, which brings it into turns about anything")
    if unseen := skills_skill.describe_left_out(text):
        notes.append(f"left out of its text: {unseen}")
    body = skills_skill.extract_body(text, Path())
    if not body:
        notes.append("it has no text")
    return Skill(
        name=name,
        description=description,
        folder=folder,
        tier="",
        triggers=triggers,
        needs=_read_needs(blocks),
        tools=tuple(map(_update_tool_names, _read_list(front, "tools", notes))),
        model=_read_model(front, notes),
        notes=tuple(note[:_MAX_REMARK_CHARS] for note in notes),
        keywords=reduce_to_vocabulary(body[:_SEARCHED_CHARS]),
        listed=listed,
    )


def _is_yes(value: object) -> bool:
    return isinstance(value, str) and value.strip().casefold() in {"true", "yes", "on"}


def _read_name(front: dict[str, Any], folder: Path, notes: list[str]) -> str:
    given = _read_text(front, "name") or folder.name
    strange = next((char for char in given if not (char.isascii() and char.isprintable())), "")
    if strange:
        raise SkillError(f"the name {given[:80]!a} holds U+{ord(strange):04X}; use letters of a to z, digits, - and _")
    if ".." in given or "/" in given or "\\" in given:
        raise SkillError(f"the name {given[:80]!r} is a path; use letters, digits, - and _")
    handle = re.sub(r"[^a-z0-9_-]+", "-", given.lower()).strip("-_")
    if not handle or len(handle) > _MAX_NAME_CHARS:
        raise SkillError(
            f"the name {given[:80]!r} has {len(handle)} letters and digits; it takes 1 to {_MAX_NAME_CHARS}"
        )
    if handle != given:
        notes.append(f"its name {given!r} is written {handle}")
    return handle


def _read_description(front: dict[str, Any], notes: list[str]) -> str:
    given = _read_text(front, "description")
    clean = " ".join(remove_hidden(given).split())
    if not clean:
        why = "; ".join(["it has no description: say in a line what it is for and when to read it", *notes])
        raise SkillError(why)
    if unseen := describe_hidden(given):
        notes.append(f"left out of its description: {', '.join(unseen)}")
    if len(clean) > _MAX_DESCRIPTION_CHARS:
        notes.append(f"its description of {len(clean)} characters is cut after {_MAX_DESCRIPTION_CHARS}")
    return clean[:_MAX_DESCRIPTION_CHARS].rstrip()


def _read_triggers(front: dict[str, Any], notes: list[str]) -> Iterator[str]:
    given = _read_list(front, "triggers", notes)
    if len(given) > _MAX_TRIGGERS:
        notes.append(f"of its {len(given)} triggers the first {_MAX_TRIGGERS} are used")
    for trigger in given[:_MAX_TRIGGERS]:
        if len(trigger) <= _MAX_TRIGGER_CHARS and any(char.isalnum() for char in trigger):
            yield trigger
        else:
            notes.append(
                f"its trigger {trigger[:80]!r} is left out: it takes words, at most {_MAX_TRIGGER_CHARS} letters"
            )


def _read_model(front: dict[str, Any], notes: list[str]) -> str:
    given = front.get("model") or "inherit"
    name = _format_value(given)
    if name == "inherit":
        return ""
    if name != given or name in _FOREIGN_MODELS:
        notes.append(f"its model {name!r} is no model's name here, and is not used")
        return ""
    return name


def _read_needs(blocks: Sequence[dict[str, Any]]) -> SkillNeeds:
    """Gather every need; an unknown one is kept in words, since to list a skill that lacks something would be wrong."""
    found: dict[str, list[str]] = {field: [] for field in SkillNeeds._fields}
    for block in blocks:
        requires = block.get("requires") or {}
        if isinstance(requires, dict):
            for key, value in requires.items():
                _add_need(found, key, value)
        else:
            found["others"].append(f"{_format_value(requires)} ({_NEEDS_HINT})")
        _add_need(found, "os", block.get("os"))
    for device in found["devices"]:
        if any(not way.startswith("/dev/") or ".." in way or "**" in way for way in device.split("|")):
            raise SkillError(f"requires: the device {device!r} is not a path below /dev, such as /dev/i2c-*")
    found["tools"] = list(map(_update_tool_names, found["tools"]))
    unique = {field: tuple(dict.fromkeys(names)) for field, names in found.items()}
    programs = tuple(tuple(names.split("|")) for names in unique.pop("programs"))
    return SkillNeeds(programs=programs, **unique)


def _update_tool_names(names: str) -> str:
    return "|".join(OLD_TOOL_NAMES.get(name, name) for name in names.split("|"))


def _find_need_blocks(front: dict[str, Any], notes: list[str]) -> Iterator[dict[str, Any]]:
    """Find where needs may stand: at the top, in `metadata`, and there under the name of any project."""
    yield front
    metadata = front.get("metadata")
    if isinstance(metadata, str) and metadata:
        try:
            metadata = _parse_json(metadata)
        except ValueError:
            notes.append("its metadata is neither a mapping nor JSON, and was not read")
    if isinstance(metadata, dict):
        yield metadata
        yield from (block for name, block in metadata.items() if name != "requires" and isinstance(block, dict))


def _add_need(found: dict[str, list[str]], key: str, value: Any) -> None:
    """Add a need to those of its kind. Of a mapping the keys are the names, and its values are for people."""
    names = _read_names(list(value) if isinstance(value, dict) else value, f"requires: {key}")
    if names is None:
        found["others"].append(f"{key} {_format_value(value)}, which means nothing here")
    elif key in _NEED_KEYS:
        found[_NEED_KEYS[key]] += [name.casefold() for name in names] if key == "os" else names
    elif key == "anyBins" and names:
        found["programs"].append("|".join(names))
    else:
        found["others"] += [f"{key} {name}, which means nothing here" for name in names]


def _read_list(front: dict[str, Any], key: str, notes: list[str]) -> list[str]:
    """Read the names behind a key; what is no list of names gives none."""
    names = _read_names(front.get(key), key)
    if names is None:
        notes.append(f"its {key} are not a list of names, and are not used")
    return names or []


def _read_names(value: Any, where: str) -> list[str] | None:
    """Read names from a text with commas, or from a list; a list in it is one of these. None: it is something else."""
    names = []
    if isinstance(value, dict):
        return None
    for row in value.split(",") if isinstance(value, str) else value or []:
        choices = row.split("|") if isinstance(row, str) else row
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            return None
        names.append("|".join(" ".join(choice.split()) for choice in choices if choice.strip()))
    if unseen := next((name for name in names if remove_invisible(name) != name), ""):
        raise SkillError(f"{where}: {unseen[:80]!a} holds characters that cannot be seen")
    return [name for name in names if name]


def _format_value(value: Any) -> str:
    """Show what somebody wrote in a line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(remove_invisible(text).split())[:80]


def _read_text(front: dict[str, Any], key: str) -> str:
    value = front.get(key) or ""
    if not isinstance(value, str):
        raise SkillError(f"{key} has to be one text")
    return value.strip()
