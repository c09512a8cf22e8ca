"""The conditions that a line of the checklist may have: `when: greenhouse.temperature > 35 for 10 min`."""

import re
from typing import Literal, NamedTuple

from picoclaw.hw.reading import QUANTITIES

FORMS = "greenhouse.temperature > 35 for 10 min, greenhouse.humidity missing, file inbox.txt changed"

Sign = Literal[">", "<", ">=", "<=", "missing"]
Fate = Literal["changed", "exists", "missing"]

_SIGNS: dict[str, Sign] = {
    "above": ">", "over": ">", "more than": ">", "below": "<", "under": "<", "less than": "<",
    "rises above": ">", "goes above": ">", "exceeds": ">", "falls below": "<", "drops below": "<", "goes below": "<",
    "at least": ">=", "at most": "<=", "≥": ">=", "≤": "<=", ">": ">", "<": "<", ">=": ">=", "<=": "<=",
}  # fmt: skip
_FATES: dict[str, Fate] = {
    "changed": "changed",
    "changes": "changed",
    "exists": "exists",
    "appears": "exists",
    "is there": "exists",
    "missing": "missing",
    "is missing": "missing",
}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

_FOR = r"(?: for (?P<number>\d+(?:[.]\d+)?) ?(?P<span>s|sec|second|m|min|minute|h|hour|d|day)s?)?"
_NAME = r"(?P<sensor>[^.<>≤≥]+?)[.](?P<what>[a-z][a-z0-9]*(?: [a-z][\w.]*)??)"
_VALUE = r"(?P<value>[-−+]?\d+(?:[.,]\d+)?) ?(?P<unit>(?!for\b)[^\s\d]\S*)?"
_SIGN = "|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True))
_SENSOR = re.compile(rf"{_NAME} ?(?:is )?(?P<sign>{_SIGN}) ?{_VALUE}{_FOR}", re.IGNORECASE)
_GONE = re.compile(rf"{_NAME} (?:is )?missing{_FOR}", re.IGNORECASE)
_FILE = re.compile(rf"file (?P<path>\"[^\"]+\"|`[^`]+`|\S+) (?P<fate>{'|'.join(_FATES)})", re.IGNORECASE)


class SensorWhen(NamedTuple):
    """A sensor beyond a limit, or without a value, for a while. `what` is the quantity, with its channel if any."""

    sensor: str
    what: str
    sign: Sign
    value: float = 0.0
    for_s: float = 0.0

    def holds(self, value: float | None) -> bool:
        """Tell whether it does for a value; None is none."""
        if value is None or self.sign == "missing":
            return value is None and self.sign == "missing"
        return {">": value > self.value, "<": value < self.value, ">=": value >= self.value, "<=": value <= self.value}[
            self.sign
        ]


class FileWhen(NamedTuple):
    """What has become of a file; a path that is not whole is meant in the workspace."""

    path: str
    fate: Fate


When = SensorWhen | FileWhen


def parse(text: str) -> When:
    """Read a condition; raises ValueError saying what is wrong with it and what to write."""
    words = " ".join(text.split()).rstrip(".;")
    if found := _FILE.fullmatch(words):
        return FileWhen(found["path"].strip('"`'), _FATES[found["fate"].lower()])
    if found := _SENSOR.fullmatch(words):
        value = _number(found["value"])
        return _checked(SensorWhen(found["sensor"], found["what"].lower(), _SIGNS[found["sign"].lower()], value), found)
    if found := _GONE.fullmatch(words):
        return _checked(SensorWhen(found["sensor"], found["what"].lower(), "missing"), found)
    raise ValueError(f"{words!r} is no condition that picoclaw knows; write it like {FORMS}")


def _number(text: str) -> float:
    if re.search(r",\d{3}$", text):
        raise ValueError(f"{text} may be read in two ways; write thousands without a comma, and fractions with a point")
    return float(text.replace(",", ".").replace("−", "-"))


def _checked(when: SensorWhen, found: re.Match[str]) -> SensorWhen:
    quantity = when.what.partition(" ")[0]
    if quantity not in QUANTITIES:
        raise ValueError(f"{quantity!r} is nothing that a sensor measures; known: {', '.join(QUANTITIES)}")
    unit, given = QUANTITIES[quantity].unit, found.groupdict().get("unit")
    if given and _plain(given) != _plain(unit):
        raise ValueError(f"{quantity} is measured in {unit or 'no unit'}, not in {given}; write the value so")
    if found["number"]:
        return when._replace(for_s=float(found["number"]) * _SECONDS[found["span"][0].lower()])
    return when


def _plain(unit: str) -> str:
    return unit.casefold().replace("°", "").replace("μ", "µ").replace("percent", "%").replace("celsius", "c")
