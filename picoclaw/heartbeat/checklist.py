"""Reads HEARTBEAT.md: items to look after, ticked or not, with a time or a condition, and instructions beside them.

What has a box or a condition is an item. A line that begins by saying how to behave ("Never", "Do not", "Only", "Be",
"Use", "Remember"), or says what to answer when all is well, is an instruction; so is what stands under a heading such
as "Instructions" or "Never open", and a row of a table. Any other line of a list is an item, and in a file without any
list any other line. A time makes an item of a line too, unless the line forbids something. What is neither item nor
done is an instruction, which a model is shown with the items that are due: no line is dropped. A line with a wrong
time or condition is named with its number, and counts as plain text.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from picoclaw.heartbeat import timing, when
from picoclaw.heartbeat.when import When
from picoclaw.markdown import seen
from picoclaw.markdown.comments import gone
from picoclaw.slots import Plan

_FRONT = re.compile(r"---[ \t]*\n(?:(?:[^\W\d][\w-]*:|[ \t#])[^\n]*\n|\n)+(?:---|\.\.\.)[ \t]*(?=\n|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-{2,})\s*$")
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_DASHES = re.compile(r"[\s|:-]+")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)[\s#]*$|\s*#{1,6}\s*$")
_BULLET = re.compile(r"(\s*)(?:[-*+•]|\d{1,9}[.)])\s+(.*)")
_BOX = re.compile(r"\[\s*([^\s\]]?)\s*\](?:\s+|$)|\[([xX✓✔])\](?![(\[:])|(?:([☑✅✔✓])|☐)\ufe0f?\s*")
_RULE = re.compile(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|={3,})$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BRACKETS = re.compile(r"\s*\(([^()]{1,80})\)\s*$")
_WHEN = re.compile(r"(?:^|\s)when:\s*", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:how|about|instructions?|guidelines?|rules|notes?|examples?|format|tone|style)\b"
    r"|.*\b(?:instructions?|guidelines?|rules|examples?|format)\W*$",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"(?:please |just )*(?:(?:do not|don't|dont) (?!forget|miss)|(?:never|no|not|avoid|without|only)\b"
    r"|(?:remember|note)(?:$|:| that\b))",
    re.IGNORECASE,
)
"""How a line or a label begins that forbids something, or tells a fact: what is listed below it is no work either."""
_BEHAVE = re.compile(
    r"(?:please |just |always )*(?:(?:be|use|speak|prefer|assume|i am|i'm|we are|we're)\b"
    r"|keep (?:in mind\b|(?:it|them|this|everything|\w+s) (?:short|brief|simple|small|concise|polite|friendly)\b)"
    r"|(?:write|answer|reply|respond|say|talk|tell me)"
    r" (?:only|just|with|in|as|at most|no|not|nothing|briefly|shortly|\w+ly|[\"'“`])|stay (?:quiet|silent|brief)\b)",
    re.IGNORECASE,
)
_STRUCK = re.compile(r"~~[^~]+~~\W*")
_TOKEN = re.compile(
    r"\bheartbeat[_ ]?ok\b|[\"“`](?P<quoted>[^\n\"“”`]{1,300})[\"”`]|(?<!\w)['‘](?P<single>[^\n'’]{1,300})['’](?!\w)"
    r"|(?<![\w*])\*{1,2}(?P<strong>[^\s*][^\n*]{0,300})\*|:\s*(?P<rest>[^\s\"“`'‘*][^\n]{0,299})"
    r"|\b(?P<capitals>(?-i:[A-Z][A-Z_]{1,40}(?: [A-Z_]{2,40}){0,7})\b)",
    re.IGNORECASE,
)
_SAYS = re.compile(r"\b(?:answer|reply|respond|response|say)\b", re.IGNORECASE)
_ALL_WELL = re.compile(
    r"\bnothing\b(?! (?:(?:is|was) )?(?:in|on|at|from|inside|under|left|else)\b)"
    r"|\bno (?:\w+ )?(?:news|problems?|issues?|alerts?|changes?|trouble)\b"
    r"|\b(?:all|everything|things)(?:'s| is| are| be| looks?| seems?)?(?: all)?"
    r" (?:well|fine|good|ok|okay|quiet|calm|normal|right|clear|in order)\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"(?:answer|reply|response):\s*(\S[^\n]{0,299})", re.IGNORECASE)


class Item(NamedTuple):
    """An open line: its words without mark, time and condition, and the heading that it stands under.

    `whole` has its time and condition as well; `key` stays the same while the line does, wherever in the file it goes.
    """

    line: int
    text: str
    key: str
    heading: str = ""
    timing: Plan | None = None
    when: When | None = None
    whole: str = ""


class Problem(NamedTuple):
    """What is wrong with a line, and what to write."""

    line: int
    what: str

    def __str__(self) -> str:
        """In one line, for people."""
        return f"HEARTBEAT.md line {self.line}: {self.what}; until then it counts as plain text"


class Checklist(NamedTuple):
    """What the file says. `answer` is what it wants to be answered when there is nothing to tell, '' for the usual."""

    items: tuple[Item, ...] = ()
    done: int = 0
    problems: tuple[Problem, ...] = ()
    instructions: str = ""
    answer: str = ""


class _Raw(NamedTuple):
    line: int
    mark: str  # what is in the box: '' nothing or no box
    words: list[str]
    heading: str
    kind: Literal["boxed", "listed", "plain", "table", "label"]
    section: str  # the heading that it stands under, where `heading` may be a label such as "Every morning:"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def parse(text: str) -> Checklist:
    """Read the text of the file; whatever is in it, nothing is raised."""
    rows = [row for row in _rows(_uncommented(text)) if row.mark or row.text]
    has_list = any(row.kind in {"boxed", "listed"} for row in rows)
    items, problems, others = list[Item](), list[Problem](), list[_Raw]()
    for row in rows:
        if row.mark:
            continue
        try:
            item = _item(row, row.text)
        except ValueError as error:
            item = Item(row.line, row.text, _key(row.text), row.heading, whole=row.text)
            problems.append(Problem(row.line, str(error)))
        else:
            if _is_instruction(row, item, has_list=has_list):
                others.append(row)
                continue
        items.append(item if item.timing or item.when else item._replace(timing=_heading_time(row.heading)))
    answers = filter(None, (_quiet_answer(row.text) for row in others if row.kind != "table"))
    return Checklist(
        tuple(items),
        sum(1 for row in rows if row.mark),
        tuple(problems),
        _instructions(others),
        next(answers, ""),
    )


def _is_instruction(row: _Raw, item: Item, *, has_list: bool) -> bool:
    if row.kind in {"table", "label"}:
        return True
    if row.kind == "boxed" or item.when:
        return False
    above = (row.section, row.heading)
    if _FORBIDS.match(row.text) or any(_FORBIDS.match(words) for words in above):
        return True
    if item.timing:
        return False
    if any(_ABOUT.match(words) for words in above) or _BEHAVE.match(row.text) or _quiet_answer(row.text):
        return True
    return row.kind == "plain" and has_list


def _instructions(rows: Sequence[_Raw]) -> str:
    """What a model is shown of the file beside the items that are due, under the headings there."""
    lines, heading = list[str](), ""
    for row in rows:
        if row.heading != heading:
            heading = row.heading
            lines += [f"{heading}:"] if heading else []
        if row.kind != "label":
            lines.append(f"- {row.text}" if row.kind == "listed" else row.text)
    return "\n".join(lines)


def _quiet_answer(text: str) -> str:
    """The answer that a line wants when all is well, '' for a line that says none.

    It names the words of the answer, in quotes, marks or capitals, and the case, in any order.
    """
    if found := _ANSWER.match(text):
        return found[1].strip(" *_`\"“”'")
    said = _SAYS.search(text)
    token = (_TOKEN.search(text, said.end()) if said else None) or _TOKEN.search(text)
    if token is None:
        return ""
    words = next(filter(None, token.groups()), token[0]).strip(" *_.,!")
    is_usual = token[0].lower().startswith("heartbeat")
    rest = f"{text[: token.start()]} , {text[token.end() :]}"
    return words if is_usual or (said and _ALL_WELL.search(rest)) else ""


def _uncommented(text: str) -> str:
    """Without comments, but with the line feeds in them, so that lines keep their numbers."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept, at = [], 0
    for hidden in gone(text, trusting=True):
        kept += [text[at : hidden.start], "\n" * text.count("\n", hidden.start, hidden.end)]
        at = hidden.end
    whole = seen("".join([*kept, text[at:]]))
    front = _FRONT.match(whole)
    return "\n" * front[0].count("\n") + whole[front.end() :] if front else whole


def _rows(text: str) -> list[_Raw]:
    """Put lines together: what is indented below an item belongs to it, unless it has a box of its own.

    So does a line right below that goes on in a small letter. A line that ends with a colon is a label over the list
    that follows it, and a rule ends what stands under a heading.
    """
    rows: list[_Raw] = []
    section, heading, indent, in_code, going = "", "", 0, False, False
    lines = text.split("\n")
    underlined = -1
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        in_code = in_code != bool(fence)
        if _RULE.match(line) and number != underlined and not in_code:
            section, heading, going = "", "", False
        if fence or _RULE.match(line) or line.strip() in {"", "-", "*", "+", "•"}:
            continue
        titled = None if in_code else _title(lines, number - 1)
        if titled is not None:
            underlined = -1 if _HEADING.fullmatch(line) else number + 1
            section = heading = titled
            going = False
            rows += _label(number, titled)
            continue
        if _TABLE.match(line) and not in_code:
            cells = ["" if _DASHES.fullmatch(line) else line.strip()]
            rows.append(_Raw(number, "", cells, section, "table", section))
            going = False
            continue
        bullet = _BULLET.fullmatch(line)
        words = bullet[2] if bullet else line.strip()
        box = _BOX.match(words) if bullet or words[0] in "☑☐✅" else None
        mark = next(filter(None, box.groups()), "") if box else ""
        deep = len(line) - len(line.lstrip())
        is_wrapped = not bullet and words[0].islower() and bool(lines[number - 2].strip()) and rows[-1:] != []
        is_wrapped = is_wrapped and not _quiet_answer(words)
        if going and not box and (in_code or deep > indent or (is_wrapped and rows[-1].kind != "plain")):
            rows[-1].words.append(words)
            continue
        if not bullet and not box and not in_code and words.endswith(":") and _is_over_list(lines, number):
            heading, going = words.rstrip(":").strip(), False
            rows += _label(number, heading)
            continue
        if _STRUCK.fullmatch(words[box.end() :] if box else words):
            mark = "~"
        kind: Literal["boxed", "listed", "plain"] = "boxed" if box else "listed" if bullet else "plain"
        heading = section if kind == "plain" and not in_code else heading
        rows.append(_Raw(number, mark, [words[box.end() :] if box else words], heading, kind, section))
        indent, going = deep, True
    return rows


def _label(line: int, words: str) -> list[_Raw]:
    """A heading that says how to behave, which a model is to see whether or not anything below it is due."""
    is_instruction = _FORBIDS.match(words) or _BEHAVE.match(words)
    return [_Raw(line, "", [words], words, "label", words)] if is_instruction else []


def _is_over_list(lines: Sequence[str], after: int) -> bool:
    """Whether the next line that says something belongs to a list, or there is none."""
    below = next((lines[at] for at in range(after, len(lines)) if lines[at].strip()), "")
    return not below or bool(_BULLET.fullmatch(below)) or below.lstrip()[0] in "☑☐✅"


def _title(lines: Sequence[str], at: int) -> str | None:
    """The heading that a line is; None for what may be an item."""
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


def _item(row: _Raw, words: str) -> Item:
    """Take an item apart; raises ValueError for a time or a condition that is wrong."""
    text, found, condition = words, _WHEN.search(words), ""
    if found:
        text, condition = words[: found.start()], words[found.end() :]
    text, first = _bracketed(text)
    condition, second = _bracketed(condition)
    if first and second:
        raise ValueError("it has two times; leave one out")
    wanted = when.parse(condition) if found else None
    if not (found or first):
        text, first = timing.split(text)
    return Item(row.line, text.strip(" ,;–—") or condition, _key(words), row.heading, first or second, wanted, words)


def _bracketed(text: str) -> tuple[str, Plan | None]:
    """Split off a time in brackets at the end; other brackets are words."""
    found = _BRACKETS.search(text)
    plan = timing.parse(found[1]) if found else None
    return (text[: found.start()], plan) if found and plan else (text, None)


def _heading_time(heading: str) -> Plan | None:
    """The time of all that stands under a heading: "Every morning", "Greenhouse (hourly)"; None for no time."""
    try:
        return _bracketed(heading)[1] or timing.split(heading)[1] or timing.parse(heading)
    except ValueError:
        return None


def _key(words: str) -> str:
    import hashlib

    return hashlib.sha256(words.encode()).hexdigest()[:16]
