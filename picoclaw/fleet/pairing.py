"""How two boards learn each other's keys: one shows a code of 80 bits, a person types it on the other within ten minutes.

The keys travel over the broker with a checksum (HMAC-SHA256) that takes the code. Nobody can guess 80 bits in ten minutes,
nor later: a code that was used or is too old is worth nothing.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTProtocolVersion

from picoclaw.config.tables import MqttConfig
from picoclaw.errors import ConfigError
from picoclaw.fleet.keys import FleetKeys, Peer, make_peer
from picoclaw.mqtt.connection import PEER_ERRORS, explain_failure, explain_refusal, make_client
from picoclaw.text import pattern

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
