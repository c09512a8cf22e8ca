"""`picoclaw usage`: the tokens and the money that models have taken, by day, model, cause, channel, agent or person."""

from contextlib import closing
from datetime import timedelta

from picoclaw.cli.arguments import Options, Parser, parse_days
from picoclaw.cli.common import print_safe
from picoclaw.config import load_config
from picoclaw.providers import ledger
from picoclaw.store.ledger import RETENTION_DAYS
from picoclaw.stores import Stores
from picoclaw.text import format_json
from picoclaw.workspace.pages import get_owner_time

_DEFAULT_DAYS = 7


def options(parser: Parser) -> None:
    parser.add_argument(
        "--days",
        type=parse_days(1, RETENTION_DAYS),
        default=_DEFAULT_DAYS,
        metavar="DAYS",
        help=f"how many days: 30, 30d, 4w (default {_DEFAULT_DAYS})",
    )
    parser.add_argument("--by", choices=ledger.USAGE_KEYS, default="day", help="group by (default: day)")
    parser.add_flag("--json", help="print JSON")


def run(given: Options) -> int:
    """Print it; nothing is made and no server is asked."""
    config = load_config()
    costs, stores, last = config.costs, Stores(config), get_owner_time(config.home).date()
    with closing(stores):
        first = last - timedelta(days=given.days - 1)
        is_there = (config.home / "state.db").exists()
        found = stores.accounts.rows(first.isoformat(), last.isoformat()) if is_there else {}
    own = config.default_agent
    rows = {
        place._replace(agent=place.agent or own, person=place.person or "owner"): taken
        for place, taken in found.items()
    }
    of_today = {place: taken for place, taken in rows.items() if place.day == last.isoformat()}
    if given.json:
        used = ledger.count_use(of_today, costs.by_model)
        day = {"date": last.isoformat(), "tokens": used.tokens, "money": used.money}
        caps = {"day_tokens": costs.day_tokens, "day_money": costs.day_money, "percent": used.percent(costs)}
        sums = {"rows": ledger.list_usage_rows(rows, given.by), "all": ledger.sum_all(rows)._asdict()}
        print(format_json({"by": given.by, **sums, "today": day | caps, "currency": costs.currency}))
    elif not rows:
        print(ledger.NO_USAGE if given.days == RETENTION_DAYS else f"No model was used in {given.days} days.")
    else:
        print_safe(*ledger.format_table(rows, given.by, costs), *ledger.format_today(of_today, costs))
    return 0
