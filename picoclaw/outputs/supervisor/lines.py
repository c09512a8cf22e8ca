"""How an output is driven and read back: a GPIO line, a kernel PWM, a channel of an expander.

Sources: kernel documents Documentation/userspace-api/gpio/chardev.rst, Documentation/driver-api/pwm.rst ("Using PWMs
with the sysfs interface").
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Protocol

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Bias, Board, LineHandle, find_line
from picoclaw.outputs.config import OFF, ON, OutputConfig, StopButton, format_level

_PERMISSION_TIMEOUT_S, _PERMISSION_RETRY_S = 1.0, 0.01
_STEP = 1.0  # percent; a PWM chip of 8 bits, the coarsest there is, has steps of 0.4


class OutputDriver(Protocol):
    """What an output's level is set and read at; levels are duties of the load, 0 to 100 percent."""

    def drive(self, level: float) -> None:
        """Set the level. Raises HardwareError."""

    def level(self) -> float:
        """Read the level back. Raises HardwareError."""

    def close(self) -> None:
        """Let go of it, without a change of level; may be called twice."""


class OutputDrivers:
    """The outputs of one board; each is opened when it is first driven, and held until it is let go."""

    def __init__(self, board: Board, home: Path) -> None:
        """`home` is where the owner's own drivers are looked for."""
        self._board = board
        self._folders = loader.list_driver_folders(home)
        self._drivers = loader.Drivers(board, self._chip)
        self._open: dict[str, OutputDriver] = {}
        self.kind = "sim" if board.simulated else "linux"

    def ready(self, output: OutputConfig) -> str:
        """Open an output at its safe level if it is not open; returns what is wrong."""
        return "" if output.name in self._open else self.drive(output, output.safe_level)

    def drive(self, output: OutputConfig, level: float) -> str:
        """Set a level and hold it against what is read back; returns what is wrong, nothing when it is so."""
        try:
            if output.name not in self._open:
                self._open[output.name] = self._opened(output, level)
            terminal = self._open[output.name]
            terminal.drive(level)
            found = terminal.level()
            if abs(found - level) <= (_STEP if output.graded else 0):
                return ""
            return f"{output.name} was set to {format_level(level)} and reads back as {format_level(round(found, 1))}: check its wiring"
        except (HardwareError, ConfigError) as error:
            self.release(output.name)
            return str(error)
        except loader.DRIVER_ERRORS as error:
            self.release(output.name)
            return f"{output.place} failed: {type(error).__name__}: {error}"

    def read(self, output: OutputConfig) -> float | None:
        """Return the level of an output that is held, None when it cannot be told."""
        try:
            return self._open[output.name].level() if output.name in self._open else None
        except (HardwareError, *loader.DRIVER_ERRORS):
            return None

    def release(self, name: str) -> None:
        if terminal := self._open.pop(name, None):
            with contextlib.suppress(HardwareError, *loader.DRIVER_ERRORS):
                terminal.close()

    def close(self) -> None:
        for name in list(self._open):
            self.release(name)

    def _chip(self, part: str) -> ModuleType:
        return loader.load_driver(part, self._folders)

    def _opened(self, output: OutputConfig, level: float) -> OutputDriver:
        if output.pwm:
            return PwmOutput(self._board, output)
        if output.part:
            return ExpanderOutput(self._drivers, output, self._folders)
        return GpioOutput(self._board, output, level)


def make_safe(board: Board, home: Path, outputs: Iterable[OutputConfig]) -> dict[str, str]:
    """Drive outputs to their safe levels with nothing but a board; returns what went wrong by name."""
    terminals = OutputDrivers(board, home)
    try:
        return {output.name: problem for output in outputs if (problem := terminals.drive(output, output.safe_level))}
    finally:
        terminals.close()


class GpioOutput:
    """A line of a GPIO chip; requested at the level that is wanted first, so that there is no other in between."""

    def __init__(self, board: Board, output: OutputConfig, level: float) -> None:
        """Request it; raises HardwareError, naming who holds it."""
        self._low = output.active == "low"
        spot = find_line(board, output.line, output.chip)
        self._handle: LineHandle = board.line_out(spot.chip.path, spot.line.offset, self._physical(level))

    def _physical(self, level: float) -> int:
        return int((level >= ON) != self._low)

    def drive(self, level: float) -> None:
        self._handle.set(self._physical(level))

    def level(self) -> float:
        """See Terminal.level: what is at the pin, which a short circuit can hold against us."""
        return ON if bool(self._handle.get()) != self._low else OFF

    def close(self) -> None:
        self._handle.close()


class PwmOutput:
    """A channel of `/sys/class/pwm`; an active-low load is inverted here, because not every chip can.

    The polarity that the channel has already is left, and counted with: `inversed` means that the pin is low for the
    duty, and it could be changed only by disabling the channel, which leaves the pin at whatever level.
    """

    def __init__(self, board: Board, output: OutputConfig) -> None:
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
        until = time.monotonic() + _PERMISSION_TIMEOUT_S
        while time.monotonic() < until:
            if all(self._board.may_open(f"{self._folder}/{name}") for name in ("period", "duty_cycle", "enable")):
                return
            time.sleep(_PERMISSION_RETRY_S)

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


class ExpanderOutput:
    """A channel of an expander, through the functions `drive` and `level` of its driver in tools/hw."""

    def __init__(self, drivers: loader.Drivers, output: OutputConfig, folders: list[Path]) -> None:
        """Load the driver; raises ConfigError when it is none, or has no such channel."""
        wanted = SensorConfig(output.part, bus=output.bus, address=output.address, options=output.options)
        self._wired = loader.resolve_part(wanted, folders)
        self._chip = loader.load_driver(output.part, folders)
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
        share = (ON - level if self._low else level) / ON
        with self._drivers.opened(self._wired, self._chip, urgent=True) as part:
            self._chip.drive(part, self._channel, share)

    def level(self) -> float:
        with self._drivers.opened(self._wired, self._chip, urgent=True) as part:
            share = float(self._chip.level(part, self._channel)) * ON
        return ON - share if self._low else share

    def close(self) -> None:
        """See Terminal.close: the part goes on with it."""


# The stop button: an input line whose active level, or a short press, stops everything.


class StopButtonInput:
    """The line that outputs.toml names now, opened when it is first looked at."""

    def __init__(
        self,
        board: Board,
        hear: Callable[[LineHandle, Callable[[], None]], None],
        forget: Callable[[LineHandle], object],
        pressed: Callable[[], object],
    ) -> None:
        """`hear` calls back when the line has an edge, `forget` ends that; `pressed` is told of a press."""
        self._board = board
        self._hear = hear
        self._forget = forget
        self._pressed = pressed
        self._known: StopButton | None = None
        self._handle: LineHandle | None = None
        self.trouble = ""

    def held(self, wanted: StopButton | None) -> bool:
        """Tell whether the button that is wanted now is at its active level; `trouble` says why that is not known."""
        try:
            if wanted != self._known:
                self._change(wanted)
            return bool(wanted and self._handle and self._handle.get() == int(wanted.active == "high"))
        except HardwareError as error:
            self.trouble = f"the stop button cannot be read: {error}"
            return False

    def _change(self, wanted: StopButton | None) -> None:
        self.trouble = ""
        self._known = wanted
        if self._handle:
            self._forget(self._handle)
            self._handle.close()
            self._handle = None
        if wanted is None:
            return
        bias: Bias = "pull-up" if wanted.active == "low" else "pull-down"
        spot = find_line(self._board, wanted.line, wanted.chip)
        handle = self._handle = self._board.line_in(spot.chip.path, spot.line.offset, bias=bias, edges=True)
        self._hear(handle, lambda: self._edges(handle, int(wanted.active == "high")))

    def _edges(self, handle: LineHandle, active: int) -> None:
        """Also a press that is over by now counts."""
        if any(edge.level == active for edge in handle.edges(0)):
            self._pressed()
