"""Any server that speaks Anthropic's Messages API: their own, gateways, and local servers that speak it beside others.

Source: https://platform.claude.com/docs/en/api/overview.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from picoclaw.config import ModelConfig
from picoclaw.messages import Request
from picoclaw.providers import Zone, messages_wire
from picoclaw.providers.server import Server

_VERSION = "2023-06-01"


class Anthropic(Server):
    """A provider that asks such a server."""

    def __init__(self, model: ModelConfig, key: str = "", zone: Zone = lambda: None) -> None:
        """See Server."""
        super().__init__(Messages(), model, key, zone)


class Messages:
    """The format of messages, as one server wants it."""

    kind = "anthropic"

    def __init__(self) -> None:
        """Nothing is known of the server yet."""
        self._without: set[str] = set()
        self._sent: set[str] = set()

    def url(self, base_url: str) -> str:
        """See Format; most name the address without the version, as for Anthropic's own libraries."""
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        """See Format."""
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        """See Format."""
        body = messages_wire.body(
            request,
            model.name or "default",
            stream=model.stream,
            temperature=model.temperature,
            images=model.images,
            without=self._without,
        )
        self._sent = messages_wire.optional(body)
        return body

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        """See Format."""
        return messages_wire.chunks(objects)

    def adapted(self, said: str) -> bool:
        """See Format."""
        away = {word for word in self._sent if word in said}
        self._without |= away
        return bool(away)
