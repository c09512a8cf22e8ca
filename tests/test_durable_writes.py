"""The few functions that write, and the proof that nothing in picoclaw writes without them."""

import ast
import errno
import os
import re
from pathlib import Path

import pytest
from rows import each_row
from test_house import nodes_of

from picoclaw import files

ROOT = Path(__file__).resolve().parents[1]

# --- every write goes through them ---

WRITING_OS = {
    *("write", "pwrite", "writev", "rename", "replace", "renames", "unlink", "remove", "link", "symlink", "truncate"),
    *("ftruncate", "mkdir", "makedirs", "rmdir", "removedirs", "sendfile", "copy_file_range", "mkfifo", "mknod"),
}
WRITING_PATH = {
    *("write_text", "write_bytes", "unlink", "rename", "touch", "mkdir", "rmdir", "hardlink_to", "symlink_to"),
}
WRITING_MODULES = {"tempfile", "shutil"}
LOOKING = {"which", "get_terminal_size", "disk_usage"}
WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}

MAY = {
    # what is only true while a process lives: a lock, a socket, a pipe, a lead
    "picoclaw/daemon/socket.py": "the daemon's socket",
    "picoclaw/daemon/process.py": "the daemon's lock and its number in it, and the lock of whoever samples",
    "picoclaw/automation/clock.py": "a pipe that wakes a thread",
    "picoclaw/outputs/stop.py": "the supervisor's emergency: the mark for it must not wait for a card",
    "picoclaw/outputs/supervisor/__main__.py": "the supervisor's socket and its words to its parent",
    "picoclaw/outputs/supervisor/worker.py": "its emergency mark, whose loss is seen in the audit, and pipes to its processes",
    "picoclaw/outputs/supervisor/leases.py": "takes its mark away; one that comes back switches off what is off. In an emergency no output waits for a card",
    "picoclaw/outputs/supervisor/__init__.py": "the supervisor's lock and socket",
    "picoclaw/outputs/supervisor/sensing.py": "a pipe between threads",
    "picoclaw/outputs/client.py": "the supervisor's own log, cut at its start",
    # what comes from another program, or is of no use any more
    "picoclaw/maintenance/import_home.py": "moves whole folders by one rename, and syncs what it was in; it is killed at every sync",
    "picoclaw/maintenance/household.py": "moves what a removed person has left; what a cut leaves is moved when the name is given again",
    "picoclaw/maintenance/foreign_homes.py": "a copy in a temporary folder, to be read",
    "picoclaw/mcp/client.py": "a server's own folder, which is made again where it is missing",
    "picoclaw/cli/mcp.py": "takes a server's token and folder away, once nothing names it",
    # what the kernel's files are told, which are no disk
    "picoclaw/hw/handles.py": "opens a bus's device file for its locks, and writes nothing",
    "picoclaw/hw/linux/__init__.py": "files of sysfs, and a GPIO chip",
    "picoclaw/hw/linux/buses.py": "an I2C or SPI bus, a serial port",
    "picoclaw/hw/sim/__init__.py": "an empty file for the locks of a simulated bus, and GPIO lines that processes of one test or trial share",
    # commands within walls, and pipes to them
    "picoclaw/security/sandbox_launcher.py": "says on its output why a command was not begun",
    "picoclaw/security/sandbox.py": "empty names for a command's mounts, which hold nothing",
    "picoclaw/tools/exec.py": "the same",
    # what is made beside the home and counts only when it is whole
    "picoclaw/maintenance/backup.py": "a backup: synced, and renamed when it is whole",
    "picoclaw/maintenance/__init__.py": "versions and links of an installation: one rename turns them",
    "picoclaw/maintenance/update.py": "versions on trial; what is cut off is tidied up by the next update",
    "picoclaw/cli/service.py": "systemd's unit, written when it is asked for and told so",
    "picoclaw/cli/maintenance.py": "takes all of it away",
    "picoclaw/cli/model.py": "homes of a test, thrown away after each request",
    # what is appended to, or marked, by rules of its own that tests/test_audit.py and others hold
    "picoclaw/security/audit.py": "the mark of the last record: in place, never synced, and allowed to be behind",
    "picoclaw/security/hash_chain.py": "a chain of records: cut back to its last whole line, and numbered anew under a lock",
    "picoclaw/tools/files.py": "the same",
    "picoclaw/shared_store/home.py": "a note that another board has deleted, with the folder synced; a lock",
    "picoclaw/shared_store/sync.py": "a pipe that wakes its own thread",
    # made under another name first
    "picoclaw/store/database.py": "a database is built under another name, and linked when it is whole",
    "picoclaw/maintenance/database_copy.py": "a copy of a database: built by SQLite, synced, then renamed",
    "picoclaw/maintenance/repair.py": "a damaged database gets a second name before the mended one takes its place",
    # what is deleted, where it does no harm if a power cut brings it back
    "picoclaw/shared_store/skills.py": "a skill of another board that was agreed to, in the place of one that is kept",
    "picoclaw/skills/__init__.py": "a pinned copy of a skill, which is taken back",
    "picoclaw/memory/versions.py": "old versions of a note, more than are kept",
    "picoclaw/workspace.py": "the first meeting's page, with the folder synced",
    "picoclaw/cli/__init__.py": "standard streams that were closed, opened on /dev/null",
    "picoclaw/maintenance/setup.py": "the editor's copy of the settings",
    "picoclaw/cli/chat.py": "the history of what was typed, readline's own",
}
"""Files that write by other means than picoclaw/files.py and the transactions of a database, and why they may."""


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def opens_to_write(call):
    """Tell of an `open` whether it writes, by the letters of its mode or the names of its flags."""
    said = [*call.args, *(keyword.value for keyword in call.keywords)]
    text = {node.value for given in said for node in ast.walk(given) if isinstance(node, ast.Constant)}
    flags = {node.attr for given in said for node in ast.walk(given) if isinstance(node, ast.Attribute)}
    modes = {mode for mode in text if isinstance(mode, str) and 0 < len(mode) < 4 and set(mode) <= set("rwxabt+")}
    return bool(flags & WRITING_FLAGS) or any(set(mode) & set("wax+") for mode in modes)


def writes(call):
    """Tell of a call whether it changes what is on a disk."""
    name = dotted(call.func)
    last = name.rpartition(".")[2]
    if name.startswith("os."):
        return last in WRITING_OS or (last in {"open", "fdopen"} and opens_to_write(call))
    if name.partition(".")[0] in WRITING_MODULES:
        return last not in LOOKING
    if last == "replace":  # a path's takes one name; those of texts, dates and records take more, or names
        return isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
    if last == "open":
        return opens_to_write(call)
    if isinstance(call.func, ast.Attribute) and not name and call.func.attr in WRITING_PATH:
        return True
    return isinstance(call.func, ast.Attribute) and last in WRITING_PATH


MAYBE = re.compile(rf"\b({'|'.join(WRITING_OS | WRITING_PATH | WRITING_MODULES | {'open', 'fdopen'})})\b")


def writers(path):
    text = path.read_text()
    if not MAYBE.search(text):
        return False
    nodes = nodes_of(path)
    assigned = [node for node in nodes if isinstance(node, ast.Assign)] if "flags" in text else []
    flags = [node for node in assigned if "flags" in ast.unparse(node.targets[0])]
    by_flags = any(flag in ast.unparse(node.value) for node in flags for flag in WRITING_FLAGS)
    return by_flags or any(writes(node) for node in nodes if isinstance(node, ast.Call))


@each_row(
    ("source", "expected"),
    [
        ("open(p, 'w')", True),
        ("open(p)", False),
        ("p.open('rb')", False),
        ("p.open('r+b')", True),
        ("p.open(mode='ab')", True),
        ("os.open(p, os.O_RDONLY)", False),
        ("os.open(p, os.O_RDWR | os.O_CLOEXEC)", True),
        ("os.fdopen(h, 'rb')", False),
        ("os.replace(a, b)", True),
        ("a.replace(b)", True),
        ("a.replace('x', 'y')", False),
        ("moment.replace(hour=0)", False),
        ("replace(config, a=1)", False),
        ("(home / NAME).unlink(missing_ok=True)", True),
        ("Path(x).write_text('y')", True),
        ("shutil.rmtree(p)", True),
        ("shutil.which('x')", False),
        ("tempfile.mkdtemp()", True),
    ],
)
def test_what_counts_as_writing(source, expected):
    assert writes(ast.parse(source, mode="eval").body) is expected


def test_nothing_writes_by_other_means():
    package = ROOT / "picoclaw"
    found = {str(path.relative_to(ROOT)) for path in package.rglob("*.py") if writers(path)}
    assert found - {"picoclaw/files.py"} == set(MAY)


SQLITE = {
    "maintenance/database_copy.py": "copies, whose content it does not change",
    "maintenance/repair.py": "masks secrets in the copy that it makes, and looks",
    "maintenance/doctor.py": "looks",
    "memory/index.py": "the index, which is made again",
}
"""Beside the store, whoever knows SQLite: a write elsewhere would not be one of Database's transactions."""


def test_sqlite_is_known_to_the_store_and_to_few_others():
    package = ROOT / "picoclaw"
    knows = {str(p.relative_to(package)) for p in package.rglob("*.py") if "\nimport apsw" in p.read_text()}
    assert {name for name in knows if not name.startswith("store/")} == set(SQLITE)


# --- a line is added ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"new\n"),
        (b"", b"new\n"),
        (b"old\n", b"old\nnew\n"),
        (b"to", b"to\nnew\n"),
        (b"old\nto", b"old\nto\nnew\n"),
    ],
)
def test_a_torn_line_does_not_swallow_the_next(tmp_path, before, after):
    path = tmp_path / "log"
    if before is not None:
        path.write_bytes(before)
    files.append_line(path, b"new\n")
    assert path.read_bytes() == after


@pytest.mark.parametrize("before", [b"old\n", b"to"])
def test_a_line_that_does_not_fit_leaves_the_file_as_it_was(tmp_path, before, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(before)
    written = []

    def short(file, data):
        if written:
            raise OSError(errno.ENOSPC, "no")
        written.append(data)
        return real(file, data[:2])

    real = os.write
    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="no"):
        files.append_line(path, b"a longer line\n")
    assert path.read_bytes() == before


# --- a file is taken away ---


def test_what_is_not_there_is_removed_already(tmp_path):
    files.remove_file(tmp_path / "nothing")
    (tmp_path / "there").write_text("x")
    files.remove_file(tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


# --- what gives way as the disk fills up ---


class Full:
    f_frsize, f_blocks = 4096, 1_000_000

    def __init__(self, free):
        self.f_bavail = free // 4096


@pytest.mark.parametrize(
    ("free", "given_up"),
    [
        (4_000_000_000, 0),
        (65_000_000, 0),
        (60_000_000, 1),
        (40_000_000, 2),
        (20_000_000, 3),
        (10_000_000, 4),
        (0, 4),
    ],
)
def test_the_order_in_which_things_give_way(tmp_path, monkeypatch, free, given_up):
    monkeypatch.setattr(os, "statvfs", lambda _: Full(free))
    for what in list(files.RESERVES)[:given_up]:
        with pytest.raises(files.DiskNearlyFull) as caught:
            files.check_reserve(what, tmp_path)
        assert f"nearly full, without room for {what}" in files.explain_os_error(caught.value)
    for what in list(files.RESERVES)[given_up:]:
        files.check_reserve(what, tmp_path)


def test_a_small_disk_keeps_less_back(tmp_path, monkeypatch):
    small = Full(400_000)
    small.f_blocks = 128
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    for what in files.RESERVES:
        files.check_reserve(what, tmp_path)


# --- errors in words ---


@each_row("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE, errno.EDQUOT, errno.EACCES])
def test_what_the_system_refuses_is_said_with_what_to_try(number):
    said = files.explain_os_error(OSError(number, os.strerror(number)))
    assert said != os.strerror(number)
    assert ":" in said
