"""Reads HEARTBEAT.md: lines as people write them, ticked or not, with a time or a condition if they like.

A line with a wrong time or condition is named with its number, and counts as plain text.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from picoclaw.heartbeat import timing, when
from picoclaw.heartbeat.when import When
from picoclaw.markdown import seen
from picoclaw.markdown.comments import gone
from picoclaw.slots import Plan

_FRONT = re.compile(r"---[ \t]*\n(?:(?:[^\W\d][\w-]*:|[ \t#])[^\n]*\n|\n)+(?:---|\.\.\.)[ \t]*(?=\n|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-{2,})\s*$")
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)[\s#]*$|\s*#{1,6}\s*$")
_BULLET = re.compile(r"(\s*)(?:[-*+•]|\d{1,9}[.)])\s+(.*)")
_BOX = re.compile(r"\[\s*([^\s\]]?)\s*\](?:\s+|$)|\[([xX✓✔])\](?![(\[:])|(?:([☑✅✔✓])|☐)\ufe0f?\s*")
_RULE = re.compile(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|={3,})$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BRACKETS = re.compile(r"\s*\(([^()]{1,80})\)\s*$")
_WHEN = re.compile(r"(?:^|\s)when:\s*", re.IGNORECASE)


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
    """What the file says."""

    items: tuple[Item, ...] = ()
    done: int = 0
    problems: tuple[Problem, ...] = ()


class _Raw(NamedTuple):
    line: int
    mark: str  # what is in the box: '' nothing or no box
    words: list[str]
    heading: str


def parse(text: str) -> Checklist:
    """Read the text of the file; whatever is in it, nothing is raised."""
    rows = _rows(_uncommented(text))
    items, problems = [], []
    for row in rows:
        words = " ".join(" ".join(row.words).split())
        if row.mark or not words:
            continue
        try:
            items.append(_item(row, words))
        except ValueError as error:
            items.append(Item(row.line, words, _key(words), row.heading, whole=words))
            problems.append(Problem(row.line, str(error)))
    return Checklist(tuple(items), sum(1 for row in rows if row.mark), tuple(problems))


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
    """Put lines together: what is indented below an item belongs to it, unless it has a box of its own."""
    rows: list[_Raw] = []
    heading, indent, in_code, going = "", 0, False, False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        in_code = in_code != bool(fence)
        if fence or _RULE.match(line) or not line.strip():
            continue
        titled = None if in_code else _title(lines, number - 1, heading)
        if titled is not None:
            heading, going = titled, False
            continue
        bullet = _BULLET.fullmatch(line)
        words = bullet[2] if bullet else line.strip()
        box = _BOX.match(words) if bullet or words[0] in "☑☐✅" else None
        mark = next(filter(None, box.groups()), "") if box else ""
        deep = len(line) - len(line.lstrip())
        if going and not box and (in_code or deep > indent):
            rows[-1].words.append(words)
            continue
        rows.append(_Raw(number, mark, [words[box.end() :] if box else words], heading))
        indent, going = deep, True
    return rows


def _title(lines: Sequence[str], at: int, before: str) -> str | None:
    """The heading that a line is, or that stays over a row of a table; None for what may be an item."""
    line = lines[at]
    if titled := _HEADING.fullmatch(line):
        return titled[1] or ""
    if _TABLE.match(line):
        return before
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
    return Item(row.line, text.strip(" ,;–—") or condition, _key(words), row.heading, first or second, wanted, words)


def _bracketed(text: str) -> tuple[str, Plan | None]:
    """Split off a time in brackets at the end; other brackets are words."""
    found = _BRACKETS.search(text)
    plan = timing.parse(found[1]) if found else None
    return (text[: found.start()], plan) if found and plan else (text, None)


def _key(words: str) -> str:
    import hashlib

    return hashlib.sha256(words.encode()).hexdigest()[:16]
