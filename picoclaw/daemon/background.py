"""What runs beside a conversation: the thread that knows what is due, and those that do what takes longer."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self

from picoclaw.agent.subagents import WorkerPool
from picoclaw.app import App, open_tasks
from picoclaw.automation.checklist import BoardEnvironment, SampleHistory
from picoclaw.automation.clock import ClockWatch, boottime, read_boot_id, wake_all
from picoclaw.automation.heartbeat import CHECKLIST_FILE, Heartbeat, HeartbeatThread, HeartbeatTime
from picoclaw.automation.jobs import JobOutcome, get_heading
from picoclaw.automation.rule_engine import RuleActions, format_delivery
from picoclaw.automation.scheduler import Scheduler, SchedulerThread, StepFunction
from picoclaw.daemon.delivery import format_message, open_chat
from picoclaw.daemon.sampling import Watch, make_switch, make_watch
from picoclaw.errors import PicoclawError, StoreError, ToolError, TurnStopped
from picoclaw.maintenance.upkeep import MaintenanceJobs
from picoclaw.messages import Caller, Event, Inbound, Stop, ToolCall, ToolRun, Turn, TurnHooks
from picoclaw.outputs.supervisor.sensing import read_trusted_time
from picoclaw.records import replace
from picoclaw.schedules import Plan
from picoclaw.security.sandbox import kill_running_commands
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import Heartbeats, Job, Jobs
from picoclaw.store.subagent_tasks import Tasks
from picoclaw.times import get_seconds_until
from picoclaw.tools.cron import parse_tool_call
from picoclaw.workspace import read_text

if TYPE_CHECKING:
    from picoclaw.daemon.service import DaemonService

_STORE_RETRY_S, _JOIN_TIMEOUT_S = 30.0, 2.0
MAX_WAITING_ALARMS = 1000
"""Messages of a chat that may wait on the disk when an alarm is added: a broker may be away for a year."""


class BackgroundWorker:
    """Tells and does what is due while its block runs. Jobs run one after the other, each with parts of its own.

    Subagents work beside them, some at once.
    """

    def __init__(
        self,
        app: App,
        session: str,
        show: Callable[[str], None],
        leaving: threading.Event | None = None,
        host: "DaemonService | None" = None,
    ) -> None:
        """`show` shows a text in the chat `session`; `leaving` is set when the program ends in a hurry.

        Without a `host`, what is due is told in that chat. Raises OSError when the home folder takes no named pipe.
        """
        self._app, self._session, self._show, self._host = app, session, show, host
        self._hurry = leaving or threading.Event()
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._wake_all = partial(wake_all, app.config.home)
        expect = host.expect_scheduler if host else lambda _: None
        self._thread = SchedulerThread(app.config.home, self._open, show, expect)
        self._scheduler: Scheduler | None = None
        self._pool = WorkerPool(
            lambda: App(app.config, app.board, changed=app.changed), self._wake_all, app.config.subagents.at_once
        )
        self._settler = App(app.config, app.board)
        self._stop = Stop()
        self._complaint = ""
        self._dropping: set[str] = set()
        self._leaving = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a job that still runs is ended, and said to have been cut off, one that has not begun is failed."""
        self._leaving = True
        self._stop.set()
        self._waiting.put(None)
        kill_running_commands()
        if self._worker:
            self._worker.join(_JOIN_TIMEOUT_S)
        self._thread.stop()
        self._pool.leave(hurry=self._hurry.is_set())

    def _open(self, stack: ExitStack) -> list[StepFunction]:
        database = Database(self._app.config.home / "state.db")
        stack.callback(database.close)
        outbox = Outbox(database)
        if self._host:
            deliver = _make_outbox_check(outbox, self._host.wake_delivery)
        else:
            show, session = self._show, self._session
            deliver = stack.enter_context(
                open_chat(outbox, session, lambda one: show(format_message(one, session, time.time())), self._wake_all)
            )
        word = None
        if any(person.language for person in self._app.config.people.values()):
            from picoclaw.store.people import People

            word = partial(word_reminder, People(self._app.config.people, database).language)
        scheduler = Scheduler(Jobs(database), make_clock_watch(self._app), self._begin_job, deliver, self._show, word)
        self._scheduler = scheduler
        stack.callback(self._abandon_jobs, scheduler)
        watch = self._watch(database)
        stack.callback(watch.close)
        tasks, approvals = open_tasks(database, self._app.mark), Approvals(database)
        return [
            lambda wall, _: self._expire_approvals(approvals, wall),
            watch.step,
            scheduler.step,
            lambda wall, _: self._step_tasks(tasks, wall),
        ]

    def _expire_approvals(self, approvals: Approvals, wall: float) -> float | None:
        """End the questions that nobody has answered in time; returns how long to sleep.

        It comes first: what it tells the chats goes out with the messages of the same round.
        """
        try:
            self._app.approving.ask_remaining(approvals)
            for ended in (*approvals.expired(), *approvals.cut_off()):
                self._app.audit.mention("approval", number=ended.number, tool=ended.call.name, outcome=ended.state)
                self._app.changed(approvals.question(ended.number) or ended)
            due = approvals.next_expiry()
        except StoreError as error:
            return self._complain("questions", error)
        return None if due is None else max(0.0, due - wall)

    def _step_tasks(self, tasks: Tasks, wall: float) -> float | None:
        try:
            return self._pool.step(tasks, wall)
        except StoreError as error:
            return self._complain("subagents", error)

    def _complain(self, what: str, error: StoreError) -> float:
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._show(f"{what} wait: {error}")
        return _STORE_RETRY_S

    def _watch(self, database: Database) -> Watch:
        """Make the part that samples the sensors and evaluates the rules; their messages go through the outbox."""
        app, outbox, jobs, host = self._app, Outbox(database), Jobs(database), self._host

        def tell(text: str) -> str:
            said = f"{text} {app.mark}".rstrip()
            try:
                chats = host.alarm_chats() if host else [self._session]
                numbers = [outbox.put(chat, said, time.time()) for chat in chats]
                for chat in chats:
                    if outbox.drop_oldest(chat, MAX_WAITING_ALARMS) and chat not in self._dropping:
                        self._dropping.add(chat)
                        self._show(f"more than {MAX_WAITING_ALARMS} messages wait for {chat}: the oldest are dropped")
                return format_delivery(numbers)
            except StoreError:  # a warning that cannot be kept is told all the same
                self._show(said)
                if host:
                    host.send_unsaved(said)
                return "delivered as far as possible without the disk"

        def ask(text: str, rule: str) -> str:
            due = Plan("at", f"rule {rule}", anchor=time.time())  # by the boot's clock: nobody may know the date
            chat = host.owner_chat() if host else self._session
            if not jobs.renew(Job(0, chat, text, due, kind="turn", boot=read_boot_id(), mono=boottime())):
                raise ToolError("the model has not yet answered the last question of this rule")
            return f"asked, for rule {rule}"

        actions, every_s = RuleActions(tell, make_switch(app.wiring), ask), app.config.history.every_seconds
        return make_watch(
            app.wiring,
            every_s,
            make_clock_watch(app),
            app.context_builder.zone,
            actions,
            self._thread.ring,
            host.note_readings if host else list,
        )

    def _begin_job(self, job: Job) -> None:
        if self._worker is None:
            self._start_worker()
        self._waiting.put(job)

    def _start_worker(self) -> None:
        self._worker = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._worker.start()

    def _abandon_jobs(self, scheduler: Scheduler) -> None:
        """Report the queued jobs as not started."""
        with suppress(Empty):
            while job := self._waiting.get_nowait():
                scheduler.note_end(
                    job.number, JobOutcome(False, "picoclaw stopped before it started; it is not repeated")
                )
        with suppress(StoreError):  # then it is said to have been cut off
            scheduler.settle(time.time())

    def _work(self) -> None:
        try:
            while not self._leaving and (job := self._waiting.get()):
                outcome = JobOutcome(False, "it ended with an internal error")
                try:
                    outcome = run_job(self._app, job)
                finally:
                    if self._scheduler and not self._leaving:
                        self._scheduler.note_end(job.number, outcome)
                    self._thread.ring()
                if outcome.good and job.kind == "turn" and not self._leaving:
                    for line in self._settler.settle(job.session, self._stop):
                        self._show(line)
        finally:
            self._settler.close_own()
            if not self._leaving:  # an error of ours, which is on stderr, costs the job that met it and no other
                self._start_worker()


def _make_outbox_check(outbox: Outbox, wake: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `wake` when a new message waits in the outbox."""
    known: set[int] = set()

    def check() -> None:
        nonlocal known
        waiting = {message.number for message in outbox.waiting()}
        if waiting - known:
            wake()
        known = waiting

    return check


def run_job(app: App, job: Job) -> JobOutcome:
    """Do a job on the board of the app, with all other parts new, because a conversation may be using those it has."""
    config = app.config
    if job.kind == "command" and config.tools.exec != "off":  # a person agreed to exactly this line
        config = replace(config, tools=replace(config.tools, exec="allow"))
    own = App(config, app.board, changed=app.changed)
    own.wiring.wired = app.wiring.wired  # so that a sensor that is added in the chat is known here
    try:
        if why := own.explain_role_change(job.who, "owner"):  # nobody else plans more than reminders
            return JobOutcome(False, why)
        return _run_turn_job(own, job) if job.kind in {"turn", "fresh"} else _run_tool_job(own, job)
    except PicoclawError as error:
        return JobOutcome(False, str(error))
    finally:
        own.wiring.leave()
        own.close_own()


def word_reminder(find_language: Callable[[str], str], job: Job) -> Job:
    """Head a reminder in the language of whoever has planned it, as config.toml has it now. Raises StoreError."""
    language = find_language(job.who) if job.kind == "reminder" else ""
    return job._replace(heading=get_heading(language)) if language else job


def _run_turn_job(app: App, job: Job) -> JobOutcome:
    said: list[str] = []
    is_known = job.kind == "turn" and app.find_agent(job.session) == job.agent  # another agent's words are not for it
    session = job.session if is_known else f"job {job.number} {job.last_slot}"
    cause = job.plan.text if job.plan.text.startswith("rule ") else f"cron {job.number}"
    turn = app.dispatcher.answer(
        Inbound(session, job.payload, "cron", job.session, cause=cause, agent=job.agent, who=job.who),
        TurnHooks(said.append),
    )
    if turn.stopped == "error" or turn.notice.failed:
        return JobOutcome(False, turn.notice.text or turn.reply)
    text = "\n\n".join(filter(None, [*said, turn.reply]))
    return JobOutcome(True, f"{text}\n{app.mark}".rstrip())


def _run_tool_job(app: App, job: Job) -> JobOutcome:
    """Call a tool, or `exec` for a command."""
    planned = job.kind == "command"
    if planned:
        call = ToolCall("job", "exec", {"command": job.payload, "write": job.write, "network": job.network})
    else:
        call = parse_tool_call(job.payload)
    caller = Caller(job.session, "cron", app.now(), lambda _: None, planned=planned or call.name == "exec", who=job.who)
    try:
        good, text = app.find_view("", job.agent).toolset.run(call, caller)
    finally:
        app.stores.settle(job.session)
    if planned:
        good = good and text.endswith("[exit code 0]")
        return JobOutcome(good, text.removesuffix("[exit code 0]").rstrip() or "done")
    return JobOutcome(good, f"{text}\n{app.mark}".rstrip() if good else text)


_MAX_SLEEP_S = 3600.0  # a clock that was set meanwhile is noticed after this at the latest
_INTERRUPTED_RETRY_S, _FAILED_RETRY_S = 60.0, 900.0


class IdleThread:
    """Does maintenance jobs between turns. A turn that begins ends the one in hand, which is done another time."""

    def __init__(self, app: App, tell: Callable[[str], None]) -> None:
        """Share the board and the settings of `app`, and nothing that it has opened; `tell` shows a line."""
        self._app, self._get_failure_time = App(app.config, app.board), app.get_failure_time
        self._answered: list[str] = []
        self._busy = False
        self._tell = tell
        self._stop = Stop()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._complaint = ""
        self._thread = threading.Thread(target=self._run, name="idle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for a job to be put down."""
        self._ending.set()
        self._stop.set()
        self._wake.set()
        self._thread.join(2)

    @contextmanager
    def turn(self, session: str = "") -> Iterator[None]:
        """Keep the model free while a person waits for an answer; `session` is settled after it, if one is named."""
        self._busy = True
        self._stop.set()
        try:
            yield
        finally:
            if session and session not in self._answered:
                self._answered.append(session)
            self._busy = False
            self._wake.set()

    def _run(self) -> None:
        jobs = self._app.maintenance_jobs(self._stop, self._get_failure_time)
        try:
            while not self._ending.is_set():
                self._wake.clear()
                self._wake.wait(self._step(jobs))
        finally:
            self._app.close_own()

    def _step(self, jobs: MaintenanceJobs) -> float | None:
        """Do what is due; returns how long to sleep in seconds, None for until the turn ends."""
        if not self._busy:
            self._stop.clear()  # whoever it was meant for has heeded it by now
        if self._busy or self._ending.is_set():
            return None
        try:
            if self._answered:
                key = self._answered.pop(0)
                for line in self._app.settle(key, self._stop):
                    self._tell(line)
                if self._stop and key not in self._answered:  # a person interrupts: it has its turn again
                    self._answered.append(key)
            if self._answered:
                return 0.0
            now = self._app.now()
            if get_seconds_until(jobs.next_due(now), now) <= 0:
                for line in jobs.run(now):
                    self._tell(line)
            now = self._app.now()
            return min(max(0.0, get_seconds_until(jobs.next_due(now), now)), _MAX_SLEEP_S)
        except TurnStopped:
            return _INTERRUPTED_RETRY_S
        except StoreError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._tell(f"maintenance between turns is postponed: {error}")
            return _FAILED_RETRY_S


# Heartbeats, on a thread of the daemon or of an open chat.

_MAX_CHECKLIST_BYTES = 250_000


def make_clock_watch(app: App) -> ClockWatch:
    """Make the watch that decides whether the date can be trusted."""
    return ClockWatch(lambda: read_trusted_time(app.board, app.config.home) is not None, read_boot_id())


def build_heartbeat(
    app: App,
    past: SampleHistory,
    note: Callable[[Turn], None] = lambda _: None,
    shield: Callable[[], AbstractContextManager[None]] = nullcontext,
    stop: Stop | None = None,
) -> Heartbeat:
    """Make the heartbeat of a home, with what its sensors said.

    `note` is told each turn that it takes, `shield` holds off interruptions, and `stop` ends a turn.
    """
    config, wiring = app.config, app.wiring

    def answer(inbound: Inbound, tokens: int, listen: Callable[[Event | ToolRun], None]) -> Turn:
        light = app.light_agent
        app.light_agent = replace(light, limits=replace(light.limits, tokens=tokens))
        turn = app.dispatcher.answer(inbound, TurnHooks(listen=listen, stop=stop, shield=shield))
        note(turn)
        return turn

    return Heartbeat(
        config.heartbeat,
        Heartbeats(app.stores.database),
        lambda: read_text(config.workspace / CHECKLIST_FILE, _MAX_CHECKLIST_BYTES, config.workspace),
        BoardEnvironment(app.board, wiring.wired, wiring.drivers, config.workspace, past),
        answer,
        bool(config.model.base_url),
        app.prompts["empty"],
        partial(wake_all, config.home),
        app.mark,
        app.subagent_tasks.of_heartbeats,
        lambda: app.stores.ledger.explain_cap("heartbeat"),
    )


def read_heartbeat_time(app: App, watch: ClockWatch) -> HeartbeatTime:
    """Read the clocks: the time in the owner's zone, and whether it can be trusted."""
    now, mono = app.now(), boottime()
    watch.note(now.timestamp(), mono)
    return HeartbeatTime(now, mono, watch.boot, watch.trusted(now.timestamp(), mono))


@contextmanager
def run_heartbeats(
    app: App, complain: Callable[[str], None], peace_s: float | None = None
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Run heartbeats in the background, if they are enabled and there is a model.

    Gives what each turn is to be taken within, so that they keep out of its way; see HeartbeatThread for `peace_s`.
    """
    if not (app.config.heartbeat.enabled and app.config.model.base_url):
        yield nullcontext
        return
    thread = HeartbeatThread(partial(open_own_heartbeat, app), complain, peace_s)
    thread.start()
    try:
        yield thread.turn
    finally:
        number, used = thread.stop()
        if number:
            with suppress(StoreError):  # then it counts as cut off
                Heartbeats(app.stores.database).put_off(number, used)


@contextmanager
def open_own_heartbeat(shared: App, stop: Stop) -> Iterator[tuple[Heartbeat, Callable[[], HeartbeatTime]]]:
    """Make a heartbeat on the board of the chat, with all else of its own, because it goes while others talk."""
    app = App(shared.config, shared.board, changed=shared.changed)
    app.wiring.wired = shared.wiring.wired  # so that a sensor that is added in the chat is known here
    try:
        with closing(SampleHistory(app.config.home)) as past:
            yield build_heartbeat(app, past, stop=stop), partial(read_heartbeat_time, app, make_clock_watch(app))
        app.wiring.leave()
    finally:
        app.wiring.abandon()
        app.close_own()
