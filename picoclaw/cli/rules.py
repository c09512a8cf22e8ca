"""`picoclaw rules`: what happens by itself, in plain words; what is wrong with it; what it has done."""

import argparse
from collections.abc import Callable, Iterable, Mapping

from picoclaw.app import App
from picoclaw.automation import rule_engine, rules
from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.automation.rule_engine import format_outcome
from picoclaw.automation.wakeup import wake_all
from picoclaw.cli.common import add_board_option, open_app
from picoclaw.errors import ConfigError, StoreError
from picoclaw.outputs.supervisor.sensing import read_trusted_time
from picoclaw.store import history_migrations
from picoclaw.store.outbox import Outbox
from picoclaw.store.rule_log import MAX_FIRINGS, RuleLog
from picoclaw.store.samples import ClockReading
from picoclaw.text import escape_unprintable
from picoclaw.tools.rules import list_doubts, list_measured

_DEFAULT_RECORDS = 20


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    add_board_option(parser)
    words = parser.add_subparsers(dest="act", metavar="ACT")
    for name, purpose in (
        ("list", "explain them all, and where each stands (the default)"),
        ("check", "look for mistakes; exit code 1 when there is one"),
        ("explain", "explain one"),
        ("remove", "take one out of rules.toml"),
        ("log", "what rules have done, and the readings that caused it"),
    ):
        word = words.add_parser(name, help=purpose, argument_default=argparse.SUPPRESS, allow_abbrev=False)
        add_board_option(word)
        if name in {"explain", "remove"}:
            word.add_argument("name", metavar="NAME")
        if name == "log":
            word.add_argument("name", metavar="NAME", nargs="?", default="", help="of one rule only")
            word.add_argument(
                "-n",
                metavar="LINES",
                type=_parse_count,
                default=_DEFAULT_RECORDS,
                help=f"how many (default {_DEFAULT_RECORDS})",
            )


def _parse_count(text: str) -> int:
    if text not in map(str, range(1, MAX_FIRINGS + 1)):
        raise argparse.ArgumentTypeError(f"{text[:20]} is not between 1 and {MAX_FIRINGS}")
    return int(text)


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when a rule cannot be followed."""
    with open_app(given, make=False) as app:
        return _SUBCOMMANDS[given.act or "list"](app, given)


def _load_rules(app: App) -> rules.RuleSet:
    """Read the rules as they are now, and have an open chat do so, which may sleep for long without any sensor."""
    wake_all(app.config.home)
    return rules.load_rules(app.config.home, app.now(), str(app.context_builder.zone() or ""))


def _list_rules(app: App, _: argparse.Namespace) -> int:
    found = _load_rules(app)
    if not found.rules and not found.problems:
        print(f"no rules; {found.path} would hold them")
        return 0
    states, unknown = _read_states(app)
    now = _read_clock(app) if states else None
    for one in found.rules.values():
        print(escape_unprintable(rules.explain_rule(one)))
        if now and one.name in states and one.written.enabled:
            print(escape_unprintable(f"    {rule_engine.describe_state(one, states[one.name], now)}"))
    return max(_print_problems(found.problems.values()), _print_problems(unknown, "where they stand cannot be told"))


def _print_problems(problems: Iterable[str], what: str = "not followed") -> int:
    rows = [f"{what}: {problem}" for problem in problems]
    for row in rows:
        print(escape_unprintable(row))
    return 1 if rows else 0


def _read_states(app: App) -> tuple[dict[str, rule_engine.RuleState], list[str]]:
    """Where each rule stands, or why that cannot be known: the rules themselves are in a file of their own."""
    try:
        return _load_states(app), []
    except StoreError as error:
        return {}, [str(error)]


def _load_states(app: App) -> dict[str, rule_engine.RuleState]:
    if not (app.config.home / history_migrations.HISTORY_FILE).exists():
        return {}
    return {name: rule_engine.load_state(text) for name, text in RuleLog(app.stores.chronicle).states().items()}


def _read_clock(app: App) -> ClockReading:
    """Now; only an open chat can tell that nobody has set the date for a while, and has written down so."""
    vouched = read_trusted_time(app.board, app.config.home) is not None or app.stores.samples.dated(read_boot_id())
    return ClockReading(read_boot_id(), boottime(), app.now(), vouched)


def _explain_rule(app: App, given: argparse.Namespace) -> int:
    found = _load_rules(app)
    if given.name in found.problems:
        return _print_problems([found.problems[given.name]])
    if given.name not in found.rules:
        raise ConfigError(f"{found.path} has no rule {given.name!r}; there are: {', '.join(found.rules) or 'none'}")
    one = found.rules[given.name]
    print(escape_unprintable(rules.explain_rule(one)))
    for doubt in _list_doubts(app, one):
        print(escape_unprintable(f"    but {doubt}"))
    return 0


def _list_doubts(app: App, one: rules.Rule) -> list[str]:
    wiring = app.wiring
    return list(list_doubts(one, app.config.home, list_measured(wiring.board, wiring.wired, wiring.drivers)))


def _check_rules(app: App, _: argparse.Namespace) -> int:
    found = _load_rules(app)
    bad = _print_problems(found.problems.values())
    for one in found.rules.values():
        for doubt in _list_doubts(app, one):
            bad = 1
            print(escape_unprintable(f"{one.name}: {doubt}"))
    if not bad:
        print(f"{len(found.rules)} rules, no mistakes")
    return bad


def _remove_rule(app: App, given: argparse.Namespace) -> int:
    rules.remove_rule(app.config.home, given.name)
    wake_all(app.config.home)
    print(f"rule {given.name} is removed")
    return 0


def _show_log(app: App, given: argparse.Namespace) -> int:
    kept = (app.config.home / history_migrations.HISTORY_FILE).exists()
    records = RuleLog(app.stores.chronicle).log(given.n, given.name) if kept else []
    if not records:
        return _report_empty_log(app, given.name)
    waiting = Outbox(app.stores.database).numbers() if (app.config.home / "state.db").exists() else frozenset()
    for record in records:
        at = f"{record.at.astimezone(app.now().tzinfo):%Y-%m-%d %H:%M:%S}{'' if record.trusted else ' (clock not set)'}"
        outcome = format_outcome(record.outcome, waiting) or "outcome unknown: picoclaw was stopped in the middle"
        print(escape_unprintable(f"{at} {record.rule}: {record.why}; {record.acts}: {outcome}"))
    return 0


def _report_empty_log(app: App, name: str) -> int:
    found = _load_rules(app)
    if name and name not in {*found.rules, *found.problems}:
        raise ConfigError(f"no rule {name!r} has done anything, and {found.path} has none of that name")
    print(f"rule {name} has done nothing yet" if name else "no rule has done anything yet")
    return 0


_SUBCOMMANDS: Mapping[str, Callable[[App, argparse.Namespace], int]] = {
    "list": _list_rules,
    "check": _check_rules,
    "explain": _explain_rule,
    "remove": _remove_rule,
    "log": _show_log,
}
