"""Serial ports: a USB adapter that is pulled out and plugged in again, and a real UART with a peer outside."""

import subprocess
from pathlib import Path

import lab
import pytest
import serial

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import SerialSettings

USB, FAR_END, UART = "/dev/ttyACM0", "/dev/ttyGS0", "/dev/ttyS1"
FRAME = SerialSettings(115_200)


@pytest.fixture(scope="module")
def _usb_bus():
    lab.modprobe("dummy_hcd")
    lab.modprobe("cdc-acm")


def plug_in():
    lab.modprobe("g_serial")
    lab.wait_for(lambda: Path(USB).exists() and Path(FAR_END).exists(), "the USB adapter appears")


def pull_out():
    subprocess.run(["rmmod", "g_serial"], check=True)


@pytest.fixture
def adapter(_usb_bus):
    plug_in()
    with serial.Serial(FAR_END, 115_200, timeout=3) as far_end:
        yield far_end
    if Path(FAR_END).exists():
        pull_out()


def test_the_adapter_is_listed_with_lasting_names(adapter, board):
    lab.wait_for(  # udev makes its names one after the other
        lambda: any("/dev/serial/by-id/" in name for p in board.ports() if p.path == USB for name in p.names),
        "udev names the adapter",
    )
    port = next(p for p in board.ports() if p.path == USB)
    assert "Gadget Serial" in port.description


def test_the_console_is_in_use_and_the_placeholders_are_not_listed(board):
    used = {p.path: p.used_by for p in board.ports()}
    assert used["/dev/ttyS0"] == "the Linux console"
    assert "/dev/ttyS3" not in used
    with pytest.raises(BusFault, match="the Linux console"):
        board.serial("/dev/ttyS0", FRAME)


def test_both_directions(adapter, board):
    port = board.serial(USB, FRAME)
    port.write(b"hello board\n")
    heard = adapter.readline()
    adapter.write(b"42.5\r\n")
    answer = port.read(6, 3.0)
    port.close()
    assert (heard, answer) == (b"hello board\n", b"42.5\r\n")


def test_a_port_is_exclusive(adapter, board):
    port = board.serial(USB, FRAME)
    with pytest.raises(BusFault, match="in use"):
        board.serial(USB, FRAME)
    port.close()
    board.serial(USB, FRAME).close()


def test_pulled_out_while_open_and_plugged_in_again(adapter, board):
    port = board.serial(USB, FRAME)
    adapter.close()
    pull_out()
    lab.wait_for(lambda: not Path(USB).exists(), "the USB adapter goes away", 5)
    with pytest.raises(DeviceMissing, match=f"{USB} has gone away"):
        port.read(1, 1.0)
    with pytest.raises(DeviceMissing):
        port.write(b"x")
    port.close()
    with pytest.raises(DeviceMissing, match=USB):
        board.serial(USB, FRAME)
    plug_in()
    with serial.Serial(FAR_END, 115_200, timeout=3) as far_end:
        port = board.serial(USB, FRAME)
        port.write(b"again\n")
        assert far_end.readline() == b"again\n"
        port.close()


def test_a_uart_answers_from_outside(board):
    port = board.serial(UART, FRAME)
    port.write(b"ECHO hello uart\n")
    assert port.read(11, 5.0) == b"HELLO UART\n"
    port.write(b"ECHO " + b"x" * 300 + b"\n")
    assert port.read(301, 5.0) == b"X" * 300 + b"\n"
    assert port.read(1, 0.2) == b""
    port.close()
