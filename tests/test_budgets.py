"""What a command and a turn may cost, in counts that are the same on every machine; docs/figures.md has the rest.

Milliseconds and megabytes are printed by tests/bench/budgets.py. What they come from is counted here: modules, bytes of
the prompt, syncs and bytes written, connections, and what is still there after many turns.
"""

import gc
import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from model_server import ModelServer, call, reply
from test_house import modules_of

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.hw import detect
from picoclaw.messages import Inbound
from picoclaw.prompts import count_bytes

CHAT = ("chat", "--board", "sim", "-m", "how warm is it?")
MODULES = {
    "--version": (("--version",), 46),
    "--help": (("--help",), 76),
    "status": (("status",), 108),
    "chat without a model": (CHAT, 187),
    "tool": (("tool", "sensor_read", "--board", "sim"), 168),
}
"""Of each command: its words, and the modules that it may import, Python's own 35 among them."""


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_a_command(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    words, most = MODULES[name]
    if name == "status":
        seen = _modules_of_status(tmp_path)
    else:
        modules_of(*CHAT)  # a first start makes the home
        seen = modules_of(*words)
    assert len(seen) <= most, len(seen)


def _modules_of_status(home):
    """Status of a daemon that runs; without one it looks for itself, with the whole app."""
    import subprocess
    import sys

    code = "import sys; from picoclaw.cli import status; from picoclaw.daemon import status_text; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_modules_of_a_question_to_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    modules_of(*CHAT)
    modules_of("prompt", "--board", "sim")  # a first start reads the skills, with yaml
    with ModelServer(lambda _: reply("21 °C.")) as server:
        monkeypatch.setenv("PICOCLAW_BASE_URL", server.url)
        seen = modules_of(*CHAT)
    assert len(seen) <= 387, len(seen)
    heavy = seen & {
        "anyio.abc",
        "certifi",
        "asyncio",
        "numpy",
        "subprocess",
        "lxml",
        "yaml",
    }
    assert not heavy


class _Counted(apsw.VFS):
    """The system's files, with what SQLite asks of them counted."""

    def __init__(self):
        self.syncs = self.bytes = 0
        super().__init__("budget", "unix", makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, counts, name, flags):
        self._counts = counts
        super().__init__("unix", name, flags)

    def xWrite(self, data, offset):  # noqa: N802
        self._counts.bytes += len(data)
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        self._counts.syncs += 1
        super().xSync(flags)


@pytest.fixture
def counted(monkeypatch):
    """The writes of all databases that are opened from here on, and the syncs of all other files."""
    counts, sync = _Counted(), os.fsync

    def fsync(file):
        counts.syncs += 1
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    yield counts
    counts.unregister()


def script(body):
    """Read a file, then answer."""
    if body["messages"][-1]["role"] == "tool":
        return reply("All is well there.")
    if "How are you" in body["messages"][-1]["content"]:
        return reply("All is well.")
    return reply("", call("read_file", {"path": "note.txt"}))


@pytest.fixture
def talking(tmp_path, counted):
    """An app whose model is a scripted server, with a home that has met its owner."""
    with ModelServer(script) as server, closing(home_of(tmp_path, server)) as app:
        yield app, server, counted


def home_of(folder, server):
    config = load_config({"PICOCLAW_HOME": str(folder), "PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"})
    workspace.prepare_home(folder)
    (folder / "workspace/BOOTSTRAP.md").unlink()
    (folder / "workspace/note.txt").write_text("The beans want water on Friday.")
    return App(config, detect.choose_board("sim", config))


def asked(app, number, *, afresh=False):
    session = f"terminal:{number}" if afresh else "terminal"
    assert app.dispatcher.answer(Inbound(session, f"What does the note say? ({number})")).stopped == ""


def test_syncs_bytes_and_connections_of_a_turn(talking):
    app, server, counts = talking
    asked(app, 0)
    counts.syncs = counts.bytes = 0
    for number in range(1, 11):
        asked(app, number)
    assert counts.syncs <= 20, counts.syncs / 10
    assert counts.bytes <= 450_000, counts.bytes / 10
    assert counts.syncs >= 10  # an answer that was given is kept
    assert server.connections == 1
    assert len(server.requests) == 22


LOOKS = {"stat", "lstat", "listdir", "scandir", "open"}


def test_names_looked_up_in_a_turn(talking, monkeypatch):
    """The owner's wordings, of which a turn has some 70, are listed and not looked for one by one."""
    app, _, _ = talking
    asked(app, 0)
    seen = []
    for name in LOOKS:
        look = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _look=look, **k: (seen.append(a), _look(*a, **k))[1])
    assert app.dispatcher.answer(Inbound("terminal", "How are you?")).reply == "All is well."
    plain = len(seen)
    asked(app, 1)
    assert plain <= 60, plain
    assert len(seen) - plain <= 140, len(seen) - plain


def test_syncs_of_ten_reads_in_a_row(tmp_path, counted):
    """What only reads is written down once, with the answer: of a turn that a power cut ends nothing was promised."""
    reads = [reply("", call("read_file", {"path": "note.txt", "max_lines": n})) for n in range(1, 11)]
    server = ModelServer([reply("Hello."), *reads, reply("All is well.")])
    with server, closing(home_of(tmp_path, server)) as app:
        asked(app, 0)
        counted.syncs = 0
        asked(app, 1)
        assert len(server.requests) == 12
        assert 1 <= counted.syncs <= 3


def test_bytes_of_the_first_request(talking):
    app, server, _ = talking
    asked(app, 0)
    body = server.requests[0].body
    assert len(body["messages"][0]["content"].encode()) <= 2_200
    assert count_bytes(body["tools"]) <= 8_192  # each tool has all its parameters; none is described only later
    assert count_bytes(body) <= 10_800


def test_nothing_grows_with_the_turns(talking):
    """Objects that the collector watches, open files and threads; each turn in a session of its own, as chats come."""
    app, server, _ = talking
    for number in range(10):
        asked(app, number, afresh=True)
    before = _held(server)
    for number in range(10, 60):
        asked(app, number, afresh=True)
    objects, files, threads = (after - begun for after, begun in zip(_held(server), before, strict=True))
    assert objects <= 100, objects  # two a turn
    assert files <= 0
    assert (
        threads <= 1
    )  # on a busy machine a connection may be too old for the next turn, and the server's thread is ours


def _held(server):
    server.requests.clear()
    gc.collect()
    return len(gc.get_objects()), *(len(list(Path(f"/proc/self/{what}").iterdir())) for what in ("fd", "task"))
