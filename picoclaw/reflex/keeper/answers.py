"""How the keeper's answers are worded, and what a request asks for."""

from typing import Any

from picoclaw.reflex import declared
from picoclaw.reflex.declared import Output
from picoclaw.reflex.keeper.leases import Lease
from picoclaw.reflex.rules import Ask, Refusal

Answer = dict[str, Any]
_ANY_BOARD = {"stop", "safe", "off", "leave", "release"}  # they can only make something safe


def ask(given: dict[str, Any]) -> Ask | Refusal:
    """Read the wish of a `set` request."""
    seconds = given.get("seconds")
    try:
        level = declared.level(str(given.get("level", "")))
    except ValueError as error:
        return Refusal("value", str(error))
    if seconds is not None and (not isinstance(seconds, int | float) or not 0 < seconds < 1e9 or seconds is True):
        return Refusal("longest_on", "seconds must be a number, and more than 0")
    return Ask(level, seconds, str(given.get("who", "")))


def yes(text: str, **more: Any) -> Answer:
    """It was done."""
    return {"ok": True, "text": text} | more


def no(rule: str, text: str) -> Answer:
    """It was refused by a rule, or failed."""
    return {"ok": False, "rule": rule, "text": text}


def every(bad: list[str], good: str) -> Answer:
    """It was done, unless something is bad."""
    return no("hardware", "; ".join(bad)) if bad else yes(good)


def row(output: Output, lease: Lease | None, now: float) -> Answer:
    """One output in the answer to `list`."""
    return {
        "name": output.name,
        "kind": output.kind,
        "place": output.place,
        "level": lease.level if lease else output.safe_level,
        "left": round(lease.ends - now, 1) if lease else None,
    }


def other_board(given: dict[str, Any], kind: str) -> Answer | None:
    """Refuse a client that means another board than the keeper's."""
    if given["do"] in _ANY_BOARD or given.get("board", kind) == kind:
        return None
    why = f"a keeper of the {kind} board is at work in this home: end whatever uses it, or choose with `--board {kind}`"
    return no("board", why)
