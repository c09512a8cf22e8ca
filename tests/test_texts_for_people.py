"""What the matcher, the terminal and the page show to people: nothing that is meant for a model, and nothing twice."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.channels.dashboard.live import EventStream, LiveTurn
from picoclaw.config import Config, load_config
from picoclaw.config.tables import LimitsConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Inbound, ToolRun

FOR_A_MODEL = re.compile(
    r"not to be called again|do not ask|action list|start_line|read_result|ask the (?:person|user|owner)|tell the user"
    r"|do it yourself|call it again|send them again|do not wait",
    re.IGNORECASE,
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    path = tmp_path / "home"
    monkeypatch.setenv("PICOCLAW_HOME", str(path))
    workspace.prepare_home(path)
    (path / "workspace/BOOTSTRAP.md").unlink()
    (path / "workspace/USER.md").write_text("- Time zone: Asia/Tokyo\n")
    return path


def say(home, *lines):
    with closing(App(Config(home, limits=LimitsConfig(result_chars=600)), SimBoard())) as app:
        return [app.dispatcher.answer(Inbound("terminal", line)).reply for line in lines]


def test_a_call_that_waits_is_said_to_wait_and_not_to_have_failed(home):
    add = "add the sensor at 0x76 as porch"
    waits, no, again = say(home, add, "/no 1", add)
    assert (
        waits
        == "Shall I add the sensor porch? porch: i2c-1 0x76\nIt waits for your approval: /yes 1 does it, /no 1 leaves it."
    )
    assert no == "Number 1 is not done."
    assert again == waits.replace("/yes 1", "/yes 2").replace("/no 1", "/no 2")  # said again, it is asked about again


def test_a_reminder_that_repeats_comes_once_more_when_it_is_snoozed(home):
    _, more, moved = say(
        home, "remind me every day at 7 to feed the cat", "snooze reminder 1 for 1 hour", "move reminder 2 to tomorrow"
    )
    assert more.startswith("reminder 1 repeats and keeps its times")
    assert "it comes once more as reminder 2, which is kept for" in more
    assert moved.startswith("reminder 2 comes on ")


def test_a_reading_of_what_is_not_there_is_refused_when_it_is_planned(home):
    pool, co2, there = say(
        home,
        "tell me every morning how warm the pool is",
        "every hour tell me the co2",
        "every hour tell me the temperature in the greenhouse",
    )
    assert "no sensor 'pool' measures temperature; there are: greenhouse, cpu" in pool
    assert "no sensor measures co2; there are: greenhouse, cpu" in co2
    assert there.startswith("Planned as 1: read temperature of greenhouse, every 1 h")


def test_a_rule_that_waits_is_shown_in_plain_words(home):
    (rule,) = say(home, "tell me when the humidity is above 80")
    first, last = rule.splitlines()
    assert first.startswith(
        "Shall I keep this rule? greenhouse_humidity: when the humidity of greenhouse is above 80 %"
    )
    assert last == "It waits for your approval: /yes 1 does it, /no 1 leaves it."


def test_what_the_matcher_shows_has_no_advice_for_a_model(home):
    (home / "workspace/long.txt").write_text("".join(f"line {n}\n" for n in range(300)))
    lines = (
        "cancel reminder 99", "read the file long.txt", "read the file nothing.txt", "add the sensor at 0x76 as porch",
        "forget the note about birthday", "switch on the lamp", "remove rule frost", "what is on i2c bus 9",
    )  # fmt: skip
    for line, reply in zip(lines, say(home, *lines), strict=True):
        assert not FOR_A_MODEL.search(reply), (line, reply)
    assert "[cut: " in say(home, "read the file long.txt")[0]


def test_the_page_shows_a_result_without_how_a_model_reads_on():
    feed = EventStream()
    follower, talk = feed.follow(), LiveTurn(feed)
    cut = "a\n[cut: 900 characters left out here; read_result(number=3, start=450) shows them]\nb"
    talk.listen(ToolRun("read_file", {}, cut, 1.0))
    assert "a [cut: 900 characters left out here] b" in feed.wait(follower, 0.0)[0].data


def run(*words, together=False):
    error = subprocess.STDOUT if together else subprocess.PIPE
    command = (sys.executable, "-m", "picoclaw", *words)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=error, text=True, timeout=60)


def test_an_error_is_printed_once(home):
    words = ("chat", "--board", "sim", "-m", "cancel reminder 99")
    apart, both = run(*words), run(*words, together=True)
    assert (apart.stderr.count("no reminder 99"), apart.returncode) == (1, 1)  # where the answer goes into a file
    assert (both.stdout.count("no reminder 99"), both.returncode) == (1, 1)


def test_an_error_is_shown_once_in_a_conversation(home):
    ours, theirs = pty.openpty()
    command = (sys.executable, "-m", "picoclaw", "chat", "--board", "sim")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        os.write(ours, b"cancel reminder 99\n/quit\n")
        shown = b""
        while process.poll() is None:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        process.wait(30)
    os.close(ours)
    assert shown.count(b"has no reminder 99") == 1
    assert b"failed" in shown


def test_all_times_are_in_the_owners_zone(home, capsys):
    from picoclaw.cli import run as picoclaw

    def printed(*words):
        picoclaw(list(words))
        return capsys.readouterr().out

    now = datetime.now(ZoneInfo("Asia/Tokyo"))
    hours = {f"{now:%Y-%m-%d %H}", f"{datetime.fromtimestamp(now.timestamp() + 60, now.tzinfo):%Y-%m-%d %H}"}
    say(home, "add the sensor at 0x76 as porch", "/no 1", "note that the pump is blue")
    archive = home.parent / "a.tar.gz"
    printed("backup", str(archive))
    for words in (
        ("approvals",),
        ("audit", "-n", "1"),
        ("sessions", "list"),
        ("backup", "--check", str(archive)),
        ("doctor", "--board", "sim", "--offline"),
    ):
        out = printed(*words)
        found = set(re.findall(r"\d{4}-\d\d-\d\d \d\d(?=:)", out))
        assert found, words
        assert found <= hours, (words, out)
    assert json.loads(printed("audit", "-n", "1", "--json"))["at"]
    assert load_config().home == home
