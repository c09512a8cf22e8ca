"""What the page shows and does, from the parts of a running picoclaw; see channels/dashboard/live.py."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import cached_property, partial
from socket import gethostname
from typing import TYPE_CHECKING

from picoclaw.automation import rules
from picoclaw.automation.clock import ClockWatch, boottime, read_boot_id
from picoclaw.channels.channel import describe_outcome
from picoclaw.channels.dashboard.live import (
    ChatEntry,
    Figure,
    ListRow,
    OutputState,
    OutputStates,
    PageQuestion,
    Point,
    SensorValue,
    make_question,
)
from picoclaw.config import Config
from picoclaw.daemon import status_text
from picoclaw.daemon.status import StatusDict, name_troubles
from picoclaw.errors import ConfigError, HardwareError, StoreError
from picoclaw.hw import kernel, loader
from picoclaw.hw.reading import Reading, format_reading
from picoclaw.markdown import blank_comments
from picoclaw.memory import notes
from picoclaw.memory.files import MemoryFiles
from picoclaw.memory.memory import MemoryIndex, list_past_turns
from picoclaw.messages import split_context
from picoclaw.outputs import config
from picoclaw.outputs.client import OutputsClient
from picoclaw.outputs.stop import stop_outputs
from picoclaw.records import replace
from picoclaw.security.audit import AuditLog
from picoclaw.store import database
from picoclaw.store.approvals import Approvals
from picoclaw.store.conversations import History, find_agent
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox
from picoclaw.store.jobs import Job, Jobs
from picoclaw.store.samples import Samples, Series
from picoclaw.store.sessions import Sessions
from picoclaw.times import find_zone, parse_zone
from picoclaw.tools import cron, sensors
from picoclaw.wiring import Wiring
from picoclaw.workspace import find_outputs_file, read_fields

if TYPE_CHECKING:
    from picoclaw.maintenance.household import Household, TableForm

DASHBOARD_USER = "owner on the page"
_READINGS_MAX_AGE_S = 5.0
_FAILURES_PERIOD_S = 86_400.0
_MAX_ERRORS = 20
_MAX_ENDED, _ENDED_PERIOD_S = 5, 3600.0


_FIGURES = {
    "memory_mb": ("memory_bytes", "the memory of the daemon", 1e6),
    "files": ("open_files", "the open files of the daemon", 1.0),
    "threads": ("threads", "the threads of the daemon", 1.0),
    "disk_free_mb": ("disk_free_bytes", "the room on the disk", 1e6),
    "outbox": ("messages_to_deliver", "messages that wait for their delivery", 1.0),
    "inbox": ("messages_to_answer", "messages that wait for their answer", 1.0),
    "jobs": ("jobs", "reminders and jobs", 1.0),
    "since": ("start_time_seconds", "when the daemon began", 1.0),
}


class DaemonBackend:
    """The board, the outputs and the stores, with connections of its own: the server's threads come in at any time.

    `zone` is the owner's, `mark` what is said with simulated values, and `status()` how the daemon is. `list_tools()` names
    the board's tools.
    """

    def __init__(
        self,
        config: Config,
        wiring: Wiring,
        zone: Callable[[], tzinfo | None],
        mark: str,
        status: Callable[[], StatusDict],
        list_tools: Callable[[], Collection[str]] = tuple,
        root: "DaemonBackend | None" = None,
    ) -> None:
        """`root` is the owner's, in the view that another person of the household has of it."""
        self.name, self.mark = gethostname(), mark
        self._config, self._wiring, self._zone, self._status = config, wiring, zone, status
        self._list_tools = list_tools
        self._root, self._views = root, dict[str, DaemonBackend]()
        self.lock: threading.Lock = root.lock if root else threading.Lock()
        self._bus = threading.Lock()
        self._readings: list[SensorValue] = []
        self._read_at = -_READINGS_MAX_AGE_S

    def view(self, person: str) -> "DaemonBackend":
        with self.lock:
            if person not in self._views:
                config, zone = replace(self._config, person=person), partial(self._find_zone, person)
                self._views[person] = DaemonBackend(config, self._wiring, zone, self.mark, self._status, root=self)
            return self._views[person]

    def _find_zone(self, person: str) -> tzinfo | None:
        """The time zone of a person: that of config.toml, what they have told, the owner's."""
        from picoclaw.agents import agent_id
        from picoclaw.store.people import ContextFiles

        if zone := self._config.people[person].time_zone:
            return parse_zone(zone)
        with self.lock:
            page = ContextFiles(self.state).read(agent_id(self._config.default_agent), person, "USER.md")
        return find_zone(read_fields(page or ""))[0] or self._zone()

    @property
    def zone(self) -> str:
        return str(self._zone() or "")

    def readings(self) -> list[SensorValue]:
        """See DashboardBackend.readings; while one thread measures, the others take what was measured before."""
        if self._root:
            return self._root.readings()
        if not self._bus.acquire(blocking=not self._readings):
            return self._readings
        try:
            if time.monotonic() - self._read_at > _READINGS_MAX_AGE_S:
                self._readings = [_make_value(reading) for reading in self._measure()]
                self._read_at = time.monotonic()
            return self._readings
        finally:
            self._bus.release()

    def _measure(self) -> Iterator[Reading]:
        wiring = self._wiring
        try:
            found = loader.list_sensors(wiring.board, dict(wiring.wired))
        except ConfigError as error:
            raise HardwareError(str(error)) from None
        for sensor in found:
            yield from loader.read_sensor(wiring.board, wiring.drivers, sensor)

    def history(self, sensor: str, quantity: str, begin: float, end: float, most: int) -> list[Point]:
        with self.lock:
            spans = self._samples.spans(Series(sensor, quantity), begin, end, sensors.choose_step(end - begin, most))
        return [(span.at, span.low, span.total / span.good, span.high) for span in spans if span.good]

    def outputs(self) -> OutputStates:
        if self._wiring.outputs is None:
            return OutputStates()
        answer = self._wiring.outputs.list()
        declared = config.load_outputs(find_outputs_file(self._config.home)).outputs
        rows = tuple(
            OutputState(
                row["name"],
                row["kind"],
                row["place"],
                config.format_level(row["level"]),
                row["left"] is not None,
                row["left"],
                row["armed"],
                "could not be brought to its safe level" if row["unsafe"] else row["fault"],
                *((one.longest_on_s, one.graded, "rule" in one.who) if (one := declared.get(row["name"])) else ()),
            )
            for row in answer["outputs"]
        )
        return OutputStates(rows, answer["stopped"], tuple(answer["problems"]))

    def stop(self) -> str:
        return stop_outputs(self._config.home, lambda: "sim" if self._wiring.board.simulated else "linux", self._user)

    def off(self, name: str) -> str:
        return self._get_outputs().off(name, self._user)

    @property
    def _user(self) -> str:
        """Who switches something here, for the outputs' records."""
        return f"{self._config.person} on the page" if self._config.person else DASHBOARD_USER

    def resume(self) -> str:
        return self._get_outputs().resume("owner")  # a person who is logged in; the supervisor asks for that word

    def _get_outputs(self) -> OutputsClient:
        if self._wiring.outputs is None:
            raise ConfigError("outputs.toml declares no output")
        return self._wiring.outputs

    def jobs(self) -> list[ListRow]:
        rows, now, command = [], self._now(), "" if self._config.person else "/job"
        for job in self._list_jobs():
            number, _, rest = cron.format_row(job, now).partition(": ")  # what it says, and then when
            rows.append(ListRow(f"{number}.", rest, not job.last_error, command=command, paused=not job.enabled))
        return rows

    def rules(self) -> list[ListRow]:
        if self._config.person:
            return []
        found = rules.load_rules(self._config.home, self._now(), str(self._zone() or ""))
        rows = [
            ListRow(
                name, rules.explain_rule(one).removeprefix(f"{name}: "), command="/rule", paused=not one.written.enabled
            )
            for name, one in found.rules.items()
        ]
        return rows + [ListRow(name or "rules.toml", text, good=False) for name, text in found.problems.items()]

    def agents(self, session: str) -> list[ListRow]:
        if not self._config.agents:
            return []
        from picoclaw.agents import list_agents

        with self.lock:
            here = find_agent(self.state, session) or self._config.default_agent
        is_guest = self._is_guest  # who is nobody by name to an agent
        rows = [
            (key, what)
            for key, what in list_agents(replace(self._config, person="") if is_guest else self._config).items()
            if not is_guest or key not in self._config.agents or self._config.agents[key].is_open_to("")
        ]
        return [ListRow(key, what, command="" if key == here else f"/agent {key}") for key, what in rows]

    @property
    def _is_guest(self) -> bool:
        return bool(self._config.person) and self._config.people[self._config.person].role == "guest"

    def errors(self) -> list[ListRow]:
        if self._config.person:
            return []
        log = (line for line in self._status().get("log", []) if line["trouble"])
        found = [ListRow("log", line["text"], good=False, at=line["at"]) for line in log]
        failed = (job for job in self._list_jobs() if job.last_error)
        found += (ListRow(f"job {job.number}", job.last_error, good=False, at=job.last_run) for job in failed)
        now = time.time()
        with self.lock:
            names = {series.sensor for series in self._samples.known()} | {value.sensor for value in self._readings}
            troubles = [one for name in names for one in self._samples.troubles(name, now - _FAILURES_PERIOD_S, now)]
        for trouble in troubles:
            often = f" ({trouble.times} times)" if trouble.times > 1 else ""
            found.append(ListRow(trouble.sensor, f"{trouble.problem}{often}", good=False, at=trouble.ended))
        return sorted(found, key=lambda row: -row.at)[:_MAX_ERRORS]

    def facts(self) -> list[ListRow]:
        """See DashboardBackend.facts; outputs, plans and the log have parts of the page of their own."""
        apart: StatusDict = {"next_jobs": [], "output_lines": [], "log": []}
        if self._config.person:
            board = kernel.check_health(self._wiring.board, self._now(), str(self._config.home))
            return [ListRow(row.name, row.detail, row.status != "bad") for row in board]
        told = (line.partition(": ") for line in status_text.format_status(self._status() | apart, time.time()))
        rows = [ListRow(name, text, good=name != "NOT OK") for name, _, text in told if text]
        known = {row.name for row in rows}
        board = kernel.check_health(self._wiring.board, self._now(), str(self._config.home))
        return rows + [ListRow(row.name, row.detail, row.status != "bad") for row in board if row.name not in known]

    def said(self, session: str, most: int) -> list[ChatEntry]:
        with self.lock:
            sessions = Sessions(self.state)
            number = next((info.number for info in sessions.listed(session) if not info.ended), None)
            every = sessions.transcript(number) if number is not None else ()
            shown = (one for one in every if one.role in {"user", "assistant"} and one.text and not one.undone)
            last = deque(shown, maxlen=most)
            waiting = [ChatEntry("user", text, at) for text, at in Inbox(self.state).open_texts(session)]
        kept = []
        for row in last:
            at = 0.0
            with suppress(ValueError):
                at = datetime.fromisoformat(row.at).timestamp()
            kept.append(ChatEntry(row.role, split_context(row.text)[1] if row.role == "user" else row.text, at))
        return [*kept, *waiting][-most:]

    def outcomes(self, most: int) -> list[ChatEntry]:
        if self._config.person:  # who is told in words what became of a call of theirs
            return []
        with self.lock:
            ended = Approvals(self.state).ended(most)
        return [ChatEntry("outcome", f"{one.shortly}\n{describe_outcome(one)}", one.at) for one in reversed(ended)]

    def questions(self) -> list[PageQuestion]:
        if self._config.person:
            return []
        with self.lock:
            approvals, since = Approvals(self.state), time.time() - _ENDED_PERIOD_S
            asked = approvals.questions(_MAX_ENDED)
            return [make_question(one) for one in asked if one.at > since or one.state == "waiting"]

    def notes(self, words: str) -> list[ListRow]:
        """See DashboardBackend.notes; by words alone, so that no second model is in memory."""
        now = self._now()
        with self.lock:
            is_there = bool(words.strip()) and self._config.folder.is_dir()
            hits = self._memory.search(words, now) if is_there else []
        return [ListRow(hit.path, hit.snippet) for hit in hits if notes.parse_entry_place(hit.path)]

    def note(self, path: str) -> str:
        place = notes.parse_entry_place(path)
        found = MemoryFiles(self._config.workspace).read(place[0]) if place else None
        if found is None:
            raise StoreError(f"there is no note {path!r} any more")
        return blank_comments(found.text)

    def list_household(self) -> list["TableForm"]:
        with self.lock:
            return self._open_household().list_forms()

    def change_household(self, kind: str, act: str, key: str, values: Mapping[str, str], who: str) -> list[str]:
        with self.lock:
            lines = self._open_household().change(kind, act, key, values, who, self._now())
        AuditLog(self._config.home).mention("settings", on="page", who=who, kind=kind, change=act, name=key)
        return lines

    def _open_household(self) -> "Household":
        from picoclaw.maintenance.household import Household
        from picoclaw.skills import SkillLibrary, list_home_tiers

        library = SkillLibrary(list_home_tiers(self._config.home))
        library.refresh()
        return Household(self.state, library, self._list_tools)

    def figures(self) -> list[Figure]:
        status = self._status()
        found = [Figure("ok", "1 while everything that has to run does", {}, float(status["ok"]))]
        for key, (name, purpose, factor) in _FIGURES.items():
            if isinstance(value := status.get(key), int | float):
                found.append(Figure(name, purpose, {}, value * factor))
        for name, one in status.get("channels", {}).items():
            found.append(Figure("channel_up", "1 while the channel is connected", {"channel": name}, float(one["up"])))
        for row in status["outputs"]["outputs"]:
            label = {"output": row["name"]}
            found.append(Figure("output_level_percent", "the level of an output", label, row["level"]))
            found.append(Figure("output_left_seconds", "until it goes safe by itself", label, row["left"] or 0.0))
        return found

    def knows_date(self) -> bool:
        wall, mono = time.time(), boottime()
        self._clock.note(wall, mono)
        return self._clock.trusted(wall, mono)

    def find_message(self, key: str, externals: list[str]) -> int:
        with self.lock:
            return Inbox(self.state).find(key, externals)

    def begin_conversation(self, key: str) -> None:
        with self.lock:
            Sessions(self.state).begin_new(key, self._now())

    def troubles(self) -> list[str]:
        return name_troubles(self._status()["problems"])

    def close(self) -> None:
        with self.lock:
            for view in self._views.values():
                if memory := view.__dict__.pop("_memory", None):
                    memory.close()
            for name in ("_memory", "history_file", "state"):
                if database := self.__dict__.pop(name, None):
                    database.close()

    def _now(self) -> datetime:
        return datetime.now().astimezone(self._zone())

    def _list_jobs(self) -> list[Job]:
        with self.lock:
            jobs = Jobs(self.state).all()
            if not (person := self._config.person):
                return jobs
            from picoclaw.store.people import People

            people = People(self._config.people, self.state)
            return [job for job in jobs if people.find(job.who) == person]

    @cached_property
    def _clock(self) -> ClockWatch:
        from picoclaw.outputs.supervisor.sensing import read_trusted_time

        board, home = self._wiring.board, self._config.home
        return ClockWatch(lambda: read_trusted_time(board, home) is not None, read_boot_id())

    @cached_property
    def state(self) -> Database:
        return self._root.state if self._root else Database(self._config.home / "state.db")

    @cached_property
    def history_file(self) -> Database:
        if self._root:
            return self._root.history_file
        return Database(self._config.home / database.HISTORY_FILE, database.HISTORY_MIGRATIONS)

    @cached_property
    def _memory(self) -> MemoryIndex:
        config = self._config
        past = (lambda: list_past_turns(History(self.state))) if config.memory.messages and not config.person else tuple
        place = config.folder, config.workspace
        return MemoryIndex(*place, lambda: None, past, config.memory.min_score, config.shared_folder)

    @property
    def _samples(self) -> Samples:
        return Samples(self.history_file)


def _make_value(reading: Reading) -> SensorValue:
    text = "" if reading.value is None else format_reading(reading).removeprefix(reading.label).strip()
    known = reading.sensor, reading.label, reading.unit, reading.value, text
    return SensorValue(*known, reading.problem, reading.doubt or reading.note, reading.at)
