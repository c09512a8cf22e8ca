"""The daemon's part at the MQTT broker: what it hears and publishes. paho is imported where [mqtt] is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from picoclaw.app import App
from picoclaw.channels.channel import ChannelStatus
from picoclaw.daemon.status import get_outputs_status
from picoclaw.hw import health
from picoclaw.hw.reading import Reading
from picoclaw.outputs.config import load_armed, load_outputs
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from picoclaw.mqtt.connection import Heard, MqttConnection

MISSING_PAHO = 'paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"'
_OUTPUTS_INTERVAL_S, _HEALTH_INTERVAL_S = 10.0, 300.0
_MAX_WAITING = 16
_MAX_READINGS = 200
Task = Callable[[], None]


class DaemonMqtt:
    """What the daemon has to do with the broker; without paho it only says so."""

    def __init__(self, app: App, note: Callable[..., None], status: Callable[[], Mapping[str, Any]]) -> None:
        """`status` is the daemon's."""
        self._app, self._note, self._status, self._since = app, note, status, time.time()
        self._connection: MqttConnection | None = None
        try:
            from picoclaw.mqtt import connection, homeassistant, sensors
        except ImportError:
            note(f"mqtt: {MISSING_PAHO}")
            return
        config = app.config.mqtt
        self._ha, self._names = homeassistant, homeassistant.make_names(config)
        self._sensors = sensors.MqttSensors(app.config.sensors, note)
        self._connection = connection.MqttConnection(
            config, app.config.mqtt_password, self._hear, note, self._list_topics, self._publish_all
        )
        self._tasks: Queue[Task | None] = Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="mqtt work", daemon=True)
        self._readings: dict[tuple[str, str], Reading] = {}
        self._announced, self._health_at = "", 0.0

    def start(self) -> None:
        if self._connection:
            self._connection.start()
            self._thread.start()

    def stop(self) -> None:
        """End within seconds."""
        if self._connection:
            self._put(None)
            self._thread.join(2)
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

    def _list_topics(self) -> list[str]:
        own = [f"{self._names.prefix}/status"] if self._names.prefix else []
        return [*self._sensors.topics, *own]

    def _hear(self, heard: Heard) -> None:
        if self._names.prefix and heard.topic == f"{self._names.prefix}/status":
            if heard.payload == b"online":  # Home Assistant has started, and knows no value
                self._publish_all()
        else:
            self._sensors.hear(heard)

    # --- what is published ---

    def note_readings(self, readings: list[Reading]) -> list[Reading]:
        """Publish what has been measured, but for what others have published; gives the readings back."""
        if self._connection and self._names.prefix:
            others = {name for name, one in self._app.config.sensors.items() if one.mqtt}
            own = {(one.sensor, one.label): one for one in readings if one.sensor not in others}
            self._readings = dict(list((self._readings | own).items())[:_MAX_READINGS])
            self._put(self._publish_readings)
        return readings

    def _publish_all(self) -> None:
        """Publish everything anew, in the thread for that."""
        if self._names.prefix:
            self._announced, self._health_at = "", 0.0
            self._put(self._publish_readings)

    def _publish_readings(self) -> None:
        self._announce(rows := self._list_outputs())
        self._publish(self._ha.make_values(self._names, self._readings.values(), time.time()))
        self._publish(self._ha.make_output_states(self._names, rows, {}))

    def _announce(self, rows: list[dict[str, Any]]) -> None:
        """Tell Home Assistant what there is, when that is something new."""
        config, model = self._app.config, health.read_model(self._app.board)
        expire_s = round(3 * config.history.every_seconds + 60)
        text = self._ha.make_discovery(self._names, model, self._readings.values(), rows, expire_s)
        if text != self._announced and self._connection:
            self._connection.publish(self._names.discovery, text, retain=True, qos=1)
            self._announced = text

    def _publish(self, payloads: Mapping[str, str]) -> None:
        for topic, payload in payloads.items():
            if self._connection:
                self._connection.publish(topic, payload)

    def _list_outputs(self) -> list[dict[str, Any]]:
        """List the declared outputs as they are; no supervisor is started for that."""
        home = self._app.config.home
        if not (file := find_outputs_file(home)).exists():
            return []
        running, armed = {row["name"]: row for row in get_outputs_status(home)["outputs"]}, load_armed(home)
        return [
            {
                "name": name,
                "level": running.get(name, {}).get("level", output.safe_level),
                "left": running.get(name, {}).get("left"),
                "armed": armed.get(name) == output.digest,
                "graded": output.graded,
                "longest_s": output.longest_on_s,
                "takes_orders": False,
            }
            for name, output in load_outputs(file).outputs.items()
        ]

    def _publish_state(self) -> None:
        """Publish how outputs and board are, as often as that is due."""
        if not self._names.prefix or not self.status().up:
            return
        self._publish(self._ha.make_output_states(self._names, self._list_outputs(), {}))
        if time.monotonic() - self._health_at >= _HEALTH_INTERVAL_S or not self._health_at:
            self._health_at = time.monotonic()
            self._publish(self._ha.make_health(self._names, self._status()))

    # --- its thread ---

    def _put(self, task: Task | None) -> None:
        """Have something done in the thread for that; when too much waits, it is left."""
        try:
            self._tasks.put_nowait(task)
        except Full:
            if task is None:
                self._tasks.get_nowait()
                self._tasks.put_nowait(None)

    def _work(self) -> None:
        while True:
            has_outputs = find_outputs_file(self._app.config.home).exists()
            try:
                task = self._tasks.get(timeout=_OUTPUTS_INTERVAL_S if has_outputs else _HEALTH_INTERVAL_S)
            except Empty:
                task = _do_nothing
            if task is None:
                return
            task()
            self._publish_state()


def _do_nothing() -> None:
    """Only the state is published."""


@contextmanager
def open_mqtt(app: App, note: Callable[..., None], status: Callable[[], Mapping[str, Any]]) -> Iterator[DaemonMqtt]:
    """Be connected while the block runs."""
    mqtt = DaemonMqtt(app, note, status)
    mqtt.start()
    try:
        yield mqtt
    finally:
        mqtt.stop()
