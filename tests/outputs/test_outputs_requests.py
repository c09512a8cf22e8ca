"""What is granted, refused, ended and written down, on a simulated board and a clock that only the test moves."""

import json
import os
import resource
from datetime import datetime

import pytest
from outputs_kit import LAMP, PUMP, Clock, Desk, arm, make_home, pin

from picoclaw.automation.clock import boottime
from picoclaw.outputs import audit, config
from picoclaw.outputs.limits import SensorSample
from picoclaw.security import hash_chain

NEEDY = PUMP + 'needs = { sensor = "porch", quantity = "temperature", fresh_s = 60, low = 0, high = 30 }\n'


@pytest.fixture
def desk(tmp_path):
    return Desk(make_home(tmp_path / "home", PUMP + LAMP))


def acts(home, *keys):
    found = [said for _, said in audit.read_records(home / audit.AUDIT_FILE)]
    return [tuple(said.get(key) for key in ("act", *keys)) for said in found]


def test_it_is_on_and_ends_by_itself(desk):
    assert desk.on(seconds=60) == {"ok": True, "text": "pump is on for 60 s", "seconds": 60}
    assert pin(desk.home) == 1
    assert desk.handler.due(critical=True) == desk.clock.now + 60
    desk.later(59.9)
    assert pin(desk.home) == 1
    desk.later(0.1)
    assert pin(desk.home) == 0
    assert desk.handler.due() is None
    assert acts(desk.home, "name", "why")[1:] == [
        ("on", "pump", None),
        ("read", "pump", None),
        ("safe", "pump", "its time is over"),
    ]


def test_the_watch_and_the_disk_know_before_anything_moves(desk, monkeypatch):
    seen = []

    def drive(output, level):
        marker = json.loads((desk.home / "outputs.live").read_text())
        seen.append((acts(desk.home)[-1], desk.promises[-1] - desk.clock.now, len(marker)))
        return ""

    monkeypatch.setattr(desk.terminals, "drive", drive)
    desk.on(seconds=60)
    assert seen == [(("on",), 60, 2)]


def test_at_the_beginning_everything_armed_is_made_safe(tmp_path):
    home = make_home(tmp_path / "home", PUMP + LAMP + 'safe = "on"\n')
    Desk(home)
    assert (pin(home), pin(home, 27)) == (0, 1)


def test_what_is_not_armed_is_not_touched(tmp_path):
    home = make_home(tmp_path / "home", armed=False)
    desk = Desk(home)
    answer = desk.on()
    assert answer["dry"]
    assert "NOTHING was driven" in answer["text"]
    assert "picoclaw outputs arm pump" in answer["text"]
    assert desk.ask("off")["text"] == "pump was not on"
    desk.ask("stop")
    assert pin(home) is None
    assert ("dry",) in acts(home)


def test_a_dry_run_is_judged(tmp_path):
    desk = Desk(make_home(tmp_path / "home", armed=False))
    assert desk.on(seconds=601)["rule"] == "longest_on"


def test_a_changed_declaration_is_dry_again(desk):
    (desk.home / "outputs.toml").write_text(PUMP.replace("600", "6000"))
    assert desk.on()["dry"]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"level": "half"}, "value"),
        ({"level": 50}, "value"),
        ({"level": True}, "value"),
        ({"level": None}, "value"),
        ({"seconds": 601}, "longest_on"),
        ({"seconds": 0}, "longest_on"),
        ({"seconds": -5}, "longest_on"),
        ({"seconds": True}, "longest_on"),
        ({"seconds": "60"}, "longest_on"),
        ({"seconds": float("nan")}, "longest_on"),
        ({"seconds": float("inf")}, "longest_on"),
        ({"who": "cron"}, "who"),
        ({"who": ["owner"]}, "who"),
        ({"name": "boiler"}, "unknown output"),
        ({"name": ["pump"]}, "unknown output"),
        ({"name": "x" * 3000}, "unknown output"),
    ],
)
def test_a_refusal_is_written_down_with_its_rule(desk, given, rule):
    answer = desk.on(**given)
    assert (answer["ok"], answer["rule"]) == (False, rule)
    assert acts(desk.home, "rule")[-1] == ("refused", rule)
    assert pin(desk.home) == 0
    assert desk.handler.idle


@pytest.mark.parametrize("given", [{}, {"do": 3}, {"do": ["set"]}, {"do": "fly"}, {"name": "pump"}])
def test_what_is_no_request_is_answered(desk, given):
    assert desk.handler.request(given, 1, 0)["rule"] == "request"


def test_setting_again_never_goes_beyond_the_longest_time(desk):
    desk.on(seconds=400)
    desk.later(300)
    assert desk.on(seconds=301)["rule"] == "longest_on"
    assert desk.on(seconds=None)["seconds"] == 300
    assert acts(desk.home, "seconds")[-2:] == [("renew", 300), ("read", None)]
    desk.later(300)
    assert pin(desk.home) == 0


@pytest.mark.parametrize("how", [{"do": "off"}, {"do": "set", "level": "off"}, {"do": "set", "level": "0"}])
def test_going_safe_is_never_refused(desk, how):
    desk.on()
    assert desk.ask(**{"who": "martian", **how})["ok"]
    assert pin(desk.home) == 0
    desk.ask("stop")
    assert desk.ask(**{"who": "martian", **how})["ok"]


def test_a_client_that_is_gone_takes_its_outputs_with_it(desk):
    desk.on("pump", client=1)
    desk.on("lamp", client=2)
    desk.handler.gone(1)
    assert (pin(desk.home), pin(desk.home, 27)) == (0, 1)


def test_a_client_that_leaves_does_not(desk):
    desk.on(client=1)
    desk.ask("leave", client=1)
    desk.handler.gone(1)
    assert pin(desk.home) == 1
    desk.later(60)
    assert pin(desk.home) == 0


def test_who_set_it_last_holds_it(desk):
    desk.on(client=1)
    desk.on(client=2)
    desk.handler.gone(1)
    assert pin(desk.home) == 1
    desk.handler.gone(2)
    assert pin(desk.home) == 0


def test_stop_lasts_until_a_person_resumes(desk):
    desk.on("pump")
    desk.on("lamp")
    assert desk.ask("stop", who="user")["ok"]
    assert (pin(desk.home), pin(desk.home, 27)) == (0, 0)
    assert desk.on()["rule"] == "stop"
    assert Desk(desk.home).on()["rule"] == "stop", "also for the next supervisor"
    assert desk.ask("resume", who="cron")["rule"] == "who"
    assert desk.ask("resume")["ok"]
    assert desk.on()["ok"]


def test_a_stop_that_cannot_be_kept_on_the_disk_keeps_the_keeper(desk, monkeypatch):
    touch = type(desk.home).touch
    monkeypatch.setattr(
        type(desk.home), "touch", lambda path, mode=0o666: touch(path / "no" if "stop" in path.name else path)
    )
    assert desk.ask("stop")["ok"]
    assert not desk.handler.idle
    assert desk.on()["rule"] == "stop"
    desk.ask("resume")
    assert desk.handler.idle


def test_another_outputs_toml_makes_everything_safe_first(desk):
    desk.on("pump")
    (desk.home / "outputs.toml").write_text(LAMP)
    arm(desk.home)
    assert [row["name"] for row in desk.ask("list")["outputs"]] == ["lamp"]
    assert pin(desk.home) == 0
    assert ("safe", "outputs.toml was changed") in acts(desk.home, "why")
    assert desk.on("lamp")["ok"]


def test_a_wrong_outputs_toml_switches_nothing_on(desk):
    desk.on("pump")
    (desk.home / "outputs.toml").write_text(PUMP + LAMP + "colour = 3")
    answer = desk.on("pump")
    assert answer["rule"] == "configuration"
    assert "[outputs.lamp]: unknown 'colour'" in answer["text"]
    assert pin(desk.home) == 0
    assert desk.ask("list")["problems"]


def test_what_a_dead_keeper_left_on_is_made_safe_even_if_it_is_declared_no_more(desk):
    desk.on("pump")
    desk.terminals.close()  # as the kernel does for a process that is killed
    (desk.home / "outputs.toml").write_text(LAMP)
    assert pin(desk.home) == 1
    other = Desk(desk.home)
    assert pin(desk.home) == 0
    assert not (desk.home / "outputs.live").exists()
    assert acts(desk.home, "left")[-1] == ("start", ["pump", "lamp"])
    assert other.handler.idle


def test_cooldowns_outlive_the_keeper(tmp_path):
    home = make_home(tmp_path / "home", PUMP + "shortest_off_s = 1000\n")
    audit.write_record(home, "arm", name="pump")
    clock = Clock(boottime())
    desk = Desk(home, clock=clock)
    desk.on()
    desk.ask("off")
    desk.terminals.close()
    assert Desk(home, clock=clock).on()["rule"] == "shortest_off"


def limited_to(size):
    """As if the disk were full for whatever makes a file longer than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_nothing_goes_on_and_everything_goes_off(desk):
    desk.on("lamp")
    free = limited_to(10)
    try:
        answer = desk.on("pump")
        assert (answer["rule"], pin(desk.home)) == ("audit", 0)
        assert desk.on("lamp", seconds=500)["rule"] == "audit"
        assert desk.ask("off", "lamp")["ok"]
        assert pin(desk.home, 27) == 0
    finally:
        free()
    before = acts(desk.home)
    desk.handler.flush()
    assert acts(desk.home, "name") == [*acts(desk.home, "name")[: len(before)], ("off", "lamp")], (
        "written when it can be"
    )
    assert audit.verify(desk.home)[1] == ""
    assert not (desk.home / "outputs.live").exists()


def test_an_audit_that_cannot_be_read_back_switches_nothing_on(tmp_path):
    home = make_home(tmp_path / "home")
    (home / audit.AUDIT_FILE).mkdir()
    desk = Desk(home)
    answer = desk.on()
    assert answer["rule"] == "configuration"
    assert "outputs.audit cannot be read back" in answer["text"]
    assert pin(home) == 0


def test_what_cannot_be_driven_is_brought_back(desk, monkeypatch):
    answers = iter(["no answer", ""])
    driven = []
    monkeypatch.setattr(desk.terminals, "drive", lambda output, level: driven.append(level) or next(answers))
    answer = desk.on()
    assert (answer["rule"], answer["text"]) == ("hardware", "no answer")
    assert driven == [100, 0]
    assert desk.handler.idle


def test_what_does_not_go_safe_is_tried_again_and_said(desk):
    desk.on("pump")
    desk.terminals.stuck.add("pump")
    answer = desk.ask("off")
    assert "could not be brought to its safe level" in answer["text"]
    assert not desk.handler.idle
    assert desk.handler.due(critical=True) == desk.clock.now + 1
    assert desk.ask("list")["outputs"][0]["unsafe"]
    desk.later(1)
    desk.terminals.stuck.clear()
    desk.later(1)
    assert pin(desk.home) == 0
    assert desk.handler.idle
    assert [act for (act,) in acts(desk.home)][-2:] == ["unsafe", "safe"]


def test_one_that_does_not_go_safe_keeps_no_other_from_it(desk):
    desk.on("pump")
    desk.on("lamp")
    desk.terminals.stuck.add("pump")
    assert not desk.ask("stop")["ok"]
    assert pin(desk.home, 27) == 0


@pytest.fixture
def needy(tmp_path):
    return Desk(make_home(tmp_path / "home", NEEDY))


def test_a_required_sensor_is_measured_first(needy):
    asked_at = needy.clock.now
    given = {"do": "set", "name": "pump", "level": "on", "seconds": 300, "who": "owner"}
    assert needy.handler.request(given, 1, asked_at) is None
    assert needy.samples.wanted == 1
    needy.samples.newest = SensorSample(asked_at, 20.0)
    assert needy.handler.request(given, 1, asked_at)["ok"]
    assert pin(needy.home) == 1


@pytest.mark.parametrize(
    ("sample", "after", "said"),
    [
        (lambda now: None, 5, "was not measured yet"),
        (lambda now: SensorSample(now, 31.0), 0.1, "is 31, above 30"),
        (lambda now: SensorSample(now, None, "implausible value"), 0.1, "cannot be measured: implausible value"),
        (lambda now: SensorSample(now - 100, 20.0), 5, "s old, it has to be younger than 60 s"),
    ],
)
def test_a_required_sensor_that_is_not_well(needy, sample, after, said):
    asked_at = needy.clock.now
    given = {"do": "set", "name": "pump", "level": "on", "seconds": 300, "who": "owner"}
    needy.samples.newest = sample(asked_at)
    needy.clock.now += after
    answer = needy.handler.request(given, 1, asked_at)
    assert (answer["rule"], said in answer["text"]) == ("sensor", True), answer


@pytest.mark.parametrize(
    ("sample", "after", "why"),
    [
        (None, 60.1, "temperature of porch is 60 s old, it has to be younger than 60 s"),
        (SensorSample(0, None, "no answer"), 30, "temperature of porch cannot be measured: no answer"),
        (SensorSample(0, 30.5), 30, "temperature of porch is 30.5, above 30"),
    ],
)
def test_a_required_sensor_that_fails_meanwhile_ends_it(needy, sample, after, why):
    needy.samples.newest = SensorSample(needy.clock.now, 20.0)
    needy.on(seconds=300)
    assert needy.handler.due() == needy.clock.now + 30, "half of what is fresh"
    assert needy.handler.due(critical=True) == pytest.approx(needy.clock.now + 60.05)
    if sample:
        needy.samples.newest = sample._replace(at=needy.clock.now + after)
    needy.later(after)
    assert pin(needy.home) == 0
    assert acts(needy.home, "why")[-1] == ("safe", why)


def test_a_required_sensor_is_measured_again_in_time(needy):
    needy.samples.newest = SensorSample(needy.clock.now, 20.0)
    needy.on(seconds=300)
    needy.later(30)
    assert needy.samples.wanted == 1
    needy.samples.newest = SensorSample(needy.clock.now, 21.0)
    needy.later(59)
    assert pin(needy.home) == 1


def test_hours_need_a_clock(tmp_path):
    home = make_home(tmp_path / "home", PUMP + 'hours = "06:00-22:00"\n')
    assert "clock not trusted" in Desk(home).on()["text"]
    (tmp_path / "home/sim/line17.lock").unlink()
    assert Desk(home, wall=datetime.fromisoformat("2026-07-01 12:00")).on()["ok"]


def test_the_list(desk):
    desk.on("lamp", seconds=60)
    rows = desk.ask("list")["outputs"]
    assert [(row["name"], row["level"], row["left"], row["armed"]) for row in rows] == [
        ("pump", 0, None, True),
        ("lamp", 100, 60, True),
    ]
    assert config.format_level(rows[1]["level"]) == "on"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"act": "on", "name": "pump", "seconds": 5, "t": 1' + "0" * 400 + "}\n", ""),
        ('{"act": "on", "name": "pump", "seconds": 5, "t": NaN}\n', ""),
        ('{"act": "on", "name": "pump", "seconds": 1' + "0" * 400 + ', "t": 1}\n', "cannot be read back"),
    ],
)
def test_no_line_of_the_audit_keeps_a_keeper_from_beginning(tmp_path, text, said):
    home = make_home(tmp_path / "home")
    (home / audit.AUDIT_FILE).write_text(text)
    answer = Desk(home).on()
    assert (answer["ok"], said in answer["text"]) == (not said, True)


def test_a_pipe_in_place_of_the_audit_or_the_marker_keeps_nobody_waiting(tmp_path):
    home = make_home(tmp_path / "home")
    os.mkfifo(home / audit.AUDIT_FILE)
    os.mkfifo(home / "outputs.live")
    answer = Desk(home).on()
    assert (answer["rule"], "not a regular file" in answer["text"]) == ("configuration", True)


def test_without_any_audit_it_is_as_if_the_longest_time_had_just_ended(tmp_path):
    desk = Desk(make_home(tmp_path / "home", PUMP + "shortest_off_s = 1000\n"))
    assert desk.on()["rule"] == "shortest_off"
    desk.later(1000)
    assert desk.on()["ok"]


def test_a_stop_that_comes_while_it_is_driven_wins(desk, monkeypatch):
    drive = type(desk.terminals).drive

    def slow(output, level):
        if level:
            (desk.home / "outputs.stop").touch()
        return drive(desk.terminals, output, level)

    monkeypatch.setattr(desk.terminals, "drive", slow)
    assert desk.on()["rule"] == "stop"
    assert pin(desk.home) == 0


def test_a_stop_file_and_another_outputs_toml_are_noticed_without_a_request(desk):
    desk.on("pump", seconds=600)
    assert desk.handler.looks == desk.clock.now + 1
    (desk.home / "outputs.stop").touch()
    desk.later(0)
    assert pin(desk.home) == 0
    (desk.home / "outputs.stop").unlink()
    desk.on("pump", seconds=600)
    (desk.home / "outputs.toml").unlink()
    desk.later(1)
    assert pin(desk.home) == 0
    assert desk.handler.looks is None


def test_a_home_that_was_moved_is_let_go_of(desk):
    desk.on("pump", seconds=600)
    desk.home.rename(desk.home.with_name("elsewhere"))
    (desk.home).mkdir()
    (desk.home / "outputs.lock").touch()
    (desk.home / "outputs.live").touch()
    desk.later(1)
    assert desk.handler.lost
    assert (desk.home / "outputs.live").exists(), "that of another supervisor"
    assert not (desk.home / audit.AUDIT_FILE).exists()


def test_a_client_of_another_board_is_told_so(desk):
    assert desk.on(board="linux")["rule"] == "board"
    assert pin(desk.home) == 0
    assert desk.on(board="sim")["ok"]
    assert desk.ask("off", board="linux")["ok"], "going safe is never refused"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (PUMP + LAMP.replace("GPIO27", "17"), "is also the line of lamp"),
        (PUMP + '[stop]\nline = "17"\n', "is also the line of the stop button"),
        (PUMP.replace("17", "99"), "there is no GPIO line 'GPIO99'"),
        (PUMP.replace('line = "GPIO17"', 'part = "nothing"\naddress = 0x20'), "there is no driver 'nothing'"),
        (PUMP.replace('line = "GPIO17"', 'pwm = "pwmchip7/0"'), "there is no pwmchip7"),
    ],
)
def test_what_is_wired_wrongly_is_refused_and_leaves_nothing_behind(tmp_path, toml, said):
    desk = Desk(make_home(tmp_path / "home", toml))
    answer = desk.on()
    assert (answer["rule"], said in answer["text"]) == ("configuration", True), answer
    assert desk.handler.idle
    assert not (desk.home / "outputs.live").exists()
    assert desk.ask("stop")["ok"]
    assert said in desk.ask("list")["outputs"][0]["fault"]


def test_what_cannot_be_opened_is_refused_before_it_is_written_down(desk):
    desk.terminals.close()
    desk.terminals.stuck.add("pump")
    assert desk.on()["rule"] == "hardware"
    assert desk.handler.idle
    assert "on" not in [act for (act,) in acts(desk.home)]


def test_without_a_watch_that_listens_nothing_goes_on(desk):
    desk.leases._set_watchdog_deadline = lambda moment: False
    assert desk.on()["rule"] == "hardware"
    assert pin(desk.home) == 0


def test_a_doubtful_reading_is_none(needy):
    asked_at = needy.clock.now
    needy.samples.newest = SensorSample(asked_at, 20.0, "the part sleeps")
    needy.clock.now += 0.1
    given = {"do": "set", "name": "pump", "level": "on", "seconds": 300, "who": "owner"}
    assert "is doubtful: the part sleeps" in needy.handler.request(given, 1, asked_at)["text"]


def test_off_of_what_is_safe_when_it_is_on_tells_the_way(tmp_path):
    desk = Desk(make_home(tmp_path / "home", PUMP + 'safe = "on"\n'))
    assert "set pump off SECONDS" in desk.ask("off")["text"]


def test_what_is_not_armed_is_named(tmp_path):
    desk = Desk(make_home(tmp_path / "home", PUMP + LAMP, armed=False))
    assert "not armed, so not driven: pump, lamp" in desk.ask("stop")["text"]


def test_a_part_that_is_only_on_or_off_is_asked_for_nothing_else(tmp_path):
    desk = Desk(make_home(tmp_path / "home", PUMP.replace('line = "GPIO17"', 'part = "pcf8574"\naddress = 0x20')))
    assert desk.on(level="50")["rule"] == "value"
    other = PUMP.replace('line = "GPIO17"', 'part = "pcf8574"\naddress = 0x20\nsafe = "50"')
    (desk.home / "outputs.toml").write_text(other)
    assert "safe is 50, but a pcf8574 is only on or off" in desk.on()["text"]


def test_on_is_refused_when_the_disk_takes_nothing_for_too_long(tmp_path):
    desk = Desk(make_home(tmp_path / "home"), written=lambda: None)
    desk.leases.journal.drain(5)
    given = {"do": "set", "name": "pump", "level": "on", "seconds": 60, "who": "owner"}
    asked_at = desk.clock.now
    with hash_chain.open_chain_end(desk.home / audit.AUDIT_FILE):
        assert desk.handler.request(given, 1, asked_at) is None
        desk.clock.now += 7.9
        assert desk.handler.request(given, 1, asked_at) is None
        desk.clock.now += 0.2
        answer = desk.handler.request(given, 1, asked_at)
    assert (answer["rule"], pin(desk.home)) == ("audit", 0)
    assert "the disk took nothing for 8 s" in answer["text"]
    assert not desk.leases.intents


def test_two_that_exclude_each_other_and_are_written_down_together(tmp_path):
    toml = PUMP + 'excludes = ["lamp"]\n' + LAMP
    desk = Desk(make_home(tmp_path / "home", toml), written=lambda: None)
    desk.leases.journal.drain(5)
    given = [{"do": "set", "name": name, "level": "on", "seconds": 60, "who": "owner"} for name in ("pump", "lamp")]
    with hash_chain.open_chain_end(desk.home / audit.AUDIT_FILE):
        assert [desk.handler.request(one, n, desk.clock.now) for n, one in enumerate(given)] == [None, None]
    desk.leases.journal.drain(5)
    answers = [desk.handler.request(one, n, desk.clock.now) for n, one in enumerate(given)]
    assert [answer.get("rule") for answer in answers] == [None, "exclusion"]
    assert (pin(desk.home), pin(desk.home, 27)) == (1, 0)


def test_a_renewal_for_all_that_is_left_is_not_refused_for_the_time_of_writing_it(tmp_path):
    desk = Desk(make_home(tmp_path / "home"), written=lambda: None)
    given = {"do": "set", "name": "pump", "level": "on", "seconds": 600, "who": "owner"}
    for wait, answer in ((0.5, None), (0, "pump is on for 600 s")):
        said = desk.handler.request(given, 1, desk.clock.now)
        assert (said and said["text"]) == answer
        desk.leases.journal.drain(5)
        desk.clock.now += wait
    ends = desk.handler.due(critical=True)
    assert ends == desk.clock.now + 600
    desk.clock.now += 100
    given["seconds"] = 500
    assert desk.handler.request(given, 1, desk.clock.now) is None
    desk.leases.journal.drain(5)
    desk.clock.now += 0.5
    assert desk.handler.request(given, 1, desk.clock.now)["text"] == "pump is on for 500 s"
    assert desk.handler.due(critical=True) == ends
