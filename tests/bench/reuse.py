"""How much of each request is the beginning of the one before, which a server with a prompt cache need not read again.

    .venv/bin/python tests/bench/reuse.py --turns 10

Each turn is an app of its own on the same settled home, as `picoclaw chat -m` is, with one tool call; the model is a
scripted server on loopback. Exit code 1 when a conversation that was not shortened does not begin with all that was
sent before.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer, Received, call, reply

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.hw import boards
from picoclaw.messages import DEFAULT_SESSION, Inbound, Turn
from picoclaw.providers import http

QUESTION = "How warm is it in the greenhouse? ({})"


class Reuse(NamedTuple):
    """A request beside the one before: bytes, and which parts of those sent before stand at its beginning."""

    sent: int
    shared: int
    of_all: float
    of_messages: float


def script(body: Any) -> Any:
    """Measure once, then answer."""
    if body["messages"][-1]["role"] == "tool":
        return reply("That is well. </s>")
    return reply("", call("sensor_read", {"quantity": "temperature"}))


def talk(home: Path, turns: int) -> tuple[list[Turn], list[Received]]:
    """Have a conversation; returns its turns, and its requests in their order."""
    had = []
    with ModelServer(script) as server:
        given = {"PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        config = load_config(given)
        workspace.prepare_home(home)
        (home / "workspace/BOOTSTRAP.md").unlink()  # a first meeting that the model drops leaves the system text, once
        for number in range(turns):
            app = App(config, boards.choose_board("sim", config))
            try:
                had.append(app.dispatcher.answer(Inbound(DEFAULT_SESSION, QUESTION.format(number))))
            finally:
                app.close()
    return had, server.requests


def raw(request: Received) -> bytes:
    """The bytes of a request, which the parsed body gives again."""
    data = http.encode_body(request.body)
    assert len(data) == int(request.headers["content-length"]), "the body is not sent as wire.encoded writes it"
    return data


def reuse(before: Received, after: Received) -> Reuse:
    """Compare two requests; the brackets that close the first do not count."""
    shared, whole = common(raw(before)[: -len("]}")], raw(after))
    messages, of_messages = common(*(http.encode_body(r.body["messages"])[: -len("]")] for r in (before, after)))
    return Reuse(len(raw(after)), shared, shared / whole, messages / of_messages)


def common(before: bytes, after: bytes) -> tuple[int, int]:
    """Bytes at the beginning that are the same, and those that there were."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(before), len(after))), len(before)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How much of each request is the beginning of the one before.")
    parser.add_argument("--turns", type=int, default=10)
    with tempfile.TemporaryDirectory() as home:
        turns, requests = talk(Path(home), parser.parse_args().turns)
    shortened = [turn.forgotten > 0 for turn in turns for _ in range(turn.steps)]
    print("request    bytes    reused    of all  of messages")
    print(f"{1:7} {len(raw(requests[0])):8}")
    whole = True
    for number, (before, after) in enumerate(itertools.pairwise(requests), 2):
        row = reuse(before, after)
        cut = shortened[number - 1]
        whole = whole and (cut or row.of_messages == 1.0)
        shares = f"{row.of_all:9.1%} {row.of_messages:12.1%}"
        print(f"{number:7} {row.sent:8} {row.shared:9} {shares}{' (shortened)' if cut else ''}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
