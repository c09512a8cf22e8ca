"""The memory tools: notes are stored, found, corrected and deleted."""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from picoclaw.errors import StoreError, ToolError
from picoclaw.markdown import blank_comments
from picoclaw.memory import notes
from picoclaw.memory.entries import FOREIGN
from picoclaw.memory.files import MemoryFiles
from picoclaw.memory.memory import MemoryIndex, find_past_turns
from picoclaw.memory.search import MemoryHit
from picoclaw.messages import DEFAULT_SESSION, Caller, is_resident
from picoclaw.records import replace
from picoclaw.schema import Span, find_nearest
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.text import pattern, remove_invisible, truncate
from picoclaw.tools.registry import tool

BOOST_STEP = 0.25
_OLDEST_YEAR = 2026  # before it, a clock has never been set
_MAX_SOURCES, _MAX_NAME_CHARS, _MAX_LINE_CHARS = 2, 60, 2000
_MAX_QUERIES = 4  # besides the first
_ID = pattern(r"\[?(?:id)?[:= ]*(\d{1,18})\]?|\[id:(\d{1,18})\].*", re.IGNORECASE | re.DOTALL)


class MemoryTools:
    def __init__(self, workspace: Path, index: MemoryIndex, *, past: bool = False) -> None:
        """`index` is the index of the workspace's notes; `past`: it also holds past messages."""
        self._workspace, self._index, self._past = workspace, index, past

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        return orders.is_stated_fact(arguments["text"], caller)

    @tool(effect="remember", is_requested=_is_requested)
    def memory_store(
        self,
        text: Annotated[str, "with names, numbers and dates as said"],
        caller: Caller,
        *,
        lasting: Annotated[bool, "true: for good; default: a note of today"] = False,
    ) -> str:
        """Note a fact the user told you, in one sentence."""
        whose = replace(caller, taints=set()) if orders.is_stated_fact(text, caller) else caller
        noted = notes.add_note(self._workspace, text, caller.now, describe_origin(whose), lasting=lasting)
        if noted.known:
            return f"known already: {noted.path} line {noted.line}: {noted.text}"
        unset = f"; the clock is not set, so this is the day of {caller.now:%Y-%m-%d}"
        return f"noted in {noted.path} line {noted.line}{unset if caller.now.year < _OLDEST_YEAR else ''}"

    @tool(effect="read", private=True)
    def memory_search(
        self,
        query: Annotated[str, "such as pump fuse"],
        caller: Caller,
        also: Annotated[list[str] | None, "synonyms, up to 3"] = None,
        min_score: Annotated[float | None, Span(0.0, 1.0)] = None,
    ) -> str:
        """Find notes by key words, not whole questions. If nothing fits, try other words, up to 3 searches.

        Then memory_rank the notes you used or found wrong.
        """
        if not query.strip():
            raise ToolError("query is empty; say what to look for")
        try:
            hits = self._index.search(query, caller.now, least=min_score, also=(also or [])[:_MAX_QUERIES])
            is_certain = any(hit.is_certain for hit in hits)
            count = 0 if is_certain else self._index.stats()["files"]
        except StoreError as error:
            raise ToolError(f"the notes cannot be searched: {error}") from None
        said = ""
        if not is_certain:
            asked = truncate(query, _MAX_NAME_CHARS)
            said = f"no note says anything about {asked!r}{' for certain' if hits else ''}"
            said += f" ({count} file{'' if count == 1 else 's'} searched){'; perhaps:' if hits else ''}"
        return _taint_foreign(caller, "memory_search", "\n".join(filter(None, [said, *map(_format_hit, hits)])))

    @tool(effect="read", private=True)
    def memory_get(
        self,
        path: Annotated[str, "path, path:line or [id:12] of memory_search"],
        caller: Caller,
        line: Annotated[int, Span(0, 10_000_000)] = 1,
        lines: Annotated[int, Span(0, 1000)] = 40,
    ) -> str:
        """Read lines of a note."""
        if number := _parse_id(path):
            row = self._index.row(number)
            shown = _number_lines(row.text.split("\n"), row.start, row.end + 1 - row.start, f"{row.path}\n")
            return _taint_foreign(caller, row.path, shown)
        place = notes.parse_entry_place(path)
        found = MemoryFiles(self._workspace).read(place[0]) if place else None
        if place is None or found is None:
            known = sorted(one.path for _, sources in MemoryFiles(self._workspace).folders() for one in sources)
            raise ToolError(f"there is no note {path!r}{find_nearest(path, dict.fromkeys(known))}")
        if found.problem and not found.text:
            raise ToolError(f"{place[0]}: {found.problem}")
        first = place[1] or line or 1
        count = place[2] + 1 - place[1] if place[1] else lines or 40
        return _taint_foreign(caller, place[0], _number_lines(blank_comments(found.text).split("\n"), first, count))

    def _explain_update(self, arguments: Mapping[str, Any]) -> str:
        return notes.describe_named(self._workspace, arguments["old"])

    @tool(effect="remember", means=_explain_update, private=True)
    def memory_update(
        self,
        old: Annotated[str, "the note's words, or path:line and the wrong words"],
        new: Annotated[str, "what replaces them"],
        caller: Caller,
    ) -> str:
        """Correct a note."""
        try:
            words, origin = _require_words(old), describe_origin(caller)
            done = notes.replace_note(self._index.home, self._workspace, words, new, caller.now, origin)
        except notes.UnknownNote as error:
            raise self._add_nearest(error, old, caller) from None
        return f"changed {_format_places(done.places)}: {_quote(done.places[0].entry.body)} is now {_quote(done.text)}"

    def _explain_forget(self, arguments: Mapping[str, Any]) -> str:
        return notes.describe_named(self._workspace, arguments["text"])

    def _get_forget_effect(self, arguments: Mapping[str, Any]) -> Effect:
        """A note not named by all its words is shown to a person before it is deleted."""
        text = arguments["text"]
        found = notes.describe_named(self._workspace, text)
        return "erase" if found and not notes.is_named_whole(self._workspace, text) else "remember"

    @tool(effect=_get_forget_effect, means=_explain_forget, private=True)
    def memory_forget(self, text: Annotated[str, "its words, or path:line"], caller: Caller) -> str:
        """Delete one note for good."""
        try:
            done = notes.forget_note(self._workspace, _require_words(text))
        except notes.UnknownNote as error:
            raise self._add_nearest(error, text, caller) from None
        said = f"forgotten, from {_format_places(done.places)}: {_quote(done.places[0].entry.body)}"
        try:
            self._index.forget(done.places[0].entry.body)
        except StoreError as error:
            said += f"; a copy is still kept: {error}"
        with suppress(StoreError):
            held = find_past_turns(self._index, done.places[0].entry.body, caller.now) if self._past else []
            said += f"; past messages still hold it: {', '.join(held[:_MAX_SOURCES])}" if held else ""
        return said

    @tool(effect="write", private=True)
    def memory_rank(
        self,
        id: Annotated[str, "as in [id:12]"],  # noqa: A002 - as search results name it
        *,
        useful: Annotated[bool, "false: it was wrong or misled you"],
    ) -> str:
        """Rank a note higher or lower in later searches."""
        number = _parse_id(id)
        if not number:
            raise ToolError(f"{id!r} is no id; memory_search shows them, as in [id:12]")
        self._index.boost(number, BOOST_STEP if useful else -BOOST_STEP)
        return f"[id:{number}] is now at {self._index.row(number).boost:+g}, of -1 to +1"

    def _add_nearest(self, error: StoreError, text: str, caller: Caller) -> ToolError:
        try:
            hits = self._index.search(text, caller.now, 2)
        except StoreError:
            hits = []
        return ToolError("\n".join([f"{error}; the nearest:" if hits else str(error), *map(_format_hit, hits)]))


def _format_hit(hit: MemoryHit) -> str:
    lines = f"{hit.start}-{hit.end}" if hit.end > hit.start else f"{hit.start}"
    about = ", ".join(filter(None, [hit.day, hit.heading if hit.heading != hit.day else ""]))
    head = f"[id:{hit.id}] {hit.path}:{lines} {f'({about}) ' if about else ''}{hit.score:.2f}"
    head += "" if hit.is_certain else " uncertain:"
    return remove_invisible(f"{head} {hit.snippet}")


def describe_origin(caller: Caller) -> str:
    """Say where a note comes from, '' for the owner's word in their usual chat."""
    why: list[str] = [] if is_resident(caller.origin) else [caller.origin]
    heard = [name[:_MAX_NAME_CHARS] for name in sorted(caller.taints)]
    if heard:
        more = f" and {len(heard) - _MAX_SOURCES} more" if len(heard) > _MAX_SOURCES else ""
        why.append(f"after {', '.join(heard[:_MAX_SOURCES])}{more}")
    chat = f"chat {caller.session[:_MAX_NAME_CHARS]}" if caller.session not in {DEFAULT_SESSION, ""} else ""
    return "; ".join(filter(None, [chat, f"{FOREIGN}: {', '.join(why)}" if why else ""]))


def _taint_foreign(caller: Caller, where: str, result: str) -> str:
    """A result that quotes others taints the turn."""
    if f"{FOREIGN}: " in result:
        caller.taints.add(where)
    return result


def _parse_id(text: str) -> int:
    """Parse an id such as 12, id:12 or [id:12]; 0 if it is none."""
    found = _ID.fullmatch(text.strip())
    return int(found[1] or found[2]) if found else 0


def _require_words(text: str) -> str:
    """Refuse an id alone: it may belong to another note by now."""
    if _parse_id(text) and not notes.parse_entry_place(text):
        raise ToolError(f"an id, as {text.strip()!r}, may mean another note by now; name its words, or path:line")
    return text


def _number_lines(texts: list[str], first: int, count: int, head: str = "") -> str:
    if texts[-1:] == [""]:
        texts.pop()
    offset = first if head else 1  # a chunk begins at its own first line
    start = first - offset
    shown = [
        f"{first + i}| {remove_invisible(t)[:_MAX_LINE_CHARS]}"
        for i, t in enumerate(islice(texts, start, start + count))
    ]
    if not shown:
        raise ToolError(f"the note ends at line {len(texts)}, before line {first}")
    more = f"\n[more follows from line {first + len(shown)}]" if start + len(shown) < len(texts) else ""
    return f"{head}{chr(10).join(shown)}{more}"


def _format_places(places: list[notes.EntryPlace]) -> str:
    return " and ".join(f"{place.path} line {place.entry.first}" for place in places)


def _quote(text: str) -> str:
    return f'"{" ".join(text.split())}"'
