"""The first meeting without a model: which words answer the open question of the tool `first_run`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from picoclaw.messages import Message
from picoclaw.providers.match import SURE, Match
from picoclaw.providers.phrasebook import Intent
from picoclaw.providers.sentence import Sentence

TOOL = "first_run"
_GREETING = "hello"
"""The intent that begins the meeting, or goes on with it."""

_QUESTION = re.compile(r"^([A-Z][a-z]*(?: [a-z]+)*): [^\n]*\?\Z", re.MULTILINE)
_LONGEST = {"name": 4, "time_zone": 6}
"""Words in an answer; other questions may be answered at length."""


class Meeting:
    """What the data calls an answer. Used only where the tool is offered."""

    def __init__(self, words: Mapping[str, Mapping[str, Any]], intents: Mapping[str, Intent], say: Mapping[str, str]):
        """`words`, `intents` and `say` are the matcher's."""
        self._words, self._intents, self._say = words, intents, say

    def match(self, earlier: Sequence[Message], text: str, match: Match | None, unserved: str | None) -> Match | None:
        """Make the match a call of the tool if the text answers its question or should begin it, else leave it.

        `unserved` is what is said of a text that nothing understands, before it begins the meeting; None leaves it too.
        """
        s = Sentence(text, self._words)
        begun, field = _asked(earlier, self._say["later"])
        if match and match.tool == TOOL:
            return match
        if match and match.intent == _GREETING:
            return _call({})
        if not _served(match) and (name := self._introduced(s)):
            return _call({"name": name})
        if field:
            return self._replied(field, s, match)
        return match if begun or _served(match) or unserved is None else _call({}, unserved)

    def _replied(self, field: str, s: Sentence, match: Match | None) -> Match | None:
        """What a text means while the question for a field is open."""
        said = self._bare(s) or s.raw.strip()
        if said in self._words["later"]:
            return Match("later", "", {}, self._say["later"], 1.0, "meeting")
        if said in self._words["nods"]:
            return _call({})
        if said in self._words["skips"]:
            return _call({field: "skip"})
        return _call({field: self._answer(field, s)}) if self._answers(field, s, match) else match

    def _answers(self, field: str, s: Sentence, match: Match | None) -> bool:
        """Whether a sentence is an answer rather than a question, a request, small talk or markup."""
        short = field in _LONGEST
        if (
            not s.words
            or s.asks
            or s.raw.lstrip().startswith("<")
            or self._begins(s, "wants")
            or (short and len(s.words) > _LONGEST[field])
        ):
            return False
        if match is None:
            return True
        if match.tool:
            return not (short or self._intents[match.intent].acts or self._begins(s, "fetches"))
        return not match.answer and (match.route == "template" or match.score < SURE)

    def _introduced(self, s: Sentence) -> str:
        """The name in "I'm Ada", which "I'm cold" is not."""
        hit = s.longest(self._words["introduces"], self._starts(s)[-1]) if s.words else None
        name = s.text(hit[1], len(s.words)).rstrip("!") if hit and hit[1] < len(s.words) else ""
        parts = name.split()
        return name if len(parts) <= _LONGEST["name"] and all(part[:1].isupper() for part in parts) else ""

    def _answer(self, field: str, s: Sentence) -> str:
        """The answer as it was written, without "I live in" and "please"."""
        first, end = 0, len(s.words)
        if field in _LONGEST:
            hit = s.longest(self._words["opens"], 0)
            first = hit[1] if hit and hit[1] < end else 0
        else:
            polite = (
                i for i in range(1, end) if (hit := s.longest(self._words["polite"], i)) and hit[1] == len(s.words)
            )
            end = next(polite, end)
        return s.text(first, end).rstrip("!")

    def _begins(self, s: Sentence, table: str) -> bool:
        """Whether a sentence begins with a word of a table, and goes on: "Will" alone is a name."""
        return any(i + 1 < len(s.words) and s.longest(self._words[table], i) for i in self._starts(s))

    def _starts(self, s: Sentence) -> list[int]:
        """Where a sentence may begin: at once, and behind words such as "ok, so"."""
        starts = [0]
        while (hit := s.longest(self._words["lead"], starts[-1])) and hit[1] < len(s.words):
            starts.append(hit[1])
        return starts

    def _bare(self, s: Sentence) -> str:
        """The words that are not only polite; all of them if they all are."""
        polite = self._words["polite"]
        kept: list[str] = []
        i = 0
        while i < len(s.words):
            hit = s.longest(polite, i)
            kept += [] if hit else [s.words[i]]
            i = hit[1] if hit else i + 1
        return " ".join(kept or s.words)


def _call(arguments: dict[str, Any], before: str = "") -> Match:
    return Match(TOOL, TOOL, arguments, f"{before}\n{{result}}".strip(), 1.0, "meeting")


def _served(match: Match | None) -> bool:
    return match is not None and bool(match.tool or match.answer)


def _asked(messages: Sequence[Message], put_off: str) -> tuple[bool, str]:
    """Whether the tool was used at all, and the field of the question that its newest good result ends with.

    No question is open after the answer that puts it off.
    """
    results: dict[str, str] = {}
    begun = False
    for message in reversed(messages):
        if message.role == "assistant" and message.text == put_off and not message.calls:
            return True, ""
        if message.role == "tool":
            results[message.call_id] = message.text
        for call in reversed(message.calls):
            result = results.pop(call.id, "error: ")
            if call.name != TOOL:
                continue
            begun = True
            if not result.startswith("error: "):
                found = _QUESTION.search(result)
                return begun, found[1].lower().replace(" ", "_") if found else ""
    return begun, ""
