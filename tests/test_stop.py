"""The word to stop, said by another thread, ends a turn within a second, whatever a real socket is doing meanwhile.

And what a connection that breaks in the middle of an answer leaves behind. `tests/bench/stop.py` prints the times.
"""

import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from model_server import (
    Answer,
    Exchange,
    ModelServer,
    call,
    chunk,
    comments,
    drip,
    refusal,
    reply,
    silence,
    truncated_stream,
)
from rows import each_row
from sandbox_kit import gone, needs_walls
from scripted import CALLER, PROMPTS, Toolbox, toolset_of
from validity import check_conversation

from picoclaw.agent.loop import Agent
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.messages import Event, Message, Stop, Text, ToolRun, Turn, TurnContext, TurnHooks
from picoclaw.providers.model import Chain, ModelLink, ModelProvider
from picoclaw.tools.exec import ExecTools

AT_ONCE = 1.0
PATIENCE = 30.0
MEASURE = call("measure", {"quantity": "temperature"})
WARM = chunk(content="It is warm ")


def tokens(pause: float) -> Answer:
    """An answer that goes on for ever, a number at a time."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for number in itertools.count():
            exchange.piece(f"data: {json.dumps(chunk(content=f'{number}; '))}\n\n".encode())
            exchange.rest(pause)

    return answer


def body(pause: float) -> Answer:
    """An answer in one piece whose bytes come slowly."""

    def answer(exchange: Exchange) -> None:
        exchange.head(200, "application/json", {"Content-Length": "100000"})
        while True:
            exchange.raw(b" ")
            exchange.rest(pause)

    return answer


class Case(NamedTuple):
    """What the server does, and how many of its requests have come when the word is said."""

    script: list[Answer]
    reply: str = "[stopped]"
    requests: int = 1
    stream: bool = True


CASES = {
    "silent from the beginning": Case([silence()]),
    "silent after a few words": Case([silence(WARM)], "It is warm \n[stopped]"),
    "silent, not streamed": Case([silence()], stream=False),
    "silent on a kept connection": Case([reply("", MEASURE), silence()], requests=2),
    "dripping tokens, 20 a second": Case([tokens(0.05)], "; \n[stopped]"),
    "dripping tokens, one in 3 s": Case([tokens(3.0)], "0; \n[stopped]"),
    "pouring tokens": Case([tokens(0.0)], "; \n[stopped]"),
    "dripping bytes without a line's end": Case([drip()]),
    "dripping a whole body": Case([body(0.03)], stream=False),
    "dripping comments": Case([comments()]),
    "busy, to be asked again in 15 s": Case([refusal(503, "busy", retry_after="15")]),
    "busy after a tool": Case([reply("", MEASURE), *[refusal(503, "busy")] * 9], requests=3),
}


@contextmanager
def unanswered() -> Iterator[str]:
    """The address of a server that is too busy to take another connection."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        for other in others:
            other.close()


def stopped(url: str, ready: Callable[[], bool], *, stream: bool = True, toolbox: object = None) -> tuple[Turn, float]:
    """Run a turn, say stop in another thread a moment after it is `ready`; returns it, and the seconds it went on."""
    stop, said = Stop(), 0.0

    def say() -> None:
        nonlocal said
        until = time.monotonic() + 5
        while not ready() and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.15)
        said = time.monotonic()
        stop.set()

    model = ModelConfig(base_url=url, name="qwen", stream=stream, idle_seconds=PATIENCE)
    with closing(ModelProvider(model)) as provider:
        chain = Chain(ModelLink("", provider, 3), lambda: provider)
        tools = toolset_of(toolbox or Toolbox())
        agent = Agent(chain, tools, PROMPTS, LimitsConfig(seconds=PATIENCE), 32_768, 100)
        speaker = threading.Thread(target=say)
        speaker.start()
        turn = agent.turn(TurnContext("", "how warm is it?"), (), CALLER, TurnHooks(stop=stop))
        took = time.monotonic() - said
        speaker.join()
    check_conversation(turn.messages)
    return turn, took


def measured(case: Case) -> tuple[Turn, float]:
    """Stop a turn with a scripted server."""
    with ModelServer(case.script) as server:
        return stopped(server.url, lambda: len(server.requests) >= case.requests, stream=case.stream)


@each_row("case", CASES.values(), ids=CASES)
def test_a_turn_ends_within_a_second_of_the_word(case: Case) -> None:
    turn, took = measured(case)
    assert (turn.stopped, took < AT_ONCE) == ("stopped", True), took
    assert turn.reply.endswith(case.reply)
    assert [run.name for run in turn.tools] == ["measure"] * (case.script[0] is not case.script[-1])


@needs_walls
def test_a_command_that_runs_ends_within_a_second_of_the_word(tmp_path: Path) -> None:
    """With all that it has started."""
    act = "import subprocess, time; subprocess.Popen(['sleep', '6262']); open('pid', 'w'); time.sleep(60)"
    script = [reply("", call("exec", {"argv": ["python3", "-c", act], "write": True}))]
    with ModelServer(script) as server:
        turn, took = stopped(
            server.url, (tmp_path / "pid").exists, toolbox=ExecTools(tmp_path, {"PATH": "/usr/bin:/bin"})
        )
    assert (turn.stopped, took < AT_ONCE) == ("stopped", True), took
    assert turn.tools[0].result == "[exit code -9]"
    assert gone("sleep 6262")


def reset(*parts: Any) -> Answer:
    """A stream whose connection is reset, without a goodbye, after the parts."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for part in parts:
            exchange.piece(f"data: {json.dumps(part)}\n\n".encode())
        time.sleep(0.05)
        line: socket.socket = exchange._handler.connection
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        exchange._handler.rfile.close()
        line.close()
        raise ConnectionResetError

    return answer


@each_row("broken", [reset(WARM), truncated_stream(WARM)], ids=["reset", "closed"])
@each_row("after_a_tool", [False, True])
def test_a_connection_that_breaks_after_some_words_repeats_neither_words_nor_tools(
    broken: Answer, after_a_tool: bool
) -> None:
    heard: list[Event | ToolRun] = []
    toolbox = Toolbox()
    script = [*([reply("", MEASURE)] if after_a_tool else []), broken, reply("It is warm indeed.")]
    with ModelServer(script) as server:
        model = ModelConfig(base_url=server.url, name="qwen", idle_seconds=5.0)
        with closing(ModelProvider(model)) as provider:
            agent = Agent(
                Chain(ModelLink("", provider, 3), lambda: provider, sleep=lambda _: None),
                toolset_of(toolbox),
                PROMPTS,
                LimitsConfig(),
                32_768,
                100,
            )
            turn = agent.turn(TurnContext("", "how warm is it?"), (), CALLER, TurnHooks(listen=heard.append))
        assert len(server.requests) == len(script) - 1
    check_conversation(turn.messages)
    assert toolbox.used == [("measure", "temperature")] * after_a_tool
    assert "".join(event.text for event in heard if isinstance(event, Text)) == "It is warm "
    assert turn.stopped == "error"
    assert turn.messages[-1].text.startswith("It is warm \n[failed: ")
    assert sum("It is warm" in message.text for message in turn.messages) == 1
    assert turn.messages[0] == Message("user", "how warm is it?")
