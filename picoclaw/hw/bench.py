"""Runs one driver file by hand: `python3 tools/hw/bme280.py --bus 1` prints a reading, or why there is none."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from picoclaw.config import make_dataclass
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError, ToolError
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import load_driver
from picoclaw.hw.reading import Reading, format_reading
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.parts import PARTS
from picoclaw.hw.sim.script import DEFAULT_SCRIPT, Script
from picoclaw.schema import InvalidArgument, check_arguments, read_parameters

FIRST_ADDRESS, LAST_ADDRESS = 0x08, 0x77
_SIM_PORTS = {"serial": "/dev/ttySIM0", "onewire": "28-000000000001"}


def run_tool(
    kind: Callable[[Board], Any], name: str, actions: Sequence[str], arguments: Sequence[str] | None = None
) -> int:
    """Run one action of a bus tool; its options are the tool's own parameters. Exit code 1 when it fails, 2 for usage.

    `kind(board)` makes the group, whose method `name` is the tool; only `actions` can be done on the bench;
    `arguments` are the command line's unless given.
    """
    tool = getattr(kind, name)
    wanted = read_parameters(tool, ("self", "caller"))
    parser = argparse.ArgumentParser(prog=f"{name}.py", description=tool.__doc__)
    parser.add_argument("action", choices=actions)
    for p in wanted:
        if p.name != "action":
            usual = f" (default {p.default})" if p.default else ""
            parser.add_argument(f"--{p.name.replace('_', '-')}", help=f"{p.description}{usual}".replace("%", "%%"))
    parser.add_argument("--sim", action="store_true", help="use the simulated board")
    options = vars(parser.parse_args(arguments))
    board: Board = SimBoard() if options.pop("sim") else LinuxBoard()
    try:
        given = check_arguments(wanted, options)
        print(getattr(kind(board), name)(**given))
    except InvalidArgument as error:
        parser.error(str(error))
    except (HardwareError, ToolError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    finally:
        board.close()
    return 0


def parse_address(text: str) -> int:
    """Read a 7-bit address from the command line, decimal or hexadecimal."""
    number = int(text, 0)
    if not FIRST_ADDRESS <= number <= LAST_ADDRESS:
        raise argparse.ArgumentTypeError(f"{text} is outside 0x{FIRST_ADDRESS:02x} to 0x{LAST_ADDRESS:02x}")
    return number


def run(file: str) -> int:
    """Read the part that a driver file is for; exit code 1 when that fails, 2 for wrong usage."""
    path = Path(file).resolve()
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != path.parent]  # serial.py is no pyserial
    try:
        part = load_driver(path.stem, [path.parent])
        options = _build_parser(path, part).parse_args()
        wired = loader.resolve_part(_make_sensor_config(path.stem, loader.get_bus_kind(part), options), [path.parent])
    except ConfigError as error:
        print(f"{path.stem}: {error}", file=sys.stderr)
        return 1
    # an owner's own part, which nothing simulates, meets the usual board
    script = Script({path.stem: wired}, {}) if path.stem in PARTS else DEFAULT_SCRIPT
    board: Board = SimBoard(script=script) if options.sim else LinuxBoard()
    try:
        readings = loader.Drivers(board, lambda _: part).measure(path.stem, wired)
    finally:
        board.close()
    for reading in readings:
        print(
            _format_reading(reading, simulated=options.sim),
            file=sys.stdout if reading.value is not None else sys.stderr,
        )
    return 1 if any(reading.value is None for reading in readings) else 0


def _build_parser(path: Path, part: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=path.name, description=(part.__doc__ or path.stem).splitlines()[0])
    route = loader.get_bus_kind(part)
    if route == "i2c":
        parser.add_argument("--address", type=parse_address, default=part.ADDRESSES[0])
        parser.add_argument("--bus", type=int, default=1, help="the N of /dev/i2c-N (default 1)")
    elif route == "spi":
        parser.add_argument("--bus", type=int, default=0, help="the N of /dev/spidevN.M (default 0)")
        parser.add_argument("--chip", type=int, default=0, help="chip select, the M of /dev/spidevN.M (default 0)")
    else:
        parser.add_argument("--port", default="", help="serial port or 1-Wire device")
    parser.add_argument("--sim", action="store_true", help="use the simulated board")
    for name, (usual, low, high) in getattr(part, "OPTIONS", {}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=usual, help=f"{low:g} to {high:g}")
    return parser


def _make_sensor_config(name: str, route: str, given: argparse.Namespace) -> SensorConfig:
    known = vars(given)
    place = {key: known[key] for key in ("bus", "address", "chip", "port") if key in known}
    if "port" in place and not place["port"] and given.sim:
        place["port"] = _SIM_PORTS[route]
    options = {key: value for key, value in known.items() if key not in {*place, "sim"}}
    given_place = {key: value for key, value in place.items() if value != ""}
    sensor: SensorConfig = make_dataclass(SensorConfig, {"part": name, **given_place, "options": options}, name)
    return sensor


def _format_reading(reading: Reading, *, simulated: bool) -> str:
    if reading.value is None:
        return f"{reading.sensor}: {reading.label} not available: {reading.problem}"
    notes = [f"doubtful: {reading.doubt}"] * bool(reading.doubt) + [reading.note] * bool(reading.note)
    notes += ["simulated"] * simulated
    return format_reading(reading) + (f" ({'; '.join(notes)})" if notes else "")
