"""PCA9685: NXP's prescaler example, duties, waking, and the simulated part."""

import pytest
from part_bench import Fixed, Stuck, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.others import SimPCA9685

pca9685 = driver("pca9685")


def test_the_datasheets_prescaler():
    """Section 7.3.5: 200 Hz is 30 (0x1E); 0x03 is 1526 Hz, and 0xFF is 24 Hz, rounded."""
    assert [pca9685.compute_prescale(hertz) for hertz in (200, 1526, 23.84)] == [0x1E, 0x03, 0xFF]
    assert [pca9685.compute_prescale(hertz) for hertz in (50, 24, 10, 5000)] == [121, 253, 0xFF, 0x03]


@each_row(
    ("on", "off", "duty"),
    # Section 7.3.3, examples 1 and 2: on at 409 for 819 counts; on at 3685, off at 3275 of the next cycle.
    [
        *((409, 1228, 819 / 4096), (3685, 3275, 3686 / 4096), (0, 2048, 0.5), (7, 7, 0)),
        *((0, 0x1000, 0), (0x1000, 0, 1), (0x1000, 0x1000, 0), (0x1000, 5, 1), (0, 0x1005, 0)),
    ],
)
def test_counts_and_full_bits(on, off, duty):
    assert pca9685.decode(on, off) == duty


@each_row("level", [0, 0.00001, 1 / 4096, 0.25, 0.5, 0.9999, 1])
def test_a_duty_is_kept_to_a_4096th(level):
    assert pca9685.decode(*pca9685.encode(level)) == pytest.approx(level, abs=1 / 8192)


def test_it_is_found_where_it_can_be_and_not_at_the_all_call_address():
    assert (pca9685.ADDRESSES[0], pca9685.ADDRESSES[-1], len(pca9685.ADDRESSES)) == (0x40, 0x77, 55)
    assert 0x70 not in pca9685.ADDRESSES


def test_driving_a_part_fresh_from_power_on():
    handle, part, clock = simulated("pca9685", SimPCA9685, frequency_hz=50)
    pca9685.drive(handle, 3, 0.25)
    assert messages(handle) == ["w 00", "r 1", "w fe", "r 1", "w fe79", "w 0031", "w 1200000004", "w 0021"]
    assert clock.slept == [0.0005]
    assert [part.duty(n) for n in range(16)] == [0.25 if n == 3 else 0 for n in range(16)]
    assert part.frequency == pytest.approx(50, rel=0.01)


def test_driving_a_part_that_runs_sends_its_counts_only_and_keeps_its_frequency():
    handle, part, clock = simulated("pca9685", SimPCA9685)
    pca9685.drive(handle, 0, 0.5)
    handle.bus.log.clear()
    handle.options = {"frequency_hz": 1000.0}
    pca9685.drive(handle, 15, 1)
    assert messages(handle) == ["w 00", "r 1", "w fe", "r 1", "w 4200100000"]
    assert (part.duty(0), part.duty(15), part.frequency) == (0.5, 1, pytest.approx(200, rel=0.02))
    assert len(clock.slept) == 1


def test_a_part_that_runs_without_auto_increment_gets_it():
    handle, part, _ = simulated("pca9685", SimPCA9685)
    handle.write(0, 0x01)
    pca9685.drive(handle, 1, 0.75)
    assert messages(handle)[-2:] == ["w 0021", "w 0a0000000c"]
    assert part.duty(1) == 0.75


@each_row("level", [0, 0.1, 0.5, 1])
@each_row("channel", [0, 7, 15])
def test_the_read_back(channel, level):
    handle, part, _ = simulated("pca9685", SimPCA9685)
    pca9685.drive(handle, channel, level)
    assert pca9685.level(handle, channel) == part.duty(channel) == pytest.approx(level, abs=1 / 8192)


@each_row("auto", [True, False])
def test_reading_all_duties_writes_nothing(auto):
    handle, part, _ = simulated("pca9685", SimPCA9685)
    for channel in range(16):
        pca9685.drive(handle, channel, channel / 15)
    if not auto:
        handle.write(0, 0x01)
    before = bytes(part.registers)
    handle.bus.log.clear()
    assert pca9685.read(handle) == pytest.approx({f"duty c{n}": 100 * n / 15 for n in range(16)}, abs=0.02)
    assert bytes(part.registers) == before
    found = messages(handle)
    assert all(len(text) == 4 for text in found if text.startswith("w"))
    assert len(found) == (6 if auto else 4 + 128)
    assert not handle.doubts()


def test_a_part_that_sleeps_shows_nothing_of_its_duties():
    handle, _, _ = simulated("pca9685", SimPCA9685)
    assert pca9685.level(handle, 2) == 0
    pca9685.drive(handle, 2, 0.5)
    handle.write(0, 0x31)
    assert pca9685.read(handle)["duty c2"] == 50
    assert "sleeps" in handle.doubts()
    with pytest.raises(ValueError, match=r"the part sleeps, so channel 2 does not show its duty of 0\.500"):
        pca9685.level(handle, 2)
    pca9685.drive(handle, 2, 0)
    assert pca9685.level(handle, 2) == 0


@each_row(
    ("channel", "level", "said"),
    [
        (16, 0, "channel 16 does not exist: a PCA9685 has 0 to 15"),
        (-1, 0, "channel -1 does not exist"),
        (0, 1.01, "a duty is 0 to 1"),
        (0, -0.1, "a duty is 0 to 1"),
        (0, float("nan"), "a duty is 0 to 1"),
    ],
)
def test_what_cannot_be_driven_is_refused_before_anything_is_sent(channel, level, said):
    handle, _, _ = simulated("pca9685", SimPCA9685)
    with pytest.raises(ValueError, match=said):
        pca9685.drive(handle, channel, level)
    assert messages(handle) == []


@each_row("byte", [0x00, 0xFF])
def test_a_held_data_line(byte):
    part = Stuck(byte)
    refused("pca9685", part, "not a PCA9685")
    handle, _, _ = simulated("pca9685", lambda _: part)
    with pytest.raises(ValueError, match="not a PCA9685"):
        pca9685.drive(handle, 0, 0.5)
    assert {len(data) for data in part.written} == {1}


def test_another_part_that_looks_like_it_at_first():
    refused("pca9685", Fixed({0: b"\x21", 0xFE: b"\x1e", 6: b"\xff" * 64}), "a channel's registers read ff ff ff ff")


# --- the simulated part ---


def test_the_simulated_prescaler_is_locked_while_it_runs_and_not_below_3():
    handle, part, _ = simulated("pca9685", SimPCA9685)
    handle.write(0xFE, 0)
    assert part.registers[0xFE] == 3
    handle.write(0, 0x01)
    handle.write(0xFE, 100)
    assert part.registers[0xFE] == 3


def test_the_simulated_restart():
    handle, part, _ = simulated("pca9685", SimPCA9685)
    pca9685.drive(handle, 0, 0.5)
    handle.write(0, 0x31)
    assert handle.registers(0, 1)[0] == 0xB1
    handle.write(0, 0x21)
    assert part.duty(0) == 0
    handle.write(0, 0xA1)
    assert (part.duty(0), handle.registers(0, 1)[0]) == (0.5, 0x21)


def test_the_simulated_registers_for_all_channels_at_once():
    handle, part, _ = simulated("pca9685", SimPCA9685)
    handle.write(0, 0x21)
    handle.write(0xFA, 0, 0, 0, 8)
    assert {part.duty(n) for n in range(16)} == {0.5}
    assert handle.registers(0xFA, 4) == bytes(4)
    handle.write(0xFD, 0x10)
    assert {part.duty(n) for n in range(16)} == {0}
