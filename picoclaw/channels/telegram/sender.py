"""Sends into chats: whole answers in order and at the pace that Telegram allows, and each part once if that is known.

Telegram has no number by which a message sent twice could be dropped. Where the connection breaks after a part was
handed over, nobody can know whether it has arrived: it is sent again, and says that it may be a repetition.
Source of what a message may have: https://core.telegram.org/bots/api#messageentity.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from picoclaw.channels.attachments import Attachment
from picoclaw.channels.http_api import Busy, CallRefused, Timing, Unreachable
from picoclaw.channels.rich_text import ChartPicture, Entity, RichText, count_units, split_answer, split_message
from picoclaw.channels.telegram.api import TelegramApi, Upload
from picoclaw.channels.telegram.updates import ChatPlace
from picoclaw.errors import ChannelDown

MAYBE_REPEATED = "(Perhaps sent before: the connection broke off.)"

_CALL_TIMEOUT_S = 20.0
_UPLOAD_BYTES_S = 20_000
_MAX_DOUBLINGS = 3
_MAX_CAPTION_UNITS = 1024
_MAX_ENTITIES = 100
_KNOWN_AGAIN, _KNOWN_IN_A_DIGEST = 200, 60  # characters of a message


_LONG_ANSWER_CHARS, _MIN_GIST_CHARS, _MAX_GIST_CHARS = 1500, 40, 700
MAX_MESSAGE_UNITS = 4096
"""UTF-16 units of one message at most."""

MAX_EXTENDABLE_UNITS = 3800
"""UTF-16 units of a message that may have a line added later."""


class Sender:
    """Sends for one bot, one message at a time, from any thread."""

    def __init__(
        self,
        api: TelegramApi,
        find_workspace: Callable[[ChatPlace], Path | None],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        """`find_workspace` gives the folder of the files that a chat may be sent, None for none."""
        self._api, self._find_workspace, self._ending, self._timing = api, find_workspace, ending, timing
        self._guard = threading.RLock()
        self._next: dict[int, float] = {}
        self._begun: dict[int, tuple[str, list[RichText | Attachment | ChartPicture]]] = {}
        self._unsure: dict[int, int] = {}
        self._doubts: set[tuple[int, str]] = set()

    def send_message(
        self, number: int, place: ChatPlace, text: str, reply_to: int = 0, buttons: Mapping[str, str] | None = None
    ) -> None:
        """Send a message; one that broke off is gone on with where it did. Raises ChannelError.

        Its first part replies to `reply_to`, the number of a message; `buttons` as for `plain`.
        """
        with self._guard:
            begun, left = self._begun.get(number, ("", []))
            if not left or begun != text[:_KNOWN_AGAIN]:
                left = _list_parts(text, self._find_workspace(place))
            self._begun, before = {number: (text[:_KNOWN_AGAIN], left)}, len(left)
            try:
                with self._doubting(place, text):
                    while left:
                        doubts = {(chat, start) for chat, start in self._doubts if chat == place.chat and start in text}
                        first = reply_to if len(left) == before and begun != text[:_KNOWN_AGAIN] else 0
                        self._part(
                            place,
                            left[0],
                            again=bool(doubts),
                            reply_to=first,
                            buttons=buttons if len(left) == 1 else None,
                        )
                        self._doubts -= doubts
                        del left[0]
            except ChannelDown as error:
                error.unsure |= len(left) < before  # only this process knows which parts were told
                raise
            self._begun.clear()

    def say(self, place: ChatPlace, text: str) -> None:
        with self._guard, self._doubting(place, text):
            for part in _list_parts(text, self._find_workspace(place)):
                self._part(place, part)

    def plain(self, place: ChatPlace, text: str, buttons: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Send a text as it is, with buttons under its end; returns the last message's number and text.

        `buttons` has by the label of each what Telegram sends back when it is pressed. Raises ChannelError.
        """
        with self._guard:
            *before, last = split_message(RichText(text), MAX_EXTENDABLE_UNITS)
            for part in before:
                self._part(place, part)
            fields = {"text": last.text, "link_preview_options": {"is_disabled": True}} | _encode_buttons(buttons)
            sent = self._put(place, "sendMessage", fields)
            return (int(sent.get("message_id", 0)) if isinstance(sent, dict) else 0), last.text

    def edit(self, chat: int, message: int, text: str) -> None:
        """Put another text in place of a message's, and take its buttons away. Raises ChannelError."""
        fields = {"message_id": message, "text": text, "link_preview_options": {"is_disabled": True}}
        with self._guard:
            self._put(ChatPlace(chat), "editMessageText", fields)

    @contextmanager
    def _doubting(self, place: ChatPlace, text: str) -> Iterator[None]:
        """Remember a text of which something may have been sent, for when it comes again, alone or among others."""
        try:
            yield
        except Unreachable as error:
            if error.unsure and text:
                self._doubts.add((place.chat, text[:_KNOWN_IN_A_DIGEST]))
            raise

    def _part(
        self,
        place: ChatPlace,
        part: RichText | Attachment | ChartPicture,
        *,
        again: bool = False,
        reply_to: int = 0,
        buttons: Mapping[str, str] | None = None,
    ) -> None:
        more = _encode_buttons(buttons)
        if reply_to:
            more["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        if isinstance(part, Attachment):
            try:
                self._file(place, part, more, again=again)
                return
            except CallRefused as error:  # what comes after the file is told all the same
                part = RichText(f"{part.place.path.name}: {error}")
        if isinstance(part, ChartPicture):
            caption = _mark_repeated(part.caption) if again else part.caption
            words = {"caption": caption.text, "caption_entities": encode_entities(caption.entities, caption.text)}
            try:
                self._put(place, "sendPhoto", words | more, Upload("photo", part.data, len(part.data)))
                return
            except CallRefused:
                part = part.instead
        if again:
            part = _mark_repeated(part)
        fields: dict[str, Any] = {"text": part.text, "link_preview_options": {"is_disabled": True}}
        if part.entities:
            fields["entities"] = encode_entities(part.entities, part.text)
        self._put(place, "sendMessage", fields | more)

    def _file(self, place: ChatPlace, file: Attachment, more: dict[str, Any], *, again: bool) -> None:
        """Send a file; a picture that Telegram does not take as one goes as it is."""
        fits = count_units(file.caption) <= _MAX_CAPTION_UNITS - len(MAYBE_REPEATED) - 1
        words = "\n".join(filter(None, [MAYBE_REPEATED if again else "", file.caption if fits else ""]))
        caption = more | ({"caption": words} if words else {})
        kinds = ["photo", "document"] if file.photo else ["document"]
        for kind in kinds:
            try:
                self._put(place, f"send{kind.capitalize()}", caption, Upload(kind, file.place, file.size))
                return
            except CallRefused:
                if kind == kinds[-1]:
                    raise

    def _put(self, place: ChatPlace, method: str, fields: dict[str, Any], upload: Upload | None = None) -> Any:
        """Make one call at its time, corrected as long as Telegram's refusal says how. Raises ChannelError."""
        whole = place.fields | fields
        while True:
            try:
                sent = self._call(place, method, whole, upload)
            except CallRefused as error:
                if (other := reduce_call(whole, error)) is None:
                    raise
                whole = other
            except Unreachable as error:
                if error.unsure:
                    self._unsure[place.chat] = self._unsure.get(place.chat, 0) + 1
                raise
            else:
                self._unsure.pop(place.chat, None)
                return sent

    def _call(self, place: ChatPlace, method: str, fields: dict[str, Any], upload: Upload | None) -> Any:
        """Make one call when it is this chat's turn, once more after a short pause that Telegram wants.

        After one that may have been done it is given more time, so that a slow network does not repeat it for ever.
        """
        patient = 2 ** min(self._unsure.get(place.chat, 0), _MAX_DOUBLINGS)
        wait = self._timing.wait * patient + (upload.size / _UPLOAD_BYTES_S if upload else 0)
        time_left = _CALL_TIMEOUT_S
        while True:
            rest = self._next.get(place.chat, 0.0) - time.monotonic()
            if rest > _CALL_TIMEOUT_S:
                raise Busy(f"Telegram asks for a pause, for {rest:.0f} s more", rest)
            if rest > 0 and self._ending.wait(rest):
                raise Unreachable("Telegram was left")
            try:
                sent = self._api.call(method, fields, wait, upload)
            except Busy as error:
                self._delay(place, error.seconds)
                time_left -= max(1.0, error.seconds)
                if time_left < 0:
                    raise
            else:
                self._delay(place, self._timing.in_groups if place.chat < 0 else self._timing.between)
                return sent

    def _delay(self, place: ChatPlace, seconds: float) -> None:
        now = time.monotonic()
        self._next = {chat: at for chat, at in self._next.items() if at > now} | {place.chat: now + seconds}


def reduce_call(fields: Mapping[str, Any], error: CallRefused) -> dict[str, Any] | None:
    """Make of a refused call one that may be taken; None when nothing is left to leave out."""
    if error.moved_to and fields.get("chat_id") != error.moved_to:
        return {**fields, "chat_id": error.moved_to}
    for name, sign in (("message_thread_id", "thread"), ("entities", "entit"), ("reply_parameters", "repl")):
        if name in fields and sign in str(error).lower():
            return {key: value for key, value in fields.items() if key != name}
    return None


def _list_parts(text: str, workspace: Path | None) -> list[RichText | Attachment | ChartPicture]:
    room = len(MAYBE_REPEATED) + 1
    parts: list[RichText | Attachment | ChartPicture] = []
    for part in split_answer(text, workspace, _MAX_CAPTION_UNITS - room, MAX_EXTENDABLE_UNITS):
        parts += split_message(fold_rest(part), MAX_MESSAGE_UNITS - room) if isinstance(part, RichText) else [part]
    return parts


def encode_entities(entities: tuple[Entity, ...], text: str) -> list[dict[str, Any]]:
    return [
        {"type": e.kind, "offset": count_units(text[: e.start]), "length": count_units(text[e.start : e.end])}
        | ({"url": e.more} if e.kind == "text_link" else {"language": e.more} if e.more else {})
        for e in entities[:_MAX_ENTITIES]
    ]


def fold_rest(whole: RichText) -> RichText:
    """Leave the first paragraph of a long answer open, and fold the rest, which a tap shows."""
    end = whole.text.find("\n\n", _MIN_GIST_CHARS)
    if len(whole.text) < _LONG_ANSWER_CHARS or not 0 < end <= _MAX_GIST_CHARS:
        return whole
    start = end + 2
    quote = Entity("expandable_blockquote", start, len(whole.text))
    inside = [e for e in whole.entities if e.end <= start or e.kind != "blockquote"]  # a quote holds no other
    return RichText(whole.text, tuple(sorted([*inside, quote], key=lambda e: (e.start, -e.end))))


def _encode_buttons(buttons: Mapping[str, str] | None) -> dict[str, Any]:
    row = [{"text": label, "callback_data": data} for label, data in (buttons or {}).items()]
    return {"reply_markup": {"inline_keyboard": [row]}} if row else {}


def _mark_repeated(part: RichText) -> RichText:
    shift = len(MAYBE_REPEATED) + 1
    moved = (e._replace(start=e.start + shift, end=e.end + shift) for e in part.entities)
    return RichText(f"{MAYBE_REPEATED}\n{part.text}", tuple(moved))
