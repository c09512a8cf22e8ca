"""Ways out for alarms: ntfy, and plain webhooks. Nothing is heard from them.

Source: https://docs.ntfy.sh/publish/, "Publish as JSON".
"""

import json
import ssl
import time
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from picoclaw.channels.channel import ChannelStatus, PostMessage
from picoclaw.config.tables import NotifyConfig
from picoclaw.errors import ChannelDown, ChannelError
from picoclaw.http_client import Client, Connection, HTTPError, InvalidURL, Timeout
from picoclaw.messages import Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage
from picoclaw.times import is_quiet, parse_hour_span

_TIMEOUT_S, _CONNECT_S, _DOWN_S = 20.0, 10.0, 30.0
_MAX_CHARS = 3000  # ntfy makes a file of more than 4096 bytes
_MAX_ANSWER_BYTES = 65_536
_AGAIN = frozenset({408, 425, 429})
_PRIORITIES = {"low": 2, "default": 3, "high": 4, "urgent": 5}
_SILENT = 1


class NotifyChannel:
    """One [notify.NAME]; see Channel. What its errors say never holds more of the address than the host."""

    def __init__(self, name: str, config: NotifyConfig, token: str, board: str, now: Callable[[], datetime]) -> None:
        """`board` is what the messages call the board, `now` the time in the owner's zone."""
        self.name, self._config, self._token, self._board, self._now = f"notify-{name}", config, token, board, now
        self._host = urlsplit(config.url).hostname or ""
        self._since, self._contact, self._error, self._failed = time.time(), 0.0, "", 0.0
        self._connection: Connection | None = None

    def start(self, post: PostMessage) -> None:
        """See Channel; there is nothing to listen to."""

    def stop(self) -> None:
        if connection := self._connection:
            connection.close()

    def owner_chat(self) -> str:
        return f"{self.name}:owner"

    def status(self) -> ChannelStatus:
        """See Channel; after a failure it counts as down for a while, until it is tried again."""
        is_up = not self._error or time.monotonic() - self._failed > _DOWN_S
        return ChannelStatus(is_up, self._since, "" if is_up else self._error, self._contact)

    def send(self, message: OutboxMessage) -> None:
        try:
            status = self._post(message)
        except ChannelDown as error:
            self._fail(str(error))
            raise
        if status in _AGAIN or status >= 500:
            self._fail(f"{self._host} answers with HTTP {status}")
            raise ChannelDown(self._error, unsure=status >= 500)
        self._error, self._contact = "", time.time()
        if status // 100 != 2:
            raise ChannelError(f"{self._host} answers with HTTP {status}: check url and token of [notify.NAME]")

    def around(self, arrived: InboxMessage) -> TurnHooks:  # noqa: ARG002
        return TurnHooks()

    def changed(self, approval: Approval) -> None:
        """See Channel; nobody is asked here."""

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:  # noqa: ARG002
        return False

    def _fail(self, error: str) -> None:
        if not self._error:
            self._since = time.time()
        self._error, self._failed = error, time.monotonic()

    def _make_body(self, message: OutboxMessage) -> tuple[str, dict[str, object]]:
        text = message.text if len(message.text) <= _MAX_CHARS else f"{message.text[:_MAX_CHARS]}…"
        silent = is_quiet(parse_hour_span(self._config.quiet, "quiet"), self._now())
        if self._config.kind == "ntfy":
            server, _, topic = self._config.url.rstrip("/").rpartition("/")
            priority = _SILENT if silent else _PRIORITIES[self._config.urgency]
            return server, {"topic": topic, "title": self._board, "message": text, "priority": priority}
        body = {"text": text, "board": self._board, "at": message.at, "number": message.number, "quiet": silent}
        return self._config.url, body | {"urgency": self._config.urgency}

    def _post(self, message: OutboxMessage) -> int:
        url, body = self._make_body(message)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        self._connection = connection = Connection()
        deadline, size = time.monotonic() + _TIMEOUT_S, 0
        try:
            with Client(headers) as client, connection.limited(deadline):
                timeout, content = Timeout(_TIMEOUT_S, _CONNECT_S), json.dumps(body).encode()
                with client.stream("POST", url, timeout=timeout, trace=connection.trace, content=content) as answer:
                    for piece in answer.iter_bytes():
                        size += len(piece)
                        if size > _MAX_ANSWER_BYTES:
                            break
                    return answer.status_code
        except (HTTPError, InvalidURL, ssl.SSLError, RuntimeError, ValueError) as error:
            reason = str(error).replace(urlsplit(self._config.url).path, "/…") or type(error).__name__
            raise ChannelDown(f"{self._host} cannot be reached: {reason}", unsure=connection.is_sent) from None
        finally:
            self._connection = None
