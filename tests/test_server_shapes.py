"""Servers that break, over a real socket and through the real door: how each turn ends, and that the next one works."""

import re
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import sweep
from broken_server import SOON, WORDS, Shape, never_ends
from model_server import Answer, ModelServer, events, refusal, reply
from rows import each_row
from shape_kit import House, check, every, play, row

from picoclaw.config.tables import ModelConfig
from picoclaw.errors import DeadlinePassed, PicoclawError, Refused, Unavailable
from picoclaw.http_client import iter_stream_lines
from picoclaw.messages import Message, Request, Text
from picoclaw.providers import http
from picoclaw.providers.http import DONE_MARK, LARGEST_LINE, LARGEST_STREAM, MAX_BODY_BYTES, decompress, limit_stream
from picoclaw.providers.model import ModelProvider
from picoclaw.providers.retry import parse_retry_after, parse_wait

DOCS = (Path(__file__).resolve().parents[1] / "docs/servers.md").read_text()
NOW = 1_790_000_000.0


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        with House(tmp_path_factory.mktemp("shapes") / "home") as house:
            yield house


# --- every shape


def one_mode_each() -> list[Any]:
    """Every shape once, streamed and not in turns; `tests/bench/server_shapes.py` plays both modes of all."""
    chosen = ((shape, shape.modes[number % len(shape.modes)]) for number, shape in enumerate(every()))
    names = (re.sub(r"[^a-z0-9]+", "-", shape.does.lower()).strip("-") for shape in every())
    return sweep.sample([pytest.param(*each, id=name) for each, name in zip(chosen, names, strict=True)], 3)


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "stream"), one_mode_each())
def test_a_broken_server_ends_in_an_answer_or_in_one_clear_line(house: House, shape: Shape, stream: bool) -> None:
    told: list[str] = []
    for _ in range(3):  # on a busy machine a server that hangs up may be quicker than what it has sent
        played = play(house, shape, stream=stream)
        check(shape, played)
        told = [row(shape, played, mode) for mode in ("both", "streamed" if stream else "whole")]
        if any(each in DOCS for each in told):
            return
    pytest.fail(f"{told[1]}\nrun `python tests/bench/server_shapes.py --write`")


def test_the_table_has_no_shape_that_is_not_played() -> None:
    told = {line.split(" | ")[0].removeprefix("| ") for line in DOCS.splitlines() if line.startswith("| ")}
    assert len(told - {"the server"}) == len(every())


# --- how long a server asks to be left alone


@each_row(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": " 0.5 "}, "", 0.5),
        ({"retry-after": "0"}, "", 0),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, "", 90),
        ({"retry-after": "Sunday, 06-Nov-94 08:49:37 GMT"}, "", 0),
        ({"retry-after": datetime.fromtimestamp(NOW + 30, UTC).isoformat()}, "", 30),
        ({"retry-after": "30s"}, "", 30),
        ({"retry-after": "1m30s"}, "", 90),
        ({"retry-after": f"{NOW + 12:.0f}"}, "", 12),
        ({"retry-after": "-5"}, "", 0),
        ({"retry-after": "soon"}, "", 0),
        ({"retry-after": "nan"}, "", 0),
        ({"retry-after": "9" * 40}, "", 0),
        ({"retry-after": "Mon, 99 Foo 99999 99:99:99 GMT"}, "", 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"x-ms-retry-after-ms": "250"}, "", 0.25),
        ({"retry-after-ms": "many", "retry-after": "9"}, "", 9),
        ({"x-ratelimit-reset": f"{NOW + 20:.0f}"}, "", 20),
        ({"x-ratelimit-reset": f"{(NOW + 20) * 1000:.0f}"}, "", 20),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, "", 360),
        ({"x-ratelimit-reset-tokens": "7.66s"}, "", 7.66),
        ({"x-ratelimit-reset-tokens": "120ms"}, "", 0.12),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "900"}, "", 0),
        ({"ratelimit-reset": "30", "ratelimit-remaining": "0"}, "", 30),
        ({"anthropic-ratelimit-tokens-reset": "2026-09-21T14:13:30Z"}, "", 10),
        ({"retry-after": "3", "x-ratelimit-reset": "500"}, "try again in 9s", 3),
        ({}, "Rate limit reached for m. Please try again in 20s. Visit x.", 20),
        ({}, "Please try again in 6m0s.", 360),
        ({}, "Please try again in 1h2m3.5s.", 3723.5),
        ({}, "please try again in 350ms", 0.35),
        ({}, "Please retry after 26 seconds.", 26),
        ({}, "Please retry your request after 2 minutes", 120),
        ({}, "Please retry in 34.074824224s.", 34.074824224),
        ({}, "Wait for 1 minute and 30 seconds", 90),
        ({}, "You may try again in about 2 hours.", 7200),
        ({}, "Resets in 1 day", 86_400),
        ({}, '{"error": {"details": [{"retryDelay": "34s"}]}}', 34),
        ({}, '{"retry_after": 120, "title": "x"}', 120),
        ({}, '{"error": {"retry_after_ms": 1500}}', 1.5),
        ({}, '{"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1790000020000"}}}}', 20),
        ({}, "Limit 20 per 5 minutes reached.", 0),
        ({}, "try again in a moment", 0),
        ({}, "", 0),
    ],
    ids=str,
)
def test_every_form_in_which_a_wait_is_asked_for(headers: dict[str, str], text: str, seconds: float) -> None:
    assert parse_retry_after(headers, text, NOW) == pytest.approx(
        seconds, abs=0.6 if "gmt" in str(headers).lower() else 1e-3
    )


@pytest.mark.parametrize("text", ["try again in " + "1m" * 20_000, "retry " * 20_000, '"retry_after": ' + "1" * 50_000])
def test_no_words_keep_the_reader_busy(text: str) -> None:
    begun = time.process_time()
    parse_wait(text)
    assert time.process_time() - begun < 0.5


@each_row(
    ("answer", "rests"),
    [
        (refusal(429, "Slow down", retry_after="2.5"), [2.5, 2.5]),
        (refusal(503, "Loading, retry in 3 seconds"), [3, 3]),
        (refusal(429, "Slow down", x_ratelimit_reset_tokens="4s"), [4, 4]),
        (events({"error": {"message": "Rate limit reached, try again in 1.5s", "code": 429}}), [1.5, 1.5]),
        (refusal(429, "Slow down", retry_after="21"), []),
        (refusal(429, "Slow down"), [0.5, 1.5]),
    ],
    ids=["seconds", "words", "a limit's reset", "words within a stream", "too long", "nothing said"],
)
def test_a_wait_is_as_long_as_the_server_said(house: House, answer: Answer, rests: list[float]) -> None:
    shape = Shape("", "again", answer)
    with house.app(shape, stream=True) as app:
        assert house.turn(app, answer).rests == rests


# --- with another model behind it

OVERFLOW = re.compile("413|too long|overflow")  # the first model may answer a shorter request
FAILING = [s for s in every() if s.ends in {"again", "once"} and s.patience > 1 and not OVERFLOW.search(s.does)][::9]


@each_row("shape", FAILING, ids=lambda shape: shape.does)
def test_the_next_model_answers_where_the_first_does_not(house: House, shape: Shape) -> None:
    with (
        ModelServer(lambda _: reply("It is the other one.")) as other,
        house.app(shape, stream=shape.modes[0], then=other.url) as app,
    ):
        seen = house.turn(app, shape.answer)
    assert seen.turn.reply == "It is the other one."
    assert "passed over" in seen.turn.notice.text
    assert len(other.requests) == 1


def test_what_was_begun_is_not_said_again_by_the_next_model(house: House) -> None:
    (shape,) = [shape for shape in every() if shape.does == "an error in the middle of the text"]
    with (
        ModelServer(lambda _: reply("It is the other one.")) as other,
        house.app(shape, stream=True, then=other.url) as app,
    ):
        seen = house.turn(app, shape.answer)
    assert seen.turn.reply.startswith("It is\n[")
    assert other.requests == []


# --- answers that are ended, or live


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(http.time, "monotonic", lambda: self.now)

    def fed(self, parts: Iterator[tuple[float, bytes]]) -> Iterator[bytes]:
        for seconds, part in parts:
            self.now += seconds
            yield part


COMMENT, PING = b": OPENROUTER PROCESSING\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'


@pytest.mark.parametrize(
    ("parts", "ends"),
    [
        ([(9.0, b'data: {"a": 1}\n\n')] * 50, None),
        ([(9.0, b"x")] * 50, None),
        ([(1.0, COMMENT)] * 50, Unavailable),
        ([(1.0, PING)] * 50, Unavailable),
        ([(1.0, b"\n")] * 50, Unavailable),
        ([(1.0, b" ")] * 50, Unavailable),
        ([(1.0, bytes([byte])) for byte in COMMENT * 3], Unavailable),
        ([(1.0, COMMENT)] * 15 + [(1.0, b"data: 1\n\n")] + [(1.0, COMMENT)] * 15, None),
        ([(1.0, b"data: 1\n\n")] + [(1.0, COMMENT)] * 25, Unavailable),
        ([(1.0, b"data: "), *[(1.0, b": x")] * 50], None),
        ([(1.0, COMMENT + b"data: 1\n\n")] * 50, None),
        ([(100.0, b"data: 1\n\n")] * 50, DeadlinePassed),
    ],
    ids=[
        *("a token now and then", "a byte now and then", "comments", "pings", "blank lines", "blanks"),
        *("a comment byte by byte", "a token among comments", "comments after a token", "colons within a line"),
        *("comments with each token", "the deadline"),
    ],
)
def test_what_keeps_an_answer_alive(
    monkeypatch: pytest.MonkeyPatch, parts: Any, ends: type[PicoclawError] | None
) -> None:
    clock = Clock(monkeypatch)
    answer = limit_stream(clock.fed(iter(parts)), deadline=2000.0, keepalive_limit=20.0, streamed=True)
    if ends is None:
        assert list(answer) == [part for _, part in parts]
    else:
        with pytest.raises(ends):
            list(answer)


def test_whoever_takes_an_answer_may_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, parts = Clock(monkeypatch), [(1.0, b"data: 1\n\n"), *[(1.0, COMMENT)] * 5]
    for _ in limit_stream(clock.fed(iter(parts)), deadline=2000.0, keepalive_limit=20.0, streamed=True):
        clock.now += 100.0


@each_row(
    ("size", "count", "streamed", "good"),
    [
        (MAX_BODY_BYTES, 1, False, True),
        (MAX_BODY_BYTES + 1, 1, False, False),
        (LARGEST_LINE // 2, 2, True, True),
        (LARGEST_LINE // 2 + 1, 2, True, False),
    ],
)
def test_what_is_too_much(size: int, count: int, streamed: bool, good: bool) -> None:
    answer = limit_stream(
        iter([b"x" * size] * count), deadline=time.monotonic() + 60, keepalive_limit=20.0, streamed=streamed
    )
    if good:
        assert sum(map(len, answer)) == size * count
    else:
        with pytest.raises(Refused, match="more than"):
            list(answer)


def test_a_stream_may_be_longer_than_a_body_but_not_endless() -> None:
    line = b"data: " + b"x" * 999_992 + b"\n\n"
    count = LARGEST_STREAM // len(line)
    stream = limit_stream(iter([line] * 1000), deadline=time.monotonic() + 60, keepalive_limit=20.0, streamed=True)
    assert sum(len(next(stream)) for _ in range(count)) == count * len(line) > MAX_BODY_BYTES
    with pytest.raises(Refused, match=f"more than {LARGEST_STREAM}"):
        next(stream)


def test_what_was_packed_is_unpacked_a_little_at_a_time() -> None:
    packed = zlib.compress(b" " * 5_000_000)
    sizes = [len(piece) for piece in decompress(iter([packed]), "deflate")]
    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 65_536


def test_a_slow_answer_outlives_the_patience_for_a_silent_one(house: House) -> None:
    text = "a word at a time, and longer than that"
    shape = Shape("", "answer", reply(text, pieces=2, pause=0.03), patience=SOON)
    with house.app(shape, stream=True) as app:
        begun = time.monotonic()
        seen = house.turn(app, shape.answer)
        assert seen.turn.reply == text
        assert time.monotonic() - begun > SOON


def test_a_server_that_does_not_hang_up_keeps_nobody_waiting() -> None:
    """The silence that is borne before an answer is not borne after its end."""
    with ModelServer([never_ends, reply("And again.")]) as server:
        model = ModelProvider(ModelConfig(base_url=server.url, idle_seconds=60.0))
        begun = time.monotonic()
        for words in (WORDS, "And again."):
            request = Request("", (Message("user", "Why?"),), (), 100, begun + 60.0)
            assert "".join(e.text for e in model.events(request) if isinstance(e, Text)) == words
        assert time.monotonic() - begun < 5
        model.close()


# --- streams, line by line


@each_row(
    ("sent", "values"),
    [
        (b'data: {"a": 1}\n\ndata: [1]\n\ndata: [DONE]\n\n', [{"a": 1}, [1], DONE_MARK]),
        (b'data: {"a": 1}\r\n\r\ndata: [1]\r\n\r\ndata: [DONE]\r\n\r\n', [{"a": 1}, [1], DONE_MARK]),
        (b'data: {"a": 1}\r\rdata: [1]\r\rdata: [DONE]\r\r', [{"a": 1}, [1], DONE_MARK]),
        (b'data:{"a": 1}\ndata:[1]\n', [{"a": 1}, [1]]),
        (b'data: {"a":\ndata: 1}\n\ndata: [1]\n\n', [{"a": 1}, [1]]),
        (b'data: {\r\ndata: "a": 1\r\ndata: }\r\n\r\n', [{"a": 1}]),
        (b'event: x\nid: 7\nretry: 3\n: hm\ndata: {"a": 1}\n', [{"a": 1}]),
        (b"data:\n\ndata: \n\ndata: 1\n\n", [1]),
        ('data: "a\u2028b\u0085"\n\n'.encode(), ["a\u2028b\u0085"]),
        (b"data: [DONE]\ndata: {odd\n\n", [DONE_MARK]),
        (b'data: {"a": 1}', [{"a": 1}]),
        (b"", []),
    ],
    ids=[
        *("line feeds", "both", "returns", "no blanks", "two lines", "three lines", "other fields", "empty data"),
        *("other ends of lines", "after the end", "no last end", "nothing"),
    ],
)
@each_row("size", [1, 2, 1000])
def test_streams_are_read_whatever_their_lines_are_like(sent: bytes, values: list[Any], size: int) -> None:
    parts = (sent[i : i + size] for i in range(0, len(sent), size))
    assert list(http.read_sse_objects(iter_stream_lines(parts))) == values


@each_row("sent", [b"data: {odd\n\ndata: 1\n", b"data: {odd", b"data: {" + b"\ndata: x" * 100_000])
def test_what_is_not_json_in_a_stream_is_named(sent: bytes) -> None:
    with pytest.raises(Unavailable, match="not JSON"):
        list(http.read_sse_objects(iter_stream_lines(iter([sent]))))
