"""Fixtures of the x86 guest's tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import lab_outputs
import lab_pins
import lab_service
import pytest
from lab_pins import LABEL, NAMES

__all__ = ["LABEL", "NAMES"]

WATCHDOG_S = 15
TRIED = """
import os, socket
from picoclaw.hw.linux import LinuxBoard
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return
    print("not refused:", what, arguments)
refused(os.open, "/dev/mem", os.O_RDONLY)
refused(os.open, "/dev/vda", os.O_RDONLY)
refused(os.open, "/etc/picoclaw/environment", os.O_RDONLY)
refused(os.open, "/etc/x", os.O_WRONLY | os.O_CREAT)
refused(os.open, "/sys/kernel/mm/ksm/run", os.O_WRONLY)
refused(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)
refused(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
refused(os.nice, -1)
os.close(os.open("/dev/i2c-1", os.O_RDWR))
print("tried; synchronised:", LinuxBoard().clock_synchronised(), flush=True)
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """There is nothing after the power cut."""
    items.sort(key=lambda item: "power_cut" in item.nodeid)


@pytest.fixture(scope="session")
def pins() -> Iterator[Path]:
    """A GPIO chip of 28 lines; its outside is a folder, in which pulls are set and levels are seen."""
    yield lab_pins.make()
    lab_pins.remove()


@pytest.fixture(scope="session")
def service(_bridge_process, pins) -> float:
    """The service, put in place and started, with one output; returns how long the start took, in seconds.

    Its watchdog is short, and so is the pause before it is started anew. A program with its rights looks round in its
    sandbox. It stays until the machine is thrown away.
    """
    lab_service.link()
    lab_service.done(*lab_service.PICOCLAW, "service", "install", "--no-start")
    lab_service.HOME.mkdir(parents=True)
    lab_outputs.home(lab_service.HOME, LABEL, lab_service.PUMP, "confirm = false")
    (lab_service.STATE / "tried.py").write_text(TRIED)
    lab_service.owned(lab_service.STATE)
    tried = f"ExecStartPost={sys.executable} -B {lab_service.STATE}/tried.py"
    (lab_service.DROP_INS / "lab.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}\nRestartSec=1\n{tried}\n")
    synchronised = Path("/run/systemd/timesync/synchronized")
    synchronised.parent.mkdir(parents=True)
    synchronised.touch()
    lab_service.done("systemctl", "daemon-reload")
    took = lab_service.begun("systemctl", "start", "picoclaw")
    (lab_service.DROP_INS / "lab.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}\nRestartSec=1\n")
    lab_service.done("systemctl", "daemon-reload")
    return took
