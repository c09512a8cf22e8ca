"""Files both ways: what was sent to us goes into the workspace, and what an answer names there is sent."""

import json
import os
import stat
import threading
import unicodedata
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from picoclaw import files
from picoclaw.channels.pairing import Pairing
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import RootedPath, explain_os_errors, make_folder, write_atomic
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.text import pattern

MAX_DOWNLOAD_BYTES = 10_000_000
"""Bytes of a file that is fetched; it is held in memory meanwhile."""

_MAX_STORED_BYTES = 200_000_000
_MIN_FREE_BYTES = 100_000_000
_MAX_PHOTO_BYTES, _MAX_UPLOAD_BYTES = 10_000_000, 50_000_000
_PHOTOS = {".jpg", ".jpeg", ".png", ".webp"}
_DEFAULT_SUFFIXES = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3", "video": ".mp4", "video_note": ".mp4"}
_NAMED = pattern(r"^[ \t]*!\[([^\]\n]{0,1000})\]\(([^()\n]{1,500})\)[ \t]*$")
_FENCE = pattern(r" {0,3}(?:```|~~~)")


_MAX_WAITING, _FILES_AT_ONCE = 50, 3
_TRIES, _MAX_PAUSE_S = 3, 60.0


class Attachment(NamedTuple):
    """A file to be sent, where no link leads any more, and what is said with it."""

    place: RootedPath
    caption: str
    photo: bool
    size: int


class IncomingFile(NamedTuple):
    """A file that somebody has sent; `size` is 0 where the service does not say."""

    id: str
    kind: str
    name: str
    size: int


class WaitingMessage(Protocol):
    """A message with files, as a tuple that JSON takes; `update` is a number or name that no other message has."""

    @property
    def update(self) -> int | str: ...
    @property
    def place(self) -> Hashable: ...
    @property
    def files(self) -> tuple[IncomingFile, ...]: ...


_Message = TypeVar("_Message", bound=WaitingMessage)


class Downloads(Generic[_Message]):
    """Fetches the files of messages beside the poll, and hands the messages on in the order of their chats.

    What waits is in `state.db`, because the service was told that it has arrived. A chat whose file is slow holds up no
    other, and of its own messages those that are given to `add`.
    """

    def __init__(
        self,
        pairing: Pairing,
        parse: Callable[[list[Any]], _Message],
        fetch: Callable[[_Message, IncomingFile, int], str],
        hand_on: Callable[[_Message, tuple[str, ...], list[str]], None],
        ending: threading.Event,
        pause: float,
    ) -> None:
        """`pairing` lends the marks, `parse` makes a message of what JSON gives, and may raise ValueError or TypeError.

        `fetch` keeps a file in the workspace and returns its path there.

        `hand_on` is given a message with the paths of its files, and what is wrong with those that could not be had; it
        may raise StoreError. `pause` is the seconds before a file is tried again.
        """
        self._pairing, self._parse, self._fetch, self._hand_on = pairing, parse, fetch, hand_on
        self._mark = f"{pairing.channel}.files"
        self._ending, self._pause = ending, pause
        self._guard = threading.Lock()
        self._free = threading.Semaphore(_FILES_AT_ONCE)
        self._waiting: list[_Message] = []
        self._busy: set[Hashable] = set()

    def begin(self) -> None:
        """Go on with what a former process has left. Raises StoreError."""
        with self._guard:
            with self._pairing.marks() as marks:
                self._waiting = self._load(marks.get(self._mark))
            if not self._waiting:
                self._pairing.close()  # nobody may write for days
            for message in self._waiting:
                self._start_thread(message.place)

    def _load(self, text: str) -> list[_Message]:
        found: list[_Message] = []
        with suppress(ValueError, TypeError, RecursionError):
            found += map(self._parse, json.loads(text or "[]"))
        return found

    def has(self, message: _Message) -> bool:
        with self._guard:
            return any(one.place == message.place for one in self._waiting)

    def add(self, message: _Message) -> bool:
        """Take a message durably; False when too many wait. Raises StoreError."""
        with self._guard:
            if any(one.update == message.update for one in self._waiting):
                return True
            if len(self._waiting) >= _MAX_WAITING:
                return False
            self._save([*self._waiting, message])
            self._start_thread(message.place)
            return True

    def _save(self, waiting: list[_Message]) -> None:
        with self._pairing.marks() as marks:
            marks.set(self._mark, json.dumps(waiting) if waiting else "")
        self._waiting = waiting

    def _start_thread(self, place: Hashable) -> None:
        if place not in self._busy:
            self._busy.add(place)
            threading.Thread(
                target=self._work, args=(place,), name=f"{self._pairing.channel}-files", daemon=True
            ).start()

    def _work(self, place: Hashable) -> None:
        try:
            while message := self._next(place):
                with self._free:
                    paths, problems = self._fetch_files(message)
                pause = self._pause
                while not self._ending.is_set() and not self._finish(message, paths, problems):
                    problems = []  # they were told
                    self._ending.wait(pause)
                    pause = min(2 * pause, _MAX_PAUSE_S)
        finally:
            with self._guard:
                self._busy.discard(place)

    def _next(self, place: Hashable) -> _Message | None:
        with self._guard:
            message = next((one for one in self._waiting if one.place == place), None)
            if message is None or self._ending.is_set():
                self._busy.discard(place)  # before another message can be added that nobody would look for
                return None
            return message

    def _finish(self, message: _Message, paths: tuple[str, ...], problems: list[str]) -> bool:
        """Hand a message on, and let go of it; False while the disk does not take that."""
        try:
            self._hand_on(message, paths, problems)
            with self._guard:
                self._save([one for one in self._waiting if one.update != message.update])
        except StoreError:
            return False
        return True

    def _fetch_files(self, message: _Message) -> tuple[tuple[str, ...], list[str]]:
        paths: list[str] = []
        problems: list[str] = []
        for number, file in enumerate(message.files):
            for tried in range(_TRIES):
                try:
                    paths.append(self._fetch(message, file, number))
                    break
                except ChannelError as error:
                    if isinstance(error, ChannelDown) and tried < _TRIES - 1 and not self._ending.is_set():
                        self._ending.wait(self._pause * 2**tried)
                        continue
                    problems.append(f"I could not take {file.name or f'the {file.kind}'}: {error}")
                    break
        return tuple(paths), problems


def make_file_name(message: str, kind: str, name: str) -> str:
    """Make a file's name that leads nowhere, from the `message` it came with, which is plain, and its own `name`."""
    plain = untrusted.sanitize_file_name(unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2])
    stem, dot, suffix = "".join(c if c.isalnum() or c in "._-" else "_" for c in plain).strip("._").rpartition(".")
    stem, suffix = (stem, f".{suffix[:10]}") if dot else (suffix, "")
    shown = f"{stem[:40]}{suffix}" if stem else f"{kind}{_DEFAULT_SUFFIXES.get(kind, '')}"
    return f"{message}-{shown}"


def check_room(workspace: Path, size: int) -> None:
    if size > MAX_DOWNLOAD_BYTES:
        raise ChannelError(f"it has {size / 1e6:.0f} MB, and more than {MAX_DOWNLOAD_BYTES // 1_000_000} are not taken")
    folder = workspace / "inbox"
    with explain_os_errors(ChannelError, f"{folder} cannot be used"):
        held = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)) if folder.is_dir() else 0
        free = os.statvfs(workspace)
    if held + size > _MAX_STORED_BYTES:
        raise ChannelError(f"workspace/inbox holds {held / 1e6:.0f} MB: delete what is not needed there")
    if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES + size:
        raise ChannelError("the disk is nearly full: free some space")


def save_file(workspace: Path, name: str, data: bytes) -> str:
    """Keep a file durably in the workspace's inbox; returns its path below the workspace. Raises ChannelError."""
    with explain_os_errors(ChannelError, "workspace/inbox cannot be written"):
        make_folder(workspace / "inbox")
        write_atomic(workspace / "inbox" / name, data)
    return f"inbox/{name}"


def split_attachments(text: str, workspace: Path | None) -> Iterator[str | Attachment]:
    """Give an answer's texts, and between them the files that lines of `![words](path)` name in the workspace.

    What is not there, is somewhere else or is too large stays text, and so does what stands in a block of code, and
    everything without a workspace.
    """
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _NAMED.match(line)
        attached = _find_attachment(found[1], found[2].strip(), workspace) if found and workspace else None
        if attached is None:
            lines.append(line)
            continue
        if before := "\n".join(lines).strip("\n"):
            yield before
        lines = []
        yield attached
    if after := "\n".join(lines).strip("\n"):
        yield after


def _find_attachment(words: str, name: str, workspace: Path) -> Attachment | None:
    root = os.path.realpath(workspace)
    try:
        place = files.resolve_below(root, str(workspace / name))
        about = files.stat_rooted(place) if place else None
    except (OSError, ValueError):
        return None
    if place is None or about is None or not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        return None
    size = about.st_size
    photo = place.path.suffix.lower() in _PHOTOS and size <= _MAX_PHOTO_BYTES
    return Attachment(place, words, photo, size) if 0 < size <= _MAX_UPLOAD_BYTES else None
