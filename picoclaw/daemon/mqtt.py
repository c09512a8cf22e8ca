"""The daemon's connection to the MQTT broker: what it hears and publishes. paho is imported where [mqtt] is set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from picoclaw.app import App
from picoclaw.channels.channel import ChannelStatus

if TYPE_CHECKING:
    from picoclaw.mqtt.connection import Heard, MqttConnection

MISSING_PAHO = 'paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"'


class DaemonMqtt:
    """What the daemon has to do with the broker; without paho it only says so."""

    def __init__(self, app: App, note: Callable[..., None]) -> None:
        self._app, self._since = app, time.time()
        self._connection: MqttConnection | None = None
        try:
            from picoclaw.mqtt.connection import MqttConnection
        except ImportError:
            note(f"mqtt: {MISSING_PAHO}")
            return
        from picoclaw.mqtt.sensors import MqttSensors

        self._sensors = MqttSensors(app.config.sensors, note)
        self._connection = MqttConnection(
            app.config.mqtt, app.config.mqtt_password, self._hear, note, lambda: self._sensors.topics
        )

    def start(self) -> None:
        if self._connection:
            self._connection.start()

    def stop(self) -> None:
        if self._connection:
            self._connection.stop()

    def status(self) -> ChannelStatus:
        """How the connection is, as a row of the status."""
        if self._connection is None:
            return ChannelStatus(False, self._since, MISSING_PAHO)
        return self._connection.status()

    def describe(self) -> dict[str, Any]:
        """Say what a process that is not connected may ask: the values of the sensors."""
        if self._connection is None:
            return {"error": MISSING_PAHO}
        return {"sensors": self._sensors.describe(self._connection.flooded_at)}

    def _hear(self, heard: Heard) -> None:
        self._sensors.hear(heard)


@contextmanager
def open_mqtt(app: App, note: Callable[..., None]) -> Iterator[DaemonMqtt]:
    """Be connected while the block runs."""
    mqtt = DaemonMqtt(app, note)
    mqtt.start()
    try:
        yield mqtt
    finally:
        mqtt.stop()
