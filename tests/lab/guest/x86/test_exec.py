"""Commands of the installed service: asked for by a model in a chat, run by picoclaw-exec@.service, within walls."""

import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab
import pytest
from lab_service import HOME, done, owned, process, said, shown, user
from model_server import Answer, ModelServer, call, reply

SECRET, CREDENTIAL, VARIABLE = "the-secret-of-the-home", "the-secret-of-systemd", "the-secret-of-the-environment"
NODES = """
import os, stat
for folder, _, names in os.walk("/dev"):
    for path in (os.path.join(folder, name) for name in names):
        if stat.S_ISCHR(os.lstat(path).st_mode) or stat.S_ISBLK(os.lstat(path).st_mode):
            print(path)
"""
DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
_numbers = itertools.count(1)


def obedient(body: Any) -> Answer:
    """Call `exec` or `process` as the newest message orders it, and say what came of it."""
    newest = body["messages"][-1]
    ordered = re.search(r"please (exec|process) (\{.*\})", str(newest["content"]))
    if newest["role"] == "user" and ordered:
        return reply("", call(ordered[1], ordered[2]))
    return reply("done")


@pytest.fixture(scope="module")
def model(service) -> Iterator[ModelServer]:
    """The service, with a model that does as it is told, and with secrets wherever it may have some."""
    files = {
        HOME / "secrets.toml": f'api_key = "{SECRET}"\n',
        Path("/etc/picoclaw/environment"): f"TOKEN={VARIABLE}\n",
        Path("/etc/credstore/picoclaw.api_key"): f"{CREDENTIAL}\n",
        # what is tried is the sandbox, not the question before it
        HOME / "policy.toml": '[effects]\nexec_network = { owner = "allow" }\n',
    }
    before = {path: path.read_text() for path in files if path.exists()}
    for path, text in files.items():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    with ModelServer(obedient) as server:
        (HOME / "config.toml").write_text(f'[model]\nbase_url = "{server.url}"\nname = "scripted"\n')
        owned(HOME)
        _again()
        yield server
    for path in (*files, HOME / "config.toml"):
        path.write_text(before[path]) if path in before else path.unlink()
    _again()


def _again() -> None:
    done("systemctl", "restart", "picoclaw")
    process()


def result(model: ModelServer, tool: str = "exec", session: str = "", **arguments: Any) -> str:
    """Have a chat of its own, or a given one, make a call; returns what the model was told of it."""
    session = session or f"lab-{next(_numbers)}"
    said(f"please {tool} {json.dumps(arguments)}", session)
    return next(str(m["content"]) for m in reversed(model.requests[-1].body["messages"]) if m["role"] == "tool")


def test_looking(model, record_property):
    assert "cooling_device" in result(model, argv=["ls", "/sys/class/thermal"])
    began = time.monotonic()
    told = result(model, argv=["cat", "/proc/uptime"])
    record_property("a turn with a command, s", round(time.monotonic() - began, 2))
    assert re.search(r"\d+\.\d+ \d+\.\d+", told)
    for argv in ("df -h", "python3 -c 'print(6*7)'"):
        assert "[exit code 0]" in result(model, argv=argv), argv


def test_what_only_looks_changes_nothing(model):
    told = result(model, argv=["touch", "never.txt"])
    assert "Read-only file system" in told
    assert "write=true" in told
    assert not (HOME / "workspace/never.txt").exists()


def test_writing(model):
    told = result(model, argv=["tee", "made.txt"], stdin="by a command", write=True)
    assert "[exit code 0]" in told
    made = HOME / "workspace/made.txt"
    assert made.read_text() == "by a command"
    assert made.stat().st_uid == user()
    closed = (f"{HOME}/x", "/etc/x", "/var/lib/x", "/usr/x", "AGENTS.md", "skills/x", "memory/x", "BOOTSTRAP.md")
    told = result(model, argv=["tee", "-a", *closed], stdin="x", write=True)
    for name in closed:
        assert f"tee: {name}: " in told, told


@pytest.mark.parametrize("rights", [{}, {"write": True, "network": True}], ids=["looking", "with all rights"])
def test_no_secret_is_seen(model, rights):
    closed = (
        "../secrets.toml",
        f"{HOME}/secrets.toml",
        f"{HOME}/state.db",
        f"/proc/1/root{HOME}/secrets.toml",
        "/run/credentials/picoclaw.service/api_key",
        "/etc/picoclaw/environment",
        "/etc/credstore/picoclaw.api_key",
        "/etc/shadow",
        f"/proc/{process()}/environ",
        "/root/.profile",
        "/run/picoclaw/exec.sock",
    )
    told = result(model, argv=["cat", *closed], **rights)
    for path in closed:
        assert re.search(rf"^cat: {re.escape(path)}: (No such file|Permission denied)", told, re.MULTILINE), told
    told = result(model, argv=["grep", "-ao", ".*", "/proc/self/environ"], **rights)
    told += result(model, argv=["ls", "-A", str(HOME), "/run", "/run/credentials"], **rights)
    assert not re.search(f"{SECRET}|{CREDENTIAL}|{VARIABLE}|secrets.toml|api_key|TOKEN", told), told


def test_there_are_no_devices(model):
    told = result(model, argv=["python3", "-c", NODES], write=True)
    found = set(re.findall(r"^/dev/(\S+)$", told, re.MULTILINE))
    assert "null" in found
    assert {name for name in found if not name.startswith("pts/")} <= DEVICES
    make = "import os; os.mknod('/tmp/x', 0o20666, os.makedev(89, 1))"
    assert "PermissionError" in result(model, argv=["python3", "-c", make], write=True)
    assert "[exit code 1]" in result(model, argv=["head", "-c1", "/sys/kernel/debug/gpio"])


def test_the_network_is_there_when_it_is_given(model):
    ask = f"import socket; socket.create_connection(('127.0.0.1', {model.port}), 5); print('reached')"
    assert "reached" not in result(model, argv=["python3", "-c", ask]).replace("print('reached')", "")
    assert "reached\n[exit code 0]" in result(model, argv=["python3", "-c", ask], network=True)
    said_local = "import socket; socket.socket(socket.AF_UNIX).connect('/run/systemd/private')"
    assert "[exit code 1]" in result(model, argv=["python3", "-c", said_local], network=True)


def _sleeping(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(path.parent.name)
    return found


def _units() -> str:
    return done("systemctl", "list-units", "--no-legend", "--plain", "picoclaw-exec@*")


def test_it_runs_in_the_unit_and_ends_with_its_time(model, record_property):
    told = result(model, session="lab-time", argv=["sleep", "4241"], background=True, timeout=12)
    assert "command" in told
    (pid,) = lab.wait_for(lambda: _sleeping("4241"), "it runs", 30.0)
    assert "picoclaw-exec@" in Path(f"/proc/{pid}/cgroup").read_text()
    unit = _units().split()[0]
    rated = done("systemd-analyze", "security", "--no-pager", unit)
    record_property("exposure of the unit of a command", re.search(r"for \S+: ([0-9.]+)", rated)[1])
    lab.wait_for(lambda: not _sleeping("4241"), "it is ended", 20.0)
    lab.wait_for(lambda: not _units(), "its unit is gone", 20.0)


STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
os.execvp("sleep", ["sleep", sys.argv[1]])
"""


@pytest.mark.parametrize(
    ("mark", "command"),
    [("4242", "kill --signal=KILL --kill-whom=main"), ("4243", "stop")],
    ids=["killed", "stopped"],
)
def test_it_ends_with_the_daemon(model, mark, command, record_property):
    result(model, argv=["python3", "-c", STUBBORN, mark], background=True, timeout=600)
    lab.wait_for(lambda: len(_sleeping(mark)) == 2, "it runs", 30.0)
    pid, began = process(), time.monotonic()
    done("systemctl", *command.split(), "picoclaw")
    lab.wait_for(lambda: not _sleeping(mark), "it ends", 60.0)
    record_property("ended after, s", round(time.monotonic() - began, 2))
    if command == "stop":
        assert shown("Result") == "success"
        done("systemctl", "start", "picoclaw")
    process(pid)
    lab.wait_for(lambda: not _units(), "its unit is gone", 20.0)
