"""The provider over a real socket: one connection, few requests, and every misbehaviour named in bounded time."""

import itertools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from email.utils import formatdate
from typing import Any, Self

import pytest
from model_server import (
    NO_USAGE,
    Answer,
    ModelServer,
    call,
    canned,
    chunk,
    chunks,
    comments,
    drip,
    drop,
    events,
    page,
    raw,
    refusal,
    reply,
    silence,
    status,
    truncated_body,
    truncated_stream,
    whole_body,
)
from rows import each_row
from scripted import CALLER, PROMPTS, TOOLS, Toolbox, calls_of, joined, text_of, toolset_of
from validity import check_body, check_conversation

from picoclaw.agent.conversation import Conversation
from picoclaw.agent.loop import Agent
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import (
    ContextOverflow,
    DeadlinePassed,
    KeyRefused,
    NotServed,
    ProviderError,
    Refused,
    TurnStopped,
    Unavailable,
)
from picoclaw.http_client import ConnectTimeout, ReadTimeout
from picoclaw.messages import (
    NO_THOUGHT,
    End,
    Event,
    Image,
    Message,
    Notice,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolRun,
    TurnContext,
    TurnHooks,
    Usage,
)
from picoclaw.providers import http
from picoclaw.providers.http import StreamMask, open_stream
from picoclaw.providers.model import Chain, ModelLink, ModelProvider
from picoclaw.records import replace

PATIENCE = 0.3  # of the provider, for a silent server
TURN = 0.7  # of the whole turn, in the tests of what never ends


def model_at(url: str, *, stream: bool = True, patience: float = 5.0) -> ModelConfig:
    return ModelConfig(base_url=url, name="qwen", stream=stream, idle_seconds=patience)


def request_of(text: str = "how warm is it?", seconds: float = 10.0) -> Request:
    return Request("Be brief.", (Message("user", text),), TOOLS, 100, time.monotonic() + seconds)


def asked(
    *script: Answer, stream: bool = True, key: str = "", patience: float = 5.0, seconds: float = 10.0
) -> tuple[list[Event], ModelServer]:
    """One request to a server with this script: the events, and the server to look at."""
    with ModelServer(script) as server:
        provider = ModelProvider(model_at(server.url, stream=stream, patience=patience), key)
        try:
            found = joined(provider.events(request_of(seconds=seconds)))
        finally:
            provider.close()
    return found, server


def error_from(*script: Answer, stream: bool = True) -> ProviderError:
    """The error of one request, after checking that it is one line and came soon."""
    began = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        asked(*script, stream=stream, patience=PATIENCE, seconds=TURN)
    assert time.monotonic() - began < TURN + PATIENCE + 0.5
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600
    return caught.value


# A good server


@each_row("stream", [True, False])
def test_a_plain_answer_takes_one_request(stream: bool) -> None:
    found, server = asked(reply("It is warm."), stream=stream)
    assert found == [Text("It is warm."), End("stop", Usage(7, 3))]
    (request,) = server.requests
    check_body(request.body)
    assert request.path == "/v1/chat/completions"
    assert (request.body["model"], request.body["max_tokens"]) == ("qwen", 100)
    assert bool(request.body.get("stream")) is stream


ANSWERS: dict[str, tuple[Any, ...]] = {
    "text": ("It is 21.4 °C.\nWarm\u2028enough\x85?",),
    "call": ("", call("sensor_read", {"quantity": "temperature"})),
    "calls": ("One moment.", call("sensor_read", "{}", "a"), call("exec", {"command": "ls"}, "b")),
    "broken": ("", call("exec", '{"command": "rm')),
    "inline": ('<tool_call>{"name": "sensor_read", "arguments": {}}</tool_call>',),
    "empty": ("",),
}


@each_row("name", ANSWERS)
def test_a_streamed_answer_gives_the_same_events_as_a_whole_one(name: str) -> None:
    whole, _ = asked(reply(*ANSWERS[name]), stream=False)
    streamed, _ = asked(reply(*ANSWERS[name], pieces=1), stream=True)
    assert whole == streamed


@each_row("asks", [True, False])
def test_a_server_may_stream_or_not_as_it_likes(asks: bool) -> None:
    found, _ = asked(reply("21", call("exec"), stream=not asks), stream=asks)
    assert (text_of(found), len(calls_of(found))) == ("21", 1)


def test_tokens_are_guessed_when_the_server_does_not_count() -> None:
    found, _ = asked(reply("21", usage=NO_USAGE))
    end = found[-1]
    assert isinstance(end, End)
    assert end.usage.prompt_tokens > 50
    assert not end.usage.counted


@each_row(("usage", "told"), [((41, 7), [41]), ((0, 7), []), ((1, 0), [1])])
def test_what_the_server_counted_stands_beside_what_was_estimated(usage: tuple[int, int], told: list[int]) -> None:
    found, _ = asked(reply("21", usage=usage))
    end = found[-1]
    assert isinstance(end, End)
    talk = Conversation([], list(request_of().messages))
    assert [tokens for _, tokens in end.usage.counted] == told
    assert all(sent == talk.count_tokens("Be brief.", TOOLS, 1.0) for sent, _ in end.usage.counted)


def test_a_request_may_name_another_model() -> None:
    with ModelServer([reply("ok"), reply("ok")]) as server:
        provider = ModelProvider(model_at(server.url))
        chain = Chain(ModelLink("", provider, 0), Matcher)
        list(chain.events(request_of()._replace(model="llama")))
        assert chain.name == "openai:llama"
        list(chain.events(request_of()))
        assert chain.name == "openai:qwen"
        chain.close()
    assert [request.body["model"] for request in server.requests] == ["llama", "qwen"]


@each_row(("key", "header"), [("sk-123", "Bearer sk-123"), ("", None)])
def test_the_key_is_sent_if_there_is_one(key: str, header: str | None) -> None:
    _, server = asked(reply("ok"), key=key)
    assert server.requests[0].headers.get("authorization") == header


@each_row("key", ["sk-123\n", "sk-123\r", "sk 123", "sk-ü", "\x00"])
def test_a_key_that_no_header_may_hold_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(Refused, match="PICOCLAW_API_KEY") as caught:
        asked(reply("ok"), key=key)
    assert key.strip() not in str(caught.value)


KEY = "sk-not-for-anybody-else-42"
ECHOES: dict[str, Answer] = {
    "text": reply(f"Your key is {KEY}, keep it.", pieces=4),
    "text in single letters": reply(f"Your key is {KEY}", pieces=1),
    "whole text": reply(f"{KEY}{KEY}", stream=False),
    "refused key": refusal(401, f"Incorrect API key provided: {KEY}."),
    "overloaded": refusal(503, f"{KEY} is over its quota"),
    "cut in the middle of it": refusal(400, "x" * 285 + KEY),
    "no JSON": raw(b"x" * 60 + KEY.encode()),
    "plain text": status(500, f"key {KEY}"),
    "redirect": status(308, "moved", location=f"https://elsewhere/?key={KEY}"),
    "error in the stream": events({"error": {"message": f"bad key {KEY}"}}),
    "not an object": events(json.dumps([KEY])),
}


@each_row("name", ECHOES)
def test_a_key_that_the_server_sends_back_is_not_shown(name: str) -> None:
    with ModelServer(itertools.repeat(ECHOES[name])) as server:
        chain = Chain(ModelLink("", ModelProvider(model_at(server.url), KEY), 0), Matcher)
        shown = ""
        try:
            for event in chain.events(request_of()):
                shown += event.text if isinstance(event, Text | Notice) else ""
        except ProviderError as error:
            shown += str(error)
        finally:
            chain.close()
    assert shown
    assert "[secret]" in shown or "x" * 50 in shown
    assert all(KEY[i : i + 9] not in shown for i in range(len(KEY) - 8))


def test_a_text_that_only_begins_like_the_key_is_whole() -> None:
    found, _ = asked(reply(f"sk-not {KEY[:-1]}! s sk sk-", pieces=1), key=KEY)
    assert text_of(found) == f"sk-not {KEY[:-1]}! s sk sk-"


def test_what_may_be_the_beginning_of_the_key_is_shown_before_an_error() -> None:
    with ModelServer([truncated_stream(chunk(content="It is"))]) as server:
        provider = ModelProvider(model_at(server.url), "secret-key-42")
        found = provider.events(request_of())
        assert [next(found), next(found)] == [Text("It i"), Text("s")]
        with pytest.raises(Unavailable):
            next(found)
        provider.close()


def test_a_word_that_stands_for_no_key_is_not_masked() -> None:
    found, _ = asked(reply("none of them"), key="none")
    assert text_of(found) == "none of them"


@each_row(
    "script",
    [status(308, "moved", location="https://user:hunter22@b/"), page(), truncated_stream(chunk(content="x")), drop()],
    ids=["redirect", "page", "cut", "drop"],
)
def test_a_password_in_the_address_is_in_no_error(script: Answer) -> None:
    with ModelServer([script]) as server:
        provider = ModelProvider(model_at(server.url.replace("http://", "http://user:hunter22@")))
        with closing(provider), pytest.raises(ProviderError) as caught:
            list(provider.events(request_of()))
    assert "hunter22" not in str(caught.value)
    assert "user" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["socks5://me:hunter22@127.0.0.1:1", "gopher://me:hunter22@127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(Refused, match=r"a proxy variable cannot be used: .*ALL_PROXY") as caught:
        list(ModelProvider(model_at("http://127.0.0.1:1/v1")).events(request_of()))
    assert len(str(caught.value).splitlines()) == 1
    assert "hunter22" not in str(caught.value)


def test_a_server_without_a_model_name_gets_some() -> None:
    with ModelServer([reply("ok")]) as server:
        provider = ModelProvider(ModelConfig(base_url=server.url))
        list(provider.events(request_of()))
        provider.close()
        provider.close()
    assert server.requests[0].body["model"]


def test_the_server_that_people_run_by_hand() -> None:
    with ModelServer(canned) as server:
        agent = agent_of(ModelProvider(model_at(server.url)), names={"measure": "sensor_read"})
        turn = agent.turn(TurnContext("", "<moment>now</moment>\nhow warm is it?"), (), CALLER)
        assert agent.turn(TurnContext("", "<moment>now</moment>\nhello"), (), CALLER).reply == "You said: hello"
        agent.provider.close()
    assert turn.tools[0].name == "sensor_read"
    assert turn.reply.startswith("The tool says: ")


# Turns over one connection


def agent_of(provider: Any, names: dict[str, str] | None = None) -> Agent:
    return Agent(provider, toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 32_768, 100)


def rounds(count: int) -> list[Answer]:
    return [reply("", call("measure", {"quantity": f"number {i}"})) for i in range(count)]


@each_row("stream", [True, False])
@each_row("count", [1, 5])
def test_n_rounds_take_n_plus_one_requests_over_one_connection(stream: bool, count: int) -> None:
    with ModelServer([*rounds(count), reply("Done."), reply("Hello.")]) as server:
        agent = agent_of(ModelProvider(model_at(server.url, stream=stream)))
        turn = agent.turn(TurnContext("Be brief.", "measure"), (), CALLER)
        assert (turn.reply, len(turn.tools)) == ("Done.", count)
        assert len(server.requests) == count + 1
        agent.turn(TurnContext("Be brief.", "and now?"), (turn.messages,), CALLER)
        agent.provider.close()
    assert server.connections == 1
    check_conversation(turn.messages)
    for request in server.requests:
        check_body(request.body)


def test_each_request_begins_with_the_one_before() -> None:
    """A server that caches prompts has to read only what is new."""
    with ModelServer([*rounds(3), reply("Done."), reply("Hello.")]) as server:
        agent = agent_of(ModelProvider(model_at(server.url)))
        turn = agent.turn(TurnContext("Be brief.", "measure"), (), CALLER)
        agent.turn(TurnContext("Be brief.", "and now?"), (turn.messages,), CALLER)
        agent.provider.close()
    sent = [http.encode_body(request.body) for request in server.requests]
    assert [len(data) for data in sent] == [int(request.headers["content-length"]) for request in server.requests]
    for before, after in itertools.pairwise(sent):
        assert after.startswith(before.removesuffix(b"]}"))


def test_an_error_answer_leaves_the_connection_usable() -> None:
    with ModelServer([refusal(503, "Loading model"), reply("ok")]) as server:
        provider = ModelProvider(model_at(server.url))
        with pytest.raises(Unavailable):
            list(provider.events(request_of()))
        list(provider.events(request_of()))
        provider.close()
    assert server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew() -> None:
    with ModelServer([reply("one")]) as server:
        provider = ModelProvider(model_at(server.url))
        list(provider.events(request_of()))
    with ModelServer([reply("two")], port=server.port):
        assert text_of(list(provider.events(request_of()))) == "two"
        provider.close()


@each_row("way", ["close", "stop", "ctrl-c"])
def test_stop_in_the_middle_of_an_answer_hangs_up(way: str) -> None:
    heard: list[Any] = []

    stop = Stop()

    def listen(event: Any) -> None:
        heard.append(event)
        if way == "ctrl-c":
            raise KeyboardInterrupt
        stop.set()

    with ModelServer([reply("word " * 1000, pause=0.01), reply("Hello.")]) as server:
        provider = ModelProvider(model_at(server.url))
        if way == "close":
            stream: Any = provider.events(request_of())
            next(stream)
            stream.close()
        else:
            turn = agent_of(provider).turn(TurnContext("", "talk"), (), CALLER, TurnHooks(listen=listen, stop=stop))
            check_conversation(turn.messages)
            assert turn.stopped == "stopped"
            assert turn.reply.startswith("word")
        assert server.hung_up.wait(2)
        assert text_of(list(provider.events(request_of()))) == "Hello."
        provider.close()


# Servers that misbehave


def named(value: Any) -> str:
    return value if isinstance(value, str) else value.__qualname__.split(".")[0]


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (page(), Unavailable, "login"),
        (page(kind="application/json"), Unavailable, "login"),
        (page(kind="text/plain"), Unavailable, "login"),
        (page(502), Unavailable, "502"),
        (page(404), NotServed, "base_url"),
        (truncated_stream(), Unavailable, "broke off"),
        (events(chunk(content="It is 2"), done=False), Unavailable, "in the middle"),
        (events(*chunks("", [call("exec")])[:-2], done=False), Unavailable, "in the middle"),
        (truncated_body(), Unavailable, "broke off"),
        (drop(), Unavailable, "broke off"),
        (raw(b"{not json"), Unavailable, "not JSON"),
        (raw(b""), Unavailable, "empty answer"),
        (raw(b"\xff\xfe\x00"), Unavailable, "not JSON"),
        (raw(b'"It is warm."'), Unavailable, "object"),
        (raw(b"[]"), Unavailable, "object"),
        (raw(b'{"status": "ok"}'), Unavailable, "no answer"),
        (raw(b"[" * 100_000), Unavailable, "not JSON"),
        (events("data: {not json"), Unavailable, "not JSON"),
        (events(), Unavailable, "no answer"),
        (events("event: ping", done=False), Unavailable, "in the middle"),
        (events({"error": {"message": "overloaded"}}), Unavailable, "overloaded"),
        (events(chunk(content="It is"), {"error": {"code": 400, "message": "odd"}}), Refused, "odd"),
        (events('error: {"message": "slot died", "code": 500}', done=False), Unavailable, "slot died"),
        (events(chunk(content="It"), chunk("error")), Unavailable, "cannot answer now"),
        (raw(b'{"error": {"message": "The model crashed"}}'), Unavailable, "crashed"),
        (silence(), Unavailable, "silent"),
        (silence(chunk(content="It is")), Unavailable, "silent"),
        (comments(), Unavailable, "only keep-alives"),
        (drip(), DeadlinePassed, "time limit"),
        (drip(kind="application/json"), DeadlinePassed, "time limit"),
        (drip(code=500), Unavailable, "500"),
        (status(200, b"not gzip", Content_Encoding="gzip"), Unavailable, "packed"),
        (refusal(401, "Incorrect API key"), KeyRefused, "PICOCLAW_API_KEY"),
        (refusal(400, "context_length_exceeded"), ContextOverflow, "window"),
        (refusal(413, "too large"), ContextOverflow, "window"),
        (refusal(429, "Slow down"), Unavailable, "Slow down"),
        (refusal(503, "Loading model"), Unavailable, "Loading model"),
        (status(500, "plain\nwords", "text/plain"), Unavailable, "plain words"),
        (status(500, "x" * 100_000), Unavailable, "500"),
        (status(204), Unavailable, "empty answer"),
        (status(400, b"\xff\xfe"), Refused, "400"),
        (status(404, [{"error": {"message": "models/x is not found"}}]), NotServed, "models/x"),
        (status(301, location="https://example.com/v1"), Refused, "https://example.com/v1"),
        (status(308, "moved", location="/v2"), Refused, "base_url"),
    ],
    ids=named,
)
def test_misbehaviour_is_named(answer: Answer, kind: type[ProviderError], told: str) -> None:
    error = error_from(answer)
    assert type(error) is kind
    assert told in str(error)


def test_an_answer_without_measure_is_refused() -> None:
    with pytest.raises(Refused, match="more than 8000000 bytes in one answer"):
        asked(raw(b"x" * 9_000_000), seconds=60)


@each_row("stream", [True, False])
@each_row("before", [0, 1])
def test_a_call_of_a_stream_that_broke_is_never_given(stream: bool, before: int) -> None:
    """Whatever came before the break, no tool call comes out of it."""
    parts = chunks("Let me.", [call("exec", {"command": "ls"})])[: -2 - before]
    seen: list[Event] = []
    with ModelServer([truncated_stream(*parts)]) as server:
        provider = ModelProvider(model_at(server.url, stream=stream))
        with pytest.raises(Unavailable):
            seen += provider.events(request_of())
        provider.close()
    assert not calls_of(seen)


@each_row(
    "answer",
    [
        events(*chunks("It is warm."), kind="application/json"),
        events(*chunks("It is warm."), kind="text/plain"),
        events(*chunks("It is warm."), kind="text/html"),
        events(": hello", "", "retry: 3", "id: 1", "event: x", *chunks("It is warm.")),
        events("data:", *chunks("It is warm."), "data: "),
        events("\ufeff: hello", *chunks("It is warm.")),
        events(*chunks("It is warm."), done=False),
        events(*chunks("It is warm."), "data: [DONE]", "data: {not json", "x"),
        lambda exchange: exchange.whole(whole("It is warm."), "text/event-stream"),
        lambda exchange: exchange.whole(whole("It is warm."), "text/html"),
        lambda exchange: exchange.whole(b"\xef\xbb\xbf\r\n " + whole("It is warm.")),
        lambda exchange: exchange.whole(whole("It is warm.").replace(b", ", b",\n ")),
        lambda exchange: exchange.whole(sse("It is warm.").replace(b"\n", b"\r\n")),
        lambda exchange: exchange.whole(sse("It is warm.").rstrip(b"\n")),
        lambda exchange: exchange.whole(sse("It is warm.").replace(b"data: ", b"data:"), "text/event-stream"),
    ],
)
def test_an_odd_wrapping_does_not_matter(answer: Answer) -> None:
    found, _ = asked(answer, patience=PATIENCE)
    assert text_of(found) == "It is warm."


def whole(text: str) -> bytes:
    return json.dumps(whole_body(text)).encode()


def sse(text: str) -> bytes:
    return b"".join(f"data: {json.dumps(c)}\n\n".encode() for c in chunks(text)) + b"data: [DONE]\n\n"


def test_a_server_that_never_ends_a_finished_stream_is_not_waited_for_long() -> None:
    def answer(exchange: Any) -> None:
        exchange.begin()
        exchange.piece(sse("It is warm."))
        exchange.rest()

    found, _ = asked(answer, patience=PATIENCE)
    assert text_of(found) == "It is warm."


def test_a_slow_answer_is_not_a_silent_one() -> None:
    found, _ = asked(reply("slow but alive", pieces=1, pause=PATIENCE / 6), patience=PATIENCE)
    assert text_of(found) == "slow but alive"


def test_a_large_answer_in_one_line() -> None:
    text = " ".join(map(str, range(300_000)))
    found, _ = asked(reply(text), stream=False)
    assert text_of(found) == text


def test_nobody_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    provider = ModelProvider(model_at(f"http://127.0.0.1:{port}/v1"))
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}.*cannot be reached.*is it running"):
        list(provider.events(request_of()))
    provider.close()


@each_row("url", ["http://[::1", "http://", "ftp://x/v1", "http://127.0.0.1:99999/v1", "http://a b/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ProviderError) as caught, closing(ModelProvider(model_at(url))) as provider:
        list(provider.events(request_of(seconds=2)))
    assert len(str(caught.value).splitlines()) == 1


def test_a_server_that_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        provider = ModelProvider(model_at(f"https://127.0.0.1:{listening.getsockname()[1]}/v1", patience=PATIENCE))
        with pytest.raises(Unavailable):
            list(provider.events(request_of()))
        provider.close()


# What a server asks for


IN_AN_HOUR = "the date in an hour"


@each_row(
    ("headers", "low", "high"),
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after": " 0.5 "}, 0.5, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5, 1.5),
        ({"retry_after": IN_AN_HOUR}, 3500, 3601),
        ({"retry_after": "Mon, 01 Jan 2024 00:00:00 GMT"}, 0, 0),
        ({"retry_after": "soon"}, 0, 0),
        ({"retry_after": "-5"}, 0, 0),
        ({"retry_after": "nan"}, 0, 0),
        ({"retry_after": "9" * 40}, 0, 0),
        ({"retry_after": "Mon, 99 Foo 99999 99:99:99 GMT"}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_retry_after(headers: dict[str, str], low: float, high: float) -> None:
    if headers.get("retry_after") == IN_AN_HOUR:  # by the clock of now, not of when the tests were collected
        headers = {"retry_after": formatdate(time.time() + 3600, usegmt=True)}
    error = error_from(refusal(429, "Slow down", **headers))
    assert isinstance(error, Unavailable)
    assert low <= error.retry_after <= high


def test_a_server_that_wants_the_other_name_of_the_cap_is_asked_so_from_then_on() -> None:
    no = refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    with ModelServer([no, reply("one"), reply("two")]) as server:
        provider = ModelProvider(model_at(server.url))
        assert text_of(list(provider.events(request_of()))) == "one"
        assert text_of(list(provider.events(request_of()))) == "two"
        provider.close()
    caps = [("max_tokens" in r.body, r.body.get("max_completion_tokens")) for r in server.requests]
    assert caps == [(True, None), (False, 100), (False, 100)]


def test_a_server_that_does_not_know_stream_options_is_asked_without() -> None:
    no = status(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]})
    with ModelServer([no, reply("one"), reply("two")]) as server:
        provider = ModelProvider(model_at(server.url))
        assert text_of(list(provider.events(request_of()))) == "one"
        assert text_of(list(provider.events(request_of()))) == "two"
        provider.close()
    assert ["stream_options" in r.body for r in server.requests] == [True, False, False]


def test_a_server_that_wants_no_temperature_is_asked_without() -> None:
    no = refusal(400, "Unsupported value: 'temperature' does not support 0.2 with this model.")
    with ModelServer([no, reply("one"), reply("two")]) as server:
        provider = ModelProvider(replace(model_at(server.url), temperature=0.2))
        assert [text_of(list(provider.events(request_of()))) for _ in range(2)] == ["one", "two"]
        provider.close()
    assert ["temperature" in r.body for r in server.requests] == [True, False, False]


def test_a_complaint_about_what_was_not_sent_is_not_tried_again() -> None:
    with ModelServer(lambda _: refusal(400, "tools.0: no such quantity: temperature")) as server:
        provider = ModelProvider(model_at(server.url))
        with pytest.raises(Refused):
            list(provider.events(request_of()))
        provider.close()
    assert len(server.requests) == 1


THINKING = [
    lambda field: reply("", call("measure", {}, "a"), **{field: "First."}),
    lambda field: reply("And now.", call("measure", {"quantity": "humidity"}, "b"), **{field: "Second."}),
    lambda _: reply("Both are fine."),
]


def thoughts(body: Any, field: str) -> list[Any]:
    return [m.get(field) for m in body["messages"] if m["role"] == "assistant"]


@each_row("field", ["reasoning_content", "reasoning"])
@each_row("stream", [True, False])
def test_a_model_gets_its_thoughts_back_within_the_turn_and_never_after_it(field: str, stream: bool) -> None:
    with ModelServer([answer(field) for answer in (*THINKING, THINKING[2])]) as server:
        provider = ModelProvider(model_at(server.url, stream=stream))
        agent = agent_of(provider)
        turn = agent.turn(TurnContext("Be brief.", "how is it?"), [], CALLER)
        kept = tuple(message._replace(thought=NO_THOUGHT) for message in turn.messages)
        agent.turn(TurnContext("Be brief.", "and now?"), [kept], CALLER)
        provider.close()
    sent = [thoughts(request.body, field) for request in server.requests]
    assert sent == [[], ["First."], ["First.", "Second."], [None, None, None]]


@each_row(("field", "asked"), [("reasoning_content", 5), ("reasoning", 4)])
def test_a_server_that_takes_no_thoughts_is_sent_none(field: str, asked: int) -> None:
    def judged(body: Any) -> Answer:
        if any(thoughts(body, field)):
            return refusal(400, f"messages.1.{field}: Extra inputs are not permitted")
        return THINKING[min(2, len(thoughts(body, "")))](field)

    with ModelServer(judged) as server, closing(ModelProvider(model_at(server.url))) as provider:
        turn = agent_of(provider).turn(TurnContext("Be brief.", "how is it?"), [], CALLER)
    assert (turn.reply, turn.stopped) == ("Both are fine.", "")
    assert len(server.requests) == asked  # one more where others want the field in every message


@each_row(("text", "said"), [("", True), ("21", False)])
def test_a_model_that_thinks_until_its_limit_says_so(text: str, said: bool) -> None:
    found, _ = asked(reply(text, finish="length", reasoning="Hm, hm, hm"))
    assert any(isinstance(event, Notice) and "answer_tokens" in event.text for event in found) is said
    assert isinstance(found[-1], End)


PICTURE = Image("image/jpeg", b"\xff\xd8\xff")


def seen_by(server: ModelServer, **model: Any) -> list[Event]:
    asked = request_of()._replace(messages=(Message("user", "what is it?", images=(PICTURE,)),))
    with closing(ModelProvider(replace(model_at(server.url), **model))) as provider:
        return joined(event for _ in range(2) for event in provider.events(asked))


def test_a_model_that_sees_is_shown_the_picture() -> None:
    with ModelServer([reply("A lamp.")] * 2) as server:
        seen_by(server, images=True)
    assert [r.body["messages"][-1]["content"][0]["type"] for r in server.requests] == ["image_url"] * 2


def test_a_blind_model_gets_the_words() -> None:
    with ModelServer([reply("A lamp?")] * 2) as server:
        seen_by(server)
    assert [r.said for r in server.requests] == ["what is it?"] * 2


@each_row("code", [400, 500])
def test_a_server_that_refuses_a_picture_is_asked_without_it_and_that_is_said(code: int) -> None:
    no = refusal(code, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj")
    with ModelServer([no, reply("I cannot see."), reply("Still not.")]) as server:
        found = seen_by(server, images=True)
    assert isinstance(found[0], Notice)
    assert "mmproj" in found[0].text
    assert [r.said == "what is it?" for r in server.requests] == [False, True, True]


def test_a_server_that_refuses_every_form_is_not_asked_for_ever() -> None:
    with ModelServer(lambda _: refusal(400, "neither max_completion_tokens nor stream_options")) as server:
        provider = ModelProvider(model_at(server.url))
        with pytest.raises(Refused):
            list(provider.events(request_of()))
        provider.close()
    assert len(server.requests) == 3


# Chain


class Matcher:
    """A fallback that knows about lamps, and remembers what it was asked."""

    name = "matcher"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.closed = False

    def answers(self, text: str) -> bool:
        return "lamp" in text

    def events(self, request: Request) -> Iterator[Event]:
        self.requests.append(request)
        newest = request.messages[-1]
        if newest.role == "tool":
            yield Text(newest.text)
        else:
            yield ToolCall("m", "switch", {"pin": 17, "on": True})
        yield End("stop", Usage())

    def close(self) -> None:
        self.closed = True


class Bench:
    """A chain over a scripted server; the waits are noted, not waited."""

    def __init__(self, script: Iterable[Answer], retries: int = 2) -> None:
        self.server = ModelServer(script)
        self.matcher = Matcher()
        self.waits: list[float] = []
        model = ModelProvider(model_at(self.server.url, patience=PATIENCE))
        self.chain = Chain(ModelLink("", model, retries), lambda: self.matcher, sleep=self.waits.append)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self.chain.close()
        self.server.__exit__(*problem)

    def ask(self, text: str = "switch on the lamp", seconds: float = 100.0) -> list[Event]:
        return joined(self.chain.events(request_of(text, seconds)))


BUSY = refusal(503, "busy")


@each_row("failures", [0, 1, 2])
def test_chain_tries_again(failures: int) -> None:
    with Bench([*[BUSY] * failures, reply("Here I am.")]) as bench:
        assert bench.ask() == [Text("Here I am."), End("stop", Usage(7, 3))]
        assert bench.waits == [0.5, 1.5][:failures]
        assert bench.chain.name == "openai:qwen"
        assert not bench.matcher.requests


def test_chain_waits_as_long_as_it_is_told() -> None:
    with Bench([refusal(429, "slow", retry_after="4"), reply("ok")]) as bench:
        bench.ask()
        assert bench.waits == [4.0]


@each_row(("wait", "seconds"), [("3600", 10_000.0), ("15", 10.0)], ids=["long", "past the deadline"])
def test_chain_does_not_wait_in_vain(wait: str, seconds: float) -> None:
    with Bench([refusal(429, "slow", retry_after=wait)]) as bench:
        assert isinstance(bench.ask(seconds=seconds)[0], Notice)
        assert bench.waits == []


def test_chain_falls_back_with_a_notice() -> None:
    with Bench([BUSY] * 3) as bench:
        notice, wanted, end = bench.ask()
        assert isinstance(notice, Notice)
        assert "busy" in notice.text
        assert not notice.failed
        assert wanted == ToolCall("m", "switch", {"pin": 17, "on": True})
        assert end == End("stop", Usage())
        assert bench.chain.name == "matcher"
        assert len(bench.server.requests) == 3


def test_chain_says_when_the_owner_has_to_mend_something() -> None:
    with Bench([refusal(401, "Incorrect key")]) as bench:
        notice = bench.ask()[0]
        assert isinstance(notice, Notice)
        assert notice.failed
        assert bench.waits == []


def test_chain_does_not_pretend_to_know() -> None:
    """The matcher says what it can do, and the notice that the question has no answer."""
    with Bench([BUSY] * 3) as bench:
        [notice, *_] = bench.ask("who wrote Faust?")
        assert isinstance(notice, Notice)
        assert notice.failed
        assert "busy" in notice.text
        assert bench.chain.name == "matcher"


def test_chain_does_not_say_twice_what_was_shown() -> None:
    with Bench([truncated_stream(), reply("again")]) as bench:
        heard = bench.chain.events(request_of("switch on the lamp"))
        assert next(heard) == Text("It is 2")
        with pytest.raises(Unavailable):
            next(heard)
        assert len(bench.server.requests) == 1
        assert not bench.matcher.requests


def test_chain_tries_again_when_nothing_was_shown_yet() -> None:
    with Bench([truncated_stream(chunk(content='{"na')), reply("ok")]) as bench:
        assert text_of(bench.ask()) == "ok"


def test_chain_leaves_an_overflow_to_those_who_can_shorten() -> None:
    with Bench([refusal(400, "context_length_exceeded")]) as bench:
        with pytest.raises(ContextOverflow):
            bench.ask()
        assert not bench.matcher.requests
        assert bench.waits == []


def test_chain_leaves_the_deadline_to_the_turn() -> None:
    with Bench([comments()]) as bench, pytest.raises(DeadlinePassed):
        bench.ask(seconds=PATIENCE)


def test_chain_stays_fallen_in_the_turn_and_goes_back_in_the_next() -> None:
    with Bench([BUSY, reply("I am back."), BUSY], retries=0) as bench:
        agent = agent_of(bench.chain)
        turn = agent.turn(TurnContext("", "switch on the lamp"), (), CALLER)
        assert (turn.reply, turn.provider, turn.steps) == ("pin 17 is on", "matcher", 2)
        assert len(bench.server.requests) == 1
        check_conversation(turn.messages)
        after = agent.turn(TurnContext("", "switch on the lamp"), (turn.messages,), CALLER)
        assert (after.reply, after.provider, after.notice) == ("I am back.", "openai:qwen", Notice(""))


def test_chain_tells_a_result_when_the_model_is_lost_in_the_middle() -> None:
    with Bench([reply("", call("measure")), *[BUSY] * 3]) as bench:
        turn = agent_of(bench.chain).turn(TurnContext("", "how warm is it?"), (), CALLER)
        assert (turn.reply, turn.stopped, turn.provider) == ("temperature 21.4", "", "matcher")
        assert "busy" in turn.notice.text
        check_conversation(turn.messages)


def test_chain_takes_no_words_that_steer_a_turn_for_a_wish() -> None:
    """They were said to the model, which knows what they are about; they are handed back."""
    typed: list[str] = []
    with Bench([reply("", call("measure")), refusal(400, "no")], retries=0) as bench:
        around = TurnHooks(
            listen=lambda event: typed.append("switch on the lamp") if isinstance(event, ToolRun) else None,
            typed=lambda: [typed.pop()] if typed else [],
        )
        turn = agent_of(bench.chain).turn(TurnContext("", "how warm is it?"), (), CALLER, around)
        assert (turn.stopped, turn.unanswered_texts, turn.notice.failed) == ("error", ("switch on the lamp",), True)
        assert [run.name for run in turn.tools] == ["measure"]
        assert bench.matcher.requests == []
        check_conversation(turn.messages)


def test_chain_says_both_why_the_model_failed_and_what_the_matcher_met() -> None:
    told = Notice("no lamp 'cellar'", failed=True)
    with Bench([refusal(400, "no such model")]) as bench:
        bench.matcher.events = lambda _: iter([told, told, Text("I cannot."), End("stop", Usage())])  # type: ignore[method-assign]
        notice = agent_of(bench.chain).turn(TurnContext("", "switch on the lamp"), (), CALLER).notice
        assert notice.failed
        assert "no such model" in notice.text
        assert notice.text.endswith(" - answered without a model; no lamp 'cellar'")


def test_agent_shortens_what_overflows_through_the_chain() -> None:
    long = refusal(400, "context_length_exceeded")
    earlier = ((Message("user", "switch on the lamp"), Message("assistant", "Done.")),)
    with Bench([long, reply("ok")]) as bench:
        turn = agent_of(bench.chain).turn(TurnContext("", "switch on the lamp"), earlier, CALLER)
        assert (turn.reply, turn.forgotten) == ("ok", 1)


def test_chain_closes_the_fallback_only_if_it_was_needed() -> None:
    with Bench([reply("ok")]) as bench:
        agent_of(bench.chain).turn(TurnContext("", "how warm is it?"), (), CALLER)
    assert not bench.matcher.closed
    with Bench([BUSY] * 3) as bench:
        agent_of(bench.chain).turn(TurnContext("", "how warm is it?"), (), CALLER)
    assert bench.matcher.closed


@each_row("answer", [page(), truncated_body(), drop(), silence(), comments(), raw(b"{"), refusal(401, "x")])
def test_a_turn_ends_well_whatever_the_server_does(answer: Answer) -> None:
    """The whole way: the turn ends in time with one clear line, and what it leaves behind is valid."""
    with ModelServer(lambda _: answer) as server:
        provider = ModelProvider(model_at(server.url, patience=PATIENCE))
        agent = Agent(provider, toolset_of(Toolbox()), PROMPTS, LimitsConfig(seconds=TURN), 32_768, 100)
        began = time.monotonic()
        turn = agent.turn(TurnContext("", "how warm is it?"), (), CALLER)
        provider.close()
    assert time.monotonic() - began < 2 * (TURN + PATIENCE)
    assert turn.stopped in {"error", "seconds"}
    assert turn.notice.failed
    check_conversation(turn.messages)


def test_calls_written_into_the_last_word_are_not_shown() -> None:
    """A small model goes on calling when it may not any more; the person gets the newest result instead."""
    written = json.dumps({"name": "measure", "arguments": {}})
    with Bench([reply(written)] * 5) as bench:
        turn = agent_of(bench.chain).turn(TurnContext("", "how warm is it?"), (), CALLER)
        assert turn.stopped == "repeated"
        assert turn.reply.startswith("[unfinished: the same calls")
        assert turn.reply.endswith("newest temperature 21.4]")
        check_conversation(turn.messages)


# --- nobody waits any more ---


@pytest.mark.parametrize(
    "script",
    [
        [silence()],
        [silence(chunk(content="It is"))],
        [reply("21 °C."), silence()],  # over the connection of the first
        [refusal(503, "busy", retry_after="15")],
    ],
    ids=["silent", "silent in the middle", "silent on a kept connection", "busy"],
)
def test_the_word_to_stop_ends_a_wait_at_once(script: list[Answer]) -> None:
    stop, seen = Stop(), len(script)
    with ModelServer(script) as server, closing(ModelProvider(model_at(server.url, patience=30.0))) as model:
        provider = Chain(ModelLink("", model, 3), lambda: model)

        def say() -> None:
            while len(server.requests) < seen:
                time.sleep(0.01)
            time.sleep(0.1)
            stop.set()

        speaker = threading.Thread(target=say)
        speaker.start()
        begun = time.monotonic()
        requests = (request_of(seconds=30.0)._replace(stop=stop) for _ in script)
        with pytest.raises(TurnStopped):
            list(itertools.chain.from_iterable(map(provider.events, requests)))
        assert time.monotonic() - begun < 3
        speaker.join()
        assert server.connections == 1
        stop.clear()
        with pytest.raises(Unavailable, match="no further answer"):  # and the next is asked again
            list(model.events(request_of()._replace(stop=stop)))


def test_what_was_stopped_before_is_not_sent() -> None:
    stop = Stop()
    stop.set()
    with ModelServer([reply("21 °C.")]) as server, closing(ModelProvider(model_at(server.url))) as provider:
        with pytest.raises(TurnStopped):
            list(provider.events(request_of()._replace(stop=stop)))
        assert server.requests == []
        assert text_of(list(provider.events(request_of()))) == "21 °C."


@pytest.mark.parametrize("way", ["the word", "Ctrl-C"])
def test_a_lookup_that_heeds_nobody_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    stop, asked, over, look_up = Stop(), threading.Event(), threading.Event(), socket.getaddrinfo

    def hangs(host: str, *given: Any, **more: Any) -> Any:
        if host != "model.invalid" or more.get("flags"):
            return look_up(host, *given, **more)
        asked.set()
        for _ in range(300):
            with suppress(KeyboardInterrupt):  # as the C library does
                if over.wait(0.01):
                    break
        raise socket.gaierror(-2, "Name or service not known")

    def end() -> None:
        asked.wait(5)
        time.sleep(0.1)
        if way == "the word":
            stop.set()
        else:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    with closing(ModelProvider(model_at("http://model.invalid/v1", patience=PATIENCE * 10))) as provider:
        speaker = threading.Thread(target=end)
        speaker.start()
        begun = time.monotonic()
        with pytest.raises((TurnStopped, KeyboardInterrupt)):
            list(provider.events(request_of()._replace(stop=stop)))
        assert time.monotonic() - begun < 1
        speaker.join()
        over.set()
        stop.clear()
        with pytest.raises(Unavailable, match="Name or service not known"):
            list(provider.events(request_of()._replace(stop=stop)))


def test_a_name_that_is_never_resolved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    over, look_up = threading.Event(), socket.getaddrinfo

    def hangs(host: str, *given: Any, **more: Any) -> Any:
        return look_up(host, *given, **more) if more.get("flags") else over.wait(5)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    named = pytest.raises(Unavailable, match=r"the name model\.invalid was not resolved in")
    with closing(ModelProvider(model_at("http://model.invalid/v1", patience=PATIENCE))) as provider, named:
        list(provider.events(request_of()))
    over.set()


@pytest.mark.parametrize(
    ("error", "wait", "took", "said"),
    [
        (ReadTimeout(""), 120.0, 120.1, "stayed silent for 120 s"),
        (ReadTimeout(""), 120.0, 35.7, "is gone: its machine does not answer either"),
        (ConnectTimeout(""), 120.0, 10.0, "did not accept a connection for 10 s"),
        (ConnectTimeout(""), 3.0, 3.0, "did not accept a connection for 3 s"),
    ],
)
def test_a_wait_that_was_in_vain_says_how_long_it_was(monkeypatch, error, wait, took, said):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class Silent:
        def stream(self, *_, **__):
            now[0] += took
            raise error

    stream = open_stream(Silent(), "http://model", {}, StreamMask(""), wait=wait, deadline=5000.0)
    with pytest.raises(Unavailable) as caught, stream:
        pass
    assert str(caught.value) == f"http://model {said}"
