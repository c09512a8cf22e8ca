"""Boards at one broker that were paired with each other: their keys, what a board tells, does and asks.

Imported only where [mqtt] has fleet = true. Ed25519 signatures and X25519 boxes of libsodium (RFC 8032, RFC 7748): nobody
else can write a message. The key pair of a board and the boards that it was paired with are kept in `fleet.json` of the home.

Two boards are paired by a code of 80 bits, which one shows and a person types on the other within ten minutes. The keys
travel over the broker with a checksum (HMAC-SHA256) that takes the code. Nobody can guess 80 bits in ten minutes, nor
later: a code that was used or is too old is worth nothing.

No clock is trusted. A board gives out tickets, random numbers that are worth something for ten minutes; a request carries
one of the board that is asked, and a number of its own, which is taken once. A message that was recorded is refused by
both. Presence counts the starts of the board, so that an older one is known as such.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from nacl.exceptions import CryptoError
from nacl.public import Box
from nacl.signing import SigningKey, VerifyKey
from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTProtocolVersion

from picoclaw.config.tables import MqttConfig
from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error, lock_folder, write_atomic
from picoclaw.mqtt.connection import PEER_ERRORS, Heard, MqttConnection, explain_failure, explain_refusal, make_client
from picoclaw.records import NamedTuple, dataclass
from picoclaw.text import escape_unprintable, pattern
from picoclaw.times import format_duration

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


PREFIX = "picoclaw-fleet"
_NOT_GRANTED = "it takes no questions of this board until somebody types there: picoclaw fleet grant {name} 20"
_BUSY = "it has too much to do now; try again in a second"
PRESENCE_INTERVAL_S = 300.0
_EXPIRY_S = 10
_MAX_REQUESTS_A_SECOND = 20
_MAX_TAKEN = 5000
_MAX_LISTED = 40
_MAX_ANSWER, _MAX_QUESTION = 2000, 1000
ASK_TIMEOUT_S = 90.0


class FleetHost(Protocol):
    """What the board does for others; `describe_board` gives sensors, outputs, health, version."""

    def describe_board(self) -> dict[str, Any]: ...

    def stop_outputs(self, who: str) -> str: ...

    def read_for(self, who: str, sensor: str) -> str: ...

    def post_question(self, peer: Peer, number: str, text: str) -> None: ...

    def put(self, task: Callable[[], None]) -> bool: ...


class Presence(NamedTuple):
    """What a board has last said of itself; `at` is in seconds of time.monotonic."""

    order: tuple[int, int]
    ticket: str
    board: dict[str, Any]
    at: float
    is_kept: bool


@dataclass(eq=False)
class Question:
    """What was asked of a board, and its answer, after so many seconds."""

    peer: Peer
    number: str
    body: dict[str, Any]
    began: float
    ended: threading.Event
    good: bool = False
    text: str = ""
    seconds: float = 0.0
    is_repeated: bool = False


class Fleet:
    """The other boards, as the daemon knows them."""

    def __init__(
        self,
        keys: FleetKeys,
        config: MqttConfig,
        connection: MqttConnection,
        host: FleetHost,
        note: Callable[..., None],
    ) -> None:
        self._keys, self._connection, self._host, self._note = keys, connection, host, note
        self._name = config.base.removeprefix("picoclaw/")
        self._presences: dict[str, Presence] = {}
        self._questions: dict[str, Question] = {}
        self._tickets = [_make_number(), _make_number()]
        self._taken: set[str] = set()
        self._second, self._said_at, self._number = 0, 0.0, 0
        self._counts: dict[str, int] = {}
        self._noted: set[str] = set()
        self._asked_at: dict[str, list[float]] = {}
        try:
            keys.count_start()
        except ConfigError as error:  # a full disk keeps nobody from stopping this board
            note(f"fleet: this start cannot be noted, so others may show older news of this board: {error}")

    @property
    def topics(self) -> list[str]:
        """What is to be listened to: nothing of boards that were not paired."""
        own = [self._topic(self._keys.number, "ask"), self._topic(self._keys.number, "answer")]
        return own + [self._topic(number, "presence") for number in list(self._keys.peers)]

    @staticmethod
    def _topic(number: str, what: str) -> str:
        return f"{PREFIX}/{number}/{what}"

    def reload(self) -> None:
        """Read which boards are paired, as after a pairing. Raises ConfigError."""
        self._keys.load()
        self._connection.subscribe(self.topics)
        self.say_presence()

    def say_presence(self, every_s: float = 0.0) -> None:
        """Publish what this board is, if that was not done for so long; tickets are replaced at that."""
        now = time.monotonic()
        if self._said_at and now - self._said_at < every_s:
            return
        if now - self._said_at >= PRESENCE_INTERVAL_S:
            self._tickets = [_make_number(), self._tickets[0]]
        self._said_at, self._number = now, self._number + 1
        body = {
            "starts": self._keys.starts,
            "number": self._number,
            "ticket": self._tickets[0],
            "board": {**self._host.describe_board(), "name": self._name},
        }
        topic = self._topic(self._keys.number, "presence")
        self._connection.publish(topic, self._keys.sign(body), retain=True)

    # --- what is heard, in the connection's thread ---

    def hear(self, heard: Heard) -> None:
        _, number, what = f"{heard.topic}//".split("/")[:3]
        try:
            if what == "presence":
                self._hear_presence(number, heard)
            elif heard.retained:
                self._note_once("a request that the broker had kept is ignored")
            elif what == "ask":
                self._hear_request(heard)
            elif what == "answer":
                self._hear_answer(heard)
        except ValueError as error:
            self._note_once(f"a message at {heard.topic} is ignored: {error}")

    def _hear_presence(self, number: str, heard: Heard) -> None:
        if (peer := self._keys.peers.get(number)) is None:
            return
        body = self._keys.verify(peer, heard.payload)
        try:
            order = int(body["starts"]), int(body["number"])
            ticket, board = str(body["ticket"]), dict(body["board"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError("it is no presence") from None
        before = self._presences.get(number)
        if before is None or order > before.order:
            self._presences[number] = Presence(order, ticket, _clean_board(board), time.monotonic(), heard.retained)

    def _hear_request(self, heard: Heard) -> None:
        peer, body = self._keys.open(heard.payload)
        number, ticket, do = (str(body.get(key, "")) for key in ("number", "ticket", "do"))
        if heard.reply_to != self._topic(peer.number, "answer") or heard.correlation != number.encode():
            raise ValueError("its response topic or correlation data are not what the board has written")
        if number in self._taken:
            return
        if (second := int(time.monotonic())) != self._second:
            self._second, self._counts = second, {}
        self._counts[peer.number] = self._counts.get(peer.number, 0) + 1
        if self._counts[peer.number] > _MAX_REQUESTS_A_SECOND and do != "stop":
            return
        if ticket not in self._tickets:
            self._answer(peer, number, ticket=self._tickets[0])
            return
        if len(self._taken) >= _MAX_TAKEN:  # what was taken is refused by its ticket from now on
            self._taken.clear()
            self._tickets = [_make_number(), _make_number()]
        self._taken.add(number)
        if do == "stop":
            self._answer(peer, number, text=self._host.stop_outputs(peer.name))
        elif do == "ping":
            self._answer(peer, number, text="here")
        elif do == "read":
            sensor = clean_text(str(body.get("what", "")), 100)
            if not self._host.put(lambda: self._read(peer, number, sensor)):
                self._answer(peer, number, error=_BUSY)
        elif do == "ask":
            self._hear_question(peer, number, str(body.get("what", "")))
        else:
            self._answer(peer, number, error="it does not understand the request; it may have another version")

    def _hear_question(self, peer: Peer, number: str, text: str) -> None:
        """Hand a question to the agent here, as far as its owner has granted that; `answer_question` gives the answer."""
        granted, now = self._keys.peers.get(peer.number, peer).asks, time.monotonic()
        asked = [at for at in self._asked_at.get(peer.number, ()) if now - at < 3600]
        text = clean_text(text, _MAX_QUESTION)
        if not granted:
            self._answer(peer, number, error=_NOT_GRANTED.format(name=peer.name))
        elif len(asked) >= granted:
            self._answer(peer, number, error=f"it takes {granted} questions an hour of this board, and no more now")
        elif not text:
            self._answer(peer, number, error="there is no question")
        elif self._host.put(lambda: self._host.post_question(peer, number, text)):
            self._asked_at[peer.number] = [*asked, now]
        else:
            self._answer(peer, number, error=_BUSY)

    def answer_question(self, peer: str, number: str, text: str) -> None:
        """Give the agent's answer to the board that has asked, which may have given up waiting."""
        if found := self._keys.peers.get(peer):
            self._answer(found, number, text=text[:_MAX_ANSWER])

    def _read(self, peer: Peer, number: str, sensor: str) -> None:
        try:
            self._answer(peer, number, text=self._host.read_for(peer.name, sensor))
        except ConfigError as error:
            self._answer(peer, number, error=str(error))

    def _answer(self, peer: Peer, number: str, **body: str) -> None:
        payload, topic = self._keys.seal(peer, {"number": number, **body}), self._topic(peer.number, "answer")
        self._connection.publish_request(topic, payload, _EXPIRY_S, number.encode())

    def _hear_answer(self, heard: Heard) -> None:
        peer, body = self._keys.open(heard.payload)
        question = self._questions.get(str(body.get("number", "")))
        if question is None or question.peer.number != peer.number or question.ended.is_set():
            return  # too late, or once more
        if "ticket" in body:
            if not question.is_repeated:
                question.is_repeated = True
                self._send(question, str(body["ticket"]))
            return
        question.good = "text" in body
        question.text = escape_unprintable(str(body.get("text") or body.get("error") or "")[:_MAX_ANSWER])
        question.seconds = time.monotonic() - question.began
        question.ended.set()

    def _note_once(self, text: str) -> None:
        if text not in self._noted and len(self._noted) < 100:
            self._noted.add(text)
            self._note(f"fleet: {text}")

    # --- what is asked, in any thread ---

    def ask(self, peers: Iterable[Peer], do: str, what: str, seconds: float) -> list[Question]:
        """Ask boards at the same time, and wait so long for their answers; `good` is false where none came."""
        questions = []
        for peer in peers:
            number = _make_number()
            body = {"do": do, "what": what, "number": number}
            question = Question(peer, number, body, time.monotonic(), threading.Event())
            self._questions[number] = question
            questions.append(question)
            presence = self._presences.get(peer.number)
            if not self._send(question, presence.ticket if presence else ""):
                question.text = "it was not asked, because the board here is not connected to a broker with MQTT 5"
                question.ended.set()
        end = time.monotonic() + seconds
        for question in questions:
            if not question.ended.wait(max(0.0, end - time.monotonic())):
                question.text = "it did not answer"
                question.ended.set()
            self._questions.pop(question.number, None)
        return questions

    def _send(self, question: Question, ticket: str) -> bool:
        number, topic = question.number, self._topic(question.peer.number, "ask")
        payload = self._keys.seal(question.peer, {**question.body, "ticket": ticket})
        reply_to = self._topic(self._keys.number, "answer")
        return self._connection.publish_request(topic, payload, _EXPIRY_S, number.encode(), reply_to)

    def describe(self) -> list[dict[str, Any]]:
        """List the boards with what they have said of themselves, and whether they answer now."""
        peers = sorted(self._keys.peers.values(), key=lambda peer: (peer.name.lower(), peer.number))
        rows = []
        for one in self.ask(peers, "ping", "", 1.0):
            peer = one.peer
            row: dict[str, Any] = {"name": peer.name, "number": peer.number, "asks": peer.asks}
            if presence := self._presences.get(peer.number):
                since = format_duration(time.monotonic() - presence.at)
                heard = f"said {since} ago" if not presence.is_kept else "as the broker has kept it"
                row |= {**presence.board, "name": peer.name, "heard": heard}
            rows.append(row | {"answers": one.good, "problem": "" if one.good else one.text})
        return rows

    def _find_source(self, asked: str, what: str) -> tuple[Peer, str]:
        """Find the board that is called so or that has a sensor called so; returns it and what it is asked for.

        Raises ConfigError.
        """
        try:
            return self._keys.find(asked), what
        except ConfigError:
            wanted, found = _fold(asked), []
            for peer in self._keys.peers.values():
                presence = self._presences.get(peer.number)
                sensors = [one.partition(":")[0] for one in presence.board.get("sensors", ())] if presence else []
                found += [(peer, f"{one} {what}".strip()) for one in sensors if _fold(one) == wanted]
                name = _fold(peer.name)
                if f"{wanted} ".startswith(f"{name} "):
                    found.append((peer, f"{wanted.removeprefix(name)} {what}".strip()))
            if len(found) > 1:
                names = ", ".join(sorted({peer.name for peer, _ in found}))
                raise ConfigError(f"several boards have {asked!r}: {names}; say which") from None
            if not found:
                raise
            return found[0]

    def run(self, words: dict[str, Any]) -> dict[str, Any]:
        """Do what a command or a tool of this board asks for; waits for the answers of the others."""
        act = words.get("act")
        try:
            if act == "list":
                return {"boards": self.describe()}
            if act == "read":
                peer, what = self._find_source(str(words.get("board", "")), str(words.get("what", "")))
                (one,) = self.ask([peer], "read", what, 5.0)
                lines = [row if row.startswith("[") else f"{peer.name} {row}" for row in one.text.splitlines()]
                return {"ok": one.good, "text": "\n".join(lines) if one.good else f"{peer.name}: {one.text}"}
            if act == "ask":
                peer = self._keys.find(str(words.get("board", "")))
                (one,) = self.ask([peer], "ask", str(words.get("what", ""))[:_MAX_QUESTION], ASK_TIMEOUT_S)
                return {"ok": one.good, "text": one.text if one.good else f"{peer.name}: {one.text}"}
            if act == "stop":
                told = self.ask(list(self._keys.peers.values()), "stop", "", 2.0)
                rows = [
                    {
                        "name": one.peer.name,
                        "number": one.peer.number,
                        "ok": one.good,
                        "text": one.text,
                        "s": one.seconds,
                    }
                    for one in told
                ]
                return {"boards": rows}
            if act == "reload":
                self.reload()
                return {"ok": True}
        except ConfigError as error:
            return {"error": str(error)}
        return {"error": f"{act!r} is not understood; it may be another version's"}


def _fold(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").replace("_", " ").split())


def _make_number() -> str:
    return os.urandom(16).hex()


def _clean_board(board: dict[str, Any]) -> dict[str, Any]:
    """Take of what a board says of itself what there is place for."""
    lists = {key: board.get(key) for key in ("sensors", "outputs", "health")}
    cleaned: dict[str, Any] = {
        key: [clean_text(one, 200) for one in given[:_MAX_LISTED] if isinstance(one, str)]
        for key, given in lists.items()
        if isinstance(given, list)
    }
    return cleaned | {key: clean_text(str(board.get(key, ""))) for key in ("name", "version")}
