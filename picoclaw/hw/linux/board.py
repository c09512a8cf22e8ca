"""The real board: files under `/sys` and `/proc`, and the buses that have device files. Source: adjtimex(2)."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.errors import HardwareError
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

if TYPE_CHECKING:
    from picoclaw.hw.linux.buses import LinuxI2C, LinuxSpi

_LONGEST_FILE = 65_536
_TIME_ERROR = 5
_TIMESYNCD = "/run/systemd/timesync/synchronized"
_ADAPTER_USES = {
    **dict.fromkeys(("hdmi", "ddc", "fef04500", "fef09500", "107d508200", "107d508280"), "an HDMI port"),
    **dict.fromkeys(("csi", "cam"), "a camera"),
    "dsi": "a display",
    "mux": "a camera or a display",
    "gpu": "the graphics processor",
    **dict.fromkeys(("gmbus", "aux ", "nvidia", "nvkm", "radeon", "amdgpu"), "the graphics card"),
    "smbus": "the mainboard",
}
"""Words in the names of adapters that are no pin header, and what those are for; the numbers are a Pi 4's and 5's."""
_SYMBOL_USES = {"i2c_arm": "", "i2c_vc": "the HAT's EEPROM and the camera"}


class LinuxBoard:
    """A board with a Linux kernel. `root` is where its file system begins; only tests move it."""

    simulated = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")
        self._buses: dict[int, LinuxI2C] = {}
        self._chip_selects: dict[tuple[int, int], LinuxSpi] = {}
        self._lock = threading.Lock()

    def text(self, path: str) -> str:
        with translate_os_error(path):
            handle = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.read(handle, _LONGEST_FILE).decode("utf-8", "replace").strip().rstrip("\0")
            finally:
                os.close(handle)

    def put(self, path: str, text: str) -> None:
        with translate_os_error(path):
            handle = os.open(self._root + path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.write(handle, text.encode())
            finally:
                os.close(handle)

    def glob(self, pattern: str) -> list[str]:
        return sorted(path[len(self._root) :] for path in glob.glob(glob.escape(self._root) + pattern))  # noqa: PTH207

    def may_open(self, path: str) -> bool:
        return os.access(self._root + path, os.R_OK | os.W_OK)

    def space(self, path: str) -> DiskSpace:
        with translate_os_error(path):
            disk = os.statvfs(path)
            return DiskSpace(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def clock_synchronised(self) -> bool:
        """See Board.clock_synchronised; a call with `modes` 0 only asks.

        A service may not even ask (ProtectClock=); what systemd-timesyncd has left is the answer then.
        """
        import ctypes

        answer = int(ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512)))
        return answer != _TIME_ERROR if answer >= 0 else bool(self.glob(_TIMESYNCD))

    def adapters(self) -> list[I2CAdapter]:
        found = (re.fullmatch(r"/dev/i2c-(\d+)", path) for path in self.glob("/dev/i2c-[0-9]*"))
        return sorted((self._adapter(m[0], int(m[1])) for m in found if m), key=lambda a: a.number)

    def _adapter(self, path: str, number: int) -> I2CAdapter:
        try:
            name = self.text(f"/sys/class/i2c-dev/i2c-{number}/name")
        except HardwareError:
            name = "unknown adapter"
        node = os.path.realpath(f"{self._root}/sys/class/i2c-dev/i2c-{number}/device/of_node")
        use = next((use for word, use in _ADAPTER_USES.items() if word in name.lower()), "")
        for symbol, meant in _SYMBOL_USES.items():
            place = self._symbol(symbol)
            if place and node.endswith(place):
                return I2CAdapter(number, path, name, header=not meant, use=meant)
            if place and not meant and f"{place}/" in node:  # a multiplexer that is wired to the header
                return I2CAdapter(number, path, name, header=False)
        return I2CAdapter(number, path, name, header=number == 1 and not use, use=use)

    def _symbol(self, name: str) -> str:
        """Where the device tree has a node, by the label that Raspberry Pi's overlays use."""
        try:
            return self.text(f"/proc/device-tree/__symbols__/{name}")
        except HardwareError:
            return ""

    def i2c(self, number: int) -> I2CBus:
        from picoclaw.hw.linux.buses import LinuxI2C

        with self._lock:
            if number not in self._buses:
                self._buses[number] = LinuxI2C(number, self._root)
            return self._buses[number]

    def spi_nodes(self) -> list[SpiNode]:
        found = (re.fullmatch(r"/dev/spidev(\d+)\.(\d+)", path) for path in self.glob("/dev/spidev*"))
        return sorted(SpiNode(int(m[1]), int(m[2]), m[0]) for m in found if m)

    def spi(self, bus: int, chip: int) -> SpiDevice:
        from picoclaw.hw.linux.buses import LinuxSpi

        with self._lock:
            if (bus, chip) not in self._chip_selects:
                self._chip_selects[bus, chip] = LinuxSpi(bus, chip, self._root)
            return self._chip_selects[bus, chip]

    def ports(self) -> list[SerialPortInfo]:
        from picoclaw.hw.linux.buses import list_ports

        return list_ports(self._root)

    def serial(self, name: str, settings: SerialSettings) -> SerialPort:
        from picoclaw.hw.linux.buses import LinuxSerial

        return LinuxSerial(name, settings, self._root)

    def gpio_chips(self) -> list[GpioChip]:
        from picoclaw.hw.linux import gpio

        return gpio.list_chips(self._root)

    def lines(self, chip: str) -> list[LineInfo]:
        from picoclaw.hw.linux import gpio

        return gpio.list_lines(chip, self._root)

    def line_in(
        self, chip: str, offset: int, *, bias: Bias = "", edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        from picoclaw.hw.linux import gpio

        return gpio.request_input(chip, offset, bias, edges=edges, debounce_us=debounce_us, root=self._root)

    def line_out(self, chip: str, offset: int, level: int) -> LineHandle:
        from picoclaw.hw.linux import gpio

        return gpio.request_output(chip, offset, level, self._root)

    def lock_path(self, part: WiredPart) -> str:
        """See Board.lock_path: the device file itself; of a serial port and of 1-Wire the kernel takes care."""
        nodes = {"i2c": f"/dev/i2c-{part.bus}", "spi": f"/dev/spidev{part.bus}.{part.chip}"}
        return self._root + nodes[part.route] if part.route in nodes else ""

    def wired(self) -> Mapping[str, WiredPart]:
        """See Board.wired: a real board cannot know."""
        return {}

    def close(self) -> None:
        with self._lock:
            opened: list[LinuxI2C | LinuxSpi] = [*self._buses.values(), *self._chip_selects.values()]
            for bus in opened:
                bus.close()
            self._buses.clear()
            self._chip_selects.clear()
