"""What models cost: entered before each request, held against the caps of a day, and shown to a person.

A cap counts the day of the owner's calendar, and every model that costs anything. What nobody waits for stops first.
The rows are store/ledger.py's.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta

from picoclaw.config.tables import CostsConfig, Price
from picoclaw.errors import OverBudget, ProviderError, Refused, StoreError
from picoclaw.messages import End, Event, Purpose, Request, Text, ToolCall, Usage
from picoclaw.prompts import count_bytes, count_request_bytes, estimate_tokens
from picoclaw.records import NamedTuple
from picoclaw.store import ledger
from picoclaw.store.database import StoreConnection, get_mark, set_mark
from picoclaw.store.inbox_outbox import put_message
from picoclaw.store.jobs import get_last_chat
from picoclaw.store.ledger import CAP_LEVEL_MARK, Ledger, LedgerKey, LedgerRows, LedgerTotals

WARN_PERCENT, JOBS_PERCENT, ALL_PERCENT = 80, 90, 100
"""Percent of a cap: the owner is warned, and what nobody has asked for rests; jobs and sub-agents rest; chats do."""

_LIMIT_PERCENTS = {
    **dict.fromkeys(("heartbeat", "dream", "review", "warm"), WARN_PERCENT),
    **dict.fromkeys(("cron", "hook", "rule", "subagent"), JOBS_PERCENT),
}
NO_USAGE_COUNTED = Usage()
_FREE_PRICE = Price(0, 0)
_CHANNELS = frozenset({"telegram", "matrix", "page"})
_WARNING = (
    "The model has used {used} today. Heartbeats are paused until tomorrow; from 90 % on jobs and sub-agents are too, and at 100 %"
    " chats are answered without it. Reminders, rules and STOP go on; /usage shows it."
)

ASSUMED_SENT_AFTER_S = 15.0
"""A connection is made or refused within ten: a server that was silent for longer has the request."""

_CAUSES_OUTSIDE_TURNS = frozenset({"dream", "review", "summary", "summon", "warm"})
"""Causes whose requests are part of no turn that is kept: their corrections are kept at once."""


class DailyUse(NamedTuple):
    """What counts for the caps of a day: tokens and money."""

    tokens: int = 0
    money: float = 0.0

    def percent(self, costs: CostsConfig) -> int:
        """How much of the nearer cap is used; 0 without caps."""
        return max(_compute_percent(self.tokens, costs.day_tokens), _compute_percent(self.money, costs.day_money))


def _compute_percent(used: float, cap: float) -> int:
    return int(used * 100 / cap) if cap else 0


def get_limit_percent(cause: str) -> int:
    """From which percent of a cap on no model is asked for a cause; chats, and what they need, have all of it."""
    return _LIMIT_PERCENTS.get(cause.partition(" ")[0], ALL_PERCENT)


def get_reached_limit(percent: int) -> int:
    """The highest of the steps that is reached, 0 for none."""
    return max((step for step in (WARN_PERCENT, JOBS_PERCENT, ALL_PERCENT) if percent >= step), default=0)


def get_price(prices: Mapping[str, Price], model: str) -> Price:
    """Find a model's price, by its name with or without what goes before the colon.

    One that has none is counted like the dearest there is: a cap on money that counts nothing would be none.
    """
    if not prices:
        return _FREE_PRICE
    dearest = Price(max(one.prompt for one in prices.values()), max(one.completion for one in prices.values()))
    return prices.get(model) or prices.get(model.partition(":")[2]) or dearest


def is_priced(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has given the model's own price."""
    return model in prices or model.partition(":")[2] in prices


def is_free(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has said that a model costs nothing: it counts for no cap, and none stops it."""
    return bool(prices) and get_price(prices, model) == _FREE_PRICE


def count_use(rows: LedgerRows, prices: Mapping[str, Price]) -> DailyUse:
    """Add up what counts for the caps."""
    paid = [taken for place, taken in rows.items() if not is_free(prices, place.model)]
    return DailyUse(sum(taken.tokens for taken in paid), sum(taken.money for taken in paid))


def format_use(used: DailyUse, costs: CostsConfig) -> str:
    """Say what is used of the caps: `12,000 of 50,000 tokens (24 %)`, and the money where there are prices."""
    parts = [f"{used.tokens:,} tokens"]
    if costs.day_tokens:
        percent = _compute_percent(used.tokens, costs.day_tokens)
        parts = [f"{used.tokens:,} of {costs.day_tokens:,} tokens ({percent} %)"]
    if costs.prices:
        unit, money = costs.currency or "in money", f"{used.money:.2f}"
        share = f" of {costs.day_money:.2f} {unit} ({_compute_percent(used.money, costs.day_money)} %)"
        parts.append(f"{money}{share}" if costs.day_money else f"{money} {unit}")
    return ", ".join(parts)


def explain_cap(used: DailyUse, costs: CostsConfig, cause: str) -> str:
    """Say why no model is asked for a cause, '' when one is."""
    if used.percent(costs) < (least := get_limit_percent(cause)):
        return ""
    whom = "" if least == ALL_PERCENT else f" for a {cause.partition(' ')[0]}"
    return f"{format_use(used, costs)} of the day are used, so no model is asked{whom} before tomorrow ([costs])"


def get_seconds_left(now: datetime) -> float:
    """Seconds until the next day, one at least."""
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return max(1.0, tomorrow.timestamp() - now.timestamp())


def list_payers(agent: str, cause: str) -> list[str]:
    """The agents that a request counts for: the one that makes it, and those that it does it for, as the cause says."""
    kind, _, askers = cause.partition(" ")
    return [agent, *(askers.split("/") if kind == "subagent" and askers else ())]


class LedgerEntry(NamedTuple):
    """A request that is being made, with what it was entered for."""

    place: LedgerKey
    entered: LedgerTotals
    price: Price


class CountedAnswer:
    """How long an answer is, in bytes, and how the server counted it, if it did."""

    def __init__(self) -> None:
        self.bytes = 0
        self.usage: Usage | None = None

    def count(self, event: Event) -> None:
        if isinstance(event, Text):
            self.bytes += count_bytes(event.text)
        elif isinstance(event, ToolCall):
            self.bytes += count_bytes(event.name) + count_bytes(event.arguments)
        elif isinstance(event, End):
            self.usage = event.usage


class UsageLedger:
    """The accounts, as one part of a process keeps them; not to be shared between threads."""

    def __init__(
        self,
        accounts: Ledger,
        costs: CostsConfig,
        now: Callable[[], datetime],
        ring: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        *,
        agent: str = "",
        person: str = "",
        caps: Mapping[str, CostsConfig] | None = None,
    ) -> None:
        """`now` is the owner's wall clock; `ring` is called when there is a message for the owner to be delivered.

        `agent` and `person` are those of the entries: see LedgerKey. `caps` are those of single agents, by their keys; what
        one does for another, as the cause says, counts for both.

        Raises ConfigError for a price that is none.
        """
        self.accounts, self.costs = accounts, costs
        self._now, self._ring, self._clock = now, ring, clock
        self._agent, self._person = agent, person
        self._prices = costs.by_model
        self._caps = {"": costs, **(caps or {})}
        self._has_caps = bool(costs.day_tokens or costs.day_money or caps)
        self._used = dict.fromkeys(self._caps, DailyUse())
        self._has_message = False

    def today(self) -> DailyUse:
        """What counts for the day's caps so far. Raises StoreError."""
        day = self._day()
        return count_use(self.accounts.rows(day, day), self._prices)

    def explain_cap(self, cause: str) -> str:
        """Say why no model is asked for a cause now, '' if one is. What the disk does not tell is no reason."""
        if not self._has_caps:
            return ""
        try:
            day = self._day()
            self._count(self.accounts.rows(day, day))
        except StoreError:
            return ""
        return self._explain(cause)

    def _count(self, rows: LedgerRows) -> None:
        """See what of the caps is used."""
        for key in self._caps:
            own = {at: taken for at, taken in rows.items() if not key or key in list_payers(at.agent, at.cause)}
            self._used[key] = count_use(own, self._prices)

    def _explain(self, cause: str) -> str:
        for key in ("", *list_payers(self._agent, cause)):
            if key in self._caps and (why := explain_cap(self._used[key], self._caps[key], cause)):
                return f"the agent {key}: {why.replace('[costs]', f'[agents.{key}]')}" if key else why
        return ""

    @contextmanager
    def record(self, request: Request, model: str) -> Iterator[CountedAnswer]:
        """Enter a request that is made within, and correct it by the answer, whose events are to be counted.

        Raises OverBudget instead above a cap. What no server has counted stays an estimate.
        """
        prompt = estimate_tokens(count_request_bytes(request.system, request.messages, request.tools))
        entry = self.begin(request.purpose, model, prompt, request.answer_tokens)
        answer, begun = CountedAnswer(), self._clock()
        try:
            yield answer
        except ProviderError as error:
            if not answer.bytes and self._was_not_sent(error, begun):
                prompt = 0
            raise
        finally:
            if answer.usage is not None and answer.usage.counted:
                self.end(
                    entry, answer.usage.prompt_tokens, answer.usage.completion_tokens, known=True, usage=answer.usage
                )
            else:
                self.end(entry, prompt, estimate_tokens(answer.bytes), known=not prompt)
            if request.purpose.cause in _CAUSES_OUTSIDE_TURNS:
                self.settle()

    @contextmanager
    def record_vectors(self, texts: Sequence[str], name: str) -> Iterator[None]:
        """Enter a request for the vectors of texts that is made within; it stays an estimate. Raises OverBudget."""
        if not (tokens := estimate_tokens(sum(map(count_bytes, texts)))):
            yield
            return
        entry, begun = self.begin(Purpose("memory"), f"vectors:{name}", tokens, 0), self._clock()
        try:
            yield
        except ProviderError as error:
            if self._was_not_sent(error, begun):
                self.end(entry, 0, 0, known=True)
            raise

    def _was_not_sent(self, error: ProviderError, begun: float) -> bool:
        return isinstance(error, Refused) or self._clock() - begun < ASSUMED_SENT_AFTER_S

    def begin(self, purpose: Purpose, model: str, prompt: int, completion: int) -> LedgerEntry:
        """Write a request down, with the most tokens that it may take. Raises OverBudget, and nothing is entered.

        A disk that takes nothing is no reason not to answer: what is entered then is written when it can be.
        """
        now, price = self._now(), get_price(self._prices, model)
        channel = purpose.session.partition(":")[0]
        channel = channel if channel in _CHANNELS else "terminal"
        place = LedgerKey(now.date().isoformat(), model, purpose.cause, channel, self._agent, self._person)
        entered = LedgerTotals(1, prompt, completion, prompt + completion, price.of(prompt, completion))
        counts = self._has_caps and not is_free(self._prices, model)
        try:
            # a cap holds after a power cut as well; without one the accounts are not worth a sync for each request
            with self.accounts.transaction(sync=counts) as connection:
                self._update_use(connection, place.day)
                why = self._explain(place.cause) if counts else ""
                if not why:
                    ledger.add_usage(connection, place, entered)
        except StoreError:
            why = self._explain(place.cause) if counts else ""
            if not why:
                self.accounts.note(place, entered)
                for key in {"", *list_payers(place.agent, place.cause)} & self._used.keys():
                    used = self._used[key]
                    self._used[key] = DailyUse(used.tokens + entered.tokens, used.money + entered.money)
        self._ring_for_message()
        if why:
            raise OverBudget(why, retry_after=get_seconds_left(now))
        return LedgerEntry(place, entered, price)

    def end(
        self, entry: LedgerEntry, prompt: int, completion: int, *, known: bool, usage: Usage = NO_USAGE_COUNTED
    ) -> None:
        """Correct a request by what it took; unless that is `known`, it stays an estimate. Written with what is next.

        A request that took nothing is none.
        """
        tokens = prompt + completion
        money = entry.price.of(prompt, completion)
        real = LedgerTotals(1, prompt, completion, 0 if known else tokens, money, usage.cached, usage.reasoning)
        self.accounts.note(entry.place, (real if tokens else LedgerTotals()).plus(entry.entered, -1))

    @contextmanager
    def along(self, transaction: AbstractContextManager[StoreConnection]) -> Iterator[StoreConnection]:
        """Have a transaction keep the corrections as well. Raises StoreError."""
        with self.accounts.along(transaction, lambda found: self._update_use(found, self._day())) as connection:
            yield connection
        self._ring_for_message()

    def settle(self) -> None:
        """Write what is noted, if there is anything; what the disk does not take is written later."""
        if self.accounts.unwritten:
            try:
                with self.accounts.transaction() as connection:
                    self._update_use(connection, self._day())
            except StoreError:
                return
        self._ring_for_message()

    def _day(self) -> str:
        return self._now().date().isoformat()

    def _update_use(self, connection: StoreConnection, day: str) -> None:
        """See how far the caps are used, and put a message to the owner into the transaction when one comes near."""
        if not self._has_caps:
            return
        self._count(ledger.select_usage(connection, day, day))
        level = get_reached_limit(self._used[""].percent(self.costs))
        before, *steps = get_mark(connection, CAP_LEVEL_MARK).split() or [""]
        warned, newest = (int(steps[0]), int(steps[-1])) if before == day else (0, 0)
        if level != newest:
            set_mark(connection, CAP_LEVEL_MARK, f"{day} {max(warned, level)} {level}")
        if level and not warned:
            text = _WARNING.format(used=format_use(self._used[""], self.costs))
            put_message(connection, get_last_chat(connection), text, self._now().timestamp())
            self._has_message = True

    def _ring_for_message(self) -> None:
        if self._has_message:
            self._has_message = False
            self._ring()


# What was taken, added up for a person: by a part of its key. Pure.

USAGE_KEYS = LedgerKey._fields
NO_USAGE = "No model was used yet."
_RESTING_WORDS = {
    WARN_PERCENT: "heartbeats and dreams are paused until tomorrow",
    JOBS_PERCENT: "heartbeats, jobs and sub-agents are paused until tomorrow",
    ALL_PERCENT: "no model is asked until tomorrow",
}


def sum_by(rows: LedgerRows, by: str) -> dict[str, LedgerTotals]:
    """Add up by one of these: days in their order, the others by how much they took."""
    at, found = LedgerKey._fields.index(by), dict[str, LedgerTotals]()
    for place, taken in rows.items():
        if taken.requests:  # else nobody was there
            found[place[at]] = found.get(place[at], LedgerTotals()).plus(taken)
    if by == "day":
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda row: (-row[1].tokens, row[0])))


def sum_all(rows: LedgerRows) -> LedgerTotals:
    found = LedgerTotals()
    for taken in rows.values():
        found = found.plus(taken)
    return found


def format_today(rows: LedgerRows, costs: CostsConfig) -> Iterator[str]:
    """Say in lines what a day has taken, for what, and what rests because of that."""
    if not (rows or costs.day_tokens or costs.day_money):
        return
    used = count_use(rows, prices := costs.by_model)
    causes = ", ".join(f"{cause} {taken.tokens:,}" for cause, taken in sum_by(rows, "cause").items() if taken.tokens)
    yield f"today {format_use(used, costs)}{f': {causes}' if causes else ''}"
    if step := get_reached_limit(used.percent(costs)):
        yield f"{_RESTING_WORDS[step]}, because of the caps under [costs]"
    if estimated := sum_all(rows).estimated:
        yield f"{estimated:,} of these tokens were counted by no server, and are estimated"
    if unknown := sorted(
        {place.model for place, taken in rows.items() if taken.tokens and prices and not is_priced(prices, place.model)}
    ):
        yield f"without a price under [costs.prices], and so counted like the dearest: {', '.join(unknown)}"


def format_table(rows: LedgerRows, by: str, costs: CostsConfig) -> Iterator[str]:
    """Lay it out in columns, with a line of sums at the end."""
    details = [name for name in ("cached", "reasoning") if any(getattr(taken, name) for taken in rows.values())]
    heads = [by, "requests", "in", "out", "estimated", *details, *([costs.currency or "money"] if costs.prices else [])]
    lines = [heads, *(_format_cells(name, taken, costs, details) for name, taken in sum_by(rows, by).items())]
    lines.append(_format_cells("all", sum_all(rows), costs, details))
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        yield "  ".join(
            [f"{first:<{wide[0]}}", *(f"{cell:>{most}}" for cell, most in zip(rest, wide[1:], strict=True))]
        )


def _format_cells(name: str, taken: LedgerTotals, costs: CostsConfig, details: Sequence[str]) -> list[str]:
    shown = (getattr(taken, detail) for detail in ("requests", "prompt", "completion", "estimated", *details))
    counts = [f"{number:,}" for number in shown]
    return [name, *counts, *([f"{taken.money:.4f}"] if costs.prices else [])]
