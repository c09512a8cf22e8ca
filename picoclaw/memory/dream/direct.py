"""One question to a model and its whole answer: no conversation, no tools, and never the built-in matcher's words."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from picoclaw.errors import Refused, TurnStopped
from picoclaw.messages import End, Message, Purpose, Request, Stop, Text, Usage
from picoclaw.pattern import pattern
from picoclaw.prompt import estimated_tokens, size
from picoclaw.providers import Provider
from picoclaw.providers.repetition import REPEATS

ANSWER_TOKENS = 4000
CAUTIOUS = 3.0
"""Bytes a token, so that a question fits the window with a vocabulary that is not made for English."""

_LONGEST_S = 600.0
_LEAST_ANSWER = 256
_MOST_BYTES_A_TOKEN = 16  # an answer that is longer than its tokens can be is no answer
_FENCED = pattern(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_THOUGHT = pattern(r"\A\s*<think>.*?</think>", re.DOTALL)


class Answer(NamedTuple):
    """What a model said; `cut` when it was stopped at the limit of tokens."""

    text: str
    cut: bool
    usage: Usage


class Model(NamedTuple):
    """A model without a fallback: its window in tokens, a clock in seconds, and who tells that nobody waits any more.

    `purpose` is what for.
    """

    provider: Provider
    window: int
    clock: Callable[[], float]
    stop: Stop | None = None
    purpose: Purpose = Purpose()

    @property
    def answer_tokens(self) -> int:
        """The most tokens of an answer; the larger part of a small window is for the question."""
        return max(_LEAST_ANSWER, min(ANSWER_TOKENS, self.window // 3))

    def room(self, template: str) -> int:
        """The bytes that a question may have beside its template."""
        return int((self.window - self.answer_tokens) * CAUTIOUS) - size(template)

    def ask(self, text: str) -> Answer:
        """Ask and wait for the whole answer; raises ProviderError."""
        if estimated_tokens(size(text), CAUTIOUS) > self.window - self.answer_tokens:
            raise Refused(f"what there is to read does not fit the model's window of {self.window} tokens")
        said, end = "", End("length", Usage())
        deadline = self.clock() + _LONGEST_S
        asked_for = (Message("user", text),), (), self.answer_tokens, deadline
        request = Request("", *asked_for, stop=self.stop, purpose=self.purpose)
        for event in self.provider.events(request):
            if self.stop:
                raise TurnStopped("interrupted")
            if isinstance(event, Text):
                said += event.text
            elif isinstance(event, End):
                end = event
            if len(said) > self.answer_tokens * _MOST_BYTES_A_TOKEN:
                raise Refused("the model's answer does not end")
        return Answer(bare(said), end.finish in {"length", REPEATS}, end.usage)


def bare(text: str) -> str:
    """Take off what a model thought aloud, and a fence around the whole."""
    text = _THOUGHT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    fenced = _FENCED.match(text)
    return (fenced[1] if fenced and "\n```" not in fenced[1] else text).strip()


def listed(text: str) -> list[Any] | None:
    """Find the JSON list in an answer, also in words around it; None when there is none."""
    for start, end in (("[", "]"), ("{", "}")):
        try:
            found = json.loads(text[text.index(start) : text.rindex(end) + 1])
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, list) else [found]
    return None
