"""The sending half of a simulated serial part: bytes arrive one by one, at the speed of the line."""

import math
from collections import deque
from collections.abc import Callable

from picoclaw.hw.sim.scene import Scene

_HELD = 4095  # what a kernel keeps for a reader that does not come


class Transmitter:
    """A TX pin with a queue behind it."""

    def __init__(self, clock: Callable[[], float], baud: int = 9600) -> None:
        """`clock` gives seconds; a byte takes ten bits."""
        self._clock = clock
        self._byte_s = 10 / baud
        self._free_at = 0.0
        self._queue: deque[tuple[float, int]] = deque(maxlen=_HELD)

    def send(self, data: bytes, at: float) -> None:
        """Begin to send at a time, or when the line is free."""
        self._free_at = max(self._free_at, at)
        for byte in data:
            self._free_at += self._byte_s
            self._queue.append((self._free_at, byte))

    def arrived(self) -> bytes:
        """Return, once, the bytes whose last bit has been sent."""
        found = bytearray()
        while self._queue and self._queue[0][0] <= self._clock():
            found.append(self._queue.popleft()[1])
        return bytes(found)


class Chatter:
    """A part that sends something every second by itself."""

    def __init__(self, scene: Scene) -> None:
        """Begins with the next whole second."""
        self._scene = scene
        self._line = Transmitter(scene.now)
        self._next = math.floor(scene.now()) + 1

    def burst(self, second: int) -> bytes:
        """Return what is sent from a whole second on."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Take what is sent to the part; most do not listen."""

    def pending(self) -> bytes:
        """Return what has arrived since the last call; of a long absence, the last seconds."""
        now = math.floor(self._scene.now())
        for second in range(max(self._next, now - 3), now + 1):
            self._line.send(self.burst(second), second)
        self._next = max(self._next, now + 1)
        return self._line.arrived()
