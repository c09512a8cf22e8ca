"""What a model is shown: earlier turns and the present one, kept valid and short enough for its window."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from picoclaw import files
from picoclaw.files import explain_os_error
from picoclaw.messages import NO_THOUGHT, Image, Message, Thought, ToolCall
from picoclaw.prompts import (
    BYTES_A_TOKEN,
    READ_ON_TOOL,
    add_header,
    count_request_bytes,
    cut_result,
    estimate_tokens,
    fill_template,
    find_result_number,
    format_rest_hint,
)
from picoclaw.records import NamedTuple, dataclass, field, replace
from picoclaw.security.untrusted import OWN_TEXT_MARK
from picoclaw.text import truncate

_SHORTEST_RESULT, _SHORTEST_KEPT, _LONG_ARGUMENT, _SHORTEST_SAID = 500, 200, 100, 200


class HistoryView(NamedTuple):
    """What a conversation shows of the turns before the present one, and the message that says some of it again."""

    history: list[tuple[Message, ...]]
    forgotten: int
    first: Message


@dataclass
class Conversation:
    """`history` holds whole turns, oldest first; `messages` are those of the turn in the making.

    `forgotten` counts the turns that were left out since, to fit the window; `relied_on` are parts of them that are
    said again when they are gone. `summary` is what came before the history, as it is shown; it is no part of a
    message that is kept. `waiting` are words of the person's that no answer has followed yet.
    `keep_whole(tool, result)` keeps a result that is to be cut and returns its number, 0 when it cannot. Of the
    messages up to `brief_before`, long arguments are shown by their beginnings, and of what the person says now at
    most `longest_said` characters, 0 for all of it.
    """

    history: list[tuple[Message, ...]]
    messages: list[Message] = field(default_factory=list)
    forgotten: int = 0
    relied_on: Sequence[str] = ()
    summary: str = ""
    waiting: list[Message] = field(default_factory=list)
    keep_whole: Callable[[str, str], int] = lambda *_: 0
    brief_before: int = 0
    longest_said: int = 0

    def list_messages(self) -> tuple[Message, ...]:
        """Return everything in the order in which it is sent."""
        made = [_shorten_calls(message) for message in self.messages[: self.brief_before]]
        now = [*made, *self.messages[self.brief_before :], *self.waiting]
        if most := self.longest_said:
            now = [
                message._replace(text=cut_result(message.text, most, 0))
                if message.role == "user" and len(message.text) > most
                else message
                for message in now
            ]
        shown = [*(m for turn in self.history for m in turn), *now]
        first = next((i for i, message in enumerate(shown) if message.role == "user"), None)
        if self.summary and first is not None:
            shown[first] = shown[first]._replace(text=add_header(self.summary, shown[first].text))
        return tuple(shown)

    def instruct(self, text: str) -> None:
        """Add a word of ours: to the newest result, because some servers refuse a user's message after one."""
        if self.messages and self.messages[-1].role == "tool":
            newest = self.messages[-1]
            self.messages[-1] = newest._replace(text=f"{newest.text}\n{OWN_TEXT_MARK}\n{text}")
        else:
            self.messages.append(Message("user", text))

    def add_user_text(self, text: str) -> None:
        """Add what the user says while the turn runs: it joins what is kept once it is answered."""
        self.waiting.append(Message("user", text))

    def add_answer(self, text: str, calls: Sequence[ToolCall] = (), thought: Thought = NO_THOUGHT) -> None:
        """Add the model's side; what it thought is of use to it again only while calls of its are open."""
        self.messages += [*self.waiting, Message("assistant", text, tuple(calls), "", thought if calls else NO_THOUGHT)]
        self.waiting.clear()

    def add_result(self, call: ToolCall, text: str) -> None:
        self.messages.append(Message("tool", text, call_id=call.id))

    def fill_missing_results(self, instead: str) -> None:
        """Give every call that has no result yet the given one."""
        for call in self.list_open_calls():
            self.add_result(call, instead)

    def list_open_calls(self) -> tuple[ToolCall, ...]:
        """The newest calls that have no result yet."""
        for i, message in enumerate(self.messages[::-1]):
            if message.role != "tool":
                return message.calls[i:]
        return ()

    def count_tokens(self, system: str, tools: Sequence[Any], bytes_a_token: float = BYTES_A_TOKEN) -> int:
        return estimate_tokens(count_request_bytes(system, self.list_messages(), tools), bytes_a_token)

    def shorten(self, template: str) -> bool:
        """Leave out the older half of the earlier turns, or else parts of this one's; False: nothing left."""
        if self.history:
            leave = (len(self.history) + 1) // 2
            self.history, self.forgotten = self.history[leave:], self.forgotten + leave
            lost = [
                part for part in self.relied_on if not any(part in message.text for message in self.list_messages())
            ]
            if lost and self.messages:
                self.messages[0] = self.messages[0]._replace(text="\n".join([*lost, self.messages[0].text]))
            return True
        if self._cut_result(template, _SHORTEST_RESULT):
            return True
        # show the calls before the newest with the beginnings of long arguments
        before = self.brief_before
        self.brief_before = max((i for i, message in enumerate(self.messages) if message.calls), default=0)
        if any(_shorten_calls(message) != message for message in self.messages[before : self.brief_before]):
            return True
        if self._cut_result(template, 0):
            return True
        # show half of the person's longest words, of which nothing is lost: they are kept as they were said
        longest = max((len(m.text) for m in (*self.messages, *self.waiting) if m.role == "user"), default=0)
        longest = min(longest, self.longest_said or longest)
        if longest < 2 * _SHORTEST_SAID:
            return False
        self.longest_said = longest // 2
        return True

    def get_view(self) -> HistoryView:
        """Return what is shown of earlier turns, for `restore`."""
        return HistoryView(self.history, self.forgotten, self.messages[0])

    def restore(self, earlier: HistoryView | None) -> None:
        """Show earlier turns again that were left out since; with None nothing changes."""
        if earlier:
            self.history, self.forgotten, self.messages[0] = earlier

    def _cut_result(self, template: str, shortest: int) -> bool:
        """Leave out half of the longest result, or all of one that is kept; it is kept before it is cut."""
        results = [i for i, m in enumerate(self.messages) if m.role == "tool"]
        at = max(results, key=lambda i: len(self.messages[i].text), default=None)
        if at is None or len(text := self.messages[at].text) < (shortest or _SHORTEST_KEPT):
            return False
        wanted = self.messages[at].call_id
        calls = (call for message in reversed(self.messages[:at]) for call in message.calls)
        call = next((call for call in calls if call.id == wanted), ToolCall(wanted, ""))
        number = find_result_number(text) or self.keep_whole(call.name, text)
        if not (shortest or number):
            return False
        head = text[: len(text) // 2] if shortest else ""
        before = call.arguments.get("start", 0) if call.name == READ_ON_TOOL else 0
        how = format_rest_hint(number, before + len(head))
        # the template is the owner's, and may be long
        for shown in (fill_template(template, {"head": head}), f"{head}…"):
            short = "\n".join(filter(None, (shown, how)))
            if len(short) < len(text):
                self.messages[at] = self.messages[at]._replace(text=short)
                return True
        return False


def _shorten_calls(message: Message) -> Message:
    calls = []
    for call in message.calls:
        long = {k: v for k, v in call.arguments.items() if isinstance(v, str) and len(v) > _LONG_ARGUMENT}
        short = {name: truncate(value, _LONG_ARGUMENT) for name, value in long.items()}
        calls.append(replace(call, arguments=call.arguments | short))
    return message._replace(calls=tuple(calls))


# The pictures that came with a message, for models that see: read from the workspace, few, and none that is too large.
#
# They are shown in the turn that they came with; later turns know the names of their files, as does a blind model.

MAX_PICTURE_BYTES, MAX_PICTURES = 3_500_000, 4
"""Bytes of one picture, so that it stays below 5 MB when it is written as text; and how many of them."""

_HEAD_BYTES = 12
_MAGIC = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}


class Pictures(NamedTuple):
    """What is shown, the names of those files, and why others are not."""

    images: tuple[Image, ...] = ()
    names: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_pictures(workspace: Path, names: Sequence[str]) -> Pictures:
    """Read those of the named files below the workspace that are pictures."""
    images: dict[str, Image] = {}
    problems: list[str] = []
    for name in names:
        try:
            image = _read_picture(workspace, name)
        except OSError as error:
            problems.append(f"{name} cannot be read: {explain_os_error(error)}")
            continue
        if not image:
            continue
        if len(image.data) > MAX_PICTURE_BYTES:
            why = f"it has more than {MAX_PICTURE_BYTES / 1e6:g} MB; send it smaller, or as a photo"
            problems.append(f"{name} was not shown to the model: {why}")
        elif len(images) >= MAX_PICTURES:
            problems.append(f"{name} was not shown to the model: {MAX_PICTURES} at once are enough")
        else:
            images[name] = image
    return Pictures(tuple(images.values()), tuple(images), tuple(problems))


def detect_media_type(head: bytes) -> str:
    """Tell a picture's media type from its first bytes; '' for what is not one of the four that models read."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


def _read_picture(workspace: Path, name: str) -> Image | None:
    """Read a picture, and of one that is too large as much as shows that; None for another file. Raises OSError."""
    place = files.resolve_below(os.path.realpath(workspace), str(workspace / name))
    if place is None:
        raise OSError(errno.EXDEV, "it is not in the workspace")
    with os.fdopen(files.open_rooted(place), "rb") as file:
        head = file.read(_HEAD_BYTES)
        kind = detect_media_type(head)
        return Image(kind, head + file.read(MAX_PICTURE_BYTES)) if kind else None
