"""The supervisor's requests (set, off, stop, status) and its tick, who is connected, and what is not answered yet.

How leases end is in leases.py.
"""

import json
import os
import select
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from picoclaw.automation import clock
from picoclaw.files import explain_os_error
from picoclaw.hw.board import Board
from picoclaw.outputs import config
from picoclaw.outputs.config import OutputConfig, format_level
from picoclaw.outputs.limits import LimitContext, OutputRequest, Refusal, SensorSample, check_limits, resolve_seconds
from picoclaw.outputs.supervisor import LONGEST_LINE, STOP_FILE
from picoclaw.outputs.supervisor.leases import Lease, Leases, OutputDrivers, OutputPlan, StopButtonInput
from picoclaw.outputs.supervisor.sensing import RequiredSensorSampler, make_measure_function, read_trusted_time
from picoclaw.text import parse_json_object

Answer = dict[str, Any]
_ANY_BOARD = {"stop", "safe", "off", "leave", "release"}  # they can only make something safe


def parse_set_request(given: dict[str, Any]) -> OutputRequest | Refusal:
    seconds = given.get("seconds")
    try:
        level = config.parse_level(str(given.get("level", "")))
    except ValueError as error:
        return Refusal("value", str(error))
    if seconds is not None and (not isinstance(seconds, int | float) or not 0 < seconds < 1e9 or seconds is True):
        return Refusal("longest_on", "seconds must be a number, and more than 0")
    return OutputRequest(level, seconds, str(given.get("who", "")))


def make_ok(text: str, **more: Any) -> Answer:
    return {"ok": True, "text": text} | more


def make_refusal(rule: str, text: str) -> Answer:
    """It was refused by a rule, or failed."""
    return {"ok": False, "rule": rule, "text": text}


def make_result(bad: list[str], good: str) -> Answer:
    """It was done, unless something is bad."""
    return make_refusal("hardware", "; ".join(bad)) if bad else make_ok(good)


def make_output_row(output: OutputConfig, lease: Lease | None, now: float) -> Answer:
    return {
        "name": output.name,
        "kind": output.kind,
        "place": output.place,
        "level": lease.level if lease else output.safe_level,
        "left": round(lease.ends - now, 1) if lease else None,
        "longest": output.longest_on_s,
    }


def check_board(given: dict[str, Any], kind: str) -> Answer | None:
    """Refuse a client that means another board than the supervisor's."""
    if given["do"] in _ANY_BOARD or given.get("board", kind) == kind:
        return None
    why = f"a supervisor of the {kind} board is at work in this home: end whatever uses it, or choose with `--board {kind}`"
    return make_refusal("board", why)


# Answers requests: who may do what with which output, and until when. Waits for nothing; clocks are handed in.

SAMPLE_TIMEOUT_S, WRITE_TIMEOUT_S = 5.0, 8.0
"""How long a request may wait for a measurement, and in all when the disk is slow as well."""

CHECK_INTERVAL_S, _MAX_NAME = 1.0, 60


class RequestHandler:
    def __init__(
        self,
        home: Path,
        leases: Leases,
        samples: RequiredSensorSampler,
        clock: Callable[[], float],
        wall: Callable[[], datetime | None],
        board: Board,
    ) -> None:
        """`clock` gives boottime; `wall` local time, None when it is not trusted."""
        self._home = home
        self._leases = leases
        self._samples = samples
        self._clock = clock
        self._wall = wall
        self._trouble = ""
        self._plan = OutputPlan(home, board)
        self._looked = clock()
        self._stopped = ""
        self.button: StopButtonInput | None = None
        self.lost = ""

    def begin(self) -> None:
        """Bring everything to its safe level, whatever was before, and read back what has happened."""
        self._plan.load()
        self._trouble = self._leases.begin(self._plan.usable().values())

    @property
    def idle(self) -> bool:
        """Whether nothing is or goes away from its safe level, and nothing is known only here that the home could keep."""
        is_kept = not self._stopped or (self._home / STOP_FILE).exists() or not self._home.exists()
        return self.all_is_safe and not self._leases.intents and is_kept

    @property
    def all_is_safe(self) -> bool:
        """Whether nothing is away from its safe level."""
        return not self._leases.running and not self._leases.unsafe

    @property
    def live(self) -> bool:
        """Whether something is away from its safe level."""
        return bool(self._leases.running)

    @property
    def holders(self) -> set[int | None]:
        """The clients that something is on for."""
        return {lease.client for lease in self._leases.running.values()}

    def request(self, given: dict[str, Any], client: int, asked_at: float) -> Answer | None:
        """Answer one request; None when a sample or the disk has to come first: ask again when it may have come.

        `asked_at` is when the request came; WRITE_TIMEOUT_S after that there is an answer in any case.
        """
        self._reload()
        self._heed_button()
        who, do = str(given.get("who", ""))[:_MAX_NAME], given.get("do")
        does: dict[object, Callable[[], Answer | None]] = {
            "set": lambda: self._set(given, client, asked_at),
            "off": lambda: self._off(str(given.get("name", "")), who),
            "stop": lambda: self.stop(who),
            "safe": lambda: self._all_off(who),
            "resume": lambda: self._resume(who, client, asked_at),
            "list": self._list,
            "leave": lambda: self._leave(client),
            "release": lambda: self._release(client),
        }
        if not isinstance(do, str) or do not in does:
            return make_refusal("request", f"a request needs do: {', '.join(map(str, does))}")
        answer = check_board(given, self._leases.kind) or does[do]()
        if answer is not None:
            self._leases.drop_intent(client)
        return answer

    def _set(self, given: dict[str, Any], client: int, asked_at: float) -> Answer | None:
        name = str(given.get("name", ""))
        output = self._plan.declared.outputs.get(name)
        ask = parse_set_request(given)
        if isinstance(ask, Refusal):
            return self._refused(name, given, ask)
        if output and ask.level == output.safe_level:
            return self._off(name, ask.who)
        needed = output.needed if output else None
        sample = self._samples.latest(needed) if needed else None
        moment = self._moment(name, sample)
        intent = self._leases.intents.get(client)
        if intent and intent.cancelled:
            return make_refusal("safe", f"{name[:_MAX_NAME]} stays at its safe level; meanwhile: {intent.cancelled}")
        if intent and intent.renews and ask.seconds is not None:  # limits go by when it ends, which is as it was then
            ask = ask._replace(seconds=ask.seconds - (moment.now - intent.at))
        refusal = check_limits(name, ask, moment)
        if refusal and refusal.rule == "sensor" and needed and self._may_wait(sample, asked_at):
            self._samples.want(needed)
            return None
        if refusal or output is None:
            return self._refused(name, given, refusal or Refusal("unknown output", name))
        ask = ask._replace(seconds=resolve_seconds(output, ask, moment))
        return self._away(output, ask, client, asked_at) if name in self._plan.usable() else self._dry(output, ask)

    def _may_wait(self, sample: SensorSample | None, asked_at: float) -> bool:
        return self._clock() < asked_at + SAMPLE_TIMEOUT_S and (sample is None or sample.at < asked_at)

    def _moment(self, name: str, sample: SensorSample | None) -> LimitContext:
        problem = next(iter(self._problems()), "") or self._plan.fault(name)
        known, plain = self._plan.declared.outputs, self._plan.wiring.plain
        return LimitContext(
            self._clock(), self._wall(), self._leases.history, known, sample, self.stopped, problem, plain
        )

    @property
    def stopped(self) -> str:
        """By whom everything is stopped; empty when it is not."""
        return self._stopped or (f"{STOP_FILE} is there" if (self._home / STOP_FILE).exists() else "")

    def _refused(self, name: str, given: dict[str, Any], refusal: Refusal) -> Answer:
        asked = {key: str(given.get(key, ""))[:_MAX_NAME] for key in ("level", "seconds", "who")}
        self._leases.note("refused", name=name[:_MAX_NAME], rule=refusal.rule, why=refusal.why, **asked)
        return make_refusal(refusal.rule, f"{name[:_MAX_NAME]} was refused: {refusal}")

    def _dry(self, output: OutputConfig, ask: OutputRequest) -> Answer:
        self._leases.note("dry", name=output.name, level=ask.level, seconds=ask.seconds, who=ask.who)
        return make_ok(
            f"dry run, NOTHING was driven: {output.name} would be {format_level(ask.level)} for {ask.seconds:g} s;"
            f" its declaration is new or changed, a person arms it with `picoclaw outputs arm {output.name}`",
            dry=True,
        )

    def _away(self, output: OutputConfig, ask: OutputRequest, client: int, asked_at: float) -> Answer | None:
        intent = self._leases.intents.get(client)
        if intent is None:
            written = self._leases.write_down(client, output, ask, self._plan.usable().values())
            if isinstance(written, str):
                return make_refusal("hardware", written)
            intent = written
        if not intent.is_done:
            return None if self._clock() < asked_at + WRITE_TIMEOUT_S else self._too_slow(f"{output.name} was refused")
        if intent.error:
            why = f"it cannot be written down: {explain_os_error(intent.error)}"
            return make_refusal("audit", f"{output.name} was refused: {Refusal('audit', why)}")
        if problem := self._leases.grant(client, output, ask):
            return make_refusal("hardware", problem)
        if self.stopped:
            self._leases.make_safe(output, "safe", "stop")
            return make_refusal("stop", f"{output.name} is at its safe level again: everything was stopped meanwhile")
        return make_ok(f"{output.name} is {format_level(ask.level)} for {intent.seconds:g} s", seconds=intent.seconds)

    def _too_slow(self, what: str) -> Answer:
        why = f"the disk took nothing for {WRITE_TIMEOUT_S:g} s, and it has to be written down first: try again (see dmesg)"
        return make_refusal("audit", f"{what}: {Refusal('audit', why)}")

    def _off(self, name: str, who: str) -> Answer:
        lease, armed, known = self._leases.running.get(name), self._plan.armed(), self._plan.declared.outputs
        if lease is None and name not in known:
            return make_refusal(
                "unknown output", f"there is no output {name[:_MAX_NAME]!r}; declared: {', '.join(known) or 'none'}"
            )
        if lease is None and name not in armed:
            return make_ok(f"{name} was not on")
        output = lease.output if lease else armed[name]
        problem = self._leases.make_safe(output, "off", who=who)
        hint = f"; `picoclaw outputs set {name} off SECONDS` switches it off for a while" if output.safe_level else ""
        return make_result(
            [problem] if problem else [], f"{name} is at its safe level, {format_level(output.safe_level)}{hint}"
        )

    def stop(self, who: str) -> Answer:
        """Everything off, and nothing on until a person resumes."""
        self._stopped = f"by {who or 'somebody'}"
        problems = self._leases.make_all_safe([*self._plan.usable().values()], "stop")
        self._leases.journal.change(lambda: (self._home / STOP_FILE).touch(mode=0o600))
        self._leases.record_later("stop", who=who)
        unarmed = config.describe_unarmed(self._home, self._plan.declared.outputs)
        return make_result(
            problems,
            f"stopped: everything is at its safe level{unarmed}; nothing is switched on until you type /resume, or `picoclaw outputs resume` on the board",
        )

    def _all_off(self, who: str) -> Answer:
        problems = self._leases.make_all_safe([*self._plan.usable().values()], f"asked by {who}")
        unarmed = config.describe_unarmed(self._home, self._plan.declared.outputs)
        return make_result(problems, f"everything is at its safe level{unarmed}")

    def _resume(self, who: str, client: int, asked_at: float) -> Answer | None:
        if who != "owner":
            return make_refusal(
                "who",
                f"{who or 'nobody'} may not resume; a person does that with /resume, or `picoclaw outputs resume`",
            )
        file = self._home / STOP_FILE
        intent = self._leases.intents.get(client) or self._leases.change(client, lambda: file.unlink(missing_ok=True))
        if not intent.is_done:
            return None if self._clock() < asked_at + WRITE_TIMEOUT_S else self._too_slow("everything stays stopped")
        if intent.error:
            return make_refusal("stop", f"{file} cannot be removed: {explain_os_error(intent.error)}")
        if intent.cancelled:
            return make_refusal("stop", f"everything stays stopped; meanwhile: {intent.cancelled}")
        self._stopped = ""
        self._leases.note("resume", who=who)
        return make_ok("resumed: outputs may be switched on again")

    def _leave(self, client: int) -> Answer:
        self._leases.leave(client)
        return make_ok("left")

    def _release(self, client: int) -> Answer:
        self._leases.end_client(client)
        return make_ok("released")

    def _list(self) -> Answer:
        now, armed, running = self._clock(), self._plan.armed(), self._leases.running
        faults, unsafe = self._plan.wiring.faults, self._leases.unsafe
        rows = [
            make_output_row(output, running.get(name), now)
            | {"armed": name in armed, "unsafe": name in unsafe, "fault": faults.get(name, "")}
            for name, output in self._plan.declared.outputs.items()
        ]
        return {"ok": True, "outputs": rows, "problems": self._problems(), "stopped": self.stopped}

    def _problems(self) -> list[str]:
        button = self.button.trouble if self.button else ""
        return [*filter(None, [self._trouble, button]), *self._plan.declared.problems]

    def gone(self, client: int) -> None:
        """A client is gone without a word."""
        self._leases.end_client(client)

    def all_safe(self, why: str) -> None:
        """Bring everything that is away back."""
        self._leases.make_all_safe(why=why)

    def flush(self) -> None:
        """Have written down what `tick`, `gone` and the like have done; to be called before sleeping."""
        self._leases.flush()

    def close(self, seconds: float) -> None:
        """Wait until everything is written down, at most so long."""
        self._leases.flush()
        self._leases.journal.drain(seconds)

    def tick(self) -> None:
        """Do what is due: the button, files that no longer allow what is on, leases that end."""
        self._heed_button()
        self._look(self._clock())
        self._leases.end_due(self._samples)

    @property
    def looks(self) -> float | None:
        """When `tick` looks at the files again, None when nothing hangs on them."""
        return self._looked + CHECK_INTERVAL_S if self.live else None

    def due(self, *, critical: bool = False) -> float | None:
        """When `tick` is to be called next, None for not at all; `critical`: when something has to go safe."""
        return self._leases.next_due(self._samples, critical=critical)

    def _heed_button(self) -> None:
        if self.button is None:
            return
        held = self.button.held(self._plan.declared.stop)
        if self.button.trouble:
            self.all_safe(self.button.trouble)
        elif held and not self.stopped:
            self.stop("the stop button")

    def _look(self, now: float) -> None:
        """While something is away from its safe level, look about once a second whether the files still allow it."""
        if self.all_is_safe or (now < self._looked + CHECK_INTERVAL_S and not (self._home / STOP_FILE).exists()):
            return
        self._looked = now
        if lost := self._plan.lost:
            self.lost = lost
            self.all_safe(self.lost)
            self._leases.journal.is_ours = False
            return
        self._reload()
        if self.stopped:
            self.all_safe("stop")

    def _reload(self) -> None:
        """Look whether outputs.toml is another than the one we know; what is on then was meant by the old one."""
        if not self._plan.changed:
            return
        self._leases.make_all_safe(why="outputs.toml was changed")
        self._leases.drivers.close()  # their declarations may change
        self._leases.note("reload")
        self._plan.load()
        self._leases.make_all_safe([*self._plan.usable().values()])


class ClientConnection:
    """A connection, what of its words has not been read yet, and a request that waits for a sample."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        """Nothing was heard yet. A visitor came when there were too many, and may only make something safe."""
        self.number = number
        self.connection = connection
        self.visitor = False
        self.heard = b""
        self.waiting: tuple[dict[str, Any], float] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing of what it has said is left to be answered."""
        return self.waiting is None and not self.heard

    @property
    def gone(self) -> bool:
        """Whether it has hung up, after words that were not answered yet."""
        poller = select.poll()
        poller.register(self.connection, select.POLLRDHUP)
        return bool(poller.poll(0))

    @property
    def ready(self) -> bool:
        """Whether it has said something that can be answered now."""
        return self.waiting is None and b"\n" in self.heard


# The supervisor's loop: hears clients, signals, the stop button and the watchdog, and sleeps until something is due.
#
# Sources: unix(7) on SO_PEERCRED, signal(7).

_GRACE_S = 5.0
_BEGIN_S = 10.0
_CLOSE_S = 10.0
_WATCHDOG_GONE = "the watchdog is gone"
_WATCHDOG_STUCK = "the watchdog does not listen"
_TRIES = 60
_MAX_CLIENTS, _MAX_VISITORS = 16, 16
_ALWAYS_ALLOWED = {"stop", "safe", "off", "list"}
"""What is answered even when there are too many clients to keep."""
_CREDENTIALS = struct.Struct("3i")


class SupervisorWorker:
    """One supervisor at work. The board is ours alone; the listener, the watchdog's pipe and its ear are handed in."""

    def __init__(self, home: Path, board: Board, listener: socket.socket, watchdog: int, ear: int) -> None:
        """`watchdog` is a descriptor that ends when the watchdog does; `ear` takes our promises."""
        self._board = board
        self._listener = listener
        self._ear = ear
        self._promised: float | None = None
        self._clients: dict[int, ClientConnection] = {}
        self._count = 0
        self._ending = ""
        self._grace: float | None = clock.boottime() + _GRACE_S
        self._steps = -1
        self._selector = selectors.DefaultSelector()
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        samples = RequiredSensorSampler(make_measure_function(board, home), self._wake[1])
        terminals = OutputDrivers(board, home)
        self.handler = RequestHandler(
            home,
            Leases(home, terminals, clock.boottime, self._promise, self._interrupt),
            samples,
            clock.boottime,
            lambda: read_trusted_time(board, home),
            board,
        )
        self.handler.button = StopButtonInput(
            board, self._hear, self._selector.unregister, lambda: self.handler.stop("the stop button")
        )
        self._hear(listener, self._accept)
        self._hear(watchdog, lambda: self.end(_WATCHDOG_GONE))
        self._hear(self._wake[0], lambda: self._drain(self._wake[0]))

    def _interrupt(self) -> None:
        os.write(self._wake[1], b"\0")

    def _hear(self, what: Any, then: Callable[[], object]) -> None:
        self._selector.register(what, selectors.EVENT_READ, then)

    def heed_signals(self) -> None:
        """SIGTERM, SIGINT and SIGHUP end us, SIGUSR1 stops everything; each between two turns of the loop."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._hear(reader, lambda: self._signalled(self._drain(reader)))

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGUSR1 in numbers:
            self.handler.stop("a signal")
        if set(numbers) - {signal.SIGUSR1}:
            self.end("a signal asked for it")

    @staticmethod
    def _drain(file: int) -> bytes:
        try:
            return os.read(file, 4096)
        except BlockingIOError:
            return b""

    def end(self, why: str) -> None:
        """Leave the loop after this turn."""
        self._ending = why

    @property
    def alone(self) -> bool:
        """Whether the watchdog is of no use any more."""
        return self._ending in {_WATCHDOG_GONE, _WATCHDOG_STUCK}

    def run(self, began: Callable[[], None]) -> bool:
        """Make everything safe, say that we `began`, and serve until nobody needs us; tells whether all is safe."""
        self._promise(clock.boottime() + _BEGIN_S)  # what is read then, from a disk or a bus, may hang
        self.handler.begin()
        began()
        while not self._ending:
            self.turn()
        self._selector.unregister(self._listener)
        self._listener.close()
        self.handler.all_safe(self._ending)
        for _ in range(_TRIES if self.alone else 0):
            if self.handler.all_is_safe:
                break
            time.sleep(1)
            self.handler.tick()
        for client in list(self._clients.values()):
            self._close(client)
        self.handler.close(_CLOSE_S)
        return self.handler.all_is_safe

    def turn(self, longest: float | None = None) -> None:
        """Do what is due, then sleep until something happens, at most `longest` seconds."""
        self.handler.tick()
        for client in list(self._clients.values()):
            self._serve(client)
        self.handler.flush()
        if not self.handler.live and self._steps >= 0:
            self._forget_date()
        self._promise(self.handler.due(critical=True))
        if self.handler.lost:
            self.end(self.handler.lost)
        if self._ending:
            return
        if not self._needed():
            self.end("no longer needed")
            return
        for key, _ in self._selector.select(self._sleep(longest)):
            key.data()

    def _needed(self) -> bool:
        waited = self._grace is not None and clock.boottime() < self._grace
        return bool(self._clients) or not self.handler.idle or waited

    def _sleep(self, longest: float | None) -> float | None:
        if any(client.ready for client in self._clients.values()):
            return 0.0
        now = clock.boottime()
        asked = [client.waiting[1] for client in self._clients.values() if client.waiting]
        moments = [
            at + wait
            for at in asked
            for wait in (SAMPLE_TIMEOUT_S, WRITE_TIMEOUT_S)
            if at + wait > now or wait == WRITE_TIMEOUT_S
        ]
        moments += [moment for moment in (self.handler.due(), self.handler.looks, self._grace) if moment is not None]
        limits = [moment - now for moment in moments] + ([] if longest is None else [longest])
        return max(0.0, min(limits)) if limits else None

    def _promise(self, moment: float | None) -> bool:
        """Tell the watchdog when it hears of us again at the latest; it ends us if it does not.

        A watchdog that does not take it is frozen: waiting for it would outlast a lease, and nothing goes on without it.
        """
        # before something leaves its safe level: a date that is set ends it, because no rule about time holds then
        if moment is not None and self._steps < 0:
            self._steps = clock.open_clock_watch()
            if self._steps >= 0:
                self._hear(self._steps, self._stepped)
        if moment != self._promised:
            self._promised = moment
            try:
                os.write(self._ear, struct.pack("d", moment or 0.0))
            except BlockingIOError:
                self.end(_WATCHDOG_STUCK)
            except OSError:
                self.end(_WATCHDOG_GONE)
        return not self.alone

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in {os.getuid(), 0}:
            connection.close()
            return
        kept = self._room()
        self._count += 1
        self._grace = None
        client = self._clients[self._count] = ClientConnection(self._count, connection)
        client.visitor = not kept
        self._hear(connection, lambda: self._listen(client))

    def _room(self) -> bool:
        """Make room for one more client: who has nothing on and wants nothing comes back when it wants something.

        Returns False when nobody could go; then the new one is a visitor, of whom the oldest goes.
        """
        if len(self._clients) < _MAX_CLIENTS:
            return True
        visitors = [client for client in self._clients.values() if client.visitor]
        holders = self.handler.holders
        if idle := next((c for c in self._clients.values() if c.idle and c.number not in holders), None):
            self._close(idle)
        elif len(visitors) >= _MAX_VISITORS:
            self._close(visitors[0])
        return len(self._clients) < _MAX_CLIENTS

    def _listen(self, client: ClientConnection) -> None:
        if len(client.heard) > LONGEST_LINE and client.ready:
            return  # its earlier lines come first
        try:
            said = client.connection.recv(LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        client.heard += said
        if not said:
            self._close(client)
        elif len(client.heard) > LONGEST_LINE and not client.ready:
            self._answer(client, {"ok": False, "rule": "request", "text": f"a line has at most {LONGEST_LINE} bytes"})
            self._close(client)

    def _serve(self, client: ClientConnection) -> None:
        """Answer one line of a client, so that none keeps the others, or a lease's end, waiting."""
        if client.ready:
            line, _, client.heard = client.heard.partition(b"\n")
            client.waiting = (parse_json_object(line), clock.boottime())
        if client.waiting:
            if client.gone:  # a wish dies with who had it
                self._close(client)
                return
            answer = self._answered(client, *client.waiting)
            if answer is not None:
                client.waiting = None
                self._answer(client, answer)

    def _answered(self, client: ClientConnection, request: dict[str, Any], asked_at: float) -> dict[str, Any] | None:
        if client.visitor and request.get("do") not in _ALWAYS_ALLOWED:
            return make_refusal("clients", f"{_MAX_CLIENTS} clients have outputs on: end one of them first")
        return self.handler.request(request, client.number, asked_at)

    def _answer(self, client: ClientConnection, answer: dict[str, Any]) -> None:
        """A client that does not read what it asked for is gone for us."""
        text = json.dumps(answer).encode() + b"\n"
        try:
            whole = client.connection.send(text) == len(text)
        except OSError:
            whole = False
        if not whole:
            self._close(client)

    def _close(self, client: ClientConnection) -> None:
        if self._clients.pop(client.number, None):
            self._selector.unregister(client.connection)
            client.connection.close()
            self.handler.gone(client.number)

    def _stepped(self) -> None:
        if clock.has_clock_stepped(self._steps):
            self._forget_date()
            self.handler.all_safe("the date was set, or the board slept")

    def _forget_date(self) -> None:
        self._selector.unregister(self._steps)
        os.close(self._steps)
        self._steps = -1
