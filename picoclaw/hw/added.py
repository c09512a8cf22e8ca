"""`sensors.toml` in picoclaw's home: the parts that were added in conversation. config.toml, the owner's, wins."""

import fcntl
import json
import os
from pathlib import Path

from picoclaw.config import SensorConfig, added_sensors
from picoclaw.disk import write_atomic
from picoclaw.errors import ConfigError

NAME = "sensors.toml"
_HEAD = "# Parts that were added in conversation. Change or delete them freely; config.toml wins over this file.\n"


def keep(home: Path, name: str, sensor: SensorConfig) -> None:
    """Add a part durably; raises OSError, and ConfigError when the name is taken or the file is damaged."""
    import tomllib

    path = home / NAME
    folder = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another picoclaw may be adding one
        for other, there in added_sensors(home).items():
            if other == name or _place(there) == _place(sensor) != _UNSAID:
                raise ConfigError(f"{path} has a sensor {other!r} already{'' if other == name else ' in that place'}")
        before = path.read_text(encoding="utf-8") if path.exists() else _HEAD
        text = f"{before}\n{table(name, sensor)}"
        try:
            tomllib.loads(text)
        except (ValueError, RecursionError):
            raise ConfigError(f"{path} has its sensors in braces: write each below a [sensors.NAME]") from None
        write_atomic(path, text.encode())
    finally:
        os.close(folder)


_UNSAID = (None, 0, 0, "")


def _place(sensor: SensorConfig) -> tuple[int | None, int, int, str]:
    return sensor.bus, sensor.address, sensor.chip, sensor.port


def table(name: str, sensor: SensorConfig) -> str:
    """Write a part as a table of TOML, whose strings are those of JSON."""
    rows = [f"[sensors.{_text(name)}]", f"part = {_text(sensor.part)}"]
    if sensor.bus is not None:
        rows.append(f"bus = {sensor.bus}")
    if sensor.address:
        rows.append(f"address = 0x{sensor.address:02x}")
    if sensor.chip:
        rows.append(f"chip = {sensor.chip}")
    if sensor.port:
        rows.append(f"port = {_text(sensor.port)}")
    if sensor.options:
        pairs = ", ".join(f"{key} = {float(value)}" for key, value in sensor.options.items())
        rows.append(f"options = {{ {pairs} }}")
    return "\n".join(rows) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
