"""The Bot API over HTTPS: one call, and its errors told apart. Knows no update and no chat.

Source: https://core.telegram.org/bots/api, "Making requests".
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from io import BytesIO
from typing import Any, BinaryIO

from picoclaw import files as picoclaw_files
from picoclaw.channels.http_api import ApiAnswer, BadToken, Busy, CallRefused, HttpApi, OwnerMustAct, Unreachable
from picoclaw.files import RootedPath
from picoclaw.http_client import OK
from picoclaw.records import NamedTuple
from picoclaw.text import pattern

_MAX_RESPONSE_BYTES = 4_000_000  # bytes; 40 updates of the longest kind
_QUIET_S, _STALLED_S = 60.0, 20.0
_SERVER_ERROR = 500
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
        return _parse_result(answer)

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
        opened: BinaryIO
        if isinstance(upload.place, bytes):
            name, opened = "chart.png", BytesIO(upload.place)
        else:
            name = upload.place.path.name
            opened = os.fdopen(picoclaw_files.open_rooted(upload.place, alone=True), "rb")
        with opened as file:
            kind = f"multipart/form-data; boundary={os.urandom(16).hex()}"
            files = {upload.field: (name, file)}
            yield {"data": plain, "files": files, "headers": {"Content-Type": kind}}


def _parse_result(answer: ApiAnswer) -> Any:
    """Read an answer of the API; anything that is none comes from something in the way."""
    try:
        told = json.loads(answer.data)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
        if answer.data.lstrip()[:1] == b"<":
            raise Unreachable(
                "a web page answered instead of Telegram: the network may want a login (captive portal)",
                unsure=answer.status >= _SERVER_ERROR,
            )
        raise Unreachable(f"Telegram's answer (HTTP {answer.status}) is not one of its API", unsure=True)
    if told["ok"]:
        return told.get("result")
    code = told.get("error_code") if isinstance(told.get("error_code"), int) else answer.status
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
        case int() if code >= _SERVER_ERROR:
            raise Unreachable(f"Telegram has a server error ({code}: {said})", unsure=True)
    moved = more.get("migrate_to_chat_id")
    raise CallRefused(f"Telegram refused: {said}", moved_to=moved if isinstance(moved, int) else 0)
