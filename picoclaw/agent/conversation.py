"""What a model is shown: earlier turns and the present one, kept valid and short enough for its window."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw import files
from picoclaw.claims import find_unfounded_claims
from picoclaw.config.tables import LimitsConfig
from picoclaw.files import explain_os_error
from picoclaw.messages import NO_THOUGHT, End, Event, Image, Message, Notice, Text, Thought, ToolCall, Usage
from picoclaw.prompts import BYTES_A_TOKEN, Templates, add_header, estimate_tokens, fill_template
from picoclaw.repetition import REPEATS, count_repeated
from picoclaw.security.untrusted import OWN_TEXT_MARK
from picoclaw.window import READ_ON_TOOL, count_request_bytes, cut_result, find_result_number, format_rest_hint

_SHORTEST_RESULT, _SHORTEST_KEPT, _LONG_ARGUMENT, _SHORTEST_SAID = 500, 200, 100, 200


class HistoryView(NamedTuple):
    """What a conversation shows of the turns before the present one, and the message that says some of it again."""

    history: list[tuple[Message, ...]]
    forgotten: int
    first: Message


@dataclass(slots=True)
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

    def shown(self) -> tuple[Message, ...]:
        """Return everything in the order in which it is sent."""
        made = [_shorten_calls(message) for message in self.messages[: self.brief_before]]
        now = [self._as_shown(m) for m in (*made, *self.messages[self.brief_before :], *self.waiting)]
        shown = [*(m for turn in self.history for m in turn), *now]
        first = next((i for i, message in enumerate(shown) if message.role == "user"), None)
        if self.summary and first is not None:
            shown[first] = shown[first]._replace(text=add_header(self.summary, shown[first].text))
        return tuple(shown)

    def say(self, text: str) -> None:
        """Add the user's side."""
        self.messages.append(Message("user", text))

    def instruct(self, text: str) -> None:
        """Add a word of ours: to the newest result, because some servers refuse a user's message after one."""
        if self.messages and self.messages[-1].role == "tool":
            newest = self.messages[-1]
            self.messages[-1] = newest._replace(text=f"{newest.text}\n{OWN_TEXT_MARK}\n{text}")
        else:
            self.say(text)

    def hear(self, text: str) -> None:
        """Add what the user says while the turn runs: it joins what is kept once it is answered."""
        self.waiting.append(Message("user", text))

    def answer(self, text: str, calls: Sequence[ToolCall] = (), thought: Thought = NO_THOUGHT) -> None:
        """Add the model's side; what it thought is of use to it again only while calls of its are open."""
        self.messages += [*self.waiting, Message("assistant", text, tuple(calls), "", thought if calls else NO_THOUGHT)]
        self.waiting.clear()

    def result(self, call: ToolCall, text: str) -> None:
        """Add what a call gave."""
        self.messages.append(Message("tool", text, call_id=call.id))

    def settle(self, instead: str) -> None:
        """Give every call that has no result yet the given one."""
        for call in self.unanswered():
            self.result(call, instead)

    def unanswered(self) -> tuple[ToolCall, ...]:
        """The newest calls that have no result yet."""
        for i, message in enumerate(self.messages[::-1]):
            if message.role != "tool":
                return message.calls[i:]
        return ()

    def tokens(self, system: str, tools: Sequence[Any], bytes_a_token: float = BYTES_A_TOKEN) -> int:
        """Estimate the tokens of a request."""
        return estimate_tokens(count_request_bytes(system, self.shown(), tools), bytes_a_token)

    def _say_again(self) -> None:
        lost = [part for part in self.relied_on if not any(part in message.text for message in self.shown())]
        if lost and self.messages:
            first = self.messages[0]
            self.messages[0] = first._replace(text="\n".join([*lost, first.text]))

    def shorten(self, template: str) -> bool:
        """Leave out the older half of the earlier turns, or else parts of this one's; False: nothing left."""
        if self.history:
            leave = (len(self.history) + 1) // 2
            self.history, self.forgotten = self.history[leave:], self.forgotten + leave
            self._say_again()
            return True
        results = self._cut_result(template, _SHORTEST_RESULT) or self._brief_calls() or self._cut_result(template, 0)
        return results or self._cut_said()

    def whole(self) -> HistoryView:
        """Return what is shown of earlier turns, for `restore`."""
        return HistoryView(self.history, self.forgotten, self.messages[0])

    def restore(self, earlier: HistoryView | None) -> None:
        """Show earlier turns again that were left out since; with None nothing changes."""
        if earlier:
            self.history, self.forgotten, self.messages[0] = earlier

    def _cut_said(self) -> bool:
        """Show half of the person's longest words, of which nothing is lost: they are kept as they were said."""
        longest = max((len(m.text) for m in (*self.messages, *self.waiting) if m.role == "user"), default=0)
        longest = min(longest, self.longest_said or longest)
        if longest < 2 * _SHORTEST_SAID:
            return False
        self.longest_said = longest // 2
        return True

    def _as_shown(self, message: Message) -> Message:
        if message.role != "user" or not 0 < self.longest_said < len(message.text):
            return message
        return message._replace(text=cut_result(message.text, self.longest_said, 0))

    def _cut_result(self, template: str, shortest: int) -> bool:
        """Leave out half of the longest result, or all of one that is kept; it is kept before it is cut."""
        results = [i for i, m in enumerate(self.messages) if m.role == "tool"]
        at = max(results, key=lambda i: len(self.messages[i].text), default=None)
        if at is None or len(text := self.messages[at].text) < (shortest or _SHORTEST_KEPT):
            return False
        call = self._call_of(at)
        number = find_result_number(text) or self.keep_whole(call.name, text)
        if not (shortest or number):
            return False
        head = text[: len(text) // 2] if shortest else ""
        before = call.arguments.get("start", 0) if call.name == READ_ON_TOOL else 0
        how = format_rest_hint(number, before + len(head))
        for shown in (
            fill_template(template, {"head": head}),
            f"{head}…",
        ):  # the template is the owner's, and may be long
            short = "\n".join(filter(None, (shown, how)))
            if len(short) < len(text):
                self.messages[at] = self.messages[at]._replace(text=short)
                return True
        return False

    def _call_of(self, at: int) -> ToolCall:
        """Find the call that a result is of."""
        wanted = self.messages[at].call_id
        calls = (call for message in reversed(self.messages[:at]) for call in message.calls)
        return next((call for call in calls if call.id == wanted), ToolCall(wanted, ""))

    def _brief_calls(self) -> bool:
        """Show the calls before the newest with the beginnings of long arguments; False when they are already."""
        before, self.brief_before = self.brief_before, self._newest_calls()
        return any(_shorten_calls(m) != m for m in self.messages[before : self.brief_before])

    def _newest_calls(self) -> int:
        return max((i for i, message in enumerate(self.messages) if message.calls), default=0)


def _shorten_calls(message: Message) -> Message:
    """Cut the long arguments of a message's calls."""
    return message._replace(
        calls=tuple(replace(call, arguments=_shorten_arguments(call.arguments)) for call in message.calls)
    )


def _shorten_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    long = {name: value for name, value in arguments.items() if isinstance(value, str) and len(value) > _LONG_ARGUMENT}
    return arguments | {name: f"{value[:_LONG_ARGUMENT]}…" for name, value in long.items()}


# Marks what an answer gives as measured although nobody has measured it.


def mark_unmeasured(talk: Conversation, asked: str, system: str, template: str) -> str:
    """Put the template behind the newest answer when nothing bears its measurements out; returns what was added."""
    answer = talk.messages[-1]
    values = find_unfounded_claims(answer.text, asked, talk.shown(), system)
    if not values:
        return ""
    added = f"\n{fill_template(template, {'values': ', '.join(values)}, 'values')}\n"
    talk.messages[-1] = answer._replace(text=f"{answer.text}{added}".rstrip())
    return added


# One answer of a model, as far as it has come.

CONTENT_FILTER = "content_filter"
"""How a server says that it has ended an answer that it does not want to give."""


@dataclass(slots=True)
class StreamedAnswer:
    """What was said, and which calls were asked for; `end` is how it ended, once it has."""

    said: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    end: End = field(default_factory=lambda: End("stop", Usage()))

    def take(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Text():
                self.said += event.text
            case ToolCall():
                self.calls.append(event)
            case End():
                self.end = event

    @property
    def repeats(self) -> bool:
        """Whether it was ended because it only says the same again and again; nothing of worth comes after."""
        return self.end.finish == REPEATS

    def worded(self, prompts: Templates, most: int, instead: str) -> str:
        """Its text as it is kept: `instead` where it says nothing, and marked when it was cut, at `most` tokens."""
        if self.end.finish == CONTENT_FILTER and not self.calls:
            return f"{self.said}\n{prompts['filtered']}".strip()
        if not self.said.strip():
            return "" if self.calls else instead
        if self.calls:
            return self.said
        if self.repeats:
            return f"{self.said[: len(self.said) - count_repeated(self.said)].rstrip()}\n{prompts['repeats']}"
        if self.end.finish == "length":
            return f"{self.said}\n{fill_template(prompts['cut'], {'tokens': str(most)})}"
        return self.said


# What the person should know about how an answer came about, when there is more than one thing of that kind.


def add_notice(earlier: Notice, event: Event) -> Notice:
    """Add what an event tells, if it is a notice, to the `earlier` ones of the turn; nothing is said twice."""
    if not isinstance(event, Notice):
        return earlier
    new = event.text not in earlier.text
    return Notice("; ".join(filter(None, [earlier.text, event.text if new else ""])), earlier.failed or event.failed)


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
        if image and (why := _explain_skip(len(image.data), len(images))):
            problems.append(f"{name} was not shown to the model: {why}")
        elif image:
            images[name] = image
    return Pictures(tuple(images.values()), tuple(images), tuple(problems))


def detect_media_type(head: bytes) -> str:
    """Tell a picture's media type from its first bytes; '' for what is none of the four that models read."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


def _explain_skip(size: int, before: int) -> str:
    if size > MAX_PICTURE_BYTES:
        return f"it has more than {MAX_PICTURE_BYTES / 1e6:g} MB; send it smaller, or as a photo"
    return f"{MAX_PICTURES} at once are enough" if before >= MAX_PICTURES else ""


def _read_picture(workspace: Path, name: str) -> Image | None:
    """Read a picture, and of one that is too large as much as shows that; None for another file. Raises OSError."""
    place = files.resolve_below(os.path.realpath(workspace), str(workspace / name))
    if place is None:
        raise OSError(errno.EXDEV, "it is not in the workspace")
    with os.fdopen(files.open_rooted(place), "rb") as file:
        head = file.read(_HEAD_BYTES)
        kind = detect_media_type(head)
        return Image(kind, head + file.read(MAX_PICTURE_BYTES)) if kind else None


# What a turn has used of its limits.

LAST_WORD_SECONDS = 60.0


@dataclass(slots=True)
class TurnBudget:
    """Counts from when it is made; `clock` gives seconds, `deadline` is by it."""

    limits: LimitsConfig
    clock: Callable[[], float]
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self.deadline = self.clock() + self.limits.seconds

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.clock() >= self.deadline

    def reached(self) -> str:
        """Name the limit that is reached, '' for none."""
        limits = self.limits
        reached = {
            "steps": self.steps >= limits.steps,
            "seconds": self.late,
            "tokens": self.usage.total >= limits.tokens,
        }
        return next((name for name, over in reached.items() if over), "")

    def reason(self, limit: str, prompts: Templates) -> str:
        """Say which limit ended a turn."""
        numbers = {"steps": self.limits.steps, "seconds": f"{self.limits.seconds:g}", "tokens": self.limits.tokens}
        return fill_template(prompts[f"limit_{limit}"], {name: str(number) for name, number in numbers.items()})

    def allow_last_word(self) -> None:
        """Give one more answer the time that it takes."""
        self.deadline = self.clock() + min(LAST_WORD_SECONDS, self.limits.seconds)


# What the person says while a turn runs.


@dataclass(slots=True)
class Steering:
    """Brings what was `typed` into a conversation, in the words of the template `wording`.

    `newest` is the user's newest message, `said` all that was taken in, and `unheard` what of it was handed back.
    """

    talk: Conversation
    typed: Callable[[], Sequence[str]]
    wording: str
    newest: str
    said: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()

    def heed(self) -> tuple[str, ...]:
        """Take in what was said since the last time; returns it."""
        said = tuple(self.typed())
        for text in said:
            self.newest = fill_template(self.wording or "{content}", {"content": text}, "content")
            self.talk.hear(self.newest)
        self.said += said
        return said

    def hand_back(self) -> None:
        """Take out again what still waits for an answer: none will come, so it is to be asked anew."""
        self.unheard = self.said[len(self.said) - len(self.talk.waiting) :]
        self.talk.waiting.clear()
