"""How an output is driven and read back: a GPIO line, a kernel PWM, a channel of an expander.

Sources: kernel documents Documentation/userspace-api/gpio/chardev.rst, Documentation/driver-api/pwm.rst ("Using PWMs
with the sysfs interface").
"""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Protocol

from picoclaw.config import SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader, parts
from picoclaw.hw.board import Board, LineHandle
from picoclaw.hw.lines import find
from picoclaw.reflex.declared import OFF, ON, Output, shown

_RIGHTS_S, _RIGHTS_STEP_S = 1.0, 0.01
_STEP = 1.0  # percent; a PWM chip of 8 bits, the coarsest there is, has steps of 0.4


class Terminal(Protocol):
    """What an output's level is set and read at; levels are duties of the load, 0 to 100 percent."""

    def drive(self, level: float) -> None:
        """Set the level. Raises HardwareError."""
        ...

    def level(self) -> float:
        """Read the level back. Raises HardwareError."""
        ...

    def close(self) -> None:
        """Let go of it, without a change of level; may be called twice."""
        ...


class Terminals:
    """The outputs of one board; each is opened when it is first driven, and held until it is let go."""

    def __init__(self, board: Board, home: Path) -> None:
        """`home` is where the owner's own drivers are looked for."""
        self._board = board
        self._folders = loader.folders(home)
        self._drivers = parts.Drivers(board, self._chip)
        self._open: dict[str, Terminal] = {}
        self.kind = "sim" if board.simulated else "linux"

    def ready(self, output: Output) -> str:
        """Open an output at its safe level if it is not open; returns what is wrong."""
        return "" if output.name in self._open else self.drive(output, output.safe_level)

    def drive(self, output: Output, level: float) -> str:
        """Set a level and hold it against what is read back; returns what is wrong, nothing when it is so."""
        try:
            if output.name not in self._open:
                self._open[output.name] = self._opened(output, level)
            terminal = self._open[output.name]
            terminal.drive(level)
            return _mismatch(output, level, terminal.level())
        except (HardwareError, ConfigError) as error:
            self.release(output.name)
            return str(error)
        except loader.BROKEN as error:
            self.release(output.name)
            return f"{output.place} failed: {type(error).__name__}: {error}"

    def read(self, output: Output) -> float | None:
        """Return the level of an output that is held, None when it cannot be told."""
        try:
            return self._open[output.name].level() if output.name in self._open else None
        except (HardwareError, *loader.BROKEN):
            return None

    def release(self, name: str) -> None:
        """Let go of an output."""
        if terminal := self._open.pop(name, None):
            with contextlib.suppress(HardwareError, *loader.BROKEN):
                terminal.close()

    def close(self) -> None:
        """Let go of all of them."""
        for name in list(self._open):
            self.release(name)

    def _chip(self, part: str) -> ModuleType:
        return loader.chip(part, self._folders)

    def _opened(self, output: Output, level: float) -> Terminal:
        if output.pwm:
            return SysfsPwm(self._board, output)
        if output.part:
            return Channel(self._drivers, output, self._folders)
        return GpioLine(self._board, output, level)


def _mismatch(output: Output, wanted: float, found: float) -> str:
    if abs(found - wanted) <= (_STEP if output.graded else 0):
        return ""
    return f"{output.name} was set to {shown(wanted)} and reads back as {shown(round(found, 1))}: check its wiring"


def make_safe(board: Board, home: Path, outputs: Iterable[Output]) -> dict[str, str]:
    """Drive outputs to their safe levels with nothing but a board; returns what went wrong by name."""
    terminals = Terminals(board, home)
    try:
        return {output.name: problem for output in outputs if (problem := terminals.drive(output, output.safe_level))}
    finally:
        terminals.close()


class GpioLine:
    """A line of a GPIO chip; requested at the level that is wanted first, so that there is no other in between."""

    def __init__(self, board: Board, output: Output, level: float) -> None:
        """Request it; raises HardwareError, naming who holds it."""
        self._low = output.active == "low"
        spot = find(board, output.line, output.chip)
        self._handle: LineHandle = board.line_out(spot.chip.path, spot.line.offset, self._physical(level))

    def _physical(self, level: float) -> int:
        return int((level >= ON) != self._low)

    def drive(self, level: float) -> None:
        """See Terminal.drive."""
        self._handle.set(self._physical(level))

    def level(self) -> float:
        """See Terminal.level: what is at the pin, which a short circuit can hold against us."""
        return ON if bool(self._handle.get()) != self._low else OFF

    def close(self) -> None:
        """See Terminal.close."""
        self._handle.close()


class SysfsPwm:
    """A channel of `/sys/class/pwm`; an active-low load is inverted here, because not every chip can.

    The polarity that the channel has already is left, and counted with: `inversed` means that the pin is low for the
    duty, and it could be changed only by disabling the channel, which leaves the pin at whatever level.
    """

    def __init__(self, board: Board, output: Output) -> None:
        """Export the channel where it is not yet; raises HardwareError."""
        chip, _, channel = output.pwm.partition("/")
        self._board = board
        self._low = output.active == "low"
        self._period = output.period_us * 1000
        self._folder = f"/sys/class/pwm/{chip}/pwm{channel}"
        if not board.glob(f"{self._folder}/enable"):
            board.put(f"/sys/class/pwm/{chip}/export", channel)
            self._await_rights()

    def _await_rights(self) -> None:
        """The files of a new channel belong to root until udev has run its rule; what is wrong after that is said."""
        until = time.monotonic() + _RIGHTS_S
        while time.monotonic() < until:
            if all(self._board.may_open(f"{self._folder}/{name}") for name in ("period", "duty_cycle", "enable")):
                return
            time.sleep(_RIGHTS_STEP_S)

    def drive(self, level: float) -> None:
        """See Terminal.drive; the kernel refuses a period that is shorter than the duty, so a long duty goes first."""
        share = ON - level if self._low != self._is_inversed() else level
        duty = round(self._period * share / ON)
        if self._number("period") != self._period:
            if self._number("duty_cycle") > self._period:
                self._put("duty_cycle", duty)
            self._put("period", self._period)
        self._put("duty_cycle", duty)
        self._put("enable", 1)

    def level(self) -> float:
        """See Terminal.level."""
        period, enabled = self._number("period"), self._number("enable")
        share = OFF
        if period and enabled:
            share = ON * self._number("duty_cycle") / period
            share = ON - share if self._is_inversed() else share
        return ON - share if self._low else share

    def _is_inversed(self) -> bool:
        """Whether the pin is low for the duty; a chip that cannot do that may have no file for it."""
        return bool(self._board.glob(f"{self._folder}/polarity")) and (
            self._board.text(f"{self._folder}/polarity") == "inversed"
        )

    def close(self) -> None:
        """See Terminal.close: the kernel goes on with it."""

    def _number(self, name: str) -> int:
        text = self._board.text(f"{self._folder}/{name}")
        try:
            return int(text)
        except ValueError:
            raise HardwareError(f"{self._folder}/{name} holds {text[:40]!r}, not a number") from None

    def _put(self, name: str, value: int) -> None:
        self._board.put(f"{self._folder}/{name}", str(value))


class Channel:
    """A channel of an expander, through the functions `drive` and `level` of its driver in tools/hw."""

    def __init__(self, drivers: parts.Drivers, output: Output, folders: list[Path]) -> None:
        """Load the driver; raises ConfigError when it is none, or has no such channel."""
        wanted = SensorConfig(output.part, bus=output.bus, address=output.address, options=output.options)
        self._wired = parts.wire(wanted, folders)
        self._chip = loader.chip(output.part, folders)
        channels = getattr(self._chip, "CHANNELS", 0)
        self.graded = getattr(self._chip, "GRADED", False) is True
        if not callable(getattr(self._chip, "drive", None)):
            raise ConfigError(
                f"{output.part} drives no outputs: its driver has no function drive(part, channel, level)"
            )
        if output.channel >= channels:
            raise ConfigError(f"{output.part} has no channel {output.channel}; its channels are 0 to {channels - 1}")
        self._drivers = drivers
        self._channel = output.channel
        self._low = output.active == "low"

    def drive(self, level: float) -> None:
        """See Terminal.drive."""
        share = (ON - level if self._low else level) / ON
        with self._drivers.opened(self._wired, self._chip, urgent=True) as part:
            self._chip.drive(part, self._channel, share)

    def level(self) -> float:
        """See Terminal.level."""
        with self._drivers.opened(self._wired, self._chip, urgent=True) as part:
            share = float(self._chip.level(part, self._channel)) * ON
        return ON - share if self._low else share

    def close(self) -> None:
        """See Terminal.close: the part goes on with it."""
