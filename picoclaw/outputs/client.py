"""The client's side of outputs: reaches the supervisor, starts one where there is none, and stops without one.

Sources: posix_spawn(3), unix(7).
"""

import atexit
import contextlib
import math
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.automation.clock import boottime
from picoclaw.errors import HardwareError, PicoclawError, ToolError
from picoclaw.files import explain_os_error
from picoclaw.outputs import config, supervisor
from picoclaw.outputs.stop import recover_outputs, stop_outputs, watch_outputs
from picoclaw.outputs.supervisor import exchange
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from datetime import datetime

    from picoclaw.outputs.audit import OnTime

_START_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S, _OFF_TIMEOUT_S = 10.0, 2.0
_RELEASE_TIMEOUT_S = 0.5
_TRIES, _RELEASES = 5, 3
_LOG_FILE, _LONGEST_LOG = "outputs.log", 65_536
Answer = dict[str, Any]
_WHO_NAMES = {"web": "owner", "guest": "user", "hook": "user"}
"""What an output's `who` calls those who ask; the others have the same name."""


class OutputRefused(ToolError):
    """A rule spoke against it; the text names the rule."""


class OutputsClient:
    """One client of the supervisor. What it switches on goes off when it ends without having said `leave`."""

    def __init__(self, home: Path, board: Callable[[], str]) -> None:
        """`board()` names the board, `sim` or `linux`, for a supervisor that has to be started."""
        self._home = home
        self._board = board
        self._named = ""
        self._connection: socket.socket | None = None
        self._left = threading.Event()
        self._guarded: socket.socket | None = None
        self._wake: socket.socket | None = None
        self._due = 0.0
        self._lock = threading.Lock()

    def list(self) -> Answer:
        """Return `outputs` (name, kind, place, level, seconds left, armed, unsafe), `problems` and `stopped`."""
        return self._ask({"do": "list"})

    def set(self, name: str, level: str, seconds: float | None, who: str) -> str:
        """Bring an output to a level for some seconds; None for as long as may be. Raises OutputRefused."""
        declared_as = _WHO_NAMES.get(who, who)
        answer = self._ask({"do": "set", "name": name, "level": level, "seconds": seconds, "who": declared_as})
        if "seconds" in answer:
            now = boottime()
            self._due = min(now + answer["seconds"], self._due if self._due > now else math.inf)
            self._guard()
        return str(answer["text"])

    def off(self, name: str, who: str) -> str:
        """Bring an output to its safe level; never refused, and never behind a `set` that waits for its answer."""
        request = {"do": "off", "name": name, "who": who}
        if connection := supervisor.connect(self._home, _OFF_TIMEOUT_S):
            with connection:
                try:
                    return str(_check_answer(exchange(connection, request, _OFF_TIMEOUT_S))["text"])
                except (OSError, ValueError):
                    with contextlib.suppress(PicoclawError, OSError):
                        recover_outputs(self._home, self._board)  # ends one that does not answer
        return str(self._ask(request)["text"])

    @property
    def is_stopped(self) -> bool:
        """Whether a stop holds that a person has not ended."""
        return (self._home / supervisor.STOP_FILE).exists()

    def make_safe(self, who: str) -> str:
        """Bring everything to its safe level; it may be switched on again."""
        return stop_outputs(self._home, self._board, who, stop=False)

    def stop(self, who: str) -> str:
        """Bring everything to its safe level, and keep it there until a person resumes."""
        return stop_outputs(self._home, self._board, who)

    def list_on_times(self, now: "datetime") -> "Sequence[OnTime]":
        """List when outputs were on, the oldest first. Raises OSError."""
        from picoclaw.outputs.audit import list_on_times

        return list_on_times(self._home, now)

    def resume(self, who: str) -> str:
        """End a stop; only a person may."""
        return str(self._ask({"do": "resume", "who": who})["text"])

    def parts(self) -> dict[tuple[int, int], str]:
        """Name the output at each bus and address that outputs are channels of."""
        outputs = config.load_outputs(find_outputs_file(self._home)).outputs.values()
        return {(output.bus, output.address): output.name for output in outputs if output.part}

    def meant(self, name: str) -> str:
        """Return the declared name that was meant, such as `grow_light` by `Grow light`."""
        return config.match_name(name.strip(), config.load_outputs(find_outputs_file(self._home)).outputs)

    def check_length(self, name: str, seconds: float) -> None:
        """Raise OutputRefused where that is longer than an output may be on: as the supervisor would, but when it is planned."""
        output = config.load_outputs(find_outputs_file(self._home)).outputs.get(name.strip())
        if output and seconds > (most := output.longest_on_s):
            why = f"{name} may be on for {most:g} s: ask for at most {most:g} s"
            raise OutputRefused(f"{name} was refused: rule 'longest_on': {why}")

    def wants_yes(self, name: str, level: str) -> bool:
        """Whether a person has to agree to this: no for what is not known, or for the way to the safe level."""
        output = config.load_outputs(find_outputs_file(self._home)).outputs.get(name.strip())
        with contextlib.suppress(ValueError):
            if output and config.parse_level(level) == output.safe_level:
                return False
        return output is not None and output.confirm

    def recover(self) -> None:
        """Make safe what a supervisor that was killed has left on."""
        if (self._home / supervisor.LIVE_FILE).exists():
            with contextlib.suppress(OutputRefused):  # one that lives does that itself
                self.list()

    def leave(self) -> None:
        """End, and let what was switched on run to its end."""
        if self._connection is not None:
            with contextlib.suppress(HardwareError):
                self._ask({"do": "leave"})
                self._guarded = None
        self.close()

    def close(self) -> None:
        """End; what was switched on goes off. May be called twice.

        Hanging up is enough for a supervisor that lives. That both of its processes have just been killed shows only in an
        answer that does not come; then we are the last who can do it.
        """
        atexit.unregister(self.close)
        left_on = self._guarded is not None and not self._released()
        self._guarded = None
        self._left.set()
        self._drop()
        self._end_watch()
        for _ in range(_RELEASES if left_on else 0):
            with contextlib.suppress(PicoclawError, OSError):
                if recover_outputs(self._home, self._board):
                    return

    def _released(self) -> bool:
        """Have what is on for us switched off; False when no supervisor says that it has done that."""
        if self._connection is None or not self._lock.acquire(timeout=_RELEASE_TIMEOUT_S):
            return False  # a request is under way: a supervisor that lives notices that we hang up
        try:
            exchange(self._connection, {"do": "release"}, _RELEASE_TIMEOUT_S)
        except (OSError, ValueError):
            return False
        finally:
            self._lock.release()
        return True

    def _drop(self) -> None:
        """Hang up; the thread that watches the connection has a copy of it, which is shut down as well."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
            self._connection = None

    def _guard(self) -> None:
        """While something of ours may be on, a thread notices that the supervisor's processes are gone or hang."""
        if self._connection is not None and self._guarded is not self._connection:
            self._guarded = self._connection
            self._left = threading.Event()
            self._end_watch()
            self._wake, wakes = socket.socketpair()
            given = (self._connection.dup(), wakes, self._left, self._home, self._board, lambda: self._due)
            threading.Thread(target=_watch_connection, args=given, name="outputs", daemon=True).start()
            atexit.unregister(self.close)
            atexit.register(self.close)  # a program may end without saying so
        elif self._wake is not None:  # it ends at another time now
            with contextlib.suppress(OSError):
                self._wake.send(b"!", socket.MSG_DONTWAIT)

    def _end_watch(self) -> None:
        """Have the thread end that watches a connection which is not ours any more."""
        if self._wake is not None:
            self._wake.close()
            self._wake = None

    def _ask(self, request: Answer) -> Answer:
        with self._lock:
            return _check_answer(self._exchanged(request | {"board": self._kind()}))

    def _kind(self) -> str:
        """Name the board once: the supervisor refuses to switch anything for a client that means another one."""
        self._named = self._named or self._board()
        return self._named

    def _exchanged(self, request: Answer) -> Answer:
        """A connection may be dead, because its supervisor was not needed any more, or just before it was."""
        for _ in range(_TRIES):
            self._connection = self._connection or connect_supervisor(self._home, self._board)
            with contextlib.suppress(ConnectionError):
                return self._answered(self._connection, request)
            self._drop()
        raise HardwareError(
            "what drives the outputs ended, so everything goes to its safe level; `picoclaw outputs audit` shows the last acts"
        )

    def _answered(self, connection: socket.socket, request: Answer) -> Answer:
        """Whatever keeps us from reading the answer, Ctrl-C too, ends the connection, and the wish with it."""
        answer = None
        try:
            answer = exchange(connection, request, _ANSWER_TIMEOUT_S)
        except ConnectionError:
            raise
        except (OSError, ValueError) as error:
            raise HardwareError(
                f"what drives the outputs does not answer ({error}): `picoclaw outputs safe` switches all to their safe levels"
            ) from None
        finally:
            if answer is None:
                self._drop()
        return answer


def _check_answer(answer: Answer) -> Answer:
    """Return an answer that is a yes; raises OutputRefused or HardwareError for a no."""
    if not answer.get("ok"):
        kind = HardwareError if answer.get("rule") == "hardware" else OutputRefused
        raise kind(str(answer.get("text", "the outputs were not switched, and no reason was given")))
    return answer


def _watch_connection(
    line: socket.socket,
    wake: socket.socket,
    left: threading.Event,
    home: Path,
    board: Callable[[], str],
    due: Callable[[], float],
) -> None:
    """Look that nothing is left on, until it is we who end the connection."""
    with line, wake:
        watch_outputs(home, board, wake.fileno(), left.is_set, line=line, due=due)


def connect_supervisor(home: Path, board: Callable[[], str]) -> socket.socket:
    """Connect to the supervisor, starting one if need be. Raises HardwareError saying why there is none."""
    said = ""
    for _ in range(3):  # one that is just ending still has the lock for a moment
        if connection := supervisor.connect(home, _ANSWER_TIMEOUT_S):
            return connection
        said = _start_supervisor(home, board())
        if said not in {"ready", "busy"}:
            break
        if said == "busy":
            with contextlib.suppress(OSError):
                recover_outputs(home, board)  # ends one that left something on and does not answer
    if connection := supervisor.connect(home, _ANSWER_TIMEOUT_S):
        return connection
    why = {
        "": f"see {home / _LOG_FILE}",
        "busy": "another one holds the lock and does not answer: `picoclaw outputs safe`",
    }
    raise HardwareError(f"the outputs cannot be switched: what drives them could not be started: {why.get(said, said)}")


def _start_supervisor(home: Path, kind: str) -> str:
    """Start a supervisor in a session of its own and wait until it is ready; returns what it says."""
    package = str(Path(__file__).parents[2])
    words = [sys.executable, "-P", "-m", "picoclaw.outputs.supervisor", str(home), kind]
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    heard, said = os.pipe2(os.O_CLOEXEC)
    log = _open_log(home)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, said, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        environment = {**kept, "LANG": "C.UTF-8", "PYTHONPATH": package}
        pid = os.posix_spawn(sys.executable, words, environment, file_actions=[null, *streams], setsid=True)
    except OSError as error:
        os.close(heard)
        return f"{sys.executable}: {explain_os_error(error)}"
    finally:
        os.close(said)
        os.close(log)
    try:
        text = b""
        while not text.endswith(b"\n") and select.select([heard], [], [], _START_TIMEOUT_S)[0]:
            more = os.read(heard, 4096)
            if not more:
                break
            text += more
    finally:
        os.close(heard)
        os.waitpid(pid, 0)
    return text.decode("utf-8", "replace").strip()


def _open_log(home: Path) -> int:
    """Where a supervisor that fails says so at length."""
    with contextlib.suppress(OSError):
        file = os.open(home / _LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(file).st_size > _LONGEST_LOG:
            os.ftruncate(file, 0)
        return file
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def format_outputs(answer: Answer) -> Iterator[str]:
    from picoclaw.times import format_duration

    if answer["stopped"]:
        yield f"everything is stopped ({answer['stopped']}); a person ends that with /resume, or `picoclaw outputs resume`"
    yield from (f"nothing can be switched on: {problem}" for problem in answer["problems"])
    for row in answer["outputs"]:
        left = "" if row["left"] is None else f", {row['left']:g} s left"
        doubt = ", COULD NOT BE BROUGHT TO ITS SAFE LEVEL" if row["unsafe"] else ""
        dry = "" if row["armed"] else f", dry run until `picoclaw outputs arm {row['name']}`"
        level = config.format_level(row["level"]) if row["armed"] else "not driven"
        fault = f", {row['fault']}" if row["fault"] else ""
        longest = (
            f"; at most {format_duration(row['longest'])}" if "longest" in row else ""
        )  # a supervisor of before has none
        yield f"{row['name']} ({row['kind']}, {row['place']}{longest}): {level}{left}{doubt}{dry}{fault}"
