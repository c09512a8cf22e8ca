"""A Synapse homeserver on SQLite, in a folder of its own; the tests that need one skip where it is not installed.

    with SynapseServer(folder) as server:
        ann = server.register("ann")         # a client of hers
        room = ann.create_room(["@pico:test.local"], is_direct=True)
        ann.say(room, "how warm is it?")
        ann.wait(room, lambda event: event["sender"] == "@pico:test.local")

Its Python is $SYNAPSE_PYTHON, or .venv-matrix's: `make matrix` installs it there.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

NAME = "test.local"
PYTHON = Path(os.environ.get("SYNAPSE_PYTHON") or Path(__file__).parent.parent / ".venv-matrix/bin/python")
LIMITS = """
rc_message: {per_second: 1000, burst_count: 1000}
rc_login: {address: {per_second: 1000, burst_count: 1000}, account: {per_second: 1000, burst_count: 1000}}
rc_registration: {per_second: 1000, burst_count: 1000}
rc_joins: {local: {per_second: 1000, burst_count: 1000}, remote: {per_second: 1000, burst_count: 1000}}
rc_invites: {per_room: {per_second: 1000, burst_count: 1000}, per_user: {per_second: 1000, burst_count: 1000}}
"""


class SynapseServer:
    """One process; it can be ended and begun again with what it knows."""

    def __init__(self, folder: Path, limits: str = LIMITS) -> None:
        self._folder, self._limits = folder, limits
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = {
            "server_name": NAME,
            "pid_file": str(self._folder / "pid"),
            "database": {"name": "sqlite3", "args": {"database": str(self._folder / "homeserver.db")}},
            "media_store_path": str(self._folder / "media"),
            "signing_key_path": str(self._folder / "signing.key"),
            "macaroon_secret_key": "not a secret",
            "form_secret": "not a secret",
            "report_stats": False,
            "enable_registration": True,
            "enable_registration_without_verification": True,
            "trusted_key_servers": [],
            "presence": {"enabled": False},
            "listeners": [{"port": self.port, "bind_addresses": ["127.0.0.1"], "type": "http", "tls": False, "resources": [{"names": ["client"], "compress": False}]}],
        }  # fmt: skip
        (self._folder / "homeserver.yaml").write_text(json.dumps(config))  # which is YAML
        (self._folder / "limits.yaml").write_text(self._limits or "{}")
        files = ["-c", str(self._folder / "homeserver.yaml"), "-c", str(self._folder / "limits.yaml")]
        if not (self._folder / "signing.key").exists():
            subprocess.run([PYTHON, "-m", "synapse.app.homeserver", *files, "--generate-keys"], check=True)
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([PYTHON, "-m", "synapse.app.homeserver", *files], stdout=log, stderr=log)
        log.close()
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5).close()
                return self
            time.sleep(0.1)
        self.__exit__()
        raise AssertionError((self._folder / "log").read_text()[-3000:])

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def register(self, name: str) -> "MatrixPerson":
        person = MatrixPerson(self.url, f"@{name}:{NAME}")
        fields = {"username": name, "password": f"password of {name}", "auth": {"type": "m.login.dummy"}}
        person.token = person.call("POST", "register", fields)["access_token"]
        return person


class MatrixPerson:
    """A client of somebody's, as simple as can be."""

    def __init__(self, url: str, user: str) -> None:
        self.url, self.user, self.token, self._since = url, user, "", ""
        self._numbers = 0
        self.seen: dict[str, list[dict[str, Any]]] = {}
        self.ephemeral: dict[str, list[dict[str, Any]]] = {}

    def call(self, method: str, path: str, fields: Any = None, prefix: str = "/_matrix/client/v3/") -> Any:
        body = fields if isinstance(fields, bytes) else None if fields is None else json.dumps(fields).encode()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{self.url}{prefix}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                data = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from None
        return json.loads(data) if prefix.endswith("client/v3/") else data

    def create_room(self, invited: list[str], **more: Any) -> str:
        fields = {"preset": "private_chat", "invite": invited} | more
        return str(self.call("POST", "createRoom", fields)["room_id"])

    def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        self._numbers += 1
        path = f"rooms/{quote(room)}/send/{kind}/{time.monotonic_ns()}.{self._numbers}"
        return str(self.call("PUT", path, content)["event_id"])

    def say(self, room: str, text: str, **more: Any) -> str:
        return self.send(room, {"msgtype": "m.text", "body": text} | more)

    def react(self, room: str, event: str, emoji: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        return self.send(room, {"m.relates_to": relation}, "m.reaction")

    def sync(self) -> dict[str, Any]:
        since = f"&since={self._since}" if self._since else ""
        wanted = quote(json.dumps({"room": {"timeline": {"limit": 500}}}))
        told = self.call("GET", f"sync?timeout=500&filter={wanted}{since}")
        self._since = told["next_batch"]
        for room, body in told.get("rooms", {}).get("join", {}).items():
            self.seen.setdefault(room, []).extend(body["timeline"]["events"])
            self.ephemeral.setdefault(room, []).extend(body["ephemeral"]["events"])
        return dict(told)

    def wait(self, room: str, so: Any, seconds: float = 20.0) -> Any:
        """Wait for an event of a room; fails when it is not in time."""
        end = time.monotonic() + seconds
        while True:
            for event in self.seen.get(room, []):
                if so(event):
                    return event
            assert time.monotonic() < end, [one.get("content") for one in self.seen.get(room, [])][-6:]
            self.sync()

    def texts(self, room: str, sender: str) -> list[str]:
        return [
            one["content"].get("body", "")
            for one in self.seen.get(room, [])
            if one["sender"] == sender and one["type"] == "m.room.message"
        ]


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")
