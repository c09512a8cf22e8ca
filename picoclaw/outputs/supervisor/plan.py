"""Whether what outputs.toml names is there, belongs to nothing else, and can do what is asked of it. Drives nothing."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Board, LineLocation, find_bus_using, find_line
from picoclaw.outputs import audit, config
from picoclaw.outputs.config import OFF, ON, OutputConfig, OutputsFile
from picoclaw.outputs.supervisor import endpoint
from picoclaw.outputs.supervisor.endpoint import LIVE_FILE, STOP_FILE
from picoclaw.outputs.supervisor.leases import load_marker
from picoclaw.outputs.supervisor.lines import ExpanderOutput, make_safe
from picoclaw.records import NamedTuple
from picoclaw.workspace import find_outputs_file

_BUTTON = "the stop button"


class WiringCheck(NamedTuple):
    """What is wrong, by output; and which outputs are only on or off because their part is."""

    faults: Mapping[str, str]
    plain: frozenset[str]


def check_wiring(board: Board, home: Path, known: OutputsFile) -> WiringCheck:
    """Look at each output's place. A line that two have, or that a bus needs, is nobody's."""
    faults: dict[str, str] = {}
    plain: set[str] = set()
    for name, output in known.outputs.items():
        try:
            if output.part and not _check_part(board, home, output):
                plain.add(name)
            elif output.pwm:
                _check_pwm(board, output)
        except (HardwareError, ConfigError) as error:
            faults[name] = f"{name} cannot be used: {error}"
    return WiringCheck({**faults, **_check_lines(board, known)}, frozenset(plain))


def _check_lines(board: Board, known: OutputsFile) -> dict[str, str]:
    wanted = {name: (output.line, output.chip) for name, output in known.outputs.items() if output.line}
    faults: dict[str, str] = {}
    owners: dict[tuple[str, int], str] = {}
    if known.stop:
        wanted = {_BUTTON: (known.stop.line, known.stop.chip), **wanted}
    for name, (line, chip) in wanted.items():
        try:
            spot = find_line(board, line, chip)
        except HardwareError as error:
            faults[name] = f"{name} cannot be used: {error}"
            continue
        if bus := find_bus_using(board, spot):
            faults[name] = f"{name} cannot be used: {spot} belongs to {bus}, which is turned on"
        first = owners.setdefault((spot.chip.path, spot.line.offset), name)
        if first != name:
            faults |= {first: _describe_conflict(first, name, spot), name: _describe_conflict(name, first, spot)}
    faults.pop(_BUTTON, None)
    return faults


def _describe_conflict(name: str, other: str, spot: LineLocation) -> str:
    return f"{name} cannot be used: {spot} is also the line of {other}; correct outputs.toml"


def _check_part(board: Board, home: Path, output: OutputConfig) -> bool:
    """Tell whether an expander's outputs take duties."""
    folders = loader.list_driver_folders(home)
    channel = ExpanderOutput(loader.Drivers(board, lambda part: loader.load_driver(part, folders)), output, folders)
    board.i2c(output.bus)
    if not channel.graded and output.safe_level not in {ON, OFF}:
        raise ConfigError(f"safe is {output.safe}, but a {output.part} is only on or off")
    return channel.graded


def _check_pwm(board: Board, output: OutputConfig) -> None:
    chip, _, channel = output.pwm.partition("/")
    if not board.glob(f"/sys/class/pwm/{chip}"):
        raise ConfigError(f"there is no {chip} in /sys/class/pwm: is its overlay turned on?")
    for count in board.glob(f"/sys/class/pwm/{chip}/npwm"):
        if int(channel) >= int(board.text(count)):
            raise ConfigError(f"{chip} has no channel {channel}; it has {board.text(count)}, from 0")


# What is declared, armed and wired, as the files say it now.


class OutputPlan:
    def __init__(self, home: Path, board: Board) -> None:
        """Nothing is read before `load`."""
        self._home = home
        self._board = board
        self._lock = endpoint.get_lock_inode(home)
        self._signature: tuple[object, ...] = ()
        self.declared = OutputsFile(home, {})
        self.wiring = WiringCheck({}, frozenset())

    @property
    def changed(self) -> bool:
        """Whether outputs.toml is another than the one that was loaded."""
        return _get_signature(find_outputs_file(self._home)) != self._signature

    @property
    def lost(self) -> str:
        """Why the home is ours no longer, empty when it is."""
        return "" if endpoint.get_lock_inode(self._home) == self._lock else f"{self._home} was moved or replaced"

    def load(self) -> None:
        """Read outputs.toml, and look whether what it names is there."""
        path = find_outputs_file(self._home)
        self._signature = _get_signature(path)
        self.declared = config.load_outputs(path)
        self.wiring = check_wiring(self._board, self._home, self.declared)

    def fault(self, name: str) -> str:
        """Say what is wrong with an output's place; it may have been plugged in since."""
        if name in self.wiring.faults:
            self.wiring = check_wiring(self._board, self._home, self.declared)
        return self.wiring.faults.get(name, "")

    def armed(self) -> dict[str, OutputConfig]:
        """Return the outputs whose declaration, as it is, a person has armed."""
        digests = config.load_armed(self._home)
        return {n: output for n, output in self.declared.outputs.items() if digests.get(n) == output.digest}

    def usable(self) -> dict[str, OutputConfig]:
        """Return the armed outputs that are there: the others were never driven."""
        return {name: output for name, output in self.armed().items() if name not in self.wiring.faults}


def _get_signature(path: Path) -> tuple[object, ...]:
    try:
        found = path.stat()
        return (str(path), found.st_mtime_ns, found.st_size, found.st_ino)
    except OSError as error:
        return (str(path), error.errno)


# Makes everything safe without a supervisor: what the watchdog does when the worker is gone, and a person by `stop`.


def open_board(kind: str, home: Path) -> Board:
    """Open the board of a kind, `sim` or `linux`; a simulated one keeps its levels in the home folder.

    A script of it that is wrong must keep nothing from going safe.
    """
    if kind == "linux":
        from picoclaw.hw.linux.board import LinuxBoard

        return LinuxBoard()
    from picoclaw.hw.sim import board, scene, script

    try:
        rehearsed = script.load_script(home / scene.SIM_FILE, loader.list_driver_folders(home))
    except ConfigError:
        rehearsed = scene.DEFAULT_SCRIPT
    return board.SimBoard(script=rehearsed, state=home / "sim")


def rescue(home: Path, kind: str, why: str, *, stop: bool = False) -> dict[str, str]:
    """Drive the armed outputs of a board, and those that were left on, each on its own board, to their safe levels.

    Returns what went wrong by name. An armed output that is not there was never on.
    """
    left = load_marker(home)
    problems: dict[str, str] = {}
    for each in dict.fromkeys([left.board or kind, kind]):
        board = open_board(each, home)
        outputs = {}
        if each == kind:
            declared = OutputPlan(home, board)
            declared.load()
            outputs = declared.usable()
        if each == (left.board or kind):
            outputs |= {output.name: output for output in left.outputs}
        problems |= make_safe(board, home, outputs.values())
        board.close()
    if stop:
        with contextlib.suppress(OSError):
            (home / STOP_FILE).touch(mode=0o600)
    with contextlib.suppress(OSError):
        names = [output.name for output in left.outputs]  # those that may have been driven
        audit.write_record(home, "unsafe" if problems else "rescue", why=why, left=names, problems=[*problems.values()])
    if not problems:
        with contextlib.suppress(OSError):
            (home / LIVE_FILE).unlink(missing_ok=True)
    return problems
