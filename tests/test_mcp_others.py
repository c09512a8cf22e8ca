"""Servers and clients that others have written, where `make mcp` has installed them."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mcp_kit import agree, make_config, sim
from test_mcp_server import PUMP

sys.path.insert(0, str(Path(__file__).parent / "outputs"))

from daemon_kit import Daemon, furnished, until
from mqtt_broker import free_port
from outputs_kit import make_home, pin

from picoclaw.app import App
from picoclaw.config.tables import McpConfig
from picoclaw.messages import Caller, ToolCall
from picoclaw.security.sandbox import find_missing_program
from picoclaw.workspace import prepare_home

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("MCP_BUILD", ROOT / "build/mcp"))
NODE, MODULES = BUILD / "node_modules/node/bin/node", BUILD / "node_modules"
pytestmark = [
    pytest.mark.skipif(not (BUILD / "installed-1").exists(), reason="make mcp installs what this runs against"),
    pytest.mark.skipif(bool(find_missing_program()), reason="there is no bubblewrap for the walls"),
]

OFFICIAL = MODULES / "@modelcontextprotocol"
EVERYTHING = str(OFFICIAL / "server-everything/dist/index.js")


def tables(tmp_path):
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    (data / "figs.txt").write_text("The figs are thirsty.")
    files = str(OFFICIAL / "server-filesystem/dist/index.js")
    return {
        "all": McpConfig(command=[str(NODE), EVERYTHING]),
        "files": McpConfig(command=[str(NODE), files, str(data)], folders=[str(data)]),
        "time": McpConfig(command=[str(BUILD / "py/bin/mcp-server-time")]),
        "sqlite": McpConfig(
            command=[str(BUILD / "py1/bin/mcp-server-sqlite"), "--db-path", str(data / "x.db")], write=[str(data)]
        ),
    }


CALLS = {
    "all": [("echo", {"message": "figs"}, "Echo: figs"), ("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5.")],
    "files": [("read_text_file", {"path": "@data@/figs.txt"}, "The figs are thirsty.")],
    "time": [("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00")],
    "sqlite": [("list_tables", {}, "[]")],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_server_of_others(name, tmp_path):
    table, home = tables(tmp_path)[name], tmp_path / "home"
    make_config(home)
    agree(home, name, table)
    app = App(make_config(home, **{name: table}), sim())
    app.ask = lambda _: True
    with closing(app):
        caller = Caller("terminal", "owner", app.now(), lambda _: None)
        for tool, arguments, told in CALLS[name]:
            given = json.loads(json.dumps(arguments).replace("@data@", str(tmp_path / "data")))
            assert told in app.toolset.call(ToolCall("c", f"{name}.{tool}", given), caller)
        if name == "files":
            given = {"path": str(tmp_path / "data/new.txt"), "content": "x"}
            assert "error" in app.toolset.call(ToolCall("c", "files.write_file", given), caller)
            assert not (tmp_path / "data/new.txt").exists()
        if name == "all":
            listed = app.toolset.call(ToolCall("c", "mcp_list", {"server": "all"}), caller)
            assert "resources:" in listed
            assert "prompts:" in listed
            read = app.toolset.call(ToolCall("c", "mcp_read", {"server": "all", "prompt": "simple-prompt"}), caller)
            assert read.startswith("user: ")


def test_a_server_of_others_over_http(tmp_path):
    port = free_port()
    log = (tmp_path / "log").open("wb")
    given = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([NODE, EVERYTHING, "streamableHttp"], env=given, stdout=log, stderr=log) as process, log:
        try:
            until(lambda: b"listening" in (tmp_path / "log").read_bytes().lower(), 30.0)
            home, table = tmp_path / "home", McpConfig(url=f"http://127.0.0.1:{port}/mcp", seconds=2.0)
            make_config(home)
            agree(home, "far", table)
            with closing(App(make_config(home, far=table), sim())) as app:
                echo = ToolCall("c", "far.echo", {"message": "figs"})
                slow = ToolCall("c", "far.trigger-long-running-operation", {"duration": 4, "steps": 4})
                for call, told in ((echo, "Echo: figs"), (slow, "completed")):  # longer than `seconds`, with progress
                    caller = Caller("terminal", "owner", app.now(), lambda _: None)
                    assert told in app.toolset.call(call, caller)
                assert "it waits for the owner's yes" in app.toolset.call(echo, caller)  # which has read something now
        finally:
            process.terminate()


def sdk(mode, answer, *where, home):
    words = [BUILD / "py/bin/python", ROOT / "tests/mcp_sdk_client.py", mode, answer, *where]
    given = {**os.environ, "PICOCLAW_HOME": str(home)}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=90, env=given, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_session(said, answer, home):
    called = [one for one in said if "called" in one]
    assert "°C" in said[2]["sensor"]
    assert "°C" in called[0]["text"]
    assert called[1]["error"] is True
    switched = called[3]
    assert switched["error"] == (answer != "yes")
    assert [one for one in said if "asked" in one] if answer != "none" else "number 1" in switched["text"]
    assert bool(pin(home)) == (answer == "yes")


@pytest.mark.parametrize(
    ("mode", "answer"), [("legacy", "yes"), ("auto", "yes"), ("auto", "decline"), ("legacy", "none")]
)
def test_a_desktop_client_reads_the_greenhouse_and_is_asked_before_it_switches(mode, answer, tmp_path):
    home = tmp_path / "home"
    prepare_home(home)
    make_home(home, PUMP)
    command = [sys.executable, "-m", "picoclaw", "mcp", "--board", "sim"]
    check_session(sdk(mode, answer, *command, home=home), answer, home)


@pytest.mark.parametrize(("mode", "answer"), [("legacy", "yes"), ("auto", "yes"), ("auto", "decline")])
def test_a_desktop_client_at_the_page_of_a_daemon(mode, answer, tmp_path):
    port, token = free_port(), "0123456789abcdef0123"
    folder = furnished(tmp_path, f"[page]\nenabled = true\nport = {port}\n", PUMP)
    (folder / "secrets.toml").write_text(f'mcp_token = "{token}"\n')
    (folder / "secrets.toml").chmod(0o600)
    with Daemon(tmp_path).ready() as daemon:
        until(lambda: daemon.asked("status")["channels"]["page"]["up"])
        check_session(sdk(mode, answer, f"http://127.0.0.1:{port}/mcp", token, home=folder), answer, folder)


def test_the_inspector(tmp_path):
    home = tmp_path / "home"
    prepare_home(home)
    command = [str(MODULES / ".bin/mcp-inspector"), "--cli", sys.executable, "-m", "picoclaw", "mcp", "serve"]
    given = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    words = [*command, "-e", f"PICOCLAW_HOME={home}", "--method", "tools/list"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, env=given, check=False)
    assert done.returncode == 0, done.stderr
    assert "sensor_read" in [one["name"] for one in json.loads(done.stdout)["tools"]]
