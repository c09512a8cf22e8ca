"""A server elsewhere, over streamable HTTP: each message is a POST, answered by JSON or by a stream of events.

A stream that breaks is read on where the server gave its events numbers. A session that the server has forgotten is begun
again once.

Servers that want a token get one by OAuth 2.1: an authorization code with PKCE, by a link that the owner opens.
Sources: https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization, RFC 9728 (where the authorization
server is), RFC 8414 (what it offers), RFC 7591 (how a client is registered), RFC 7636 (PKCE), RFC 8707 (for which server a
token is), RFC 9207 (whose answer it is).
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from picoclaw import mcp
from picoclaw.config.tables import McpConfig
from picoclaw.errors import TurnStopped
from picoclaw.files import make_folder, read_file, write_atomic
from picoclaw.http_client import (
    Client,
    ConnectError,
    Connection,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    Response,
    Timeout,
    TimeoutException,
    iter_stream_lines,
)
from picoclaw.mcp import MAX_MESSAGE_BYTES, McpError, ServerGone, Wire, clean_line, get_list, get_object
from picoclaw.mcp.client import AuthNeeded, HttpRefused, McpClient, PendingReply, SessionLost
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple
from picoclaw.text import format_json

REDIRECT = "http://127.0.0.1:8738/callback"
"""Nothing listens there: the browser says that it cannot open the page, and its address holds the code."""
_WAITS = Timeout(20, 15)
_MAX_BYTES = 262_144
_EARLY_S = 60.0
_PARAMETER = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
AskOwner = Callable[[str], str]
"""Shows a link, and gives what the owner pastes: the address that the browser ended at, or the code in it."""


def read_challenge(header: str) -> dict[str, str]:
    """Read the parameters of a WWW-Authenticate header."""
    return {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(header)}


def get_token_path(home: Path, name: str) -> Path:
    return home / "mcp" / f"{name}.token"


class TokenStore:
    """The tokens of one server, in `mcp/NAME.token`, which only its owner may read."""

    def __init__(self, home: Path, name: str) -> None:
        self._path = get_token_path(home, name)

    def load(self) -> dict[str, Any]:
        """What is kept; nothing where there is nothing that can be read."""
        try:
            return get_object(json.loads(read_file(self._path)))
        except (OSError, ValueError, RecursionError):
            return {}

    def save(self, kept: Mapping[str, Any]) -> None:
        """Keep it durably. Raises OSError."""
        make_folder(self._path.parent)
        write_atomic(self._path, format_json(kept).encode())

    def bearer(self) -> str:
        """The token to send, renewed where it is about to end; '' where the owner has to log in. Raises McpError."""
        kept = self.load()
        if not kept.get("access") or (0 < kept.get("until", 0) < time.time() + _EARLY_S and not self.renew(kept)):
            return ""
        return str(self.load().get("access", ""))

    def renew(self, kept: Mapping[str, Any] | None = None) -> bool:
        """Get a new token for an old one; tells whether there is one. Raises McpError."""
        kept = dict(kept or self.load())
        if not kept.get("refresh"):
            return False
        form = {"grant_type": "refresh_token", "refresh_token": kept["refresh"], "resource": kept["resource"]}
        with Client() as http:
            said = _ask_token(http, kept, form)
        if not said.get("access_token"):
            return False
        self.save(kept | _read_token(said, kept))
        return True


def log_in(
    home: Path, name: str, config: McpConfig, secret: str, ask: AskOwner, challenge: Mapping[str, str] | None = None
) -> None:
    """Get a token for a server, by a link that `ask` shows; `challenge` is what the server said when it refused.

    `secret` is that of a client which the owner has registered. Raises McpError.
    """
    store = TokenStore(home, name)
    with Client() as http:
        said = dict(challenge) if challenge is not None else _probe(http, config.url)
        if wanted_scope := store.load().get("wanted"):
            said["scope"] = str(wanted_scope)
        resource, issuer, scopes = _find_issuer(http, config.url, said)
        server = _find_endpoints(http, issuer or _get_root(config.url), config.url, is_named=bool(issuer))
        client = _register(http, server, config.client_id, secret, store.load(), said.get("scope") or scopes)
        scope = said.get("scope") or scopes
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        wanted = {
            "response_type": "code",
            "client_id": client["client_id"],
            "redirect_uri": REDIRECT,
            "state": state,
            "code_challenge": hashed,
            "code_challenge_method": "S256",
            "resource": resource,
        } | ({"scope": scope} if scope else {})
        joint = "&" if "?" in server["authorization_endpoint"] else "?"
        code = _read_code(ask(f"{server['authorization_endpoint']}{joint}{urlencode(wanted)}"), state, server)
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "code_verifier": verifier}
        kept = client | {"resource": resource, "issuer": server["issuer"], "token_endpoint": server["token_endpoint"]}
        answer = _ask_token(http, kept, form | {"resource": resource})
        if not answer.get("access_token"):
            raise McpError(
                f"{name}: no token was given: {clean_line(answer.get('error_description') or answer.get('error'))}"
            )
        store.save(kept | _read_token(answer, {}))


def _probe(http: Client, url: str) -> dict[str, str]:
    """Ask the server as a stranger, so that it says what it wants."""
    params = {"protocolVersion": mcp.HANDSHAKE_VERSIONS[0], "capabilities": {}, "clientInfo": mcp.IDENTITY}
    data = mcp.encode(mcp.make_request(0, "initialize", params))
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        with http.stream("POST", url, timeout=_WAITS, content=data, headers=headers) as answer:
            if answer.is_success:
                raise McpError("the server wants no login")
            return read_challenge(answer.headers.get("www-authenticate", ""))
    except (HTTPError, InvalidURL) as error:
        raise McpError(f"{url} cannot be reached: {clean_line(error, 200)}") from None


def _find_issuer(http: Client, url: str, challenge: Mapping[str, str]) -> tuple[str, str, str]:
    """Which server a token is for, who gives it out, and the scopes; as RFC 9728 has it. Raises McpError."""
    parts = urlsplit(url)
    root = _get_root(url)
    known = f"{root}/.well-known/oauth-protected-resource"
    named = challenge.get("resource_metadata")
    for place in [named] if named else dict.fromkeys([f"{known}{parts.path.rstrip('/')}", known]):
        if not (found := _get_json(http, place)):
            continue
        resource = str(found.get("resource") or url)
        if not _is_part_of(url, resource):
            raise McpError(f"the server says that its tokens are for {clean_line(resource, 100)}, which it is not")
        issuers = [one for one in get_list(found.get("authorization_servers")) if isinstance(one, str)]
        scopes = " ".join(one for one in get_list(found.get("scopes_supported")) if isinstance(one, str))
        return resource, issuers[0] if issuers else root, scopes
    return url, "", ""  # until 2025-03-26, it gave out its tokens itself


def _get_root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _is_part_of(url: str, resource: str) -> bool:
    ours, theirs = urlsplit(url), urlsplit(resource)
    same = (ours.scheme, ours.netloc.lower()) == (theirs.scheme.lower(), theirs.netloc.lower())
    return same and f"{ours.path.rstrip('/')}/".startswith(f"{theirs.path.rstrip('/')}/")


def _find_endpoints(http: Client, issuer: str, url: str, *, is_named: bool) -> dict[str, Any]:
    """What an authorization server offers; of one that says nothing, the addresses of 2025-03-26. Raises McpError.

    One that is named by the server's metadata has to name itself the same.
    """
    parts = urlsplit(issuer)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.netloc
        or (parts.scheme == "http" and urlsplit(url).scheme != "http")
    ):
        raise McpError(f"{clean_line(issuer, 100)} cannot be trusted with a login")
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (
        f"{root}/.well-known/oauth-authorization-server{path}",
        f"{root}/.well-known/openid-configuration{path}",
        f"{root}{path}/.well-known/openid-configuration",
    )
    for place in dict.fromkeys(places):
        if (found := _get_json(http, place)) and found.get("authorization_endpoint") and found.get("token_endpoint"):
            if is_named and str(found.get("issuer", issuer)).rstrip("/") != issuer.rstrip("/"):
                raise McpError(f"{place} speaks for another issuer than {clean_line(issuer, 100)}")
            if "S256" not in get_list(found.get("code_challenge_methods_supported", ["S256"])):
                raise McpError(f"{issuer} does not support PKCE with S256")
            return {"issuer": issuer, **found}
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{root}/authorize",
        "token_endpoint": f"{root}/token",
        "registration_endpoint": f"{root}/register",
    }


def _register(
    http: Client, server: Mapping[str, Any], client_id: str, secret: str, kept: Mapping[str, Any], scope: str
) -> dict[str, Any]:
    """The client that asks: the owner's own, the one of before, or a new one. Raises McpError."""
    methods = get_list(server.get("token_endpoint_auth_methods_supported")) or ["client_secret_basic"]
    if client_id:
        usual = "client_secret_basic" if "client_secret_basic" in methods else str(methods[0])
        return {"client_id": client_id, "client_secret": secret, "auth": usual if secret else "none"}
    if kept.get("client_id") and kept.get("issuer") == server["issuer"]:
        return {key: kept.get(key, "") for key in ("client_id", "client_secret", "auth")}
    if not isinstance(place := server.get("registration_endpoint"), str):
        raise McpError(
            "the server registers no clients by itself: register one there, and write its client_id into the table"
        )
    auth = next(
        (one for one in ("none", "client_secret_post", "client_secret_basic") if one in methods), str(methods[0])
    )
    wanted = {
        "client_name": "picoclaw",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth,
        "application_type": "native",
    } | ({"scope": scope} if scope else {})
    said = _send(http, place, json.dumps(wanted).encode(), {"Content-Type": "application/json"})
    if not isinstance(said.get("client_id"), str):
        raise McpError(
            f"picoclaw could not be registered: {clean_line(said.get('error_description') or said.get('error'))}"
        )
    given = str(said.get("token_endpoint_auth_method") or auth)
    return {"client_id": said["client_id"], "client_secret": str(said.get("client_secret") or ""), "auth": given}


def _read_code(pasted: str, state: str, server: Mapping[str, Any]) -> str:
    """The code in what the owner has pasted. Raises McpError for an answer to another question."""
    text = pasted.strip()
    if "=" not in text:
        return text
    given = {
        name: values[0] for name, values in parse_qs(urlsplit(text).query or text.partition("?")[2] or text).items()
    }
    if not hmac.compare_digest(given.get("state", "").encode(), state.encode()):
        raise McpError("that address belongs to another login: open the link again")
    issuer = given.get("iss")
    if (issuer is not None and issuer != server["issuer"]) or (
        issuer is None and server.get("authorization_response_iss_parameter_supported") is True
    ):
        raise McpError("that address does not come from the server that was asked")
    if "code" not in given:
        raise McpError(
            f"the login was refused: {clean_line(given.get('error_description') or given.get('error') or 'no code')}"
        )
    return given["code"]


def _ask_token(http: Client, client: Mapping[str, Any], form: dict[str, str]) -> dict[str, Any]:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    auth, secret = client.get("auth"), str(client.get("client_secret") or "")
    if auth == "client_secret_basic" and secret:
        pair = f"{quote(client['client_id'], safe='')}:{quote(secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form = form | {"client_id": str(client["client_id"])} | ({"client_secret": secret} if secret else {})
    return _send(http, str(client["token_endpoint"]), urlencode(form).encode(), headers)


def _read_token(said: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    lasts = said.get("expires_in")
    return {
        "access": str(said["access_token"]),
        "refresh": str(said.get("refresh_token") or before.get("refresh", "")),
        "until": time.time() + lasts if isinstance(lasts, int | float) and not isinstance(lasts, bool) else 0,
    }


def _get_json(http: Client, place: str) -> dict[str, Any]:
    """What is at an address, nothing where that is no JSON object."""
    try:
        with http.stream("GET", place, timeout=_WAITS, headers={"Accept": "application/json"}) as answer:
            return _read_json(answer) if answer.is_success else {}
    except (HTTPError, InvalidURL):
        return {}


def _send(http: Client, place: str, data: bytes, headers: dict[str, str]) -> dict[str, Any]:
    try:
        with http.stream("POST", place, timeout=_WAITS, content=data, headers=headers) as answer:
            return _read_json(answer)
    except (HTTPError, InvalidURL) as error:
        raise McpError(f"{clean_line(place, 100)} cannot be asked: {clean_line(error, 200)}") from None


def _read_json(answer: Response) -> dict[str, Any]:
    try:
        return get_object(json.loads(_read_whole(answer, _MAX_BYTES)))
    except (ServerGone, ValueError, RecursionError):
        return {}


_CONNECT_S = 15.0
_MAX_STREAM_BYTES = 4 * MAX_MESSAGE_BYTES
_MAX_RESUMES, _LONGEST_RETRY_S = 5, 30.0
_ERROR_BYTES = 65_536
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ACCEPT = "application/json, text/event-stream"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404


class _StreamEvent(NamedTuple):
    """One event: its number, '' for none, what it says, and how long to wait before reading on, None if it is not said."""

    id: str
    data: str
    retry_s: float | None


class HttpTransport:
    """A session with a server; requests are made one after the other."""

    def __init__(self, client: McpClient, home: Path, config: McpConfig, token: str) -> None:
        self._client, self._config, self._home, self._token = client, config, home, token
        self._http, self._aside = Client(), Client()
        self._connection, self._asking = Connection(), threading.Lock()
        self._session = self._version = ""
        self._store: TokenStore | None = None
        if (config.client_id or not token) and get_token_path(home, client.name).exists():
            self._store = TokenStore(home, client.name)

    def use_version(self, version: str) -> None:
        self._version = version

    def close(self) -> None:
        """See Transport; tell the server that its session is over."""
        session, self._session = self._session, ""
        if session:
            headers = self._headers() | {"Mcp-Session-Id": session}
            try:
                with self._aside.stream("DELETE", self._config.url, timeout=Timeout(2, 2), headers=headers):
                    pass
            except (HTTPError, InvalidURL):
                pass
        self._connection.shut_down()
        self._http.close()
        self._aside.close()

    def _headers(self, message: Wire | None = None) -> dict[str, str]:
        given = {"Accept": _ACCEPT}
        if token := self._bearer():
            given["Authorization"] = f"Bearer {token}"
        if self._version:
            given["MCP-Protocol-Version"] = self._version
        if self._session:
            given["Mcp-Session-Id"] = self._session
        if message is not None:
            given["Content-Type"] = "application/json"
            if "method" in message:  # older servers do not look at it
                given["Mcp-Method"] = message["method"]
                if key := NAMED.get(message["method"]):
                    given["Mcp-Name"] = mcp.encode_header(str(get_object(message.get("params")).get(key, "")))
        return given

    def _bearer(self) -> str:
        """The token to send: the owner's own, or the one of a login."""
        if self._store is not None:
            return self._store.bearer()
        return "" if self._config.client_id else self._token

    def send(self, message: Wire, pending: PendingReply | None, stop: Stop, seconds: float) -> None:
        """See Transport; a request has its answer when this returns."""
        if pending is None:
            self._send_aside(message, seconds)
            return
        with self._asking:
            try:
                with self._connection.stopped_by(stop), self._connection.limited(pending.longest_until):
                    try:
                        self._ask(message, pending, stop, seconds)
                    except AuthNeeded:
                        if not (self._store and self._store.renew()):
                            raise
                        self._ask(message, pending, stop, seconds)
            except (HTTPError, InvalidURL) as error:
                if stop:
                    raise TurnStopped("interrupted") from None
                raise self._explain(error, seconds) from None

    def _explain(self, error: Exception, seconds: float) -> McpError:
        name, url = self._client.name, self._config.url
        if isinstance(error, ConnectError | ConnectTimeout | InvalidURL):
            return ServerGone(f"{name} cannot be reached at {url}: {clean_line(error, 200)}")
        if isinstance(error, TimeoutException):
            return McpError(f"{name} has not answered within {seconds:g} s; whether it did anything is not known")
        return McpError(
            f"the connection to {name} broke ({clean_line(error, 200)}); whether it did anything is not known"
        )

    def _send_aside(self, message: Wire, seconds: float) -> None:
        """Send a notice or an answer, also while a request is being answered."""
        data, waits = mcp.encode(message), Timeout(seconds, min(seconds, _CONNECT_S))
        headers = self._headers(message)
        try:
            with self._aside.stream("POST", self._config.url, timeout=waits, content=data, headers=headers) as answer:
                if not answer.is_success:
                    raise McpError(f"{self._client.name} does not take a notice (status {answer.status_code})")
        except (HTTPError, InvalidURL) as error:
            raise self._explain(error, seconds) from None

    def _ask(self, message: Wire, pending: PendingReply, stop: Stop, seconds: float) -> None:
        waits, trace = Timeout(seconds, _CONNECT_S), self._connection.trace
        data = mcp.encode(message)
        headers = self._headers(message) | dict(pending.headers)
        with self._http.stream(
            "POST", self._config.url, timeout=waits, trace=trace, content=data, headers=headers
        ) as answer:
            self._check(answer, pending)
            if pending.done.is_set():
                return
            if message["method"] == "initialize" and (session := answer.headers.get("mcp-session-id", "")):
                self._session = session if session.isascii() and session.isprintable() else ""
            last, wait_s = self._read(answer, pending)
        for _ in range(_MAX_RESUMES):
            if pending.done.is_set() or not last:
                break
            stop.rest(min(wait_s, _LONGEST_RETRY_S))
            if stop or time.monotonic() > pending.longest_until:
                break
            headers = self._headers() | {"Last-Event-ID": last, "Accept": "text/event-stream"}
            with self._http.stream("GET", self._config.url, timeout=waits, trace=trace, headers=headers) as answer:
                self._check(answer, pending)
                again, wait_s = self._read(answer, pending)
                last = again or last
        if not pending.done.is_set():
            raise McpError(f"{self._client.name} ended its answer in the middle; whether it did anything is not known")

    def _check(self, answer: Response, pending: PendingReply) -> None:
        """Settle what was refused with the server's own error, if it says one. Raises McpError, SessionLost."""
        code, name = answer.status_code, self._client.name
        if answer.is_success:
            return
        if code == NOT_FOUND and self._session:
            self._session = ""
            raise SessionLost(f"{name} has forgotten the session")
        header = answer.headers.get("www-authenticate", "")
        if code == UNAUTHORIZED or (code == FORBIDDEN and "insufficient_scope" in header):
            challenge = read_challenge(header)
            if code == FORBIDDEN:
                store = TokenStore(self._home, name)
                store.save(store.load() | {"wanted": challenge.get("scope", "")})
            why = "wants to know who asks" if code == UNAUTHORIZED else "wants a login with more rights"
            raise AuthNeeded(
                f"{name} {why}: picoclaw mcp login {name}, or mcp_{name} below [keys] in secrets.toml", challenge
            )
        if answer.is_redirect:
            raise ServerGone(
                f"{name} is elsewhere now: {clean_line(answer.headers.get('location', ''), 200)}; change url"
            )
        said = mcp.decode(_read_whole(answer, _ERROR_BYTES))
        if said is not None and isinstance(said.get("error"), dict):
            pending.settle(said)
            return
        kind = HttpRefused if code // 100 == 4 else ServerGone
        raise kind(f"{name} answers with status {code}")

    def _read(self, answer: Response, pending: PendingReply) -> tuple[str, float]:
        """Hand on what an answer says; returns the number of the last event, and how long to wait before reading on."""
        if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
            if (message := mcp.decode(_read_whole(answer, MAX_MESSAGE_BYTES))) is None:
                raise ServerGone(f"{self._client.name} answers with something that is no message of MCP")
            self._client.receive(message)
            if not pending.done.is_set():
                raise ServerGone(f"{self._client.name} answers something else than what it was asked")
            return "", 0.0
        last, wait_s = "", 1.0
        try:
            for event in _iter_events(answer.iter_bytes()):
                last = event.id or last
                wait_s = wait_s if event.retry_s is None else event.retry_s
                if event.data and (message := mcp.decode(event.data)) is not None:
                    self._client.receive(message)
                if pending.done.is_set():
                    break
        except HTTPError:
            if not last or self._connection.is_closed:
                raise
        return last, wait_s


def _read_whole(answer: Response, most: int) -> bytes:
    """Read a body. Raises ServerGone for one that is too long."""
    body = bytearray()
    for piece in answer.iter_bytes():
        body += piece
        if len(body) > most:
            raise ServerGone(f"it sends more than {most:,} bytes in one answer, and is not listened to any more")
    return bytes(body)


def _iter_events(pieces: Iterator[bytes]) -> Iterator[_StreamEvent]:
    """Read server-sent events (https://html.spec.whatwg.org/#parsing-an-event-stream). Raises ServerGone for too much."""
    event: dict[str, Any] = {"id": "", "data": [], "retry": None}
    for line in iter_stream_lines(_guard(pieces)):
        if not line:
            yield _StreamEvent(event["id"], "\n".join(event["data"]), event["retry"])
            event = {"id": "", "data": [], "retry": None}
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            event["data"].append(value)
        elif key == "id" and "\0" not in value and len(value) <= 1000 and value.isascii() and value.isprintable():
            event["id"] = value
        elif key == "retry" and value.isdecimal() and len(value) < 9:
            event["retry"] = int(value) / 1000
    if event["data"]:  # some servers leave out the last empty line
        yield _StreamEvent(event["id"], "\n".join(event["data"]), event["retry"])


def _guard(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Hand on the pieces of a stream. Raises ServerGone for too long a one, or too long a line."""
    total = held = 0
    for piece in pieces:
        total, held = total + len(piece), len(piece) if b"\n" in piece else held + len(piece)
        if held > MAX_MESSAGE_BYTES:
            raise ServerGone(f"it sends a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
        if total > _MAX_STREAM_BYTES:
            raise ServerGone(f"it sends more than {_MAX_STREAM_BYTES >> 20} MB, and is not listened to any more")
        yield piece
