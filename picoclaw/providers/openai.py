"""Any server that speaks OpenAI's chat completions, over one kept connection and without a vendor's package."""

import json
import os
import re
import ssl
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from picoclaw.config import ModelConfig, shown_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable
from picoclaw.messages import End, Event, Request, Usage
from picoclaw.prompt import estimated_tokens
from picoclaw.providers import wire
from picoclaw.providers.mask import Mask
from picoclaw.providers.measure import request_bytes

# httpx imports its command line whenever click and rich happen to be installed: 44 ms and 6 MB for nothing.
sys.modules.setdefault("httpx._main", cast("ModuleType", None))
import httpx  # noqa: E402

_LARGEST_BODY = 8_000_000
_LARGEST_ERROR = 20_000
_CONNECT_S = 10.0
_FIELD = re.compile(r"(data|event|id|retry|error)?:")
_HASHED_CAS = Path("/etc/ssl/certs")
_WEB_PAGE = (
    "{url} answered with a web page instead of JSON: the network may want a login (captive portal),"
    " or base_url is not that of a model server (it usually ends in /v1)"
)


class OpenAI:
    """A provider over HTTP."""

    def __init__(self, model: ModelConfig, key: str = "", transport: httpx.BaseTransport | None = None) -> None:
        """`key` may be empty; `transport` is for tests that stand in for the network."""
        self.name = f"openai:{model.name or 'default'}"
        self._model = model
        self._url = f"{model.base_url}/chat/completions"
        self._shown_url = shown_url(self._url)
        self._mask = Mask(key)
        self._cap = "max_tokens"
        self._count = True
        if not re.fullmatch(r"[\x21-\x7e]*", key):
            raise Refused(
                "the key holds a line break, a blank or another character that no server takes;"
                " check PICOCLAW_API_KEY or secrets.toml"
            )
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            self._client = httpx.Client(
                headers=headers, verify=_tls() if model.base_url.startswith("https") else False, transport=transport
            )
        except (ValueError, httpx.InvalidURL, ImportError) as error:
            reason = shown_url(" ".join(str(error).split()))  # a proxy's address may hold a password as well
            raise Refused(
                f"a proxy variable cannot be used: {reason}; check HTTPS_PROXY, ALL_PROXY and their like"
            ) from None

    def close(self) -> None:
        """See Provider.close."""
        self._client.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        while True:
            try:
                yield from self._mask.events(self._answer(request))
                return
            except ProviderError as error:
                error.args = (self._mask.whole(str(error)),)
                if not (isinstance(error, Refused) and self._adapted(str(error))):
                    raise

    def _adapted(self, said: str) -> bool:
        """Do without what this server does not know, once it has said so."""
        if self._cap == "max_tokens" and "max_completion_tokens" in said:
            self._cap = "max_completion_tokens"
            return True
        if self._count and "stream_options" in said:
            self._count = False
            return True
        return False

    def _answer(self, request: Request) -> Iterator[Event]:
        model = self._model
        name, temperature = model.name or "default", model.temperature
        self.name = f"openai:{request.model or name}"
        body = wire.body(request, name, stream=model.stream, cap=self._cap, temperature=temperature)
        if not self._count:
            body.pop("stream_options", None)
        assembler = wire.Assembler(wire.known_tools(request))
        wait = min(model.idle_seconds, max(0.1, request.deadline - time.monotonic()))
        timeout = httpx.Timeout(wait, connect=min(_CONNECT_S, wait))
        with (
            _explained(self._shown_url, wait, request.deadline),
            self._client.stream("POST", self._url, content=wire.encoded(body), timeout=timeout) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise self._failure(response, request.deadline)
            for chunk in self._chunks(response, request.deadline):
                yield from assembler.feed(chunk)
        if not assembler.finish:
            raise Unavailable(f"{self._shown_url} ended its answer in the middle; nothing of it was acted on")
        for event in assembler.end():
            yield event._replace(usage=_counted(request, event.usage)) if isinstance(event, End) else event

    def _chunks(self, response: httpx.Response, deadline: float) -> Iterator[Any]:
        """The JSON objects of a streamed answer or the one of a whole answer, whichever the server chose to send."""
        lines = map(self._mask.whole, _lines(_bounded(response.iter_bytes(), deadline)))
        first = next((line for line in lines if line.strip()), "").lstrip("\ufeff")
        if first.lstrip().startswith("<"):
            raise Unavailable(_WEB_PAGE.format(url=self._shown_url))
        if _FIELD.match(first):
            yield from _stream(chain([first], lines))
        else:
            yield _json("\n".join([first, *lines]))
            yield wire.COMPLETE

    def _failure(self, response: httpx.Response, deadline: float) -> ProviderError:
        """Read a bounded part of an error answer and say what it means."""
        data = b""
        with suppress(httpx.HTTPError):
            for piece in _bounded(response.iter_bytes(), deadline):
                data += piece
                if len(data) > _LARGEST_ERROR:
                    break
        text = self._mask.whole(data.decode("utf-8", "replace").strip())
        if response.is_redirect:
            target = shown_url(response.headers.get("location", "?"))
            return Refused(f"{self._shown_url} redirects to {target}: put that in base_url")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = "it sent a web page" if text.startswith("<") else text
        return wire.failure(response.status_code, answer, _retry_after(response.headers))


def _counted(request: Request, usage: Usage) -> Usage:
    """Put the request's bytes beside the server's count; where it counted nothing, guess."""
    sent = request_bytes(request.system, request.messages, request.tools)
    if not usage.total:
        return Usage(estimated_tokens(sent))
    told = usage.prompt_tokens
    return Usage(told, usage.completion_tokens, ((sent, told),) if told else ())


def _tls() -> ssl.SSLContext:
    """A context that reads a CA file when a handshake needs it: 0.1 ms instead of 20 for the whole bundle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "SSL_CERT_FILE" not in os.environ and any(_HASHED_CAS.glob("*.0")):
        context.load_verify_locations(capath=str(_HASHED_CAS))
    else:
        context.load_default_certs()
    return context


def _stream(lines: Iterator[str]) -> Iterator[Any]:
    """Server-sent events (WHATWG HTML, section 9.2) whose data are one JSON object a line."""
    for line in lines:
        field, _, value = line.partition(":")
        if field == "error":
            raise wire.failure(0, _json(value))
        if field != "data" or not value.strip():
            continue
        if value.strip() == "[DONE]":
            yield wire.COMPLETE
            with suppress(httpx.HTTPError, ProviderError):
                deque(lines, maxlen=0)  # a body that was read to its end leaves the connection for the next
            return
        yield _json(value)


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


def _bounded(pieces: Iterator[bytes], deadline: float) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _LARGEST_BODY:
            raise Unavailable(f"the model server sent more than {_LARGEST_BODY} bytes in one answer")
        if time.monotonic() > deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit")
        yield piece


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Unavailable(f"the model server sent something that is not JSON: {text.strip()[:80]!r}") from None


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds to wait: `retry-after-ms`, or Retry-After as a number or a date (RFC 9110, section 10.2.3)."""
    if re.fullmatch(r"\d{1,9}(\.\d+)?", milliseconds := headers.get("retry-after-ms", "")):
        return float(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


@contextmanager
def _explained(url: str, wait: float, deadline: float) -> Iterator[None]:
    """Put httpx's errors into words, with the address and what to try."""
    try:
        yield
    except httpx.TimeoutException as error:
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        what = "did not accept a connection" if isinstance(error, httpx.ConnectTimeout) else "stayed silent"
        raise Unavailable(f"{url} {what} for {wait:g} s") from None
    except httpx.ConnectError as error:
        raise Unavailable(
            f"{url} cannot be reached ({_reason(error)}); is it running, and the address right?"
        ) from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Refused(f"base_url cannot be used: {error}") from None
    except (httpx.HTTPError, httpx.StreamError, ssl.SSLError) as error:
        raise Unavailable(f"{url} broke off ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "not yet valid" in text:
        return f"{text}: this board's clock is wrong; see `picoclaw doctor`"
    return text
