"""MAX31865 against table 9 of its datasheet (19-6478), IEC 60751, and a model of the chip."""

import math

import pytest
from part_bench import driver
from rows import each_row
from wire_bench import Answers, sent, spi

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts.temperature import SimMAX31865

max31865 = driver("max31865")


# Table 9: PT100 and 400 ohms. Its codes are rounded down from resistances of two decimals.
@each_row(
    ("celsius", "register"),
    [
        *((-200, 0x0BDA), (-175, 0x12B4), (-150, 0x196C), (-100, 0x2690), (-50, 0x3366), (-10, 0x3D7E), (0, 0x4000)),
        *((10, 0x4280), (20, 0x44FC), (50, 0x4C6A), (100, 0x58A4), (150, 0x64B0), (200, 0x708C), (250, 0x7C3A)),
    ],
)
def test_table_9(celsius, register):
    assert max31865.decode(register >> 1, 400, 100) == pytest.approx(celsius, abs=0.06)


# IEC 60751 (2008), table 1: the resistance of a PT100 in ohms.
@each_row(
    ("celsius", "ohms"),
    [
        (-200, 18.52),
        (-100, 60.26),
        (-50, 80.31),
        (0, 100.0),
        (100, 138.51),
        (400, 247.09),
        (600, 313.71),
        (850, 390.48),
    ],
)
@each_row("nominal", [100, 1000])
def test_iec_60751(celsius, ohms, nominal):
    code = round(ohms / 430 * 32_768)
    assert max31865.decode(code, 4.3 * nominal, nominal) == pytest.approx(celsius, abs=0.04)


@each_row("code", [0, 100, 1000, 32_767])
def test_what_is_no_platinum_thermometer(code):
    with pytest.raises(ValueError, match="no platinum thermometer of 100 Ω"):
        max31865.decode(code, 470, 100)


@each_row("celsius", [-199, -123.4, -40, -0.1, 0, 0.1, 21.37, 100, 333, 800])
@each_row(("reference", "nominal"), [(430, 100), (4300, 1000)])
@each_row(("wires", "mains"), [(2, 50), (3, 60), (4, 50)])
def test_readings_agree_with_the_scene(celsius, reference, nominal, wires, mains):
    options = {"reference_ohms": reference, "nominal_ohms": nominal, "wires": wires, "mains": mains}
    part = spi("max31865", SimMAX31865, {"temperature": celsius}, options)
    part.device.part = SimMAX31865(part.device.part._scene, reference, nominal)
    assert max31865.read(part) == {"temperature": pytest.approx(celsius, abs=0.05)}


@each_row(("wires", "mains", "bits"), [(2, 50, 0x01), (3, 50, 0x11), (4, 60, 0x00), (3, 60, 0x10)])
def test_the_exact_messages_of_one_read(wires, mains, bits):
    part = spi("max31865", SimMAX31865, options={"wires": wires, "mains": mains})
    max31865.read(part)
    assert sent(part) == [
        bytes(9),
        bytes([0x80, bits | 0x82]),
        bytes([0x80, bits | 0xA0]),
        bytes(9),
        bytes([0x80, 0x00]),
    ]
    assert part.device.log[0][1] == SpiSettings(1, 1_000_000)
    assert part.clock.slept == [0.010, 0.066]


def configured(part, value):
    part.device.part.exchange(bytes([0x80, value]), part.settings)


def configuration(part):
    return part.device.part.exchange(bytes(2), part.settings)[1]


@each_row("before", [0x00, 0x01, 0x10, 0x11, 0x81, 0x91])
@each_row("ohms", [110.0, math.inf, 0.0])
def test_the_configuration_is_put_back_whatever_happens(before, ohms):
    part = spi("max31865", SimMAX31865, {"resistance": ohms})
    configured(part, before)
    try:
        max31865.read(part)
    except ValueError:
        assert ohms != 110
    assert configuration(part) == before


def test_a_part_that_measures_continuously_is_only_read():
    part = spi("max31865", SimMAX31865, {"temperature": -12.5})
    configured(part, 0xC1)
    part.sleep(0.1)
    assert max31865.read(part) == {"temperature": pytest.approx(-12.5, abs=0.05)}
    assert sent(part) == [bytes(9)]
    assert part.doubts() == ""
    configured(part, 0xD1)
    max31865.read(part)
    assert "number of wires" in part.doubts()


@each_row(
    ("ohms", "inputs", "said"),
    [
        (math.inf, 0, "above the high threshold"),
        (0.0, 0, "below the low threshold: it is shorted"),
        (110.0, 0x20, "^REFIN- is above"),
        (110.0, 0x10, "^REFIN- is below"),
        (110.0, 0x08, "^RTDIN- is below"),
        (110.0, 0x04, "^over- or undervoltage"),
        (math.inf, 0x24, "high threshold.*; REFIN- is above.*; over- or under"),
    ],
)
def test_each_fault_has_its_words_and_goes_away_with_its_cause(ohms, inputs, said):
    part = spi("max31865", SimMAX31865, {"resistance": ohms})
    part.device.part.input_faults = inputs
    with pytest.raises(ValueError, match=said) as caught:
        max31865.read(part)
    assert "\n" not in str(caught.value)
    part.device.part.input_faults = 0
    part.device.part._scene.values["resistance"] = 100.0
    assert max31865.read(part) == {"temperature": pytest.approx(0, abs=0.05)}


@each_row("options", [{"wires": 2.5}, {"mains": 55}])
def test_options_that_do_not_exist_reach_no_bus(options):
    part = spi("max31865", SimMAX31865, options=options)
    with pytest.raises(ValueError, match="must be"):
        max31865.read(part)
    assert not sent(part)


@each_row("fault", ["unplugged", "high", "low"])
def test_a_missing_part_is_not_written_to(fault):
    part = spi("max31865", SimMAX31865, fault=fault)
    with pytest.raises(ValueError, match="no MAX31865 answers"):
        max31865.read(part)
    assert sent(part) == [bytes(9)]


@each_row(
    ("registers", "said"),
    [("01 4000 ffff 0000 00", "did not stay as written"), ("81 4001 ffff 0000 00", "fault without a name")],
)
def test_another_part(registers, said):
    with pytest.raises(ValueError, match=said):
        max31865.read(spi("max31865", Answers(b"\xff" + bytes.fromhex(registers))))


def test_the_kernels_way_with_the_model():
    """drivers/iio/temperature/max31865.c: bias on, 11 ms, one-shot with fault clear, 63 ms, the result, bias off."""
    part = spi("max31865", SimMAX31865, {"temperature": 0.0})
    configured(part, 0x81)
    part.sleep(0.011)
    configured(part, 0xA3)
    assert part.exchange(1, 0, 0)[1:] == bytes(2)
    assert configuration(part) == 0x81
    part.sleep(0.063)
    assert int.from_bytes(part.exchange(1, 0, 0)[1:], "big") >> 1 == 7620
    configured(part, 0x01)
    assert part.exchange(0, *bytes(8))[1:].hex() == "013b88ffff000000"


def test_the_model_needs_bias_for_a_while_and_mode_1_or_3():
    for settings in [(0x21,), (0x81, 0xA1)]:
        part = spi("max31865", SimMAX31865)
        for value in settings:
            configured(part, value)
        part.sleep(0.1)
        assert part.exchange(1, 0, 0)[1:] == b"\x00\x01"
    assert part.device.part.exchange(bytes(9), SpiSettings(3)) != b"\xff" * 9
    assert part.device.part.exchange(bytes(9), SpiSettings(0)) == b"\xff" * 9
