"""The connection to the MQTT broker of the house; paho is imported only where config.toml has [mqtt]."""

import time
from pathlib import Path

from picoclaw.hw.loader import describe_part
from picoclaw.hw.reading import Reading, WiredPart

MISSING_NACL = 'the fleet is not installed: pip install "picoclaw-edge[fleet]"'
_TIMEOUT_S = 2.0


def read_remote(home: Path, name: str, part: WiredPart) -> Reading:
    """Give the last value that a sensor has published, by asking the daemon of this home, which alone is connected.

    Why there is none is the reading's problem.
    """
    from picoclaw.channels.ipc import ask_daemon

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
