"""The client-server API of a Matrix homeserver over HTTPS: one call, the events of rooms that it brings, and how far it was read.

An event may hold anything: what is not as specified is left out. `state.db` has how far the channel has read, rooms to be
joined, drafts and the owner's room.
Source: https://spec.matrix.org/v1.11/client-server-api/, "API standards", "Instant Messaging", "Rich replies", "Threading",
"Event annotations and reactions", "Event replacements", "User and room mentions".
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import Any
from urllib.parse import quote, urlencode

from picoclaw.channels.attachments import ArrivedMessage, IncomingFile, QuotedMessage, name_event
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import (
    QUOTED_CHARS,
    SERVER_ERROR,
    ApiAnswer,
    BadToken,
    Busy,
    CallRefused,
    HttpApi,
    Unreachable,
    as_dict,
    as_int,
    as_list,
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

MAX_ANSWER_BYTES = 8_000_000
_QUIET_S, _STALLED_S = 60.0, 20.0
_MAX_PAUSE_S = 3600.0
_TOKEN_ERRORS = {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
_SERVICE = "the Matrix server"


def join_path(*parts: str, prefix: str = "/_matrix/client/v3") -> str:
    """Make a call's path of parts that may hold anything."""
    return "/".join([prefix, *(quote(part, safe="") for part in parts)])


class MatrixApi(HttpApi):
    """Calls one homeserver as one user; any thread may. What an error says never holds the token."""

    def __init__(self, token: str, base: str) -> None:
        super().__init__(_SERVICE, token, base)

    def check(self) -> None:
        if not (self._token.isascii() and self._token.isprintable() and self._token.strip() == self._token != ""):
            raise BadToken("the Matrix access token is not valid: `picoclaw matrix login` gets one")

    def call(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        wait: float = 20.0,
    ) -> dict[str, Any]:
        """Make a call and return its answer, an object; over after `wait` seconds.

        Raises Unreachable, Busy, BadToken or CallRefused.
        """
        headers = self._make_headers()
        body = {"headers": headers} | ({} if fields is None else {"content": json.dumps(fields).encode()})
        path = f"{path}?{urlencode(query)}" if query else path
        answer = self.request(method, path, nullcontext(body), wait=wait, quiet=wait, most=MAX_ANSWER_BYTES)
        return self._parse_answer(answer)

    def upload(self, source: RootedPath | bytes, name: str, kind: str, wait: float) -> str:
        """Put a file onto the server; returns its address there, `mxc://...`. Raises as `call`."""
        self.check()
        path = f"/_matrix/media/v3/upload?{urlencode({'filename': name})}"
        body = _open_body(source, self._make_headers() | {"Content-Type": kind})
        answer = self.request("POST", path, body, wait=wait, quiet=min(_QUIET_S, wait), most=MAX_ANSWER_BYTES)
        address = self._parse_answer(answer).get("content_uri")
        if not isinstance(address, str) or not address.startswith("mxc://"):
            raise CallRefused(f"{_SERVICE} did not say where the file is")
        return address

    def download(self, address: str, most: int, wait: float) -> bytes:
        """Fetch a file of at most `most` bytes by its `mxc://` address. Raises as `call`."""
        self.check()
        server, _, media = address.removeprefix("mxc://").partition("/")
        paths = [
            join_path("media", "download", server, media, prefix="/_matrix/client/v1"),
            join_path("download", server, media, prefix="/_matrix/media/v3"),  # servers before Matrix 1.11
        ]
        for path in paths:
            body, quiet = nullcontext({"headers": self._make_headers()}), min(_STALLED_S, wait)
            answer = self.request("GET", path, body, wait=wait, quiet=quiet, most=most)
            if answer.status == OK:
                return answer.data
            if b"M_UNRECOGNIZED" not in answer.data:
                break
        self._parse_answer(answer)
        raise CallRefused(f"{_SERVICE} does not give the file (HTTP {answer.status})")

    def _make_headers(self) -> dict[str, str]:
        if self._token:
            self.check()
            return {"Authorization": f"Bearer {self._token}"}
        return {}

    def _parse_answer(self, answer: ApiAnswer) -> dict[str, Any]:
        told = self.read_object(answer)
        if answer.status == OK:
            return told
        code = told["errcode"] if isinstance(told.get("errcode"), str) else ""
        said = " ".join(str(told.get("error") or code or f"error {answer.status}").split())[:300]
        if answer.status == 429 or code == "M_LIMIT_EXCEEDED":
            millis = told.get("retry_after_ms")
            pause = min(max(millis / 1000, 0.0), _MAX_PAUSE_S) if isinstance(millis, int | float) else 5.0
            raise Busy(f"{_SERVICE} asks for a pause ({said})", pause)
        if answer.status == 401 or code in _TOKEN_ERRORS:
            raise BadToken(f"{_SERVICE} does not know the access token ({said}): `picoclaw matrix login` gets another")
        if answer.status >= SERVER_ERROR:
            raise Unreachable(f"{_SERVICE} has a server error ({answer.status}: {said})", unsure=True)
        raise CallRefused(f"{_SERVICE} refused: {said}", code=code)


def identify_account(api: MatrixApi, wait: float = 20.0) -> str:
    """Ask whose account this is, for at most `wait` seconds. Raises as MatrixApi.call."""
    user = api.call("GET", join_path("account", "whoami"), wait=wait).get("user_id")
    if not isinstance(user, str) or not user.startswith("@"):
        raise Unreachable("the Matrix server does not say whose account this is")
    return user


def discover_server(user: str) -> str:
    """Ask the domain of a user's name where its homeserver is; the domain itself where it does not say.

    Source: https://spec.matrix.org/v1.11/client-server-api/#well-known-uri. Raises Unreachable.
    """
    domain = user.partition(":")[2]
    with closing(MatrixApi("", f"https://{domain}")) as api:
        try:
            told = api.call("GET", "/.well-known/matrix/client")
        except (CallRefused, Unreachable):
            return f"https://{domain}"
    server = told.get("m.homeserver")
    base = server.get("base_url") if isinstance(server, dict) else None
    return base.rstrip("/") if isinstance(base, str) and base.startswith("https://") else f"https://{domain}"


def log_in(server: str, user: str, password: str, device: str, wait: float = 20.0) -> str:
    """Make an access token for a device of its own. Raises ChannelError."""
    fields = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password,
        "initial_device_display_name": device,
    }
    with closing(MatrixApi("", server)) as api:
        token = api.call("POST", join_path("login"), fields, wait=wait).get("access_token")
    if not isinstance(token, str) or not token:
        raise CallRefused(f"{_SERVICE} gave no access token")
    return token


@contextmanager
def _open_body(source: RootedPath | bytes, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    with open_upload(source) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        yield {"content": file, "headers": headers | {"Content-Length": str(size)}}


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


class Reaction(NamedTuple):
    """An emoji that somebody has put to an event, without the variants of its look."""

    update: str
    room: str
    user: str
    target: str
    emoji: str


def parse_event(raw: Any, room: str, info: RoomInfo, me: str) -> ArrivedMessage | Reaction | None:
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
    return ArrivedMessage(
        key=RoomPlace(room, target if kind == "m.thread" else "").key,
        external=event,
        stem=name_event(event),
        sender=user,
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


_MARK = "matrix.sync"
_OLD_S = 86_400.0


class SyncState:
    """One account's; used by one thread at a time. What is read is written after what it brought was kept."""

    def __init__(self, pairing: Pairing) -> None:
        """`user` is whose account it is, `since` the server's name of the moment up to which all was read.

        `last` has the newest event of each room that was handled, `invites` whose invitations are still to be followed,
        `drafts` the event of an unfinished answer by its session, and `orders` the last events that ordered to stop.
        """
        self._pairing, self._saved_at = pairing, 0.0
        self.user = self.since = self.owner_room = ""
        self.last: dict[str, str] = {}
        self.invites: dict[str, str] = {}
        self.drafts: dict[str, str] = {}
        self.orders: list[str] = []

    def load(self) -> None:
        """Read what a former process has left. Raises StoreError."""
        with self._pairing.marks() as marks:
            text = marks.get(_MARK)
        try:
            found = as_dict(json.loads(text or "{}"))
        except (ValueError, RecursionError):
            found = {}
        self.user, self.since = as_text(found.get("user")), as_text(found.get("since"))
        self.owner_room = room if is_room(room := as_text(found.get("owner_room"))) else ""
        pairs = _read_pairs(found.get("last"))
        self.last = {room: as_event(event) for room, event in pairs if is_room(room)}
        self.invites = {
            room: user for room, user in _read_pairs(found.get("invites")) if is_room(room) and is_user(user)
        }
        self.orders = list(filter(None, map(as_event, as_list(found.get("orders")))))
        self.drafts = {key: event for key, event in _read_pairs(found.get("drafts")) if as_event(event)}

    def begin(self, user: str) -> None:
        """Be told whose account it is: of another nothing is known yet."""
        if self.user != user:
            self.user, self.since, self.owner_room = user, "", ""
            self.last, self.invites, self.drafts = {}, {}, {}

    def save(self) -> None:
        """Keep it durably. Raises StoreError."""
        names = ("user", "since", "owner_room", "last", "invites", "drafts", "orders")
        with self._pairing.marks() as marks:
            marks.set(_MARK, json.dumps({name: getattr(self, name) for name in names}))
        self._saved_at = time.monotonic()

    def is_old(self) -> bool:
        """Whether it was written long ago, so that the server would have to count up much after a restart."""
        return time.monotonic() - self._saved_at > _OLD_S


def list_rooms(config: Config) -> list[str]:
    """Name the rooms that are joined, the owner's first. Raises StoreError."""
    with closing(make_pairing(config)) as pairing:
        state = SyncState(pairing)
        state.load()
    return list(dict.fromkeys([*filter(None, [state.owner_room]), *state.last]))


def _read_pairs(found: Any) -> list[tuple[str, str]]:
    return [(key, value) for key, value in as_dict(found).items() if isinstance(value, str)]
