"""Changes and forgets one thing that is remembered: found by where it stands, by what it says, or by its words."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from picoclaw.disk import explain
from picoclaw.errors import StoreError
from picoclaw.memory.dream import versions
from picoclaw.memory.index.files import Files
from picoclaw.memory.notes.entries import FOREIGN, Entry, entries, key, lines_of, plain, written
from picoclaw.memory.notes.notes import content, fit, held, keep, shown
from picoclaw.pattern import pattern
from picoclaw.ranking import asked, folded, words

_MOST_LISTED = 6
_LONGEST_SHOWN = 160
_MOST_GROWN = 2  # words for each of those that are replaced; more of them say something else
_MOST_SPANS = 400  # of a text that repeats its words: which of them are meant would not be certain
_TOKEN = pattern(r"[^\W_](?:\S*[^\W_])?")
_PLACE = pattern(
    r"(?P<found>\[id:\d+\] )?(?:/|\./|workspace/)*(?P<path>(?:memory/\S.*?|MEMORY|memory)\.md)"
    r"(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?:[:,]?\s(?P<said>.*))?"
)


class Unknown(StoreError):
    """Nothing that is remembered is meant by a text."""


class Ambiguous(StoreError):
    """Several things that are remembered may be meant by a text."""


class Place(NamedTuple):
    """An entry and the file that it stands in."""

    path: str
    entry: Entry

    def __str__(self) -> str:
        """Say where it is and what it says."""
        text = shown(self.entry)
        return f"{self.path}:{self.entry.first} {text if len(text) <= _LONGEST_SHOWN else f'{text[:_LONGEST_SHOWN]}…'}"


class Changed(NamedTuple):
    """What an entry was and what it is; where the same stood in several files, all of it has changed."""

    places: list[Place]
    text: str


def replace(home: Path, workspace: Path, old: str, new: str, now: datetime, source: str = "") -> Changed:
    """Change what is remembered: `old` names it, `new` is what it says from now on, or what a part of it says.

    `source` as for `notes.add`. What it said is kept in `home` for `restore`. Returns when it is durable. Raises
    StoreError, and nothing has changed.
    """
    body = fit(new)
    with held(workspace):
        try:
            places = _found(workspace, old)
        except Ambiguous as error:
            raise StoreError(
                f'{error}\nand behind it the words that are to be replaced, as in "path:line 3 A"'
            ) from None
        if any(place.entry.code for place in places):
            raise StoreError(f"{places[0].path}:{places[0].entry.first} is a block of code; edit_file changes it")
        if len({place.path for place in places}) < len(places):  # below different headings they are different facts
            raise Ambiguous(_listed(old, places))
        text, whole = _corrected(places[0], old, body)
        if whole and all((text, source) == (place.entry.body, place.entry.source) for place in places):
            raise StoreError(f"that is what it says already: {places[0]}")
        for path, found in _by_file(places):
            said = {e: source if whole or FOREIGN in source else e.source for e in found}
            lines = {e: written(e.bullet, e.stamp, told, text, now.date()) for e, told in said.items()}
            for entry, line in lines.items():
                _remember(home, versions.Correction(path, _raw(workspace, path, entry), line), now)
            _rewrite(workspace, path, dict(lines))
    return Changed(places, text)


def restore(home: Path, workspace: Path, correction: versions.Correction, now: datetime) -> None:
    """Take a correction back, where the entry still says what it was changed to. Raises StoreError."""
    path, before, after = correction
    with held(workspace):
        text = content(workspace, path) or ""
        found = next((entry for entry in entries(text) if _raw(workspace, path, entry) == after), None)
        if found is None:
            raise StoreError(f"{path} does not say {_cut(after)!r} any more; what it said before: {before!r}")
        _remember(home, versions.Correction(path, after, before), now)
        _rewrite(workspace, path, {found: before})


def _remember(home: Path, correction: versions.Correction, now: datetime) -> None:
    try:
        versions.keep_correction(home, correction, now)
    except OSError as error:
        raise StoreError(f"what it said cannot be kept in {home / versions.FOLDER}: {explain(error)}") from None


def forget(workspace: Path, text: str) -> Changed:
    """Take what is remembered out of its files, and keep it nowhere; durable when this returns. Raises StoreError."""
    with held(workspace):
        places = _found(workspace, text)
        if full := next((place for place in places if place.entry.below), None):
            raise StoreError(f"{full} has {full.entry.below} more below it; forget those first, one at a time")
        for path, found in _by_file(places):
            _rewrite(workspace, path, dict.fromkeys(found))
    return Changed(places, "")


def meant(workspace: Path, text: str) -> str:
    """Tell which entry a text names, and all that it says; '' where none is, or it may be any of several."""
    try:
        places = _found(workspace, text)
    except StoreError:
        return ""
    return "\n".join(f"{place.path}: {shown(place.entry)}" for place in places)


def names_whole(workspace: Path, text: str) -> bool:
    """Tell whether a text has all the words of the one entry that it names; a place or some of its words do not."""
    try:
        places = _found(workspace, text)
    except StoreError:
        return False
    place = place_of(text)
    return set(words(places[0].entry.body)) <= set(words(_behind_place(text) if place and place[1] else text))


def place_of(text: str) -> tuple[str, int, int] | None:
    """Read a place in the memory as search results write it: "memory/a.md:3-5"; the lines are 0 without any."""
    found = _PLACE.fullmatch(" ".join(text.split()))
    if not found or ".." in found["path"].split("/"):
        return None
    first = int(found["first"] or 0)
    return found["path"], first, max(first, int(found["last"] or 0))


def _behind_place(text: str) -> str:
    """Read what stands behind a place: words of its entry."""
    found = _PLACE.fullmatch(" ".join(text.split()))
    return (found["said"] or "").strip("\"'“”‘’` ") if found else ""


def _part_of(old: str) -> str:
    """Read which words of an entry `old` names; '' for a place alone, and for a line of a search or of a list."""
    place = place_of(old)
    if not place or not place[1]:
        return plain(old)
    said = plain(_behind_place(old))
    return "" if old.lstrip().startswith("[id:") or said.endswith("…") else said


def _found(workspace: Path, text: str) -> list[Place]:
    """Find the one entry that is meant, more than one only if they say the same."""
    meant = place_of(text)
    if meant and meant[1]:
        there, said = _between(workspace, *meant), _part_of(text)
        having = [place for place in there if set(words(said)) <= set(words(shown(place.entry)))]
        if there and not having:
            raise StoreError(f"{there[0]} does not say {_cut(said)!r}")
        return _one(text, having)
    wanted, stems = key(plain(text)), {*asked(text)} - {"s"}
    if not stems:
        raise StoreError(f"{_cut(text)!r} names nothing; give the words of the entry that is meant, or its path:line")
    near = [place for place in _all(workspace, stems) if stems <= set(words(shown(place.entry)))]
    near.sort(key=lambda place: place.path, reverse=True)  # the newest first, and what is lasting before it
    exact = [place for place in near if wanted in {key(place.entry.body), key(shown(place.entry))}]
    return _one(text, exact or near)


def _between(workspace: Path, path: str, first: int, last: int) -> list[Place]:
    text = content(workspace, path)
    if text is None:
        raise Unknown(f"there is no file {path}")
    return [Place(path, entry) for entry in entries(text) if entry.first <= last and entry.last >= first]


def _all(workspace: Path, stems: Iterable[str]) -> Iterator[Place]:
    """Every entry of the files that have these words."""
    files = Files.of(workspace)
    for _, sources in files.folders():
        for path in sorted(source.path for source in sources):
            found = files.read(path)
            if found and _holds(found.text, stems):
                yield from (Place(path, entry) for entry in entries(found.text))


def _holds(text: str, stems: Iterable[str]) -> bool:
    small = text.lower() if text.isascii() else folded(text)
    return all(stem in small for stem in stems)


def _one(text: str, places: list[Place]) -> list[Place]:
    if not places:
        raise Unknown(f"nothing that is remembered says {_cut(text)!r}")
    if len({key(place.entry.body) for place in places}) > 1:
        raise Ambiguous(_listed(text, places))
    return places


def _listed(text: str, places: list[Place]) -> str:
    listed = "\n".join(map(str, places[:_MOST_LISTED]))
    more = f"\nand {len(places) - _MOST_LISTED} more" if len(places) > _MOST_LISTED else ""
    return f"{_cut(text)!r} may be any of {len(places)}; name one by its path:line\n{listed}{more}"


def _corrected(place: Place, old: str, new: str) -> tuple[str, bool]:
    """What an entry says after a correction, and whether that is new as a whole.

    `new` takes the place of the stretch of the entry that it says anew, else of the words that `old` names, and the
    rest stays. Where `old` has all that the entry says, `new` may also say something else, if no less of it. Raises
    StoreError where it is not certain which of these is meant, or where more would be lost than is said anew.
    """
    body, part = " ".join(place.entry.body.split()), _part_of(old)
    all_named = key(part) in {key(body), key(shown(place.entry))}
    spans = _restated(body, "" if all_named else part, new)
    if not spans and all_named:
        before, after = set(words(body)), set(words(new))
        spans = {(0, len(body))} if len(before - after) <= len(after - before) else set()
    elif not spans and part:
        spans = (_part_behind_place if place_of(old) else _named_part)(body, part, new)
    if len(spans) == 1:
        ((start, end),) = spans
        return fit(f"{body[:start]}{new}{body[end:]}"), not (body[:start] or body[end:])
    raise StoreError(
        f"{place} would say no more than {_cut(new)!r}, or it is not certain which words of it change: give all that it"
        f' is to say, or name just the words that are to be replaced, as in "{place.path}:{place.entry.first} WORDS"'
    )


def _restated(body: str, old: str, new: str) -> set[tuple[int, int]]:
    """The stretches of an entry that a text says anew, or else the whole entry.

    A stretch begins with the text's first word or ends with its last, and has a number where the text has one, a word
    where it has a word; or else it begins and ends as the text, and shares more words with it than it loses.
    """
    spoken, named = [key(word) for word in new.split()], set(words(old))
    found = [(word.start(), word.end(), key(word[0])) for word in _TOKEN.finditer(body)]
    begins = [i for i, (_, _, word) in enumerate(found) if word == spoken[0]]
    ends = [i for i, (_, _, word) in enumerate(found) if word == spoken[-1]]
    if len(begins) * len(ends) > _MOST_SPANS:
        return set()
    more = len(spoken) - 1
    spans = {(i, i + more) for i in begins if i + more < len(found)} | {(j - more, j) for j in ends if j >= more}
    kinds, after = [_kind(word) for word in spoken], set(words(new))
    alike = {(i, j) for i, j in spans if [_kind(word) for *_, word in found[i : j + 1]] == kinds}
    fits = set()
    for i, j in alike | {(i, j) for i in begins for j in ends if i <= j}:
        start, end = found[i][0], found[j][1]
        said = set(words(body[start:end]))
        close = (i, j) in alike or len(said - after) < len(said & after)
        if close and named <= said and _says_anew(said, after):
            fits.add((start, end))
    return fits or ({(0, len(body))} if _says_anew(set(words(body)), after) else set())


def _kind(word: str) -> str:
    """Tell a number, a word and a little word such as "the" apart."""
    return "number" if any(map(str.isdecimal, word)) else "word" if words(word) else "little"


def _says_anew(said: set[str], new: set[str]) -> bool:
    """Whether a text has something else for every word that it lacks, and has at least as many as it lacks."""
    lost = len(said - new)
    return not said.isdisjoint(new) and lost <= min(len(said & new), len(new - said))


def _named_part(body: str, old: str, new: str) -> set[tuple[int, int]]:
    """Where `old` stands word by word, if `new` is of its kind and length: a number for a number, a word for a word."""
    numbers = [any(map(str.isdecimal, text)) for text in (old, new)]
    alike = all(numbers) or (not any(numbers) and not set(words(old)).isdisjoint(words(new)))
    before, after = set(key(old).split()), set(key(new).split())
    if not alike or len(before - after) > len(after - before) or len(after) > _MOST_GROWN * len(before):
        return set()
    return _standing(body, old)


def _part_behind_place(body: str, part: str, new: str) -> set[tuple[int, int]]:
    """Where `part` stands word by word, unless the entry would then say twice what `new` says."""
    spans = _standing(body, part)
    rest = [word for start, end in spans for word in words(f"{body[:start]} {body[end:]}")]
    return spans if set(words(new)).isdisjoint(rest) else set()


def _standing(body: str, part: str) -> set[tuple[int, int]]:
    found = re.compile(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", re.IGNORECASE).finditer(body)
    return {hit.span() for hit in found}


def _by_file(places: Iterable[Place]) -> Iterator[tuple[str, list[Entry]]]:
    found: dict[str, list[Entry]] = {}
    for path, entry in places:
        found.setdefault(path, []).append(entry)
    yield from found.items()


def _raw(workspace: Path, path: str, entry: Entry) -> str:
    """The lines of an entry as they stand in its file."""
    lines = lines_of(content(workspace, path) or "")
    return "".join(lines[entry.first - 1 : entry.last]).rstrip("\r\n")


def _rewrite(workspace: Path, path: str, changes: dict[Entry, str | None]) -> None:
    """Put lines in place of entries, None for nothing; all else in the file stays as it is."""
    text = content(workspace, path) or ""
    lines, now = lines_of(text), {(entry.first, entry.last): entry for entry in entries(text)}
    for entry in sorted(changes, key=lambda entry: -entry.first):
        there = now.get((entry.first, entry.last))
        if there is None or key(plain(there.body)) != key(plain(entry.body)):
            raise StoreError(f"{path} was changed just now; try again")
        new, last = changes[entry], lines[entry.last - 1]
        end = last[len(last.rstrip("\r\n")) :]
        lines[entry.first - 1 : entry.last] = [] if new is None else [new + end]
    keep(workspace, path, "".join(lines))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"
