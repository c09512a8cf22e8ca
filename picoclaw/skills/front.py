"""Front matter read strictly: plain YAML or JSON in which every value is a text, a list or a mapping of these.

Imports yaml, which costs 4 MB and 20 ms; import this module late.
"""

import json
import re
from collections.abc import Hashable, Iterable
from typing import Any

import frontmatter
import yaml
from frontmatter.default_handlers import YAMLHandler

from picoclaw.errors import SkillError
from picoclaw.skills import document

_DEEPEST = 20
_TABS = re.compile(r"^\t+", re.MULTILINE)
_STRUCTURED = ("requires", "metadata", "triggers", "tools")
# A value on the lines of its key, which is neither a block scalar nor quoted from end to end.
_VALUE = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+(?![|>]|(\"|').*\2[ \t]*$)(\S.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the front matter of a SKILL.md, and remarks on how it had to be read. Raises SkillError."""
    notes: list[str] = []
    front, _ = frontmatter.parse(text, handler=_Handler(notes))
    return front, notes


def from_json(text: str) -> Any:
    """Read JSON as front matter may hold it. Raises SkillError for what is refused, ValueError for what is no JSON."""
    try:
        return _as_text(json.loads(text, object_pairs_hook=_unique))
    except RecursionError:
        raise SkillError(f"the front matter is nested {_DEEPEST} deep or more") from None


class _Handler(YAMLHandler):
    """Where python-frontmatter is told what front matter is; by itself it takes aliases, tags and any first line."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self._notes = notes

    def split(self, text: str) -> tuple[str, str]:
        return document.parts(text)

    def load(self, fm: str, **_: object) -> Any:
        found = self._loaded(_TABS.sub(lambda tabs: "  " * len(tabs[0]), fm))
        if not isinstance(found, dict):
            raise SkillError("the front matter is not a list of `key: value` lines")
        return found

    def _loaded(self, front: str) -> Any:
        if front.lstrip().startswith("{"):
            try:
                return from_json(front)
            except ValueError:
                pass
        try:
            return _from_yaml(front)
        except _NotYaml as error:
            try:
                found = _from_yaml(_VALUE.sub(_quoted, front))
            except _NotYaml:
                raise SkillError(f"the front matter is not YAML: {error}") from None
            self._notes.append(f"its front matter is not YAML ({error}); what stands behind a key was read as it is")
            return found


class _NotYaml(Exception):
    """The text breaks the rules of YAML; `str()` says where and how."""


def _from_yaml(front: str) -> Any:
    try:
        return yaml.load(front, Loader=_Strict)  # noqa: S506 - it makes nothing but texts, lists and mappings
    except yaml.reader.ReaderError as error:
        raise SkillError(f"the front matter holds the character U+{int(error.character):04X}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 2}: " if mark else ""
        raise _NotYaml(f"{where}{error.problem or error.context}") from None
    except (ValueError, OverflowError):  # an escape such as "\UFFFFFFFF"
        raise SkillError("the front matter holds an escaped character that does not exist") from None


class _Strict(yaml.BaseLoader):
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
        return _unique(pairs)


def _check_depth(depth: int) -> None:
    if depth >= _DEEPEST:
        raise SkillError(f"the front matter is nested {_DEEPEST} deep or more")


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise SkillError(f"the front matter has the key {key!r} twice")
        found[key] = value
    return found


def _as_text(value: Any, depth: int = 0) -> Any:
    """Turn what JSON gives into texts, lists and mappings."""
    _check_depth(depth)
    if isinstance(value, dict):
        return {key: _as_text(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner, depth + 1) for inner in value]
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _quoted(found: re.Match[str]) -> str:
    key, value = found[1], found[3]
    return found[0] if key in _STRUCTURED else f"{key}: {json.dumps(' '.join(value.split()))}"
