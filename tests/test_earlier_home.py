"""A home of 2026-11-22, the oldest that opens: what it has in state.db is there, and means what it meant.

`data/home-2026-11-22.sql` was made by that version (`init`, `chat`, `cron`, `tool`, `approvals`, `run`), with some rows
added of what that day did not bring about.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import sweep
from person import picoclaw
from test_sessions import killed_at

from picoclaw.errors import StoreError
from picoclaw.messages import split_context
from picoclaw.schedules import Plan
from picoclaw.store.approvals import Approvals
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.jobs import Job, Jobs
from picoclaw.store.ledger import Ledger, LedgerKey, LedgerTotals
from picoclaw.store.pulse import Pulse

SQL = (Path(__file__).parent / "data/home-2026-11-22.sql").read_text()
SETTINGS = "# mine\n[helpers]\nsteps = 33\n\n[costs]\nday_tokens = 90000\n\n[telegram]\nallow = [4242]\n"
RULES = '[rules.frost]\nwhen = "greenhouse.temperature < 2"\nnotify = "It freezes"\n'


def make_earlier_database(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode = WAL;\n{SQL}")
    path.chmod(0o600)
    return path


@pytest.fixture
def path(tmp_path):
    return make_earlier_database(tmp_path / "state.db")


def read_shape(path):
    """Its tables by their columns, and its indexes; a table that was altered is written otherwise, and is the same."""
    with closing(apsw.Connection(str(path))) as connection:
        tables = list(
            connection.execute("SELECT name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema WHERE type = 'table'")
        )
        columns = {name: list(connection.execute("SELECT * FROM pragma_table_info(?)", (name,))) for name, _ in tables}
        indexes = list(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name"))
    return sorted(tables), columns, indexes


def test_a_home_of_before_is_there_as_it_was(tmp_path):
    home = tmp_path / "picoclaw"
    (home / "workspace/memory/202611").mkdir(parents=True)
    make_earlier_database(home / "state.db")
    (home / "config.toml").write_text(SETTINGS)
    (home / "rules.toml").write_text(RULES)
    (home / "workspace/memory/202611/20261127.md").write_text("# 2026-11-27\n\n- 04:55 the fuse of the pump is 3 A\n")

    def run(*words):
        done = picoclaw(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    out, told = run("cron")
    assert [line.split(")")[-1].strip() for line in out.splitlines()[:2]] == ["water the tomatoes", "feed the cat"]
    assert "command (write, network): df -h" in out
    assert told.endswith("config.toml: renamed [helpers] to [subagents]\n")
    assert (home / "config.toml").read_text() == SETTINGS.replace("helpers", "subagents")
    assert re.search(r"terminal \(open\), 6 turns: hello\n", run("sessions")[0])
    assert "remind me in 3 hours to water the tomatoes" in run("sessions", "show", "1")[0]
    assert "is below 2 °C: tell you 'It freezes'" in run("rules")[0]
    assert "the fuse of the pump is 3 A" in run("memory", "search", "fuse")[0]
    assert "plan.md" in run("policy", "always")[0]
    assert "1 [p1] mend the pump" in run("tool", "--board", "sim", "pulse", '{"action": "list"}')[0]
    assert run("check")[1] == ""


def test_what_changed_its_meaning_is_carried_over(path):
    with closing(Database(path)) as database:
        listed = [(item.text, item.priority) for item in Pulse(database).items()]
        assert listed == [("mend the pump", 1), ("usual", 5), ("low", 9)]
        jobs = [(job.number, job.kind, job.write, job.network, job.heading) for job in Jobs(database).all()]
        assert sorted(jobs) == [
            (1, "reminder", False, False, "Reminder:"),
            (2, "reminder", False, False, "Reminder:"),
            (4, "command", True, True, "Reminder:"),
        ]
        assert database.select("SELECT key, agent, person FROM sessions ORDER BY id") == [
            ("terminal", "", ""),
            ("subagent 12", "", ""),
            ("helper bees", "", ""),
        ]
        assert database.select("SELECT session FROM acts WHERE tool = 'exec'") == [("subagent 12",)]
        assert database.select("SELECT session, origin, listed FROM approvals WHERE id IN (1, 8) ORDER BY id") == [
            ("terminal", "owner", 1),
            ("subagent 12", "subagent", 8),
        ]
        assert Ledger(lambda: database).rows("2026-01-01", "2026-12-31") == {
            LedgerKey("2026-11-26", "openai:big", "subagent", "terminal", "", ""): LedgerTotals(1, 9, 1, 0, 0.0),
            LedgerKey("2026-11-26", "openai:big", "chat", "telegram", "", ""): LedgerTotals(3, 10, 5, 1, 0.5),
        }
        allowed = Approvals(database).always()  # not what a guest has asked for
        assert [(rule.number, rule.digest[:9], rule.agent, rule.whose) for rule in allowed] == [
            (1, "d32260743", "", ""),
            (2, "forgotten", "", ""),
        ]
        assert (allowed[1].question, allowed[1].at, allowed[1].by) == ("exec ls", 7.0, "telegram:1")


def test_it_has_the_tables_of_a_new_one_and_uses_no_number_again(path, tmp_path):
    Database(path).close()
    Database(tmp_path / "new.db").close()
    shape, new = read_shape(path), read_shape(tmp_path / "new.db")
    assert shape == new
    with closing(Database(path)) as database, database.transaction() as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_keys").get == 1
        numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    assert numbers == {
        "sessions": 3,
        "turns": 6,
        "acts": 11,
        "jobs": 4,
        "pulse": 4,
        "approvals": 8,
        "outbox": 4,
        "always": 2,
    }


def test_one_of_yesterday_is_left_as_it_is(path, tmp_path):
    """Its 33 migrations are known by the one that has replaced them."""
    Database(path).close()
    earlier = [f"m0{number:02}_earlier" for number in range(1, 33)] + ["m033_job_planners"]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM migrations")
        connection.executemany(
            "INSERT INTO migrations VALUES (?, '2026-11-26')",
            [
                (name,)
                for name in (
                    *earlier,
                    *re.findall(r"'(m0\d\d_\w+)'", SQL),
                    "m015_pulse_priority",
                    "m016_rights",
                    "m018_lists",
                    "m019_subagents",
                    "m029_whose",
                    "m032_standing_approvals",
                )
            ],
        )
        connection.commit()
        before = list(connection.iterdump())
    Database(path).close()
    with closing(sqlite3.connect(path)) as connection:
        added = [line for line in connection.iterdump() if line not in before]
    assert [re.sub("'20.*'", "NOW", line) for line in added] == [
        "INSERT INTO \"migrations\" VALUES('m035_tables',NOW);"
    ]


def test_one_that_was_made_by_the_migration_before_gets_what_it_lacks(tmp_path):
    path = tmp_path / "made/state.db"
    path.parent.mkdir()
    with closing(Database(path)) as database:
        Jobs(database).add(Job(0, "home", "tea", Plan("at", anchor=1.0)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN paused")
        connection.execute("UPDATE migrations SET name = 'm034_tables'")
        connection.commit()
    for _ in range(2):
        with closing(Database(path)) as database:
            assert [(job.payload, job.paused) for job in Jobs(database).all()] == [("tea", ())]


def test_an_older_one_is_refused_and_not_touched(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM migrations WHERE name = 'm014_ledger'")
        connection.commit()
        before = list(connection.iterdump())
    for _ in range(2):
        with pytest.raises(StoreError, match=r"state\.db was written by a picoclaw from before 2026-11-22"):
            Database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before


@pytest.mark.sweep
def test_an_upgrade_that_is_cut_off_is_done_again(path, tmp_path):
    before, cuts = read_shape(path), 0
    for statement in sweep.sample(range(4, 400), 16):
        if killed_at(statement, Database, path):
            cuts += 1
            with closing(apsw.Connection(str(path))) as connection:
                done = connection.execute("SELECT 1 FROM migrations WHERE name = 'm035_tables'").get
            assert (read_shape(path) == before) == (not done)
            if done:
                for file in tmp_path.glob("state.db*"):
                    file.unlink()
                make_earlier_database(path)
    assert cuts > sweep.take(5, 80)
    with closing(Database(path)) as database:
        texts = [split_context(said[0].text)[1] for said in History(database).turns("terminal")]
    assert (texts[0], len(texts)) == ("hello", 6)
