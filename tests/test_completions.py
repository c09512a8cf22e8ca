"""The board as a model of OpenAI's API: tokens, errors in its shape, streams, conversations, and who may say yes."""

import http.client
import json
import socket
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from daemon_kit import PUMP, Daemon, furnished, until
from model_server import ModelServer, call, reply
from mqtt_broker import free_port
from page_house import Client, later, served

from picoclaw import cli
from picoclaw.channels.dashboard.live import PAGE_OUTBOX_FILE
from picoclaw.channels.dashboard.login import TOKENS_FILE, ProgramTokens
from picoclaw.channels.dashboard.programs import Programs
from picoclaw.channels.dashboard.server import MAX_PENDING
from picoclaw.config import Config
from picoclaw.config.tables import PageConfig
from picoclaw.errors import ConfigError
from picoclaw.messages import Notice, Text, ToolCall, ToolRun, Turn, Usage
from picoclaw.store.approvals import Approval
from picoclaw.store.database import Database

HELLO = [{"role": "user", "content": "hello"}]


def turn(text, stopped="", usage=(0, 0)):
    return Turn(text, (), 1, (), Usage(*usage), stopped, "model", Notice(""))


class Door:
    """A program with a token, which keeps its side of the connection open until it has its answer."""

    def __init__(self, port, secret=""):
        self.port, self.secret = port, secret

    def send(self, method, path, body=None, **headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        try:
            line.request(method, path, data, given | {key.replace("_", "-"): value for key, value in headers.items()})
        except OSError:
            line.close()
            raise
        return line

    def ask(self, method, path, body=None, **headers):
        with closing(self.send(method, path, body, **headers)) as line, line.getresponse() as answer:
            text, found = answer.read().decode(), dict(answer.getheaders())
        return answer.status, json.loads(text) if text.startswith("{") else text, found

    def says(self, *texts, stream=False, **more):
        """Ask by the whole conversation: the user's texts, with answers between."""
        headers = more.pop("headers", {})
        messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
        body = {"model": "picoclaw", "messages": messages, "stream": stream} | more
        return self.ask("POST", "/v1/chat/completions", body, **headers)

    def reads(self, *texts, **more):
        """The text of an answer that has to be good."""
        status, body, _ = self.says(*texts, **more)
        assert status == 200, body
        return body["choices"][0]["message"]["content"]


def events(text):
    """The chunks of a stream, without its end."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


class Bench:
    """A page with the door, whose turns are the test's."""

    def __init__(self, home, notes):
        self.withdrawn = []
        config = Config(home, page=PageConfig(openai=True))
        withdraw = lambda *message: self.withdrawn.append(message)  # noqa: E731
        self.programs = Programs(config, "", notes.append, withdraw, lambda who: 0)
        self.secrets = {name: ProgramTokens(home).add(name, owner=name == "ada") for name in ("ada", "hall")}

    def answer(self, client, text="hi there", number=0, **more):
        """Wait for the message, and answer it."""
        until(lambda: len(client.posted) > number)
        self.programs.answered(client.posted[number], turn(text, **more), text, is_fine=False)
        return client.posted[number]


@pytest.fixture
def notes():
    return []


@pytest.fixture
def bench(tmp_path, notes):
    return Bench(tmp_path, notes)


@pytest.fixture
def client(tmp_path, bench):
    with served(tmp_path, programs=bench.programs) as one:
        one.ada, one.hall = (Door(one.port, bench.secrets[name]) for name in ("ada", "hall"))
        yield one


def test_a_token_is_shown_once_and_kept_as_a_digest(tmp_path):
    tokens = ProgramTokens(tmp_path)
    secret = tokens.add("hall", owner=False)
    kept = (tmp_path / TOKENS_FILE).read_text()
    assert secret not in kept
    assert (tmp_path / TOKENS_FILE).stat().st_mode & 0o777 == 0o600
    assert tokens.find(secret).name == "hall"
    assert not tokens.find(secret).owner
    assert tokens.find("") is tokens.find(secret[:-1]) is None
    for name in ("hall", "Hall", "", "a b", "x" * 33):
        with pytest.raises(ConfigError):
            tokens.add(name, owner=True)
    assert tokens.revoke("hall")
    assert not tokens.revoke("hall")
    assert tokens.find(secret) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": {"digest": 3, "at": 1}}', '{"a": {"digest": "é", "at": 1}}']
)
def test_a_torn_file_of_tokens_lets_nobody_in(tmp_path, text):
    (tmp_path / TOKENS_FILE).write_text(text)
    assert ProgramTokens(tmp_path).find("sk-x") is None


def test_the_command_lists_and_ends_tokens_and_makes_them_for_a_person_only(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    ProgramTokens(tmp_path).add("ada", owner=True)
    assert cli.run(["page", "token"]) == 0
    assert "ada, the owner, since" in capsys.readouterr().out
    assert cli.run(["page", "token", "revoke", "ada"]) == 0
    assert cli.run(["page", "token", "revoke", "ada"]) == 1
    assert cli.run(["page", "token", "add"]) == 2
    assert cli.run(["page", "token", "add", "hall"]) == 1  # this is no terminal
    assert "person at a terminal" in capsys.readouterr().err
    assert ProgramTokens(tmp_path).listed() == []


def test_the_model_is_listed(client):
    status, body, _ = client.hall.ask("GET", "/v1/models")
    assert (status, [one["id"] for one in body["data"]], body["object"]) == (200, ["picoclaw"], "list")
    assert client.hall.ask("GET", "/v1/models/picoclaw")[1]["object"] == "model"


def chat(**more):
    return {"model": "picoclaw", "messages": HELLO} | more


WRONG = [
    ("GET", "/v1/models/gpt-4o", None, 404, "model_not_found"),
    ("POST", "/v1/chat/completions", chat(model="gpt-4o"), 404, "model_not_found"),
    ("POST", "/v1/chat/completions", {"messages": HELLO}, 404, "model_not_found"),
    ("POST", "/v1/chat/completions", b"{", 400, None),
    ("POST", "/v1/chat/completions", b"[]", 400, None),
    ("POST", "/v1/chat/completions", b"[" * 100_000, 400, None),
    ("POST", "/v1/chat/completions", chat(messages="hello"), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=["hello"]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": "system", "content": "x"}]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": " "}]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": None}]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), 400, None),
    (
        *("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": "x" * 16_001}])),
        *(400, "context_length_exceeded"),
    ),
    ("POST", "/v1/chat/completions", chat(n=2), 400, None),
    ("POST", "/v1/chat/completions", chat(n=[]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": {}, "content": "x"}]), 400, None),
    ("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": "/stop"}]), 400, None),
    ("POST", "/v1/embeddings", {"input": "x"}, 404, "unknown_url"),
    ("POST", "/v1/responses", {"input": "x"}, 404, "unknown_url"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), WRONG)
def test_what_is_wrong_is_said_in_openais_shape(client, method, path, body, status, code, capfd):
    got, answer, _ = client.hall.ask(method, path, body)
    assert (got, answer["error"]["code"]) == (status, code)
    assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert client.posted == []
    assert "Traceback" not in capfd.readouterr().err


def test_nobody_is_heard_without_a_token_that_counts(client, bench, tmp_path, notes):
    for secret in ("", "sk-x", "é".encode().decode("latin-1"), bench.secrets["hall"][:-1]):
        status, answer, _ = Door(client.port, secret).ask("GET", "/v1/models")
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    assert 429 in [Door(client.port, "sk-x").ask("GET", "/v1/models")[0] for _ in range(6)]
    assert client.hall.ask("GET", "/v1/models")[0] == 200
    ProgramTokens(tmp_path).revoke("hall")
    assert client.hall.says("hello")[0] in {401, 429}
    assert client.posted == []
    assert [note for note in notes if "no token" in note] == notes[:1]
    client.login()
    assert client.ask("/v1/models")[0] in {401, 429}  # a browser's cookie is none
    assert client.ask("/api/state", headers={"Authorization": f"Bearer {bench.secrets['ada']}", "Cookie": ""})[0] == 401


def test_without_the_setting_there_is_no_such_door(tmp_path):
    secret = ProgramTokens(tmp_path).add("hall", owner=False)
    with served(tmp_path) as client:
        assert Door(client.port, secret).ask("GET", "/v1/models")[0] == 404


def test_an_answer_has_its_text_its_end_and_its_tokens(client, bench):
    later(lambda: bench.answer(client, "It is 21 °C.", usage=(30, 7)))
    status, body, headers = client.hall.says("how warm?", tools=[{"type": "function"}], temperature=1)
    assert (status, headers["X-Picoclaw-Ignored"]) == (200, "tools")
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "It is 21 °C.", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"] == {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}
    assert (body["object"], body["model"]) == ("chat.completion", "picoclaw")
    (got,) = client.posted
    assert (got.text, got.who, got.origin) == ("how warm?", "token:hall", "guest")


def test_the_owners_token_is_the_owner_and_parts_of_text_are_put_together(client, bench):
    later(lambda: bench.answer(client, "x", stopped="steps"))
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    messages = [{"role": "system", "content": "You are a pirate"}, {"role": "user", "content": parts}]
    assert (
        client.ada.ask("POST", "/v1/chat/completions", chat(messages=messages))[1]["choices"][0]["finish_reason"]
        == "length"
    )
    assert (client.posted[0].origin, client.posted[0].text) == ("web", "one\ntwo")


def test_a_stream_comes_as_it_is_said(client, bench):
    def speak():
        until(lambda: client.posted)
        hooks = bench.programs.around(client.posted[0])
        for text in ("Let me ", "look."):
            hooks.listen(Text(text))
        hooks.listen(ToolRun("sensor_read", {}, "21", 1.0))
        hooks.listen(Text("It is 21 °C."))
        reply = "It is 21 °C.\n[simulated]"
        bench.programs.answered(client.posted[0], turn("It is 21 °C.", usage=(5, 6)), reply, is_fine=False)

    later(speak)
    status, text, headers = client.hall.says("how warm?", stream=True, stream_options={"include_usage": True})
    assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    found = events(text)
    said = "".join(c["choices"][0]["delta"].get("content", "") for c in found if c["choices"])
    assert said == "Let me look.\n\nIt is 21 °C.\n[simulated]"
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [c["choices"][0]["finish_reason"] for c in found if c["choices"]][-2:] == [None, "stop"]
    assert found[-1]["usage"]["total_tokens"] == 11
    assert {c["object"] for c in found} == {"chat.completion.chunk"}


QUESTION = Approval(
    *(3, "a1b2c3d4e5f6", "openai:x", "terminal", "web", "token:ada", ToolCall("1", "output", {"name": "pump"})),
    *("actuate", "actuate.owner = ask", "it is told to", "", {}, "", (), "output\n  name: pump", 1.0, 2e9),
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("who", ["ada", "hall"])
def test_what_waits_for_a_yes_is_shown_to_whom_it_concerns(client, bench, who, stream):
    def ask():
        until(lambda: client.posted)
        bench.programs.changed(QUESTION._replace(session="openai:another:1", number=9))
        bench.programs.changed(QUESTION._replace(session=client.posted[0].key))
        bench.answer(client, "It waits.")

    later(ask)
    _, body, _ = getattr(client, who).says("pump on", stream=stream)
    if stream:
        said = "".join(c["choices"][0]["delta"].get("content", "") for c in events(body))
    else:
        said = body["choices"][0]["message"]["content"]
    if who == "ada":
        assert said.startswith("It waits.\n\nnumber 3: output\n  name: pump\n(it is told to)\n/yes 3, /no 3")
    else:
        assert said == "It waits.\n\nNumber 3 waits for the owner's yes."


def test_each_token_and_each_conversation_has_a_session_of_its_own(client, bench):
    asked = [
        (client.hall, ("hello",), {}),
        (client.hall, ("hello", "hi there", "how warm?"), {}),
        (client.hall, ("hello", "edited", "how damp?"), {}),
        (client.ada, ("hello",), {}),
        (client.hall, ("good morning",), {}),
        (client.hall, ("a",), {"user": "u1"}),
        (client.hall, ("b",), {"user": "u2"}),
        (client.hall, ("c",), {"headers": {"X_OpenWebUI_Chat_Id": "u1"}}),
        (client.hall, ("d",), {"headers": {"X_Conversation_Id": "u1"}}),
        (client.ada, ("d",), {"headers": {"X_Conversation_Id": "u1"}}),
    ]
    for number, (door, texts, more) in enumerate(asked):
        later(lambda at=number: bench.answer(client, number=at))
        assert door.says(*texts, **more)[0] == 200
    keys = [one.key for one in client.posted]
    assert [keys.index(key) for key in keys] == [0, 0, 0, 3, 4, 5, 6, 7, 7, 9]
    assert all(key.startswith(f"openai:{one.who[6:]}:") for key, one in zip(keys, client.posted, strict=True))
    assert client.house.begun == [keys[0], keys[3], keys[4], keys[5], keys[6]]  # anew, where nothing was said before


@pytest.mark.parametrize("stream", [False, True])
def test_who_hangs_up_takes_the_message_back(client, bench, stream):
    line = client.hall.send("POST", "/v1/chat/completions", chat(stream=stream))
    until(lambda: client.posted)
    line.sock.close()
    until(lambda: bench.withdrawn)
    assert bench.withdrawn == [(client.posted[0].key, client.posted[0].external)]
    until(lambda: not bench.programs._open)


@pytest.mark.parametrize("stream", [False, True])
def test_a_token_that_is_revoked_takes_its_message_back(client, bench, stream):
    """A stream ends without its mark of the end, also while the turn goes on talking."""
    line = client.ada.send("POST", "/v1/chat/completions", chat(stream=stream))
    until(lambda: client.posted)
    hooks, tokens = bench.programs.around(client.posted[0]), ProgramTokens(client.home)
    assert tokens.revoke("ada")
    tokens.add("ada", owner=True)  # of the same name, and another

    def talk():
        hooks.listen(Text("and "))
        time.sleep(0.02)
        return bench.withdrawn

    until(talk)
    assert bench.withdrawn == [(client.posted[0].key, client.posted[0].external)]
    with closing(line), line.getresponse() as answer:
        assert (answer.status, b"[DONE]" in answer.read()) == (200 if stream else 503, False)


def test_a_hundred_programs_do_not_take_the_page_with_them(client, bench, notes):
    """Each token may ask 20 times at once, so there are ten people; four of their requests wait."""
    doors = [Door(client.port, ProgramTokens(client.home).add(f"p{n}", owner=False)) for n in range(10)]
    client.login()
    found, lock = [], threading.Lock()

    def ask(door):
        status, end = 0, time.monotonic() + 40
        while not status and time.monotonic() < end:
            try:
                status = door.says("hello")[0]
            except (OSError, http.client.HTTPException):  # the server has made room for another
                time.sleep(0.05)
        with lock:
            found.append(status)

    threads = [later(lambda door=door: ask(door)) for door in doors * 10]
    until(lambda: len(client.posted) == MAX_PENDING and len(found) >= 80, 30)
    began = time.monotonic()
    assert client.told("/api/state")["name"] == "shed"
    assert client.ask("/health")[0] == 200
    assert time.monotonic() - began < 3
    for number in range(len(client.posted)):
        bench.answer(client, number=number)
    bench.programs.end()
    for thread in threads:
        thread.join(30)
    assert len(found) == 100
    assert found.count(200) >= MAX_PENDING
    assert set(found) <= {200, 429, 503}
    assert len([note for note in notes if "wait for the model" in note]) == 1


def test_one_token_is_not_asked_without_end(client, bench):
    found = [client.hall.ask("GET", "/v1/models")[0] for _ in range(25)]
    assert found[:20] == [200] * 20
    assert 429 in found[20:]


def test_when_picoclaw_ends_those_who_wait_are_told(client, bench):
    found = []
    threads = [later(lambda flag=flag: found.append(client.hall.says("hello", stream=flag))) for flag in (False, True)]
    until(lambda: len(client.posted) == 2)
    bench.programs.end()
    for thread in threads:
        thread.join(10)
    assert sorted(status for status, *_ in found) == [200, 503]
    assert all("picoclaw ends" in str(body) for _, body, _ in found)


# --- a whole daemon ---


@pytest.fixture
def house(tmp_path):
    """A home with two tokens and an output that takes a yes; gives the folder and the doors."""

    class House:
        port = free_port()

        def furnish(self, settings=""):
            text = f"[page]\nenabled = true\nopenai = true\nport = {self.port}\n{settings}"
            self.folder = furnished(tmp_path, text, PUMP.replace("confirm = false", "confirm = true"))
            tokens = ProgramTokens(self.folder)
            self.ada, self.hall = (Door(self.port, tokens.add(n, owner=n == "ada")) for n in ("ada", "hall"))
            return Daemon(tmp_path).ready()

        def select(self, sql):
            database = Database(self.folder / "state.db")
            try:
                return database.select(sql)
            finally:
                database.close()

    return House()


def level(daemon):
    return [one["left"] is not None for one in daemon.asked("status")["outputs"]["outputs"]]


def test_an_act_waits_and_only_the_owners_token_may_say_yes(house):
    with house.furnish() as daemon:
        assert "/yes 1" in house.ada.reads("turn on the pump for 30 seconds")
        said = house.hall.reads("/yes 1")
        assert True not in level(daemon)
        assert "done" not in said.lower().replace("have done nothing", "")
        assert True not in level(daemon)
        house.ada.reads("/yes 1")
        assert level(daemon) == [True]
        assert house.hall.reads("stop")  # which everybody may say
        assert True not in level(daemon)
        assert "openai" not in daemon.asked("status").get("problems", [])
    assert house.select("SELECT state FROM approvals") == [("done",)]
    marks = house.select("SELECT value FROM marks WHERE name = 'chat.last'")
    assert not any("openai" in str(value) for (value,) in marks)  # nobody reads there what is told later


def test_conversations_go_on_and_nobody_sees_anothers(house):
    answers = [reply("The word is kumquat."), reply("You said it."), reply("No."), reply("Anew.")]
    with ModelServer(answers) as server, house.furnish(f'[model]\nbase_url = "{server.url}"\nname = "m"\n'):
        assert house.ada.reads("hello").startswith("The word is kumquat.")
        assert house.ada.reads("hello", "The word is kumquat.", "which word?").startswith("You said it.")
        house.hall.reads("hello", "The word is kumquat.", "which word?")  # another's conversation, as it claims
        house.ada.reads("hello")
        shown = [json.dumps(one.body["messages"][1:]) for one in server.requests]
    assert "kumquat" in shown[1]
    assert "kumquat" not in shown[2]
    assert "kumquat" not in shown[3]  # a conversation that begins like the first


def test_a_reminder_that_a_program_asks_for_is_told_in_a_chat_that_somebody_reads(house):
    with house.furnish():
        page = Client(SimpleNamespace(port=house.port), house.folder, None, [])
        page.login()
        assert "reminder" in house.hall.reads("remind me in 1 second to water the figs").lower()
        file = house.folder / PAGE_OUTBOX_FILE
        until(lambda: file.exists() and "water the figs" in file.read_text())
    assert house.select("SELECT text FROM outbox") == []


def test_a_turn_with_tools_streams_and_counts_all_its_steps(house):
    answers = [reply("Let me look.", call("sensor_read")), reply("It is warm enough.", usage=(40, 4))]
    with ModelServer(answers) as server, house.furnish(f'[model]\nbase_url = "{server.url}"\nname = "m"\n'):
        _, text, _ = house.ada.says("how is it?", stream=True, stream_options={"include_usage": True})
    found = events(text)
    said = "".join(c["choices"][0]["delta"].get("content", "") for c in found if c["choices"])
    assert said.startswith("Let me look.\n\nIt is warm enough.")
    assert found[-1]["usage"]["prompt_tokens"] >= 40


def test_a_hang_up_ends_the_turn_and_its_request_to_the_model(house):
    begun = threading.Event()

    def silent(exchange):
        begun.set()
        exchange.rest(60)

    with (
        ModelServer([silent, reply("here")]) as server,
        house.furnish(f'[model]\nbase_url = "{server.url}"\nname = "m"\n'),
    ):
        line = house.ada.send("POST", "/v1/chat/completions", chat())
        assert begun.wait(20)
        line.sock.shutdown(socket.SHUT_RDWR)
        line.close()
        began = time.monotonic()
        assert house.ada.reads("are you there?").startswith("here")
        assert time.monotonic() - began < 20
        until(lambda: not house.select("SELECT 1 FROM inbox WHERE NOT done"))
    assert house.select("SELECT text FROM outbox") == []


def test_the_real_client_of_openai(house):
    openai = pytest.importorskip("openai", reason="the openai package is not installed")
    with house.furnish():
        with openai.OpenAI(
            base_url=f"http://127.0.0.1:{house.port}/v1", api_key=house.hall.secret, max_retries=0
        ) as made:
            assert [model.id for model in made.models.list()] == ["picoclaw"]
            asked = [{"role": "user", "content": "how warm is it?"}]
            got = made.chat.completions.create(model="picoclaw", messages=asked)
            assert "°C" in got.choices[0].message.content
            asked += [{"role": "assistant", "content": "warm"}, {"role": "user", "content": "and the humidity?"}]
            with made.chat.completions.create(model="picoclaw", messages=asked, stream=True) as stream:
                said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            assert "%" in said
            with pytest.raises(openai.NotFoundError) as caught:
                made.chat.completions.create(model="gpt-4o", messages=asked)
            assert caught.value.code == "model_not_found"
        url = f"http://127.0.0.1:{house.port}/v1"
        with (
            openai.OpenAI(base_url=url, api_key="sk-no", max_retries=0) as other,
            pytest.raises(openai.AuthenticationError),
        ):
            other.models.list()
