"""MPU-6050: InvenSense's sensitivities, ranges, sleep, and the simulated part."""

import struct

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.others import SimMPU6050

mpu6050 = driver("mpu6050")
G = 9.80665
SCENE = {
    "acceleration x": 1.5,
    "acceleration y": -7.25,
    "acceleration z": 12.0,
    "rotation x": 0.5,
    "rotation y": -123.4,
    "rotation z": 240.0,
    "temperature": 25.0,
}


def data(*words):
    return struct.pack(">7h", *words)


def test_the_datasheets_thermometer():
    """Product specification, temperature sensor: -521 at 35 °C, 340 for a degree."""
    assert mpu6050.decode(data(0, 0, 0, -521, 0, 0, 0), 0, 0)["temperature"] == pytest.approx(35, abs=0.01)


# Register map, sections 4.17 and 4.19: counts for 1 g and for 1 °/s, by range.
@each_row(("code", "per_g"), [(0, 16_384), (1, 8192), (2, 4096), (3, 2048)])
def test_the_datasheets_accelerometer(code, per_g):
    values = mpu6050.decode(data(per_g, -per_g, 2 * per_g - 1, 0, 0, 0, 0), 0, code)
    wanted = (G, -G, pytest.approx(2 * G, abs=0.01))
    assert tuple(values[f"acceleration {axis}"] for axis in "xyz") == wanted


@each_row(("code", "per_degree"), [(0, 131), (1, 65.5), (2, 32.8), (3, 16.4)])
def test_the_datasheets_gyroscope(code, per_degree):
    values = mpu6050.decode(data(0, 0, 0, 0, round(100 * per_degree), round(-200 * per_degree), 0), code, 0)
    assert [values[f"rotation {axis}"] for axis in "xyz"] == pytest.approx([100, -200, 0], rel=0.002)


def test_a_temperature_that_the_part_cannot_give():
    with pytest.raises(ValueError, match="°C, outside its -40 to 85"):
        mpu6050.decode(data(0, 0, 0, 32_000, 0, 0, 0), 0, 0)


@each_row("gyro", range(4))
@each_row("acceleration", range(4))
def test_readings_agree_with_the_scene_in_every_range(gyro, acceleration):
    handle, _, clock = simulated("mpu6050", SimMPU6050, SCENE)
    handle.write(0x6B, 0x01)
    handle.write(0x1B, gyro << 3, acceleration << 3)
    clock.sleep(0.1)
    handle.bus.log.clear()
    assert mpu6050.read(handle) == pytest.approx(SCENE, rel=0.003, abs=0.05)
    assert messages(handle) == ["w 75", "r 1", "w 6b", "r 2", "w 1b", "r 2", "w 3b", "r 14"]
    assert clock.slept == [0.1]
    assert not handle.doubts()


@each_row(
    ("power", "awake"),
    [("4000", "0000"), ("4100", "0100"), ("6900", "0100"), ("0107", "0100"), ("49c7", "01c0"), ("0900", "0100")],
)
def test_a_part_that_sleeps_is_woken_and_put_back(power, awake):
    handle, _, clock = simulated("mpu6050", SimMPU6050, SCENE)
    handle.write(0x6B, *bytes.fromhex(power))
    handle.bus.log.clear()
    assert mpu6050.read(handle) == pytest.approx(SCENE, rel=0.003, abs=0.05)
    sent = [text for text in messages(handle) if text.startswith("w 6b") and len(text) > 4]
    assert sent == [f"w 6b{awake}", f"w 6b{power}"]
    assert clock.slept == [0.1]
    assert handle.registers(0x6B, 2).hex() == power


@each_row(("quantity", "value"), [("acceleration y", 25), ("rotation z", -300)])
def test_an_axis_at_the_end_of_its_range_is_noted(quantity, value):
    handle, _, _ = simulated("mpu6050", SimMPU6050, {quantity: value})
    mpu6050.read(handle)
    assert ("at the end of its range" in handle.notes(), handle.doubts()) == (True, "")


def test_a_part_that_has_not_measured_is_put_back():
    part = Fixed({0x75: b"\x68", 0x6B: b"\x40\0"})
    refused("mpu6050", part, "has not measured")
    assert part.written == [b"\x6b\0\0", b"\x6b\x40\0"]


def test_the_simulated_part_resets_and_protects_its_results():
    handle, _, clock = simulated("mpu6050", SimMPU6050, SCENE)
    assert handle.registers(0x3B, 14) == bytes(14)
    handle.write(0x6B, 0x00)
    clock.sleep(0.02)
    assert handle.registers(0x3B, 14) == bytes(14)
    clock.sleep(0.02)
    assert handle.registers(0x3A, 1) == b"\x01"
    before = handle.registers(0x3B, 14)
    handle.write(0x3B, 0, 0)
    handle.write(0x75, 0)
    assert handle.registers(0x3B, 14) == before
    assert handle.registers(0x75, 1) == b"\x68"
    handle.write(0x6B, 0x80)
    assert (handle.registers(0x6B, 1), handle.registers(0x3B, 14)) == (b"\x40", bytes(14))
