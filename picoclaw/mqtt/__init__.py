"""The connection to the MQTT broker of the house; paho is imported only where config.toml has [mqtt]."""

from pathlib import Path

from picoclaw.hw.reading import Reading, WiredPart


def read_remote(home: Path, name: str, part: WiredPart) -> Reading:
    """Read a sensor that publishes its values, by asking the daemon of this home."""
    from picoclaw.mqtt.remote import read_from_daemon

    return read_from_daemon(home, name, part)
