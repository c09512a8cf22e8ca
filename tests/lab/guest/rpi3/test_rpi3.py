"""The Raspberry Pi 3's own controllers and drivers, with QEMU's parts on the bus.

QEMU wires no chip select to its SPI controller, and its GPIO inputs cannot be driven from outside; neither is tested.
"""

import json
import struct
from pathlib import Path

import gpiod
import lab
import pytest
from gpiod.line import Value

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw import kernel
from picoclaw.hw.board import I2CRead, I2CWrite, SerialSettings, SpiSettings, SpiTransfer
from picoclaw.hw.reading import WiredPart

GPIO = "pinctrl-bcm2835"
PARTS = {0x48: "tmp105", 0x4C: "emc1413", 0x4D: "tmp421", 0x50: "at24c", 0x68: "ds1338", 0x77: "dps310"}


def qom_set(part, name, value):
    """Change a property of one of QEMU's parts, by way of the console."""
    path = f"/machine/peripheral/{part}"
    arguments = {"path": path, "property": name, "value": value}
    print("@QMP " + json.dumps({"execute": "qom-set", "arguments": arguments}), flush=True)


@pytest.fixture
def bus(board):
    return board.i2c(1)


@pytest.fixture
def bound():
    """Bind kernel drivers, and take all of the parts back at the end."""
    addresses = []

    def bind(module, device, address):
        lab.modprobe(module)
        addresses.append(address)
        return lab.bind(device, address)

    yield bind
    for address in addresses:
        lab.unbind(address)


def values(board, folder):
    found = {}
    for sensor in kernel.list_kernel_sensors(board):
        if Path(sensor.path).resolve().is_relative_to(folder.resolve()):
            reading = kernel.read_kernel_sensor(board, sensor)
            found.setdefault(sensor.quantity, []).append(reading.problem or reading.value)
    return found


def test_the_bus_of_the_header_is_told_apart(board):
    assert {a.number: (a.name, a.header) for a in board.adapters()}[1] == ("bcm2835 (i2c@7e804000)", True)


def test_scan_finds_what_qemu_has_wired(bus):
    assert [a for a in range(0x08, 0x78) if bus.probe(a) == "present"] == sorted(PARTS)


def test_repeated_start_and_a_value_changed_outside(bus):
    qom_set("tmp105", "temperature", 31_500)

    def celsius():
        return struct.unpack(">h", bus.transfer(0x48, [I2CWrite(b"\0"), I2CRead(2)])[0])[0] / 256

    lab.wait_for(lambda: celsius() == 31.5, "the thermometer shows what QEMU was told")


def test_an_absent_part(bus):
    with pytest.raises(DeviceMissing, match="0x33 on /dev/i2c-1 does not answer"):
        bus.transfer(0x33, [I2CWrite(b"\0"), I2CRead(1)])


def test_an_eeprom_with_16_bit_addresses(bus):
    data = bytes(range(64))
    bus.transfer(0x50, [I2CWrite(b"\x01\x00" + data)])
    assert bus.transfer(0x50, [I2CWrite(b"\x01\x00"), I2CRead(64)]) == [data]


def test_a_thermometer_by_the_kernel_and_by_us(bus, board, drivers, bound):
    qom_set("tmp105", "temperature", -12_500)
    folder = bound("lm75", "tmp105", 0x48)
    of_kernel = lab.wait_for(lambda: values(board, folder) == {"temperature": [-12.5]} and -12.5, "the kernel reads it")
    assert (bus.probe(0x48), bus.holder(0x48)) == ("busy", "lm75")
    with pytest.raises(BusFault, match="in use by a kernel driver"):
        bus.transfer(0x48, [I2CWrite(b"\0"), I2CRead(2)])
    lab.unbind(0x48)
    (reading,) = drivers.measure("part", WiredPart("lm75", 1, 0x48))
    lab.bind("tmp105", 0x48)
    assert (reading.problem, reading.value) == ("", of_kernel)


def test_thermometers_with_several_channels(board, bound):
    qom_set("tmp421", "temperature0", 21_000)
    qom_set("tmp421", "temperature1", -5_000)
    folder = bound("tmp421", "tmp421", 0x4D)
    near = [pytest.approx(21.0, abs=0.07), pytest.approx(-5.0, abs=0.07)]
    lab.wait_for(lambda: values(board, folder).get("temperature") == near, "the kernel reads both channels")


def test_a_barometer_by_the_kernel_and_by_its_registers(bus, board, bound):
    """QEMU's DPS310 always holds one raw value; DPS310 datasheet, sections 4.9.1, 7 (registers 0x03, 0x10) and 8.11."""
    raw = int.from_bytes(bus.transfer(0x77, [I2CWrite(b"\x03"), I2CRead(3)])[0], "big", signed=True)
    trimming = int.from_bytes(bus.transfer(0x77, [I2CWrite(b"\x10"), I2CRead(3)])[0], "big")
    offset, slope = ((word ^ 0x800) - 0x800 for word in (trimming >> 12, trimming & 0xFFF))  # 12 bits with a sign
    celsius = offset / 2 + slope * raw / 524_288
    of_kernel = values(board, bound("dps310", "dps310", 0x77))
    assert of_kernel["temperature"] == [pytest.approx(celsius, abs=0.01)]
    assert of_kernel["pressure"] == [pytest.approx(929.5, abs=1)]


def test_the_processor_is_warm(board):
    sensors = [s for s in kernel.list_kernel_sensors(board) if s.name == "cpu"]
    assert [kernel.read_kernel_sensor(board, s).value for s in sensors] == [pytest.approx(25, abs=1)]
    assert sensors[0].is_internal


def test_lines_have_their_names_on_the_header(board):
    assert GPIO in [chip.label for chip in board.gpio_chips()]
    with gpiod.Chip("/dev/gpiochip0") as chip:
        names = [chip.get_line_info(n).name or "" for n in range(chip.get_info().num_lines)]
    assert [line.name for line in board.lines(GPIO)] == names
    assert len(names) == 54


def test_an_output_reads_back_and_is_exclusive(board):
    line = board.line_out(GPIO, 17, 1)
    seen = [line.get()]
    line.set(0)
    seen.append(line.get())
    line.set(1)
    with pytest.raises(OSError, match="busy"):
        gpiod.request_lines("/dev/gpiochip0", config={17: None})
    line.close()
    assert seen == [1, 0]


def test_the_level_after_a_process_was_killed(board, record_property):
    """Told, not judged: it is the controller's affair, and the reason why outputs have a supervisor."""
    lab.kill_a_driver_of(GPIO, 17, lambda: board.lines(GPIO)[17].output)
    lab.wait_for(lambda: not board.lines(GPIO)[17].consumer, "the kernel takes the line back")
    record_property("after kill -9 the line is an", "output" if board.lines(GPIO)[17].output else "input")
    with gpiod.request_lines("/dev/gpiochip0", config={17: None}) as request:
        record_property("at level", int(request.get_value(17) == Value.ACTIVE))


def test_spi_passes_bytes(board):
    """Nothing is wired, and QEMU answers zeros; what counts is that the real driver takes mode, clock and length."""
    device = board.spi(0, 0)
    for mode in range(4):
        assert device.transfer([SpiTransfer(bytes(64)), SpiTransfer(b"\x01", 10)], SpiSettings(mode, 1_000_000)) == [
            bytes(64),
            b"\0",
        ]


def test_the_uart_answers_from_outside(board):
    assert "/dev/ttyAMA0" in [port.path for port in board.ports()]
    port = board.serial("/dev/ttyAMA0", SerialSettings(115_200))
    port.write(b"ECHO hello uart\n")
    assert port.read(11, 5.0) == b"HELLO UART\n"
    port.close()


def test_the_console_is_not_for_us(board):
    with pytest.raises(BusFault, match="the Linux console"):
        board.serial("/dev/ttyS1", SerialSettings(115_200))
