"""Versions of pages before dreams and corrections, and what a text that was written anew has lost of the old one.

A model that joins what belongs together moves words from line to line, so lines are compared by the words they share,
of which rare ones count more, and by their numbers with units. What one denies and the other does not is another fact.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from picoclaw.errors import StoreError
from picoclaw.files import append_line, check_reserve, create_file, make_folder, read_file, remove_file, write_atomic
from picoclaw.memory.files import MemoryEntry, explain_failure, make_comparison_key, parse_entries, split_lines
from picoclaw.records import NamedTuple
from picoclaw.text import diff_texts, list_terms, pattern, truncate
from picoclaw.times import MONTHS

_MIN_LENGTH_RATIO = 0.5
_MIN_ENTRY_SHARE, _MIN_KNOWN_SHARE, _MIN_COVERAGE = 0.75, 0.6, 0.85
_MIN_ORIGIN_SHARE = 0.5
_MAX_REPEATED_SHARE = 0.25
_EPSILON = 1e-9
_MAX_QUOTED, MAX_QUOTED_CHARS = 3, 60

_MARKER = pattern(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = pattern(r"#{1,6}\s")
_PLAIN_HEADING = pattern(r"#{1,6}\s+(?:[\w,&/'’()-]{1,24}\s*){1,4}")
_NUMBER = pattern(r"(\d+(?:[.,:/-]\d+)*)\s?([^\W\d_]{1,3}(?![^\W_])|[°%ΩµμΩ℃][^\W\d_]{0,2})?")
_MONTHS = [month[:3] for month in MONTHS]
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?,?\s+"
_GROUPED = pattern(r"(?<![\d.,])\d{1,3}(?:([., '’\u00a0\u202f])\d{3})(?:\1\d{3})*(?![\d.,]*\d)")
_DECIMAL = pattern(r"(?<![\d.,])(\d+),(\d{1,2})(?![\d.,]*\d)")
_DAY, _YEAR = r"(?P<day>\d{1,2})", r"(?P<year>\d{4})(?!\d)"
_DAY_FIRST = pattern(r"(?<!\d)(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)")
_DAY_MONTH = pattern(rf"(?<!\d){_DAY}(?:st|nd|rd|th)?\.?\s+(?:of\s+)?{_MONTH}{_YEAR}", re.IGNORECASE)
_MONTH_DAY = pattern(rf"\b{_MONTH}{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}", re.IGNORECASE)
_WHOLE_DATE = pattern(r"\d{4}-\d\d-\d\d")
_LEADING_ZERO = pattern(r"(?<![\d:])0(?=\d:\d\d)")
_PHONE = pattern(r"(?:\+ ?)?\(?\d[\d ()./-]*\d")
_MIN_PHONE_DIGITS, _MAX_PHONE_PREFIX = 6, 3

_CLAUSE = pattern(r"[,;:.!?()](?=\s|$)|\bbut\b", re.IGNORECASE)
_DENIAL = pattern(r"\b(?:not|no|nor|none|never|nobody|nothing|neither|without|cannot|\w+n['’]t)\b", re.IGNORECASE)
_MIN_SHARED_WORDS = 2  # words that two lines share, where one turns the other around
_REMOVED_MARK = "\0"  # before a line that has to go
HOUR = pattern(r"^\d\d:\d\d (?=\S)")
_WORD = pattern(r"[^\W\d_]{2,}")
_ANY_WORD = pattern(r"[^\W_]+")


class FactSource(NamedTuple):
    """All that a new text may be made of: its words, its numbers, its numbers with units, and numbers of telephones.

    Those are digits alone, without zeros before them; `local` are they without what may be dialled before.
    """

    words: frozenset[str]
    numbers: frozenset[str]
    measures: frozenset[str]
    phones: frozenset[str]
    local: frozenset[str]


def gather_source(texts: Iterable[str]) -> FactSource:
    text = "\n".join(texts)
    numbers = set(_find_numbers(_normalize_numbers(text)))
    parts = {part for number, _ in numbers for part in (number, *(number.split("-") if "-" in number else ()))}
    phones = {digits for found in _PHONE.findall(text) if (digits := _extract_phone_digits(found))}
    local = {number[cut:] for number in phones for cut in range(_MAX_PHONE_PREFIX + 1) if number[cut + 5 :]}
    measures = frozenset(map("".join, numbers))
    return FactSource(frozenset(list_terms(text)), frozenset(parts), measures, frozenset(phones), frozenset(local))


def _normalize_numbers(text: str) -> str:
    """Write dates as 2026-04-09, and numbers without marks between thousands and with a point."""
    text = _DAY_FIRST.sub(lambda date: f"{date[3]}-{int(date[2]):02}-{int(date[1]):02}", text)
    for form in (_DAY_MONTH, _MONTH_DAY):
        text = form.sub(
            lambda date: f"{date['year']}-{_MONTHS.index(date['month'].casefold()) + 1:02}-{int(date['day']):02}", text
        )
    text = _GROUPED.sub(lambda number: number[0].replace(number[1], ""), text)
    return _LEADING_ZERO.sub("", _DECIMAL.sub(r"\1.\2", text))


def _extract_phone_digits(text: str) -> str:
    """The digits of what may be the number of a telephone, '' where they are too few."""
    digits = "".join(char for char in text if char.isdecimal()).lstrip("0")
    return digits if len(digits) >= _MIN_PHONE_DIGITS else ""


def _is_known_phone(text: str, known: FactSource) -> bool:
    """Whether these are the digits of a known telephone, with or without what may be dialled before."""
    digits = _extract_phone_digits(text)
    return digits in known.local or any(digits[cut:] in known.phones for cut in range(_MAX_PHONE_PREFIX + 1))


def is_supported(line: str, known: FactSource, share: float = _MIN_KNOWN_SHARE, *, numbers: bool = True) -> bool:
    """Tell whether a line says only what its source says, of its words this `share`; a short heading may be new."""
    said = _MARKER.sub("", line.strip(), count=1)
    said = _normalize_numbers(_PHONE.sub(lambda found: " " if _is_known_phone(found[0], known) else found[0], said))
    found = list(_find_numbers(said)) if numbers else []
    if any(_WHOLE_DATE.fullmatch(number) and number not in known.numbers for number, _ in found):
        return False
    if any(not known.numbers.issuperset({number} & known.numbers or number.split("-")) for number, _ in found):
        return False
    if any(unit and number + unit not in known.measures for number, unit in found):
        return False
    if _PLAIN_HEADING.fullmatch(line.strip()):
        return True
    used = set(list_terms(said))
    return not used or len(used & known.words) >= share * len(used)


def list_invented(new: str, known: FactSource) -> list[str]:
    """List the lines that say what the source does not."""
    return [line for line in new.split("\n") if line.strip() and not is_supported(line, known)]


def list_entries(text: str) -> list[str]:
    """List what a text says: its lines but headings, without what marks them as items."""
    lines = (line.strip() for line in text.split("\n"))
    return [_MARKER.sub("", line, count=1) for line in lines if list_terms(line) and not _HEADING.match(line)]


def list_lost(old: str, new: str) -> list[str]:
    """List the entries of the old text that no line of the new one says, or that it turns around."""
    before, after = list_entries(old), list_entries(new)
    having = Counter(word for entry in before for word in _select_key_words(entry))
    lines = _LineIndex(after, having)
    clauses = [clause for line in dict.fromkeys(after) for clause in _split_clauses(line)]
    whole = "\n".join(after)
    stems, plain = set(list_terms(whole)), {word.casefold() for word in _WORD.findall(whole)}

    def is_covered(entry: str) -> bool:
        """Whether the new text has most of the entry's words somewhere, and all its names."""
        used = _select_key_words(entry) - {"s"}  # of "the pump's"
        share = sum(1 / having[word] for word in sorted(used & stems))
        return share >= _MIN_COVERAGE * sum(1 / having[word] for word in sorted(used)) and _find_names(entry) <= plain

    gone = {
        entry
        for entry in set(before).difference(after)
        if not (lines.saying(entry) and is_covered(entry)) or _is_contradicted(entry, clauses)
    }
    return [entry for entry in before if entry in gone]


def list_left(noted: str, new: str) -> list[str]:
    """List the notes with a number, a date or a name that the new text does not say, without their hours."""
    plain = "\n".join(f"- {HOUR.sub('', entry)}" for entry in list_entries(noted))
    return [entry for entry in list_lost(plain, new) if _find_names(entry) or any(_find_numbers(entry))]


class _LineIndex:
    """Lines by their words, so that an entry is compared with those alone that share one."""

    def __init__(self, lines: Iterable[str], having: Counter[str]) -> None:
        self._having = having
        self._by_word: dict[str, list[str]] = {}
        self._numbers: dict[str, Counter[tuple[str, str]]] = {}
        for line in dict.fromkeys(lines):
            self._numbers[line] = Counter(_find_numbers(line))
            for word in _select_key_words(line):
                self._by_word.setdefault(word, []).append(line)

    def near(self, entry: str) -> dict[str, float]:
        """The lines that share words with an entry, and how much of it that is, rare words counting more."""
        used = sorted(_select_key_words(entry))
        whole = sum(1 / self._having[word] for word in used if self._having[word])
        shares: dict[str, float] = {}
        for word in used:
            for line in self._by_word.get(word, ()):
                shares[line] = shares.get(line, 0.0) + 1 / self._having[word] / whole
        return shares

    def saying(self, entry: str) -> list[str]:
        """The lines that share enough with an entry and have its numbers, if one that shares most is among them."""
        numbers, shares = Counter(_find_numbers(entry)), self.near(entry)
        most = max(shares.values(), default=0.0)
        if most < _MIN_ENTRY_SHARE - _EPSILON:
            return []
        found = [line for line, share in shares.items() if share >= most - _EPSILON]
        return [line for line in found if _has_numbers(self._numbers[line], numbers)]


def restore_lost(old: str, new: str, noted: str = "") -> tuple[str, list[str]]:
    """Put what the new text lacks of the old one back; returns the text, and the entries that came back.

    An entry comes back as it was written, with its further lines, in the place of a line that says no more than part of
    it, or turns it around; else below the entry that it belonged to, or its heading. A line that says no entry of the
    old text, and nothing that was `noted`, is left out: it is made of words of several.
    """
    before, lines = old.split("\n"), new.split("\n")
    wrong = _find_wrong(old, new, noted)
    gone = set(list_lost(old, "\n".join(line for line in lines if _get_first_entry(line) not in wrong)))
    lines = [f"{_REMOVED_MARK}{line}" if _get_first_entry(line) in wrong else line for line in lines]
    back, known = list[str](), {line.strip() for line in before}
    for entry in reversed(parse_entries(old)):
        text = before[entry.first - 1 : entry.last]
        if gone.isdisjoint(list_entries("\n".join(text))):
            continue
        back.append(" ".join(entry.body.split()))
        _insert_entry(lines, text, _find_parent(before, entry), known)
    return "\n".join(line for line in lines if not line.startswith(_REMOVED_MARK)), back[::-1]


def _get_first_entry(line: str) -> str:
    return next(iter(list_entries(line)), "")


def _find_wrong(old: str, new: str, noted: str) -> set[str]:
    """The entries of a new text that turn one of the old text around, or that say none of them and nothing new."""
    before, after, told = list_entries(old), list_entries(new), list_entries(noted)
    having = Counter(word for entry in [*before, *told] for word in _select_key_words(entry))
    earlier, heard = _LineIndex(before, having), _LineIndex(told, having)
    lines = _LineIndex(after, having)
    saying = {line for entry in dict.fromkeys(before) for line in lines.saying(entry)}
    fresh = set(list_terms(noted)) - set(list_terms(old))
    wrong = set()
    for line in set(after).difference(before):
        used = _select_key_words(line)
        shares = {note: len(used & _select_key_words(note)) / len(used) for note in heard.near(line)}
        if any(share >= _MIN_KNOWN_SHARE and not is_contradiction(line, note) for note, share in shares.items()):
            continue
        turned = any(is_contradiction(line, entry) for entry in earlier.near(line))
        if turned or not (line in saying or not fresh.isdisjoint(list_terms(line))):
            wrong.add(line)
    return wrong


def is_contradiction(line: str, other: str) -> bool:
    """Whether one of two lines denies what the other does not, or some words have changed places."""
    one, two = _find_affirmed_words(line), _find_affirmed_words(other)
    shared, least = one & two, min(len(one), len(two))
    if not shared or len(shared) < min(_MIN_SHARED_WORDS, least) or len(shared) * 2 < least:
        return False
    denied, others = _find_denied_words(line) & shared, _find_denied_words(other) & shared
    if bool(denied) != bool(others) or not (denied <= others or others <= denied):
        return True
    return _has_swapped_words(line, other)


@lru_cache(4096)
def _find_affirmed_words(line: str) -> frozenset[str]:
    """The words of a line but those that deny."""
    return frozenset(list_terms(_DENIAL.sub(" ", line)))


@lru_cache(4096)
def _find_denied_words(line: str) -> frozenset[str]:
    """The words that follow upon one that denies, up to the end of its clause."""
    parts = (_DENIAL.split(clause)[1:] for clause in _CLAUSE.split(line))
    return frozenset(list_terms(" ".join(text for part in parts for text in part)))


def _has_swapped_words(line: str, other: str) -> bool:
    """Whether the words that two lines share are the same, and some stand where they stood and some do not."""
    one, two = _split_ordered_words(line), _split_ordered_words(other)
    here, there = [word for word in one if word in set(two)], [word for word in two if word in set(one)]
    if here == there or len(there) < len(two) or sorted(here) != sorted(there):
        return False
    return any(word == its for word, its in zip(here, there, strict=True))


@lru_cache(4096)
def _split_ordered_words(line: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _ANY_WORD.findall(line))


def _insert_entry(lines: list[str], text: list[str], above: tuple[str, str], known: Collection[str]) -> None:
    """Put an entry into the lines of a text; `above` are the line of the entry that it belongs to, and its heading.

    The lines that are `known` from the old text stay.
    """
    whole = "\n".join(text)
    said, numbers = _select_key_words(whole), set(_find_numbers(_normalize_numbers(whole)))
    for at, line in enumerate(lines):
        bare = line.removeprefix(_REMOVED_MARK)
        used = _select_key_words(bare)
        if not used or bare.strip() in known or _HEADING.match(bare.strip()):
            continue
        part = used <= said and set(_find_numbers(_normalize_numbers(bare))) <= numbers
        if part or (bare != line and len(used & said) >= _MIN_KNOWN_SHARE * len(said)):
            lines[at : at + 1] = text
            return
    parent, heading = above
    for place in filter(None, above):
        if place in lines:
            at = lines.index(place) + 1
            lines[at:at] = text
            return
    text = [parent, *text] if parent else text
    if heading:
        lines += ["", heading, *text]
    else:
        lines[:0] = text


class _Section(NamedTuple):
    """A heading's line, '' at the beginning of a page, and what stands under it, entry by entry."""

    heading: str
    blocks: list[list[str]]


def keep_headings(old: str, new: str, noted: frozenset[str] = frozenset()) -> str:
    """Put a new text under the headings of the old one: all of them, in its order.

    What stands under a heading that both have stays there. What came under none, or under another one, comes under that
    of the old entry that it says; where it says none, it stays under its new heading, or with the entry before it.
    Entries that are only copied, as they were `noted`, come to the entry that they share most with.
    """
    before = _split_sections(old)
    titles = [_get_title(section.heading) for section in before]
    after = _split_sections(new, [title for title in titles if title], old.split("\n"))
    seen = Counter[str]()
    places: list[int | str] = []
    for section in after:
        known = [at for at, title in enumerate(titles) if title == _get_title(section.heading)]
        places.append(known[min(seen[section.heading], len(known) - 1)] if known else section.heading)
        seen[section.heading] += 1
    origins = {
        entry: at for at, one in enumerate(before) for block in one.blocks for entry in list_entries("\n".join(block))
    }
    index = _LineIndex(origins, Counter(word for entry in origins for word in _select_key_words(entry)))
    filled: dict[int | str, list[list[str]]] = {at: [] for at in range(len(before))}
    is_same = places == list(range(len(before)))
    last: int | str = 0
    for place, section in zip(places, after, strict=True):
        for block in section.blocks:
            is_copied = noted.issuperset(list_entries("\n".join(block)))
            said = _find_origins(block, index, origins, 0 if is_copied else _MIN_ORIGIN_SHARE)
            is_kept = place in said or (
                isinstance(place, int) and place and not (said and (is_copied or said[0] not in places))
            )
            last = place if is_kept else said[0] if said else place or last
            is_same = is_same and last == place
            filled.setdefault(last, []).append(block)
    if is_same and [one.heading for one in before] == [one.heading for one in after]:
        return new
    headings = [(one.heading, filled[at]) for at, one in enumerate(before)]
    headings += [(place, blocks) for place, blocks in filled.items() if isinstance(place, str)]
    return "\n\n".join(filter(None, (_join_section(heading, blocks) for heading, blocks in headings)))


def _get_title(line: str) -> str:
    return line.strip(" #*_:-").casefold()


def _split_sections(text: str, titles: Collection[str] = (), known: Collection[str] = ()) -> list[_Section]:
    """Take a text apart by its headings; a line that has only one of the `titles`, and is none that is `known`, is one."""
    entries = parse_entries(text)
    inside = {number for entry in entries for number in range(entry.first, entry.last + 1)}
    first = {entry.first for entry in entries if not entry.indent}
    found = [_Section("", [])]
    for number, line in enumerate(text.split("\n"), 1):
        is_title = number in first and line not in known and _get_title(line) in titles
        if is_title or (number not in inside and _HEADING.match(line.lstrip())):
            while found[-1].blocks and not found[-1].blocks[-1][-1].strip():
                found[-1].blocks[-1].pop()
            found.append(_Section(line.rstrip(), []))
        elif number in first or (line.strip() and not found[-1].blocks):
            found[-1].blocks.append([line])
        elif found[-1].blocks:
            found[-1].blocks[-1].append(line)
    return found


def _find_origins(block: Sequence[str], index: "_LineIndex", origins: Mapping[str, int], least: float) -> list[int]:
    """Where the old entries stand of which a block says this share at `least`; the one that it says most of first."""
    for entry in list_entries("\n".join(block)):
        if entry in origins:
            return [origins[entry]]
        used, near = _select_key_words(entry), index.near(entry)
        words = {one: _select_key_words(one) for one in sorted(near, key=lambda one: -near[one])}
        said = [one for one, its in words.items() if len(used & its) >= least * min(len(used), len(its))]
        if said:
            return [origins[one] for one in said]
    return []


def _join_section(heading: str, blocks: Sequence[Sequence[str]]) -> str:
    """Write a section; a blank line parts what is no item from what stands before it."""
    lines = [heading] if heading else []
    for block in blocks:
        is_item = bool(_MARKER.match(block[0]))
        if lines and not is_item and lines[-1].strip():
            lines.append("")
        lines += block
    return "\n".join(lines).strip("\n")


def _find_parent(lines: Sequence[str], entry: MemoryEntry) -> tuple[str, str]:
    """The line that an indented entry belongs to, '' for none, and the heading that it stands under."""
    earlier = [line.rstrip() for line in lines[: entry.first - 1]]
    heading = next((line for line in reversed(earlier) if _HEADING.match(line.strip())), "")
    outer = (line for line in reversed(earlier) if line.strip() and len(line) - len(line.lstrip()) < entry.indent)
    return next(outer, "") if entry.indent else "", heading


@lru_cache(4096)
def _select_key_words(line: str) -> frozenset[str]:
    """The words that a line is known by; its numbers only where there is nothing else."""
    used = frozenset(list_terms(line))
    return frozenset(word for word in used if not word[0].isdigit()) or used


def _has_numbers(there: Mapping[tuple[str, str], int], wanted: Mapping[tuple[str, str], int]) -> bool:
    """Whether all numbers are there, as often as wanted; a unit may be missing, and may not be another."""
    for (number, unit), times in wanted.items():
        if there.get((number, unit), 0) >= times:
            continue
        alike = [
            count for (other, its), count in there.items() if number == other and (unit == its or not (unit and its))
        ]
        if sum(alike) < times:
            return False
    return True


def _split_clauses(line: str) -> list[tuple[set[str], bool]]:
    """The parts of a line: the words of what each says, and whether it says that it is not so."""
    found = [(set(list_terms(_DENIAL.sub(" ", part))), bool(_DENIAL.search(part))) for part in _CLAUSE.split(line)]
    return [(words, denies) for words, denies in found if words]


def _is_contradicted(entry: str, clauses: Sequence[tuple[set[str], bool]]) -> bool:
    """Whether the clause that is nearest to one of an entry's denies it, or what it denies is no longer denied."""
    for words, denies in _split_clauses(entry):
        near = [(len(words & others), denied == denies) for others, denied in clauses]
        shared, same = max(near, default=(0, True))
        if not same and shared >= max(min(_MIN_SHARED_WORDS, len(words)), _MIN_ENTRY_SHARE * len(words)):
            return True
    return False


def find_fault(old: str, new: str, longest: int) -> str:
    """Say why a new text may not take the place of the old one, '' when it may."""
    after = list_entries(new)
    if not after:
        return "it says nothing that was told"
    if len(after) - len(set(after)) > _MAX_REPEATED_SHARE * len(after):
        return "it repeats itself"
    if len(new) > longest:
        return f"it has {len(new)} characters of at most {longest}"
    if len(new) < _MIN_LENGTH_RATIO * len(old):
        return f"it is shorter than half of what was there: {len(new)} characters of {len(old)}"
    return ""


def quote_lines(lines: Iterable[str]) -> str:
    every = list(lines)
    shown = [truncate(line, MAX_QUOTED_CHARS) for line in every[:_MAX_QUOTED]]
    return "; ".join(shown) + (f"; and {len(every) - _MAX_QUOTED} more" if len(every) > _MAX_QUOTED else "")


def _find_numbers(text: str) -> Iterator[tuple[str, str]]:
    """The numbers, and their units as far as they have one; a little word behind a number is none."""
    for found in _NUMBER.finditer(text):
        unit = found[2] or ""
        yield found[1], unit if unit in {"A", "a"} or list_terms(unit) or not unit.isalpha() else ""


def _find_names(text: str) -> set[str]:
    """Words that begin with a capital, but for the first of each line."""
    found = (word for entry in list_entries(text) for word in _WORD.findall(entry)[1:])
    return {word.casefold() for word in found if word[0].isupper()}


MAX_VERSIONS, MAX_CORRECTIONS = 30, 70
HISTORY_FOLDER = "memory-history"
FORGOTTEN_FILE = f"{HISTORY_FOLDER}/forgotten"
"""Written whenever something was forgotten: from then on no earlier version may have it."""

_LOG = "dreams.log"
_MAX_LOG_BYTES = 64_000


class Correction(NamedTuple):
    """The lines of an entry of the note at `path`, before and after it was corrected."""

    path: str
    before: str
    after: str


def list_versions(home: Path) -> list[Path]:
    """List the earlier versions of MEMORY.md, the newest first. Raises StoreError."""
    return _list_newest(home, "MEMORY-*.md")


def list_corrections(home: Path) -> list[Path]:
    """List the corrections of notes, the newest first. Raises StoreError."""
    return _list_newest(home, "NOTE-*.json")


def list_restorable(home: Path) -> list[Path]:
    """List all that can be taken back, the newest first. Raises StoreError."""
    return _list_newest(home, "MEMORY-*.md", "NOTE-*.json")


def _list_newest(home: Path, *names: str) -> list[Path]:
    def get_key(path: Path) -> tuple[str, int]:
        """The stamp, and the number of those of one second."""
        _, stamp, *number = path.stem.split("-")
        return stamp, int(number[0]) if number and number[0].isdecimal() else 1

    folder = home / HISTORY_FOLDER
    with explain_failure(f"{folder} cannot be read"):
        return sorted((path for name in names for path in folder.glob(name)), key=get_key, reverse=True)


def find_version(home: Path, number: int) -> Path:
    """Find what can be taken back by its number, 1 for the newest. Raises StoreError."""
    found = list_restorable(home)
    if not 1 <= number <= len(found):
        known = f"1 to {len(found)}" if found else "none"
        raise StoreError(f"there is no earlier version {number} of MEMORY.md; there is {known}")
    return found[number - 1]


def forget_versions(home: Path, text: str) -> None:
    """Take the entries that say exactly this out of what is kept, and the words out of the log. Raises StoreError.

    With an entry goes what it said before it was corrected.
    """
    gone = {make_comparison_key(text): text}
    left = {path: _map_entries(read_correction(path)) for path in list_corrections(home)}
    while hit := next((path for path, said in left.items() if not gone.keys().isdisjoint(said)), None):
        gone |= left.pop(hit)
        with explain_failure(f"{hit} cannot be deleted", "; delete it by hand"):
            remove_file(hit)
    for said in dict.fromkeys([text, *gone.values()]):
        _forget_text(home, said)
    with explain_failure(f"{home / FORGOTTEN_FILE} cannot be written"):
        make_folder(home / HISTORY_FOLDER)
        write_atomic(home / FORGOTTEN_FILE, b"")  # a store that is shared has its own earlier versions


def _map_entries(correction: Correction) -> dict[str, str]:
    bodies = [entry.body for text in correction[1:] for entry in parse_entries(text)]
    return {make_comparison_key(body): body for body in bodies}


def _forget_text(home: Path, said: str) -> None:
    for path in [*(home / HISTORY_FOLDER).glob("MEMORY-*"), home / HISTORY_FOLDER / _LOG]:
        with explain_failure(f"{path} cannot be written", "; delete it by hand"):
            try:
                old = read_file(path).decode("utf-8", "surrogateescape")
            except FileNotFoundError:
                continue
            if path.name == _LOG:
                whole = " ".join(said.split())
                shown = re.escape(truncate(whole, MAX_QUOTED_CHARS).removesuffix("…"))
                shown += "[^…]{0,2}" * (len(whole) > MAX_QUOTED_CHARS)  # lines of earlier versions hold that much more
                quoted = rf"(?<=[:;(] ){shown}(?=[…;,)]|$)|(?<=\(){shown}(?=[…;,)])"
                new = re.sub(quoted, "[forgotten]", old, flags=re.MULTILINE)
            else:
                new = _remove_entries(old, said, is_diff=path.suffix == ".diff")
            if new != old:
                write_atomic(path, new.encode("utf-8", "surrogateescape"))


def _remove_entries(text: str, said: str, *, is_diff: bool) -> str:
    """Leave out the entries that say something; each line of a diff begins with a sign."""
    lines, wanted = split_lines(text), make_comparison_key(said)
    bare = "".join(line[1:] or line for line in lines) if is_diff else text
    entries = [entry for entry in parse_entries(bare) if make_comparison_key(entry.body) == wanted]
    gone = {number for entry in entries for number in range(entry.first, entry.last + 1)}
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def keep_version(home: Path, name: str, old: bytes, new: bytes, now: datetime) -> Path:
    """Keep the old bytes of the page `name` and their difference to the new, durably; returns where. Raises OSError."""
    folder = home / HISTORY_FOLDER
    make_folder(folder)
    newest = next(iter(list_versions(home)), None)
    is_kept = newest is not None and read_file(newest) == old  # the write that this was kept for did not happen
    stem = newest.stem if newest and is_kept else _create_numbered(folder, "MEMORY", now, old, ".md")
    diff = diff_texts(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"), name, name)
    (folder / f"{stem}.diff").unlink(missing_ok=True)
    create_file(folder / f"{stem}.diff", diff.encode("utf-8", "replace"))
    prune_versions(home, spared=stem)
    return folder / f"{stem}.md"


def _create_numbered(folder: Path, kind: str, now: datetime, data: bytes, suffix: str) -> str:
    """Write the data under a name that is free; returns it."""
    stem = f"{kind}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    for name in [stem, *(f"{stem}-{number}" for number in range(2, 1000))]:
        if create_file(folder / f"{name}{suffix}", data):
            return name
    raise FileExistsError(0, f"there are too many versions {stem}", str(folder))


def prune_versions(home: Path, spared: str = "") -> int:
    """Drop the oldest of more than 30, but never `spared`; returns how many. A clock may be wrong. Raises OSError."""
    old = [path for path in list_versions(home) if path.stem != spared][MAX_VERSIONS - bool(spared) :]
    for path in old:
        path.with_suffix(".diff").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(old)


def keep_correction(home: Path, correction: Correction, now: datetime) -> None:
    """Keep what a correction replaces, durably; the oldest of more than 70 go. Raises OSError."""
    folder = home / HISTORY_FOLDER
    make_folder(folder)
    data = json.dumps(correction._asdict(), ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape")
    _create_numbered(folder, "NOTE", now, data, ".json")
    for path in list_corrections(home)[MAX_CORRECTIONS:]:
        path.unlink(missing_ok=True)


def read_correction(path: Path) -> Correction:
    """Read what a correction has replaced. Raises StoreError."""
    try:
        with explain_failure(f"{path} cannot be read"):
            found = json.loads(read_file(path).decode("utf-8", "surrogateescape"))
        return Correction(str(found["path"]), str(found["before"]), str(found["after"]))
    except (ValueError, LookupError, TypeError):
        raise StoreError(f"{path} is damaged; it can be deleted") from None


def log_dream(home: Path, now: datetime, said: str) -> None:
    """Write down what a dream did, durably; when the record is too long its older half goes. Raises OSError."""
    path = home / HISTORY_FOLDER / _LOG
    check_reserve("records", home)
    make_folder(path.parent)
    append_line(path, f"{now:%Y-%m-%d %H:%M} {' '.join(said.split())}\n".encode("utf-8", "replace"))
    if path.stat().st_size > _MAX_LOG_BYTES:
        write_atomic(path, read_file(path)[-_MAX_LOG_BYTES // 2 :].partition(b"\n")[2])


def read_dream_log(home: Path) -> list[str]:
    """List what dreams did, a line each, the newest first. Raises StoreError."""
    path = home / HISTORY_FOLDER / _LOG
    with explain_failure(f"{path} cannot be read"):
        try:
            return read_file(path).decode("utf-8", "replace").splitlines()[::-1]
        except FileNotFoundError:
            return []
