"""What is published at a broker, and which of it could be a sensor: by Home Assistant's messages, names and numbers.

The last value of each sensor whose values are published at a topic is kept in memory, and why there is none.

Sources: Home Assistant, "MQTT discovery" (names of keys and their abbreviations); Zigbee2MQTT, "MQTT topics and
messages"; Tasmota, "MQTT"; ESPHome, "MQTT client component".
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.reading import QUANTITIES, Conversion, find_conversion
from picoclaw.mqtt.connection import MAX_PAYLOAD_BYTES, Heard
from picoclaw.records import NamedTuple, dataclass
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


MAX_TOPICS = 2000
_MAX_DEPTH, _MAX_FILTER_BYTES = 6, 65_535
_MAX_OFFERS = 200
_DISCOVERY = pattern(r"[^/]+/(sensor|binary_sensor|device)/.+/config")
_TEMPLATE = pattern(r"\{\{\s*value_json((?:\.\w+|\[['\"][^'\"]+['\"]\]|\[\d+\])+)\s*(?:\|[^}]*)?\}\}")
_STEP = pattern(r"\.(\w+)|\[['\"]([^'\"]+)['\"]\]|\[(\d+)\]")
_SHORT = {
    "stat_t": "state_topic",
    "unit_of_meas": "unit_of_measurement",
    "val_tpl": "value_template",
    "dev": "device",
    "cmps": "components",
    "p": "platform",
    "avty_t": "availability_topic",
    "avty": "availability",
    "dev_cla": "device_class",
    "t": "topic",
}
_CLASSES = {"carbon_dioxide": "co2", "illuminance": "light", "atmospheric_pressure": "pressure", "pm25": "dust"}
_BEST_KNOWN = ("temperature", "humidity", "pressure", "co2", "power", "voltage", "current", "light", "distance", "tvoc")
"""Quantities that a field's name is taken for; others, such as time, level or fan, mean too much else."""


class Offer(NamedTuple):
    """A sensor that could be added, and what it says just now, '' if that is not known."""

    name: str
    sensor: SensorConfig
    value: str


class Listener:
    """Remembers the last message of each topic, up to a limit."""

    def __init__(self) -> None:
        self.last: dict[str, Heard] = {}
        self.missed = False

    def hear(self, heard: Heard) -> None:
        """Take a message."""
        if heard.topic in self.last or len(self.last) < MAX_TOPICS:
            self.last[heard.topic] = heard
        else:
            self.missed = True


def is_filter(text: str) -> bool:
    """Tell whether a broker takes it as what to listen to: # is the last level, + is one by itself (MQTT 5, 4.7.1)."""
    levels = text.split("/")
    return (
        0 < len(text.encode("utf-8", "replace")) <= _MAX_FILTER_BYTES
        and text.isprintable()
        and "#" not in levels[:-1]
        and all(level in {"#", "+"} or not set(level) & set("#+") for level in levels)
    )


def list_offers(heard: Mapping[str, Heard], known: Mapping[str, SensorConfig], own: str) -> list[Offer]:
    """List the sensors that could be added: first what is announced for Home Assistant, then what looks like one.

    Topics that begin with `own` are what this board publishes itself.
    """
    taken = {(one.mqtt, one.field) for one in known.values()}
    names = set(known)
    offers: list[Offer] = []
    for hint, sensor in [*_list_announced(heard), *_list_likely(heard)]:
        is_known = (sensor.mqtt, sensor.field) in taken or sensor.mqtt.startswith(own)
        if is_known or len(offers) >= _MAX_OFFERS:
            continue
        try:
            sensor.check("")
            conversion = find_conversion(sensor.unit, sensor.quantity, sensor.field)
        except (ConfigError, ValueError):
            continue
        taken.add((sensor.mqtt, sensor.field))
        name = _make_name(hint, conversion.quantity, names)
        names.add(name)
        offers.append(Offer(name, sensor, _format_value(heard.get(sensor.mqtt), sensor, conversion)))
    return offers


def list_topics(heard: Mapping[str, Heard]) -> Iterator[str]:
    """List the topics in lines, each with the beginning of what is published there."""
    for topic in sorted(heard):
        if not _DISCOVERY.fullmatch(topic):
            payload = heard[topic].payload[:400].decode("utf-8", "replace")
            yield f"{show_value(topic, 200)}: {show_value(' '.join(payload.split()), 100)}{' (kept)' if heard[topic].retained else ''}"


def _format_value(heard: Heard | None, sensor: SensorConfig, conversion: Conversion) -> str:
    try:
        value = parse_value(find_field(parse_payload(heard), sensor.field), conversion) if heard else None
    except ValueError:
        return ""
    return "" if value is None else f"{value:.6g} {QUANTITIES[conversion.quantity].unit}".rstrip()


def _make_name(hint: str, quantity: str, names: set[str]) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", hint.lower()).strip("_")[:32] or "sensor"
    numbered = (f"{plain}_{quantity}" if n < 2 else f"{plain}_{quantity}_{n}" for n in range(1, MAX_TOPICS))
    return plain if plain not in names else next(name for name in numbered if name not in names)


# What is announced for Home Assistant.


def _list_announced(heard: Mapping[str, Heard]) -> Iterator[tuple[str, SensorConfig]]:
    for topic, message in heard.items():
        if not _DISCOVERY.fullmatch(topic):
            continue
        given = _read_object(message)
        device = given.get("device")
        hint = str(_lengthen(device).get("name") or "") if isinstance(device, dict) else ""
        components = given.get("components")
        for one in components.values() if isinstance(components, dict) else [given]:
            if isinstance(one, dict) and (sensor := _read_announcement(given | _lengthen(one))):
                yield hint or str(one.get("name") or topic.split("/")[-2]), sensor


def _read_object(message: Heard) -> dict[str, Any]:
    try:
        given = parse_payload(message)
    except ValueError:
        return {}
    return _lengthen(given) if isinstance(given, dict) else {}


def _lengthen(given: Mapping[str, Any]) -> dict[str, Any]:
    return {_SHORT.get(key, key): value for key, value in given.items()}


def _read_announcement(given: Mapping[str, Any]) -> SensorConfig | None:
    """Read what Home Assistant is told of a sensor; None for what has no number, or a template that computes."""
    begin = str(given.get("~", ""))
    state, unit = str(given.get("state_topic") or ""), str(given.get("unit_of_measurement") or "")
    template, kind = str(given.get("value_template") or ""), str(given.get("device_class") or "")
    found = _TEMPLATE.fullmatch(template.strip())
    is_plain = not template or re.fullmatch(r"\{\{\s*value\s*(\|[^}]*)?\}\}", template.strip())
    if not state or not unit or not (found or is_plain):
        return None
    state, listed = state.replace("~", begin), given.get("availability")
    each = [_lengthen(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    online = [str(one.get("topic") or "") for one in [{"topic": given.get("availability_topic")}, *each]]
    online = [topic for one in online if (topic := one.replace("~", begin)) not in {"", state}]
    kind = _CLASSES.get(kind, kind)
    return SensorConfig(
        mqtt=state,
        field=_make_path(found[1]) if found else "",
        unit=unit,
        quantity=kind if kind in QUANTITIES else "",
        availability=online[0] if online else "",
    )


def _make_path(steps: str) -> str:
    parts = (f"[{index}]" if index else f".{name or quoted}" for name, quoted, index in _STEP.findall(steps))
    return "".join(parts).lstrip(".")


# What looks like a sensor: a number whose field, or whose topic, has the name of a quantity.


def _list_likely(heard: Mapping[str, Heard]) -> Iterator[tuple[str, SensorConfig]]:
    for topic, message in heard.items():
        if topic.startswith(("homeassistant/", "picoclaw/")):
            continue
        try:
            given = parse_payload(message)
        except ValueError:
            continue
        parts = [part for part in topic.split("/") if part.lower() not in {"tele", "stat", "sensor", "state", "status"}]
        if isinstance(given, dict | list):
            hint = parts[-1] if parts else topic
            for path, quantity in _list_numbers(given):
                yield hint, SensorConfig(mqtt=topic, field=path, unit=QUANTITIES[quantity].unit, quantity=quantity)
        elif (quantity := _find_quantity(parts[-1] if parts else "")) and _is_number(given, quantity):
            hint = "_".join(parts[-2:]) if parts[-1].lower() == quantity else parts[-1]
            yield hint, SensorConfig(mqtt=topic, unit=QUANTITIES[quantity].unit, quantity=quantity)


def _list_numbers(given: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth < _MAX_DEPTH and isinstance(given, dict):
        for key, value in given.items():
            further = f"{path}.{key}".lstrip(".")
            if isinstance(value, dict):
                yield from _list_numbers(value, further, depth + 1)
            elif (quantity := _find_quantity(key)) and _is_plain(key) and _is_number(value, quantity):
                yield further, quantity


def _is_plain(key: str) -> bool:
    return key.isprintable() and not set(key) & set(".[]")


def _find_quantity(name: str) -> str:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return next((quantity for quantity in _BEST_KNOWN if quantity in words), "")


def _is_number(given: Any, quantity: str) -> bool:
    try:
        value = parse_value(given, Conversion(quantity))
    except ValueError:
        return False
    known = QUANTITIES[quantity]
    return known.low <= value <= known.high
