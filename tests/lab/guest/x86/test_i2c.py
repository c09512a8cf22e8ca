"""I2C through the real i2c-dev: what is sent, what comes back, and what the kernel's errors become."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from statistics import median

import lab
import pytest
from smbus2 import SMBus, i2c_msg

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite

BME280 = "i2c-1/0x76"


@pytest.fixture
def bus(bridge, board):
    bridge.place("bme280", BME280)
    yield board.i2c(1)
    bridge.heal()
    bridge.remove(BME280)


def test_the_adapter_is_listed(bridge, board):
    assert ("/dev/i2c-1", "picosim", True) in [(a.path, a.name, a.header) for a in board.adapters()]


def test_a_write_and_a_read_are_one_message_with_a_repeated_start(bus, bridge):
    assert bus.transfer(0x76, [I2CWrite(b"\xd0"), I2CRead(1)]) == [b"\x60"]
    assert bridge.log() == [{"address": 0x76, "segments": ["d0", 1]}]


def test_many_segments(bus, bridge):
    found = bus.transfer(0x76, [I2CWrite(b"\xd0"), I2CRead(1), I2CWrite(b"\x88"), I2CRead(24)])
    assert [len(f) for f in found] == [1, 24]
    assert len(bridge.log()) == 1


@pytest.mark.parametrize("length", [1, 32, 33, 255, 4096])
def test_lengths(bus, length):
    assert len(bus.transfer(0x76, [I2CWrite(b"\x00"), I2CRead(length)])[0]) == length


def test_scan_finds_what_answers_and_no_more(bus):
    assert [a for a in range(0x08, 0x78) if bus.probe(a) == "present"] == [0x76]


def test_a_16_bit_memory_with_a_page_that_wraps_and_deaf_while_it_programs(bridge, board):
    bridge.place("memory", "i2c-1/0x50")
    bus = board.i2c(1)
    bus.transfer(0x50, [I2CWrite(b"\x00\x1eabcd")])
    deaf = bus.probe(0x50)
    lab.wait_for(lambda: bus.probe(0x50) == "present", "the memory answers again")
    found = bus.transfer(0x50, [I2CWrite(b"\x00\x1e"), I2CRead(2), I2CWrite(b"\x00\x00"), I2CRead(3)])
    bridge.remove("i2c-1/0x50")
    assert (deaf, found) == ("absent", [b"ab", b"cd\xff"])


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("nack", DeviceMissing, "does not answer"),
        ("eio", BusFault, "reported an I/O error"),
        ("stuck", BusFault, "timed out"),
    ],
)
def test_faults_become_words(bus, bridge, kind, error, words):
    bridge.fault(kind, BME280)
    began = time.monotonic()
    with pytest.raises(error, match=f"0x76 on /dev/i2c-1 {words}"):
        bus.transfer(0x76, [I2CWrite(b"\xd0"), I2CRead(1)])
    assert time.monotonic() - began < 2
    bridge.heal()
    assert bus.transfer(0x76, [I2CWrite(b"\xd0"), I2CRead(1)]) == [b"\x60"]


def test_an_absent_part(bus):
    with pytest.raises(DeviceMissing, match="0x40 on /dev/i2c-1 does not answer"):
        bus.transfer(0x40, [I2CRead(1)])


def test_an_address_that_a_kernel_driver_holds_is_busy_and_named(bus, bridge):
    lab.modprobe("bmp280-i2c")
    lab.bind("bme280", 0x76)
    bridge.log()
    try:
        with pytest.raises(BusFault, match="in use by a kernel driver"):
            bus.transfer(0x76, [I2CWrite(b"\xf4\x00")])
        assert (bus.probe(0x76), bus.holder(0x76)) == ("busy", "bmp280")
        assert bridge.log() == []
    finally:
        lab.unbind(0x76)
    assert bus.probe(0x76) == "present"


def test_one_register_costs_little_more_than_smbus2_alone(bus, bridge, record_property):
    """Counted in calls, which no busy machine changes; the ratio of the times, in turns in one run, is told beside it."""
    with SMBus(1) as direct:

        def read_plainly() -> None:
            direct.i2c_rdwr(i2c_msg.write(0x76, [0xD0]), i2c_msg.read(0x76, 1))

        def read_by_bus() -> None:
            bus.transfer(0x76, [I2CWrite(b"\xd0"), I2CRead(1)])

        plain, ours = [], []
        for _ in range(200):
            began = time.perf_counter()
            read_plainly()
            between = time.perf_counter()
            read_by_bus()
            ours.append(time.perf_counter() - between)
            plain.append(between - began)
        theirs_ms, ours_ms = median(plain) * 1000, median(ours) * 1000
        record_property("ratio", f"{ours_ms / theirs_ms:.2f} ({theirs_ms:.2f} ms and {ours_ms:.2f} ms)")
        more = count_calls(read_by_bus) - count_calls(read_plainly)
        record_property("more calls", dict(more))
    assert more["ioctl"] == 1  # asks the kernel whether a driver holds the address
    assert more.total() <= 26  # the segments and the message of each, the lock, the pause after faults, the bytes read
    assert bridge.log()[-1] == {"address": 0x76, "segments": ["d0", 1]}


def count_calls(run: Callable[[], object]) -> Counter[str]:
    """Count the functions that are entered, of Python and of C, by name."""
    found: Counter[str] = Counter()

    def note(frame, event, function) -> None:
        if event in ("call", "c_call"):
            found[frame.f_code.co_name if event == "call" else function.__name__] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found
