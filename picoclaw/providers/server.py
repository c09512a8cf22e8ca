"""A model server over one kept connection, whichever format it speaks, and without a vendor's package."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Protocol

from picoclaw.config import ModelConfig, shown_url
from picoclaw.errors import KnownDown, ProviderError, Refused, Unavailable
from picoclaw.measure import request_bytes
from picoclaw.messages import End, Event, Image, Message, Notice, Request, Usage
from picoclaw.prompt import estimated_tokens
from picoclaw.providers import Zone, http, sse, wire
from picoclaw.providers.inline import asked
from picoclaw.providers.line import Line
from picoclaw.providers.mask import Mask
from picoclaw.providers.outage import KNOCK_S, Outage

_FIELD = re.compile(r"(data|event|id|retry|error)?:")
_SIGHT = ("image", "vision", "multimodal", "mmproj", "multi-modal")
"""Words by which servers complain of a picture."""

_BUSY = re.compile(r"\((?:408|429|503|529)\)")
"""What passes by itself, with the same picture."""


class Format(Protocol):
    """How servers of one kind are spoken to, and what one of them has turned out to want. Knows no network."""

    kind: str
    """Its name, such as `openai`."""

    def url(self, base_url: str) -> str:
        """Where requests go."""
        ...

    def headers(self, key: str) -> Mapping[str, str] | None:
        """Show the key; None where a bearer's header does."""
        ...

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        """Write a request."""
        ...

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        """Give what the server sends as chunks for the Assembler, and at last COMPLETE."""
        ...

    def adapted(self, said: str) -> bool:
        """Do without what the server does not know, and with what it wants; whether there is anything new in that."""
        ...


class Server:
    """A provider over HTTP, in one format."""

    def __init__(self, form: Format, model: ModelConfig, key: str = "", zone: Zone = lambda: None) -> None:
        """`key` may be empty; times that a person reads are in the `zone`, None for the board's."""
        self.name = f"{form.kind}:{model.name or 'default'}"
        self._form = form
        self._model = model
        self._url = form.url(model.base_url)
        self._shown_url = shown_url(self._url)
        self._mask = Mask(key)
        self._unseen: tuple[Image, ...] = ()
        self._client = http.client(key, form.headers(key))
        self._line = Line()
        self._outage = Outage(partial(http.knocked, self._client, model.base_url, self._line, KNOCK_S), zone=zone)

    def close(self) -> None:
        """See Provider.close."""
        self._client.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        request = self._sighted(request)
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
                if begun:
                    raise
                if self._blinded(request, error):
                    yield Notice(f"the model was not shown the picture: {error}")
                    request = self._sighted(request)
                elif not self._form.adapted(str(error)):
                    raise

    def _judge(self, error: ProviderError) -> None:
        """Remember a server that does not answer; one that says no is there."""
        if isinstance(error, Refused):
            self._outage.ends()
        elif isinstance(error, Unavailable) and not isinstance(error, KnownDown):
            self._outage.begins(error)

    def _sighted(self, request: Request) -> Request:
        """Leave out the pictures that this model does not take, or that its server has refused in this turn."""
        images = _images(request.messages)
        if not images or (self._model.images and images != self._unseen):
            return request
        return request._replace(messages=tuple(message._replace(images=()) for message in request.messages))

    def _blinded(self, request: Request, error: ProviderError) -> bool:
        """Whether the server complains of the pictures, which are then left out."""
        images, low = _images(request.messages), str(error).lower()
        busy = isinstance(error, KnownDown) or _BUSY.search(low)
        if not images or busy or not any(word in low for word in _SIGHT):
            return False
        self._unseen = images
        return True

    def _answer(self, request: Request) -> Iterator[Event]:
        name = request.model or self._model.name or "default"
        self.name = f"{self._form.kind}:{name}"
        body = self._form.body(request, self._model)
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
            if isinstance(event, End):
                yield from _thought_alone(event, assembler)
            yield _ended(event, request, name) if isinstance(event, End) else event

    @contextmanager
    def _posted(self, request: Request, body: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """Send a body, unless it is known that nobody is there."""
        client, url, mask, wait = self._client, self._url, self._mask, self._model.idle_seconds
        with self._line.held(request.stop):
            self._outage.heed()
            with http.posted(client, url, body, mask, wait=wait, deadline=request.deadline, line=self._line) as pieces:
                yield pieces

    def _chunks(self, pieces: Iterator[bytes]) -> Iterator[Any]:
        """What an answer consists of, up to its end; what follows is read, so that the connection serves again."""
        objects = self._objects(pieces)
        for chunk in self._form.chunks(objects):
            yield chunk
            if chunk is wire.COMPLETE:
                http.drained(objects, self._line)
                return

    def _objects(self, pieces: Iterator[bytes]) -> Iterator[Any]:
        """The JSON objects of a streamed answer or the one of a whole answer, whichever the server chose to send."""
        lines = map(self._mask.whole, sse.lines(pieces))
        first = next((line for line in lines if line.strip()), "").lstrip("\ufeff")
        http.refuse_web_page(first, self._url)
        if _FIELD.match(first):
            for value in sse.objects(chain([first], lines)):
                yield wire.COMPLETE if value is sse.DONE else value
            http.drained(lines, self._line)
        else:
            yield sse.parsed("\n".join([first, *lines]))
            yield wire.COMPLETE


def _images(messages: tuple[Message, ...]) -> tuple[Image, ...]:
    return tuple(image for message in messages for image in message.images)


def _thought_alone(end: End, assembler: wire.Assembler) -> Iterator[Notice]:
    """Say why an answer is empty that was all thought."""
    if end.finish == "length" and end.thought.parts and not assembler.spoke:
        yield Notice("the model thought until the limit of its answer, and said nothing: raise answer_tokens")


def _ended(end: End, request: Request, name: str) -> End:
    """Put the request's bytes beside the server's count, or guess where it counted nothing; and name who thought."""
    sent = request_bytes(request.system, request.messages, request.tools)
    thought = end.thought._replace(by=name) if end.thought.parts else end.thought
    if not end.usage.total:
        return End(end.finish, Usage(estimated_tokens(sent)), thought)
    told = end.usage.prompt_tokens
    return End(end.finish, Usage(told, end.usage.completion_tokens, ((sent, told),) if told else ()), thought)
