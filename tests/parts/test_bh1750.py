"""BH1750: ROHM's example, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Stuck, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.analog import SimBH1750

bh1750 = driver("bh1750")
USUAL = ["w 42", "w 65"]


def test_the_datasheets_example():
    """Technical note 11046EDT01, section Measurement sequence: 0x8390 is 28,067 lx."""
    assert bh1750.decode(0x8390) == pytest.approx(28_067, abs=1)


@each_row(("time", "fine", "counts_per_lux"), [(69, False, 1.2), (69, True, 2.4), (138, False, 2.4)])
def test_measuring_time_and_mode_2_make_it_more_sensitive(time, fine, counts_per_lux):
    assert bh1750.decode(600, time, fine=fine) == pytest.approx(600 / counts_per_lux)


@each_row("lux", [0.5, 3, 80, 84, 300, 24_003, 54_000, 54_700, 100_000, 121_000])
def test_readings_agree_with_the_scene(lux):
    handle, _, _ = simulated("bh1750", SimBH1750, {"light": lux})
    step = 0.5 if lux < 80 else 2
    assert bh1750.read(handle)["light"] == pytest.approx(lux, abs=step)
    assert not handle.doubts()


@each_row(
    ("lux", "wanted", "slept"),
    [
        (300, [*USUAL, "w 20", "r 2"], [0.18]),
        (5, [*USUAL, "w 20", "r 2", *USUAL, "w 21", "r 2"], [0.18, 0.18]),
        (60_000, [*USUAL, "w 20", "r 2", "w 40", "w 7f", "w 20", "r 2", *USUAL], [0.18, pytest.approx(0.0809, abs=1e-4)]),
    ],
)  # fmt: skip
def test_the_messages_of_one_read(lux, wanted, slept):
    handle, part, clock = simulated("bh1750", SimBH1750, {"light": lux})
    bh1750.read(handle)
    assert (messages(handle), clock.slept) == (wanted, slept)
    assert (part.mode, part.time) == (0, 69)


def test_a_measuring_time_left_behind_by_somebody_else_does_no_harm():
    handle, part, _ = simulated("bh1750", SimBH1750, {"light": 300})
    handle.write(0x47)
    handle.write(0x7E)
    assert part.time == 254
    assert bh1750.read(handle)["light"] == pytest.approx(300, abs=1)


def test_too_bright_and_a_line_held_high():
    handle, part, _ = simulated("bh1750", SimBH1750, {"light": 130_000})
    with pytest.raises(ValueError, match="more than 121,000 lx, or SDA is not connected"):
        bh1750.read(handle)
    assert part.time == 69
    refused("bh1750", Stuck(0xFF), "0xFF only")


def test_darkness_counts_and_is_said_to_look_like_a_line_held_low():
    handle, _, _ = simulated("bh1750", SimBH1750, {"light": 0})
    assert bh1750.read(handle) == {"light": 0}
    assert "it is dark, or SDA is held low" in handle.notes()
    assert not handle.doubts(), "a rule that waits for the night has to see it"


def test_the_simulated_part_takes_its_time():
    handle, part, clock = simulated("bh1750", SimBH1750, {"light": 1000})
    handle.write(0x20)
    clock.sleep(0.1)
    assert handle.read(2) == b"\0\0"
    clock.sleep(0.03)
    assert handle.read(2) == (1200).to_bytes(2, "big")
    handle.write(0x10)
    part.scene.values["light"] = 2000
    clock.sleep(0.13)
    assert handle.read(2) == (2400).to_bytes(2, "big")
    assert part.mode == 0x10
