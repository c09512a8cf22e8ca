"""Hundreds of turns with tools in a small and in a large window, against a server that counts every token.

    .venv/bin/python tests/bench/window.py --turns 500 --windows 4096 131072

The server refuses a request whose prompt and answer together exceed the window, as a strict one does. The turns run in
a process of their own, whose memory is measured after the first fifty and at the end. Exit code 1 when a request was
too long, a turn failed, a person's message is missing from the database, or the process grew by 2 MB.
"""

import argparse
import gc
import itertools
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import Answer, ModelServer, call, refusal, reply

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.hw import detect
from picoclaw.messages import DEFAULT_SESSION, Inbound

FIRST, MOST_GROWTH_KB = 50, 2048
# As vocabularies of today cut: short words whole, digits one by one, signs in runs, other scripts in smaller pieces.
_TOKEN = re.compile(r"[^\r\n\w]?[A-Za-z]{1,7}|[^\r\n\w]?[^\W\d_A-Za-z]{1,3}|\d| ?(?:[^\s\w]|_){1,3}|\s+")
_AROUND_A_MESSAGE = 5

PROSE = "The valve by the north wall opens a little before dawn, and the fern bed is dry again by noon. "
RUSSIAN = "Температура в теплице ночью упала, включи обогреватель и проверь насос у северной стены. "
READINGS = "2026-03-{:02} {:02}:15  {:.1f} °C  {:.1f} %  {:.1f} hPa\n"
FILES = {
    "prose.txt": PROSE * 300,
    "readings.csv": "".join(
        READINGS.format(i % 28 + 1, i % 24, 20 + i % 9, 40 + i % 31, 990 + i % 40) for i in range(700)
    ),
    "registers.txt": "\n".join(" ".join(f"{(i * j * 37) % 256:02x}" for j in range(16)) for i in range(300)),
    "russian.txt": RUSSIAN * 100,
}
CALLS = (
    ("sensor_read", {"quantity": "temperature"}),
    ("read_file", {"path": "readings.csv"}),
    ("board_status", {}),
    ("read_file", {"path": "prose.txt"}),
    ("write_file", {"path": "copy.txt", "content": PROSE * 12, "mode": "replace"}),
    ("read_file", {"path": "registers.txt"}),
    ("memory_search", {"query": "ferns"}),
    ("read_file", {"path": "russian.txt"}),
    ("sensor_list", {}),
    ("exec", {"command": "cat readings.csv"}),
)


class Run(NamedTuple):
    """What came of a run: how its turns ended, requests and the largest of them, and kilobytes of memory."""

    ended: dict[str, int]
    requests: int
    largest: int
    refused: int
    missing: int
    read_on: int
    grown_kb: int
    seconds: float

    @property
    def good(self) -> bool:
        return set(self.ended) == {""} and not self.refused and not self.missing


def tokens(body: Any) -> int:
    """Count the tokens of a request as a server would."""
    texts = [json.dumps(body.get("tools", []), ensure_ascii=False)]
    for message in body["messages"]:
        texts += [message.get("content") or "", json.dumps(message.get("tool_calls", ""), ensure_ascii=False)]
    return len(body["messages"]) * _AROUND_A_MESSAGE + sum(sum(1 for _ in _TOKEN.finditer(text)) for text in texts)


def asked(number: int) -> str:
    """What the person says in a turn; now and then much."""
    more = (PROSE * 6, "", RUSSIAN, READINGS.format(1, 2, 3, 4, 5) * 8, "", "")[number % 6]
    return f"Question {number:04}: how are the ferns? {more}".strip()


class Strict:
    """A server's mind: counts, refuses what is too long, and calls one tool after the other."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.requests = self.largest = self.refused = self.read_on = 0
        self._wanted = itertools.cycle(CALLS)

    def __call__(self, body: Any) -> Answer:
        told = tokens(body)
        self.requests, self.largest = self.requests + 1, max(self.largest, told + body["max_tokens"])
        if told + body["max_tokens"] > self.window:
            self.refused += 1
            return refusal(400, f"This model's maximum context length is {self.window} tokens. You requested {told}.")
        made = list(itertools.takewhile(lambda m: m["role"] != "user", reversed(body["messages"])))
        calls = [call for message in made for call in message.get("tool_calls", [])]
        mark = re.search(r"read_result\(number=(\d+), start=(\d+)\)", made[0]["content"]) if made else None
        if mark and len(calls) < 3:
            self.read_on += 1
            if not any(tool["function"]["name"] == "read_result" for tool in body["tools"]):
                return refusal(422, "a mark names a tool that is not described")
            return self._calls("read_result", {"number": int(mark[1]), "start": int(mark[2])}, told)
        if len(calls) < self.requests % 4 and "tools" in body:
            return self._calls(*next(self._wanted), told)
        return reply(f"That was asked at {self.requests}. {PROSE * (self.requests % 5)}", usage=(told, 60), pieces=400)

    def _calls(self, name: str, arguments: Any, told: int) -> Answer:
        return reply("", call(name, arguments, f"call_{self.requests}"), usage=(told, 20), pieces=400)


def talk(home: Path, window: int, turns: int) -> Run:
    """Run the turns in a process of their own."""
    strict = Strict(window)
    with ModelServer(strict) as server:
        server.requests = _Nothing()
        began = time.monotonic()
        arguments = ["--home", str(home), "--url", server.url, "--turns", str(turns), "--windows", str(window)]
        done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    with sqlite3.connect(home / "state.db") as database:
        kept = [text for (text,) in database.execute("SELECT text FROM messages WHERE role = 'user' ORDER BY id")]
    missing = sum(not any(text.endswith(asked(number)) for text in kept) for number in range(turns))
    return Run(
        said["ended"],
        strict.requests,
        strict.largest,
        strict.refused,
        missing,
        strict.read_on,
        said["grown_kb"],
        seconds,
    )


class _Nothing(list[Any]):
    """Keeps no request: there are many, and long ones."""

    def append(self, _: Any) -> None:
        pass


def turns_of(home: Path, url: str, window: int, turns: int) -> dict[str, Any]:
    """Have the conversation; how its turns ended, and what the process grew by after the first fifty."""
    workspace.prepare_home(home)
    (home / "workspace/BOOTSTRAP.md").unlink()
    for name, text in FILES.items():
        (home / "workspace" / name).write_text(text)
    (home / "config.toml").write_text(
        f"[model]\ncontext_tokens = {window}\n[limits]\ntokens = 10_000_000\nresult_chars = 8000\n"
    )
    config = load_config({"PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": url, "PICOCLAW_MODEL": "scripted"})
    app, ended, sizes = App(config, detect.choose_board("sim", config)), Counter[str](), [0]
    for number in range(turns):
        sizes += _memory(number - min(FIRST, turns // 2))
        turn = app.dispatcher.answer(Inbound(DEFAULT_SESSION, asked(number)))
        problems = [turn.stopped, turn.notice.text, *app.settle(DEFAULT_SESSION)]
        ended[" ".join(problems).strip()] += 1
    sizes += _memory(0)
    app.close()
    return {"ended": ended, "grown_kb": sizes[-1] - sizes[1]}


def _memory(after: int) -> Iterator[int]:
    if after >= 0:
        gc.collect()
        status = Path("/proc/self/status").read_text()
        yield int(status.partition("VmRSS:")[2].split()[0])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Hundreds of turns in a small and a large window.")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--windows", type=int, nargs="+", default=[4096, 131_072])
    parser.add_argument("--home", type=Path)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    if given.url:
        print(json.dumps(turns_of(given.home, given.url, given.windows[0], given.turns)))
        return 0
    good = True
    print("window  turns  requests  largest  refused  missing  read on   grown      time")
    for window in given.windows:
        with tempfile.TemporaryDirectory() as home:
            run = talk(Path(home) / "home", window, given.turns)
        print(
            f"{window:6} {given.turns:6} {run.requests:9} {run.largest:8} {run.refused:8} {run.missing:8}"
            f" {run.read_on:8} {run.grown_kb:5} KB {run.seconds:7.1f} s  {run.ended if set(run.ended) != {''} else ''}"
        )
        good = good and run.good and run.grown_kb < MOST_GROWTH_KB
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
