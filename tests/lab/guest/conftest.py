"""Fixtures of the guests' tests."""

import subprocess
import sys
from collections.abc import Iterator

import lab
import pytest

from picoclaw.files import find_shipped
from picoclaw.hw import loader
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import Drivers

# What the kernel is told to find at the chip selects of spi0; the first two are spidev's, where picoclaw reads.
CHIP_SELECTS = "dh2228fv,dh2228fv,mcp3008,max31855"


@pytest.fixture(scope="session")
def _bridge_process() -> Iterator[lab.Bridge]:
    lab.modprobe("picosim", f"spi={CHIP_SELECTS}")
    command = [sys.executable, "-B", "bridge.py"]
    bridge = subprocess.Popen(command, env={"PYTHONPATH": "/run/job"}, stdout=subprocess.PIPE)
    assert bridge.stdout.readline() == b"ready\n"
    yield lab.Bridge()
    bridge.kill()
    bridge.wait()


@pytest.fixture
def bridge(_bridge_process) -> lab.Bridge:
    """The wires, without faults and with an empty log."""
    _bridge_process.heal()
    _bridge_process.log()
    return _bridge_process


@pytest.fixture
def board() -> Iterator[LinuxBoard]:
    """Picoclaw's own door to the guest's hardware."""
    board = LinuxBoard()
    yield board
    board.close()


@pytest.fixture
def drivers(board) -> Drivers:
    """Picoclaw's drivers on that door."""
    return Drivers(board, lambda part: loader.load_driver(part, [find_shipped("tools/hw")]))
