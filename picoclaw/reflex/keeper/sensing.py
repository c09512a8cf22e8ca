"""Measures the required sensors, in a thread, so that a bus that hangs delays nobody: no answer is a stale one."""

import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from picoclaw.config import load
from picoclaw.errors import ConfigError
from picoclaw.hw import loader, parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Reading
from picoclaw.reflex.clock import boottime
from picoclaw.reflex.declared import Needs
from picoclaw.reflex.rules import Sample

Measure = Callable[[str, str], Reading]
_Key = tuple[str, str]


class Sampler:
    """Samples by sensor and quantity. The thread begins with the first wish, and sleeps until the next."""

    def __init__(self, measure: Measure, wake: int) -> None:
        """`measure(sensor, quantity)` may take long; a byte on the descriptor `wake` says that it is done."""
        self._measure = measure
        self._wake = wake
        self._samples: dict[_Key, Sample] = {}
        self._asked: set[_Key] = set()
        self._wishes: queue.SimpleQueue[_Key] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def latest(self, needs: Needs) -> Sample | None:
        """See Samples.latest."""
        return self._samples.get((needs.sensor, needs.quantity))

    def want(self, needs: Needs) -> None:
        """See Samples.want; one that is under way is waited for."""
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
            sample = Sample(boottime(), None, "its driver failed")
            try:
                reading = self._measure(*key)
                sample = Sample(sample.at, reading.value, reading.problem or reading.doubt)
            finally:
                self._samples[key] = sample
                self._asked.discard(key)
                os.write(self._wake, b"\0")


def measurer(board: Board, home: Path) -> Measure:
    """Return what reads a sensor by its name, as `sensor_read` knows it; whatever fails becomes a Reading."""
    folders = loader.folders(home)
    drivers = parts.Drivers(board, lambda part: loader.chip(part, folders))

    def measure(sensor: str, quantity: str) -> Reading:
        try:
            known = survey.sensors(board, parts.wired(load({"PICOCLAW_HOME": str(home)}), board))
        except ConfigError as error:
            return Reading(sensor, quantity, None, "", str(error))
        for found in known:
            for reading in survey.read(board, drivers, found, quantity) if found.name == sensor else ():
                if reading.quantity == quantity:
                    return reading
        return Reading(sensor, quantity, None, "", f"there is no sensor {sensor!r} with {quantity}")

    return measure
