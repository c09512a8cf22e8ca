"""Stand-ins with memory for the tests of the buses: parts that keep what they get, buses that keep transactions."""

from datetime import UTC, datetime

from picoclaw.hw.sim import Nack, SimBoard, SimI2C
from picoclaw.hw.sim.script import Script
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.registry import Toolset

CALLER = Caller("test", "owner", datetime(2026, 7, 1, 12, 0, tzinfo=UTC), print)


class Clock:
    """Seconds, moved on by hand, by sleeping, or by a little with each look at it."""

    def __init__(self, now=0.0, step=0.0):
        self.now = now
        self.step = step
        self.slept = []

    def __call__(self):
        self.now += self.step
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Recorder:
    """A part that keeps every byte that it is sent; answers by what was written last, or with the filling byte."""

    def __init__(self, answers=None, fill=0xFF, *, nack=()):
        self.answers = answers or {}
        self.fill = fill
        self.nack = nack
        self.written = []

    def write(self, data):
        self.written.append(bytes(data))
        if bytes(data) in self.nack:
            raise Nack

    def read(self, length):
        answer = self.answers.get(self.written[-1] if self.written else b"", b"")
        return (answer + bytes([self.fill]) * length)[:length]


class RecordedI2C(SimI2C):
    """A bus that keeps its transactions whole, with those that failed."""

    def __init__(self, number, parts, wiring=None):
        super().__init__(number, parts, wiring)
        self.transfers = []

    def transfer(self, address, segments):
        self.transfers.append((address, *segments))
        return super().transfer(address, segments)


def bench(parts, clock=None, uses=None):
    """A board with one recorded bus of these parts; `uses` says what further buses are for."""
    clock = clock or Clock(1e9)
    board = Bench(clock, Script({}, {}), sleep=clock.sleep)
    board.uses = uses or {}
    for number in (1, *board.uses):
        board._buses[number] = RecordedI2C(number, parts, board.wiring)
    return board, board._buses[1]


class Bench(SimBoard):
    """A simulated board some of whose buses belong to something."""

    uses = {}  # noqa: RUF012

    def adapters(self):
        return [a._replace(use=self.uses.get(a.number, "")) for a in super().adapters()]


def toolset(*groups, guard=lambda *_: None, journal=lambda *_: None):
    return Toolset(groups, guard=guard, journal=journal, longest_result=100_000)


def ask(group, tool, /, **arguments):
    return toolset(group).call(ToolCall("1", tool, arguments), CALLER)


def complaint(answer):
    """Check that an answer is one line for a person, and return it."""
    assert answer.startswith("error: "), answer
    assert "\n" not in answer
    assert "Traceback" not in answer
    assert "unexpectedly" not in answer
    return answer
