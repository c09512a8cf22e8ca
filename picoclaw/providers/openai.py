"""Any server that speaks OpenAI's chat completions."""

from collections.abc import Iterator, Mapping
from typing import Any

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import Request
from picoclaw.providers import Zone, openai_wire
from picoclaw.providers.http import HttpProvider
from picoclaw.providers.openai_wire import NO_THOUGHTS, QUIRKS, REASONING_FIELDS


class OpenAI(HttpProvider):
    """A provider that asks such a server."""

    def __init__(self, model: ModelConfig, key: str = "", zone: Zone = lambda: None) -> None:
        """See Server."""
        super().__init__(CompletionsFormat(), model, key, zone)


class CompletionsFormat:
    """The format of chat completions, as one server wants it."""

    kind = "openai"

    def __init__(self) -> None:
        """Nothing is known of the server yet."""
        self._cap = "max_tokens"
        self._wants: set[str] = set()
        self._without: set[str] = set()
        self._sent: set[str] = set()

    def url(self, base_url: str) -> str:
        """See Format."""
        return f"{base_url}/chat/completions"

    def headers(self, key: str) -> Mapping[str, str] | None:  # noqa: ARG002 - the protocol's
        """See Format."""
        return None

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        """See Format."""
        body = openai_wire.build_body(
            request,
            model.name or "default",
            stream=model.stream,
            cap=self._cap,
            temperature=model.temperature,
            wants=self._wants,
            images=model.images,
        )
        sent = {name: value for name, value in body.items() if name not in self._without}
        self._sent = {*sent, *(name for message in sent["messages"] for name in REASONING_FIELDS if name in message)}
        return sent

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        """See Format: they are such chunks."""
        return objects

    def adapted(self, said: str) -> bool:
        """See Format."""
        if self._cap == "max_tokens" and "max_completion_tokens" in said:
            self._cap = "max_completion_tokens"
            return True
        away = {word for word in ("stream_options", "temperature") if word in said and word in self._sent}
        self._without |= away
        wanted = {word for word in QUIRKS if word in said} - self._wants
        if not wanted and any(name in said for name in self._sent.intersection(REASONING_FIELDS)):
            wanted = {NO_THOUGHTS} - self._wants
        self._wants |= wanted
        return bool(away or wanted)
