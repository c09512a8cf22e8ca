"""replay.py LOG [--count N]: cut the power at N places of a recorded disk, and look what of a day's promises is kept.

LOG is what QEMU's `blklogwrites` has written of the disk of `guest/cuts/lived.py`: each write and each flush in the
order in which the guest gave them (format: Linux, Documentation/admin-guide/device-mapper/log-writes.rst). At a cut all
that was flushed is on the disk; of what was not, nothing, anything, or single sectors. Each disk is mended as the
next boot would (e2fsck), its home is taken out of it (debugfs), and a house begins on that, as in tests/faults.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import day
import runs
from promises import Verdict
from runs import Outcome

MAGIC, SECTOR = 0x6A736677736872, 512
_HEAD, _ENTRY = struct.Struct("<QQQI"), struct.Struct("<QQQQ")
_FLUSH, _FUA, _DISCARD = 1, 2, 4
LIST_BYTES = 2 << 20
MODES = ("dropped", "kept", "some", "torn")


class Write(NamedTuple):
    """One entry: bytes at a place of the disk, or a flush of all before it."""

    at: int
    data: bytes
    flush: bool
    lasts: bool


def entries(log: bytes) -> Iterator[Write]:
    """Read a log. Raises ValueError when it is none."""
    magic, _, count, sector = _HEAD.unpack_from(log)
    if magic != MAGIC:
        raise ValueError("it is no log of blklogwrites")
    place = sector
    for _ in range(count):
        at, sectors, flags, _ = _ENTRY.unpack_from(log, place)
        place += sector
        size = 0 if flags & _DISCARD else sectors * sector
        data = bytes(sectors * sector) if flags & _DISCARD else log[place : place + size]
        place += size
        yield Write(at * sector, data, bool(flags & _FLUSH), bool(flags & _FUA))


class Disk:
    """The recorded disk at a moment: what is durable, and what is not yet."""

    def __init__(self, size: int) -> None:
        self.durable = bytearray(size)
        self.pending: list[Write] = []
        self.seen = 0
        self._counter = size - LIST_BYTES - SECTOR

    def take(self, write: Write) -> None:
        """Let the next entry happen."""
        if write.flush:
            for one in self.pending:
                put(self.durable, one)
            self.pending.clear()
        if write.at == self._counter:
            self.seen = int(write.data.split()[0])
        if write.lasts:
            put(self.durable, write)
        elif write.data:
            self.pending.append(write)

    def image(self, mode: str, dice: random.Random) -> bytearray:
        """What a cut leaves now."""
        image = bytearray(self.durable)
        for write in self.pending:
            for part in _parts(write) if mode == "torn" else (write,):
                if mode == "kept" or (mode != "dropped" and dice.random() < 0.5):
                    put(image, part)
        return image


def _parts(write: Write) -> Iterator[Write]:
    """The sectors of a write."""
    for place in range(0, len(write.data), SECTOR):
        yield write._replace(at=write.at + place, data=write.data[place : place + SECTOR])


def put(image: bytearray, write: Write) -> None:
    """Write into an image; what lies behind its end is cut off."""
    image[write.at : write.at + len(write.data)] = write.data


def home_of(image: bytearray, folder: Path) -> str:
    """Mend a disk and take the root folder out of it; returns what is wrong with it, '' for nothing."""
    path = folder / "disk"
    path.write_bytes(image)
    mended = subprocess.run(["e2fsck", "-fy", path], capture_output=True, text=True)
    if mended.returncode not in {0, 1}:
        return f"e2fsck ended with {mended.returncode}: {mended.stdout[-500:]}"
    subprocess.run(["debugfs", "-R", f"rdump /root {folder}", path], capture_output=True, check=True)
    path.unlink()
    (folder / "root").mkdir(exist_ok=True)
    return ""


def replayed(writes: Sequence[Write], size: int, cuts: Iterable[tuple[int, str, int]], url: str) -> Iterator[Outcome]:
    """Cut at these places, in their order."""
    disk, done = Disk(size), 0
    events = [tuple(event) for event in listed(writes, size)]
    for at, mode, seed in cuts:
        for write in writes[done:at]:
            disk.take(write)
        done = at
        image, seen = disk.image(mode, random.Random(seed)), events[: disk.seen]

        def look(image: bytearray = image, seen: Sequence[day.Event] = tuple(seen)) -> Verdict:
            with runs.folder("lab") as folder:
                if wrong := home_of(image, folder):
                    return Verdict(1, faults=(wrong,))
                return runs.after(folder / "root", url, seen, day.DAY, power=True)

        yield Outcome(f"unflushed {mode}", f"write {at} {mode} {seed}", runs.judged(runs.forked(look)))


def listed(writes: Sequence[Write], size: int) -> list[list[object]]:
    """What the world has seen in the whole day, from the end of the disk."""
    whole = bytearray(LIST_BYTES)
    for write in writes:
        if write.at >= size - LIST_BYTES:
            at = write.at - (size - LIST_BYTES)
            whole[at : at + len(write.data)] = write.data
    found: list[list[object]] = json.loads(whole.rstrip(b"\0"))
    return found


def main() -> int:
    """Replay, and print what was found; exit code 1 when anything was lost, doubled or broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--size", type=int, default=64 << 20, help="of the disk in bytes")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not all(map(shutil.which, ("e2fsck", "debugfs"))):
        print("lab: cuts: skipped: e2fsck and debugfs are missing")
        return 0
    writes = list(entries(given.log.read_bytes()))
    dice = random.Random(given.seed)
    first = next(at for at, write in enumerate(writes) if write.at == given.size - LIST_BYTES - SECTOR)
    cuts = sorted(
        (dice.randint(first, len(writes)), dice.choice(MODES), dice.getrandbits(32)) for _ in range(given.count)
    )
    begun = time.monotonic()
    with runs.model() as url:
        runs.warm(url)
        found = runs.shared(cuts, lambda some: replayed(writes, given.size, some, url), os.cpu_count() or 1)
    return told(writes, found, time.monotonic() - begun)


def told(writes: Sequence[Write], found: Sequence[Outcome], seconds: float) -> int:
    """Print what was found."""
    flushes = sum(write.flush for write in writes)
    kinds = ", ".join(f"{many} {kind}" for kind, many in sorted(Counter(one.kind for one in found).items()))
    bad = [one for one in found if not one.verdict.good]
    for one in bad[:10]:
        print(f"     {one.what}: {'; '.join((*one.verdict.losses, *one.verdict.doubles, *one.verdict.faults))}")
    losses, doubles = (sum(len(getattr(one.verdict, what)) for one in found) for what in ("losses", "doubles"))
    checked = sum(one.verdict.checked for one in found)
    record = f"{len(writes)} writes with {flushes} flushes"
    print(f"{'FAIL' if bad else 'PASS'} {len(found)} power cuts ({kinds}) in a record of {record}")
    print(f"     {checked} promises checked, {losses} losses, {doubles} duplicates, {len(bad)} bad, {seconds:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
