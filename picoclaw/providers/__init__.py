"""The interface of a model: ask with a Request, get events back. The built-in matcher has it as well."""

from collections.abc import Iterator
from typing import Protocol

from picoclaw.messages import Event, Request, Usage
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


class WholeAnswer(NamedTuple):
    """What a model said; `cut` when it was stopped at the limit of tokens, or where it went round in circles."""

    text: str
    cut: bool
    usage: Usage


BUILT_IN_PROVIDER = "intents"
"""The name of the matcher, which answers without a model."""


def describe_provider(name: str) -> str:
    """Say who answers, to a person."""
    return "Built-in matcher" if name == BUILT_IN_PROVIDER else name
