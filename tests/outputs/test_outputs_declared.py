"""What outputs.toml may say, and what is said about one that is wrong."""

import pytest
from outputs_kit import LAMP, PUMP, make_home
from rows import each_row

from picoclaw import workspace
from picoclaw.outputs import config


def load(tmp_path, toml):
    return config.load_outputs(make_home(tmp_path / "home", toml, armed=False) / "outputs.toml")


def test_all_keys_are_understood(tmp_path):
    found = load(
        tmp_path,
        """
[stop]
line = "GPIO4"
[outputs.pump]
line = 17
chip = "pinctrl-bcm2835"
active = "low"
kind = "pump"
longest_on_s = 600
shortest_off_s = 30
duty_s_per_hour = 900
toggles_per_hour = 6
excludes = ["fan"]
hours = "22:00-06:00"
needs = { sensor = "porch", quantity = "temperature", fresh_s = 60, low = 2 }
who = ["owner", "cron"]
confirm = false
[outputs.fan]
pwm = "pwmchip0/0"
period_us = 40
kind = "motor"
safe = "30 %"
longest_on_s = 60
[outputs.mat]
part = "pcf8574"
bus = 1
address = 0x20
channel = 7
kind = "heater"
independent_cutoff = true
longest_on_s = 60
""",
    )
    assert found.problems == ()
    assert found.stop == config.StopButton("GPIO4")
    assert found.outputs["pump"].line == "17"
    assert found.outputs["pump"].needed == config.RequiredSensor("porch", "temperature", 60, 2)
    assert found.outputs["fan"].safe_level == 30
    assert [output.graded for output in found.outputs.values()] == [False, True, True]


def changed(key, value):
    return "\n".join([line for line in PUMP.splitlines() if not line.startswith(key)] + ([value] if value else []))


NEEDS = PUMP + 'needs = {{ sensor = "porch", quantity = "{}", fresh_s = 60, low = {}, high = {} }}\n'


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[outputs.pump", "is not valid TOML"),
        ("[output.pump]", "unknown table [output]; did you mean 'outputs'"),
        ("outputs = 3", "[outputs] must hold one table for each output"),
        ("[outputs]\npump = 3", "[outputs.pump] must be a table"),
        (PUMP.replace("pump]", "Pump]"), "must be lower-case"),
        (PUMP + "longest_on = 3", "unknown 'longest_on'; did you mean 'longest_on_s'"),
        (PUMP + 'name = "x"', "unknown 'name'"),
        (changed("longest", ""), "'longest_on_s' is missing"),
        (changed("longest", "longest_on_s = 90000"), "outside 0.1 to 86400"),
        (changed("longest", 'longest_on_s = "long"'), "'longest_on_s' must be a number"),
        (changed("kind", ""), "'kind' is missing"),
        (changed("kind", 'kind = "heater"'), "kind heater needs independent_cutoff = true"),
        (changed("kind", 'kind = "lock"'), "kind lock needs independent_cutoff = true"),
        (changed("kind", 'kind = "toaster"'), "'kind' must be one of"),
        (changed("line", ""), "needs exactly one of line, pwm and part, not none"),
        (PUMP + 'pwm = "pwmchip0/0"', "not line and pwm"),
        (changed("line", 'pwm = "pwm0"'), "not like pwmchip0/0"),
        (changed("line", 'part = "pcf8574"'), "part needs its address"),
        (changed("line", 'part = "pcf8574"\naddress = 2'), "outside 8 to 119"),
        (PUMP + "channel = 2", "channel is only for an output with part"),
        (PUMP + 'safe = "half"', "safe: 'half' is not a level"),
        (PUMP + 'safe = "50"', "a GPIO line is only on or off"),
        (PUMP + 'hours = "6-22"', "not like 06:00-22:00"),
        (PUMP + 'who = ["martian"]', "'who[0]' must be one of"),
        (PUMP + 'needs = { sensor = "porch" }', "needs: 'quantity' is missing"),
        (PUMP + 'excludes = ["fan"]', "'fan' is not another output"),
        (PUMP + 'excludes = ["pump"]', "excludes: it cannot exclude itself"),
        (PUMP + "who = []", "who is empty"),
        (NEEDS.format("heat", 0, 1), "there is no quantity 'heat'"),
        (NEEDS.format("temperature", 2, 1), "low is 2, more than high, 1"),
        (PUMP + LAMP.replace("27", "17"), "gpio GPIO17 is already that of 'pump'"),
        (PUMP + "[stop]\n", "[stop]: 'line' is missing"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, toml, said):
    found = load(tmp_path, toml)
    assert said in found.problems[0]
    assert str(found.path) in found.problems[0]
    assert "\n" not in found.problems[0]


def test_a_wrong_table_spares_the_others(tmp_path):
    found = load(tmp_path, PUMP + LAMP + "color = 3")
    assert list(found.outputs) == ["pump"]
    assert len(found.problems) == 1


def test_no_file_declares_nothing(tmp_path):
    assert config.load_outputs(tmp_path / "outputs.toml") == (tmp_path / "outputs.toml", {}, None, ())


@each_row(("text", "level"), [("on", 100), ("OFF", 0), ("30", 30), ("12.5 %", 12.5)])
def test_levels(text, level):
    assert config.parse_level(text) == level


@each_row("text", ["", "yes", "-1", "101", "nan", "inf", "1e9", "on off"])
def test_no_levels(text):
    with pytest.raises(ValueError, match="is not a level"):
        config.parse_level(text)


def test_any_change_is_another_declaration(tmp_path):
    one = load(tmp_path, PUMP).outputs["pump"]
    other = load(tmp_path, PUMP.replace("600", "601")).outputs["pump"]
    assert one.digest != other.digest
    assert one.digest == load(tmp_path, "# a comment\n" + PUMP).outputs["pump"].digest


def test_the_systems_file_wins(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "MACHINE_OUTPUTS", tmp_path / "system.toml")
    assert workspace.find_outputs_file(tmp_path) == tmp_path / "outputs.toml"
    workspace.MACHINE_OUTPUTS.write_text(PUMP)
    assert workspace.find_outputs_file(tmp_path) == workspace.MACHINE_OUTPUTS


@pytest.mark.parametrize("kept", [b"", b"[]", b"{", b"[" * 100_000, b'{"pump": 3}'])
def test_an_armed_file_that_is_no_such_thing_arms_nothing(tmp_path, kept):
    (tmp_path / "outputs.armed").write_bytes(kept)
    assert config.load_armed(tmp_path) == {}


@each_row("kept", [None, {}, [3], [{"kind": "pump"}], [{"kind": "pump", "longest_on_s": 1, "safe": 3}]])
def test_a_marker_that_is_no_such_thing_names_no_output(kept):
    assert config.restore_outputs(kept) == []
