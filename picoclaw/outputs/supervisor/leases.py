"""The outputs that are away from their safe level: granted, written down, driven, ended (`Leases.end_due`).

Switching on: write the marker and the intent to the disk, set the watchdog's deadline, then drive the line. Switching
off: drive the line first. All writing is the journal's, in a thread of its own: a card that takes nothing for
ten seconds keeps an `on` waiting, and delays neither the end of a lease nor a stop.

An output is a GPIO line, a kernel PWM, or a channel of an expander. A plan says whether what outputs.toml names is
there, belongs to nothing else, and can do what is asked of it.
Sources: kernel documents Documentation/userspace-api/gpio/chardev.rst, Documentation/driver-api/pwm.rst ("Using PWMs
with the sysfs interface").
"""

import contextlib
import errno
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from picoclaw.automation.clock import wake_all
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.files import read_file, write_atomic
from picoclaw.hw import loader
from picoclaw.hw.board import Bias, Board, LineHandle, LineLocation, find_bus_using, find_line
from picoclaw.outputs import audit, config, supervisor
from picoclaw.outputs.config import OFF, ON, OutputConfig, OutputsFile, StopButton, format_level
from picoclaw.outputs.limits import OnPeriod, OutputRequest, check_required_sensor, prune_periods
from picoclaw.outputs.supervisor import LIVE_FILE, STOP_FILE
from picoclaw.records import NamedTuple, asdict, dataclass
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from picoclaw.outputs.supervisor.sensing import RequiredSensorSampler

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
        """See OutputDriver.level: what is at the pin, which a short circuit can hold against us."""
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
        """See OutputDriver.drive; the kernel refuses a period that is shorter than the duty, so a long duty goes first."""
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
        """See OutputDriver.close: the kernel goes on with it."""

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
        """See OutputDriver.close: the part goes on with it."""


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


_RETRY_S = 1.0
_MAX_UNWRITTEN = 100
_NOT_REPLAYED = {"refused", "dry", "read", "stop", "resume", "reload"}
"""Acts that are not written down when that many records wait already: `audit.replay` can do without them."""


class Lease(NamedTuple):
    """A time away from the safe level that was granted; without a client it runs to its end by itself."""

    output: OutputConfig
    level: float
    ends: float
    client: int | None


@dataclass(eq=False)
class PendingRequest:
    """What a client has asked for and what has to be on the disk first: `is_done` when it is, or cannot be (`error`).

    `at` is when it was asked for, `cancelled` why it is not to be done any more.
    """

    at: float
    name: str = ""
    seconds: float = 0.0
    renews: bool = False
    outputs: Sequence[OutputConfig] = ()
    is_done: bool = False
    error: OSError | None = None
    cancelled: str = ""


@dataclass(eq=False)
class _JournalEntry:
    """One thing for the journal to do: append a record, or make a change to a file of the home."""

    record: Mapping[str, Any] | None = None
    change: Callable[[], object] | None = None
    intent: PendingRequest | None = None


class Journal:
    """Writes the audit and the other files of a supervisor, in the order in which that was asked for.

    A thread of its own does, and begins with the first wish. Records that the disk did not take are tried again
    before the next ones.
    """

    def __init__(self, home: Path, kind: str, history: audit.History, written: Callable[[], None] | None) -> None:
        """`written` is called, in the thread, when an intent is done; with None the caller does the writing itself."""
        self._home = home
        self._kind = kind
        self._history = history
        self._written = written
        self._entries: deque[_JournalEntry] = deque()
        self._failed: list[Mapping[str, Any]] = []
        self._turn = threading.Condition()
        self._asked = self._answered = 0
        self._thread: threading.Thread | None = None
        self.is_ours = True
        """False once another supervisor owns the home's files: then nothing is written."""

    def record(self, act: str, intent: PendingRequest | None = None, **more: Any) -> None:
        """Append a record with the next `flush`; with an intent, the marker is on the disk before it."""
        if act in _NOT_REPLAYED and len(self._entries) + len(self._failed) >= _MAX_UNWRITTEN:
            return
        kept = {key: value for key, value in more.items() if value not in ("", None)}
        self._entries.append(_JournalEntry(audit.make_record(act, **kept), intent=intent))

    def change(self, change: Callable[[], object], intent: PendingRequest | None = None) -> None:
        """Make a change to a file with the next `flush`; an OSError becomes the intent's, or is passed over."""
        self._entries.append(_JournalEntry(change=change, intent=intent))

    def flush(self) -> None:
        """Have everything written soon; without a thread, at once."""
        if not (self._entries or self._failed):
            return
        if self._written is None:
            self._write()
            return
        with self._turn:
            self._asked += 1
            self._turn.notify_all()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
            self._thread.start()

    def drain(self, seconds: float) -> None:
        """Wait until everything was written, or could not be."""
        self.flush()
        with self._turn:
            wanted = self._asked
            self._turn.wait_for(lambda: self._answered >= wanted, seconds)

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._asked > self._answered)
                asked = self._asked
            self._write()
            with self._turn:
                self._answered = asked
                self._turn.notify_all()

    def _write(self) -> None:
        again = bool(self._failed)
        while self._entries or again:
            again, entries = False, list(self._entries)
            until = next((n for n, entry in enumerate(entries) if entry.change), len(entries)) or 1
            for _ in entries[:until]:
                self._entries.popleft()
            self._do(entries[:until])

    def _do(self, entries: Sequence[_JournalEntry]) -> None:
        """Make one change, or append records, with one sync; an intent that cannot be written down is not kept."""
        error = None
        wanted = [entry.intent for entry in entries if entry.intent]
        try:
            if not self.is_ours:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._home))
            if entries and entries[0].change:
                entries[0].change()
            else:
                self._append(entries)
        except OSError as caught:
            error = caught
        for intent in wanted:
            intent.error, intent.is_done = error, True
        if wanted and self._written:
            self._written()

    def _append(self, entries: Sequence[_JournalEntry]) -> None:
        kept = [*self._failed, *(entry.record for entry in entries if entry.record and not entry.intent)]
        records = [*self._failed, *(entry.record for entry in entries if entry.record)]
        try:
            for entry in entries:
                if entry.intent:
                    self._mark(entry.intent.outputs)
            if records:
                audit.append_records(
                    self._home, records, {name: list(periods) for name, periods in dict(self._history).items()}
                )
        except OSError:
            self._failed = kept[:_MAX_UNWRITTEN]
            raise
        self._failed = []

    def _mark(self, outputs: Iterable[OutputConfig]) -> None:
        if not (self._home / LIVE_FILE).exists():
            kept = {"board": self._kind, "outputs": [asdict(output) for output in outputs]}
            write_atomic(self._home / LIVE_FILE, json.dumps(kept).encode())
        wake_all(self._home)  # a daemon looks after what is on from now on


class Leases:
    """The leases of one home, and what has happened before them."""

    def __init__(
        self,
        home: Path,
        drivers: OutputDrivers,
        clock: Callable[[], float],
        set_watchdog_deadline: Callable[[float | None], bool],
        written: Callable[[], None] | None = None,
    ) -> None:
        """`set_watchdog_deadline(moment)` is False where no watchdog listens; `written` is the Journal's."""
        self._home = home
        self.kind = drivers.kind
        self.drivers = drivers
        self._clock = clock
        self._set_watchdog_deadline = set_watchdog_deadline
        self._is_marked = True
        self.running: dict[str, Lease] = {}
        self.unsafe: dict[str, tuple[OutputConfig, float]] = {}
        self.history: audit.History = {}
        self.intents: dict[int, PendingRequest] = {}
        self.journal = Journal(home, self.kind, self.history, written)

    def begin(self, armed: Iterable[OutputConfig]) -> str:
        """Bring all of them to their safe level, and those that a supervisor had left on; returns what is wrong."""
        left = load_marker(self._home).outputs
        for output in left:
            self.unsafe[output.name] = (output, self._clock())
        outputs = list(armed)
        self.make_all_safe(outputs)
        problem = ""
        try:
            self.history.update(audit.replay(self._home))
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError) as error:
            problem = f"{self._home / audit.AUDIT_FILE} cannot be read back: {error}; move it aside"
        if not problem and not audit.list_files(self._home):
            # without an audit each output counts as just off after its longest time, so deleting it skips no rest
            now = self._clock()
            self.history.update({output.name: [OnPeriod(now - output.longest_on_s, now)] for output in outputs})
        for periods in self.history.values():
            periods[:] = [s if s.ended is not None else OnPeriod(s.began, self._clock()) for s in periods]
        self.note("start", left=[output.name for output in left])
        return problem

    def write_down(
        self, client: int, output: OutputConfig, ask: OutputRequest, armed: Iterable[OutputConfig]
    ) -> PendingRequest | str:
        """Have what a client asks for written down, which `grant` does then; returns what is wrong with the output."""
        if problem := self.drivers.ready(output):
            self.note("refused", name=output.name, rule="hardware", why=problem, who=ask.who)
            return problem
        name, renews, seconds = output.name, output.name in self.running, ask.seconds or 0.0
        intent = self.intents[client] = PendingRequest(self._clock(), name, seconds, renews, tuple(armed))
        self._is_marked = True
        act = "renew" if renews else "on"
        self.journal.record(act, intent, name=name, level=ask.level, seconds=seconds, who=ask.who)
        self.flush()
        return intent

    def change(self, client: int, change: Callable[[], object]) -> PendingRequest:
        """Have a file of the home changed for a client."""
        intent = self.intents[client] = PendingRequest(self._clock())
        self.journal.change(change, intent)
        self.flush()
        return intent

    def cancel_intents(self, why: str, name: str = "") -> None:
        """Do nothing of what is being written down, of one output or of all; those who asked are told why."""
        for intent in self.intents.values():
            if name in {"", intent.name}:
                intent.cancelled = intent.cancelled or why

    def drop_intent(self, client: int) -> None:
        """A client has its answer: what was written down for it and was not done is cancelled."""
        intent = self.intents.pop(client, None)
        if intent is None or intent.error or intent.renews or intent.name in {"", *self.running}:
            return
        if all(other.name != intent.name for other in self.intents.values()):
            self.record_later("cancelled", name=intent.name, why=intent.cancelled)

    def grant(self, client: int, output: OutputConfig, ask: OutputRequest) -> str:
        """Drive what was written down, for its seconds from now on; returns what is wrong.

        Then it is at its safe level, or as it was before.
        """
        name, seconds, now = output.name, ask.seconds or 0.0, self._clock()
        lease = Lease(output, ask.level, now + seconds, client)
        if not self._set_watchdog_deadline(min([lease.ends, *(other.ends for other in self.running.values())])):
            problem = "the supervisor's watchdog does not hear it"
            self.note("refused", name=name, rule="hardware", why=problem, who=ask.who)
            return problem
        if name not in self.running:
            self.history[name] = [*prune_periods(self.history.get(name, ()), output, now), OnPeriod(now)]
        self.running[name] = lease
        del self.intents[client]
        if problem := self.drivers.drive(output, lease.level):
            self.make_safe(output, "safe", f"it could not be driven: {problem}")
            return problem
        self.note("read", name=name, level=self.drivers.read(output))
        return ""

    def leave(self, client: int) -> None:
        """A client goes, and what it switched on stays until its end."""
        self.running = {n: x._replace(client=None) if x.client == client else x for n, x in self.running.items()}

    def end_due(self, samples: "RequiredSensorSampler") -> None:
        """End each lease whose time is over or whose sensor fails; try again what would not go safe."""
        now = self._clock()
        for output, _, ends, _ in list(self.running.values()):
            why = "its time is over" if now >= ends else ""
            if not why and (needs := output.needed):
                sample = samples.latest(needs)
                if sample is None or now >= sample.at + needs.fresh_s / 2:
                    samples.want(needs)
                why = check_required_sensor(needs, sample, now)
            if why:
                self.make_safe(output, "safe", why)
        for output, at in list(self.unsafe.values()):
            if self._clock() >= at:
                self.make_safe(output, "safe", "tried again")

    def next_due(self, samples: "RequiredSensorSampler", *, critical: bool) -> float | None:
        """When `end_due` is to be called next, None for not at all; `critical`: when something has to go safe."""
        moments = [at for _, at in self.unsafe.values()]
        for output, _, ends, _ in self.running.values():
            moments.append(ends)
            if (needs := output.needed) and (sample := samples.latest(needs)):
                half = sample.at + needs.fresh_s / 2
                moments.append(half if self._clock() < half and not critical else sample.at + needs.fresh_s + 0.05)
        return min(moments, default=None)

    def end_client(self, client: int) -> None:
        """A client is gone without a word: what it had switched on goes off."""
        self.drop_intent(client)
        for lease in [lease for lease in self.running.values() if lease.client == client]:
            self.make_safe(lease.output, "safe", "its client is gone")

    def make_safe(self, output: OutputConfig, act: str, why: str = "", who: str = "") -> str:
        """Bring one output to its safe level; returns what is wrong, and tries again later then."""
        name = output.name
        self.cancel_intents(why or act, name)
        problem = self.drivers.drive(output, output.safe_level)
        lease = self.running.pop(name, None)
        known = name in self.unsafe
        if problem:
            if lease or known:
                self.unsafe[name] = (output, self._clock() + _RETRY_S)
            if not known:
                self.record_later("unsafe", name=name, why=why, problem=problem)
            return f"{name} could not be brought to its safe level: {problem}"
        self.unsafe.pop(name, None)
        self._set_watchdog_deadline(min((other.ends for other in self.running.values()), default=None))
        periods = self.history.get(name, [])
        if periods and periods[-1].ended is None:
            periods[-1] = OnPeriod(periods[-1].began, self._clock())
        if lease or known:
            self.record_later(act, name=name, level=output.safe_level, why=why, who=who)
        return ""

    def make_all_safe(self, others: Sequence[OutputConfig] = (), why: str = "") -> list[str]:
        """Bring back everything that is away, and drive the others safe as well; returns what is wrong."""
        self.cancel_intents(why)
        away = [lease.output for lease in self.running.values()] + [output for output, _ in self.unsafe.values()]
        outputs = {output.name: output for output in [*others, *away]}
        return [problem for output in outputs.values() if (problem := self.make_safe(output, "safe", why))]

    def note(self, act: str, **more: Any) -> None:
        self.record_later(act, **more)
        self.flush()

    def flush(self) -> None:
        """Have what was done written down, and the marker taken away when nothing is or goes away from its level."""
        if self._is_marked and not (self.running or self.unsafe or self.intents):
            self._is_marked = False
            self.journal.change(lambda: (self._home / LIVE_FILE).unlink(missing_ok=True))
        self.journal.flush()

    def record_later(self, act: str, **more: Any) -> None:
        """Have an act written down with the next `flush`."""
        self.journal.record(act, **more)


class LiveMarker(NamedTuple):
    """Outputs that may be away from their safe level, as they were declared then, and the board that they are on."""

    board: str = ""
    outputs: Sequence[OutputConfig] = ()


def load_marker(home: Path) -> LiveMarker:
    """Return what the marker says; nothing where there is none, or where it cannot be read."""
    try:
        kept = json.loads(read_file(home / LIVE_FILE, links=False))
    except (OSError, ValueError, RecursionError):
        return LiveMarker()
    if not isinstance(kept, dict):
        return LiveMarker()
    board = kept.get("board")
    return LiveMarker(board if board in {"sim", "linux"} else "", config.restore_outputs(kept.get("outputs")))


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
        self._lock = supervisor.get_lock_inode(home)
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
        return "" if supervisor.get_lock_inode(self._home) == self._lock else f"{self._home} was moved or replaced"

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
        from picoclaw.hw.linux import LinuxBoard

        return LinuxBoard()
    from picoclaw.hw import sim
    from picoclaw.hw.sim.script import DEFAULT_SCRIPT, SIM_FILE, load_script

    try:
        rehearsed = load_script(home / SIM_FILE, loader.list_driver_folders(home))
    except ConfigError:
        rehearsed = DEFAULT_SCRIPT
    return sim.SimBoard(script=rehearsed, state=home / "sim")


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
