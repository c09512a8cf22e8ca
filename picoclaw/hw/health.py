"""How the board itself is doing: heat, power, memory, disk, load, uptime, clock; marked, and in words for people.

The throttling flags are the firmware's get_throttled word:
https://www.raspberrypi.com/documentation/computers/os.html#get_throttled
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

from picoclaw.errors import HardwareError
from picoclaw.hw import kernel
from picoclaw.hw.board import Board
from picoclaw.records import NamedTuple
from picoclaw.times import format_duration

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
_HARMFUL_NOW = 1 << 0 | 1 << 2
_OLDEST_PLAUSIBLE_YEAR = 2026


class CheckResult(NamedTuple):
    """What was checked, and what came of it: `bad` has to be fixed, a `note` is good to know; `fix` says how.

    `repair` does it and says what it did, None where only a person can; it raises PicoclawError or OSError.
    """

    status: Literal["good", "note", "bad", "repaired"]
    name: str
    detail: str
    fix: str = ""
    repair: Callable[[], Sequence[str]] | None = None


good = partial(CheckResult, "good")
note = partial(CheckResult, "note")
bad = partial(CheckResult, "bad")


def check_health(board: Board, now: datetime, home: str) -> list[CheckResult]:
    """Return a row for everything that can be known; what cannot be read says why, or is left out if garbled."""
    rows = [
        good("board", read_model(board)),
        _check_temperature(board),
        _check_power(board),
        good("memory", _format_memory(board)),
        _check_disk(board, home),
        good("load", _format_load(board)),
        good("uptime", _format_uptime(board)),
        _check_clock(board, now),
    ]
    return [row for row in rows if row.detail]


def read_model(board: Board) -> str:
    """Name the board from its device tree or firmware tables."""
    for path in ("/proc/device-tree/model", "/sys/class/dmi/id/product_name"):
        if text := read_text(board, path).strip("\0 "):
            return text
    return "unknown (no device tree and no DMI name)"


def _check_temperature(board: Board) -> CheckResult:
    what = "processor temperature"
    for sensor in kernel.list_kernel_sensors(board):
        if sensor.is_internal and sensor.quantity == "temperature":
            reading = kernel.read_kernel_sensor(board, sensor)
            if reading.value is None:
                return bad(what, reading.problem)
            return good(what, f"{reading.value:.1f} °C ({sensor.name})")
    return note(what, "not available: this board does not measure it")


def decode_throttling(word: int) -> list[str]:
    """Decode the firmware's flags, the present ones first."""
    return [words for bit, words in _THROTTLED.items() if word >> bit & 1]


def _check_power(board: Board) -> CheckResult:
    what = "power and throttling"
    for path in board.glob("/sys/devices/platform/soc*/soc*:firmware/get_throttled"):
        text = read_text(board, path)
        if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,8}", text):
            word = int(text, 16)
            if flags := decode_throttling(word):
                return CheckResult("bad" if word & _HARMFUL_NOW else "note", what, "; ".join(flags))
            return good(what, "good: no under-voltage and no throttling since boot")
    for path in board.glob("/sys/class/hwmon/hwmon*/in0_lcrit_alarm"):
        if read_text(board, path.removesuffix("in0_lcrit_alarm") + "name") == "rpi_volt":
            low = read_text(board, path) == "1"
            return bad(what, "under-voltage") if low else good(what, "good: no under-voltage alarm")
    return note(what, "not available: not a Raspberry Pi, or its firmware interface is hidden")


_WARM_MILLIDEGREES = 70_000


def is_strained(board: Board) -> bool:
    """Whether the board runs on a battery, is hot or lacks power, so that work nobody waits for is left."""
    if _check_power(board).status == "bad":
        return True
    if any(read_text(board, path) == "Discharging" for path in board.glob("/sys/class/power_supply/*/status")):
        return True
    heat = [read_text(board, path) for path in board.glob("/sys/class/thermal/thermal_zone*/temp")]
    return any(text.isdecimal() and int(text) > _WARM_MILLIDEGREES for text in heat)


def _format_memory(board: Board) -> str:
    table = dict(re.findall(r"^(\w+):\s+([0-9]{1,15}) kB", read_text(board, "/proc/meminfo"), re.MULTILINE))
    if "MemTotal" not in table or "MemAvailable" not in table:
        return ""
    total, free = int(table["MemTotal"]) // 1024, int(table["MemAvailable"]) // 1024
    return f"{free} of {total} MB available"


def _check_disk(board: Board, home: str) -> CheckResult:
    try:
        space = board.space(home)
    except HardwareError as error:
        return bad("disk", str(error))
    gigabyte = 1e9
    full = 100 * (1 - space.free / space.total) if space.total else 0
    return good("disk", f"{space.free / gigabyte:.1f} of {space.total / gigabyte:.1f} GB free ({full:.0f} % used)")


def _format_load(board: Board) -> str:
    found = re.match(r"([0-9.]{1,12}) ([0-9.]{1,12}) ([0-9.]{1,12})(?!\S)", read_text(board, "/proc/loadavg"))
    return f"{' '.join(found.groups())} (1, 5 and 15 minutes)" if found else ""


def _format_uptime(board: Board) -> str:
    found = re.match(r"[0-9]{1,12}(?=[.\s]|$)", read_text(board, "/proc/uptime"))
    return format_duration(int(found[0])) if found else ""


def _check_clock(board: Board, now: datetime) -> CheckResult:
    """Say the time and whether it can be trusted: synchronised, plausible only, or plainly wrong."""
    shown = f"{now:%Y-%m-%d %H:%M}"
    if now.year < _OLDEST_PLAUSIBLE_YEAR:
        wrong = "NOT trusted: the year is in the past, so the clock was never set since power-on"
        return bad("clock", f"{shown}, {wrong}")
    if board.clock_synchronised():
        return good("clock", f"{shown}, trusted: synchronised with a time source")
    return note("clock", f"{shown}, plausible but not synchronised (no time source has confirmed it)")


def format_results(rows: list[CheckResult]) -> Iterator[str]:
    return (f"{row.name}: {row.detail}{' (bad)' if row.status == 'bad' else ''}" for row in rows)


def list_addresses() -> Iterator[str]:
    """What other devices in the network call this board: its name, and its address where it has one."""
    import socket

    yield f"{socket.gethostname().partition('.')[0]}.local"
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # finds out the address that this board has in its network; nothing is sent
        yield str(probe.getsockname()[0])


def read_text(board: Board, path: str) -> str:
    """Read a small file of the kernel's, nothing when that cannot be."""
    try:
        return board.text(path)
    except HardwareError:
        return ""
