"""The audit is a chain that shows every change, and the only state: what it says is read back as it was."""

import json
import os
import resource

import pytest

from picoclaw.outputs import audit
from picoclaw.outputs.limits import OnPeriod
from picoclaw.security import hash_chain


@pytest.fixture
def clock(monkeypatch):
    """Boot and time that the test moves."""

    class Now:
        t, boot = 1000.0, "one"

        def at(self, t, boot=None):
            self.t, self.boot = t, boot or self.boot

    now = Now()
    monkeypatch.setattr(audit, "boottime", lambda: now.t)
    monkeypatch.setattr(audit, "read_boot_id", lambda: now.boot)
    return now


def lines(home):
    return (home / audit.AUDIT_FILE).read_bytes().splitlines()


def test_a_chain(tmp_path):
    for act in ("start", "on", "off"):
        audit.write_record(tmp_path, act, name="pump")
    assert audit.verify(tmp_path) == (3, "")
    assert [json.loads(line)["act"] for line in lines(tmp_path)] == ["start", "on", "off"]
    assert (tmp_path / audit.AUDIT_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "good"),
    [
        (lambda found: [found[0].replace(b"start", b"Start"), *found[1:]], 1),
        (lambda found: [found[0], *found[2:]], 1),
        (lambda found: [found[0], found[2], found[1]], 1),
        (lambda found: [*found[:2], b"", found[2]], 2),
        (lambda found: [*found[:2], b"\0" * 9, found[2]], 2),
        (lambda found: [*found, found[2]], 3),
    ],
)
def test_a_change_is_seen(tmp_path, change, good):
    for act in ("start", "on", "off"):
        audit.write_record(tmp_path, act)
    (tmp_path / audit.AUDIT_FILE).write_bytes(b"\n".join(change(lines(tmp_path))) + b"\n")
    count, fault = audit.verify(tmp_path)
    assert (count, f"line {good + 1} " in fault) == (good, True), fault


@pytest.mark.parametrize("torn", [b'{"act": "on', b"\0" * 300, b"{", b'{"act": "on"}'])
def test_a_torn_line_is_set_aside(tmp_path, torn):
    audit.write_record(tmp_path, "start")
    with (tmp_path / audit.AUDIT_FILE).open("ab") as file:
        file.write(torn)
    audit.write_record(tmp_path, "on")
    assert audit.verify(tmp_path) == (3, "")
    assert [json.loads(line)["act"] for line in lines(tmp_path)] == ["start", "torn", "on"]
    assert json.loads(lines(tmp_path)[1])["why"] == torn[-200:].decode()


def test_a_file_that_is_only_torn(tmp_path):
    (tmp_path / audit.AUDIT_FILE).write_bytes(b"{")
    audit.write_record(tmp_path, "start")
    assert audit.verify(tmp_path) == (2, "")


def test_a_line_longer_than_what_is_read_at_once(tmp_path):
    audit.write_record(tmp_path, "on", why="x" * 200_000)
    audit.write_record(tmp_path, "off")
    assert audit.verify(tmp_path) == (2, "")


def test_a_long_file_begins_anew_with_what_was(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(audit, "MAX_SIZE", 1000)
    history = {"pump": [OnPeriod(3.0, 4.0), OnPeriod(990.0)]}
    for n in range(60):
        audit.append_records(tmp_path, [audit.make_record("refused", why=str(n))], history)
    count, fault = audit.verify(tmp_path)
    assert fault == ""
    assert len(audit.list_files(tmp_path)) == audit.MAX_FILES + 1
    assert count < 60, "the oldest are gone"
    assert audit.replay(tmp_path) == history
    assert json.loads(lines(tmp_path)[0])["act"] == "rotated"


def test_several_processes_make_one_chain(tmp_path):
    children = []
    for child in range(4):
        pid = os.fork()
        if pid == 0:
            for n in range(25):
                audit.write_record(tmp_path, "on", name=str(child), n=n)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert audit.verify(tmp_path) == (100, "")


def test_a_process_that_is_stuck_with_the_lock_holds_nobody_up_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(hash_chain, "LOCK_TIMEOUT_S", 0.02)
    audit.write_record(tmp_path, "start")
    with (
        hash_chain.open_chain_end(tmp_path / audit.AUDIT_FILE),
        pytest.raises(OSError, match="locked by another process"),
    ):
        audit.write_record(tmp_path, "on")
    assert audit.verify(tmp_path) == (1, "")


def test_a_full_disk_leaves_no_half_line(tmp_path):
    """A limit on the file's size stands for the disk: a part of the line is written, then no more."""
    audit.write_record(tmp_path, "start")
    before = (tmp_path / audit.AUDIT_FILE).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            audit.write_record(tmp_path, "on")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / audit.AUDIT_FILE).read_bytes() == before
    audit.write_record(tmp_path, "off")
    assert audit.verify(tmp_path) == (2, "")


ACTS = [
    (10, "on", {"seconds": 60}),
    (20, "off", {}),
    (30, "on", {"seconds": 50}),
    (40, "renew", {"seconds": 100}),
]


@pytest.mark.parametrize(
    ("acts", "periods"),
    [
        (ACTS[:1], [OnPeriod(10)]),
        (ACTS[:2], [OnPeriod(10, 20)]),
        (ACTS, [OnPeriod(10, 20), OnPeriod(30)]),
        ([*ACTS, (45, "safe", {})], [OnPeriod(10, 20), OnPeriod(30, 45)]),
        ([*ACTS, (45, "start", {})], [OnPeriod(10, 20), OnPeriod(30, 45)]),
        ([*ACTS, (45, "rescue", {})], [OnPeriod(10, 20), OnPeriod(30, 45)]),
        ([*ACTS, (45, "refused", {"rule": "who"})], [OnPeriod(10, 20), OnPeriod(30)]),
        ([(5, "off", {})], []),
    ],
)
def test_within_a_boot_it_is_exact(tmp_path, clock, acts, periods):
    for t, act, more in acts:
        clock.at(t)
        audit.write_record(tmp_path, act, name="pump", **more)
    assert audit.replay(tmp_path).get("pump", []) == periods


def test_an_earlier_boot_ended_when_this_one_began(tmp_path, clock):
    """No date is needed: what happened cannot have happened later than that."""
    for t, act, more in ACTS:
        clock.at(t)
        audit.write_record(tmp_path, act, name="pump", **more)
    clock.at(5, "two")
    audit.write_record(tmp_path, "refused", name="pump")
    clock.at(7, "three")
    open_ended = [OnPeriod(-30 - 5, -20 - 5), OnPeriod(-100 - 5, 0 - 5)]
    assert audit.replay(tmp_path) == {"pump": open_ended}, "what nothing ended lasted as long as was asked for"


def test_lines_that_mean_nothing_are_passed_over(tmp_path, clock):
    (tmp_path / audit.AUDIT_FILE).write_bytes(
        b'nonsense\n[]\n{}\n{"t": "late"}\n{"t": 3, "boot": "one", "act": "on", "name": "pump"}\n'
    )
    assert audit.replay(tmp_path) == {"pump": [OnPeriod(3)]}


def test_nothing_has_happened_yet(tmp_path):
    assert audit.replay(tmp_path) == {}
    assert audit.verify(tmp_path) == (0, "")
