"""Who is connected to the supervisor, and what of its words has not been answered yet."""

import json
import os
import select
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from picoclaw.automation import clock
from picoclaw.hw.board import Board
from picoclaw.outputs.supervisor.endpoint import LONGEST_LINE
from picoclaw.outputs.supervisor.leases import Leases
from picoclaw.outputs.supervisor.lines import OutputDrivers, StopButtonInput
from picoclaw.outputs.supervisor.requests import SAMPLE_TIMEOUT_S, WRITE_TIMEOUT_S, RequestHandler, make_refusal
from picoclaw.outputs.supervisor.sensing import RequiredSensorSampler, make_measure_function, read_trusted_time
from picoclaw.text import parse_json_object


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
