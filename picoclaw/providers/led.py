"""A model, with the first meeting held by the matcher where the model lets it drop, as small ones do."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from picoclaw.messages import End, Event, Message, Request, Text, ToolCall
from picoclaw.providers import Provider
from picoclaw.providers.intents import Intents
from picoclaw.providers.meeting import TOOL

_PATIENCE = 2
"""Turns; in the first a model may only greet."""


class Led:
    """What belongs to an open meeting is answered by the matcher once it leads, and all else by the model.

    The meeting is open where its tool is offered.
    """

    def __init__(
        self,
        model: Provider,
        matcher: Callable[[], Intents],
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
    def _matcher(self) -> Intents:
        return self._make_matcher()

    @property
    def name(self) -> str:
        """The name of whichever answered last."""
        return self._matcher.name if self._leading else self._model.name

    def close(self) -> None:
        """See Provider.close."""
        self._model.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        rest = tuple(tool for tool in request.tools if tool["name"] != TOOL)
        if len(rest) == len(request.tools) or not self._leads(_turns(request.messages)[:-1]):
            self._leading = False
            yield from self._model.events(request)
            return
        if request.messages[-1].role == "user":
            self._leading = request.calls and self._matcher.meets(request.messages)
        if self._leading:
            yield from self._matcher.events(request)
        else:
            yield from self._invited(request._replace(tools=rest))

    def _invited(self, request: Request) -> Iterator[Event]:
        """The model's answer; when it says something and calls nothing, the invitation follows it, once."""
        said = called = False
        invitation = "" if _is_known(request, self._invitation()) else self._invitation()
        for event in self._model.events(request):
            said, called = said or isinstance(event, Text), called or isinstance(event, ToolCall)
            if isinstance(event, End) and said and not called and invitation:
                yield Text(f"\n\n{invitation}")
            yield event


def dropped(turns: Sequence[Sequence[Message]]) -> bool:
    """Tell whether a conversation's first two turns went by without a word about the meeting being noted."""
    begun = turns[:_PATIENCE]
    return len(begun) == _PATIENCE and not any(call.name == TOOL for turn in begun for m in turn for call in m.calls)


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            turns.append([])
        if turns:
            turns[-1].append(message)
    return turns


def _is_known(request: Request, invitation: str) -> bool:
    """Whether the meeting has begun in this conversation, or the owner was invited to it."""
    return any(
        (message.role == "assistant" and invitation in message.text) or any(call.name == TOOL for call in message.calls)
        for message in request.messages
    )
