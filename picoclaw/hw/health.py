"""How the board itself is doing: heat, power, memory, disk, load, uptime, clock; as lines for people.

The throttling flags are the firmware's get_throttled word:
https://www.raspberrypi.com/documentation/computers/os.html#get_throttled
"""

import re
from collections.abc import Iterator
from datetime import datetime

from picoclaw.errors import HardwareError
from picoclaw.hw import kernel
from picoclaw.hw.board import Board
from picoclaw.schedule import duration

_THROTTLED = {
    0: "under-voltage now",
    1: "processor frequency capped now",
    2: "throttled now",
    3: "soft temperature limit active now",
    16: "under-voltage has occurred since boot",
    17: "frequency capping has occurred since boot",
    18: "throttling has occurred since boot",
    19: "the soft temperature limit has been reached since boot",
}
_OLDEST_PLAUSIBLE_YEAR = 2026


def status(board: Board, now: datetime, home: str) -> list[tuple[str, str]]:
    """Return (what, how it is) for everything that can be known; a part that cannot be read says why."""
    rows = [
        ("board", model(board)),
        ("processor temperature", _heat(board)),
        ("power and throttling", _power(board)),
        ("memory", _memory(board)),
        ("disk", _disk(board, home)),
        ("load", _load(board)),
        ("uptime", _uptime(board)),
        ("clock", clock(board, now)),
    ]
    return [(what, how) for what, how in rows if how]


def model(board: Board) -> str:
    """Name the board from its device tree or firmware tables."""
    for path in ("/proc/device-tree/model", "/sys/class/dmi/id/product_name"):
        if text := _try(board, path).strip("\0 "):
            return text
    return "unknown (no device tree and no DMI name)"


def _heat(board: Board) -> str:
    for sensor in kernel.sensors(board):
        if sensor.inside and sensor.quantity == "temperature":
            reading = kernel.read(board, sensor)
            return reading.problem if reading.value is None else f"{reading.value:.1f} °C ({sensor.name})"
    return "not available: this board has no thermal zone"


def throttled(word: int) -> list[str]:
    """Decode the firmware's flags, the present ones first."""
    return [words for bit, words in _THROTTLED.items() if word >> bit & 1]


def _power(board: Board) -> str:
    for path in board.glob("/sys/devices/platform/soc*/soc*:firmware/get_throttled"):
        text = _try(board, path)
        if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,8}", text):
            flags = throttled(int(text, 16))
            return "; ".join(flags) if flags else "good: no under-voltage and no throttling since boot"
    for path in board.glob("/sys/class/hwmon/hwmon*/in0_lcrit_alarm"):
        if _try(board, path.removesuffix("in0_lcrit_alarm") + "name") == "rpi_volt":
            return "under-voltage" if _try(board, path) == "1" else "good: no under-voltage alarm"
    return "not available: not a Raspberry Pi, or its firmware interface is hidden"


def _memory(board: Board) -> str:
    table = dict(re.findall(r"^(\w+):\s+(\d+) kB", _try(board, "/proc/meminfo"), re.MULTILINE))
    if "MemTotal" not in table or "MemAvailable" not in table:
        return ""
    total, free = int(table["MemTotal"]) // 1024, int(table["MemAvailable"]) // 1024
    return f"{free} of {total} MB available"


def _disk(board: Board, home: str) -> str:
    try:
        space = board.space(home)
    except HardwareError as error:
        return str(error)
    gigabyte = 1e9
    full = 100 * (1 - space.free / space.total) if space.total else 0
    return f"{space.free / gigabyte:.1f} of {space.total / gigabyte:.1f} GB free ({full:.0f} % used)"


def _load(board: Board) -> str:
    text = _try(board, "/proc/loadavg").split()
    return f"{text[0]} {text[1]} {text[2]} (1, 5 and 15 minutes)" if len(text) >= 3 else ""


def _uptime(board: Board) -> str:
    text = _try(board, "/proc/uptime").split()
    return duration(float(text[0])) if text else ""


def clock(board: Board, now: datetime) -> str:
    """Say the time and whether it can be trusted: synchronised, plausible only, or plainly wrong."""
    shown = now.isoformat(sep=" ", timespec="minutes")
    if now.year < _OLDEST_PLAUSIBLE_YEAR:
        return f"{shown}, NOT trusted: the year is in the past, so the clock was never set since power-on"
    if board.clock_synchronised():
        return f"{shown}, trusted: synchronised with a time source"
    return f"{shown}, plausible but not synchronised (no time source has confirmed it)"


def lines(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Format rows for reading."""
    return (f"{what}: {how}" for what, how in rows)


def _try(board: Board, path: str) -> str:
    try:
        return board.text(path)
    except HardwareError:
        return ""
