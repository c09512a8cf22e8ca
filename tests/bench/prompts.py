"""Bytes of the request in the situations that an owner meets: `python tests/bench/prompts.py`.

Each row is what `picoclaw prompt --json` says in a home of its own, on the simulated board.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SKILL = "---\nname: {name}\ndescription: {description}\n---\n# {name}\n\nDo it well.\n"


def picoclaw(home: Path, *arguments: str) -> str:
    """Run a verb in a home; returns what it prints."""
    environment = os.environ | {"PICOCLAW_HOME": str(home), "HOME": str(home.parent)}
    command = [sys.executable, "-m", "picoclaw", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def fresh(home: Path) -> None:
    """A home that is not there yet."""


def settled(home: Path) -> None:
    """The first meeting is over."""
    picoclaw(home, "init")
    (home / "workspace/BOOTSTRAP.md").unlink()


def first_run(home: Path) -> None:
    """Everything is there, and nobody has been asked yet."""
    picoclaw(home, "init")


def with_skills(count: int) -> Callable[[Path], None]:
    """Skills of the owner's beside those that ship."""

    def make(home: Path) -> None:
        settled(home)
        for number in range(count):
            folder = home / f"workspace/skills/bed-{number:02}"
            folder.mkdir(parents=True)
            text = f"Look after bed {number}; what grows there and when to water it"
            (folder / "SKILL.md").write_text(SKILL.format(name=folder.name, description=text))

    return make


def much_memory(home: Path) -> None:
    """A MEMORY.md of 1 MB."""
    settled(home)
    (home / "workspace/memory/MEMORY.md").write_text("- the ferns were misted\n" * 41_667)


ROWS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "fresh home": (fresh, []),
    "first run": (first_run, []),
    "full": (settled, ["--mode", "full"]),
    "minimal": (settled, ["--mode", "minimal"]),
    "base": (settled, ["--mode", "base"]),
    "none": (settled, ["--mode", "none"]),
    "cron": (settled, ["--origin", "cron"]),
    "heartbeat": (settled, ["--origin", "heartbeat"]),
    "full, 3 skills more": (with_skills(3), []),
    "full, 60 skills more": (with_skills(60), []),
    "full, 1 MB MEMORY.md": (much_memory, []),
}


def main() -> None:
    """Print a row for each situation."""
    print(f"{'':22} {'system':>7} {'tools':>6} {'messages':>8} {'body':>6}  bytes; sections")
    for name, (make, arguments) in ROWS.items():
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            make(home)
            shown = json.loads(picoclaw(home, "prompt", "--board", "sim", "--json", *arguments))
        counts = [shown[f"{part}_bytes"] for part in ("system", "tools", "messages", "body")]
        sections = " ".join(part["name"] for part in shown["sections"])
        print(f"{name:22} {counts[0]:7} {counts[1]:6} {counts[2]:8} {counts[3]:6}  {sections}")


if __name__ == "__main__":
    main()
