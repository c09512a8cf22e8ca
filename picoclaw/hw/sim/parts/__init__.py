"""Simulated parts: what the chips behind SimBoard's buses answer, byte by byte.

They know datasheets and a scene, and share no code with the drivers in tools/hw, so that the two really check each
other. A part is a class that is made with its Scene and has the methods of its bus: I2CSlave, SpiSlave, SerialPeer,
or `files()` for a device of the kernel's 1-Wire bus.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from picoclaw.hw.sim.scene import Scene

PARTS: Mapping[str, str] = {
    "ads1115": "analog.SimADS1115",
    "aht20": "climate.SimAHT20",
    "bh1750": "analog.SimBH1750",
    "bme280": "bosch.SimBME280",
    "bme680": "bosch.SimBME680",
    "bmp180": "bosch.SimBMP180",
    "ds18b20": "temperature.SimDS18B20",
    "ds3231": "others.SimDS3231",
    "gps": "serial.SimGPS",
    "htu21": "climate.SimHTU21D",
    "ina219": "analog.SimINA219",
    "ina226": "analog.SimINA226",
    "lm75": "temperature.SimLM75",
    "max31855": "temperature.SimMAX31855",
    "max31865": "temperature.SimMAX31865",
    "mcp3008": "analog.SimMCP3008",
    "mcp9808": "temperature.SimMCP9808",
    "mhz19": "serial.SimMHZ19",
    "mpu6050": "others.SimMPU6050",
    "pca9685": "others.SimPCA9685",
    "pcf8574": "others.SimPCF8574",
    "pms5003": "serial.SimPMS5003",
    "scd4x": "climate.SimSCD4x",
    "sgp30": "climate.SimSGP30",
    "sgp40": "climate.SimSGP40",
    "sht3x": "climate.SimSHT3x",
    "sht4x": "climate.SimSHT4x",
    "tmp102": "temperature.SimTMP102",
    "veml7700": "analog.SimVEML7700",
}
"""Where the class of each part is: module of this folder, class. Loaded when a board is made that has the part."""


def make_part(part: str, scene: Scene) -> Any:
    """Make a part; raises KeyError when none of that name can be simulated."""
    module, name = PARTS[part].split(".")
    return getattr(import_module(f"{__name__}.{module}"), name)(scene)
