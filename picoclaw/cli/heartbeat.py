"""`picoclaw heartbeat`: look at the checklist now, say what was decided and why, and ask the model if it is due."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

from picoclaw.automation.checklist import SampleHistory
from picoclaw.automation.heartbeat import HEARTBEAT_OK, HeartbeatCheck
from picoclaw.cli.common import add_board_option, open_app, print_note
from picoclaw.daemon.heartbeats import build_heartbeat, make_clock_watch, read_heartbeat_time
from picoclaw.daemon.signals import block_signals, handle_signals
from picoclaw.daemon.subagents import run_claimed_tasks
from picoclaw.messages import Turn
from picoclaw.store.heartbeats import HeartbeatRecord
from picoclaw.text import escape_unprintable, format_json
from picoclaw.times import format_duration


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be decided now, ask and keep nothing")
    parser.add_argument("--if-due", action="store_true", help="keep to the interval and the quiet hours, as by itself")
    parser.add_argument("--json", action="store_true", help="print it for programs")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Decide and do it; exit code 1 when the model was asked in vain."""
    with open_app(given) as app, closing(SampleHistory(app.config.home)) as past:
        handle_signals()
        turns: list[Turn] = []
        heart, now = (
            build_heartbeat(app, past, turns.append, block_signals),
            read_heartbeat_time(app, make_clock_watch(app)),
        )
        by_hand = not (given.dry_run or given.if_due)
        looked = heart.look(now, by_hand=by_hand, keep=not given.dry_run)
        if not given.json:
            for line in [*_format_check(looked, now.wall), *(_format_request(looked) if given.dry_run else [])]:
                print(escape_unprintable(line))
        asks = looked.decision.beat and not given.dry_run
        beat = heart.beat(looked, now, told=sys.stdout.isatty() and not given.json) if asks else None
        if given.json:
            print(format_json(_check_to_dict(looked, beat)))
        elif beat:
            _print_outcome(beat, turns, looked.checklist.answer or HEARTBEAT_OK)
        elif asks:
            print("another picoclaw has just had a heartbeat")
        if beat:
            run_claimed_tasks(app, print_note)
    return 1 if beat and beat.outcome in {"failed", "put off"} else 0


def _format_check(looked: HeartbeatCheck, now: datetime) -> Iterator[str]:
    """The checklist as it was understood, and the decision."""
    for finding in looked.situation.findings:
        yield f"line {finding.item.line}: {'due' if finding.due else 'not due'}, {finding.why}: {finding.item.text}"
    yield from map(str, looked.checklist.problems)
    if looked.checklist.done:
        yield f"{looked.checklist.done} done"
    today, last = looked.today, looked.today.last
    cap = looked.situation.cap
    yield f"today {today.tokens:,} of {cap:,} tokens; {_format_last_heartbeat(last, now) if last else 'no heartbeat yet'}"
    decision = looked.decision
    yield f"{'asking' if decision.beat else 'nothing is asked'} ({decision.rule}): {decision.why}"


def _format_request(looked: HeartbeatCheck) -> Iterator[str]:
    """What a model would be asked."""
    if looked.checklist.instructions:
        yield "instructions of HEARTBEAT.md, which a model is shown with what is due:"
        yield from (f"  {line}" for line in looked.checklist.instructions.split("\n"))
    answers = dict.fromkeys([HEARTBEAT_OK, looked.checklist.answer or HEARTBEAT_OK])
    yield f"all is well, and you are not told, when it answers {' or '.join(answers)}"
    if looked.decision.ask:
        yield "it would be asked:"
        yield from (f"  {line}" for line in looked.decision.ask.split("\n"))


def _format_last_heartbeat(last: HeartbeatRecord, now: datetime) -> str:
    how = {"silent": "all was well", "said": "something was told", "failed": "it failed"}
    ago = format_duration(max(0.0, now.timestamp() - last.at))
    return f"the last heartbeat was {ago} ago, {how.get(last.outcome, 'it was cut off')}"


def _print_outcome(beat: HeartbeatRecord, turns: list[Turn], all_well: str) -> None:
    print(escape_unprintable(beat.text or (all_well if beat.outcome == "silent" else "the model gave no answer")))
    notice = turns[-1].notice.text if turns else ""
    said = f"{notice}; " if notice else ""
    print(f"picoclaw: {escape_unprintable(said)}{beat.tokens:,} tokens", file=sys.stderr)


def _check_to_dict(looked: HeartbeatCheck, beat: HeartbeatRecord | None) -> dict[str, Any]:
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
        "all_well": looked.checklist.answer or HEARTBEAT_OK,
        "problems": [str(problem) for problem in looked.checklist.problems],
        "done": looked.checklist.done,
        "tokens_today": looked.today.tokens + (beat.tokens if beat else 0),
        "outcome": beat.outcome if beat else "",
        "text": beat.text if beat else "",
    }
