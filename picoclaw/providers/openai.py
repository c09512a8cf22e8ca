"""Any server that speaks OpenAI's chat completions, over one kept connection and without a vendor's package."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from picoclaw.config import ModelConfig, shown_url
from picoclaw.errors import ProviderError, Refused, Unavailable
from picoclaw.measure import request_bytes
from picoclaw.messages import End, Event, Request, Usage
from picoclaw.prompt import estimated_tokens
from picoclaw.providers import http, wire
from picoclaw.providers.inline import asked
from picoclaw.providers.line import Line
from picoclaw.providers.mask import Mask
from picoclaw.providers.outage import KNOCK_S, KnownDown, Outage
from picoclaw.providers.written import WANTS

if TYPE_CHECKING:
    import httpx

_FIELD = re.compile(r"(data|event|id|retry|error)?:")


class OpenAI:
    """A provider over HTTP."""

    def __init__(self, model: ModelConfig, key: str = "", transport: "httpx.BaseTransport | None" = None) -> None:
        """`key` may be empty; `transport` is for tests that stand in for the network."""
        self.name = f"openai:{model.name or 'default'}"
        self._model = model
        self._url = f"{model.base_url}/chat/completions"
        self._shown_url = shown_url(self._url)
        self._mask = Mask(key)
        self._cap = "max_tokens"
        self._count = True
        self._wants: set[str] = set()
        self._client = http.client(model.base_url, key, transport)
        self._line = Line()
        self._outage = Outage(partial(http.knocked, self._client, model.base_url, self._line, KNOCK_S))

    def close(self) -> None:
        """See Provider.close."""
        self._client.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        while True:
            begun = False
            try:
                for event in self._mask.events(self._answer(request)):
                    begun = True
                    yield event
                self._outage.ends()
                return
            except ProviderError as error:
                error.args = (self._mask.whole(str(error)),)
                self._judge(error)
                if begun or not self._adapted(str(error)):
                    raise

    def _judge(self, error: ProviderError) -> None:
        """Remember a server that does not answer; one that says no is there."""
        if isinstance(error, Refused):
            self._outage.ends()
        elif isinstance(error, Unavailable) and not isinstance(error, KnownDown):
            self._outage.begins(error)

    def _adapted(self, said: str) -> bool:
        """Do without what this server does not know, and with what it wants, once it has said so."""
        if self._cap == "max_tokens" and "max_completion_tokens" in said:
            self._cap = "max_completion_tokens"
            return True
        if self._count and "stream_options" in said:
            self._count = False
            return True
        wanted = {word for word in WANTS if word in said} - self._wants
        self._wants |= wanted
        return bool(wanted)

    def _answer(self, request: Request) -> Iterator[Event]:
        model = self._model
        name, temperature = model.name or "default", model.temperature
        self.name = f"openai:{request.model or name}"
        body = wire.body(request, name, stream=model.stream, cap=self._cap, temperature=temperature, wants=self._wants)
        if not self._count:
            body.pop("stream_options", None)
        assembler = wire.Assembler(wire.known_tools(request), asked(request))
        try:
            with self._posted(request, body) as pieces:
                for chunk in self._chunks(pieces):
                    yield from assembler.feed(chunk)
        except Unavailable:
            if not assembler.finish:  # else the answer is whole, and only its last mark is missing
                raise
        if not assembler.finish:
            raise Unavailable(f"{self._shown_url} ended its answer in the middle; nothing of it was acted on")
        for event in assembler.end():
            yield event._replace(usage=_counted(request, event.usage)) if isinstance(event, End) else event

    @contextmanager
    def _posted(self, request: Request, body: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """Send a body, unless it is known that nobody is there."""
        client, url, mask, wait = self._client, self._url, self._mask, self._model.idle_seconds
        with self._line.held(request.stop):
            self._outage.heed()
            with http.posted(client, url, body, mask, wait=wait, deadline=request.deadline, line=self._line) as pieces:
                yield pieces

    def _chunks(self, pieces: Iterator[bytes]) -> Iterator[Any]:
        """The JSON objects of a streamed answer or the one of a whole answer, whichever the server chose to send."""
        lines = map(self._mask.whole, _lines(pieces))
        first = next((line for line in lines if line.strip()), "").lstrip("\ufeff")
        http.refuse_web_page(first, self._url)
        if _FIELD.match(first):
            yield from _stream(chain([first], lines))
        else:
            yield http.parsed("\n".join([first, *lines]))
            yield wire.COMPLETE


def _counted(request: Request, usage: Usage) -> Usage:
    """Put the request's bytes beside the server's count; where it counted nothing, guess."""
    sent = request_bytes(request.system, request.messages, request.tools)
    if not usage.total:
        return Usage(estimated_tokens(sent))
    told = usage.prompt_tokens
    return Usage(told, usage.completion_tokens, ((sent, told),) if told else ())


def _stream(lines: Iterator[str]) -> Iterator[Any]:
    """Server-sent events (WHATWG HTML, section 9.2) whose data are one JSON object a line."""
    for line in lines:
        field, _, value = line.partition(":")
        if field == "error":
            raise wire.failure(0, http.parsed(value))
        if field != "data" or not value.strip():
            continue
        if value.strip() == "[DONE]":
            yield wire.COMPLETE
            http.drained(lines)
            return
        yield http.parsed(value)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Split at line feeds alone; JSON may hold what else Unicode calls the end of a line."""
    held = bytearray()
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            held += end
            yield held.decode("utf-8", "replace")
            held.clear()
        held += rest
    if held:
        yield held.decode("utf-8", "replace")
