"""A summary of a conversation's older part, which takes in the summary before it."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from picoclaw.compaction.carried import carried, newness, strange
from picoclaw.compaction.rendered import rendered
from picoclaw.errors import ContextOverflow, Refused, Unavailable
from picoclaw.memory.dream.direct import Answer, Model
from picoclaw.messages import Message, Usage
from picoclaw.prompt import Templates, cut, fill, size
from picoclaw.providers.fit import LONG
from picoclaw.ranking import words
from picoclaw.window import summary_bytes

_NONE, _BETWEEN = "-", "\n\n"
_LEAST_ROOM = 500
_LONG = 2  # times as long as the summary before: there must be something new in it
LEAST_NEW = 0.25
"""Share of a summary's words that the one before does not have; a small model copies that, and adds a line."""

_OF_A_TURN, _OF_TWO = 0.25, 1.5
"""Shares of what one request can hold: with both, each of two halves fits."""


class Summed(NamedTuple):
    """A summary, and of how many turns it is."""

    text: str
    turns: int


class Summariser:
    """Asks a `model` in the words of the `prompts`; `longest` are the bytes that a summary may have.

    `usage` adds up what the answers have cost, also those that were not used.
    """

    def __init__(self, prompts: Templates, model: Model) -> None:
        """Ask nothing yet."""
        self._prompts = prompts
        self._model = model
        self._halved = False
        self.usage = Usage()
        self.longest = summary_bytes(model.window)

    def summed(self, earlier: str, turns: Sequence[Sequence[Message]]) -> Summed:
        """Sum up turns after what was `earlier`, the summary before; of very many the oldest.

        Raises ProviderError, also for an answer that is not to be used: one that says nothing, was cut, only repeats
        itself, or is too long.
        """
        try:
            text, count = self._read_all(cut(earlier, self.longest), turns)
        except Refused as error:
            half, unexplained = turns[: len(turns) // 2], error.is_unexplained and not self._halved
            long = unexplained and sum(size(message.text) for turn in turns for message in turn) >= LONG
            if not half or not (long or isinstance(error, ContextOverflow)):
                raise
            self._halved = self._halved or unexplained
            return self.summed(earlier, half)
        if size(text) > self.longest:
            text = self._merged(cut(earlier, self.longest), text)
        if size(text) > self.longest:
            raise Refused(f"the model's summary is too long: {size(text)} bytes of {self.longest}")
        return Summed(carried(earlier, text, self.longest), count)

    def _read_all(self, earlier: str, turns: Sequence[Sequence[Message]]) -> Summed:
        """Sum up as many turns as two requests hold; when one is not enough, in two halves, of which one is made."""
        room = self._model.room(self._prompts["summary"]) - size(earlier or _NONE)
        if room < _LEAST_ROOM:
            raise Refused(f"a window of {self._model.window} tokens is too small for it")
        texts = [rendered(turn, int(room * _OF_A_TURN)) for turn in turns]
        ends = list(accumulate(size(text) + size(_BETWEEN) for text in texts))
        if ends[-1] <= room:
            return Summed(self._read(earlier, texts), len(texts))
        count = sum(end <= room * _OF_TWO for end in ends)
        middle = 1 + sum(end < ends[count - 1] / 2 for end in ends)
        older = cut(self._read(earlier, texts[:middle]), self.longest)
        newer = cut(self._read("", texts[middle:count]), self.longest)
        text = carried(older, self._merged(older, newer), self.longest)
        return Summed(carried(newer, text, self.longest), count)

    def _read(self, earlier: str, texts: Sequence[str]) -> str:
        """Sum up texts; a model that only says again what was summed up before is asked for them by themselves."""
        history = _BETWEEN.join(texts)
        text = self._asked("summary", {"summary": earlier or _NONE, "history": history})
        new = newness(text, earlier)
        if new >= LEAST_NEW or (new and size(history) < _LONG * size(earlier)):
            return text
        newer = self._asked("summary", {"summary": _NONE, "history": history})
        both = carried(earlier, newer, size(earlier) + 2 * size(newer))
        return both if size(both) <= self.longest else self._merged(earlier, newer)

    def _merged(self, older: str, newer: str) -> str:
        room = self._model.room(self._prompts["merge"]) - size(older or _NONE)
        return self._asked("merge", {"older": older or _NONE, "newer": cut(newer, room)})

    def _asked(self, name: str, values: dict[str, str]) -> str:
        """Ask in the words of a template, in which no value may be missing."""
        template = self._prompts[name]
        template += "".join(f"\n{{{value}}}" for value in values if f"{{{value}}}" not in template)
        answer = self._answer(fill(template, values))
        if answer.cut:
            raise Refused("the model's answer was cut off")
        if not words(answer.text):
            raise Refused("the model's answer says nothing")
        if strange(answer.text, values.values()):
            raise Refused(f"the model did not do it: {cut(' '.join(answer.text.split()), 120)}")
        return answer.text

    def _answer(self, question: str) -> Answer:
        """Ask once more when the line broke: a server may have closed one that was left open from before."""
        try:
            answer = self._model.ask(question)
        except Unavailable:
            answer = self._model.ask(question)
        self.usage += answer.usage
        return answer
