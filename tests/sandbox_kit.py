"""A home with a workspace, and the tool `exec` in it; what needs bubblewrap is skipped where there is none."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from picoclaw.messages import Caller, ToolCall
from picoclaw.security.sandbox import find_missing_program
from picoclaw.tools.exec import ExecTools
from picoclaw.tools.registry import Toolset

CALLER = Caller("test", "owner", datetime(2026, 7, 1, tzinfo=UTC), print)
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PICOCLAW_HOME": "/tmp/claw",
    "PICOCLAW_API_KEY": "sk-secret",
    "AWS_SECRET": "sk-secret",
}
needs_walls = pytest.mark.skipif(bool(find_missing_program()), reason="bubblewrap is not installed")


class Bench:
    """The tools of commands, and what the guard was asked."""

    def __init__(self, home: Path, **more: object) -> None:
        self.home, self.workspace = home, home / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        (home / "secrets.toml").write_text("api_key = 'sk-secret'")
        self.asked: list[object] = []
        group = ExecTools(self.workspace, ENVIRONMENT, **more)
        self.toolset = Toolset(
            [group], guard=lambda asked, _: self.asked.append(asked), journal=lambda *_: None, longest_result=200_000
        )

    def tool(self, name: str, caller: Caller = CALLER, **arguments: object) -> str:
        return self.toolset.call(ToolCall("c1", name, arguments), caller)

    def run(self, *argv: str, **arguments: object) -> str:
        return self.tool("exec", argv=list(argv), **arguments)

    def line(self, command: str, **arguments: object) -> str:
        return self.tool("exec", command=command, **arguments)


def gone(words: str) -> bool:
    """Tell whether no process of this machine has these words in its command line, waiting a moment for the kernel."""
    for _ in range(300):
        if not running(words):
            return True
        time.sleep(0.01)
    return False


def running(words: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if words in line and state not in "ZX" and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found
