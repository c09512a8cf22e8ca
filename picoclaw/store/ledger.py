"""What models have taken, in `state.db`: a sum for each day, model, cause and channel, and nothing of what was said.

A request is added before it is made, with what it may take at most, and corrected afterwards. The correction is kept
with whatever is kept next, so that a request costs the card one transaction and no more; if it is lost to a cut, the
estimate stands, and is known to be one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import apsw

from picoclaw.store.database import Database, storable
from picoclaw.store.marks import mark

KEPT_DAYS = 800
"""Days on which something was asked."""

LEVEL = "costs.level"
"""The mark that names a day, and two steps of a cap, in percent: the highest reached on it, and the newest."""

_ADD = """
    INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
        requests = requests + excluded.requests, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens, estimated = estimated + excluded.estimated,
        money = money + excluded.money
"""
_ROWS = """
    SELECT day, model, cause, channel, requests, prompt_tokens, completion_tokens, estimated, money FROM ledger
    WHERE day BETWEEN ? AND ? ORDER BY 1, 2, 3, 4
"""
_OLD = "DELETE FROM ledger WHERE day <= (SELECT DISTINCT day FROM ledger ORDER BY day DESC LIMIT 1 OFFSET ?)"


class Place(NamedTuple):
    """Where something is added up: an ISO date, the model, what it was for, and the channel that it was asked over."""

    day: str
    model: str
    cause: str
    channel: str


class Taken(NamedTuple):
    """Requests, tokens in and out, how many of those are only estimated, and money. Corrections are below zero."""

    requests: int = 0
    prompt: int = 0
    completion: int = 0
    estimated: int = 0
    money: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.prompt + self.completion

    def plus(self, other: "Taken", times: int = 1) -> "Taken":
        """The sum of both; -1 `times` takes the other away."""
        return Taken(
            self.requests + times * other.requests,
            self.prompt + times * other.prompt,
            self.completion + times * other.completion,
            self.estimated + times * other.estimated,
            self.money + times * other.money,
        )


Rows = dict[Place, Taken]


class Ledger:
    """The sums of one database, and what is still to be added to them."""

    def __init__(self, database: Callable[[], Database]) -> None:
        """Work on a database, which is opened when it is needed."""
        self._database = database
        self.unwritten: Rows = {}

    def note(self, place: Place, taken: Taken) -> None:
        """Have something added with what is written next."""
        self.unwritten[place] = self.unwritten.get(place, Taken()).plus(taken)

    def transaction(self) -> AbstractContextManager[apsw.Connection]:
        """A transaction that begins with what was noted. Raises StoreError; what was noted stays noted then."""
        return self._cleared(self._database().transaction())

    @contextmanager
    def _cleared(self, transaction: AbstractContextManager[apsw.Connection]) -> Iterator[apsw.Connection]:
        with transaction as connection:
            for place, taken in self.unwritten.items():
                add(connection, place, taken)
            yield connection
        self.unwritten.clear()

    @contextmanager
    def along(
        self, transaction: AbstractContextManager[apsw.Connection], last: Callable[[apsw.Connection], None]
    ) -> Iterator[apsw.Connection]:
        """Have another's transaction keep what was noted; `last` is done in it at its end. Raises StoreError."""
        with self._cleared(transaction) as connection:
            yield connection
            last(connection)

    def rows(self, first: str, last: str) -> Rows:
        """Return the sums from one day to another, with what is noted here and not written. Raises StoreError."""
        with self._database().reading() as connection:
            found = rows(connection, first, last)
        for place, taken in self.unwritten.items():
            if first <= place.day <= last:
                found[place] = found.get(place, Taken()).plus(taken)
        return found

    def prune(self) -> None:
        """Let all but the last days go, by their number: a date may have been wrong. Raises StoreError."""
        with self.transaction() as connection:
            connection.execute(_OLD, (KEPT_DAYS,))


def add(connection: apsw.Connection, place: Place, taken: Taken) -> None:
    """Add to a sum, within the caller's transaction."""
    connection.execute(_ADD, (*map(storable, place), *taken))


def rows(connection: apsw.Connection, first: str, last: str) -> Rows:
    """Return the sums from one day to another, within the caller's reading."""
    return {Place(*map(str, row[:4])): _taken(*row[4:]) for row in connection.execute(_ROWS, (first, last))}


class Standing(NamedTuple):
    """How a day stands: tokens, money, and the percent of a cap that was reached, 0 for none."""

    tokens: int
    money: float
    reached: int


def standing(database: Database, day: str) -> Standing:
    """Say how a day stands, by what is written. Raises StoreError."""
    with database.reading() as connection:
        found = rows(connection, day, day).values()
        of, *steps = mark(connection, LEVEL).split() or [""]
    money = round(sum(taken.money for taken in found), 6)
    return Standing(sum(taken.tokens for taken in found), money, int(steps[-1]) if of == day else 0)


def _taken(requests: object, prompt: object, completion: object, estimated: object, money: object) -> Taken:
    return Taken(int(str(requests)), int(str(prompt)), int(str(completion)), int(str(estimated)), float(str(money)))
