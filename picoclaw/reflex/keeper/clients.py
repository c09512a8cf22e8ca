"""Who is connected to the keeper, and what of its words has not been answered yet."""

import json
import select
import socket
from typing import Any


class Client:
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


def parsed(line: bytes) -> dict[str, Any]:
    """Read a request; what is none is an empty one."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
