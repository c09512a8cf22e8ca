"""Counts attacks and honest requests by class, for tests/hostile/report.py; a test reports through its properties."""

from collections.abc import Callable, Iterable
from typing import Any


class Tally:
    """What one test has tried, and what of it was stopped; at its end `judge` says what should have gone otherwise."""

    def __init__(self, record: Callable[[str, Any], None]) -> None:
        self._record = record
        self.open: list[str] = []
        self.stopped: list[str] = []
        self.honest = 0

    def attack(self, kind: str, name: str, wrong: Iterable[str]) -> None:
        """Count an attack; `wrong` says what it has achieved, nothing when it was stopped."""
        found = list(wrong)
        self._record("hostile", ["attack", kind, not found])
        if found:
            self.open.append(f"{kind}: {name}: {'; '.join(found)}")

    def twin(self, kind: str, name: str, wrong: Iterable[str]) -> None:
        """Count an honest request; `wrong` says what was in its way."""
        found = list(wrong)
        self._record("hostile", ["honest", kind, bool(found)])
        self.honest += 1
        if found:
            self.stopped.append(f"{kind}: {name}: {'; '.join(found)}")

    def judge(self, most: float = 0.0) -> None:
        """Fail when an attack got through, or more than that share of the honest requests was stopped."""
        assert not self.open, "\n".join(["attacks that got through:", *self.open])
        assert len(self.stopped) <= most * self.honest, "\n".join(["honest requests that were stopped:", *self.stopped])
