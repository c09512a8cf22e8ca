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
    "ads1115": "volts.SimADS1115",
    "aht20": "climate.SimAHT20",
    "bh1750": "light.SimBH1750",
    "bme280": "bosch.SimBME280",
    "bme680": "bosch_gas.SimBME680",
    "bmp180": "bosch_old.SimBMP180",
    "ds18b20": "onewire.SimDS18B20",
    "ds3231": "clocks.SimDS3231",
    "gps": "nmea.SimGPS",
    "htu21": "climate.SimHTU21D",
    "ina219": "volts.SimINA219",
    "ina226": "volts.SimINA226",
    "lm75": "thermometers.SimLM75",
    "max31855": "thermocouple.SimMAX31855",
    "max31865": "thermocouple.SimMAX31865",
    "mcp3008": "adc_spi.SimMCP3008",
    "mcp9808": "thermometers.SimMCP9808",
    "mhz19": "air.SimMHZ19",
    "mpu6050": "motion.SimMPU6050",
    "pca9685": "expander.SimPCA9685",
    "pcf8574": "expander.SimPCF8574",
    "pms5003": "air.SimPMS5003",
    "scd4x": "sensirion_gas.SimSCD4x",
    "sgp30": "sensirion_gas.SimSGP30",
    "sgp40": "sensirion_gas.SimSGP40",
    "sht3x": "sensirion.SimSHT3x",
    "sht4x": "sensirion.SimSHT4x",
    "tmp102": "thermometers.SimTMP102",
    "veml7700": "light.SimVEML7700",
}
"""Where the class of each part is: module of this folder, class. Loaded when a board is made that has the part."""


def make(part: str, scene: Scene) -> Any:
    """Make a part; raises KeyError when none of that name can be simulated."""
    module, name = PARTS[part].split(".")
    return getattr(import_module(f"{__name__}.{module}"), name)(scene)
