"""The prices of models, as the owner writes them under [costs.prices]."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from picoclaw.errors import ConfigError

MILLION = 1_000_000


class Price(NamedTuple):
    """What a million tokens cost, in and out, in the owner's currency."""

    prompt: float
    completion: float

    def of(self, prompt: int, completion: int) -> float:
        """What so many tokens cost."""
        return (prompt * self.prompt + completion * self.completion) / MILLION


def prices(given: Mapping[str, Any], where: str) -> dict[str, Price]:
    """Read a table of `"model" = [in, out]`; `where` names it in the ConfigError."""
    return {model: _price(price, f'{where}: "{model}"') for model, price in given.items()}


def _price(given: Any, where: str) -> Price:
    good = isinstance(given, list) and len(given) == len(Price._fields) and all(map(_is_price, given))
    if not good:
        raise ConfigError(f"{where} must be [in, out], what a million tokens cost, such as [0.15, 0.6], not {given!r}")
    return Price(*map(float, given))


def _is_price(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= MILLION
