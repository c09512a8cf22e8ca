"""The door to a model: ask with a Request, get events back. What stands behind it may be no model at all."""

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import Protocol

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import Event, Request


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
        """Let go of connections; may be called twice."""
        ...


class FallbackProvider(Provider, Protocol):
    """A provider that needs no network and knows what it cannot answer."""

    rests: bool
    """Whether it answers because the owner's cap for the day is reached; set before it is asked."""

    def answers(self, text: str) -> bool:
        """Tell whether it can do what the text asks."""
        ...


BUILT_IN_PROVIDER = "intents"
"""The name of the matcher, which answers without a model."""


Zone = Callable[[], tzinfo | None]
"""Gives the owner's time zone, None for the board's own."""


def make_provider(model: ModelConfig, key: str, zone: Zone = lambda: None) -> Provider:
    """Make the provider that speaks what a model's server does. Raises Refused for a key or a proxy that is no use."""
    if model.api == "anthropic":
        from picoclaw.providers.anthropic import Anthropic

        return Anthropic(model, key, zone)
    from picoclaw.providers.openai import OpenAI

    return OpenAI(model, key, zone)
