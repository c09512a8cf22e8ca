"""A Matrix homeserver on a real loopback socket that behaves as one does, and misbehaves when it is told to.

    with MatrixServer() as server:
        room = server.make_room(ANN)         # with Ann and the board in it
        server.says(room, ANN, "hello")      # an event that waits for the next sync
        server.fail("send", reset)           # the next such call goes wrong
        server.sent                          # what the board has sent, in its order

Like a real one it knows a transaction again, answers a sync from any moment that it has named, leaves out the beginning of a
long timeline (`limited`), and gives it by /messages. Its faults are those of telegram_server.py, and its own.
"""

import json
import random
import re
import time
from collections import defaultdict
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from telegram_server import ChatHandler, ChatServer, Exchange, Fault, RefusalError, body, reset

from picoclaw.records import dataclass

TOKEN = "syt_cGljbw_QWxtb3N0IGEgdG9rZW4_1a2b3c"
ME, ANN, BOB, EVE = "@pico:test.example", "@ann:test.example", "@bob:other.example", "@eve:evil.example"


@dataclass(frozen=True)
class SentEvent:
    """An event that the board has sent."""

    room: str
    kind: str
    content: dict[str, Any]
    event: str
    number: str

    @property
    def text(self) -> str:
        return str(self.content.get("body", ""))


def error(status: int, code: str, text: str = "", **more: Any) -> Fault:
    return body(status, json.dumps({"errcode": code, "error": text or code} | more).encode())


def busy(millis: int) -> Fault:
    return error(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=millis)


UNKNOWN_TOKEN = error(401, "M_UNKNOWN_TOKEN", "Unrecognised access token", soft_logout=False)


def cut(at: float) -> Fault:
    """Do it, and break off the answer: `at` is 0 to 1 of its head, and 1 to 2 of its body."""

    def fault(exchange: Exchange) -> bool:
        try:
            told = json.dumps(exchange.server.done(exchange)).encode()
        except RefusalError:
            told = b'{"errcode": "M_UNKNOWN"}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(told)}\r\n\r\n".encode()
        data = head[: int(len(head) * at)] if at <= 1 else head + told[: int(len(told) * (at - 1))]
        exchange.handler.wfile.write(data)
        exchange.handler.wfile.flush()
        return reset(exchange)

    return fault


CUTS = {
    "nothing": cut(0),
    "status line": cut(0.1),
    "header name": cut(0.35),
    "before the empty line": cut(0.98),
    "head": cut(1),
    "first byte": cut(1.01),
    "middle": cut(1.5),
    "all but the last byte": cut(1.999),
}


class MatrixServer(ChatServer):
    """One board's homeserver."""

    def __init__(self, ahead: float = 0.0, limit: int = 0) -> None:
        """With a `limit`, no sync brings more events of a room than that."""
        super().__init__(ahead, _MatrixHandler)
        self.sent: list[SentEvent] = []
        self.rooms: dict[str, list[dict[str, Any]]] = {}
        self.members: dict[str, dict[str, str]] = {}
        self.invited: dict[str, str] = {}
        self.left: dict[str, str] = {}
        self.typing: list[tuple[str, bool]] = []
        self.read: dict[str, list[str]] = defaultdict(list)
        self.media: dict[str, bytes] = {}
        self.limit, self.doubles, self.shuffles, self.era = limit, 0, 0, 0
        self.token = TOKEN
        self.old_media = False
        self._dice = random.Random(7)
        self._stream: list[tuple[str, dict[str, Any]]] = []
        self._transactions: dict[str, str] = {}

    # --- what people do ---

    def make_room(self, *people: str, name: str = "", joined: bool = True) -> str:
        with self.news:
            room = name or f"!room{len(self.rooms)}:test.example"
            self.rooms[room], self.members[room] = [], {}
            for user in people:
                self._member(room, user, "join")
            if joined:
                self._member(room, ME, "join")
            return room

    def invite(self, room: str, by: str) -> None:
        with self.news:
            self.invited[room] = by
            self._stream.append((room, {"invite": by}))
            self.news.notify_all()

    def joins(self, room: str, user: str, name: str = "") -> None:
        with self.news:
            self._member(room, user, "join", name)

    def leaves(self, room: str, user: str) -> None:
        with self.news:
            self._member(room, user, "leave")

    def says(self, room: str, user: str, text: str = "", **content: Any) -> str:
        """Have somebody write a message; returns its event."""
        return self.event(room, user, {"msgtype": "m.text", "body": text} | content)

    def reacts(self, room: str, user: str, event: str, emoji: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        return self.event(room, user, {"m.relates_to": relation}, "m.reaction")

    def event(self, room: str, user: str, content: Any, kind: str = "m.room.message", **more: Any) -> str:
        """Have any event come."""
        with self.news:
            self._number += 1
            event = f"${self._number:05d}{'x' * 20}"
            raw = {
                "event_id": event,
                "sender": user,
                "type": kind,
                "content": content,
                "origin_server_ts": int(time.time() * 1000),
            } | more
            self.rooms[room].append(raw)
            self._stream.append((room, raw))
            self.news.notify_all()
            return event

    def _member(self, room: str, user: str, membership: str, name: str = "") -> None:
        if membership == "join":
            self.members[room][user] = name or user[1:].partition(":")[0].title()
        else:
            self.members[room].pop(user, None)
        self.event(room, user, {"membership": membership, "displayname": name}, "m.room.member", state_key=user)

    def texts(self, room: str = "") -> list[str]:
        """What the board's messages in a room say now, edits applied and what was taken back left out."""
        shown: dict[str, str] = {}
        for one in list(self.sent):
            relation = one.content.get("m.relates_to", {})
            if room and one.room != room:
                continue
            if one.kind == "redaction":
                shown.pop(one.number, None)
            elif one.kind == "m.room.message" and relation.get("rel_type") == "m.replace":
                if relation["event_id"] in shown:
                    shown[relation["event_id"]] = one.content["m.new_content"]["body"]
            elif one.kind == "m.room.message":
                shown[one.event] = one.text
        return list(shown.values())

    def is_read(self) -> bool:
        """Whether the board has asked for what comes after everything."""
        asked = [fields for name, fields in list(self.calls) if name == "sync" and "since" in fields]
        return bool(asked) and asked[-1]["since"] == self._name(len(self._stream))

    # --- what the API does ---

    def tell(self, exchange: Exchange) -> None:
        try:
            told = self.done(exchange)
        except RefusalError as refusal:
            status, code, text = refusal.args
            exchange.answer({"errcode": code, "error": text}, status)
            return
        if isinstance(told, bytes):
            exchange.answer(told, kind="application/octet-stream")
        else:
            exchange.answer(told)

    def done(self, exchange: Exchange) -> Any:
        handler = getattr(self, f"_do_{exchange.method}", None)
        if handler is None:
            raise RefusalError(404, "M_UNRECOGNIZED", "Unrecognized request")
        return handler(exchange)

    def _name(self, at: int) -> str:
        return f"s{self.era}_{at}"

    def _at(self, name: str, default: int = 0) -> int:
        found = re.fullmatch(r"s(\d+)_(\d+)", name)
        if name and (not found or int(found[1]) != self.era):
            raise RefusalError(400, "M_INVALID_PARAM", f"Invalid stream token {name}")
        return int(found[2]) if found else default

    def _do_login(self, exchange: Exchange) -> Any:
        if exchange.fields.get("password") != "open sesame":
            raise RefusalError(403, "M_FORBIDDEN", "Invalid username or password")
        return {"access_token": self.token, "user_id": ME, "device_id": "ABC"}

    def _do_whoami(self, _: Exchange) -> Any:
        return {"user_id": ME, "device_id": "ABC"}

    def _do_sync(self, exchange: Exchange) -> Any:
        since, hold = exchange.fields.get("since", ""), float(exchange.fields["timeout"]) / 1000
        begin = self._at(since)
        if since:
            exchange.rest(hold, lambda: len(self._stream) > begin)
        with self.news:
            end = len(self._stream)
            wanted = json.loads(exchange.fields["filter"])["room"]["timeline"]
            limit = min(wanted["limit"], self.limit or 1000)
            rooms: dict[str, Any] = {"join": {}, "invite": {}, "leave": {}}
            for room in dict.fromkeys(room for room, _ in self._stream[begin:end]):
                news = [
                    (at, one) for at, (where, one) in enumerate(self._stream[:end]) if where == room and at >= begin
                ]
                if ME in self.members[room]:
                    events = [(at, one) for at, one in news if one.get("type") in wanted["types"]]
                    is_limited = len(events) > limit
                    events = events[-limit:]
                    timeline = [one for _, one in events]
                    if self.doubles:
                        self.doubles -= 1
                        old = [one for where, one in self._stream[:begin] if where == room and "type" in one]
                        timeline = [*old[-2:], *(one for one in timeline for _ in range(2))]
                    if self.shuffles:
                        self.shuffles -= 1
                        self._dice.shuffle(timeline)
                    first = events[0][0] if events else end
                    body = {"events": timeline, "limited": is_limited, "prev_batch": self._name(first)}
                    rooms["join"][room] = {"timeline": body, "state": {"events": []}}
                elif room in self.invited:
                    member = {"type": "m.room.member", "state_key": ME, "sender": self.invited[room]}
                    rooms["invite"][room] = {
                        "invite_state": {"events": [member | {"content": {"membership": "invite"}}]}
                    }
                else:
                    rooms["leave"][room] = {}
            return {"next_batch": self._name(end), "rooms": rooms}

    def _do_messages(self, exchange: Exchange) -> Any:
        at, until = self._at(exchange.fields["from"]), self._at(exchange.fields.get("to", ""))
        types = json.loads(exchange.fields["filter"])["types"]
        found = [
            (n, one)
            for n, (room, one) in enumerate(self._stream[:at])
            if n >= until and room == exchange.fields["room"] and one.get("type") in types
        ][::-1][: int(exchange.fields["limit"])]
        told: dict[str, Any] = {"start": exchange.fields["from"], "chunk": [one for _, one in found]}
        return told | ({"end": self._name(found[-1][0])} if found else {})

    def _do_event(self, exchange: Exchange) -> Any:
        for raw in self.rooms.get(exchange.fields["room"], []):
            if raw["event_id"] == exchange.fields["event"]:
                return raw
        raise RefusalError(404, "M_NOT_FOUND", "Event not found.")

    def _do_joined_members(self, exchange: Exchange) -> Any:
        members = self._members(exchange)
        return {"joined": {user: {"display_name": name} for user, name in members.items()}}

    def _members(self, exchange: Exchange) -> dict[str, str]:
        members = self.members.get(exchange.fields["room"], {})
        if ME not in members:
            raise RefusalError(403, "M_FORBIDDEN", f"User {ME} not in room")
        return members

    def _do_send(self, exchange: Exchange) -> Any:
        room, number, kind = (exchange.fields[name] for name in ("room", "txn", "kind"))
        self._members(exchange)
        content = exchange.fields["body"]
        with self.news:
            if number not in self._transactions:
                if len(json.dumps(content, ensure_ascii=False).encode()) > 64_000:
                    raise RefusalError(413, "M_TOO_LARGE", "event too large")
                event = self.event(room, ME, content, kind)
                self.sent.append(SentEvent(room, kind, content, event, number))
                self._transactions[number] = event
            return {"event_id": self._transactions[number]}

    def _do_redact(self, exchange: Exchange) -> Any:
        self._members(exchange)
        with self.news:
            self.sent.append(SentEvent(exchange.fields["room"], "redaction", {}, "", exchange.fields["event"]))
            self.news.notify_all()
        return {"event_id": "$redaction"}

    def _do_typing(self, exchange: Exchange) -> Any:
        self.typing.append((exchange.fields["room"], exchange.fields["body"]["typing"]))
        return {}

    def _do_receipt(self, exchange: Exchange) -> Any:
        self.read[exchange.fields["room"]].append(exchange.fields["event"])
        return {}

    def _do_join(self, exchange: Exchange) -> Any:
        room = exchange.fields["room"]
        with self.news:
            if room not in self.invited:
                raise RefusalError(403, "M_FORBIDDEN", "You are not invited to this room.")
            del self.invited[room]
            self._member(room, ME, "join")
        return {"room_id": room}

    def _do_leave(self, exchange: Exchange) -> Any:
        room = exchange.fields["room"]
        with self.news:
            self.invited.pop(room, None)
            self.left[room] = exchange.fields["body"].get("reason", "")
            if ME in self.members[room]:
                self._member(room, ME, "leave")
            self.news.notify_all()
        return {}

    def _do_upload(self, exchange: Exchange) -> Any:
        name = f"media{len(self.media)}"
        self.media[name] = exchange.fields["data"]
        return {"content_uri": f"mxc://test.example/{name}"}

    def _do_download(self, exchange: Exchange) -> Any:
        if exchange.fields["new"] and self.old_media:
            raise RefusalError(404, "M_UNRECOGNIZED", "Unrecognized request")
        if (data := self.media.get(exchange.fields["media"])) is None:
            raise RefusalError(404, "M_NOT_FOUND", "Not found")
        return data


_ROUTES = [
    (re.compile(f"/_matrix/{pattern}"), what)
    for pattern, what in (
        (r"client/v3/login", "login"),
        (r"client/v3/account/whoami", "whoami"),
        (r"client/v3/sync", "sync"),
        (r"client/v3/join/(?P<room>[^/]+)", "join"),
        (r"client/v3/rooms/(?P<room>[^/]+)/messages", "messages"),
        (r"client/v3/rooms/(?P<room>[^/]+)/leave", "leave"),
        (r"client/v3/rooms/(?P<room>[^/]+)/joined_members", "joined_members"),
        (r"client/v3/rooms/(?P<room>[^/]+)/event/(?P<event>[^/]+)", "event"),
        (r"client/v3/rooms/(?P<room>[^/]+)/send/(?P<kind>[^/]+)/(?P<txn>[^/]+)", "send"),
        (r"client/v3/rooms/(?P<room>[^/]+)/redact/(?P<event>[^/]+)/(?P<txn>[^/]+)", "redact"),
        (r"client/v3/rooms/(?P<room>[^/]+)/typing/(?P<user>[^/]+)", "typing"),
        (r"client/v3/rooms/(?P<room>[^/]+)/receipt/m.read/(?P<event>[^/]+)", "receipt"),
        (r"media/v3/upload", "upload"),
        (r"client/v1/media/download/(?P<server>[^/]+)/(?P<media>[^/]+)", "download"),
        (r"media/v3/download/(?P<server>[^/]+)/(?P<media>[^/]+)", "download"),
    )
]


class _MatrixHandler(ChatHandler):
    def _handle(self) -> None:
        owner, address = self.server.owner, urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = ((route.fullmatch(address.path), what) for route, what in _ROUTES)
        match, what = next(((one, what) for one, what in found if one), (None, "unknown"))
        fields: dict[str, Any] = {name: values[0] for name, values in parse_qs(address.query).items()}
        fields |= {name: unquote(text) for name, text in (match.groupdict() if match else {}).items()}
        if what == "upload":
            fields["data"] = data
        elif what == "login":
            fields |= json.loads(data)
        elif data:
            fields["body"] = json.loads(data)
        fields["new"] = "/v1/media/" in address.path
        with self.ending():
            exchange = Exchange(owner, self, what, fields)
            if what != "login" and self.headers.get("Authorization") != f"Bearer {owner.token}":
                UNKNOWN_TOKEN(exchange)
            else:
                owner.take(exchange)

    do_GET = do_POST = do_PUT = _handle  # noqa: N815
