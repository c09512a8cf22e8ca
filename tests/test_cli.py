"""The commands, run as their user runs them: real processes, real servers, real terminals."""

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from model_server import ModelServer, call, page, refusal, reply, silence, truncated_stream
from person import PICOCLAW, ROOT, Person, environment, picoclaw, picoclaw_process
from sandbox_kit import gone, needs_walls
from validity import check_body

from picoclaw import cli
from picoclaw.prompts import count_bytes

SIMULATED = "[simulated board, not real values]"


def chat(home, text, *words, server=None, **more):
    """One question on the simulated board, with or without a model."""
    if server is not None:
        more |= {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
    return picoclaw(home, "chat", "--board", "sim", *words, "-m", text, **more)


def one_line(done):
    """The only line on stderr."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def degrees(text):
    return float(re.search(r"(-?\d+\.\d+) °C", text)[1])


def test_a_question_gets_a_simulated_temperature(tmp_path):
    done = chat(tmp_path, "how warm is it?")
    assert (done.returncode, done.stderr) == (0, "")
    assert -40 < degrees(done.stdout) < 85
    assert "simulated" in done.stdout


def test_a_note_that_is_found_and_forgotten_after_a_yes_is_not_shown_as_a_search(tmp_path):
    for text in ("note que j'ai semé les radis", "oublie la note sur les radis"):
        asked = chat(tmp_path, text, "--session", "s").stdout
    assert asked.startswith("Dois-je supprimer cette note pour de bon ?")
    told = chat(tmp_path, "oui", "--session", "s").stdout
    assert told.splitlines() == ["Le numéro 1 est fait.", 'oublié : "j\'ai semé les radis"']


def test_a_day_that_comes_again_is_at_nine_in_a_first_meeting_too(tmp_path):
    assert "every monday at 09:00" in chat(tmp_path, "remind me every monday to check the filter").stdout


def test_json_has_the_whole_turn(tmp_path):
    told = json.loads(chat(tmp_path, "how warm is it?", "--json").stdout)
    assert set(told) == {"reply", "turn", "provider", "simulated"}
    assert set(told["turn"]) == {"steps", "tools", "usage", "stopped"}
    [run] = told["turn"]["tools"]
    assert set(run) == {"name", "arguments", "result", "ms"}
    assert (run["name"], run["arguments"]) == ("sensor_read", {"quantity": "temperature"})
    assert f"{degrees(run['result'])}" in told["reply"]
    assert (told["provider"], told["simulated"]) == ("intents", True)


def test_home_is_private(tmp_path):
    chat(tmp_path, "hello")
    home = tmp_path / "picoclaw"
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "state.db").stat().st_mode & 0o777 == 0o600


def test_init_twice_changes_nothing(tmp_path):
    assert picoclaw(tmp_path, "init").returncode == 0
    config = tmp_path / "picoclaw/config.toml"
    config.write_text("[limits]\nsteps = 3\n")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "picoclaw").rglob("*")}
    assert "nothing was changed" in picoclaw(tmp_path, "init").stdout
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "picoclaw").rglob("*")} == before


def test_a_model_is_asked_once_for_a_plain_answer(tmp_path):
    with ModelServer([reply("Hello you.")]) as server:
        done = chat(tmp_path, "hello", server=server)
    assert (done.returncode, done.stdout) == (0, f"Hello you.\n{SIMULATED}\n")
    assert len(server.requests) == 1
    check_body(server.requests[0].body)


@pytest.mark.parametrize("stream", [True, False])
def test_tool_rounds_share_one_connection(tmp_path, stream):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text(f"[model]\nstream = {str(stream).lower()}\n")
    rounds = [reply("", call("list_dir", {"path": "memory"})), reply("", call("sensor_read")), reply("Done.")]
    with ModelServer(rounds) as server:
        told = json.loads(chat(tmp_path, "go", "--json", server=server).stdout)
    assert (len(server.requests), server.connections) == (3, 1)
    assert [t["name"] for t in told["turn"]["tools"]] == ["list_dir", "sensor_read"]
    assert told["turn"]["usage"] == {"prompt_tokens": 21, "completion_tokens": 9}
    assert (told["turn"]["steps"], told["turn"]["stopped"]) == (3, "")


def test_the_next_turn_repeats_the_bytes_of_the_last(tmp_path):
    rounds = [reply("", call("sensor_read")), reply("Warm."), reply("Still warm.")]
    with ModelServer(rounds) as server:
        chat(tmp_path, "how warm is it?", server=server)
        chat(tmp_path, "and now?", server=server)
    earlier, later = (server.requests[i].body for i in (1, 2))
    assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    assert later["tools"] == earlier["tools"]
    check_body(later)


def test_prompt_shows_what_is_sent(tmp_path):
    with ModelServer([reply("Hello.")]) as server:
        picoclaw(tmp_path, "init")
        model = {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        shown = json.loads(picoclaw(tmp_path, "prompt", "-m", "hello", "--json", "--board", "sim", **model).stdout)
        chat(tmp_path, "hello", server=server)
    sent = server.requests[0].body
    minute = re.compile(r"\d\d:\d\d")
    assert minute.sub("", json.dumps(shown["body"])) == minute.sub("", json.dumps(sent))


def test_prompt_is_small(tmp_path):
    for board in ("sim", "linux"):
        shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", board).stdout)
        assert shown["system_bytes"] < 2048
        assert shown["tools_bytes"] < 8192
    assert not (tmp_path / "picoclaw").exists()


def test_prompt_is_small_after_the_first_meeting(tmp_path):
    picoclaw(tmp_path, "init")
    (tmp_path / "picoclaw/workspace/BOOTSTRAP.md").unlink()
    shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", "sim").stdout)
    assert "skills" in {part["name"] for part in shown["sections"]}
    assert (shown["system_bytes"] < 2000, shown["tools_bytes"] < 8192) == (True, True), shown["tools_bytes"]


@pytest.mark.parametrize("meeting", [True, False])
def test_prompt_is_small_in_a_household(tmp_path, meeting):
    picoclaw(tmp_path, "init")
    (tmp_path / "picoclaw/config.toml").write_text('[people.ada]\nrole = "owner"\n[people.bob]\n')
    if not meeting:
        (tmp_path / "picoclaw/workspace/BOOTSTRAP.md").unlink()
    for words in ((), ("--as", "bob")):
        shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", "sim", *words).stdout)
        names = {tool["function"]["name"] for tool in shown["body"]["tools"]}
        assert ("memory_share" in names, "spawn_status" in names) == (True, False)
        assert shown["tools_bytes"] <= 8192, shown["tools_bytes"]
    (tmp_path / "picoclaw/config.toml").write_text('[people.bob]\n[tools]\noffer = ["spawn_status"]\n')
    shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", "sim").stdout)
    assert "spawn_status" in {tool["function"]["name"] for tool in shown["body"]["tools"]}


EVERY_BUS = """
parts.porch = { part = "bme280", address = 0x76 }
parts.tank = { part = "mcp3008", bus = 0, chip = 0, values = { voltage = 1.2 } }
parts.air = { part = "pms5003", port = "/dev/serial0" }
"""


def test_prompt_is_small_with_every_bus_and_an_output(tmp_path):
    picoclaw(tmp_path, "init")
    (tmp_path / "picoclaw/workspace/BOOTSTRAP.md").unlink()
    (tmp_path / "picoclaw/sim.toml").write_text(EVERY_BUS)
    (tmp_path / "picoclaw/outputs.toml").write_text('[outputs.pump]\nline = "GPIO17"\nlongest_on_s = 60\n')
    shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", "sim").stdout)
    names = {tool["function"]["name"] for tool in shown["body"]["tools"]}
    assert names >= {"sensor_read", "output"}
    assert not names & {"gpio", "i2c", "spi", "serial", "skill_create"}
    assert shown["system_bytes"] < 2048
    output = next(tool for tool in shown["body"]["tools"] if tool["function"]["name"] == "output")
    assert shown["tools_bytes"] - count_bytes(output) <= 8192  # the output's own words come on top
    (tmp_path / "picoclaw/config.toml").write_text('[tools]\noffer = ["i2c", "spi", "serial"]\n')
    shown = json.loads(picoclaw(tmp_path, "prompt", "--json", "--board", "sim").stdout)
    assert {tool["function"]["name"] for tool in shown["body"]["tools"]} == names | {"i2c", "spi", "serial"}


FAILURES = {
    "wrong key": ([refusal(401, "bad key")], "401"),
    "web page": ([page()] * 3, "captive portal"),
    "cut stream": ([truncated_stream()] * 3, "broke off"),
    "overloaded": ([refusal(503, "busy")] * 3, "503"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failing_model_gives_one_clear_line(tmp_path, name):
    script, words = FAILURES[name]
    with ModelServer(script) as server:
        done = chat(tmp_path, "write me a poem about pumps", server=server)
    assert done.returncode == 1
    assert ("without a model" in done.stdout) == (name != "cut stream")  # what has begun is not begun anew
    assert words in one_line(done)
    with ModelServer([reply("I am back.")]) as server:
        chat(tmp_path, "are you back?", server=server)
    said = json.dumps(server.requests[0].body["messages"])
    assert "poem about pumps" in said
    check_body(server.requests[0].body)


def test_the_matcher_stands_in_for_an_unreachable_model(tmp_path):
    done = chat(tmp_path, "how warm is it?", PICOCLAW_BASE_URL="http://127.0.0.1:9/v1", PICOCLAW_MODEL="gone")
    assert done.returncode == 0
    assert -40 < degrees(done.stdout) < 85
    assert "cannot be reached" in one_line(done)
    assert "without a model" in one_line(done)


def test_a_refused_key_is_answered_and_still_an_error(tmp_path):
    with ModelServer([refusal(401, "bad key")]) as server:
        done = chat(tmp_path, "how warm is it?", server=server, PICOCLAW_API_KEY="sk-very-secret")
    assert done.returncode == 1
    assert "°C" in done.stdout
    assert "401" in one_line(done)
    assert "sk-very-secret" not in done.stdout + done.stderr


@needs_walls
def test_a_secret_is_never_printed(tmp_path):
    rounds = [reply("", call("exec", {"argv": ["env"]}), call("exec", {"argv": ["ps", "axe"]})), reply("ok")]
    with ModelServer(rounds) as server:
        done = chat(tmp_path, "go", "--json", server=server, PICOCLAW_API_KEY="sk-very-secret")
    assert done.returncode == 0
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in done.stdout
    assert "PATH=/usr/local/sbin" in done.stdout
    assert "PICOCLAW_API_KEY=" not in done.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 0),
        (["fly"], 2),
        (["chat", "--json"], 2),
        (["chat", "-m", "  "], 2),
        (["tool", "sensor_read", "{"], 2),
        (["tool", "sensor_read", "[1]"], 2),
        (["tool", "no_such_tool"], 1),
        (["tool", "read_file", '{"path": "../x"}'], 1),
        (["chat", "--board", "moon", "-m", "x"], 2),
        (["--version"], 0),
        (["--help"], 0),
    ],
)
def test_exit_codes(tmp_path, words, code):
    done = picoclaw(tmp_path, *words)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == (code != 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("audit", "nothing is recorded yet\n"),
        ("audit --since yesterday", "nothing is recorded since yesterday\n"),
        ("audit --json", ""),
        ("--board auto outputs", "no outputs are declared; "),
    ],
)
def test_what_is_said_of_nothing(tmp_path, words, said):
    done = picoclaw(tmp_path, *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(said)
    assert bool(done.stdout) == bool(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("statsu", "picoclaw: there is no command 'statsu'; did you mean status? (picoclaw --help)"),
        ("gizmo", "picoclaw: there is no command 'gizmo' (picoclaw --help)"),
        ("sensor", "picoclaw: there is no command 'sensor'; did you mean sensors? (picoclaw --help)"),
        ("read", "picoclaw: there is no command 'read'; did you mean sensors? (picoclaw --help)"),
        ("detect", "picoclaw: there is no command 'detect'; did you mean init? (picoclaw --help)"),
        ("read my notes", "there is no command 'read'; to ask the agent: picoclaw chat -m \"read my notes\""),
        ("how warm is it", "there is no command 'how'; to ask the agent: picoclaw chat -m \"how warm is it\""),
        ("status --jsno", "picoclaw status: there is no option --jsno; did you mean --json?"),
        ("rules lst", "picoclaw rules: 'lst' is not one of list, check, explain, remove, log; did you mean list?"),
        ("service", "picoclaw service: a command is missing: install or"),
        ("outputs set pump on soon", "TIME: 'soon' is not a length of time; write it like 90s, 10m, 2h or 1d"),
        ("--frob", "picoclaw: there is no option --frob (picoclaw --help)"),
        ("--verison", "picoclaw: there is no option --verison; did you mean --version?"),
        ("--board sim", "picoclaw: a command is missing beside --board"),
        ("remind", "there is no command 'remind'; did you mean cron?"),
        ("chat hello", "'hello' is too much; a question goes behind -m, in quotes"),
        ("chat --sim", "picoclaw chat: there is no option --sim; did you mean --board sim?"),
        ("chat --board mon -m x", "--board: 'mon' is not one of auto, linux, sim"),
        ("chat -m --json", "-m needs a value: -m TEXT"),
        ("status --json=1", "--json takes no value"),
        ("update --check --back", "--check and --back cannot be used together"),
        ("rules explain", "NAME is missing"),
        ("rules explain a b", "'b' is too much"),
        ("audit -n some", "-n: 'some' is not a whole number"),
    ],
)
def test_wrong_usage_is_said_in_one_line_with_what_was_meant(tmp_path, words, said):
    done = picoclaw(tmp_path, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in one_line(done)


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "--board", "sim", "cron", "list"],
        ["cron", "--json", "list", "--board=sim"],
        ["--board", "sim", "cron", "list", "--json"],
        ["cron", "--json"],
    ],
)
def test_an_option_may_stand_anywhere(tmp_path, words):
    picoclaw(tmp_path, "cron", "add", "tea", "--in", "2h", "--board", "sim")
    [job] = json.loads(picoclaw(tmp_path, *words).stdout)
    assert job["payload"] == "tea"


def test_a_length_of_time_is_read_as_people_write_it(tmp_path):
    assert "in 2 h" in picoclaw(tmp_path, "cron", "add", "tea", "--in", "2h").stdout
    assert "every 1 h 30 min" in picoclaw(tmp_path, "cron", "add", "look", "--every", "1h30m").stdout


EXIT_CODES = {
    "": 0, "--help": 0, "help cron": 0, "--version": 0, "tools --board sim": 0, "check": 0, "sessions list": 0,
    "chat --board sim -m 'how warm is it?'": 0, "cron add tea --in 2h": 0, "sessions prune --days 4w --dry-run": 0,
    "usage --days 30d": 0, "completion bash": 0, "stop --board sim": 0, "audit --verify": 0,
    "sessions show 99": 1, "cron add tea --in never": 2, "backup --check none.tar.gz": 1, "restore none.tar.gz --yes": 1,
    "model test": 1, "tool nothing '{}'": 1, "outputs set pump on": 1, "history nothing.at_all": 1, "skills check none": 1,
    "statsu": 2, "status --jsno": 2, "sessions prune --days 12h": 2, "usage --days 0": 2, "memory search": 2, "chat --json": 2,
    "status": 3, "status --json": 3,
}  # fmt: skip


@pytest.mark.parametrize("words", EXIT_CODES)
def test_exit_codes_are_those_of_the_help(tmp_path, words):
    done = picoclaw(tmp_path, *shlex.split(words))
    assert done.returncode == EXIT_CODES[words], done
    assert (done.returncode in {0, 3}) == (done.stderr == ""), "an error is said, and on stderr"
    assert "Traceback" not in done.stderr


NEXT = {
    "outputs set pump on": "as docs/howto/outputs.md shows",
    "outputs": "as docs/howto/outputs.md shows",
    "rules": "say one in a chat",
    "page": "`picoclaw init --page network`",
    "telegram pair": "`picoclaw init`",
    "history": "while the service",
    "history greenhouse.temperature": "while the service",
    "model probe": "`picoclaw init`",
    "model test": "--alone",
    "summon 'a gardener'": "`picoclaw init`",
    "start": "`sudo picoclaw service install",
}


@pytest.mark.parametrize("words", NEXT)
def test_what_is_not_set_up_is_said_with_what_to_do(tmp_path, words):
    done = picoclaw(tmp_path, *shlex.split(words))
    assert NEXT[words] in done.stdout + done.stderr
    assert not re.search(r"\.lock|\.db|base_url|Errno", done.stdout + done.stderr), "a name from within"


@pytest.mark.parametrize(
    "words",
    [
        "",
        "status",
        "doctor --offline --board sim",
        "sessions prune --help",
        "init --help",
        "tools --board sim",
        "sensors --board sim",
        "policy",
        "policy explain write_file",
        "outputs",
        "outputs set pump on",
        "rules",
        "history",
    ],
)
def test_a_narrow_terminal_has_no_word_cut(tmp_path, words):
    with Person(tmp_path, *shlex.split(words), columns=40) as person:
        with pytest.raises(AssertionError, match="before the end"):
            person.sees("what is nowhere in it")
        lines = re.sub(r"\x1b\[[0-9;]*m", "", person.seen).splitlines()
    assert lines
    wide = [line for line in lines if len(line) > 40 and " " in line.strip()[:40].lstrip("→ ")]
    assert [line for line in wide if not line.startswith("  picoclaw ")] == [], "examples are copied, and stay whole"


def test_dates_are_written_in_one_way():
    """2026-11-24 08:00, a day of the week before it where that helps; no names of months, which are longer to read."""
    forms = [(path, line) for path in (ROOT / "picoclaw").rglob("*.py") for line in path.read_text().splitlines()]
    assert [(path.name, line) for path, line in forms if "%b" in line and "GMT" not in line] == []


@pytest.mark.parametrize("verb", cli.VERBS)
def test_a_process_of_its_own_says_the_same(tmp_path, verb):
    """Most tests run commands in their own process."""
    for words in ([verb, "--help"], [verb, "--no-such-option"]):
        here, there = picoclaw(tmp_path, *words), picoclaw_process(tmp_path, *words)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in cli.VERBS)], ids=" ".join)
def test_help_breaks_no_word_and_has_an_example(tmp_path, words):
    done = picoclaw(tmp_path, *words, COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    assert "for example" in done.stdout
    wide = picoclaw(tmp_path, *words, COLUMNS="500").stdout.split()
    assert [part for part in done.stdout.split() if part not in wide] == []
    assert "\x1b" not in done.stdout


def test_every_example_of_the_help_is_understood(monkeypatch, capsys):
    ran = []
    load = cli.load_verb
    monkeypatch.setattr(cli, "load_verb", lambda verb: (load(verb)[0], lambda given: ran.append(given) or 0))
    for _, example in cli.VERBS.values():
        words = shlex.split(example.partition(" > ")[0].removeprefix("sudo "))
        assert cli.run(words[1:]) == 0, capsys.readouterr().err
    assert len(ran) == len(cli.VERBS)


def test_sensors_are_read_now(tmp_path):
    done = picoclaw(tmp_path, "sensors", "--board", "sim")
    assert re.match(r"greenhouse: temperature \d+\.\d\d °C, .*\n\[simulated board", done.stdout)
    rows = json.loads(picoclaw(tmp_path, "sensors", "greenhouse", "--json", "--board", "sim").stdout)
    assert [(row["sensor"], row["quantity"], row["unit"], row["simulated"]) for row in rows] == [
        ("greenhouse", "temperature", "°C", True),
        ("greenhouse", "humidity", "%", True),
        ("greenhouse", "pressure", "hPa", True),
    ]
    for words in ([], ["--json"]):
        done = picoclaw(tmp_path, "sensors", "attic", "--board", "sim", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert "no sensor 'attic'; there are: greenhouse, cpu" in done.stderr


def test_picoclaw_alone_says_how_it_is_and_what_is_next(tmp_path):
    told = picoclaw(tmp_path).stdout
    assert "not set up yet" in told
    assert "picoclaw init" in told
    assert not (tmp_path / "picoclaw").exists()
    picoclaw(tmp_path, "init")
    told = picoclaw(tmp_path).stdout
    assert "is not running; `picoclaw run` starts it. Board: Simulated board" in told
    assert "picoclaw run" in told


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("picoclaw st", "stop status start store"),
        ("picoclaw rules ''", "list check explain remove log --board"),
        ("picoclaw --board sim ch", "chat check"),
        ("picoclaw cron add --kind t", "turn tool"),
        ("picoclaw sessions list --j", "--json"),
    ],
)
def test_bash_completes(tmp_path, typed, offered):
    script = picoclaw(tmp_path, "completion", "bash").stdout
    script += f'COMP_WORDS=({typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _picoclaw; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20)
    assert (done.stdout.strip(), done.stderr) == (offered, "")


def broken_config(home):
    (home / "config.toml").write_text("[limits]\nstep = 3\n")
    return ["'step'", "config.toml", "'steps'"]


def home_is_a_file(home):
    home.rmdir()
    home.write_text("x")
    return [str(home)]


def unknown_part(home):
    (home / "config.toml").write_text('[sensors.porch]\npart = "bme999"\n')
    return ["sensors.porch", "bme999", "bme280"]


@pytest.mark.parametrize("spoil", [broken_config, home_is_a_file, unknown_part])
def test_a_spoilt_home_gives_one_clear_line(tmp_path, spoil):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    words = spoil(home)
    done = chat(tmp_path, "hello")
    assert done.returncode == 1
    assert all(word in one_line(done) for word in words)


def test_a_damaged_database_is_mended_before_the_answer_is_given(tmp_path):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    (home / "state.db").write_bytes(b"not a database at all, but long enough to look at" * 40)
    done = picoclaw(tmp_path, "cron", "list")
    assert done.returncode == 1
    assert all(word in one_line(done) for word in ("state.db", "damaged", "nothing was changed", "check --repair"))
    done = chat(tmp_path, "hello")
    assert done.returncode == 0
    assert "is kept as state.db.damaged-" in one_line(done)
    assert chat(tmp_path, "hello").stderr == ""


def test_a_full_disk_is_said_and_the_answer_is_given(tmp_path):
    chat(tmp_path, "hello")
    limit = f"ulimit -f 0; exec {shlex.join([*PICOCLAW, 'chat', '--board', 'sim', '-m', 'how warm is it?'])}"
    done = subprocess.run(
        ["/bin/bash", "-c", limit], env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "°C" in done.stdout
    assert "could not be saved" in one_line(done)
    assert chat(tmp_path, "how warm is it?").returncode == 0


def test_a_missing_bus_says_how_to_enable_it(tmp_path):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text('[sensors.porch]\npart = "bme280"\nbus = 77\n')
    done = picoclaw(tmp_path, "tool", "sensor_read", '{"sensor": "porch"}', "--board", "linux")
    assert done.returncode == 1
    assert "/dev/i2c-77" in done.stderr
    assert "raspi-config" in done.stderr


def test_a_pipe_is_answered_line_by_line(tmp_path):
    done = picoclaw(tmp_path, "chat", "--board", "sim", stdin="how warm is it?\n\nscan the i2c bus\n")
    assert done.returncode == 0
    assert done.stdout.count(SIMULATED) == 2
    assert "0x76 answers" in done.stdout
    assert "\x1b" not in done.stdout


def test_ascii_terminals_work(tmp_path):
    done = chat(tmp_path, "how warm is it?", PYTHONIOENCODING="ascii", LC_ALL="POSIX")
    assert done.returncode == 0
    assert "temperature" in done.stdout


def test_control_characters_of_a_model_do_not_reach_the_terminal(tmp_path):
    with ModelServer([reply("red \x1b[31m and \u202eback")]) as server:
        done = chat(tmp_path, "hello", server=server)
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout


@needs_walls
def test_doctor_finds_what_is_wrong(tmp_path):
    assert picoclaw(tmp_path, "doctor", "--board", "sim").returncode == 0
    picoclaw(tmp_path, "init")
    (tmp_path / "picoclaw").chmod(0o755)
    done = picoclaw(tmp_path, "doctor", "--json", "--board", "sim")
    assert done.returncode == 1
    [bad] = [f for f in json.loads(done.stdout) if f["status"] == "bad"]
    assert bad["fix"] == f"chmod 700 {tmp_path / 'picoclaw'}"


# ---- a terminal


@pytest.mark.parametrize("columns", [40, 80])
def test_a_conversation_on_a_terminal(tmp_path, columns):
    with Person(tmp_path, "chat", "--board", "sim", columns=columns) as person:
        person.sees("> ")
        person.types("how warm is it?\r")
        assert "· sensor_read" in person.sees("°C")
        person.sees("simulated")
        person.sees("> ")
        person.types("/help\r")
        person.sees("/stop")
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0


def test_a_reminder_is_told_in_an_open_chat(tmp_path):
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        person.types("remind me in 1 second to water the plants\r")
        person.sees("comes at")
        person.sees("Reminder: water the plants")


@pytest.mark.parametrize("how", ["\x03", "/stop\r"])
def test_a_turn_is_stopped_in_mid_stream(tmp_path, how):
    script = [reply("word " * 2000, pause=0.02), reply("Ready again.")]
    with ModelServer(script) as server, Person(tmp_path, "chat", PICOCLAW_BASE_URL=server.url) as person:
        person.sees("> ")
        person.types("tell me a story\r")
        person.sees("word word")
        person.types(how)
        person.sees("[stopped by the user]", seconds=2)
        assert server.hung_up.wait(5)
        person.sees("> ")
        person.types("and now?\r")
        person.sees("Ready again.")
    check_body(server.requests[1].body)
    assert "[stopped by the user]" in json.dumps(server.requests[1].body)


@needs_walls
def test_ctrl_c_ends_a_running_command_and_the_conversation_is_valid(tmp_path):
    both = [call("exec", {"command": "sleep 60"}, "a"), call("list_dir", {}, "b")]
    script = [reply("", *both), reply("Ready again.")]
    with ModelServer(script) as server, Person(tmp_path, "chat", PICOCLAW_BASE_URL=server.url) as person:
        person.sees("> ")
        person.types("sleep\r")
        time.sleep(1)
        person.types("\x03")
        person.sees("stopped", seconds=3)
        person.sees("> ")
        person.types("and now?\r")
        person.sees("Ready again.")
    check_body(server.requests[1].body)


@pytest.mark.parametrize(("answer", "outcome"), [("y", "wrote f4 25"), ("n", "the answer was no")])
def test_a_bus_write_is_asked_for(tmp_path, answer, outcome):
    write = call("i2c", {"action": "write", "address": "0x76", "register": "0xf4", "data": [0x25]})
    with ModelServer([reply("", write), reply("Done.")]) as server:
        with Person(tmp_path, "chat", "--board", "sim", PICOCLAW_BASE_URL=server.url) as person:
            person.sees("> ")
            person.types("start it\r")
            shown = person.sees("[y/N] ")
            person.types(f"{answer}\r")
            person.sees("Done.")
        assert '"address": 118' in shown
        assert outcome in server.requests[1].said


def test_nobody_is_asked_without_a_terminal(tmp_path):
    write = call("i2c", {"action": "write", "address": "0x76", "register": "0xf4", "data": [0x25]})
    with ModelServer([reply("", write), reply("Sorry.")]) as server:
        assert chat(tmp_path, "start it", server=server).returncode == 0
    assert server.requests[1].said.startswith("error: i2c was not done yet: it waits for the owner's yes as number 1 ")
    assert waits(tmp_path) == ['1  i2c {"action": "write",']


def waits(home):
    """What waits for the owner's yes, or became of it: number, tool, and how it begins."""
    return [row[:26] for row in picoclaw(home, "approvals").stdout.splitlines()]


# ---- cut off


def test_cut_off_between_any_two_steps(tmp_path):
    """Killed while the model thinks at step 1, 2 or 3: what was answered stays, and the next chat opens."""
    for step in range(3):
        before = [reply("", call("sensor_read")), reply("", call("list_dir"))][:step]
        with ModelServer([reply(f"answer {step}")]) as server:
            chat(tmp_path, f"question {step}", server=server)
        with ModelServer([*before, silence()]) as server:
            given = environment(tmp_path, PICOCLAW_BASE_URL=server.url)
            running = subprocess.Popen([*PICOCLAW, "chat", "--board", "sim", "-m", "doomed"], env=given)
            while len(server.requests) <= step:
                time.sleep(0.01)
            running.send_signal(signal.SIGKILL)
            assert running.wait(10) == -signal.SIGKILL
    with ModelServer([reply("all there")]) as server:
        assert chat(tmp_path, "what is there?", server=server).returncode == 0
    said = json.dumps(server.requests[0].body)
    assert all(f"{word} {step}" in said for step in range(3) for word in ("question", "answer"))
    check_body(server.requests[0].body)


ACTS = "import time; open('done.txt', 'a').write('once\\n'); time.sleep(6161)"


def killed_inside_an_act(tmp_path, number=signal.SIGKILL):
    """Have a command change something and go on, and end picoclaw meanwhile."""
    act = call("exec", {"argv": ["python3", "-c", ACTS], "write": True})
    with ModelServer([reply("", act)]) as server:
        given = environment(tmp_path, PICOCLAW_BASE_URL=server.url)
        running = subprocess.Popen([*PICOCLAW, "chat", "-m", "go"], env=given, stdout=subprocess.DEVNULL)
        done = tmp_path / "picoclaw/workspace/done.txt"
        until = time.monotonic() + 20
        while not (done.exists() and done.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        running.send_signal(number)
        return running.wait(10)


@needs_walls
def test_cut_off_inside_an_act_is_reported_and_not_repeated(tmp_path):
    assert killed_inside_an_act(tmp_path) == -signal.SIGKILL
    with ModelServer([reply("I see.")]) as server:
        chat(tmp_path, "what happened?", server=server)
        assert "outcome is unknown" in server.requests[0].said
        assert "done.txt" in server.requests[0].said
    with ModelServer([reply("Nothing.")]) as server:
        chat(tmp_path, "and now?", server=server)
        assert "outcome is unknown" not in server.requests[0].said
    assert (tmp_path / "picoclaw/workspace/done.txt").read_text() == "once\n"


def test_killed_at_any_moment(tmp_path):
    """Turns that were answered before a kill -9 are all there afterwards, at 12 moments spread over a turn."""
    answered = []
    for i in range(12):
        with ModelServer(
            [
                reply("", call("write_file", {"path": "n.txt", "content": f"{i}\n", "mode": "append"})),
                reply(f"answer {i}."),
            ]
        ) as server:
            given = environment(tmp_path, PICOCLAW_BASE_URL=server.url)
            words = [*PICOCLAW, "chat", "--board", "sim", "-m", f"question {i}."]
            running = subprocess.Popen(words, env=given, stdout=subprocess.PIPE)
            time.sleep(0.05 + i * 0.05)
            running.kill()
            said, _ = running.communicate(timeout=10)
            answered += [i] if b"answer" in said else []
    with ModelServer([reply("all there")]) as server:
        assert chat(tmp_path, "what is there?", server=server).returncode == 0
    said = json.dumps(server.requests[0].body)
    assert all(f"question {i}." in said and f"answer {i}." in said for i in answered)
    check_body(server.requests[0].body)


@needs_walls
def test_a_cut_off_act_survives_other_commands_and_is_told_without_a_model(tmp_path):
    killed_inside_an_act(tmp_path)
    assert picoclaw(tmp_path, "tool", "list_dir").returncode == 0
    done = chat(tmp_path, "hello")
    assert done.returncode == 0
    assert "outcome is unknown" in one_line(done)
    assert chat(tmp_path, "hello").stderr == ""


@needs_walls
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_turn_and_what_it_runs(tmp_path, number):
    assert killed_inside_an_act(tmp_path, number) == 1
    assert gone("time.sleep(6161)")
    with ModelServer([reply("I see.")]) as server:
        chat(tmp_path, "and now?", server=server)
    assert "[stopped by the user]" in json.dumps(server.requests[0].body)
    check_body(server.requests[0].body)


def test_a_reminder_of_another_process_is_told_by_an_idle_chat(tmp_path):
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        picoclaw(tmp_path, "tool", "cron", '{"action": "add", "message": "look up", "at_seconds": 1}')
        person.sees("Reminder: look up", seconds=8)
    assert not list((tmp_path / "picoclaw").glob("*.tmp"))


def test_a_reminder_wipes_out_nothing_of_the_answer_that_is_being_given(tmp_path):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text("[heartbeat]\nenabled = false\n")
    answer = reply("one two three four", pieces=4, pause=0.6)
    with ModelServer([answer]) as server, Person(tmp_path, "chat", PICOCLAW_BASE_URL=server.url) as person:
        person.sees("> ")
        person.types("count\r")
        person.sees("one")
        picoclaw(tmp_path, "cron", "add", "tea", "--in", "0.1")
        said = person.sees("Reminder: tea")
        assert "\x1b[K" not in said
        assert "> " not in person.sees("four")


def test_a_late_reminder_says_so(tmp_path):
    picoclaw(tmp_path, "tool", "cron", '{"action": "add", "message": "look up", "at_seconds": 1}')
    time.sleep(1.2)
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("Reminder: look up")
        person.types(
            "/quit\r"
        )  # unlike Ctrl-D it may come before the chat reads the terminal: the reminder does not wait for that
        assert person.leaves() == 0
    assert "no reminders" in picoclaw(tmp_path, "tool", "cron", '{"action": "list"}').stdout


# ---- every setting does something


def with_settings(home, text):
    (home / "picoclaw").mkdir(mode=0o700, exist_ok=True)
    (home / "picoclaw/config.toml").write_text(text)


def requests_with(tmp_path, settings, script, text="go", **more):
    with_settings(tmp_path, settings)
    with ModelServer(script) as server:
        done = chat(tmp_path, text, "--json", server=server, **more)
    return done, [r.body for r in server.requests]


LISTING = call("list_dir", {})


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ("[model]\ntemperature = 0.25", "temperature", 0.25),
        ("[model]\nanswer_tokens = 77", "max_tokens", 77),
        ("[model]\nstream = true", "stream", True),
        ('[model]\nname = "mine"', "model", "scripted"),
    ],
)
def test_model_settings_reach_the_server(tmp_path, settings, key, value):
    _, [body] = requests_with(tmp_path, settings, [reply("ok")])
    assert body[key] == value


def test_retries_setting(tmp_path):
    _, bodies = requests_with(tmp_path, "[model]\nretries = 0", [refusal(503, "busy")] * 5)
    assert len(bodies) == 1
    _, bodies = requests_with(tmp_path, "[model]\nretries = 1", [refusal(503, "busy")] * 5)
    assert len(bodies) == 2


def test_idle_setting(tmp_path):
    began = time.monotonic()
    done, _ = requests_with(tmp_path, "[model]\nidle_seconds = 1\nretries = 0", [silence()])
    assert time.monotonic() - began < 8
    assert "for 1 s" in one_line(done)


def test_steps_setting(tmp_path):
    done, bodies = requests_with(tmp_path, "[limits]\nsteps = 1", [reply("", LISTING), reply("So far.")])
    assert json.loads(done.stdout)["turn"]["stopped"] == "steps"
    assert (bodies[1]["tools"], bodies[1]["tool_choice"]) == (bodies[0]["tools"], "none")


def test_tokens_setting(tmp_path):
    done, _ = requests_with(tmp_path, "[limits]\ntokens = 100", [reply("", LISTING, usage=(99, 9)), reply("So far.")])
    assert json.loads(done.stdout)["turn"]["stopped"] == "tokens"


@needs_walls
def test_seconds_setting(tmp_path):
    slow = call("exec", {"argv": ["sleep", "1.1"]})
    done, _ = requests_with(tmp_path, "[limits]\nseconds = 1", [reply("", slow), reply("So far.")])
    assert json.loads(done.stdout)["turn"]["stopped"] == "seconds"


def test_result_setting(tmp_path):
    long = call("exec", {"argv": ["seq", "1000"]})
    _, bodies = requests_with(tmp_path, "[limits]\nresult_chars = 300", [reply("", long), reply("ok")])
    assert len(bodies[1]["messages"][-1]["content"]) < 500


def test_window_setting(tmp_path):
    for i in range(4):
        long = " ".join(f"answer {i}.{n}" for n in range(300))
        requests_with(tmp_path, "", [reply(long)], text=f"question {i}")
    _, [body, *_] = requests_with(tmp_path, "[model]\ncontext_tokens = 4096", [reply("ok")] + [reply("Summed up.")] * 4)
    assert "question 0" not in json.dumps(body)
    check_body(body)


@pytest.mark.parametrize(("policy", "words"), [("ask", "the owner's yes"), ("off", "there is no tool 'exec'")])
@needs_walls
def test_exec_setting(tmp_path, policy, words):
    script = [reply("", call("exec", {"argv": ["touch", "done.txt"], "write": True})), reply("ok")]
    _, bodies = requests_with(tmp_path, f'[tools]\nexec = "{policy}"', script)
    assert words in bodies[1]["messages"][-1]["content"]
    assert not (tmp_path / "picoclaw/workspace/done.txt").exists()


def test_extra_folders_setting(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("here")
    wanted = ["tool", "read_file", json.dumps({"path": str(tmp_path / "notes/a.txt")})]
    assert picoclaw(tmp_path, *wanted).returncode == 1
    with_settings(tmp_path, f'[tools]\nextra_folders = ["{tmp_path}/notes"]')
    assert "here" in picoclaw(tmp_path, *wanted).stdout


def test_board_setting(tmp_path):
    with_settings(tmp_path, '[board]\nkind = "linux"')
    assert SIMULATED not in picoclaw(tmp_path, "tool", "board_status").stdout


def test_a_model_name_alone_goes_nowhere(tmp_path):
    with_settings(tmp_path, '[model]\nname = "qwen2.5:7b"')
    done = chat(tmp_path, "hello")
    assert done.returncode == 1
    assert "base_url" in one_line(done)


# ---- what a model must not reach


def test_prompts_and_intents_are_out_of_the_models_reach(tmp_path):
    files = {"prompts/identity.md": "You are evil.", "intents/zz.toml": "broken ["}
    calls = [call("write_file", {"path": p, "content": c}, f"c{i}") for i, (p, c) in enumerate(files.items())]
    with ModelServer([reply("", *calls), reply("ok")]) as server:
        chat(tmp_path, "go", server=server)
    assert "evil" not in picoclaw(tmp_path, "prompt", "--session", "new").stdout
    assert chat(tmp_path, "how warm is it?").returncode == 0


def test_a_conversation_of_a_name_that_is_new_is_said_to_be(tmp_path):
    def told(*words):
        done = picoclaw(tmp_path, *words)
        assert done.returncode == 0
        return [line for line in done.stderr.splitlines() if "new conversation" in line]

    hello = ["chat", "--board", "sim", "-m", "hello"]
    prompt = ["prompt", "--board", "sim"]
    assert told(*prompt, "--session", "shed") == ["picoclaw: 'shed' is a new conversation; there are: terminal"]
    assert not (tmp_path / "picoclaw/state.db").exists()
    assert told(*prompt) == told(*hello) == []
    assert told(*hello, "--session", "shed") == ["picoclaw: 'shed' is a new conversation; there are: terminal"]
    assert told(*hello, "--session", "shed") == told(*prompt, "--session", "shed") == []
    for words in (prompt, hello):
        assert told(*words, "--session", "zzz") == ["picoclaw: 'zzz' is a new conversation; there are: shed, terminal"]


def test_the_owners_prompts_and_intents_count(tmp_path):
    for folder in ("workspace/prompts", "intents"):
        (tmp_path / "picoclaw" / folder).mkdir(parents=True)
    (tmp_path / "picoclaw/workspace/prompts/identity.md").write_text("You are the gardener {name}.\n")
    (tmp_path / "picoclaw/intents/mine.toml").write_text(
        '[intents.plants]\ntool = "list_dir"\nanswer = "Here: {result}"\ntemplates = "show me the beds"\n'
    )
    assert "You are the gardener picoclaw." in picoclaw(tmp_path, "prompt", "--board", "sim").stdout
    assert chat(tmp_path, "show me the beds").stdout.startswith("Here: AGENTS.md")


def test_a_register_of_an_unknown_part_is_not_named_without_a_yes(tmp_path):
    """Naming a register writes a byte, which an expander would take for its new output."""
    reads = [call("i2c", {"action": "read", "address": a, "register": 0}, f"c{a}") for a in (0x20, 0x76)]
    with ModelServer([reply("", *reads), reply("ok")]) as server:
        chat(tmp_path, "go", server=server)
    unknown, known = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert unknown.startswith("error: i2c was not done yet: it waits for the owner's yes as number 1 ")
    assert "from register 0x00" in known
    assert waits(tmp_path) == ['1  i2c {"action": "read", ']


def test_a_server_that_echoes_the_key_does_not_spread_it(tmp_path):
    key = "sk-very-secret-key"
    for script in ([refusal(401, f"Incorrect key: Bearer {key}")], [reply(f"your key is {key}, is it not?")]):
        with ModelServer(script) as server:
            done = chat(tmp_path, "hello", "--json", server=server, PICOCLAW_API_KEY=key)
        assert key not in done.stdout + done.stderr
    stored = b"".join(p.read_bytes() for p in (tmp_path / "picoclaw").glob("state.db*"))
    assert key.encode() not in stored


# ---- the README


def readme_commands(page="README.md"):
    text = (ROOT / page).read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (line.partition("   #")[0].strip() for line in block.splitlines())


# Of a board with a service; test_docs.py looks whether they are understood.
OF_A_BOARD = ("sudo", "git", *(f"picoclaw {verb}" for verb in ("status", "telegram", "page", "init --telegram")))


@pytest.mark.parametrize(
    "line",
    [
        line
        for page in ("README.md", "docs/howto/sensors.md")
        for line in readme_commands(page)
        if not line.startswith(("make", *OF_A_BOARD))
    ],
)
def test_readme_commands_run(line):
    words = shlex.split(line)
    if words[0] == "picoclaw":
        with tempfile.TemporaryDirectory(dir="/var/tmp") as disk:  # `doctor` warns of a home in memory
            done = picoclaw(Path(disk), *words[1:])
    else:
        words = [PICOCLAW[0], *(w for w in words[1:] if w not in {"--bus", "1"}), "--sim"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_readme_names_real_things():
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"make chat", "make test"} <= set(readme_commands())
    assert set(re.findall(r"^make (\w+)$", text, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / link).exists(), link
    code = "".join(p.read_text() for p in (ROOT / "picoclaw").rglob("*.py"))
    for variable in set(re.findall(r"\b(?:PICOCLAW|OPENAI|OPENROUTER)_[A-Z_]+\b", text)):
        assert variable in code, variable


def test_readme_sensor_is_a_setting_that_works(tmp_path):
    [toml] = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    Path(tmp_path / "picoclaw/config.toml").write_text(toml)
    assert "°C" in picoclaw(tmp_path, "tool", "sensor_read", "--board", "sim").stdout


def test_shipped_config_is_all_defaults(tmp_path):
    """Uncommenting every line of the shipped config.toml gives settings that load."""
    text = (ROOT / "templates/config.toml").read_text()
    lines = [re.sub(r"^# (?=[a-z_]+ = |\[)", "", line) for line in text.splitlines()]
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text("\n".join(lines))
    done = picoclaw(tmp_path, "tools", "--board", "sim", PICOCLAW_BASE_URL="http://127.0.0.1:9/v1")
    assert done.returncode == 0, done.stderr
    assert "\nsensor_read([sensor], [quantity])\n" in done.stdout
    assert "\nread_file(path, [" in done.stdout
    assert os.environ.get("PICOCLAW_HOME") != str(tmp_path)


def test_a_sensor_that_fails_is_an_error_also_without_a_model(tmp_path):
    with_settings(tmp_path, '[sensors.porch]\npart = "bme280"\nbus = 77\n')
    done = chat(tmp_path, "how warm is it on the porch?", "--board", "linux")
    assert done.returncode == 1
    assert "/dev/i2c-77" in one_line(done)


def test_a_killed_chat_leaves_no_bell_for_long(tmp_path):
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
    assert list((tmp_path / "picoclaw").glob("wake-*"))
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
    assert not list((tmp_path / "picoclaw").glob("wake-*"))


def test_prompt_lists_what_it_leaves_out_of_the_owners_files(tmp_path):
    picoclaw(tmp_path, "init")
    rules = "# House\n\n- Never open:\n- the gate at night\n- Outputs:\n\n| pump | by day |\n|---|---|\n\n## Ask Ada\n"
    (tmp_path / "picoclaw/workspace/AGENTS.md").write_text(f"<!-- mine -->\n{rules}")
    (tmp_path / "picoclaw/workspace/USER.md").write_text("- Name: Ada\n- Wired:\n")
    shown = picoclaw(tmp_path, "prompt", "--board", "sim").stdout
    assert f'<file name="AGENTS.md">\n{rules}</file>' in shown
    left_out = shown.partition("--- left out of your files\n")[2].partition("---")[0]
    assert "AGENTS.md line 1: comment\n" in left_out
    assert "USER.md line 2: not filled in: - Wired:\n" in left_out
    assert json.loads(picoclaw(tmp_path, "prompt", "--board", "sim", "--json").stdout)["left_out"] == (
        left_out.splitlines()
    )
