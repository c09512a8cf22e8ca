"""Discovery at a broker: what other devices publish that could be a sensor, and what Home Assistant is told of this board.

Found are Home Assistant's messages, names and numbers; the last value of each sensor whose values are published at a topic
is kept in memory, and why there is none. Home Assistant is told of one device with its sensors, outputs, STOP and health.

Sources: Home Assistant, "MQTT" and "MQTT discovery" (device discovery, names of keys and their abbreviations); Zigbee2MQTT,
"MQTT topics and messages"; Tasmota, "MQTT"; ESPHome, "MQTT client component".
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from picoclaw import __version__
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.reading import QUANTITIES, Conversion, Reading, find_conversion
from picoclaw.mqtt.connection import MAX_PAYLOAD_BYTES, Heard
from picoclaw.records import NamedTuple, dataclass
from picoclaw.schema import NoField, find_field, show_value
from picoclaw.text import escape_unprintable, pattern
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


_DEVICE_CLASSES = {
    "temperature": "temperature",
    "humidity": "humidity",
    "pressure": "pressure",
    "light": "illuminance",
    "voltage": "voltage",
    "current": "current",
    "power": "power",
    "co2": "carbon_dioxide",
    "distance": "distance",
    "dust": "pm25",
    "speed": "speed",
}
_UNITS = {"rpm": "rpm", "UTC": "", "ticks": ""}
_PERCENT = pattern(r"\d{1,3}(\.\d{1,3})?")
_IDENTIFIER = pattern(r"[A-Za-z0-9_-]{1,130}")
_PLATFORMS = frozenset({"sensor", "binary_sensor", "switch", "light", "fan", "valve", "number"})
_UNSAFE = pattern(r"[^A-Za-z0-9_-]+")
MAX_QUESTION = 1000
Payloads = dict[str, str]
"""Payloads by topic."""


class Names:
    """The topics of a board, and what begins the identifiers of its entities."""

    def __init__(self, base: str, prefix: str) -> None:
        self.base, self.prefix = base, prefix
        self.device = base.replace("/", "-")
        self.discovery = f"{prefix}/device/{self.device}/config"
        self.health, self.alarm, self.reminder = f"{base}/health", f"{base}/alarm", f"{base}/reminder"
        self.stop, self.ask, self.answer = f"{base}/stop", f"{base}/ask", f"{base}/answer"

    def sensor(self, reading: Reading) -> str:
        return f"{self.base}/sensor/{make_identifier(reading.sensor)}/{make_identifier(reading.label)}"

    def output(self, name: str) -> str:
        """The topic of an output's state; that of its orders ends in /set."""
        return f"{self.base}/output/{name}"


def make_identifier(text: str) -> str:
    return _UNSAFE.sub("_", text).strip("_")[:64] or "_"


def make_discovery(
    names: Names,
    model: str,
    readings: Iterable[Reading],
    outputs: Iterable[Mapping[str, Any]],
    expire_s: int,
    *,
    takes_questions: bool = False,
    former: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Make the message that announces the board; values are taken for lost after `expire_s` seconds.

    `outputs` are rows of the supervisor's list, with `kind`, `takes_orders`, `graded`, `longest_s`. What is gone of the
    `former` outputs is named by its platform alone, which has Home Assistant forget it; a sensor may only be away.
    """
    components: dict[str, Any] = {}
    for reading in readings:
        components[make_identifier(f"{reading.sensor}_{reading.label}")] = _make_sensor(names, reading, expire_s)
    for row in outputs:
        components[f"output_{row['name']}"] = _make_output(names, row)
        components[f"left_{row['name']}"] = _make_time_left(names, row)
    components["stop"] = {"p": "button", "name": "STOP", "ic": "mdi:stop-circle", "cmd_t": names.stop, "pl_prs": "STOP"}
    components["alarm"] = {"p": "event", "name": "alarm", "stat_t": names.alarm, "evt_typ": ["alarm"], "qos": 2}
    more = {"dev_cla": "timestamp", "json_attr_t": names.reminder}
    components["reminder"] = _make_state("sensor", "next reminder", names.reminder, "{{ value_json.at }}", **more)
    if takes_questions:
        components |= _make_questions(names)
    components |= _make_health(names)
    for key, one in components.items():
        one["uniq_id"] = f"{names.device}_{key}"
        one.setdefault("avty", []).append({"t": f"{names.base}/status"})
        one["avty_mode"] = "all"
    gone = {key: {"p": platform} for key, platform in former.items() if key not in components}
    components |= {key: one for key, one in gone.items() if key.startswith(("output_", "left_"))}
    device = {"ids": [names.device], "name": names.base.rpartition("/")[2], "mf": "picoclaw", "mdl": model}
    origin = {"name": "picoclaw", "sw": __version__}
    return json.dumps({"dev": device | {"sw": __version__}, "o": origin, "cmps": components}, ensure_ascii=False)


def parse_platforms(payload: bytes) -> dict[str, str]:
    """Read which components a message has announced, with the platform of each; none out of what is not one."""
    try:
        found = json.loads(payload)["cmps"].items()
        listed = [(key, one["p"]) for key, one in found if _IDENTIFIER.fullmatch(key) and len(one) > 1]
        return {key: platform for key, platform in listed if platform in _PLATFORMS}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _make_state(platform: str, name: str, topic: str, template: str, **more: Any) -> dict[str, Any]:
    """A component whose state is what the template makes of what is published at the topic."""
    return {"p": platform, "name": name, "stat_t": topic, "val_tpl": template} | more


def _make_sensor(names: Names, reading: Reading, expire_s: int) -> dict[str, Any]:
    topic, quantity = names.sensor(reading), QUANTITIES[reading.quantity]
    is_there = "{{ 'offline' if value_json.value is none else 'online' }}"
    made = _make_state(
        "sensor", f"{reading.sensor} {reading.label}", topic, "{{ value_json.value }}", json_attr_t=topic
    )
    made |= {"stat_cla": "measurement", "exp_aft": expire_s, "sug_dsp_prc": quantity.digits}
    made["avty"] = [{"t": topic, "val_tpl": is_there}]
    if unit := _UNITS.get(quantity.unit, quantity.unit):
        made["unit_of_meas"] = unit
    if kind := _DEVICE_CLASSES.get(reading.quantity):
        made["dev_cla"] = kind
    return made | ({"ent_cat": "diagnostic"} if reading.is_internal else {})


def _make_output(names: Names, row: Mapping[str, Any]) -> dict[str, Any]:
    topic, graded = names.output(row["name"]), row["graded"]
    orders, state, level = f"{topic}/set", "{{ value_json.state }}", "{{ value_json.level | round | int }}"
    made: dict[str, Any] = {"name": row["name"], "stat_t": topic, "json_attr_t": topic}
    words = {"pl_on": "ON", "pl_off": "OFF"}
    if not row["takes_orders"]:
        return made | words | {"p": "binary_sensor", "val_tpl": state}
    made["cmd_t"] = orders
    if row["kind"] == "light":
        made |= words | {"p": "light", "stat_val_tpl": state}
        shades = {"bri_cmd_t": orders, "bri_stat_t": topic, "bri_val_tpl": level, "bri_scl": 100}
        return made | (shades | {"on_cmd_type": "brightness"} if graded else {})
    if row["kind"] in {"fan", "motor"}:
        made |= words | {"p": "fan", "stat_val_tpl": state}
        speeds = {"pct_cmd_t": orders, "pct_stat_t": topic, "pct_val_tpl": level}
        return made | (speeds if graded else {})
    if row["kind"] == "valve" and graded:
        return made | {"p": "valve", "pos": True, "val_tpl": level}
    if row["kind"] == "valve":
        ends = {"pl_open": "ON", "pl_cls": "OFF", "stat_open": "ON", "stat_clsd": "OFF"}
        return made | ends | {"p": "valve", "val_tpl": state}
    if graded:
        return made | {"p": "number", "val_tpl": level, "min": 0, "max": 100, "step": 1, "unit_of_meas": "%"}
    return made | words | {"p": "switch", "val_tpl": state}


def _make_time_left(names: Names, row: Mapping[str, Any]) -> dict[str, Any]:
    name, left = row["name"], "{{ (value_json.left_s or 0) | round | int }}"
    more = {"unit_of_meas": "s", "dev_cla": "duration", "ent_cat": "diagnostic"}
    return _make_state("sensor", f"{name} time left", names.output(name), left, **more)


def _make_questions(names: Names) -> dict[str, Any]:
    """Make the field for a question, and the sensor of its answer; a state has up to 255 characters."""
    asked, said = "{{ value_json.question[:255] }}", "{{ value_json.answer[:255] }}"
    return {
        "ask": _make_state("text", "ask", names.answer, asked, cmd_t=names.ask),
        "answer": _make_state("sensor", "answer", names.answer, said, json_attr_t=names.answer),
    }


def _make_health(names: Names) -> dict[str, Any]:
    size = {"unit_of_meas": "MB", "dev_cla": "data_size", "stat_cla": "measurement"}
    is_bad = "{{ 'ON' if value_json.problems else 'OFF' }}"
    problem = {"dev_cla": "problem", "json_attr_t": names.health}
    made = {
        "problem": _make_state("binary_sensor", "problem", names.health, is_bad, **problem),
        "memory": _make_state("sensor", "memory", names.health, "{{ value_json.memory_mb }}", **size, ic="mdi:memory"),
        "disk": _make_state("sensor", "free disk", names.health, "{{ value_json.disk_free_mb }}", **size),
    }
    return {key: one | {"ent_cat": "diagnostic"} for key, one in made.items()}


def make_values(names: Names, readings: Iterable[Reading], now: float) -> Payloads:
    """Make the states of sensors: value, quality, age and what is wrong."""
    return {
        names.sensor(one): json.dumps(
            {
                "value": None if one.value is None else round(one.value, max(3, QUANTITIES[one.quantity].digits)),
                "quality": one.quality,
                "age_s": round(max(0.0, now - one.at)) if one.at else None,
                "problem": one.problem or one.doubt,
                "source": one.source,
            },
            ensure_ascii=False,
        )
        for one in readings
    }


def make_output_states(names: Names, outputs: Iterable[Mapping[str, Any]], whys: Mapping[str, str]) -> Payloads:
    """Make the states of outputs: level, what is left of their time, and why they are as they are."""
    return {
        names.output(row["name"]): json.dumps(
            {
                "state": "ON" if row["level"] else "OFF",
                "level": row["level"],
                "left_s": row["left"],
                "longest_s": row["longest_s"],
                "limits": row["limits"],
                "armed": row["armed"],
                "why": whys.get(row["name"], ""),
            },
            ensure_ascii=False,
        )
        for row in outputs
    }


def make_alarm(text: str, at: float, number: int, *, again: bool) -> str:
    """Make the event of an alarm; `again`: it may be one that was published before, by the same number."""
    made = {"event_type": "alarm", "text": text, "at": at, "number": number, "perhaps_a_repeat": again}
    return json.dumps(made, ensure_ascii=False)


def make_reminder(found: Mapping[str, Any], *, with_text: bool) -> str:
    """Make the state of the next reminder: when it comes, as ISO 8601, and what it says only if that is wanted."""
    at = datetime.fromtimestamp(round(found["at"]), UTC).isoformat() if found else None
    return json.dumps({"at": at} | ({"text": found.get("text", "")} if with_text else {}), ensure_ascii=False)


def parse_question(payload: bytes) -> str:
    """Read a question; '' for what is none."""
    text = payload[: 4 * MAX_QUESTION].decode("utf-8", "replace")
    return escape_unprintable(" ".join(text.split())[:MAX_QUESTION])


def parse_order(payload: bytes) -> str:
    """Read the level that an order wants: on, off or percent. Raises ValueError."""
    text = payload[:40].decode("utf-8", "replace").strip().lower()
    if text in {"on", "off"}:
        return text
    if not _PERCENT.fullmatch(text) or not 0 <= float(text) <= 100:
        raise ValueError(f"{escape_unprintable(text)!r} is no order: ON, OFF, or 0 to 100 percent")
    return {0.0: "off", 100.0: "on"}.get(float(text), text)


def make_health(names: Names, status: Mapping[str, Any]) -> Payloads:
    """Make the state of the board out of the daemon's."""
    kept = {key: status.get(key) for key in ("version", "board", "memory_mb", "disk_free_mb", "problems")}
    return {names.health: json.dumps(kept, ensure_ascii=False)}
