"""What the kernel's files say: sensors with known units, and how the board itself is doing, marked and in words for people.

Sensors are thermal zones, hwmon, IIO and 1-Wire; health is heat, power, memory, disk, load, uptime and clock.
Formats: kernel documents Documentation/ABI/testing/sysfs-class-thermal, Documentation/hwmon/sysfs-interface.rst,
Documentation/ABI/testing/sysfs-bus-iio, Documentation/w1/slaves/w1_therm.rst. The throttling flags are the firmware's
get_throttled word: https://www.raspberrypi.com/documentation/computers/os.html#get_throttled
"""

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

from picoclaw.errors import DeviceMissing, HardwareError
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Reading, WiredPart, reject_implausible
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import format_duration

_BOARD_SENSOR = pattern(
    r"cpu|soc|gpu|pkg|acpi|core|nvme|wifi|pmic|rp1|drivetemp|bcm|thermal|k10temp|volt|zone", re.IGNORECASE
)
_W1_MIRROR = "w1_slave_temp"  # w1_therm's hwmon face of the same part, without a name of its own
_W1_DEVICES = "/sys/bus/w1/devices"
_POWER_ON_MILLI = 85_000
_DISCONNECTED_MILLI = -127_000
_PROCESSED_ALONE = "current"  # in_currentX_raw: "if no offset or scale is present, [...] processed", in milliamps


class KernelSensor(NamedTuple):
    """A quantity that one kernel file, or a raw file with its scale, holds."""

    name: str
    quantity: str
    path: str
    factor: float
    is_internal: bool
    raw: bool = False
    channel: str = ""
    limits: tuple[float, float] | None = None

    @property
    def source(self) -> str:
        """Where the value comes from, for people: the folder, which all quantities of one part share."""
        return self.path.rpartition("/")[0]


def list_kernel_sensors(board: Board) -> list[KernelSensor]:
    """List what the kernel can read now, without reading any value; names are unique per quantity."""
    zones = list(_list_thermal(board))
    mirrored = {_read_label(board, zone.path.rpartition("/")[0] + "/type").replace("-", "_") for zone in zones}
    found = [*zones, *_list_hwmon(board, mirrored), *_list_iio(board), *_list_onewire(board)]
    return list(_make_names_unique(found))


def find_bound_sensors(board: Board, part: WiredPart, known: list[KernelSensor]) -> list[KernelSensor]:
    """Return those of the known sensors that a kernel driver reads from this very part."""
    device = f"i2c/devices/{part.bus}-{part.address:04x}" if part.address else f"spi/devices/spi{part.bus}.{part.chip}"
    if part.port:
        return [sensor for sensor in known if sensor.path.startswith(f"{_W1_DEVICES}/{part.port}/")]
    faces = [*board.glob(f"/sys/bus/{device}/iio:device*"), *board.glob(f"/sys/bus/{device}/hwmon/hwmon*")]
    names = {face.rpartition("/")[2] for face in faces}
    return [sensor for sensor in known if sensor.source.rpartition("/")[2] in names]


def read_kernel_sensor(board: Board, sensor: KernelSensor, name: str = "") -> Reading:
    """Read one value; a failure becomes a Reading that says what is wrong.

    `name` is the owner's, for a part that the owner has named; its channels are told apart then.
    """
    empty = Reading(sensor.name, sensor.quantity, None, sensor.source, is_internal=sensor.is_internal)
    if name:
        empty = empty._replace(sensor=name, channel=sensor.channel)
    try:
        value = _read_value(board, sensor)
    except (HardwareError, ValueError) as error:
        return empty._replace(problem=str(error))
    return reject_implausible(empty._replace(value=value, at=time.time()), sensor.limits)


def _read_value(board: Board, sensor: KernelSensor) -> float:
    _check_fault(board, sensor.path)
    number = _parse_number(board.text(sensor.path), sensor.path)
    if "/w1/" in sensor.path and number in {_POWER_ON_MILLI, _DISCONNECTED_MILLI}:
        raise ValueError(
            f"{number / 1000:g} °C is a power-on or broken-wire value, not a measurement: check the wiring"
        )
    if sensor.raw:
        number = _apply_scale(board, sensor, number)
    return number * sensor.factor


def _apply_scale(board: Board, sensor: KernelSensor, number: float) -> float:
    """Give a raw value its unit, which all but one quantity have only after scaling, by the ABI document."""
    scale, offset = (_read_attribute(board, sensor.path, name) for name in ("scale", "offset"))
    if scale is None and offset is None and sensor.quantity == _PROCESSED_ALONE:
        return number
    if scale is None:
        missing = sensor.path.removesuffix("raw") + "scale"
        raise ValueError(f"{missing} is missing, so {number:g} has no unit: the kernel's driver does not tell it")
    return (number + (offset or 0.0)) * scale


def _check_fault(board: Board, path: str) -> None:
    """A chip that knows its sensor to be broken says so in a file beside the value, which then means nothing."""
    if "/hwmon/" not in path:
        return
    fault = path.removesuffix("_input") + "_fault"
    try:
        broken = board.text(fault) not in {"", "0"}
    except DeviceMissing:
        return
    if broken:
        raise ValueError(f"the chip reports a fault of its sensor ({fault}): check that it is connected and whole")


def _parse_number(text: str, path: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path} holds {text[:40]!r}, not a number") from None


def _read_attribute(board: Board, path: str, attribute: str) -> float | None:
    """An IIO channel's own attribute, or the one that all channels of its kind share."""
    folder, _, file = path.rpartition("/")
    kind = re.match(r"in_[a-z]+", file)
    for stem in (file.removesuffix("_raw"), kind[0] if kind else file):
        beside = f"{folder}/{stem}_{attribute}"
        try:
            return _parse_number(board.text(beside), beside)
        except DeviceMissing:
            continue
    return None


def _list_thermal(board: Board) -> Iterator[KernelSensor]:
    for path in board.glob("/sys/class/thermal/thermal_zone*/temp"):
        kind = _read_label(board, path.removesuffix("temp") + "type") or "thermal"
        name = "cpu" if re.search(r"cpu|soc|x86_pkg", kind, re.IGNORECASE) else kind
        yield KernelSensor(name, "temperature", path, 1e-3, is_internal=True)


_HWMON_QUANTITIES = {
    "temp": ("temperature", 1e-3),
    "humidity": ("humidity", 1e-3),
    "in": ("voltage", 1e-3),
    "curr": ("current", 1e-3),
    "power": ("power", 1e-6),
    "fan": ("fan", 1.0),
}


def _list_hwmon(board: Board, mirrored: set[str]) -> Iterator[KernelSensor]:
    for path in board.glob("/sys/class/hwmon/hwmon*/*_input"):
        folder, _, file = path.rpartition("/")
        chip = _read_label(board, f"{folder}/name") or "hwmon"
        kind = re.match(r"[a-z]+", file)
        if chip in {*mirrored, _W1_MIRROR} or kind is None or kind[0] not in _HWMON_QUANTITIES:
            continue
        quantity, factor = _HWMON_QUANTITIES[kind[0]]
        label = _read_label(board, path.removesuffix("_input") + "_label")
        if chip in _SHUNT_MONITORS and file == "in0_input":  # in1 is the bus (Documentation/hwmon/ina2xx.rst)
            label = label or "shunt"
        name = f"{chip} {label}".strip()
        channel = label or file[len(kind[0]) :].removesuffix("_input").removeprefix("1")
        yield KernelSensor(name, quantity, path, factor, bool(_BOARD_SENSOR.search(chip)), channel=channel)


_IIO_QUANTITIES = {
    "in_temp": ("temperature", 1e-3),
    "in_humidityrelative": ("humidity", 1e-3),
    "in_pressure": ("pressure", 10.0),
    "in_illuminance": ("light", 1.0),
    "in_voltage": ("voltage", 1e-3),
    "in_current": ("current", 1e-3),
    "in_power": ("power", 1e-3),
    "in_concentration_co2": ("co2", 1e4),
    "in_concentration_voc": ("tvoc", 1e7),
    "in_distance": ("distance", 1.0),
    "in_resistance": ("resistance", 1.0),
    "in_accel": ("acceleration", 1.0),
    "in_anglvel": ("rotation", math.degrees(1)),
    "in_massconcentration": ("dust", 1.0),
}


_IIO_CHANNEL = pattern(r"(in_[a-z]+)(\d*)((?:_[a-z0-9]+)*?)_(raw|input)")
# Drivers that leave the ABI document: bme680_core.c gives % for milli-%, sgp30.c parts of one for percent.
_IIO_QUIRKS = {("bme680", "humidity"): 1.0, ("sgp30", "co2"): 1e6, ("sgp30", "tvoc"): 1e9}
_THERMOCOUPLES = {"maxim_thermocouple", "max31855", "max31855k", "max31856", "max31865", "max6675", "mcp9600"}
_SHUNT_MONITORS = {"ina209", "ina219", "ina220", "ina226", "ina230", "ina231"}
_PAST_VALUES = ("_peak", "_trough", "_mean")  # what was, not what is


def _list_iio(board: Board) -> Iterator[KernelSensor]:
    for path in board.glob("/sys/bus/iio/devices/iio:device*/in_*"):
        folder, _, file = path.rpartition("/")
        shape = _IIO_CHANNEL.fullmatch(file)
        if shape is None or shape[3].endswith(_PAST_VALUES):
            continue
        stem, number, modifier, form = shape.groups()
        if stem + modifier in _IIO_QUANTITIES:  # the substance of a concentration
            stem, modifier = stem + modifier, ""
        if stem not in _IIO_QUANTITIES or (form == "raw" and board.glob(path[:-3] + "input")):
            continue
        quantity, factor = _IIO_QUANTITIES[stem]
        driver = _read_label(board, f"{folder}/name") or "iio"
        chip = _read_label(board, f"{folder}/label") or driver
        channel = " ".join([*number.split(), *modifier.split("_")[1:]])
        if driver in _SHUNT_MONITORS and quantity == "voltage":  # ina2xx-adc.c: channel 0 is the shunt, 1 the bus
            channel = "shunt" if number == "0" else ""
        factor = _IIO_QUIRKS.get((driver, quantity), factor)
        if (driver, stem, form) == ("sgp40", "in_resistance", "raw"):  # ticks, which its driver gives no scale
            quantity, form = "raw", "input"
        reach = (-270.0, 1800.0) if driver in _THERMOCOUPLES and quantity == "temperature" else None
        yield KernelSensor(f"{chip} {channel}".strip(), quantity, path, factor, False, form == "raw", channel, reach)


def _list_onewire(board: Board) -> Iterator[KernelSensor]:
    for path in board.glob(f"{_W1_DEVICES}/*-*/temperature"):
        name = path.split("/")[-2]
        yield KernelSensor(name, "temperature", path, 1e-3, is_internal=False)


_LABEL = pattern(r"[^\s=,;!?<>{}|`\"']{1,32}(?: [^\s=,;!?<>{}|`\"']{1,32}){0,3}")
_LONGEST_LABEL = 40


def _read_label(board: Board, path: str) -> str:
    """What a device calls itself, '' where that is no name: a sentence would be told to a model as if it were ours."""
    try:
        label = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", board.text(path)).split())
    except HardwareError:
        return ""
    return label if len(label) <= _LONGEST_LABEL and _LABEL.fullmatch(label) else ""


def _make_names_unique(found: list[KernelSensor]) -> Iterator[KernelSensor]:
    taken: set[tuple[str, str]] = set()
    for sensor in found:
        name, count = sensor.name, 2
        while (name, sensor.quantity) in taken:
            name, count = f"{sensor.name} #{count}", count + 1
        taken.add((name, sensor.quantity))
        yield sensor._replace(name=name)


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
    for sensor in list_kernel_sensors(board):
        if sensor.is_internal and sensor.quantity == "temperature":
            reading = read_kernel_sensor(board, sensor)
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
