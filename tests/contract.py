"""What every board promises: plain functions that assert, run on SimBoard here and on a real kernel in the lab.

A bench has a BME280 at 0x76 of `bus` (25.0 °C), nothing at 0x20, an MCP3008 at `spi` with 1.65 V of 3.3 V on channel
0, two free GPIO lines of `chip` of which `line_in` is pulled up, and a serial port whose peer sends each line back.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.files import find_shipped
from picoclaw.hw.board import Board, I2CRead, I2CWrite, SerialSettings, SpiSettings, SpiTransfer
from picoclaw.hw.loader import Drivers, load_driver
from picoclaw.hw.reading import WiredPart

BME280, NOBODY = 0x76, 0x20
HW = [find_shipped("tools/hw")]


class Bench(NamedTuple):
    """A board and where on it things are; what a bench has not is None, and its promises are skipped."""

    board: Board
    bus: int | None = 1
    spi: tuple[int, int] | None = (0, 0)
    chip: str | None = "pinctrl-sim"
    line_out: int = 17
    line_in: int = 4
    port: str | None = "/dev/ttyS1"


def refusal(kind: type[HardwareError], act: Callable[[], object]) -> str:
    """The one line of an act that has to fail."""
    try:
        act()
    except kind as error:
        text = str(error)
        assert text, "an error without words"
        assert "\n" not in text
        return text
    raise AssertionError(f"no {kind.__name__} was raised")


def i2c_lists_the_bus(bench):
    assert [a.path for a in bench.board.adapters() if a.number == bench.bus] == [f"/dev/i2c-{bench.bus}"]


def i2c_is_one_object(bench):
    assert bench.board.i2c(bench.bus) is bench.board.i2c(bench.bus)


def i2c_reads_a_register_with_a_repeated_start(bench):
    assert bench.board.i2c(bench.bus).transfer(BME280, [I2CWrite(b"\xd0"), I2CRead(1)]) == [b"\x60"]


def i2c_answers_each_read_of_a_transaction_in_order(bench):
    bus = bench.board.i2c(bench.bus)
    once = bus.transfer(BME280, [I2CWrite(b"\x88"), I2CRead(24), I2CWrite(b"\xd0"), I2CRead(1)])
    assert [len(answer) for answer in once] == [24, 1]
    assert once == [*bus.transfer(BME280, [I2CWrite(b"\x88"), I2CRead(24)]), b"\x60"]


def i2c_keeps_what_is_written(bench):
    bus = bench.board.i2c(bench.bus)
    bus.transfer(BME280, [I2CWrite(b"\xf5\xa0")])
    assert bus.transfer(BME280, [I2CWrite(b"\xf5"), I2CRead(1)]) == [b"\xa0"]
    bus.transfer(BME280, [I2CWrite(b"\xf5\x00")])


def i2c_names_a_part_that_does_not_answer(bench):
    said = refusal(DeviceMissing, lambda: bench.board.i2c(bench.bus).transfer(NOBODY, [I2CRead(1)]))
    assert said.startswith(f"0x20 on /dev/i2c-{bench.bus} does not answer: check power")


def i2c_tells_presence(bench):
    bus = bench.board.i2c(bench.bus)
    assert (bus.probe(BME280), bus.probe(NOBODY), bus.holder(BME280)) == ("present", "absent", "")


def i2c_names_a_missing_bus(bench):
    assert refusal(DeviceMissing, lambda: bench.board.i2c(99)).startswith("/dev/i2c-99 does not exist")


def i2c_is_opened_anew_after_closing(bench):
    bench.board.i2c(bench.bus)
    bench.board.close()
    i2c_reads_a_register_with_a_repeated_start(bench)


def i2c_serves_a_driver(bench):
    readings = Drivers(bench.board, lambda part: load_driver(part, HW)).measure(
        "x", WiredPart("bme280", bench.bus, BME280)
    )
    assert {r.quantity: r.problem for r in readings} == {"temperature": "", "humidity": "", "pressure": ""}
    assert abs(next(r.value for r in readings if r.quantity == "temperature") - 25.0) < 0.02


ADC, CHANNEL_0 = SpiSettings(mode=0, speed_hz=1_000_000), b"\x01\x80\x00"


def adc(answer):
    return (answer[1] & 3) << 8 | answer[2]


def spi_lists_the_node(bench):
    assert bench.spi in [(node.bus, node.chip) for node in bench.board.spi_nodes()]


def spi_exchanges_bytes(bench):
    answer = bench.board.spi(*bench.spi).transfer([SpiTransfer(CHANNEL_0)], ADC)[0]
    assert len(answer) == 3
    assert abs(adc(answer) - 512) <= 1


def spi_holds_the_chip_select_over_segments(bench):
    parts = bench.board.spi(*bench.spi).transfer([SpiTransfer(bytes([b]), delay_us=5) for b in CHANNEL_0], ADC)
    assert [len(part) for part in parts] == [1, 1, 1]
    assert abs(adc(b"".join(parts)) - 512) <= 1


def spi_starts_anew_after_releasing(bench):
    twice = [SpiTransfer(CHANNEL_0, release=True), SpiTransfer(CHANNEL_0)]
    assert [abs(adc(part) - 512) <= 1 for part in bench.board.spi(*bench.spi).transfer(twice, ADC)] == [True, True]


def spi_takes_4096_bytes(bench):
    assert len(bench.board.spi(*bench.spi).transfer([SpiTransfer(bytes(4096))], ADC)[0]) == 4096


def spi_names_a_missing_device(bench):
    assert refusal(DeviceMissing, lambda: bench.board.spi(9, 3)).startswith("/dev/spidev9.3 does not exist")


def gpio_lists_chip_and_lines(bench):
    assert bench.chip in [c.label for c in bench.board.gpio_chips()]
    lines = bench.board.lines(bench.chip)
    assert [line.offset for line in lines] == list(range(len(lines)))
    assert len(lines) > max(bench.line_in, bench.line_out)


def gpio_drives_a_line(bench):
    handle = bench.board.line_out(bench.chip, bench.line_out, 1)
    try:
        first = handle.get()
        handle.set(0)
        assert (first, handle.get()) == (1, 0)
        assert bench.board.lines(bench.chip)[bench.line_out].consumer == "picoclaw"
    finally:
        handle.close()


def gpio_names_who_holds_a_line(bench):
    handle = bench.board.line_out(bench.chip, bench.line_out, 0)
    try:
        said = refusal(BusFault, lambda: bench.board.line_out(bench.chip, bench.line_out, 1))
        assert "picoclaw" in said
        assert handle.get() == 0
    finally:
        handle.close()
        handle.close()
    bench.board.line_out(bench.chip, bench.line_out, 0).close()


def gpio_reads_a_line(bench):
    handle = bench.board.line_in(bench.chip, bench.line_in, bias="pull-up")
    try:
        assert handle.get() == 1
    finally:
        handle.close()


def gpio_waits_no_longer_than_asked(bench):
    handle = bench.board.line_in(bench.chip, bench.line_in, edges=True)
    try:
        began = time.monotonic()
        assert handle.edges(0.05) == []
        assert time.monotonic() - began < 1
    finally:
        handle.close()


def gpio_names_what_is_missing(bench):
    assert "no-such-chip" in refusal(DeviceMissing, lambda: bench.board.lines("no-such-chip"))
    refusal(HardwareError, lambda: bench.board.line_out(bench.chip, 9999, 0))


def serial_lists_the_port(bench):
    assert bench.port in [port.path for port in bench.board.ports()]


def serial_talks(bench):
    port = bench.board.serial(bench.port, SerialSettings(115_200))
    try:
        port.flush()
        port.write(b"ECHO hello\n")
        assert port.read(6, 5.0) == b"HELLO\n"
        assert port.read(1, 0.05) == b""
    finally:
        port.close()
        port.close()


def serial_names_a_missing_port(bench):
    said = refusal(DeviceMissing, lambda: bench.board.serial("/dev/ttyUSB77", SerialSettings()))
    assert said.startswith("/dev/ttyUSB77 does not exist")


_NEEDS = {"i2c": "bus", "spi": "spi", "gpio": "chip", "serial": "port"}
CONTRACT = {
    name: promise
    for name, promise in list(globals().items())
    if callable(promise) and name.partition("_")[0] in _NEEDS and "_" in name
}


def kept(bench: Bench) -> dict[str, Callable[[Bench], None]]:
    """The promises that can be tried on this bench."""
    return {
        name: promise
        for name, promise in CONTRACT.items()
        if getattr(bench, _NEEDS[name.partition("_")[0]]) is not None
    }
