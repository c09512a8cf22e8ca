"""MH-Z19 against Winsen's example, hundreds of spoilt answers, and what must never be sent to it."""

import pytest
from part_bench import driver
from rows import each_row
from wire_bench import Says, serial, spoilt

from picoclaw.errors import HardwareError
from picoclaw.hw.sim.parts.others import SimMHZ19

mhz19 = driver("mhz19")
# MH-Z19B user's manual 1.0, "0x86 - Read CO2 concentration": 544 ppm.
COMMAND, GOOD = bytes.fromhex("ff0186000000000079"), bytes.fromhex("ff8602200000000058")


def framed(ppm, rest="4200ff00"):
    body = b"\x86" + ppm.to_bytes(2, "big") + bytes.fromhex(rest)
    return b"\xff" + body + bytes([(256 - sum(body)) % 256])


def test_winsens_example():
    assert mhz19.compute_checksum(COMMAND) == 0x79
    assert mhz19.find_answer(GOOD) == GOOD
    assert mhz19.decode(GOOD) == 544


@each_row(
    "chunks",
    [
        (GOOD,),
        tuple(GOOD[i : i + 1] for i in range(9)),
        (b"\xff", GOOD),
        (b"\xff\x86", GOOD),
        (GOOD[:5], GOOD),
        (GOOD[4:], GOOD),
        (COMMAND, GOOD),
        (b"\xff" * 12, GOOD),
        (bytes(9), GOOD),
    ],
)
def test_an_answer_is_found_in_what_surrounds_it(chunks):
    peer = Says(b"", *chunks)
    assert mhz19.read(serial(peer)) == {"co2": 544}
    assert peer.heard == COMMAND


def test_an_answer_from_before_is_thrown_away():
    assert mhz19.read(serial(Says(framed(999), GOOD))) == {"co2": 544}


def test_spoilt_answers_are_never_believed():
    for frame in spoilt(GOOD, 600):
        assert mhz19.find_answer(frame) == b"", frame.hex(" ")


def test_a_whole_answer_is_found_after_each_spoilt_one():
    for frame in spoilt(GOOD, 300, seed=8):
        assert mhz19.read(serial(Says(b"", frame, GOOD))) == {"co2": 544}


@each_row("ppm", [0, 10_001, 0xFFFF])
def test_what_no_part_measures(ppm):
    with pytest.raises(ValueError, match=f"{ppm} ppm is no measurement"):
        mhz19.read(serial(Says(b"", framed(ppm))))


@each_row(
    ("chunks", "said"),
    [
        ((), "does not answer"),
        ((bytes(9),), "no answer of an MH-Z19 in 00 00 00"),
        ((b"\xff" * 9,), "no answer of an MH-Z19 in ff ff ff"),
        ((GOOD[:8],), "no answer of an MH-Z19"),
        ((bytes.fromhex("ff85022000000000") + b"\x59",), "no answer of an MH-Z19"),
    ],
)
def test_what_is_no_answer(chunks, said):
    part = serial(Says(b"", *chunks))
    with pytest.raises(ValueError, match=said) as caught:
        mhz19.read(part)
    assert "\n" not in str(caught.value)
    assert sum(part.clock.slept) <= 1.01


def test_noise_without_end_ends():
    with pytest.raises(ValueError, match="no answer of an MH-Z19"):
        mhz19.read(serial(Says(*[b"\xff\x86" * 500] * 5000)))


@each_row("ppm", [1, 399, 420, 1000, 4999])
def test_readings_agree_with_the_scene(ppm):
    part = serial(SimMHZ19, {"co2": ppm})
    for _ in range(3):
        assert mhz19.read(part) == {"co2": ppm}
    assert part.doubts() == ""


def test_only_the_command_that_reads_is_ever_sent():
    part = serial(SimMHZ19)
    for _ in range(50):
        mhz19.read(part)
    assert part.port._peer.commands == [0x86] * 50


@each_row("ppm", [400, 410, 500])
def test_a_start_up_value_is_doubtful_for_three_minutes(ppm):
    part = serial(SimMHZ19, {"co2": ppm})
    assert mhz19.read(part) == {"co2": ppm}
    assert "warms up" in part.doubts()
    part.sleep(181)
    assert mhz19.read(part) == {"co2": ppm}
    assert part.doubts() == ""


def test_warming_up_with_the_model():
    part = serial(SimMHZ19, {"co2": 777})
    part.port._peer = SimMHZ19(part.port._peer._scene, warm_up_s=60)
    assert mhz19.read(part) == {"co2": 410}
    assert part.doubts()
    part.sleep(60)
    assert mhz19.read(part) == {"co2": 777}
    assert not part.doubts()


@each_row("fault", ["high", "low", "unplugged"])
def test_faults_of_the_cable(fault):
    with pytest.raises((ValueError, HardwareError)):
        mhz19.read(serial(SimMHZ19, fault=fault))


def test_the_model_ignores_what_is_no_command():
    part = serial(SimMHZ19)
    for frame in spoilt(COMMAND, 300):
        part.port._peer.receive(frame)
        part.port._peer.receive(bytes(9))
    assert part.port._peer.commands == []
