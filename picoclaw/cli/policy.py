"""`picoclaw policy` and `picoclaw approvals`: who may have what done, and what waits for a yes.

`picoclaw audit`: who had what done, or was refused it, and whether the records of that are as they were written.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from picoclaw.cli.arguments import Options, Parser, UsageError, get_width, parse_object
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    format_minute,
    judge_log,
    open_app,
    print_note,
    print_records,
    print_results,
    print_safe,
    print_wrapped,
    require_terminal,
    show_progress,
)
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.files import explain_os_errors, get_home
from picoclaw.messages import OLD_TOOL_NAMES, Caller, Origin, ToolCall
from picoclaw.outputs import audit as outputs
from picoclaw.schema import find_nearest
from picoclaw.security import hash_chain
from picoclaw.security.audit import KEPT_FILES, LOG_NAME, AuditHead, verify_audit
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.text import pattern
from picoclaw.times import parse_range
from picoclaw.workspace import get_owner_time

if TYPE_CHECKING:
    from picoclaw.hw.kernel import CheckResult

_EXAMPLE = '\'{"path": "notes.md", "content": ""}\''


def add_policy_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "show": ("print the table in force, and mark your own rules (the default)", _show_policy),
            "explain": ("show the decision about a call, and why; the call is not made", _explain_call),
            "always": ("list the calls that are always approved", _list_standing_approvals),
            "revoke": ("revoke such an approval", _revoke_standing_approval),
        },
        "show",
    )
    explain = words["explain"]
    explain.add_argument("tool")
    example = f"the arguments as a JSON object, such as {_EXAMPLE}"
    explain.add_argument("arguments JSON", example, nargs="?", type=parse_object, default={})
    explain.add_argument("--origin", "who asks (default: owner)", choices=get_args(Origin), default="owner")
    explain.add_argument(
        "--tainted WHAT", "untrusted text that the turn has read, such as 'web_fetch https://example.org'", repeats=True
    )
    add_board_option(explain)
    words["revoke"].add_argument("number N", type=int)


def _show_policy(_: Options) -> int:
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

    with open_app(given, make=False) as app:
        policy = app.rights.policy()
        if unknown := sorted(set(policy.tools) - app.toolset.names - OLD_TOOL_NAMES.keys()):
            nearest = find_nearest(unknown[0], dict.fromkeys(app.toolset.names))
            print_note(f"[tools] names no tool of this board: {unknown[0]}{nearest}")
        caller = Caller(DEFAULT_SESSION, given.origin, app.now(), lambda _: None, set(given.tainted))
        asked = app.toolset.asked(ToolCall("1", given.tool, given.arguments), caller)
        decision = decide(policy, asked, given.origin, given.tainted)
        print_wrapped(f"{decision.verdict}: rule {decision.rule}\nbecause: {decision.why}")
        if asked.effect != "read":
            print_safe(f"a yes would be given to, and hold for, exactly this:\n{format_call_question(asked)}")
            print(f"sum: {compute_digest(asked)}")
        if problem := app.rights.problem():
            print_note(problem)
    return 0


@contextmanager
def _open_approvals(home: Path) -> Iterator[Approvals | None]:
    """The questions and standing approvals of a home; None where nothing was asked yet."""
    if not (home / "state.db").exists():
        yield None
        return
    with closing(Database(home / "state.db")) as database:
        yield Approvals(database)


def _list_standing_approvals(_: Options) -> int:
    home = get_home(os.environ)
    with _open_approvals(home) as approvals:
        rules = approvals.always() if approvals else []
    for rule in rules:
        by = f", by {rule.by}" if rule.by else ""
        whose = "".join(f", for {one}" for one in (rule.whose, rule.agent and f"the agent {rule.agent}") if one)
        print_safe(f"rule {rule.number}, {format_minute(home, rule.at)}{by}{whose}:\n{rule.question}")
    if not rules:
        print("nothing was allowed for good")
    return 0


def _revoke_standing_approval(given: Options) -> int:
    from picoclaw.security.audit import AuditLog

    home = get_home(os.environ)
    with _open_approvals(home) as approvals:
        if not approvals or not approvals.revoke(given.number):
            raise PicoclawError(f"there is no rule {given.number}; `picoclaw policy always` lists them")
    AuditLog(home).mention("revoke", rule=given.number)
    print(f"rule {given.number} is taken back: it is asked about again")
    return 0


def add_approvals_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": ("list the waiting actions, and the outcome of the newest others (the default)", _list_approvals),
            "show": ("show number N in full", _show_approval),
            "yes": ("approve number N", _answer),
            "no": ("decline number N", _answer),
            "always": ("approve number N now and whenever exactly the same call is made again", _answer),
        },
        "list",
    )
    for name in ("show", "always"):
        words[name].add_argument("number N", type=int)
    for name in ("yes", "no"):
        all_of_it = "default: all calls of the only question"
        words[name].add_argument("number N", all_of_it, type=int, nargs="?")
    for name in ("yes", "no", "always"):
        add_board_option(words[name])


def _answer(given: Options) -> int:
    from picoclaw.cli import chat

    require_terminal("an answer is only taken from a person at a terminal; over ssh, `ssh -t` makes one")
    text = f"/{given.word} {'' if given.number is None else given.number}".rstrip()
    asked = Options(session=DEFAULT_SESSION, message=text, json=False, board=given.board, on="", agent="")
    return chat.run(asked, "terminal")


def _show_approval(given: Options) -> int:
    from picoclaw.agent.commands import show_approval

    with _open_approvals(get_home(os.environ)) as approvals:
        if not approvals or not (found := approvals.get(given.number)):
            raise PicoclawError(f"there is no question number {given.number}")
    print_safe(show_approval(found))
    return 0


def _list_approvals(_: Options) -> int:
    from picoclaw.agent.commands import describe_approval

    home = get_home(os.environ)
    with _open_approvals(home) as approvals:
        waiting, ended = (approvals.waiting(), approvals.ended()) if approvals else ([], [])
    print_wrapped(*map(describe_approval, waiting))
    print_wrapped(*(f"{one.number}  {one.state}, {format_minute(home, one.at)}: {one.shortly}" for one in ended))
    if not waiting:
        print("nothing waits for your approval")
    return 0


_DEFAULT_RECORDS = 20
_HEAD_FORMAT = pattern(r"([1-9][0-9]{0,11}):([0-9a-f]{8,64})")
_LEADING_FIELDS = ("tool", "arguments", "outcome", "good")
_HIDDEN_FIELDS = {"n", "at", "act", "chain", "sum", "effect", *_LEADING_FIELDS}


def add_audit_options(parser: Parser) -> None:
    parser.add_argument("--since WHEN", "all since yesterday, monday, 2026-03-01, or the last '2 hours'", default="")
    parser.add_argument("-n RECORDS", f"how many (default {_DEFAULT_RECORDS})", type=int, default=_DEFAULT_RECORDS)
    parser.add_argument("--json", "print JSON: the records as they are kept, or with --verify the findings")
    parser.add_argument("--verify", "check that no record was changed or is missing")
    head_help = "with --verify: one noted earlier"
    parser.add_argument("--head N:SUM", head_help, type=_parse_head, repeats=True)


def run_audit(given: Options) -> int:
    home = get_home(os.environ)
    now = get_owner_time(home)
    since = _parse_since(given.since, now) if given.since else 0.0
    with explain_os_errors(ConfigError, f"{home / LOG_NAME} cannot be read"):
        if given.verify:
            return print_results(_verify_logs(home, given.head), as_json=given.json)
        files = hash_chain.list_chain_files(home / LOG_NAME, KEPT_FILES)
        records = [record for file in files[0 if since else -2 :] for record in hash_chain.read_chain(file)]
    if since:
        records = [(line, said) for line, said in records if said is None or _get_timestamp(said) >= since]
    if not records and not given.json:
        print(f"nothing is recorded since {given.since}" if given.since else "nothing is recorded yet")
    render = None if given.json else partial(format_record, zone=now.tzinfo)
    print_records(records, len(records) if since else given.n, render)
    return 0


def _parse_head(text: str) -> AuditHead:
    found = _HEAD_FORMAT.fullmatch(text)
    if not found:
        raise UsageError("write it as it was shown, such as 512:0f3a9c27d1e4b865")
    return AuditHead(int(found[1]), found[2])


def _verify_logs(home: Path, noted: list[AuditHead]) -> "Iterator[CheckResult]":
    with show_progress() as draw:
        found = verify_audit(home, noted, draw)
    if found.fault:  # a record may just have been in the writing
        found = verify_audit(home, noted)
    newest = f"; the newest is {found.head}" if found.good else ""
    yield judge_log(LOG_NAME, found.good, found.fault, newest)
    yield judge_log(outputs.AUDIT_FILE, *outputs.verify(home))


def _parse_since(text: str, now: datetime) -> float:
    for form in (f"since {text}", text, f"last {text}"):
        try:
            return parse_range(form, now).begin.timestamp()
        except ValueError:
            continue
    raise ConfigError(
        f"--since {text!r} is not a time picoclaw knows; write it like yesterday, monday, 2026-03-01, '2 hours'"
    )


def _get_timestamp(said: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(said.get("at"))).timestamp()
    except ValueError:
        return 0.0


def format_record(said: Mapping[str, Any], zone: tzinfo | None = None) -> str:
    """Put a record into a line, with its time in the owner's `zone`."""
    at, good = datetime.fromtimestamp(_get_timestamp(said), UTC).astimezone(zone), said.get("good")
    first = [said.get("tool"), said.get("arguments"), said.get("outcome")]
    first += [("done" if good else "failed")] if isinstance(good, bool) else []
    values = {name: value for name, value in said.items() if name not in _HIDDEN_FIELDS}
    rest = ", ".join(
        f"{name} {'; '.join(map(str, value)) if isinstance(value, list) else value}" for name, value in values.items()
    )
    words = [f"{said.get('n', '?'):>5}  {at:%Y-%m-%d %H:%M:%S}  {said.get('act', '?'):<6}", *filter(None, first)]
    return " ".join([*map(str, words), f"({rest})" if rest else ""]).rstrip()
