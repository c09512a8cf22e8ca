"""The provider that needs no model: it matches a sentence to a tool call and says the tool's result."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL
from picoclaw.intents import onboarding
from picoclaw.intents.grammar import Grammar, IntentMatch, fill_fields
from picoclaw.intents.matcher import IntentMatcher
from picoclaw.intents.onboarding import ONBOARDING_TOOL
from picoclaw.messages import End, Event, Message, Notice, Request, Text, ToolCall, Usage
from picoclaw.providers import BUILT_IN_PROVIDER, Provider
from picoclaw.text import pattern
from picoclaw.window import remove_hints

_JOB_NUMBER = pattern(r" as number (\d+) ")
_SEARCH_HIT = pattern(r"^\[id:\d+\] (\S+ (?:\([^)\n]*\) )?)[01]\.\d\d ", re.MULTILINE)
"""A line of what a search has found: what a model names it by, where it is from, and how sure it is."""
_CONTROL_CHARS = {**dict.fromkeys([*range(32), 127], " "), 9: "\t", 10: "\n"}


class IntentProvider:
    """Answers with templates and examples instead of a model."""

    name = BUILT_IN_PROVIDER

    def __init__(
        self,
        data: Sequence[Mapping[str, Any]] | Grammar,
        *,
        configured_model: str = "",
        sources: Sequence[str] = (),
        opened: Callable[[Collection[Any]], Collection[Any]] = frozenset,
    ) -> None:
        """`data`: what is shipped, then the owner's; `sources` names the files in messages.

        `opened` names the tools that those offered open: a sentence may mean them at once.
        """
        self.rests = False
        self._opened = opened
        self._matcher = IntentMatcher(data, sources)
        self._model = configured_model
        self._meeting = onboarding.Onboarding(self._matcher.words, self._matcher.intents, self._matcher.say)

    def answers(self, text: str) -> bool:
        """Whether the text asks for a tool that this provider knows; small talk does not count."""
        match = self.match(text, ())
        return match is not None and bool(match.tool)

    def meets(self, messages: Sequence[Message]) -> bool:
        """Whether the last of the messages, a user's, belongs to the first meeting: a greeting, a name, an answer."""
        match = self.match(messages[-1].text, {onboarding.ONBOARDING_TOOL})
        found = self._meeting.match(messages[:-1], _clean_text(messages[-1].text), match, None)
        return found is not None and (found.tool == onboarding.ONBOARDING_TOOL or found.route == "meeting")

    def match(self, text: str, offered: Collection[Any] | None = None) -> IntentMatch | None:
        """What a user's message means, without the block that tells a model the time; `offered` as in IntentMatcher.match."""
        return self._matcher.match(_clean_text(text), offered)

    def _understood(self, messages: Sequence[Message], offered: Collection[Any]) -> IntentMatch | None:
        text = messages[-1].text
        match = self.match(text, offered)
        if onboarding.ONBOARDING_TOOL not in offered:
            return match
        return self._meeting.match(messages[:-1], _clean_text(text), match, self._words(None, ()))

    def events(self, request: Request) -> Iterator[Event]:
        last = request.messages[-1] if request.messages else Message("user", "")
        if last.role == "tool":
            if last.text.startswith("error: "):
                waits = last.text.partition(WAITING_FOR_APPROVAL)[1] and _JOB_NUMBER.search(last.text)
                why = f"it waits for the owner's yes as number {waits[1]} (/yes {waits[1]})" if waits else last.text
                yield Notice(why.removeprefix("error: "), failed=True)
            yield Text(self._result(request.messages))
            yield End("stop", Usage())
            return
        offered = {tool.get("name") for tool in request.tools if request.calls}
        offered |= {*self._opened(offered)}
        match = self._understood(request.messages, offered) if last.role == "user" and request.messages else None
        if match and match.tool in offered and not match.missing:
            yield ToolCall(f"intent-{len(request.messages)}", match.tool, match.arguments)
            yield End("tool_calls", Usage())
            return
        yield Text(self._words(match, offered))
        yield End("stop", Usage())

    def close(self) -> None:
        """Nothing is held open."""

    def _words(self, match: IntentMatch | None, offered: Collection[Any]) -> str:
        say = self._matcher.say
        if match is None or not (match.tool or match.answer):
            why = ("resting" if self.rests else "unreachable") if self._model else "no_model"
            return fill_fields(say[why], {"model": self._model})
        if not match.tool:
            return fill_fields(match.answer, match.arguments)
        if match.tool not in offered:
            wording = self._matcher.tools.get(match.tool, {})
            return fill_fields(say["no_tool"], {"does": f"use {match.tool}", "lacks": "it is not there", **wording})
        return match.missing

    def _result(self, messages: Sequence[Message]) -> str:
        newest = remove_hints(messages[-1].text)
        if newest.startswith("error: ") and WAITING_FOR_APPROVAL in newest:
            return self._waiting(messages, newest)
        if newest.startswith("error: "):
            return fill_fields(self._matcher.say["failed"], {"result": newest.removeprefix("error: ")})
        match = self._answered(messages)
        if match is None:
            return newest
        return fill_fields(match.answer, {**match.arguments, "result": _SEARCH_HIT.sub(r"\1", newest)})

    def _answered(self, messages: Sequence[Message]) -> IntentMatch | None:
        """The match whose call the last of the messages is the result of."""
        asked = next((i for i in range(len(messages), 0, -1) if messages[i - 1].role == "user"), 0)
        calls = (call for message in messages[asked:] for call in message.calls)
        called = {call.name for call in calls if call.id == messages[-1].call_id}
        match = self._understood(messages[:asked], called) if asked else None
        return match if match and match.tool in called else None

    def _waiting(self, messages: Sequence[Message], newest: str) -> str:
        """Ask the owner for the yes that a call waits for, with what it would do."""
        match = self._answered(messages)
        number = _JOB_NUMBER.search(newest)
        if match is None or number is None:
            return newest.removeprefix("error: ").partition(MEANING_PREFIX)[0]
        does = self._matcher.tools.get(match.tool, {}).get("does", "do this")
        asks = self._matcher.intents[match.intent].asks or f"Shall I {does}?"
        means = newest.partition(MEANING_PREFIX)[2]
        question = f"{fill_fields(asks, match.arguments)} {means}".strip()
        return fill_fields(self._matcher.say["waiting"], {"asks": question, "number": number[1]})


def _clean_text(text: str) -> str:
    """A user's words without the heads before them, and without characters that no word has."""
    return text.rpartition("</moment>")[2].encode("utf-8", "replace").decode().translate(_CONTROL_CHARS)


# A model, with the first meeting held by the matcher where the model lets it drop, as small ones do.

_TURNS_BEFORE_MATCHER = 2
"""Turns; in the first a model may only greet."""


class OnboardingProvider:
    """What belongs to an open meeting is answered by the matcher once it leads, and all else by the model.

    The meeting is open where its tool is offered.
    """

    def __init__(
        self,
        model: Provider,
        matcher: Callable[[], IntentProvider],
        leads: Callable[[Sequence[Sequence[Message]]], bool],
        invitation: Callable[[], str],
    ) -> None:
        """Make the `matcher` when it `leads` a meeting after some turns; the `invitation` to it follows an answer."""
        self._model = model
        self._make_matcher = matcher
        self._leads = leads
        self._invitation = invitation
        self._leading = False

    @cached_property
    def _matcher(self) -> IntentProvider:
        return self._make_matcher()

    @property
    def name(self) -> str:
        return self._matcher.name if self._leading else self._model.name

    def close(self) -> None:
        self._model.close()

    def events(self, request: Request) -> Iterator[Event]:
        rest = tuple(tool for tool in request.tools if tool["name"] != ONBOARDING_TOOL)
        if len(rest) == len(request.tools) or not self._leads(_split_turns(request.messages)[:-1]):
            self._leading = False
            return self._model.events(request)
        if request.messages[-1].role == "user":
            self._leading = request.calls and self._matcher.meets(request.messages)
        if self._leading:
            return self._matcher.events(request)
        return self._invited(request._replace(tools=rest))

    def _invited(self, request: Request) -> Iterator[Event]:
        """The model's answer; when it says something and calls nothing, the invitation follows it, once."""
        said = called = False
        invitation = "" if _is_onboarding_known(request, self._invitation()) else self._invitation()
        for event in self._model.events(request):
            said, called = said or isinstance(event, Text), called or isinstance(event, ToolCall)
            if isinstance(event, End) and said and not called and invitation:
                yield Text(f"\n\n{invitation}")
            yield event


def is_onboarding_dropped(turns: Sequence[Sequence[Message]]) -> bool:
    """Tell whether a conversation's first two turns went by without a word about the meeting being noted."""
    begun = turns[:_TURNS_BEFORE_MATCHER]
    return len(begun) == _TURNS_BEFORE_MATCHER and not any(
        call.name == ONBOARDING_TOOL for turn in begun for m in turn for call in m.calls
    )


def _split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            turns.append([])
        if turns:
            turns[-1].append(message)
    return turns


def _is_onboarding_known(request: Request, invitation: str) -> bool:
    """Whether the meeting has begun in this conversation, or the owner was invited to it."""
    return any(
        (message.role == "assistant" and invitation in message.text)
        or any(call.name == ONBOARDING_TOOL for call in message.calls)
        for message in request.messages
    )
