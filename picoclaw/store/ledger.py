"""What models have taken, in `state.db`: a sum for each day, model, cause, channel, agent and person, and nothing of what was said.

Caps and prices are in providers/spending.py.

A request is added before it is made, with what it may take at most, and corrected afterwards. The correction is kept
with whatever is kept next; if it is lost, the estimate stands, and is known to be one. The card is synced for a request
only where a cap counts it: else a power cut may take the requests of the turn that it ends.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from picoclaw.prompts import BYTES_A_TOKEN, estimate_tokens
from picoclaw.records import NamedTuple
from picoclaw.store.database import Database, StoreConnection, Table, get_mark

RETENTION_DAYS = 800
"""Days on which something was asked."""

CAP_LEVEL_MARK = "costs.level"
"""The mark that names a day, and two steps of a cap, in percent: the highest reached on it, and the newest."""

_UPSERT_ENTRY = """
    INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
        cached = cached + excluded.cached, reasoning = reasoning + excluded.reasoning,
        requests = requests + excluded.requests, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens, estimated = estimated + excluded.estimated,
        money = money + excluded.money
"""
_SELECT_ENTRIES = """
    SELECT day, model, cause, channel, agent, person, requests, prompt_tokens, completion_tokens, estimated, money, cached,
    reasoning FROM ledger WHERE day BETWEEN ? AND ? ORDER BY 1, 2, 3, 4, 5, 6
"""
_DELETE_OLD_ENTRIES = (
    "DELETE FROM ledger WHERE day <= (SELECT DISTINCT day FROM ledger ORDER BY day DESC LIMIT 1 OFFSET ?)"
)


class LedgerKey(NamedTuple):
    """Where something is added up: an ISO date, the model, what it was for, and the channel that it was asked over.

    `agent` is the key of who was asked, '' for the home's own, `person` the member of the household who asked, '' for the owner.
    """

    day: str
    model: str
    cause: str
    channel: str
    agent: str = ""
    person: str = ""


class LedgerTotals(NamedTuple):
    """Requests, tokens in and out, how many of those are only estimated, and money. Corrections are below zero.

    Of the tokens in, so many were `cached`; of those out, so many went into `reasoning`.
    """

    requests: int = 0
    prompt: int = 0
    completion: int = 0
    estimated: int = 0
    money: float = 0.0
    cached: int = 0
    reasoning: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion

    def plus(self, other: "LedgerTotals", times: int = 1) -> "LedgerTotals":
        """The sum of both; -1 `times` takes the other away."""
        return LedgerTotals(
            self.requests + times * other.requests,
            self.prompt + times * other.prompt,
            self.completion + times * other.completion,
            self.estimated + times * other.estimated,
            self.money + times * other.money,
            self.cached + times * other.cached,
            self.reasoning + times * other.reasoning,
        )


LedgerRows = dict[LedgerKey, LedgerTotals]


class Ledger:
    """The sums of one database, and what is still to be added to them."""

    def __init__(self, database: Callable[[], Database]) -> None:
        """Work on a database, which is opened when it is needed."""
        self._database = database
        self.unwritten: LedgerRows = {}

    def note(self, place: LedgerKey, taken: LedgerTotals) -> None:
        """Have something added with what is written next."""
        self.unwritten[place] = self.unwritten.get(place, LedgerTotals()).plus(taken)

    def transaction(self, *, sync: bool = True) -> AbstractContextManager[StoreConnection]:
        """A transaction that begins with what was noted. Raises StoreError; what was noted stays noted then."""
        return self._cleared(self._database().transaction(sync=sync))

    @contextmanager
    def _cleared(self, transaction: AbstractContextManager[StoreConnection]) -> Iterator[StoreConnection]:
        with transaction as connection:
            for place, taken in self.unwritten.items():
                add_usage(connection, place, taken)
            yield connection
        self.unwritten.clear()

    @contextmanager
    def along(
        self, transaction: AbstractContextManager[StoreConnection], last: Callable[[StoreConnection], None]
    ) -> Iterator[StoreConnection]:
        """Have another's transaction keep what was noted; `last` is done in it at its end. Raises StoreError."""
        with self._cleared(transaction) as connection:
            yield connection
            last(connection)

    def rows(self, first: str, last: str) -> LedgerRows:
        """Return the sums from one day to another, with what is noted here and not written. Raises StoreError."""
        with self._database().reading() as connection:
            found = select_usage(connection, first, last)
        for place, taken in self.unwritten.items():
            if first <= place.day <= last:
                found[place] = found.get(place, LedgerTotals()).plus(taken)
        return found

    def prune(self) -> None:
        """Let all but the last days go, by their number: a date may have been wrong. Raises StoreError."""
        with self.transaction() as connection:
            connection.execute(_DELETE_OLD_ENTRIES, (RETENTION_DAYS,))


def add_usage(connection: StoreConnection, place: LedgerKey, taken: LedgerTotals) -> None:
    """Add to a sum, within the caller's transaction."""
    connection.execute(_UPSERT_ENTRY, (*place, *taken))


def select_usage(connection: StoreConnection, first: str, last: str) -> LedgerRows:
    """Return the sums from one day to another, within the caller's reading."""
    rows = connection.execute(_SELECT_ENTRIES, (first, last))
    return {LedgerKey(*row[:6]): LedgerTotals(*row[6:]) for row in rows}


class DaySpending(NamedTuple):
    """How a day stands: tokens, money, and the percent of a cap that was reached, 0 for none."""

    tokens: int
    money: float
    reached: int


def get_day_spending(database: Database, day: str) -> DaySpending:
    """Say how a day stands, by what is written. Raises StoreError."""
    with database.reading() as connection:
        found = select_usage(connection, day, day).values()
        of, *steps = get_mark(connection, CAP_LEVEL_MARK).split() or [""]
    money = round(sum(taken.money for taken in found), 6)
    return DaySpending(sum(taken.tokens for taken in found), money, int(steps[-1]) if of == day else 0)


# What a token takes in bytes, by model: learned from the counts of servers, and kept in `state.db`.
#
# A ratio is the sum of `bytes` over that of `tokens`, in which the last twenty requests or so weigh most. A little of the
# usual ratio is always in it, so that the first request does not decide alone.

_PRIOR_TOKENS = 500.0
_MIN_BYTES_PER_TOKEN, _MAX_BYTES_PER_TOKEN = 1.5, 8.0
_MIN_REQUEST_BYTES = 500
_DECAY, _DECAY_IN_DOUBT = 0.95, 0.8
_LARGE_REQUEST_TOKENS, _MIN_CONTEXT_WINDOW = 2000, 1000

_UPSERT_CALIBRATION = """
    INSERT INTO calibration (model, bytes, tokens) VALUES (?1, ?2, ?3)
    ON CONFLICT (model) DO UPDATE SET bytes = ?2, tokens = ?3
"""


class TokenCalibration(Table):
    """The ratios of every model."""

    def bytes_a_token(self, model: str) -> float:
        """Return the ratio of a model, the usual one when nothing is known of it. Raises StoreError."""
        with self._database.reading() as connection:
            return _compute_ratio(*_get_calibration(connection, model))


def update_calibration(connection: StoreConnection, model: str, counted: Sequence[tuple[int, int]]) -> str:
    """Learn from the (bytes, tokens) of requests, within the caller's transaction; returns a doubt for the owner.

    A count of less than half of what was to be expected is not believed: the server left out a part of the prompt
    without saying so, or counted only what was new to it. It makes what is known fade, so that a ratio which was
    learned wrongly does not stand for ever.
    """
    size, tokens = _get_calibration(connection, model)
    doubt = ""
    for sent, told in counted:
        if sent < _MIN_REQUEST_BYTES or told <= 0:
            continue
        expected = estimate_tokens(sent, min(BYTES_A_TOKEN, _compute_ratio(size, tokens)))
        if 2 * told < expected:
            size, tokens = size * _DECAY_IN_DOUBT, tokens * _DECAY_IN_DOUBT
            doubt = _describe_doubt(told, expected) or doubt
        else:
            believed = min(float(told), sent / _MIN_BYTES_PER_TOKEN)
            size, tokens = size * _DECAY + sent, tokens * _DECAY + believed
    if counted:
        connection.execute(_UPSERT_CALIBRATION, (model, size, tokens))
    return doubt


def _describe_doubt(told: int, expected: int) -> str:
    """Nothing for a small request, and for a count that is smaller than any window: that server counts otherwise."""
    if expected <= _LARGE_REQUEST_TOKENS or told < _MIN_CONTEXT_WINDOW:
        return ""
    return f"the server counted {told} tokens of about {expected}: its window may be smaller than context_tokens"


def _get_calibration(connection: StoreConnection, model: str) -> tuple[float, float]:
    return connection.execute("SELECT bytes, tokens FROM calibration WHERE model = ?", (model,)).get or (0.0, 0.0)


def _compute_ratio(size: float, tokens: float) -> float:
    ratio = (size + BYTES_A_TOKEN * _PRIOR_TOKENS) / (tokens + _PRIOR_TOKENS)
    return min(_MAX_BYTES_PER_TOKEN, max(_MIN_BYTES_PER_TOKEN, ratio))
