"""Files both ways: what was sent to the bot goes into the workspace, and what an answer names there is sent."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from picoclaw import rooted, untrusted
from picoclaw.disk import explain, make_folder, write_atomic
from picoclaw.errors import ChannelError
from picoclaw.rooted import Place

LARGEST_TAKEN = 10_000_000
"""Bytes of a file that is fetched; it is held in memory meanwhile."""

_MOST_KEPT = 200_000_000
_FREE = 100_000_000
_LARGEST_PHOTO, _LARGEST_SENT = 10_000_000, 50_000_000
_PHOTOS = {".jpg", ".jpeg", ".png", ".webp"}
_SUFFIXES = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3", "video": ".mp4", "video_note": ".mp4"}
_NAMED = re.compile(r"^[ \t]*!\[([^\]\n]{0,1000})\]\(([^()\n]{1,500})\)[ \t]*$")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


class Attached(NamedTuple):
    """A file to be sent, where no link leads any more, and what is said with it."""

    place: Place
    caption: str
    photo: bool
    size: int


def stored_name(chat: int, message: int, kind: str, name: str) -> str:
    """Make a file's name that cannot lead anywhere, and is the same when the same message comes again."""
    plain = untrusted.file_name(unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2])
    stem, dot, suffix = "".join(c if c.isalnum() or c in "._-" else "_" for c in plain).strip("._").rpartition(".")
    stem, suffix = (stem, f".{suffix[:10]}") if dot else (suffix, "")
    shown = f"{stem[:40]}{suffix}" if stem else f"{kind}{_SUFFIXES.get(kind, '')}"
    return f"telegram{chat}-{message}-{shown}"


def check_room(workspace: Path, size: int) -> None:
    """Raise ChannelError when a file of that size is not to be fetched."""
    if size > LARGEST_TAKEN:
        raise ChannelError(f"it has {size / 1e6:.0f} MB, and more than {LARGEST_TAKEN // 1_000_000} are not taken")
    folder = workspace / "inbox"
    try:
        held = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)) if folder.is_dir() else 0
        free = os.statvfs(workspace)
    except OSError as error:
        raise ChannelError(f"{folder} cannot be used: {explain(error)}") from None
    if held + size > _MOST_KEPT:
        raise ChannelError(f"workspace/inbox holds {held / 1e6:.0f} MB: delete what is not needed there")
    if free.f_bavail * free.f_frsize < _FREE + size:
        raise ChannelError("the disk is nearly full: free some space")


def store(workspace: Path, name: str, data: bytes) -> str:
    """Keep a file durably in the workspace's inbox; returns its path below the workspace. Raises ChannelError."""
    try:
        make_folder(workspace / "inbox")
        write_atomic(workspace / "inbox" / name, data)
    except OSError as error:
        raise ChannelError(f"workspace/inbox cannot be written: {explain(error)}") from None
    return f"inbox/{name}"


def pieces(text: str, workspace: Path) -> Iterator[str | Attached]:
    """Give an answer's texts, and between them the files that lines of `![words](path)` name in the workspace.

    What is not there, is somewhere else or is too large stays text, and so does what stands in a block of code.
    """
    waiting: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _NAMED.match(line)
        attached = _attached(found[1], found[2].strip(), workspace) if found else None
        if attached is None:
            waiting.append(line)
            continue
        if said := "\n".join(waiting).strip("\n"):
            yield said
        waiting = []
        yield attached
    if said := "\n".join(waiting).strip("\n"):
        yield said


def _attached(words: str, name: str, workspace: Path) -> Attached | None:
    root = os.path.realpath(workspace)
    try:
        place = rooted.settled(root, str(workspace / name))
        about = rooted.look(place) if place else None
    except (OSError, ValueError):
        return None
    if place is None or about is None or not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        return None
    size = about.st_size
    photo = place.path.suffix.lower() in _PHOTOS and size <= _LARGEST_PHOTO
    return Attached(place, words, photo, size) if 0 < size <= _LARGEST_SENT else None
