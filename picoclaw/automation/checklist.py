"""HEARTBEAT.md as a checklist: items, their times and conditions, and which of them are due."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from picoclaw.automation.conditions import (
    FileCondition,
    Missing,
    SensorCondition,
    Threshold,
    ValueChange,
    get_unit,
    has_changed,
    is_beyond,
    parse_check,
)
from picoclaw.errors import DeviceMissing, HardwareError, StoreError
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.reading import WiredPart
from picoclaw.markdown import find_hidden
from picoclaw.messages import ToolCall, ToolRun
from picoclaw.records import NamedTuple, dataclass
from picoclaw.schedules import REPEAT_EXAMPLES, Plan, list_occurrences, parse_repeat
from picoclaw.store import database
from picoclaw.store.database import Database
from picoclaw.store.jobs import ChecklistItemState
from picoclaw.store.samples import Samples, Series
from picoclaw.text import pattern, remove_invisible
from picoclaw.times import format_duration

MIN_INTERVAL_S = 300.0


def parse_timing(text: str) -> Plan | None:
    """Read what stands in brackets; None when it is no time at all. Raises ValueError when it is a wrong one."""
    plan = parse_repeat(text)
    if plan and plan.kind == "every" and plan.seconds < MIN_INTERVAL_S:
        raise ValueError(f"{text!r} is too often: every 5 minutes at most")
    return plan


_REPEATS = pattern(r"(?:every|each|hourly|daily|nightly|weekly)\b", re.IGNORECASE)
_CONTINUATION = pattern(r"(?:and|or|to|until|till|except|but|from)\b|[\d&/+-]", re.IGNORECASE)
_LONGEST_PHRASE = 8  # words
_MARKS = " \t.,:;–—-"


def split_timing(text: str) -> tuple[str, Plan | None]:
    """Split off a repeating time that a text begins or ends with: "Every morning: look", "look every 2 hours".

    Raises ValueError where more than one time follows.
    """
    words = text.split()
    starts = [at for at in range(max(0, len(words) - _LONGEST_PHRASE), len(words)) if _REPEATS.match(words[at])]
    for start in dict.fromkeys([0, *starts[-1:]]) if words else ():
        end, plan = _find_longest(words, start)
        if plan is None:
            continue
        if end < len(words) and _CONTINUATION.match(words[end]):
            raise ValueError(
                f"{text!r} says more than one time or a span; write a line for each, like {REPEAT_EXAMPLES}"
            )
        if start == 0 or end == len(words):
            return " ".join([*words[:start], *words[end:]]).strip(_MARKS) or text, plan
    return text, None


def _find_longest(words: Sequence[str], start: int) -> tuple[int, Plan | None]:
    """The longest time that begins at a word, and the word after it."""
    if _REPEATS.match(words[start]):
        for end in range(min(len(words), start + _LONGEST_PHRASE), start, -1):
            with suppress(ValueError):
                if plan := parse_timing(" ".join(words[start:end]).strip(_MARKS)):
                    return end, plan
    return start, None


def find_next_due(plan: Plan, after: datetime) -> datetime:
    """Find the first due moment after one that is handed in, in its zone; raises ValueError when that is not known."""
    zone = after.tzinfo
    name = getattr(zone, "key", None) or (str(zone) if str(zone).startswith("UTC") else "")  # CET is the board's own
    slot = list_occurrences(plan._replace(zone=name, anchor=after.timestamp()), after, 1)[0]
    return slot.moment.astimezone(zone)


# Reads HEARTBEAT.md: items to look after, ticked or not, with a time or a condition, and instructions beside them.
#
# What has a box or a condition is an item. A line that begins by saying how to behave ("Never", "Do not", "Only", "Be",
# "Use", "Remember"), or says what to answer when all is well, is an instruction; so is what stands under a heading such
# as "Instructions" or "Never open", and a row of a table. Any other line of a list is an item, and in a file without any
# list any other line. A time makes an item of a line too, unless the line forbids something. What is neither item nor
# done is an instruction, which a model is shown with the items that are due: no line is dropped. A line with a wrong
# time or condition is named with its number, and counts as plain text.

_FRONT_MATTER = pattern(r"---[ \t]*\n(?:(?:[^\W\d][\w-]*:|[ \t#])[^\n]*\n|\n)+(?:---|\.\.\.)[ \t]*(?=\n|\Z)")
_UNDERLINE = pattern(r" {0,3}(?:(=+)|-{2,})\s*$")
_TABLE = pattern(r"\s*\|.*\|\s*$")
_DASHES = pattern(r"[\s|:-]+")
_HEADING = pattern(r" {0,3}#{1,6}\s+(.*?)[\s#]*$|\s*#{1,6}\s*$")
_BULLET = pattern(r"(\s*)(?:[-*+•]|\d{1,9}[.)])\s+(.*)")
_BOX = pattern(r"\[\s*([^\s\]]?)\s*\](?:\s+|$)|\[([xX✓✔])\](?![(\[:])|(?:([☑✅✔✓])|☐)\ufe0f?\s*")
_HORIZONTAL_RULE = pattern(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|={3,})$")
_FENCE = pattern(r"\s*(?:```|~~~)")
_BRACKETS = pattern(r"\s*\(([^()]{1,80})\)\s*$")
_WHEN = pattern(r"(?:^|\s)when:\s*", re.IGNORECASE)
_INSTRUCTION_HEADING = pattern(
    r"(?:how|about|instructions?|guidelines?|rules|notes?|examples?|format|tone|style)\b"
    r"|.*\b(?:instructions?|guidelines?|rules|examples?|format)\W*$",
    re.IGNORECASE,
)
_FORBIDS = pattern(
    r"(?:please |just )*(?:(?:do not|don't|dont) (?!forget|miss)|(?:never|no|not|avoid|without|only)\b"
    r"|(?:remember|note)(?:$|:| that\b))",
    re.IGNORECASE,
)
"""How a line or a label begins that forbids something, or tells a fact: what is listed below it is no work either."""
_BEHAVIOUR = pattern(
    r"(?:please |just |always )*(?:(?:be|use|speak|prefer|assume|i am|i'm|we are|we're)\b"
    r"|keep (?:in mind\b|(?:it|them|this|everything|\w+s) (?:short|brief|simple|small|concise|polite|friendly)\b)"
    r"|(?:write|answer|reply|respond|say|talk|tell me)"
    r" (?:only|just|with|in|as|at most|no|not|nothing|briefly|shortly|\w+ly|[\"'“`])|stay (?:quiet|silent|brief)\b)",
    re.IGNORECASE,
)
_STRIKETHROUGH = pattern(r"~~[^~]+~~\W*")
_TOKEN = pattern(
    r"\bheartbeat[_ ]?ok\b|[\"“`](?P<quoted>[^\n\"“”`]{1,300})[\"”`]|(?<!\w)['‘](?P<single>[^\n'’]{1,300})['’](?!\w)"
    r"|(?<![\w*])\*{1,2}(?P<strong>[^\s*][^\n*]{0,300})\*|:\s*(?P<rest>[^\s\"“`'‘*][^\n]{0,299})"
    r"|\b(?P<capitals>(?-i:[A-Z][A-Z_]{1,40}(?: [A-Z_]{2,40}){0,7})\b)",
    re.IGNORECASE,
)
_SAY_VERB = pattern(r"\b(?:answer|reply|respond|response|say)\b", re.IGNORECASE)
_ALL_WELL = pattern(
    r"\bnothing\b(?! (?:(?:is|was) )?(?:in|on|at|from|inside|under|left|else)\b)"
    r"|\bno (?:\w+ )?(?:news|problems?|issues?|alerts?|changes?|trouble)\b"
    r"|\b(?:all|everything|things)(?:'s| is| are| be| looks?| seems?)?(?: all)?"
    r" (?:well|fine|good|ok|okay|quiet|calm|normal|right|clear|in order)\b",
    re.IGNORECASE,
)
_ANSWER = pattern(r"(?:answer|reply|response):\s*(\S[^\n]{0,299})", re.IGNORECASE)


class ChecklistItem(NamedTuple):
    """An open line: its words without mark, time and condition, and the heading that it stands under.

    `whole` has its time and condition as well; `key` stays the same while the line does, wherever in the file it goes.
    """

    line: int
    text: str
    key: str
    heading: str = ""
    timing: Plan | None = None
    when: SensorCondition | FileCondition | None = None
    whole: str = ""


class Checklist(NamedTuple):
    """The parsed file. `answer` is the reply that it asks for when there is nothing to report, '' for the default."""

    items: tuple[ChecklistItem, ...] = ()
    done: int = 0
    problems: tuple[str, ...] = ()
    instructions: str = ""
    answer: str = ""


class _ChecklistRow(NamedTuple):
    line: int
    mark: str  # what is in the box: '' nothing or no box
    words: list[str]
    heading: str
    kind: Literal["boxed", "listed", "plain", "table", "label"]
    section: str  # the heading that it stands under, where `heading` may be a label such as "Every morning:"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def parse_checklist(text: str) -> Checklist:
    """Read the text of the file; whatever is in it, nothing is raised."""
    rows = [row for row in _parse_rows(_strip_comments(text)) if row.mark or row.text]
    has_list = any(row.kind in {"boxed", "listed"} for row in rows)
    items, problems, others = list[ChecklistItem](), list[str](), list[_ChecklistRow]()
    for row in rows:
        if row.mark:
            continue
        try:
            item = _parse_item(row, row.text)
        except ValueError as error:
            item = ChecklistItem(row.line, row.text, _make_key(row.text), row.heading, whole=row.text)
            problems.append(f"HEARTBEAT.md line {row.line}: {error}; until then it counts as plain text")
        else:
            if _is_instruction(row, item, has_list=has_list):
                others.append(row)
                continue
        items.append(item if item.timing or item.when else item._replace(timing=_parse_heading_time(row.heading)))
    answers = filter(None, (_parse_quiet_answer(row.text) for row in others if row.kind != "table"))
    lines = {"label": "", "listed": "- {}"}
    instructions = join_under_headings((row.heading, lines.get(row.kind, "{}").format(row.text)) for row in others)
    return Checklist(tuple(items), sum(1 for row in rows if row.mark), tuple(problems), instructions, next(answers, ""))


def _is_instruction(row: _ChecklistRow, item: ChecklistItem, *, has_list: bool) -> bool:
    if row.kind in {"table", "label"}:
        return True
    if row.kind == "boxed" or item.when:
        return False
    above = (row.section, row.heading)
    if _FORBIDS.match(row.text) or any(_FORBIDS.match(words) for words in above):
        return True
    if item.timing:
        return False
    if (
        any(_INSTRUCTION_HEADING.match(words) for words in above)
        or _BEHAVIOUR.match(row.text)
        or _parse_quiet_answer(row.text)
    ):
        return True
    return row.kind == "plain" and has_list


def join_under_headings(rows: Iterable[tuple[str, str]]) -> str:
    """Put lines, each with its heading ('' for none), below one another; '' in the place of a line is the heading alone."""
    lines, above = list[str](), ""
    for heading, line in rows:
        if heading != above:
            above = heading
            lines += [f"{heading}:"] if heading else []
        lines += [line] if line else []
    return "\n".join(lines)


def _parse_quiet_answer(text: str) -> str:
    """The answer that a line wants when all is well, '' for a line that says none.

    It names the words of the answer, in quotes, marks or capitals, and the case, in any order.
    """
    if found := _ANSWER.match(text):
        return found[1].strip(" *_`\"“”'")
    said = _SAY_VERB.search(text)
    token = (_TOKEN.search(text, said.end()) if said else None) or _TOKEN.search(text)
    if token is None:
        return ""
    words = next(filter(None, token.groups()), token[0]).strip(" *_.,!")
    is_usual = token[0].lower().startswith("heartbeat")
    rest = f"{text[: token.start()]} , {text[token.end() :]}"
    return words if is_usual or (said and _ALL_WELL.search(rest)) else ""


def _strip_comments(text: str) -> str:
    """Remove comments and front matter, but keep their line feeds, so that line numbers stay right."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept, at = [], 0
    for hidden in find_hidden(text, trusting=True):
        kept += [text[at : hidden.start], "\n" * text.count("\n", hidden.start, hidden.end)]
        at = hidden.end
    whole = remove_invisible("".join([*kept, text[at:]]))
    front = _FRONT_MATTER.match(whole)
    return "\n" * front[0].count("\n") + whole[front.end() :] if front else whole


def _parse_rows(text: str) -> list[_ChecklistRow]:
    """Put lines together: what is indented below an item belongs to it, unless it has a box of its own.

    So does a line right below that goes on in a small letter. A line that ends with a colon is a label over the list
    that follows it, and a rule ends what stands under a heading.
    """
    rows: list[_ChecklistRow] = []
    section, heading, indent, in_code, going = "", "", 0, False, False
    lines = text.split("\n")
    underlined = -1
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        in_code = in_code != bool(fence)
        if _HORIZONTAL_RULE.match(line) and number != underlined and not in_code:
            section, heading, going = "", "", False
        if fence or _HORIZONTAL_RULE.match(line) or line.strip() in {"", "-", "*", "+", "•"}:
            continue
        titled = None if in_code else _parse_title(lines, number - 1)
        if titled is not None:
            underlined = -1 if _HEADING.fullmatch(line) else number + 1
            section = heading = titled
            going = False
            rows += _make_label(number, titled)
            continue
        if _TABLE.match(line) and not in_code:
            cells = ["" if _DASHES.fullmatch(line) else line.strip()]
            rows.append(_ChecklistRow(number, "", cells, section, "table", section))
            going = False
            continue
        bullet = _BULLET.fullmatch(line)
        words = bullet[2] if bullet else line.strip()
        box = _BOX.match(words) if bullet or words[0] in "☑☐✅" else None
        mark = next(filter(None, box.groups()), "") if box else ""
        deep = len(line) - len(line.lstrip())
        is_wrapped = not bullet and words[0].islower() and bool(lines[number - 2].strip()) and rows[-1:] != []
        is_wrapped = is_wrapped and not _parse_quiet_answer(words)
        if going and not box and (in_code or deep > indent or (is_wrapped and rows[-1].kind != "plain")):
            rows[-1].words.append(words)
            continue
        if not bullet and not box and not in_code and words.endswith(":") and _is_over_list(lines, number):
            heading, going = words.rstrip(":").strip(), False
            rows += _make_label(number, heading)
            continue
        if _STRIKETHROUGH.fullmatch(words[box.end() :] if box else words):
            mark = "~"
        kind: Literal["boxed", "listed", "plain"] = "boxed" if box else "listed" if bullet else "plain"
        heading = section if kind == "plain" and not in_code else heading
        rows.append(_ChecklistRow(number, mark, [words[box.end() :] if box else words], heading, kind, section))
        indent, going = deep, True
    return rows


def _make_label(line: int, words: str) -> list[_ChecklistRow]:
    """A heading that says how to behave, which a model is to see whether or not anything below it is due."""
    is_instruction = _FORBIDS.match(words) or _BEHAVIOUR.match(words)
    return [_ChecklistRow(line, "", [words], words, "label", words)] if is_instruction else []


def _is_over_list(lines: Sequence[str], after: int) -> bool:
    """Whether the next line that is not blank is a list item, or there is none."""
    below = next((lines[at] for at in range(after, len(lines)) if lines[at].strip()), "")
    return not below or bool(_BULLET.fullmatch(below)) or below.lstrip()[0] in "☑☐✅"


def _parse_title(lines: Sequence[str], at: int) -> str | None:
    """The text of a heading; None for a line that may be an item."""
    line = lines[at]
    if titled := _HEADING.fullmatch(line):
        return titled[1] or ""
    if _TABLE.match(line):
        return None
    under = _UNDERLINE.match(lines[at + 1]) if at + 1 < len(lines) else None
    alone = at == 0 or not lines[at - 1].strip()
    if under and (under[1] or alone) and line == line.lstrip() and not _BULLET.fullmatch(line):
        return line.strip()
    return None


def _parse_item(row: _ChecklistRow, words: str) -> ChecklistItem:
    """Parse an item; raises ValueError for a wrong time or condition."""
    text, found, condition = words, _WHEN.search(words), ""
    if found:
        text, condition = words[: found.start()], words[found.end() :]
    text, first = _split_bracketed(text)
    condition, second = _split_bracketed(condition)
    if first and second:
        raise ValueError("it has two times; leave one out")
    wanted = parse_check(condition) if found else None
    if not (found or first):
        text, first = split_timing(text)
    return ChecklistItem(
        row.line, text.strip(" ,;–—") or condition, _make_key(words), row.heading, first or second, wanted, words
    )


def _split_bracketed(text: str) -> tuple[str, Plan | None]:
    """Split off a time in brackets at the end; other brackets stay in the text."""
    found = _BRACKETS.search(text)
    plan = parse_timing(found[1]) if found else None
    return (text[: found.start()], plan) if found and plan else (text, None)


def _parse_heading_time(heading: str) -> Plan | None:
    """The time of all that stands under a heading: "Every morning", "Greenhouse (hourly)"; None for no time."""
    try:
        return _split_bracketed(heading)[1] or split_timing(heading)[1] or parse_timing(heading)
    except ValueError:
        return None


def _make_key(words: str) -> str:
    import hashlib

    return hashlib.sha256(words.encode()).hexdigest()[:16]


# Which lines of the checklist are due, without a model: by their times, their conditions, or what they name.
#
# A line with neither is due when it is new or changed, when a sensor or a file that it names is no longer as it was, and
# a day after it was asked about last.

_MIN_CHANGES = {"temperature": 2.0, "humidity": 10.0, "pressure": 5.0, "level": 0.5}
_MIN_RELATIVE_CHANGE = 0.2
"""How much a value has to change to be worth a question: by quantity, else in proportion."""

_RECHECK_S = 300.0
"""How long after its time a condition that does not hold is looked at once more."""

_REPEAT_S = 86_400.0
"""When a line that gives no time is asked about again."""

_FILE_MENTION = pattern(r"`([^`\n]{1,200})`|(?<![\w/.-])((?:[\w-]+/)*[\w-][\w.-]*\.\w{1,8})\b")


PastSample = tuple[float, float | None]
"""Of a sensor: how many seconds ago it was read, and the value, None where it gave none."""


class ItemStatus(NamedTuple):
    """What was found of an item: whether it is due and why; `note` is for whoever is asked about it.

    `state_now` is what to remember of it now, `state_after_asking` when it has been asked about. Its time comes in `next_s`, or came
    `late_s` ago.
    """

    item: ChecklistItem
    due: bool
    why: str
    state_now: ChecklistItemState
    state_after_asking: ChecklistItemState
    note: str = ""
    next_s: float | None = None
    late_s: float = 0.0


def check_items(
    items: Sequence[ChecklistItem],
    known: Mapping[str, ChecklistItemState],
    environment: "BoardEnvironment",
    now: datetime,
    *,
    asleep: bool = False,
) -> list[ItemStatus]:
    """Check every item; with `asleep` no sensor is read, because nothing will be asked anyway."""
    looked = _CachedEnvironment(environment, asleep=asleep)
    return [_check_item(item, known.get(item.key), looked, now) for item in items]


class _CachedEnvironment:
    def __init__(self, environment: "BoardEnvironment", *, asleep: bool) -> None:
        self._environment, self.asleep = environment, asleep
        self._read: dict[str, Mapping[str, float] | HardwareError] = {}
        self.sensors, self.past, self.mark = environment.sensors, environment.past, environment.mark
        self.measures = environment.measures

    def read(self, sensor: str) -> Mapping[str, float]:
        if self.asleep:
            raise HardwareError(f"{sensor} is not read in quiet hours")
        if sensor not in self._read:
            try:
                self._read[sensor] = self._environment.read(sensor)
            except HardwareError as error:
                self._read[sensor] = error
        found = self._read[sensor]
        if isinstance(found, HardwareError):
            raise found
        return found


def _check_item(
    item: ChecklistItem, known: ChecklistItemState | None, environment: _CachedEnvironment, now: datetime
) -> ItemStatus:
    if item.when and not isinstance(item.when, FileCondition):
        name, wrong = _resolve_sensor(item.when.series, environment)
        if wrong:  # it counts as words, which somebody then asks about
            plain = _check_plain(item._replace(text=item.whole, timing=None, when=None), known, environment, now)
            return plain._replace(why=f"{wrong}, so it counts as plain text; {plain.why}")
        when = item.when._replace(series=item.when.series._replace(sensor=name))
        found = _check_sensor(item, when, known or ChecklistItemState(), environment, now)
    elif item.when:
        found = _check_file(item, item.when, known, environment, now)
    elif item.timing:
        return _check_timing(item, known, now)
    else:
        return _check_plain(item, known, environment, now)
    if not item.timing:
        return found
    # a condition with a time is judged when its time has come, and once more a moment later
    timed = _check_timing(item, known, now)
    after, next_s = timed.state_now.after, timed.next_s
    why = found.why if timed.due else timed.why
    if timed.due and not found.due and not environment.asleep:
        ahead = (0.0 if item.timing.kind == "every" else _RECHECK_S) - timed.late_s
        after, next_s = (after, ahead) if ahead > 0 else (timed.state_after_asking.after, None)
        why += "" if ahead > 0 else ", so this time has passed"
    return found._replace(
        due=timed.due and found.due,
        why=why,
        state_now=found.state_now._replace(after=after),
        state_after_asking=found.state_after_asking._replace(after=timed.state_after_asking.after, told=False),
        next_s=next_s,
    )


def _resolve_sensor(series: Series, environment: _CachedEnvironment) -> tuple[str, str]:
    """Name the sensor that a condition means, or say what is wrong with it."""
    name = next((name for name in environment.sensors() if name.casefold() == series.sensor.casefold()), "")
    if not name:
        there = ", ".join(environment.sensors()) or "none"
        return "", f"there is no sensor {series.sensor!r} (there are: {there})"
    measured = environment.measures(name)
    if not measured or series.quantity in measured:
        return name, ""
    return name, f"{name} does not measure {series.quantity!r} (it measures: {', '.join(measured)})"


def _check_timing(item: ChecklistItem, known: ChecklistItemState | None, now: datetime) -> ItemStatus:
    """Check a time, counted from when the line was first seen; several missed ones count as one."""
    assert item.timing
    moment = now.timestamp()
    known = known if known and known.after else ChecklistItemState(moment)
    try:
        slot = find_next_due(item.timing, datetime.fromtimestamp(known.after, now.tzinfo))
    except ValueError as error:
        return ItemStatus(item, False, str(error), known, known)
    ahead = slot.timestamp() - moment
    why = f"its time has come ({slot:%H:%M})" if ahead <= 0 else f"its time comes {_format_slot(slot, now)}"
    settled = known._replace(after=moment)
    return ItemStatus(item, ahead <= 0, why, known, settled, next_s=max(ahead, 0.0), late_s=max(-ahead, 0.0))


def _format_slot(slot: datetime, now: datetime) -> str:
    return f"{slot:%H:%M}" if slot.date() == now.date() else f"{slot:%a %H:%M}"


def _check_sensor(
    item: ChecklistItem,
    when: SensorCondition,
    known: ChecklistItemState,
    environment: _CachedEnvironment,
    now: datetime,
) -> ItemStatus:
    """A condition is asked about once for as long as it holds."""
    (sensor, quantity), moment = when.series, now.timestamp()
    name, hold_s = f"{sensor}.{quantity}", 0.0 if isinstance(when, ValueChange) else when.hold_s
    try:
        value = environment.read(sensor).get(quantity)
    except HardwareError as error:
        return ItemStatus(item, False, str(error), known, known)
    past = environment.past(sensor, quantity, when.within_s if isinstance(when, ValueChange) else hold_s)
    shown = f"{name} is {value:g} {get_unit(when.series)}".rstrip() if value is not None else f"{name} gives no value"
    if not _holds(when, value, past):
        still = known if value is None else known._replace(since=0.0, told=False)
        return ItemStatus(item, False, shown, still, still)
    since = _find_start(when, known, past, moment)
    holding = known._replace(since=since, told=known.told and known.since > 0)
    lasts = f"{shown} for {format_duration(moment - since)}" if hold_s else shown
    settled = holding._replace(told=True)
    if moment - since < hold_s:
        return ItemStatus(item, False, f"{lasts}, not yet for {format_duration(hold_s)}", holding, settled)
    if holding.told:
        return ItemStatus(item, False, f"{lasts}, which was asked about already", holding, settled)
    return ItemStatus(item, True, lasts, holding, settled, lasts)


def _holds(when: SensorCondition, value: float | None, past: Sequence[PastSample] = ()) -> bool:
    """Whether a condition holds for a value, None for none; `past` are the values before it."""
    if value is None or isinstance(when, Missing):
        return value is None and isinstance(when, Missing)
    if isinstance(when, Threshold):
        return is_beyond(when.op, value, when.limit)
    recent = [old for age_s, old in past if old is not None and age_s <= when.within_s]
    return has_changed(when, [*recent, value])


def _find_start(when: SensorCondition, known: ChecklistItemState, past: Sequence[PastSample], moment: float) -> float:
    """Since when it holds: from the samples without a break before now, or from when it was first seen to hold."""
    began, broken = moment, isinstance(when, ValueChange)
    for age_s, value in () if broken else reversed(past):
        if not _holds(when, value):
            broken = True
            break
        began = moment - age_s
    return began if broken or not known.since else min(began, known.since)


def _check_file(
    item: ChecklistItem,
    when: FileCondition,
    known: ChecklistItemState | None,
    environment: _CachedEnvironment,
    now: datetime,
) -> ItemStatus:
    mark, moment = environment.mark(when.path), now.timestamp()
    if when.state == "changed":
        if known is None:
            first = ChecklistItemState(moment, seen={when.path: mark})
            return ItemStatus(item, False, f"{when.path} is watched from now on", first, first)
        changed = mark != known.seen.get(when.path)
        why = f"{when.path} has {'changed' if mark else 'gone'}" if changed else f"{when.path} has not changed"
        return ItemStatus(item, changed, why, known, ChecklistItemState(moment, seen={when.path: mark}), why)
    known = known or ChecklistItemState()
    holds = bool(mark) == (when.state == "exists")
    why = f"{when.path} is {'there' if mark else 'not there'}"
    if not holds:
        return ItemStatus(item, False, why, known._replace(told=False), known)
    why += ", which was asked about already" if known.told else ""
    return ItemStatus(item, not known.told, why, known, known._replace(told=True), why)


def _check_plain(
    item: ChecklistItem, known: ChecklistItemState | None, environment: _CachedEnvironment, now: datetime
) -> ItemStatus:
    seen = _read_mentioned(item.text, environment, known.seen if known else {})
    settled = ChecklistItemState(now.timestamp(), told=True, seen=seen)
    if known is None or not known.told:
        return ItemStatus(item, True, "it is new", known or ChecklistItemState(), settled)
    changes = [
        _describe_change(thing, known.seen.get(thing), seen.get(thing)) for thing in sorted({*known.seen, *seen})
    ]
    if why := ", ".join(filter(None, changes)):
        return ItemStatus(item, True, why, known, settled, why)
    ahead = known.after + _REPEAT_S - now.timestamp()
    if ahead <= 0:
        return ItemStatus(item, True, "it was asked about a day ago", known, settled, next_s=0.0)
    again = f"it is asked about again {_format_slot(datetime.fromtimestamp(known.after + _REPEAT_S, now.tzinfo), now)}"
    rest = f"nothing has changed of what it names ({', '.join(seen)})" if seen else "it names no sensor and no file"
    return ItemStatus(
        item, False, f"{rest}; {again}, unless it is given a time such as (hourly)", known, settled, next_s=ahead
    )


def _read_mentioned(
    text: str, environment: _CachedEnvironment, before: Mapping[str, float | str]
) -> dict[str, float | str]:
    """The sensors and files that a text names, as they are now."""
    found: dict[str, float | str] = {}
    for name in environment.sensors():
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
            try:
                values = environment.read(name)
            except HardwareError:
                found |= {
                    what: value for what, value in before.items() if environment.asleep and what.startswith(f"{name}.")
                }
                continue
            found |= {f"{name}.{what}": value for what, value in values.items()}
    for path in _find_paths(text):
        if (mark := environment.mark(path)) or path in before:
            found[path] = mark
    return found


def list_item_files(item: ChecklistItem) -> list[str]:
    """Name the files that an item speaks of, whether they are there or not."""
    if isinstance(item.when, FileCondition):
        return [item.when.path] if item.when.state == "changed" else []
    return [] if item.timing or item.when else _find_paths(item.text)


def _find_paths(text: str) -> list[str]:
    return [match[1] or match[2] for match in _FILE_MENTION.finditer(text)]


def _describe_change(thing: str, before: float | str | None, after: float | str | None) -> str:
    """Describe a change of a sensor or a file, '' if it is too small to matter."""
    if before is None or after is None or isinstance(before, str) or isinstance(after, str):
        if before == after:
            return ""
        gone = f"{thing} gives no value any more" if isinstance(before, float | int) else f"{thing} has changed"
        return gone if after is None else f"{thing} has changed"
    quantity = thing.rpartition(".")[2].partition(" ")[0]
    step = _MIN_CHANGES.get(quantity, _MIN_RELATIVE_CHANGE * max(abs(before), abs(after)))
    return f"{thing} went from {before:g} to {after:g}" if abs(after - before) > step else ""


# Sensors and files that checklist items refer to: the sensors of this board, and files by their size and time.


@dataclass(frozen=True)
class BoardEnvironment:
    """What can be known without a model: reads what is wired, and looks at files without opening them.

    `past(sensor, what, seconds)` gives the samples of the last seconds and of the moment before, the oldest first.
    """

    board: Board
    wired: Mapping[str, WiredPart]
    drivers: loader.Drivers
    workspace: Path
    past: Callable[[str, str, float], Sequence[PastSample]]

    def sensors(self) -> Sequence[str]:
        return [found.name for found in loader.list_sensors(self.board, dict(self.wired))]

    def read(self, sensor: str) -> Mapping[str, float]:
        """Measure now, by quantity and channel. Raises DeviceMissing where no sensor has the name."""
        known = loader.list_sensors(self.board, dict(self.wired))
        meant = [found for found in known if found.name.casefold() == sensor.casefold()]
        if not meant:
            names = ", ".join(found.name for found in known) or "none"
            raise DeviceMissing(f"there is no sensor {sensor!r}; there are: {names}")
        readings = [reading for found in meant for reading in loader.read_sensor(self.board, self.drivers, found)]
        return {reading.label: reading.value for reading in readings if reading.value is not None}

    def measures(self, sensor: str) -> Sequence[str]:
        """Name what it measures, by quantity and channel; none where that is not known."""
        return loader.list_measured(self.board, self.wired, self.drivers).get(sensor, [])

    def mark(self, path: str) -> str:
        """Tell a file's state by its size and time; '' where it cannot be looked at."""
        try:
            found = (self.workspace / Path(path).expanduser()).stat()
        except (OSError, ValueError, RuntimeError):
            return ""
        return f"{found.st_size} {found.st_mtime_ns}"


# How long something has been so: what `history.db` has of the last minutes, if sensors are followed here.

_MARGIN_S = 300.0  # the value before the time that is asked about belongs to it


class SampleHistory:
    """Samples from `history.db`, which is opened on first use."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        """Opens nothing yet. `clock` gives seconds since 1970."""
        self._path = home / database.HISTORY_FILE
        self._clock = clock
        self._database: Database | None = None

    def __call__(self, sensor: str, what: str, seconds: float) -> Sequence[PastSample]:
        """Return the values of the last seconds and of the moment before, the oldest first; none where nothing is kept.

        What cannot be read is as if it were not there: then only what was seen counts.
        """
        if seconds <= 0 or not (self._database or self._path.exists()):
            return ()
        now = self._clock()
        try:
            self._database = self._database or Database(self._path, database.HISTORY_MIGRATIONS)
            spans = Samples(self._database).spans(Series(sensor, what), now - seconds - _MARGIN_S, now, 1.0)
        except StoreError:
            return ()
        return [(now - span.at, span.mean) for span in spans]

    def close(self) -> None:
        if self._database:
            self._database.close()
            self._database = None


# What a heartbeat itself has changed of the files that the checklist names: that is no news to ask about.
#
# A file counts as changed by a call when the call names it, and nobody else had changed it before the call.


class FileChanges:
    """Compares files before and after each tool call of a turn."""

    def __init__(self, mark: Callable[[str], str], paths: Iterable[str]) -> None:
        """`mark` tells a file's state from another."""
        self._mark = mark
        self._before = {path: mark(path) for path in paths}
        self._left = dict(self._before)
        self._calls: set[str] = set()

    def on_event(self, event: object) -> None:
        if isinstance(event, ToolCall):
            words = str(event.arguments)
            named = (path for path in self._left if Path(path).name in words)
            self._calls = {path for path in named if self._mark(path) == self._left[path]}
        elif isinstance(event, ToolRun):
            self._left.update({path: self._mark(path) for path in self._calls})

    def update_state(self, known: ChecklistItemState, named: Iterable[str]) -> ChecklistItemState:
        """The state of an item that names these files, with the changes that the turn itself has made."""
        left = {
            path: self._left[path]
            for path in named
            if self._left[path] != self._before[path] == known.seen.get(path, "")
        }
        return known._replace(seen={**known.seen, **left}) if left else known
