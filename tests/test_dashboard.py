"""What the page is told of a real picoclaw on the simulated board, and `picoclaw page`."""

import os
import re
import threading
import time
from datetime import UTC, datetime

import pytest
from page_house import served

from picoclaw import cli, workspace
from picoclaw.app import App
from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.channels.dashboard.login import Logins
from picoclaw.config import load_config
from picoclaw.config.tables import AgentConfig, BoardConfig
from picoclaw.daemon.dashboard import DaemonBackend
from picoclaw.hw import detect
from picoclaw.messages import Inbound, Notice
from picoclaw.outputs import config
from picoclaw.records import replace
from picoclaw.store.inbox_outbox import Inbox, InboxMessage
from picoclaw.store.samples import ClockReading, SampleBlock, Samples, SensorFailure, Series

STATUS = {
    "ok": False,
    "running": False,
    "version": "1",
    "board": "b",
    "output_lines": [],
    "problems": ["telegram is down"],
    "clock": {"text": "noon"},
    "log": [{"at": 5.0, "text": "down", "trouble": True}, {"at": 6.0, "text": "ready", "trouble": False}],
}
OUTPUTS = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600
confirm = false

[outputs.lamp]
line = "GPIO27"
kind = "light"
longest_on_s = 600
"""
RULES = """
[rules.hot]
when = "greenhouse.temperature > 35 for 10 minutes"
notify = "too hot"

[rules.bad]
when = "never"
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("PICOCLAW_HOME", str(home))
    workspace.prepare_home(home)
    config = replace(load_config(), board=BoardConfig("sim"))
    app = App(config, detect.choose_board("sim", config))
    yield app
    app.close()


@pytest.fixture
def house(app):
    house = DaemonBackend(app.config, app.wiring, lambda: UTC, app.mark, lambda: STATUS)
    yield house
    house.close()
    house.close()


def test_readings_come_with_units_and_are_not_taken_anew_for_each_browser(house):
    first = house.readings()
    assert {(value.sensor, value.quantity) for value in first} >= {
        ("greenhouse", "temperature"),
        ("cpu", "temperature"),
    }
    assert all(re.fullmatch(r"[\d.]+ (°C|%|hPa)", value.text) for value in first)
    assert house.readings() is first
    house._bus.acquire()  # while another thread measures
    house._read_at = -100.0
    assert house.readings() is first
    house._bus.release()
    assert house.readings() is not first


def test_the_first_readings_are_waited_for_by_everybody(house):
    found = []
    threads = [threading.Thread(target=lambda: found.append(house.readings())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is found[0] for one in found)
    assert found[0]


def test_the_past_and_its_troubles(app, house):
    mono, wall = boottime(), datetime.now(UTC)
    points = [(mono - 3600 + n * 60, 20.0 + n % 2) for n in range(60)]
    trouble = SensorFailure("greenhouse", mono - 60, mono - 30, 3, "nothing answers")
    Samples(app.stores.history_database).keep(
        ClockReading(read_boot_id(), mono, wall), [SampleBlock(Series("greenhouse", "temperature"), points)], [trouble]
    )
    now = time.time()
    found = house.history("greenhouse", "temperature", now - 7200, now, 60)
    assert 25 <= len(found) <= 32
    assert {point[1:] for point in found[1:-1]} == {(20.0, 20.5, 21.0)}
    assert house.history("nobody", "temperature", now - 7200, now, 60) == []
    assert [row.text for row in house.errors()] == ["nothing answers (3 times)", "down"]


def test_what_was_said_is_without_the_head_and_the_tools(app, house):
    assert house.said("page:home", 60) == []
    app.dispatcher.answer(Inbound("page:home", "how warm is it in the greenhouse?"))
    said = house.said("page:home", 60)
    assert [line.role for line in said] == ["user", "assistant"]
    assert said[0].text == "how warm is it in the greenhouse?"
    assert said[1].text.startswith("greenhouse: temperature")
    assert abs(said[0].at - time.time()) < 60
    assert house.said("page:home", 1) == said[1:]


def test_jobs_and_rules_are_told_with_what_is_wrong_with_them(app, house):
    (app.config.home / "rules.toml").write_text(RULES)
    app.dispatcher.answer(Inbound("page:home", "remind me in 40 minutes to water the tomatoes"))
    (job,) = house.jobs()
    assert job.text.endswith("water the tomatoes")
    assert (job.name, job.command, job.paused) == ("1.", "/job", False)
    app.dispatcher.answer(Inbound("page:home", "/job pause 1"))
    assert house.jobs()[0].paused
    good, bad = house.rules()
    assert (good.name, good.good, good.command, good.paused) == ("hot", True, "/rule", False)
    app.dispatcher.answer(Inbound("page:home", "/rule pause hot"))
    assert house.rules()[0].paused
    assert good.text.startswith("when the temperature of greenhouse is above 35")
    assert (bad.name, bad.good) == ("bad", False)


def test_without_outputs_there_is_nothing_to_switch(house):
    assert house.outputs() == ((), "", ())
    for act in (lambda: house.off("pump"), house.resume):
        with pytest.raises(Exception, match="declares no output"):
            act()


def test_outputs_are_shown_with_their_leases_stopped_and_resumed(app):
    home = app.config.home
    (home / "outputs.toml").write_text(OUTPUTS)
    found = config.load_outputs(home / "outputs.toml").outputs
    config.save_armed(home, {"pump": found["pump"].digest})
    house = DaemonBackend(app.config, app.wiring, lambda: UTC, "", lambda: STATUS)
    app.wiring.outputs.set("pump", "on", 60, "owner")
    pump, lamp = house.outputs().rows
    assert (pump.name, pump.level, pump.away, pump.armed) == ("pump", "on", True, True)
    assert 50 < pump.left <= 60
    assert (lamp.name, lamp.away, lamp.left, lamp.armed) == ("lamp", False, None, False)
    assert (lamp.longest, lamp.graded, lamp.for_rules) == (600, False, False)
    assert "off" in house.off("pump")
    assert not house.outputs().rows[0].away
    assert house.stop().startswith("stopped")
    assert "page" in house.outputs().stopped
    house.resume()
    assert not house.outputs().stopped


def test_what_waits_for_a_yes_has_not_failed(app, tmp_path):
    home = app.config.home
    (home / "outputs.toml").write_text(OUTPUTS)
    found = config.load_outputs(home / "outputs.toml").outputs
    config.save_armed(home, {name: one.digest for name, one in found.items()})
    arrived = InboxMessage("page:home", "switch the lamp on for 1 minute", "page:1", "web", "1")
    turn = app.dispatcher.answer(Inbound(arrived.key, arrived.text))
    assert turn.notice.failed
    with served(tmp_path) as client:
        client.login()
        with client.stream() as heard:
            heard("board")
            client.page.answered(arrived, turn, turn.reply)
            assert heard("ended")[1]["problem"] == ""
            client.page.answered(arrived, turn._replace(notice=Notice("it is slow", failed=True)), turn.reply)
            assert heard("ended")[1]["problem"] == "it is slow"


def test_what_waits_for_its_answer_is_part_of_what_was_said(app, house):
    inbox = Inbox(app.stores.database)
    first = inbox.put(InboxMessage("page:home", "how warm is it?", "page:1", "web", "1"))
    inbox.put(InboxMessage("page:home", "and outside?", "page:1", "web", "2"))
    inbox.put(InboxMessage("page:home", "/yes 3 abc", "page:1", "web", "answer abc"))
    inbox.put(InboxMessage("telegram:7", "hello", "telegram:7", "owner", "3"))
    assert [line.text for line in house.said("page:home", 60)] == ["how warm is it?", "and outside?"]
    inbox.begin([first.number])
    app.dispatcher.answer(Inbound("page:home", "how warm is it?", inbox=first.number))
    assert [(line.role, line.text[:16]) for line in house.said("page:home", 60)][::2] == [
        ("user", "how warm is it?"),
        ("user", "and outside?"),
    ]


def test_the_agents_and_which_of_them_answers(app, house):
    assert house.agents("page:home") == []
    app.stores.sessions.set_agent("page:home", "garden", app.now())
    named = replace(app.config, agents={"garden": AgentConfig("Flora")})
    house = DaemonBackend(named, app.wiring, lambda: UTC, app.mark, lambda: STATUS)
    assert [(row.name, row.text, row.command) for row in house.agents("page:home")] == [
        ("default", "this board's own agent", "/agent default"),
        ("garden", "Flora", ""),
    ]
    house.close()


def test_facts_and_health(house):
    facts = {row.name: (row.text, row.good) for row in house.facts()}
    assert {"board", "memory", "disk", "clock"} <= set(facts)
    assert facts["clock"] == ("noon", True)
    assert facts["NOT OK"] == ("telegram is down", False)
    assert house.troubles()
    assert house.mark
    assert house.name == os.uname().nodename


def test_a_code_is_only_for_a_person_at_a_terminal(app, capsys):
    assert cli.run(["page", "code"]) == 1
    assert "a person at a terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "the page is off"),
        ("[page]\nenabled = true", "the page is at http://127.0.0.1:8737/"),
        ('[page]\nenabled = true\nhost = "::1"\nport = 80', "the page is at http://[::1]:80/"),
        ('[page]\nenabled = true\nhost = "0.0.0.0"', ".local:8737/"),
    ],
)
def test_it_says_where_the_page_is_and_who_was_let_in(app, capsys, settings, said):
    (app.config.home / "config.toml").write_text(settings)
    assert cli.run(["page"]) == 0
    assert said in capsys.readouterr().out


def test_a_person_gets_a_code_and_forgets_every_browser(app, monkeypatch, capsys):
    home = app.config.home
    monkeypatch.setattr("picoclaw.cli.channels.require_terminal", lambda why: None)
    assert cli.run(["page", "code"]) == 1
    assert "`picoclaw init --page network`" in capsys.readouterr().err
    (home / "config.toml").write_text("[page]\nenabled = true")
    assert cli.run(["page", "code"]) == 0
    code = capsys.readouterr().out.split("\n")[0]
    assert re.fullmatch(r"[0-9A-Z]{4}-[0-9A-Z]{4}", code)
    secret = Logins(home).enter(code, "Firefox \x1b[2J", "10.0.0.2")
    assert cli.run(["page", "status"]) == 0
    shown = capsys.readouterr().out
    assert "from 10.0.0.2: Firefox \\x1b[2J" in shown
    assert cli.run(["page", "logout"]) == 0
    assert not Logins(home).find(secret)
