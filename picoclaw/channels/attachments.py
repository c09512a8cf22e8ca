"""Files both ways: what was sent to us goes into the workspace, and what an answer names there is sent."""

import json
import os
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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


class QuotedMessage(NamedTuple):
    """A message that another answers: whose it is, and whether that is the same person's own word."""

    whose: str
    text: str
    own: bool


class ArrivedMessage(NamedTuple):
    """A message as its service's module has read it; `key` is its chat's session, `external` the service's name for it.

    `date` is when it was sent, in seconds since 1970. `stem` is what the names of its files begin with. `sender` is
    theirs at the service, `who` how they call themselves. `notes` say what the text alone does not; `strange` says why
    the text is not the person's word, such as "a message that was forwarded from Eve", '' when it is. `addressed` when
    it is meant for us, which in a group not every message is. `album` is the same for files that were sent together.
    `reply_to` is what it answers and `replaces` what it is an edit of, where that is still to be looked up. `update` is
    the number by which Telegram is told that it has arrived.
    """

    key: str
    external: str
    sender: str
    who: str
    text: str
    date: int
    stem: str
    notes: tuple[str, ...] = ()
    strange: str = ""
    quotes: tuple[QuotedMessage, ...] = ()
    files: tuple[IncomingFile, ...] = ()
    private: bool = False
    addressed: bool = True
    album: str = ""
    reply_to: str = ""
    replaces: str = ""
    update: int = 0

    def is_same(self, other: "ArrivedMessage") -> bool:
        return (self.key, self.external) == (other.key, other.external)


def name_event(event: str) -> str:
    """What the names of files begin with that have come with an event of Matrix."""
    return f"matrix-{''.join(filter(str.isalnum, event))[:16]}"


_OLD_ROWS = {
    "telegram": "update chat thread message sender who text date notes strange quotes files album private addressed external",
    "matrix": "external chat thread sender who text date notes quotes files reply_to replaces private addressed",
}
"""The order of the fields when messages were kept as lists."""


def restore_message(kept: Any) -> ArrivedMessage:
    """Make a message of what JSON has kept of it. Raises TypeError and ValueError for something else."""
    if isinstance(kept, list):
        channel = "telegram" if isinstance(kept[0], int) else "matrix"
        kept = dict(zip(_OLD_ROWS[channel].split(), kept, strict=False))
        place = [channel, kept.pop("chat"), kept.pop("thread")]
        stem = f"{channel}{place[1]}-{kept.pop('message')}" if channel == "telegram" else name_event(kept["external"])
        kept |= {"key": ":".join(str(part) for part in place if part), "stem": stem, "sender": str(kept["sender"])}
    message = ArrivedMessage(**kept)
    quotes = tuple(QuotedMessage(*one) for one in message.quotes)
    attached = tuple(IncomingFile(*one) for one in message.files)
    return message._replace(notes=tuple(message.notes), quotes=quotes, files=attached)


class Downloads:
    """Fetches the files of messages beside the poll, and hands the messages on in the order of their chats.

    What waits is in `state.db`, because the service was told that it has arrived. A chat whose file is slow holds up no
    other, and of its own messages those that are given to `add`.
    """

    def __init__(
        self,
        pairing: Pairing,
        fetch: Callable[[ArrivedMessage, IncomingFile, int], str],
        hand_on: Callable[[ArrivedMessage, tuple[str, ...], list[str]], None],
        ending: threading.Event,
        pause: float,
    ) -> None:
        """`pairing` lends the marks, `fetch` keeps a file in the workspace and returns its path there.

        `hand_on` is given a message with the paths of its files, and what is wrong with those that could not be had; it
        may raise StoreError. `pause` is the seconds before a file is tried again.
        """
        self._pairing, self._fetch, self._hand_on = pairing, fetch, hand_on
        self._mark = f"{pairing.channel}.files"
        self._ending, self._pause = ending, pause
        self._guard = threading.Lock()
        self._free = threading.Semaphore(_FILES_AT_ONCE)
        self._waiting: list[ArrivedMessage] = []
        self._busy: set[str] = set()

    def begin(self) -> None:
        """Go on with what a former process has left. Raises StoreError."""
        with self._guard:
            with self._pairing.marks() as marks:
                self._waiting = self._load(marks.get(self._mark))
            if not self._waiting:
                self._pairing.close()  # nobody may write for days
            for message in self._waiting:
                self._start_thread(message.key)

    def _load(self, text: str) -> list[ArrivedMessage]:
        found: list[ArrivedMessage] = []
        with suppress(ValueError, TypeError, KeyError, IndexError, RecursionError):
            found += map(restore_message, json.loads(text or "[]"))
        return found

    def has(self, message: ArrivedMessage) -> bool:
        with self._guard:
            return any(one.key == message.key for one in self._waiting)

    def add(self, message: ArrivedMessage) -> bool:
        """Take a message durably; False when too many wait. Raises StoreError."""
        with self._guard:
            if any(one.is_same(message) for one in self._waiting):
                return True
            if len(self._waiting) >= _MAX_WAITING:
                return False
            self._save([*self._waiting, message])
            self._start_thread(message.key)
            return True

    def _save(self, waiting: list[ArrivedMessage]) -> None:
        with self._pairing.marks() as marks:
            marks.set(self._mark, json.dumps([one._asdict() for one in waiting]) if waiting else "")
        self._waiting = waiting

    def _start_thread(self, key: str) -> None:
        if key not in self._busy:
            self._busy.add(key)
            threading.Thread(target=self._work, args=(key,), name=f"{self._pairing.channel}-files", daemon=True).start()

    def _work(self, key: str) -> None:
        try:
            while message := self._next(key):
                with self._free:
                    paths, problems = self._fetch_files(message)
                pause = self._pause
                while not self._ending.is_set() and not self._finish(message, paths, problems):
                    problems = []  # they were told
                    self._ending.wait(pause)
                    pause = min(2 * pause, _MAX_PAUSE_S)
        finally:
            with self._guard:
                self._busy.discard(key)

    def _next(self, key: str) -> ArrivedMessage | None:
        with self._guard:
            message = next((one for one in self._waiting if one.key == key), None)
            if message is None or self._ending.is_set():
                self._busy.discard(key)  # before another message can be added that nobody would look for
                return None
            return message

    def _finish(self, message: ArrivedMessage, paths: tuple[str, ...], problems: list[str]) -> bool:
        """Hand a message on, and let go of it; False while the disk does not take that."""
        try:
            self._hand_on(message, paths, problems)
            with self._guard:
                self._save([one for one in self._waiting if not one.is_same(message)])
        except StoreError:
            return False
        return True

    def _fetch_files(self, message: ArrivedMessage) -> tuple[tuple[str, ...], list[str]]:
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
