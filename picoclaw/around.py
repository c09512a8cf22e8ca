"""Who is around while a turn runs: hears it, speaks to it, stops it, and keeps it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from picoclaw.messages import Event, Message, Stop, ToolRun

Listener = Callable[[Event | ToolRun], None]


@dataclass(frozen=True)
class Around:
    """What a channel, or a helper's desk, has to do with a turn.

    `say` delivers messages that come ahead of the answer, `listen` hears each event as it happens. `typed` gives what
    the person has said since it was last asked, to be heeded between two tools. `stop` ends the turn, also while the
    model's server is silent. `keep` is handed the turn's messages before something is done, when it is done, and after
    each round, so that it can be gone on with; it raises nothing but TurnStopped. `shield` holds off interruptions
    while the turn is being kept. `once`: who asks leaves with the answer, and is asked nothing back.
    """

    say: Callable[[str], None] = lambda _: None
    listen: Listener = lambda _: None
    typed: Callable[[], Sequence[str]] = tuple
    stop: Stop | None = None
    keep: Callable[[Sequence[Message]], None] = lambda _: None
    shield: Callable[[], AbstractContextManager[None]] = nullcontext
    once: bool = False


ALONE = Around()
