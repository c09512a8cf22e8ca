"""How far a day's caps are used, for whom a model is asked still, and how that is said. Pure.

A cap counts the day of the owner's calendar, and every model that costs anything. What nobody waits for stops first.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from picoclaw.config import CostsConfig
from picoclaw.config.prices import Price
from picoclaw.store.ledger import Rows

WARNED, JOBS_REST, ALL_REST = 80, 90, 100
"""Percent of a cap: the owner is warned, and what nobody has asked for rests; jobs and helpers rest; chats do."""

_RESTS_AT = {
    "heartbeat": WARNED,
    "dream": WARNED,
    "review": WARNED,
    "cron": JOBS_REST,
    "rule": JOBS_REST,
    "helper": JOBS_REST,
}
_FREE = Price(0, 0)
_CHANNELS = frozenset({"telegram", "page"})
_REST = " Heartbeats rest until tomorrow; from 90 % on jobs and helpers do, and at 100 % chats are answered without it."


class Day(NamedTuple):
    """What counts for the caps of a day: tokens and money."""

    tokens: int = 0
    money: float = 0.0

    def percent(self, costs: CostsConfig) -> int:
        """How much of the nearer cap is used; 0 without caps."""
        return max(_percent(self.tokens, costs.day_tokens), _percent(self.money, costs.day_money))


def _percent(used: float, cap: float) -> int:
    return int(used * 100 / cap) if cap else 0


def rests_at(cause: str) -> int:
    """From which percent of a cap on a model is not asked for a cause; chats, and what they need, have all of it."""
    return _RESTS_AT.get(cause.partition(" ")[0], ALL_REST)


def reached(percent: int) -> int:
    """The highest of the steps that is reached, 0 for none."""
    return max((step for step in (WARNED, JOBS_REST, ALL_REST) if percent >= step), default=0)


def price(prices: Mapping[str, Price], model: str) -> Price:
    """Find a model's price, by its name with or without what goes before the colon.

    One that has none is counted like the dearest there is: a cap on money that counts nothing would be none.
    """
    if not prices:
        return _FREE
    dearest = Price(max(one.prompt for one in prices.values()), max(one.completion for one in prices.values()))
    return prices.get(model) or prices.get(_bare(model)) or dearest


def is_priced(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has given the model's own price."""
    return model in prices or _bare(model) in prices


def _bare(model: str) -> str:
    return model.partition(":")[2]


def is_free(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has said that a model costs nothing: it counts for no cap, and none stops it."""
    return bool(prices) and price(prices, model) == _FREE


def counted(rows: Rows, prices: Mapping[str, Price]) -> Day:
    """Add up what counts for the caps."""
    paid = [taken for place, taken in rows.items() if not is_free(prices, place.model)]
    return Day(sum(taken.tokens for taken in paid), sum(taken.money for taken in paid))


def worded(used: Day, costs: CostsConfig) -> str:
    """Say what is used of the caps: `12,000 of 50,000 tokens (24 %)`, and the money where there are prices."""
    money = f"{costs.currency or 'in money'}"
    parts = [_of(f"{used.tokens:,}", f"{costs.day_tokens:,}", "tokens", _percent(used.tokens, costs.day_tokens))]
    if costs.prices:
        most = f"{costs.day_money:.2f}" if costs.day_money else "0"
        parts.append(_of(f"{used.money:.2f}", most, money, _percent(used.money, costs.day_money)))
    return ", ".join(parts)


def _of(used: str, most: str, unit: str, percent: int) -> str:
    return f"{used} {unit}" if most == "0" else f"{used} of {most} {unit} ({percent} %)"


def refusal(used: Day, costs: CostsConfig, cause: str) -> str:
    """Say why no model is asked for a cause, '' when one is."""
    if used.percent(costs) < (least := rests_at(cause)):
        return ""
    whom = "" if least == ALL_REST else f" for a {cause.partition(' ')[0]}"
    return f"{worded(used, costs)} of the day are used, so no model is asked{whom} before tomorrow ([costs])"


def warning(used: Day, costs: CostsConfig) -> str:
    """Tell the owner that a cap comes near, and what follows."""
    return f"The model has used {worded(used, costs)} today.{_REST} Reminders, rules and STOP go on; /usage shows it."


def channel_of(session: str) -> str:
    """Name the channel that a chat is held over."""
    name = session.partition(":")[0]
    return name if name in _CHANNELS else "terminal"


def seconds_left(now: datetime) -> float:
    """Seconds until the next day, one at least."""
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return max(1.0, tomorrow.timestamp() - now.timestamp())
