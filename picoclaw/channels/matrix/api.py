"""The client-server API of a Matrix homeserver over HTTPS: one call, and its errors told apart. Knows no room.

Source: https://spec.matrix.org/v1.11/client-server-api/, "API standards".
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from io import BytesIO
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from picoclaw import files as picoclaw_files
from picoclaw.channels.http_api import ApiAnswer, BadToken, Busy, CallRefused, HttpApi, Unreachable
from picoclaw.files import RootedPath
from picoclaw.http_client import OK

MAX_ANSWER_BYTES = 8_000_000
_QUIET_S, _STALLED_S = 60.0, 20.0
_SERVER_ERROR = 500
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
        answer = self.request(method, path, _give(body), wait=wait, quiet=wait, most=MAX_ANSWER_BYTES)
        return _parse_answer(answer)

    def upload(self, source: RootedPath | bytes, name: str, kind: str, wait: float) -> str:
        """Put a file onto the server; returns its address there, `mxc://...`. Raises as `call`."""
        self.check()
        path = f"/_matrix/media/v3/upload?{urlencode({'filename': name})}"
        body = _open_body(source, self._make_headers() | {"Content-Type": kind})
        answer = self.request("POST", path, body, wait=wait, quiet=min(_QUIET_S, wait), most=MAX_ANSWER_BYTES)
        address = _parse_answer(answer).get("content_uri")
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
            body, quiet = _give({"headers": self._make_headers()}), min(_STALLED_S, wait)
            answer = self.request("GET", path, body, wait=wait, quiet=quiet, most=most)
            if answer.status == OK:
                return answer.data
            if b"M_UNRECOGNIZED" not in answer.data:
                break
        _parse_answer(answer)
        raise CallRefused(f"{_SERVICE} does not give the file (HTTP {answer.status})")

    def _make_headers(self) -> dict[str, str]:
        if self._token:
            self.check()
            return {"Authorization": f"Bearer {self._token}"}
        return {}


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
def _give(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield body


@contextmanager
def _open_body(source: RootedPath | bytes, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    opened: BinaryIO
    if isinstance(source, bytes):
        opened = BytesIO(source)
    else:
        opened = os.fdopen(picoclaw_files.open_rooted(source, alone=True), "rb")
    with opened as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        yield {"content": file, "headers": headers | {"Content-Length": str(size)}}


def _parse_answer(answer: ApiAnswer) -> dict[str, Any]:
    """Read an answer of the API; anything that is none comes from something in the way."""
    try:
        told = json.loads(answer.data)
    except (ValueError, RecursionError):
        told = None
    is_broken = answer.status >= _SERVER_ERROR
    if not isinstance(told, dict):
        if answer.data.lstrip()[:1] == b"<" and not is_broken:
            raise Unreachable(
                "a web page answered instead of the Matrix server: check homeserver, or the network wants a login",
            )
        raise Unreachable(f"{_SERVICE}'s answer (HTTP {answer.status}) is not one of its API", unsure=True)
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
    if is_broken:
        raise Unreachable(f"{_SERVICE} has a server error ({answer.status}: {said})", unsure=True)
    raise CallRefused(f"{_SERVICE} refused: {said}", code=code)
