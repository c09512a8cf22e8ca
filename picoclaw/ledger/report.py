"""What was taken, added up for a person: by day, model, cause or channel. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from picoclaw.config import CostsConfig
from picoclaw.ledger import caps
from picoclaw.store.ledger import Place, Rows, Taken

By = Literal["day", "model", "cause", "channel"]
WAYS: tuple[str, ...] = get_args(By)
NONE = "No model was used yet."
_RESTING = {
    caps.WARNED: "heartbeats and dreams rest until tomorrow",
    caps.JOBS_REST: "heartbeats, jobs and helpers rest until tomorrow",
    caps.ALL_REST: "no model is asked until tomorrow",
}


def summed(rows: Rows, by: str) -> dict[str, Taken]:
    """Add up by one of the four: days in their order, the others by how much they took."""
    at, found = Place._fields.index(by), dict[str, Taken]()
    for place, taken in rows.items():
        if taken.requests:  # else nobody was there
            found[place[at]] = found.get(place[at], Taken()).plus(taken)
    if by == "day":
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda row: (-row[1].tokens, row[0])))


def total(rows: Rows) -> Taken:
    """Add up all of it."""
    found = Taken()
    for taken in rows.values():
        found = found.plus(taken)
    return found


def today(rows: Rows, costs: CostsConfig) -> Iterator[str]:
    """Say in lines what a day has taken, for what, and what rests because of that."""
    if not (rows or costs.day_tokens or costs.day_money):
        return
    used = caps.counted(rows, prices := costs.by_model)
    causes = ", ".join(f"{cause} {taken.tokens:,}" for cause, taken in summed(rows, "cause").items() if taken.tokens)
    yield f"today {caps.worded(used, costs)}{f': {causes}' if causes else ''}"
    if step := caps.reached(used.percent(costs)):
        yield f"{_RESTING[step]}, because of the caps under [costs]"
    if estimated := total(rows).estimated:
        yield f"{estimated:,} of these tokens were counted by no server, and are estimated"
    if unknown := sorted(
        {
            place.model
            for place, taken in rows.items()
            if taken.tokens and prices and not caps.is_priced(prices, place.model)
        }
    ):
        yield f"without a price under [costs.prices], and so counted like the dearest: {', '.join(unknown)}"


def table(rows: Rows, by: str, costs: CostsConfig) -> Iterator[str]:
    """Lay it out in columns, with a line of sums at the end."""
    heads = [by, "requests", "in", "out", "estimated", *([costs.currency or "money"] if costs.prices else [])]
    lines = [heads, *(_cells(name, taken, costs) for name, taken in summed(rows, by).items())]
    lines.append(_cells("all", total(rows), costs))
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        yield "  ".join(
            [f"{first:<{wide[0]}}", *(f"{cell:>{most}}" for cell, most in zip(rest, wide[1:], strict=True))]
        )


def _cells(name: str, taken: Taken, costs: CostsConfig) -> Sequence[str]:
    counts = [f"{number:,}" for number in (taken.requests, taken.prompt, taken.completion, taken.estimated)]
    return [name, *counts, *([f"{taken.money:.4f}"] if costs.prices else [])]


def as_json(rows: Rows, by: str) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{by: name} | taken._asdict() for name, taken in summed(rows, by).items()]
