"""Keeps what was read of skills, so that the next start parses nothing; a damaged or older cache counts as none."""

import contextlib
import json
from binascii import crc32
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from picoclaw import __version__
from picoclaw.disk import read_file, write_atomic
from picoclaw.skills.skill import Needs, Skill

Stamp = tuple[int, int, int]
"""Time of change in ns, size and inode of a SKILL.md."""

Known = tuple[Stamp, Skill | str]
"""What a file of that stamp held: a skill, or the problem with it."""

_FORMAT = 2


def load(path: Path) -> dict[str, Known]:
    """Read what is known, by the paths of the files."""
    try:
        head, _, rows = read_file(path).partition(b"\n")
        if head != _head(rows):
            return {}
        return {file: (_stamp(stamp), _unpacked(record)) for file, stamp, record in json.loads(rows)}
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def save(path: Path, known: Mapping[str, Known]) -> None:
    """Keep what is known, if the disk lets us; its folder has to be there."""
    rows = json.dumps([[file, stamp, _packed(found)] for file, (stamp, found) in known.items()]).encode()
    with contextlib.suppress(OSError):
        write_atomic(path, _head(rows) + b"\n" + rows)


def _head(rows: bytes) -> bytes:
    return f"picoclaw {__version__} skills {_FORMAT} {crc32(rows):08x}".encode()


def _stamp(values: list[int]) -> Stamp:
    changed, size, inode = values
    return changed, size, inode


def _packed(found: Skill | str) -> Any:
    return found if isinstance(found, str) else found[:2] + found[4:]


def _unpacked(record: Any) -> Skill | str:
    if isinstance(record, str):
        return record
    name, description, triggers, needs, tools, model, notes, keywords, listed = record
    tools_, programs, *rest = needs
    alternatives = tuple(tuple(names) for names in programs)
    return Skill(
        name=name,
        description=description,
        folder=Path(),
        tier="",
        triggers=tuple(triggers),
        needs=Needs(tuple(tools_), alternatives, *(tuple(names) for names in rest)),
        tools=tuple(tools),
        model=model,
        notes=tuple(notes),
        keywords=keywords,
        listed=listed,
    )
