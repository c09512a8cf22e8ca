"""Changes and forgets one thing that is remembered: found by where it stands, by what it says, or by its words."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import StoreError
from picoclaw.memory.index.files import Files
from picoclaw.memory.notes.entries import FOREIGN, Entry, entries, key, lines_of, plain, written
from picoclaw.memory.notes.notes import content, fit, held, keep, shown
from picoclaw.pattern import pattern
from picoclaw.ranking import asked, folded, words

_MOST_LISTED = 6
_LONGEST_SHOWN = 160
_PLACE = pattern(
    r"(?:\[id:\d+\] )?(?:/|\./|workspace/)*((?:memory/\S.*?|MEMORY)\.md)(?::(\d{1,9})(?:-(\d{1,9}))?)?(?:\s.*)?"
)


class Unknown(StoreError):
    """Nothing that is remembered is meant by a text."""


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


def replace(workspace: Path, old: str, new: str, today: date, source: str = "") -> Changed:
    """Change what is remembered: `old` names it, `new` is what it says from now on, or what a part of it says.

    `source` as for `notes.add`. Returns when it is durable. Raises StoreError, and nothing has changed.
    """
    body = fit(new)
    with held(workspace):
        places = _found(workspace, old)
        if any(place.entry.code for place in places):
            raise StoreError(f"{places[0].path}:{places[0].entry.first} is a block of code; edit_file changes it")
        text, whole = _changed(places[0], old, body)
        if whole and all((text, source) == (place.entry.body, place.entry.source) for place in places):
            raise StoreError(f"that is what it says already: {places[0]}")
        for path, found in _by_file(places):
            said = {e: source if whole or FOREIGN in source else e.source for e in found}
            _rewrite(workspace, path, {e: written(e.bullet, e.stamp, told, text, today) for e, told in said.items()})
    return Changed(places, text)


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


def place_of(text: str) -> tuple[str, int, int] | None:
    """Read a place in the memory as search results write it: "memory/a.md:3-5"; the lines are 0 without any."""
    found = _PLACE.fullmatch(text.strip())
    if not found or ".." in found[1].split("/"):
        return None
    first = int(found[2] or 0)
    return found[1], first, max(first, int(found[3] or 0))


def _found(workspace: Path, text: str) -> list[Place]:
    """Find the one entry that is meant, more than one only if they say the same."""
    meant = place_of(text)
    if meant and meant[1]:
        return _one(text, _between(workspace, *meant))
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
        listed = "\n".join(map(str, places[:_MOST_LISTED]))
        more = f"\nand {len(places) - _MOST_LISTED} more" if len(places) > _MOST_LISTED else ""
        raise StoreError(f"{_cut(text)!r} may be any of {len(places)}; name one by its path:line\n{listed}{more}")
    return places


def _changed(place: Place, old: str, new: str) -> tuple[str, bool]:
    """What an entry says after a change, and whether that is new as a whole.

    An entry that was named by a part of its words is not lost for a few others: these take the place of that part, if
    they look like it, or are refused.
    """
    body, old = " ".join(place.entry.body.split()), plain(old)
    named = place_of(old)
    if (named and named[1]) or key(old) in {key(body), key(shown(place.entry))}:
        return new, True
    part = re.search(rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9])", body, re.IGNORECASE)
    if not part:
        whole, alike = set(words(body)) & set(words(new)), False
    else:
        whole = set(key(f"{body[: part.start()]} {body[part.end() :]}").split()) & set(key(new).split())
        numbers = any(c.isdecimal() for c in old) and any(c.isdecimal() for c in new)
        alike = numbers or not set(key(old).split()).isdisjoint(key(new).split())
    if whole:
        return new, True
    if part and alike:
        return fit(f"{body[: part.start()]}{new}{body[part.end() :]}"), False
    raise StoreError(
        f"{place} would say no more than {_cut(new)!r}: give all that it is to say, or name it by its path:line"
    )


def _by_file(places: Iterable[Place]) -> Iterator[tuple[str, list[Entry]]]:
    found: dict[str, list[Entry]] = {}
    for path, entry in places:
        found.setdefault(path, []).append(entry)
    yield from found.items()


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
