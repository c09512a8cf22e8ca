"""A scripted day (tests/faults/day.py) on a disk whose every write is recorded outside; the host cuts it afterwards.

What the world has seen is numbered. The number goes to a sector of its own behind the file system, past all caches and
without a flush, so that it lies in the record in its place; the list itself follows at the end of the disk.
"""

import json
import mmap
import os
import subprocess
import time
from pathlib import Path

import day
import player

DISK, MOUNTED = Path("/dev/vdb"), Path("/run/card")
SECTOR = 512


def test_a_day_is_lived(record_property):
    size = int(Path(f"/sys/class/block/{DISK.name}/size").read_text()) * SECTOR
    list_at = size - (2 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", DISK, f"{(list_at >> 10) - 1024}k"], check=True)
    MOUNTED.mkdir()
    subprocess.run(["mount", "-o", "noatime", DISK, MOUNTED], check=True)
    root = MOUNTED / "root"
    root.mkdir()
    os.environ.update(HOME=str(root), PICOCLAW_HOME=str(root / "picoclaw"))
    beside = os.open(DISK, os.O_RDWR | os.O_DIRECT)
    events = []

    def seen(event):
        events.append(event)
        put(beside, list_at - SECTOR, f"{len(events)} ".encode())

    begun = time.monotonic()
    with day.server() as server:
        player.Player(root, seen, server.url).play(day.DAY)
    put(beside, list_at, json.dumps(events).encode())
    record_property("seconds", round(time.monotonic() - begun, 1))
    record_property("things seen by the world", len(events))
    assert len(events) > 100


def put(file, at, data):
    """Write sectors, past the caches."""
    block = mmap.mmap(-1, -(-len(data) // SECTOR) * SECTOR)
    block.write(data)
    assert os.pwrite(file, block, at) == len(block)
