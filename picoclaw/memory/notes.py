"""The Markdown that is remembered: notes of the day in `memory/YYYYMM/YYYYMMDD.md`, what is lasting in `MEMORY.md`."""

import fcntl
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from pathlib import Path, PurePath

from picoclaw import files
from picoclaw.errors import ConfigError, StoreError
from picoclaw.markdown import remove_hidden
from picoclaw.memory import versions
from picoclaw.memory.files import (
    FOREIGN,
    MAX_ENTRY_CHARS,
    MEMORY_FOLDER,
    ROOT_FILES,
    MemoryEntry,
    MemoryFiles,
    explain_failure,
    flatten,
    format_memory_entry,
    make_comparison_key,
    parse_entries,
    split_lines,
)
from picoclaw.messages import Message
from picoclaw.prompts import Page, escape_closing
from picoclaw.records import NamedTuple
from picoclaw.skills import BUILT_IN, SKILL_FILE, Skill
from picoclaw.store.database import Marks
from picoclaw.store.pulse import Pulse
from picoclaw.text import fold_case, list_query_terms, list_terms, pattern, truncate
from picoclaw.workspace import MAX_WHOLE_BYTES, read_text, remove_empty

LASTING_FILE = f"{MEMORY_FOLDER}/MEMORY.md"
_LASTING_FILES = (LASTING_FILE, *ROOT_FILES)
MAX_NOTE_FILE_BYTES = MAX_WHOLE_BYTES
"""Bytes of a file that is added to or changed."""

_MAX_DAY_CHARS = 64_000  # of a day's note; of a longer one only the end is read


class NoteResult(NamedTuple):
    """Where an entry stands, and what it says; `known` when it stood there before."""

    path: str
    line: int
    text: str
    known: bool


def add_note(workspace: Path, text: str, now: datetime, source: str = "", *, lasting: bool = False) -> NoteResult:
    """Note a text on the local day of `now`, or for good, unless it is known; durable when this returns.

    `source` says where it is from if it is not from the owner in their usual chat. What was noted within the hour,
    or is remembered for good, is known; for good, only the latter counts. Raises StoreError, and nothing is noted.
    """
    body, today = clean_note(text), now.date()
    with lock_notes(workspace):
        paths = [get_lasting_file(workspace)] if lasting else [get_day_file(today), *_LASTING_FILES]
        if known := _find_known(workspace, body, paths, now, foreign=FOREIGN in source):
            return known
        line = format_memory_entry("- ", f"{today}: " if lasting else f"{now:%H:%M} ", source, body)
        number = _append_entry(workspace, paths[0], line, "" if lasting else f"# {today}\n\n")
        return NoteResult(paths[0], number, line, known=False)


def clean_note(text: str) -> str:
    """Make one line of what is to be noted; raises StoreError when nothing or too much is left."""
    body = flatten(text)
    if not body:
        raise StoreError("text is empty; say what is to be noted")
    if len(body) > MAX_ENTRY_CHARS:
        raise StoreError(
            f"text has {len(body)} characters, and a note at most {MAX_ENTRY_CHARS}: note what matters, "
            f"or write all of it to a file such as {MEMORY_FOLDER}/NAME.md"
        )
    return body


def read_recent_notes(workspace: Path, today: date, days: int = 3) -> list[Page]:
    """Return the notes of the last days that say something, the newest first; of a very long one only its end."""
    found, note_files = [], MemoryFiles(workspace)
    for back in range(min(days, today.toordinal())):
        path = get_day_file(date.fromordinal(today.toordinal() - back))
        if note_files.source(path) and (content := note_files.read(path)):
            text = content.text
            if len(text) > _MAX_DAY_CHARS:
                text = text[-_MAX_DAY_CHARS:].partition("\n")[2]
            if text := remove_empty(text):
                found.append(Page(path, text))
    return found


def get_day_file(day: date) -> str:
    return f"{MEMORY_FOLDER}/{day:%Y%m}/{day:%Y%m%d}.md"


def get_lasting_file(workspace: Path) -> str:
    """Name the file of what is lasting: memory/MEMORY.md, or the one beside the other pages if only that is there."""
    return next((name for name in _LASTING_FILES if os.path.lexists(workspace / name)), LASTING_FILE)


@contextmanager
def lock_notes(workspace: Path) -> Iterator[None]:
    """Hold the memory's files against other picoclaws that change them. Raises StoreError."""
    place = resolve_place(workspace, MEMORY_FOLDER)
    with explain_failure(f"the folder {MEMORY_FOLDER} cannot be used"), files.open_folder(place, make=True) as folder:
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def resolve_place(workspace: Path, path: str) -> files.RootedPath:
    """Return where a file of the memory really lies. Raises StoreError when a link leads out of the memory."""
    root = os.path.realpath(workspace)
    found = files.resolve_below(root, f"{root}/{path}")
    if found is None or (found.parts[:1] != (MEMORY_FOLDER,) and "/".join(found.parts) not in ROOT_FILES):
        raise StoreError(f"{path} leads out of the memory: a symbolic link is in its way; put a copy in its place")
    return found


def read_note_file(workspace: Path, path: str) -> str | None:
    """Read a file as it can be written back: bytes that are no UTF-8 are kept. None when there is none.

    What a crash has left of a write that never came, NUL bytes at the end, is not part of it. Raises StoreError.
    """
    with explain_failure(f"{path} cannot be read"):
        try:
            with os.fdopen(files.open_rooted(resolve_place(workspace, path)), "rb") as file:
                data = file.read(MAX_NOTE_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
    if len(data) > MAX_NOTE_FILE_BYTES:
        raise StoreError(f"{path} is larger than {MAX_NOTE_FILE_BYTES // 1000} kB; shorten it")
    text = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise StoreError(f"{path} holds NUL bytes and is no text; move it aside")
    return text


def write_note_file(workspace: Path, path: str, text: str) -> None:
    """Write a file whole and durably, as `read_note_file` read it. Raises StoreError; the file is as it was then."""
    place = resolve_place(workspace, path)
    with explain_failure(f"{path} cannot be written"):
        with suppress(FileNotFoundError):
            os.close(files.open_rooted(place, adds=True))  # an owner may have locked it
        with files.open_folder(place.above) as folder:
            files.write_atomic(Path(place.parts[-1]), text.encode("utf-8", "surrogateescape"), folder=folder)


def _append_entry(workspace: Path, path: str, line: str, head: str) -> int:
    """Add an entry to the end of a file on a line of its own; returns the number of the line."""
    before = read_note_file(workspace, path)
    text = f"{_end_list(before)}{line}\n" if before else f"{head}{line}\n"
    if line not in remove_hidden(text, trusting=True):
        raise StoreError(f"{path} has a comment that is never closed, so what is added would not be seen; close it")
    place, number = resolve_place(workspace, path), len(split_lines(text))
    old, new = (part.encode("utf-8", "surrogateescape") for part in (before or "", text))
    with explain_failure(f"{path} cannot be written"):
        if before is None:
            with files.open_folder(place.above, make=True) as folder:
                if files.create_file(Path(place.parts[-1]), new, folder=folder):
                    return number
        file = files.open_rooted(place, adds=True)
        try:
            if before is None or os.fstat(file).st_size == len(old):
                files.append_bytes(file, new[len(old) :])
                return number
        finally:
            os.close(file)
    write_note_file(workspace, path, text)  # without what a crash has left at its end
    return number


def _end_list(text: str) -> str:
    """End a text so that an item of a list can follow it."""
    if not text.endswith(("\n", "\r")):
        text += "\n"
    lines, entries = split_lines(text), parse_entries(text)
    ends_in_item = bool(entries) and bool(entries[-1].bullet) and entries[-1].last == len(lines)
    return text if ends_in_item or not lines[-1].strip() else f"{text}\n"


def _find_known(workspace: Path, body: str, paths: Iterable[str], now: datetime, *, foreign: bool) -> NoteResult | None:
    """Find an entry that says the same; the owner's word is not known from somebody else's.

    Not one with a time before it that is more than an hour ago: the same may have happened again.
    """
    wanted, note_files = make_comparison_key(body), MemoryFiles(workspace)
    for path in paths:
        found = note_files.read(path)
        for entry in parse_entries(found.text) if found and wanted else ():
            is_old = entry.stamp[2:3] == ":" and entry.stamp[:5] < f"{now - timedelta(hours=1):%H:%M}" < f"{now:%H:%M}"
            if make_comparison_key(entry.body) == wanted and (foreign or FOREIGN not in entry.source) and not is_old:
                return NoteResult(path, entry.first, render_entry(entry), known=True)
    return None


def render_entry(entry: MemoryEntry) -> str:
    return format_memory_entry("", entry.stamp, entry.source, " ".join(entry.body.split()))


# Changes and forgets one thing that is remembered: found by where it stands, by what it says, or by its words.

_MAX_LISTED = 6
_MAX_SHOWN_CHARS = 160
_MAX_GROWTH = 2  # words for each of those that are replaced; more of them say something else
_MAX_SPANS = 400  # of a text that repeats its words: which of them are meant would not be certain
_TOKEN = pattern(r"[^\W_](?:\S*[^\W_])?")
_DAILY_FILE = pattern(rf"{MEMORY_FOLDER}/\d{{6}}/\d{{8}}\.md")
_LIST_ITEM = pattern(r"\w+ list: ", re.IGNORECASE)
_PLACE = pattern(
    r"(?P<found>\[id:\d+\] )?(?:/|\./|workspace/)*(?P<path>(?:memory/\S.*?|MEMORY|memory)\.md)"
    r"(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?:[:,]?\s(?P<said>.*))?"
)


_MAX_QUOTED_CHARS = 80
_MIN_COMPOUND_END = 5  # letters


class UnknownNote(StoreError):
    """Nothing that is remembered is meant by a text."""


class AmbiguousNote(StoreError):
    """Several things that are remembered may be meant by a text."""

    def __init__(self, text: str, places: "list[EntryPlace]") -> None:
        listed = "\n".join(map(str, places[:_MAX_LISTED]))
        more = f"\nand {len(places) - _MAX_LISTED} more" if len(places) > _MAX_LISTED else ""
        super().__init__(
            f"{truncate(text, _MAX_QUOTED_CHARS)!r} may be any of {len(places)}; name one by its path:line\n{listed}{more}"
        )


class EntryPlace(NamedTuple):
    path: str
    entry: MemoryEntry

    def __str__(self) -> str:
        return f"{self.path}:{self.entry.first} {truncate(render_entry(self.entry), _MAX_SHOWN_CHARS)}"


class NoteChange(NamedTuple):
    """What an entry was and what it is; where the same stood in several files, all of it has changed."""

    places: list[EntryPlace]
    text: str


def replace_note(home: Path, workspace: Path, old: str, new: str, now: datetime, source: str = "") -> NoteChange:
    """Change what is remembered: `old` names it, `new` is what it says from now on, or what a part of it says.

    `source` as for `add_note`. What it said is kept in `home` for `restore_correction`. Returns when it is durable.
    Raises StoreError, and nothing has changed.
    """
    body = clean_note(new)
    with lock_notes(workspace):
        try:
            places = find_named(workspace, old)
        except AmbiguousNote as error:
            raise StoreError(
                f'{error}\nand behind it the words that are to be replaced, as in "path:line 3 A"'
            ) from None
        if any(place.entry.code for place in places):
            raise StoreError(f"{places[0].path}:{places[0].entry.first} is a block of code; edit_file changes it")
        if len({place.path for place in places}) < len(places):  # below different headings they are different facts
            raise AmbiguousNote(old, places)
        text, whole = _correct_entry(places[0], old, body)
        if whole and all((text, source) == (place.entry.body, place.entry.source) for place in places):
            raise StoreError(f"that is what it says already: {places[0]}")
        for path, entry in places:
            origin = source if whole or FOREIGN in source else entry.source
            line = format_memory_entry(entry.bullet, entry.stamp, origin, text, now.date())
            _keep_correction(home, versions.Correction(path, _read_entry(workspace, path, entry), line), now)
            _rewrite_entries(workspace, path, {entry: line})
    return NoteChange(places, text)


def restore_correction(home: Path, workspace: Path, correction: versions.Correction, now: datetime) -> None:
    """Take a correction back, where the entry still says what it was changed to. Raises StoreError."""
    path, before, after = correction
    with lock_notes(workspace):
        text = read_note_file(workspace, path) or ""
        found = next((entry for entry in parse_entries(text) if _read_entry(workspace, path, entry) == after), None)
        if found is None:
            raise StoreError(
                f"{path} does not say {truncate(after, _MAX_QUOTED_CHARS)!r} any more; what it said before: {before!r}"
            )
        _keep_correction(home, versions.Correction(path, after, before), now)
        _rewrite_entries(workspace, path, {found: before})


def _keep_correction(home: Path, correction: versions.Correction, now: datetime) -> None:
    with explain_failure(f"what it said cannot be kept in {home / versions.HISTORY_FOLDER}"):
        versions.keep_correction(home, correction, now)


def forget_note(workspace: Path, text: str) -> NoteChange:
    """Take what is remembered out of its files, and keep it nowhere; durable when this returns. Raises StoreError."""
    with lock_notes(workspace):
        places = find_named(workspace, text)
        if full := next((place for place in places if place.entry.below), None):
            raise StoreError(f"{full} has {full.entry.below} more below it; forget those first, one at a time")
        by_file: dict[str, dict[MemoryEntry, str | None]] = {}
        for path, entry in places:
            by_file.setdefault(path, {})[entry] = None
        for path, entries in by_file.items():
            _rewrite_entries(workspace, path, entries)
    return NoteChange(places, "")


def describe_named(workspace: Path, text: str) -> str:
    """Tell which entry a text names, and all that it says; '' where none is, or it may be any of several."""
    try:
        places = find_named(workspace, text)
    except StoreError:
        return ""
    return "\n".join(f"{place.path}: {render_entry(place.entry)}" for place in places)


def is_named_whole(workspace: Path, text: str) -> bool:
    """Tell whether a text has all the words of the one entry that it names; a place or some of its words do not."""
    try:
        places = find_named(workspace, text)
    except StoreError:
        return False
    place = parse_entry_place(text)
    said = _get_words_after_place(text) if place and place[1] else text
    return set(list_terms(places[0].entry.body)) <= set(list_terms(said))


def parse_entry_place(text: str) -> tuple[str, int, int] | None:
    """Read a place in the memory as search results write it: "memory/a.md:3-5"; the lines are 0 without any."""
    found = _PLACE.fullmatch(" ".join(text.split()))
    if not found or ".." in found["path"].split("/"):
        return None
    first = int(found["first"] or 0)
    return found["path"], first, max(first, int(found["last"] or 0))


def _get_words_after_place(text: str) -> str:
    """Read what stands behind a place: words of its entry."""
    found = _PLACE.fullmatch(" ".join(text.split()))
    return (found["said"] or "").strip("\"'“”‘’` ") if found else ""


def _get_named_words(old: str) -> str:
    """Read which words of an entry `old` names; '' for a place alone, and for a line of a search or of a list."""
    place = parse_entry_place(old)
    if not place or not place[1]:
        return flatten(old)
    said = flatten(_get_words_after_place(old))
    return "" if old.lstrip().startswith("[id:") or said.endswith("…") else said


def find_named(workspace: Path, text: str) -> list[EntryPlace]:
    """Find the one entry that a text names, more than one only if they say the same. Raises StoreError."""
    meant = parse_entry_place(text)
    if meant and meant[1]:
        path, first, last = meant
        whole = read_note_file(workspace, path)
        if whole is None:
            raise UnknownNote(f"there is no file {path}")
        there = [EntryPlace(path, e) for e in parse_entries(whole) if e.first <= last and e.last >= first]
        said = _get_named_words(text)
        found = [place for place in there if set(list_terms(said)) <= set(list_terms(render_entry(place.entry)))]
        if there and not found:
            raise StoreError(f"{there[0]} does not say {truncate(said, _MAX_QUOTED_CHARS)!r}")
    else:
        found = _find_by_words(workspace, text)
    if not found:
        raise UnknownNote(f"nothing that is remembered says {truncate(text, _MAX_QUOTED_CHARS)!r}")
    if len({make_comparison_key(place.entry.body) for place in found}) > 1:
        raise AmbiguousNote(text, found)
    return found


def find_list(workspace: Path, name: str) -> list[EntryPlace]:
    """The entries of a list, such as "shopping list": those that begin with its name and a colon, the oldest first."""
    note_files = MemoryFiles(workspace)
    begin, found = f"{name.lower()}: ", list[EntryPlace]()
    for path in sorted(source.path for _, sources in note_files.folders() for source in sources):
        content = note_files.read(path)
        if content and begin in content.text.lower():
            found += (
                EntryPlace(path, one) for one in parse_entries(content.text) if one.body.lower().startswith(begin)
            )
    return found


def find_newest(workspace: Path, count: int) -> list[EntryPlace]:
    """The last entries of the daily notes, the newest first; things on a list are none."""
    note_files, found = MemoryFiles(workspace), list[EntryPlace]()
    paths = (source.path for _, sources in note_files.folders() for source in sources)
    for path in sorted(filter(_DAILY_FILE.fullmatch, paths), reverse=True):
        content = note_files.read(path)
        entries = reversed(parse_entries(content.text)) if content else ()
        found += (EntryPlace(path, one) for one in entries if not _LIST_ITEM.match(one.body))
        if len(found) >= count:
            break
    return found[:count]


def _find_by_words(workspace: Path, named: str) -> list[EntryPlace]:
    """Find the entries that say exactly this, or else have all its words, or else words that end in them; the newest first."""
    wanted, stems = make_comparison_key(flatten(named)), {*list_query_terms(named)} - {"s"}
    if not stems:
        raise StoreError(
            f"{truncate(named, _MAX_QUOTED_CHARS)!r} names nothing; give the words of the entry that is meant, or its path:line"
        )
    note_files = MemoryFiles(workspace)
    near, ending = list[EntryPlace](), list[EntryPlace]()
    for _, sources in note_files.folders():
        for path in sorted(source.path for source in sources):
            content = note_files.read(path)
            text = content.text if content else ""
            small = text.lower() if text.isascii() else fold_case(text)
            if all(stem in small for stem in stems):
                for place in (EntryPlace(path, entry) for entry in parse_entries(text)):
                    terms = {*list_terms(render_entry(place.entry))}
                    if stems <= terms:
                        near.append(place)
                    elif all(stem in terms or _ends_compound(stem, terms) for stem in stems):
                        ending.append(place)
    near = near or ending
    near.sort(key=lambda place: place.path, reverse=True)  # the newest first, and what is lasting before it
    exact = [
        place for place in near if wanted in map(make_comparison_key, (place.entry.body, render_entry(place.entry)))
    ]
    return exact or near


def _ends_compound(stem: str, terms: Collection[str]) -> bool:
    """Whether a longer word ends in a stem: "Tomatendünger" in "Dünger"."""
    return len(stem) >= _MIN_COMPOUND_END and any(term.endswith(stem) for term in terms)


def _correct_entry(place: EntryPlace, old: str, new: str) -> tuple[str, bool]:
    """What an entry says after a correction, and whether that is new as a whole.

    `new` takes the place of the stretch of the entry that it says anew, else of the words that `old` names, and the
    rest stays. Where `old` has all that the entry says, `new` may also say something else, if no less of it. Raises
    StoreError where it is not certain which of these is meant, or where more would be lost than is said anew.
    """
    body, part = " ".join(place.entry.body.split()), _get_named_words(old)
    all_named = make_comparison_key(part) in {make_comparison_key(body), make_comparison_key(render_entry(place.entry))}
    spans = _find_restated(body, "" if all_named else part, new)
    if not spans and all_named:
        before, after = set(list_terms(body)), set(list_terms(new))
        is_less = len(before - after) > len(after - before) and len(new.split()) < len(body.split())
        spans = set() if is_less else {(0, len(body))}
    elif not spans and part:
        spans = (_find_part_after_place if parse_entry_place(old) else _find_named_part)(body, part, new)
    if len(spans) == 1:
        ((start, end),) = spans
        return clean_note(f"{body[:start]}{new}{body[end:]}"), not (body[:start] or body[end:])
    raise StoreError(
        f"{place} would say no more than {truncate(new, _MAX_QUOTED_CHARS)!r}, or it is not certain which words of it change: give all that it"
        f' is to say, or name just the words that are to be replaced, as in "{place.path}:{place.entry.first} WORDS"'
    )


def _find_restated(body: str, old: str, new: str) -> set[tuple[int, int]]:
    """The stretches of an entry that a text says anew, or else the whole entry.

    A stretch begins with the text's first word or ends with its last, and has a number where the text has one, a word
    where it has a word; or else it begins and ends as the text, and shares more words with it than it loses.
    """
    spoken, named = [make_comparison_key(word) for word in new.split()], set(list_terms(old))
    found = [(word.start(), word.end(), make_comparison_key(word[0])) for word in _TOKEN.finditer(body)]
    begins = [i for i, (_, _, word) in enumerate(found) if word == spoken[0]]
    ends = [i for i, (_, _, word) in enumerate(found) if word == spoken[-1]]
    if len(begins) * len(ends) > _MAX_SPANS:
        return set()
    more = len(spoken) - 1
    spans = {(i, i + more) for i in begins if i + more < len(found)} | {(j - more, j) for j in ends if j >= more}
    kinds, after = [_classify_token(word) for word in spoken], set(list_terms(new))
    if kinds == ["number"]:  # stands for the only one
        spans = {(i, i) for i in range(len(found))}
    alike = {(i, j) for i, j in spans if [_classify_token(word) for *_, word in found[i : j + 1]] == kinds}
    fits = set()
    for i, j in alike | {(i, j) for i in begins for j in ends if i <= j}:
        start, end = found[i][0], found[j][1]
        said = set(list_terms(body[start:end]))
        close = (i, j) in alike or len(said - after) < len(said & after)
        if close and named <= said and (kinds == ["number"] or _is_restated(said, after)):
            fits.add((start, end))
    return fits or ({(0, len(body))} if _is_restated(set(list_terms(body)), after) else set())


def _classify_token(word: str) -> str:
    """Tell a number, a word and a little word such as "the" apart."""
    return "number" if any(map(str.isdecimal, word)) else "word" if list_terms(word) else "little"


def _is_restated(said: set[str], new: set[str]) -> bool:
    """Whether a text has something else for every word that it lacks, and has at least as many as it lacks."""
    lost = len(said - new)
    return not said.isdisjoint(new) and lost <= min(len(said & new), len(new - said))


def _find_named_part(body: str, old: str, new: str) -> set[tuple[int, int]]:
    """Where `old` stands word by word, if `new` is of its kind and length: a number for a number, a word for a word."""
    numbers = [any(map(str.isdecimal, text)) for text in (old, new)]
    alike = all(numbers) or (not any(numbers) and not set(list_terms(old)).isdisjoint(list_terms(new)))
    before, after = set(make_comparison_key(old).split()), set(make_comparison_key(new).split())
    if not alike or len(before - after) > len(after - before) or len(after) > _MAX_GROWTH * len(before):
        return set()
    return _find_spans(body, old)


def _find_part_after_place(body: str, part: str, new: str) -> set[tuple[int, int]]:
    """Where `part` stands word by word, unless the entry would then say twice what `new` says."""
    spans = _find_spans(body, part)
    rest = [word for start, end in spans for word in list_terms(f"{body[:start]} {body[end:]}")]
    return spans if set(list_terms(new)).isdisjoint(rest) else set()


def _find_spans(body: str, part: str) -> set[tuple[int, int]]:
    found = re.compile(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", re.IGNORECASE).finditer(body)
    return {hit.span() for hit in found}


def _read_entry(workspace: Path, path: str, entry: MemoryEntry) -> str:
    lines = split_lines(read_note_file(workspace, path) or "")
    return "".join(lines[entry.first - 1 : entry.last]).rstrip("\r\n")


def _rewrite_entries(workspace: Path, path: str, changes: dict[MemoryEntry, str | None]) -> None:
    """Put lines in place of entries, None for nothing; all else in the file stays as it is."""
    text = read_note_file(workspace, path) or ""
    lines, now = split_lines(text), {(entry.first, entry.last): entry for entry in parse_entries(text)}
    for entry in sorted(changes, key=lambda entry: -entry.first):
        there = now.get((entry.first, entry.last))
        if there is None or make_comparison_key(flatten(there.body)) != make_comparison_key(flatten(entry.body)):
            raise StoreError(f"{path} was changed just now; try again")
        new, last = changes[entry], lines[entry.last - 1]
        end = last[len(last.rstrip("\r\n")) :]
        lines[entry.first - 1 : entry.last] = [] if new is None else [new + end]
    write_note_file(workspace, path, "".join(lines))


# What was noted in the last days, as lines that a conversation is told once. Pure.

_COMPACT_DAY = pattern(r"(\d{4})(\d\d)(\d\d)")
_LINE_SHARE, _MIN_LINE_CHARS = 4, 200
"""The part of the budget that one line may take, and what it may take however small that is."""


def format_note_lines(pages: Iterable[Page], most: int) -> list[str]:
    """Make a line of each entry of daily notes, the newest note first: its day, and what it says.

    Returns the newest `most` characters of them, in the order of time. One that is long for the others is cut.
    """
    kept: list[str] = []
    longest = max(_MIN_LINE_CHARS, most // _LINE_SHARE)
    for page in pages:
        found = _COMPACT_DAY.fullmatch(PurePath(page.name).stem)
        day, lines = "-".join(found.groups()) if found else page.name, split_lines(page.text)
        for entry in reversed(parse_entries(page.text)):
            said = " ".join("".join(lines[entry.first - 1 : entry.last]).split())
            line = escape_closing(f"{day} {said.removeprefix(entry.bullet.strip()).strip()}")
            line = truncate(line, longest)
            most -= len(line) + 1
            if most < 0:
                return kept[::-1]
            kept.append(line)
    return kept[::-1]


def split_told(found: Sequence[str], earlier: Iterable[Sequence[Message]]) -> tuple[list[str], list[str]]:
    """Part lines into those that no message of the user's holds yet, and those that one does."""
    said = [message.text for turn in earlier for message in turn if message.role == "user"]
    told = [line for line in found if any(line in text for text in said)]
    return [line for line in found if line not in told], told


# What has grown too long: MEMORY.md, the pulse, the owner's own skills. A model is told of it once, until it has grown further.

MAX_MEMORY_CHARS, _MAX_PULSE_CHARS, _MAX_SKILL_CHARS = 10_000, 5_000, 20_000
_MIN_GROWTH = 1.2  # of what was reported already
_MAX_FILE_BYTES = 1_000_000


class OverlongPart(NamedTuple):
    """Something that is too long: its name, its characters, and how many there should be at most."""

    name: str
    size: int
    most: int

    def __str__(self) -> str:
        return f"{self.name} ({self.size} characters, {self.most} are enough)"


def find_overlong(workspace: Path, pulse: Pulse, skills: Iterable[Skill]) -> list[OverlongPart]:
    """Find the parts that are too long; what cannot be read is not. Raises StoreError."""

    def measure(name: str, path: Path, most: int) -> OverlongPart:
        try:
            is_large = path.stat().st_size > most  # or else its bytes alone are few enough
            size = len(read_text(path, _MAX_FILE_BYTES) or "") if is_large else 0
        except (OSError, ConfigError):
            size = 0
        return OverlongPart(name, size, most)

    memory = get_lasting_file(workspace)
    tasks = OverlongPart("the pulse", len(pulse.shown(1_000_000_000)), _MAX_PULSE_CHARS)
    parts = [measure(memory, workspace / memory, MAX_MEMORY_CHARS), tasks]
    own = (skill for skill in skills if skill.tier != BUILT_IN)
    parts += (measure(f"skills/{one.name}/{SKILL_FILE}", one.folder / SKILL_FILE, _MAX_SKILL_CHARS) for one in own)
    return [part for part in parts if part.size > part.most]


def find_new_overlong(found: Iterable[OverlongPart], marks: Marks) -> list[OverlongPart]:
    """Leave those that were not heard yet, or have grown since. Raises StoreError."""
    known = _read_overlong(marks)
    return [part for part in found if part.size >= _MIN_GROWTH * int(known.get(part.name, "0"))]


def mark_overlong(found: Iterable[OverlongPart], marks: Marks) -> None:
    """Remember what a model has heard of all that is too long, and forget what no longer is. Raises StoreError."""
    known, parts = _read_overlong(marks), list(found)
    fresh = {part.name: str(part.size) for part in find_new_overlong(parts, marks)}
    told = {part.name: known.get(part.name, "") for part in parts} | fresh
    marks.set("overlong", "\n".join(f"{name} {size}" for name, size in told.items()))


def _read_overlong(marks: Marks) -> dict[str, str]:
    rows = (row.rpartition(" ") for row in marks.get("overlong").split("\n") if row)
    return {name: size for name, _, size in rows}
