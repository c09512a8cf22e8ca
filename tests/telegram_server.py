"""A Bot API server on a real loopback socket that behaves as Telegram does, and misbehaves when it is told to.

    with TelegramServer() as server:
        server.says(7, "hello")              # an update that waits for the bot
        server.fail("sendMessage", reset)    # the next such call goes wrong
        server.sent                          # what has arrived in chats, in its order

Like the real one it keeps an update until a higher offset is asked for, ends a poll when another begins (409), refuses
texts that are empty, too long or wrongly marked up, and has no memory of what was sent twice.
"""

import contextlib
import json
import re
import select
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from email.parser import BytesParser
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from picoclaw.records import dataclass, field

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"
OWNER, STRANGER, GROUP = 7, 666, -1001
KINDS = {"bold", "italic", "code", "pre", "text_link", "blockquote", "strikethrough", "expandable_blockquote"}


class GoneError(Exception):
    """The client has left, or the server is being closed."""


class RefusalError(Exception):
    """An answer that is not ok: code, description, parameters."""


@dataclass(frozen=True)
class Sent:
    """A message as it stands in a chat."""

    chat: int
    text: str
    thread: int = 0
    entities: tuple[Any, ...] = ()
    keys: tuple[Any, ...] = ()
    file: bytes = b""
    name: str = ""
    kind: str = "text"
    number: int = 0
    reply_to: int = 0


Fault = Callable[["Exchange"], bool]
"""Misbehaves on an exchange; True when nothing else is to be answered."""


@dataclass
class Exchange:
    """One call, at the level of bytes."""

    server: "ChatServer"
    handler: BaseHTTPRequestHandler
    method: str
    fields: dict[str, Any]
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def answer(self, body: Any, status: int = 200, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.head(status, kind, len(data))
        self.handler.wfile.write(data)

    def head(self, status: int, kind: str, length: int) -> None:
        self.handler.send_response_only(status)
        self.handler.send_header("Date", self.server.date())
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", str(length))
        self.handler.end_headers()

    def rest(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Wait; GoneError when the client has left."""
        end = time.monotonic() + seconds
        with self.server.news:
            while not until() and time.monotonic() < end:
                if self.server.closing or self._left():
                    raise GoneError
                self.server.news.wait(0.02)

    def _left(self) -> bool:
        sock = self.handler.connection
        with contextlib.suppress(OSError):
            return bool(select.select([sock], [], [], 0)[0]) and not sock.recv(1, socket.MSG_PEEK)
        return True

    def carry_out(self) -> None:
        """Do what was asked, without saying so."""
        with contextlib.suppress(RefusalError):
            self.server.done(self)


# --- faults ---


def reset(exchange: Exchange) -> bool:
    """Close the connection with a reset, before anything was done."""
    exchange.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    exchange.handler.connection.close()
    raise GoneError


def reset_after(exchange: Exchange) -> bool:
    """The same, when it was done already."""
    exchange.carry_out()
    return reset(exchange)


def half(exchange: Exchange) -> bool:
    """Do it, and break off in the middle of the answer."""
    exchange.carry_out()
    exchange.head(200, "application/json", 500)
    exchange.handler.wfile.write(b'{"ok": true, "resu')
    exchange.handler.wfile.flush()
    return reset(exchange)


def black_hole(exchange: Exchange) -> bool:
    """Say nothing, for ever."""
    exchange.rest(3600)
    return True


def drip(exchange: Exchange) -> bool:
    """Send the head of an answer byte by byte, so that no single wait is long."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Drip: " + b"x" * 3600:
        exchange.handler.wfile.write(bytes([byte]))
        exchange.rest(0.03)
    return True


def portal(exchange: Exchange) -> bool:
    """Answer as the login page of a network does."""
    exchange.answer(b"<!DOCTYPE html><title>Welcome to Hotel WiFi</title>", 200, "text/html")
    return True


def redirect(exchange: Exchange) -> bool:
    exchange.handler.send_response_only(302)
    exchange.handler.send_header("Location", "http://127.0.0.1:9/login")
    exchange.handler.send_header("Content-Length", "0")
    exchange.handler.end_headers()
    return True


def body(status: int, text: bytes, kind: str = "application/json") -> Fault:
    """Answer with any bytes."""

    def fault(exchange: Exchange) -> bool:
        exchange.answer(text, status, kind)
        return True

    return fault


def error(code: int, description: str, **parameters: Any) -> Fault:
    """Answer with an error of the API."""
    told = {"ok": False, "error_code": code, "description": description}
    told |= {"parameters": parameters} if parameters else {}
    return body(code, json.dumps(told).encode())


UNAUTHORIZED = error(401, "Unauthorized")
CONFLICT = error(
    409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
HOOKED = error(
    409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
)
BAD_GATEWAY = body(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html")


def busy(seconds: int) -> Fault:
    return error(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


# --- the server ---


class ChatServer:
    """What the servers of chat services share; `ahead` seconds are what its clock is ahead of this machine's."""

    def __init__(self, ahead: float, handler: type["ChatHandler"]) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[Any] = []
        self.news = threading.Condition()
        self.closing = False
        self.connections = 0
        self._ahead = ahead
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._number = 0
        self._http = _Http(("127.0.0.1", 0), handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.news:
            self.closing = True
            self.news.notify_all()
        self._http.shutdown()
        self._http.server_close()

    def date(self) -> str:
        return formatdate(time.time() + self._ahead, usegmt=True)

    def fail(self, what: str, *faults: Fault) -> None:
        """Have the next calls of a kind go wrong, one after the other; "*" stands for any."""
        with self.news:
            self._faults[what].extend(faults)

    def mend(self, what: str) -> None:
        """Have the calls of a kind go well again."""
        with self.news:
            self._faults[what].clear()

    def wait(self, until: Callable[[], Any], seconds: float = 5.0) -> Any:
        """Wait until something is so; fails when it is not in time."""
        end = time.monotonic() + seconds
        with self.news:
            while not (found := until()):
                assert time.monotonic() < end, f"not in {seconds} s; sent: {self.sent[-5:]}; calls: {self.calls[-5:]}"
                self.news.wait(0.02)
            return found

    def called(self, what: str) -> list[dict[str, Any]]:
        return [fields for name, fields in list(self.calls) if name == what]

    def take(self, exchange: Exchange) -> None:
        """Answer a call, or misbehave."""
        with self.news:
            self.calls.append((exchange.method, exchange.fields))
            queue = self._faults[exchange.method] or self._faults["*"]
            fault = queue.popleft() if queue else None
            self.news.notify_all()
        if not (fault and fault(exchange)):
            self.tell(exchange)

    def tell(self, exchange: Exchange) -> None:
        """Do what was asked, and say what came of it."""
        raise NotImplementedError

    def done(self, exchange: Exchange) -> Any:
        """Do what was asked. Raises RefusalError."""
        raise NotImplementedError


class TelegramServer(ChatServer):
    """One bot's side of Telegram."""

    def __init__(self, ahead: float = 0.0) -> None:
        super().__init__(ahead, _Handler)
        self.sent: list[Sent] = []
        self.files: dict[str, bytes] = {}
        self.people = {OWNER, STRANGER, GROUP}
        self.threads: set[int] = set()
        self.deaf = False
        self.hooked = False
        self._updates: list[dict[str, Any]] = []
        self._number, self._message, self._poll = 1000, 0, 0

    def says(self, user: int, text: str = "", chat: int = 0, **more: Any) -> int:
        """Have somebody write a message; returns its number."""
        with self.news:
            self._message += 1
            place = {"id": chat or user, "type": "private" if (chat or user) > 0 else "supergroup"}
            sender = {"id": user, "is_bot": False, "first_name": f"User {user}"}
            told = {"message_id": self._message, "date": int(time.time()), "chat": place, "from": sender}
            edited = more.pop("edited", False)
            message = told | ({"text": text} if text else {}) | more
            self.update({"edited_message" if edited else "message": message})
            return self._message

    def presses(self, user: int, data: str, chat: int = 0, message: int = 1) -> None:
        """Have somebody press a button."""
        query = {"id": f"q{time.monotonic_ns()}", "from": {"id": user}, "data": data}
        self.update({"callback_query": query | {"message": {"message_id": message, "chat": {"id": chat or user}}}})

    def update(self, content: Any) -> None:
        """Have any update wait for the bot."""
        with self.news:
            self._number += 1
            self._updates.append({"update_id": self._number} | content if isinstance(content, dict) else content)
            self.news.notify_all()

    @property
    def pending(self) -> int:
        return len(self._updates)

    def texts(self, chat: int = OWNER) -> list[str]:
        return [message.text for message in list(self.sent) if message.chat == chat]

    # --- what the API does ---

    def tell(self, exchange: Exchange) -> None:
        try:
            told = {"ok": True, "result": self.done(exchange)}
        except RefusalError as refusal:
            code, description, parameters = refusal.args
            told = {"ok": False, "error_code": code, "description": description, "parameters": parameters}
            exchange.answer(told, code)
            return
        exchange.answer(told)

    def done(self, exchange: Exchange) -> Any:
        handler = getattr(self, f"_do_{exchange.method}", None)
        if handler is None:
            raise RefusalError(404, "Not Found", {})
        return handler(exchange)

    def _do_getMe(self, _: Exchange) -> Any:  # noqa: N802
        return {"id": 123456789, "is_bot": True, "first_name": "Pico", "username": "pico_bot"}

    def _do_getWebhookInfo(self, _: Exchange) -> Any:  # noqa: N802
        return {"url": "", "pending_update_count": self.pending}

    def _do_deleteWebhook(self, _: Exchange) -> Any:  # noqa: N802
        self.hooked = False
        return True

    def _do_getUpdates(self, exchange: Exchange) -> Any:  # noqa: N802
        with self.news:
            self._poll += 1
            mine, offset = self._poll, int(exchange.fields.get("offset", 0))
            if not self.deaf:
                self._updates = [u for u in self._updates if not isinstance(u, dict) or u.get("update_id", 0) >= offset]
            self.news.notify_all()
        ended = lambda: self._poll != mine or (self._updates and not self.deaf)  # noqa: E731
        exchange.rest(float(exchange.fields.get("timeout", 0)), ended)
        if self._poll != mine:
            raise RefusalError(409, "Conflict: terminated by other getUpdates request", {})
        return [] if self.deaf else self._updates[: int(exchange.fields.get("limit", 100))]

    def _do_sendChatAction(self, exchange: Exchange) -> Any:  # noqa: N802
        self._chat(exchange)
        return True

    def _do_setMyCommands(self, exchange: Exchange) -> Any:  # noqa: N802
        for row in exchange.fields["commands"]:
            if not re.fullmatch("[a-z0-9_]{1,32}", row["command"]) or not 1 <= len(row["description"]) <= 256:
                raise RefusalError(400, "Bad Request: BOT_COMMAND_INVALID", {})
        return True

    def _do_answerCallbackQuery(self, _: Exchange) -> Any:  # noqa: N802
        return True

    def _do_editMessageText(self, exchange: Exchange) -> Any:  # noqa: N802
        chat, number = self._chat(exchange), exchange.fields.get("message_id")
        text, keys = exchange.fields.get("text", ""), exchange.fields.get("reply_markup", {}).get("inline_keyboard", [])
        with self.news:
            at = next((n for n, one in enumerate(self.sent) if (one.chat, one.number) == (chat, number)), -1)
            if at < 0:
                raise RefusalError(400, "Bad Request: message to edit not found", {})
            if not text.strip() or len(text.encode("utf-16-le")) // 2 > 4096:
                raise RefusalError(400, "Bad Request: message is too long", {})
            changed = {"text": text, "keys": tuple(k for row in keys for k in row), "entities": ()}
            self.sent[at] = Sent(**{**self.sent[at].__dict__, **changed})
            self.news.notify_all()
        return {"message_id": number}

    def _do_sendMessage(self, exchange: Exchange) -> Any:  # noqa: N802
        text, entities = exchange.fields.get("text", ""), exchange.fields.get("entities", [])
        length = len(text.encode("utf-16-le")) // 2
        if not text.strip():
            raise RefusalError(400, "Bad Request: message text is empty", {})
        if length > 4096:
            raise RefusalError(400, "Bad Request: message is too long", {})
        for one in entities:
            right = one["type"] in KINDS and one["length"] > 0 and 0 <= one["offset"] <= length - one["length"]
            if not right or (one["type"] == "text_link" and "://" not in one["url"]):
                raise RefusalError(400, f"Bad Request: wrong entity {one}", {})
        keys = exchange.fields.get("reply_markup", {}).get("inline_keyboard", [])
        return self._arrive(
            exchange, Sent(0, text, entities=tuple(entities), keys=tuple(k for row in keys for k in row))
        )

    def _do_sendPhoto(self, exchange: Exchange) -> Any:  # noqa: N802
        if not exchange.files["photo"][1].startswith((b"\x89PNG", b"\xff\xd8")):
            raise RefusalError(400, "Bad Request: IMAGE_PROCESS_FAILED", {})
        return self._file(exchange, "photo")

    def _do_sendDocument(self, exchange: Exchange) -> Any:  # noqa: N802
        return self._file(exchange, "document")

    def _do_getFile(self, exchange: Exchange) -> Any:  # noqa: N802
        name = exchange.fields.get("file_id", "")
        if name not in self.files:
            raise RefusalError(400, "Bad Request: invalid file_id", {})
        return {"file_id": name, "file_path": f"photos/{name}"}

    def _file(self, exchange: Exchange, kind: str) -> Any:
        name, data = exchange.files[kind]
        return self._arrive(exchange, Sent(0, exchange.fields.get("caption", ""), file=data, name=name, kind=kind))

    def _chat(self, exchange: Exchange) -> int:
        chat = int(exchange.fields.get("chat_id", 0))
        if chat not in self.people:
            raise RefusalError(400, "Bad Request: chat not found", {})
        return chat

    def _arrive(self, exchange: Exchange, sent: Sent) -> Any:
        chat, thread = self._chat(exchange), int(exchange.fields.get("message_thread_id", 0))
        if thread and thread not in self.threads:
            raise RefusalError(400, "Bad Request: message thread not found", {})
        with self.news:
            self._message += 1
            reply_to = exchange.fields.get("reply_parameters", {})
            reply_to = json.loads(reply_to) if isinstance(reply_to, str) else reply_to
            place = {"chat": chat, "thread": thread, "number": self._message, "reply_to": reply_to.get("message_id", 0)}
            self.sent.append(Sent(**{**sent.__dict__, **place}))
            self.news.notify_all()
            return {"message_id": self._message, "chat": {"id": chat}, "date": int(time.time())}


class _Http(ThreadingHTTPServer):
    owner: Any
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is part of the play."""


class ChatHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def setup(self) -> None:
        self.server.owner.connections += 1
        super().setup()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    @contextlib.contextmanager
    def ending(self) -> Any:
        """Close the connection where a fault has ended it."""
        try:
            yield
        except (GoneError, OSError):
            self.close_connection = True


class _Handler(ChatHandler):
    def do_GET(self) -> None:
        found = re.fullmatch(rf"/file/bot{TOKEN}/photos/([\w.-]+)", self.path)
        exchange = Exchange(self.server.owner, self, "file", {})
        with self.ending():
            self.server.owner.calls.append(("file", {}))
            queue = self.server.owner._faults["file"]
            if queue and queue.popleft()(exchange):
                return
            data = self.server.owner.files.get(found[1] if found else "")
            exchange.answer(b"no" if data is None else data, 404 if data is None else 200, "application/octet-stream")

    def do_POST(self) -> None:
        data = (
            self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else self._chunks()
        )
        found = re.fullmatch(rf"/bot{TOKEN}/(\w+)", self.path)
        with self.ending():
            fields, files = self._form(data)
            exchange = Exchange(self.server.owner, self, found[1] if found else "", fields, files)
            if found:
                self.server.owner.take(exchange)
            else:
                UNAUTHORIZED(exchange)

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _form(self, data: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
        kind = self.headers.get("Content-Type", "")
        if not kind.startswith("multipart/"):
            return json.loads(data), {}
        whole = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + data)
        fields, files = {}, {}
        for part in whole.get_payload():
            name = part.get_param("name", header="content-disposition")
            if filename := part.get_filename():
                files[name] = (filename, part.get_payload(decode=True))
            else:
                fields[name] = part.get_payload(decode=True).decode()
        return fields, files
