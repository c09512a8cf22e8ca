"""`picoclaw init` as its owner runs it: what it makes, what it leaves alone, and what it offers."""

import hashlib
import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from person import PICOCLAW, environment, picoclaw
from rights import ordinary_user

from picoclaw import cli
from picoclaw.resources import shipped
from picoclaw.workspace import newer, prepare
from picoclaw.workspace.seeds import MEETING, SEEDS

TEMPLATES = shipped("templates") / "workspace"


def state(folder):
    return {p: (p.lstat().st_mtime_ns, p.lstat().st_ino) for p in [folder, *folder.rglob("*")]}


def outdated(home, *names):
    """Make it look as if pages had been seeded from other templates than today's."""
    path = home / "seeds.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps(known | {name: hashlib.sha256(b"older").hexdigest() for name in names}))


def test_what_is_made_is_said_and_a_second_time_nothing_is(tmp_path):
    home = tmp_path / "picoclaw"
    done = picoclaw(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    made = [home, home / "workspace", *(home / "workspace" / n for n in (MEETING, *SEEDS)), home / "config.toml"]
    assert done.stdout.splitlines()[:-1] == [f"made {path}" for path in made]
    before = state(home)
    done = picoclaw(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:-1] == [f"{home} is complete; nothing was changed"]
    assert state(home) == before


def test_a_deleted_page_comes_back_but_the_first_meeting_only_on_purpose(tmp_path):
    workspace = tmp_path / "picoclaw/workspace"
    picoclaw(tmp_path, "init")
    for name in ("SOUL.md", MEETING):
        (workspace / name).unlink()
    assert picoclaw(tmp_path, "chat", "--board", "sim", "-m", "hello").returncode == 0
    assert not (workspace / "SOUL.md").exists()
    assert f"made {workspace / 'SOUL.md'}\nSettings" in picoclaw(tmp_path, "init").stdout
    assert not (workspace / MEETING).exists()
    assert f"made {workspace / MEETING}\nSettings" in picoclaw(tmp_path, "init", "--first-meeting").stdout
    assert "nothing was changed" in picoclaw(tmp_path, "init", "--first-meeting").stdout
    (workspace / MEETING).write_text("\n")
    assert f"made {workspace / MEETING}\n" in picoclaw(tmp_path, "init", "--first-meeting").stdout


def test_a_newer_template_is_named_until_the_page_is_the_same(tmp_path):
    home = tmp_path / "picoclaw"
    picoclaw(tmp_path, "init")
    page = home / "workspace/SOUL.md"
    page.write_text("mine\n")
    outdated(home, "SOUL.md", "AGENTS.md")
    for _ in range(2):
        done = picoclaw(tmp_path, "init")
        assert "note: picoclaw has a newer text for SOUL.md\n      → picoclaw init --diff\n" in done.stdout
        assert (done.returncode, page.read_text()) == (0, "mine\n")
    before = state(home)
    taken = patched(home / "workspace", picoclaw(tmp_path, "init", "--diff").stdout.encode())
    assert taken.returncode == 0, taken.stderr
    assert page.read_bytes() == (TEMPLATES / "SOUL.md").read_bytes()
    assert {p for p, s in state(home).items() if before.get(p) != s} == {page, home / "workspace"}
    assert "a newer text" not in picoclaw(tmp_path, "init").stdout
    done = picoclaw(tmp_path, "init", "--diff")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no template is newer than the page that was made from it\n"


def patched(folder, diff):
    """Apply a diff as the owner would."""
    command = ["patch", "-p0"] if shutil.which("patch") else ["git", "apply", "-p0", "--unsafe-paths"]
    return subprocess.run(command, cwd=folder, input=diff, capture_output=True, timeout=60)


MINE = [
    b"",
    b"no end of line",
    b"one\r\ntwo\r\n",
    b"form\x0cfeed\x1c and \xe2\x80\xa8 line separator\n",
    b"\xff not UTF-8\n",
    b"--- AGENTS.md\n+++ AGENTS.md\n@@ -1 +1 @@\n-x\n",
    b"x\n" * 2000,
]


@pytest.mark.parametrize("mine", MINE)
@pytest.mark.parametrize("theirs", [b"new\n", b"new, without end", b"cr\r\nlf\n\n\n"])
@pytest.mark.parametrize("name", ["AGENTS.md", "memory/MEMORY.md"])
def test_patch_makes_the_template_out_of_any_page(tmp_path, mine, theirs, name):
    home, templates = tmp_path / "home", shutil.copytree(TEMPLATES, tmp_path / "templates")
    prepare(home, templates=templates)
    page = home / "workspace" / name
    page.write_bytes(mine)
    (templates / name).write_bytes(theirs)
    done = patched(home / "workspace", newer(home, templates))
    assert done.returncode == 0, done.stderr
    assert page.read_bytes() == theirs
    assert newer(home, templates) == b""


def test_a_page_that_cannot_be_compared_is_left_out_of_the_diff(tmp_path):
    home = tmp_path / "picoclaw"
    prepare(home)
    for name, change in {
        "AGENTS.md": Path.mkdir,
        "SOUL.md": os.mkfifo,
        "TOOLS.md": lambda path: path.write_bytes(b"x" * 1_000_001),
        "USER.md": lambda path: None,
    }.items():
        (home / "workspace" / name).unlink()
        change(home / "workspace" / name)
    outdated(home, "AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md")
    done = picoclaw(tmp_path, "init", "--diff")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_diff_cannot_drive_the_terminal(tmp_path):
    home = tmp_path / "picoclaw"
    prepare(home)
    (home / "workspace/SOUL.md").write_text("red \x1b[31m\n")
    outdated(home, "SOUL.md")
    child, screen = pty.fork()
    if child == 0:
        os.execvpe(PICOCLAW[0], [*PICOCLAW, "init", "--diff"], environment(tmp_path))
    seen = b""
    try:
        while more := os.read(screen, 65536):
            seen += more
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(screen)
    assert b"-red \\x1b[31m" in seen
    assert b"\x1b" not in seen


def test_where_nothing_can_be_written_init_says_so_and_chat_goes_on(tmp_path, monkeypatch, capsys):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    for folder in (workspace, tmp_path):
        folder.chmod(0o500)
    with ordinary_user():
        assert cli.run(["init"]) == 1
        made = capsys.readouterr()
        cli.run(["chat", "--board", "sim", "-m", "how warm is it?"])
        said = capsys.readouterr()
    for folder in (tmp_path, workspace):
        folder.chmod(0o700)
    assert made.err == f"picoclaw: {workspace / MEETING} cannot be made: no permission: check its owner and mode\n"
    assert made.out.startswith("note: not made yet, so that the shipped text serves: AGENTS.md, ")
    assert "°C" in said.out
    assert list(workspace.iterdir()) == []


def test_a_page_that_is_not_shown_is_named(tmp_path):
    page = tmp_path / "picoclaw/workspace/SOUL.md"
    page.parent.mkdir(parents=True)
    page.write_bytes(b"\xff")
    done = picoclaw(tmp_path, "init")
    assert done.returncode == 0
    assert f"note: {page} cannot be read: it is not UTF-8; save it as UTF-8 text\n" in done.stdout
    assert page.read_bytes() == b"\xff"
