"""Reads the updates of the Bot API, which may hold anything: what is not as documented is left out, and never an error.

Pure. Source: https://core.telegram.org/bots/api#update.
"""

import json
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw import files
from picoclaw.channels.telegram.api import TelegramApi, Unreachable
from picoclaw.channels.telegram.connection import TelegramConnection, Timing
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import RootedPath, explain_os_error, make_folder, write_atomic
from picoclaw.security import untrusted

_QUOTED_CHARS = 300
_FILES = ("document", "voice", "audio", "video", "video_note", "animation")


class BotIdentity(NamedTuple):
    """Which bot this is."""

    id: int
    name: str


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
    bot, which in a group not every message is. `album` is the same for files that were sent together.
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


class ButtonPress(NamedTuple):
    """A button that was pressed."""

    update: int
    id: str
    user: int
    chat: int
    data: str


class EmptyUpdate(NamedTuple):
    """An update that says nothing to us, and only has to be acknowledged."""

    update: int


Update = TelegramMessage | ButtonPress | EmptyUpdate


def parse_update(raw: Any, me: BotIdentity) -> Update | None:
    """Read one update; None for what has not even a number to acknowledge it by."""
    update = _as_dict(raw)
    number = _as_int(update.get("update_id"))
    if not number:
        return None
    if query := _as_dict(update.get("callback_query")):
        return _parse_press(number, query)
    edited = "edited_message" in update
    message = _as_dict(update.get("edited_message" if edited else "message"))
    return _parse_message(number, message, me, edited=edited) or EmptyUpdate(number)


def join_albums(updates: list[Update]) -> list[Update]:
    """Make one message of the files that were sent together; the newest number acknowledges them all."""
    merged: list[Update] = []
    for one in updates:
        last = merged[-1] if merged else None
        if isinstance(one, TelegramMessage) and isinstance(last, TelegramMessage) and _is_same_album(one, last):
            text, files = last.text or one.text, last.files + one.files
            addressed, strange = last.addressed or one.addressed, last.strange or one.strange
            merged[-1] = last._replace(update=one.update, text=text, files=files, addressed=addressed, strange=strange)
        else:
            merged.append(one)
    return merged


def _is_same_album(one: TelegramMessage, last: TelegramMessage) -> bool:
    return bool(one.album) and (one.album, one.chat, one.user) == (last.album, last.chat, last.user)


def _parse_press(number: int, query: dict[str, Any]) -> ButtonPress | EmptyUpdate:
    user, chat = _as_int(_as_dict(query.get("from")).get("id")), _as_dict(_as_dict(query.get("message")).get("chat"))
    name, data = _as_text(query.get("id")), _as_text(query.get("data"))
    return ButtonPress(number, name, user, _as_int(chat.get("id")), data) if user and name else EmptyUpdate(number)


def _parse_message(number: int, message: dict[str, Any], me: BotIdentity, *, edited: bool) -> TelegramMessage | None:
    chat, sender = _as_dict(message.get("chat")), _as_dict(message.get("from"))
    ids = _as_int(chat.get("id")), _as_int(message.get("message_id")), _as_int(sender.get("id"))
    files, text = _list_files(message), _read_words(message)
    if not all(ids) or not (text or files) or sender.get("is_bot") is True or "sender_chat" in message:
        return None
    if edited and "location" in message:  # a place that is shared live moves every few seconds
        return None
    private = chat.get("type") == "private"
    again = f"e{_as_int(message.get('edit_date'))}" if edited else ""
    return TelegramMessage(
        number,
        ids[0],
        _as_int(message.get("message_thread_id")) if message.get("is_topic_message") is True else 0,
        ids[1],
        ids[2],
        _read_name(sender),
        _strip_bot_name(text, me),
        _as_int(message.get("edit_date" if edited else "date")),
        ("edited",) if edited else (),
        _explain_foreign(message),
        tuple(_list_quotes(message, me)),
        files,
        _as_text(message.get("media_group_id")),
        private,
        private or _is_addressed(message, text, me),
        f"{ids[1]}{again}",
    )


def _read_words(message: dict[str, Any]) -> str:
    """What a message says; a place and a contact in words."""
    if text := _as_text(message.get("text")) or _as_text(message.get("caption")):
        return text.strip()
    if emoji := _as_text(_as_dict(message.get("sticker")).get("emoji")):
        return emoji
    place, contact = _as_dict(message.get("location")), _as_dict(message.get("contact"))
    if isinstance(place.get("latitude"), float | int) and isinstance(place.get("longitude"), float | int):
        return f"latitude {place['latitude']}, longitude {place['longitude']}"
    return " ".join(filter(None, (_as_text(contact.get(key)) for key in ("first_name", "last_name", "phone_number"))))


def _explain_foreign(message: dict[str, Any]) -> str:
    """Say why a message is not the word of whoever sends it: they have passed on what another has written."""
    if origin := _as_dict(message.get("forward_origin")):
        sender = (
            _as_dict(origin.get("sender_user")) or _as_dict(origin.get("chat")) or _as_dict(origin.get("sender_chat"))
        )
        name = _read_name(sender) if sender else untrusted.sanitize_name(_as_text(origin.get("sender_user_name")))
        return f"a message that was forwarded from {name or 'somebody'}"
    if bot := _as_dict(message.get("via_bot")):
        return f"a message that was written by the bot {_read_name(bot)}"
    return "a contact's card" if _as_dict(message.get("contact")) else ""


def _list_quotes(message: dict[str, Any], me: BotIdentity) -> Iterator[QuotedMessage]:
    """Give what a message answers, shortened; of a part that was chosen, that part."""
    chosen = _as_text(_as_dict(message.get("quote")).get("text"))
    if answered := _as_dict(message.get("reply_to_message")):
        by, sender = _as_int(_as_dict(answered.get("from")).get("id")), _as_int(_as_dict(message.get("from")).get("id"))
        whose = "yours" if by == me.id else "another"
        own = by == sender and not _explain_foreign(answered)
        yield from _shorten_quote(whose, chosen or _read_words(answered), own=own)
    elif _as_dict(message.get("external_reply")):
        yield from _shorten_quote("another chat", chosen, own=False)


def _shorten_quote(whose: str, text: str, *, own: bool) -> Iterator[QuotedMessage]:
    cut = " ".join(text.split())
    if cut:
        yield QuotedMessage(whose, cut if len(cut) <= _QUOTED_CHARS else f"{cut[:_QUOTED_CHARS]}…", own)


def _is_addressed(message: dict[str, Any], text: str, me: BotIdentity) -> bool:
    if _as_int(_as_dict(_as_dict(message.get("reply_to_message")).get("from")).get("id")) == me.id:
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
    sizes = [_as_dict(photo) for photo in photos] if isinstance(photos, list) else []
    if found := [file for photo in sizes if (file := _parse_file(photo, "photo"))]:
        return (max(found, key=lambda file: file.size),)
    for kind in _FILES:
        if file := _parse_file(_as_dict(message.get(kind)), kind):
            return (file,)
    return ()


def _parse_file(raw: dict[str, Any], kind: str) -> TelegramFile | None:
    name, size = _as_text(raw.get("file_id")), _as_int(raw.get("file_size"))
    return TelegramFile(name, kind, _as_text(raw.get("file_name")), max(0, size)) if name else None


def _read_name(sender: dict[str, Any]) -> str:
    parts = (_as_text(sender.get(key)) for key in ("first_name", "last_name", "title"))
    return untrusted.sanitize_name(" ".join(filter(None, parts))) or str(_as_int(sender.get("id")))


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _as_int(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 63
    return value if fits else 0


# Takes a bot's updates, one long poll after the other, and acknowledges each when it has been kept.
#
# A poll that goes silent is given up a little after Telegram would have ended it. One that stays empty is held against
# what Telegram says is waiting, asked over another connection: a poll can be answered and deaf.

_EMPTY_ROUNDS = 10
_UPDATES_PER_POLL = 40  # messages of the longest kind, each in reply to another, stay below what an answer may have
_ALLOWED_UPDATES = ["message", "edited_message", "callback_query"]


class UpdatePoller:
    """Runs in a thread of its own until `ending` is set and the API is closed."""

    def __init__(
        self,
        apis: tuple[TelegramApi, TelegramApi],
        link: TelegramConnection,
        receive: Callable[[Update], None],
        is_urgent: Callable[[Update], bool],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        """`apis`: the poll's own, which is begun anew when something goes wrong, and one to ask beside it.

        `receive` keeps an update durably, or raises StoreError; one that `is_urgent` comes before all others.
        """
        (self._api, self._other), self._link, self._receive, self._ending = apis, link, receive, ending
        self._timing, self._is_urgent = timing, is_urgent
        self._offset = 0
        self._heeded: set[int] = set()
        self._empty = 0
        self._waits = False
        self.me: BotIdentity | None = None

    def run(self) -> None:
        """Poll until the end; whatever goes wrong, it goes on later."""
        while not self._ending.is_set():
            try:
                self._round()
            except (ChannelError, StoreError) as error:
                self._waits = False
                if self._ending.is_set():
                    return
                pause = self._link.failed(error)
                if isinstance(error, Unreachable):
                    self._api.rebuild()
                self._ending.wait(pause)

    def _round(self) -> None:
        """Take what is there; the first time, and after a failure, without waiting for more."""
        me = self.me = self.me or identify_bot(self._api, self._timing.wait)
        raws = self._waiting(self._timing.hold if self._waits else 0)
        self._heed(raws, me)
        if raws and isinstance(last := parse_update(raws[-1], me), TelegramMessage) and last.album:
            self._ending.wait(self._timing.album)  # a poll ends with the first of its files
            raws = self._waiting(0)
            self._heed(raws, me)
        self._take(raws, me)
        self._waits = True
        self._link.heard()
        self._empty = 0 if raws else self._empty + 1
        if self._empty >= _EMPTY_ROUNDS:
            self._empty = 0
            self._probe()

    def _waiting(self, hold: int) -> list[Any]:
        """Ask for what is not acknowledged yet; Telegram may wait `hold` seconds for something to come."""
        fields = {
            "offset": self._offset,
            "timeout": hold,
            "limit": _UPDATES_PER_POLL,
            "allowed_updates": _ALLOWED_UPDATES,
        }
        raws = self._api.call("getUpdates", fields, hold + self._timing.grace)
        if not isinstance(raws, list):
            raise Unreachable("Telegram's updates are not a list")
        return raws

    def _take(self, raws: list[Any], me: BotIdentity) -> None:
        updates = [update for raw in raws if (update := parse_update(raw, me))]
        if raws and not updates:
            raise Unreachable("Telegram's updates have no numbers")
        for update in join_albums(updates):
            if update.update not in self._heeded:
                self._receive(update)
            self._offset = update.update + 1
        self._heeded = {number for number in self._heeded if number >= self._offset}

    def _heed(self, raws: list[Any], me: BotIdentity) -> None:
        """Receive at once what may not wait for the updates before it, of which one may not be kept."""
        for update in (parse_update(raw, me) for raw in raws):
            if update and update.update not in self._heeded and self._is_urgent(update):
                self._receive(update)
                self._heeded.add(update.update)

    def _probe(self) -> None:
        """Raise Unreachable when messages wait at Telegram, and the poll is not given them."""
        told = self._other.call("getWebhookInfo", {}, self._timing.wait)
        waiting = told.get("pending_update_count") if isinstance(told, dict) else 0
        if isinstance(waiting, int) and waiting > 0:
            raise Unreachable(f"the poll was deaf: {waiting} messages waited at Telegram; it was begun anew")


def identify_bot(api: TelegramApi, wait: float = 20.0) -> BotIdentity:
    """Ask which bot this is, for at most `wait` seconds. Raises as Api.call."""
    told = api.call("getMe", {}, wait)
    number, name = (told.get("id"), told.get("username")) if isinstance(told, dict) else (0, "")
    if not isinstance(number, int) or not isinstance(name, str) or not name:
        raise Unreachable("Telegram does not say which bot this is")
    return BotIdentity(number, name)


# Files both ways: what was sent to the bot goes into the workspace, and what an answer names there is sent.

MAX_DOWNLOAD_BYTES = 10_000_000
"""Bytes of a file that is fetched; it is held in memory meanwhile."""

_MAX_STORED_BYTES = 200_000_000
_MIN_FREE_BYTES = 100_000_000
_MAX_PHOTO_BYTES, _MAX_UPLOAD_BYTES = 10_000_000, 50_000_000
_PHOTOS = {".jpg", ".jpeg", ".png", ".webp"}
_DEFAULT_SUFFIXES = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3", "video": ".mp4", "video_note": ".mp4"}
_NAMED = re.compile(r"^[ \t]*!\[([^\]\n]{0,1000})\]\(([^()\n]{1,500})\)[ \t]*$")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


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
        self._chats: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """Go on with what a former process has left. Raises StoreError."""
        with self._guard:
            with self._pairing.marks() as marks:
                self._waiting = _load_waiting(marks.get(_WAITING))
            if not self._waiting:
                self._pairing.close()  # nobody may write for days
            for said in self._waiting:
                self._work_for(said)

    def has(self, said: TelegramMessage) -> bool:
        """Tell whether a message of the same chat waits here."""
        with self._guard:
            return any(_get_chat(one) == _get_chat(said) for one in self._waiting)

    def add(self, said: TelegramMessage) -> bool:
        """Take a message durably; False when too many wait. Raises StoreError."""
        with self._guard:
            if any(one.update == said.update for one in self._waiting):
                return True
            if len(self._waiting) >= _MAX_WAITING:
                return False
            self._keep([*self._waiting, said])
            self._work_for(said)
            return True

    def _keep(self, waiting: list[TelegramMessage]) -> None:
        with self._pairing.marks() as marks:
            marks.set(_WAITING, json.dumps(waiting) if waiting else "")
        self._waiting = waiting

    def _work_for(self, said: TelegramMessage) -> None:
        if (chat := _get_chat(said)) not in self._chats:
            self._chats.add(chat)
            threading.Thread(target=self._work, args=(chat,), name="telegram-files", daemon=True).start()

    def _next(self, chat: tuple[int, int]) -> TelegramMessage | None:
        with self._guard:
            said = next((one for one in self._waiting if _get_chat(one) == chat), None)
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
                    pause = min(2 * pause, _MAX_PAUSE_S)
        finally:
            with self._guard:
                self._chats.discard(chat)

    def _over(self, said: TelegramMessage, paths: tuple[str, ...], problems: list[str]) -> bool:
        """Hand a message on, and let go of it; False while the disk does not take that."""
        try:
            self._hand_on(said, paths, problems)
            with self._guard:
                self._keep([one for one in self._waiting if one.update != said.update])
        except StoreError:
            return False
        return True

    def _fetched(self, said: TelegramMessage) -> tuple[tuple[str, ...], list[str]]:
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


def _get_chat(said: TelegramMessage) -> tuple[int, int]:
    return said.chat, said.thread


def _load_waiting(text: str) -> list[TelegramMessage]:
    """Read what waits; what cannot be read is left out."""
    found: list[TelegramMessage] = []
    try:
        rows: Any = json.loads(text or "[]")
        for row in rows:
            said = TelegramMessage(*row)
            quotes, files = (
                tuple(QuotedMessage(*one) for one in said.quotes),
                tuple(TelegramFile(*one) for one in said.files),
            )
            found.append(said._replace(notes=tuple(said.notes), quotes=quotes, files=files))
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
    """Raise ChannelError when a file of that size is not to be fetched."""
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
    waiting: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _NAMED.match(line)
        attached = _find_attachment(found[1], found[2].strip(), workspace) if found else None
        if attached is None:
            waiting.append(line)
            continue
        if said := "\n".join(waiting).strip("\n"):
            yield said
        waiting = []
        yield attached
    if said := "\n".join(waiting).strip("\n"):
        yield said


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
