"""The key pair of a board, the boards that it was paired with, and messages that nobody else can write.

Ed25519 signatures and X25519 boxes of libsodium (RFC 8032, RFC 7748). All is kept in `fleet.json` of the home.

Two boards are paired by a code of 80 bits, which one shows and a person types on the other within ten minutes. The keys
travel over the broker with a checksum (HMAC-SHA256) that takes the code. Nobody can guess 80 bits in ten minutes, nor
later: a code that was used or is too old is worth nothing.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.public import Box
from nacl.signing import SigningKey, VerifyKey
from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTProtocolVersion

from picoclaw.config.tables import MqttConfig
from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error, lock_folder, write_atomic
from picoclaw.mqtt.connection import PEER_ERRORS, explain_failure, explain_refusal, make_client
from picoclaw.records import NamedTuple
from picoclaw.text import escape_unprintable, pattern

MAX_BOARDS, MAX_ASKS = 1000, 1000
_FILE = "fleet.json"
_MAX_NAME = 64


class Peer(NamedTuple):
    """Another board; its `number` is a checksum of its key, which no other board has.

    `asks` is how many questions an hour its agent may put to this board's.
    """

    number: str
    name: str
    key: VerifyKey
    asks: int = 0


def make_peer(name: Any, key: Any, asks: Any = 0) -> Peer:
    """Take what another board, or the file, says of a board. Raises ValueError."""
    if not isinstance(asks, int) or not 0 <= asks <= MAX_ASKS:
        raise ValueError("no number of questions")
    if not isinstance(name, str) or not isinstance(key, str) or not name.strip():
        raise ValueError("no board is described")
    raw = bytes.fromhex(key)
    if len(raw) != 32:
        raise ValueError("this is no key of a board")
    return Peer(number_of(raw), clean_text(name), VerifyKey(raw), asks)


def number_of(key: bytes) -> str:
    return hashlib.sha256(b"picoclaw board" + key).hexdigest()[:16]


def clean_text(text: str, most: int = _MAX_NAME) -> str:
    """Cut what another board has written, on one line."""
    return escape_unprintable(" ".join(text.split())[:most])


class FleetKeys:
    """What `fleet.json` holds."""

    def __init__(self, home: Path) -> None:
        """Read it, or make a key pair. Raises ConfigError."""
        self._file = home / _FILE
        self.peers: dict[str, Peer] = {}
        self._seed, self.starts = b"", 0
        self.load()
        if not self._seed:
            self._seed = bytes(SigningKey.generate())
            self._save()
        self._key = SigningKey(self._seed)
        self.public = bytes(self._key.verify_key).hex()
        self.number = number_of(bytes(self._key.verify_key))

    def load(self) -> None:
        """Read the file again, as after another process has paired the board. Raises ConfigError."""
        try:
            found = json.loads(self._file.read_bytes())
            seed = bytes.fromhex(found["key"])
            starts = int(found["starts"])
            peers = [make_peer(one["name"], one["key"], one.get("asks", 0)) for one in found["boards"]]
            if len(seed) != 32:
                raise ValueError("no key")  # noqa: TRY301
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self._file}: {explain_os_error(error)}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ConfigError(f"{self._file} is damaged: move it away, and pair this board again") from None
        self._seed, self.starts = seed, starts
        self.peers = {peer.number: peer for peer in peers}

    def _save(self) -> None:
        boards = [{"name": one.name, "key": bytes(one.key).hex(), "asks": one.asks} for one in self.peers.values()]
        data = {"key": self._seed.hex(), "starts": self.starts, "boards": boards}
        try:
            write_atomic(self._file, json.dumps(data, indent=1).encode())
        except OSError as error:
            raise ConfigError(f"{self._file}: {explain_os_error(error)}") from None

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change what the file holds now, while no other process does. Raises ConfigError."""
        try:
            with lock_folder(self._file.parent):
                self.load()
                yield
                self._save()
        except OSError as error:
            raise ConfigError(f"{self._file}: {explain_os_error(error)}") from None

    def count_start(self) -> None:
        """Note that the board begins anew: what it says from now on is newer, whatever its clock says. Raises ConfigError."""
        with self._change():
            self.starts += 1

    def add(self, peer: Peer) -> None:
        """Keep a board that was paired. Raises ConfigError."""
        if peer.number == self.number:
            raise ConfigError("this is the code of this board: type it on the other one")
        with self._change():
            if len(self.peers) >= MAX_BOARDS and peer.number not in self.peers:
                raise ConfigError(f"a board can be paired with {MAX_BOARDS} others at most")
            before = self.peers.get(peer.number, peer)
            self.peers[peer.number] = peer._replace(asks=before.asks)

    def grant(self, number: str, asks: int) -> None:
        """Let the agent of a board ask so many questions an hour. Raises ConfigError."""
        with self._change():
            if number in self.peers:
                self.peers[number] = self.peers[number]._replace(asks=asks)

    def forget(self, number: str) -> None:
        """Raises ConfigError."""
        with self._change():
            self.peers.pop(number, None)

    def find(self, board: str) -> Peer:
        """Find a board by its name or number. Raises ConfigError."""
        wanted = board.strip().lower()
        found = [peer for peer in self.peers.values() if wanted in {peer.name.lower(), peer.number}]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(peer.number for peer in found)
            raise ConfigError(f"{len(found)} boards are called {board}: say which by its number ({numbers})")
        names = ", ".join(sorted(peer.name for peer in self.peers.values()))
        raise ConfigError(
            f"no board {board!r} is paired with this one; there are: {names}"
            if names
            else "no board is paired with this one: picoclaw fleet pair"
        )

    # --- messages ---

    def sign(self, body: dict[str, Any]) -> str:
        """Make a message that all may read, and only this board can write."""
        text = json.dumps({**body, "by": self.number}, ensure_ascii=False)
        signature = self._key.sign(_bytes_to_sign(text)).signature
        return json.dumps({"text": text, "signature": base64.b64encode(signature).decode()}, ensure_ascii=False)

    def verify(self, peer: Peer, payload: bytes) -> dict[str, Any]:
        """Read what a board has signed. Raises ValueError for what it did not write."""
        try:
            given = json.loads(payload)
            text = given["text"]
            peer.key.verify(_bytes_to_sign(text), base64.b64decode(given["signature"], validate=True))
            body = json.loads(text)
            if body["by"] == peer.number:
                return dict(body)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CryptoError):
            pass
        raise ValueError("it was not signed by that board")

    def seal(self, peer: Peer, body: dict[str, Any]) -> str:
        """Make a message that only this board can write, and only that one can read."""
        inner = self.sign({**body, "to": peer.number}).encode()
        box = base64.b64encode(self._box(peer).encrypt(inner)).decode()
        return json.dumps({"by": self.number, "box": box})

    def open(self, payload: bytes) -> tuple[Peer, dict[str, Any]]:
        """Read what a paired board has sent to this one. Raises ValueError for anything else."""
        try:
            given = json.loads(payload)
            peer = self.peers[given["by"]]
            body = self.verify(peer, self._box(peer).decrypt(base64.b64decode(given["box"], validate=True)))
            if body["to"] == self.number:
                return peer, body
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CryptoError):
            pass
        raise ValueError("it comes from no board that is paired with this one")

    def _box(self, peer: Peer) -> Box:
        return Box(self._key.to_curve25519_private_key(), peer.key.to_curve25519_public_key())


def _bytes_to_sign(text: str) -> bytes:
    return b"picoclaw fleet 1\n" + text.encode()


CODE_MINUTES = 10
_CODE = pattern(r"[A-Z2-7]{16}")
_SAY_INTERVAL_S = 0.5
_GOODBYE_S = 1.5


def make_code() -> str:
    """Make a code as a person types it: ABCD-EFGH-IJKL-MNOP."""
    text = base64.b32encode(secrets.token_bytes(10)).decode()
    return "-".join(text[at : at + 4] for at in range(0, 16, 4))


def parse_code(text: str) -> bytes:
    """Raises ConfigError for what is no code."""
    word = text.upper().replace("-", "").replace(" ", "").replace("0", "O").replace("1", "I").replace("8", "B")
    if not _CODE.fullmatch(word):
        raise ConfigError("this is no pairing code: it has 16 letters and digits, such as ABCD-EFGH-IJKL-MNOP")
    return word.encode()


class _Meeting:
    """One side of it. The steps: the guest says its key, the host answers with its own, the guest says that it has it."""

    def __init__(self, keys: FleetKeys, name: str, code: bytes, *, is_host: bool) -> None:
        self._code, self._is_host, self._number = code, is_host, keys.number
        self._own = {"role": "host" if is_host else "guest", "name": name, "key": keys.public}
        self.topic = f"picoclaw-fleet/pair/{hashlib.sha256(b'topic' + code).hexdigest()[:32]}"
        self.other: Peer | None = None
        self.is_done = False

    def say(self) -> str:
        """What this side has to say now, '' for nothing yet."""
        if self._is_host and not self.other:
            return ""
        text = json.dumps({**self._own, "met": self.other.number if self.other else ""})
        return json.dumps({"text": text, "check": self._checksum(text)})

    def hear(self, payload: bytes | bytearray) -> None:
        """Take what the other side says; anything else is ignored."""
        try:
            given = json.loads(payload)
            text = given["text"]
            if not hmac.compare_digest(self._checksum(text), given["check"]):
                return
            body: dict[str, Any] = json.loads(text)
            if body["role"] == self._own["role"]:
                return
            other = make_peer(body["name"], body["key"])
            is_done = body["met"] == self._number
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        if self.other and self.other.number != other.number:
            return  # a third board was given the same code: the first one counts
        self.other = other
        self.is_done = self.is_done or is_done

    def _checksum(self, text: str) -> str:
        return hmac.new(self._code, text.encode(), hashlib.sha256).hexdigest()


def pair(config: MqttConfig, password: str, keys: FleetKeys, code: str, seconds: float, *, is_host: bool) -> Peer:
    """Meet the board at which the same code is used, and keep its key. Raises ConfigError."""
    meeting = _Meeting(keys, config.base.removeprefix("picoclaw/"), parse_code(code), is_host=is_host)
    refused: list[str] = []

    def begin(client: paho.Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if code.is_failure:
            refused.append(explain_refusal(config, code))
        client.subscribe(meeting.topic)

    try:
        client = make_client(config, password, "", MQTTProtocolVersion.MQTTv311)
        client.on_connect = begin
        client.on_message = lambda _client, _data, message: meeting.hear(message.payload)
        client.connect(*config.address, config.keep_alive_seconds)
        end, said_at, was_done = time.monotonic() + seconds, 0.0, False
        while (now := time.monotonic()) < end and client.loop(0.1) == paho.MQTT_ERR_SUCCESS:
            if meeting.is_done and not was_done:  # the host has nothing to wait for; the guest says that it has the key
                end, said_at, was_done = now + (0.2 if is_host else _GOODBYE_S), 0.0, True
            if now - said_at >= _SAY_INTERVAL_S and (words := meeting.say()):
                said_at = now
                client.publish(meeting.topic, words)
        client.disconnect()
    except PEER_ERRORS as error:
        raise ConfigError(f"{config.host}: {explain_failure(error)}") from None
    if refused:
        raise ConfigError(f"{config.host}: {refused[0]}")
    if not meeting.other or not meeting.is_done:
        raise ConfigError("no other board came: type the code there within ten minutes, with the same broker")
    keys.add(meeting.other)
    return meeting.other
