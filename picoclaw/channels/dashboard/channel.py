"""The channel "page": its addresses, what each gives and takes, and who may; posts what browsers say, and shows what happens.

Bottle finds the way, the backend does the work.
"""

import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast, get_args

import bottle

from picoclaw.channels.channel import ApprovalWord, ChannelStatus, PostMessage, waits_for_approval
from picoclaw.channels.dashboard import server
from picoclaw.channels.dashboard.live import (
    OWNER_CHAT,
    ChatEntry,
    DashboardBackend,
    PageChat,
    find_page_person,
    make_question,
    merge_messages,
)
from picoclaw.channels.dashboard.login import LOGIN_LIFETIME_S, Logins, Visitor
from picoclaw.channels.dashboard.server import PageServer, list_host_names
from picoclaw.config.tables import PersonConfig, PersonRole
from picoclaw.errors import ChannelError, ConfigError, PicoclawError, SkillError, ToolError
from picoclaw.files import find_shipped
from picoclaw.messages import Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.channels.dashboard.programs import Programs

_MAX_HOURS = 24 * 366 * 3
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/board.js": ("board.js", "text/javascript; charset=utf-8"),
    "/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/people.js": ("people.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/icon.png": ("icon.png", "image/png"),
    "/offline.js": ("offline.js", "text/javascript; charset=utf-8"),
    "/app.webmanifest": ("app.webmanifest", "application/manifest+json"),
}


def serve_file() -> Any:
    """Give a file that ships with the page; a browser asks again each time, and is told when nothing has changed."""
    name, kind = FILES[bottle.request.path]
    data = (find_shipped("templates") / "page" / name).read_bytes()
    mark = f'"{sha256(data).hexdigest()[:16]}"'
    bottle.response.content_type = kind
    bottle.response.set_header("Cache-Control", "no-cache")
    bottle.response.set_header("ETag", mark)
    if read_header("If-None-Match") == mark:
        bottle.response.status = 304
        return b""
    return data


def read_header(name: str) -> str:
    """Read a header's bytes as Latin-1; bottle would end the request over one that is not UTF-8."""
    return str(bottle.request.environ.get(f"HTTP_{name.upper().replace('-', '_')}", ""))


def read_cookie(name: str) -> str:
    """Read a cookie; those of other services on this host come along (RFC 6265, 8.5), and may be written in any way."""
    for part in read_header("Cookie").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return str(value)
    return ""


def read_json_body(refuse: Callable[[int, str], NoReturn]) -> dict[str, Any]:
    """Read a JSON object; another page's form can send none, for which the browser would ask us first."""
    if bottle.request.content_type.partition(";")[0].strip().lower() != "application/json":
        refuse(415, "send JSON (application/json)")
    try:
        body = json.loads(bottle.request.body.read())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        refuse(400, "this is no JSON object")
    return body


def read_text_field(body: Mapping[str, Any], name: str, longest: int) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        refuse(400, f"{name} has to be a text")
    if len(text) > longest:
        refuse(413, f"{name} may have {longest:,} characters at most")
    return text.encode("utf-8", "replace").decode()


def refuse(code: int, text: str, **more: str) -> NoReturn:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"} | more
    raise bottle.HTTPResponse(json.dumps({"error": text}), code, headers)


def format_bottle_error(error: Any) -> str:
    """Word what bottle itself refuses; it quotes nothing of the request."""
    bottle.response.content_type = "application/json"
    return json.dumps({"error": str(error.status_line)})


COOKIE = "picoclaw"
_VISITOR = "picoclaw.visitor"
_EVERYBODY: frozenset[PersonRole] = frozenset({"owner", "member", "guest"})
_RESIDENTS: frozenset[PersonRole] = frozenset({"owner", "member"})
_OWNERS: frozenset[PersonRole] = frozenset({"owner"})
MAX_CHAT_CHARS = 16_000
_MAX_ROWS, _MAX_WORDS_CHARS, _MAX_FIELD_CHARS = 60, 200, 4000
_LIVE_INTERVAL_S, _PLANS_INTERVAL_S = 10.0, 60.0
_HEALTH_S = 10.0
_MAX_POINTS, _SPARK_POINTS, _MAX_CSV_ROWS = 200, 48, 20_000
_UNSAFE_IN_FILE_NAMES = pattern(r"[^A-Za-z0-9_-]+")


class Site:
    """A WSGI application; every request passes the gate first."""

    def __init__(self, channel: "DashboardChannel") -> None:
        self._channel, self._backend = channel, channel.backend
        self._logins = channel.logins
        self._health_lock, self._health_until = threading.Lock(), 0.0
        self._troubles: list[str] | None = None
        self._tries = server.RateLimiter(6, 0.1)
        self._calls = server.RateLimiter(60, 10)
        self._writes = server.RateLimiter(10, 1)
        self._app = bottle.Bottle()
        self._app.default_error_handler = format_bottle_error
        for path in FILES:
            self._app.route(path, "GET", serve_file)
        self._app.route("/health", "GET", self._health)
        if channel.metrics_token:
            self._app.route("/metrics", "GET", self._metrics)
        self._program_paths = self._add_programs()
        self._app.route("/api/login", "POST", self._login)
        shown = self._state, self._board, self._plans, self._history, self._csv, self._day
        self._add("GET", _EVERYBODY, *shown, self._events)
        self._add("GET", _RESIDENTS, self._notes, self._note)
        self._add("GET", _OWNERS, self._household)
        self._add("POST", _EVERYBODY, self._say, self._logout, self._stop, self._off)
        self._add("POST", _OWNERS, self._answer, self._resume, self._change_household)

    def _add(self, method: str, roles: frozenset[PersonRole], *handlers: Callable[[], Any]) -> None:
        """Serve what is for those who are logged in and have one of these roles."""
        for handler in handlers:
            self._app.route(f"/api/{handler.__name__[1:]}", method, self._for_known(handler, roles))

    @property
    def _visitor(self) -> Visitor:
        return cast("Visitor", bottle.request.environ[_VISITOR])

    @property
    def _chat(self) -> PageChat:
        visitor = self._visitor
        return self._channel.find_chat("" if visitor.role == "owner" else visitor.person)

    @property
    def _view(self) -> DashboardBackend:
        """The board as whoever asks may see it."""
        visitor = self._visitor
        return self._backend if visitor.role == "owner" else self._backend.view(visitor.person)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request, with the headers that every answer has."""

        path = environ.get("PATH_INFO", "")
        from_program = path.startswith(self._program_paths)

        def begin(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start(status, [*headers, *server.HEADERS], *rest)

        if not server.is_our_host(environ.get("HTTP_HOST", ""), self._channel.names):
            code, text = 421, "this is not the host that was asked for; add its name to names in [page] of config.toml"
        elif not path.isascii():  # of which a router might read less than is there
            code, text = 404, "there is nothing here"
        elif why := server.find_foreign_origin(environ, self._channel.origins, from_program=from_program):
            code, text = 403, why
        elif not from_program and int(environ.get("CONTENT_LENGTH") or 0) > server.MAX_BODY_BYTES:
            code, text = 413, "this is too much"
        else:
            return cast("Iterable[bytes]", self._app(environ, begin))
        begin(f"{code} Refused", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    def _add_programs(self) -> tuple[str, ...]:
        """Add what programs may ask, where that is set; returns what their addresses begin with."""
        programs, channel = self._channel.programs, self._channel
        mcp = ("/mcp",) if channel.mcp else ()
        if mcp:
            self._app.route("/mcp", ["GET", "POST", "DELETE"], self._mcp)
        if not programs:
            return mcp

        def find_address() -> str:
            return server.get_client_address(bottle.request.environ, channel.proxies)

        if programs.hooks:
            from picoclaw.channels.dashboard.programs import HookReceiver

            receiver = HookReceiver(programs, self._backend, channel.post_from_program, find_address)
            self._app.route("/hooks/<name>", "POST", receiver.receive)
        if programs.openai:
            from picoclaw.channels.dashboard.programs import ModelDoor

            door = ModelDoor(programs, self._backend, channel.post_from_program, find_address)
            self._app.route("/v1/models", "GET", door.list_models)
            self._app.route("/v1/models/<name>", "GET", door.show_model)
            self._app.route("/v1/chat/completions", "POST", door.complete)
            self._app.route("/v1/<path:path>", ("GET", "POST"), door.refuse_path)
        return (*mcp, *programs.paths)

    def _mcp(self) -> Any:
        """Serve a program over MCP that has the token for it."""
        door = self._channel.mcp
        assert door is not None
        self._check_token("mcp", door.token)
        if int(bottle.request.environ.get("CONTENT_LENGTH") or 0) > server.MAX_BODY_BYTES:
            refuse(413, "this is too much")
        environ = bottle.request.environ
        headers = {k[5:].replace("_", "-").lower(): v for k, v in environ.items() if k.startswith("HTTP_")}
        said = door.answer(bottle.request.method, headers, bottle.request.body.read())
        bottle.response.status = said.status
        bottle.response.set_header("Cache-Control", "no-store")
        for name, value in said.headers.items():
            bottle.response.set_header(name, value)
        return said.body if said.stream is None else said.stream

    def _check_token(self, name: str, token: str) -> None:
        """Refuse a program without the token of an address, and one that asks too often."""
        given = read_header("Authorization").removeprefix("Bearer ").encode()
        if not hmac.compare_digest(given, token.encode()):
            self._count_try()
            bearer = {"WWW-Authenticate": "Bearer"}  # RFC 6750, section 3
            refuse(401, f"this takes the token of /{name}: {name}_token in secrets.toml", **bearer)
        if wait := self._calls.take(name, time.monotonic()):
            refuse(429, f"too many requests; try again in {wait:.0f} s")

    def _count_try(self) -> str:
        """Refuse an address that has tried too often; returns it."""
        address = server.get_client_address(bottle.request.environ, self._channel.proxies)
        if wait := self._tries.take(address, time.monotonic()):
            refuse(429, f"too many tries; try again in {wait:.0f} s")
        return address

    def _for_known(self, handler: Callable[[], Any], roles: frozenset[PersonRole]) -> Callable[[], Any]:
        """Let in who is logged in, has one of the roles and does not ask too often, and word what goes wrong."""

        def answer() -> Any:
            bottle.response.set_header("Cache-Control", "no-store")
            secret = read_cookie(COOKIE)
            if (visitor := self._logins.find(secret)) is None:
                refuse(401, "log in first")
            if visitor.role not in roles:
                refuse(403, "this is the owner's" if roles == _OWNERS else "this is not for guests")
            bottle.request.environ[_VISITOR] = visitor
            urgent = handler == self._stop  # which is never put off
            allowance = self._calls if bottle.request.method == "GET" else self._writes
            if not urgent and (wait := allowance.take(secret, time.monotonic())):
                refuse(429, f"too many requests; try again in {wait:.0f} s")
            try:
                return handler()
            except PicoclawError as error:
                refuse(503, str(error))

        return answer

    def _health(self) -> str:
        """Whether all is well, for a monitor; anybody may ask, and is told which parts are not, in a word or two.

        It is looked into at most once in ten seconds, however often and by however many it is asked; while one looks,
        the others are given what was found before.
        """
        bottle.response.set_header("Cache-Control", "no-store")
        bottle.response.content_type = "text/plain; charset=utf-8"
        is_due = self._channel.clock() >= self._health_until
        if is_due and self._health_lock.acquire(blocking=self._troubles is None):
            try:
                if self._channel.clock() >= self._health_until:
                    self._troubles = self._backend.troubles()
                    self._health_until = self._channel.clock() + _HEALTH_S
            except PicoclawError:
                self._troubles, self._health_until = ["status"], self._channel.clock() + _HEALTH_S
            finally:
                self._health_lock.release()
        bottle.response.status = 503 if self._troubles else 200
        return f"degraded: {', '.join(self._troubles)}\n" if self._troubles else "ok\n"

    def _metrics(self) -> str:
        """Give the figures to a program that has the token for them, and for nothing else."""
        from picoclaw.channels.dashboard.programs import CONTENT_TYPE, format_metrics

        self._check_token("metrics", self._channel.metrics_token)
        bottle.response.set_header("Cache-Control", "no-store")
        bottle.response.content_type = CONTENT_TYPE
        try:
            return format_metrics(self._backend.readings(), self._backend.figures(), time.time())
        except PicoclawError as error:
            refuse(503, str(error))

    def _login(self) -> Any:
        address = self._count_try()
        code = read_text_field(read_json_body(refuse), "code", 40)
        try:
            secret = self._logins.enter(code, read_header("User-Agent"), address)
        except PicoclawError as error:
            refuse(503, str(error))
        if not secret:
            refuse(403, "this code is wrong or too old; `picoclaw page code` prints a new one")
        encrypted = read_header("Origin").lower().startswith("https:")
        attributes = {"path": "/", "httponly": True, "samesite": "strict", "maxage": LOGIN_LIFETIME_S}
        bottle.response.set_cookie(COOKIE, secret, secure=encrypted, **attributes)
        bottle.response.set_header("Cache-Control", "no-store")
        return {}

    def _logout(self) -> Any:
        self._logins.forget(read_cookie(COOKIE))
        self._chat.events.end()
        bottle.response.delete_cookie(COOKIE, path="/")
        return {}

    def _state(self) -> dict[str, Any]:
        said, problem, chat, view = [], "", self._chat, self._view
        mark = chat.events.mark
        try:
            said = view.said(chat.session, _MAX_ROWS)
        except PicoclawError as error:  # then what is on the board can be seen all the same
            problem = str(error)
        told = chat.outbox.all()
        with suppress(PicoclawError):  # the conversation says what is wrong
            told += view.outcomes(_MAX_ROWS)
        lines = [line._asdict() for line in merge_messages(said, told, view.mark, _MAX_ROWS)]
        own: dict[str, Any] = {"name": view.name, "mark": view.mark, "said": lines, "problem": problem}
        own |= {"seen": mark, "now": time.time(), "zone": view.zone}
        own |= {"role": self._visitor.role, "person": self._visitor.person}
        asked = _collect_parts(questions=view.questions)
        return own | asked | chat.live_turn.now() | self._board() | self._plans()

    def _board(self) -> dict[str, Any]:
        return _show_board(self._view)

    def _plans(self) -> dict[str, Any]:
        return _show_plans(self._view, self._chat.session)

    def _history(self) -> dict[str, Any]:
        sensor, quantity, begin, end = self._read_series()
        points = self._backend.history(sensor, quantity, begin, end, _MAX_POINTS)
        return {"begin": begin, "end": end, "points": points}

    def _notes(self) -> dict[str, Any]:
        return {"notes": [row._asdict() for row in self._view.notes(_read_query("words")[:_MAX_WORDS_CHARS])]}

    def _note(self) -> dict[str, Any]:
        return {"text": self._view.note(_read_query("path"))}

    def _household(self) -> dict[str, Any]:
        return {"kinds": self._backend.list_household()}

    def _change_household(self) -> dict[str, Any]:
        """Add, edit or remove a person, an agent, a link, a team or a grant, as `picoclaw people` and the like do."""
        body = read_json_body(refuse)
        kind, act, key = (read_text_field(body, name, 200) for name in ("kind", "act", "key"))
        given = body.get("values", {})
        if not isinstance(given, dict):
            refuse(400, "values has to be an object")
        values = {name: read_text_field(given, name, _MAX_FIELD_CHARS) for name in given}
        try:
            lines = self._backend.change_household(kind, act, key, values, self._visitor.who)
        except (ConfigError, SkillError, ToolError) as error:
            refuse(400, str(error))
        return {"text": "\n".join(lines)} | self._household()

    def _csv(self) -> str:
        """Give a series as a file for a spreadsheet, finer than it is drawn."""
        sensor, quantity, begin, end = self._read_series()
        points = self._backend.history(sensor, quantity, begin, end, _MAX_CSV_ROWS)
        name = _UNSAFE_IN_FILE_NAMES.sub("_", f"{sensor}-{quantity}")
        bottle.response.content_type = "text/csv; charset=utf-8"
        bottle.response.set_header("Content-Disposition", f'attachment; filename="{name}.csv"')
        times = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at, *_ in points)
        rows = (
            f"{at},{low:.6g},{mean:.6g},{high:.6g}\r\n" for at, (_, low, mean, high) in zip(times, points, strict=True)
        )
        return "".join(["time,lowest,mean,highest\r\n", *rows])

    @staticmethod
    def _read_series() -> tuple[str, str, float, float]:
        """Read which sensor, quantity and time a request is about."""
        try:
            query = bottle.request.query.decode("utf-8")
        except UnicodeError:
            refuse(400, "this is no UTF-8")
        try:
            hours, back = float(query.get("hours", "24")), float(query.get("back", "0"))
        except ValueError:
            hours = back = 0.0
        if not hours > 0:
            refuse(400, "hours is no number above 0")
        if not 0 <= back <= _MAX_HOURS:
            refuse(400, f"back has to be hours, from 0 to {_MAX_HOURS:,}")
        end = time.time() - back * 3600
        return query.get("sensor", ""), query.get("quantity", ""), end - min(hours, _MAX_HOURS) * 3600, end

    def _day(self) -> dict[str, Any]:
        end = time.time()
        begin = end - 86_400
        series = {(value.sensor, value.quantity) for value in self._backend.readings()}
        rows = [
            {"sensor": s, "quantity": q, "points": self._backend.history(s, q, begin, end, _SPARK_POINTS)}
            for s, q in sorted(series)
        ]
        return {"begin": begin, "end": end, "series": rows}

    def _events(self) -> Iterator[str]:
        """Stream what happens, and every few seconds what the board says, if that has changed."""
        bottle.response.content_type = "text/event-stream; charset=utf-8"
        bottle.response.set_header("X-Accel-Buffering", "no")  # nginx would hold back what is not over
        after = read_header("Last-Event-ID") or bottle.request.query.get("after", "")
        return self._stream(read_cookie(COOKIE), self._visitor, self._view, self._chat, after)

    def _stream(
        self, secret: str, visitor: Visitor, view: DashboardBackend, chat: PageChat, after: str
    ) -> Iterator[str]:
        events = chat.events
        follower, shown, due, plans_due = events.follow(after), "", 0.0, time.monotonic() + _PLANS_INTERVAL_S
        try:
            yield "retry: 3000\n\n"
            while self._logins.find(secret) == visitor:
                now = time.monotonic()
                if now >= due:
                    due = now + _LIVE_INTERVAL_S
                    board = _show_board(view) | (_show_plans(view, chat.session) if now >= plans_due else {})
                    plans_due = now + _PLANS_INTERVAL_S if now >= plans_due else plans_due
                    news = json.dumps(board)
                    yield f"event: board\ndata: {news}\n\n" if news != shown else ": \n\n"
                    shown = news
                happened = events.wait(follower, max(0.0, due - time.monotonic()))
                if happened and self._logins.find(secret) != visitor:  # logged out while it waited
                    return
                if happened is None:
                    yield "event: displaced\ndata: {}\n\n" if follower.displaced else ": \n\n"
                    return
                for event in happened:
                    yield f"id: {event.mark}\nevent: {event.kind}\ndata: {event.data}\n\n"
        finally:
            events.leave(follower)

    def _say(self) -> dict[str, Any]:
        body = read_json_body(refuse)
        text, number = read_text_field(body, "text", MAX_CHAT_CHARS), read_text_field(body, "id", 64)
        if not text.strip() or not number:
            refuse(400, "there is no text to answer")
        self._channel.post(text, number, self._visitor)
        self._chat.events.publish("said", {"role": "user", "text": text, "at": time.time(), "id": number})
        return {}

    def _answer(self) -> dict[str, Any]:
        """Have the person's word on a question posted, as if they had typed it."""
        body = read_json_body(refuse)
        said, sign = read_text_field(body, "word", 10), read_text_field(body, "id", 64)
        if said not in get_args(ApprovalWord):
            refuse(400, f"word has to be one of {', '.join(get_args(ApprovalWord))}")
        number = next((one.number for one in self._view.questions() if one.id == sign and not one.outcome), 0)
        if not number:
            refuse(409, "this question is not open any more")
        self._channel.post(f"/{said} {number} {sign}", f"answer {sign}", self._visitor)
        return {}

    def _stop(self) -> dict[str, Any]:
        return self._show_outputs(self._view.stop())

    def _off(self) -> dict[str, Any]:
        return self._show_outputs(self._view.off(read_text_field(read_json_body(refuse), "name", 200)))

    def _resume(self) -> dict[str, Any]:
        return self._show_outputs(self._backend.resume())

    def _show_outputs(self, text: str) -> dict[str, Any]:
        outputs = _list_outputs(self._view)
        for chat in self._channel.list_chats():
            chat.events.publish("board", outputs)
        return {"text": text} | outputs


def _read_query(name: str) -> str:
    try:
        return str(bottle.request.query.decode("utf-8").get(name, ""))
    except UnicodeError:
        refuse(400, "this is no UTF-8")


def _show_board(view: DashboardBackend) -> dict[str, Any]:
    return _collect_parts(readings=view.readings) | _list_outputs(view)


def _show_plans(view: DashboardBackend, session: str) -> dict[str, Any]:
    agents = partial(view.agents, session)
    return _collect_parts(jobs=view.jobs, rules=view.rules, agents=agents, errors=view.errors, facts=view.facts)


def _list_outputs(backend: DashboardBackend) -> dict[str, Any]:
    try:
        rows, stopped, problems = backend.outputs()
    except PicoclawError as error:
        rows, stopped, problems = (), "", (str(error),)
    return {"outputs": [row._asdict() for row in rows], "stopped": stopped, "output_problems": problems}


def _collect_parts(**parts: Callable[[], Iterable[Any]]) -> dict[str, Any]:
    """Ask for each part; one that fails says why and spoils no other."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        try:
            found[name] = [row._asdict() for row in part()]
        except PicoclawError as error:
            found[f"{name}_problem"] = str(error)
    return found


class McpAnswer(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def stream(self) -> Iterator[bytes] | None: ...


class McpDoor(Protocol):
    """What is behind /mcp: the token that opens it, and what answers; names of headers are written small."""

    token: str

    def answer(self, method: str, headers: Mapping[str, str], body: bytes) -> McpAnswer: ...

    def close(self) -> None: ...


class DashboardChannel:
    """A chat and a dashboard for browsers on the local network; see Channel."""

    name = "page"

    def __init__(
        self,
        backend: DashboardBackend,
        home: Path,
        host: str,
        port: int,
        names: Sequence[str] = (),
        *,
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        metrics_token: str = "",
        programs: "Programs | None" = None,
        mcp: "McpDoor | None" = None,
        people: Mapping[str, PersonConfig] | None = None,
    ) -> None:
        """Listen at `host`, an address, and `port`; `names` are further ones that the board has in the network.

        Behind a proxy, `origins` are the page's public addresses, and `proxies` the addresses of those whose word
        counts on whom they pass on. `clock()` gives seconds that never go back. Whoever knows `metrics_token` may read
        /metrics, nobody without one. `programs` are webhooks and the like, None for none,
        and `mcp` what is served over MCP. The `people` of the household may log in as themselves.
        """
        self.backend, self._host, self._port = backend, host, port
        self.origins = frozenset(origin.strip().rstrip("/").lower() for origin in origins)
        self.names, self.proxies = list_host_names(socket.gethostname(), names, self.origins), frozenset(proxies)
        self.clock, self.metrics_token, self.programs, self.mcp = clock, metrics_token, programs, mcp
        self._home, self._chats = home, {OWNER_CHAT: PageChat(home)}
        self.logins = Logins(home, people=people)
        self._post: PostMessage = lambda _: None
        self._server: PageServer | None = None
        self._thread: threading.Thread | None = None
        self._since, self._contact, self._error = time.time(), 0.0, ""

    @property
    def port(self) -> int:
        """The port that is listened at; only once it was begun."""
        return self._server.port if self._server else self._port

    def start(self, post: PostMessage) -> None:
        self._post = post
        try:
            self._check_addresses()
            self._server = PageServer(Site(self), self._host, self._port, self.programs)
        except ChannelError as error:
            self._error = str(error)
            raise
        self._error, self._since = "", time.time()
        self._thread = threading.Thread(target=self._server.run, name="page", daemon=True)
        self._thread.start()

    def find_chat(self, person: str = "") -> PageChat:
        """The chat of a person on the page, '' for the owner's."""
        if not person:
            return self._chats[OWNER_CHAT]
        chat = PageChat(self._home, person)
        return self._chats.setdefault(chat.session, chat)

    def list_chats(self) -> list[PageChat]:
        """The chats that somebody has looked at since the start, and the owner's."""
        return list(self._chats.values())

    def post(self, text: str, number: str, visitor: Visitor) -> None:
        """Have a text answered: the browser's own number of it, and who says it. Raises PicoclawError."""
        self._contact = time.time()
        is_owner = visitor.role == "owner"
        session = self.find_chat("" if is_owner else visitor.person).session
        self._post(InboxMessage(session, text, visitor.who, "web" if is_owner else visitor.role, number))

    def post_from_program(self, arrived: InboxMessage) -> None:
        """Have what a program has sent answered. Raises PicoclawError."""
        self._contact = time.time()
        self._post(arrived)

    def _check_addresses(self) -> None:
        """Raise ChannelError for a name where only an address will do."""
        wanted = [("host", self._host, "127.0.0.1, or 0.0.0.0 for the whole network")]
        wanted += [("proxies", proxy, "such as 127.0.0.1") for proxy in self.proxies]
        for key, value, example in wanted:
            try:
                ipaddress.ip_address(value)
            except ValueError:
                raise ChannelError(f"[page]: {key} {value!r} is not an address: write {example}") from None

    def send(self, message: OutboxMessage) -> None:
        """See Channel.send; what is told stays on the page, also when no browser is there. A question has its card."""
        if message.approval and any(one.number == message.approval for one in self.backend.questions()):
            return
        chat = self._get_chat(message.session)
        if chat.outbox.keep(message):
            chat.events.publish("said", {"role": "assistant", "text": message.text, "at": message.at})

    def _get_chat(self, session: str) -> PageChat:
        return self.find_chat(find_page_person(session))

    def around(self, arrived: InboxMessage) -> TurnHooks:
        live = self._get_chat(arrived.key).live_turn
        live.begin(arrived.text)
        return TurnHooks(say=live.say, listen=live.listen)

    def changed(self, approval: Approval) -> None:
        if self.programs:
            self.programs.changed(approval)
        if approval.state != "running":
            self.find_chat().events.publish("question", make_question(approval)._asdict())

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        """See Channel.answered. What the conversation does not keep is kept here; a pressed button has its outcome."""
        failed = turn.notice.failed and not waits_for_approval(turn)  # which has its card
        chat = self._get_chat(arrived.key)
        seen = chat.live_turn.end(reply, turn.unsaid_notice if failed else "") > 0
        if seen and (not turn.steps or turn.stopped == "error") and not arrived.external.startswith("answer "):
            now = time.time()
            asked = [] if turn.steps else [ChatEntry("user", arrived.text, now)]
            chat.outbox.note(*asked, ChatEntry("assistant", reply or turn.notice.text, now))
        return seen

    def owner_chat(self) -> str:
        """See Channel.owner_chat; a page that nobody has ever come to reaches nobody."""
        return OWNER_CHAT if self.logins.is_owners() else ""

    def status(self) -> ChannelStatus:
        up = self._thread is not None and self._thread.is_alive()
        return ChannelStatus(up, self._since, self._error, self._contact)

    def stop(self) -> None:
        server, self._server = self._server, None
        for chat in self.list_chats():
            chat.events.end()
        if self.programs:
            self.programs.end()
        if server and self._thread:
            server.stop(self._thread)
