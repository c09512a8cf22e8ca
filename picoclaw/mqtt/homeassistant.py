"""What Home Assistant is told of a board: one device with its sensors, outputs, STOP and health, and their states.

Source: Home Assistant, "MQTT" integration: device discovery, sensor, binary_sensor, switch, light, fan, valve, number,
button, event, text.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from picoclaw import __version__
from picoclaw.hw.reading import QUANTITIES, Reading
from picoclaw.text import escape_unprintable, pattern

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
    """Make a text fit for topics and identifiers."""
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
    components["reminder"] = {
        "p": "sensor",
        "name": "next reminder",
        "stat_t": names.reminder,
        "val_tpl": "{{ value_json.at }}",
        "dev_cla": "timestamp",
        "json_attr_t": names.reminder,
    }
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


def _make_sensor(names: Names, reading: Reading, expire_s: int) -> dict[str, Any]:
    topic, quantity = names.sensor(reading), QUANTITIES[reading.quantity]
    is_there = "{{ 'offline' if value_json.value is none else 'online' }}"
    made: dict[str, Any] = {
        "p": "sensor",
        "name": f"{reading.sensor} {reading.label}",
        "stat_t": topic,
        "val_tpl": "{{ value_json.value }}",
        "json_attr_t": topic,
        "stat_cla": "measurement",
        "exp_aft": expire_s,
        "sug_dsp_prc": quantity.digits,
        "avty": [{"t": topic, "val_tpl": is_there}],
    }
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
    return {
        "p": "sensor",
        "name": f"{row['name']} time left",
        "stat_t": names.output(row["name"]),
        "val_tpl": "{{ (value_json.left_s or 0) | round | int }}",
        "unit_of_meas": "s",
        "dev_cla": "duration",
        "ent_cat": "diagnostic",
    }


def _make_questions(names: Names) -> dict[str, Any]:
    """Make the field for a question, and the sensor of its answer; a state has up to 255 characters."""
    return {
        "ask": {
            "p": "text",
            "name": "ask",
            "cmd_t": names.ask,
            "stat_t": names.answer,
            "val_tpl": "{{ value_json.question[:255] }}",
        },
        "answer": {
            "p": "sensor",
            "name": "answer",
            "stat_t": names.answer,
            "val_tpl": "{{ value_json.answer[:255] }}",
            "json_attr_t": names.answer,
        },
    }


def _make_health(names: Names) -> dict[str, Any]:
    def diagnostic(kind: str, name: str, template: str, **more: Any) -> dict[str, Any]:
        made = {"p": kind, "name": name, "stat_t": names.health, "val_tpl": template, "ent_cat": "diagnostic"}
        return made | more

    size = {"unit_of_meas": "MB", "dev_cla": "data_size", "stat_cla": "measurement"}
    is_bad = "{{ 'ON' if value_json.problems else 'OFF' }}"
    return {
        "problem": diagnostic("binary_sensor", "problem", is_bad, dev_cla="problem", json_attr_t=names.health),
        "memory": diagnostic("sensor", "memory", "{{ value_json.memory_mb }}", **size, ic="mdi:memory"),
        "disk": diagnostic("sensor", "free disk", "{{ value_json.disk_free_mb }}", **size),
    }


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
