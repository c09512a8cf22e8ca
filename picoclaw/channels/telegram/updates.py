"""What the Bot API brings: updates, and the files that come with messages; and the files that an answer names.

Updates may hold anything: what is not as documented is left out, and never an error.
Source: https://core.telegram.org/bots/api#update.
"""

import json
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from picoclaw import files
from picoclaw.channels.telegram.api import TelegramApi, Unreachable
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import RootedPath, explain_os_error, make_folder, write_atomic
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.text import pattern, truncate

_QUOTED_CHARS = 300
_FILES = ("document", "voice", "audio", "video", "video_note", "animation")


class BotIdentity(NamedTuple):
    id: int
    name: str


class ChatPlace(NamedTuple):
    chat: int
    thread: int = 0

    @property
    def key(self) -> str:
        """The session of what is said here."""
        return f"telegram:{self.chat}:{self.thread}" if self.thread else f"telegram:{self.chat}"

    @property
    def fields(self) -> dict[str, Any]:
        """How a call names it."""
        return {"chat_id": self.chat} | ({"message_thread_id": self.thread} if self.thread else {})


def parse_place(key: str) -> ChatPlace:
    """Read a session's key. Raises ChannelError for one that names no chat of Telegram's."""
    try:
        name, chat, *thread = key.split(":")
        place = ChatPlace(int(chat), int(thread[0]) if thread else 0)
    except ValueError:
        name, place = "", ChatPlace(0)
    if name != "telegram" or place.key != key or not place.chat:
        raise ChannelError(f"{key!r} is not a Telegram chat")
    return place


class TelegramFile(NamedTuple):
    """A file that somebody has sent; `size` is 0 where Telegram does not say."""

    id: str
    kind: str
    name: str
    size: int


class QuotedMessage(NamedTuple):
    """A message that another answers: whose it is, and whether that is the same person's own word."""

    whose: str
    text: str
    own: bool


class TelegramMessage(NamedTuple):
    """A message; `thread` is the topic of a forum, 0 elsewhere, `date` when it was sent, in seconds since 1970.

    `who` is how the person calls themselves. `strange` says why the text is not their word, such as "a message that was
    forwarded from Eve", '' when it is. `notes` say what the text alone does not. `addressed` when it is meant for the
    bot, which in a group not every message is. `album` is the same for files that were sent together. Messages that
    wait for their files are kept as lists in this order.
    """

    update: int
    chat: int
    thread: int
    message: int
    user: int
    who: str
    text: str
    date: int
    notes: tuple[str, ...] = ()
    strange: str = ""
    quotes: tuple[QuotedMessage, ...] = ()
    files: tuple[TelegramFile, ...] = ()
    album: str = ""
    private: bool = False
    addressed: bool = True
    external: str = ""

    @property
    def place(self) -> ChatPlace:
        return ChatPlace(self.chat, self.thread)


class ButtonPress(NamedTuple):
    update: int
    id: str
    user: int
    chat: int
    data: str
    message: int = 0


class EmptyUpdate(NamedTuple):
    """An update that says nothing to us, and only has to be acknowledged."""

    update: int


Update = TelegramMessage | ButtonPress | EmptyUpdate


def identify_bot(api: TelegramApi, wait: float = 20.0) -> BotIdentity:
    """Ask which bot this is, for at most `wait` seconds. Raises as TelegramApi.call."""
    told = api.call("getMe", {}, wait)
    number, name = _get(told, "id"), _get(told, "username")
    if not isinstance(number, int) or not isinstance(name, str) or not name:
        raise Unreachable("Telegram does not say which bot this is")
    return BotIdentity(number, name)


def parse_update(raw: Any, me: BotIdentity) -> Update | None:
    """Read one update; None for what has not even a number to acknowledge it by."""
    number = _as_int(_get(raw, "update_id"))
    if not number:
        return None
    if query := _as_dict(raw.get("callback_query")):
        user, name, data = _as_int(_get(query, "from", "id")), _as_text(query.get("id")), _as_text(query.get("data"))
        chat = _as_int(_get(query, "message", "chat", "id"))
        message_id = _as_int(_get(query, "message", "message_id"))
        return ButtonPress(number, name, user, chat, data, message_id) if user and name else EmptyUpdate(number)
    edited = "edited_message" in raw
    message = _as_dict(raw.get("edited_message" if edited else "message"))
    return _parse_message(number, message, me, edited=edited) or EmptyUpdate(number)


def join_albums(updates: list[Update]) -> list[Update]:
    """Make one message of the files that were sent together; the newest number acknowledges them all."""
    merged: list[Update] = []
    for one in updates:
        last = merged[-1] if merged else None
        if (
            isinstance(one, TelegramMessage)
            and isinstance(last, TelegramMessage)
            and one.album
            and (one.album, one.chat, one.user) == (last.album, last.chat, last.user)
        ):
            text, files = last.text or one.text, last.files + one.files
            addressed, strange = last.addressed or one.addressed, last.strange or one.strange
            merged[-1] = last._replace(update=one.update, text=text, files=files, addressed=addressed, strange=strange)
        else:
            merged.append(one)
    return merged


def _parse_message(number: int, message: dict[str, Any], me: BotIdentity, *, edited: bool) -> TelegramMessage | None:
    chat, message_id, user = (
        _as_int(_get(message, *keys)) for keys in (("chat", "id"), ("message_id",), ("from", "id"))
    )
    text, attached = _read_text(message), _list_files(message)
    if not (chat and message_id and user and (text or attached)):
        return None
    if message["from"].get("is_bot") is True or "sender_chat" in message:
        return None
    if edited and "location" in message:  # a place that is shared live moves every few seconds
        return None
    private = message["chat"].get("type") == "private"
    return TelegramMessage(
        update=number,
        chat=chat,
        thread=_as_int(message.get("message_thread_id")) if message.get("is_topic_message") is True else 0,
        message=message_id,
        user=user,
        who=_read_name(message["from"]),
        text=_strip_bot_name(text, me),
        date=_as_int(message.get("edit_date" if edited else "date")),
        notes=("edited",) if edited else (),
        strange=_explain_foreign(message),
        quotes=_list_quotes(message, me),
        files=attached,
        album=_as_text(message.get("media_group_id")),
        private=private,
        addressed=private or _is_addressed(message, text, me),
        external=f"{message_id}e{_as_int(message.get('edit_date'))}" if edited else str(message_id),
    )


def _read_text(message: dict[str, Any]) -> str:
    """Read what a message says; a place and a contact in words."""
    if text := _as_text(message.get("text")) or _as_text(message.get("caption")):
        return text.strip()
    if emoji := _as_text(_get(message, "sticker", "emoji")):
        return emoji
    latitude, longitude = _get(message, "location", "latitude"), _get(message, "location", "longitude")
    if isinstance(latitude, float | int) and isinstance(longitude, float | int):
        return f"latitude {latitude}, longitude {longitude}"
    parts = (_as_text(_get(message, "contact", key)) for key in ("first_name", "last_name", "phone_number"))
    return " ".join(filter(None, parts))


def _explain_foreign(message: dict[str, Any]) -> str:
    """Say why a message is not the word of whoever sends it: they have passed on what another has written."""
    if origin := _as_dict(message.get("forward_origin")):
        senders = (_as_dict(origin.get(key)) for key in ("sender_user", "chat", "sender_chat"))
        sender = next(filter(None, senders), None)
        name = _read_name(sender) if sender else untrusted.sanitize_name(_as_text(origin.get("sender_user_name")))
        return f"a message that was forwarded from {name or 'somebody'}"
    if bot := _as_dict(message.get("via_bot")):
        return f"a message that was written by the bot {_read_name(bot)}"
    return "a contact's card" if _as_dict(message.get("contact")) else ""


def _list_quotes(message: dict[str, Any], me: BotIdentity) -> tuple[QuotedMessage, ...]:
    """Give what a message answers, shortened; of a part that was chosen, that part."""
    text, whose, own = _as_text(_get(message, "quote", "text")), "another chat", False
    if answered := _as_dict(message.get("reply_to_message")):
        by = _as_int(_get(answered, "from", "id"))
        whose = "yours" if by == me.id else "another"
        own = by == _as_int(_get(message, "from", "id")) and not _explain_foreign(answered)
        text = text or _read_text(answered)
    elif not _as_dict(message.get("external_reply")):
        return ()
    text = truncate(" ".join(text.split()), _QUOTED_CHARS)
    return (QuotedMessage(whose, text, own),) if text else ()


def _is_addressed(message: dict[str, Any], text: str, me: BotIdentity) -> bool:
    if _as_int(_get(message, "reply_to_message", "from", "id")) == me.id:
        return True
    named = rf"(?:(?<![\w@/.+-])|(?<!\S)/\w+)@{re.escape(me.name)}(?![\w@]|\.\w)"
    return bool(re.search(named, text, re.IGNORECASE))


def _strip_bot_name(text: str, me: BotIdentity) -> str:
    """Leave out the bot's own name, which is there to address it: before the text, or behind a command."""
    first, blank, rest = text.partition(" ")
    mention = f"@{me.name.lower()}"
    if first.lower().rstrip(",:") == mention:
        return rest.lstrip()
    if first.startswith("/") and first.lower().endswith(mention):
        return f"{first[: -len(mention)]}{blank}{rest}"
    return text


def _list_files(message: dict[str, Any]) -> tuple[TelegramFile, ...]:
    photos = message.get("photo")
    sizes = [_parse_file(photo, "photo") for photo in photos] if isinstance(photos, list) else []
    if found := [file for file in sizes if file]:
        return (max(found, key=lambda file: file.size),)
    return next(((file,) for kind in _FILES if (file := _parse_file(message.get(kind), kind))), ())


def _parse_file(raw: Any, kind: str) -> TelegramFile | None:
    name, size = _as_text(_get(raw, "file_id")), max(0, _as_int(_get(raw, "file_size")))
    return TelegramFile(name, kind, _as_text(_get(raw, "file_name")), size) if name else None


def _read_name(sender: dict[str, Any]) -> str:
    parts = (_as_text(sender.get(key)) for key in ("first_name", "last_name", "title"))
    return untrusted.sanitize_name(" ".join(filter(None, parts))) or str(_as_int(sender.get("id")))


def _get(value: Any, *keys: str) -> Any:
    """Look up a key of a key's value; None where anything on the way is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _as_int(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 63
    return value if fits else 0


# Files both ways: what was sent to the bot goes into the workspace, and what an answer names there is sent.

MAX_DOWNLOAD_BYTES = 10_000_000
"""Bytes of a file that is fetched; it is held in memory meanwhile."""

_MAX_STORED_BYTES = 200_000_000
_MIN_FREE_BYTES = 100_000_000
_MAX_PHOTO_BYTES, _MAX_UPLOAD_BYTES = 10_000_000, 50_000_000
_PHOTOS = {".jpg", ".jpeg", ".png", ".webp"}
_DEFAULT_SUFFIXES = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3", "video": ".mp4", "video_note": ".mp4"}
_NAMED = pattern(r"^[ \t]*!\[([^\]\n]{0,1000})\]\(([^()\n]{1,500})\)[ \t]*$")
_FENCE = pattern(r" {0,3}(?:```|~~~)")


_WAITING, _MAX_WAITING, _FILES_AT_ONCE = "telegram.files", 50, 3
_TRIES, _MAX_PAUSE_S = 3, 60.0


class Attachment(NamedTuple):
    """A file to be sent, where no link leads any more, and what is said with it."""

    place: RootedPath
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
        fetch: Callable[[TelegramMessage, TelegramFile, int], str],
        hand_on: Callable[[TelegramMessage, tuple[str, ...], list[str]], None],
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
        self._free = threading.Semaphore(_FILES_AT_ONCE)
        self._waiting: list[TelegramMessage] = []
        self._busy: set[ChatPlace] = set()

    def begin(self) -> None:
        """Go on with what a former process has left. Raises StoreError."""
        with self._guard:
            with self._pairing.marks() as marks:
                self._waiting = _load_waiting(marks.get(_WAITING))
            if not self._waiting:
                self._pairing.close()  # nobody may write for days
            for message in self._waiting:
                self._start_thread(message.place)

    def has(self, message: TelegramMessage) -> bool:
        with self._guard:
            return any(one.place == message.place for one in self._waiting)

    def add(self, message: TelegramMessage) -> bool:
        """Take a message durably; False when too many wait. Raises StoreError."""
        with self._guard:
            if any(one.update == message.update for one in self._waiting):
                return True
            if len(self._waiting) >= _MAX_WAITING:
                return False
            self._save([*self._waiting, message])
            self._start_thread(message.place)
            return True

    def _save(self, waiting: list[TelegramMessage]) -> None:
        with self._pairing.marks() as marks:
            marks.set(_WAITING, json.dumps(waiting) if waiting else "")
        self._waiting = waiting

    def _start_thread(self, place: ChatPlace) -> None:
        if place not in self._busy:
            self._busy.add(place)
            threading.Thread(target=self._work, args=(place,), name="telegram-files", daemon=True).start()

    def _work(self, place: ChatPlace) -> None:
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

    def _next(self, place: ChatPlace) -> TelegramMessage | None:
        with self._guard:
            message = next((one for one in self._waiting if one.place == place), None)
            if message is None or self._ending.is_set():
                self._busy.discard(place)  # before another message can be added that nobody would look for
                return None
            return message

    def _finish(self, message: TelegramMessage, paths: tuple[str, ...], problems: list[str]) -> bool:
        """Hand a message on, and let go of it; False while the disk does not take that."""
        try:
            self._hand_on(message, paths, problems)
            with self._guard:
                self._save([one for one in self._waiting if one.update != message.update])
        except StoreError:
            return False
        return True

    def _fetch_files(self, message: TelegramMessage) -> tuple[tuple[str, ...], list[str]]:
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


def _load_waiting(text: str) -> list[TelegramMessage]:
    found: list[TelegramMessage] = []
    try:
        for row in json.loads(text or "[]"):
            message = TelegramMessage(*row)
            quotes = tuple(QuotedMessage(*one) for one in message.quotes)
            attached = tuple(TelegramFile(*one) for one in message.files)
            found.append(message._replace(notes=tuple(message.notes), quotes=quotes, files=attached))
    except (ValueError, TypeError, RecursionError):
        pass
    return found


def make_file_name(chat: int, message: int, kind: str, name: str) -> str:
    """Make a file's name that cannot lead anywhere, and is the same when the same message comes again."""
    plain = untrusted.sanitize_file_name(unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2])
    stem, dot, suffix = "".join(c if c.isalnum() or c in "._-" else "_" for c in plain).strip("._").rpartition(".")
    stem, suffix = (stem, f".{suffix[:10]}") if dot else (suffix, "")
    shown = f"{stem[:40]}{suffix}" if stem else f"{kind}{_DEFAULT_SUFFIXES.get(kind, '')}"
    return f"telegram{chat}-{message}-{shown}"


def check_room(workspace: Path, size: int) -> None:
    if size > MAX_DOWNLOAD_BYTES:
        raise ChannelError(f"it has {size / 1e6:.0f} MB, and more than {MAX_DOWNLOAD_BYTES // 1_000_000} are not taken")
    folder = workspace / "inbox"
    try:
        held = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)) if folder.is_dir() else 0
        free = os.statvfs(workspace)
    except OSError as error:
        raise ChannelError(f"{folder} cannot be used: {explain_os_error(error)}") from None
    if held + size > _MAX_STORED_BYTES:
        raise ChannelError(f"workspace/inbox holds {held / 1e6:.0f} MB: delete what is not needed there")
    if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES + size:
        raise ChannelError("the disk is nearly full: free some space")


def save_file(workspace: Path, name: str, data: bytes) -> str:
    """Keep a file durably in the workspace's inbox; returns its path below the workspace. Raises ChannelError."""
    try:
        make_folder(workspace / "inbox")
        write_atomic(workspace / "inbox" / name, data)
    except OSError as error:
        raise ChannelError(f"workspace/inbox cannot be written: {explain_os_error(error)}") from None
    return f"inbox/{name}"


def split_attachments(text: str, workspace: Path) -> Iterator[str | Attachment]:
    """Give an answer's texts, and between them the files that lines of `![words](path)` name in the workspace.

    What is not there, is somewhere else or is too large stays text, and so does what stands in a block of code.
    """
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _NAMED.match(line)
        attached = _find_attachment(found[1], found[2].strip(), workspace) if found else None
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
