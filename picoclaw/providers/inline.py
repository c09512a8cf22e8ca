"""Tool calls that a model writes into its text, and thoughts that are not meant for people; a filter on a stream.

Small local models answer with a fenced JSON block or a tag where the server knows no better. Text is
passed on as soon as it cannot be the beginning of such a thing; the rest is held back until that is known.
"""

import json
import re
from typing import Any

Written = tuple[str, dict[str, Any]]


def _begun(word: str) -> str:
    """A pattern for what a word may begin with, without being whole."""
    return "|".join(re.escape(word[:n]) for n in range(len(word) - 1, 0, -1))


_OPENING = re.compile(r"(?<=\n)[ \t]*(?:(<think>)|```|[{\[]|<[a-z_]+(?:>|[ ]name=))|<tool_call>")
_MAYBE = re.compile(
    rf"(?:(?<=\n)[ \t]*(?:<[a-z_]*|<[a-z_]+ (?:{_begun('name=')})?|`{{1,2}})?|(?:{_begun('<tool_call>')}))\Z"
)
_THOUGHT_END = "</think>"
_FENCE = re.compile(r"```[a-zA-Z_]*\s*\n?(?P<inside>.*?)(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<(?P<tag>[a-z_]+)>\s*(?P<inside>.*?)\s*(?:</(?P=tag)>|\Z)", re.DOTALL)
_ATTRIBUTES = re.compile(
    r"""(?:<[a-z_]+>\s*)?<(?:tool|function|call|invoke|action)[a-z_]* name=["'](?P<name>\w+)["']"""
    r"""(?:\s+(?:arguments|parameters)=(?P<quote>["'])(?P<given>.*?)(?P=quote))?\s*/?>""",
    re.DOTALL,
)
_ENTITIES = (("&quot;", '"'), ("&apos;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_FORGED = re.compile(
    r"(?:^|(?<=>))[ \t]*<(?:tool_(?:response|result|output)|function_(?:response|result))s?>", re.MULTILINE
)
"""Where a model goes on with the result that it expects."""

_WRAPPED = re.compile(r"\s*<(response|answer|reply|output)>\s*(?P<inside>.*?)\s*</\1>\s*", re.DOTALL)
_PARTS_OF_A_CALL = {"name", "arguments", "parameters", "id", "type", "call_id"}
_HEXADECIMAL = re.compile(r"(?<=[:\[,\s])0[xX][0-9a-fA-F]{1,16}(?=\s*[,\]}])")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")


def repaired(text: str) -> str:
    """Make JSON of what small models take for it: hexadecimal numbers, a comma before a closing bracket."""
    return _TRAILING_COMMA.sub("", _HEXADECIMAL.sub(lambda number: str(int(number[0], 16)), text))


def _loads(text: str) -> Any:
    """Read JSON strictly first: a repair could change what stands inside a text."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(repaired(text))


def arguments_from(text: str) -> tuple[dict[str, Any], str]:
    """Parse a call's arguments: an object, or an object encoded twice; else the text comes back as broken."""
    if not text.strip():
        return {}, ""
    try:
        value = _loads(text)
        if isinstance(value, str):
            value = _loads(value)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # NaN and half characters cannot be kept
    except (ValueError, RecursionError):
        return {}, text
    return (value, "") if isinstance(value, dict) else ({}, text)


def _objects(text: str) -> list[Any]:
    """Read JSON values, one after the other; none where anything else is among them."""
    items: list[Any] = []
    rest = text.strip()
    if rest.startswith("{{"):  # a template's braces, copied with the rest
        rest = rest[1:]
    try:
        while rest:
            value, end = json.JSONDecoder().raw_decode(rest)
            items += value if isinstance(value, list) else [value]
            rest = rest[end:].strip().lstrip("}")
    except (ValueError, RecursionError):
        return []
    return items


class InlineCalls:
    """Feed it text as it comes; at the end it knows which calls were in it."""

    def __init__(self, known: frozenset[str]) -> None:
        """Only a call of a tool by a `known` name counts as one."""
        self._known = known
        self._before = "\n"  # the character before what is held; "" after a thought
        self._held = ""
        self._thinking = False
        self._pieces: list[str] = []  # from an opening on, everything

    def feed(self, text: str) -> str:
        """Take a piece of text; returns what can be shown now."""
        if self._pieces:
            self._pieces.append(text)
            return ""
        self._held += text
        shown = ""
        while not self._in_thought():
            if not self._before:
                self._held = self._held.lstrip()
            seen = (self._before or "\n") + self._held
            opening = _OPENING.search(seen)
            stop = opening or _MAYBE.search(seen)
            shown += self._show(stop.start() - 1 if stop else len(self._held))
            if opening is None:
                break
            if not opening[1]:
                self._pieces, self._held = [self._held], ""
                break
            self._thinking = True
        return shown

    def _in_thought(self) -> bool:
        """Drop what is thought; tells whether the thought goes on."""
        if not self._thinking:
            return False
        _, ended, rest = self._held.partition(_THOUGHT_END)
        self._thinking = not ended
        self._held = rest if ended else self._held[-len(_THOUGHT_END) :]
        if ended:
            self._before = ""
        return self._thinking

    def _show(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        self._before = shown[-1:] or self._before
        return shown

    def end(self, *, cut: bool) -> tuple[str, list[Written]]:
        """Return the text still to be shown and the calls found; nothing half written is a call when `cut`.

        What follows a call is not shown, because it cannot know the result.
        """
        text = "".join(self._pieces) or ("" if self._thinking else self._held)
        if forged := _FORGED.search(text) if self._known else None:
            text = text[: forged.start()]
        for shape in () if cut else (_ATTRIBUTES, _TAG, _FENCE):
            blocks = [(block.start(), self._within(block)) for block in shape.finditer(text)]
            if calls := [call for _, found in blocks for call in found]:
                return text[: next(start for start, found in blocks if found)].strip(), calls
        if not cut and (calls := self._calls(text)):
            return "", calls
        wrapped = _WRAPPED.fullmatch(text)
        return wrapped["inside"] if wrapped else text, []

    def _within(self, block: re.Match[str]) -> list[Written]:
        """The calls in a block that has one of the shapes."""
        if block.re is not _ATTRIBUTES:
            return self._calls(block["inside"])
        given = block["given"] or "{}"
        for entity, character in _ENTITIES:
            given = given.replace(entity, character)
        if '"' not in given:
            given = given.replace("'", '"')
        call = self._call({"name": block["name"], "arguments": given})
        return [call] if call else []

    def _calls(self, text: str) -> list[Written]:
        """Read a text that is nothing but calls: one object, several, or an array of them."""
        items = _objects(text) or _objects(repaired(text))
        calls = [self._call(item) for item in items]
        return [call for call in calls if call] if all(calls) else []

    def _call(self, item: Any) -> Written | None:
        if isinstance(item, dict) and isinstance(item.get("function"), dict):
            item = item["function"]
        if isinstance(item, dict) and len(item) == 1 and self._known.issuperset(item):
            if not isinstance(next(iter(item.values())), dict):
                return None
            item = {"name": next(iter(item)), "arguments": next(iter(item.values()))}
        if not isinstance(item, dict) or item.get("name") not in list(self._known):
            return None
        if item.keys() - _PARTS_OF_A_CALL:  # it is about something that has the same name
            return None
        given = item.get("arguments") or item.get("parameters") or {}
        arguments, broken = arguments_from(given if isinstance(given, str) else json.dumps(given))
        return None if broken else (item["name"], arguments)
