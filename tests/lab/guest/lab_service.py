"""What the tests of the service share: systemd, the journal, and picoclaw as its own user."""

import pwd
import shutil
import site
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import lab

from picoclaw.channels import ipc
from picoclaw.messages import DEFAULT_SESSION

STATE = Path("/var/lib/picoclaw")
HOME = STATE / ".picoclaw"
UNITS = Path("/etc/systemd/system")
DROP_INS = UNITS / "picoclaw.service.d"
PICOCLAW = [sys.executable, "-B", "-m", "picoclaw"]
PUMP = 21
ON, SAFE = "1", "0"
"""Levels of the pump's line. A simulated one falls back when nobody drives it; what picoclaw did is in its records."""


def done(*command: str) -> str:
    """Run a command to its end; returns what it printed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.returncode}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def owner(*words: str) -> str:
    """Run picoclaw as the service's own user, as `sudo -u picoclaw picoclaw ...` does."""
    become = ("setpriv", "--reuid", "picoclaw", "--regid", "picoclaw", "--init-groups", "env", f"HOME={STATE}")
    return done(*become, *PICOCLAW, *words)


def said(text: str, session: str = DEFAULT_SESSION) -> str:
    """Say something in a chat over the daemon's socket, as its terminals do; returns the answer."""
    terminal = ipc.connect(HOME, 120.0)
    terminal.say({"do": "chat", "session": session, "text": text})
    while words := terminal.next():
        if "end" in words:
            terminal.close()
            return str(words["end"]["reply"])
    raise AssertionError(f"nobody answered {text!r}")


def shown(name: str) -> str:
    """Ask systemd for a property of the unit."""
    return done("systemctl", "show", "-P", name, "picoclaw").strip()


def journal() -> str:
    """What the service has said since the machine was booted."""
    return done("journalctl", "--unit", "picoclaw", "--no-pager", "--output", "cat")


def process(before: int = 0) -> int:
    """Wait until the daemon is ready, another one than `before`; returns its number."""

    def ready() -> int:
        pid = int(shown("MainPID"))
        return pid if shown("ActiveState") == "active" and pid != before else 0

    return lab.wait_for(ready, "the service is ready", 300.0)


def begun(*command: str) -> float:
    """Run a command that starts it; returns how long that took until it was ready, in seconds."""
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr}{journal()[-3000:]}"
    process()
    return round(time.monotonic() - began, 1)


def owned(path: Path) -> None:
    """Give a tree to the service's user."""
    for one in (path, *path.rglob("*")):
        shutil.chown(one, "picoclaw", "picoclaw")


def link() -> None:
    """Let this checkout be found as an installed package is; it lies at the same place in the next boot."""
    job = Path(lab.__file__).resolve().parents[3]
    (Path(site.getsitepackages()[0]) / "picoclaw-lab.pth").write_text(f"{job}\n")


def user() -> int:
    """The number of the service's user."""
    return pwd.getpwnam("picoclaw").pw_uid


def rows(query: str, *values: Any) -> list[Any]:
    """Ask the daemon's database; what another connection sees there is durable."""
    with closing(sqlite3.connect(HOME / "state.db", timeout=60)) as database:
        return database.execute(query, values).fetchall()
