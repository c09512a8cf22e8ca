"""Simulated I2C, SPI and serial buses, which take and give the same bytes and the same faults as real ones."""

import errno
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from picoclaw.hw.board import (
    Backoff,
    I2CRead,
    I2CWrite,
    Presence,
    SpiNode,
    SpiSettings,
    SpiTransfer,
    translate_os_error,
)
from picoclaw.hw.sim.script import SimFaults

_ERRNO = {"unplugged": errno.EREMOTEIO, "nack": errno.EREMOTEIO, "stuck": errno.ETIMEDOUT, "eio": errno.EIO}
_LOG_LENGTH = 1000
_SPI_BUFFER = 4096  # the usual bufsiz of the kernel's spidev
_TTY_BUFFER = 4096  # what a Linux terminal device keeps for its reader


class I2CSlave(Protocol):
    """Something that acknowledges an address: takes written bytes, gives read ones; raises Nack to refuse."""

    def write(self, data: bytes) -> None: ...

    def read(self, length: int) -> bytes: ...


class Nack(Exception):
    """The part does not acknowledge now, as an EEPROM that is writing or a sensor that is measuring."""


class SimI2C:
    def __init__(self, number: int, parts: Mapping[int, I2CSlave], wiring: SimFaults | None = None) -> None:
        """`parts` by 7-bit address."""
        self.number = number
        self.parts = dict(parts)
        self.held: dict[int, str] = {}  # address -> kernel driver that holds it
        self.log: deque[tuple[int, I2CRead | I2CWrite]] = deque(maxlen=_LOG_LENGTH)
        self._wiring = wiring or SimFaults(lambda: 0.0)
        self._path = f"/dev/i2c-{number}"
        self._backoff = Backoff(self._path, self._wiring.clock)

    def transfer(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        with self._backoff.watched(), translate_os_error(self._path, address):
            kind = self._fault(address)
            if address in self.held:
                raise _make_os_error(errno.EBUSY)
            if number := _ERRNO.get(kind):
                raise _make_os_error(number)
            return [self._wiring.spoiled(kind, answer) for answer in self._run(address, segments)]

    def _run(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        part = self.parts.get(address)
        answers = []
        for segment in segments:
            if part is None:
                raise _make_os_error(errno.EREMOTEIO)
            self.log.append((address, segment))
            try:
                if isinstance(segment, I2CWrite):
                    part.write(segment.data)
                else:
                    answers.append(part.read(segment.length))
            except Nack:
                raise _make_os_error(errno.EREMOTEIO) from None
        return answers

    def probe(self, address: int) -> Presence:
        kind = self._fault(address)
        if kind in {"stuck", "eio"}:
            with self._backoff.watched(), translate_os_error(self._path, address):
                raise _make_os_error(_ERRNO[kind])
        if address in self.held:
            return "busy"
        if kind == "low":  # what holds the data line low looks like an acknowledgement
            return "present"
        return "present" if address in self.parts and kind not in _ERRNO else "absent"

    def holder(self, address: int) -> str:
        return self.held.get(address, "")

    def _fault(self, address: int) -> str:
        return self._wiring.fault(f"i2c-{self.number}", f"i2c-{self.number}/0x{address:02x}")


class SpiSlave(Protocol):
    """Something behind a chip select."""

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:
        """Answer the bytes of one selection, from the chip select's falling to its rising, with as many bytes."""


class SimSpi:
    """A chip select with a simulated part, or with nothing, which reads as all ones."""

    def __init__(self, node: SpiNode, part: SpiSlave | None, wiring: SimFaults | None = None) -> None:
        """`part` is None when nothing is wired."""
        self.node = node
        self.part = part
        self.log: deque[tuple[tuple[SpiTransfer, ...], SpiSettings]] = deque(maxlen=_LOG_LENGTH)
        self._wiring = wiring or SimFaults(lambda: 0.0)

    def transfer(self, segments: Sequence[SpiTransfer], settings: SpiSettings) -> list[bytes]:
        self.log.append((tuple(segments), settings))
        kind = self._wiring.fault(f"spi{self.node.bus}.{self.node.chip}")
        with translate_os_error(self.node.path):
            if sum(len(s.data) for s in segments) > _SPI_BUFFER:
                raise _make_os_error(errno.EMSGSIZE)
            if kind in {"stuck", "eio"}:
                raise _make_os_error(_ERRNO[kind])
        answers: list[bytes] = []
        selection: list[SpiTransfer] = []
        for segment in segments:
            selection.append(segment)
            if segment.release:
                answers += self._selected(selection, settings, kind)
                selection = []
        return answers + (self._selected(selection, settings, kind) if selection else [])

    def _selected(self, segments: list[SpiTransfer], settings: SpiSettings, kind: str) -> list[bytes]:
        data = b"".join(s.data for s in segments)
        gone = self.part is None or kind in {"unplugged", "nack"}
        answer = b"\xff" * len(data) if self.part is None or gone else self.part.exchange(data, settings)
        answer = self._wiring.spoiled(kind, answer)
        ends = [sum(len(s.data) for s in segments[: i + 1]) for i in range(len(segments))]
        return [answer[end - len(s.data) : end] for s, end in zip(segments, ends, strict=True)]


class SerialPeer(Protocol):
    """Something at the other end of a serial cable."""

    def receive(self, data: bytes) -> None: ...

    def pending(self) -> bytes:
        """Return, once, what it has sent until now."""


class SimSerial:
    """An open port with a simulated part at its other end; time passes by `sleep`."""

    def __init__(
        self,
        path: str,
        peer: SerialPeer | None,
        sleep: Callable[[float], None],
        wiring: SimFaults,
        taken: set[str] | None = None,
    ) -> None:
        """`peer` is None when nothing is wired; `taken` are the ports that are open, which it joins until closed."""
        self._taken = set() if taken is None else taken
        with translate_os_error(path):
            if path in self._taken:
                raise _make_os_error(errno.EBUSY)
        self._taken.add(path)
        self.path = path
        self._peer = peer
        self._sleep = sleep
        self._wiring = wiring
        self._received = b""

    def write(self, data: bytes) -> None:
        if self._fault() != "silent" and self._peer:
            self._peer.receive(data)

    def read(self, most: int, seconds: float) -> bytes:
        waited = 0.0
        self._listen()
        while len(self._received) < most and waited < seconds:
            step = min(0.01, seconds - waited)
            self._sleep(step)
            waited += step
            self._listen()
        answer, self._received = self._received[:most], self._received[most:]
        return answer

    def flush(self) -> None:
        self._listen()
        self._received = b""

    def close(self) -> None:
        self._taken.discard(self.path)

    def _fault(self) -> str:
        """A cable whose adapter is gone, or one over which nothing comes, or bytes that are spoiled."""
        kind = self._wiring.fault(self.path)
        with translate_os_error(self.path):
            if kind in {"unplugged", "eio"}:
                raise _make_os_error(errno.EIO)
        return "silent" if kind in {"nack", "stuck"} else kind

    def _listen(self) -> None:
        kind = self._fault()
        if self._peer:
            heard = self._wiring.spoiled(kind, self._peer.pending()) if kind != "silent" else b""
            self._received = (self._received + heard)[:_TTY_BUFFER]


def _make_os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
