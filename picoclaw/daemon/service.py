"""What makes the daemon of its parts: the desk in the main thread, the clockwork, the channels and their letters."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

from picoclaw.agent.subagents import has_pending_tasks, open_tasks
from picoclaw.app import SIMULATED_MARK, App, is_simulated
from picoclaw.automation.wakeup import Wakeup
from picoclaw.channels.channel import Channel, FindApproval
from picoclaw.channels.socket import SocketChannel, SocketHandlers
from picoclaw.daemon import queue
from picoclaw.daemon import status as daemon_status
from picoclaw.daemon.background import BackgroundHooks, BackgroundWorker, IdleThread
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes
from picoclaw.daemon.heartbeats import run_heartbeats
from picoclaw.daemon.queue import MessageQueue, QueueHandlers
from picoclaw.daemon.signals import TurnStopper
from picoclaw.daemon.status import ModelHealth
from picoclaw.daemon.watchdog import ThreadDeadlines, Watchdog, list_exceeded_limits, measure_usage, notify_systemd
from picoclaw.errors import ChannelError, StoreError
from picoclaw.files import explain_os_error
from picoclaw.hw import health
from picoclaw.messages import DEFAULT_SESSION, Inbound, Turn, TurnHooks
from picoclaw.outputs.stop import recover_and_report, watch_outputs
from picoclaw.prompts import escape_closing, fill_template
from picoclaw.store.approvals import Approval, Approvals
from picoclaw.store.database import DAMAGE_DETECTED, Database
from picoclaw.store.heartbeats import Heartbeats
from picoclaw.store.inbox import Inbox, InboxMessage
from picoclaw.store.outbox import Outbox, OutboxMessage
from picoclaw.store.tasks import abandon_own_work
from picoclaw.wiring import STOP_WORDS

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPT_SIGNAL = signal.SIGUSR1
_REPAIR_DELAY_S = 60.0
_TERMINAL_GRACE_S = 5.0
"""After a start, in which terminals come back by themselves: until then their letters go nowhere else."""
_CHECK_INTERVAL_S = 5.0
_STATUS_LOCK_TIMEOUT_S = 1.0
"""Whoever asks how it is gets an answer also while the disk hangs, without what the database knows."""


def _make_configured_channels(
    app: App,
    live: daemon_status.DaemonStatus,
    told: Callable[[], daemon_status.StatusDict],
    kept: FindApproval,
    stack: ExitStack,
) -> Iterator[Channel]:
    """The channels that are configured."""
    if app.config.page.enabled:
        from picoclaw.channels.dashboard.channel import DashboardChannel
        from picoclaw.daemon.dashboard import DaemonBackend

        house, page = (
            DaemonBackend(app.config, app.wiring, app.context_builder.zone, app.mark, told),
            app.config.page,
        )
        stack.callback(house.close)
        where = page.host, page.port, page.names
        yield DashboardChannel(house, app.config.home, *where, origins=page.origins, proxies=page.proxies)
    if app.config.telegram_token:
        from picoclaw.channels.telegram.channel import TelegramChannel

        yield TelegramChannel(app.config, app.prompts, frozenset(STOP_WORDS), note=live.note, kept=kept)


class DaemonService:
    """One daemon. Made and run in the main thread."""

    def __init__(self, app: App, show: Callable[[str], None], memory: int, *, safe: bool) -> None:
        """`show` prints a line of the log; begins afresh above so many bytes of `memory`; `safe`: chat and status only.

        Raises StoreError.
        """
        if safe:
            app.config = replace(app.config, tools=replace(app.config.tools, exec="off"))
        self._app, self._safe = app, safe
        self._live = daemon_status.DaemonStatus(safe=safe, limit=memory, show=show, redact=app.stores.redact)
        self._progress, self._ending = ThreadDeadlines(), TurnStopper(number=_INTERRUPT_SIGNAL)
        self._database = Database(app.config.home / "state.db")
        self._boxes = MessageBoxes(Inbox(self._database), Outbox(self._database), threading.RLock())
        self._quiet: list[Callable[[str], AbstractContextManager[None]]] = []
        self._shielded = self._again = False
        links = app.links if app.config.model.base_url else ()
        self._models, self._name = ModelHealth(app.provider.name, links, self._live.note), app.provider.name
        self._channels: dict[str, Channel] = {}
        self._postmen: list[DeliveryWorker] = []
        hands = QueueHandlers(
            *(self._answer, app.wiring.stop, self._text, self._mark, self._quietly, self._ending.turn),
            *(self._ending.say, self._shield, app.config.limits.seconds, self._letters, self._heard),
        )
        self._loop = MessageQueue(self._boxes, hands, self._progress, self._live.note)
        app.changed = self._changed

    def live(self) -> bool:
        """Live until told to end; tells whether to begin afresh. Raises ChannelError where nobody could be heard."""
        _ = self._app.agent
        with ExitStack() as stack:
            stack.callback(self._database.close)
            with suppress(StoreError):  # a disk that is full has it settled at the next start
                abandon_own_work(self._database)
            stack.enter_context(self._signals())
            stack.enter_context(self._looking_after())
            self._open_channels(stack)
            if not self._safe:
                self._set_going(stack)
            later_letters = threading.Timer(_TERMINAL_GRACE_S, self._letters)
            later_letters.daemon = True
            later_letters.start()
            stack.callback(later_letters.cancel)
            watchdog = Watchdog(self._progress.late, self._live.note)
            watchdog.start()
            stack.callback(watchdog.stop)
            how = "safe mode: it has crashed too often, so only chat and status are run" if self._safe else "ready"
            told = f"{how}; {self._name}; channels: {', '.join(self._channels)}"
            self._live.note(told, trouble=self._safe)
            notify_systemd(os.environ, "READY=1", f"STATUS={how}")
            try:
                self._loop.run()
            finally:
                if not self._begins_afresh:  # systemd kills what says that it stops and lives on
                    notify_systemd(os.environ, "STOPPING=1")
        return self._begins_afresh

    @property
    def _begins_afresh(self) -> bool:
        """Whoever was told to end does not begin again."""
        return self._again and not self._loop.leaving

    @contextmanager
    def _looking_after(self) -> Iterator[None]:
        """Make safe at once what nobody looks after any more, whoever has switched it on, and once more at the end."""
        home, note, ended = self._app.config.home, self._live.note, threading.Event()

        def board() -> str:
            return "sim" if self._app.board.simulated else "linux"

        try:
            bell = Wakeup(home, "-outputs")
        except OSError as error:
            note(f"what a killed keeper leaves on is not noticed: {explain_os_error(error)}")
            yield
            return
        given = (home, board, bell.fileno(), ended.is_set)
        thread = threading.Thread(target=partial(watch_outputs, *given, say=note), name="outputs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            bell.ring()
            thread.join(_CHECK_INTERVAL_S)
            if not thread.is_alive():
                bell.close()
            if problem := recover_and_report(home, board):
                note(problem)

    def _set_going(self, stack: ExitStack) -> None:
        """Begin all that goes on without anybody asking."""
        app, note = self._app, self._live.note
        lives = BackgroundHooks(self._letters, self._owners_chat, self._expect, self._alarm_chats, self._tell_unkept)
        try:
            stack.enter_context(BackgroundWorker(app, DEFAULT_SESSION, note, lives=lives))
        except OSError as error:
            note(f"reminders cannot be told: {explain_os_error(error)}")
        resting = stack.enter_context(run_heartbeats(app, note))
        idle = IdleThread(app, note)
        idle.start()
        stack.callback(idle.stop)
        self._quiet = [idle.turn, lambda _: resting()]

    def _open_channels(self, stack: ExitStack) -> None:
        """Start the channels, each with its postman; without the socket there is no daemon."""
        words = {"status": self.status, "stop": self._stop, "quit": self._quit, "restart": self._restart}
        board = self._app.board
        greeting = f"{self._name} on {health.read_model(board)}"
        told = (lambda: self._loop.running, self._helpers, self._letters)
        daemon = SocketHandlers(words, self._loop.waiting_for, *told, board.simulated, greeting, self._mark)
        local = SocketChannel(self._app.config.home, daemon, self._kept)
        others = () if self._safe else _make_configured_channels(self._app, self._live, self.status, self._kept, stack)
        self._channels = {channel.name: channel for channel in (local, *others)}
        self._loop.channels = self._channels
        for channel in self._channels.values():
            mine, zone = partial(self._goes_to, channel), self._app.context_builder.zone
            fallback = "" if channel is local else DEFAULT_SESSION
            postman = DeliveryWorker(channel, self._boxes, mine, self._live.note, fallback, zone)
            self._postmen.append(postman)
            stack.callback(postman.stop)
            stack.callback(channel.stop)
            stack.callback(postman.leave)
            try:
                channel.start(self._loop.post)
            except ChannelError as error:
                if channel is local:
                    raise
                self._live.note(f"{channel.name}: {error}")
                stack.callback(queue.retry_channel_start(channel, self._loop.post, self._live.note))
            postman.start()

    def _goes_to(self, channel: Channel, session: str) -> bool:
        """Letters of no other channel go to a terminal, or, where none is used, to the owner on another channel."""
        home, local = self._loop.channel_of(session), self._channels["socket"]
        if home is not local or not isinstance(local, SocketChannel):
            return home is channel
        if channel is local:
            return local.attached()
        if (
            local.is_used()
            or time.time() - self._live.since < _TERMINAL_GRACE_S
            or next(iter(self._owner_chats()), "") != channel.name
        ):
            return False
        with suppress(StoreError), self._boxes.lock:
            return not Outbox(self._database).elsewhere()
        return False

    def _owner_chats(self) -> dict[str, str]:
        """The chats in which the owner can be told something beside terminals, by channel; the best first.

        A bot reaches a pocket, a page whoever looks.
        """
        found: dict[str, str] = {}
        for name in ("telegram", "page"):
            with suppress(StoreError):
                if (channel := self._channels.get(name)) and (chat := channel.owner_chat()):
                    found[name] = chat
        return found

    def _alarm_chats(self) -> list[str]:
        """The chats that a rule's alarm goes to: all of the owner's, and the last that they spoke in."""
        last, others = self._owners_chat(), list(self._owner_chats().values())
        local = self._channels["socket"]
        is_local = self._loop.channel_of(last) is local
        reached = not is_local or not others or (isinstance(local, SocketChannel) and local.attached())
        return list(dict.fromkeys([*([last] if reached else []), *others]))

    def _tell_unkept(self, text: str) -> None:
        """Have told what the disk does not take."""
        for chat in self._alarm_chats():
            for name, postman in zip(self._channels, self._postmen, strict=False):
                if self._loop.channel_of(chat) is self._channels[name]:
                    postman.add_unkept(OutboxMessage(0, chat, text, time.time()))

    def _kept(self, number: int) -> Approval | None:
        """Look up the question of a call that needs a yes; from any thread. Raises StoreError."""
        with self._boxes.lock:
            return Approvals(self._database).question(number)

    def _changed(self, approval: Approval) -> None:
        """Have the channels show what is new of a call that needs a yes; from any thread."""
        for channel in list(self._channels.values()):
            channel.changed(approval)
        self._letters()

    def _letters(self) -> None:
        for postman in self._postmen:
            postman.wake()

    def status(self) -> daemon_status.StatusDict:
        """Say how the house is; from any thread."""
        channels = {name: channel.status()._asdict() for name, channel in self._channels.items()}
        live = self._live.status(channels, self._models.status(), self._progress.late())
        live |= {"turn": self._loop.running, "queue": self._loop.waiting}
        if trouble := self._loop.owed.trouble:
            live["problems"].append(f"nothing can be kept, and what is said is only in memory: {trouble}")
        app, mine = self._app, self._boxes.lock.acquire(timeout=_STATUS_LOCK_TIMEOUT_S)
        try:
            database = self._database if mine else None
            return daemon_status.merge_status(
                live, daemon_status.collect_offline_status(app.board, app.config.home, database, app.now())
            )
        finally:
            if mine:
                self._boxes.lock.release()

    def _heard(self, arrived: InboxMessage) -> None:
        if isinstance(channel := self._loop.channel_of(arrived.key), SocketChannel):
            channel.heard(arrived)

    def _helpers(self, session: str) -> bool:
        with self._boxes.lock:
            return has_pending_tasks(lambda: open_tasks(self._database, ""), session)

    def _stop(self) -> dict[str, Any]:
        said = self._app.wiring.stop("stop", "owner")
        good, text = said or (True, "no output is declared: there is nothing to stop")
        return {"ok": good, "text": text}

    def _quit(self) -> dict[str, Any]:
        self._loop.leave()
        return {"ok": True, "text": "it ends"}

    def _restart(self) -> dict[str, Any]:
        self._again = True
        self._loop.rest()
        return {"ok": True, "text": "it begins afresh as soon as nobody waits for an answer"}

    def _expect(self, seconds: float | None) -> None:
        """Hear of the clockwork, which goes round often enough to look at what leaks as well."""
        self._progress.expect("reflex", seconds)
        self._loop.owed.settle()
        if not self._again and (
            leaking := list_exceeded_limits(measure_usage(), self._live.limits, time.time() - self._live.since)
        ):
            self._live.note(f"{', '.join(leaking)}: begins afresh at a quiet moment")
            self._restart()
        if not self._again and DAMAGE_DETECTED.is_set() and time.time() - self._live.since > _REPAIR_DELAY_S:
            self._live.note("a database is damaged: begins afresh at a quiet moment, and mends it first")
            self._restart()

    def _owners_chat(self) -> str:
        with suppress(StoreError), self._boxes.lock:
            return Heartbeats(self._database).last_chat()
        return DEFAULT_SESSION

    def _answer(self, inbound: Inbound, around: TurnHooks) -> Turn:
        turn = self._app.answer(inbound, around)
        away = self._models.heard(turn)
        if turn.notice.failed and not away:
            self._live.note(f"{inbound.session}: {turn.notice.text}")
        return turn

    def _text(self, arrived: InboxMessage) -> str:
        """What has arrived, with its files named."""
        paths = map(escape_closing, arrived.attachments)
        named = (fill_template(self._app.prompts["attached"], {"path": path}, "path") for path in paths)
        return "\n".join(filter(None, [arrived.text, *named]))

    def _mark(self, turn: Turn) -> str:
        return SIMULATED_MARK if is_simulated(self._app, turn) else ""

    @contextmanager
    def _quietly(self, session: str) -> Iterator[None]:
        with ExitStack() as stack:
            for quiet in self._quiet:
                stack.enter_context(quiet(session))
            yield

    @contextmanager
    def _shield(self) -> Iterator[None]:
        """Let no interruption in while a turn is being kept; what ends the daemon is heard all the same."""
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """End the turn and the loop at the first signal, and everything at the second, in a thread of its own."""
        heard, said = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(said, False)

        def interrupted(_number: int, _frame: FrameType | None) -> None:
            if self._ending.said and not self._shielded:
                raise KeyboardInterrupt

        signal.signal(_INTERRUPT_SIGNAL, interrupted)
        for number in _END_SIGNALS:
            signal.signal(number, lambda *_: None)
        # The kernel may give a signal to a thread that Python runs no handler in; the descriptor is told in any.
        signal.set_wakeup_fd(said, warn_on_full_buffer=False)
        threading.Thread(target=self._heed, args=(heard,), name="signals", daemon=True).start()
        yield

    def _heed(self, heard: int) -> None:
        """End at the first word to do so, and at once at the second."""
        told = 0
        while told < 2:
            if os.read(heard, 1)[0] in _END_SIGNALS:
                told += 1
                self._loop.leave()
        os._exit(1)
