"""Backups and updates: what a person gets back, what is refused, and that a failed update leaves no trace."""

import argparse
import fcntl
import gzip
import io
import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import tracemalloc
from pathlib import Path

import pytest
import sweep
from person import Person, picoclaw, picoclaw_process

from picoclaw import maintenance
from picoclaw.cli import maintenance as update_verb
from picoclaw.maintenance import Installation, MaintenanceError, UpdateTrial, backup, database_copy, systemd, update
from picoclaw.security.audit import AuditLog
from picoclaw.store import database
from picoclaw.store.database import Database, Marks
from picoclaw.workspace import prepare_home


def lived_in(home, *marks):
    """A home with pages, a key, a database and what belongs in no backup."""
    prepare_home(home, restore=True)
    (home / "secrets.toml").write_text('api_key = "sk-0123456789abcdef"\n')
    (home / "secrets.toml").chmod(0o600)
    (home / "workspace/notes.md").write_text("the boiler is at 1.2 bar\n")
    (home / "memory.db").write_bytes(b"made again from the notes")
    (home / "run.lock").write_text("1\n")
    (home / "workspace/way out").symlink_to("/etc/passwd")
    database = Database(home / "state.db")
    for mark in marks:
        Marks(database).set(mark, "kept")
    return database


def marks_of(home):
    database = Database(home / "state.db")
    with database.reading() as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM marks")}
    database.close()
    return found


def names_in(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_what_is_restored_is_what_was_there(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home, "before").close()
    made = backup.write_backup(home, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names_in(file)[-1] == "backup.json"
    assert not {"home/memory.db", "home/run.lock", "home/workspace/way out"} & set(names_in(file))
    assert made.left == ["workspace/way out: a link, or no regular file"]
    (home / "workspace/notes.md").write_text("gone\n")
    after = Database(home / "state.db")
    Marks(after).set("after", "lost")
    after.close()
    kept, before = backup.restore_backup(file, home)
    assert kept.files == made.files
    assert (home / "workspace/notes.md").read_text() == "the boiler is at 1.2 bar\n"
    assert stat.S_IMODE((home / "secrets.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (marks_of(home), marks_of(before)) == ({"before"}, {"before", "after"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.tar.gz", "picoclaw", before.name]


def test_a_home_that_is_written_to_is_backed_up_as_it_was_at_one_moment(tmp_path):
    home = tmp_path / "picoclaw"
    database = lived_in(home)
    with database.transaction() as connection:
        connection.execute("CREATE TABLE pair (one INTEGER, other INTEGER)")
        connection.execute("INSERT INTO pair VALUES (0, 0)")
    database.close()
    begun, ends = threading.Event(), threading.Event()

    def count():
        writer, n = Database(home / "state.db"), 0
        while not ends.is_set():
            n += 1
            with writer.transaction() as connection:
                connection.execute("UPDATE pair SET one = ?", (n,))
                connection.execute("UPDATE pair SET other = ?", (n,))
            begun.set()
        writer.close()

    thread = threading.Thread(target=count)
    thread.start()
    begun.wait(10)
    try:
        for n in range(5):
            backup.write_backup(home, tmp_path / f"{n}.tar.gz")
    finally:
        ends.set()
        thread.join()
    seen = []
    for n in range(5):
        backup.restore_backup(tmp_path / f"{n}.tar.gz", tmp_path / f"home{n}")
        copy = Database(tmp_path / f"home{n}/state.db")
        with copy.reading() as connection:
            seen.append(connection.execute("SELECT one, other FROM pair").get)
        copy.close()
    assert all(one == other for one, other in seen)
    assert seen[-1][0] > seen[0][0] > 0


def test_secrets_that_were_left_out_stay_in_the_home(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home).close()
    (home / "mcp").mkdir(exist_ok=True)
    (home / "mcp/shed.token").write_text('{"access": "hidden"}')
    backup.write_backup(home, file, secrets=False)
    assert not {"home/secrets.toml", "home/mcp/shed.token"} & set(names_in(file))
    backup.restore_backup(file, home)
    assert "hidden" in (home / "mcp/shed.token").read_text()
    assert "sk-0123456789abcdef" in (home / "secrets.toml").read_text()


@pytest.mark.sweep
def test_a_restore_that_is_killed_leaves_a_whole_home(tmp_path):
    """Before whichever step: the home is what it was, or what it becomes; what looks like the home of before is it."""
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home, "before").close()
    backup.write_backup(home, file)
    database = Database(home / "state.db")
    Marks(database).set("after", "kept")
    database.close()
    for n in sweep.steps(4):
        pid = os.fork()
        if pid == 0:
            die_at(n)
            backup.restore_backup(file, home)
            os._exit(0)
        killed = os.waitpid(pid, 0)[1]
        shown = [p for p in tmp_path.glob("picoclaw.before-*") if not (p / ".unfinished").exists()]
        is_restored = marks_of(home) == {"before"}
        assert [marks_of(path) for path in shown] == [{"before", "after"}] * is_restored
        if is_restored:
            break
        assert (killed, marks_of(home)) == (signal.SIGKILL, {"before", "after"})
    backup.write_backup(home, tmp_path / "again.tar.gz")
    backup.restore_backup(tmp_path / "again.tar.gz", home)
    assert sorted(p.name.partition("-")[0] for p in tmp_path.iterdir()) == [
        *("again.tar.gz", "b.tar.gz", "picoclaw", "picoclaw.before", "picoclaw.before")
    ]
    assert not (home / ".unfinished").exists()
    assert n > 20


def die_at(n):
    """Have this process killed before its n-th change to the disk."""
    changes = itertools.count()
    steps = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlopen"}  # the last is what exchanges two names

    def heard(event, given):
        writes = event == "open" and given[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in steps) and next(changes) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


# --- what is no good backup ---


def packed(path, *members, files=None):
    """An archive of these (name, content) pairs, and a list that fits them unless another is given."""
    import hashlib

    sums = {n.removeprefix("home/"): hashlib.sha256(c).hexdigest() for n, c in members if isinstance(c, bytes)}
    about = json.dumps({"picoclaw": "0.1", "at": 1.8e9, "files": sums if files is None else files}).encode()
    with tarfile.open(path, "w:gz") as tar:
        for name, content in [*members, ("backup.json", about)]:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                tar.addfile(info)
    return path


GOOD = ("home/workspace/a.md", b"a\n")
HOSTILE = {
    "climbs": [GOOD, ("home/../../climbed", b"x")],
    "absolute": [GOOD, ("/tmp/absolute", b"x")],
    "absolute below": [GOOD, ("home//tmp/absolute", b"x")],
    "elsewhere": [GOOD, ("etc/passwd", b"x")],
    "link": [("home/workspace", (tarfile.SYMTYPE, "/tmp")), ("home/workspace/a.md", b"x")],
    "hard link": [("home/a", (tarfile.LNKTYPE, "/etc/passwd"))],
    "device": [("home/a", (tarfile.CHRTYPE, ""))],
    "sparse": [("home/a", (tarfile.GNUTYPE_SPARSE, ""))],
    "deep": [GOOD, ("home/" + "d/" * 1500 + "a.md", b"x")],
    "twice": [GOOD, GOOD],
    "a database that is none": [GOOD, ("home/state.db", b"garbage" * 200)],
    "an empty database": [("home/state.db", b"")],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_changes_nothing(tmp_path, kind):
    home = tmp_path / "picoclaw"
    lived_in(home, "mine").close()
    file = packed(tmp_path / "b.tar.gz", *HOSTILE[kind])
    before = sorted(p for p in tmp_path.rglob("*"))
    with pytest.raises(MaintenanceError):
        backup.restore_backup(file, home)
    assert sorted(p for p in tmp_path.rglob("*")) == before
    assert marks_of(home) == {"mine"}
    assert not Path("/tmp/absolute").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restore", "FILE", "--yes"], "is not a regular file"),
        (["backup", "--check", "FILE"], "is not a regular file"),
        (["skills", "check", "FOLDER"], "is not a regular file"),
        (["init", "--key-from", "FILE"], "is not a regular file"),
        (["init", "--telegram-token-from", "FILE"], "is not a regular file"),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path, words, said):
    os.mkfifo(tmp_path / "SKILL.md")
    named = {"FILE": str(tmp_path / "SKILL.md"), "FOLDER": str(tmp_path)}
    done = picoclaw_process(tmp_path, *(named.get(word, word) for word in words), timeout=30)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr
    assert "standard output" not in done.stderr


def test_an_update_from_a_pipe_is_refused_before_anything_is_installed(tmp_path):
    os.mkfifo(tmp_path / "p.whl")
    given = argparse.Namespace(source=str(tmp_path / "p.whl"), wheels=None)
    with pytest.raises(MaintenanceError, match="is neither a file nor a folder"):
        update_verb._install_update(Installation(tmp_path), tmp_path, None, given)


def headers(kind, size, count):
    """An archive of so many headers, each of so many bytes that become nothing in it."""
    raw = io.BytesIO()
    for _ in range(count):
        info = tarfile.TarInfo("header")
        info.type, info.size = kind, size
        raw.write(info.tobuf())
        raw.write(b"0" * size + b"\0" * (-size % 512))
    return raw.getvalue()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
@pytest.mark.parametrize(("size", "count"), [(30_000_000, 1), (0, 3000)])
def test_headers_of_a_backup_take_no_memory_and_no_stack(tmp_path, kind, size, count):
    file = tmp_path / "b.tar.gz"
    file.write_bytes(gzip.compress(headers(kind, size, count), 1))
    tracemalloc.start()
    try:
        with pytest.raises(MaintenanceError, match="no whole backup"):
            backup.verify_backup(file)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_what_lies_too_deep_is_named_and_not_taken(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home, "before").close()
    for depth in (99, 100):
        place = home / "workspace" / "/".join("d" * (depth - 1))
        place.mkdir(parents=True, exist_ok=True)
        (place / "a.md").write_text("x")
    made = backup.write_backup(home, file)
    assert [line for line in made.left if "folders deep" in line] == [line for line in made.left if "100 " in line]
    assert sum("folders deep" in line for line in made.left) == 1
    backup.restore_backup(file, tmp_path / "again")
    assert (tmp_path / "again/workspace" / "/".join("d" * 98) / "a.md").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "no whole backup"),
        (lambda data: b"", "no whole backup"),
        (lambda data: b"hello\n" * 100, "no whole backup"),
        (lambda data: data[:2000] + bytes(byte ^ 255 for byte in data[2000:2100]) + data[2100:], "nothing was changed"),
        (lambda data: data[:-6] + bytes([data[-6] ^ 1]) + data[-5:], "nothing was changed"),  # gzip's own checksum
    ],
)
def test_a_damaged_backup_is_named(tmp_path, damage, said):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home).close()
    backup.write_backup(home, file)
    file.write_bytes(damage(file.read_bytes()))
    for attempt in (lambda: backup.verify_backup(file), lambda: backup.restore_backup(file, home)):
        with pytest.raises(MaintenanceError, match=said):
            attempt()
    assert (home / "workspace/notes.md").exists()


def test_a_backup_is_read_to_its_last_byte(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home).close()
    backup.write_backup(home, file)
    file.write_bytes(file.read_bytes()[:-6])
    with pytest.raises(MaintenanceError, match="nothing was changed"):
        backup.verify_backup(file)


def test_a_list_that_names_more_than_there_is_refuses_the_backup(tmp_path):
    file = packed(tmp_path / "b.tar.gz", GOOD, files={"workspace/a.md": "0", "gone.md": "1"})
    with pytest.raises(MaintenanceError, match="is damaged"):
        backup.verify_backup(file)


def test_a_backup_from_a_newer_picoclaw_is_refused(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    database = lived_in(home)
    with database.transaction() as connection:
        connection.execute("INSERT INTO migrations VALUES ('m999_from_the_future', 'now')")
    database.close()
    backup.write_backup(home, file)
    with pytest.raises(MaintenanceError, match=r"newer picoclaw.*m999_from_the_future"):
        backup.restore_backup(file, tmp_path / "other")
    assert not (tmp_path / "other").exists()


# --- who uses it just now ---


def test_a_home_in_use_is_not_replaced(tmp_path):
    home, file = tmp_path / "picoclaw", tmp_path / "b.tar.gz"
    lived_in(home).close()
    backup.write_backup(home, file)
    assert database_copy.list_home_users(home) == []
    code = "import sys; from pathlib import Path; from picoclaw.store.database import Database\n"
    code += "d = Database(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, home / "state.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(MaintenanceError, match=rf"in use by process {other.pid} \(state.db\)"):
            backup.restore_backup(file, home)
    with (home / "run.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert database_copy.list_home_users(home) == ["the daemon"]
        with pytest.raises(
            MaintenanceError, match="by the daemon: stop it first, with `sudo picoclaw service stop`, or"
        ):
            backup.restore_backup(file, home)
    backup.restore_backup(file, home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user's home to care for")
def test_root_cares_for_a_home_with_the_rights_of_its_owner():
    with tempfile.TemporaryDirectory(prefix="picoclaw-", dir="/tmp") as folder:
        above = Path(folder)
        above.chmod(0o755)
        (above / "users").mkdir()
        home, file, foreign = above / "users/picoclaw", above / "b.tar.gz", above / "foreign"
        lived_in(home, "mine").close()
        foreign.mkdir(mode=0o700)
        for path in (above / "users", home, *home.rglob("*")):
            os.chown(path, 12345, 12345, follow_symlinks=False)
        backup.write_backup(home, file)
        file.chmod(0o644)
        backup.restore_backup(file, home)
        update._snapshot_databases(home)
        found = [p for p in (home, *home.rglob("*")) if p.lstat().st_uid != 12345]
        assert (found, (home / update.SNAPSHOT_FOLDER / "state.db").exists()) == ([], True)
        assert os.geteuid() == 0
        (home / update.SNAPSHOT_FOLDER / "state.db").unlink()
        (home / update.SNAPSHOT_FOLDER).rmdir()
        (home / update.SNAPSHOT_FOLDER).symlink_to(foreign)  # where the home's owner must not write
        with pytest.raises(MaintenanceError):
            update._snapshot_databases(home)
        assert not list(foreign.iterdir())


# --- the commands ---


def test_the_commands(tmp_path):
    lived_in(tmp_path / "picoclaw", "mine").close()
    file = tmp_path / "b.tar.gz"
    made = picoclaw(tmp_path, "backup", str(file))
    assert (made.returncode, made.stderr) == (0, "not taken: workspace/way out: a link, or no regular file\n")
    assert "it holds your keys, keep it to yourself" in made.stdout
    assert "name another file" in picoclaw(tmp_path, "backup", str(file)).stderr
    assert "is complete: " in picoclaw(tmp_path, "backup", "--check", str(file)).stdout
    refused = picoclaw(tmp_path, "restore", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--yes" in refused.stderr
    done = picoclaw(tmp_path, "restore", "--yes", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "delete it when you do not miss anything" in done.stdout
    assert picoclaw(tmp_path, "chat", "--board", "sim", "-m", "hello").returncode == 0


def test_a_backup_leaves_out_no_file_of_the_owners_for_its_name(tmp_path):
    home = tmp_path / "picoclaw"
    lived_in(home).close()
    mine = ["uv.lock", "data.db-wal", "list.sock", "state.db", ".old.1.2"]
    (home / "workspace/mine").mkdir()
    for name in mine:
        (home / "workspace/mine" / name).write_text("mine")
    backup.write_backup(home, tmp_path / "b.tar.gz")
    assert {f"home/workspace/mine/{name}" for name in mine} <= set(names_in(tmp_path / "b.tar.gz"))
    assert "home/run.lock" not in names_in(tmp_path / "b.tar.gz")


class Deleting(io.BytesIO):
    """A stream during whose writing somebody deletes a file."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def write(self, data):
        if self.tell() > 100_000:
            self.path.unlink(missing_ok=True)
        return super().write(data)


def test_what_is_deleted_during_a_backup_does_not_end_it(tmp_path):
    home = tmp_path / "picoclaw"
    lived_in(home).close()
    (home / "workspace/a.bin").write_bytes(os.urandom(500_000))
    (home / "workspace/z.txt").write_text("soon gone")
    stream = Deleting(home / "workspace/z.txt")
    backup.stream_backup(home, stream)
    assert not stream.path.exists()
    (tmp_path / "b.tar.gz").write_bytes(stream.getvalue())
    backup.verify_backup(tmp_path / "b.tar.gz")


def test_a_home_behind_a_link_stays_behind_it(tmp_path):
    home, link = tmp_path / "disk/picoclaw", tmp_path / "picoclaw"
    lived_in(home, "before").close()
    link.symlink_to(home)
    backup.write_backup(link, tmp_path / "b.tar.gz")
    _, before = backup.restore_backup(tmp_path / "b.tar.gz", link)
    assert link.is_symlink()
    assert before.parent == home.parent
    assert marks_of(home) == {"before"}


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e99", "soon"])
def test_an_update_is_watched_for_a_time_that_there_is(tmp_path, seconds):
    refused = picoclaw(tmp_path, "update", f"--watch={seconds}")
    assert refused.returncode == 2
    assert "is not a length of time; write it like 90s" in refused.stderr


def test_a_backup_goes_into_a_pipe(tmp_path):
    lived_in(tmp_path / "picoclaw").close()
    with (tmp_path / "b.tar.gz").open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "picoclaw", "backup", "-"],
            env={**os.environ, "PICOCLAW_HOME": str(tmp_path / "picoclaw")},
            stdout=file,
            timeout=60,
            cwd="/",
        )
    assert done.returncode == 0
    assert backup.verify_backup(tmp_path / "b.tar.gz").files > 5


def test_a_person_is_asked_before_a_home_is_replaced(tmp_path):
    lived_in(tmp_path / "picoclaw").close()
    backup.write_backup(tmp_path / "picoclaw", tmp_path / "b.tar.gz")
    (tmp_path / "picoclaw/workspace/notes.md").unlink()
    with Person(tmp_path, "restore", str(tmp_path / "b.tar.gz")) as person:
        person.sees("kept beside it. [y/N]")
        person.types("n\n")
        person.sees("Nothing was changed.")
        assert person.leaves() == 1
    assert not (tmp_path / "picoclaw/workspace/notes.md").exists()


@pytest.mark.parametrize("verb", ["update", "uninstall"])
def test_a_checkout_is_neither_updated_nor_removed(tmp_path, verb):
    done = picoclaw(tmp_path, verb)
    assert (done.returncode, done.stdout) == (1, "")
    assert "was not installed by install.sh" in done.stderr


def test_nothing_but_a_home_is_purged(tmp_path):
    (tmp_path / "picoclaw").mkdir()
    (tmp_path / "picoclaw/holiday.jpg").touch()
    done = picoclaw(tmp_path, "uninstall", "--purge", "--yes")
    assert "is not a home of picoclaw's" in done.stderr
    assert (tmp_path / "picoclaw/holiday.jpg").exists()
    lived_in(tmp_path / "picoclaw").close()
    assert picoclaw(tmp_path, "uninstall", "--purge", "--yes").stdout == f"removed {tmp_path / 'picoclaw'}\n"
    assert not (tmp_path / "picoclaw").exists()


# --- updates: versions that are scripts, and a systemd that is one too ---

VERSION = """#!/bin/sh
shift 2
case "$1" in
--version) echo "picoclaw {name}" ;;
chat) exit {chat} ;;
doctor) echo '{rows}' ; exit 1 ;;
esac
"""

SYSTEMCTL = """#!/bin/sh
# remembers what it was told in {folder}/said; a version that is listed in {folder}/dies restarts all the time
now=$(basename "$(readlink {root}/current)")
echo "$1 $now" >> {folder}/said
case "$1" in
is-active) exit 0 ;;
show) echo "ExecStart={{ path={root}/current/bin/picoclaw ; argv[]=x ; }}"
      echo "Environment=A=b PICOCLAW_HOME=/srv/claw C=d"
      n=0; grep -qx "$now" {folder}/dies && n=$(wc -l < {folder}/said)
      echo "ActiveState=active"; echo "NRestarts=$n" ;;
start) ! grep -qx "$now" {folder}/refuses ;;
esac
"""


def row(what, mark="bad"):
    return json.dumps({"status": mark, "name": what, "detail": "", "fix": ""})


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Two versions side by side, the old one in use, and a service that is started and stopped."""
    where = Installation(tmp_path / "root")

    def version(name, *, chat=0, rows="[]"):
        python = where.python(name)
        python.parent.mkdir(parents=True)
        python.write_text(VERSION.format(name=name, chat=chat, rows=rows))
        python.chmod(0o755)

    version("old", rows=f"[{row('embeddings')}]")
    where.point("current", "old")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dies", "refuses", "said"):
        (tools / name).touch()
    (tools / "systemctl").write_text(SYSTEMCTL.format(folder=tools, root=where.root))
    (tools / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return where, version, tools


def switched(where, home, seconds=0.01):
    update.switch_version(where, "new", home, systemd.find_running_service(), seconds, lambda _: None)


@pytest.mark.sweep
@pytest.mark.skipif(
    not sweep.IS_WHOLE, reason="makes an environment, which takes seven seconds of a processor: make sweep"
)
def test_a_version_that_is_made_shows_how_far_it_is_and_leaves_nothing_when_it_fails(tmp_path, installed):
    where, _, _ = installed
    for number in range(2000):
        (where.versions / "old" / f"{number}.py").touch()
    drawn = []
    with pytest.raises(MaintenanceError, match="pip failed; nothing was changed"):
        update.build_version(where, "no-such-thing", ("--no-index",), lambda *how: drawn.append(how))
    assert drawn == sorted(drawn)
    assert 0 < drawn[-1][0] < drawn[-1][1]
    assert drawn[-1][1] > 2000
    assert [path.name for path in where.versions.iterdir()] == ["old"]


def test_a_good_version_is_used_and_the_old_one_kept(tmp_path, installed):
    where, version, tools = installed
    home = tmp_path / "home"
    lived_in(home, "mine").close()
    version("new")
    assert update.try_version(where.python("new"), where.python("old"), home) == "picoclaw new"
    switched(where, home)
    assert (where.get_version("current"), where.get_version("previous"), where.trial()) == ("new", "old", None)
    assert not list(home.glob(".backup-*"))
    assert not (home / update.SNAPSHOT_FOLDER).exists()
    acts = [line for line in (tools / "said").read_text().splitlines() if line.startswith("st")]
    assert acts == ["stop old", "start new"]
    version("half-made")
    where.tidy()
    assert sorted(p.name for p in where.versions.iterdir()) == ["new", "old"]


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"chat": 3}, "`picoclaw chat` ended with 3"),
        ({"rows": f"[{row('state.db')}]"}, "reports problems that .*: state.db"),
        ({"rows": "no JSON"}, "gave no findings"),
    ],
)
def test_a_version_that_fails_its_trial_is_never_used(tmp_path, installed, faults, said):
    where, version, _ = installed
    lived_in(tmp_path / "home").close()
    version("new", **faults)
    with pytest.raises(MaintenanceError, match=said):
        update.try_version(where.python("new"), where.python("old"), tmp_path / "home")
    assert not list((tmp_path / "home").glob(".backup-*"))


def test_what_was_wrong_before_is_no_fault_of_the_new_one(tmp_path, installed):
    where, version, _ = installed
    lived_in(tmp_path / "home").close()
    version("new", rows=f"[{row('embeddings')}, {row('rules.toml', 'note')}, {row('disk wear')}]")
    update.try_version(where.python("new"), where.python("old"), tmp_path / "home")


@pytest.mark.parametrize("fault", ["dies", "refuses"])
@pytest.mark.parametrize("migrates", [True, False])
def test_a_service_that_does_not_stay_up_goes_back(tmp_path, installed, fault, migrates):
    """What was written meanwhile stays, unless only the new version can read it; then it is kept aside."""
    where, version, tools = installed
    home = tmp_path / "home"
    lived_in(home, "mine").close()
    version("new")
    (tools / fault).write_text("new\n")
    real = systemd.Service.do

    def and_writes(self, act):
        if act == "start" and where.get_version("current") == "new":
            database = Database(home / "state.db")
            Marks(database).set("meanwhile", "kept")
            if migrates:
                with database.transaction() as connection:
                    connection.execute("INSERT INTO migrations VALUES ('m999', 'now')")
            database.close()
        real(self, act)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systemd.Service, "do", and_writes)
        with pytest.raises(MaintenanceError, match="went back to old"):
            switched(where, home)
    assert (where.get_version("current"), where.trial()) == ("old", None)
    assert marks_of(home) == ({"mine"} if migrates else {"mine", "meanwhile"})
    assert len(list(home.glob("state.db.newer-*"))) == migrates
    acts = [line for line in (tools / "said").read_text().splitlines() if line.startswith("st")]
    assert acts == ["stop old", "start new", "stop new", "start old"]


def test_an_update_that_was_cut_off_can_be_taken_back(tmp_path, installed):
    """The power goes while the new version is watched."""
    where, version, _ = installed
    home = tmp_path / "home"
    lived_in(home, "mine").close()
    version("new")
    cut = f"""
import os, sys
from pathlib import Path
from picoclaw.maintenance import systemd, update
from picoclaw.maintenance import Installation
update.switch_version(Installation(Path({str(where.root)!r})), "new", Path({str(home)!r}), systemd.find_running_service(), 9, lambda _: os._exit(9))
"""
    assert subprocess.run([sys.executable, "-c", cut], timeout=60).returncode == 9
    assert where.get_version("current") == "new"
    assert where.trial() == UpdateTrial("new", "old", home)
    update.roll_back(where, where.trial(), systemd.find_running_service())
    assert (where.get_version("current"), where.trial()) == ("old", None)
    assert marks_of(home) == {"mine"}


def test_only_the_service_of_this_installation_is_touched(installed):
    where, _, _ = installed
    assert systemd.find_service(str(where.root)).home() == "/srv/claw"
    assert systemd.find_service(f"{where.root}/current/bin/picoclaw").runs()
    assert systemd.find_service(str(where.root)[:-1], "") is None


def test_a_version_is_tried_where_there_is_no_home_yet(tmp_path, installed):
    where, version, _ = installed
    version("new")
    assert update.try_version(where.python("new"), where.python("old"), tmp_path / "none") == "picoclaw new"
    switched(where, tmp_path / "none")
    assert (where.get_version("current"), (tmp_path / "none").exists()) == ("new", False)


def test_the_same_version_again_is_not_taken_for_a_new_one(installed):
    where, version, _ = installed
    version("new")
    for name in ("old", "new"):
        folder = where.versions / name / "lib/python3.11/site-packages/picoclaw"
        (folder / "__pycache__").mkdir(parents=True)
        (folder / "app.py").write_text("x = 1\n")
        (folder / "__pycache__/app.pyc").write_text(name)
        (folder.parent / "RECORD").write_text(name)
        (folder.parent / "direct_url.json").write_text(name)
    assert update.is_same_version(where, "old", "new")
    (folder / "app.py").write_text("x = 2\n")
    assert not update.is_same_version(where, "old", "new")
    (folder / "app.py").write_text("x = 1\n")
    (folder / "more.py").touch()
    assert not update.is_same_version(where, "old", "new")


def test_the_installer_explains_itself():
    installer = Path(__file__).parents[1] / "install.sh"
    for word in ("--help", "-h"):
        done = subprocess.run([installer, word], capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Installs picoclaw into an environment of its own")
        assert "--wheels DIR" in done.stdout
        assert "set -eu" not in done.stdout
    done = subprocess.run([installer, "--helpme"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, "unknown option --helpme" in done.stderr) == (1, True)


def test_only_one_update_at_a_time(tmp_path, installed):
    where, _, _ = installed
    with where.lock(), pytest.raises(MaintenanceError, match="being changed by another"), where.lock():
        pass
    with where.lock():
        pass


def test_an_installation_is_known_by_its_folders(tmp_path, installed):
    where, _, _ = installed
    assert maintenance.find_installation(str(where.versions / "old")).root == where.root
    assert maintenance.find_installation(sys.prefix) is None
    (where.root / "current").unlink()
    assert maintenance.find_installation(str(where.versions / "old")) is None


def test_the_history_is_kept_too(tmp_path):
    home = tmp_path / "picoclaw"
    lived_in(home).close()
    Database(home / database.HISTORY_FILE, database.HISTORY_MIGRATIONS).close()
    backup.write_backup(home, tmp_path / "b.tar.gz")
    assert {"home/state.db", "home/history.db"} <= set(names_in(tmp_path / "b.tar.gz"))


def test_another_installations_unit_is_not_uninstalled(tmp_path, installed, monkeypatch):
    where, _, _ = installed
    units = tmp_path / "systemd/user"
    units.mkdir(parents=True)
    unit = units / "picoclaw.service"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for program, own in ((f"{where.root}/current/bin/picoclaw", True), ("/opt/other/current/bin/picoclaw", False)):
        unit.write_text(f"[Service]\nExecStart={program} run\n")
        assert (update_verb.find_own_unit(where) == unit) is own
    assert update_verb.find_own_unit(None) == unit


def test_what_takes_long_shows_a_person_how_far_it_is(tmp_path):
    home = tmp_path / "picoclaw"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace/big.bin").write_bytes(bytes(4_000_000))
    file = str(tmp_path / "b.tar.gz")
    AuditLog(home).write("check")
    words_of_each = ("backup", file), ("backup", "--check", file), ("restore", "--yes", file), ("audit", "--verify")
    for words in words_of_each:
        with Person(tmp_path, *words) as person:
            assert person.leaves() == 0
        percents = [int(found) for found in re.findall(r"\r\[[# ]{30}\] +(\d+) %", person.seen)]
        assert percents == sorted(set(percents)), words
        assert percents[-1] == 100, words
