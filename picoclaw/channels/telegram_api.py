"""The Bot API over HTTPS: one call, and the updates and files that it brings.

Updates may hold anything: what is not as documented is left out, and never an error.
Source: https://core.telegram.org/bots/api, "Making requests", "Getting updates".
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from picoclaw.channels.attachments import ArrivedMessage, IncomingFile, QuotedMessage
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import (
    QUOTED_CHARS,
    SERVER_ERROR,
    BadToken,
    Busy,
    CallRefused,
    HttpApi,
    OwnerMustAct,
    Unreachable,
    as_dict,
    as_int,
    as_text,
    get,
    open_upload,
)
from picoclaw.config import Config
from picoclaw.errors import ChannelError
from picoclaw.files import RootedPath
from picoclaw.http_client import OK
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.text import pattern, truncate

_MAX_RESPONSE_BYTES = 4_000_000  # bytes; 40 updates of the longest kind
_QUIET_S, _STALLED_S = 60.0, 20.0
_TOKEN = pattern(r"\d{1,20}:[A-Za-z0-9_-]{10,200}")


class Conflict(OwnerMustAct):
    """Somebody else takes this bot's messages."""


class Upload(NamedTuple):
    """A file that goes with a call: the field's name, where it is, or the picture itself, and how many bytes it has."""

    field: str
    place: RootedPath | bytes
    size: int


class TelegramApi(HttpApi):
    """Calls one bot's methods; any thread may. What an error says never holds the token."""

    def __init__(self, token: str, base: str = "https://api.telegram.org") -> None:
        super().__init__("Telegram", token, base)

    def check(self) -> None:
        if not _TOKEN.fullmatch(self._token):
            where = 'put it into secrets.toml as telegram_token = "..."'
            raise BadToken(f"the Telegram token is not valid: @BotFather gives it as 123456789:AAH…; {where}")

    def call(self, method: str, fields: Mapping[str, Any], wait: float = 20.0, upload: Upload | None = None) -> Any:
        """Call a method and return its result; over after `wait` seconds.

        Raises Unreachable, Busy, BadToken, Conflict or CallRefused.
        """
        self.check()
        quiet = min(_QUIET_S, wait) if upload else wait  # a large file may take long, each piece of it may not
        body = _encode_body(dict(fields), upload)
        answer = self.request(
            "POST", f"/bot{self._token}/{method}", body, wait=wait, quiet=quiet, most=_MAX_RESPONSE_BYTES
        )
        return _parse_result(self.read_object(answer, "ok"), answer.status)

    def fetch(self, path: str, most: int, wait: float) -> bytes:
        """Fetch a file of at most `most` bytes by the path that getFile gave. Raises as `call`."""
        self.check()
        quiet, path = min(_STALLED_S, wait), f"/file/bot{self._token}/{path}"
        answer = self.request("GET", path, nullcontext({}), wait=wait, quiet=quiet, most=most)
        if answer.status != OK:
            raise CallRefused(f"Telegram does not give the file (HTTP {answer.status})")
        return answer.data


@contextmanager
def _encode_body(fields: dict[str, Any], upload: Upload | None) -> Iterator[dict[str, Any]]:
    """Give what is sent: JSON, or a form when a file goes with it, which is read as it is sent."""
    if upload is None:
        yield {"content": json.dumps(fields).encode()}
    else:
        plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in fields.items()}
        name = "chart.png" if isinstance(upload.place, bytes) else upload.place.path.name
        with open_upload(upload.place) as file:
            kind = f"multipart/form-data; boundary={os.urandom(16).hex()}"
            files = {upload.field: (name, file)}
            yield {"data": plain, "files": files, "headers": {"Content-Type": kind}}


def _parse_result(told: dict[str, Any], status: int) -> Any:
    if told["ok"]:
        return told.get("result")
    code = told.get("error_code") if isinstance(told.get("error_code"), int) else status
    said = " ".join(str(told.get("description") or f"error {code}").split())[:300]
    more: dict[str, Any] = told["parameters"] if isinstance(told.get("parameters"), dict) else {}
    match code:
        case 401 | 404:
            raise BadToken(
                f"Telegram does not know the token ({said}): ask @BotFather, then correct it in secrets.toml"
            )
        case 409 if "webhook" in said.lower():
            raise Conflict("this bot's messages go to a webhook: `picoclaw telegram unhook` takes it off")
        case 409:
            raise Conflict("another program polls this bot: end it, or give each its own bot")
        case 429:
            seconds = more.get("retry_after")
            pause = float(min(max(seconds, 0), 3600)) if isinstance(seconds, int) else 5.0
            raise Busy(f"Telegram asks for a pause ({said})", pause)
        case int() if code >= SERVER_ERROR:
            raise Unreachable(f"Telegram has a server error ({code}: {said})", unsure=True)
    moved = more.get("migrate_to_chat_id")
    raise CallRefused(f"Telegram refused: {said}", moved_to=moved if isinstance(moved, int) else 0)


_FILES = ("document", "voice", "audio", "video", "video_note", "animation")


class BotIdentity(NamedTuple):
    id: int
    name: str


class ChatPlace(NamedTuple):
    chat: int
    thread: int = 0

    @property
    def key(self) -> str:
        return f"telegram:{self.chat}:{self.thread}" if self.thread else f"telegram:{self.chat}"

    @property
    def fields(self) -> dict[str, Any]:
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


Update = ArrivedMessage | ButtonPress | EmptyUpdate


def make_pairing(config: Config) -> Pairing:
    allow = [str(number) for number in config.telegram.allow if number > 0]
    owner = str(config.telegram.owner) if config.telegram.owner > 0 else ""
    return Pairing("telegram", config.home, allow, owner, config.people, config.agents)


def identify_bot(api: TelegramApi, wait: float = 20.0) -> BotIdentity:
    """Ask which bot this is, for at most `wait` seconds. Raises as TelegramApi.call."""
    told = api.call("getMe", {}, wait)
    number, name = get(told, "id"), get(told, "username")
    if not isinstance(number, int) or not isinstance(name, str) or not name:
        raise Unreachable("Telegram does not say which bot this is")
    return BotIdentity(number, name)


def parse_update(raw: Any, me: BotIdentity) -> Update | None:
    """Read one update; None for what has not even a number to acknowledge it by."""
    number = as_int(get(raw, "update_id"))
    if not number:
        return None
    if query := as_dict(raw.get("callback_query")):
        user, name, data = as_int(get(query, "from", "id")), as_text(query.get("id")), as_text(query.get("data"))
        chat = as_int(get(query, "message", "chat", "id"))
        message_id = as_int(get(query, "message", "message_id"))
        return ButtonPress(number, name, user, chat, data, message_id) if user and name else EmptyUpdate(number)
    edited = "edited_message" in raw
    message = as_dict(raw.get("edited_message" if edited else "message"))
    return _parse_message(number, message, me, edited=edited) or EmptyUpdate(number)


def join_albums(updates: list[Update]) -> list[Update]:
    """Make one message of the files that were sent together; the newest number acknowledges them all."""
    merged: list[Update] = []
    for one in updates:
        last = merged[-1] if merged else None
        if (
            isinstance(one, ArrivedMessage)
            and isinstance(last, ArrivedMessage)
            and one.album
            and (one.album, one.key, one.sender) == (last.album, last.key, last.sender)
        ):
            text, files = last.text or one.text, last.files + one.files
            addressed, strange = last.addressed or one.addressed, last.strange or one.strange
            merged[-1] = last._replace(update=one.update, text=text, files=files, addressed=addressed, strange=strange)
        else:
            merged.append(one)
    return merged


def _parse_message(number: int, message: dict[str, Any], me: BotIdentity, *, edited: bool) -> ArrivedMessage | None:
    chat, message_id, user = (as_int(get(message, *keys)) for keys in (("chat", "id"), ("message_id",), ("from", "id")))
    text, attached = _read_text(message), _list_files(message)
    if not (chat and message_id and user and (text or attached)):
        return None
    if message["from"].get("is_bot") is True or "sender_chat" in message:
        return None
    if edited and "location" in message:  # a place that is shared live moves every few seconds
        return None
    private = message["chat"].get("type") == "private"
    thread = as_int(message.get("message_thread_id")) if message.get("is_topic_message") is True else 0
    return ArrivedMessage(
        update=number,
        key=ChatPlace(chat, thread).key,
        stem=f"telegram{chat}-{message_id}",
        sender=str(user),
        who=_read_name(message["from"]),
        text=_strip_bot_name(text, me),
        date=as_int(message.get("edit_date" if edited else "date")),
        notes=("edited",) if edited else (),
        strange=_explain_foreign(message),
        quotes=_list_quotes(message, me),
        files=attached,
        album=as_text(message.get("media_group_id")),
        private=private,
        addressed=private or _is_addressed(message, text, me),
        external=f"{message_id}e{as_int(message.get('edit_date'))}" if edited else str(message_id),
    )


def _read_text(message: dict[str, Any]) -> str:
    """Read what a message says; a place and a contact in words."""
    if text := as_text(message.get("text")) or as_text(message.get("caption")):
        return text.strip()
    if emoji := as_text(get(message, "sticker", "emoji")):
        return emoji
    latitude, longitude = get(message, "location", "latitude"), get(message, "location", "longitude")
    if isinstance(latitude, float | int) and isinstance(longitude, float | int):
        return f"latitude {latitude}, longitude {longitude}"
    parts = (as_text(get(message, "contact", key)) for key in ("first_name", "last_name", "phone_number"))
    return " ".join(filter(None, parts))


def _explain_foreign(message: dict[str, Any]) -> str:
    """Say why a message is not the word of whoever sends it: they have passed on what another has written."""
    if origin := as_dict(message.get("forward_origin")):
        senders = (as_dict(origin.get(key)) for key in ("sender_user", "chat", "sender_chat"))
        sender = next(filter(None, senders), None)
        name = _read_name(sender) if sender else untrusted.sanitize_name(as_text(origin.get("sender_user_name")))
        return f"a message that was forwarded from {name or 'somebody'}"
    if bot := as_dict(message.get("via_bot")):
        return f"a message that was written by the bot {_read_name(bot)}"
    return "a contact's card" if as_dict(message.get("contact")) else ""


def _list_quotes(message: dict[str, Any], me: BotIdentity) -> tuple[QuotedMessage, ...]:
    """Give what a message answers, shortened; of a part that was chosen, that part."""
    text, whose, own = as_text(get(message, "quote", "text")), "another chat", False
    if answered := as_dict(message.get("reply_to_message")):
        by = as_int(get(answered, "from", "id"))
        whose = "yours" if by == me.id else "another"
        own = by == as_int(get(message, "from", "id")) and not _explain_foreign(answered)
        text = text or _read_text(answered)
    elif not as_dict(message.get("external_reply")):
        return ()
    text = truncate(" ".join(text.split()), QUOTED_CHARS)
    return (QuotedMessage(whose, text, own),) if text else ()


def _is_addressed(message: dict[str, Any], text: str, me: BotIdentity) -> bool:
    if as_int(get(message, "reply_to_message", "from", "id")) == me.id:
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


def _list_files(message: dict[str, Any]) -> tuple[IncomingFile, ...]:
    photos = message.get("photo")
    sizes = [_parse_file(photo, "photo") for photo in photos] if isinstance(photos, list) else []
    if found := [file for file in sizes if file]:
        return (max(found, key=lambda file: file.size),)
    return next(((file,) for kind in _FILES if (file := _parse_file(message.get(kind), kind))), ())


def _parse_file(raw: Any, kind: str) -> IncomingFile | None:
    name, size = as_text(get(raw, "file_id")), max(0, as_int(get(raw, "file_size")))
    return IncomingFile(name, kind, as_text(get(raw, "file_name")), size) if name else None


def _read_name(sender: dict[str, Any]) -> str:
    parts = (as_text(sender.get(key)) for key in ("first_name", "last_name", "title"))
    return untrusted.sanitize_name(" ".join(filter(None, parts))) or str(as_int(sender.get("id")))
