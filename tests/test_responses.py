"""OpenAI's Responses over a real socket: what is sent, and what comes back means what it does in the other formats."""

import json
import time
from contextlib import closing
from typing import Any

import pytest
from model_server import Answer, Json, ModelServer, events, status
from rows import each_row
from scripted import CALLER, PROMPTS, TOOLS, Toolbox, joined, toolset_of

from picoclaw.agent.loop import Agent
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import KeyRefused, ProviderError, Unavailable
from picoclaw.hw import detect
from picoclaw.messages import End, Event, Image, Inbound, Message, Request, Text, ToolCall, TurnContext
from picoclaw.providers.model import ModelProvider
from picoclaw.workspace import prepare_home

ASKED = Message("user", "how warm is it?")
USAGE = {
    "input_tokens": 70,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 79,
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAsealed"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "sensor_read",
    "arguments": '{"quantity": "temperature"}',
}
MEANT = ToolCall("call_1", "sensor_read", {"quantity": "temperature"})


def words(text: str) -> Json:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def whole(*items: Json, status: str = "completed", **more: Any) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "output": list(items),
        "usage": USAGE,
    } | more


def stream(response: Json, size: int = 5) -> list[Json]:
    """The events of a response, in pieces."""
    out: list[Json] = [
        {"type": "response.created", "response": response | {"output": [], "usage": None, "status": "in_progress"}}
    ]
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = item | {"arguments": ""} if item["type"] == "function_call" else item | {"content": []}
        out.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if item["type"] == "function_call":
            text, kind = item["arguments"], "function_call_arguments"
        else:
            text, kind = (item.get("content") or [{"text": ""}])[0].get("text", ""), "output_text"
        out += [
            {"type": f"response.{kind}.delta", "delta": text[i : i + size]} | place for i in range(0, len(text), size)
        ]
        out.append({"type": "response.output_item.done", "output_index": index, "item": item})
    end = {"completed": "completed", "incomplete": "incomplete"}.get(response["status"], "failed")
    return [*out, {"type": f"response.{end}", "response": response}]


def said(*items: Json, **more: Any) -> Answer:
    response = whole(*items, **more)

    def answer(exchange: Any) -> None:
        if exchange.streams:
            events(*stream(response), done=False)(exchange)
        else:
            exchange.whole(json.dumps(response).encode())

    return answer


def request_of(*messages: Message, **more: Any) -> Request:
    return Request("Be brief.", messages or (ASKED,), TOOLS, 100, time.monotonic() + 10, lost="lost", **more)


def asked(*script: Answer, request: Request | None = None, **model: Any) -> tuple[list[Event], list[Json]]:
    with ModelServer(script) as server:
        config = ModelConfig(base_url=server.url, name="m", api="responses", idle_seconds=2.0, **model)
        with closing(ModelProvider(config)) as provider:
            found = joined(provider.events(request or request_of()))
        assert {one.path for one in server.requests} == {"/v1/responses"}
        return found, [one.body for one in server.requests]


def test_what_is_sent_for_a_first_question() -> None:
    _, (body,) = asked(said(words("21")), temperature=0.2)
    assert body == {
        "model": "m",
        "max_output_tokens": 100,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "temperature": 0.2,
        "stream": True,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": t["name"], "description": t["description"], "parameters": t["parameters"], "strict": False} for t in TOOLS],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "how warm is it?"}]}],
    }  # fmt: skip


def test_a_picture_and_a_schema_have_their_own_form() -> None:
    picture = Message("user", "what is it?", images=(Image("image/png", b"\x89PNG"),))
    request = request_of(picture, schema={"type": "object"}, calls=False, temperature=0)
    _, (body,) = asked(said(words("x")), request=request, images=True)
    assert body["input"][0]["content"][0] == {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}
    assert body["text"]["format"]["schema"] == {"type": "object"}
    assert body["temperature"] == 0
    assert body["tool_choice"] == "none"


@each_row("streams", [True, False])
@each_row(
    ("response", "meant", "finish"),
    [
        (said(words("It is 21 °C.")), [Text("It is 21 °C.")], "stop"),
        (said(THOUGHT, words("It is 21 °C.")), [Text("It is 21 °C.")], "stop"),
        (said(THOUGHT, CALL), [MEANT], "tool_calls"),
        (said(words("I look."), CALL), [Text("I look."), MEANT], "tool_calls"),
        (
            said(CALL, CALL | {"id": "fc_2", "call_id": "call_2", "arguments": "{}"}),
            [MEANT, ToolCall("call_2", "sensor_read", {})],
            "tool_calls",
        ),
        (
            said(words("It is 2"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            [Text("It is 2")],
            "length",
        ),
        (
            said({"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I cannot."}]}),
            [Text("I cannot.")],
            "stop",
        ),
    ],
)  # fmt: skip
def test_an_answer_means_the_same_streamed_and_whole(
    response: Answer, meant: list[Event], finish: str, streams: bool
) -> None:
    found, _ = asked(response, stream=streams)
    *rest, end = found
    assert rest == meant
    assert isinstance(end, End)
    assert end.finish == finish
    assert (end.usage.prompt_tokens, end.usage.completion_tokens, end.usage.cached, end.usage.reasoning) == (
        70,
        9,
        64,
        5,
    )


def test_a_thought_goes_back_with_its_call() -> None:
    toolbox = Toolbox()
    with ModelServer([said(THOUGHT, CALL | {"name": "measure"}), said(words("Fine."))]) as server:
        config = ModelConfig(base_url=server.url, name="m", api="responses")
        with closing(ModelProvider(config)) as provider:
            agent = Agent(provider, toolset_of(toolbox), PROMPTS, LimitsConfig(), 32_768, 100)
            first = agent.turn(TurnContext("", "how warm is it?"), [], CALLER)
        second = server.requests[1].body["input"]
    kinds = [item.get("type") or item["role"] for item in second]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert second[1]["encrypted_content"] == "gAAAsealed"
    assert first.reply == "Fine."


@each_row(
    ("answer", "error", "told"),
    [
        (status(401, {"error": {"message": "bad key"}}), KeyRefused, "bad key"),
        (events({"type": "error", "code": "server_error", "message": "broken"}, done=False), Unavailable, "broken"),
        (said(status="failed", error={"code": "rate_limit_exceeded", "message": "slow down"}), Unavailable, "slow down"),
        (events(*stream(whole(words("It is 21")))[:-1], done=False), Unavailable, "in the middle"),
    ],
)  # fmt: skip
def test_errors(answer: Answer, error: type[ProviderError], told: str) -> None:
    with pytest.raises(error, match=told):
        asked(answer)


@each_row("word", ["include", "temperature", "store"])
def test_what_a_server_does_not_know_is_left_out(word: str) -> None:
    refusal = status(400, {"error": {"message": f"Unsupported parameter: '{word}'"}})
    found, (first, second) = asked(refusal, said(words("ok")), temperature=0.5)
    assert Text("ok") in found
    assert word in first
    assert word not in second


def test_cached_and_reasoning_tokens_are_in_the_accounts(tmp_path, capsys) -> None:
    prepare_home(tmp_path, restore=True)
    (tmp_path / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    with ModelServer([said(words("Goethe."))]) as server:
        config = Config(home=tmp_path, model=ModelConfig(base_url=server.url, name="m", api="responses"))
        with closing(App(config, detect.choose_board("sim", config))) as app:
            assert app.dispatcher.answer(Inbound("terminal", "who wrote Faust?")).reply == "Goethe."
            app.stores.settle("terminal")
            day = app.now().date().isoformat()
            (taken,) = app.stores.accounts.rows(day, day).values()
    assert (taken.prompt, taken.completion, taken.cached, taken.reasoning) == (70, 9, 64, 5)
