"""MCP3008 against its datasheet's timing diagram, and the model of it against the kernel's own bit layout."""

import pytest
from part_bench import driver
from rows import each_row
from wire_bench import Answers, sent, spi

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts.analog import SimMCP3008
from picoclaw.hw.sim.script import Scene

mcp3008 = driver("mcp3008")


def answer(bits):
    """Five bytes from the null bit on, as figure 5-2 of DS21295 draws them; the line floats before it."""
    return int(("1" * 13 + bits).ljust(40, "0"), 2).to_bytes(5, "big")


@each_row(
    ("bits", "value"),
    [
        ("0" + "1000000001" + "000000001", 513),
        ("0" + "1111111111" + "111111111", 1023),
        ("0" + "0000000000" + "000000000", 0),
        ("0" + "1100101000" + "001010011", 808),
        ("0" + "0000000001" + "000000000", 1),
    ],
)
def test_the_value_is_sent_twice(bits, value):
    assert mcp3008.decode(answer(bits)) == value


@each_row(
    ("bits", "said"),
    [
        ("1" + "1000000001" + "000000001", "null bit is 1"),
        ("0" + "1000000011" + "000000001", "not repeated"),
        ("0" + "1000000001" + "000000000", "not repeated"),
        ("0" + "1000000001" + "0000000011", "not repeated"),
        ("0" + "1" * 23, "not repeated"),
        ("0" + "110010100011" + "10001010011", "not repeated"),  # an MCP3208: twelve bits
    ],
)
def test_what_is_no_answer(bits, said):
    with pytest.raises(ValueError, match=said):
        mcp3008.decode(answer(bits))


@each_row("vref", [3.3, 5.0, 0.25])
def test_every_input_is_measured_to_one_step(vref):
    volts = {f"voltage a{n}": vref * (n * 0.137 + 0.01) for n in range(8)}
    part = spi("mcp3008", SimMCP3008, options={"vref_v": vref})
    part.device.part = SimMCP3008(Scene(part.clock, volts), vref)
    found = mcp3008.read(part)
    assert tuple(found) == mcp3008.QUANTITIES
    assert found == {name: pytest.approx(value, abs=vref / 1024) for name, value in volts.items()}
    assert part.doubts() == ""


@each_row(("volts", "code"), [(0, 0), (3.2, 992), (3.3, 1023), (5.0, 1023), (-0.3, 0)])
def test_the_ends_of_the_range(volts, code):
    found = mcp3008.read(spi("mcp3008", SimMCP3008, {"voltage": 0.1, "voltage a3": volts}))
    assert found["voltage a3"] == pytest.approx(code * 3.3 / 1024)


def test_the_exact_messages_of_one_read():
    part = spi("mcp3008", SimMCP3008, {"voltage": 1.0})
    mcp3008.read(part)
    assert sent(part) == [bytes([1, 0x80 + 0x10 * n, 0, 0, 0]) for n in range(8)]
    assert part.device.log[0][1] == SpiSettings(0, 1_000_000)


@each_row("fault", ["unplugged", "high", "bits"])
def test_a_missing_part_and_flipped_bits(fault):
    part = spi("mcp3008", SimMCP3008, {"voltage": 1.0}, fault=fault)
    for _ in range(20):
        with pytest.raises(ValueError, match=r"^(no MCP3008 answers|the value was not repeated)[^\n]+$"):
            mcp3008.read(part)


def test_nothing_in_the_socket_reads_as_ones():
    with pytest.raises(ValueError, match="no MCP3008 answers"):
        mcp3008.read(spi("mcp3008", None))


def test_a_line_held_low_cannot_be_told_from_grounded_inputs():
    part = spi("mcp3008", Answers(bytes(5)))
    assert set(mcp3008.read(part).values()) == {0}
    assert part.doubts().startswith("all eight inputs read exactly 0 V")


# --- the model, as the kernel's mcp320x driver speaks to it: one byte sent, two received ---


@each_row("channel", range(8))
def test_the_model_understands_the_kernels_layout(channel):
    part = SimMCP3008(Scene(lambda: 0.0, {f"voltage a{n}": 3.3 * (100 + n) / 1024 + 0.001 for n in range(8)}))
    rx = part.exchange(bytes([1 << 6 | 1 << 5 | channel << 2, 0, 0]), SpiSettings())
    assert rx[1] << 2 | rx[2] >> 6 == 100 + channel


@each_row(("channel", "code"), [(0, 200), (1, 0), (2, 0), (3, 100)])
def test_the_model_measures_pairs(channel, code):
    values = {"voltage a0": 0.701, "voltage a1": 0.0555, "voltage a2": 0.1, "voltage a3": 0.423}
    rx = SimMCP3008(Scene(lambda: 0.0, values)).exchange(bytes([1 << 6 | channel << 2, 0, 0]), SpiSettings())
    assert rx[1] << 2 | rx[2] >> 6 == code


def test_the_model_waits_for_the_start_bit():
    assert SimMCP3008(Scene(lambda: 0.0)).exchange(bytes(4), SpiSettings()) == b"\xff" * 4
