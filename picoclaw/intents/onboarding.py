"""The first meeting without a model: which words answer the open question of the tool `first_run`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from picoclaw.intents.grammar import EXACT_SCORE, Intent, IntentMatch
from picoclaw.intents.sentence import Sentence
from picoclaw.intents.times import WordTables
from picoclaw.messages import ERROR_PREFIX, ONBOARDING_TOOL, Message
from picoclaw.text import pattern
from picoclaw.times import parse_zone

_GREETING_INTENT = "hello"
"""The intent that begins the meeting, or goes on with it."""

_QUESTION = pattern(r"^([A-Z][a-z]*(?: [a-z]+)*): [^\n]*\?\Z", re.MULTILINE)
_MAX_WORDS = {"name": 4, "time_zone": 6}
"""Words in an answer; other questions may be answered at length."""
_MAX_UNCLEAR_WORDS = 12
_FILLER_WORDS = frozenset({"a", "and", "in", "it", "keep", "no", "only", "please", "the", "with"})
_MAX_MESSAGES_OPEN = 6
"""Messages after a question, beyond which nothing is taken for its answer."""
_CAPITALS = pattern(r"[A-Z]{4}")
_PART_NAME = pattern(r"(?=[a-z]{0,12}\d)\d{0,12}[a-z]")


class Onboarding:
    """What the data calls an answer. Used only where the tool is offered."""

    def __init__(self, words: WordTables, intents: Mapping[str, Intent], say: Mapping[str, str]):
        self._words, self._intents, self._say = words, intents, say

    def match(
        self, earlier: Sequence[Message], text: str, match: IntentMatch | None, unserved: str | None
    ) -> IntentMatch | None:
        """Make the match a call of the tool if the text answers its question or should begin it, else leave it.

        `unserved` is what is said of a text that nothing understands, before it begins the meeting; None leaves it too.
        """
        s = Sentence(text, self._words)
        begun, field = _find_question(earlier, self._say["later"])
        if match and match.tool == ONBOARDING_TOOL:
            return (
                match
                if self._is_plausible(match)
                else IntentMatch("unclear", "", {}, self._say["name"], 1.0, "unclear")
            )
        is_greeting = match is not None and match.intent == _GREETING_INTENT
        if (is_greeting or not _is_served(match)) and (name := self._introduced(s)):
            return _make_call({"name": name})
        if is_greeting:
            return _make_call({})
        if self._bare(s) in self._words["undo"]:
            noted = _find_last_noted(earlier)
            return _make_call(dict.fromkeys(noted, "undo")) if noted else match
        if field:
            return self._replied(field, s, match, unserved)
        return match if begun or _is_served(match) or unserved is None else _make_call({}, unserved)

    def _replied(self, field: str, s: Sentence, match: IntentMatch | None, unserved: str | None) -> IntentMatch | None:
        said = self._bare(s) or s.raw.strip()
        if said in self._words["later"]:
            return IntentMatch("later", "", {}, self._say["later"], 1.0, "meeting")
        if said in self._words["nods"]:
            return _make_call({})
        if said in self._words["skips"]:
            return _make_call({field: "skip"})
        if self._answers(field, s, match):
            return _make_call({field: self._answer(field, s)})
        if _is_served(match) or unserved is None or s.asks or len(s.words) > _MAX_UNCLEAR_WORDS:
            return match
        return IntentMatch("unclear", "", {}, f"{unserved}\n{self._say[field]}", 1.0, "unclear")

    def _answers(self, field: str, s: Sentence, match: IntentMatch | None) -> bool:
        """Whether a sentence only answers the question for a field; what another intent understands has its words alone."""
        if not s.words or s.asks or s.raw.lstrip().startswith("<") or self._begins(s, "wants"):
            return False
        if field in _MAX_WORDS:
            plain = not _is_served(match) or (
                match is not None
                and match.route != "template"
                and (match.score < EXACT_SCORE or (match.route == "frame" and not match.tool))
            )
            return plain and len(s.words) <= _MAX_WORDS[field] and self._is_named(field, s)
        is_of_field = any(self._is_word_of(field, word) for word in s.words)
        if match and match.tool:
            if self._intents[match.intent].kind or self._begins(s, "fetches"):
                return False
            return (match.route != "template" and is_of_field) or self._is_only(field, s)
        small_talk = (
            match is not None
            and bool(match.answer)
            and (match.route == "template" or (match.score >= EXACT_SCORE and match.route != "frame"))
        )
        return not small_talk and is_of_field

    def _is_plausible(self, match: IntentMatch) -> bool:
        """Whether the name that a sentence gives is one: not "maybe later", and no further sentence behind it."""
        parts = str(match.arguments.get("name", "")).split()
        return len(parts) < 2 or (len(parts) <= _MAX_WORDS["name"] and all(part[:1].isupper() for part in parts))

    def _is_named(self, field: str, s: Sentence) -> bool:
        """Whether a text is a name: written as one, or behind "it is"; or a time zone."""
        hit = s.longest(self._words["opens"], 0)
        if hit and hit[1] < len(s.words):
            return True
        if field == "time_zone" and _is_zone(s.raw.strip()):
            return True
        line = Sentence(s.raw.strip().partition("\n")[0], self._words)
        parts = [line.text(i, i + 1) for i in range(len(line.words))]
        if line.longest(self._words["lead"], 0) or line.longest(self._words["halts"], 0):
            return False
        return bool(parts) and all(part[:1].isupper() and not _CAPITALS.match(part) for part in parts)

    def _is_only(self, field: str, s: Sentence) -> bool:
        polite = Sentence(self._bare(s), self._words).words
        return field == "preferences" and all(self._is_word_of(field, word) or word in _FILLER_WORDS for word in polite)

    def _is_word_of(self, field: str, word: str) -> bool:
        """Whether a word is one that answers the question for a field use; a part such as "bme280" has a digit."""
        part = field == "wired" and bool(_PART_NAME.match(word))
        return part or word in self._words[field]

    def _introduced(self, s: Sentence) -> str:
        """The name in "I'm Ada", which "I'm cold" is not."""
        hit = s.longest(self._words["introduces"], self._starts(s)[-1]) if s.words else None
        name = s.text(hit[1], len(s.words)).rstrip("!") if hit and hit[1] < len(s.words) else ""
        parts = name.split()
        return name if len(parts) <= _MAX_WORDS["name"] and all(part[:1].isupper() for part in parts) else ""

    def _answer(self, field: str, s: Sentence) -> str:
        """The answer as it was written, without "I live in" and "please"."""
        first, end = 0, len(s.words)
        if field in _MAX_WORDS:
            hit = s.longest(self._words["opens"], 0)
            first = hit[1] if hit and hit[1] < end else 0
        else:
            polite = ((i, hit[1]) for i in range(1, end) if (hit := s.longest(self._words["polite"], i)))
            end = next((i for i, stop in polite if stop == len(s.words)), end)
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


def _make_call(arguments: dict[str, Any], before: str = "") -> IntentMatch:
    return IntentMatch(ONBOARDING_TOOL, ONBOARDING_TOOL, arguments, f"{before}\n{{result}}".strip(), 1.0, "meeting")


def _is_zone(text: str) -> bool:
    try:
        parse_zone(text)
    except ValueError:
        return False
    return True


def _is_served(match: IntentMatch | None) -> bool:
    return match is not None and bool(match.tool or match.answer)


def _find_question(messages: Sequence[Message], put_off: str) -> tuple[bool, str]:
    """Whether the tool was used at all, and the field of the question that its newest good result ends with.

    No question is open after the answer that puts it off.
    """
    begun, since = False, 0
    for message, results in _iter_backwards(messages):
        since += message.role == "user"
        if message.role == "assistant" and message.text == put_off and not message.calls:
            return True, ""
        for call in reversed(message.calls):
            result = results.pop(call.id, ERROR_PREFIX)
            if call.name != ONBOARDING_TOOL:
                continue
            begun = True
            if not result.startswith(ERROR_PREFIX):
                found = _QUESTION.search(result) if since < _MAX_MESSAGES_OPEN else None
                return begun, found[1].lower().replace(" ", "_") if found else ""
    return begun, ""


def _find_last_noted(messages: Sequence[Message]) -> list[str]:
    """The fields of the newest answer that was noted, none where that was taken back."""
    for message, results in _iter_backwards(messages):
        for call in reversed(message.calls):
            good = call.name == ONBOARDING_TOOL and not results.pop(call.id, ERROR_PREFIX).startswith(ERROR_PREFIX)
            if good and call.arguments:
                return [field for field, value in call.arguments.items() if isinstance(value, str) and value != "undo"]
    return []


def _iter_backwards(messages: Sequence[Message]) -> Iterator[tuple[Message, dict[str, str]]]:
    """The messages, the newest first, each with the results that came after it by the ids of their calls."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "tool":
            results[message.call_id] = message.text
        yield message, results
