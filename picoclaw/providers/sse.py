"""Server-sent events (WHATWG HTML, section 9.2) as model servers send them, well or badly. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any

from picoclaw.errors import Unavailable
from picoclaw.providers.failure import failure

DONE = "[DONE]"
_END = re.compile(rb"\r\n|\n|\r")
_LONGEST = 50_000
"""Characters of an event that is written over several lines."""


def lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Split at line feeds, carriage returns or both; JSON may hold what else Unicode calls the end of a line."""
    held, returned = bytearray(), False
    for piece in pieces:
        *ended, rest = _END.split(piece[1:] if returned and piece.startswith(b"\n") else piece)
        returned = piece.endswith(b"\r")
        for end in ended:
            held += end
            yield held.decode("utf-8", "replace")
            held.clear()
        held += rest
    if held:
        yield held.decode("utf-8", "replace")


def objects(lines: Iterator[str]) -> Iterator[Any]:
    """The JSON values of a stream's events, up to its last mark, which is given as DONE.

    An event may be written over several lines, and need not be set apart from the next. Raises Unavailable for what is
    not JSON, and the server's own error.
    """
    begun = ""
    for line in lines:
        field, _, value = line.partition(":")
        if field == "error":
            raise failure(0, parsed(value))
        if field == "data" and value.strip() == DONE:
            yield DONE
            return
        if field == "data":
            begun = f"{begun}\n{value}".strip()
            for whole in _whole(begun):
                yield whole
                begun = ""
        if begun and (not line or len(begun) > _LONGEST):
            break
    if begun:
        raise not_json(begun)


def _whole(text: str) -> list[Any]:
    """The value of a text that is JSON, as the only item."""
    try:
        return [json.loads(text)] if text else []
    except (ValueError, RecursionError):
        return []


def parsed(text: str) -> Any:
    """Read a server's JSON. Raises Unavailable."""
    if not text.strip():
        raise Unavailable("the model server sent an empty answer")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise not_json(text) from None


def not_json(text: str) -> Unavailable:
    """Word what was sent in the place of JSON."""
    return Unavailable(f"the model server sent something that is not JSON: {text.strip()[:80]!r}")
