"""Parts that are no plain sensors, with the kernel's drivers as referees: 1-Wire, a clock, outputs of expanders."""

import time
from pathlib import Path

import gpiod
import lab
import pytest
from gpiod.line import Direction, Value

from picoclaw.files import find_shipped
from picoclaw.hw import kernel, loader
from picoclaw.hw.reading import WiredPart

HW = [find_shipped("tools/hw")]


def thermometer_of_kernel():
    """The name of the 1-Wire thermometer that the kernel has found."""
    return next((p.name for p in Path("/sys/bus/w1/devices").glob("28-*") if (p / "temperature").exists()), "")


def test_a_1_wire_thermometer(bridge, board, drivers):
    """A DS18B20 behind a DS2482; our driver reads the file that the kernel's driver makes."""
    place = "i2c-1/0x18"
    bridge.place("ds2482", place, temperature=18.25)
    lab.modprobe("wire", "timeout=1")  # seconds between two searches of the bus
    lab.modprobe("w1_therm")
    lab.modprobe("ds2482")
    lab.bind("ds2482", 0x18)
    name = lab.wait_for(thermometer_of_kernel, "the kernel finds the thermometer", 20)
    sensor = next(s for s in kernel.list_kernel_sensors(board) if s.name == name)
    true, found = [18.25, -12.0625], []
    for value in true:
        bridge.values(place, {"temperature": value})
        of_kernel = kernel.read_kernel_sensor(board, sensor)
        (of_driver,) = drivers.measure("part", WiredPart("ds18b20", port=name))
        found.append((of_kernel.problem or of_kernel.value, of_driver.problem or of_driver.value))
    lab.unbind(0x18)
    bridge.remove(place)
    assert found == [pytest.approx((value, value), abs=0.001) for value in true]


def test_a_clock_tells_the_kernel_and_us_the_same_time(bridge, drivers):
    bridge.place("ds3231", "i2c-1/0x68")
    lab.modprobe("rtc-ds1307")
    folder = lab.bind("ds3231", 0x68)
    of_kernel = int(next(folder.glob("rtc/rtc*/since_epoch")).read_text())
    now = time.time()
    lab.unbind(0x68)
    readings = {r.quantity: r for r in drivers.measure("part", WiredPart("ds3231", 1, 0x68))}
    bridge.remove("i2c-1/0x68")
    assert of_kernel == pytest.approx(now, abs=2)
    assert readings["time"].value == pytest.approx(now, abs=2), readings["time"].problem


def test_levels_of_a_pcf8574(bridge, drivers):
    bridge.place("pcf8574", "i2c-1/0x20")
    lab.modprobe("gpio-pcf857x")
    folder = lab.bind("pcf8574", 0x20)
    chip = lab.wait_for(lambda: next(folder.glob("gpiochip*"), None), "the expander's GPIO chip")
    driver, wired = loader.load_driver("pcf8574", HW), WiredPart("pcf8574", 1, 0x20)
    low = gpiod.LineSettings(direction=Direction.OUTPUT, output_value=Value.INACTIVE)
    with gpiod.request_lines(f"/dev/{chip.name}", config={(0, 5): low}):
        pass
    lab.unbind(0x20)
    with drivers.opened(wired, driver) as part:
        of_driver = [driver.level(part, n) for n in range(8)]
        driver.drive(part, 0, 1.0)
        driver.drive(part, 7, 0.0)
    folder = lab.bind("pcf8574", 0x20)
    chip = lab.wait_for(lambda: next(folder.glob("gpiochip*"), None), "the expander's GPIO chip")
    with gpiod.request_lines(f"/dev/{chip.name}", config={tuple(range(8)): None}) as request:
        of_kernel = [value.value for value in request.get_values()]
    lab.unbind(0x20)
    bridge.remove("i2c-1/0x20")
    assert of_driver == [0, 1, 1, 1, 1, 0, 1, 1]
    assert of_kernel == [1, 1, 1, 1, 1, 0, 1, 0]


def written(log):
    """The registers that messages have set, by number; a message sets consecutive ones."""
    registers = {}
    for message in log:
        first, *values = bytes.fromhex(next(s for s in message["segments"] if isinstance(s, str)))
        registers |= {first + i: value for i, value in enumerate(values)}
    return registers


@pytest.mark.parametrize("duty", [0.25, 0.5, 1.0, 0.0])
def test_duties_of_a_pca9685(bridge, drivers, duty):
    """The kernel resets the outputs when it takes the part, so the registers that both write are compared."""
    bridge.place("pca9685", "i2c-1/0x41")
    lab.modprobe("pwm-pca9685")
    chip = next(lab.bind("pca9685", 0x41).glob("pwm/pwmchip*"))
    (chip / "export").write_text("3")
    pwm = chip / "pwm3"
    (pwm / "period").write_text("5000000")
    (pwm / "enable").write_text("1")
    (pwm / "duty_cycle").write_text("2500001")
    bridge.log()
    (pwm / "duty_cycle").write_text(str(round(duty * 5_000_000)))
    by_kernel = written(bridge.log())
    lab.unbind(0x41)
    driver = loader.load_driver("pca9685", HW)
    with drivers.opened(WiredPart("pca9685", 1, 0x41), driver) as part:
        driver.drive(part, 3, 0.1)
        bridge.log()
        driver.drive(part, 3, duty)
        by_driver = written(bridge.log())
        level = driver.level(part, 3)
    bridge.remove("i2c-1/0x41")
    channel = range(6 + 4 * 3, 6 + 4 * 4)
    of_kernel, of_driver = ({r: v for r, v in found.items() if r in channel} for found in (by_kernel, by_driver))
    assert of_kernel.items() <= of_driver.items(), f"kernel {by_kernel}, picoclaw {by_driver}"
    assert level == pytest.approx(duty, abs=1 / 4096)
