"""`picoclaw rules`: what happens by itself, in plain words; what is wrong with it; what it has done."""

import argparse
from collections.abc import Callable, Iterable, Mapping

from picoclaw.app import App
from picoclaw.cli.common import board_option, opened, printable
from picoclaw.errors import ConfigError, StoreError
from picoclaw.reflex.bell import ring
from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.reflex.keeper.trust import trusted_wall
from picoclaw.rules import book, evaluate, rule
from picoclaw.rules.engine import outcome_now
from picoclaw.store import chronicle
from picoclaw.store.firings import KEPT, Firings
from picoclaw.store.outbox import Outbox
from picoclaw.store.points import Moment
from picoclaw.tools.ruling import doubts_of, measured
from picoclaw.watch import zone_name

_LAST = 20


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    board_option(parser)
    words = parser.add_subparsers(dest="act", metavar="ACT")
    for name, purpose in (
        ("list", "explain them all, and where each stands (the default)"),
        ("check", "look for mistakes; exit code 1 when there is one"),
        ("explain", "explain one"),
        ("remove", "take one out of rules.toml"),
        ("log", "what rules have done, and the readings that caused it"),
    ):
        word = words.add_parser(name, help=purpose, argument_default=argparse.SUPPRESS, allow_abbrev=False)
        board_option(word)
        if name in {"explain", "remove"}:
            word.add_argument("name", metavar="NAME")
        if name == "log":
            word.add_argument("name", metavar="NAME", nargs="?", default="", help="of one rule only")
            word.add_argument("-n", metavar="LINES", type=_lines, default=_LAST, help=f"how many (default {_LAST})")


def _lines(text: str) -> int:
    if text not in map(str, range(1, KEPT + 1)):
        raise argparse.ArgumentTypeError(f"{text[:20]} is not between 1 and {KEPT}")
    return int(text)


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when a rule cannot be followed."""
    with opened(given, make=False) as app:
        return _ACTS[given.act or "list"](app, given)


def _book(app: App) -> book.Book:
    """Read the rules as they are now, and have an open chat do so, which may sleep for long without any sensor."""
    ring(app.config.home)
    return book.load(app.config.home, app.now(), zone_name(app.briefing.zone()))


def _list(app: App, _: argparse.Namespace) -> int:
    found = _book(app)
    if not found.rules and not found.problems:
        print(f"no rules; {found.path} would hold them")
        return 0
    states, unknown = _standing(app)
    now = _moment(app) if states else None
    for one in found.rules.values():
        print(printable(rule.explained(one)))
        if now and one.name in states and one.written.enabled:
            print(printable(f"    {evaluate.standing(one, states[one.name], now)}"))
    return max(_complain(found.problems.values()), _complain(unknown, "where they stand cannot be told"))


def _complain(problems: Iterable[str], what: str = "not followed") -> int:
    rows = [f"{what}: {problem}" for problem in problems]
    for row in rows:
        print(printable(row))
    return 1 if rows else 0


def _standing(app: App) -> tuple[dict[str, evaluate.State], list[str]]:
    """Where each rule stands, or why that cannot be known: the rules themselves are in a file of their own."""
    try:
        return _states(app), []
    except StoreError as error:
        return {}, [str(error)]


def _states(app: App) -> dict[str, evaluate.State]:
    if not (app.config.home / chronicle.NAME).exists():
        return {}
    return {name: evaluate.loaded(text) for name, text in Firings(app.stores.chronicle).states().items()}


def _moment(app: App) -> Moment:
    """Now; only an open chat can tell that nobody has set the date for a while, and has written down so."""
    vouched = trusted_wall(app.board, app.config.home) is not None or app.stores.samples.dated(boot_id())
    return Moment(boot_id(), boottime(), app.now(), vouched)


def _explain(app: App, given: argparse.Namespace) -> int:
    found = _book(app)
    if given.name in found.problems:
        return _complain([found.problems[given.name]])
    if given.name not in found.rules:
        raise ConfigError(f"{found.path} has no rule {given.name!r}; there are: {', '.join(found.rules) or 'none'}")
    one = found.rules[given.name]
    print(printable(rule.explained(one)))
    for doubt in _doubts(app, one):
        print(printable(f"    but {doubt}"))
    return 0


def _doubts(app: App, one: rule.Rule) -> list[str]:
    wiring = app.wiring
    return list(doubts_of(one, app.config.home, measured(wiring.board, wiring.wired, wiring.drivers)))


def _check(app: App, _: argparse.Namespace) -> int:
    found = _book(app)
    bad = _complain(found.problems.values())
    for one in found.rules.values():
        for doubt in _doubts(app, one):
            bad = 1
            print(printable(f"{one.name}: {doubt}"))
    if not bad:
        print(f"{len(found.rules)} rules, no mistakes")
    return bad


def _remove(app: App, given: argparse.Namespace) -> int:
    book.remove(app.config.home, given.name)
    ring(app.config.home)
    print(f"rule {given.name} is removed")
    return 0


def _log(app: App, given: argparse.Namespace) -> int:
    kept = (app.config.home / chronicle.NAME).exists()
    records = Firings(app.stores.chronicle).log(given.n, given.name) if kept else []
    if not records:
        return _log_empty(app, given.name)
    waiting = Outbox(app.stores.database).numbers() if (app.config.home / "state.db").exists() else frozenset()
    for record in records:
        at = f"{record.at.astimezone(app.now().tzinfo):%Y-%m-%d %H:%M:%S}{'' if record.trusted else ' (clock not set)'}"
        outcome = outcome_now(record.outcome, waiting) or "outcome unknown: picoclaw was stopped in the middle"
        print(printable(f"{at} {record.rule}: {record.why}; {record.acts}: {outcome}"))
    return 0


def _log_empty(app: App, name: str) -> int:
    found = _book(app)
    if name and name not in {*found.rules, *found.problems}:
        raise ConfigError(f"no rule {name!r} has done anything, and {found.path} has none of that name")
    print(f"rule {name} has done nothing yet" if name else "no rule has done anything yet")
    return 0


_ACTS: Mapping[str, Callable[[App, argparse.Namespace], int]] = {
    "list": _list,
    "check": _check,
    "explain": _explain,
    "remove": _remove,
    "log": _log,
}
