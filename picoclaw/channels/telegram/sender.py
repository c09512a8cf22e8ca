"""Sends into chats: whole answers in order and at the pace that Telegram allows, and each part once if that is known.

Telegram has no number by which a message sent twice could be dropped. Where the connection breaks after a part was
handed over, nobody can know whether it has arrived: it is sent again, and says that it may be a repetition.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from picoclaw.channels.telegram.api import Api, Busy, NotDone, Unreachable, Upload
from picoclaw.channels.telegram.files import Attached, pieces
from picoclaw.channels.telegram.link import Timing
from picoclaw.channels.telegram.markup import Rich, rich
from picoclaw.channels.telegram.split import split, units, wire
from picoclaw.errors import ChannelError

PERHAPS = "(Perhaps sent before: the connection broke off.)"

_PATIENCE_S = 20.0
_UPLOAD_BYTES_S = 20_000
_MOST_DOUBLINGS = 3
_CAPTION = 1024
_KNOWN_AGAIN, _KNOWN_IN_A_DIGEST = 200, 60  # characters of a letter


MESSAGE_ROOM = 3800
"""UTF-16 units of a message that may have a line added later."""


class Button(NamedTuple):
    """A button under a message: what it says, and what Telegram sends back when it is pressed."""

    label: str
    data: str


class Place(NamedTuple):
    """A chat, and a topic in it or 0."""

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


def place_of(key: str) -> Place:
    """Read a session's key. Raises ChannelError for one that names no chat of Telegram's."""
    try:
        name, chat, *thread = key.split(":")
        place = Place(int(chat), int(thread[0]) if thread else 0)
    except ValueError:
        name, place = "", Place(0)
    if name != "telegram" or place.key != key or not place.chat:
        raise ChannelError(f"{key!r} is no chat of Telegram's")
    return place


class Sender:
    """Sends for one bot, one message at a time, from any thread."""

    def __init__(
        self,
        api: Api,
        parts: Callable[[str], list[Rich | Attached]],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        """`parts` makes of a text what is sent."""
        self._api, self._parts, self._ending, self._timing = api, parts, ending, timing
        self._guard = threading.RLock()
        self._next: dict[int, float] = {}
        self._begun: dict[int, tuple[str, list[Rich | Attached]]] = {}
        self._unsure: dict[int, int] = {}
        self._doubts: set[tuple[int, str]] = set()

    def letter(self, number: int, place: Place, text: str) -> None:
        """Send a letter; one that broke off is gone on with where it did. Raises ChannelError."""
        with self._guard:
            begun, left = self._begun.get(number, ("", []))
            if not left or begun != text[:_KNOWN_AGAIN]:
                left = self._parts(text)
            self._begun = {number: (text[:_KNOWN_AGAIN], left)}
            with self._doubting(place, text):
                while left:
                    doubts = {(chat, start) for chat, start in self._doubts if chat == place.chat and start in text}
                    self._part(place, left[0], again=bool(doubts))
                    self._doubts -= doubts
                    del left[0]
            self._begun.clear()

    def say(self, place: Place, text: str) -> None:
        """Send a text that is no letter. Raises ChannelError."""
        with self._guard, self._doubting(place, text):
            for part in self._parts(text):
                self._part(place, part)

    def plain(self, place: Place, text: str, buttons: Sequence[Button] = ()) -> tuple[int, str]:
        """Send a text as it is, with buttons under its end; returns the last message's number and text.

        Raises ChannelError.
        """
        keys = [{"text": button.label, "callback_data": button.data} for button in buttons]
        with self._guard:
            *before, last = split(Rich(text), MESSAGE_ROOM)
            for part in before:
                self._part(place, part)
            fields = {"text": last.text, "link_preview_options": {"is_disabled": True}}
            sent = self._put(
                place, "sendMessage", fields | ({"reply_markup": {"inline_keyboard": [keys]}} if keys else {})
            )
            return (int(sent.get("message_id", 0)) if isinstance(sent, dict) else 0), last.text

    def edit(self, chat: int, message: int, text: str) -> None:
        """Put another text in place of a message's, and take its buttons away. Raises ChannelError."""
        fields = {"message_id": message, "text": text, "link_preview_options": {"is_disabled": True}}
        with self._guard:
            self._put(Place(chat), "editMessageText", fields)

    @contextmanager
    def _doubting(self, place: Place, text: str) -> Iterator[None]:
        """Remember a text of which something may have been sent, for when it comes again, alone or among others."""
        try:
            yield
        except Unreachable as error:
            if error.unsure and text:
                self._doubts.add((place.chat, text[:_KNOWN_IN_A_DIGEST]))
            raise

    def _part(self, place: Place, part: Rich | Attached, *, again: bool = False) -> None:
        if isinstance(part, Attached):
            try:
                self._file(place, part, again=again)
                return
            except NotDone as error:  # what comes after the file is told all the same
                part = Rich(f"{part.place.path.name}: {error}")
        if again:
            part = _noted(part)
        fields: dict[str, Any] = {"text": part.text, "link_preview_options": {"is_disabled": True}}
        if part.entities:
            fields["entities"] = wire(part.entities, part.text)
        self._put(place, "sendMessage", fields)

    def _file(self, place: Place, file: Attached, *, again: bool) -> None:
        """Send a file; a picture that Telegram does not take as one goes as it is."""
        fits = units(file.caption) <= _CAPTION - len(PERHAPS) - 1
        words = "\n".join(filter(None, [PERHAPS if again else "", file.caption if fits else ""]))
        caption = {"caption": words} if words else {}
        kinds = ["photo", "document"] if file.photo else ["document"]
        for kind in kinds:
            try:
                self._put(place, f"send{kind.capitalize()}", caption, Upload(kind, file.place, file.size))
                return
            except NotDone:
                if kind == kinds[-1]:
                    raise

    def _put(self, place: Place, method: str, fields: dict[str, Any], upload: Upload | None = None) -> Any:
        """Make one call at its time, mended as long as Telegram's refusal says how. Raises ChannelError."""
        whole = place.fields | fields
        while True:
            try:
                sent = self._call(place, method, whole, upload)
            except NotDone as error:
                if (other := mended(whole, error)) is None:
                    raise
                whole = other
            except Unreachable as error:
                if error.unsure:
                    self._unsure[place.chat] = self._unsure.get(place.chat, 0) + 1
                raise
            else:
                self._unsure.pop(place.chat, None)
                return sent

    def _call(self, place: Place, method: str, fields: dict[str, Any], upload: Upload | None) -> Any:
        """Make one call when it is this chat's turn, once more after a short pause that Telegram wants.

        After one that may have been done it is given more time, so that a slow network does not repeat it for ever.
        """
        patient = 2 ** min(self._unsure.get(place.chat, 0), _MOST_DOUBLINGS)
        wait = self._timing.wait * patient + (upload.size / _UPLOAD_BYTES_S if upload else 0)
        patience = _PATIENCE_S
        while True:
            self._rest(self._next.get(place.chat, 0.0) - time.monotonic())
            try:
                sent = self._api.call(method, fields, wait, upload)
            except Busy as error:
                self._later(place, error.seconds)
                patience -= max(1.0, error.seconds)
                if patience < 0:
                    raise
            else:
                self._later(place, self._timing.in_groups if place.chat < 0 else self._timing.between)
                return sent

    def _later(self, place: Place, seconds: float) -> None:
        now = time.monotonic()
        self._next = {chat: at for chat, at in self._next.items() if at > now} | {place.chat: now + seconds}

    def _rest(self, seconds: float) -> None:
        if seconds > _PATIENCE_S:
            raise Busy(f"Telegram wants a pause, for {seconds:.0f} s more", seconds)
        if seconds > 0 and self._ending.wait(seconds):
            raise Unreachable("Telegram was left")


def mended(fields: Mapping[str, Any], error: NotDone) -> dict[str, Any] | None:
    """Make of a refused call one that may be taken; None when nothing is left to leave out."""
    if error.moved_to and fields.get("chat_id") != error.moved_to:
        return {**fields, "chat_id": error.moved_to}
    for name, sign in (("message_thread_id", "thread"), ("entities", "entit")):
        if name in fields and sign in str(error).lower():
            return {key: value for key, value in fields.items() if key != name}
    return None


def parts_of(text: str, workspace: Any) -> list[Rich | Attached]:
    """Make of an answer in Markdown the messages that it is sent in."""
    parts: list[Rich | Attached] = []
    for piece in pieces(text, workspace):
        parts += [piece] if isinstance(piece, Attached) else split(rich(piece), 4096 - len(PERHAPS) - 1)
    return parts


def _noted(part: Rich) -> Rich:
    shift = len(PERHAPS) + 1
    moved = (e._replace(start=e.start + shift, end=e.end + shift) for e in part.entities)
    return Rich(f"{PERHAPS}\n{part.text}", tuple(moved))
