"""The channel "mqtt": sensors and orders that the daemon hears from the broker, values and alarms that it publishes there.

paho is imported where [mqtt] is set.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from picoclaw import __version__
from picoclaw.app import App
from picoclaw.channels.channel import ChannelStatus, PostMessage
from picoclaw.daemon.status import get_outputs_status
from picoclaw.errors import ChannelDown, ConfigError, PicoclawError
from picoclaw.hw import kernel
from picoclaw.hw.reading import Reading
from picoclaw.messages import ERROR_PREFIX, Caller, ToolCall, Turn, TurnHooks
from picoclaw.outputs.config import OutputConfig, load_armed, load_outputs, parse_level
from picoclaw.outputs.supervisor import STOP_FILE
from picoclaw.records import replace
from picoclaw.store.inbox_outbox import InboxMessage
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from picoclaw.fleet import Fleet, Peer
    from picoclaw.mqtt.connection import Heard, MqttConnection
    from picoclaw.store.approvals import Approval
    from picoclaw.store.inbox_outbox import OutboxMessage

MISSING_PAHO = 'paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"'
_OUTPUTS_INTERVAL_S, _HEALTH_INTERVAL_S = 10.0, 300.0
_ORDER_INTERVAL_S, _MAX_ORDERS_A_MINUTE = 1.0, 30
_SETTLE_S = 0.05
"""Seconds in which further orders may follow the first: Home Assistant says ON, and then the speed of a fan."""
_STOP_INTERVAL_S, _GREETING_INTERVAL_S, _RESTORE_INTERVAL_S = 1.0, 5.0, 10.0
_ALARM_CHAT, _QUESTION_CHAT, _BOARD_CHAT = "mqtt:alarms", "mqtt:questions", "mqtt:board-"
_ALARM_TIMEOUT_S = 5.0
_MAX_WAITING = 16
PRESENCE_INTERVAL_S = 300.0
_MAX_READINGS = 200
_MAX_NOTES_AN_HOUR = 30
_LIMITS = ("shortest_off_s", "duty_s_per_hour", "toggles_per_hour", "hours", "excludes", "needs")
Task = Callable[[], None]


class MqttChannel:
    """What the daemon has to do with the broker; without paho it only says so. See Channel."""

    name = "mqtt"

    def __init__(
        self,
        app: App,
        note: Callable[..., None],
        status: Callable[[], Mapping[str, Any]],
        waits: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        """`status` is the daemon's; see MqttConnection for `waits`."""
        self._app, self._note, self._status, self._since = app, note, status, time.time()
        self._connection: MqttConnection | None = None
        self._fleet: Fleet | None = None
        self._noted: list[str] = []
        self._note_times: list[float] = []
        try:
            from picoclaw.mqtt import connection, discovery
        except ImportError:
            note(f"mqtt: {MISSING_PAHO}")
            return
        config = app.config.mqtt
        self._ha, self._names = discovery, discovery.Names(config.base, config.discovery)
        self._sensors = discovery.MqttSensors(app.config.sensors, self._note_some)
        self._connection = connection.MqttConnection(
            config, app.config.mqtt_password, self._hear, note, self._list_topics, self._begin_connection, waits
        )
        self._tasks: Queue[Task | None] = Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="mqtt work", daemon=True)
        if config.fleet:
            self._fleet = self._make_fleet(self._connection)
        self._readings: dict[tuple[str, str], Reading] = {}
        self._announced, self._health_at, self._wait = "", 0.0, _OUTPUTS_INTERVAL_S
        self._own: App | None = None
        self._orders: dict[str, str] = {}
        self._obeyed: dict[str, float] = {}
        self._moments: list[float] = []
        self._maybe_sent: set[int] = set()
        self._post: PostMessage = discard_message
        self._questions: list[float] = []
        self._stopped_at = self._greeted_at = -1e9
        self._reminder, self._restored_at = "", -1e9
        self._former: Mapping[str, str] = {}
        self._is_damaged = self._is_overwritten = False
        self._jobs_mark: list[int] = []
        self._declared: tuple[tuple[int, ...], Mapping[str, OutputConfig]] = (), {}
        self._whys: dict[str, str] = {}
        self._dues: dict[str, float] = {}

    def _make_fleet(self, connection: MqttConnection) -> Fleet | None:
        from picoclaw.mqtt import MISSING_NACL

        try:
            from picoclaw.fleet import Fleet, FleetKeys
        except ImportError:
            self._note(f"fleet: {MISSING_NACL}")
            return None
        try:
            return Fleet(FleetKeys(self._app.config.home), self._app.config.mqtt, connection, self, self._note_some)
        except ConfigError as error:
            self._note(f"fleet: {error}")
            return None

    def start(self, post: PostMessage) -> None:
        self._post = post
        if self._connection:
            self._connection.start()
            self._thread.start()

    def stop(self) -> None:
        if self._connection:
            self._put(None)
            if self._thread.is_alive():
                self._thread.join(1)
            self._connection.stop()

    def send(self, message: OutboxMessage) -> None:
        """Publish an alarm; it is published once also where the connection is lost meanwhile."""
        if self._connection is None:
            raise ChannelDown(MISSING_PAHO)
        if message.session != _ALARM_CHAT:  # an answer that comes late; another board has given up waiting
            if message.session == _QUESTION_CHAT and not self._publish_answer("", message.text):
                raise ChannelDown("there is no connection")
            return
        number, is_repeat = message.number, bool(message.begun) or message.number in self._maybe_sent
        text = self._ha.make_alarm(message.text, message.at, number, again=is_repeat)
        fate = self._connection.publish_once(self._names.alarm, text, number, _ALARM_TIMEOUT_S)
        if fate == "lost":
            self._maybe_sent.add(number)
        if fate != "arrived":
            raise ChannelDown(f"the broker does not take it now: {fate}", unsure=fate in {"under way", "lost"})
        self._maybe_sent.discard(number)

    def around(self, arrived: InboxMessage) -> TurnHooks:  # noqa: ARG002
        return TurnHooks()

    def changed(self, approval: Approval) -> None:
        """See Channel; nobody is asked there."""

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:  # noqa: ARG002
        """Publish the answer to a question, or give it to the board that has asked."""
        if arrived.key == _QUESTION_CHAT:
            return self._publish_answer(arrived.text, reply)
        if self._fleet and arrived.key.startswith(_BOARD_CHAT):
            self._fleet.answer_question(arrived.key.removeprefix(_BOARD_CHAT), arrived.external, reply)
        return True

    def owner_chat(self) -> str:
        """See Channel; alarms are events there."""
        return _ALARM_CHAT if self._connection and self._names.prefix else ""

    def status(self) -> ChannelStatus:
        if self._connection is None:
            return ChannelStatus(False, self._since, MISSING_PAHO)
        return self._connection.status()

    def describe(self) -> dict[str, Any]:
        """Say what a process that is not connected may ask: the values of the sensors."""
        if self._connection is None:
            return {"error": MISSING_PAHO}
        return {"sensors": self._sensors.describe(self._connection.flooded_at)}

    def _list_topics(self) -> list[str]:
        own = [f"{self._names.prefix}/status", self._names.stop, f"{self._names.output('+')}/set"]
        own += [self._names.ask] if self._app.config.mqtt.questions_an_hour else []
        fleet = self._fleet.topics if self._fleet else []
        return [*self._sensors.topics, *(own if self._names.prefix else []), *fleet]

    def _hear(self, heard: Heard) -> None:
        self._try(partial(self._sort_message, heard))

    def _sort_message(self, heard: Heard) -> None:
        names = self._names
        if names.prefix and heard.topic == f"{names.prefix}/status":
            now = time.monotonic()
            if heard.payload == b"online" and now - self._greeted_at >= _GREETING_INTERVAL_S:
                self._greeted_at = now  # Home Assistant has started, and knows no value
                self._publish_all()
        elif names.prefix and heard.topic == names.discovery:
            self._hear_discovery(heard)
        elif names.prefix and heard.topic == names.ask:
            self._hear_question(heard)
        elif names.prefix and heard.topic.startswith((names.stop, names.output(""))):
            self._hear_order(heard)
        elif self._fleet and heard.topic.startswith("picoclaw-fleet/"):
            self._fleet.hear(heard)
        else:
            self._sensors.hear(heard)

    # --- orders ---

    def _hear_order(self, heard: Heard) -> None:
        """Take an order; one that the broker had kept is from another day, and is not obeyed."""
        if heard.retained:
            self._note_once(f"an order at {heard.topic} is ignored: the broker had kept it (publish it without retain)")
        elif heard.topic == self._names.stop:
            if heard.payload.strip().lower() == b"stop" and (done := self._stop()):
                self._note(f"mqtt: STOP: {done[1]}", trouble=not done[0])
        elif heard.topic.endswith("/set"):
            name = heard.topic.removeprefix(self._names.output("")).removesuffix("/set")
            output = self._load_outputs().get(name)
            if output is None or "mqtt" not in output.who:
                self._note_once("an order is ignored: only outputs with mqtt = true in outputs.toml take orders")
                return
            try:
                self._orders[name] = self._ha.parse_order(heard.payload)
            except ValueError as error:
                self._note_once(f"an order for {name} is ignored: {error}")
            self._put(_do_nothing)

    def _stop(self) -> tuple[bool, str] | None:
        """Stop the outputs; None where there are none, and for a storm of stops, which would fill log and audit."""
        now, home = time.monotonic(), self._app.config.home
        if now - self._stopped_at < _STOP_INTERVAL_S and (home / STOP_FILE).exists():
            return None
        done = self._app.wiring.obey_stop_order("stop", "mqtt")
        if done:
            self._stopped_at = time.monotonic()
            self._put(self._publish_state)
        return done

    def _obey_orders(self) -> None:
        """Obey what was ordered last of each output, a second after its last order at the earliest."""
        for name in list(self._orders):
            now = time.monotonic()
            if now - self._obeyed.get(name, -_ORDER_INTERVAL_S) >= _ORDER_INTERVAL_S:
                self._obeyed[name] = now
                self._obey(name, self._orders.pop(name), now)

    def _obey(self, name: str, level: str, now: float) -> None:
        """Switch an output by the tool that a model uses, so that guard, limits and audit are the same."""
        output = self._load_outputs().get(name)
        goes_off = output is not None and parse_level(level) == output.safe_level
        if not goes_off:
            self._moments = [at for at in self._moments if now - at < 60]
            if len(self._moments) >= _MAX_ORDERS_A_MINUTE:
                self._note_once(f"more than {_MAX_ORDERS_A_MINUTE} orders a minute arrive; the others are ignored")
                return
            self._moments.append(now)
        arguments = {"action": "off", "name": name} if goes_off else {"action": "set", "name": name, "level": level}
        caller = Caller("mqtt", "mqtt", self._app.now(), lambda _: None)
        good, text = self._own_app.toolset.run(ToolCall("mqtt", "output", arguments), caller)
        self._own_app.stores.settle("mqtt")
        self._whys[name] = text
        if not good:
            self._note_once(text)
        elif goes_off:
            self._dues.pop(name, None)

    @property
    def _own_app(self) -> App:
        """Tools of this thread's own; they ask no other board, so that no question goes in circles."""
        if self._own is None:
            config = replace(self._app.config, mqtt=replace(self._app.config.mqtt, fleet=False))
            self._own = App(config, self._app.board, changed=self._app.changed)
        return self._own

    # --- questions ---

    def _hear_question(self, heard: Heard) -> None:
        """Put a question to the agent, as somebody who may only ask."""
        if heard.retained or not (text := self._ha.parse_question(heard.payload)):
            return
        now, most = time.monotonic(), self._app.config.mqtt.questions_an_hour
        self._questions = [at for at in self._questions if now - at < 3600]
        if len(self._questions) >= most:
            self._publish_answer(text, f"{most} questions an hour are answered here, and no more now.")
        else:
            self._questions.append(now)
            self._put(partial(self._post, InboxMessage(_QUESTION_CHAT, text, "mqtt", "remote")))

    def post_question(self, peer: Peer, number: str, text: str) -> None:
        """Put the question of another board to the agent here; the same number again is not asked again."""
        self._post(InboxMessage(f"{_BOARD_CHAT}{peer.number}", text, f"board:{peer.name}", "remote", number))

    def _publish_answer(self, question: str, answer: str) -> bool:
        made = json.dumps({"question": question, "answer": answer}, ensure_ascii=False)
        return self._connection is not None and self._connection.publish(self._names.answer, made)

    # --- what is done for other boards ---

    def run_fleet(self, words: dict[str, Any]) -> dict[str, Any]:
        """Ask other boards; waits for their answers."""
        return self._fleet.run(words) if self._fleet else {"error": "no fleet: write fleet = true under [mqtt]"}

    def describe_board(self) -> dict[str, Any]:
        """Say what the boards that were paired with this one are told of it."""
        sensors = [f"{name}: {', '.join(what)}" for name, what in self._app.wiring.measured().items()]
        trouble = [str(row) for row in self._status().get("problems", [])]
        return {"version": __version__, "sensors": sensors, "outputs": list(self._load_outputs()), "health": trouble}

    def stop_outputs(self, who: str) -> str:
        """Stop, in the thread of the connection: nothing else that is to be done comes before it."""
        if done := self._stop():
            self._note(f"fleet: STOP of {who}: {done[1]}", trouble=not done[0])
            return done[1]
        return "it has no outputs" if self._app.wiring.outputs is None else "everything is stopped already"

    def read_for(self, who: str, sensor: str) -> str:
        """Measure for another board, by the tool that a model uses. Raises ConfigError for what is no reading."""
        caller = Caller("mqtt", "mqtt", self._app.now(), lambda _: None, who=f"board:{who}")
        good, text = self._own_app.toolset.run(ToolCall("fleet", "sensor_read", {"sensor": sensor}), caller)
        self._own_app.stores.settle("mqtt")
        if not good:
            raise ConfigError(text.removeprefix(ERROR_PREFIX))
        return f"{text}\n{self._app.mark}".strip()

    def put(self, task: Task) -> bool:
        """Have something done in the thread for that; tells whether there is place for it."""
        if self._tasks.full():
            return False
        self._put(task)
        return True

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted = [*self._noted[-20:], text]
            self._note_some(f"mqtt: {text}")

    def _note_some(self, text: str, **how: bool) -> None:
        """Log what others make us say, but no more of it than so much: each line is a write to the card."""
        now = time.monotonic()
        self._note_times = [at for at in self._note_times if now - at < 3600]
        if len(self._note_times) < _MAX_NOTES_AN_HOUR:
            self._note_times.append(now)
            self._note(text, **how)
            if len(self._note_times) == _MAX_NOTES_AN_HOUR:
                self._note(
                    f"mqtt: what else is wrong with messages is not said: {_MAX_NOTES_AN_HOUR} lines an hour are"
                )

    def _explain_ends(self, rows: list[dict[str, Any]]) -> float:
        """Keep why outputs are as they are; returns the seconds until the first goes off by itself."""
        now = time.monotonic()
        for row in rows:
            name, left = row["name"], row["left"]
            if left is not None:
                self._dues[name] = now + left
            elif (due := self._dues.pop(name, None)) is not None:
                self._whys[name] = "its time was up" if now >= due - 1 else "it was switched off"
        return min((row["left"] for row in rows if row["left"] is not None), default=_OUTPUTS_INTERVAL_S)

    # --- what is published ---

    def note_readings(self, readings: list[Reading]) -> list[Reading]:
        """Publish what has been measured, but for what others have published; gives the readings back."""
        if self._connection and self._names.prefix:
            others = {name for name, one in self._app.config.sensors.items() if one.mqtt}
            own = {(one.sensor, one.label): one for one in readings if one.sensor not in others}
            self._readings = dict(list((self._readings | own).items())[:_MAX_READINGS])
            self._put(self._publish_readings)
        return readings

    def _begin_connection(self) -> None:
        if self._connection and self._names.prefix:
            self._connection.watch(self._names.discovery)
        self._publish_all()

    def _publish_all(self) -> None:
        """Publish everything anew, in the thread for that."""
        if self._names.prefix:
            self._announced, self._health_at, self._reminder = "", 0.0, ""
            self._put(self._publish_readings)
            self._put(self._publish_reminder)
        if self._fleet:
            self._put(self._fleet.say_presence)

    def _publish_readings(self) -> None:
        self._announce(self._list_outputs())
        self._publish(self._ha.make_values(self._names, self._readings.values(), time.time()))

    def _hear_discovery(self, heard: Heard) -> None:
        """Learn what an earlier start has announced, which the broker has kept; what comes later is somebody else's."""
        if heard.retained:
            self._former = self._ha.parse_platforms(heard.payload)
            self._put(self._publish_readings)
        else:
            self._note_once("somebody else announces this board to Home Assistant; it is announced again")
            self._is_overwritten = True
            self._put(self._restore)

    def _restore(self) -> None:
        """Announce the board again where somebody else has done so, but not without end."""
        now = time.monotonic()
        if self._is_overwritten and now - self._restored_at >= _RESTORE_INTERVAL_S:
            self._is_overwritten, self._restored_at, self._announced = False, now, ""
            self._publish_readings()

    def _announce(self, rows: list[dict[str, Any]]) -> None:
        """Tell Home Assistant what there is, when that is something new."""
        config, model = self._app.config, kernel.read_model(self._app.board)
        expire_s = round(3 * config.history.every_seconds + 60)
        asks = config.mqtt.questions_an_hour > 0
        readings = self._readings.values()
        former = {} if self._is_damaged else self._former  # what cannot be read is not gone
        text = self._ha.make_discovery(
            self._names, model, readings, rows, expire_s, takes_questions=asks, former=former
        )
        if text != self._announced and self._connection:
            self._connection.publish(self._names.discovery, text, retain=True, qos=1)
            self._announced = text
            self._former = {**self._former, **self._ha.parse_platforms(text.encode())}

    def note_jobs(self) -> None:
        """Hear that reminders may have changed, in any thread; wakes no other as long as nothing was written."""
        if self._connection and self._names.prefix:
            files = [self._app.config.home / name for name in ("state.db", "state.db-wal")]
            mark = [file.stat().st_mtime_ns for file in files if file.exists()]
            if mark != self._jobs_mark:
                self._jobs_mark = mark
                self._put(self._publish_reminder)

    def _publish_reminder(self) -> None:
        """Publish when the next reminder comes, if that is news."""
        found = self._status().get("next_reminder") or {}
        text = self._ha.make_reminder(found, with_text=self._app.config.mqtt.reminder_texts)
        if text != self._reminder and self._connection and self._connection.publish(self._names.reminder, text):
            self._reminder = text

    def _publish(self, payloads: Mapping[str, str]) -> None:
        for topic, payload in payloads.items():
            if self._connection:
                self._connection.publish(topic, payload)

    def _list_outputs(self) -> list[dict[str, Any]]:
        """List the declared outputs as they are; no supervisor is started for that."""
        home, declared = self._app.config.home, self._load_outputs()
        if not declared:
            return []
        running, armed = {row["name"]: row for row in get_outputs_status(home)["outputs"]}, load_armed(home)
        return [
            {
                "name": name,
                "level": running.get(name, {}).get("level", output.safe_level),
                "left": running.get(name, {}).get("left"),
                "armed": armed.get(name) == output.digest,
                "graded": output.graded and output.part != "pcf8574",  # which can only be on or off
                "longest_s": output.longest_on_s,
                "limits": {key: value for key in _LIMITS if (value := getattr(output, key))},
                "kind": output.kind,
                "takes_orders": "mqtt" in output.who,
            }
            for name, output in declared.items()
        ]

    def _load_outputs(self) -> Mapping[str, OutputConfig]:
        """Read outputs.toml, if it has changed: orders come by the hundred, and reading it takes milliseconds."""
        file = find_outputs_file(self._app.config.home)
        try:
            found = file.stat()
        except FileNotFoundError:
            return {}
        mark = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
        if mark != self._declared[0]:
            read = load_outputs(file)
            self._declared, self._is_damaged = (mark, read.outputs), bool(read.problems)
        return self._declared[1]

    def _publish_state(self) -> None:
        """Publish how outputs and board are, as often as that is due."""
        if not self._names.prefix or not self.status().up:
            return
        self._wait = self._explain_ends(rows := self._list_outputs())
        self._publish(self._ha.make_output_states(self._names, rows, self._whys))
        if time.monotonic() - self._health_at >= _HEALTH_INTERVAL_S or not self._health_at:
            self._publish(self._ha.make_health(self._names, self._status()))
            self._health_at = time.monotonic()

    # --- its thread ---

    def _put(self, task: Task | None) -> None:
        """Have something done in the thread for that; when too much waits, it is left."""
        try:
            self._tasks.put_nowait(task)
        except Full:
            if task is None:
                self._tasks.get_nowait()
                self._tasks.put_nowait(None)

    def _try(self, task: Task) -> None:
        """Do something, and say why it failed: a full disk, a file that cannot be read. The thread goes on."""
        try:
            task()
        except (PicoclawError, OSError) as error:
            self._note_once(str(error))

    def _work(self) -> None:
        try:
            while True:
                wait = min(self._wait + 0.2, _OUTPUTS_INTERVAL_S) if self._load_outputs() else _HEALTH_INTERVAL_S
                try:
                    task = self._tasks.get(timeout=_ORDER_INTERVAL_S if self._orders else wait)
                except Empty:
                    task = _do_nothing
                if task is None:
                    return
                self._try(task)
                if self._orders:
                    time.sleep(_SETTLE_S)
                self._try(self._obey_orders)
                self._try(self._publish_state)
                self._try(self._restore)
                if self._fleet and self.status().up:
                    self._try(partial(self._fleet.say_presence, PRESENCE_INTERVAL_S))
        finally:
            if self._own:
                self._own.wiring.abandon()
                self._own.close_own()


def discard_message(_: InboxMessage) -> None:
    """Nobody answers before `start`."""


def _do_nothing() -> None:
    """Only the state is published."""
