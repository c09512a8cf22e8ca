"""`outputs.audit`: one JSON line for every act and every refusal, each with the hash of the line before it.

It is the only state there is: cooldowns and used duty are read back from it. The chain is trust/chain.py's.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.reflex.rules import Spell
from picoclaw.trust import chain
from picoclaw.trust.chain import content

__all__ = [
    "KEPT",
    "NAME",
    "History",
    "add",
    "content",
    "files",
    "record",
    "records",
    "replay",
    "verify",
    "write",
]

NAME = "outputs.audit"
LONGEST = 1_000_000
KEPT = 8
_FAR_S = 1e10
History = dict[str, list[Spell]]


def write(home: Path, act: str, history: Mapping[str, Sequence[Spell]] | None = None, **more: Any) -> None:
    """Append a record durably; when the file has grown long, begin a new one with `history` as its first record.

    A torn last line, which a power cut leaves, is taken out of the chain and kept in a record of its own.
    Raises OSError (also when another process holds the lock for too long); then nothing was added.
    """
    add(home, [record(act, **more)], history)


def add(home: Path, made: Sequence[Mapping[str, Any]], history: Mapping[str, Sequence[Spell]] | None = None) -> None:
    """Append records that `record` made, all or none, with one sync; otherwise as `write`."""
    with chain.held(home / NAME) as end:
        acts = [*([record("torn", why=end.torn)] if end.torn else []), *made]
        if history is not None and end.size > LONGEST:
            first = record("rotated", history={n: list(map(list, s)) for n, s in history.items()})
            end.go_on([first, *acts], KEPT)
        else:
            end.add(acts)


def record(act: str, **more: Any) -> dict[str, Any]:
    """Make the record of an act that happens now; it may be written later."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"at": at, "boot": boot_id(), "t": round(boottime(), 3), "act": act, **more}


def records(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Read a file's lines, each with what it says, or None where it says nothing that can be understood."""
    return chain.records(path)


def files(home: Path) -> list[Path]:
    """Return what is kept, the oldest first."""
    return chain.files(home / NAME, KEPT)


def verify(home: Path) -> tuple[int, str]:
    """Hold every line against the next one's hash; returns how many there are, and the first fault in words.

    That lines are missing at the very end cannot be seen.
    """
    return chain.verify(home / NAME, KEPT)


def replay(home: Path) -> History:
    """Read back what each output did, in seconds of this boot's CLOCK_BOOTTIME; raises OSError.

    What happened before this boot is placed as late as it can have been: the last record of an earlier boot at
    the beginning of the next, so that no clock of the day is needed. A time away from the safe level that nothing
    ended is as long as was asked for, and ended with its boot.
    """
    boots: list[tuple[str, list[dict[str, Any]]]] = []
    for _, said in records(home / NAME):
        if said is None or not _is_moment(said.get("t")):
            continue
        if not boots or boots[-1][0] != said.get("boot"):
            boots.append((str(said.get("boot")), []))
        boots[-1][1].append(said)
    history: History = {}
    for boot, acts in boots:
        asked = _boot(history, acts)
        if boot != boot_id():
            _end_boot(history, asked, max(float(said["t"]) for said in acts))
    return history


def _is_moment(t: object) -> bool:
    return isinstance(t, int | float) and 0 <= t < _FAR_S


def _boot(history: History, acts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Add the records of one boot; returns how long each open spell may have lasted."""
    asked: dict[str, float] = {}
    for said in acts:
        act, name, t = said.get("act"), str(said.get("name", "")), float(said["t"])
        if act == "rotated":
            history.clear()
            history.update(_kept(said.get("history")))
        elif act in {"on", "renew"}:
            asked[name] = float(said.get("seconds", 0))
            spells = history.setdefault(name, [])
            if not spells or spells[-1].ended is not None:
                spells.append(Spell(t))
        elif act in {"off", "safe"}:
            _close(history.get(name, []), t)
        elif act == "cancelled":  # it was written down, and not switched on then
            if name in history and history[name] and history[name][-1].ended is None:
                history[name].pop()
        elif act in {"start", "rescue"}:
            for spells in history.values():
                _close(spells, t)
    return asked


def _close(spells: list[Spell], t: float) -> None:
    if spells and spells[-1].ended is None:
        spells[-1] = Spell(spells[-1].began, t)


def _end_boot(history: History, asked: Mapping[str, float], last: float) -> None:
    for name, spells in history.items():
        if spells and spells[-1].ended is None:
            spells[-1] = Spell(min(spells[-1].began, last - asked.get(name, 0.0)), last)
        spells[:] = [Spell(s.began - last, None if s.ended is None else s.ended - last) for s in spells]


def _kept(history: Any) -> History:
    """What a rotated file's first record says; what is not of its shape is left out."""
    found: History = {}
    for name, spells in history.items() if isinstance(history, dict) else ():
        pairs = spells if isinstance(spells, list) else []
        found[name] = [Spell(*pair) for pair in pairs if isinstance(pair, list) and _is_spell(pair)]
    return found


def _is_spell(pair: list[Any]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], int | float) and isinstance(pair[1], int | float | None)
