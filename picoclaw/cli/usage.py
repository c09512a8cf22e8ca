"""`picoclaw usage`: the tokens and the money that models have taken, by day, model, cause or channel."""

import argparse
from contextlib import closing
from datetime import datetime, timedelta

from picoclaw.cli.common import json_text, printable
from picoclaw.config import CostsConfig, load
from picoclaw.errors import ConfigError
from picoclaw.ledger import caps, report
from picoclaw.store.ledger import KEPT_DAYS, Rows
from picoclaw.stores import Stores
from picoclaw.workspace.pages import owner_time

_DAYS = 7


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--days", type=int, default=_DAYS, metavar="N", help=f"the last N days; {_DAYS} unless given")
    parser.add_argument("--by", choices=report.WAYS, default="day", help="what to add it up by; day unless given")
    parser.add_argument("--json", action="store_true", help="print it for programs")


def run(given: argparse.Namespace) -> int:
    """Print it; nothing is made and no server is asked."""
    if not 1 <= given.days <= KEPT_DAYS:
        raise ConfigError(f"--days must be 1 to {KEPT_DAYS}, not {given.days}")
    config = load()
    now, stores = owner_time(config.home), Stores(config)
    last = now.date()
    with closing(stores):
        there = (config.home / "state.db").exists()
        first = last - timedelta(days=given.days - 1)
        rows = stores.accounts.rows(first.isoformat(), last.isoformat()) if there else {}
    of_today = {place: taken for place, taken in rows.items() if place.day == last.isoformat()}
    if given.json:
        print(json_text(_as_json(rows, of_today, given.by, now, config.costs)))
        return 0
    if not rows:
        print(report.NONE if given.days == KEPT_DAYS else f"No model was used in {given.days} days.")
        return 0
    for line in (*report.table(rows, given.by, config.costs), *report.today(of_today, config.costs)):
        print(printable(line))
    return 0


def _as_json(rows: Rows, of_today: Rows, by: str, now: datetime, costs: CostsConfig) -> dict[str, object]:
    used = caps.counted(of_today, costs.by_model)
    day = {"date": now.date().isoformat(), "tokens": used.tokens, "money": used.money}
    limits = {"day_tokens": costs.day_tokens, "day_money": costs.day_money, "percent": used.percent(costs)}
    return {
        "by": by,
        "rows": report.as_json(rows, by),
        "all": report.total(rows)._asdict(),
        "today": day | limits,
        "currency": costs.currency,
    }
