"""`picoclaw policy` and `picoclaw approvals`: who may have what done, and what waits for a yes."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import get_args

from picoclaw.cli.arguments import Options, Parser, get_width
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    format_minute,
    open_app,
    print_note,
    print_safe,
    print_wrapped,
    require_terminal,
)
from picoclaw.errors import PicoclawError, explain_syntax
from picoclaw.messages import OLD_TOOL_NAMES, Caller, Origin, ToolCall
from picoclaw.resources import get_home
from picoclaw.schema import find_nearest
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database

_EXAMPLE = '\'{"path": "notes.md", "content": ""}\''


def add_policy_options(parser: Parser) -> None:
    purposes = {
        "show": "print the table in force, and mark your own rules (the default)",
        "explain": "show the decision about a call, and why; the call is not made",
        "always": "list the calls that are always approved",
        "revoke": "revoke such an approval",
    }
    words = parser.add_words(purposes)
    explain = words["explain"]
    explain.add_argument("tool", metavar="TOOL")
    explain.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help=f"the arguments as a JSON object, such as {_EXAMPLE}"
    )
    explain.add_argument("--origin", choices=get_args(Origin), default="owner", help="who asks (default: owner)")
    explain.add_argument(
        "--tainted",
        repeats=True,
        metavar="WHAT",
        help="untrusted text that the turn has read, such as 'web_fetch https://example.org'",
    )
    add_board_option(explain)
    words["revoke"].add_argument("number", type=int, metavar="N")


def run_policy(given: Options) -> int:
    if given.act == "explain":
        return _explain_call(given)
    return _manage_standing_approvals(given) if given.act in {"always", "revoke"} else _show_policy()


def _show_policy() -> int:
    from picoclaw.config import load_config
    from picoclaw.security.guard import PolicyLoader, load_policy
    from picoclaw.security.policy import EFFECTS, Policy, VerdictRow

    config = load_config()
    file = config.home / "policy.toml"

    def refuse() -> Approvals:
        raise PicoclawError("nothing is asked here of what was allowed for good")

    def list_rows(policy: Policy) -> Iterator[tuple[str, list[str]]]:
        yield "", list(columns)
        for effect in EFFECTS:
            own = policy.effects.get(effect, {})
            yield effect, [policy.verdict(effect, "", one)[0] + "*" * (one in own) for one in columns]
        for tool, row in policy.tools.items():
            yield f"tool {tool}", [f"{row[one]}*" if one in row else "-" for one in columns]

    columns = VerdictRow._fields
    policy = PolicyLoader(file, refuse, config.tools.exec).policy()
    own = f"what is marked * is from {file}" if policy.effects or policy.tools else f"{file} changes none of them"
    print_wrapped(f"The usual rules; {own}.")
    fits = not sys.stdout.isatty() or get_width() >= 17 + 12 * len(columns)
    for name, cells in list_rows(policy):
        if fits:
            print_safe(f"{name:<17}" + "".join(f"{cell:<12}" for cell in cells).rstrip())
        elif name:
            print_wrapped(f"{name}: {', '.join(map(' '.join, zip(columns, cells, strict=True)))}")
    problems = load_policy(file)[1]
    for problem in problems:
        print_note(f"{file.name}: {problem}")
    if problems:
        print_note("until that is corrected, everything that changes something is asked about")
    return 1 if problems else 0


def _explain_call(given: Options) -> int:
    from picoclaw.security.guard import format_call_question
    from picoclaw.security.policy import compute_digest, decide

    try:
        arguments = json.loads(given.arguments)
    except (ValueError, RecursionError) as error:
        raise PicoclawError(f"JSON is not valid: {explain_syntax(error)}") from None
    if not isinstance(arguments, dict):
        raise PicoclawError(f"JSON must be an object, such as {_EXAMPLE}")
    with open_app(given, make=False) as app:
        policy = app.rights.policy()
        if unknown := sorted(set(policy.tools) - app.toolset.names - OLD_TOOL_NAMES.keys()):
            nearest = find_nearest(unknown[0], dict.fromkeys(app.toolset.names))
            print_note(f"[tools] names no tool of this board: {unknown[0]}{nearest}")
        caller = Caller(DEFAULT_SESSION, given.origin, app.now(), lambda _: None, set(given.tainted))
        asked = app.toolset.asked(ToolCall("1", given.tool, arguments), caller)
        decision = decide(policy, asked, given.origin, given.tainted)
        print_wrapped(f"{decision.verdict}: rule {decision.rule}\nbecause: {decision.why}")
        if asked.effect != "read":
            print_safe(f"a yes would be given to, and hold for, exactly this:\n{format_call_question(asked)}")
            print(f"sum: {compute_digest(asked)}")
        if problem := app.rights.problem():
            print_note(problem)
    return 0


def _manage_standing_approvals(given: Options) -> int:
    home = get_home(os.environ)
    if not (home / "state.db").exists():
        print("nothing was allowed for good")
        return 0
    with closing(Database(home / "state.db")) as database:
        approvals = Approvals(database)
        if given.act == "revoke":
            from picoclaw.security.audit import AuditLog

            if not approvals.revoke(given.number):
                raise PicoclawError(f"there is no rule {given.number}; `picoclaw policy always` lists them")
            AuditLog(home).mention("revoke", rule=given.number)
            print(f"rule {given.number} is taken back: it is asked about again")
            return 0
        for rule in (rules := approvals.always()):
            by = f", by {rule.by}" if rule.by else ""
            whose = "".join(f", for {one}" for one in (rule.whose, rule.agent and f"the agent {rule.agent}") if one)
            print_safe(f"rule {rule.number}, {format_minute(home, rule.at)}{by}{whose}:\n{rule.question}")
        if not rules:
            print("nothing was allowed for good")
    return 0


def add_approvals_options(parser: Parser) -> None:
    purposes = {
        "list": "list the waiting actions, and the outcome of the newest others (the default)",
        "show": "show number N in full",
        "yes": "approve number N",
        "no": "decline number N",
        "always": "approve number N now and whenever exactly the same call is made again",
    }
    for act, word in parser.add_words(purposes).items():
        if act in {"yes", "no"}:
            word.add_argument(
                "number", type=int, metavar="N", nargs="?", help="default: all calls of the only question"
            )
        elif act != "list":
            word.add_argument("number", type=int, metavar="N")
        if act in {"yes", "no", "always"}:
            add_board_option(word)


def run_approvals(given: Options) -> int:
    from picoclaw.agent.commands import describe_approval, show_approval

    home = get_home(os.environ)
    if given.act in {"yes", "no", "always"}:
        from picoclaw.cli import chat

        require_terminal("an answer is only taken from a person at a terminal; over ssh, `ssh -t` makes one")
        text = f"/{given.act} {'' if given.number is None else given.number}".rstrip()
        asked = Options(session=DEFAULT_SESSION, message=text, json=False, board=given.board, who="terminal")
        asked.on = asked.agent = ""
        return chat.run(asked)
    if not (home / "state.db").exists():
        print("nothing waits for your approval")
        return 0
    with closing(Database(home / "state.db")) as database:
        approvals = Approvals(database)
        if given.act == "show":
            if not (found := approvals.get(given.number)):
                raise PicoclawError(f"there is no question number {given.number}")
            print_safe(show_approval(found))
            return 0
        for one in (waiting := approvals.waiting()):
            print_wrapped(describe_approval(one))
        for one in approvals.ended():
            print_wrapped(f"{one.number}  {one.state}, {format_minute(home, one.at)}: {one.shortly}")
        if not waiting:
            print("nothing waits for your approval")
    return 0
