"""What a token takes in bytes, by model: learned from the counts of servers, and kept in `state.db`.

A ratio is the sum of `bytes` over that of `tokens`, in which the last twenty requests or so weigh most. A little of the
usual ratio is always in it, so that the first request does not decide alone.
"""

from collections.abc import Sequence

import apsw

from picoclaw.prompt import BYTES_A_TOKEN, estimated_tokens
from picoclaw.store.database import Database, storable

_USUAL_TOKENS = 500.0
_FEWEST_BYTES_A_TOKEN, _MOST_BYTES_A_TOKEN = 1.5, 8.0
_SMALLEST_BYTES = 500
_FADES, _FADES_IN_DOUBT = 0.95, 0.8
_LARGE_TOKENS, _SMALLEST_WINDOW = 2000, 1000

_KNOWN = "SELECT bytes, tokens FROM calibration WHERE model = ?"
_KEEP = """
    INSERT INTO calibration (model, bytes, tokens) VALUES (?1, ?2, ?3)
    ON CONFLICT (model) DO UPDATE SET bytes = ?2, tokens = ?3
"""


class Calibration:
    """The ratios of every model."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    def bytes_a_token(self, model: str) -> float:
        """Return the ratio of a model, the usual one when nothing is known of it. Raises StoreError."""
        with self._database.reading() as connection:
            return _ratio(*_known(connection, model))


def learn(connection: apsw.Connection, model: str, counted: Sequence[tuple[int, int]]) -> str:
    """Learn from the (bytes, tokens) of requests, within the caller's transaction; returns a doubt for the owner.

    A count of less than half of what was to be expected is not believed: the server left out a part of the prompt
    without saying so, or counted only what was new to it. It makes what is known fade, so that a ratio which was
    learned wrongly does not stand for ever.
    """
    size, tokens = _known(connection, model)
    doubt = ""
    for sent, told in counted:
        if sent < _SMALLEST_BYTES or told <= 0:
            continue
        expected = estimated_tokens(sent, min(BYTES_A_TOKEN, _ratio(size, tokens)))
        if 2 * told < expected:
            size, tokens = size * _FADES_IN_DOUBT, tokens * _FADES_IN_DOUBT
            doubt = _doubt(told, expected) or doubt
        else:
            believed = min(float(told), sent / _FEWEST_BYTES_A_TOKEN)
            size, tokens = size * _FADES + sent, tokens * _FADES + believed
    if counted:
        connection.execute(_KEEP, (storable(model), size, tokens))
    return doubt


def _doubt(told: int, expected: int) -> str:
    """Nothing for a small request, and for a count that is smaller than any window: that server counts otherwise."""
    if expected <= _LARGE_TOKENS or told < _SMALLEST_WINDOW:
        return ""
    return f"the server counted {told} tokens of about {expected}: its window may be smaller than context_tokens"


def _known(connection: apsw.Connection, model: str) -> tuple[float, float]:
    found = connection.execute(_KNOWN, (storable(model),)).fetchone()
    return (float(str(found[0])), float(str(found[1]))) if found else (0.0, 0.0)


def _ratio(size: float, tokens: float) -> float:
    ratio = (size + BYTES_A_TOKEN * _USUAL_TOKENS) / (tokens + _USUAL_TOKENS)
    return min(_MOST_BYTES_A_TOKEN, max(_FEWEST_BYTES_A_TOKEN, ratio))
