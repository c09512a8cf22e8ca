"""Where rules stand and what they have done, in `history.db`: written down before it is done, and again afterwards."""

from collections.abc import Mapping
from datetime import UTC, datetime

from picoclaw.records import NamedTuple
from picoclaw.store.database import Table
from picoclaw.store.samples import ClockReading, save_rule_states

MAX_FIRINGS = 5000


class RuleLogEntry(NamedTuple):
    """A firing: when, what caused it, what was to be done, and what became of that; empty while unknown."""

    number: int
    rule: str
    at: datetime
    trusted: bool
    why: str
    acts: str
    outcome: str


class RuleLog(Table):
    """The firings of every rule."""

    def states(self) -> dict[str, str]:
        """Return where each rule stands."""
        return dict(self._database.select("SELECT rule, state FROM rule_states"))

    def begin(self, rule: str, why: str, acts: str, moment: ClockReading, states: Mapping[str, str]) -> int:
        """Write down that a rule fires, together with its new state; durable when the number is returned."""
        with self._database.transaction() as connection:
            save_rule_states(connection, states)
            connection.execute(
                "INSERT INTO firings (rule, boot, began, at, trusted, why, acts, outcome)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, '')",
                (rule, moment.boot, moment.mono, moment.wall.timestamp(), moment.trusted, why, acts),
            )
            number = connection.last_insert_rowid()
            connection.execute("DELETE FROM firings WHERE id <= ?", (number - MAX_FIRINGS,))
            return number

    def settle(self, number: int, outcome: str) -> None:
        """Write down what became of it."""
        self._database.write("UPDATE firings SET outcome = ? WHERE id = ?", outcome, number)

    def cut_off(self) -> list[tuple[int, str, str, str]]:
        """Return what was begun and not settled: number, rule, why and acts."""
        return self._database.select("SELECT id, rule, why, acts FROM firings WHERE outcome = '' ORDER BY id")

    def log(self, most: int, rule: str = "") -> list[RuleLogEntry]:
        """Return the last firings, the oldest first; those of a boot that has a date now have that date."""
        rows = self._database.select(
            "SELECT firings.id, rule, CASE WHEN b.trusted THEN began + b.offset ELSE at END,"
            " coalesce(b.trusted, firings.trusted), why, acts, outcome"
            " FROM firings LEFT JOIN boots b ON b.boot = firings.boot"
            " WHERE ?1 IN ('', rule) ORDER BY firings.id DESC LIMIT ?2",
            rule,
            most,
        )
        return [
            RuleLogEntry(number, name, datetime.fromtimestamp(at, UTC), bool(trusted), *rest)
            for number, name, at, trusted, *rest in reversed(rows)
        ]
