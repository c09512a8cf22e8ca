"""A connection that is reset in the middle of an answer: no text is said twice, and no tool is run twice."""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from model_server import Answer, Exchange, Json, ModelServer, call, chunk, chunks, events, reply
from rows import each_row
from scripted import CALLER, PROMPTS, Toolbox, toolset_of
from validity import check_body, check_conversation

from picoclaw.agent.loop import Agent
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.messages import End, Event, Request, Text, ToolRun, Turn, TurnContext, TurnHooks, Usage
from picoclaw.providers.model import Chain, ModelLink, ModelProvider

SWITCH = call("switch", {"pin": 17, "on": True})
WHOLE = chunks("", [SWITCH])  # ends with the reason why it ended, and the count
PATIENCE = 5.0


def reset(*parts: Json, begin: bool = True) -> Answer:
    """The parts of a streamed answer, and then a TCP reset instead of an end."""

    def answer(exchange: Exchange) -> None:
        if begin:
            exchange.begin()
        for part in parts:
            exchange.piece(f"data: {json.dumps(part)}\n\n".encode())
        exchange.rest(0.02)  # what was sent arrives first
        handler = exchange._handler
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.rfile.close()
        handler.connection.close()
        exchange.hang_up()

    return answer


class NoModel:
    """A fallback that can do nothing but tell a result."""

    name = "none"

    def answers(self, text: str) -> bool:
        return False

    def events(self, request: Request) -> Iterator[Event]:
        yield Text(f"without a model: {request.messages[-1].text}")
        yield End("stop", Usage())

    def close(self) -> None:
        pass


class Seen(NamedTuple):
    """What became of a turn: its end, what a person read as it came, what was done, and what the server was sent."""

    turn: Turn
    read: str
    used: list[tuple[Any, ...]]
    bodies: list[Any]


def turn_over(*script: Answer, retries: int = 2) -> Seen:
    toolbox, read = Toolbox(), []

    def listen(event: Event | ToolRun) -> None:
        read.append(event.text if isinstance(event, Text) else "")

    with ModelServer(script) as server:
        model = ModelProvider(ModelConfig(base_url=server.url, name="qwen", stream=True, idle_seconds=PATIENCE))
        with closing(Chain(ModelLink("", model, retries), NoModel, sleep=lambda _: None)) as chain:
            agent = Agent(chain, toolset_of(toolbox), PROMPTS, LimitsConfig(), 32_768, 100)
            turn = agent.turn(TurnContext("Be brief.", "switch on the lamp"), (), CALLER, TurnHooks(listen=listen))
        bodies = [request.body for request in server.requests]
    check_conversation(turn.messages)
    for body in bodies:
        check_body(body)
    return Seen(turn, "".join(read), toolbox.used, bodies)


USE, DONE = reply("", SWITCH), reply("It is on.")
ONCE = [("switch", 17, True)]


@each_row(
    "broken",
    [
        reset(begin=False),
        reset(),
        reset(chunk(role="assistant", content="")),
        reset(*WHOLE[:3]),
        reset(*WHOLE[:-2]),
        events(*WHOLE[:-2], done=False),
        reset(*chunks('{"name": "switch", "arguments": {"pin": 17,')[:-2]),
        reset(chunk(content="<think>The lamp is on pin 17")),
    ],
    ids=[
        "before anything",
        "after the head",
        "after an empty word",
        "after half a call",
        "after a whole call",
        "after a whole call, quietly",
        "after half a written call",
        "within a thought",
    ],
)
@each_row("times", [1, 2])
def test_what_nobody_heard_is_asked_again_and_done_once(broken: Answer, times: int) -> None:
    seen = turn_over(*[broken] * times, USE, *[broken] * times, DONE)
    assert (seen.turn.stopped, seen.turn.reply, seen.read) == ("", "It is on.", "It is on.")
    assert seen.used == ONCE
    first, second = seen.bodies[: times + 1], seen.bodies[times + 1 :]
    assert first == [first[0]] * (times + 1)
    assert second == [second[0]] * (times + 1)


@each_row(
    ("parts", "heard"),
    [
        (chunks("It is o")[:-2], "It is o"),
        (chunks("I do it. ", [SWITCH])[:6], "I do it. "),
        (chunks("I do it. ", [SWITCH])[:-2], "I do it. "),
    ],
    ids=["after text", "after text and half a call", "and a whole call"],
)
@each_row("before", [0, 1], ids=["first", "after a tool"])
def test_what_was_heard_stays_and_is_not_said_again(parts: list[Json], heard: str, before: int) -> None:
    seen = turn_over(*[USE] * before, reset(*parts), DONE)
    assert seen.turn.stopped == "error"
    assert seen.read == heard
    assert seen.turn.reply.startswith(f"{heard}\n[failed: ")
    assert "broke off ([Errno 104] Connection reset by peer)" in seen.turn.notice.text
    assert seen.turn.messages[-1].text == seen.turn.reply
    assert seen.used == ONCE * before
    assert len(seen.bodies) == before + 1


@each_row("missing", [1, None], ids=["count", "mark"])
def test_an_answer_that_said_its_end_is_whole_without_the_last_mark(missing: int | None) -> None:
    """Some servers, and proxies before them, cut the connection as soon as they have said why the answer ended."""
    end = -missing if missing else None
    seen = turn_over(reset(*chunks("I do it. ", [SWITCH])[:end]), reset(*chunks("It is on.")[:end]))
    assert (seen.turn.stopped, seen.turn.reply, seen.read) == ("", "It is on.", "I do it. It is on.")
    assert seen.used == ONCE
    assert len(seen.bodies) == 2
    assert seen.turn.usage.prompt_tokens > 0


def test_an_error_after_the_end_is_an_error() -> None:
    spoilt = events(*chunks("It is o"), {"error": {"message": "the slot died"}}, done=False)
    seen = turn_over(spoilt)
    assert seen.turn.stopped == "error"
    assert "the slot died" in seen.turn.notice.text


def test_what_a_tool_gave_is_told_when_nothing_more_comes() -> None:
    seen = turn_over(USE, *[reset(*WHOLE[:-2])] * 3)
    assert seen.turn.reply == "without a model: pin 17 is on"
    assert seen.used == ONCE
    assert len(seen.bodies) == 4


def test_a_turn_that_broke_off_is_gone_on_with_in_the_next() -> None:
    script = [USE, reset(*chunks("It is o")[:-2]), DONE]
    with ModelServer(script) as server:
        model = ModelProvider(ModelConfig(base_url=server.url, name="qwen", stream=True, idle_seconds=PATIENCE))
        with closing(model):
            agent = Agent(model, toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 32_768, 100)
            broken = agent.turn(TurnContext("", "switch on the lamp"), (), CALLER)
            after = agent.turn(TurnContext("", "and?"), (broken.messages,), CALLER)
        sent = server.requests[-1].body["messages"]
    assert (after.reply, after.stopped) == ("It is on.", "")
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[3]["content"] == broken.reply
    check_conversation([*broken.messages, *after.messages])
