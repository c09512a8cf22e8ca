"""A house in which a day is played: the daemon's own `Household`, desk loop and clockwork, in one thread.

Its channels are ours and tell what the world has seen.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from day import PHONE, TERMINAL, Beat, Event, Move, Pass, Press, Restart, Say, Tidy

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.automation.checklist import SampleHistory
from picoclaw.automation.clock import boottime
from picoclaw.automation.heartbeat import HeartbeatTime
from picoclaw.channels.channel import ChannelStatus, PostMessage, make_answer_command
from picoclaw.config import load_config
from picoclaw.daemon import background, process
from picoclaw.daemon.background import BackgroundWorker, build_heartbeat
from picoclaw.daemon.delivery import DeliveryWorker
from picoclaw.daemon.sampling import Watch, read_followed_sensors
from picoclaw.daemon.service import DaemonService
from picoclaw.errors import PicoclawError
from picoclaw.files import make_folder, write_atomic
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.parts import make_part
from picoclaw.messages import NO_HOOKS, Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage
from picoclaw.store.jobs import Job

_PLENTY = 1 << 40
CONFIG = b"""
[model]
retries = 0
stream = false
[history]
every_seconds = 10
[heartbeat]
enabled = true
every_minutes = 5
quiet = ""
[approvals]
minutes = 600
[memory]
dream_hour = -1
embeddings = "off"
"""
Seen = Callable[[Event], None]


class Phone:
    """A channel to a person who keeps what they are told; nothing is shown live."""

    def __init__(self, name: str, seen: Seen) -> None:
        self.name, self._seen = name, seen

    def start(self, post: PostMessage) -> None:
        pass

    def send(self, letter: OutboxMessage) -> None:
        if letter.approval:
            self._seen(("asked", letter.approval, letter.text))
        self._seen(("told", letter.number, letter.text))

    def around(self, arrived: InboxMessage) -> TurnHooks:
        return NO_HOOKS

    def changed(self, approval: Approval) -> None:
        pass

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        return False

    def status(self) -> ChannelStatus:
        return ChannelStatus(True, 0.0)

    def stop(self) -> None:
        pass


class Terminal(Phone):
    """One that shows answers live, as the terminals do."""

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        self._seen(("live", arrived.text[:4], reply))
        return True


class Valve:
    """A part on the board's bus; the world sees what is written to it."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def write(self, data: bytes) -> None:
        self._seen(("act", f"valve {data.hex()}"))

    def read(self, length: int) -> bytes:
        return bytes(length)


class House:
    """A daemon in this process, on a home below a root; what the world sees of it goes to `seen`."""

    def __init__(self, root: Path, url: str, seen: Seen, skew: float = 0.0, boot: str = "boot 1") -> None:
        self.home, self.seen, self.skew, self.boot = root / "picoclaw", seen, skew, boot
        self._url = url
        self._runs = False
        self.stack = ExitStack()

    def open(self) -> None:
        """Begin, as `picoclaw run` does."""
        given = {"PICOCLAW_HOME": str(self.home), "PICOCLAW_BASE_URL": self._url, "PICOCLAW_MODEL": "scripted"}
        workspace.prepare_home(self.home)
        config = load_config(given)
        board = SimBoard(clock=self.now, sleep=lambda _: None)
        board._buses[1].parts[0x48] = make_part("lm75", board.scenes["greenhouse"])
        board._buses[1].parts[0x20] = Valve(self.seen)
        self.app = App(config, board)
        process.record_start(self.home, time.time())
        self.app.audit.mention("start", pid=os.getpid())
        self.household = DaemonService(self.app, lambda text: self.seen(("log", text)), _PLENTY, safe=False)
        self.loop = self.household
        self.channels = {"phone": Phone("phone", self.seen), "socket": Terminal("socket", self.seen)}
        self.household.channels = dict(self.channels)  # type: ignore[assignment]
        boxes, note = self.household.boxes, self.household.note
        self.postmen = [DeliveryWorker(one, boxes, self._goes_to(one), note) for one in self.channels.values()]
        self._clockwork()

    def _goes_to(self, channel: Phone) -> Callable[[str], bool]:
        return lambda session: self.loop.channel_of(session) is channel

    def _clockwork(self) -> None:
        background.read_boot_id = lambda: self.boot
        works = BackgroundWorker(self.app, PHONE, self.household.note, host=self.household)
        works._begin_job = self._job  # type: ignore[method-assign, assignment]
        watched = works._watch

        def watch(*given: Any) -> Watch:
            made = watched(*given)
            made.measure = lambda: read_followed_sensors(self.app.wiring, lambda: made.engine.wanted)
            return made

        works._watch = watch  # type: ignore[method-assign]
        self.works = works
        self.steps = works._open(self.stack)
        self.stack.callback(works._thread._wakeup.close)

    def _job(self, job: Job) -> Any:
        self.seen(("job", job.payload))
        return background.run_job(self.app, job)

    def now(self) -> float:
        return time.time() + self.skew

    def post(self, number: str, key: str, text: str) -> None:
        """Somebody says something; it is acknowledged when that has returned."""
        self.seen(("said", number, text, key))
        try:
            self.loop.post(InboxMessage(key, text, who=key, external=number if key == PHONE else ""))
        except PicoclawError as error:
            self.seen(("refused", number, str(error)))
        else:
            self.seen(("accepted", number, text))

    def settle(self) -> None:
        """Answer what waits and tell what is to be told, until there is nothing more."""
        self.loop.is_draining = True
        if not self._runs:
            self._runs = True
            self.loop.run()
        while arrived := self.loop._next():
            self.loop._respond(arrived)
        for postman in self.postmen:
            with self._complaining():
                postman.deliver()

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """What the threads of the daemon do with an error of picoclaw's: it is a line, and they go on."""
        try:
            yield
        except PicoclawError as error:
            self.seen(("log", str(error)))

    def pass_(self, seconds: float, step: float) -> None:
        """Let time pass for the clockwork."""
        end = self.skew + seconds
        while self.skew < end:
            self.skew += min(step, end - self.skew)
            self.seen(("skew", self.skew))
            for do in self.steps:
                do(self.now(), boottime() + self.skew)
            for thread, _ in list(self.works._pool._running.values()):
                thread.join()
            self.household.expect_scheduler(None)
            self.settle()

    def beat(self) -> None:
        with self._complaining(), closing(SampleHistory(self.home)) as past:
            heart = build_heartbeat(self.app, past)
            heart.step(HeartbeatTime(datetime.fromtimestamp(self.now(), UTC), boottime() + self.skew, self.boot))
        self.settle()

    def maintenance_jobs(self) -> None:
        now = self.app.now() + timedelta(seconds=self.skew)
        with self._complaining():
            for line in self.app.maintenance_jobs().run(now):
                self.seen(("log", line))
            for key in (PHONE, TERMINAL):
                self.app.settle(key)

    def close(self) -> None:
        """End, as a daemon does that is told to."""
        for end in (self.stack.close, self.household.database.close):
            with self._complaining():
                end()
        self.app.audit.mention("stop", again=False)
        process.record_clean_end(self.home)
        with self._complaining():
            self.app.wiring.leave()
            self.app.close()


class Player:
    """Plays a script in a house."""

    def __init__(self, root: Path, seen: Seen, url: str) -> None:
        self.root, self.url = root, url
        self.asked: dict[str, int] = {}
        self._see = seen
        self.house = House(root, url, self.seen)

    def seen(self, what: Event) -> None:
        self._see(what)
        if what[0] == "asked":
            self._newest = what[1]

    def play(self, script: tuple[Move, ...]) -> None:
        """Play all of it, from an empty folder on."""
        with suppress(OSError):  # the owner would see it, and write it again
            make_folder(self.house.home)
            write_atomic(self.house.home / "config.toml", CONFIG)
        self.house.open()
        with suppress(OSError):
            (self.house.home / "workspace/BOOTSTRAP.md").unlink()  # the first meeting is over
        for place, move in enumerate(script):
            self.seen(("move", place))
            self.do(move)
        self.house.close()

    def do(self, move: Move) -> None:
        house = self.house
        match move:
            case Say(token, _, text, where):
                self._newest = 0
                house.post(token, where, text)
                house.settle()
                self.asked[token] = self._newest
            case Press(word, token):
                self.press(word, token)
            case Pass(seconds, step):
                house.pass_(seconds, step)
            case Beat():
                house.beat()
            case Tidy():
                house.maintenance_jobs()
            case Restart():
                house.close()
                self.house = House(self.root, self.url, self.seen, house.skew)
                self.house.open()
                self.house.settle()

    def press(self, word: str, token: str) -> None:
        number = self.asked[token]
        with self.house._complaining():
            approval = self.house.app.stores.approvals.get(number) if number else None
        if not number or not approval:
            self.seen(("unasked", token))
            return
        self.house.post(f"{token} {word}", PHONE, make_answer_command(approval, word))  # type: ignore[arg-type]
        self.house.settle()
