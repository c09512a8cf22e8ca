"""PMS5003: frames of the manual's form, hundreds of spoilt ones, and a model that also sleeps or waits to be asked."""

import pytest
from part_bench import driver
from rows import each_row
from wire_bench import Says, serial, spoilt

from picoclaw.errors import HardwareError
from picoclaw.hw.sim.parts.others import SimPMS5003

pms5003 = driver("pms5003")

# As a part sends it (manual V2.3, appendix I): CF=1 13, 20, 23; atmospheric 12, 19, 22.
GOOD = bytes.fromhex("424d001c 000d00140017 000c00130016 0954 02b2 0080 000e 0004 0000 9700")
GOOD += sum(GOOD).to_bytes(2, "big")
VALUES = {"dust pm1": 12, "dust pm2.5": 19, "dust pm10": 22}


def test_the_frame_of_the_manual():
    assert len(GOOD) == 32
    assert pms5003.find_frame(GOOD) == GOOD
    assert pms5003.decode(GOOD) == VALUES
    assert tuple(VALUES) == pms5003.QUANTITIES


@each_row(
    "chunks",
    [
        (GOOD,),
        (GOOD[:1], GOOD[1:2], GOOD[2:31], GOOD[31:]),
        (GOOD[9:], GOOD),
        (b"\x42", GOOD),
        (b"\x42\x4d", GOOD),
        (b"\x42\x4d\x00\x1c", GOOD),
        (GOOD[:20], GOOD),
        (bytes(100), GOOD),
        (b"\xff" * 60 + GOOD[:7], GOOD[7:]),
        (b"$GPGGA,,,,,,0,00,99.99,,,,,,*48\r\n", GOOD),
        (bytes.fromhex("424d0004e100 0174"), GOOD),
    ],
)
def test_a_frame_is_found_in_what_surrounds_it(chunks):
    assert pms5003.read(serial(Says(b"", *chunks))) == VALUES


def test_spoilt_frames_are_never_believed():
    for frame in spoilt(GOOD, 600):
        assert pms5003.find_frame(frame) == b"", frame.hex(" ")


def test_a_whole_frame_is_found_after_each_spoilt_one():
    for frame in spoilt(GOOD, 300, seed=8):
        assert pms5003.find_frame(frame + GOOD) == GOOD
        assert pms5003.read(serial(Says(b"", frame, GOOD))) == VALUES


def test_the_newest_frame_wins_and_old_ones_are_thrown_away():
    newer = GOOD[:11] + b"\x21" + GOOD[12:-2]
    newer += sum(newer).to_bytes(2, "big")
    assert pms5003.find_frame(GOOD + newer + GOOD[:30]) == newer
    assert pms5003.read(serial(Says(GOOD, newer)))["dust pm1"] == 0x21


def test_silence_and_noise_end():
    part = serial(Says())
    with pytest.raises(ValueError, match="sends nothing") as caught:
        pms5003.read(part)
    assert "\n" not in str(caught.value)
    assert sum(part.clock.slept) == pytest.approx(4.8)
    peer = Says(*[b"\x42\x4d" * 500] * 5000)
    with pytest.raises(ValueError, match="512 bytes came, but no whole frame"):
        pms5003.read(serial(peer))
    assert peer.heard == b"", "something else than the sensor was spoken to"


@each_row("micrograms", [0, 1, 35, 499, 1000, 5000])
def test_readings_agree_with_the_scene(micrograms):
    scene = {"dust pm1": micrograms // 2, "dust pm2.5": micrograms, "dust pm10": micrograms + 1}
    part = serial(SimPMS5003, scene)
    for _ in range(5):
        assert pms5003.read(part) == scene
    assert (bool(part.notes()), part.doubts()) == (micrograms >= 500, "")
    assert sum(part.clock.slept) < 7


def test_a_part_in_passive_mode_is_asked_and_stays_in_it():
    part = serial(SimPMS5003, {"dust": 5})
    peer = part.port._peer
    peer.receive(bytes.fromhex("424de100000170"))
    part.sleep(0.1)
    assert pms5003.read(part) == dict.fromkeys(pms5003.QUANTITIES, 5)
    assert not peer.active


def test_nothing_is_sent_to_a_part_that_talks():
    peer = Says(b"", GOOD)
    pms5003.read(serial(peer))
    assert peer.heard == b""


def test_a_part_asleep_is_left_asleep():
    part = serial(SimPMS5003)
    part.port._peer.receive(bytes.fromhex("424de400000173"))
    part.sleep(1)
    with pytest.raises(ValueError, match="it may be asleep"):
        pms5003.read(part)
    part.port._peer.receive(bytes.fromhex("424de400010174"))
    assert pms5003.read(part)


@each_row("fault", ["high", "low", "unplugged"])
def test_faults_of_the_cable(fault):
    with pytest.raises((ValueError, HardwareError)) as caught:
        pms5003.read(serial(SimPMS5003, fault=fault))
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_in_each_chunk_is_survived_or_said():
    part = serial(SimPMS5003, {"dust": 9}, fault="bits")
    for _ in range(30):
        try:
            found = pms5003.read(part)
        except ValueError:
            continue
        assert set(found.values()) == {9}


def test_the_models_answers_to_commands():
    """As the kernel's pms7003 driver expects them: a frame with the command after each command but waking."""
    part = serial(SimPMS5003)
    for command, answer in [("424de100000170", "424d0004e1000174"), ("424de400000173", "424d0004e4000177")]:
        part.port._peer.receive(bytes.fromhex(command))
        assert part.read(8, 0.1).hex() == answer
