"""`picoclaw heartbeat`: look at the checklist now, say what was decided and why, and ask the model if it is due."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from picoclaw.app import SIMULATED, App
from picoclaw.around import Around
from picoclaw.cli.common import board_option, json_text, opened, printable
from picoclaw.cli.keys import listen_to_signals, uninterrupted
from picoclaw.cli.waiting import finished
from picoclaw.errors import StoreError
from picoclaw.heartbeat.beat import PAGE, Heart, Looked, Now
from picoclaw.heartbeat.check import OK
from picoclaw.heartbeat.past import Past
from picoclaw.heartbeat.senses import Surroundings
from picoclaw.heartbeat.thread import HeartThread
from picoclaw.messages import Event, Inbound, Stop, ToolRun, Turn
from picoclaw.reflex.bell import ring
from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.reflex.clockwatch import ClockWatch
from picoclaw.reflex.keeper.trust import trusted_wall
from picoclaw.schedule import duration
from picoclaw.store.beats import Beat, Beats
from picoclaw.workspace.reading import text

_LARGEST = 250_000


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be decided now, ask and keep nothing")
    parser.add_argument("--if-due", action="store_true", help="keep to the interval and the quiet hours, as by itself")
    parser.add_argument("--json", action="store_true", help="print it for programs")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Decide and do it; exit code 1 when the model was asked in vain."""
    with opened(given) as app, closing(Past(app.config.home)) as past:
        listen_to_signals()
        turns: list[Turn] = []
        heart, now = heart_of(app, past, turns.append, uninterrupted), clock(app, _watch(app))
        by_hand = not (given.dry_run or given.if_due)
        looked = heart.look(now, by_hand=by_hand, keep=not given.dry_run)
        if not given.json:
            for line in [*_lines(looked, now.wall), *(_ask(looked) if given.dry_run else [])]:
                print(printable(line))
        asks = looked.decision.beat and not given.dry_run
        beat = heart.beat(looked, now, told=sys.stdout.isatty() and not given.json) if asks else None
        if given.json:
            print(json_text(_as_json(looked, beat)))
        elif beat:
            _tell(beat, turns, looked.checklist.answer or OK)
        elif asks:
            print("another picoclaw has just had a heartbeat")
        if beat:
            finished(app)
    return 1 if beat and beat.outcome in {"failed", "put off"} else 0


def heart_of(
    app: App,
    past: Past,
    note: Callable[[Turn], None] = lambda _: None,
    shield: Callable[[], AbstractContextManager[None]] = nullcontext,
    stop: Stop | None = None,
) -> Heart:
    """Make the heart of a home, with what its sensors said.

    `note` is told each turn that it takes, `shield` holds off interruptions, and `stop` ends a turn.
    """

    def answer(inbound: Inbound, tokens: int, hear: Callable[[Event | ToolRun], None]) -> Turn:
        light = app.light_agent
        app.light_agent = replace(light, limits=replace(light.limits, tokens=tokens))
        turn = app.answer(inbound, Around(listen=hear, stop=stop, shield=shield))
        note(turn)
        return turn

    config, wiring = app.config, app.wiring
    return Heart(
        config.heartbeat,
        Beats(app.stores.database),
        partial(_page, config.workspace),
        Surroundings(app.board, wiring.wired, wiring.drivers, config.workspace, past),
        answer,
        bool(config.model.base_url),
        app.prompts["empty"],
        partial(ring, config.home),
        SIMULATED if app.board.simulated else "",
        app.helpers.of_heartbeats,
        lambda: app.stores.book.held("heartbeat"),
    )


def clock(app: App, watch: ClockWatch) -> Now:
    """Look at the clocks: the time in the owner's zone, and whether it can be believed."""
    now, mono = app.now(), boottime()
    watch.note(now.timestamp(), mono)
    return Now(now, mono, watch.boot, watch.trusted(now.timestamp(), mono))


def _watch(app: App) -> ClockWatch:
    return ClockWatch(lambda: trusted_wall(app.board, app.config.home) is not None, boot_id())


@contextmanager
def beating(
    app: App, complain: Callable[[str], None], peace_s: float | None = None
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Have heartbeats beside whatever else this process does, if there can be any.

    Gives what each turn is to be taken within, so that they keep out of its way; see HeartThread for `peace_s`.
    """
    if not (app.config.heartbeat.enabled and app.config.model.base_url):
        yield nullcontext
        return
    thread = HeartThread(partial(_own, app), complain, peace_s)
    thread.start()
    try:
        yield thread.turn
    finally:
        number, used = thread.stop()
        if number:
            with suppress(StoreError):  # then it counts as cut off
                Beats(app.stores.database).put_off(number, used)


@contextmanager
def _own(shared: App, stop: Stop) -> Iterator[tuple[Heart, Callable[[], Now]]]:
    """Make a heart on the board of the chat, with all else of its own, because it beats while others talk."""
    app = App(shared.config, shared.board, changed=shared.changed)
    app.wiring.wired = shared.wiring.wired  # so that a sensor that is added in the chat is known here
    try:
        with closing(Past(app.config.home)) as past:
            yield heart_of(app, past, stop=stop), partial(clock, app, _watch(app))
        app.wiring.leave()
    finally:
        app.wiring.abandon()
        app.let_go()


def _page(workspace: Path) -> str | None:
    return text(workspace / PAGE, _LARGEST, workspace)


def _lines(looked: Looked, now: datetime) -> Iterator[str]:
    """The checklist as it was understood, and the decision."""
    for finding in looked.situation.findings:
        yield f"line {finding.item.line}: {'due' if finding.due else 'not due'}, {finding.why}: {finding.item.text}"
    yield from map(str, looked.checklist.problems)
    if looked.checklist.done:
        yield f"{looked.checklist.done} done"
    today, last = looked.today, looked.today.last
    cap = looked.situation.cap
    yield f"today {today.tokens:,} of {cap:,} tokens; {_last(last, now) if last else 'no heartbeat yet'}"
    decision = looked.decision
    yield f"{'asking' if decision.beat else 'nothing is asked'} ({decision.rule}): {decision.why}"


def _ask(looked: Looked) -> Iterator[str]:
    """What a model would be asked."""
    if looked.checklist.instructions:
        yield "instructions of HEARTBEAT.md, which a model is shown with what is due:"
        yield from (f"  {line}" for line in looked.checklist.instructions.split("\n"))
    answers = dict.fromkeys([OK, looked.checklist.answer or OK])
    yield f"all is well, and you are not told, when it answers {' or '.join(answers)}"
    if looked.decision.ask:
        yield "it would be asked:"
        yield from (f"  {line}" for line in looked.decision.ask.split("\n"))


def _last(last: Beat, now: datetime) -> str:
    how = {"silent": "all was well", "said": "something was told", "failed": "it failed"}
    ago = duration(max(0.0, now.timestamp() - last.at))
    return f"the last heartbeat was {ago} ago, {how.get(last.outcome, 'it was cut off')}"


def _tell(beat: Beat, turns: list[Turn], all_well: str) -> None:
    print(printable(beat.text or (all_well if beat.outcome == "silent" else "the model gave no answer")))
    notice = turns[-1].notice.text if turns else ""
    said = f"{notice}; " if notice else ""
    print(f"picoclaw: {printable(said)}{beat.tokens:,} tokens", file=sys.stderr)


def _as_json(looked: Looked, beat: Beat | None) -> dict[str, Any]:
    decision = looked.decision
    return {
        "beat": decision.beat,
        "rule": decision.rule,
        "why": decision.why,
        "ask": decision.ask,
        "lines": [
            {"line": f.item.line, "text": f.item.text, "due": f.due, "why": f.why} for f in looked.situation.findings
        ],
        "instructions": looked.checklist.instructions,
        "all_well": looked.checklist.answer or OK,
        "problems": [str(problem) for problem in looked.checklist.problems],
        "done": looked.checklist.done,
        "tokens_today": looked.today.tokens + (beat.tokens if beat else 0),
        "outcome": beat.outcome if beat else "",
        "text": beat.text if beat else "",
    }
