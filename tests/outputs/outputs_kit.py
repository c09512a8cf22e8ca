"""What the tests of the outputs share: a home with declarations that are armed, and a supervisor on a clock."""

import os
import signal
import time
from pathlib import Path

from picoclaw.errors import BusFault
from picoclaw.hw.sim import SimBoard
from picoclaw.outputs import config, supervisor
from picoclaw.outputs.client import OutputsClient
from picoclaw.outputs.supervisor.leases import Leases, OutputDrivers
from picoclaw.outputs.supervisor.worker import RequestHandler

PUMP = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\n'
LAMP = '[outputs.lamp]\nline = "GPIO27"\nkind = "light"\nlongest_on_s = 600\n'


def arm(home):
    """Arm whatever is declared."""
    outputs = config.load_outputs(home / "outputs.toml").outputs
    config.save_armed(home, {name: output.digest for name, output in outputs.items()})


def make_home(folder, toml=PUMP, *, armed=True):
    folder.mkdir(exist_ok=True)
    (folder / "outputs.toml").write_text(toml)
    if armed:
        arm(folder)
    return folder


def pin(home, line=17):
    """The level of a line of the simulated board, None when nobody has ever driven it."""
    try:
        return int((home / f"sim/line{line}").read_text() or 0)  # it is empty for a moment while it is written
    except FileNotFoundError:
        return None


def until(true, seconds=3.0):
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone, or going while it is read
        return False


def ended(home):
    """Wait until no supervisor holds the lock."""
    lock = supervisor.take_lock(home, 5.0)
    assert lock >= 0, "the supervisor did not end"
    os.close(lock)


def leave_on(home):
    """Switch the pump on, and kill all that could switch it off again: none of them lives to see another one die."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        client(home).set("pump", "on", 600, "owner")
        os.write(said, b"!")
        signal.pause()
    os.close(said)
    assert os.read(heard, 1)
    os.close(heard)
    everybody = (pid, *supervisor.read_holder(home)[:2])
    for each in everybody:
        os.kill(each, signal.SIGSTOP)
        until(lambda each=each: Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    for each in everybody:
        os.kill(each, signal.SIGKILL)
    os.waitpid(pid, 0)
    ended(home)
    assert pin(home) == 1, "nobody was left to do it"


HARMS = {
    "both killed": {"watchdog": signal.SIGKILL, "worker": signal.SIGKILL},
    "watchdog frozen, worker killed": {"watchdog": signal.SIGSTOP, "worker": signal.SIGKILL},
    "worker frozen, watchdog killed": {"worker": signal.SIGSTOP, "watchdog": signal.SIGKILL},
    "both frozen": {"worker": signal.SIGSTOP, "watchdog": signal.SIGSTOP},
}


def harm(home, numbers):
    holder = supervisor.read_holder(home)
    for name, number in numbers.items():
        os.kill(getattr(holder, name), number)


CLIENTS = []


def client(home):
    """A client that is closed when its test is over."""
    CLIENTS.append(OutputsClient(home, lambda: "sim"))
    return CLIENTS[-1]


def close_clients():
    while CLIENTS:
        CLIENTS.pop().close()


class Clock:
    """Time that only the test moves."""

    def __init__(self, now=10_000.0):
        self.now = now

    def __call__(self):
        return self.now


class Samples:
    """Samples that the test puts there; remembers what was wanted."""

    def __init__(self):
        self.newest = None
        self.wanted = 0

    def latest(self, needs):
        return self.newest

    def want(self, needs):
        self.wanted += 1


class Stubborn(OutputDrivers):
    """Terminals of which some do not do what they are told."""

    def __init__(self, board, home):
        super().__init__(board, home)
        self.stuck = set()

    def drive(self, output, level):
        if output.name in self.stuck:
            return str(BusFault(f"{output.place} does not answer"))
        return super().drive(output, level)


class Desk:
    """A request handler on a simulated board, with the test's clock."""

    def __init__(self, home, wall=None, clock=None, written=None):
        """With `written` the journal has a thread, as a real supervisor's has."""
        self.home = home
        self.clock = clock or Clock()
        self.samples = Samples()
        self.promises = []
        self.board = SimBoard(state=home / "sim")
        self.terminals = Stubborn(self.board, home)
        self.leases = Leases(home, self.terminals, self.clock, self._promise, written)
        self.handler = RequestHandler(
            home,
            self.leases,
            self.samples,
            self.clock,
            lambda: wall,
            self.board,
        )
        self.handler.begin()

    def _promise(self, moment):
        self.promises.append(moment)
        return True

    def ask(self, do, name="pump", client=1, **more):
        given = {"do": do, "name": name, "who": "owner", **more}
        answer = self.handler.request(given, client, self.clock.now)
        self.handler.flush()
        return answer

    def on(self, name="pump", seconds=60, client=1, **more):
        return self.ask("set", name, client, **{"level": "on", "seconds": seconds, **more})

    def later(self, seconds):
        self.clock.now += seconds
        self.handler.tick()
        self.handler.flush()
