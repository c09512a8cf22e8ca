"""The interface of a model: ask with a Request, get events back. The built-in matcher has it as well."""

from collections.abc import Iterator
from typing import Protocol

from picoclaw.answers import REPEATS
from picoclaw.errors import Refused, TurnStopped, raise_defects
from picoclaw.messages import End, Event, Request, Text, Usage
from picoclaw.records import NamedTuple


class Provider(Protocol):
    """Something that answers requests."""

    @property
    def name(self) -> str:
        """What to call it in a reply's record, such as `openai:qwen2.5`."""
        ...

    def events(self, request: Request) -> Iterator[Event]:
        """Answer with pieces of text, tool calls, and one End as the last event.

        Whole answers and streamed ones give the same events. Closing the iterator hangs up. Raises Unavailable,
        Refused or ContextOverflow.
        """
        ...

    def close(self) -> None:
        """Close connections; may be called twice."""
        ...


class FallbackProvider(Provider, Protocol):
    """A provider that needs no network and knows what it cannot answer."""

    rests: bool
    """Whether it answers because the owner's cap for the day is reached; set before it is asked."""

    def answers(self, text: str) -> bool:
        """Tell whether it can do what the text asks."""
        ...


def guard_events(events: Iterator[Event]) -> Iterator[Event]:
    """Pass on the events of a provider; a defect in its code raises Defect."""
    with raise_defects():
        yield from events


class WholeAnswer(NamedTuple):
    """What a model said; `cut` when it was stopped at the limit of tokens, or where it went round in circles."""

    text: str
    cut: bool
    usage: Usage


_MAX_BYTES_A_TOKEN = 16  # an answer that is longer than its tokens can be is no answer


def ask_whole(provider: Provider, request: Request) -> WholeAnswer:
    """Ask, and wait for the whole answer. Raises ProviderError and TurnStopped."""
    said, end = "", End("length", Usage())
    for event in provider.events(request):
        if request.stop:
            raise TurnStopped("interrupted")
        if isinstance(event, Text):
            said += event.text
        elif isinstance(event, End):
            end = event
            if end.finish == REPEATS:
                break  # which hangs up
        if len(said) > request.answer_tokens * _MAX_BYTES_A_TOKEN:
            raise Refused("the model's answer does not end")
    return WholeAnswer(said, end.finish in {"length", REPEATS}, end.usage)


BUILT_IN_PROVIDER = "intents"
"""The name of the matcher, which answers without a model."""


def describe_provider(name: str) -> str:
    """Say who answers, to a person."""
    return "Built-in matcher" if name == BUILT_IN_PROVIDER else name
