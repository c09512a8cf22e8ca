"""The simulated board: ships in the package, behaves like the real one, and says everywhere that it is not.

A BME280 at 0x76 on i2c-1, a processor with a temperature, and the kernel files that a small Pi shows.
"""

import fnmatch
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from picoclaw.errors import DeviceMissing
from picoclaw.hw.board import Adapter, I2CBus, Presence, Read, Space, Wired, Write
from picoclaw.hw.sim_parts import SimBME280, SimPart

_BOOTED_BEFORE_S = 90_061


class SimBoard:
    """A board made of arithmetic. `clock` gives seconds since the epoch; tests turn its hands."""

    simulated = True

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Wire the parts up; nothing outside this object is touched."""
        self._clock = clock
        self._buses = {1: SimI2C(1, {0x76: SimBME280(clock)})}
        self._files: dict[str, Callable[[], str]] = {
            "/proc/device-tree/model": lambda: "Simulated board (no hardware is attached)",
            "/proc/meminfo": lambda: "MemTotal: 437500 kB\nMemAvailable: 262144 kB",
            "/proc/loadavg": lambda: "0.08 0.05 0.01 1/99 1234",
            "/proc/uptime": lambda: f"{_BOOTED_BEFORE_S}.00 0.00",
            "/sys/class/thermal/thermal_zone0/type": lambda: "cpu-thermal",
            "/sys/class/thermal/thermal_zone0/temp": lambda: str(round(46_000 + 3000 * math.sin(clock() / 300))),
            "/sys/devices/platform/soc/soc:firmware/get_throttled": lambda: "0",
        }

    def text(self, path: str) -> str:
        """See Board.text."""
        if path not in self._files:
            raise DeviceMissing(f"{path} does not exist on the simulated board")
        return self._files[path]()

    def glob(self, pattern: str) -> list[str]:
        """See Board.glob; like a shell's, `*` stays inside one folder."""
        parts = pattern.count("/")
        return sorted(p for p in self._files if p.count("/") == parts and fnmatch.fnmatchcase(p, pattern))

    def space(self, path: str) -> Space:  # noqa: ARG002
        """See Board.space."""
        return Space(31_000_000_000, 24_800_000_000)

    def clock_synchronised(self) -> bool:
        """See Board.clock_synchronised."""
        return False

    def adapters(self) -> list[Adapter]:
        """See Board.adapters."""
        return [Adapter(1, "/dev/i2c-1", "simulated adapter", header=True)]

    def i2c(self, number: int) -> I2CBus:
        """See Board.i2c."""
        if number not in self._buses:
            raise DeviceMissing(f"/dev/i2c-{number} does not exist on the simulated board; it has i2c-1")
        return self._buses[number]

    def wired(self) -> Mapping[str, Wired]:
        """See Board.wired."""
        return {"greenhouse": Wired("bme280", 1, 0x76)}

    def close(self) -> None:
        """See Board.close."""


class SimI2C:
    """A bus of simulated parts."""

    def __init__(self, number: int, parts: Mapping[int, SimPart]) -> None:
        """`parts` by 7-bit address."""
        self.number = number
        self.parts = dict(parts)
        self.log: deque[tuple[int, Read | Write]] = deque(maxlen=1000)

    def transfer(self, address: int, segments: Sequence[Read | Write]) -> list[bytes]:
        """See I2CBus.transfer."""
        part = self.parts.get(address)
        if part is None:
            raise DeviceMissing(
                f"0x{address:02x} on /dev/i2c-{self.number} does not answer: nothing is wired there (simulated)"
            )
        answers = []
        for segment in segments:
            self.log.append((address, segment))
            if isinstance(segment, Write):
                part.write(segment.data)
            else:
                answers.append(part.read(segment.length))
        return answers

    def probe(self, address: int) -> Presence:
        """See I2CBus.probe."""
        return "present" if address in self.parts else "absent"

    def holder(self, address: int) -> str:  # noqa: ARG002
        """See I2CBus.holder: no kernel, no driver."""
        return ""
