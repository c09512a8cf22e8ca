"""What runs beside a conversation: the thread that knows what is due, and those that do what takes longer."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self

from picoclaw.agent.subagents import open_tasks
from picoclaw.agent.worker_pool import WorkerPool
from picoclaw.app import App
from picoclaw.automation import jobs
from picoclaw.automation.clock import ClockWatch, boottime, read_boot_id
from picoclaw.automation.jobs import JobOutcome
from picoclaw.automation.rule_engine import RuleActions, format_delivery
from picoclaw.automation.scheduler import Scheduler, SchedulerThread, StepFunction
from picoclaw.automation.wakeup import wake_all
from picoclaw.daemon.monitor import Watch, switcher, watching
from picoclaw.errors import PicoclawError, StoreError, ToolError, TurnStopped
from picoclaw.maintenance.jobs import Chores
from picoclaw.messages import Caller, Inbound, Stop, ToolCall, TurnHooks
from picoclaw.occurrences import Plan
from picoclaw.outputs.supervisor.sensing import read_trusted_time
from picoclaw.security.sandbox import kill_running_commands
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.store.jobs import Job, Jobs
from picoclaw.store.outbox import Outbox, OutboxMessage
from picoclaw.store.tasks import Tasks
from picoclaw.times import get_seconds_until
from picoclaw.tools.cron import parse_tool_call

_STORE_RETRY_S, _JOIN_TIMEOUT_S = 30.0, 2.0


class BackgroundHooks(NamedTuple):
    """What is different in a process without a chat of its own.

    `letters` has the outbox looked at, `chat` names the conversation that the owner uses, and `expect` is told when the
    thread will be heard of again. `alarms` names the chats that a rule's alarm goes to, None for `chat` alone, and
    `tell_unkept` tells one that the disk does not take.
    """

    letters: Callable[[], None]
    chat: Callable[[], str]
    expect: Callable[[float | None], None]
    alarms: Callable[[], Sequence[str]] | None = None
    tell_unkept: Callable[[str], None] = lambda _: None


class BackgroundWorker:
    """Tells and does what is due while its block runs. Jobs run one after the other, each with parts of its own.

    Helpers work beside them, some at once.
    """

    def __init__(
        self,
        app: App,
        session: str,
        show: Callable[[str], None],
        leaving: threading.Event | None = None,
        lives: BackgroundHooks | None = None,
    ) -> None:
        """`show` shows a text in the chat `session`; `leaving` is set when the program ends in a hurry.

        Raises OSError when the home folder takes no bell.
        """
        self._app = app
        self._session = session
        self._lives = lives
        self._show = show
        self._hurry = leaving or threading.Event()
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        expect = (lives.expect,) if lives else ()
        self._thread = SchedulerThread(app.config.home, self._opened, show, *expect)
        self._scheduler: Scheduler | None = None
        self._crew = WorkerPool(
            lambda: App(app.config, app.board, changed=app.changed),
            partial(wake_all, app.config.home),
            app.config.helpers.at_once,
        )
        self._settler = App(app.config, app.board)
        self._stop = Stop()
        self._complaint = ""
        self._leaving = False

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a job that still runs is ended, and said to have been cut off, one that has not begun is failed."""
        self._leaving = True
        self._stop.say()
        self._waiting.put(None)
        kill_running_commands()
        if self._worker:
            self._worker.join(_JOIN_TIMEOUT_S)
        self._thread.stop()
        self._crew.leave(hurry=self._hurry.is_set())

    def _opened(self, stack: ExitStack) -> list[StepFunction]:
        database = Database(self._app.config.home / "state.db")
        stack.callback(database.close)
        watch = ClockWatch(
            lambda: read_trusted_time(self._app.board, self._app.config.home) is not None, read_boot_id()
        )
        wake = partial(wake_all, self._app.config.home)
        outbox = Outbox(database)
        attending = jobs.open_chat(outbox, self._session, self._tell, wake)
        tell = _make_outbox_check(outbox, self._lives.letters) if self._lives else stack.enter_context(attending)
        self._scheduler = Scheduler(Jobs(database), watch, self._begin, tell, self._show)
        stack.callback(self._forgo, self._scheduler)
        sampling = self._watch(database)
        stack.callback(sampling.close)
        helpers = open_tasks(database, self._app.mark)
        approvals = Approvals(database)
        return [
            lambda wall, _: self._give_up(approvals, wall),
            sampling.step,
            self._scheduler.step,
            lambda wall, _: self._work_on(helpers, wall),
        ]

    def _give_up(self, approvals: Approvals, wall: float) -> float | None:
        """End the questions that nobody has answered in time; returns how long to sleep.

        It comes first: what it tells the chats goes out with the letters of the same round.
        """
        try:
            self._app.approving.ask_remaining(approvals)
            for ended in (*approvals.expired(), *approvals.cut_off()):
                self._app.audit.mention("approval", number=ended.number, tool=ended.call.name, outcome=ended.state)
                self._app.changed(approvals.question(ended.number) or ended)
            due = approvals.next_expiry()
        except StoreError as error:
            return self._late("questions", error)
        return None if due is None else max(0.0, due - wall)

    def _work_on(self, helpers: Tasks, wall: float) -> float | None:
        """Have helpers do what they were given; returns how long to sleep."""
        try:
            return self._crew.step(helpers, wall)
        except StoreError as error:
            return self._late("helpers", error)

    def _late(self, what: str, error: StoreError) -> float:
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._show(f"{what} wait: {error}")
        return _STORE_RETRY_S

    def _watch(self, database: Database) -> Watch:
        """What samples the sensors and follows the rules; what a rule tells goes through the outbox."""
        app, outbox, jobs = self._app, Outbox(database), Jobs(database)

        def tell(text: str) -> str:
            said = f"{text} {app.mark}".rstrip()
            alarms = self._lives.alarms if self._lives else None
            try:
                chats = alarms() if alarms else [self._owners_chat()]
                return format_delivery(outbox.put(chat, said, time.time()) for chat in chats)
            except StoreError:  # a warning that cannot be kept is told all the same
                self._show(said)
                if self._lives:
                    self._lives.tell_unkept(said)
                return "told as far as that could be done without the disk"

        def ask(text: str, rule: str) -> str:
            due = Plan("at", f"rule {rule}", anchor=time.time())  # by the boot's clock: nobody may know the date
            if not jobs.renew(
                Job(0, self._owners_chat(), text, due, kind="turn", boot=read_boot_id(), mono=boottime())
            ):
                raise ToolError("the model still has the last question of this rule")
            return f"asked, for rule {rule}"

        hands = RuleActions(tell, switcher(app.wiring), ask)
        clock = ClockWatch(lambda: read_trusted_time(app.board, app.config.home) is not None, read_boot_id())
        every_s = app.config.history.every_seconds
        return watching(app.wiring, every_s, clock, app.context_builder.zone, hands, self._thread.ring)

    def _owners_chat(self) -> str:
        return self._lives.chat() if self._lives else self._session

    def _tell(self, letter: OutboxMessage) -> None:
        self._show(jobs.format_message(letter, self._session, time.time()))

    def _begin(self, job: Job) -> None:
        if self._worker is None:
            self._hire()
        self._waiting.put(job)

    def _hire(self) -> None:
        self._worker = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._worker.start()

    def _forgo(self, scheduler: Scheduler) -> None:
        """Say of what waits for its turn that it will not have it."""
        with suppress(Empty):
            while job := self._waiting.get_nowait():
                scheduler.ended(job.number, JobOutcome(False, "picoclaw ended before it began; it is not repeated"))
        with suppress(StoreError):  # then it is said to have been cut off
            scheduler.settle(time.time())

    def _work(self) -> None:
        try:
            while not self._leaving and (job := self._waiting.get()):
                self._do(job)
        finally:
            self._settler.let_go()
            if not self._leaving:  # an error of ours, which is on stderr, costs the job that met it and no other
                self._hire()

    def _do(self, job: Job) -> None:
        outcome = JobOutcome(False, "an error of picoclaw itself has ended it")
        try:
            outcome = run_job(self._app, job)
        finally:
            if self._scheduler and not self._leaving:
                self._scheduler.ended(job.number, outcome)
            self._thread.ring()
        if outcome.good and job.kind == "turn" and not self._leaving:
            for line in self._settler.settle(job.session, self._stop):
                self._show(line)


def _make_outbox_check(outbox: Outbox, wake: Callable[[], None]) -> Callable[[], None]:
    """Give what calls `wake` when a letter waits that did not the last time: a channel's thread sleeps otherwise."""
    known: set[int] = set()

    def look() -> None:
        waiting = {letter.number for letter in outbox.waiting()}
        if waiting - known:
            wake()
        known.intersection_update(waiting)
        known.update(waiting)

    return look


def run_job(app: App, job: Job) -> JobOutcome:
    """Do a job on the board of the app, with all other parts new, because a conversation may be using those it has."""
    config = app.config
    if job.kind == "command" and config.tools.exec != "off":  # a person agreed to exactly this line
        config = replace(config, tools=replace(config.tools, exec="allow"))
    own = App(config, app.board, changed=app.changed)
    own.wiring.wired = app.wiring.wired  # so that a sensor that is added in the chat is known here
    try:
        return _JOB_RUNNERS[job.kind](own, job)
    except PicoclawError as error:
        return JobOutcome(False, str(error))
    finally:
        own.wiring.leave()
        own.let_go()


def _run_turn_job(app: App, job: Job) -> JobOutcome:
    said: list[str] = []
    session = job.session if job.kind == "turn" else f"job {job.number} {job.last_slot}"
    cause = job.plan.text if job.plan.text.startswith("rule ") else f"cron {job.number}"
    turn = app.answer(Inbound(session, job.payload, "cron", job.session, cause=cause), TurnHooks(said.append))
    if turn.stopped == "error" or turn.notice.failed:
        return JobOutcome(False, turn.notice.text or turn.reply)
    return _make_marked_outcome(app, "\n\n".join(filter(None, [*said, turn.reply])))


def _run_command_job(app: App, job: Job) -> JobOutcome:
    call = ToolCall("job", "exec", {"command": job.payload, "write": job.write, "network": job.network})
    good, text = _call_tool(app, job, call)
    return JobOutcome(good and text.endswith("[exit code 0]"), text.removesuffix("[exit code 0]").rstrip() or "done")


def _run_tool_job(app: App, job: Job) -> JobOutcome:
    good, text = _call_tool(app, job, parse_tool_call(job.payload))
    return _make_marked_outcome(app, text) if good else JobOutcome(False, text)


def _make_marked_outcome(app: App, text: str) -> JobOutcome:
    """What went well, with the mark that every answer has on a simulated board."""
    return JobOutcome(True, f"{text}\n{app.mark}".rstrip())


def _call_tool(app: App, job: Job, call: ToolCall) -> tuple[bool, str]:
    try:
        planned = call.name == "exec"
        return app.toolset.run(call, Caller(job.session, "cron", app.now(), lambda _: None, planned=planned))
    finally:
        app.stores.settle(job.session)


_JOB_RUNNERS: dict[str, Callable[[App, Job], JobOutcome]] = {
    "turn": _run_turn_job,
    "fresh": _run_turn_job,
    "command": _run_command_job,
    "tool": _run_tool_job,
}

# What is due while a chat waits for its person, in a thread that sleeps until then.

_MAX_SLEEP_S = 3600.0  # a clock that was set meanwhile is noticed after this at the latest
_INTERRUPTED_RETRY_S, _FAILED_RETRY_S = 60.0, 900.0


class IdleThread:
    """Does chores between turns. A turn that begins ends the one in hand, which is done another time."""

    def __init__(self, app: App, tell: Callable[[str], None], session: str = "") -> None:
        """Share the board and the settings of `app`, and nothing that it has opened; `tell` shows a line.

        After each turn the chat `session` is settled, where one is named.
        """
        self._app = App(app.config, app.board)
        self._session = session
        self._answered: list[str] = []
        self._busy = False
        self._tell = tell
        self._stop = Stop()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._complained = ""
        self._thread = threading.Thread(target=self._run, name="idle", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for a chore to be put down."""
        self._ending.set()
        self._stop.say()
        self._wake.set()
        self._thread.join(2)

    @contextmanager
    def turn(self, session: str = "") -> Iterator[None]:
        """Keep the model free while a person waits for an answer; `session` is settled after it, if one is named."""
        self._busy = True
        self._stop.say()
        try:
            yield
        finally:
            if (key := session or self._session) and key not in self._answered:
                self._answered.append(key)
            self._busy = False
            self._wake.set()

    def _run(self) -> None:
        chores = self._app.chores(self._stop)
        try:
            while not self._ending.is_set():
                self._wake.clear()
                self._wake.wait(self._step(chores))
        finally:
            self._app.let_go()

    def _settle(self) -> None:
        """Settle the conversation that has waited longest; one that a person interrupts has its turn again."""
        if self._answered:
            key = self._answered.pop(0)
            for line in self._app.settle(key, self._stop):
                self._tell(line)
            if self._stop and key not in self._answered:
                self._answered.append(key)

    def _not_now(self) -> bool:
        """Tell whether a person waits; else take the word back, which whoever it was meant for has heeded by now."""
        if not self._busy:
            self._stop.unsay()
        return self._busy or self._ending.is_set()

    def _step(self, chores: Chores) -> float | None:
        """Do what is due; returns how long to sleep in seconds, None for until the turn ends."""
        if self._not_now():
            return None
        try:
            self._settle()
            if self._answered:
                return 0.0
            now = self._app.now()
            if get_seconds_until(chores.next_due(now), now) <= 0:
                for line in chores.run(now):
                    self._tell(line)
            now = self._app.now()
            return min(max(0.0, get_seconds_until(chores.next_due(now), now)), _MAX_SLEEP_S)
        except TurnStopped:
            return _INTERRUPTED_RETRY_S
        except StoreError as error:
            if str(error) != self._complained:
                self._complained = str(error)
                self._tell(f"what is done between turns waits: {error}")
            return _FAILED_RETRY_S
