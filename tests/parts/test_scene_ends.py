"""Simulated parts give what their converters can give, however far the scene goes: no value breaks one."""

import pytest
from any_bench import bound
from part_bench import driver
from rows import each_row

from picoclaw.errors import HardwareError
from picoclaw.hw.sim import Nack
from picoclaw.hw.sim.parts import PARTS

FAR = [1e9, -1e9, 1e308, -1e308, 0.0]
INPUTS = {"mcp3008": ("voltage a0",), "max31865": ("resistance",), "mhz19": ("temperature",)}
"""What a part's model takes of the scene beside its driver's quantities."""


class Broken(Exception):
    """A model failed by itself, which is no refusal of its driver's."""


class Watched:
    """A part whose own failures are told apart from those that its driver raises."""

    def __init__(self, part):
        self.part = part

    def __getattr__(self, name):
        found = getattr(self.part, name)
        return self.guarded(found) if callable(found) else found

    def guarded(self, call):
        def guarded(*arguments):
            try:
                return call(*arguments)
            except Nack:
                raise
            except Exception as error:
                raise Broken(f"{type(error).__name__}: {error}") from error

        return guarded

    def files(self):
        return {name: self.guarded(content) for name, content in self.part.files().items()}


def scenes(name):
    quantities = (*driver(name).QUANTITIES, *INPUTS.get(name, ()))
    for value in FAR:
        yield from ({quantity: value} for quantity in quantities)
        yield dict.fromkeys(quantities, value)
    signs = zip(quantities, (1e9, -1e9) * len(quantities), strict=False)
    yield dict(signs)


@each_row("name", PARTS)
def test_no_value_of_the_scene_breaks_a_part(name):
    for values in scenes(name):
        handle = bound(name, values, around=Watched)
        try:
            driver(name).read(handle)
        except (ValueError, HardwareError) as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


# What is shown at the ends: the last value that a converter has, not one from the other end of its scale.
ENDS = [
    ("bmp180", "temperature", 1e9, "°C, outside its -40 to 85"),
    ("bme280", "pressure", -1e9, "hPa, outside its 300 to 1100"),
    ("bme280", "temperature", 1e9, "°C, outside its -40 to 85"),
    ("bme680", "temperature", 1e9, "°C, outside its -40 to 85"),
    ("mcp9808", "temperature", 1e9, "reports 255.938 °C"),
    ("mcp9808", "temperature", -1e9, "reports -256 °C"),
    ("max31855", "temperature", 1e9, "2047.75 °C"),
    ("max31865", "temperature", -1e9, "below the low threshold: it is shorted"),
    ("ads1115", "voltage", 1e9, "beyond 4.096 V"),
    ("tmp102", "temperature", 1e9, 127.9375),
    ("lm75", "temperature", 1e9, 127.5),
    ("mcp3008", "voltage a0", 1e9, 3.3 * 1023 / 1024),
    ("mcp3008", "voltage a0", -1e9, 0),
    ("ina226", "voltage", 1e9, "outside its 0 to 36"),
    ("aht20", "humidity", 1e9, pytest.approx(100, abs=0.001)),
    ("aht20", "humidity", -1e9, 0),
    ("htu21", "temperature", 1e9, "outside its -40 to 125"),
    ("sht4x", "humidity", -1e9, 0),
    ("scd4x", "co2", 1e9, 40_000),
    ("scd4x", "co2", -1e9, "outside its 1 to 40000"),
    ("sgp40", "raw", 1e9, "65535, an end of its scale"),
    ("mhz19", "co2", 1e9, 5000),
    ("mhz19", "co2", -1e9, "0 ppm is no measurement"),
    ("pms5003", "dust pm2.5", 1e9, 32_767),
    ("ds18b20", "temperature", -1e9, -55),
    ("gps", "altitude", 1e9, 50_000),
    ("gps", "latitude", -1e9, -90),
    ("gps", "satellites", 1e9, 99),
    ("bh1750", "light", 1e9, "more than 121,000 lx"),
    ("bh1750", "light", -1e9, 0),
    ("veml7700", "light", -1e9, 0),
    ("bme680", "resistance gas", 1e9, pytest.approx(13e6, rel=0.2)),
    ("bme680", "resistance gas", -1e9, pytest.approx(170, rel=0.2)),
]


@each_row(("name", "quantity", "value", "shown"), ENDS)
def test_the_ends_of_the_converters(name, quantity, value, shown):
    handle = bound(name, {quantity: value})
    if isinstance(shown, str):
        with pytest.raises(ValueError, match=shown):
            raised(driver(name).read(handle))
    else:
        assert driver(name).read(handle)[quantity] == shown


def raised(values):
    """Raise the error that stands in place of a value, when there is one."""
    for value in values.values():
        if isinstance(value, ValueError):
            raise value
