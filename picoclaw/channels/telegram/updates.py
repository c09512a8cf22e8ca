"""Reads the updates of the Bot API, which may hold anything: what is not as documented is left out, and never an error.

Pure. Source: https://core.telegram.org/bots/api#update.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from picoclaw import untrusted

_QUOTED_CHARS = 300
_FILES = ("document", "voice", "audio", "video", "video_note", "animation")


class Me(NamedTuple):
    """Which bot this is."""

    id: int
    name: str


class File(NamedTuple):
    """A file that somebody has sent; `size` is 0 where Telegram does not say."""

    id: str
    kind: str
    name: str
    size: int


class Quote(NamedTuple):
    """A message that another answers: whose it is, and whether that is the same person's own word."""

    whose: str
    text: str
    own: bool


class Said(NamedTuple):
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
    quotes: tuple[Quote, ...] = ()
    files: tuple[File, ...] = ()
    album: str = ""
    private: bool = False
    addressed: bool = True
    external: str = ""


class Pressed(NamedTuple):
    """A button that was pressed."""

    update: int
    id: str
    user: int
    chat: int
    data: str


class Nothing(NamedTuple):
    """An update that says nothing to us, and only has to be acknowledged."""

    update: int


Update = Said | Pressed | Nothing


def read(raw: Any, me: Me) -> Update | None:
    """Read one update; None for what has not even a number to acknowledge it by."""
    update = _dict(raw)
    number = _int(update.get("update_id"))
    if not number:
        return None
    if query := _dict(update.get("callback_query")):
        return _pressed(number, query)
    edited = "edited_message" in update
    message = _dict(update.get("edited_message" if edited else "message"))
    return _said(number, message, me, edited=edited) or Nothing(number)


def together(updates: list[Update]) -> list[Update]:
    """Make one message of the files that were sent together; the newest number acknowledges them all."""
    merged: list[Update] = []
    for one in updates:
        last = merged[-1] if merged else None
        if isinstance(one, Said) and isinstance(last, Said) and _one_album(one, last):
            text, files = last.text or one.text, last.files + one.files
            addressed, strange = last.addressed or one.addressed, last.strange or one.strange
            merged[-1] = last._replace(update=one.update, text=text, files=files, addressed=addressed, strange=strange)
        else:
            merged.append(one)
    return merged


def _one_album(one: Said, last: Said) -> bool:
    return bool(one.album) and (one.album, one.chat, one.user) == (last.album, last.chat, last.user)


def _pressed(number: int, query: dict[str, Any]) -> Pressed | Nothing:
    user, chat = _int(_dict(query.get("from")).get("id")), _dict(_dict(query.get("message")).get("chat"))
    name, data = _text(query.get("id")), _text(query.get("data"))
    return Pressed(number, name, user, _int(chat.get("id")), data) if user and name else Nothing(number)


def _said(number: int, message: dict[str, Any], me: Me, *, edited: bool) -> Said | None:
    chat, sender = _dict(message.get("chat")), _dict(message.get("from"))
    ids = _int(chat.get("id")), _int(message.get("message_id")), _int(sender.get("id"))
    files, text = _files(message), _words(message)
    if not all(ids) or not (text or files) or sender.get("is_bot") is True or "sender_chat" in message:
        return None
    if edited and "location" in message:  # a place that is shared live moves every few seconds
        return None
    private = chat.get("type") == "private"
    again = f"e{_int(message.get('edit_date'))}" if edited else ""
    return Said(
        number,
        ids[0],
        _int(message.get("message_thread_id")) if message.get("is_topic_message") is True else 0,
        ids[1],
        ids[2],
        _name(sender),
        _unaddressed(text, me),
        _int(message.get("edit_date" if edited else "date")),
        ("edited",) if edited else (),
        _strange(message),
        tuple(_quotes(message, me)),
        files,
        _text(message.get("media_group_id")),
        private,
        private or _is_addressed(message, text, me),
        f"{ids[1]}{again}",
    )


def _words(message: dict[str, Any]) -> str:
    """What a message says; a place and a contact in words."""
    if text := _text(message.get("text")) or _text(message.get("caption")):
        return text.strip()
    if emoji := _text(_dict(message.get("sticker")).get("emoji")):
        return emoji
    place, contact = _dict(message.get("location")), _dict(message.get("contact"))
    if isinstance(place.get("latitude"), float | int) and isinstance(place.get("longitude"), float | int):
        return f"latitude {place['latitude']}, longitude {place['longitude']}"
    return " ".join(filter(None, (_text(contact.get(key)) for key in ("first_name", "last_name", "phone_number"))))


def _strange(message: dict[str, Any]) -> str:
    """Say why a message is not the word of whoever sends it: they have passed on what another has written."""
    if origin := _dict(message.get("forward_origin")):
        sender = _dict(origin.get("sender_user")) or _dict(origin.get("chat")) or _dict(origin.get("sender_chat"))
        name = _name(sender) if sender else untrusted.name(_text(origin.get("sender_user_name")))
        return f"a message that was forwarded from {name or 'somebody'}"
    if bot := _dict(message.get("via_bot")):
        return f"a message that was written by the bot {_name(bot)}"
    return "a contact's card" if _dict(message.get("contact")) else ""


def _quotes(message: dict[str, Any], me: Me) -> Iterator[Quote]:
    """Give what a message answers, shortened; of a part that was chosen, that part."""
    chosen = _text(_dict(message.get("quote")).get("text"))
    if answered := _dict(message.get("reply_to_message")):
        by, sender = _int(_dict(answered.get("from")).get("id")), _int(_dict(message.get("from")).get("id"))
        whose = "yours" if by == me.id else "another"
        own = by == sender and not _strange(answered)
        yield from _quote(whose, chosen or _words(answered), own=own)
    elif _dict(message.get("external_reply")):
        yield from _quote("another chat", chosen, own=False)


def _quote(whose: str, text: str, *, own: bool) -> Iterator[Quote]:
    cut = " ".join(text.split())
    if cut:
        yield Quote(whose, cut if len(cut) <= _QUOTED_CHARS else f"{cut[:_QUOTED_CHARS]}…", own)


def _is_addressed(message: dict[str, Any], text: str, me: Me) -> bool:
    if _int(_dict(_dict(message.get("reply_to_message")).get("from")).get("id")) == me.id:
        return True
    named = rf"(?:(?<![\w@/.+-])|(?<!\S)/\w+)@{re.escape(me.name)}(?![\w@]|\.\w)"
    return bool(re.search(named, text, re.IGNORECASE))


def _unaddressed(text: str, me: Me) -> str:
    """Leave out the bot's own name, which is there to address it: before the text, or behind a command."""
    first, blank, rest = text.partition(" ")
    mention = f"@{me.name.lower()}"
    if first.lower().rstrip(",:") == mention:
        return rest.lstrip()
    if first.startswith("/") and first.lower().endswith(mention):
        return f"{first[: -len(mention)]}{blank}{rest}"
    return text


def _files(message: dict[str, Any]) -> tuple[File, ...]:
    photos = message.get("photo")
    sizes = [_dict(photo) for photo in photos] if isinstance(photos, list) else []
    if found := [file for photo in sizes if (file := _file(photo, "photo"))]:
        return (max(found, key=lambda file: file.size),)
    for kind in _FILES:
        if file := _file(_dict(message.get(kind)), kind):
            return (file,)
    return ()


def _file(raw: dict[str, Any], kind: str) -> File | None:
    name, size = _text(raw.get("file_id")), _int(raw.get("file_size"))
    return File(name, kind, _text(raw.get("file_name")), max(0, size)) if name else None


def _name(sender: dict[str, Any]) -> str:
    parts = (_text(sender.get(key)) for key in ("first_name", "last_name", "title"))
    return untrusted.name(" ".join(filter(None, parts))) or str(_int(sender.get("id")))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _int(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 63
    return value if fits else 0
