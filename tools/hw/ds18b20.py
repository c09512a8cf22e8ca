"""Maxim DS18B20 (and DS1822, DS18S20): temperature over the kernel's 1-Wire bus.

Source: Maxim DS18B20 datasheet, 19-7487, revision 6 ("Operation - Measuring Temperature", table 1; "Memory";
"Configuration Register", table 2); DS18S20 datasheet, 19-5474; kernel document Documentation/w1/slaves/w1_therm.rst.
Family 0x3B is left out: the MAX31850 shares it with the DS1825 and counts differently.
Run `python3 tools/hw/ds18b20.py --help` to read one on the bench.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from picoclaw.hw.handles import crc8_onewire

if TYPE_CHECKING:
    from picoclaw.hw.handles import OneWirePart

FAMILIES = (0x28, 0x22, 0x10)
NAMES = {0x28: "DS18B20", 0x22: "DS1822", 0x10: "DS18S20"}
QUANTITIES = ("temperature",)

LINE = re.compile(r"((?:[0-9a-f]{2} ){9}): crc=[0-9a-f]{2} (YES|NO)\b")
DS18S20 = 0x10
# What a part holds that has lost power since it was told to measure: 85 °C, with 12 in byte 6 ("count remain"). A
# measured 85 °C of a DS18B20 has 16 there; a DS18S20 cannot be told apart, so neither is believed.
POWER_ON, POWER_ON_6 = {0x28: 0x0550, 0x22: 0x0550, 0x10: 0x00AA}, 0x0C
COUNTS_PER_DEGREE = 16
LOWEST, HIGHEST = -55, 125
WIRING = "check its supply, the 4.7 kΩ pull-up and the cable's length"


def decode(scratchpad: bytes, family: int = 0x28) -> float:
    """Turn the 9 bytes of the scratchpad into °C; bits that the resolution leaves undefined count as 0.

    Raises ValueError for a wrong checksum, the power-on value, or what no thermometer holds.
    """
    if not any(scratchpad) or scratchpad == b"\xff" * 9:
        raise ValueError(f"all bits are {scratchpad[0] & 1}, the part does not answer: {WIRING}")
    if crc8_onewire(scratchpad[:8]) != scratchpad[8]:
        raise ValueError(f"wrong checksum ({scratchpad.hex(' ')}): {WIRING}")
    raw = int.from_bytes(scratchpad[:2], "little", signed=True)
    if raw == POWER_ON[family] and scratchpad[6] == POWER_ON_6:
        raise ValueError(f"the power-on value of 85 °C, the part did not measure: {WIRING}")
    celsius = _decode_ds18s20(raw, scratchpad) if family == DS18S20 else _decode_ds18b20(raw, scratchpad[4])
    if not LOWEST <= celsius <= HIGHEST:
        raise ValueError(f"{celsius:g} °C is outside {LOWEST} to {HIGHEST} °C, what the part can measure: {WIRING}")
    return celsius


def _decode_ds18b20(raw: int, configuration: int) -> float:
    if configuration & 0b1001_1111 != 0b0001_1111:
        raise ValueError(f"configuration 0x{configuration:02x} is not a DS18B20's: {WIRING}")
    undefined = 3 - (configuration >> 5)
    return (raw >> undefined << undefined) / 16


def _decode_ds18s20(raw: int, scratchpad: bytes) -> float:
    remain, per_degree = scratchpad[6], scratchpad[7]
    if per_degree != COUNTS_PER_DEGREE or remain > per_degree:
        raise ValueError(f"counts {remain} of {per_degree} are not a DS18S20's: {WIRING}")
    return (raw >> 1) - 0.25 + (per_degree - remain) / per_degree


def identify(part: OneWirePart) -> str:
    """Name the part by its family code, or return an empty string; nothing is sent."""
    return NAMES.get(_parse_family(part.name), "")


def _parse_family(name: str) -> int:
    match = re.fullmatch(r"([0-9a-f]{2})-[0-9a-f]{12}", name)
    return int(match[1], 16) if match else 0


def read(part: OneWirePart) -> dict[str, float]:
    """Have the kernel measure, which takes up to 0.75 s, and return °C.

    Raises ValueError when the device is of another family, or the kernel got no valid answer.
    """
    family = _parse_family(part.name)
    if family not in FAMILIES:
        raise ValueError(f"{part.name} is no DS18B20, DS1822 or DS18S20: their names begin with 28-, 22- or 10-")
    text = part.text("w1_slave")
    if not text:
        raise ValueError(f"the kernel could not read {part.name}: {WIRING}")
    line = LINE.match(text)
    if line is None:
        raise ValueError(f"{part.name}/w1_slave is not a thermometer's: {text.splitlines()[0][:60]!r}")
    scratchpad = bytes.fromhex(line[1])
    value = decode(scratchpad, family)
    if line[2] != "YES":
        raise ValueError(f"the kernel found a wrong checksum ({scratchpad.hex(' ')}): {WIRING}")
    return {"temperature": value}


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
