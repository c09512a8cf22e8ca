"""MAX31855 against tables 4 and 5 of its datasheet (19-5793), and its faults."""

import pytest
from part_bench import driver
from rows import each_row
from wire_bench import Answers, sent, spi

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts.temperature import SimMAX31855

max31855 = driver("max31855")
ROOM = 0x190 << 4  # 25 °C inside


@each_row(
    ("bits", "celsius"),
    [
        ("01100100000000", 1600.00),
        ("00111110100000", 1000.00),
        ("00000110010011", 100.75),
        ("00000001100100", 25.00),
        ("00000000000000", 0.00),
        ("11111111111111", -0.25),
        ("11111111111100", -1.00),
        ("11110000011000", -250.00),
    ],
)
def test_table_4_thermocouple_temperature(bits, celsius):
    assert max31855.decode(int(bits, 2) << 18 | ROOM) == {"temperature": celsius, "temperature inside": 25}


@each_row(
    ("bits", "celsius"),
    [
        ("011001001001", 100.5625),
        ("000110010000", 25.0),
        ("000000000000", 0.0),
        ("111111111111", -0.0625),
        ("111111110000", -1.0),
        ("111011000000", -20.0),
    ],
)
def test_table_5_internal_temperature(bits, celsius):
    assert max31855.decode(1 << 18 | int(bits, 2) << 4)["temperature inside"] == celsius


# Table 5 also shows +127 and -55 °C, where the chip is not specified to work.
@each_row("bits", ["011111110000", "110010010000"])
def test_a_chip_outside_its_range(bits):
    with pytest.raises(ValueError, match="more than a MAX31855 can measure"):
        max31855.decode(1 << 18 | int(bits, 2) << 4)


@each_row(
    ("faults", "said"),
    [
        (0b001, "^the thermocouple is open"),
        (0b010, "^the thermocouple is shorted to GND$"),
        (0b100, "^the thermocouple is shorted to VCC$"),
        (0b110, "shorted to GND; the thermocouple is shorted to VCC"),
    ],
)
def test_each_fault_has_its_words(faults, said):
    part = spi("max31855", SimMAX31855)
    part.device.part.faults = faults
    with pytest.raises(ValueError, match=said):
        max31855.read(part)


@each_row(
    ("word", "said"),
    [
        (0x0000_0000, "no MAX31855 answers"),
        (0xFFFF_FFFF, "no MAX31855 answers"),
        (0x0190_0000 | 1 << 17 | ROOM, "no MAX31855 answers"),
        (0x0190_0000 | 1 << 3 | ROOM, "no MAX31855 answers"),
        (0x0191_0000 | ROOM, "contradict"),
        (0x0190_0001 | ROOM, "contradict"),
        (0x7FFC_0000 | ROOM, "more than"),
        (0x8000_0000 | ROOM, "more than"),
    ],
)
def test_what_is_no_answer(word, said):
    with pytest.raises(ValueError, match=said) as caught:
        max31855.read(spi("max31855", Answers(word.to_bytes(4, "big"))))
    assert "\n" not in str(caught.value)


@each_row("celsius", [-200, -40.3, -0.2, 0, 0.2, 21.37, 99.9, 850, 1371])
@each_row("inside", [-39.9, 0.05, 25, 84.9])
def test_readings_agree_with_the_scene(celsius, inside):
    part = spi("max31855", SimMAX31855, {"temperature": celsius, "temperature inside": inside})
    assert max31855.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.125),
        "temperature inside": pytest.approx(inside, abs=0.0313),
    }
    assert sent(part) == [bytes(4)]
    assert part.device.log[0][1] == SpiSettings(0, 1_000_000)


@each_row("fault", ["unplugged", "high", "low"])
def test_a_missing_part(fault):
    with pytest.raises(ValueError, match="no MAX31855 answers"):
        max31855.read(spi("max31855", SimMAX31855, fault=fault))


def test_the_model_converts_ten_times_a_second():
    part = spi("max31855", SimMAX31855, {"temperature": lambda seconds: 10 * (seconds % 100)})
    first = max31855.read(part)
    part.sleep(0.09)
    assert max31855.read(part) == first
    part.sleep(1.0)
    assert max31855.read(part)["temperature"] == pytest.approx(first["temperature"] + 10.9, abs=0.25)


def test_the_kernels_view_of_the_model():
    """maxim_thermocouple takes bit 16 as the fault, and shifts by 18 and by 4."""
    word = int.from_bytes(SimMAX31855(_scene(25.5, 22.0)).exchange(bytes(4), SpiSettings()), "big")
    assert (word >> 16 & 1, word >> 18, word >> 4 & 0xFFF) == (0, 102, 352)


def _scene(celsius, inside):
    return spi("max31855", SimMAX31855, {"temperature": celsius, "temperature inside": inside}).device.part._scene
