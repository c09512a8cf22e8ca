"""Anthropic's Messages over a real socket: what is sent is what their server takes, what comes back means the same."""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anthropic_server import (
    AnthropicServer,
    complaints,
    events,
    refusal,
    said,
    signature,
    stream,
    text,
    thought,
    unthinking,
    use,
    whole,
)
from model_server import Answer, Json, drip, page, raw, status
from rows import each_row
from scripted import CALLER, PROMPTS, TOOLS, Toolbox, calls_of, joined, text_of, toolset_of

from picoclaw.agent.loop import Agent
from picoclaw.app import App
from picoclaw.cli import model
from picoclaw.cli.arguments import Parser
from picoclaw.config import load_config
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import ContextOverflow, KeyRefused, NoCredit, NotServed, ProviderError, Refused, Unavailable
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import (
    End,
    Event,
    Image,
    Inbound,
    Message,
    Notice,
    Request,
    Text,
    Thought,
    ToolCall,
    Turn,
    TurnContext,
    Usage,
)
from picoclaw.providers import anthropic, http, openai
from picoclaw.providers.anthropic import MessagesFormat
from picoclaw.providers.model import ModelProvider

ASKED = Message("user", "how warm is it?")
READ = ToolCall("x", "sensor_read", {"quantity": "temperature"})
CALLED, RESULT = Message("assistant", "", (READ,)), Message("tool", "21.4", call_id="x")
KEY = "sk-ant-not-for-anybody-else"
HM = thought("Hm, the sensor.")
JPEG = Image("image/jpeg", b"\xff\xd8\xff\xe0 a picture")


def request_of(*messages: Message, system: str = "Be brief.", tools: Any = TOOLS, **more: Any) -> Request:
    return Request(system, messages or (ASKED,), tools, 100, time.monotonic() + 10, lost="lost", **more)


def body_of(*messages: Message, **more: Any) -> Json:
    """A body as it travels, after the server's own judge has seen it."""
    wanted = {name: more.pop(name) for name in ("temperature", "images", "without") if name in more}
    body = anthropic.build_messages_body(request_of(*messages, **more), "m", stream=True, **wanted)
    assert complaints(body) == []
    return dict(json.loads(http.encode_body(body)))


def heard(*objects: Any) -> list[Event]:
    """What these events come to."""
    assembler = openai.AnswerAssembler(openai.get_tool_names(request_of()))
    found = [e for chunk in anthropic.read_chunks(iter(objects)) for e in assembler.feed(chunk)]
    return joined([*found, *assembler.end()])


def asked(*script: Answer, key: str = "", request: Request | None = None, **model: Any) -> tuple[list[Event], Any]:
    """One request to a server with this script: the events, and the server to look at."""
    with AnthropicServer(script) as server:
        config = ModelConfig(base_url=server.url, name="m", api="anthropic", idle_seconds=1.0, **model)
        with closing(ModelProvider(config, key)) as provider:
            return joined(provider.events(request or request_of())), server


# What is sent


def test_body_of_a_first_question() -> None:
    assert body_of(ASKED) == {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "tools": [{"name": t["name"], "description": t["description"], "input_schema": t["parameters"]} for t in TOOLS],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "how warm is it?"}]}],
    }


def test_what_stays_the_same_comes_first() -> None:
    names = ["model", "max_tokens", "temperature", "stream", "tools", "system", "messages", "tool_choice"]
    assert list(body_of(ASKED, temperature=0.5, calls=False)) == names


@each_row(("warm", "sent"), [(0.0, 0.0), (0.7, 0.7), (1.8, 1.0)])
def test_a_temperature_that_is_too_high_for_this_format_is_lowered(warm: float, sent: float) -> None:
    assert body_of(ASKED, temperature=warm)["temperature"] == sent


def test_nothing_is_cached_that_is_asked_once() -> None:
    assert body_of(ASKED, tools=())["system"] == "Be brief."
    assert "system" not in body_of(ASKED, tools=(), system=" \n")


def test_results_of_one_round_are_one_message_of_the_users() -> None:
    two = Message("assistant", "Both.", (READ, ToolCall("y", "exec", {"command": "ls"})))
    sent = body_of(ASKED, two, RESULT, Message("tool", "a b", call_id="y"))["messages"]
    first, second = (block["id"] for block in sent[1]["content"][1:])
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert [b["type"] for b in sent[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [(b["tool_use_id"], b["content"]) for b in sent[2]["content"]] == [(first, "21.4"), (second, "a b")]


DAMAGED: dict[str, tuple[Message, ...]] = {
    "no result": (ASKED, CALLED, ASKED),
    "a result without a call": (ASKED, RESULT, ASKED),
    "two results": (ASKED, CALLED, RESULT, RESULT),
    "an answer first": (Message("assistant", "Hello."), ASKED),
    "an answer last": (ASKED, CALLED, RESULT, Message("assistant", "21.4")),
    "two questions": (ASKED, ASKED),
    "two answers": (ASKED, Message("assistant", "a"), Message("assistant", "b"), ASKED),
    "nothing said": (Message("user", " "), Message("assistant", ""), Message("user", "")),
    "an empty result": (ASKED, CALLED, Message("tool", "", call_id="x")),
    "a question after a result": (ASKED, CALLED, RESULT, ASKED),
    "the same id twice": (ASKED, CALLED, RESULT, CALLED, RESULT),
    "a name that is none": (ASKED, Message("assistant", "", (ToolCall("x", "größe \n", {}),)), RESULT),
    "half a character": (ASKED, Message("assistant", "\ud83d", (ToolCall("x", "exec", {"a": "\ude00"}),)), RESULT),
    "arguments that were none": (ASKED, Message("assistant", "", (ToolCall("x", "exec", {}, "{rm"),)), RESULT),
}


@each_row("name", DAMAGED)
def test_a_damaged_history_is_mended_for_sending(name: str) -> None:
    sent = body_of(*DAMAGED[name])["messages"]
    words = " ".join(b["text"] for m in sent for b in m["content"] if b["type"] == "text" and m["role"] == "user")
    assert all(m.text.strip() in words for m in DAMAGED[name] if m.role == "user")


@each_row("token", ["<|im_start|>", "</s>", "<tool_call>"])
def test_control_tokens_go_out_broken_wherever_they_stand_but_in_a_thought(token: str) -> None:
    told = f"x {token}system"
    mine = Thought("m", (thought(told),))
    messages = (
        Message("user", told),
        Message("assistant", told, (ToolCall("x", "exec", {"command": told}),), thought=mine),
        Message("tool", told, call_id="x"),
    )
    tools = ({"name": "exec", "description": told, "parameters": {"type": "object"}},)
    sent = json.dumps(body_of(*messages, system=told, tools=tools))
    assert sent.count(f"x {token[0]} {token[1:]}system") == 6
    assert sent.count(token) == 1  # the thought, which is signed


def test_a_last_word_shows_the_tools_and_asks_for_no_call() -> None:
    body = body_of(ASKED, CALLED, RESULT, calls=False)
    assert (len(body["tools"]), body["tool_choice"]) == (2, {"type": "none"})


@each_row(("by", "kinds"), [("m", ["thinking", "tool_use"]), ("another", ["tool_use"])])
def test_a_thought_goes_back_to_the_model_that_thought_it(by: str, kinds: list[str]) -> None:
    sent = body_of(ASKED, CALLED._replace(thought=Thought(by, (HM,))), RESULT)["messages"]
    assert [block["type"] for block in sent[1]["content"]] == kinds


def test_a_thought_of_the_other_format_is_left_out() -> None:
    other = Thought("m", ({"reasoning_content": "Hm."},))
    sent = body_of(ASKED, CALLED._replace(thought=other), RESULT)["messages"]
    assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]


@each_row(("images", "kinds"), [(True, ["image", "text"]), (False, ["text"])])
def test_pictures_go_to_models_that_take_them(images: bool, kinds: list[str]) -> None:
    sent = body_of(ASKED._replace(images=(JPEG,)), images=images)["messages"]
    assert [block["type"] for block in sent[0]["content"]] == kinds


# What comes back

ANSWERS: dict[str, tuple[Json, ...]] = {
    "text": (text("It is 21.4 °C.\nWarm\u2028enough?"),),
    "call": (use("sensor_read", {"quantity": "temperature"}),),
    "a call without arguments": (use("sensor_read"),),
    "text and calls": (text("One moment."), use("sensor_read", {}, "a"), use("exec", {"command": "ls\n"}, "b")),
    "a thought": (HM, text("21.")),
    "a thought and a call": (HM, use("exec", {"command": "ls"})),
    "a hidden thought": ({"type": "redacted_thinking", "data": "xyz"}, use("exec", {"command": "ls"})),
    "a thought that is not shown": (thought("") | {"signature": "s"}, use("exec", {"command": "ls"})),
    "written as text": (text('<tool_call>{"name": "sensor_read", "arguments": {}}</tool_call>'),),
    "a block nobody knows": ({"type": "server_tool_use", "id": "s", "name": "web", "input": {}}, text("21.")),
    "nothing": (),
}


@each_row("name", ANSWERS)
@each_row("size", [1, 4, 1000])
def test_a_streamed_answer_gives_the_same_events_as_a_whole_one(name: str, size: int) -> None:
    message = whole(*ANSWERS[name])
    assert heard(*stream(message, size)) == heard(message, openai.COMPLETE_CHUNK)


def test_the_events_of_an_answer() -> None:
    assert heard(*stream(whole(*ANSWERS["text and calls"]))) == [
        Text("One moment."),
        ToolCall("a", "sensor_read", {}),
        ToolCall("b", "exec", {"command": "ls\n"}),
        End("tool_calls", Usage(7, 3)),
    ]


@each_row(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("of tomorrow", "of tomorrow"),
    ],
)
def test_why_an_answer_ended(stop: str, finish: str) -> None:
    (_, end) = heard(*stream_of("It is", stop))
    assert isinstance(end, End)
    assert end.finish == finish


def stream_of(words: str, stop: str = "", **counts: int) -> list[Json]:
    return stream(whole(text(words), stop=stop, usage=counts or None))


def test_what_was_cached_counts_as_sent() -> None:
    counts = {"input_tokens": 7, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 3}
    for parts in (stream_of("21.", **counts), [whole(text("21."), usage=counts), openai.COMPLETE_CHUNK]):
        end = heard(*parts)[-1]
        assert isinstance(end, End)
        assert end.usage == Usage(127, 3)


@each_row("usage", [None, [], {"input_tokens": "many"}, {"input_tokens": True}, {"output_tokens": -1}])
def test_usage_that_says_nothing(usage: Any) -> None:
    end = heard(whole(text("21.")) | {"usage": usage}, openai.COMPLETE_CHUNK)[-1]
    assert isinstance(end, End)
    assert end.usage.total == 0


def test_a_call_that_was_cut_is_not_run() -> None:
    parts = [part for part in stream(whole(use("exec", {"command": "rm -r"}), stop="max_tokens")) if keeps(part)]
    (call,) = calls_of(heard(*parts))
    assert call.broken


def keeps(part: Json) -> bool:
    """Leave out the end of the arguments."""
    return '-r"}' not in json.dumps(part).replace('\\"', '"') and part["type"] != "content_block_stop"


def test_arguments_that_came_with_the_beginning_of_a_block() -> None:
    block = use("exec", {"command": "ls"})
    begun = {"type": "content_block_start", "index": 0, "content_block": block}
    piece = {"type": "input_json_delta", "partial_json": '{"command": "ls"}'}
    more = {"type": "content_block_delta", "index": 0, "delta": piece}
    ends = [{"type": "content_block_stop", "index": 0}, *stream(whole())[-2:]]
    for parts in ([begun, *ends], [begun, more, *ends]):
        assert [c.arguments for c in calls_of(heard(*parts))] == [{"command": "ls"}]


@each_row(
    "odd",
    [
        {"type": "ping"},
        {"type": "of tomorrow", "delta": {"text": "x"}},
        {"type": ["text"]},
        {"type": "content_block_start"},
        {"type": "content_block_start", "index": "x", "content_block": []},
        {"type": "content_block_start", "index": 5, "content_block": {"type": ["text"], "text": "x"}},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "thinking_delta", "thinking": "x"}},
        {"type": "content_block_delta", "delta": None},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": None}},
        {"type": "content_block_delta", "delta": {"type": "citations_delta"}},
        {"type": "content_block_stop", "index": 9},
        {"type": "message_delta"},
    ],
    ids=lambda odd: json.dumps(odd)[9:60],
)
def test_an_event_that_says_nothing_changes_nothing(odd: Json) -> None:
    good = stream(whole(text("21.")))
    assert heard(*good[:1], odd, *good[1:]) == heard(*good)


@each_row(
    ("parts", "kind"),
    [
        ([], Unavailable),
        (["text"], Unavailable),
        ([{"message": "Not here."}], Unavailable),
        ([{"error": {"message": "overloaded"}}], Unavailable),
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}], Unavailable),
        ([{"type": "error", "error": {"type": "api_error", "message": "Oops"}}], Unavailable),
        ([{"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}], Refused),
        (
            [{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}],
            ContextOverflow,
        ),
        ([{"type": "error", "error": {"type": "authentication_error", "message": "x"}}], KeyRefused),
        ([{"type": "error"}], Unavailable),
    ],
    ids=str,
)
def test_what_is_no_answer(parts: list[Any], kind: type[ProviderError]) -> None:
    with pytest.raises(ProviderError) as caught:
        heard(*parts, openai.COMPLETE_CHUNK)
    assert type(caught.value) is kind


def test_an_answer_in_the_other_format_is_understood_all_the_same() -> None:
    assert text_of(heard({"choices": [{"message": {"content": "21."}, "finish_reason": "stop"}]})) == "21."


# Over the wire


@each_row("streams", [True, False])
@each_row("asks", [True, False])
def test_a_plain_answer_takes_one_request(asks: bool, streams: bool) -> None:
    found, server = asked(said("It is warm.", streams=streams), key=KEY, stream=asks)
    assert found == [Text("It is warm."), End("stop", Usage(7, 3))]
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in request.headers


@each_row("base", ["http://x", "http://x/v1", "http://x/anthropic", "http://x/anthropic/v1"])
def test_the_address_may_name_the_version_or_not(base: str) -> None:
    assert MessagesFormat().url(base) == f"{base.removesuffix('/v1')}/v1/messages"


def test_without_a_key_none_is_sent() -> None:
    _, server = asked(said("It is warm."))
    assert not {"authorization", "x-api-key"} & set(server.requests[0].headers)


@each_row(
    ("answer", "kind", "told"),
    [
        (refusal(400, "invalid_request_error", "max_tokens: too many"), Refused, "max_tokens"),
        (refusal(400, "invalid_request_error", "prompt is too long: 210000 tokens"), ContextOverflow, "210000"),
        (refusal(400, "invalid_request_error", "input length and `max_tokens` exceed context limit"), ContextOverflow, "limit"),
        (refusal(400, "invalid_request_error", "Your credit balance is too low"), NoCredit, "credit"),
        (refusal(401, "authentication_error", "invalid x-api-key"), KeyRefused, "secrets.toml"),
        (refusal(402, "billing_error", "unpaid"), NoCredit, "account"),
        (refusal(403, "permission_error", "not for you"), KeyRefused, "not for you"),
        (refusal(404, "not_found_error", "model: claude-x"), NotServed, "claude-x"),
        (refusal(413, "request_too_large", "too large"), ContextOverflow, "too large"),
        (refusal(429, "rate_limit_error", "per minute", retry_after="7"), Unavailable, "per minute"),
        (refusal(500, "api_error", "Internal"), Unavailable, "Internal"),
        (refusal(504, "timeout_error", "too slow"), Unavailable, "504"),
        (refusal(529, "overloaded_error", "Overloaded", retry_after="7"), Unavailable, "Overloaded"),
        (events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), Unavailable, "Over"),
        (events(*stream(whole(text("It is 2")))[:-3]), Unavailable, "in the middle"),
        (status(502, "<html>Bad gateway</html>"), Unavailable, "web page"),
        (page(), Unavailable, "web page"),
        (raw(b"{}"), Unavailable, "no answer"),
        (raw(b"[1"), Unavailable, "not JSON"),
        (raw(b""), Unavailable, "empty answer"),
    ],
)  # fmt: skip
def test_an_error_is_named_and_says_what_to_try(answer: Answer, kind: type[ProviderError], told: str) -> None:
    with pytest.raises(ProviderError, match=told) as caught:
        asked(answer)
    assert type(caught.value) is kind
    assert len(str(caught.value).splitlines()) == 1


@each_row("code", [429, 529])
def test_the_wait_that_is_asked_for_is_kept(code: int) -> None:
    with pytest.raises(Unavailable) as caught:
        asked(refusal(code, "overloaded_error", "x", retry_after="7"))
    assert caught.value.retry_after == 7.0


def test_a_key_that_is_sent_back_is_not_shown() -> None:
    with pytest.raises(KeyRefused) as caught:
        asked(refusal(401, "authentication_error", f"invalid x-api-key {KEY}"), key=KEY)
    assert KEY not in str(caught.value)
    assert text_of(asked(said(f"Your key is {KEY}."), key=KEY)[0]) == "Your key is [secret]."


def test_an_answer_is_whole_without_its_last_mark() -> None:
    found, _ = asked(events(*stream(whole(text("21.")))[:-1]))
    assert text_of(found) == "21."


def test_a_connection_serves_several_requests() -> None:
    with AnthropicServer([said("a"), said("b", streams=False), said("c")]) as server:
        config = ModelConfig(base_url=server.url, api="anthropic")
        with closing(ModelProvider(config)) as provider:
            assert [text_of(list(provider.events(request_of()))) for _ in range(3)] == ["a", "b", "c"]
    assert server.connections == 1


def test_a_server_that_never_ends_its_line_is_given_up() -> None:
    with pytest.raises(ProviderError):
        asked(drip(), request=request_of()._replace(deadline=time.monotonic() + 0.5))


@each_row(
    ("word", "model"),
    [("temperature", {"temperature": 0.2}), ("cache_control", {})],
)
def test_what_a_server_does_not_know_is_left_out_from_then_on(word: str, model: dict[str, Any]) -> None:
    refused = refusal(400, "invalid_request_error", f"`{word}` is not supported by this model")
    with AnthropicServer([refused, said("a"), said("b")]) as server:
        config = ModelConfig(base_url=server.url, api="anthropic", **model)
        with closing(ModelProvider(config)) as provider:
            assert [text_of(list(provider.events(request_of()))) for _ in range(2)] == ["a", "b"]
    assert [word in json.dumps(request.body) for request in server.requests] == [True, False, False]


def test_a_thought_that_is_not_taken_back_is_left_out() -> None:
    forged = HM | {"signature": "of another server"}
    request = request_of(ASKED, CALLED._replace(thought=Thought("m", (forged,))), RESULT)
    found, server = asked(said("21."), request=request)
    assert text_of(found) == "21."
    assert [complaint for complaint in server.refused if "signature" in complaint]


def test_a_picture_that_is_not_taken_is_left_out_and_that_is_said() -> None:
    wrong = request_of(ASKED._replace(images=(Image("image/png", b"no picture"),)))
    with AnthropicServer([said("I see nothing."), said("Still nothing.")]) as server:
        config = ModelConfig(base_url=server.url, api="anthropic", images=True)
        with closing(ModelProvider(config)) as provider:
            first, second = (joined(provider.events(wrong)) for _ in range(2))
    assert isinstance(first[0], Notice)
    assert "appears not to be" in first[0].text
    assert (text_of(first), text_of(second)) == ("I see nothing.", "Still nothing.")
    assert len(server.requests) == 3


# A turn


def turn_with(*script: Answer, thinks: bool = False) -> tuple[Turn, AnthropicServer, Toolbox]:
    box = Toolbox()
    with AnthropicServer(script, thinks=thinks) as server:
        config = ModelConfig(base_url=server.url, name="m", api="anthropic")
        with closing(ModelProvider(config)) as provider:
            agent = Agent(provider, toolset_of(box), PROMPTS, LimitsConfig(), 32_768, 1024)
            return agent.turn(TurnContext("Be brief.", "how warm is it?"), [], CALLER), server, box


ROUNDS = (
    said(thought("First."), use("measure", {"quantity": "temperature"}, "toolu_a")),
    said(thought("Second."), "And now.", use("measure", {"quantity": "humidity"}, "toolu_b")),
    said("Both are fine."),
)


def test_a_model_that_always_thinks_gets_its_thoughts_back_within_the_turn() -> None:
    turn, server, box = turn_with(*ROUNDS, thinks=True)
    assert (turn.reply, turn.stopped, server.refused) == ("Both are fine.", "", [])
    assert box.used == [("measure", "temperature"), ("measure", "humidity")]
    last = [b for m in server.requests[-1].body["messages"] for b in m["content"] if b["type"] == "thinking"]
    assert [b["thinking"] for b in last] == ["First.", "Second."]
    assert all(b["signature"] == signature(b["thinking"]) for b in last)


def test_the_judge_of_thoughts_refuses_a_call_without_one() -> None:
    assert unthinking(body_of(ASKED, CALLED, RESULT))
    assert not unthinking(body_of(ASKED, CALLED, RESULT, ASKED))


BAD: list[tuple[str, Any, str]] = [
    ("messages", [{"role": "user", "content": [text(" ")]}], "non-whitespace"),
    ("messages", [{"role": "user", "content": []}], "non-empty"),
    ("messages", [{"role": "system", "content": [text("x")]}], "'user' or 'assistant'"),
    ("messages", [{"role": "assistant", "content": [text("x")]}], "first message"),
    ("messages", [{"role": "user", "content": [text("x")]}] * 2, "alternate"),
    ("messages", [{"role": "user", "content": [HM]}], "does not match"),
    ("temperature", 1.5, "range"),
    ("stream_options", {}, "Extra inputs"),
    ("system", [{"type": "text", "text": ""}], "non-whitespace"),
    ("tools", [{"name": "a b", "input_schema": {"type": "object"}}], "pattern"),
    ("tools", [{"name": "a", "input_schema": {}}], "Field required"),
    ("tools", [], ""),
]


@each_row(("name", "value", "told"), BAD, ids=range(len(BAD)))
def test_the_judge_refuses_what_the_server_would(name: str, value: Any, told: str) -> None:
    found = complaints(body_of(ASKED) | {name: value})
    assert any(told in complaint for complaint in found) if told else not found


def paired(change: int) -> Iterator[Json]:
    yield {"role": "user", "content": [text("x")]}
    yield {"role": "assistant", "content": [text("y"), use("exec", {}, "a")]}
    if change:
        yield {"role": "user", "content": [text("z")]}
    else:
        yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "z"}]}


@each_row("change", [0, 1])
def test_the_judge_refuses_pairs_that_are_none(change: int) -> None:
    assert any("tool_use" in complaint for complaint in complaints(body_of(ASKED) | {"messages": [*paired(change)]}))


def test_the_verb_prompt_shows_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    parser = Parser()
    model.add_prompt_options(parser)
    words = ["-m", "hello", "--board", "sim"]
    with AnthropicServer(
        [said(use("sensor_read", {"quantity": "temperature"})), said("21."), said("Hello.")]
    ) as server:
        (tmp_path / "config.toml").write_text(f'[model]\nbase_url = "{server.url}"\nname = "m"\napi = "anthropic"\n')
        with closing(App(load_config(os.environ), SimBoard())) as app:
            app.dispatcher.answer(Inbound("terminal", "how warm is it?"))
        assert model.run_prompt(parser.parse([*words, "--json"])) == 0
        shown = json.loads(capsys.readouterr().out)["body"]
        assert model.run_prompt(parser.parse(words)) == 0
        with closing(App(load_config(os.environ), SimBoard())) as app:
            app.dispatcher.answer(Inbound("terminal", "hello"))
    minute = re.compile(r"\d\d:\d\d")
    assert minute.sub("", json.dumps(shown)) == minute.sub("", json.dumps(server.requests[-1].body))
    assert complaints(shown) == []
    lines = capsys.readouterr().out
    assert '    calls sensor_read {"quantity": "temperature"}' in lines
    assert "--- user\n" in lines
