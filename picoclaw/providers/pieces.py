"""The bytes of an answer as they come in: unpacked, and ended where no answer is to be expected any more."""

import re
import time
import zlib
from collections.abc import Iterator

from picoclaw.errors import DeadlinePassed, Refused, Unavailable

LARGEST_BODY = 8_000_000
"""Bytes of an answer that comes whole, and is held whole."""

LARGEST_STREAM, LARGEST_LINE = 64_000_000, 2_000_000
"""Bytes of an answer that streams, of which only a line is held."""

SIGNS = 2.0
"""A server that says that it lives, and nothing else, is waited for so many times as long as a silent one."""

_AT_ONCE = 65_536
_ENCODINGS = {"gzip", "x-gzip", "deflate"}
_GZIP_OR_ZLIB = 47  # bits of the window, and the head says which
_SEEN = 200
_SIGN = re.compile(
    rb"(?:[ \t\r]*|:[^\n]*|event: ?ping\r?|data: ?(?:\{\"type\": ?\"ping\"\})?\r?|(?:id|retry):[^\n]*)(?:\n|\Z)"
)
"""A line by which a server keeps a connection: a comment, an empty one, an event named ping."""

_SIGNS = re.compile(rb"(?:" + _SIGN.pattern + rb")*")


def unpacked(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Undo an encoding that nobody asked for, a little at a time: a few bytes can stand for very many.

    Raises Unavailable for what cannot be unpacked.
    """
    if encoding in {"", "identity"}:
        yield from pieces
        return
    if encoding not in _ENCODINGS:
        raise Unavailable(f"the model server sent its answer packed as {encoding[:20]!r}, which nobody asked for")
    machine = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        for piece in pieces:
            rest = piece
            while rest and not machine.eof:
                yield machine.decompress(rest, _AT_ONCE)
                rest = machine.unconsumed_tail
    except zlib.error as error:
        raise Unavailable(f"the model server packed its answer wrongly ({error})") from None
    if not machine.eof:
        raise Unavailable("the model server packed its answer and sent a part of it")


def bounded(pieces: Iterator[bytes], *, deadline: float, patience: float, streamed: bool) -> Iterator[bytes]:
    """Pass bytes on, as long as an answer is to be expected.

    Raises Refused when it is too much, DeadlinePassed after `deadline`, by the monotonic clock, and Unavailable when
    only signs of life came for `patience` seconds.
    """
    most = LARGEST_STREAM if streamed else LARGEST_BODY
    size = width = 0
    line, idle, asked = b"", 0.0, time.monotonic()
    for piece in pieces:
        size += len(piece)
        kept = piece.rfind(b"\n") + 1
        width = len(piece) - kept + (0 if kept else width)
        if size > most:
            raise Refused(f"the model server sent more than {most} bytes in one answer; check base_url")
        if streamed and width > LARGEST_LINE:
            raise Refused(f"the model server sent more than {LARGEST_LINE} bytes in one line; check base_url")
        now = time.monotonic()
        if now > deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit")
        idle = idle + now - asked if _SIGNS.fullmatch(line + piece[:_AT_ONCE]) else 0.0
        if idle > patience:
            raise Unavailable(only_signs(patience))
        line = (piece[kept:] if kept else line + piece)[:_SEEN]
        yield piece
        asked = time.monotonic()  # whoever takes the piece may take its time


def only_signs(seconds: float) -> str:
    """Word that for so long nothing came but signs of life."""
    return f"the model server said for {seconds:g} s only that it lives, and nothing else"
