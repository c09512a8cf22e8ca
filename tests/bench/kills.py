"""Kills processes at random moments while an output is on, and looks how long it stays on: `kills.py --runs 1000`.

Each run: a real client process has a real supervisor switch a line of the simulated board on; then one of client, worker
and watchdog, or worker and watchdog at once, gets SIGKILL, or one of the three gets SIGSTOP. The level must be the safe one
within the lease plus a second.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from picoclaw.errors import PicoclawError
from picoclaw.outputs import config, supervisor
from picoclaw.outputs.client import OutputsClient

VICTIMS = ("client", "worker", "watchdog", "both", "client stopped", "worker stopped", "watchdog stopped")
LIMIT_S = 1.0
ON_FIRST = 0.85
NOBODY = 1 << 22  # above every pid
TOML = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 60\n'


def home_with_pump(folder):
    home = Path(folder)
    (home / "outputs.toml").write_text(TOML)
    outputs = config.load_outputs(home / "outputs.toml").outputs
    config.save_armed(home, {name: output.digest for name, output in outputs.items()})
    return home


def level(home):
    """The level at the pin, and when it was set."""
    path = home / "sim/line17"
    try:
        return path.read_text().strip() == "1", path.stat().st_mtime
    except FileNotFoundError:
        return False, 0.0


def client(home, lease):
    """Switch on and go on living, as a chat does."""
    outputs = OutputsClient(home, lambda: "sim")
    try:
        outputs.set("pump", "on", lease, "owner")
        time.sleep(lease + 0.5)
    except PicoclawError:
        os._exit(1)
    os._exit(0)


def one(seed):
    """One run; returns who was hit, whether the pump was on then, and for how long it was on after that."""
    dice = random.Random(seed)
    lease, victim = dice.uniform(0.2, 0.6), dice.choice(VICTIMS)
    home = home_with_pump(tempfile.mkdtemp(prefix="kills-"))
    pid = os.fork()
    if pid == 0:
        client(home, lease)
    began = time.time()
    if dice.random() < ON_FIRST:
        awaited(home)
    time.sleep(dice.uniform(0.0, lease + 0.1))
    number = signal.SIGSTOP if victim.endswith("stopped") else signal.SIGKILL
    hit = targets(home, victim.split()[0], pid)
    on_before, hit_at = level(home)[0], time.time()
    for each in hit:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)
    safe_at, worst = watched(home, lease, max(began, hit_at - lease) + 2 * lease + 2.5)
    finished(home, pid)
    after, _ = level(home)
    shutil.rmtree(home)
    return {
        "victim": victim if hit else "nobody",
        "on": on_before,
        "seconds": max(0.0, safe_at - hit_at) if on_before else 0.0,
        "over": worst,
        "left on": after or worst > LIMIT_S,
    }


def awaited(home):
    """Wait until the pump is on, as it is in most of the runs before something is hit."""
    until = time.monotonic() + 5
    while not level(home)[0] and time.monotonic() < until:
        time.sleep(0.002)


def targets(home, who, client_pid):
    """With "both" the client lives, or else nobody is left to do anything."""
    holder = supervisor.read_holder(home)
    pids = {"client": [client_pid], "worker": [holder.worker], "watchdog": [holder.watchdog], "both": holder[:2]}[who]
    return [pid for pid in pids if pid and Path(f"/proc/{pid}").exists()]


def watched(home, lease, until):
    """Look at the level until nothing can switch it on any more; returns when it was last on, and how late that was."""
    last, worst = 0.0, -lease
    while time.time() < until:
        on, since = level(home)
        if on:
            last = time.time()
            worst = max(worst, last - since - lease)
        elif last:
            quiet = time.time() - last
            if quiet > 0.3:
                break
        time.sleep(0.005)
    return last, worst


def finished(home, pid):
    """Wake and end whatever is left of the run."""
    holder = supervisor.read_holder(home)
    stale = [(number, left) for left in holder[:2] for number in (signal.SIGCONT, signal.SIGTERM)]
    for number, left in [(signal.SIGKILL, pid), *stale]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(left or NOBODY, number)
    os.waitpid(pid, 0)
    lock = supervisor.take_lock(home, 5.0)
    assert lock >= 0, f"a supervisor of {home} did not end"
    os.close(lock)


def bench(runs, seed, workers):
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(one, range(seed, seed + runs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=16)
    given = parser.parse_args()
    began = time.monotonic()
    found = bench(given.runs, given.seed, given.workers)
    hit = [run for run in found if run["on"] and run["victim"] != "nobody"]
    print(
        f"{len(found)} runs in {time.monotonic() - began:.0f} s, in {len(hit)} the pump was on when a process was hit"
    )
    for victim, count in sorted(Counter(run["victim"] for run in found).items()):
        times = sorted(run["seconds"] for run in hit if run["victim"] == victim) or [0.0]
        shown = f"median {times[len(times) // 2] * 1000:.0f} ms, longest {times[-1] * 1000:.0f} ms"
        print(f"{victim:15} {count:5} runs, on afterwards for: {shown}")
    print(f"longest time beyond the end of the lease: {max(run['over'] for run in found) * 1000:.0f} ms")
    bad = sum(run["left on"] for run in found)
    print(f"left on: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
