"""`picoclaw init` as its owner runs it: what it makes, what it leaves alone, and what it offers."""

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from daemon_kit import Daemon
from person import PICOCLAW, Person, environment, picoclaw
from rights import ordinary_user

from picoclaw import cli
from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.hw.sim import SimBoard
from picoclaw.workspace import ONBOARDING_PAGE, TEMPLATE_PAGES, diff_templates, keep_pages, prepare_home

TEMPLATES = find_shipped("templates") / "workspace"


def state(folder):
    return {p: (p.lstat().st_mtime_ns, p.lstat().st_ino) for p in [folder, *folder.rglob("*")]}


def outdated(home, **texts):
    """Make it look as if pages had been seeded from other templates than today's."""
    path = home / "seeds.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps(known | {f"{name}.md": text for name, text in texts.items()}))


def test_what_is_made_is_said_and_a_second_time_nothing_is(tmp_path):
    home = tmp_path / "picoclaw"
    done = picoclaw(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    made = [home / "workspace", *(home / "workspace" / n for n in (ONBOARDING_PAGE, *TEMPLATE_PAGES))]
    made += [home / "seeds.json", home / "config.toml", home / "policy.toml"]
    assert done.stdout.splitlines()[0] == f"made {home}, and in it {len(made)} files and folders"
    assert all(path.exists() for path in made)
    before = state(home)
    done = picoclaw(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{home} is complete; nothing was changed"
    assert state(home) == before


def test_it_ends_with_what_is_set_and_what_to_do_next(tmp_path):
    said = picoclaw(tmp_path, "init", "--zone", "Berlin", "--page", "network").stdout
    for row in (
        r"model +none;",
        "time zone +Europe/Berlin",
        "sensors +greenhouse, simulated",
        "page +network, port 8737",
    ):
        assert re.search(rf"^  {row}", said, re.MULTILINE), row
    steps = said.partition("What you can do next\n")[2]
    assert re.findall(r"^  ((?:sudo )?picoclaw [a-z]+)", steps, re.MULTILINE) == [
        "picoclaw chat",
        "picoclaw page",
        "sudo picoclaw service",
    ]


def test_a_second_time_it_asks_only_for_what_is_missing(tmp_path):
    picoclaw(tmp_path, "init", "--zone", "Berlin", "--page", "local")
    with Person(tmp_path, "init") as person:
        for question in ("Model: none", "Telegram bot's token"):
            person.sees(question)
            person.types("\n")
        assert not re.search("Time zone, or|Page in a browser", person.sees("What you can do next"))
        assert person.leaves() == 0


class LooseBoard(SimBoard):
    """A board on which parts answer that nobody has wired."""

    def wired(self):
        return {}


FOUND = {
    "one that says what it is": ("bme280", "answers like a BME280", ["porch"], "added porch: bme280"),
    "which is left": ("bme280", "answers like a BME280", [""], ""),
    "one that says nothing": ("bh1750", "It may be: ", ["bh1750", "window"], "added window: bh1750"),
    "and nobody knows": ("bh1750", "It may be: ", ["what?", ""], ""),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_part_that_answers_is_offered(name, tmp_path, monkeypatch, capsys):
    part, said, answers, done = FOUND[name]
    (tmp_path / "sim.toml").write_text(f'[parts.loose]\npart = "{part}"\n')
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    monkeypatch.setattr("picoclaw.hw.sim.SimBoard", LooseBoard)
    monkeypatch.setattr("builtins.input", lambda _: answers.pop(0))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("picoclaw.maintenance.setup.ask_settings", lambda *_, **__: [])
    assert cli.run(["init", "--board", "sim"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert answers == []
    assert (done in out) if done else not (tmp_path / "sensors.toml").exists()


def test_a_daemon_that_runs_is_told_of(tmp_path):
    with Daemon(tmp_path, "--board", "sim") as daemon:
        daemon.says("channels: ")
        done = picoclaw(tmp_path, "init", "--page", "local")
        assert "picoclaw runs with the settings of before" in done.stdout
        assert "restart" in done.stdout.partition("settings of before")[2] or "start it again" in done.stdout
        assert "settings of before" not in picoclaw(tmp_path, "init", "--zone", "Berlin").stdout


def test_reminders_of_a_chat_keep_their_time_of_day_when_init_sets_the_zone(tmp_path):
    said = "remind me every day at 7 to take pills", "remind me tomorrow at 9 to call", "list my reminders"
    for text in said[:2]:
        picoclaw(tmp_path, "chat", "--board", "sim", "-m", text)
    assert (
        "What was planned keeps its time of day in Asia/Tokyo: " in picoclaw(tmp_path, "init", "--zone", "Tokyo").stdout
    )
    listed = picoclaw(tmp_path, "chat", "--board", "sim", "-m", said[2]).stdout
    assert re.search(r" 09:00 \(in .*\) call\n1: every day at 07:00 \(Asia/Tokyo\), next .*07:00 \(in ", listed), listed
    assert "keeps its" not in picoclaw(tmp_path, "init", "--zone", "Berlin").stdout  # a journey


def test_a_deleted_page_comes_back_but_the_first_meeting_only_on_purpose(tmp_path):
    workspace = tmp_path / "picoclaw/workspace"
    picoclaw(tmp_path, "init")
    for name in ("SOUL.md", ONBOARDING_PAGE):
        (workspace / name).unlink()
    assert picoclaw(tmp_path, "chat", "--board", "sim", "-m", "hello").returncode == 0
    assert not (workspace / "SOUL.md").exists()
    assert f"made {workspace / 'SOUL.md'}\nSettings" in picoclaw(tmp_path, "init").stdout
    assert not (workspace / ONBOARDING_PAGE).exists()
    assert f"made {workspace / ONBOARDING_PAGE}\nSettings" in picoclaw(tmp_path, "init", "--first-meeting").stdout
    assert "nothing was changed" in picoclaw(tmp_path, "init", "--first-meeting").stdout
    (workspace / ONBOARDING_PAGE).write_text("\n")
    assert f"made {workspace / ONBOARDING_PAGE}\n" in picoclaw(tmp_path, "init", "--first-meeting").stdout


def test_what_is_new_is_offered_until_it_is_taken_or_turned_down(tmp_path):
    home = tmp_path / "picoclaw"
    picoclaw(tmp_path, "init")
    old = (TEMPLATES / "SOUL.md").read_text().replace("Calm, ", "")
    page = home / "workspace/SOUL.md"
    page.write_text(f"{old}Speaks of frogs.\n")
    outdated(home, SOUL=old, AGENTS="older\n")  # which the owner has changed in the same line
    (home / "workspace/AGENTS.md").write_text("older, and mine\n")
    before = state(home)
    for _ in range(2):
        done = picoclaw(tmp_path, "init")
        note = "note: picoclaw's text has changed for AGENTS.md, SOUL.md\n      → picoclaw init --diff, or"
        assert note in done.stdout
        assert (done.returncode, state(home)) == (0, before)
    offered = picoclaw(tmp_path, "init", "--diff")
    assert offered.stderr.startswith(f"`picoclaw init --diff | patch -p0 -d {home / 'workspace'}` takes it")
    assert not [line for line in offered.stdout.splitlines() if line[0] == "-" and ("frogs" in line or "mine" in line)]
    patch = offered.stdout[offered.stdout.index("--- SOUL.md") :]
    patched(home / "workspace", patch.encode())
    assert page.read_text() == (TEMPLATES / "SOUL.md").read_text() + "Speaks of frogs.\n"
    assert (home / "workspace/AGENTS.md").read_text() == "older, and mine\n"
    done = picoclaw(tmp_path, "init")
    assert f"made {home / 'seeds.json'}\nnote: picoclaw's text has changed for AGENTS.md\n" in done.stdout
    page.write_text("mine again\n")
    assert picoclaw(tmp_path, "init", "--keep").stdout == "AGENTS.md: kept as they are\n"
    done = picoclaw(tmp_path, "init")
    assert "nothing was changed" in done.stdout
    assert "has changed" not in done.stdout
    for option in ("--diff", "--keep"):
        done = picoclaw(tmp_path, "init", option)
        assert (done.returncode, done.stdout + done.stderr) == (0, "nothing is new in the templates of your pages\n")
    assert page.read_text() == "mine again\n"


def test_a_list_that_cannot_be_written_keeps_nothing(tmp_path):
    home = tmp_path / "home"
    prepare_home(home)
    (home / "workspace/SOUL.md").write_text("mine\n")
    outdated(home, SOUL="older\n")
    home.chmod(0o500)
    with ordinary_user(), pytest.raises(ConfigError, match=r"seeds\.json cannot be written: no permission"):
        keep_pages(home)
    home.chmod(0o700)
    assert keep_pages(home) == ["SOUL.md"]
    assert keep_pages(home) == []


def patched(folder, diff):
    """Apply a diff as the owner would."""
    command = ["patch", "-p0"] if shutil.which("patch") else ["git", "apply", "-p0", "--unsafe-paths"]
    return subprocess.run(command, cwd=folder, input=diff, capture_output=True, timeout=60)


OLD = b"# Page\n\n- Name:\n- Zone:\n\none\ntwo\nthree\nfour\nfive\n"
NEWER = {
    "more at the end": OLD + b"six\nseven\n",
    "more at the head": b"zero\n" + OLD,
    "more in the middle": OLD.replace(b"two\n", b"two\nand a half\n"),
    "less": OLD.replace(b"three\n", b""),
    "less at the end": OLD.removesuffix(b"five\n"),
    "another": OLD.replace(b"three", b"3"),
    "here and there": OLD.replace(b"Zone:", b"Time zone:").replace(b"four\n", b"") + b"six\n",
    "without an end": OLD.replace(b"four\nfive\n", b"4\nfive"),
}
MINE = {
    "nothing": lambda page: page,
    "lines before": lambda page: b"My own.\n\n" + page,
    "lines behind": lambda page: page + b"\nMy own.\n",
    "a field": lambda page: page.replace(b"- Name:", b"- Name: My own."),
    "line ends": lambda page: page.replace(b"# Page", b"# My own.").replace(b"\n", b"\r\n"),
    "no UTF-8": lambda page: b"\xff\x1c My own.\n\x0c\n" + page,
    "much": lambda page: b"x\n" * 2000 + b"My own.\n" + page,
}


@pytest.mark.parametrize("newer_", NEWER)
@pytest.mark.parametrize("mine", MINE)
@pytest.mark.parametrize("name", ["AGENTS.md", "memory/MEMORY.md"])
def test_patch_brings_what_is_new_into_an_owners_page(tmp_path, newer_, mine, name):
    home, templates = tmp_path / "home", shutil.copytree(TEMPLATES, tmp_path / "templates")
    (templates / name).write_bytes(OLD)
    prepare_home(home, templates=templates)
    page = home / "workspace" / name
    page.write_bytes(MINE[mine](OLD))
    assert diff_templates(home, templates) == b""
    (templates / name).write_bytes(NEWER[newer_])
    done = patched(home / "workspace", diff_templates(home, templates))
    assert done.returncode == 0, done.stdout
    assert page.read_bytes() == MINE[mine](NEWER[newer_].removesuffix(b"\n") + b"\n")
    assert diff_templates(home, templates) == b""
    prepare_home(home, restore=True, templates=templates)
    page.write_bytes(b"My own alone.\n")
    assert diff_templates(home, templates) == b""


def test_a_list_of_digests_is_understood(tmp_path):
    home = tmp_path / "home"
    prepare_home(home)
    known = json.loads((home / "seeds.json").read_text())
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in known.items()}
    (home / "seeds.json").write_text(json.dumps(digests))
    (home / "workspace/SOUL.md").unlink()
    assert (diff_templates(home), prepare_home(home)) == (b"", ([], ""))
    assert prepare_home(home, restore=True).made == [
        home / name for name in ("workspace/SOUL.md", "config.toml", "policy.toml")
    ]


def test_a_page_that_cannot_be_compared_is_left_out_of_the_diff(tmp_path):
    home = tmp_path / "picoclaw"
    prepare_home(home)
    for name, change in {
        "AGENTS.md": Path.mkdir,
        "SOUL.md": os.mkfifo,
        "TOOLS.md": lambda path: path.write_bytes(b"x" * 1_000_001),
        "USER.md": lambda path: None,
    }.items():
        (home / "workspace" / name).unlink()
        change(home / "workspace" / name)
    outdated(home, AGENTS="a", SOUL="b", TOOLS="c", USER="d")
    done = picoclaw(tmp_path, "init", "--diff")
    assert (done.returncode, done.stdout) == (0, "")
    (home / "workspace/SOUL.md").unlink()
    (home / "workspace/SOUL.md").write_text("mine\n")
    assert "--- SOUL.md\n" in picoclaw(tmp_path, "init", "--diff").stdout


def test_a_diff_cannot_drive_the_terminal(tmp_path):
    home = tmp_path / "picoclaw"
    prepare_home(home)
    (home / "workspace/SOUL.md").write_text("red \x1b[31m\n")
    outdated(home, SOUL="older\n")
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
    assert b" red \\x1b[31m" in seen
    assert b"\x1b" not in seen


@pytest.fixture
def interrupts():
    """A chat in this process ignores Ctrl-C at its end, because its process is over then."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


def test_where_nothing_can_be_written_init_says_so_and_chat_goes_on(tmp_path, monkeypatch, capsys, interrupts):
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
    assert (
        made.err == f"picoclaw: {workspace / ONBOARDING_PAGE} cannot be made: no permission: check its owner and mode\n"
    )
    assert made.out.startswith("note: not created yet, so the built-in text is used for: AGENTS.md, ")
    assert "°C" in said.out
    assert list(workspace.iterdir()) == []


ANSWERS = {
    "Model: none, ollama": ("other", lambda config: True),
    "Its address": ("http://127.0.0.1:1/v1", lambda config: config.model.base_url == "http://127.0.0.1:1/v1"),
    "The model's name": ("qwen", lambda config: config.model.name == "qwen"),
    "API key [none]": ("sk-0123456789abcdef", lambda config: config.api_key == "sk-0123456789abcdef"),
    "Time zone": ("tokyo", lambda config: "Asia/Tokyo" in (config.home / "workspace/USER.md").read_text()),
    "Telegram bot's token": ("123456:abcdefghijklmnopqrstuvwxyz", lambda config: config.telegram_token[:6] == "123456"),
    "Page in a browser": ("local", None),
}


@pytest.mark.parametrize("left", range(len(ANSWERS)))
def test_a_person_who_is_interrupted_keeps_what_was_answered(tmp_path, left):
    with Person(tmp_path, "init") as person:
        for question, (answer, _) in list(ANSWERS.items())[:left]:
            person.sees(question)
            person.types(f"{answer}\n")
        person.sees(list(ANSWERS)[left])
        for seconds in (5, 5, 60):  # one that comes between the question and the reading of the answer waits for more
            person.types("\x03")
            with suppress(AssertionError):
                person.sees("what is written so far stays, `picoclaw init --ask` asks again", seconds)
                break
        assert person.leaves() == 1
    config = load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})
    kept = [is_kept(config) for _, is_kept in list(ANSWERS.values())[:-1]]
    assert kept == [number < max(left, 1) for number in range(len(ANSWERS) - 1)]


def test_a_page_that_is_not_shown_is_named(tmp_path):
    page = tmp_path / "picoclaw/workspace/SOUL.md"
    page.parent.mkdir(parents=True)
    page.write_bytes(b"\xff")
    done = picoclaw(tmp_path, "init")
    assert done.returncode == 0
    assert f"note: {page} cannot be read: it is not UTF-8; save it as UTF-8 text\n" in done.stdout
    assert page.read_bytes() == b"\xff"
