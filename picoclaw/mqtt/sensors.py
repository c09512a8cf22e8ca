"""Sensors whose values are published at topics: the last value of each, in memory, and why there is none."""

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from picoclaw.config.tables import SensorConfig
from picoclaw.hw.reading import Conversion, find_conversion
from picoclaw.mqtt.connection import MAX_PAYLOAD_BYTES, Heard
from picoclaw.records import dataclass
from picoclaw.schema import NoField, find_field, show_value
from picoclaw.text import pattern
from picoclaw.times import format_duration

_NUMBER = pattern(r"[+-]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})([eE][+-]?\d{1,2})?")
_WORDS = {"on": 1.0, "true": 1.0, "open": 1.0, "off": 0.0, "false": 0.0, "closed": 0.0}
"""What stands for a level."""
_OFFLINE = frozenset({"offline", "unavailable", "dead", "lost", "false", "0"})
_HIGHEST = 1e15
_FLOOD_MEMORY_S = 60.0


def parse_payload(heard: Heard) -> Any:
    """Read JSON, or a text as it is. Raises ValueError."""
    if heard.too_long:
        raise ValueError(f"what it publishes is longer than {MAX_PAYLOAD_BYTES} bytes")
    try:
        text = heard.payload.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError("what it publishes is no text") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parse_value(given: Any, conversion: Conversion) -> float:
    """Make a value in our unit of what was published. Raises ValueError for what is no number."""
    value: float | None = None
    if isinstance(given, bool) or (isinstance(given, str) and given.strip().lower() in _WORDS):
        if conversion.quantity == "level":
            value = _WORDS[str(given).strip().lower()]
    elif isinstance(given, int | float):
        value = float(given) if abs(given) < _HIGHEST else None
    elif isinstance(given, str) and _NUMBER.fullmatch(given.strip()):
        value = float(given)
    if value is None or not math.isfinite(value):
        raise ValueError(f"what it publishes is no number: {show_value(given)}")
    return value * conversion.factor + conversion.offset


@dataclass
class Topic:
    """A sensor, with what was heard of it: `at` is in seconds of a clock that nobody sets.

    `payload` is the last that was taken, and `is_kept` says that the broker had it before we came.
    """

    config: SensorConfig
    conversion: Conversion
    value: float | None = None
    at: float = 0.0
    problem: str = "nothing has been published yet"
    payload: bytes | None = None
    is_kept: bool = False
    offline: str = ""
    told: str = ""


class MqttSensors:
    """The sensors of config.toml that have a topic."""

    def __init__(
        self,
        sensors: Mapping[str, SensorConfig],
        note: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sensors = {
            name: Topic(one, find_conversion(one.unit, one.quantity, one.field))
            for name, one in sensors.items()
            if one.mqtt
        }
        self._note, self._clock, self._lock = note, clock, threading.Lock()

    @property
    def topics(self) -> list[str]:
        """What is to be listened to."""
        both = ((one.config.mqtt, one.config.availability) for one in self._sensors.values())
        return [topic for topic in dict.fromkeys(topic for pair in both for topic in pair) if topic]

    def hear(self, heard: Heard) -> None:
        """Take a message, if it is about one of them."""
        for name, sensor in self._sensors.items():
            with self._lock:
                if heard.topic == sensor.config.availability:
                    self._hear_availability(sensor, heard)
                if heard.topic == sensor.config.mqtt:
                    self._hear_value(name, sensor, heard)

    def _hear_availability(self, sensor: Topic, heard: Heard) -> None:
        try:
            given = parse_payload(heard)
        except ValueError:
            return
        given = given.get("state", "") if isinstance(given, dict) else given
        sensor.offline = "it is offline" if str(given).strip().lower() in _OFFLINE else ""

    def _hear_value(self, name: str, sensor: Topic, heard: Heard) -> None:
        if heard.retained and heard.payload == sensor.payload:
            return  # the broker says again what is known, as after each connection
        try:
            value = parse_value(find_field(parse_payload(heard), sensor.config.field), sensor.conversion)
        except NoField as error:
            if sensor.value is None:
                sensor.problem = str(error)
                self._tell(name, sensor)
            return  # many devices publish their fields one by one
        except ValueError as error:
            sensor.value, sensor.problem, sensor.payload = None, str(error), heard.payload
            self._tell(name, sensor)
            return
        sensor.value, sensor.problem, sensor.told, sensor.payload = value, "", "", heard.payload
        sensor.at, sensor.is_kept = self._clock(), heard.retained

    def _tell(self, name: str, sensor: Topic) -> None:
        kind = sensor.problem.partition(":")[0]
        if kind != sensor.told:
            sensor.told = kind
            self._note(f"mqtt: sensor {name}: {sensor.problem}")

    def describe(self, flooded_at: float | None = None) -> dict[str, dict[str, Any]]:
        """Say of each what is known: value in our unit, age in seconds, problem, doubt."""
        now = self._clock()
        is_flooded = flooded_at is not None and now - flooded_at < _FLOOD_MEMORY_S
        with self._lock:
            return {name: _describe(sensor, now, is_flooded=is_flooded) for name, sensor in self._sensors.items()}


def _describe(sensor: Topic, now: float, *, is_flooded: bool) -> dict[str, Any]:
    age = max(0.0, now - sensor.at)
    problem = sensor.problem or sensor.offline
    if not problem and age > sensor.config.stale_minutes * 60:
        problem = f"nothing has been published for {format_duration(age)}"
    doubts = ["the broker had kept it, and nobody knows how old it is"] if sensor.is_kept else []
    doubts += ["more is published than can be read"] if is_flooded else []
    return {"value": sensor.value, "age": age, "problem": problem, "doubt": "; ".join(doubts)}
