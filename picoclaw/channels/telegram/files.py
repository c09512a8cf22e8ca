"""Files both ways: what was sent to the bot goes into the workspace, and what an answer names there is sent."""

import json
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw import rooted, untrusted
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.updates import File, Quote, Said
from picoclaw.disk import explain, make_folder, write_atomic
from picoclaw.errors import ChannelDown, ChannelError, StoreError
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


_WAITING, _MOST_WAITING, _AT_ONCE = "telegram.files", 50, 3
_TRIES, _LONGEST_PAUSE_S = 3, 60.0


class Attached(NamedTuple):
    """A file to be sent, where no link leads any more, and what is said with it."""

    place: Place
    caption: str
    photo: bool
    size: int


class Downloads:
    """Fetches the files of messages beside the poll, and hands the messages on in the order of their chats.

    What waits is in `state.db`, because Telegram was told that it has arrived. A chat whose file is slow holds up no
    other, and of its own messages those that are given to `add`.
    """

    def __init__(
        self,
        pairing: Pairing,
        fetch: Callable[[Said, File, int], str],
        hand_on: Callable[[Said, tuple[str, ...], list[str]], None],
        ending: threading.Event,
        pause: float,
    ) -> None:
        """`pairing` lends the marks, `fetch` keeps a file in the workspace and returns its path there.

        `hand_on` is given a message with the paths of its files, and what is wrong with those that could not be had; it
        may raise StoreError. `pause` is the seconds before a file is tried again.
        """
        self._pairing, self._fetch, self._hand_on = pairing, fetch, hand_on
        self._ending, self._pause = ending, pause
        self._guard = threading.Lock()
        self._free = threading.Semaphore(_AT_ONCE)
        self._waiting: list[Said] = []
        self._chats: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """Go on with what a former process has left. Raises StoreError."""
        with self._guard:
            with self._pairing.marks() as marks:
                self._waiting = _saids(marks.get(_WAITING))
            if not self._waiting:
                self._pairing.close()  # nobody may write for days
            for said in self._waiting:
                self._work_for(said)

    def has(self, said: Said) -> bool:
        """Tell whether a message of the same chat waits here."""
        with self._guard:
            return any(_chat(one) == _chat(said) for one in self._waiting)

    def add(self, said: Said) -> bool:
        """Take a message durably; False when too many wait. Raises StoreError."""
        with self._guard:
            if any(one.update == said.update for one in self._waiting):
                return True
            if len(self._waiting) >= _MOST_WAITING:
                return False
            self._keep([*self._waiting, said])
            self._work_for(said)
            return True

    def _keep(self, waiting: list[Said]) -> None:
        with self._pairing.marks() as marks:
            marks.set(_WAITING, json.dumps(waiting) if waiting else "")
        self._waiting = waiting

    def _work_for(self, said: Said) -> None:
        if (chat := _chat(said)) not in self._chats:
            self._chats.add(chat)
            threading.Thread(target=self._work, args=(chat,), name="telegram-files", daemon=True).start()

    def _next(self, chat: tuple[int, int]) -> Said | None:
        with self._guard:
            said = next((one for one in self._waiting if _chat(one) == chat), None)
            if said is None or self._ending.is_set():
                self._chats.discard(chat)  # before another message can be added that nobody would look for
                return None
            return said

    def _work(self, chat: tuple[int, int]) -> None:
        try:
            while said := self._next(chat):
                with self._free:
                    paths, problems = self._fetched(said)
                pause = self._pause
                while not self._ending.is_set() and not self._over(said, paths, problems):
                    problems = []  # they were told
                    self._ending.wait(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
        finally:
            with self._guard:
                self._chats.discard(chat)

    def _over(self, said: Said, paths: tuple[str, ...], problems: list[str]) -> bool:
        """Hand a message on, and let go of it; False while the disk does not take that."""
        try:
            self._hand_on(said, paths, problems)
            with self._guard:
                self._keep([one for one in self._waiting if one.update != said.update])
        except StoreError:
            return False
        return True

    def _fetched(self, said: Said) -> tuple[tuple[str, ...], list[str]]:
        paths: list[str] = []
        problems: list[str] = []
        for number, file in enumerate(said.files):
            for tried in range(_TRIES):
                try:
                    paths.append(self._fetch(said, file, number))
                    break
                except ChannelError as error:
                    if isinstance(error, ChannelDown) and tried < _TRIES - 1 and not self._ending.is_set():
                        self._ending.wait(self._pause * 2**tried)
                        continue
                    problems.append(f"I could not take {file.name or f'the {file.kind}'}: {error}")
                    break
        return tuple(paths), problems


def _chat(said: Said) -> tuple[int, int]:
    return said.chat, said.thread


def _saids(text: str) -> list[Said]:
    """Read what waits; what cannot be read is left out."""
    found: list[Said] = []
    try:
        rows: Any = json.loads(text or "[]")
        for row in rows:
            said = Said(*row)
            quotes, files = tuple(Quote(*one) for one in said.quotes), tuple(File(*one) for one in said.files)
            found.append(said._replace(notes=tuple(said.notes), quotes=quotes, files=files))
    except (ValueError, TypeError, RecursionError):
        pass
    return found


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
