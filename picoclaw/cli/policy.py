"""`picoclaw policy`: who may have what done, by which rule, and what was allowed for good."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

from picoclaw.agent.dispatcher import replace_surrogates
from picoclaw.cli.common import add_board_option, open_app
from picoclaw.config import load_config
from picoclaw.errors import PicoclawError, explain_syntax
from picoclaw.messages import DEFAULT_SESSION, Caller, Origin, ToolCall
from picoclaw.resources import get_home
from picoclaw.schema import find_nearest
from picoclaw.security.audit import AuditLog
from picoclaw.security.guard import format_call_question
from picoclaw.security.policy import EFFECTS, Policy, VerdictRow, compute_digest, decide
from picoclaw.security.rights import PolicyLoader, load_policy
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time

_EXAMPLE = '\'{"path": "notes.md", "content": ""}\''


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT")
    words.add_parser("show", help="the table in force, with what of it is yours (the default)")
    explain = words.add_parser("explain", help="what would happen to a call, and why; it is not made")
    explain.add_argument("tool", metavar="TOOL")
    explain.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help=f"an object, such as {_EXAMPLE}")
    explain.add_argument("--origin", choices=get_args(Origin), default="owner", help="who asks (default: owner)")
    explain.add_argument(
        "--tainted", action="append", default=[], metavar="WHAT", help="something that the conversation has read"
    )
    add_board_option(explain)
    words.add_parser("always", help="what was allowed for good")
    revoke = words.add_parser("revoke", help="take that back")
    revoke.add_argument("number", type=int, metavar="N")


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when something is wrong, with the reason on stderr."""
    if given.act == "explain":
        return _explain_call(given)
    if given.act in {"always", "revoke"}:
        return _manage_standing_approvals(get_home(os.environ), given)
    return _show_policy()


def _show_policy() -> int:
    config = load_config()
    file = config.home / "policy.toml"
    policy = PolicyLoader(file, _refuse_approvals, config.tools.exec).policy()
    own = f"what is marked * is from {file}" if policy.effects or policy.tools else f"{file} changes none of them"
    print(f"The usual rules; {own}.")
    print(f"{'':14}" + "".join(f"{column:<12}" for column in VerdictRow._fields).rstrip())
    for line in _format_table(policy):
        print(escape_unprintable(line))
    for problem in (problems := load_policy(file).problems):
        print(escape_unprintable(f"picoclaw: {file.name}: {problem}"), file=sys.stderr)
    if problems:
        print("picoclaw: until that is mended, everything that changes something is asked about", file=sys.stderr)
    return 1 if problems else 0


def _refuse_approvals() -> Approvals:
    raise PicoclawError("nothing is asked here of what was allowed for good")


def _format_table(policy: Policy) -> Iterator[str]:
    for effect in EFFECTS:
        verdicts = (policy.verdict(effect, "", column)[0] for column in VerdictRow._fields)
        own = policy.effects.get(effect, {})
        yield _format_row(effect, [f"{v}{'*' * (c in own)}" for c, v in zip(VerdictRow._fields, verdicts, strict=True)])
    for tool, row in policy.tools.items():
        yield _format_row(f"tool {tool}", [f"{row[c]}*" if c in row else "-" for c in VerdictRow._fields])


def _format_row(name: str, verdicts: list[str]) -> str:
    return f"{name:<14}" + "".join(f"{verdict:<12}" for verdict in verdicts).rstrip()


def _explain_call(given: argparse.Namespace) -> int:
    try:
        arguments = json.loads(replace_surrogates(given.arguments))
    except (ValueError, RecursionError) as error:
        raise PicoclawError(f"JSON is not valid: {explain_syntax(error)}") from None
    if not isinstance(arguments, dict):
        raise PicoclawError(f"JSON must be an object, such as {_EXAMPLE}")
    with open_app(given, make=False) as app:
        policy = app.rights.policy()
        if unknown := sorted(set(policy.tools) - app.toolset.names):
            names = dict.fromkeys(app.toolset.names)
            print(
                f"picoclaw: [tools] names no tool of this board: {unknown[0]}{find_nearest(unknown[0], names)}",
                file=sys.stderr,
            )
        caller = Caller(DEFAULT_SESSION, given.origin, app.now(), _discard_text, set(given.tainted))
        asked = app.toolset.asked(ToolCall("1", given.tool, arguments), caller)
        decision = decide(policy, asked, given.origin, given.tainted)
        print(escape_unprintable(f"{decision.verdict}: rule {decision.rule}\nbecause: {decision.why}"))
        if asked.effect != "read":
            print(
                escape_unprintable(
                    f"a yes would be given to, and hold for, exactly this:\n{format_call_question(asked)}"
                )
            )
            print(f"sum: {compute_digest(asked)}")
        if problem := app.rights.problem():
            print(escape_unprintable(f"picoclaw: {problem}"), file=sys.stderr)
    return 0


def _discard_text(_text: str) -> None:
    """Hear what a tool says at once: none does, for none is called."""


def _manage_standing_approvals(home: Path, given: argparse.Namespace) -> int:
    if not (home / "state.db").exists():
        print("nothing was allowed for good")
        return 0
    with closing(Database(home / "state.db")) as database:
        approvals = Approvals(database)
        if given.act == "revoke":
            if not approvals.revoke(given.number):
                raise PicoclawError(f"there is no rule {given.number}; `picoclaw policy always` lists them")
            AuditLog(home).mention("revoke", rule=given.number)
            print(f"rule {given.number} is taken back: it is asked about again")
            return 0
        for rule in (rules := approvals.always()):
            at = f"{get_owner_time(home, rule.at):%Y-%m-%d %H:%M}"
            print(
                escape_unprintable(f"rule {rule.number}, {at}{f', by {rule.by}' if rule.by else ''}:\n{rule.question}")
            )
        if not rules:
            print("nothing was allowed for good")
    return 0
