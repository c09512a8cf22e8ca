"""A conversation as it is shown to a model that is to summarise it. Pure."""

import json
import re
from collections.abc import Iterator, Sequence

from picoclaw.messages import Message
from picoclaw.prompt import cut, enclosed

_HEAD = re.compile(r"\A<moment>(.*?)</moment>\n?", re.DOTALL)
_WHEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_REPORT = re.compile(r"<report\b.*?</report>", re.DOTALL)
_LONGEST_RESULT, _LONGEST_ARGUMENTS = 400, 200


def rendered(turn: Sequence[Message], most: int) -> str:
    """Write a turn down, in at most so many bytes: who said what when, what was called, and the begin of what came.

    The lines of a text are indented, so that none of them can pass for somebody else's word.
    """
    each = max(_LONGEST_RESULT, most // 2)
    return cut("\n".join(line for message in turn for line in _lines(message, each)), most)


def _lines(message: Message, most: int) -> Iterator[str]:
    if message.role == "tool":
        yield _said("Result", cut(message.text, _LONGEST_RESULT))
        return
    if message.role == "user":
        yield from _heard(message.text, most)
    elif message.text:
        yield _said("Assistant", cut(message.text, most))
    for call in message.calls:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        yield _said("Call", cut(f"{call.name} {arguments}", _LONGEST_ARGUMENTS))


def _heard(text: str, most: int) -> Iterator[str]:
    """The person's words, with the time and the helpers' reports that their head held; the rest is told anew."""
    found = _HEAD.match(text)
    head = found[1] if found else ""
    for report in _REPORT.findall(head):
        yield _said("Report", cut(report, most))
    when = _WHEN.search(head)
    yield _said(f"User, {when[0]}" if when else "User", cut(text[found.end() :] if found else text, most))


def _said(who: str, text: str) -> str:
    return f"{who}: {enclosed(text)}".strip().replace("\n", "\n  ")
