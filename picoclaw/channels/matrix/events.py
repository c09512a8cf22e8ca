"""What a homeserver brings: the events of rooms. They may hold anything: what is not as specified is left out.

Source: https://spec.matrix.org/v1.11/client-server-api/, "Instant Messaging", "Rich replies", "Threading",
"Event annotations and reactions", "Event replacements", "User and room mentions".
"""

import re
from collections.abc import Mapping
from typing import Any

from picoclaw.channels.attachments import IncomingFile
from picoclaw.channels.http_api import as_dict, as_int, as_text, get
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import QUOTED_CHARS, QuotedMessage
from picoclaw.config import Config
from picoclaw.errors import ChannelError
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.text import pattern, truncate

_MAX_TEXT_CHARS = 20_000
_FILES = {"m.image": "photo", "m.audio": "audio", "m.video": "video", "m.file": "document"}
_ROOM = pattern(r"![\x21-\x7e]{1,254}")
_EVENT = pattern(r"\$[\x21-\x7e]{1,254}")
_USER = pattern(r"@[\x21-\x39\x3b-\x7e]{0,200}:[A-Za-z0-9.:\[\]-]{1,230}")
_MEDIA = pattern(r"mxc://[A-Za-z0-9.:\[\]-]{1,255}/[A-Za-z0-9_~.-]{1,255}")
_GEO = pattern(r"geo:(-?\d{1,3}(?:\.\d{1,12})?),(-?\d{1,3}(?:\.\d{1,12})?)(?:[,;?].*)?", re.DOTALL)
_VARIANTS = {ord("\ufe0f"): None, **dict.fromkeys(range(0x1F3FB, 0x1F400))}


class RoomPlace(NamedTuple):
    """A room, or a thread in it, by the event that it begins with."""

    room: str
    thread: str = ""

    @property
    def key(self) -> str:
        return f"matrix:{self.room}:{self.thread}" if self.thread else f"matrix:{self.room}"


def parse_place(key: str) -> RoomPlace:
    """Read a session's key. Raises ChannelError for one that names no room."""
    name, _, rest = key.partition(":")
    room, mark, thread = rest.partition(":$")
    place = RoomPlace(room, f"${thread}" if mark else "")
    if name != "matrix" or not is_room(room) or (mark and not _EVENT.fullmatch(place.thread)):
        raise ChannelError(f"{key!r} is not a Matrix room")
    return place


def is_room(text: Any) -> bool:
    """Whether this names a room, and one that a session's key can hold."""
    return isinstance(text, str) and bool(_ROOM.fullmatch(text)) and ":$" not in text


def is_user(text: Any) -> bool:
    return isinstance(text, str) and bool(_USER.fullmatch(text))


def make_pairing(config: Config) -> Pairing:
    """Give the people of config.toml, and those who were paired."""
    return Pairing("matrix", config.home, config.matrix.allow, config.matrix.owner, config.people, config.agents)


class RoomInfo(NamedTuple):
    members: Mapping[str, str]

    @property
    def is_private(self) -> bool:
        """Whether only one person is there beside us."""
        return len(self.members) <= 2

    def name(self, user: str) -> str:
        """Name a member as it can be shown: by the name that they chose, and the one that is theirs alone."""
        chosen = untrusted.sanitize_name(self.members.get(user, ""))
        return f"{chosen} ({user})" if chosen and chosen != user else user


class MatrixMessage(NamedTuple):
    """A message; `update` is its event, `date` when it was sent, in seconds since 1970 by its sender's server.

    `replaces` is the event that it is an edit of, `reply_to` the one that it answers, '' where there is none.
    `addressed` when it is meant for us, which in a group not every message is. Messages that wait for their files are
    kept as lists in this order.
    """

    update: str
    room: str
    thread: str
    user: str
    who: str
    text: str
    date: int
    notes: tuple[str, ...] = ()
    quotes: tuple[QuotedMessage, ...] = ()
    files: tuple[IncomingFile, ...] = ()
    reply_to: str = ""
    replaces: str = ""
    private: bool = False
    addressed: bool = True

    @property
    def place(self) -> RoomPlace:
        return RoomPlace(self.room, self.thread)

    @property
    def sender(self) -> str:
        return self.user

    @property
    def external(self) -> str:
        return self.update

    @property
    def strange(self) -> str:
        return ""  # a message that is passed on looks like any other

    @property
    def stem(self) -> str:
        return f"matrix-{''.join(filter(str.isalnum, self.update))[:16]}"


class Reaction(NamedTuple):
    """An emoji that somebody has put to an event, without the variants of its look."""

    update: str
    room: str
    user: str
    target: str
    emoji: str


def parse_event(raw: Any, room: str, info: RoomInfo, me: str) -> MatrixMessage | Reaction | None:
    """Read one event of a room's timeline; None for what says nothing to us, and for our own."""
    event, user, content = get(raw, "event_id"), get(raw, "sender"), get(raw, "content")
    if not is_event(event) or not is_user(user) or user == me or not isinstance(content, dict) or "state_key" in raw:
        return None
    relation = as_dict(content.get("m.relates_to"))
    kind, target = relation.get("rel_type"), as_event(relation.get("event_id"))
    name = as_text(raw.get("type"))
    if name == "m.reaction":
        emoji = as_text(relation.get("key"))[:20].translate(_VARIANTS)
        return Reaction(event, room, user, target, emoji) if kind == "m.annotation" and target and emoji else None
    if name not in {"m.room.message", "m.sticker"}:
        return None
    replaces = target if kind == "m.replace" else ""
    if replaces:
        content = as_dict(content.get("m.new_content"))
    is_fallback = kind == "m.thread" and relation.get("is_falling_back") is True
    reply_to = "" if is_fallback else as_event(get(relation, "m.in_reply_to", "event_id"))
    text, attached = _read_text(content, is_reply=bool(reply_to)), _list_files(content)
    if name == "m.room.message" and as_text(content.get("msgtype")) in {"", "m.notice"}:  # a notice is a bot's
        return None
    if not (text or attached):
        return None
    notes = ["edited"] if replaces else []
    if len(text) > _MAX_TEXT_CHARS:
        notes.append(f"only the first {_MAX_TEXT_CHARS:,} of {len(text):,} characters")
        text = text[:_MAX_TEXT_CHARS]
    return MatrixMessage(
        update=event,
        room=room,
        thread=target if kind == "m.thread" else "",
        user=user,
        who=info.name(user),
        text=_strip_own_name(text, me, info.members.get(me, "")),
        date=max(0, as_int(raw.get("origin_server_ts")) // 1000),
        notes=tuple(notes),
        files=attached,
        reply_to=reply_to,
        replaces=replaces,
        private=info.is_private,
        addressed=info.is_private or _is_addressed(content, text, me, info.members.get(me, "")),
    )


def read_quote(raw: Any, user: str, me: str) -> tuple[QuotedMessage, ...]:
    """Give what a message of `user` answers, shortened."""
    content, sender = as_dict(get(raw, "content")), get(raw, "sender")
    is_reply = bool(get(content, "m.relates_to", "m.in_reply_to"))
    text = truncate(" ".join(_read_text(content, is_reply=is_reply).split()), QUOTED_CHARS)
    return (QuotedMessage("yours" if sender == me else "another", text, sender == user),) if text else ()


def get_thread(raw: Any) -> str:
    """Give the thread that an event stands in, '' for none."""
    relation = as_dict(get(raw, "content", "m.relates_to"))
    return as_event(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else ""


def _read_text(content: dict[str, Any], *, is_reply: bool) -> str:
    """Read what a message says by its plain body alone: what only its HTML has, nobody may have seen."""
    body = as_text(content.get("body"))
    if content.get("msgtype") == "m.location" and (found := _GEO.fullmatch(as_text(content.get("geo_uri")))):
        return f"latitude {found[1]}, longitude {found[2]}"
    if as_text(content.get("msgtype")) in _FILES:  # without another name the body is the file's
        return body.strip() if body != as_text(content.get("filename")) and content.get("filename") else ""
    if is_reply and body.startswith("> "):  # older clients put what is answered before the answer
        lines = body.split("\n")
        quoted = next((n for n, line in enumerate(lines) if not line.startswith(">")), len(lines))
        body = "\n".join(lines[quoted:])
    return body.strip()


def _list_files(content: dict[str, Any]) -> tuple[IncomingFile, ...]:
    kind, address = _FILES.get(as_text(content.get("msgtype"))), as_text(content.get("url"))
    if not kind or not _MEDIA.fullmatch(address):
        return ()
    name = as_text(content.get("filename")) or as_text(content.get("body"))
    return (IncomingFile(address, kind, name[:200], max(0, as_int(get(content, "info", "size")))),)


def _is_addressed(content: dict[str, Any], text: str, me: str, name: str) -> bool:
    """Whether a message names us: by a mention, or, of a client that knows none, in its text."""
    if isinstance(mentions := content.get("m.mentions"), dict):
        users = mentions.get("user_ids")
        return isinstance(users, list) and me in users
    return bool(re.search(rf"(?<!\S){re.escape(me)}(?![\w.-])", text)) or (
        bool(name.strip()) and text.lower().startswith((f"{name.lower()}:", f"{name.lower()},"))
    )


def _strip_own_name(text: str, me: str, name: str) -> str:
    """Leave out the name that a message begins with, which is there to address us."""
    for known in filter(None, (me, name.strip())):
        if text.lower().startswith(known.lower()) and text[len(known) : len(known) + 1] in {":", ",", " "}:
            return text[len(known) + 1 :].lstrip()
    return text


def is_event(value: Any) -> bool:
    return isinstance(value, str) and bool(_EVENT.fullmatch(value))


def as_event(value: Any) -> str:
    return value if isinstance(value, str) and _EVENT.fullmatch(value) else ""
