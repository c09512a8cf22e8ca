"""Sampling and following rules: with a simulated board, a real database and a real supervisor of outputs."""

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from timing import until

from picoclaw.app import App
from picoclaw.automation.clock import ClockWatch, boottime, read_boot_id
from picoclaw.automation.jobs import JobContext, decide_job
from picoclaw.automation.rule_engine import RuleActions
from picoclaw.automation.sampler import Sampler, WorkerThread
from picoclaw.automation.scheduler import SchedulerThread
from picoclaw.config import Config
from picoclaw.daemon.background import BackgroundWorker
from picoclaw.daemon.process import LeaderLock
from picoclaw.daemon.sampling import Watch, make_switch, make_watch, read_followed_sensors
from picoclaw.errors import Denied, StoreError
from picoclaw.hw import loader
from picoclaw.hw.reading import Reading, WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.script import DEFAULT_SCRIPT, SimFault
from picoclaw.outputs import config
from picoclaw.store import database
from picoclaw.store.database import Database
from picoclaw.store.jobs import Jobs
from picoclaw.store.samples import ClockReading, RuleLog, Samples, Series
from picoclaw.wiring import Wiring

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
WARM, WET = Series("greenhouse", "temperature"), Series("greenhouse", "humidity")
VALVE = '[outputs.valve1]\nline = "GPIO17"\nkind = "valve"\nlongest_on_s = 900\nwho = ["owner", "rule"]\n'


class House:
    """A home with a simulated greenhouse; the test turns the clock."""

    def __init__(self, home, rules="", every=10.0, boot="first", vouched=True, script=DEFAULT_SCRIPT):
        home.mkdir(exist_ok=True)
        self.home, self.mono, self.wall = home, 1000.0, NOON.timestamp()
        if rules:
            (home / "rules.toml").write_text(rules)
        self.slept = 0.0
        self.board = SimBoard(self._clock, script, sleep=self._sleep, state=home / "sim")
        self.wiring = Wiring(Config(home=home), self.board)
        drivers = loader.Drivers(self.board, self.wiring._chip, self._clock, self._sleep, self._clock)
        self.wiring.__dict__["drivers"] = drivers
        self.air = self.board.scenes["greenhouse"].values
        self.air.update(temperature=20.0, humidity=50.0, pressure=1000.0)
        self.told, self.asked = [], []
        self.boot, self.vouched = boot, vouched
        self.every = every
        self.watch = self.open()

    def _clock(self):
        return self.wall + self.slept

    def _sleep(self, seconds):
        self.slept += seconds + 1e-6  # never shorter, as sleep(3) promises, whatever a float of today loses

    def open(self):
        hands = RuleActions(self.told.append, make_switch(self.wiring), self._ask)
        clock = ClockWatch(lambda: self.vouched, self.boot)
        return Watch(
            self.home,
            lambda: read_followed_sensors(self.wiring, lambda: self.watch.engine.wanted),
            hands,
            self.every,
            clock,
            lambda: UTC,
        )

    def _ask(self, text, rule):
        self.asked.append(text)
        return "asked"

    def go(self, seconds=10.0):
        self.mono += seconds
        self.wall += seconds
        return self.watch.step(self.wall, self.mono)

    def run(self, seconds):
        for _ in range(int(seconds / self.every)):
            self.go(self.every)

    def restart(self):
        self.watch.close()
        self.watch = self.open()

    def killed(self):
        """Lose what was not kept, as kill -9 does."""
        database = self.watch.__dict__.pop("database", None)
        if database:
            database.close()
        self.watch._begun = False
        self.restart()  # lets go of the lock, and keeps nothing

    def store(self):
        return Database(self.home / "history.db", database.HISTORY_MIGRATIONS)

    def log(self):
        database = self.store()
        try:
            return RuleLog(database).log(100)
        finally:
            database.close()

    def whole(self, series=WARM):
        database = self.store()
        try:
            return Samples(database).whole(series, 0, 1e11)
        finally:
            database.close()


@pytest.fixture
def house(tmp_path):
    made = []

    def make(rules="", **more):
        made.append(House(tmp_path / "home", rules, **more))
        return made[-1]

    yield make
    for one in made:
        one.watch.close()
        one.wiring.close()


HOT = """
[rules.hot]
when = "greenhouse.temperature > 35 for 30 seconds"
notify = "Too hot"
margin = 1
cooldown = "1 second"
"""


def test_samples_are_kept_once_a_minute_and_all_of_them_at_the_end(house):
    home = house()
    home.go()
    assert home.whole().good == 1
    home.run(50)
    assert home.whole().good == 1
    home.run(10)
    assert home.whole().good == 7
    home.run(20)
    home.watch.close()
    assert (home.whole().good, home.whole(WET).good) == (9, 9)
    assert home.whole().low == pytest.approx(20, abs=0.1)


def test_nothing_to_measure_and_no_rule_is_no_wake_up(house):
    home = house()
    home.watch.measure = list
    assert home.go() is None
    assert home.go() is None
    assert not (home.home / "history.db").exists()


def test_it_sleeps_until_the_next_sample_and_catches_up_without_a_burst(house):
    home = house()
    assert home.go() == 10
    assert home.go(4) == pytest.approx(6)
    assert home.go(6) == 10
    assert home.go(3601) == pytest.approx(9)
    assert home.whole().good == 3


def test_a_sensor_that_fails_leaves_a_gap_with_its_reason(house):
    home = house()
    home.run(60)
    home.board.wiring.faults.append(SimFault("unplugged", "i2c-1/0x76"))
    home.run(60)
    home.board.wiring.faults.clear()
    home.run(120)
    home.watch.close()
    assert [(span.good, span.failed) for span in (home.whole(), home.whole(WET))] == [(18, 6), (18, 6)]
    database = home.store()
    (trouble,) = Samples(database).troubles("greenhouse", 0, 1e11)
    database.close()
    assert (trouble.times, trouble.ended - trouble.began) == (6, 50)
    assert "0x76" in trouble.problem


def test_a_rule_fires_and_says_by_which_reading(house):
    home = house(HOT)
    home.run(60)
    home.air["temperature"] = 36.0
    home.run(30)
    assert home.told == []
    home.run(10)
    assert [text.startswith("Too hot (greenhouse temperature 36") for text in home.told] == [True]
    (record,) = home.log()
    assert (record.rule, record.acts, record.outcome, record.trusted) == ("hot", "tell", "told", True)
    assert record.at == datetime.fromtimestamp(home.wall, UTC)
    home.run(600)
    assert len(home.told) == 1


def test_a_rule_that_has_fired_does_not_fire_again_after_a_kill(house):
    home = house(HOT)
    home.air["temperature"] = 36.0
    home.run(40)
    assert len(home.told) == 1
    home.killed()
    home.run(120)
    assert len(home.told) == 1
    home.air["temperature"] = 20.0
    home.run(60)
    home.killed()
    home.air["temperature"] = 36.0
    home.run(60)
    assert len(home.told) == 2


def test_a_rule_that_was_killed_before_it_told_is_told_at_the_next_start(house):
    home = house(HOT)
    home.air["temperature"] = 36.0
    home.run(10)
    database = home.store()
    now = ClockReading("first", home.mono, NOON)
    RuleLog(database).begin("hot", "greenhouse temperature 36 °C", "tell", now, {})
    database.close()
    home.killed()
    home.run(10)
    assert home.told == [
        "Rule hot fired (greenhouse temperature 36 °C), and picoclaw was stopped in the middle of it: tell"
    ]
    home.restart()
    home.run(10)
    assert len(home.told) == 1


def test_what_was_cut_off_is_told_though_its_rule_is_gone(house):
    home = house(HOT)
    home.run(10)
    database = home.store()
    RuleLog(database).begin("hot", "greenhouse temperature 36 °C", "tell", ClockReading("first", home.mono, NOON), {})
    database.close()
    (home.home / "rules.toml").unlink()
    home.killed()
    home.run(20)
    assert ["picoclaw was stopped in the middle of it" in text for text in home.told] == [True]


def test_rules_that_change_are_followed_at_once_and_a_bad_one_is_told_once(house):
    home = house()
    home.run(20)
    (home.home / "rules.toml").write_text(HOT.replace("for 30 seconds", "") + "[rules.bad]\nwhen = 3 3\n")
    home.air["temperature"] = 36.0
    home.run(60)
    assert len(home.told) == 2
    assert "line 8" in home.told[0]
    assert home.told[1].startswith("Too hot")
    (home.home / "rules.toml").unlink()
    home.air["temperature"] = 20.0
    home.run(60)
    home.air["temperature"] = 36.0
    home.run(60)
    assert len(home.told) == 2


def test_rules_go_on_when_nothing_can_be_written(house):
    home = house(HOT)
    home.watch.__dict__["database"] = Broken()
    home.air["temperature"] = 36.0
    home.run(300)
    assert len([text for text in home.told if text.startswith("Too hot")]) == 1
    assert len(home.told) == len(set(home.told)) <= 4
    assert any("the disk is full" in text for text in home.told)
    del home.watch.__dict__["database"]
    home.watch.sampler._samples = lambda: Samples(home.watch.database)
    home.run(60)
    home.watch.close()
    assert home.whole().good == 36  # what could not be kept was kept later


class Broken:
    """A store on a card that is full."""

    path = Path(__file__)

    def transaction(self, *_):
        raise StoreError("history.db: the disk is full")

    reading = select = select_value = write = transaction

    def close(self):
        pass


def test_only_one_process_watches_a_home_and_the_next_takes_over(house):
    home = house()
    home.go()
    other = home.open()
    assert other.step(home.wall, home.mono) is None
    home.watch.close()
    until(lambda: other.step(home.wall, home.mono) is not None)
    third = home.open()
    assert third.step(home.wall, home.mono) is None
    third.close()  # while it waits for its turn
    other.close()
    home.watch = home.open()
    until(lambda: home.go() is not None)


LEADS = """
import pathlib, sys, time
from picoclaw.daemon.process import LeaderLock
print(LeaderLock(pathlib.Path(sys.argv[1]), print).acquire(), flush=True)
time.sleep(60)
"""


def test_a_process_that_is_killed_is_followed_at_once(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LEADS, tmp_path / "lock"], stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"True\n"
        rung = threading.Event()
        lead = LeaderLock(tmp_path / "lock", rung.set)
        assert not lead.acquire()
        assert not rung.wait(0.2)
        assert not lead.acquire()
        assert [thread.name for thread in threading.enumerate()].count("next to lead") == 1, "it waits once"
        first.kill()
        assert rung.wait(5)
        assert lead.acquire()
        lead.close()


def test_where_no_lock_can_be_made_it_is_watched_all_the_same(house):
    home = house()
    (home.home / "history.lock").mkdir()
    assert home.go() == 10
    home.watch.close()
    assert home.whole().good == 1


WATER = """
[rules.water]
when = "every day at 6:00"
output = "valve1"
lasts = "5 minutes"
instead = "10 minutes if greenhouse.temperature max yesterday > 37"
"""


class Valve:
    """Stands where the request handler's client stands, and remembers what was asked for."""

    def __init__(self):
        self.asked, self.problem = [], ""

    def __call__(self, output, level, seconds):
        self.asked.append((output, level, seconds))
        if self.problem:
            raise Denied(self.problem)
        return f"{output} is {level} for {seconds:g} s"


@pytest.mark.parametrize(("hottest", "seconds"), [(30.0, 300), (38.0, 600)])
def test_every_day_at_six_five_minutes_ten_if_it_was_hotter_yesterday(house, hottest, seconds):
    home = house(WATER, every=600.0)
    valve = Valve()
    home.watch.actions = home.watch.actions._replace(switch=valve)
    home.run(3600)
    home.air["temperature"] = hottest
    home.run(3600)
    home.air["temperature"] = 18.0
    home.run(16 * 3600)
    assert valve.asked == [("valve1", "on", seconds)]
    (record,) = home.log()
    assert record.why == f"it was 06:00; greenhouse temperature max yesterday {hottest:g} °C"
    assert record.outcome == f"valve1 is on for {seconds} s"
    home.run(24 * 3600)
    assert valve.asked[1:] == [("valve1", "on", 300)]


def test_an_output_that_is_refused_is_told_and_written_down(house):
    home = house(WATER, every=600.0)
    valve = Valve()
    valve.problem = "valve1 was refused: rule 'who': rule may not switch valve1"
    home.watch.actions = home.watch.actions._replace(switch=valve)
    home.run(19 * 3600)
    assert len(home.told) == 1
    assert "may not switch valve1" in home.told[0]
    assert home.log()[0].outcome == f"failed: {valve.problem}"


def test_a_missed_watering_is_told_and_not_made_up_for(house):
    home = house(WATER, every=600.0)
    valve = Valve()
    home.watch.actions = home.watch.actions._replace(switch=valve)
    home.run(600)
    home.restart()
    home.watch.actions = home.watch.actions._replace(switch=valve)
    home.go(20 * 3600)
    assert valve.asked == []
    (told,) = home.told
    assert told.startswith("Rule water (it was 06:00, 2 h 10 min ago;")
    assert told.endswith("not done: an output is not switched late")
    home.run(3600)
    assert len(home.told) == 1


def test_the_model_is_asked_by_a_rule_that_says_so(house):
    home = house('[rules.look]\nwhen = "greenhouse.temperature > 35"\nask = "What shall we do?"\n')
    home.air["temperature"] = 36.0
    home.run(60)
    assert [text.splitlines()[0] for text in home.asked] == ["What shall we do?"]
    assert home.log()[0].outcome == "asked"


def test_a_gate_lets_nothing_through_until_it_is_so(house):
    home = house(
        '[rules.x]\nwhen = "greenhouse.temperature > 35"\nnotify = "x"\n'
        'only_if = "greenhouse.temperature mean last 10 minutes > 30"\n'
    )
    home.run(300)
    home.air["temperature"] = 36.0
    home.run(60)
    assert home.told == []
    home.run(900)
    assert len(home.told) == 1


def test_measuring_that_never_ends_delays_nothing_and_counts_as_missing(house):
    home = house('[rules.gone]\nwhen = "greenhouse.temperature is missing for 1 minute"\nnotify = "gone"\n')
    home.run(30)
    home.watch.sampler._measure = lambda: None
    waits = [home.go() for _ in range(12)]
    assert all(wait is not None and wait <= 30 for wait in waits)
    assert len(home.told) == 1


def test_measuring_that_takes_long_is_slept_through():
    sampler = Sampler(lambda: None, lambda: None, 1.0)
    steps, mono = 0, 1000.0
    while mono < 1030:
        now = ClockReading("first", mono, NOON + timedelta(seconds=mono))
        sampler.step(now)
        mono, steps = mono + max(0.001, sampler.wait(now)), steps + 1
    assert steps < 5


def test_a_rule_waits_for_a_sensor_that_is_not_there(house):
    home = house('[rules.gone]\nwhen = "tank.distance is missing for 1 minute"\nnotify = "gone"\n')
    home.watch.measure = list
    waits = [home.go() for _ in range(9)]
    assert waits == [10] * 9
    assert len(home.told) == 1


def test_a_gate_that_is_asked_at_every_sample_writes_no_more_than_once_a_minute(house):
    home = house(
        '[rules.x]\nwhen = "greenhouse.temperature > 10"\nnotify = "x"\n'
        'only_if = "greenhouse.temperature max last 2 minutes > 30"\n'
    )
    commits = []
    home.watch.sampler._samples = lambda: Counted(Samples(home.watch.database), commits)
    home.run(600)
    assert len(commits) <= 11
    home.air["temperature"] = 31.0
    home.run(20)
    assert len(home.told) == 1  # by values that are not kept yet


class Counted:
    """A store that counts what it is given."""

    def __init__(self, samples, commits):
        self.samples, self.commits = samples, commits

    def keep(self, *given):
        self.commits.append(1)
        self.samples.keep(*given)

    def fold(self, now):
        self.samples.fold(now)


EVENING = '[rules.x]\nwhen = "every day at 13:00"\nnotify = "x"\nenabled = true\n'


def test_a_rule_that_was_switched_off_has_missed_nothing(house):
    home = house(EVENING, every=600.0)
    home.run(600)
    (home.home / "rules.toml").write_text(EVENING.replace("true", "false"))
    home.run(600)
    home.restart()
    home.go(7 * 86_400)
    (home.home / "rules.toml").write_text(EVENING)
    home.run(1200)
    assert home.told == []
    home.run(86_400)
    assert len(home.told) == 1


def test_a_gate_that_holds_a_time_back_is_no_firing(house):
    home = house(EVENING + 'only_if = "greenhouse.temperature max last hour > 30"\n', every=600.0)
    home.run(2 * 3600)
    assert (home.told, home.log()) == ([], [])
    assert home.watch.engine._states["x"].fired is None


def test_what_a_rule_looks_back_at_is_measured(house):
    home = house(EVENING + 'only_if = "cpu-thermal.temperature max yesterday > 60"\n')
    home.go()
    assert home.watch.engine.wanted == {Series("cpu-thermal", "temperature")}


def test_a_firing_keeps_its_date_when_its_samples_are_folded(house):
    home = house(HOT.replace("for 30 seconds", ""), every=240.0, vouched=False)
    home.wall, home.air["temperature"] = 0.0, 36.0
    home.run(480)
    home.vouched, home.wall = True, NOON.timestamp()
    home.run(480)
    dated = home.log()[0].at
    assert dated.year == NOON.year
    home.watch.close()
    home.boot, home.mono = "second", 100.0
    home.watch = home.open()
    home.run(60 * 3600)
    assert home.log()[0].at == dated


def test_a_date_that_is_wrong_for_hours_moves_nothing_for_good(house):
    home = house(every=240.0)
    home.run(60 * 3600)
    home.wall += 3650 * 86_400
    home.run(3 * 3600)
    home.wall -= 3650 * 86_400
    home.run(3 * 3600)
    home.watch.close()
    database = home.store()
    spans = Samples(database).spans(WARM, 0, 1e11, 86_400)
    database.close()
    assert {datetime.fromtimestamp(span.at, UTC).year for span in spans} == {2026}
    assert sum(span.good for span in spans) == 66 * 15


def test_a_warning_reaches_the_owner_when_no_letter_can_be_kept(tmp_path):
    shown = []
    app = App(Config(home=tmp_path), SimBoard())
    watch = BackgroundWorker(app, "terminal", shown.append)._watch(Broken())
    watch.actions.tell("Too hot")
    assert [text.startswith("Too hot") for text in shown] == [True]


def test_a_full_disk_ends_nothing(house):
    home = house()

    def tell(_):
        raise StoreError("state.db: the disk is full")

    home.watch.actions = home.watch.actions._replace(tell=tell)
    home.watch.__dict__["database"] = Broken()
    home.run(120)
    home.watch.close()


def test_a_model_is_asked_though_nobody_knows_the_date(tmp_path):
    app = App(Config(home=tmp_path), SimBoard())
    database = Database(tmp_path / "state.db")
    BackgroundWorker(app, "terminal", print)._watch(database).actions.ask("What now?", "look")
    (job,) = Jobs(database).all()
    database.close()
    now = JobContext(0.0, boottime(), read_boot_id(), False, "me", lambda _: True)
    assert decide_job(job, now).run


def test_measuring_apart_gives_each_result_once():
    woken, readings = [], [Reading("a", "temperature", 1.0, "x")]
    apart = WorkerThread(lambda: readings, lambda: woken.append(1))
    assert apart() is None
    until(lambda: woken)
    assert apart() == readings
    assert apart() is None


def test_a_full_memory_loses_the_oldest_and_counts_them():
    def fails():
        raise StoreError("the disk is full")

    said = []
    sampler = Sampler(lambda: [Reading("a", "temperature", 1.0, "x")], fails, 1.0, say=said.append)
    for second in range(30_000):
        now = ClockReading("first", float(second), NOON + timedelta(seconds=second))
        sampler.step(now)
        sampler.commit(now)
    assert said == ["measurements are not being kept: the disk is full"]
    assert 0 < sampler.lost < 30_000


# --- a simulated output, without network and model ---

FAN = """
[rules.fan]
when = "greenhouse.temperature > 35"
output = "valve1"
lasts = "2 minutes"
"""


def test_a_rule_drives_an_output_within_one_sample_of_its_condition(house):
    home = house(FAN)
    (home.home / "outputs.toml").write_text(VALVE)
    outputs = config.load_outputs(home.home / "outputs.toml").outputs
    config.save_armed(home.home, {name: output.digest for name, output in outputs.items()})
    pin = home.home / "sim/line17"
    home.run(60)
    assert not pin.exists()
    home.air["temperature"] = 35.5
    began = time.monotonic()
    home.go(home.every)  # one sample
    assert int(pin.read_text()) == 1
    assert time.monotonic() - began < 5
    (record,) = home.log()
    assert record.outcome == "valve1 is on for 120 s"
    home.wiring.outputs.off("valve1", "owner")
    assert int(pin.read_text()) == 0


def test_a_rule_drives_an_output_from_the_thread_that_runs_in_a_chat(tmp_path):
    """With the real clock, a real thread, a real supervisor: within a sample and what a process needs to start."""
    (tmp_path / "rules.toml").write_text(FAN)
    (tmp_path / "outputs.toml").write_text(VALVE)
    outputs = config.load_outputs(tmp_path / "outputs.toml").outputs
    config.save_armed(tmp_path, {name: output.digest for name, output in outputs.items()})
    board = SimBoard(state=tmp_path / "sim")
    wiring = Wiring(Config(home=tmp_path), board)
    air = board.scenes["greenhouse"].values
    air["temperature"] = 20.0
    told = []

    def opened(stack):
        hands = RuleActions(told.append, make_switch(wiring), lambda text, rule: "")
        clock = ClockWatch(lambda: True, "first")
        watch = make_watch(wiring, 0.2, clock, lambda: UTC, hands, thread.ring)
        stack.callback(watch.close)
        return [watch.step]

    thread = SchedulerThread(tmp_path, opened, told.append)
    thread.start()
    try:
        until((tmp_path / "history.db").exists)
        assert not (tmp_path / "sim/line17").exists()
        air["temperature"] = 36.0
        until(lambda: (tmp_path / "sim/line17").exists() and int((tmp_path / "sim/line17").read_text()) == 1)
    finally:
        thread.stop()
        wiring.close()
    assert told == []


def test_a_sensor_that_is_added_is_measured_at_once(tmp_path):
    """On a board without a sensor the thread sleeps for ever; the tool wakes it."""
    board = SimBoard(state=tmp_path / "sim")
    wiring = Wiring(Config(home=tmp_path), board)
    kept = wiring.wired.pop("greenhouse")

    def opened(stack):
        hands = RuleActions(lambda _: None, make_switch(wiring), lambda text, rule: "")
        watch = make_watch(wiring, 3600.0, ClockWatch(lambda: True, "first"), lambda: UTC, hands, thread.ring)
        stack.callback(watch.close)
        return [watch.step]

    thread = SchedulerThread(tmp_path, opened, print)
    thread.start()
    try:
        until(lambda: any(tmp_path.glob("wake-*")))
        time.sleep(0.2)  # it has looked, and found nothing
        assert not (tmp_path / "history.db").exists()
        (group,) = (group.make() for group in wiring.buses() if "sensor_add" in group.names)
        assert group.sensor_add(name="greenhouse", part=kept.part, address=kept.address).startswith("added")
        until((tmp_path / "history.db").exists)
    finally:
        thread.stop()
        wiring.close()


def test_following_rules_needs_neither_network_nor_model():
    code = "import sys, picoclaw.daemon.sampling; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"httpcore", "ssl", "socket", "numpy", "yaml", "asyncio"}
    assert not any(name.startswith(("picoclaw.providers", "picoclaw.agent.loop")) for name in loaded)


NEVER_EXACT = {
    "scd4x": (WiredPart("scd4x", 1, 0x62), {"co2": 1500}, "air.co2 > 1200"),
    "sgp30": (WiredPart("sgp30", 1, 0x58), {"co2": 1500}, "air.co2 > 1200"),
    "aht10": (WiredPart("aht20", 1, 0x38, options={"crc": 0.0}), {"temperature": 31}, "air.temperature > 30"),
    "darkness": (WiredPart("bh1750", 1, 0x23), {"light": 0}, "air.light < 5"),
    "dust": (WiredPart("pms5003", port="/dev/ttyS0"), {"dust pm2.5": 900}, "air.dust pm2.5 > 300"),
}


@pytest.mark.parametrize("name", NEVER_EXACT)
def test_a_rule_follows_a_part_whose_values_are_never_exact(house, name):
    wired, values, when = NEVER_EXACT[name]
    script = DEFAULT_SCRIPT._replace(
        wired={**DEFAULT_SCRIPT.wired, "air": wired}, values={**DEFAULT_SCRIPT.values, "air": values}
    )
    one = house(f'[rules.air]\nwhen = "{when}"\nnotify = "open the window"\n', every=60.0, script=script)
    one.run(180)
    assert [text.partition(" (")[0] for text in one.told] == ["open the window"]
