"""The referee's table: which kernel driver reads which part, what is measured, and how far two may be apart."""

from collections.abc import Mapping
from typing import NamedTuple


class File(NamedTuple):
    """A raw value and its scale among a device's files, for what picoclaw.hw.kernel does not list."""

    raw: str
    scale: str
    factor: float


class Case(NamedTuple):
    """One part, at one place, that the kernel and picoclaw read in turn.

    `values`: what the part measures, by quantity, one after the other; `within`: how far what is read may be from
    that, in the quantity's unit: half a step of the coarser of the two, and what the datasheet's arithmetic costs.
    `device` is the name that the kernel's driver knows the part by; `named`: how the kernel's reading of a quantity is
    called, where it is called otherwise; `setup`: what is written to a file of the device once it is bound.
    `model` is the class of the simulated part, if it is not that of `part`; `options` are picoclaw's of that part.
    `settle_s`: how long a part that measures by itself takes for that, in seconds.
    `cold`: the kernel's first value is of a part that has not warmed up, and is read again.
    `pace`: how much faster than time a slow part measures, so that nobody has to wait for it.
    `kernel_at` is where the kernel has the part, if picoclaw has it elsewhere (another chip select).
    """

    part: str
    module: str
    device: str
    at: str
    values: Mapping[str, list[float]]
    within: Mapping[str, float]
    model: str = ""
    options: Mapping[str, float] = {}
    settle_s: float = 0.0
    cold: bool = False
    pace: float = 1.0
    named: Mapping[str, str] = {}
    setup: Mapping[str, str] = {}
    files: Mapping[str, File] = {}
    kernel_at: str = ""


ROOM = [21.5, -12.25, 60.0]
DAMP = [50.0, 5.0, 95.0]
AIR = [1013.25, 850.0, 1080.0]
G = 9.80665
RADIAN = 57.29577951

CASES = [
    Case(
        "bme280",
        "bmp280-i2c",
        "bme280",
        "i2c-1/0x76",
        {"temperature": ROOM, "humidity": DAMP, "pressure": AIR},
        {"temperature": 0.01, "humidity": 0.01, "pressure": 0.01},
    ),
    Case(  # from 1062 hPa on the kernel's arithmetic overflows: (pressure >> 8)**3 * par_p10 has 32 bits there
        "bme680",
        "bme680_i2c",
        "bme680",
        "i2c-1/0x77",
        {
            "temperature": ROOM,
            "humidity": DAMP,
            "pressure": [1013.25, 850.0, 1055.0],
            "resistance gas": [50_000.0, 5_000.0, 500_000.0],
        },
        {"temperature": 0.02, "humidity": 0.02, "pressure": 0.05, "resistance gas": 1000.0},
        files={"resistance gas": File("in_resistance_input", "", 1.0)},
    ),
    Case(
        "bmp180",
        "bmp280-i2c",
        "bmp180",
        "i2c-1/0x77",
        {"temperature": [21.5, -12.2, 60.0], "pressure": AIR},
        {"temperature": 0.11, "pressure": 0.1},
    ),
    Case(
        "sht3x",
        "sht3x",
        "sht3x",
        "i2c-1/0x44",
        {"temperature": ROOM, "humidity": DAMP},
        {"temperature": 0.01, "humidity": 0.01},
    ),
    Case(
        "sht4x",
        "sht4x",
        "sht4x",
        "i2c-1/0x44",
        {"temperature": ROOM, "humidity": DAMP},
        {"temperature": 0.01, "humidity": 0.01},
    ),
    Case(  # the kernel of Debian 12 knows only the AHT10, whose initialisation is another
        "aht20",
        "aht10",
        "aht10",
        "i2c-1/0x38",
        {"temperature": ROOM, "humidity": DAMP},
        {"temperature": 0.01, "humidity": 0.011},
        model="climate.SimAHT10",
        options={"crc": 0},
    ),
    Case(
        "htu21",
        "htu21",
        "htu21",
        "i2c-1/0x40",
        {"temperature": ROOM, "humidity": DAMP},
        {"temperature": 0.02, "humidity": 0.05},
    ),
    Case(
        "htu21",
        "si7020",
        "si7020",
        "i2c-1/0x40",
        {"temperature": ROOM, "humidity": DAMP},
        {"temperature": 0.02, "humidity": 0.05},
        model="climate.SimSi7021",
    ),
    Case(
        "tmp102",
        "tmp102",
        "tmp102",
        "i2c-1/0x48",
        {"temperature": [21.5, -12.25, 127.9375]},
        {"temperature": 0.001},
        settle_s=0.05,
    ),
    Case(
        "lm75",
        "lm75",
        "lm75",
        "i2c-1/0x49",
        {"temperature": [21.5, -12.5, 60.0]},
        {"temperature": 0.001},
        settle_s=0.15,
    ),
    Case(
        "lm75",
        "lm75",
        "lm75b",
        "i2c-1/0x4a",
        {"temperature": [21.125, -12.375, 60.0]},
        {"temperature": 0.001},
        model="temperature.SimLM75B",
        settle_s=0.15,
    ),
    Case(
        "mcp9808",
        "jc42",
        "jc42",
        "i2c-1/0x1a",
        {"temperature": [21.5, -12.25, 60.0625]},
        {"temperature": 0.001},
        settle_s=0.26,
    ),
    Case(
        "scd4x",
        "scd4x",
        "scd41",
        "i2c-1/0x62",
        {"co2": [800.0], "temperature": [21.5], "humidity": [50.0]},
        {"co2": 1.0, "temperature": 0.01, "humidity": 0.01},
        settle_s=0.1,
        pace=10.0,
    ),
    Case(
        "sgp40",
        "sgp40",
        "sgp40",
        "i2c-1/0x59",
        {"raw": [30_000.0, 12_000.0]},
        {"raw": 1.0},
        settle_s=0.15,
        cold=True,
        files={"raw": File("in_resistance_raw", "", 1.0)},
    ),
    Case(
        "ds3231",
        "rtc-ds1307",
        "ds3231",
        "i2c-1/0x68",
        {"temperature": [21.5, -12.25, 60.0]},
        {"temperature": 0.001},
    ),
    Case(
        "bh1750",
        "bh1750",
        "bh1750",
        "i2c-1/0x23",
        {"light": [300.0, 5.0, 40_000.0]},
        {"light": 1.0},
    ),
    Case(
        "ads1115",
        "ti-ads1015",
        "ads1115",
        "i2c-1/0x48",
        {
            "voltage a0": [0.5, 0.0, 1.9],
            "voltage a1": [1.0, 2.0, 0.1],
            "voltage a2": [1.5, 0.3, 0.2],
            "voltage a3": [2.0, 0.7, 0.3],
        },
        {f"voltage a{n}": 0.00013 for n in range(4)},
        named={f"voltage a{n}": f"voltage {n}" for n in range(4)},
    ),
    *(
        Case(
            part,
            "ina2xx",
            part,
            "i2c-1/0x41",
            {"voltage": [5.0, 12.0, 3.3], "current": [0.25, 0.5, 0.01], "power": [1.25, 6.0, 0.033]},
            {"voltage": step, "current": 0.001, "power": 0.03},
            settle_s=0.05,
            setup={"hwmon/hwmon*/shunt_resistor": "100000"},
        )
        for part, step in (("ina219", 0.004), ("ina226", 0.00125))
    ),
    Case(
        "mpu6050",
        "inv-mpu6050-i2c",
        "mpu6050",
        "i2c-1/0x69",
        {
            "temperature": [21.5, -12.25, 60.0],
            "acceleration x": [0.0, G, -G],
            "acceleration y": [1.0, -2.0, 3.0],
            "acceleration z": [G, 0.0, 0.5],
            "rotation x": [0.0, 100.0, -100.0],
            "rotation y": [1.0, -2.0, 3.0],
            "rotation z": [250.0, 0.0, -3.5],
        },
        {"temperature": 0.01}
        | {f"acceleration {axis}": 0.01 for axis in "xyz"}
        | {f"rotation {axis}": 0.15 for axis in "xyz"},
        files={f"acceleration {axis}": File(f"in_accel_{axis}_raw", "in_accel_scale", 1.0) for axis in "xyz"}
        | {f"rotation {axis}": File(f"in_anglvel_{axis}_raw", "in_anglvel_scale", RADIAN) for axis in "xyz"},
    ),
    Case(
        "mcp3008",
        "mcp320x",
        "mcp320x",
        "spi0.0",
        {f"voltage a{n}": [0.4 * n, 3.2 - 0.4 * n, 1.65] for n in range(8)},
        {f"voltage a{n}": 0.0033 for n in range(8)},
        named={f"voltage a{n}": f"voltage {n}" for n in range(8)},
        kernel_at="spi0.2",
    ),
    Case(
        "max31855",
        "maxim_thermocouple",
        "maxim_thermocouple",
        "spi0.0",
        {"temperature": [21.5, -200.25, 1200.0], "temperature inside": [25.0, -12.25, 60.0625]},
        {"temperature": 0.13, "temperature inside": 0.032},
        settle_s=0.11,
        named={"temperature inside": "temperature ambient"},
        kernel_at="spi0.3",
    ),
]
