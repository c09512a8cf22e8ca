"""Heartbeats on a thread of the daemon or of an open chat."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from picoclaw.app import App
from picoclaw.automation.checklist import BoardEnvironment, SampleHistory
from picoclaw.automation.clock import ClockWatch, boottime, read_boot_id
from picoclaw.automation.heartbeat import CHECKLIST_FILE, Heartbeat, HeartbeatThread, HeartbeatTime
from picoclaw.automation.wakeup import wake_all
from picoclaw.errors import StoreError
from picoclaw.messages import Event, Inbound, Stop, ToolRun, Turn, TurnHooks
from picoclaw.outputs.supervisor.sensing import read_trusted_time
from picoclaw.store.heartbeats import Heartbeats
from picoclaw.workspace.reading import read_text

_MAX_CHECKLIST_BYTES = 250_000


def make_clock_watch(app: App) -> ClockWatch:
    """Make what tells whether the date can be believed."""
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
    """Look at the clocks: the time in the owner's zone, and whether it can be believed."""
    now, mono = app.now(), boottime()
    watch.note(now.timestamp(), mono)
    return HeartbeatTime(now, mono, watch.boot, watch.trusted(now.timestamp(), mono))


@contextmanager
def run_heartbeats(
    app: App, complain: Callable[[str], None], peace_s: float | None = None
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Have heartbeats beside whatever else this process does, if there can be any.

    Gives what each turn is to be taken within, so that they keep out of its way; see HeartbeatThread for `peace_s`.
    """
    if not (app.config.heartbeat.enabled and app.config.model.base_url):
        yield nullcontext
        return
    thread = HeartbeatThread(partial(_open_own_heartbeat, app), complain, peace_s)
    thread.start()
    try:
        yield thread.turn
    finally:
        number, used = thread.stop()
        if number:
            with suppress(StoreError):  # then it counts as cut off
                Heartbeats(app.stores.database).put_off(number, used)


@contextmanager
def _open_own_heartbeat(shared: App, stop: Stop) -> Iterator[tuple[Heartbeat, Callable[[], HeartbeatTime]]]:
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
