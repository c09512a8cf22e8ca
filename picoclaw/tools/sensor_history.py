"""`sensor_history`: what the sensors said in some time, summed up."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from picoclaw.errors import StoreError, ToolError
from picoclaw.messages import Caller
from picoclaw.tools.toolset import tool

if TYPE_CHECKING:
    from picoclaw.store.points import Series
    from picoclaw.store.samples import Samples
    from picoclaw.tools.past import Past

_MOST_SPANS = 12
_MOST_SERIES = 6


class SensorHistory:
    """The samples of this home."""

    def __init__(self, samples: Callable[[], "Samples"]) -> None:
        """`samples()` opens the store when it is first needed."""
        self._samples = samples

    @tool(effect="read")
    def sensor_history(
        self,
        caller: Caller,
        sensor: str = "",
        quantity: str = "",
        when: Annotated[str, "today, since monday"] = "last 24 hours",
        compare: Annotated[str, "with another time"] = "",
    ) -> str:
        """Past min, max, mean, trend."""
        from picoclaw import ranges
        from picoclaw.tools import past

        try:
            wanted = ranges.meant(when, caller.now)
            other = ranges.meant(compare, caller.now) if compare.strip() else None
        except ValueError as error:
            raise ToolError(str(error)) from None
        try:
            samples = self._samples()
            series = self._meant(samples, sensor, quantity)
            found = [look for one in series if (look := past.look(samples, one, wanted, _MOST_SPANS))]
            if not found:
                raise ToolError(
                    f"nothing was measured {when}; " + "; ".join(past.newest(samples.known(), caller.now.tzinfo))
                )
            before = {f.series: past.look(samples, f.series, other, _MOST_SPANS) for f in found} if other else {}
        except StoreError as error:
            raise ToolError(f"the measurements cannot be read: {error}") from None
        return "\n".join(
            row for look in found for row in _rows(look, before.get(look.series), len(found) == 1, compare)
        )

    def _meant(self, samples: "Samples", sensor: str, quantity: str) -> "list[Series]":
        from picoclaw.tools import past

        known = samples.known()
        series = past.meant(list(known), sensor, quantity)
        names = ", ".join(f"{one.sensor} {one.quantity}" for one in known)
        if not known:
            raise ToolError(
                "nothing was measured yet: that is done while `picoclaw run` or an interactive `picoclaw chat` runs"
            )
        if not series:
            raise ToolError(f"nothing was kept of that; kept are: {names}")
        if len(series) > _MOST_SERIES:
            raise ToolError(f"that is too much at once: name a sensor; kept are: {names}")
        return series


def _rows(look: "Past", before: "Past | None", alone: bool, compare: str) -> list[str]:  # noqa: FBT001
    from picoclaw import ranges
    from picoclaw.tools import past

    rows = list(past.summary(look))
    if alone and look.whole.good:
        means = (f"{past.clock(s.at, look.range)} {s.total / s.good:.4g}" for s in look.spans if s.good)
        rows.append(f"mean every {ranges.shown(look.step_s)}: {', '.join(means)}")
    if compare:
        rows.append(past.compared(look, before) if before else f"nothing was measured {compare}")
    return rows
