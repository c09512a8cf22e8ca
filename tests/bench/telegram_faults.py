"""Plays network faults against Telegram, with the real inbox and outbox: `telegram_faults.py --faults 300`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import test_telegram_faults as kit

from picoclaw.daemon import letters


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    letters._FIRST_RETRY_S, letters._LONGEST_RETRY_S = 0.01, 0.05
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        written, answered, texts, recoveries = kit.play(Path(folder) / "home", given.faults, given.seed)
    lost, posted_twice, doubled = kit.judged(written, answered, texts)
    repeated = sum(text.startswith(kit.PERHAPS) for text in texts)
    print(
        f"{given.faults} faults, {written} messages, {len(texts)} texts in the chat, {time.monotonic() - begun:.0f} s"
    )
    print(f"lost {len(lost)}, posted twice {sum(posted_twice.values())}, doubled in silence {len(doubled)}")
    print(f"said to be perhaps a repetition: {repeated}")
    usual = f"pauses of {kit.TIMING.first} to {kit.TIMING.longest} s"
    print(f"slowest recovery {max(recoveries, default=0):.2f} s, with {usual}")
    return bool(lost or posted_twice or doubled)


if __name__ == "__main__":
    sys.exit(main())
