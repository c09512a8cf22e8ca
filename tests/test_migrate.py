"""`picoclaw migrate`: homes that other agents have made are shown, taken over once, gone on with, and given back."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import closing
from pathlib import Path

import foreign_homes
import pytest
import sweep
from foreign_homes import SKILL, TOKEN, make_go, make_nanobot, make_openclaw, write
from person import Person, picoclaw
from rows import each_row

from picoclaw.config import Config, load_config
from picoclaw.maintenance.foreign_homes import ABSENT_TOOLS, find_daemon, parse_json5, read_home
from picoclaw.memory.files import is_tainted
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import ForeignFiles
from picoclaw.store.jobs import Jobs

ROOT = Path(__file__).resolve().parents[1]
ORIGINS = {
    "nanobot": (".nanobot", make_nanobot),
    "openclaw": (".openclaw", make_openclaw),
    "older openclaw": (".openclaw", lambda root: make_openclaw(root, new=False)),
    "picoclaw": (".picoclaw", make_go),
}
NOT_COMPARED = re.compile(
    r"state\.db.*|before-migrate/.*|migrated/.*|.*\.lock|(?:wake|bell)-.*|skills\.cache|(?:.*/)?\.[^/]+\.\d+\.\d+"
)


def tree(folder, *, timed=False):
    """Every file with its content, and with its time where nothing may touch it."""
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns if timed else 0) for p in files}


def own_tree(home):
    return {name: data for name, (data, _) in tree(home).items() if not NOT_COMPARED.fullmatch(name)}


def jobs_of(home):
    if not (home / "state.db").exists():
        return []
    with closing(Database(home / "state.db")) as database:
        return Jobs(database).all()


def rows_of(home):
    return [
        (job.session, job.payload, job.kind, job.plan.kind, job.plan.text, job.plan.zone, job.enabled)
        for job in jobs_of(home)
    ]


def make(name, user):
    folder, maker = ORIGINS[name]
    maker(user / folder)
    return user / folder, name.rpartition(" ")[2]


DAILY = ("terminal", "rsync -a /data /mnt/usb", "command", "cron", "0 3 * * *", "", False)
DENTIST = ("terminal", "Dentist at 10", "reminder", "at", "", "", True)
EXPECTED = {
    "nanobot": [
        ("terminal", "Water", "fresh", "cron", "0 18 * * *", "Europe/Berlin", True),
        ("terminal", "Check the tank level", "fresh", "every", "7200", "", True),
        ("telegram:4242", "Report", "fresh", "cron", "0 7 * * 1-5", "", False),
        ("matrix:!shed:example.org", "Noon", "fresh", "cron", "0 12 * * *", "", False),
        ("terminal", "Dentist at 10", "fresh", "at", "", "", True),
    ],
    "openclaw": [
        ("telegram:4242", "Say how warm the greenhouse is", "fresh", "cron", "30 7 * * 1-5", "Europe/Berlin", False),
        ("terminal", "Check the tank", "fresh", "every", "7200", "", True),
        DENTIST,
        DAILY,
        ("terminal", "Month report", "fresh", "cron", "0 9 * * 5L", "", True),
    ],
    "picoclaw": [
        ("telegram:4242", "Water the tomatoes", "fresh", "every", "3600", "", False),
        ("telegram:4242", "df -h", "command", "cron", "0 4 * * *", "Europe/Berlin", False),
        ("terminal", "Dentist", "fresh", "at", "", "", True),
    ],
}
LEFT = {
    "nanobot": ["allow @mallory", "allow *", "channel slack", "MCP servers: 1", "job dream: that program", "job gone: it was due"],
    "openclaw": ["job seconds: '*/30", "job dreaming: that", "job heartbeat-main: that", "allow group:-100", "conversations: 1"],
    "picoclaw": ["channel discord", "further models: 1", "skill hardware: it came with", "conversations: 1"],
}  # fmt: skip


@pytest.mark.parametrize("name", ORIGINS)
def test_it_is_shown_taken_once_and_given_back(name, tmp_path):
    source, kind = make(name, tmp_path)
    home, before = tmp_path / "picoclaw", tree(source, timed=True)
    shown = picoclaw(tmp_path, "migrate")
    assert shown.returncode == 0
    assert "Nothing was changed." in shown.stdout
    assert "+Short answers, and no jokes about plants." in shown.stdout
    for words in LEFT[kind]:
        assert words in shown.stdout, words
    assert TOKEN not in shown.stdout
    assert "key-" not in shown.stdout
    assert not home.exists()

    done = picoclaw(tmp_path, "migrate", "--from", kind, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "paused" in done.stdout
    assert rows_of(home) == EXPECTED[kind]
    workspace = home / "workspace"
    assert (workspace / "SOUL.md").read_text() == foreign_homes.SOUL
    assert (workspace / "memory/MEMORY.md").read_text() == foreign_homes.MEMORY
    days = sorted((workspace / "memory").glob("2026*/*.md"))
    assert days
    assert all(is_tainted(day.read_text()) for day in days)
    assert not (home / "secrets.toml").exists()
    assert not (workspace / "skills").exists()
    settings = tomllib.loads((home / "config.toml").read_text())
    assert settings["telegram"]["allow"][0] == 4242
    assert settings["model"]["base_url"] == (
        "https://openrouter.ai/api/v1" if kind == "picoclaw" else "http://127.0.0.1:18111/v1"
    )

    once = own_tree(home), rows_of(home)
    again = picoclaw(tmp_path, "migrate", "--from", kind, "--yes")
    assert again.returncode == 0
    assert "Nothing was changed" in again.stdout
    assert f"{3 if kind == 'nanobot' else 2} keys" in again.stdout
    assert "frost-watch" in again.stdout
    assert (own_tree(home), rows_of(home)) == once

    more = picoclaw(tmp_path, "migrate", "--from", kind, "--yes", "--keys", "--skill", "frost-watch")
    assert more.returncode == 0, more.stderr
    config = load_config({"PICOCLAW_HOME": str(home)})
    assert config.telegram_token == TOKEN
    assert config.api_key.startswith("key-")
    if kind == "nanobot":
        assert (config.matrix.homeserver, config.matrix.allow) == ("https://matrix.example.org", ["@ann:example.org"])
        assert config.matrix_token == "mx"
    assert (home / "secrets.toml").stat().st_mode & 0o777 == 0o600
    assert "Watch for frost" in picoclaw(tmp_path, "skills").stdout
    with closing(Database(home / "state.db")) as database:
        foreign = [Path(one.path).name for one in ForeignFiles(database).all()]
    assert foreign == (["frost.sh"] if kind == "openclaw" else [])

    back = picoclaw(tmp_path, "migrate", "--undo")
    assert back.returncode == 0, back.stderr
    assert jobs_of(home) == []
    fresh = tmp_path / "fresh"
    picoclaw(fresh, "init", "--no-questions")
    assert own_tree(home) == own_tree(fresh / "picoclaw")
    assert not list((home / "before-migrate").glob("*/[0-9]*"))
    assert tree(source, timed=True) == before
    assert "nothing was taken over" in picoclaw(tmp_path, "migrate", "--undo").stderr


def test_a_person_is_asked_for_each_page_key_and_skill(tmp_path):
    make("openclaw", tmp_path)
    answers = {
        "Take this over?": "y",
        "Take SOUL.md": "y",
        "Take USER.md": "n",
        "Take HEARTBEAT.md": "n",
        "Take memory/MEMORY.md": "y",
        "Take the API key": "n",
        "Take the token": "y",
        "Take the skill frost-watch?": "y",
    }
    with Person(tmp_path, "migrate", "--from", "openclaw", columns=200) as person:
        for question, answer in answers.items():
            person.sees(question)
            person.sees("[y/N] ")
            person.types(f"{answer}\n")
        assert person.leaves() == 0
    home = tmp_path / "picoclaw"
    assert tomllib.loads((home / "secrets.toml").read_text()) == {"telegram_token": TOKEN}
    assert "Ada" not in (home / "workspace/USER.md").read_text()
    assert (home / "workspace/skills/frost-watch/SKILL.md").read_text() == SKILL.format(name="openclaw")
    assert rows_of(home)[0][0] == "telegram:4242"
    assert rows_of(home)[0][-1]  # its bot is here, so it is not paused


def test_what_is_ours_stays(tmp_path):
    home = tmp_path / "picoclaw"
    make("nanobot", tmp_path)
    write(
        home,
        {
            "config.toml": '[model]\nbase_url = "http://127.0.0.1:9/v1"\nname = "mine"\n\n[telegram]\nallow = [5]\n',
            "workspace/memory/MEMORY.md": "- my own note\n",
            "workspace/SOUL.md": "my soul\n",
            "workspace/skills/frost-watch/SKILL.md": "---\nname: frost-watch\ndescription: mine\n---\nmine\n",
        },
    )
    (home / "secrets.toml").write_text('telegram_token = "2:mine"\n')
    (home / "secrets.toml").chmod(0o600)
    picoclaw(tmp_path, "cron", "add", "Water", "--in", "2h")
    before, rows = own_tree(home), rows_of(home)
    done = picoclaw(tmp_path, "migrate", "--from", "nanobot", "--yes", "--keys")
    assert done.returncode == 0, done.stderr
    for words in (
        "left: model qwen2.5-coder-7b: yours stays",
        "Telegram token: yours stays",
        "skill frost-watch: there is a workspace",
    ):
        assert words in done.stdout, done.stdout
    settings = tomllib.loads((home / "config.toml").read_text())
    assert settings["model"]["name"] == "mine"
    assert settings["telegram"]["allow"] == [5, 4242, 777]
    memory = (home / "workspace/memory/MEMORY.md").read_text()
    assert memory.startswith("- my own note\n")
    assert foreign_homes.MEMORY in memory
    assert picoclaw(tmp_path, "migrate", "--undo").returncode == 0
    assert own_tree(home) == before
    assert rows_of(home) == rows


def test_what_was_changed_since_is_left_by_the_way_back(tmp_path):
    make("openclaw", tmp_path)
    home = tmp_path / "picoclaw"
    picoclaw(tmp_path, "migrate", "--from", "openclaw", "--yes")
    page = home / "workspace/SOUL.md"
    page.write_text("edited since\n")
    back = picoclaw(tmp_path, "migrate", "--undo")
    assert "left as it is, for it was changed since: workspace/SOUL.md" in back.stdout
    assert page.read_text() == "edited since\n"
    assert jobs_of(home) == []


# --- killed at any point ---


def compared(user, home_name):
    """What has to be the same, wherever it was killed: the list of seeded templates is another program's part."""
    files = own_tree(user / home_name)
    files.pop("seeds.json")
    return files, rows_of(user / home_name)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["nanobot", "openclaw", "picoclaw"])
def test_a_run_that_is_killed_anywhere_is_gone_on_with(name, tmp_path):
    """Killed at each 28th sync on the way, in a sweep at each seventh, gone on with, taken back while being killed again: nothing twice, nothing lost."""
    whole = tmp_path / "whole"
    _, kind = make(name, whole)
    words = ("migrate", "--from", kind, "--yes", "--keys", "--skill", "frost-watch")
    environment = {"PICOCLAW_HOME": str(whole / ".picoclaw")} if kind == "picoclaw" else {}
    home_name = ".picoclaw" if kind == "picoclaw" else "picoclaw"
    assert picoclaw(whole, *words, **environment).returncode == 0
    wanted = compared(whole, home_name)
    for at in range(len(name) - 6, 400, sweep.take(28, 7)):
        user = tmp_path / f"at-{at}"
        make(name, user)
        home = user / home_name
        variables = {"PICOCLAW_HOME": str(home)}
        child_died = _die(user, at, variables, *words)
        done = picoclaw(user, *words, **variables)
        assert done.returncode == 0, (at, done.stderr)
        assert compared(user, home_name) == wanted, at
        _die(user, at % 40 + 1, variables, "migrate", "--undo", "--from", kind)
        back = picoclaw(user, "migrate", "--undo", "--from", kind, **variables)
        assert back.returncode == 0 or "nothing was taken over" in back.stderr, (at, back.stderr)
        if kind == "picoclaw":
            assert (home / "config.json").exists(), at
        else:
            assert jobs_of(home) == []
            assert not (home / "secrets.toml").exists()
        shutil.rmtree(user)
        if not child_died:
            return
    raise AssertionError("it has more syncs than were tried")


def _die(user, at, variables, *words):
    if (child := os.fork()) == 0:
        count, sync = 0, os.fsync

        def fsync(handle):
            nonlocal count
            count += 1
            if count == at:
                os._exit(9)
            sync(handle)

        os.fsync = fsync
        os._exit(picoclaw(user, *words, **variables).returncode)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_full_disk_ends_it_in_a_sentence_and_it_goes_on_with_room(tmp_path, mount_disk):
    disk = mount_disk(tmp_path / "disk", "4m")
    make("openclaw", tmp_path)
    home = disk / "home"
    variables = {"PICOCLAW_HOME": str(home)}
    picoclaw(tmp_path, "init", "--no-questions", **variables)
    filler = disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True, check=False)
    done = picoclaw(tmp_path, "migrate", "--from", "openclaw", "--yes", **variables)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    filler.unlink()
    done = picoclaw(tmp_path, "migrate", "--from", "openclaw", "--yes", **variables)
    assert done.returncode == 0, done.stderr
    assert rows_of(home) == EXPECTED["openclaw"]


# --- homes in one folder ---


def test_a_folder_that_both_programs_call_theirs(tmp_path):
    """The Go program's is never made ours by the way, is moved as a whole, and comes back as it was."""
    home = make_go(tmp_path / ".picoclaw")
    before, variables = tree(home), {"PICOCLAW_HOME": str(home)}
    for words in (
        ("chat", "-m", "hello", "--board", "sim"),
        ("init", "--no-questions"),
        ("migrate", "--from", "nanobot", "--yes"),
    ):
        make_nanobot(tmp_path / ".nanobot")
        refused = picoclaw(tmp_path, *words, **variables)
        assert refused.returncode == 1
        assert "sipeed/picoclaw" in refused.stderr
        assert tree(home) == before
    shown = picoclaw(tmp_path, "migrate", **variables).stdout
    assert f"first  the folder is moved to {home}-sipeed" in shown
    assert tree(home) == before
    assert picoclaw(tmp_path, "migrate", "--from", "picoclaw", "--yes", **variables).returncode == 0
    assert tree(f"{home}-sipeed") == before
    assert not (home / "config.json").exists()
    assert rows_of(home) == EXPECTED["picoclaw"]
    again = picoclaw(tmp_path, "migrate", "--from", "picoclaw", "--yes", **variables)
    assert "Nothing was changed" in again.stdout
    assert picoclaw(tmp_path, "migrate", "--undo", **variables).returncode == 0
    assert tree(home) == before


def test_a_folder_in_which_both_have_lived(tmp_path):
    home = make_go(tmp_path / ".picoclaw")
    write(home, {"config.toml": "[telegram]\nallow = [5]\n"})
    variables = {"PICOCLAW_HOME": str(home)}
    done = picoclaw(tmp_path, "migrate", "--from", "picoclaw", "--yes", **variables)
    assert done.returncode == 0, done.stderr
    assert "both programs use those in this workspace" in done.stdout
    beside = tmp_path / ".picoclaw-sipeed"
    assert {path.name for path in beside.iterdir()} == {".security.yml", "config.json", "workspace"}
    assert (home / "workspace/SOUL.md").read_text() == foreign_homes.SOUL
    assert (home / "workspace/memory/202611/20261120.md").read_text() == foreign_homes.DAY
    assert tomllib.loads((home / "config.toml").read_text())["telegram"]["allow"] == [5, 4242]
    once = own_tree(home), rows_of(home)
    again = picoclaw(tmp_path, "migrate", "--from", "picoclaw", "--yes", **variables)
    assert "Nothing was changed" in again.stdout
    assert (own_tree(home), rows_of(home)) == once
    assert picoclaw(tmp_path, "migrate", "--undo", **variables).returncode == 0
    assert (home / "config.json").exists()
    assert not beside.exists()


# --- bad input ---


def spoil_link(source):
    (source / "secret.md").write_text("not in the workspace\n")
    outside = source.parent / "outside.md"
    outside.write_text("SECRET OUTSIDE\n")
    (source / "workspace/SOUL.md").unlink()
    (source / "workspace/SOUL.md").symlink_to(outside)


def spoil_owner(source):
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(source / "workspace/SOUL.md", 12345, 12345)


def spoil_pipe(source):
    (source / "workspace/SOUL.md").unlink()
    os.mkfifo(source / "workspace/SOUL.md")


SPOILT = {
    "settings cut off": (lambda source: (source / "config.json").write_text('{"agents": {'), "config.json: it is not valid JSON"),
    "settings no table": (lambda source: (source / "config.json").write_text("[1]"), "config.json: it holds no table"),
    "settings nested": (lambda source: (source / "config.json").write_text("[" * 100_000), "config.json: it is not valid JSON"),
    "types": (lambda source: (source / "config.json").write_text('{"agents": [1], "channels": {"telegram": 5}, "providers": {"x": 1}}'), ""),
    "jobs cut off": (lambda source: (source / "workspace/cron/jobs.json").write_text('{"jobs": [{'), "cron/jobs.json: it is not valid"),
    "jobs of nonsense": (
        lambda source: (source / "workspace/cron/jobs.json").write_text(
            '{"jobs": [1, {"id": 3}, {"schedule": [], "payload": 7, "name": {}}]}'
        ),
        "is not known here",
    ),
    "huge page": (lambda source: (source / "workspace/SOUL.md").write_bytes(b"x" * 3_000_000), "SOUL.md: it has 3.0 MB"),
    "binary page": (lambda source: (source / "workspace/SOUL.md").write_bytes(b"\x00\xff"), "SOUL.md: it is no text"),
    "link out": (spoil_link, "SOUL.md: a link that leads out"),
    "another's file": (spoil_owner, "SOUL.md: it belongs to another user"),
    "pipe": (spoil_pipe, "SOUL.md: it is not a regular file"),
    "skill without a description": (
        lambda source: (source / "workspace/skills/frost-watch/SKILL.md").write_text("---\nname: x\n---\nx\n"),
        "SKILL.md cannot be used: it has no description",
    ),
    "no workspace": (lambda source: shutil.rmtree(source / "workspace"), "is not there"),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILT)
def test_a_home_that_is_not_whole_gives_what_it_has(what, tmp_path):
    source, _ = make("nanobot", tmp_path)
    spoil, words = SPOILT[what]
    spoil(source)
    done = picoclaw(tmp_path, "migrate", "--from", "nanobot", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout
    assert not any(b"SECRET" in data for data in own_tree(tmp_path / "picoclaw").values())
    assert picoclaw(tmp_path, "migrate", "--undo").returncode == 0


def test_a_damaged_store_of_openclaw_is_said(tmp_path):
    source, _ = make("openclaw", tmp_path)
    (source / "state/openclaw.sqlite-wal").unlink()
    (source / "state/openclaw.sqlite").write_bytes(b"SQLite format 3\0" + b"\x17" * 5000)
    done = picoclaw(tmp_path, "migrate", "--from", "openclaw", "--yes")
    assert done.returncode == 0
    assert "state/openclaw.sqlite: not all of it could be read" in done.stdout


DAEMONS = [
    ("nanobot", ["python3", "/usr/bin/nanobot", "gateway"]),
    ("nanobot", ["nanobot-gateway"]),
    ("openclaw", ["openclaw-gateway"]),
    ("openclaw", ["node", "/usr/lib/node_modules/openclaw/openclaw.mjs", "gateway"]),
    ("picoclaw", ["/usr/local/bin/picoclaw", "gateway", "--debug"]),
]
"""As the real ones are called, most of which give themselves another name."""


@pytest.mark.parametrize(("kind", "words"), DAEMONS)
def test_a_program_that_still_runs_is_stopped_first(kind, words, tmp_path):
    source, _ = make(kind, tmp_path)
    code = f"import os; os.execvpe({sys.executable!r}, {[*words[:1], '-c', 'input()', *words[1:]]!r}, {{'HOME': {str(tmp_path)!r}}})"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        until = time.monotonic() + 10
        while not find_daemon(kind, source) and time.monotonic() < until:
            time.sleep(0.02)
        assert find_daemon(kind, source) == process.pid
        assert find_daemon(kind, tmp_path / "elsewhere" / source.name) == 0
        assert f"it runs (process {process.pid})" in picoclaw(tmp_path, "migrate").stdout
        refused = picoclaw(tmp_path, "migrate", "--from", kind, "--yes")
        assert refused.returncode == 1
        assert "still runs" in refused.stderr
        assert not (tmp_path / "picoclaw").exists()
        process.stdin.close()


REFUSED = [
    (("--from", "telnet"), "'telnet' is not one of picoclaw, nanobot, openclaw", 2),
    (("--from", "nanobot:/nowhere", "--yes"), "no home of nanobot", 1),
    (("--from", "openclaw", "--yes"), "no home of openclaw was found", 1),
    (("--from", "nanobot", "--keys"), "--keys and --skill go with --yes", 1),
    (("--from", "nanobot", "--yes", "--skill", "weather"), "there is no skill 'weather' to take; there are: frost-watch", 1),
    (("--yes", "--undo"), "cannot be used together", 2),
    (("--undo",), "nothing was taken over", 1),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said", "code"), REFUSED)
def test_what_cannot_be_done_is_said(words, said, code, tmp_path):
    make("nanobot", tmp_path)
    done = picoclaw(tmp_path, "migrate", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert not (tmp_path / "picoclaw").exists()


def test_json_is_for_programs(tmp_path):
    make("openclaw", tmp_path)
    (shown,) = json.loads(picoclaw(tmp_path, "migrate", "--json").stdout)
    assert shown["kind"] == "openclaw"
    assert {"page SOUL.md", "key api_key", "job 2bf2"} <= {step["name"] for step in shown["steps"]}
    done = json.loads(picoclaw(tmp_path, "migrate", "--from", "openclaw", "--yes", "--json").stdout)
    assert done["waiting"][:2] == ["key api_key", "key telegram_token"]
    assert TOKEN not in json.dumps([shown, done])


def test_tools_that_are_absent_here_are_named_with_ones_that_are_not():
    here = set(re.findall(r"^\| `([a-z_0-9]+)`", (ROOT / "docs/reference/tools.md").read_text(), re.MULTILINE))
    assert not set(ABSENT_TOOLS) & here
    assert {tool for tool in ABSENT_TOOLS.values() if tool} <= here


def test_reading_touches_nothing_and_hides_keys(tmp_path):
    source, _ = make("nanobot", tmp_path)
    found = read_home("nanobot", source)
    assert found.telegram_people == (4242, 777)
    assert found.zone == "Europe/Berlin"
    assert Config(tmp_path).home == tmp_path
    assert [name for name, _ in found.not_taken if "key" in name] == []


JSON5 = [
    ("{a: 1, 'b': \"x\", c: [1, 2,], /* d */ e: .5, // f\n}", {"a": 1, "b": "x", "c": [1, 2], "e": 0.5}),
    ('{"u": "http://x//y", "t": "a,}"}', {"u": "http://x//y", "t": "a,}"}),
    (
        "{n: +0x1F, m: -2., k: 1e3, i: Infinity, z: null, t: true}",
        {"n": 31, "m": -2.0, "k": 1000.0, "i": None, "z": None, "t": True},
    ),
    (
        r"""{s: 'it\'s \x41\u00e9 \
joined', p: '\ud83d\ude00'}""",
        {"s": "it's Aé joined", "p": "😀"},
    ),
    ("\ufeff[1,\n]", [1]),
    ("{a: 1, a: 2}", {"a": 2}),
]


@each_row(("text", "value"), JSON5)
def test_json5(text, value):
    assert parse_json5(text) == value


@each_row("text", ["", "{", "{a:}", "{a 1}", "[1 2]", "{,}", "[,]", "'open", "{a: b}x", "@", "[" * 99_999, "{a: 1,,}"])
def test_json5_that_is_none(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_json5(text)
