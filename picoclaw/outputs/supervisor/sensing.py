"""Measures the required sensors, in a thread, so that a bus that hangs delays nobody: no answer is a stale one."""

import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from picoclaw.automation.clock import boottime
from picoclaw.config import load_config
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Reading
from picoclaw.mqtt import read_remote
from picoclaw.outputs.audit import AUDIT_FILE
from picoclaw.outputs.config import RequiredSensor
from picoclaw.outputs.limits import SensorSample

MeasureFunction = Callable[[str, str], Reading]
_Key = tuple[str, str]


class RequiredSensorSampler:
    """Samples by sensor and quantity. The thread begins with the first wish, and sleeps until the next."""

    def __init__(self, measure: MeasureFunction, wake: int) -> None:
        """`measure(sensor, quantity)` may take long; a byte on the descriptor `wake` says that it is done."""
        self._measure = measure
        self._wake = wake
        self._samples: dict[_Key, SensorSample] = {}
        self._asked: set[_Key] = set()
        self._wishes: queue.SimpleQueue[_Key] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def latest(self, needs: RequiredSensor) -> SensorSample | None:
        return self._samples.get((needs.sensor, needs.quantity))

    def want(self, needs: RequiredSensor) -> None:
        """Ask for a new one, which comes later or never; one that is under way is waited for."""
        key = (needs.sensor, needs.quantity)
        if key in self._asked:
            return
        self._asked.add(key)
        self._wishes.put(key)
        if self._thread is None or not self._thread.is_alive():  # nothing that a driver raises may end this for good
            self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            key = self._wishes.get()
            sample = SensorSample(boottime(), None, "its driver failed")
            try:
                reading = self._measure(*key)
                age = max(0.0, time.time() - reading.at) if reading.at else 0.0  # of what came over MQTT
                sample = SensorSample(sample.at - age, reading.value, reading.problem or reading.doubt)
            finally:
                self._samples[key] = sample
                self._asked.discard(key)
                os.write(self._wake, b"\0")


def make_measure_function(board: Board, home: Path) -> MeasureFunction:
    """Return what reads a sensor by its name, as `sensor_read` knows it; whatever fails becomes a Reading."""
    folders = loader.list_driver_folders(home)
    remote = partial(read_remote, home)
    drivers = loader.Drivers(board, lambda part: loader.load_driver(part, folders), remote=remote)

    def measure(sensor: str, quantity: str) -> Reading:
        try:
            known = loader.list_sensors(board, loader.resolve_parts(load_config({"PICOCLAW_HOME": str(home)}), board))
        except ConfigError as error:
            return Reading(sensor, quantity, None, "", str(error))
        for found in known:
            for reading in loader.read_sensor(board, drivers, found, quantity) if found.name == sensor else ():
                if reading.quantity == quantity:
                    return reading
        return Reading(sensor, quantity, None, "", f"there is no sensor {sensor!r} with {quantity}")

    return measure


# Whether the clock of the day can be believed, for rules that speak of hours. Source: adjtimex(2), rtc(4).

_OLDEST_YEAR = 2026
_RTC_TOLERANCE_S = 60.0


def read_trusted_time(board: Board, home: Path) -> datetime | None:
    """Return local time, None when nothing vouches for it: neither the network's time nor a real-time clock.

    A date before the last record of the audit, or before this software was written, is not believed either.
    """
    now = datetime.now().astimezone()
    try:
        last = (home / AUDIT_FILE).stat().st_mtime
    except OSError:
        last = 0.0
    if now.year < _OLDEST_YEAR or now.timestamp() < last - _RTC_TOLERANCE_S:
        return None
    return now if board.simulated or board.clock_synchronised() or _agrees_with_rtc(board, now.timestamp()) else None


def _agrees_with_rtc(board: Board, now: float) -> bool:
    """A real-time clock that was set from a wrong date agrees with it; without a battery it does not survive."""
    try:
        return any(
            abs(int(board.text(path)) - now) <= _RTC_TOLERANCE_S
            for path in board.glob("/sys/class/rtc/rtc*/since_epoch")
        )
    except (HardwareError, ValueError):
        return False
