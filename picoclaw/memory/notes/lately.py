"""What was noted in the last days, as lines that a conversation is told once. Pure."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from picoclaw.messages import Message
from picoclaw.pattern import pattern
from picoclaw.prompt import Page, enclosed

_ENTRY = pattern(r"[-*+] ")
_DAY = pattern(r"(\d{4})(\d\d)(\d\d)")
_SHARE, _SHORT = 4, 200
"""The part of the budget that one line may take, and what it may take however small that is."""


def lines(notes: Iterable[Page], most: int) -> list[str]:
    """Make a line of each entry of daily notes, the newest note first: its day, and what it says.

    Returns the newest `most` characters of them, in the order of time; what else stands in a note is a line as well.
    One that is long for the others is cut.
    """
    kept: list[str] = []
    longest = max(_SHORT, most // _SHARE)
    for page in notes:
        for entry in reversed(_entries(page.text)):
            line = enclosed(f"{_day(page.name)} {entry}")
            line = line if len(line) <= longest else f"{line[: longest - 1]}…"
            most -= len(line) + 1
            if most < 0:
                return kept[::-1]
            kept.append(line)
    return kept[::-1]


def _day(path: str) -> str:
    found = _DAY.fullmatch(PurePath(path).stem)
    return "-".join(found.groups()) if found else path


def _entries(text: str) -> list[str]:
    """Each item of a list with the lines that go on with it, and every other line but headings."""
    found: list[str] = []
    going_on = False
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words or words.startswith("#"):
            going_on = False
        elif going_on and line[:1].isspace():
            found[-1] += f" {words}"
        else:
            going_on = bool(_ENTRY.match(line))
            found.append(words[2:] if going_on else words)
    return found


def untold(found: Sequence[str], earlier: Iterable[Sequence[Message]]) -> tuple[list[str], list[str]]:
    """Part lines into those that no message of the user's holds yet, and those that one does."""
    said = [message.text for turn in earlier for message in turn if message.role == "user"]
    told = [line for line in found if any(line in text for text in said)]
    return [line for line in found if line not in told], told
