"""How long a turn goes on after the word to stop, by what the model server is doing: `stop.py --times 5`."""

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from test_stop import CASES, measured, stopped, unanswered


def connecting():
    """The network takes no connection, and says nothing."""
    with unanswered() as url:
        return stopped(url, lambda: True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="turns of each kind")
    parser.add_argument("--connecting", action="store_true", help="also a network that takes no connection, once")
    given = parser.parse_args()
    print(f"{'the server is':<40}{'median':>10}{'longest':>10}  (ms after Stop.say, {given.times} turns each)")
    kinds = [(name, partial(measured, case), given.times) for name, case in CASES.items()]
    kinds += [("not reached yet (connecting)", connecting, 1)] if given.connecting else []
    for name, run, times in kinds:
        done = [run() for _ in range(times)]
        assert all(turn.stopped == "stopped" for turn, _ in done), name
        took = [seconds * 1000 for _, seconds in done]
        print(f"{name:<40}{statistics.median(took):>10.1f}{max(took):>10.1f}", flush=True)


if __name__ == "__main__":
    main()
