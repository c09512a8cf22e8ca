"""The daemon put together: the queue in the main thread, the channels, their delivery, and what goes on by itself."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from picoclaw.app import App
from picoclaw.automation.clock import Wakeup
from picoclaw.channels.channel import Channel, waits_for_approval
from picoclaw.daemon.background import BackgroundWorker, IdleThread, run_heartbeats
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes
from picoclaw.daemon.process import (
    ThreadDeadlines,
    TurnStopper,
    Watchdog,
    list_exceeded_limits,
    measure_usage,
    notify_systemd,
)
from picoclaw.daemon.queue import MessageQueue, retry_channel_start
from picoclaw.daemon.socket import SocketChannel
from picoclaw.daemon.status import DaemonStatus, ModelHealth, StatusDict, collect_offline_status, merge_status
from picoclaw.daemon.status_text import name_channel
from picoclaw.errors import ChannelError, StoreError
from picoclaw.files import explain_os_error
from picoclaw.hw.reading import Reading
from picoclaw.messages import DEFAULT_SESSION, HOOK_SESSIONS, TERMINAL_SESSIONS, Turn, TurnHooks, has_reader
from picoclaw.outputs.stop import recover_and_report, watch_outputs
from picoclaw.providers import describe_provider
from picoclaw.records import replace
from picoclaw.store.approvals import Approval, Approvals
from picoclaw.store.conversations import has_open_tasks
from picoclaw.store.database import DAMAGE_DETECTED, Database
from picoclaw.store.inbox_outbox import Inbox, InboxMessage, Outbox, OutboxMessage
from picoclaw.store.jobs import Heartbeats
from picoclaw.store.subagent_tasks import abandon_own_work

if TYPE_CHECKING:
    from picoclaw.channels.dashboard.programs import Programs
    from picoclaw.daemon.mqtt import MqttChannel
    from picoclaw.mcp.server import HttpServer
    from picoclaw.shared_store.sync import StoreWorker

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPT_SIGNAL = signal.SIGUSR1
_REPAIR_DELAY_S = 60.0
_TERMINAL_GRACE_S = 5.0
"""After a start, in which terminals come back by themselves: until then their messages go nowhere else."""
_CHECK_INTERVAL_S = 5.0
_STATUS_LOCK_TIMEOUT_S = 1.0
"""Whoever asks how it is gets an answer also while the disk hangs, without what the database knows."""


class DaemonService(MessageQueue):
    """One daemon. Made and run in the main thread."""

    def __init__(self, app: App, show: Callable[[str], None], memory: int, *, safe: bool) -> None:
        """`show` prints a line of the log; begins afresh above so many bytes of `memory`; `safe`: chat and status only.

        Raises StoreError.
        """
        if safe:
            app.config = replace(app.config, tools=replace(app.config.tools, exec="off"))
        self._safe, self._restarts = safe, False
        self.live = DaemonStatus(safe=safe, limit=memory, show=show, redact=app.stores.redact)
        self.database = Database(app.config.home / "state.db")
        self.boxes = MessageBoxes(Inbox(self.database), Outbox(self.database), threading.RLock())
        stopper = TurnStopper(signals=(_INTERRUPT_SIGNAL,))
        super().__init__(app, self.boxes, stopper, ThreadDeadlines(), self.live.note)
        links = app.links if app.config.model.base_url else ()
        self._models, self._model_name = ModelHealth(app.provider.name, links, self.note), app.provider.name
        self._mqtt: MqttChannel | None = None
        self._programs: Programs | None = None
        self._store: StoreWorker | None = None
        self._terminals = SocketChannel(app.config.home, self, app.config.people)
        app.changed = self._show_approval

    # --- its life ---

    def serve(self) -> bool:
        """Run until told to end; returns whether to restart. Raises ChannelError if the socket cannot be opened."""
        _ = self.app.agent
        with ExitStack() as stack:
            stack.callback(self.database.close)
            with suppress(StoreError):  # a disk that is full has it settled at the next start
                abandon_own_work(self.database)
            self._handle_signals()
            stack.enter_context(self._watch_outputs())
            self._open_channels(stack)
            if not self._safe:
                self._start_background(stack)
            later_delivery = threading.Timer(_TERMINAL_GRACE_S, self.wake_delivery)
            later_delivery.daemon = True
            later_delivery.start()
            stack.callback(later_delivery.cancel)
            watchdog = Watchdog(self.progress.late, self.note)
            watchdog.start()
            stack.callback(watchdog.stop)
            how = "safe mode after repeated crashes: only chat and status work" if self._safe else "ready"
            self.live.note(
                f"{how}; {describe_provider(self._model_name)}; channels: {', '.join(map(name_channel, self.channels))}",
                trouble=self._safe,
            )
            notify_systemd(os.environ, "READY=1", f"STATUS={how}")
            try:
                self.run()
            finally:
                again = self._restarts and not self.is_leaving  # whoever was told to end does not begin again
                if not again:  # systemd kills what says that it stops and lives on
                    notify_systemd(os.environ, "STOPPING=1")
        return again

    @contextmanager
    def _watch_outputs(self) -> Iterator[None]:
        """Bring outputs to their safe level as soon as their supervisor is gone, and once more at the end."""
        home, ended = self.app.config.home, threading.Event()

        def board() -> str:
            return "sim" if self.app.board.simulated else "linux"

        try:
            wakeup = Wakeup(home, "-outputs")
        except OSError as error:
            self.note(
                f"cannot watch what drives the outputs; if it is killed, outputs may stay on: {explain_os_error(error)}"
            )
            yield
            return
        watch = partial(watch_outputs, home, board, wakeup.fileno(), ended.is_set, say=self.note)
        thread = threading.Thread(target=watch, name="outputs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            wakeup.ring()
            thread.join(_CHECK_INTERVAL_S)
            if not thread.is_alive():
                wakeup.close()
            if problem := recover_and_report(home, board):
                self.note(problem)

    def _start_background(self, stack: ExitStack) -> None:
        try:
            stack.enter_context(BackgroundWorker(self.app, DEFAULT_SESSION, self.note, host=self))
        except OSError as error:
            self.note(f"reminders cannot be delivered: {explain_os_error(error)}")
        pause_heartbeats = stack.enter_context(run_heartbeats(self.app, self.note))
        idle = IdleThread(self.app, self.note)
        idle.start()
        stack.callback(idle.stop)
        if self.app.config.store.url:
            from picoclaw.shared_store.sync import StoreWorker

            self._store = StoreWorker(self.app.config, self.app.now, self.note)
            self._store.start()
            stack.callback(self._store.stop)
        self.pauses = [idle.turn, lambda _: pause_heartbeats()]

    def _make_channels(self, stack: ExitStack) -> Iterator[Channel]:
        """The channels that are configured, the terminals' first."""
        yield self._terminals
        app = self.app
        if app.config.page.enabled and not self._safe:
            from picoclaw.channels.dashboard.channel import DashboardChannel
            from picoclaw.daemon.dashboard import DaemonBackend

            page = app.config.page
            backend = DaemonBackend(
                app.config, app.wiring, app.context_builder.zone, app.mark, self.status, lambda: app.toolset.names
            )
            stack.callback(backend.close)
            if app.config.hooks or page.openai:
                from picoclaw.channels.dashboard.programs import Programs

                template = app.prompts["untrusted"]
                self._programs = Programs(app.config, template, self.note, self.withdraw, self.count_waiting)
            yield DashboardChannel(
                backend,
                app.config.home,
                page.host,
                page.port,
                page.names,
                origins=page.origins,
                proxies=page.proxies,
                metrics_token=app.config.metrics_token,
                programs=self._programs,
                mcp=self._open_mcp(stack),
                people=app.config.people,
            )
        elif app.config.hooks and not self._safe:
            self.note("hooks: nothing is taken, because the page is off: enabled = true under [page]")
        if app.config.telegram_token and not self._safe:
            from picoclaw.agent.dispatcher import CHAT_COMMANDS
            from picoclaw.channels.telegram import TelegramChannel

            commands = {word: does for word, (takes, does) in CHAT_COMMANDS.items() if takes[:1] in {"", "["}}
            yield TelegramChannel(app.config, app.prompts, note=self.note, kept=self.find_approval, commands=commands)

        if app.config.matrix.homeserver and app.config.matrix_token and not self._safe:
            from picoclaw.channels.matrix import MatrixChannel

            yield MatrixChannel(app.config, app.prompts, note=self.note, kept=self.find_approval)

        if app.config.mqtt.host and not self._safe:
            from picoclaw.daemon.mqtt import MqttChannel

            self._mqtt = MqttChannel(app, self.note, self.status)
            yield self._mqtt
        for name, way in app.config.notify.items() if not self._safe else ():
            from picoclaw.channels.notify import NotifyChannel

            yield NotifyChannel(name, way, app.config.notify_tokens[name], os.uname().nodename, app.now)

    def _open_mcp(self, stack: ExitStack) -> "HttpServer | None":
        """Serve this board over MCP to who has the token, where there is one."""
        if not self.app.config.mcp_token:
            return None
        from picoclaw.mcp.server import BoardBackend, HttpServer, McpServer, share_board

        backend = BoardBackend(share_board(self.app), os.uname().nodename)
        served = HttpServer(McpServer(backend), self.app.config.mcp_token)
        stack.callback(backend.close)
        stack.callback(served.close)
        return served

    def _open_channels(self, stack: ExitStack) -> None:
        """Start the channels, each with its delivery; without the socket there is no daemon."""
        self.channels = {channel.name: channel for channel in self._make_channels(stack)}
        for channel in self.channels.values():
            fallback = "" if channel is self._terminals else DEFAULT_SESSION
            is_mine, zone = partial(self._goes_to, channel), self.app.context_builder.zone
            is_exact = channel.name == "matrix"  # its server knows a message again
            merges = channel is not self._mqtt  # each alarm is an event there
            worker = DeliveryWorker(
                channel, self.boxes, is_mine, self.note, fallback, zone, merges=merges, is_exact=is_exact
            )
            self.delivery.append(worker)
            stack.callback(worker.stop)
            stack.callback(channel.stop)
            stack.callback(worker.leave)
            try:
                channel.start(self.post)
            except ChannelError as error:
                if channel is self._terminals:
                    raise
                self.note(f"{channel.name}: {error}")
                stack.callback(retry_channel_start(channel, self.post, self.note))
            worker.start()

    def _handle_signals(self) -> None:
        """End the turn and the loop at the first signal, and everything at the second, in a thread of its own."""
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(write, False)

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            if self.stopper.is_ending:
                raise KeyboardInterrupt

        def wait() -> None:
            count = 0
            while count < 2:
                if os.read(read, 1)[0] in _END_SIGNALS:
                    count += 1
                    self.leave()
            os._exit(1)

        signal.signal(_INTERRUPT_SIGNAL, interrupt)
        for number in _END_SIGNALS:
            signal.signal(number, lambda *_: None)
        # The kernel may give a signal to a thread that Python runs no handler in; the descriptor is told in any.
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=wait, name="signals", daemon=True).start()

    # --- who is told what where ---

    def _goes_to(self, channel: Channel, session: str) -> bool:
        """Messages of no other channel go to a terminal, or, where none is used, to the owner on another channel."""
        if not self.is_local(session):
            return self.channel_of(session) is channel
        if channel is self._terminals:
            return self._terminals.attached(session)
        if (
            session.startswith(TERMINAL_SESSIONS)  # of a person, whose it stays
            or self._terminals.is_used()
            or time.time() - self.live.since < _TERMINAL_GRACE_S
            or next(iter(self._list_owner_chats()), "") != channel.name
        ):
            return False
        with suppress(StoreError), self.boxes.lock:
            return not self.boxes.outbox.elsewhere()
        return False

    def _list_owner_chats(self) -> dict[str, str]:
        """The chats in which the owner can be told something beside terminals, by channel; the best first.

        A bot reaches a pocket, a page whoever looks.
        """
        found: dict[str, str] = {}
        for name in ("telegram", "matrix", "page"):
            with suppress(StoreError):
                if (channel := self.channels.get(name)) and (chat := channel.owner_chat()):
                    found[name] = chat
        return found

    def owner_chat(self) -> str:
        with suppress(StoreError), self.boxes.lock:
            return Heartbeats(self.database).last_chat()
        return DEFAULT_SESSION

    def alarm_chats(self) -> list[str]:
        """The chats that a rule's alarm goes to: all of the owner's, and the last that they spoke in.

        A terminal that nobody has open is left out, unless none of the others can be reached now.
        """
        last, others = self.owner_chat(), list(self._list_owner_chats().values())
        others += [one.owner_chat() for name, one in self.channels.items() if name.startswith("notify-")]
        events = [self._mqtt.owner_chat()] if self._mqtt else []  # of which nobody knows whether a person sees them
        can_reach = any(self.channel_of(chat).status().up for chat in others)
        includes_last = not can_reach or not self.is_local(last) or self._terminals.attached(last)
        return list(dict.fromkeys([*([last] if includes_last else []), *others, *filter(None, events)]))

    def send_unsaved(self, text: str) -> None:
        """Send an alarm that could not be stored."""
        for chat in self.alarm_chats():
            for worker in self.delivery:
                if worker.channel is self.channel_of(chat):
                    worker.send_unsaved(OutboxMessage(0, chat, text, time.time()))

    def note_readings(self, readings: list[Reading]) -> list[Reading]:
        """Hear of what was measured; from the thread that measures."""
        return self._mqtt.note_readings(readings) if self._mqtt else readings

    def find_approval(self, number: int) -> Approval | None:
        """Look up an approval; from any thread. Raises StoreError."""
        with self.boxes.lock:
            return Approvals(self.database).question(number)

    def _show_approval(self, approval: Approval) -> None:
        """Show a changed approval in all channels; from any thread."""
        for channel in list(self.channels.values()):
            channel.changed(approval)
        self.wake_delivery()

    def make_hooks(self, arrived: InboxMessage) -> TurnHooks:
        if self._programs and not has_reader(arrived.key):
            return self._programs.around(arrived)
        return super().make_hooks(arrived)

    def show_end(self, arrived: InboxMessage, turn: Turn, reply: str, /) -> bool:
        """Tell whoever waits for it; of a webhook, people hear nothing when all is well."""
        if not self._programs or has_reader(arrived.key):
            return super().show_end(arrived, turn, reply)
        from picoclaw.automation.heartbeat import is_ok

        is_fine = arrived.origin == "hook" and is_ok(turn.reply, self.app.context_builder.checklist().answer)
        return self._programs.answered(arrived, turn, reply, is_fine=is_fine) or is_fine

    def address(self, arrived: InboxMessage, reply: str) -> tuple[str, str]:
        """See MessageQueue: what a webhook leads to is told to the owner, where its table says."""
        if arrived.origin != "hook":
            return super().address(arrived, reply)
        name = arrived.key.removeprefix(HOOK_SESSIONS)
        hook = self.app.config.hooks.get(name)
        channel = self.channels.get(hook.to) if hook else None
        return (channel.owner_chat() if channel else "") or self.owner_chat(), f"{name}: {reply}"

    def show_heard(self, arrived: InboxMessage) -> None:
        if self.is_local(arrived.key):
            self._terminals.heard(arrived)

    def has_tasks(self, session: str) -> bool:
        """See MessageQueue; from any thread."""
        with self.boxes.lock:
            try:
                return has_open_tasks(self.database, session)
            except StoreError:
                return False

    def log_turn(self, session: str, turn: Turn) -> None:
        if self._store:
            self._store.wake()
        if not self._models.note_turn(turn) and turn.notice.failed and not waits_for_approval(turn):
            self.note(f"{session}: {turn.notice.text}")

    # --- what terminals may ask for beside a chat ---

    @property
    def greeting(self) -> str:
        return self.format_greeting(self._model_name)

    def do_command(self, word: str) -> dict[str, Any] | None:
        """Do what a terminal asks for by a word; None for a word that is not known."""
        if word == "status":
            return self.status()
        if word == "mqtt":
            return self._mqtt.describe() if self._mqtt else {"error": "picoclaw is not connected to a broker"}
        if word == "stop":
            good, text = self.app.wiring.obey_stop_order("stop", "owner") or (
                True,
                "no outputs are declared: there is nothing to stop",
            )
            return {"ok": good, "text": text}
        if word == "quit":
            self.leave()
            return {"ok": True, "text": "it ends"}
        if word == "restart":
            self._restart_when_idle()
            return {"ok": True, "text": "it restarts as soon as no answer is pending"}
        return None

    def run_fleet(self, words: dict[str, Any]) -> dict[str, Any]:
        """Ask other boards; waits for their answers."""
        return self._mqtt.run_fleet(words) if self._mqtt else {"error": "picoclaw is not connected to a broker"}

    def status(self) -> StatusDict:
        """Say how the daemon is; from any thread."""
        channels = {name: channel.status()._asdict() for name, channel in self.channels.items()}
        live = self.live.status(channels, self._models.status(), self.progress.late())
        live |= {"turn": self.running, "queue": self.waiting}
        if self._store:
            live["store"] = (shared := self._store.status())
            troubles = [f"{shared['error']}; this board goes on with what it has"] if shared["error"] else []
            live["problems"] += [f"store: {text}" for text in [*troubles, *shared["problems"]]]
        if trouble := self.writes.trouble:
            live["problems"].append(f"nothing can be saved; conversations are only in memory: {trouble}")
        app, locked = self.app, self.boxes.lock.acquire(timeout=_STATUS_LOCK_TIMEOUT_S)
        try:
            database = self.database if locked else None
            return merge_status(live, collect_offline_status(app.board, app.config.home, database, app.now()))
        finally:
            if locked:
                self.boxes.lock.release()

    def _restart_when_idle(self) -> None:
        self._restarts = True
        self.drain()

    def expect_scheduler(self, seconds: float | None) -> None:
        """Note when the scheduler will report again; also checks for leaks and damage."""
        self.progress.expect("automation", seconds)
        if self._mqtt:
            self._mqtt.note_jobs()
        self.writes.flush()
        age = time.time() - self.live.since
        if not self._restarts and (leaking := list_exceeded_limits(measure_usage(), self.live.limits, age)):
            self.note(f"{', '.join(leaking)}: restarts when idle")
            self._restart_when_idle()
        if not self._restarts and DAMAGE_DETECTED.is_set() and age > _REPAIR_DELAY_S:
            self.note("a database is damaged: restarts when idle to repair it")
            self._restart_when_idle()
