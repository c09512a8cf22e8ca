"""`picoclaw check`: what is spoilt is found, what can be repaired is repaired, and a home that is whole is left alone."""

import json
import os
from types import SimpleNamespace

import apsw
import pytest
from person import picoclaw_process
from test_repair import backed_up, filled, pages_of, spoil

from picoclaw.cli import maintenance as verb
from picoclaw.errors import StoreError, StoreNewer
from picoclaw.maintenance import repair
from picoclaw.outputs import audit as outputs
from picoclaw.security.audit import AuditLog
from picoclaw.store import database
from picoclaw.store.database import COPIES_FOLDER, Database
from picoclaw.workspace import prepare_home


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    prepare_home(folder)
    filled(folder)
    Database(folder / database.HISTORY_FILE, database.HISTORY_MIGRATIONS).close()
    AuditLog(folder).write("start")
    AuditLog(folder).write("stop")
    outputs.write_record(folder, "start")
    monkeypatch.setenv("PICOCLAW_HOME", str(folder))
    return folder


def bad(home):
    return {finding.name: finding.detail for finding in repair.check_home(home) if finding.status == "bad"}


def picture(home):
    return {
        p.relative_to(home): (p.read_bytes(), p.stat().st_mode)
        for p in home.rglob("*")
        if p.is_file() and not p.name.endswith(("-shm", "-wal"))
    }


def test_a_whole_home_has_nothing_to_mend_and_is_not_changed(home):
    before = picture(home)
    found = list(repair.check_home(home))
    assert {finding.status for finding in found} == {"good"}
    assert {"state.db", "history.db", "audit.log", "outputs.audit", "reminders", "notes"} <= {f.name for f in found}
    assert repair.repair_findings(home) == []
    assert picture(home) == before


def test_a_home_that_is_not_there_is_no_fault(tmp_path):
    assert [finding.status for finding in repair.check_home(tmp_path / "nowhere")] == ["note"]


def leaf(home):
    page = [number for number, kind in pages_of(home / "state.db", "messages") if kind == "leaf"][2]
    spoil(home / "state.db", page)


def index_of_a_table(home):
    page = next(number for number, kind in pages_of(home / "state.db", "messages_of_turn") if kind == "leaf")
    spoil(home / "state.db", page)


def orphans(home):
    connection = apsw.Connection(str(home / "state.db"))
    connection.execute("INSERT INTO messages (turn, role, text) VALUES (4711, 'user', 'whose?')")
    connection.close()


def history(home):
    (home / "history.db").write_bytes(b"\0" * 9000)


def copy(home):
    (home / COPIES_FOLDER).mkdir()
    (home / COPIES_FOLDER / "state.db").write_bytes(b"\0" * 9000)


def memory(home):
    (home / "memory.db").write_bytes(b"\0" * 9000)


def seeds(home):
    (home / "seeds.json").write_bytes(b"\0" * 40)


def settings(home):
    (home / "config.toml").write_text("[limits]\nsteps = 3\n")
    (home / COPIES_FOLDER).mkdir()
    (home / COPIES_FOLDER / "config.toml").write_text("[limits]\nsteps = 3\n")
    (home / "config.toml").write_bytes(b"\0" * 40)


def torn_audit(home):
    with (home / "audit.log").open("ab") as file:
        file.write(b'{"n": 3, "at": "2026')


def torn_outputs(home):
    with (home / "outputs.audit").open("ab") as file:
        file.write(b'{"at": "2026')


def open_to_all(home):
    home.chmod(0o777)


def open_database(home):
    (home / "state.db").chmod(0o644)


REPAIRED = {
    leaf: "state.db",
    index_of_a_table: "state.db",
    orphans: "state.db",
    history: "history.db",
    copy: "last copy",
    memory: "memory.db",
    seeds: "seeds.json",
    settings: "config.toml",
    torn_audit: "audit.log",
    torn_outputs: "outputs.audit",
    open_to_all: "home",
    open_database: "state.db",
}


@pytest.mark.parametrize("harm", REPAIRED, ids=lambda harm: harm.__name__)
def test_what_is_spoilt_is_found_and_mended(home, harm):
    harm(home)
    assert REPAIRED[harm] in bad(home)
    done = repair.repair_findings(home)
    assert {finding.status for finding in done} == {"repaired"}
    assert REPAIRED[harm] in {finding.name for finding in done}
    assert bad(home) == {}


def changed_audit(home):
    text = (home / "audit.log").read_bytes()
    (home / "audit.log").write_bytes(text.replace(b'"start"', b'"smart"'))


def mistyped(home):
    (home / "config.toml").write_text("[limits]\nstep = 3\n")


def page_of_zeros(home):
    (home / "workspace/USER.md").write_bytes(b"# Owner\n\0\0\0\0")


def nobodys_settings(home):
    (home / "config.toml").write_bytes(b"\0" * 40)


def test_a_home_that_others_may_list_is_no_fault_and_is_closed_all_the_same(home):
    home.chmod(0o755)
    assert bad(home) == {}
    assert [(finding.status, finding.name) for finding in repair.repair_findings(home)] == [("repaired", "home")]
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("error", [StoreError("the disk is full"), StoreNewer("a newer picoclaw wrote it")], ids=repr)
def test_a_copy_that_cannot_be_looked_at_is_not_taken_away(home, monkeypatch, error):
    backed_up(home)

    def fails(*_):
        raise error

    monkeypatch.setattr(repair, "run_quick_check", fails)
    (found,) = (finding for finding in repair.check_databases(home) if finding.name == "last copy")
    assert (found.status, found.repair) == ("bad", None)
    repair.repair_findings(home)
    assert (home / COPIES_FOLDER / "state.db").exists()


def test_a_database_that_lies_on_a_disk_that_is_not_there_is_named(home):
    (home / "state.db").unlink()
    (home / "state.db").symlink_to("/media/nowhere/state.db")
    assert "state.db" in bad(home)


LEFT = {changed_audit: "audit.log", mistyped: "settings", page_of_zeros: "notes", nobodys_settings: "config.toml"}


@pytest.mark.parametrize("harm", LEFT, ids=lambda harm: harm.__name__)
def test_what_only_a_person_can_mend_is_named_and_left(home, harm):
    harm(home)
    before = picture(home)
    assert LEFT[harm] in bad(home)
    repair.repair_findings(home)
    assert LEFT[harm] in bad(home)
    assert picture(home) == before


def test_what_a_cut_left_half_made_is_swept_when_it_is_old(home):
    young, old = home / f".config.toml.{os.getpid()}.88", home / f"workspace/.USER.md.{os.getpid()}.88"
    dead = home / ".config.toml.99999999.88"
    young.write_text("x")
    dead.write_text("x")
    old.write_text("x")
    os.utime(old, (1, 1))
    (home / ".keep.me").write_text("x")
    assert [finding.name for finding in repair.repair_findings(home)] == ["leftovers"]
    assert young.exists()
    assert not old.exists()
    assert not dead.exists()  # whoever wrote it lives no more
    assert (home / ".keep.me").exists()


def test_a_database_in_use_is_not_mended_and_that_is_said(home):
    leaf(home)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        connection = apsw.Connection(str(home / "state.db"))
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        (done,) = repair.repair_findings(home)
        assert done.status == "bad"
        assert f"process {child} has it open" in done.detail
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


@pytest.mark.parametrize(("fix", "code"), [(False, 1), (True, 0)])
def test_the_verb_tells_and_its_exit_code_says_whether_all_is_well(home, capsys, fix, code):
    leaf(home)
    assert verb.run_check(SimpleNamespace(repair=fix, json=False)) == code
    told = capsys.readouterr().out
    assert ("repaired state.db: state.db was damaged" in told) is fix
    assert ("→ picoclaw check --repair" in told) is not fix


def test_programs_are_told_the_same(home, capsys):
    leaf(home)
    assert verb.run_check(SimpleNamespace(repair=False, json=True)) == 1
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["state.db"]["status"] == "bad"
    assert rows["state.db"]["fix"] == "picoclaw check --repair"
    assert rows["audit.log"]["status"] == "good"
    assert rows["audit.log"]["fix"] == ""


@pytest.mark.parametrize("names", [["state.db"], ["memory.db", "history.db"], ["skills.cache", "memory-feedback.json"]])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path, names):
    home = tmp_path / "picoclaw"
    (home / "workspace/memory").mkdir(parents=True)
    for name in names:
        os.mkfifo(home / name)
    for words in (["check"], ["prompt"], ["doctor", "--offline"], ["tool", "memory_search", '{"query": "x"}']):
        done = picoclaw_process(tmp_path, *words, timeout=60)
        assert "Traceback" not in done.stderr
