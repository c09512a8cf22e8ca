"""Readings of sensors that publish over MQTT, asked from the daemon: it alone is connected to the broker."""

import time
from pathlib import Path

from picoclaw.channels.ipc import ask_daemon
from picoclaw.hw.loader import describe_part
from picoclaw.hw.reading import Reading, WiredPart

_TIMEOUT_S = 2.0


def read_from_daemon(home: Path, name: str, part: WiredPart) -> Reading:
    """Give the last value that was published; why there is none is the reading's problem."""
    nothing = Reading(name, part.quantity, None, describe_part(part))
    said = ask_daemon(home, {"do": "mqtt"}, _TIMEOUT_S)
    if said is None:
        return nothing._replace(problem="picoclaw does not run, and it alone hears the broker: picoclaw run")
    found = said.get("sensors", {}).get(name)
    if not isinstance(found, dict):
        problem = said.get("error") or "picoclaw runs with older settings: picoclaw restart"
        return nothing._replace(problem=str(problem))
    if found["problem"]:
        return nothing._replace(problem=found["problem"])
    return nothing._replace(value=found["value"], at=time.time() - found["age"], doubt=found["doubt"])
