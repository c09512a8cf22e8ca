"""One connection to a broker, in one thread: it connects again by itself, and says once what is wrong.

Sources: MQTT 5.0 (OASIS, 2019) and MQTT 3.1.1 (OASIS, 2014).
"""

import random
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from paho.mqtt import MQTTException
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from picoclaw.channels.channel import ChannelStatus
from picoclaw.config.tables import MqttConfig
from picoclaw.files import explain_os_error
from picoclaw.records import NamedTuple, dataclass, field

MAX_PAYLOAD_BYTES = 65_536
MOST_A_SECOND = 500
"""Messages that are taken in a second; the rest waits at the broker, which drops what is too much."""
_MAX_PACKET_BYTES = MAX_PAYLOAD_BYTES + 70_000  # a topic takes up to 65,535 of them
_PIECE_BYTES = 16_384
_FLOODS_TO_RENEW = 5
"""Seconds of a flood after which the connection is made anew: what has gathered would take minutes, and is old."""
_SESSION_EXPIRY_S = 7 * 86_400
_MAX_WAITING = 100
_MANY_LOSSES = 3
_MAX_ENDED = 1000
_NOT_NOW = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
_UNSUPPORTED_VERSION, _SESSION_TAKEN_OVER, _UNKNOWN_NUMBER = 0x84, 0x8E, 0x92
PEER_ERRORS = (OSError, ValueError, LookupError, struct.error, MQTTException)
"""What paho raises for a server that is not there, or sends what is no MQTT."""


class Heard(NamedTuple):
    """A message that has arrived; one that is too long comes without its payload.

    `reply_to` and `correlation` are MQTT 5's response topic and correlation data.
    """

    topic: str
    payload: bytes
    retained: bool
    too_long: bool
    reply_to: str = ""
    correlation: bytes = b""


Fate = Literal["not tried", "under way", "arrived", "refused", "lost"]
"""What has become of a message; "lost" is one that the broker had received before it forgot everything."""


@dataclass(eq=False)
class _Sent:
    """A message that is published once, by its number in paho."""

    mid: int
    ended: threading.Event = field(default_factory=threading.Event)
    fate: Fate = "under way"

    def end(self, fate: Fate) -> None:
        self.fate = fate
        self.ended.set()


class _Client(paho.Client):
    """Knows what the broker has of a message with QoS 2, where paho 2.2 does not."""

    def _messages_reconnect_reset_out(self) -> None:
        """Keep that it was received, also over two connections that fail one after the other."""
        begun = [one for one in self._out_messages.values() if one.state == MessageState.MQTT_MS_RESEND_PUBREL]
        super()._messages_reconnect_reset_out()
        for one in begun:
            one.state = MessageState.MQTT_MS_RESEND_PUBREL

    def _sock_recv(self, bufsize: int) -> bytes:
        """Take a piece: paho would ask for all of a packet, and Python set that much memory aside."""
        return super()._sock_recv(min(bufsize, _PIECE_BYTES))

    def _packet_read(self) -> MQTTErrorCode:
        """Keep the beginning only of a packet that is too long: MQTT 3.1.1 knows no limit, and who does may not keep it."""
        code = super()._packet_read()
        del self._in_packet["packet"][_MAX_PACKET_BYTES:]
        return code

    def _handle_pubrec(self) -> MQTTErrorCode:
        """End a message that the broker has refused (MQTT 5, 3.5.2.1), instead of taking it for received."""
        packet = self._in_packet["packet"]
        if self._protocol != MQTTProtocolVersion.MQTTv5 or len(packet) < 3 or packet[2] < 0x80:
            return super()._handle_pubrec()
        (number,) = struct.unpack("!H", packet[:2])
        why = ReasonCode(PacketTypes.PUBREC, identifier=packet[2])
        nothing = Properties(PacketTypes.PUBREC)  # type: ignore[no-untyped-call]
        with self._out_message_mutex:
            is_ours = number in self._out_messages
            return self._do_on_publish(number, why, nothing) if is_ours else MQTTErrorCode.MQTT_ERR_SUCCESS

    def _packet_queue(self, *given: Any) -> MQTTErrorCode:
        """Queue also at the moment when the connection's thread closes the sockets that would wake it."""
        try:
            return super()._packet_queue(*given)
        except (OSError, AttributeError):
            return MQTTErrorCode.MQTT_ERR_NO_CONN

    def close(self) -> None:
        """Close its sockets, which paho leaves to the garbage collector."""
        self._reset_sockets()

    def forget_received(self) -> set[int]:
        """Drop messages that a broker had received which knows nothing of that any more; returns their numbers."""
        with self._out_message_mutex:
            gone = {
                number for number, one in self._out_messages.items() if one.state == MessageState.MQTT_MS_RESEND_PUBREL
            }
            for number in gone:
                del self._out_messages[number]
        return gone


def make_client(config: MqttConfig, password: str, client_id: str, protocol: MQTTProtocolVersion) -> _Client:
    """Make a client that has yet to connect, with a session that is kept if it has a name. Raises OSError."""
    client = _Client(
        CallbackAPIVersion.VERSION2,
        client_id,
        clean_session=None if protocol == MQTTProtocolVersion.MQTTv5 else not client_id,
        protocol=protocol,
        reconnect_on_failure=False,
    )
    for file in filter(None, (config.ca, config.cert, config.key)):
        Path(file).open("rb").close()  # an error that names the file, which those of ssl do not
    if config.tls:
        client.tls_set(config.ca or None, config.cert or None, config.key or None)
    if config.user:
        client.username_pw_set(config.user, password or None)
    return client


def explain_refusal(config: MqttConfig, code: Any) -> str:
    """Say why a broker does not let us in."""
    who = f"the user {config.user!r}" if config.user else "a client without a user"
    return f"it refuses {who}: {str(code).lower()}"


def listen(
    config: MqttConfig,
    password: str,
    seconds: float,
    topics: Iterable[str] = (),
    hear: Callable[[Heard], None] = lambda _: None,
) -> str:
    """Listen for so long as a client without a name, or without topics see whether it is let in.

    Returns what is wrong, '' for nothing.
    """
    said: list[str] = []
    wanted = [(topic, 0) for topic in topics]

    def begin(client: paho.Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        said.append(explain_refusal(config, code) if code.is_failure else "")
        if wanted:
            client.subscribe(wanted)

    end = time.monotonic() + seconds
    try:
        client = make_client(config, password, "", MQTTProtocolVersion.MQTTv311)
        client.on_connect = begin
        client.on_message = lambda _client, _data, message: hear(_read_message(message))
        client.connect(*config.address, config.keep_alive_seconds)
        while time.monotonic() < end and (wanted or not said) and client.loop(0.1) == paho.MQTT_ERR_SUCCESS:
            pass
        client.disconnect()
    except PEER_ERRORS as error:
        return explain_failure(error)
    return said[0] if said else "it gives no answer"


def _read_message(message: paho.MQTTMessage) -> Heard:
    too_long = len(message.payload) > MAX_PAYLOAD_BYTES
    payload, more = b"" if too_long else bytes(message.payload), message.properties
    reply_to, correlation = getattr(more, "ResponseTopic", ""), getattr(more, "CorrelationData", b"")
    return Heard(message.topic, payload, message.retain, too_long, reply_to, correlation)


def explain_failure(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        clock = f"; the clock here says {time.strftime('%Y-%m-%d')}" if error.verify_code in _NOT_NOW else ""
        return f"its certificate is not trusted: {error.verify_message}{clock}"
    if isinstance(error, ssl.SSLError):
        return f"no encrypted connection: {error.reason or error}"
    if isinstance(error, OSError):
        return f"{error.filename}: {explain_os_error(error)}" if error.filename else explain_os_error(error)
    return f"what it sends is no MQTT: {error}"


class MqttConnection:
    """Messages of the topics that were asked for, and what is to be published.

    What is published with QoS 0 is dropped while there is no connection; with more it waits, up to a limit.
    """

    def __init__(
        self,
        config: MqttConfig,
        password: str,
        hear: Callable[[Heard], None],
        note: Callable[..., None],
        topics: Callable[[], Iterable[str]] = tuple,
        connected: Callable[[], None] = lambda: None,
        waits: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        """`hear` and `connected` are called in the connection's thread and raise nothing; `note` writes a line of the log, as DaemonStatus.note.

        `topics` are those to listen to; `waits` are seconds before another try, at first and at most.
        """
        self._config, self._password, self._hear, self._note = config, password, hear, note
        self._topics, self._connected, self._waits = topics, connected, waits
        self.status_topic = f"{config.base}/status"
        self._client: _Client | None = None
        self._protocol = MQTTProtocolVersion.MQTTv5
        self._sending: dict[int, _Sent] = {}
        self._ended_last: dict[int, Fate] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._up, self._since, self._contact = False, time.time(), 0.0
        self._error, self._told, self._refusal = "not connected yet", "", ""
        self._count, self._second, self._losses = 0, 0.0, 0
        self._is_refused = self._is_renewed = self._has_session = False
        self._asked: dict[int, list[str]] = {}
        self._unheard: list[str] = []
        self._floods = 0
        self.flooded_at: float | None = None
        """When more came than is taken, in seconds of time.monotonic."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Say goodbye, and end within seconds; may be called twice."""
        if not self._ended.is_set():
            if self._up:
                self.publish(self.status_topic, "offline", retain=True)
            self._ended.set()
            if self._client:
                self._client.disconnect()
        if self._thread.is_alive():
            self._thread.join(2)

    def status(self) -> ChannelStatus:
        """How the connection is; never waits."""
        error = "" if self._up else self._error
        if not self._thread.is_alive() and not self._ended.is_set() and self._thread.ident:
            error = "its thread has ended"
        return ChannelStatus(not error, self._since, error, self._contact)

    def publish(self, topic: str, payload: str | bytes, *, retain: bool = False, qos: int = 0) -> bool:
        """Hand over a message, from any thread; tells whether it is on its way or kept for the next connection."""
        if self._client is None or not (self._up or qos):
            return False
        code = self._client.publish(topic, payload, qos, retain).rc
        return code == paho.MQTT_ERR_SUCCESS or (qos > 0 and code == paho.MQTT_ERR_NO_CONN)

    def publish_request(self, topic: str, payload: str, seconds: int, correlation: bytes, reply_to: str = "") -> bool:
        """Hand over a request, or the answer to one, that nobody wants after so many seconds; never kept for later."""
        if self._client is None or not self._up or self._protocol != MQTTProtocolVersion.MQTTv5:
            return False
        how = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        how.MessageExpiryInterval, how.CorrelationData = seconds, correlation
        if reply_to:
            how.ResponseTopic = reply_to
        return self._client.publish(topic, payload, properties=how).rc == paho.MQTT_ERR_SUCCESS

    def publish_once(self, topic: str, payload: str, number: int, seconds: float) -> Fate:
        """Publish with QoS 2, and wait so long until the broker has it; the same number again only waits.

        What is "under way" is so over the next connection of this process as well. Called by one thread.
        """
        sent = self._sending.get(number)
        if sent is None:
            if self._client is None or not self._up:
                return "not tried"
            sent = self._sending[number] = _Sent(self._client.publish(topic, payload, 2).mid)
            if fate := self._ended_last.get(sent.mid):  # the broker was faster than we
                sent.end(fate)
        if not sent.ended.wait(seconds):
            return "under way"
        del self._sending[number]
        return sent.fate

    def subscribe(self, topics: Iterable[str]) -> None:
        """Listen to further topics, until the connection is lost."""
        if self._client and (wanted := list(topics)):
            _, number = self._client.subscribe([(topic, 0) for topic in wanted])
            if number is not None:
                self._asked[number] = wanted

    def watch(self, topic: str) -> None:
        """Listen to what others publish at a topic of this board's own, and to what was kept there before; MQTT 5 only."""
        if self._client and self._protocol == MQTTProtocolVersion.MQTTv5:
            once = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
            self._client.subscribe(topic, options=SubscribeOptions(noLocal=True, retainHandling=once))

    def _make_client(self) -> _Client:
        client = make_client(self._config, self._password, self._config.base.replace("/", "-"), self._protocol)
        client.will_set(self.status_topic, "offline", 1, retain=True)
        client.max_queued_messages_set(_MAX_WAITING)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_message, client.on_publish = self._on_message, self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_socket_register_write = lambda *_: None  # so that none but the connection's thread writes
        return client

    def _connect(self) -> _Client:
        if self._client is None:
            self._client = self._make_client()
        options: dict[str, Any] = {}
        if self._protocol == MQTTProtocolVersion.MQTTv5:
            wanted = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            wanted.SessionExpiryInterval, wanted.MaximumPacketSize = _SESSION_EXPIRY_S, _MAX_PACKET_BYTES
            # What another process has subscribed to is nothing to us, and what it has sent it alone could take up.
            options = {"clean_start": not self._has_session, "properties": wanted}
        self._client.connect(*self._config.address, self._config.keep_alive_seconds, **options)
        return self._client

    def _run(self) -> None:
        try:
            self._stay_connected()
        finally:
            if self._client:
                self._client.close()

    def _stay_connected(self) -> None:
        first, most = self._waits
        wait = first
        while not self._ended.is_set():
            before, self._refusal, began = self._protocol, "", time.monotonic()
            try:
                client = self._connect()
                if self._ended.is_set():  # meanwhile
                    client.disconnect()
                while client.loop(self._config.keep_alive_seconds / 4) == paho.MQTT_ERR_SUCCESS:
                    self._slow_down()
                self._losses += self._up
                lost = "the connection was lost" if self._losses < _MANY_LOSSES else self._same_name
                error = self._refusal or lost
            except PEER_ERRORS as failure:
                self._losses += self._up
                is_said = self._up and self._losses >= _MANY_LOSSES
                error = self._same_name if is_said else explain_failure(failure)
            if self._protocol != before or self._is_renewed:
                self._is_renewed = False
                continue
            self._set_down(error)
            if time.monotonic() - began > most:
                wait, self._losses = first, 0
            self._ended.wait(wait * random.uniform(0.5, 1.0))  # noqa: S311 - so that many boards do not come at once
            wait = min(wait * 2, most)

    @property
    def _same_name(self) -> str:
        named = f"another one may connect as {self._config.base}: give each board a name of its own"
        return f"the connection is lost again and again; {named}"

    def _slow_down(self) -> None:
        """Take no more than so many messages a second."""
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._count = now, 0
        elif self._count >= MOST_A_SECOND:
            if self.flooded_at is None:
                self._note(f"mqtt: more than {MOST_A_SECOND} messages a second arrive; it takes no more than that")
            self._floods = self._floods + 1 if self._second - (self.flooded_at or 0) < 2 else 1
            self.flooded_at = now
            self._ended.wait(self._second + 1 - now)
            if self._floods >= _FLOODS_TO_RENEW and self._client:
                self._floods, self._is_renewed = 0, True
                self._client.disconnect()

    def _set_down(self, error: str) -> None:
        self._error = "it has ended" if self._ended.is_set() else error
        if self._up:
            self._up, self._since = False, time.time()
        if self._error != self._told and not self._ended.is_set():
            self._told = error
            self._note(f"mqtt: {self._config.host}: {error}")

    def _on_connect(self, client: Any, _data: Any, flags: Any, code: Any, _properties: Any) -> None:
        if code.value == _UNSUPPORTED_VERSION and self._protocol == MQTTProtocolVersion.MQTTv5:
            self._protocol, self._client = MQTTProtocolVersion.MQTTv311, None
        elif code.is_failure:
            self._refusal = explain_refusal(self._config, code)
        else:
            if self._losses < _MANY_LOSSES:
                if self._told:
                    self._note(f"mqtt: {self._config.host}: connected again", trouble=False)
                self._told = ""
            self._up, self._since, self._error, self._is_refused = True, time.time(), "", False
            self._has_session = True
            for mid in set() if flags.session_present else client.forget_received():
                self._end_message(mid, "lost")
            client.publish(self.status_topic, "online", 1, retain=True)
            self._asked.clear()  # what the broker had not confirmed when the connection was lost
            self.subscribe(self._topics())  # also where the broker says that it has kept the session
            self._connected()

    def _on_disconnect(self, _client: paho.Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if code.value == _SESSION_TAKEN_OVER:
            self._refusal = self._same_name

    def _on_subscribe(self, _client: paho.Client, _data: Any, mid: int, codes: Any, _properties: Any) -> None:
        topics = self._asked.pop(mid, [])
        refused = [topic for topic, code in zip(topics, codes, strict=False) if code.is_failure]
        if refused and refused != self._unheard:
            self._note(f"mqtt: {self._config.host}: it does not let this board listen to {', '.join(refused[:5])}")
        self._unheard = refused or self._unheard

    def _on_publish(self, _client: paho.Client, _data: Any, mid: int, code: Any, _properties: Any) -> None:
        is_refused = code.is_failure and code.value != _UNKNOWN_NUMBER  # which is said of what was ended before
        if is_refused and not self._is_refused:
            self._note(f"mqtt: {self._config.host}: it refuses what is published: {str(code).lower()}")
        self._is_refused = self._is_refused or is_refused
        self._end_message(mid, "refused" if is_refused else "arrived")

    def _end_message(self, mid: int, fate: Fate) -> None:
        """Tell what has become of a message; without a lock: paho holds one of its own, which `publish` waits for."""
        self._ended_last.pop(mid, None)
        self._ended_last[mid] = fate
        while len(self._ended_last) > _MAX_ENDED:
            self._ended_last.pop(next(iter(self._ended_last)))
        for sent in list(self._sending.values()):
            if sent.mid == mid:
                sent.end(fate)

    def _on_message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        self._contact = time.time()
        self._count += 1
        self._hear(_read_message(message))
