"""The simulated board keeps what every board promises; the lab runs the same list on a real kernel."""

import pytest
from contract import CONTRACT, Bench

from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.script import Script, SimLine

SCRIPT = Script(
    {"air": WiredPart("bme280", 1, 0x76), "adc": WiredPart("mcp3008", 0, chip=0)},
    {"air": {"temperature": 25.0}, "adc": {"voltage a0": 1.65}},
    lines=tuple(SimLine(n, f"GPIO{n}", pull=int(n == 4)) for n in range(28)),
    empty=("/dev/ttyS1",),
)


class Echo:
    """The other end of a serial cable: `ECHO x` comes back as `X`."""

    def __init__(self):
        self.received = b""

    def receive(self, data):
        self.received += data

    def pending(self):
        *lines, self.received = self.received.split(b"\n")
        return b"".join(line.removeprefix(b"ECHO ").upper() + b"\n" for line in lines)


@pytest.fixture(params=["in memory", "in files"])
def bench(request, tmp_path):
    board = SimBoard(script=SCRIPT, state=tmp_path if request.param == "in files" else None)
    board._peers["/dev/ttyS1"] = Echo()
    return Bench(board)


@pytest.mark.parametrize("promise", CONTRACT)
def test_the_simulated_board_keeps_its_promises(bench, promise):
    CONTRACT[promise](bench)
