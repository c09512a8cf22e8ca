"""How far a day's caps are used, for whom a model is asked still, and how that is said. Pure.

A cap counts the day of the owner's calendar, and every model that costs anything. What nobody waits for stops first.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol, get_args

import apsw

from picoclaw.config.tables import CostsConfig, Price
from picoclaw.errors import OverBudget, ProviderError, Refused, StoreError
from picoclaw.messages import End, Event, Purpose, Request, Text, ToolCall, Usage
from picoclaw.prompts import count_bytes, estimate_tokens
from picoclaw.providers import Provider
from picoclaw.store import ledger
from picoclaw.store.heartbeats import get_last_chat
from picoclaw.store.ledger import CAP_LEVEL_MARK, Ledger, LedgerKey, LedgerRows, LedgerTotals
from picoclaw.store.marks import get_mark, set_mark
from picoclaw.store.outbox import put_message
from picoclaw.window import count_request_bytes

WARN_PERCENT, JOBS_PERCENT, ALL_PERCENT = 80, 90, 100
"""Percent of a cap: the owner is warned, and what nobody has asked for rests; jobs and helpers rest; chats do."""

_LIMIT_PERCENTS = {
    "heartbeat": WARN_PERCENT,
    "dream": WARN_PERCENT,
    "review": WARN_PERCENT,
    "cron": JOBS_PERCENT,
    "rule": JOBS_PERCENT,
    "helper": JOBS_PERCENT,
}
_FREE_PRICE = Price(0, 0)
_CHANNELS = frozenset({"telegram", "page"})
_REST_WARNING = (
    " Heartbeats rest until tomorrow; from 90 % on jobs and helpers do, and at 100 % chats are answered without it."
)


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
    """From which percent of a cap on a model is not asked for a cause; chats, and what they need, have all of it."""
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
    return prices.get(model) or prices.get(_strip_vendor(model)) or dearest


def is_priced(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has given the model's own price."""
    return model in prices or _strip_vendor(model) in prices


def _strip_vendor(model: str) -> str:
    return model.partition(":")[2]


def is_free(prices: Mapping[str, Price], model: str) -> bool:
    """Tell whether the owner has said that a model costs nothing: it counts for no cap, and none stops it."""
    return bool(prices) and get_price(prices, model) == _FREE_PRICE


def count_use(rows: LedgerRows, prices: Mapping[str, Price]) -> DailyUse:
    """Add up what counts for the caps."""
    paid = [taken for place, taken in rows.items() if not is_free(prices, place.model)]
    return DailyUse(sum(taken.tokens for taken in paid), sum(taken.money for taken in paid))


def format_use(used: DailyUse, costs: CostsConfig) -> str:
    """Say what is used of the caps: `12,000 of 50,000 tokens (24 %)`, and the money where there are prices."""
    money = f"{costs.currency or 'in money'}"
    parts = [
        _format_share(
            f"{used.tokens:,}", f"{costs.day_tokens:,}", "tokens", _compute_percent(used.tokens, costs.day_tokens)
        )
    ]
    if costs.prices:
        most = f"{costs.day_money:.2f}" if costs.day_money else "0"
        parts.append(_format_share(f"{used.money:.2f}", most, money, _compute_percent(used.money, costs.day_money)))
    return ", ".join(parts)


def _format_share(used: str, most: str, unit: str, percent: int) -> str:
    return f"{used} {unit}" if most == "0" else f"{used} of {most} {unit} ({percent} %)"


def explain_cap(used: DailyUse, costs: CostsConfig, cause: str) -> str:
    """Say why no model is asked for a cause, '' when one is."""
    if used.percent(costs) < (least := get_limit_percent(cause)):
        return ""
    whom = "" if least == ALL_PERCENT else f" for a {cause.partition(' ')[0]}"
    return f"{format_use(used, costs)} of the day are used, so no model is asked{whom} before tomorrow ([costs])"


def format_warning(used: DailyUse, costs: CostsConfig) -> str:
    """Tell the owner that a cap comes near, and what follows."""
    return f"The model has used {format_use(used, costs)} today.{_REST_WARNING} Reminders, rules and STOP go on; /usage shows it."


def get_channel(session: str) -> str:
    """Name the channel that a chat is held over."""
    name = session.partition(":")[0]
    return name if name in _CHANNELS else "terminal"


def get_seconds_left(now: datetime) -> float:
    """Seconds until the next day, one at least."""
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return max(1.0, tomorrow.timestamp() - now.timestamp())


# The accounts as one part of a process keeps them: a request is entered before it is made, or refused above a cap.


class LedgerEntry(NamedTuple):
    """A request that is being made, with what it was entered for."""

    place: LedgerKey
    entered: LedgerTotals
    price: Price


class UsageLedger:
    """The accounts, as one part of a process keeps them; not to be shared between threads."""

    def __init__(
        self,
        accounts: Ledger,
        costs: CostsConfig,
        now: Callable[[], datetime],
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        """`now` is the owner's wall clock; `ring` is called when there is a letter to be told.

        Raises ConfigError for a price that is none.
        """
        self.accounts, self.costs = accounts, costs
        self._now, self._ring = now, ring
        self._prices = costs.by_model
        self._known = DailyUse()
        self._tells = False

    @property
    def _capped(self) -> bool:
        return bool(self.costs.day_tokens or self.costs.day_money)

    def today(self) -> DailyUse:
        """What counts for the day's caps so far. Raises StoreError."""
        day = self._day()
        return count_use(self.accounts.rows(day, day), self._prices)

    def held(self, cause: str) -> str:
        """Say why no model is asked for a cause now, '' if one is. What the disk does not tell is no reason."""
        try:
            return explain_cap(self.today(), self.costs, cause) if self._capped else ""
        except StoreError:
            return ""

    def begin(self, purpose: Purpose, model: str, prompt: int, completion: int) -> LedgerEntry:
        """Enter a request durably, with the most tokens that it may take. Raises OverBudget, and nothing is entered.

        A disk that takes nothing is no reason not to answer: what is entered then is written when it can be.
        """
        now, cost = self._now(), get_price(self._prices, model)
        place = LedgerKey(now.date().isoformat(), model, purpose.cause, get_channel(purpose.session))
        entered = LedgerTotals(1, prompt, completion, prompt + completion, cost.of(prompt, completion))
        why = ""
        try:
            with self.accounts.transaction() as connection:
                self._look(connection, place.day)
                why = self._why(place)
                if not why:
                    ledger.add_usage(connection, place, entered)
        except StoreError:
            why = self._why(place)
            self._enter_later(place, entered, why)
        self._rung()
        if why:
            raise OverBudget(why, retry_after=get_seconds_left(now))
        return LedgerEntry(place, entered, cost)

    def _why(self, place: LedgerKey) -> str:
        if is_free(self._prices, place.model):
            return ""
        return explain_cap(self._known, self.costs, place.cause) if self._capped else ""

    def _enter_later(self, place: LedgerKey, entered: LedgerTotals, why: str) -> None:
        if not why:
            self.accounts.note(place, entered)
            self._known = DailyUse(self._known.tokens + entered.tokens, self._known.money + entered.money)

    def end(self, line: LedgerEntry, prompt: int, completion: int, *, known: bool) -> None:
        """Correct a request by what it took; unless that is `known`, it stays an estimate. Written with what is next.

        A request that took nothing is none.
        """
        took, tokens = bool(prompt or completion), prompt + completion
        real = LedgerTotals(1, prompt, completion, 0 if known else tokens, line.price.of(prompt, completion))
        self.accounts.note(line.place, (real if took else LedgerTotals()).plus(line.entered, -1))

    @contextmanager
    def along(self, transaction: AbstractContextManager[apsw.Connection]) -> Iterator[apsw.Connection]:
        """Have a transaction keep the corrections as well. Raises StoreError."""
        with self.accounts.along(transaction, lambda connection: self._look(connection, self._day())) as connection:
            yield connection
        self._rung()

    def settle(self) -> None:
        """Write what is noted, if there is anything; what the disk does not take is written later."""
        if self.accounts.unwritten:
            try:
                with self.accounts.transaction() as connection:
                    self._look(connection, self._day())
            except StoreError:
                return
        self._rung()

    def _day(self) -> str:
        return self._now().date().isoformat()

    def _look(self, connection: apsw.Connection, day: str) -> None:
        """See how far the caps are used, and put a letter to the owner into the transaction when one comes near."""
        if not self._capped:
            return
        self._known = count_use(ledger.select_usage(connection, day, day), self._prices)
        level = get_reached_limit(self._known.percent(self.costs))
        before, *steps = get_mark(connection, CAP_LEVEL_MARK).split() or [""]
        told, newest = (int(steps[0]), int(steps[-1])) if before == day else (0, 0)
        if level != newest:
            set_mark(connection, CAP_LEVEL_MARK, f"{day} {max(told, level)} {level}")
        if level and not told:
            text = format_warning(self._known, self.costs)
            put_message(connection, get_last_chat(connection), text, self._now().timestamp())
            self._tells = True

    def _rung(self) -> None:
        if self._tells:
            self._tells = False
            self._ring()


# A model's server, whose requests are entered in the accounts before they are made and corrected afterwards.

ASSUMED_SENT_AFTER_S = 15.0
"""A connection is made or refused within ten: a server that was silent for longer has the request."""

_CAUSES_OUTSIDE_TURNS = frozenset({"dream", "review", "summary", "summon"})
"""Causes whose requests are part of no turn that is kept: their corrections are kept at once."""


class MeteredProvider:
    """A model's server whose requests are entered before they are made."""

    def __init__(
        self, provider: Provider, book: Callable[[], UsageLedger], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """The `book` is opened with a request; `clock` gives seconds."""
        self._provider, self._open, self._clock = provider, book, clock
        self._usual = provider.name

    @property
    def name(self) -> str:
        """See Provider.name."""
        return self._provider.name

    def close(self) -> None:
        """See Provider.close."""
        self._provider.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events; raises OverBudget as well, without having asked."""
        book = self._open()
        guess = estimate_tokens(count_request_bytes(request.system, request.messages, request.tools))
        line = book.begin(request.purpose, self._model(request), guess, request.answer_tokens)
        heard, begun = _Received(), self._clock()
        took = Usage(guess)
        try:
            for event in self._provider.events(request):
                heard.take(event)
                yield event
        except ProviderError as error:
            idle = isinstance(error, Refused) or self._clock() - begun < ASSUMED_SENT_AFTER_S
            took = Usage() if idle and not heard.bytes else took
            raise
        finally:
            _record(book, line, heard, took)
            if request.purpose.cause in _CAUSES_OUTSIDE_TURNS:
                book.settle()

    def _model(self, request: Request) -> str:
        return f"{self._usual.partition(':')[0]}:{request.model}" if request.model else self._usual


def _record(book: UsageLedger, line: LedgerEntry, heard: "_Received", took: Usage) -> None:
    """Correct the entry by the server's count, or by what was heard of the answer."""
    if heard.usage is not None and heard.usage.counted:
        book.end(line, heard.usage.prompt_tokens, heard.usage.completion_tokens, known=True)
    else:
        book.end(line, took.prompt_tokens, estimate_tokens(heard.bytes), known=not took.prompt_tokens)


class _Received:
    """How much of an answer was heard, and how the server counted it, if it did."""

    def __init__(self) -> None:
        self.bytes = 0
        self.usage: Usage | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Text):
            self.bytes += count_bytes(event.text)
        elif isinstance(event, ToolCall):
            self.bytes += count_bytes(event.name) + count_bytes(event.arguments)
        elif isinstance(event, End):
            self.usage = event.usage


# What was taken, added up for a person: by day, model, cause or channel. Pure.

UsageKey = Literal["day", "model", "cause", "channel"]
USAGE_KEYS: tuple[str, ...] = get_args(UsageKey)
NO_USAGE = "No model was used yet."
_RESTING_WORDS = {
    WARN_PERCENT: "heartbeats and dreams rest until tomorrow",
    JOBS_PERCENT: "heartbeats, jobs and helpers rest until tomorrow",
    ALL_PERCENT: "no model is asked until tomorrow",
}


def sum_by(rows: LedgerRows, by: str) -> dict[str, LedgerTotals]:
    """Add up by one of the four: days in their order, the others by how much they took."""
    at, found = LedgerKey._fields.index(by), dict[str, LedgerTotals]()
    for place, taken in rows.items():
        if taken.requests:  # else nobody was there
            found[place[at]] = found.get(place[at], LedgerTotals()).plus(taken)
    if by == "day":
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda row: (-row[1].tokens, row[0])))


def sum_all(rows: LedgerRows) -> LedgerTotals:
    """Add up all of it."""
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
    heads = [by, "requests", "in", "out", "estimated", *([costs.currency or "money"] if costs.prices else [])]
    lines = [heads, *(_format_cells(name, taken, costs) for name, taken in sum_by(rows, by).items())]
    lines.append(_format_cells("all", sum_all(rows), costs))
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        yield "  ".join(
            [f"{first:<{wide[0]}}", *(f"{cell:>{most}}" for cell, most in zip(rest, wide[1:], strict=True))]
        )


def _format_cells(name: str, taken: LedgerTotals, costs: CostsConfig) -> Sequence[str]:
    counts = [f"{number:,}" for number in (taken.requests, taken.prompt, taken.completion, taken.estimated)]
    return [name, *counts, *([f"{taken.money:.4f}"] if costs.prices else [])]


def list_usage_rows(rows: LedgerRows, by: str) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{by: name} | taken._asdict() for name, taken in sum_by(rows, by).items()]


# A server of vectors, whose requests are entered in the accounts like a model's; they stay estimates.

_PURPOSE = Purpose("memory")


class EmbeddingClient(Protocol):
    """What gives texts their vectors: see memory/embedding.py."""

    seconds: float

    @property
    def name(self) -> str:
        """Which vectors these are."""

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Give a row of numbers for each text. Raises ProviderError."""


class MeteredEmbedder:
    """An embedder around one that asks a server."""

    def __init__(
        self, embedder: EmbeddingClient, book: Callable[[], UsageLedger], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """The `book` is opened with a request; `clock` gives seconds."""
        self._embedder, self._open, self._clock = embedder, book, clock

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._embedder.name

    @property
    def dims(self) -> int:
        """See Embedder."""
        return self._embedder.dims

    @property
    def seconds(self) -> float:
        """See Embedder."""
        return self._embedder.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        """See Embedder."""
        self._embedder.seconds = seconds

    def embed(self, texts: Sequence[str]) -> Any:
        """See Embedder; raises OverBudget as well, without having asked."""
        tokens = estimate_tokens(sum(map(count_bytes, texts)))
        if not tokens:
            return self._embedder.embed(texts)
        book = self._open()
        line, begun = book.begin(_PURPOSE, f"vectors:{self.name}", tokens, 0), self._clock()
        try:
            return self._embedder.embed(texts)
        except ProviderError as error:
            if isinstance(error, Refused) or self._clock() - begun < ASSUMED_SENT_AFTER_S:
                book.end(line, 0, 0, known=True)
            raise
