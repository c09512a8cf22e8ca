"""The SCD4x driver against Sensirion's example and the simulated part."""

import pytest
from part_bench import Answers, driver, mounted, one_line, refusing, sent, slept
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimSCD4x, append_checksums

scd4x = driver("scd4x")
VALUES = {"co2": 812, "temperature": 23.4, "humidity": 41.0}
NEAR = {
    "co2": 812,
    "temperature": pytest.approx(23.4, abs=0.002),
    "humidity": pytest.approx(41.0, abs=0.001),
}
READY, MEASUREMENT = (I2CWrite(b"\xe4\xb8"), I2CRead(3)), (I2CWrite(b"\xec\x05"), I2CRead(9))
SERIAL = (I2CWrite(b"\x36\x82"), I2CRead(9))


def test_the_datasheets_example():
    """Datasheet SCD4x, section 3.5.2, table "read_measurement": 500 ppm, 25 °C, 37 %, with their checksums."""
    values = scd4x.decode(0x01F4, 0x6667, 0x5EB9)
    assert values == {"co2": 500, "temperature": pytest.approx(25, abs=0.01), "humidity": pytest.approx(37, abs=0.01)}
    assert append_checksums([0x01F4, 0x6667, 0x5EB9]) == bytes.fromhex("01f433 6667a2 5eb93c")


@each_row(
    ("raw", "said"),
    [
        *(((co2, 26_000, 0), "ppm, outside its 1 to 40000") for co2 in (0, 40_001)),
        *(((500, temperature, 0), "°C, outside its -10 to 60") for temperature in (0, 65_535)),
    ],
)
def test_what_the_part_cannot_report_is_refused(raw, said):
    with pytest.raises(ValueError, match=said):
        scd4x.decode(*raw)


@each_row("co2", [1, 400, 5000, 40_000])
@each_row("celsius", [-9.9, 0.0, 59.9])
def test_a_reading_agrees_with_the_scene(co2, celsius):
    part = mounted("scd4x", SimSCD4x, {"co2": co2, "temperature": celsius})
    values = scd4x.read(part)
    assert (values["co2"], values["temperature"]) == (co2, pytest.approx(celsius, abs=0.002))


def test_an_idle_part_is_started_and_left_measuring():
    part = mounted("scd4x", SimSCD4x, VALUES)
    assert scd4x.read(part) == NEAR
    messages = sent(part)
    assert messages[:5] == [*READY, *SERIAL, I2CWrite(b"\x21\xb1")]
    assert messages[5:-2] == [*READY] * ((len(messages) - 7) // 2)
    assert messages[-2:] == [*MEASUREMENT]
    assert 5 <= sum(slept(part)) < 7
    assert ("within the last minute" in part.notes(), part.doubts()) == (True, "")
    slept(part).clear()
    for _ in range(20):
        assert scd4x.read(part) == NEAR
        part.sleep(5)
    assert sum(slept(part)) < 101, "none of them waits"
    assert not {I2CWrite(b"\x21\xb1"), I2CWrite(b"\x3f\x86")} & set(sent(part))
    part.notes()
    assert (scd4x.read(part), part.notes()) == (NEAR, "")


def test_a_part_that_has_a_measurement_ready_is_only_read():
    part = mounted("scd4x", SimSCD4x, VALUES)
    part.write(0x21, 0xB1)
    part.sleep(5.1)
    sent(part)
    assert scd4x.read(part) == NEAR
    assert sent(part) == [*READY, *MEASUREMENT]
    assert not part.doubts()


@each_row(("command", "longest"), [(b"\x21\xb1", 6), (b"\x21\xac", 31)])
def test_a_part_that_is_measuring_is_waited_for_and_not_stopped(command, longest):
    part = mounted("scd4x", SimSCD4x, VALUES)
    part.write(*command)
    slept(part).clear()
    assert scd4x.read(part) == NEAR
    assert sum(slept(part)) < longest
    assert not {I2CWrite(b"\x21\xb1"), I2CWrite(b"\x3f\x86")} & set(sent(part)[1:])
    with pytest.raises(DeviceMissing):
        part.write(0x36, 0x82)


def test_a_part_that_gives_no_measurement_is_given_up_and_stopped():
    class Weak(SimSCD4x):
        def has_new(self, *, fetch=False):
            return False

    part = mounted("scd4x", Weak)
    with pytest.raises(ValueError, match="no measurement within 6 s") as error:
        scd4x.read(part)
    assert one_line(error)
    assert sent(part)[-1] == I2CWrite(b"\x3f\x86")


@each_row(
    ("fault", "kind", "said"),
    [
        ("low", BusFault, "wrong checksum"),
        ("high", BusFault, "wrong checksum"),
        ("bits", BusFault, "wrong checksum"),
        ("nack", DeviceMissing, "does not answer"),
    ],
)
def test_faults_of_the_wiring_are_said_in_one_line_and_start_nothing(fault, kind, said):
    part = mounted("scd4x", SimSCD4x, fault=fault)
    with pytest.raises(kind, match=said) as error:
        scd4x.read(part)
    assert one_line(error)
    assert I2CWrite(b"\x21\xb1") not in sent(part)


@each_row("measuring", [False, True])
@each_row("refused", range(1, 36))
def test_a_single_refusal_neither_makes_it_wait_nor_blames_the_supply(refused, measuring):
    part = mounted("scd4x", SimSCD4x, VALUES)
    if measuring:
        part.write(0x21, 0xB1)
    try:
        assert scd4x.read(refusing(part, refused)) == NEAR
    except DeviceMissing as error:
        assert "does not answer" in str(error)  # noqa: PT017 - where it strikes decides
    assert sum(slept(part)) < 8
    part.sleep(1)
    assert scd4x.read(refusing(part)) == NEAR, "whatever happened, the next reading is in order"
    assert sum(slept(part)) < 7


@each_row("refused", [3, 4])
def test_the_question_whether_it_measures_is_asked_twice(refused):
    part = refusing(mounted("scd4x", SimSCD4x, VALUES), refused)
    assert scd4x.read(part) == NEAR
    assert 5 <= sum(slept(part)) < 7


def test_a_second_refusal_is_said_as_what_it_is():
    part = refusing(mounted("scd4x", SimSCD4x, VALUES), 3, 4)
    with pytest.raises(ValueError, match=r"did not answer twice .* no measurement within 31 s: .*wiring") as error:
        scd4x.read(part)
    assert one_line(error)
    assert "supply" not in str(error.value)


def test_no_command_that_stores_or_sets_anything_is_ever_sent():
    part = mounted("scd4x", SimSCD4x)
    scd4x.read(part)
    assert {segment.data for segment in sent(part) if isinstance(segment, I2CWrite)} == {
        *(b"\xe4\xb8", b"\x36\x82", b"\x21\xb1", b"\xec\x05"),
    }


@each_row("answer", [b"\0" * 3, b"\xff" * 3])
def test_another_part_is_not_identified(answer):
    assert not scd4x.identify(mounted("scd4x", Answers(answer)))


@each_row("measuring", [False, True])
def test_a_part_is_identified_idle_or_measuring(measuring):
    part = mounted("scd4x", SimSCD4x)
    if measuring:
        part.write(0x21, 0xB1)
    assert scd4x.identify(part) == "SCD4x"


def test_the_simulated_part_keeps_settings_and_refuses_them_while_it_measures():
    part = mounted("scd4x", SimSCD4x)
    part.write(0x24, 0x1D, *append_checksums([0x07E6]))
    part.sleep(0.002)
    assert part.words(0x2318, 1, 0.001) == [0x07E6]
    part.write(0x21, 0xB1)
    with pytest.raises(DeviceMissing):
        part.write(0x24, 0x1D, *append_checksums([0]))
    with pytest.raises(DeviceMissing):
        part.words(0xEC05, 3, 0.001)
