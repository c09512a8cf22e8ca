"""`picoclaw usage`: the tokens and the money that models have taken, by day, model, cause or channel."""

import argparse
from contextlib import closing
from datetime import datetime, timedelta

from picoclaw.config import load_config
from picoclaw.config.tables import CostsConfig
from picoclaw.errors import ConfigError
from picoclaw.providers import ledger
from picoclaw.store.ledger import RETENTION_DAYS, LedgerRows
from picoclaw.stores import Stores
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace.pages import get_owner_time

_DEFAULT_DAYS = 7


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "--days", type=int, default=_DEFAULT_DAYS, metavar="N", help=f"the last N days; {_DEFAULT_DAYS} unless given"
    )
    parser.add_argument("--by", choices=ledger.USAGE_KEYS, default="day", help="what to add it up by; day unless given")
    parser.add_argument("--json", action="store_true", help="print it for programs")


def run(given: argparse.Namespace) -> int:
    """Print it; nothing is made and no server is asked."""
    if not 1 <= given.days <= RETENTION_DAYS:
        raise ConfigError(f"--days must be 1 to {RETENTION_DAYS}, not {given.days}")
    config = load_config()
    now, stores = get_owner_time(config.home), Stores(config)
    last = now.date()
    with closing(stores):
        there = (config.home / "state.db").exists()
        first = last - timedelta(days=given.days - 1)
        rows = stores.accounts.rows(first.isoformat(), last.isoformat()) if there else {}
    of_today = {place: taken for place, taken in rows.items() if place.day == last.isoformat()}
    if given.json:
        print(format_json(_usage_to_dict(rows, of_today, given.by, now, config.costs)))
        return 0
    if not rows:
        print(ledger.NO_USAGE if given.days == RETENTION_DAYS else f"No model was used in {given.days} days.")
        return 0
    for line in (*ledger.format_table(rows, given.by, config.costs), *ledger.format_today(of_today, config.costs)):
        print(escape_unprintable(line))
    return 0


def _usage_to_dict(
    rows: LedgerRows, of_today: LedgerRows, by: str, now: datetime, costs: CostsConfig
) -> dict[str, object]:
    used = ledger.count_use(of_today, costs.by_model)
    day = {"date": now.date().isoformat(), "tokens": used.tokens, "money": used.money}
    limits = {"day_tokens": costs.day_tokens, "day_money": costs.day_money, "percent": used.percent(costs)}
    return {
        "by": by,
        "rows": ledger.list_usage_rows(rows, by),
        "all": ledger.sum_all(rows)._asdict(),
        "today": day | limits,
        "currency": costs.currency,
    }
