"""`picoclaw cron`, `rules` and `heartbeat`: what happens by itself, what is wrong with it, what it has done."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

from picoclaw.app import App
from picoclaw.automation import rule_engine, rules
from picoclaw.automation.clock import boottime, read_boot_id, wake_all
from picoclaw.automation.heartbeat import HeartbeatCheck
from picoclaw.cli.arguments import Options, Parser, Words, parse_count, parse_length
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    call_tool,
    check_chat,
    format_count,
    open_app,
    print_note,
    print_results,
    print_wrapped,
)
from picoclaw.daemon.process import block_signals, handle_signals
from picoclaw.errors import ConfigError, StoreError, ToolError
from picoclaw.messages import HEARTBEAT_OK, Turn
from picoclaw.store import database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import HeartbeatRecord, Job
from picoclaw.store.samples import MAX_FIRINGS, ClockReading, RuleLog
from picoclaw.text import format_json
from picoclaw.times import format_duration
from picoclaw.tools.cron import format_row, list_upcoming

# --- reminders and jobs ---

_MAX_NEXT_TIMES = 3
_TOOL_ARGUMENTS = {
    *("message", "kind", "command", "at_seconds", "at", "every_seconds", "cron_expr", "tz", "deliver", "late", "job")
}


def add_cron_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": ("list all, with their next time and last result (the default)", _list_jobs),
            "add": ("add a reminder or job", _call_cron_tool),
            "get": ("print all details of one", _call_cron_tool),
            "update": ("change the time or text of one", _call_cron_tool),
            "remove": ("remove one", _call_cron_tool),
            "enable": ("resume one", _call_cron_tool),
            "disable": ("pause one", _call_cron_tool),
            "skip": ("leave out one of its times, or pause it until some time", _call_cron_tool),
            "run": ("run one now, in addition to its schedule", _call_cron_tool),
        },
        "list",
    )
    words["list"].add_argument("--json", "print the list as JSON")
    add_board_option(parser)
    for name, word in words.items():
        if name not in {"list", "add"}:
            word.add_argument("job NUMBER", type=int)
        if name in {"add", "update"}:
            _add_job_options(word)
    words["skip"].add_argument(
        "--at WHEN", "next, tomorrow, friday, 'until monday', '3 days', 'next week'", default="next"
    )


def _add_job_options(word: Parser) -> None:
    word.add_argument("message TEXT", "what to say, to ask the agent (--kind turn) or call", nargs="?")
    word.add_argument("--kind", "fresh: a turn without history", choices=["reminder", "turn", "fresh", "tool"])
    word.add_argument(
        "--command CMD", "a shell command instead of a text; it may only read, unless --write or --network"
    )
    word.add_argument("--write", "the command may change files of the workspace")
    word.add_argument("--network", "the command may use the network")
    word.add_argument("--in TIME", "in how long: 90s, 10m, 2h, 1d", dest="at_seconds", type=parse_length)
    word.add_argument("--at TIME", "18:30, 'tomorrow 07:30', '2026-12-01 08:00'")
    word.add_argument("--every TIME", "repeat at this interval: 10m, 2h, 1d", dest="every_seconds", type=parse_length)
    word.add_argument("--cron EXPR", "'30 7 * * 1-5': minute hour day month weekday", dest="cron_expr")
    word.add_argument("--tz ZONE", "the time zone of the times, such as Berlin")
    word.add_argument("--deliver", "when to send the result", choices=["always", "change", "failure"])
    word.add_argument("--late", "after missed runs: run once, or skip them", choices=["once", "skip"])
    chat = "the existing chat that it belongs to"
    word.add_argument("--session S", chat, default=DEFAULT_SESSION)


def run_cron(given: Options) -> int:
    """Do it; exit code 1 when it could not be done, with the reason on stderr. An open chat heeds it at once."""
    with open_app(given) as app:
        handle_signals()
        return given.act(app, given)


def _list_jobs(app: App, given: Options) -> int:
    now, jobs = app.now(), app.stores.jobs.all()
    if given.json:
        print(format_json([_job_to_dict(job, now) for job in jobs]))
        return 0
    for job in jobs:
        chat = "" if job.session == DEFAULT_SESSION else f" (chat {job.session!r})"
        print_wrapped(f"{format_row(job, now)}{chat}")
    if not jobs:
        print("no reminders")
    return 0


def _job_to_dict(job: Job, now: datetime) -> dict[str, Any]:
    try:
        upcoming = list_upcoming(job, now, _MAX_NEXT_TIMES) if job.enabled else ()
        following = [due.isoformat(timespec="seconds") for due in upcoming]
    except ValueError:  # its zone is not known here, which the list says
        following = []
    return job._asdict() | {"plan": job.plan._asdict(), "next": following}


def _call_cron_tool(app: App, given: Options) -> int:
    """Make the call that a model would make, as the chat that the job belongs to."""
    arguments = {name: value for name, value in vars(given).items() if name in _TOOL_ARGUMENTS and value is not None}
    if rights := [name for name in ("write", "network") if getattr(given, name, False)]:
        arguments["rights"] = " ".join(rights)
    session = next((job.session for job in app.stores.jobs.all() if job.number == arguments.get("job")), None)
    if session is None and "job" in arguments:
        raise ToolError(f"there is no reminder or job {arguments['job']}; `picoclaw cron` lists them")
    if session is None and given.session != DEFAULT_SESSION:
        check_chat(app, given.session)
    return 0 if call_tool(app, session or given.session, "cron", {"action": given.word} | arguments) else 1


# --- rules ---

_DEFAULT_RECORDS = 20


def add_rules_options(parser: Parser) -> None:
    words = parser.add_words(_RULE_WORDS, "list")
    add_board_option(parser)
    for name in ("explain", "remove"):
        words[name].add_argument("name")
    words["log"].add_argument("name", "of one rule only", nargs="?", default="")
    count, most = f"how many (default {_DEFAULT_RECORDS})", parse_count(1, MAX_FIRINGS)
    words["log"].add_argument("-n LINES", count, type=most, default=_DEFAULT_RECORDS)


def run_rules(given: Options) -> int:
    with open_app(given, make=False) as app:
        return given.act(app, given)


def _load_rules(app: App) -> rules.RuleSet:
    """Read the rules as they are now, and have an open chat do so, which may sleep for long without any sensor."""
    wake_all(app.config.home)
    return rules.load_rules(app.config.home, app.now(), str(app.context_builder.zone() or ""))


def _list_rules(app: App, _: Options) -> int:
    found = _load_rules(app)
    if not found.rules and not found.problems:
        print_wrapped("no rules; say one in a chat, such as: tell me when the greenhouse is below 5 degrees")
        return 0
    states, unknown = {}, []
    try:
        if (app.config.home / database.HISTORY_FILE).exists():
            kept = RuleLog(app.stores.history_database).states()
            states = {name: rule_engine.load_state(text) for name, text in kept.items()}
    except StoreError as error:  # the rules themselves are in a file of their own
        unknown = [str(error)]
    now = _read_clock(app) if states else None
    for one in found.rules.values():
        print_wrapped(rules.explain_rule(one))
        if now and one.name in states and one.written.enabled:
            print_wrapped(f"    {rule_engine.describe_state(one, states[one.name], now)}")
    return max(_print_problems(found.problems.values()), _print_problems(unknown, "where they stand cannot be told"))


def _print_problems(problems: Iterable[str], what: str = "not followed") -> int:
    rows = [f"{what}: {problem}" for problem in problems]
    print_wrapped(*rows)
    return 1 if rows else 0


def _read_clock(app: App) -> ClockReading:
    """Now; only an open chat can tell that nobody has set the date for a while, and has written down so."""
    from picoclaw.outputs.supervisor.sensing import read_trusted_time

    boot = read_boot_id()
    is_trusted = read_trusted_time(app.board, app.config.home) is not None or app.stores.samples.dated(boot)
    return ClockReading(boot, boottime(), app.now(), is_trusted)


def _explain_rule(app: App, given: Options) -> int:
    found = _load_rules(app)
    if given.name in found.problems:
        return _print_problems([found.problems[given.name]])
    if given.name not in found.rules:
        raise ConfigError(f"{found.path} has no rule {given.name!r}; there are: {', '.join(found.rules) or 'none'}")
    rule = found.rules[given.name]
    print_wrapped(rules.explain_rule(rule), *(f"    but {doubt}" for doubt in _list_doubts(app, rule)))
    return 0


def _list_doubts(app: App, rule: rules.Rule) -> list[str]:
    from picoclaw.tools.rules import list_doubts

    return list(list_doubts(rule, app.config.home, app.wiring.measured()))


def _check_rules(app: App, _: Options) -> int:
    from picoclaw.hw.kernel import bad, good

    found = _load_rules(app)
    rows = [bad(name, problem) for name, problem in found.problems.items()]
    for rule in found.rules.values():
        rows += [bad(rule.name, doubt) for doubt in _list_doubts(app, rule)]
    return print_results(rows or [good("rules", f"{format_count(len(found.rules), 'rule')}, no mistakes")])


def _remove_rule(app: App, given: Options) -> int:
    rules.remove_rule(app.config.home, given.name)
    wake_all(app.config.home)
    print(f"rule {given.name} is removed")
    return 0


def _show_rule_log(app: App, given: Options) -> int:
    home, name = app.config.home, given.name
    kept = (home / database.HISTORY_FILE).exists()
    records = RuleLog(app.stores.history_database).log(given.n, name) if kept else []
    if not records:
        found = _load_rules(app)
        if name and name not in {*found.rules, *found.problems}:
            raise ConfigError(f"no rule {name!r} has done anything, and {found.path} has none of that name")
        print(f"rule {name} has done nothing yet" if name else "no rule has done anything yet")
        return 0
    waiting = Outbox(app.stores.database).numbers() if (home / "state.db").exists() else frozenset()
    for record in records:
        at = f"{record.at.astimezone(app.now().tzinfo):%Y-%m-%d %H:%M:%S}{'' if record.trusted else ' (clock not set)'}"
        outcome = rule_engine.format_outcome(record.outcome, waiting)
        outcome = outcome or "outcome unknown: picoclaw was stopped in the middle"
        print_wrapped(f"{at} {record.rule}: {record.why}; {record.acts}: {outcome}")
    return 0


_RULE_WORDS: Words = {
    "list": ("explain all rules and show their state (the default)", _list_rules),
    "check": ("check for mistakes; exit code 1 if there are any", _check_rules),
    "explain": ("explain one", _explain_rule),
    "remove": ("remove one from rules.toml", _remove_rule),
    "log": ("list what rules did, and the readings that caused it", _show_rule_log),
}


# --- heartbeats ---


def add_heartbeat_options(parser: Parser) -> None:
    parser.add_argument("--dry-run", "show what would be done now; ask no model and save nothing")
    parser.add_argument("--if-due", "only if it is due, outside the quiet hours")
    parser.add_argument("--json", "print JSON")
    add_board_option(parser)


def run_heartbeat(given: Options) -> int:
    """Look at the checklist, say what was decided and why, ask the model if it is due; 1 when it was asked in vain."""
    from picoclaw.automation.checklist import SampleHistory
    from picoclaw.daemon.background import build_heartbeat, make_clock_watch, read_heartbeat_time
    from picoclaw.daemon.local import run_claimed_tasks

    with open_app(given) as app, closing(SampleHistory(app.config.home)) as past:
        handle_signals()
        turns: list[Turn] = []
        heartbeat = build_heartbeat(app, past, turns.append, block_signals)
        now = read_heartbeat_time(app, make_clock_watch(app))
        looked = heartbeat.look(now, by_hand=not (given.dry_run or given.if_due), keep=not given.dry_run)
        if not given.json:
            print_wrapped(*_format_check(looked, now.wall), *(_format_request(looked) if given.dry_run else []))
        asks = looked.decision.beat and not given.dry_run
        beat = heartbeat.beat(looked, now, told=sys.stdout.isatty() and not given.json) if asks else None
        if given.json:
            print(format_json(_check_to_dict(looked, beat)))
        elif beat:
            all_well = looked.checklist.answer or HEARTBEAT_OK
            print_wrapped(beat.text or (all_well if beat.outcome == "silent" else "the model gave no answer"))
            notice = turns[-1].notice.text if turns else ""
            print_note(f"{notice}; {beat.tokens:,} tokens" if notice else f"{beat.tokens:,} tokens")
        elif asks:
            print("another picoclaw has just had a heartbeat")
        if beat:
            run_claimed_tasks(app, print_note)
    return 1 if beat and beat.outcome in {"failed", "put off"} else 0


def _format_check(looked: HeartbeatCheck, now: datetime) -> Iterator[str]:
    for finding in looked.situation.findings:
        yield f"line {finding.item.line}: {'due' if finding.due else 'not due'}, {finding.why}: {finding.item.text}"
    yield from looked.checklist.problems
    if looked.checklist.done:
        yield f"{looked.checklist.done} done"
    today, last, said = looked.today, looked.today.last, "no heartbeat yet"
    if last:
        how = {"silent": "all was well", "said": "something was told", "failed": "it failed"}
        ago = format_duration(max(0.0, now.timestamp() - last.at))
        said = f"the last heartbeat was {ago} ago, {how.get(last.outcome, 'it was cut off')}"
    yield f"today {today.tokens:,} of {looked.situation.cap:,} tokens; {said}"
    decision = looked.decision
    yield f"{'asking' if decision.beat else 'nothing is asked'} ({decision.rule}): {decision.why}"


def _format_request(looked: HeartbeatCheck) -> Iterator[str]:
    if looked.checklist.instructions:
        yield "instructions of HEARTBEAT.md, which a model is shown with what is due:"
        yield from (f"  {line}" for line in looked.checklist.instructions.split("\n"))
    answers = dict.fromkeys([HEARTBEAT_OK, looked.checklist.answer or HEARTBEAT_OK])
    yield f"you are not notified when it answers {' or '.join(answers)}"
    if looked.decision.ask:
        yield "it would be asked:"
        yield from (f"  {line}" for line in looked.decision.ask.split("\n"))


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
        "problems": list(looked.checklist.problems),
        "done": looked.checklist.done,
        "tokens_today": looked.today.tokens + (beat.tokens if beat else 0),
        "outcome": beat.outcome if beat else "",
        "text": beat.text if beat else "",
    }
