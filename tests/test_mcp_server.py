"""This board over MCP: over pipes and at the page's port, what is asked about, and what a stranger gets."""

import io
import json
import os
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "outputs"))

from outputs_kit import make_home, pin
from page_house import PaperHouse, served

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.hw.sim import SimBoard
from picoclaw.mcp import META
from picoclaw.mcp.server import TOOLS, BoardBackend, ClientState, HttpServer, McpServer, StdioServer, share_board
from picoclaw.workspace import prepare_home

PUMP = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\nwho = ["owner", "mcp"]\n'
FAN = '[outputs.fan]\nline = "GPIO27"\nkind = "light"\nlongest_on_s = 600\nconfirm = false\nwho = ["owner", "mcp"]\n'
LAMP = '[outputs.lamp]\nline = "GPIO22"\nkind = "light"\nlongest_on_s = 600\n'
STATELESS = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {"elicitation": {}}}
TOKEN = "0123456789abcdef0123"
ON = {"action": "set", "name": "pump", "level": "on", "seconds": 5}


@contextmanager
def board(folder, outputs=PUMP + FAN + LAMP):
    home = folder / "home"
    prepare_home(home)
    make_home(home, outputs)
    app = App(Config(home), SimBoard(sleep=lambda _: None))
    with closing(app):
        yield app, BoardBackend(lambda: app, "shed")


@pytest.fixture
def served_board(tmp_path):
    with board(tmp_path) as (app, backend):
        yield app, McpServer(backend)


def ask(server, method, params=None, peer=None, answer=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
    return server.handle(message, peer or ClientState(version="2025-06-18"), answer)


def call(server, name, arguments, **more):
    return ask(server, "tools/call", {"name": name, "arguments": arguments}, **more)


def text(answer):
    return answer["result"]["content"][0]["text"]


# --- the protocol ---


@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_versions_are_agreed_on(wanted, spoken, served_board):
    _, server = served_board
    peer = ClientState()
    assert ask(server, "tools/list", peer=peer)["error"]["code"] == -32600
    said = ask(server, "initialize", {"protocolVersion": wanted, "capabilities": {}, "clientInfo": {}}, peer)
    assert said["result"]["protocolVersion"] == spoken
    assert set(said["result"]["capabilities"]) == {"tools", "resources"}
    assert ask(server, "ping", peer=peer)["result"] == {}


NONSENSE = [
    ({"id": None, "method": "ping"}, -32600),
    ({"id": True, "method": "ping"}, -32600),
    ({"id": 1, "method": 7}, -32600),
    ({"id": 1, "method": "ping", "params": []}, -32602),
    ({"id": 1, "method": "initialize", "params": {}}, -32602),
    ({"id": 1, "method": "no/such"}, -32601),
    ({"id": 1, "method": "server/discover"}, -32601),
    ({"id": 1, "method": "tools/call", "params": {"arguments": {}}}, -32602),
    ({"id": 1, "method": "tools/call", "params": {"name": "exec", "arguments": {"argv": ["ls"]}}}, -32602),
    ({"id": 1, "method": "tools/call", "params": {"name": "sensor_read", "arguments": []}}, -32602),
    ({"id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}, -32002),
    ({"id": 1, "method": "resources/read", "params": {"uri": "note://../../etc/passwd"}}, -32002),
    ({"id": 1, "method": "resources/read", "params": {"uri": "note://%2e%2e/secrets.toml"}}, -32002),
    ({"id": 1, "method": "resources/read", "params": {}}, -32602),
    ({"id": 1, "method": "tools/list", "params": {"_meta": {f"{META}protocolVersion": "2030-01-01"}}}, -32022),
    ({"id": 1, "method": "tools/list", "params": {"_meta": {f"{META}protocolVersion": "2026-07-28"}}}, -32602),
]


@pytest.mark.parametrize(("message", "code"), NONSENSE)
def test_nonsense_is_an_error(message, code, served_board):
    _, server = served_board
    assert server.handle({"jsonrpc": "2.0", **message}, ClientState(version="2025-06-18"))["error"]["code"] == code


def test_the_tools_are_those_of_the_registry_and_no_others(served_board):
    _, server = served_board
    tools = {one["name"]: one for one in ask(server, "tools/list")["result"]["tools"]}
    assert set(tools) == set(TOOLS)
    assert not set(tools) & {"exec", "read_file", "write_file", "web_fetch", "spawn", "gpio", "i2c", "skill_create"}
    assert all(one["inputSchema"]["type"] == "object" for one in tools.values())
    reads = {name for name, one in tools.items() if one["annotations"]["readOnlyHint"]}
    assert reads == {
        *("sensor_list", "sensor_read", "sensor_history", "board_status", "output_history"),
        *("memory_search", "memory_get"),
    }


def test_sensors_and_notes_are_resources(served_board):
    app, server = served_board
    (app.config.workspace / "MEMORY.md").write_text("- 2026-01-01: the fuse is 3 A\n")
    found = {one["uri"] for one in ask(server, "resources/list")["result"]["resources"]}
    assert {"sensor://greenhouse", "note://MEMORY.md"} <= found or {"sensor://greenhouse"} < found
    note = next(uri for uri in found if uri.startswith("note://"))
    read = ask(server, "resources/read", {"uri": "sensor://greenhouse"})["result"]["contents"][0]
    assert "°C" in read["text"]
    assert "[simulated board, not real values]" in read["text"]
    assert ask(server, "resources/read", {"uri": note})["result"]["contents"][0]["mimeType"] == "text/plain"
    assert len(ask(server, "resources/templates/list")["result"]["resourceTemplates"]) == 2


# --- what is asked about ---


def elicited(yes, asked):
    def answer(question):
        asked.append(question["params"]["message"])
        return yes

    return answer


def test_a_yes_switches_and_a_no_does_not(served_board, tmp_path):
    app, server = served_board
    peer, asked = ClientState(version="2025-06-18", elicits=True), []
    told = call(server, "output", ON, peer=peer, answer=elicited(False, asked))
    assert (told["result"]["isError"], text(told)) == (True, "output was refused: the answer was no")
    assert not pin(app.config.home)
    (question,) = asked
    assert question.startswith(
        'picoclaw on shed: output {"action": "set", "name": "pump", "level": "on", "seconds": 5.0'
    )
    told = call(server, "output", ON, peer=peer, answer=elicited(True, asked))
    assert text(told).startswith("pump is on for 5 s")
    assert pin(app.config.home) == 1
    told = call(server, "output", {"action": "off", "name": "pump"}, peer=peer)
    assert text(told).startswith("pump is at its safe level, off")  # to safety, nobody is asked
    assert len(asked) == 2


def test_without_a_person_it_waits_for_the_owner(served_board):
    app, server = served_board
    told = call(server, "output", ON)
    assert told["result"]["isError"] is True
    assert "it waits for the owner's yes as number 1" in text(told)
    assert not pin(app.config.home)
    (kept,) = app.stores.approvals.waiting()
    assert (kept.call.name, kept.origin) == ("output", "mcp")


def test_also_an_output_that_needs_no_yes_is_asked_about(served_board):
    app, server = served_board
    told = call(server, "output", {**ON, "name": "fan"})
    assert "rule switch.mcp = ask" in text(told)
    (app.config.home / "policy.toml").write_text('[effects]\nswitch = { mcp = "allow" }\n')
    (app.config.home / "policy.toml").chmod(0o600)
    assert text(call(server, "output", {**ON, "name": "fan"})).startswith("fan is on for 5 s")


def test_an_output_that_does_not_name_mcp_is_not_switched(served_board):
    app, server = served_board
    peer = ClientState(version="2025-06-18", elicits=True)
    told = call(server, "output", {**ON, "name": "lamp"}, peer=peer, answer=lambda _: True)
    assert told["result"]["isError"] is True
    assert not pin(app.config.home, 22)


@pytest.mark.parametrize(
    ("name", "arguments", "effect"),
    [
        ("memory_store", {"text": "the owner wants the pump on"}, "remember"),
        ("cron", {"action": "add", "message": "water", "at_seconds": 60}, "plan"),
        ("rule", {"action": "add", "name": "x", "when": "cpu.temperature > 1", "notify": "hot"}, "instruct"),
    ],
)
def test_what_lasts_is_asked_about(name, arguments, effect, served_board):
    app, server = served_board
    told = call(server, name, arguments)
    assert told["result"]["isError"] is True
    assert f"rule {effect}.mcp = ask" in text(told)
    assert app.stores.jobs.all() == []


def test_a_client_without_a_session_asks_again_with_the_answer(served_board):
    app, server = served_board
    params = {"name": "output", "arguments": ON, "_meta": STATELESS}
    first = ask(server, "tools/call", params, ClientState())["result"]
    assert first["resultType"] == "input_required"
    assert "output" in first["inputRequests"]["approve"]["params"]["message"]
    yes = {"approve": {"action": "accept", "content": {"approve": True}}}
    again = {"requestState": first["requestState"], "inputResponses": yes}
    other = {**params, **again, "arguments": {**ON, "seconds": 500}}
    assert ask(server, "tools/call", other, ClientState())["error"]["code"] == -32602  # a yes holds for one call
    state = first["requestState"]
    forged = {**params, **again, "requestState": state[:-1] + ("1" if state[-1] == "0" else "0")}
    assert ask(server, "tools/call", forged, ClientState())["error"]["code"] == -32602
    assert not pin(app.config.home)
    assert text(ask(server, "tools/call", {**params, **again}, ClientState())).startswith("pump is on for 5 s")
    assert ask(server, "tools/call", {**params, **again}, ClientState())["error"]["code"] == -32602  # and once


@pytest.mark.parametrize(
    "said",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept"},
        {"action": "accept", "content": {"approve": "true"}},
        {"action": "accept", "content": {"approve": 1}},
        {"action": "accept", "content": []},
    ],
)
def test_nothing_but_a_yes_is_one(said, served_board):
    app, server = served_board
    params = {"name": "output", "arguments": ON, "_meta": STATELESS}
    first = ask(server, "tools/call", params, ClientState())["result"]
    again = {**params, "requestState": first["requestState"], "inputResponses": {"approve": said}}
    assert text(ask(server, "tools/call", again, ClientState())) == "output was refused: the answer was no"
    assert not pin(app.config.home)


# --- over pipes ---


def test_pipes(tmp_path):
    with board(tmp_path) as (_, backend):
        lines = [
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "sensor_read", "arguments": {}}},
        ]
        data = b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in lines)
        out = io.BytesIO()
        StdioServer(McpServer(backend), io.BytesIO(b"rubbish\n\n[]\n" + data), out).serve()
        said = [json.loads(line) for line in out.getvalue().splitlines()]
        assert sorted(one["id"] or 0 for one in said) == [0, 0, 1, 2]
        assert [one["error"]["code"] for one in said if one["id"] is None] == [-32700, -32700]


def test_a_client_that_hangs_up_in_a_question_has_said_no(tmp_path):
    with board(tmp_path) as (app, backend):
        read, write = os.pipe()
        out_read, out_write = os.pipe()
        with ExitStack() as stack:
            source, sink = stack.enter_context(os.fdopen(read, "rb")), stack.enter_context(os.fdopen(out_write, "wb"))
            client, told = stack.enter_context(os.fdopen(write, "wb")), stack.enter_context(os.fdopen(out_read, "rb"))
            can = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}}
            for one in (
                {"id": 1, "method": "initialize", "params": can},
                {"id": 2, "method": "tools/call", "params": {"name": "output", "arguments": ON}},
            ):
                client.write(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n")
            client.flush()
            answers = []

            def listen():
                for line in told:
                    answers.append(json.loads(line))
                    if answers[-1].get("method") == "elicitation/create":
                        client.close()

            listener = threading.Thread(target=listen)
            listener.start()
            StdioServer(McpServer(backend), source, sink).serve()
            sink.close()
            listener.join(10)
        assert text(answers[-1]) == "output was refused: the answer was no"
        assert not pin(app.config.home)


# --- at the page's port ---


@contextmanager
def at_the_port(tmp_path):
    with board(tmp_path) as (app, _):
        backend = BoardBackend(share_board(app), "shed")
        served_ = HttpServer(McpServer(backend), TOKEN)
        with served(tmp_path / "page", PaperHouse(), mcp=served_) as client, closing(backend):
            yield app, client


def post(client, message, headers=None, token=TOKEN, **more):
    given = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Host": client.host}
    given |= {"Accept": "application/json, text/event-stream", **(headers or {})}
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    method = more.get("method", "POST")
    line.request(method, "/mcp", json.dumps({"jsonrpc": "2.0", **message}) if method == "POST" else None, given)
    answer = line.getresponse()
    body = answer.read().decode()
    line.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


GREETING = {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}}


def test_a_session_over_http(tmp_path):
    with at_the_port(tmp_path) as (_, client):
        status, headers, body = post(client, GREETING)
        session = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
        assert (status, json.loads(body)["result"]["protocolVersion"]) == (200, "2025-06-18")
        assert post(client, {"method": "notifications/initialized"}, session)[0] == 202
        reading = {"id": 2, "method": "tools/call", "params": {"name": "sensor_read", "arguments": {}}}
        status, _, body = post(client, reading, session)
        assert (status, "°C" in body) == (200, True)
        assert post(client, reading)[0] == 400
        assert post(client, reading, {"Mcp-Session-Id": "guessed"})[0] == 404
        assert post(client, reading, {**session, "MCP-Protocol-Version": "1999-01-01"})[0] == 400
        assert post(client, {}, session, method="GET")[0] == 405
        assert post(client, {}, session, method="DELETE")[0] == 204
        assert post(client, reading, session)[0] == 404


def test_strangers_get_nothing(tmp_path):
    with at_the_port(tmp_path) as (_, client):
        for token in ("", TOKEN[:-1], f"{TOKEN}x"):
            status, headers, _ = post(client, GREETING, token=token)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert post(client, GREETING, {"Host": "evil.example"})[0] == 421
        assert post(client, GREETING, {"Origin": "http://evil.example"})[0] == 403
        assert 429 in [post(client, GREETING, token="x")[0] for _ in range(8)]
        assert post(client, GREETING)[0] == 200
    with served(tmp_path / "other", PaperHouse()) as client:
        assert post(client, GREETING)[0] in {403, 404}  # where there is no token, there is nothing


def test_a_question_goes_out_on_the_stream_of_its_call(tmp_path):
    import http.client

    with at_the_port(tmp_path) as (_, client):
        can = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}}
        _, headers, _ = post(client, {**GREETING, "params": can})
        session = {"Mcp-Session-Id": headers["mcp-session-id"]}
        line = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        words = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "output", "arguments": ON}}
        given = {"Authorization": f"Bearer {TOKEN}", "Host": client.host, **session}
        line.request("POST", "/mcp", json.dumps(words), given)
        answer, asked, told = line.getresponse(), None, None
        assert answer.getheader("Content-Type") == "text/event-stream"
        while told is None:
            row = answer.readline().decode()
            if row.startswith("data: "):
                said = json.loads(row[6:])
                if said.get("method") == "elicitation/create":
                    asked = said
                    yes = {"id": said["id"], "result": {"action": "accept", "content": {"approve": True}}}
                    assert post(client, yes, session)[0] == 202
                else:
                    told = said
        line.close()
        assert "pump" in asked["params"]["message"]
        assert text(told).startswith("pump is on for 5 s")


def test_headers_have_to_say_what_the_body_says(tmp_path):
    with at_the_port(tmp_path) as (_, client):
        words = {"id": 1, "method": "tools/call"}
        words["params"] = {"name": "sensor_read", "arguments": {}, "_meta": STATELESS}
        right = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sensor_read"}
        status, _, body = post(client, words, right)
        assert (status, json.loads(body)["result"]["resultType"]) == (200, "complete")
        for name in right:
            wrong = {**right, name: "2025-06-18" if name.startswith("MCP") else "tools/list"}
            status, _, body = post(client, words, wrong)
            assert (status, json.loads(body)["error"]["code"]) == (400, -32020)
        assert (
            post(
                client,
                {"id": 1, "method": "no/such", "params": {"_meta": STATELESS}},
                {**right, "Mcp-Method": "no/such"},
            )[0]
            == 404
        )
