"""Cuts the power, kills, and lets the disk fail all through a scripted day, and counts what was promised and is lost.

`make cuts`, `make cuts ARGS="--count 10000"`, `make cuts ARGS=--all`. A day is recorded once; each cut is a disk that
may be left by it (see tests/faults/card.py) on which a house begins anew. Kills and failures are days of their own.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import day
import runs
from card import MODES, Step
from runs import DISKS, KILLED, Cut, Failing, Outcome

_FOR = (1, 1, 60, 10**9)
"""How many operations fail: one, some, or all from then on."""
_SHOWN = 12


def main() -> int:
    """Do what was asked for; exit code 1 when anything was lost, doubled or broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="power cuts")
    parser.add_argument("--all", action="store_true", help="every step of the day in every way")
    parser.add_argument("--kills", type=int, default=20, help="processes killed with kill -9")
    parser.add_argument("--failures", type=int, default=49, help="days on a disk that fails")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1)
    parser.add_argument("--short", action="store_true", help="a morning instead of a day")
    parser.add_argument("--proofs", type=int, default=4, help="cuts of a day that leaves out its syncs; must lose")
    parser.add_argument("--again", nargs=3, metavar=("AT", "HOW", "SEED"), help="one cut, as it was named")
    given = parser.parse_args()
    with runs.model() as url:
        return run(given, url)


def run(given: argparse.Namespace, url: str) -> int:
    script = day.SHORT if given.short else day.DAY
    begun = time.monotonic()
    runs.warm(url)
    steps, _ = runs.recorded(script, url)
    described(steps)
    found = runs.shared(chosen(given, steps), lambda some: runs.replayed(steps, some, url, script), given.workers)
    if given.again:
        return told(found, time.monotonic() - begun)
    failing = failures(given, url)
    found += runs.shared(failing, lambda some: (runs.failed(day.SHORT, url, one) for one in some), given.workers)
    proved = proof(given, url, steps, script)
    return max(told(found, time.monotonic() - begun), 0 if proved else 1)


def proof(given: argparse.Namespace, url: str, steps: Sequence[Step], script: Sequence[day.Move]) -> bool:
    """Leave out syncs, drop what was not synced, and see that it is noticed: else this suite would prove nothing."""
    proved = True
    for what in runs.SYNCED if given.proofs else ():
        without = runs.unsynced(steps, what)
        half = [Cut(at, "dropped", 0) for at in range(len(without), 0, -len(without) // (2 * given.proofs))]
        cuts = sorted(half[: given.proofs])
        found = runs.shared(cuts, partial(runs.replayed, without, url=url, script=script), given.workers)
        bad = sum(not outcome.verdict.good for outcome in found)
        print(f"without the syncs of {what}: noticed at {bad} of {len(found)} cuts")
        proved = proved and (bad > 0 or not found)
    return proved


def chosen(given: argparse.Namespace, steps: Sequence[Step]) -> list[Cut]:
    """Which cuts to make."""
    if given.again:
        at, mode, seed = given.again
        return [Cut(int(at), mode, int(seed))]
    if given.all:
        dice = random.Random(given.seed)
        places = range(len(steps) + 1)
        return [Cut(at, mode, dice.getrandbits(32)) for at in places for mode in MODES]
    return runs.cuts(steps, given.count, given.seed)


def failures(given: argparse.Namespace, url: str) -> list[Failing]:
    """Spread kills and failures over the operations of a morning."""
    dice = random.Random(given.seed)
    _, kinds = runs.recorded(day.SHORT, url)
    made = [KILLED._replace(at=1 + round(place * len(kinds) / given.kills)) for place in range(given.kills)]
    for place in range(given.failures):
        disk = DISKS[place % len(DISKS)]
        places = [at for at, kind in enumerate(kinds, 1) if kind.removeprefix("sqlite ") in disk.kinds]
        made.append(disk._replace(at=dice.choice(places), many=dice.choice(_FOR)))
    return made


def described(steps: Sequence[Step]) -> None:
    """Say what the day did to the disk."""
    count = Counter(step.do for step in steps)
    names = {"sync": "syncs", "write": "writes", "link": "names given", "unlink": "taken away", "rename": "renamed"}
    parts = ", ".join(f"{count[do]} {name}" for do, name in names.items())
    print(f"the day: {len(steps) - count['event']} steps ({parts}), {count['event']} things seen by the world")


def told(found: Sequence[Outcome], seconds: float) -> int:
    """Print what was found; returns the exit code."""
    for kind, some in Counter(outcome.kind for outcome in found).items():
        print(f"{kind:32} {some:6}")
    for what in ("losses", "doubles", "faults"):
        wrong = [(outcome.what, text) for outcome in found for text in getattr(outcome.verdict, what)]
        for name, text in wrong[:_SHOWN]:
            print(f"  {what}: {name}: {text}")
        print(f"{what:32} {len(wrong):6}")
    checked = sum(outcome.verdict.checked for outcome in found)
    bad = sum(not outcome.verdict.good for outcome in found)
    print(f"{len(found)} cuts, kills and failures, {checked} promises checked, {bad} bad, in {seconds:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
