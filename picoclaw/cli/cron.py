"""`picoclaw cron`: the reminders and jobs of every chat, from the command line; an open chat heeds it at once."""

import argparse
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from picoclaw.agent.dispatcher import replace_surrogates
from picoclaw.app import App
from picoclaw.cli.common import add_board_option, check_chat, open_app
from picoclaw.daemon.signals import handle_signals
from picoclaw.errors import ToolError
from picoclaw.messages import DEFAULT_SESSION, Caller, ToolCall
from picoclaw.store.jobs import Job
from picoclaw.text import escape_unprintable, format_json
from picoclaw.tools.cron import format_row, list_upcoming

_MAX_NEXT_TIMES = 3


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    _add_shared_options(parser)
    words = parser.add_subparsers(dest="act", metavar="ACT")
    for name, purpose in (
        ("list", "all of them, with when they are due and how they went (the default)"),
        ("add", "a new one"),
        ("get", "all that there is to know of one"),
        ("update", "give one another time or text"),
        ("remove", "drop one"),
        ("enable", "let one be due again"),
        ("disable", "keep one from being due"),
        ("run", "do one now, beside its plan"),
    ):
        word = words.add_parser(name, help=purpose, argument_default=argparse.SUPPRESS, allow_abbrev=False)
        _add_shared_options(word) if name == "list" else add_board_option(word)
        if name not in {"list", "add"}:
            word.add_argument("job", type=int, metavar="NUMBER")
        if name in {"add", "update"}:
            _add_job_options(word)


def _add_shared_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    add_board_option(parser)


def _add_job_options(word: argparse.ArgumentParser) -> None:
    word.add_argument("message", nargs="?", metavar="TEXT", help="what to say, to ask the agent (--kind turn) or call")
    word.add_argument("--kind", choices=["reminder", "turn", "fresh", "tool"], help="fresh: a turn without history")
    word.add_argument("--command", metavar="CMD", help="a command instead of a text; it can only look")
    word.add_argument("--write", action="store_true", help="the command may change files of the workspace")
    word.add_argument("--network", action="store_true", help="the command may use the network")
    word.add_argument("--in", dest="at_seconds", type=float, metavar="SECONDS", help="so many seconds from now")
    word.add_argument("--at", metavar="TIME", help="18:30, 'tomorrow 07:30', '2026-12-01 08:00'")
    word.add_argument("--every", dest="every_seconds", type=float, metavar="SECONDS", help="again and again")
    word.add_argument("--cron", dest="cron_expr", metavar="EXPR", help="'30 7 * * 1-5': minute hour day month weekday")
    word.add_argument("--tz", metavar="ZONE", help="the zone that the time is meant in, such as Berlin")
    word.add_argument("--deliver", choices=["always", "change", "failure"], help="when the outcome is told")
    word.add_argument("--late", choices=["once", "skip"], help="what becomes of it when it was missed")
    word.add_argument(
        "--session", default=DEFAULT_SESSION, metavar="S", help="the chat that it belongs to, one that there is"
    )


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when it could not be done, with the reason on stderr."""
    with open_app(given) as app:
        handle_signals()
        if given.act in {None, "list"}:
            return _list_jobs(app, given)
        return _call_cron_tool(app, given)


def _list_jobs(app: App, given: argparse.Namespace) -> int:
    now, jobs = app.now(), app.stores.jobs.all()
    if given.json:
        print(format_json([_job_to_dict(job, now) for job in jobs]))
        return 0
    for job in jobs:
        print(
            escape_unprintable(
                f"{format_row(job, now)}{'' if job.session == DEFAULT_SESSION else f' (chat {job.session!r})'}"
            )
        )
    if not jobs:
        print("no reminders")
    return 0


def _job_to_dict(job: Job, now: datetime) -> dict[str, Any]:
    return job._asdict() | {"plan": job.plan._asdict(), "next": list(_list_next_times(job, now))}


def _list_next_times(job: Job, now: datetime) -> Iterator[str]:
    if job.enabled:
        try:
            yield from (due.isoformat(timespec="seconds") for due in list_upcoming(job, now, _MAX_NEXT_TIMES))
        except ValueError:  # its zone is not known here, which the list says
            return


def _call_cron_tool(app: App, given: argparse.Namespace) -> int:
    """Make the call that a model would make, as the chat that the job belongs to."""
    given_ = {name: value for name, value in vars(given).items() if name in _TOOL_ARGUMENTS and value is not None}
    if rights := [name for name in ("write", "network") if getattr(given, name, False)]:
        given_["rights"] = " ".join(rights)
    arguments = {name: replace_surrogates(value) if isinstance(value, str) else value for name, value in given_.items()}
    session = next((job.session for job in app.stores.jobs.all() if job.number == arguments.get("job")), None)
    if session is None and "job" in arguments:
        raise ToolError(f"there is no reminder or job {arguments['job']}; `picoclaw cron` lists them")
    if session is None and given.session != DEFAULT_SESSION:
        check_chat(app, replace_surrogates(given.session))
    # Whoever typed exactly this at a terminal has agreed to it; see cli/tool.py.
    app.ask = (lambda _: True) if sys.stdin.isatty() else None
    caller = Caller(session or given.session, "owner", app.now(), lambda text: print(escape_unprintable(text)))
    try:
        good, result = app.toolset.run(ToolCall("1", "cron", {"action": given.act} | arguments), caller)
    finally:
        app.stores.settle(caller.session)
    print(escape_unprintable(result), file=sys.stdout if good else sys.stderr)
    return 0 if good else 1


_TOOL_ARGUMENTS = {
    *("message", "kind", "command", "at_seconds", "at", "every_seconds", "cron_expr", "tz", "deliver", "late", "job")
}
