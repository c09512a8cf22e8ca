"""An output on a real GPIO line, and the sudden death of each process that has to do with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lab

from picoclaw.outputs import config, supervisor

VICTIMS = ("client", "watchdog", "worker")
LEASE_S = 20.0
LONGEST_S = 1.0  # on a board of its own; an emulated one that shares a busy machine is measured by its own speed
_SWITCHES_ON = """
import sys
from pathlib import Path
from picoclaw.outputs.client import OutputsClient
outputs = OutputsClient(Path(sys.argv[1]), lambda: "linux")
print(outputs.set("pump", "on", float(sys.argv[2]), "owner"), flush=True)
sys.stdin.read()
"""


def home(folder: Path, chip: str, line: int, more: str = "") -> Path:
    """Make a home with one armed output; `more` is another line of its declaration."""
    table = f'[outputs.pump]\nchip = "{chip}"\nline = "{line}"\nkind = "pump"\nlongest_on_s = 600\n{more}\n'
    (folder / "outputs.toml").write_text(table)
    outputs = config.load_outputs(folder / "outputs.toml").outputs
    config.save_armed(folder, {name: output.digest for name, output in outputs.items()})
    return folder


def on(folder: Path, seconds: float = LEASE_S) -> subprocess.Popen:
    """Switch the output on from a process of its own, which stays."""
    client = subprocess.Popen(
        [sys.executable, "-B", "-c", _SWITCHES_ON, str(folder), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/run/job",
    )
    said = client.stdout.readline()
    assert b"on" in said, said
    return client


def longest(starting: float) -> float:
    """How long a rescue may take, in seconds, where `on` takes so long: it starts fewer processes than that."""
    return max(LONGEST_S, starting)


def kill(folder: Path, victim: str, level: Callable[[], int]) -> tuple[float, float]:
    """Switch on and kill one of the processes with SIGKILL; returns how long starting took, and until it was safe."""
    began = time.monotonic()
    client = on(folder)
    starting = time.monotonic() - began
    assert level() == 1
    watchdog, worker = supervisor.read_holder(folder)[:2]
    os.kill({"client": client.pid, "watchdog": watchdog, "worker": worker}[victim], signal.SIGKILL)
    began = time.monotonic()
    lab.wait_for(lambda: level() == 0, f"the level is safe after the death of the {victim}", 5.0)
    took = time.monotonic() - began
    client.kill()
    client.wait()
    lock = supervisor.take_lock(folder, 10.0)
    assert lock >= 0, "the supervisor did not end"
    os.close(lock)
    return starting, took
