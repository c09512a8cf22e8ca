"""The simulated board: parts behind simulated buses, a processor with a temperature, and the files of a small Pi."""

from __future__ import annotations

import errno
import fnmatch
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.errors import DeviceMissing
from picoclaw.hw.board import (
    Bias,
    DiskSpace,
    GpioChip,
    I2CAdapter,
    I2CBus,
    LineHandle,
    LineInfo,
    SerialPort,
    SerialPortInfo,
    SerialSettings,
    SpiDevice,
    SpiNode,
    translate_os_error,
)
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim.script import DEFAULT_SCRIPT, Scene, Script, SimFaults

if TYPE_CHECKING:
    from picoclaw.hw.sim.buses import SerialPeer, SimI2C, SimSpi
    from picoclaw.hw.sim.lines import SimLines

_BOOTED_BEFORE_S = 90_061


class SimBoard:
    """A board made of arithmetic; tests turn the hands of its clock."""

    simulated = True

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        script: Script = DEFAULT_SCRIPT,
        *,
        sleep: Callable[[float], None] = time.sleep,
        state: Path | None = None,
    ) -> None:
        """Wire the parts up.

        `clock` gives seconds since the epoch, `sleep` lets them pass; `state` is a folder in which the levels of the
        GPIO lines outlive the process, as on a board's pins; without it nothing outside this object is touched.
        """
        self._clock = clock
        self._sleep = sleep
        self._script = script
        self.wiring = SimFaults(clock)
        self.wiring.faults += script.faults
        self.scenes = {name: Scene(clock, script.values.get(name)) for name in script.wired}
        self._open_ports: set[str] = set()
        self._state = state
        self._files: dict[str, Callable[[], str]] = {
            "/proc/device-tree/model": lambda: "Simulated board (no hardware is attached)",
            "/proc/meminfo": lambda: "MemTotal: 437500 kB\nMemAvailable: 262144 kB",
            "/proc/loadavg": lambda: "0.08 0.05 0.01 1/99 1234",
            "/proc/uptime": lambda: f"{_BOOTED_BEFORE_S}.00 0.00",
            "/sys/class/thermal/thermal_zone0/type": lambda: "cpu-thermal",
            "/sys/class/thermal/thermal_zone0/temp": lambda: str(round(46_000 + 3000 * math.sin(clock() / 300))),
            "/sys/devices/platform/soc/soc:firmware/get_throttled": lambda: "0",
        }
        for wired, part in self._make_parts("onewire"):
            for file, content in part.files().items():
                path = f"/sys/bus/w1/devices/{wired.port}/{file}"
                self._files[path] = partial(self._onewire, wired.port, content)

    def _make_parts(self, route: str) -> Iterator[tuple[WiredPart, Any]]:
        """Make the parts on one kind of bus, whose modules a board that nobody asks for them need not load."""
        for name, wired in self._script.wired.items():
            if wired.route == route:
                from picoclaw.hw.sim.parts import make_part

                yield wired, make_part(wired.part, self.scenes[name])

    @cached_property
    def _buses(self) -> dict[int, SimI2C]:
        from picoclaw.hw.sim.buses import SimI2C

        buses = {1: SimI2C(1, {}, self.wiring)}
        for wired, part in self._make_parts("i2c"):
            buses.setdefault(wired.bus, SimI2C(wired.bus, {}, self.wiring)).parts[wired.address] = part
        return buses

    @cached_property
    def _chip_selects(self) -> dict[tuple[int, int], SimSpi]:
        from picoclaw.hw.sim.buses import SimSpi

        nodes = {(node.bus, node.chip): node for node in self.spi_nodes()}
        parts = self._make_parts("spi")
        return {(w.bus, w.chip): SimSpi(nodes[w.bus, w.chip], part, self.wiring) for w, part in parts}

    @cached_property
    def _peers(self) -> dict[str, SerialPeer | None]:
        wired = {wired.port: part for wired, part in self._make_parts("serial")}
        return dict.fromkeys(self._script.empty) | wired

    @cached_property
    def _lines(self) -> SimLines:
        from picoclaw.hw.sim.lines import SimLines

        return SimLines(self._script.lines, self._state)

    def _onewire(self, name: str, content: Callable[[], str]) -> str:
        """What the kernel says of a 1-Wire device whose plug may be loose."""
        with translate_os_error(f"/sys/bus/w1/devices/{name}"):
            if self.wiring.fault(name):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return content()

    def text(self, path: str) -> str:
        if path not in self._files:
            raise DeviceMissing(f"{path} does not exist on the simulated board")
        return self._files[path]()

    def put(self, path: str, text: str) -> None:
        if path not in self._files:
            raise DeviceMissing(f"{path} does not exist on the simulated board")
        self._files[path] = lambda: text

    def glob(self, pattern: str) -> list[str]:
        """See Board.glob; like a shell's, `*` stays inside one folder."""
        depth = pattern.count("/")
        found = {"/".join(p.split("/")[: depth + 1]) for p in self._files if p.count("/") >= depth}
        return sorted(p for p in found if fnmatch.fnmatchcase(p, pattern))

    def may_open(self, path: str) -> bool:  # noqa: ARG002
        return True

    def space(self, path: str) -> DiskSpace:  # noqa: ARG002
        return DiskSpace(31_000_000_000, 24_800_000_000)

    def clock_synchronised(self) -> bool:
        return False

    def adapters(self) -> list[I2CAdapter]:
        return [I2CAdapter(n, f"/dev/i2c-{n}", "simulated adapter", header=n == 1) for n in sorted(self._buses)]

    def i2c(self, number: int) -> I2CBus:
        if number not in self._buses:
            _raise_missing(f"/dev/i2c-{number}")
        return self._buses[number]

    def spi_nodes(self) -> list[SpiNode]:
        places = {(part.bus, part.chip) for part in self._script.wired.values() if part.route == "spi"}
        return [SpiNode(bus, chip, f"/dev/spidev{bus}.{chip}") for bus, chip in sorted(places)]

    def spi(self, bus: int, chip: int) -> SpiDevice:
        if (bus, chip) not in self._chip_selects:
            _raise_missing(f"/dev/spidev{bus}.{chip}")
        return self._chip_selects[bus, chip]

    def ports(self) -> list[SerialPortInfo]:
        wired = {part.port for part in self._script.wired.values() if part.route == "serial"}
        return [SerialPortInfo(path, description="simulated port") for path in sorted({*wired, *self._script.empty})]

    def serial(self, name: str, settings: SerialSettings) -> SerialPort:  # noqa: ARG002
        from picoclaw.hw.sim.buses import SimSerial

        if name not in self._peers:
            _raise_missing(name)
        return SimSerial(name, self._peers[name], self._sleep, self.wiring, self._open_ports)

    def gpio_chips(self) -> list[GpioChip]:
        return self._lines.chips()

    def lines(self, chip: str) -> list[LineInfo]:
        return self._lines.lines(chip)

    def line_in(
        self, chip: str, offset: int, *, bias: Bias = "", edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        return self._lines.request_input(chip, offset, bias, edges=edges, debounce_us=debounce_us)

    def line_out(self, chip: str, offset: int, level: int) -> LineHandle:
        return self._lines.request_output(chip, offset, level)

    def lock_path(self, part: WiredPart) -> str:
        """See Board.lock_path: a file beside those of the lines, where there are any."""
        if self._state is None or not self._state.is_dir() or part.route not in {"i2c", "spi"}:
            return ""
        path = self._state / f"{part.route}-{part.bus}"
        with suppress(OSError):
            path.touch(mode=0o600)
        return str(path)

    def wired(self) -> Mapping[str, WiredPart]:
        return {name: part for name, part in self._script.wired.items() if name not in self._script.unnamed}

    def close(self) -> None: ...


def _raise_missing(path: str) -> None:
    with translate_os_error(path):
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
