"""The memory tools: notes are stored, found, corrected and deleted; `pulse` has the tasks that are open in all conversations."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.errors import StoreError, ToolError
from picoclaw.markdown import blank_comments
from picoclaw.memory import notes
from picoclaw.memory.files import FOREIGN, SHARED_PREFIX, MemoryFiles, is_tainted
from picoclaw.memory.memory import MemoryIndex, find_past_turns
from picoclaw.memory.search import MemoryHit
from picoclaw.messages import DEFAULT_SESSION, Caller, is_resident
from picoclaw.records import NamedTuple, replace
from picoclaw.schema import Span, find_nearest
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.store.pulse import Pulse, PulseAuthor, PulseChange, format_item
from picoclaw.text import list_query_terms, list_terms, pattern, remove_invisible, truncate
from picoclaw.tools.registry import tool

BOOST_STEP = 0.25
_OLDEST_YEAR = 2026  # before it, a clock has never been set
_MAX_SOURCES, _MAX_NAME_CHARS, _MAX_LINE_CHARS = 2, 60, 2000
_MAX_QUERIES = 4  # besides the first
_LIST_NAME, _MAX_LISTED = pattern(r"\w+ list", re.IGNORECASE), 200
_NEWEST = pattern(r"last (?:(\d+) )?notes?", re.IGNORECASE)
_ID = pattern(r"\[?(?:id)?[:= ]*(-?\d{1,18})\]?|\[id:(-?\d{1,18})\].*", re.IGNORECASE | re.DOTALL)
_SHARED_PLACE = pattern(rf"(?:\[id:-?(?P<id>\d+)\] )?(?:/|\./)*{SHARED_PREFIX}(?P<rest>memory/.*)", re.DOTALL)
_MEMBER = "member"


class MemoryTools:
    def __init__(
        self,
        workspace: Path,
        index: MemoryIndex,
        *,
        past: bool = False,
        person: str = "",
        read_owner_time: Callable[[float], datetime] = datetime.fromtimestamp,
    ) -> None:
        """`index` is the index of the workspace's notes; `past`: it also holds past messages.

        `person` is the member of the household whose notes these are, '' for the owner, in whose time zone notes are
        shared.
        """
        self._workspace, self._index, self._past, self._person = workspace, index, past, person
        self._read_owner_time = read_owner_time

    @tool(effect="remember", is_requested=lambda _, given, caller: orders.is_stated_fact(given["text"], caller))
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

    @tool(effect="share", is_requested=lambda _, given, caller: orders.is_shared_fact(given["text"], caller))
    def memory_share(self, text: str, caller: Caller) -> str:
        """Note a fact for the whole household, if the user says it is for everyone."""
        if self._index.shared is None:
            raise ToolError("nobody shares this home; memory_store notes it for the user alone")
        requested = orders.is_shared_fact(text, caller)
        origin = describe_origin(replace(caller, taints=set()) if requested else caller, shared_by=self._person)
        now = self._read_owner_time(caller.now.timestamp())
        noted = notes.add_note(self._index.shared.home, text, now, origin)
        place = f"{SHARED_PREFIX}{noted.path} line {noted.line}"
        return f"known already: {place}: {noted.text}" if noted.known else f"noted for everyone in {place}"

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
        if listed := self._list_whole(query.strip()):
            return _taint_foreign(caller, "memory_search", "\n".join(listed))
        try:
            hits = self._index.search(query, caller.now, least=min_score, also=(also or [])[:_MAX_QUERIES])
            is_certain = any(hit.is_certain for hit in hits)
            found = {} if is_certain else self._index.stats()
            count = int(found.get("files", 0)) + int(found.get("shared_files", 0))
        except StoreError as error:
            raise ToolError(f"the notes cannot be searched: {error}") from None
        said = ""
        if not is_certain:
            asked = truncate(query, _MAX_NAME_CHARS)
            said = f"no note says anything about {asked!r}{' for certain' if hits else ''}"
            said += f" ({count} file{'' if count == 1 else 's'} searched){'; perhaps:' if hits else ''}"
        return _taint_foreign(caller, "memory_search", "\n".join(filter(None, [said, *map(_format_hit, hits)])))

    def _list_whole(self, query: str) -> list[str]:
        """What a search would cut short: all of a list, or the last notes, where no other words are asked for."""
        own = self._split_scope("")
        if newest := _NEWEST.fullmatch(query):
            count = min(int(newest[1] or 1), _MAX_LISTED)
            return [_format_place(own, place) for place in notes.find_newest(own.workspace, count)]
        if not _LIST_NAME.fullmatch(query):
            return []
        scopes = [own]
        if self._index.shared and self._index.shared.is_used:
            scopes.append(_Scope(self._index.shared, self._index.shared.home, "", SHARED_PREFIX))
        places = ((scope, place) for scope in scopes for place in notes.find_list(scope.workspace, query))
        return [_format_place(scope, place) for scope, place in places][-_MAX_LISTED:]

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
        scope = self._split_scope(path)
        place = notes.parse_entry_place(scope.text)
        found = MemoryFiles(scope.workspace).read(place[0]) if place else None
        if place is None or found is None:
            known = sorted(one.path for _, sources in MemoryFiles(self._workspace).folders() for one in sources)
            raise ToolError(f"there is no note {path!r}{find_nearest(path, dict.fromkeys(known))}")
        if found.problem and not found.text:
            raise ToolError(f"{scope.prefix}{place[0]}: {found.problem}")
        first = place[1] or line or 1
        count = place[2] + 1 - place[1] if place[1] else lines or 40
        shown = _number_lines(blank_comments(found.text).split("\n"), first, count)
        return _taint_foreign(caller, f"{scope.prefix}{place[0]}", shown)

    def _split_scope(self, text: str) -> "_Scope":
        """Tell whether a text that names a note begins with the path of one of the household's."""
        if self._index.shared and (found := _SHARED_PLACE.fullmatch(text.strip())):
            rest = f"[id:{found['id']}] {found['rest']}" if found["id"] else found["rest"]
            return _Scope(self._index.shared, self._index.shared.home, rest, SHARED_PREFIX)
        return _Scope(self._index, self._workspace, text, "")

    def _find_scope(self, text: str) -> "_Scope":
        """Tell whose note a text names: the person's own, or else one of the household's.

        Raises ToolError where a member names the note of somebody else.
        """
        scope = self._split_scope(text)
        if not scope.prefix and self._index.shared and self._index.shared.is_used:
            shared = _Scope(self._index.shared, self._index.shared.home, text, SHARED_PREFIX)
            scope = shared if _is_known(shared) and not _is_known(scope) else scope
        if scope.prefix and self._person:
            with suppress(StoreError):
                for place in notes.find_named(scope.workspace, scope.text):
                    if not re.match(rf"{FOREIGN}: {_MEMBER} {self._person}\b", place.entry.source):
                        raise ToolError(
                            f"{SHARED_PREFIX}{place.path}:{place.entry.first} is somebody else's note; they or the owner can change it"
                        )
        return scope

    def _explain_named(self, text: str) -> str:
        scope = self._find_scope(text)
        return scope.explain(notes.describe_named(scope.workspace, scope.text))

    def _get_update_effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "share" if self._find_scope(arguments["old"]).prefix else "remember"

    @tool(effect=_get_update_effect, means=lambda self, arguments: self._explain_named(arguments["old"]), private=True)
    def memory_update(
        self,
        old: Annotated[str, "the note's words, or path:line and the wrong words"],
        new: Annotated[str, "what replaces them"],
        caller: Caller,
    ) -> str:
        """Correct a note."""
        scope = self._find_scope(old)
        _require_words(scope.text)
        origin = describe_origin(caller, shared_by=self._person if scope.prefix else None)
        try:
            done = notes.replace_note(scope.memory.home, scope.workspace, scope.text, new, caller.now, origin)
        except notes.UnknownNote as error:
            raise self._add_nearest(error, old, caller) from None
        except StoreError as error:
            raise ToolError(scope.explain(str(error))) from None
        places = _format_places(done.places, scope.prefix)
        return f"changed {places}: {_quote(done.places[0].entry.body)} is now {_quote(done.text)}"

    def _get_forget_effect(self, arguments: Mapping[str, Any]) -> Effect | tuple[Effect, ...]:
        """A note not named by all its words is shown to a person before it is deleted."""
        scope = self._find_scope(arguments["text"])
        effect: Effect = "share" if scope.prefix else "remember"
        found = notes.describe_named(scope.workspace, scope.text)
        if found and not notes.is_named_whole(scope.workspace, scope.text):
            return ("erase", effect) if scope.prefix else "erase"
        return effect

    @tool(effect=_get_forget_effect, means=lambda self, arguments: self._explain_named(arguments["text"]), private=True)
    def memory_forget(self, text: Annotated[str, "its words, or path:line"], caller: Caller) -> str:
        """Delete one note for good."""
        scope = self._find_scope(text)
        _require_words(scope.text)
        try:
            done = notes.forget_note(scope.workspace, scope.text)
        except notes.UnknownNote as error:
            raise self._add_nearest(error, text, caller) from None
        except StoreError as error:
            raise ToolError(scope.explain(str(error))) from None
        said = f"forgotten, from {_format_places(done.places, scope.prefix)}: {_quote(done.places[0].entry.body)}"
        try:
            scope.memory.forget(done.places[0].entry.body)
        except StoreError as error:
            said += f"; a copy is still kept: {error}"
        with suppress(StoreError):
            held = find_past_turns(self._index, done.places[0].entry.body, caller.now) if self._past else []
            said += f"; past messages still hold it: {', '.join(held[:_MAX_SOURCES])}" if held else ""
        return said

    @tool(effect=lambda _, arguments: "share" if _parse_id(arguments["id"]) < 0 else "write", private=True)
    def memory_rank(
        self,
        id: Annotated[str, "as in [id:12]"],  # noqa: A002 - as search results name it
        *,
        useful: Annotated[bool, "false: it was wrong or misled you"],
    ) -> str:
        """Rank a note higher or lower in later searches."""
        number = _parse_id(id)
        if not number or (number < 0 and not self._index.shared):
            raise ToolError(f"{id!r} is no id; memory_search shows them, as in [id:12]")
        self._index.boost(number, BOOST_STEP if useful else -BOOST_STEP)
        return f"[id:{number}] is now at {self._index.row(number).boost:+g}, of -1 to +1"

    def _add_nearest(self, error: StoreError, text: str, caller: Caller) -> ToolError:
        try:
            hits = self._index.search(text, caller.now, 2)
        except StoreError:
            hits = []
        return ToolError("\n".join([f"{error}; the nearest:" if hits else str(error), *map(_format_hit, hits)]))


class _Scope(NamedTuple):
    """Whose notes a text means: their index, the folder of the files, the text without what tells this.

    `prefix` begins the paths of the household's.
    """

    memory: MemoryIndex
    workspace: Path
    text: str
    prefix: str

    def explain(self, said: str) -> str:
        """What is said of places, with the paths as the model knows them."""
        return re.sub(r"(?<![\w/])memory/(?=\S+\.md)", f"{self.prefix}memory/", said) if self.prefix else said


def _is_known(scope: _Scope) -> bool:
    try:
        notes.find_named(scope.workspace, scope.text)
    except notes.UnknownNote:
        return False
    except StoreError:
        return True  # which one of several is not clear
    return True


def _format_place(scope: "_Scope", place: notes.EntryPlace) -> str:
    return f"{scope.prefix}{place.path}:{place.entry.first} - {notes.render_entry(place.entry)}"


def _format_hit(hit: MemoryHit) -> str:
    lines = f"{hit.start}-{hit.end}" if hit.end > hit.start else f"{hit.start}"
    about = ", ".join(filter(None, [hit.day, hit.heading if hit.heading != hit.day else ""]))
    head = f"[id:{hit.id}] {hit.path}:{lines} {f'({about}) ' if about else ''}{hit.score:.2f}"
    head += "" if hit.is_certain else " uncertain:"
    return remove_invisible(f"{head} {hit.snippet}")


def describe_origin(caller: Caller, *, shared_by: str | None = None) -> str:
    """Say where a note comes from, '' for the owner's word in their usual chat.

    One that is shared names the member who does it, '' for the owner, and no chat: its number is nobody's business.
    """
    why: list[str] = [] if is_resident(caller.origin) else [caller.origin]
    if shared_by:
        why = [f"{_MEMBER} {shared_by}"]
    heard = [name[:_MAX_NAME_CHARS] for name in sorted(caller.taints)]
    if heard:
        more = f" and {len(heard) - _MAX_SOURCES} more" if len(heard) > _MAX_SOURCES else ""
        why.append(f"after {', '.join(heard[:_MAX_SOURCES])}{more}")
    is_usual = shared_by is not None or caller.session in {DEFAULT_SESSION, ""}
    chat = "" if is_usual else f"chat {caller.session[:_MAX_NAME_CHARS]}"
    return "; ".join(filter(None, [chat, f"{FOREIGN}: {', '.join(why)}" if why else ""]))


def _taint_foreign(caller: Caller, where: str, result: str) -> str:
    """A result that quotes others taints the turn."""
    if f"{FOREIGN}: " in result:
        caller.taints.add(where)
    return result


def _parse_id(text: str) -> int:
    """Parse an id such as 12, id:12 or [id:-12]; 0 if it is none."""
    found = _ID.fullmatch(text.strip())
    return int(found[1] or found[2]) if found else 0


def _require_words(text: str) -> None:
    """Refuse an id alone: it may belong to another note by now."""
    if _parse_id(text) and not notes.parse_entry_place(text):
        raise ToolError(f"an id, as {text.strip()!r}, may mean another note by now; name its words, or path:line")


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


def _format_places(places: list[notes.EntryPlace], prefix: str) -> str:
    return " and ".join(f"{prefix}{place.path} line {place.entry.first}" for place in places)


def _quote(text: str) -> str:
    return f'"{" ".join(text.split())}"'


_ENDS = {"complete": "completed", "remove": "removed"}
"""What takes a task from the list, and what is said of it."""
_NUMBER = pattern(r"(?:\[?id:|#|task)?\s*(\d{1,18})\]?", re.IGNORECASE)


class PulseTool:
    def __init__(self, pulse: Callable[[], Pulse]) -> None:
        self._pulse = pulse

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "read" if arguments["action"] == "list" else "remember"

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message says what is noted, or orders just this for the task it names."""
        action, text, task = arguments["action"], arguments["text"], arguments["task"]
        if action == "list":
            return False
        if action == "add":
            return orders.is_ordered_task(text, caller)
        words = "" if _NUMBER.fullmatch(task.strip()) else (action in _ENDS and text) or task
        number = self._find_number(task, text if action in _ENDS else "")
        known = [words, *(item.text for item in self._pulse().items() if item.number == number)]
        new = orders.find_order(action, "task", number, known, caller)
        if action in _ENDS:
            return new is not None
        if text:
            return bool(new) and orders.is_new_text(text, new or ()) and not arguments["priority"]
        weighed = orders.find_order("weigh", "task", number, known, caller) is not None
        return weighed or str(arguments["priority"]) in (new or ())

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        number = _NUMBER.fullmatch(arguments["task"].strip()) if arguments["action"] != "add" else None
        known = (item for item in self._pulse().items() if number and item.number == int(number[1]))
        return next((f"task {item.number} is now: {item.text}" for item in known), "")

    def _is_private(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments.get("action") != "add")

    @tool(effect=_effect, means=_explain, is_requested=_is_requested, private=_is_private)
    def pulse(
        self,
        action: Literal["add", "complete", "remove", "update", "list"],
        caller: Caller,
        text: str = "",
        task: Annotated[str, "its number"] = "",
        priority: Annotated[int, Span(0, 10), "1 (urgent) to 10; default 5"] = 0,
    ) -> str:
        """Keep the user's tasks (to-dos)."""
        store = self._pulse()
        if action == "list":
            listed = "\n".join(map(format_item, store.items()))
            if is_tainted(listed):
                caller.taints.add("pulse list")
            return listed or "no task is open"
        number = 0 if action == "add" else self._find_number(task, text if action in _ENDS else "")
        words = "" if action in _ENDS else text
        if action == "update" and not (words.strip() or priority):
            raise ToolError("nothing to update: give text or priority")
        known = {item.number for item in store.items()}
        change = PulseChange(action, number, words, priority)
        whose = replace(caller, taints=set()) if orders.is_ordered_task(words, caller) else caller
        heard = describe_origin(whose).partition(f"{FOREIGN}: ")[2]
        (item,) = store.apply([change], PulseAuthor(caller.session, caller.now, heard))
        if action == "add" and item.number in known:
            return f"open already: {format_item(item)}"
        return f"{_ENDS[action]}: {item.text}" if action in _ENDS else format_item(item)

    def _find_number(self, task: str, text: str) -> int:
        """The given number; a small model may repeat the task's words instead."""
        number = _NUMBER.fullmatch(task.strip())
        wanted = set(list_query_terms(text or task))
        items = self._pulse().items()
        if number and int(number[1]):
            return int(number[1])
        alike = [item.number for item in items if wanted and wanted <= set(list_terms(item.text))]
        if len(alike) == 1:
            return alike[0]
        known = "; ".join(map(format_item, items[:5]))
        raise ToolError(f"task must be the number of one; {f'open: {known}' if known else 'none is open'}")
