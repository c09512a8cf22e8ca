"""SPI through the real spidev: the bytes, modes, segments and delays that arrive at the wire, against py-spidev."""

import fcntl
import os
import struct

import pytest
import spidev

from picoclaw.errors import BusFault
from picoclaw.hw.board import SpiSettings, SpiTransfer

PLACE = "spi0.1"


@pytest.fixture
def device(bridge, board):
    bridge.place("loop", PLACE)
    yield board.spi(0, 1)
    bridge.remove(PLACE)


def referee(data, mode, speed):
    other = spidev.SpiDev()
    other.open(0, 1)
    other.mode, other.max_speed_hz = mode, speed
    try:
        return bytes(other.xfer2(list(data)))
    finally:
        other.close()


def test_the_nodes_are_listed(bridge, board):
    nodes = [(node.bus, node.chip, node.path) for node in board.spi_nodes()]
    assert nodes == [(0, 0, "/dev/spidev0.0"), (0, 1, "/dev/spidev0.1")]


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("length", [1, 17, 4096])
def test_bytes_mode_and_clock_are_those_of_py_spidev(device, bridge, mode, length):
    data, speed = os.urandom(length), 1_350_000
    ours = device.transfer([SpiTransfer(data)], SpiSettings(mode, speed))
    of_ours = bridge.log()
    theirs = referee(data, mode, speed)
    of_theirs = bridge.log()
    assert ours == [theirs] == [data]
    assert of_ours == of_theirs
    assert (of_ours[0]["mode"], of_ours[0]["segments"][0]["speed"]) == (mode, speed)


def test_segments_go_out_as_one_message_with_their_delays(device, bridge):
    segments = [SpiTransfer(b"\x01\x02", 150), SpiTransfer(b"\x03", 20, release=True), SpiTransfer(b"\x04\x05\x06")]
    assert device.transfer(segments, SpiSettings()) == [b"\x01\x02", b"\x03", b"\x04\x05\x06"]
    (message,) = bridge.log()
    seen = [(s["length"], s["delay"], s["release"]) for s in message["segments"]]
    assert seen == [(2, 150, 0), (1, 20, 1), (3, 0, 0)]


def test_settings_are_put_back(device):
    other = spidev.SpiDev()
    other.open(0, 1)
    other.mode = 2
    device.transfer([SpiTransfer(b"\x00")], SpiSettings(3, 1_000_000))
    answer = fcntl.ioctl(other.fileno(), 0x80046B05, bytes(4))  # SPI_IOC_RD_MODE32; py-spidev only remembers its own
    assert struct.unpack("=I", answer)[0] & 3 == 2
    other.mode = 0
    other.close()


def test_the_order_of_bits_is_turned(device, bridge):
    assert device.transfer([SpiTransfer(b"\x01\x80\xf0")], SpiSettings(lsb_first=True)) == [b"\x01\x80\xf0"]


def test_more_than_the_kernel_takes_is_refused_before_anything_is_sent(device, bridge):
    with pytest.raises(BusFault, match="4096"):
        device.transfer([SpiTransfer(bytes(4097))], SpiSettings())
    assert bridge.log() == []


@pytest.mark.parametrize(("kind", "constant"), [("low", b"\0\0"), ("high", b"\xff\xff")])
def test_a_broken_wire_reads_as_constant(device, bridge, kind, constant):
    bridge.fault(kind, PLACE)
    answer = device.transfer([SpiTransfer(b"\x55\xaa")], SpiSettings())
    bridge.heal()
    assert answer == [constant]
