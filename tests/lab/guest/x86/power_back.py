"""The same disk after a power cut, two hours later: what the daemon has made of it by itself."""

import json
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import lab
import lab_pins
from lab_service import DROP_INS, HOME, PICOCLAW, PUMP, SAFE, STATE, done, journal, process, rows, shown

from picoclaw.automation.clock import read_boot_id
from picoclaw.channels import ipc
from picoclaw.messages import DEFAULT_SESSION
from picoclaw.outputs import audit

REMINDER = "look at the pump"
CUT = json.loads(Path("/run/job/cut.json").read_text())
UNANSWERED = "SELECT count(*) FROM inbox WHERE NOT done"
ANSWERED = "SELECT key FROM turns JOIN sessions ON session = sessions.id WHERE key LIKE 'cut-%' AND stopped = ''"


def test_it_is_back_by_itself(record_property):
    process()
    record_property("kernel's start until ready, s", round(int(shown("ActiveEnterTimestampMonotonic")) / 1e6, 1))
    record_property("of which its own start, s", _starting())
    assert shown("NRestarts") == "0"
    assert "safe mode" not in journal()


def _starting() -> float:
    return round((int(shown("ActiveEnterTimestampMonotonic")) - int(shown("ExecMainStartTimestampMonotonic"))) / 1e6, 1)


def test_the_lease_that_was_running_is_at_its_safe_level(record_property):
    """Which was driven before the daemon was ready, and is written down."""
    assert (lab_pins.outside() / f"sim_gpio{PUMP}/value").read_text().strip() == SAFE
    assert not (HOME / "outputs.live").exists()
    records = [
        said for _, said in audit.read_records(HOME / audit.AUDIT_FILE) if said and said["boot"] == read_boot_id()
    ]
    rescue = next(record for record in records if record["act"] == "rescue")
    assert rescue["left"] == ["pump"]
    record_property("kernel's start until safe, s", round(rescue["t"], 1))
    assert audit.verify(HOME)[1] == ""


def test_what_was_accepted_is_answered_once_and_the_reminder_is_told_late(record_property):
    began = time.monotonic()
    lab.wait_for(lambda: rows(UNANSWERED) == [(0,)], "all is answered", 300.0)
    record_property("accepted before the cut", len(CUT["accepted"]))
    record_property("told before the cut", len(CUT["told"]))
    answers = Counter(key for (key,) in rows(ANSWERED))
    record_property("answered in all", sum(answers.values()))
    assert set(CUT["accepted"]) <= set(answers)
    assert {key: count for key, count in answers.items() if count != 1} == {}
    letters = _letters()
    record_property("wait for all of it, s", round(time.monotonic() - began, 1))
    told = Counter(found[1] for letter in letters if (found := re.match(r"For chat '([a-z]+-\d+)': ", letter)))
    assert {key: count for key, count in told.items() if count != 1} == {}
    assert set(CUT["accepted"]) - set(CUT["told"]) <= set(told)
    record_property("told again", len(set(told) & set(CUT["told"])))
    assert set(told) & set(CUT["told"]) <= set(CUT["told"][-1:])
    late = [letter for letter in letters if REMINDER in letter]
    record_property("the reminder", late)
    assert len(late) == 1
    assert "ago" in late[0]


def _letters() -> list[str]:
    """Open a chat, and hear everything that waits there for somebody."""
    terminal = ipc.connect(HOME, 2.0)
    terminal.say({"do": "attach", "session": DEFAULT_SESSION})
    letters: list[str] = []

    def all_heard() -> bool:
        while words := terminal.next():
            letters.append(str(words.get("message", "")))
        return any(REMINDER in letter for letter in letters) and rows("SELECT count(*) FROM outbox") == [(0,)]

    lab.wait_for(all_heard, "all letters are told", 120.0)
    return letters


def test_its_databases_are_sound():
    for path in HOME.glob("*.db"):
        with closing(sqlite3.connect(path, timeout=60)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path


def test_it_is_taken_out_again():
    done(*PICOCLAW, "service", "uninstall")
    assert {path.name for path in DROP_INS.iterdir()} == {"lab.conf"}
    assert shown("ActiveState") == "inactive"
    assert (HOME / "state.db").stat().st_size
    assert STATE.exists()
