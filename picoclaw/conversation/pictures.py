"""The pictures that came with a message, for models that see: read from the workspace, few, and none that is too large.

They are shown in the turn that they came with; later turns know the names of their files, as does a blind model.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from picoclaw import rooted
from picoclaw.disk import explain
from picoclaw.messages import Image

LARGEST, MOST = 3_500_000, 4
"""Bytes of one picture, so that it stays below 5 MB when it is written as text; and how many of them."""

_HEAD = 12
_MAGIC = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}


class Pictures(NamedTuple):
    """What is shown, the names of those files, and why others are not."""

    images: tuple[Image, ...] = ()
    names: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def pictures(workspace: Path, names: Sequence[str]) -> Pictures:
    """Read those of the named files below the workspace that are pictures."""
    images: dict[str, Image] = {}
    problems: list[str] = []
    for name in names:
        try:
            image = _read(workspace, name)
        except OSError as error:
            problems.append(f"{name} cannot be read: {explain(error)}")
            continue
        if image and (why := _too_much(len(image.data), len(images))):
            problems.append(f"{name} was not shown to the model: {why}")
        elif image:
            images[name] = image
    return Pictures(tuple(images.values()), tuple(images), tuple(problems))


def kind_of(head: bytes) -> str:
    """Tell a picture's media type from its first bytes; '' for what is none of the four that models read."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


def _too_much(size: int, before: int) -> str:
    if size > LARGEST:
        return f"it has more than {LARGEST / 1e6:g} MB; send it smaller, or as a photo"
    return f"{MOST} at once are enough" if before >= MOST else ""


def _read(workspace: Path, name: str) -> Image | None:
    """Read a picture, and of one that is too large as much as shows that; None for another file. Raises OSError."""
    place = rooted.settled(os.path.realpath(workspace), str(workspace / name))
    if place is None:
        raise OSError(errno.EXDEV, "it is not in the workspace")
    with os.fdopen(rooted.open_file(place), "rb") as file:
        head = file.read(_HEAD)
        kind = kind_of(head)
        return Image(kind, head + file.read(LARGEST)) if kind else None
