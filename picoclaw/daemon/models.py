"""Whether the models answer, and which, as a daemon tells it: in its status, and in its log at each change."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from picoclaw.messages import Turn
from picoclaw.providers import BUILT_IN

if TYPE_CHECKING:
    from picoclaw.providers.chain import Link

_WITHOUT = " - answered without a model"


class Models:
    """What the turns of a daemon have shown of the models."""

    def __init__(self, name: str, links: "Sequence[Link]", note: Callable[..., None]) -> None:
        """`name` is that of the usual one, `links` are all that are configured, and `note` writes the log."""
        self._links, self._note = links, note
        self._known: dict[str, Any] = {"name": name, "error": "", "at": 0.0, "rests": False}
        self._by = name

    def heard(self, turn: Turn) -> bool:
        """Learn from a turn; tells whether no model has answered it that should have."""
        if not (self._links and turn.steps):
            return False
        well = turn.provider != BUILT_IN and turn.stopped != "error"
        error = "" if well else turn.notice.text.replace(_WITHOUT, "")
        rests = bool(error) and self._rests()
        if bool(error) != bool(self._known["error"]):
            self._note(f"model: {error or 'it answers again'}", trouble=bool(error) and not rests)
        elif well and len(self._links) > 1 and turn.provider != self._by:
            self._note(f"model: {turn.notice.text or f'{turn.provider} answers'}", trouble=bool(turn.notice.text))
        self._known |= {"error": error, "at": time.time(), "rests": rests}
        self._by = turn.provider
        return bool(error)

    def _rests(self) -> bool:
        """Tell whether nothing but the owner's cap is why no model has answered."""
        return all(one["rests"] for one in self._told() if one["chosen"])

    def _told(self) -> list[dict[str, Any]]:
        from picoclaw.providers.reached import told

        return told(self._links)

    def status(self) -> dict[str, Any]:
        """Say it, with how it stands with each."""
        if not self._links:
            return self._known
        return self._known | {"by": self._by, "chain": self._told()}
