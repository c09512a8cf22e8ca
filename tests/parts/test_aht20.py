"""The AHT20 and AHT10 driver against answers of a real part and the simulated ones."""

import pytest
from part_bench import Answers, driver, mounted, one_line, sent
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimAHT10, SimAHT20

aht20 = driver("aht20")
AHT10 = {"crc": 0.0}
# Seven bytes as a real AHT20 sent them, checksum included.
REAL = bytes.fromhex("1c 3b 5e 86 88 b2 d2")


def test_an_answer_of_a_real_part():
    part = mounted("aht20", Answers(b"\x18", REAL))
    assert aht20.read(part) == {
        "temperature": pytest.approx(31.674576, abs=1e-5),
        "humidity": pytest.approx(23.191071, abs=1e-5),
    }


@each_row(
    ("data", "celsius", "percent"),
    [("18 80 00 06 00 00", 25.0, 50.0), ("18 00 00 04 00 00", 0.0, 0.0), ("18 ff ff f4 00 00", 0.0, 99.9999)],
)
def test_the_formulas_of_section_6(data, celsius, percent):
    """AHT20 product manual, section 6: RH = S / 2^20 * 100, T = S / 2^20 * 200 - 50."""
    assert aht20.decode(bytes.fromhex(data)) == {
        "temperature": celsius,
        "humidity": pytest.approx(percent, abs=1e-4),
    }


@each_row(("make", "options"), [(SimAHT20, {}), (SimAHT10, AHT10)])
@each_row("celsius", [-39.9, 0.0, 20.5, 84.9])
@each_row("percent", [0.0, 33.3, 99.9])
def test_a_reading_agrees_with_the_scene(make, options, celsius, percent):
    part = mounted("aht20", make, {"temperature": celsius, "humidity": percent}, **options)
    assert aht20.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.0002),
        "humidity": pytest.approx(percent, abs=0.0001),
    }


def test_the_exact_messages_of_one_reading():
    part = mounted("aht20", SimAHT20)
    aht20.read(part)
    assert sent(part) == [I2CRead(1), I2CWrite(b"\xac\x33\x00"), I2CRead(7)]
    assert not part.doubts()


@each_row(
    ("make", "options", "command", "length"),
    [(SimAHT20, {}, b"\xbe\x08\x00", 7), (SimAHT10, AHT10, b"\xe1\x08\x00", 6)],
)
def test_an_uncalibrated_part_is_initialised_with_its_own_command(make, options, command, length):
    part = mounted("aht20", lambda scene: make(scene, 0x10), **options)
    aht20.read(part)
    assert sent(part) == [I2CRead(1), I2CWrite(command), I2CRead(1), I2CWrite(b"\xac\x33\x00"), I2CRead(length)]
    aht20.read(part)
    assert I2CWrite(command) not in sent(part)


def test_an_aht10_is_read_with_a_note_and_only_when_it_is_said_to_be_one():
    part = mounted("aht20", SimAHT10, **AHT10)
    aht20.read(part)
    assert ("no checksum" in part.notes(), part.doubts()) == (True, "")
    with pytest.raises(BusFault, match="crc = 0"):
        aht20.read(mounted("aht20", SimAHT10))


@each_row(
    ("answers", "kind", "said"),
    [
        ((b"\x18", REAL[:6] + b"\xd3"), BusFault, "wrong checksum"),
        ((b"\x18", REAL[:1] + b"\x3a" + REAL[2:]), BusFault, "wrong checksum"),
        ((b"\xff",), ValueError, "0xFF"),
        ((b"\x00" * 7,), ValueError, "stays uncalibrated"),
        ((b"\x18", b"\x98" + REAL[1:]), ValueError, "did not finish"),
    ],
)
def test_what_is_no_measurement_is_said_in_one_line(answers, kind, said):
    with pytest.raises(kind, match=said) as error:
        aht20.read(mounted("aht20", Answers(*answers)))
    assert one_line(error)


@each_row("data", ["18 00 00 00 00 00", "18 00 00 0f ff ff"])
def test_a_temperature_that_the_part_cannot_measure_is_refused(data):
    with pytest.raises(ValueError, match="outside its -40 to 85"):
        aht20.decode(bytes.fromhex(data))


def test_nothing_at_the_address():
    with pytest.raises(DeviceMissing, match="does not answer"):
        aht20.read(mounted("aht20", SimAHT20, fault="nack"))


def test_the_simulated_part_is_busy_while_it_measures():
    part = mounted("aht20", SimAHT20)
    part.write(0xAC, 0x33, 0x00)
    assert part.read(1) == b"\x98"
    part.sleep(0.08)
    assert part.read(1) == b"\x18"
