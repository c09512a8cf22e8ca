"""The SGP30 driver against the simulated part."""

import pytest
from part_bench import Answers, driver, mounted, one_line, sent
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimSGP30, append_checksums

sgp30 = driver("sgp30")
FEATURES, START, MEASURE = (
    (I2CWrite(b"\x20\x2f"), I2CRead(3)),
    I2CWrite(b"\x20\x03"),
    (I2CWrite(b"\x20\x08"), I2CRead(6)),
)


def test_words_are_the_values():
    """Datasheet SGP30, section "Air quality signals": CO2eq in ppm first, then TVOC in ppb."""
    assert sgp30.decode(400, 0) == {"co2": 400, "tvoc": 0}
    assert sgp30.decode(60_000, 60_000) == {"co2": 60_000, "tvoc": 60_000}


@each_row(
    ("raw", "said"),
    [
        *(((co2, 0), "ppm, outside its 400 to 60000") for co2 in (399, 0, 60_001)),
        ((400, 60_001), "ppb, outside its 0 to 60000"),
    ],
)
def test_what_the_part_cannot_report_is_refused(raw, said):
    with pytest.raises(ValueError, match=said):
        sgp30.decode(*raw)


def test_the_first_reading_starts_the_part_and_says_that_it_is_warming_up():
    part = mounted("sgp30", SimSGP30, {"co2": 900, "tvoc": 120})
    assert sgp30.read(part) == {"co2": 400, "tvoc": 0}
    assert sent(part) == [*FEATURES, *MEASURE, START, *MEASURE]
    assert part.doubts().startswith("warming up")


def test_a_part_that_is_read_each_second_is_not_started_again_and_not_doubted_after_15_s():
    part = mounted("sgp30", SimSGP30, {"co2": 900, "tvoc": 120})
    doubts = []
    for _ in range(20):
        values = sgp30.read(part)
        doubts.append(part.doubts())
        part.sleep(0.98)
    assert values == {"co2": 900, "tvoc": 120}
    assert [bool(doubt) for doubt in doubts] == [True] * 16 + [False] * 4
    assert sent(part).count(START) == 1


def test_a_part_that_another_process_has_started_is_not_started_anew():
    part = mounted("sgp30", SimSGP30, {"co2": 900, "tvoc": 120})
    part.words(0x2003, 0, 0.010)
    part.sleep(16)
    sent(part)
    assert sgp30.read(part) == {"co2": 900, "tvoc": 120}
    assert (START in sent(part), part.doubts()) == (False, "")


def test_a_part_that_is_read_seldom_counts_and_is_said_to_be_less_exact():
    part = mounted("sgp30", SimSGP30, {"co2": 900})
    sgp30.read(part)
    part.doubts()
    part.sleep(60)
    assert sgp30.read(part)["co2"] == 900
    assert ("once per second" in part.notes(), part.doubts()) == (True, "")


def test_a_part_that_failed_is_started_again():
    part = mounted("sgp30", SimSGP30)
    sgp30.read(part)
    present = part.bus.parts.pop(0x58)
    with pytest.raises(DeviceMissing):
        sgp30.read(part)
    part.bus.parts[0x58] = present
    sent(part)
    sgp30.read(part)
    assert START in sent(part)


@each_row(
    ("fault", "kind", "said"),
    [
        ("low", ValueError, "not that of an SGP30"),
        ("high", ValueError, "not that of an SGP30"),
        ("nack", DeviceMissing, "does not answer"),
    ],
)
def test_faults_of_the_wiring_are_said_in_one_line_and_start_nothing(fault, kind, said):
    part = mounted("sgp30", SimSGP30, fault=fault)
    with pytest.raises(kind, match=said) as error:
        sgp30.read(part)
    assert one_line(error)
    assert START not in sent(part)


def test_a_wrong_checksum_of_a_measurement():
    part = mounted("sgp30", Answers(append_checksums([0x0022]), append_checksums([400, 0])[:5] + b"\0"))
    with pytest.raises(BusFault, match="wrong checksum"):
        sgp30.read(part)


@each_row(("features", "name"), [(0x0022, "SGP30"), (0x0020, "SGP30"), (0x1004, "")])
def test_a_part_is_identified_by_its_product_type(features, name):
    """An SGPC3 (product type 1) has the same address."""
    assert sgp30.identify(mounted("sgp30", Answers(append_checksums([features])))) == name


def test_the_simulated_part_shows_nothing_new_until_15_s_after_its_start():
    part = mounted("sgp30", SimSGP30, {"co2": 900})
    part.sleep(100)
    assert part.words(0x2008, 2, 0.012) == [400, 0]
    part.words(0x2003, 0, 0.010)
    part.sleep(14)
    assert part.words(0x2008, 2, 0.012) == [400, 0]
    part.sleep(1)
    assert part.words(0x2008, 2, 0.012) == [900, 35]
