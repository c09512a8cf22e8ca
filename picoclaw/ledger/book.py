"""The accounts as one part of a process keeps them: a request is entered before it is made, or refused above a cap."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import NamedTuple

import apsw

from picoclaw.config import CostsConfig
from picoclaw.config.prices import Price
from picoclaw.errors import OverBudget, StoreError
from picoclaw.ledger import caps
from picoclaw.ledger.caps import Day
from picoclaw.messages import Purpose
from picoclaw.store import ledger
from picoclaw.store.beats import last_chat
from picoclaw.store.ledger import LEVEL, Ledger, Place, Taken
from picoclaw.store.marks import mark, set_mark
from picoclaw.store.outbox import put


class Line(NamedTuple):
    """A request that is being made, with what it was entered for."""

    place: Place
    entered: Taken
    price: Price


class Book:
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
        self._known = Day()
        self._tells = False

    @property
    def _capped(self) -> bool:
        return bool(self.costs.day_tokens or self.costs.day_money)

    def today(self) -> Day:
        """What counts for the day's caps so far. Raises StoreError."""
        day = self._day()
        return caps.counted(self.accounts.rows(day, day), self._prices)

    def held(self, cause: str) -> str:
        """Say why no model is asked for a cause now, '' if one is. What the disk does not tell is no reason."""
        try:
            return caps.refusal(self.today(), self.costs, cause) if self._capped else ""
        except StoreError:
            return ""

    def begin(self, purpose: Purpose, model: str, prompt: int, completion: int) -> Line:
        """Enter a request durably, with the most tokens that it may take. Raises OverBudget, and nothing is entered.

        A disk that takes nothing is no reason not to answer: what is entered then is written when it can be.
        """
        now, cost = self._now(), caps.price(self._prices, model)
        place = Place(now.date().isoformat(), model, purpose.cause, caps.channel_of(purpose.session))
        entered = Taken(1, prompt, completion, prompt + completion, cost.of(prompt, completion))
        why = ""
        try:
            with self.accounts.transaction() as connection:
                self._look(connection, place.day)
                why = self._why(place)
                if not why:
                    ledger.add(connection, place, entered)
        except StoreError:
            why = self._why(place)
            self._enter_later(place, entered, why)
        self._rung()
        if why:
            raise OverBudget(why, retry_after=caps.seconds_left(now))
        return Line(place, entered, cost)

    def _why(self, place: Place) -> str:
        if caps.is_free(self._prices, place.model):
            return ""
        return caps.refusal(self._known, self.costs, place.cause) if self._capped else ""

    def _enter_later(self, place: Place, entered: Taken, why: str) -> None:
        if not why:
            self.accounts.note(place, entered)
            self._known = Day(self._known.tokens + entered.tokens, self._known.money + entered.money)

    def end(self, line: Line, prompt: int, completion: int, *, known: bool) -> None:
        """Correct a request by what it took; unless that is `known`, it stays an estimate. Written with what is next.

        A request that took nothing is none.
        """
        took, tokens = bool(prompt or completion), prompt + completion
        real = Taken(1, prompt, completion, 0 if known else tokens, line.price.of(prompt, completion))
        self.accounts.note(line.place, (real if took else Taken()).plus(line.entered, -1))

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
        self._known = caps.counted(ledger.rows(connection, day, day), self._prices)
        level = caps.reached(self._known.percent(self.costs))
        before, *steps = mark(connection, LEVEL).split() or [""]
        told, newest = (int(steps[0]), int(steps[-1])) if before == day else (0, 0)
        if level != newest:
            set_mark(connection, LEVEL, f"{day} {max(told, level)} {level}")
        if level and not told:
            text = caps.warning(self._known, self.costs)
            put(connection, last_chat(connection), text, self._now().timestamp())
            self._tells = True

    def _rung(self) -> None:
        if self._tells:
            self._tells = False
            self._ring()
