"""MEMORY.md taken apart into what a dream may write anew and what stays as it is, and put together again.

What stays: front matter, comments, headings and fields with nothing behind them, and the entries that are not the
owner's word. They are not shown to the model that dreams, so no text from outside can speak to it.
"""

import re
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ConfigError
from picoclaw.markdown import visible
from picoclaw.markdown.comments import gone
from picoclaw.memory.notes.entries import FOREIGN
from picoclaw.memory.notes.notes import lasting_file
from picoclaw.pattern import pattern
from picoclaw.ranking import words
from picoclaw.workspace import reading
from picoclaw.workspace.pages import without_empty

_MARK = f"({FOREIGN}"
_LARGEST = 200_000
_FRONT = pattern(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
_HEADING = pattern(r" {0,3}#{1,6}\s")
_ITEM = pattern(r"(?:[-*+]|\d{1,9}[.)])\s")


class Part(NamedTuple):
    """An entry, or another line, with the lines that go on with it, and the heading it stands under."""

    heading: str
    text: str


class Memory(NamedTuple):
    """A page: `found` are its bytes, None when there is none; `shown` is what may be written anew."""

    path: Path
    found: bytes | None
    text: str
    shown: str


def read(workspace: Path) -> Memory:
    """Read the page; raises ConfigError saying why it cannot be written anew."""
    path = workspace / lasting_file(workspace)
    if path.is_symlink():
        raise ConfigError(f"{path} is a symbolic link and is left alone")
    found = reading.raw(path, _LARGEST, workspace)
    text = reading.text(path, _LARGEST, workspace) or ""
    return Memory(path, found, text, told(text))


def told(text: str) -> str:
    """Make of a page's text what may be written anew."""
    return trusted(visible(_FRONT.sub("", text), trusting=True))


def unchanged(memory: Memory, workspace: Path) -> bool:
    """Tell whether the file is what it was when it was read. Raises ConfigError."""
    return not memory.path.is_symlink() and reading.raw(memory.path, _LARGEST, workspace) == memory.found


def parts(text: str) -> list[Part]:
    """Take a text apart into its entries and other lines; blank lines are left out."""
    found: list[Part] = []
    heading, going_on = "", False
    for line in text.split("\n"):
        if _HEADING.match(line):
            heading, going_on = line.rstrip(), False
            found.append(Part("", heading))
        elif not line.strip():
            continue
        elif going_on and line[:1].isspace():
            found[-1] = Part(heading, f"{found[-1].text}\n{line}")
        else:
            going_on = bool(_ITEM.match(line))
            found.append(Part(heading, line))
    return found


def trusted(text: str) -> str:
    """Leave out the entries that are not the owner's word, and the headings that then have nothing under them."""
    if _MARK not in text.casefold():
        return without_empty(text)
    return without_empty("\n".join(part.text for part in parts(text) if _MARK not in part.text.casefold()))


def rewritten(text: str, new: str) -> str:
    """Put a new text in the place of what of the old one was shown; everything else of it stays."""
    front = _FRONT.match(text)
    body = text[front.end() :] if front else text
    lines = new.strip("\n").split("\n")
    every = parts(visible(body, trusting=True))
    for part in reversed([part for part in every if _MARK in part.text.casefold()]):
        at = _below(lines, part.heading)
        lines[at:at] = part.text.split("\n")
    told = {line.strip() for line in without_empty(visible(body, trusting=True)).split("\n")} | {
        line.strip() for line in lines
    }
    empty = [part.text for part in every if part.text.strip() not in told and "\n" not in part.text]
    lines += empty
    comments = [comment for comment in _comments(body) if comment.text not in new]
    comments.sort(key=lambda comment: not comment.line)
    for comment in reversed(comments):  # those under a heading first, which beside it would not be found
        _put_back(lines, comment)
    return "\n".join([f"{front[0] if front else ''}{lines[0]}", *lines[1:], ""])


class _Comment(NamedTuple):
    """A comment, what stands beside it in its line, and the heading that it is under."""

    text: str
    line: str
    heading: str


def _comments(body: str) -> list[_Comment]:
    found = []
    for start, end, _ in gone(body, trusting=True):
        before, after = visible(body[:start], trusting=True), body[end:].partition("\n")[0]
        line = visible(before.rpartition("\n")[2] + after, trusting=True).strip()
        heading = next((part.heading or part.text for part in reversed(parts(before))), "")
        found.append(_Comment(body[start:end].strip("\n"), line, heading if _HEADING.match(heading) else ""))
    return found


def _put_back(lines: list[str], comment: _Comment) -> None:
    """Put a comment beside the line that says most of what it stood beside; else under its heading."""
    meant = set(words(comment.line))
    shares = [(line.strip() == comment.line, len(meant & set(words(line)))) for line in lines]
    same, shared = max(shares, default=(False, 0))
    if comment.line and (same or shared > len(meant) / 2):
        at = shares.index((same, shared))
        lines[at] = f"{lines[at].rstrip()} {comment.text}"
    else:
        at = _below(lines, comment.heading)
        lines[at:at] = [comment.text]


def _below(lines: list[str], heading: str) -> int:
    """Where in the lines that come under a heading something can be added; the heading is made if it is not there."""
    if not heading:
        return 0
    if heading not in map(str.rstrip, lines):
        lines += ["", heading]
    return [line.rstrip() for line in lines].index(heading) + 1
