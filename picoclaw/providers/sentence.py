"""A sentence as words, and the readers that turn some of them into values: numbers, times of day, names, files."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from picoclaw.providers.nearest import ADDRESS, amount, is_file

MAX_CHARS = 4000  # a note may be longer than this, a request is not
MAX_WORDS = 64
SLOT_KINDS = frozenset(
    {"address", "choice", "dir", "file", "folder", "label", "name", "number", "percent", "seconds", "text", "time"}
)

Words = Mapping[str, Mapping[str, Any]]
Found = dict[str, Any]
Hit = tuple[Any, int]

_WORD = re.compile(r"[^\s,;!?\"()\[\]{}<>*`“”„…]+")
_GLUED = re.compile(r"(\d+(?:[.:]\d+)?)([a-z]+)")
_DIGITS = re.compile(r"\d{1,9}", re.ASCII)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?|[a-z]+(?: [a-z]+)?) ?(?:%|percent|per cent)(?= |$)", re.ASCII)
_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]*")
_JOINTS = frozenset({"and", "&", "plus"})
_CLAUSE = frozenset(",.;:!?")
_SIGNS = frozenset("+-|=")
_TRIM = " \t\r\n.,;:?\"'“”"


class Slot(NamedTuple):
    """A part of a sentence that becomes an argument; `kind` says how it is read."""

    name: str
    kind: str
    values: Mapping[str, str]
    never: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    part: str = ""
    whole: bool = False


class Sentence:
    """A text and its words in lower case, with where each came from."""

    def __init__(self, raw: str, words: Words) -> None:
        """Short forms ("what's", "90s", "half-past") become several words with one origin."""
        self.raw, self.words = raw, list[str]()
        self.starts: list[int] = []
        self._hits: dict[tuple[int, int], Hit | None] = {}
        expand, glue = words["expand"], words["units"].keys() | words["parts"].keys()
        for found in _WORD.finditer(raw[:MAX_CHARS]):
            word = found[0].lower().replace("’", "'").lstrip("':=+|-").rstrip("':=+|-.")
            glued = _GLUED.fullmatch(word)
            if word in expand:
                parts = expand[word].split()
            elif glued and glued[2] in glue:
                parts = [glued[1], glued[2]]
            elif "-" in word and word.replace("-", "").isalpha():
                parts = word.replace("-", " ").split()
            else:
                parts = [word] if word else []
            self.words += parts
            self.starts += [found.start()] * len(parts)
        del self.words[MAX_WORDS:]
        self.spelt = tuple(self.words)
        self.asks = raw.rstrip()[-1:] == "?"

    def respell(self, known: Collection[str], fix: Callable[[str], str]) -> None:
        """Mend the words that are not known, but for names; what was written stays as it is for free text."""
        for i, word in enumerate(self.words):
            if word not in known and word.isalpha() and not (i and self.raw[self.starts[i]].isupper()):
                self.words[i] = fix(word)

    def text(self, first: int, end: int) -> str:
        """The words from `first` up to `end` as they were written; the last word brings all that follows."""
        stop = self.starts[end] if end < len(self.words) else len(self.raw)
        return self.raw[self.starts[first] : stop].strip(_TRIM)

    def after_comma(self, i: int) -> bool:
        """Whether word `i` begins a new clause."""
        return 0 < i < len(self.words) and self.raw[: self.starts[i]].rstrip()[-1:] in _CLAUSE

    def longest(self, table: Mapping[str, Any], i: int) -> Hit | None:
        """The value of the longest phrase of `table` that stands at word `i`, and where it ends."""
        key = (id(table), i)
        if key not in self._hits:
            self._hits[key] = self._longest(table, i)
        return self._hits[key]

    def _longest(self, table: Mapping[str, Any], i: int) -> Hit | None:
        for end in range(min(i + 5, len(self.words)), i, -1):
            phrase = " ".join(self.words[i:end])
            if phrase in table:
                return table[phrase], end
        return None

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether any phrase of `table` occurs."""
        return any(self.longest(table, i) for i in range(len(self.words)))


class Reader:
    """Reads slots out of a sentence: every reading is (value, index behind it), the likeliest first."""

    def __init__(self, words: Words) -> None:
        """`words`: the tables of numbers, units and times of day."""
        self._words = words

    def read(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        """Every reading of `slot` that begins at word `i`."""
        reader: Callable[[Slot, Sentence, int], Iterator[Hit]] = getattr(self, f"_{slot.kind}")
        return reader(slot, s, i) if i < len(s.words) else iter(())

    @staticmethod
    def _text(slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        first = i
        while first < len(s.words) - 1 and s.words[first] in slot.drop:
            first += 1
        for end in range(first + 1, len(s.words) + 1):
            yield s.text(first, end), end

    @staticmethod
    def _choice(slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        hit = s.longest(slot.values, i)
        while hit:  # "co2 ppm" says one thing twice, "temperature, humidity" is no single choice
            yield hit
            value, end = hit
            joint = end < len(s.words) and s.words[end] in _JOINTS
            hit = s.longest(slot.values, end + joint)
            if hit and hit[0] != value:
                hit = ("", hit[1]) if joint or s.after_comma(end) else None

    def _name(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        yield from self._choice(slot, s, i)
        for end in range(i + 1, min(i + 3, len(s.words)) + 1):
            word = s.words[end - 1]
            foreign = end > 1 and word not in slot.values and s.text(end - 1, end)[:1].isupper()
            if foreign or word in slot.never or word in self._words["polite"] or not word[0].isalnum():
                return  # "in Berlin" is no place of the owner's
            yield s.text(i, end).lower(), end

    @staticmethod
    def _label(slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        """A name of the owner's, never mended: "grow light 2" is grow_light_2. `before`, if given, has its noun."""
        for end in range(i + 1, min(i + 3, len(s.words)) + 1):
            words = s.spelt[i:end]
            if words[-1] in slot.never or not words[0][0].isalpha() or not _LABEL.fullmatch(words[-1]):
                return
            noun = words[-1] if len(words) == 1 or not words[-1].isdigit() else words[-2]
            if not slot.before or noun in slot.before or not noun.isalpha():
                yield "_".join(words), end

    def _file(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        if is_file(s.words[i], self._words["filenames"]):
            yield s.text(i, i + 1), i + 1
        yield from self._choice(slot, s, i)

    def _folder(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        yield from self._choice(slot, s, i)
        if s.words[i] not in slot.never and not is_file(s.words[i], self._words["filenames"]):
            yield s.text(i, i + 1), i + 1

    def _dir(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        word = s.words[i]
        path = word[-1] == "/" or ("/" in word and word[0] in "/~.")
        yield from self._folder(slot, s, i) if path else self._choice(slot, s, i)

    @staticmethod
    def _address(_slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        if ADDRESS.fullmatch(s.words[i]):
            yield int(s.words[i], 16), i + 1

    def _number(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        word = s.words[i].lstrip("#")
        value = int(word) if _DIGITS.fullmatch(word) else self._words["numbers"].get(word)
        if isinstance(value, int):
            yield value, i + 1
        if not slot.before:  # nobody counts bytes in hex
            yield from self._address(slot, s, i)

    def _time(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        near = s.words[i : i + 12]
        if not (near[0] in self._timely or near[0][0].isdigit()) or s.holds(self._words["calendar"]):
            return  # a reminder without its "every day" or "on Friday" would come at the wrong time
        tail = " ".join(near)
        for read in (self._duration, self._clock):
            value, end = read(tail, slot.part)
            if value:
                yield value, i + len(tail[:end].split())

    @cached_property
    def _timely(self) -> frozenset[str]:
        tables = ("joins", "within", "at", "on", "numbers", "days", "parts", "hours", "offsets")
        return frozenset(phrase.split()[0] for table in tables for phrase in self._words[table])

    @cached_property
    def _whole(self) -> dict[str, int]:
        return {word: value for word, value in self._words["numbers"].items() if isinstance(value, int)}

    @cached_property
    def _span(self) -> re.Pattern[str]:
        joins, numbers, halves, units, later = (
            _either(self._words[table]) for table in ("joins", "numbers", "halves", "units", "from_now")
        )
        return re.compile(
            rf"(?:(?:{joins}) )*(?P<n>\d{{1,6}}(?:\.\d{{1,3}})?|(?:{numbers})(?: (?:{numbers}))?)"
            rf"(?P<before> (?:{halves}))? (?P<unit>{units})(?P<after> (?:{halves}))?(?: (?:{later}))?(?:(?= )|$) ?",
            re.ASCII,
        )

    @cached_property
    def _bare(self) -> re.Pattern[str]:
        inside, numbers = _either(self._words["within"]), _either(self._whole)
        return re.compile(
            rf"(?:{inside}) (?P<n>\d{{1,3}}|{numbers})(?=$| (?:{_either(self._words['to'])})(?: |$))", re.ASCII
        )

    def _seconds(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        """How long: "90 s", "half an hour"; with none of the words in `never`, which tell when."""
        for value, end in self._time(slot, s, i):
            if "at_seconds" in value and s.raw[s.starts[i]] not in _SIGNS and slot.never.isdisjoint(s.words[i:end]):
                yield value["at_seconds"], end

    def _percent(self, _slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        found = _PERCENT.match(" ".join(s.words[i : i + 4]))
        value = amount(found[1], self._words["numbers"]) if found and s.raw[s.starts[i]] not in _SIGNS else 0.0
        if found and value:
            yield f"{value:g}", i + len(found[0].split())

    def _duration(self, tail: str, _part: str) -> tuple[Found, int]:
        """Seconds from now: "in 90 s", "half an hour", "one hour and ten minutes"."""
        seconds, end = 0.0, 0
        while found := self._span.match(tail, end):
            halves = bool(found["before"]) + bool(found["after"])
            seconds += (amount(found["n"], self._words["numbers"]) + halves / 2) * self._words["units"][found["unit"]]
            end = found.end()
        if not end and (bare := self._bare.match(tail)):  # "in 20" is minutes
            seconds, end = amount(bare["n"], self._words["numbers"]) * 60, bare.end()
        return ({"at_seconds": int(seconds) if seconds.is_integer() else seconds} if seconds else {}), end

    @cached_property
    def _moment(self) -> re.Pattern[str]:
        at, on, days, parts, past, hours, oclock = (
            _either(self._words[table]) for table in ("at", "on", "days", "parts", "offsets", "hours", "oclock")
        )
        numbers, units = _either(self._whole), _either(self._words["units"])
        return re.compile(
            rf"(?:(?:{on}) )*(?P<at>(?:{at}) )*(?:(?P<day>{days}|\d{{4}}-\d\d-\d\d)|(?P<part>{parts})|"
            rf"(?P<past>(?:{past}) )?(?:(?P<fixed>{hours})|(?P<hour>\d\d?|{numbers})(?P<minute>[:.][0-5]\d)?"
            rf"(?! (?:{units})(?: |$)))"
            rf"(?P<oclock> (?:{oclock})|(?= (?:{parts})(?: |$)))?)(?:(?= )|$) ?",
            re.ASCII,
        )

    def _clock(self, tail: str, part: str) -> tuple[Found, int]:
        """A time of day: "18:30", "tomorrow 07:30" or "2026-12-01 08:00"."""
        found: dict[str, str] = {}
        end = 0
        while piece := self._moment.match(tail, end):
            new = {name: text for name, text in piece.groupdict().items() if text is not None}
            bare = "hour" in new and not new.keys() & {"at", "past", "minute", "oclock"}
            if bare or (found.keys() & new.keys()) - {"at", "oclock"}:
                break
            found, end = found | new, piece.end()
        when = self._resolve(found, part) if end else ""
        return ({"at": when} if when else {}), end

    def _resolve(self, found: dict[str, str], part: str) -> str:
        half, clock = self._words["parts"].get(found.get("part", part), ("", "09:00"))
        hour = self._words["hours"].get(found.get("fixed", ""))
        if hour is None and "hour" in found:
            hour = _of_day(int(amount(found["hour"], self._words["numbers"])), half, exact="minute" in found)
        if hour is not None:
            minutes = hour * 60 + int(found.get("minute", ":0")[1:])
            minutes += self._words["offsets"].get(found.get("past", "").strip(), 0)
            if hour > 24:
                return ""
            clock = f"{minutes // 60 % 24:02}:{minutes % 60:02}"
        day = self._words["days"].get(found.get("day", ""), found.get("day", ""))
        return f"{day} {clock}".strip()


def _of_day(hour: int, half: str, *, exact: bool) -> int:
    """The hour of 24. "half past six" is 18:30 unless "morning" or waking is in it: one to six without "am" is the
    afternoon, as few people mean to be reminded at night. "6:30" in digits is taken as it stands.
    """
    if half == "am":
        return 0 if hour == 12 else hour
    afternoon = half == "pm" or (not half and not exact and 1 <= hour <= 6)
    return hour + 12 if afternoon and hour < 12 else hour


def _either(table: Mapping[str, Any]) -> str:
    return "|".join(re.escape(phrase) for phrase in sorted(table, key=len, reverse=True)) or r"(?!)"
