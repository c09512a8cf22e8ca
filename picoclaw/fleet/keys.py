"""The key pair of a board, the boards that it was paired with, and messages that nobody else can write.

Ed25519 signatures and X25519 boxes of libsodium (RFC 8032, RFC 7748). All is kept in `fleet.json` of the home.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.public import Box
from nacl.signing import SigningKey, VerifyKey

from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error, lock_folder, write_atomic
from picoclaw.records import NamedTuple
from picoclaw.text import escape_unprintable

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
