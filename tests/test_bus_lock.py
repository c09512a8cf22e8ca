"""A part is read by one at a time, whatever process or thread asks; a part that measures for long holds up no other."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from timing import until

from picoclaw.errors import BusFault
from picoclaw.files import find_shipped
from picoclaw.hw import handles, loader
from picoclaw.hw.board import I2CRead
from picoclaw.hw.handles import BusLock
from picoclaw.hw.loader import Drivers
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.script import Script
from picoclaw.outputs.config import OutputConfig
from picoclaw.outputs.supervisor.leases import make_safe

LIGHT, AIR = WiredPart("bh1750", 1, 0x23), WiredPart("scd4x", 1, 0x62)
CLIMATE, EXPANDER = WiredPart("bme280", 1, 0x76), WiredPart("pcf8574", 1, 0x20)
HW = [find_shipped("tools/hw")]


@pytest.fixture
def state(tmp_path):
    """Where the simulated board's files are, those for the locks among them."""
    (tmp_path / "sim").mkdir()
    return tmp_path / "sim"


def board_of(state):
    wired = {"light": LIGHT, "air": AIR, "climate": CLIMATE, "relays": EXPANDER}
    return SimBoard(script=Script(wired, {"light": {"light": 300}}), state=state)


def drivers_of(board):
    return Drivers(board, lambda part: loader.load_driver(part, HW))


def forked(action):
    """Do something in another process; returns its number."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return pid


def holding(state, part, byte, mark="held", bus="i2c-1"):
    """Another process that has a turn until it is killed."""

    def hold():
        with BusLock(bus, part, str(state / bus), byte):
            (state / mark).touch()
            signal.pause()

    (state / bus).touch()
    pid = forked(hold)
    until((state / mark).exists)
    return pid


def killed(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_two_processes_read_a_part_one_after_the_other(state):
    log = os.open(state / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def read_often():
        board = board_of(state)
        bus, transfer = board.i2c(1), board.i2c(1).transfer

        def logged(address, segments):
            ends = b"-\n" if isinstance(segments[-1], I2CRead) else b""
            os.write(log, b"%d\n%b" % (os.getpid(), ends))
            return transfer(address, segments)

        bus.transfer = logged
        drivers = drivers_of(board)
        for _ in range(5):
            (reading,) = drivers.measure("light", LIGHT)
            assert reading.value == pytest.approx(300, abs=1)

    pids = [forked(read_often) for _ in range(3)]
    for pid in pids:
        os.waitpid(pid, 0)
    readings = (state / "log").read_text().split("-\n")
    assert len(readings) == 16
    assert all(len(set(reading.split())) <= 1 for reading in readings), "each reading is one process's alone"


def test_a_part_that_measures_for_seconds_holds_up_neither_the_bus_nor_another_process(state):
    began, took = threading.Event(), []
    slow_board = board_of(state)
    slow = Drivers(slow_board, lambda part: loader.load_driver(part, HW), sleep=lambda s: (began.set(), time.sleep(s)))
    thread = threading.Thread(target=lambda: took.extend(slow.measure("air", AIR)))
    thread.start()
    began.wait(5)
    for measure in (drivers_of(slow_board).measure, drivers_of(board_of(state)).measure):
        at = time.monotonic()
        assert measure("climate", CLIMATE)[0].value is not None
        assert time.monotonic() - at < 1
    pid = forked(lambda: drivers_of(board_of(state)).measure("climate", CLIMATE) and (state / "done").touch())
    until((state / "done").exists, 2)
    os.waitpid(pid, 0)
    thread.join()
    assert took[0].value is not None


def test_a_process_that_is_killed_holds_nothing(state):
    killed(holding(state, "i2c-1 at 0x23", 0x23))
    at = time.monotonic()
    assert drivers_of(board_of(state)).measure("light", LIGHT)[0].value is not None
    assert time.monotonic() - at < 1


def test_waiting_is_bounded_and_says_for_what(state):
    pid = holding(state, "i2c-1 at 0x23", 0x23)
    try:
        (reading,) = drivers_of(board_of(state)).measure("climate", CLIMATE)[:1]
        assert (reading.value, reading.problem) == (
            None,
            f"i2c-1 has been in use by another program or task for {handles.BUS_TIMEOUT_S:g} s: try again",
        )
    finally:
        killed(pid)


@pytest.mark.parametrize("words", [{"action": "read"}, {"action": "write", "data": [1]}], ids=["read", "write"])
def test_a_raw_call_waits_for_a_part_in_use(state, words):
    pid = holding(state, "i2c-1 at 0x23", 0x23)
    threading.Timer(0.5, killed, [pid]).start()
    at = time.monotonic()
    loader.load_module("i2c", HW).I2C(board_of(state)).i2c(bus=1, address=0x23, **words)
    assert time.monotonic() - at > 0.3


@pytest.mark.parametrize(
    ("tool", "words", "part", "byte", "bus"),
    [
        ("i2c", {"bus": 1, "action": "scan"}, "i2c-1 at 0x23", 0x23, "i2c-1"),
        ("spi", {"bus": 0, "action": "transfer", "data": [1, 128, 0]}, "spi0.0", 0, "spi-0"),
    ],
    ids=["scan", "spi"],
)
def test_a_scan_and_raw_spi_wait_for_a_part_in_use(state, tool, words, part, byte, bus):
    pid = holding(state, part, byte, bus=bus)
    threading.Timer(0.5, killed, [pid]).start()
    at, module = time.monotonic(), loader.load_module(tool, HW)
    board = SimBoard(script=Script({"light": LIGHT, "joystick": WiredPart("mcp3008", 0)}, {}), state=state)
    said = module.I2C(board).i2c(**words) if tool == "i2c" else module.Spi(board).spi(**words)
    assert time.monotonic() - at > 0.3
    assert ("0x23 answers" if tool == "i2c" else "received") in said


def test_an_output_goes_safe_whoever_has_the_bus(state):
    pid = holding(state, "i2c-1 at 0x20", 0x20)
    relay = OutputConfig("pump", 60, "relay", part="pcf8574", address=0x20, options={"inputs": 0})
    try:
        at = time.monotonic()
        assert make_safe(board_of(state), state, [relay]) == {}
        assert time.monotonic() - at < 1
    finally:
        killed(pid)


def test_a_bus_that_may_not_be_opened_is_not_waited_for():
    with BusLock("i2c-9", "i2c-9 at 0x23", str(Path("/nowhere/i2c-9")), 0x23):
        pass


def test_a_turn_that_cannot_be_had_leaves_nothing_taken(state):
    pid = holding(state, "other", 0x50)
    with pytest.raises(BusFault, match="i2c-1 has been in use"), BusLock("i2c-1", "mine", str(state / "i2c-1"), 0x51):
        pass
    killed(pid)
    with BusLock("i2c-1", "mine", str(state / "i2c-1"), 0x51):
        pass
