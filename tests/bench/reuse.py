"""How much of each request is the beginning of the one before, which a server with a prompt cache need not read again.

    .venv/bin/python tests/bench/reuse.py

Each turn is an app of its own on the same home, as `picoclaw chat -m` is, with one tool call; every tool has its turn, and
so have changes of pages, notes and skills. The model is a scripted server on loopback. Exit code 1 when a request does
not begin with all that was sent before, unless the conversation was shortened or its first meeting is over.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer, Received, call, reply

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.hw import detect
from picoclaw.messages import DEFAULT_SESSION, Inbound, Turn
from picoclaw.providers import http

QUESTION = "Please use {} now. ({})"


class Reuse(NamedTuple):
    """A request beside the one before: bytes, and which parts of those sent before stand at its beginning."""

    sent: int
    shared: int
    of_all: float
    of_messages: float


CALLS: dict[str, list[dict[str, Any]]] = {
    "sensor_list": [{}],
    "sensor_read": [{"quantity": "temperature"}],
    "board_status": [{}],
    "sensor_history": [{"sensor": "bme280", "when": "today"}],
    "sensor_excursions": [{"side": "above", "limit": 25, "sensor": "bme280"}],
    "sensor_add": [{"name": "shed", "part": "sht31", "address": 0x44}],
    "rule": [{"action": "set", "name": "frost", "when": "bme280.temperature below 3 C", "notify": "It is cold."}, {"action": "remove", "name": "frost"}],
    "read_file": [{"path": "USER.md"}, {"path": "skills/board-doctor/SKILL.md"}],
    "write_file": [
        {"path": "plan.txt", "content": "dig"},
        {
            "path": "skills/own/SKILL.md",
            "content": "---\nname: own\ndescription: water the herbs\ntools: [i2c]\n---\nWater them.",
        },
        {"path": "USER.md", "content": "Name: Ada", "mode": "append"},
        {"path": "MEMORY.md", "content": "The pump is at pin 17.", "mode": "append"},
    ],
    "edit_file": [
        {"path": "plan.txt", "old_text": "dig", "new_text": "plant"},
        {"path": "SOUL.md", "old_text": "#", "new_text": "##"},
        {"path": "AGENTS.md", "old_text": "\n\n", "new_text": "\nBe brief.\n"},
    ],
    "list_dir": [{}],
    "memory_store": [{"text": "The fuse is 3 A.", "lasting": True}, {"text": "Sowed beans."}],
    "memory_search": [{"query": "fuse"}],
    "memory_get": [{"path": "MEMORY.md"}],
    "memory_update": [{"old": "The fuse is 3 A.", "new": "The fuse is 5 A."}],
    "memory_rank": [{"id": "1", "useful": True}],
    "memory_forget": [{"text": "The fuse is 5 A."}],
    "cron": [{"action": "add", "message": "water", "at_seconds": 36_000}, {"action": "list"}],
    "pulse": [{"action": "add", "text": "repot the fern"}],
    "message": [{"text": "on it"}],
    "spawn": [{"task": "count to three"}, {"task": "count to three", "wait": True}],
    "spawn_status": [{}, {"number": 1, "cancel": True}],
    "delegate": [{"agent": "agent03", "task": "count to three"}, {"agent": "agent04", "task": "x", "wait": False}],
    "delegate_search": [{"query": "number 7"}],
    "web_fetch": [{"url": "http://127.0.0.1:1/"}],
    "skill_search": [{"query": "herbs"}],
    "skill_create": [{"name": "herbs", "description": "how to water herbs", "text": "Water them at dusk, not at noon."}],
    "skill_update": [{"name": "herbs", "text": "Water them at dawn, not at noon."}],
    "first_run": [{"name": "Ada"}, {"done": True}],
    "read_result": [{"number": 1}],
    "exec": [{"argv": ["true"]}],
    "process": [{"action": "list"}],
    "i2c": [{"action": "scan"}],
    "gpio": [{"action": "list"}],
}  # fmt: skip
"""What is called in turn: every tool there is on the simulated board, and what changes pages, notes and skills."""


_KEYS = [f"agent{number:02}" for number in range(17)]
AGENTS = "".join(
    [
        *(f'[agents.{key}]\ndescription = "knows all about number {key[-2:]}"\n' for key in _KEYS),
        f"[links]\ndefault = {_KEYS}\n",
        '[teams.all]\nlead = "default"\nmembers = { default = "asks", agent00 = "answers" }\n',
    ]
)
"""Settings of a home with so many agents to delegate to that they are searched for."""


def list_calls() -> list[tuple[str, dict[str, Any]]]:
    return [(name, given) for name, each in CALLS.items() for given in each]


def talk(
    home: Path, made: Sequence[tuple[str, dict[str, Any]]], *, settled: bool = False, session: str = DEFAULT_SESSION
) -> tuple[list[Turn], list[Received]]:
    """Have a conversation with one of the calls in each turn; returns its turns, and its requests in their order."""
    had: list[Turn] = []

    def script(body: Any) -> Any:
        """Make the turn's call once, then answer. A sub-agent answers at once."""
        last = body["messages"][-1]
        if last["role"] == "tool" or "count to three" in str(last["content"]):
            return reply("That is well. </s>")
        return reply("", call(*made[len(had)]))

    with ModelServer(script) as server:
        given = {"PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        config = load_config(given)
        if any(name == "delegate" for name, _ in made) and not (home / "config.toml").exists():
            home.mkdir(parents=True, exist_ok=True)
            (home / "config.toml").write_text(AGENTS)
            config = load_config(given)
        workspace.prepare_home(home)
        if settled:
            (home / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
        for number, (name, _) in enumerate(made):
            app = App(config, detect.choose_board("sim", config))
            try:
                had.append(app.dispatcher.answer(Inbound(session, QUESTION.format(name, number))))
            finally:
                app.close()
    return had, [request for request in server.requests if "Please use" in request.body["messages"][1]["content"]]


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
    parser.add_argument("--settled", action="store_true", help="leave out the first meeting")
    calls = [made for made in list_calls() if not parser.parse_args().settled or made[0] != "first_run"]
    with tempfile.TemporaryDirectory() as home:
        turns, requests = talk(Path(home), calls, settled=parser.parse_args().settled)
    of = [(name, turn.forgotten > 0) for turn, (name, _) in zip(turns, calls, strict=True) for _ in range(turn.steps)]
    meets = [any(tool["function"]["name"] == "first_run" for tool in request.body["tools"]) for request in requests]
    print("request after a call of  bytes    reused    of all  of messages")
    whole = True
    for number, (before, after) in enumerate(itertools.pairwise(requests), 2):
        row, (name, cut) = reuse(before, after), of[number - 1]
        is_met = meets[number - 2] > meets[number - 1]
        whole = whole and (cut or is_met or (row.of_all, row.of_messages) == (1.0, 1.0))
        shares = f"{row.of_all:9.1%} {row.of_messages:12.1%}"
        why = " (shortened)" if cut else " (the first meeting is over)" if is_met else ""
        print(f"{number:7} {name:15} {row.sent:6} {row.shared:9} {shares}{why}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
