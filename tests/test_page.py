"""The page, at its door: what a browser is given, what it may do, and what it hears of a turn."""

import json
import re
import threading
import time

import pytest
from page_house import PaperHouse, later, served
from rows import each_row

from picoclaw.channels.dashboard.channel import DashboardChannel
from picoclaw.channels.dashboard.live import PAGE_OUTBOX_FILE as LETTERS
from picoclaw.channels.dashboard.live import ChatEntry, ListRow, make_question
from picoclaw.channels.dashboard.login import CODE_FILE, LOGINS_FILE, Logins, make_code
from picoclaw.daemon.status import name_troubles
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import find_shipped
from picoclaw.messages import Message, Notice, Text, ToolCall, ToolRun, Turn, Usage
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage

FILES = sorted((find_shipped("templates") / "page").iterdir())
ARRIVED = InboxMessage("page:home", "how warm is it?", "page:1", "web", external="x")
CALL = ToolCall("1", "exec", {"argv": ["reboot"]})
ASKED = ("page:home", "page:home", "web", "page:1", CALL, "exec", "exec.tainted = ask", "it is told to", "", {}, "", ())
KEPT = Approval(3, "a1b2c3d4e5f6", *ASKED, "exec\n  command: reboot", 1.0, 2e9)


def turn(reply, problem=""):
    notice = Notice(problem, failed=bool(problem))
    return Turn(reply, (Message("assistant", reply),), 1, (), Usage(), "", "model", notice)


@pytest.fixture
def client(tmp_path):
    with served(tmp_path) as one:
        one.login()
        yield one


def test_everything_together_is_small_and_comes_from_the_board_alone():
    assert sum(path.stat().st_size for path in FILES) < 60_000
    for path in (one for one in FILES if one.suffix != ".png"):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.|@import|eval\(|innerHTML|\son\w+=|style=", text), path.name


def test_every_file_is_given_with_its_kind_and_not_twice(client):
    for path in FILES:
        status, headers, body = client.ask(f"/{path.name}" if path.name != "index.html" else "/")
        assert (status, body) == (200, path.read_bytes())
        assert headers["content-type"].startswith(("text/", "image/", "application/manifest+json"))
        again = client.ask(
            "/" if path.name == "index.html" else f"/{path.name}", headers=[("If-None-Match", headers["etag"])]
        )
        assert (again[0], again[2]) == (304, b"")


def test_who_has_the_code_comes_in_once_with_a_cookie_that_scripts_cannot_read(tmp_path):
    with served(tmp_path) as client:
        assert client.ask("/api/state")[0] == 401
        code = make_code(tmp_path)
        status, headers, body = client.ask("/api/login", {"code": f" {code.lower().replace('0', 'o')} "})
        assert (status, body) == (200, b"{}")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(headers["set-cookie"].split("; "))
        assert client.ask("/api/login", {"code": code})[0] == 403
        kept = (tmp_path / LOGINS_FILE).read_text()
        assert headers["set-cookie"][9:40] not in kept
        assert (tmp_path / LOGINS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_restart_forgets_no_browser_and_a_logout_does(tmp_path):
    with served(tmp_path) as client:
        client.login()
        cookie = client.cookie
    with served(tmp_path) as client:
        client.cookie = cookie
        assert client.told("/api/state")["name"] == "shed"
        assert client.told("/api/logout", {}) == {}
        assert client.ask("/api/state")[0] == 401


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"at": -599}, True),
        ({"at": -601}, False),
        ({"at": 5}, False),
        ({"boot": "another"}, False),
        ({"code": "x"}, False),
        ({"at": "soon"}, False),
        ({"at": None}, False),
        ({"code": None}, False),
    ],
)
def test_a_code_is_good_for_ten_minutes_of_this_boot(tmp_path, change, good):
    code = make_code(tmp_path)
    kept = json.loads((tmp_path / CODE_FILE).read_text())
    if isinstance(change.get("at"), int):
        change = {"at": kept["at"] + change["at"]}
    (tmp_path / CODE_FILE).write_text(json.dumps(kept | change))
    assert bool(Logins(tmp_path).enter(code, "browser", "::1")) is good


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": {"seen": "x"}}', "[" * 100_000, "\x00"])
def test_a_torn_file_of_logins_lets_nobody_in_and_is_mended_by_a_new_code(tmp_path, text):
    (tmp_path / LOGINS_FILE).write_text(text)
    logins = Logins(tmp_path)
    assert not logins.find("a")
    secret = logins.enter(make_code(tmp_path), "browser", "::1")
    assert logins.find(secret)
    assert Logins(tmp_path).find(secret)


def test_a_browser_is_forgotten_after_three_months_and_the_oldest_of_many(tmp_path):
    now = [1e9]
    logins = Logins(tmp_path, lambda: now[0])
    first = logins.enter(make_code(tmp_path), "first", "::1")
    now[0] += 89 * 86_400
    assert logins.find(first)
    now[0] += 89 * 86_400
    assert logins.find(first)
    now[0] += 91 * 86_400
    assert not logins.find(first)
    now[0] = 0.0  # a clock that is not set yet keeps nobody out
    assert logins.find(first)
    now[0] = 2e9
    many = [logins.enter(make_code(tmp_path), str(n), "::1") for n in range(20)]
    assert all(map(logins.find, many))
    assert len(logins.listed()) == 20


def test_a_full_disk_keeps_nobody_out(tmp_path, monkeypatch):
    now = [1e9]
    logins = Logins(tmp_path, lambda: now[0])
    secret = logins.enter(make_code(tmp_path), "first", "::1")
    monkeypatch.setattr("picoclaw.channels.dashboard.login.write_atomic", full)
    now[0] += 2 * 86_400
    assert logins.find(secret)


def full(*_):
    raise OSError(28, "No space left on device")


def test_what_is_said_is_posted_once_with_the_browsers_own_number(client):
    assert client.told("/api/say", {"text": "how warm is it?", "id": "abc"}) == {}
    (arrived,) = client.posted
    assert arrived == InboxMessage("page:home", "how warm is it?", arrived.who, "web", "abc")
    assert arrived.who == Logins(client.home).find(client.cookie).who


def test_what_cannot_be_kept_is_not_acknowledged(tmp_path):
    def broken(_):
        raise StoreError("state.db: the disk is full: free some space")

    with served(tmp_path) as client:
        client.login()
        client.page.stop()
        page = DashboardChannel(client.house, tmp_path, "127.0.0.1", 0)
        page.start(broken)
        client.port, client.host = page.port, f"127.0.0.1:{page.port}"
        status, _, body = client.ask("/api/say", {"text": "hello", "id": "1"})
        page.stop()
    assert (status, json.loads(body)["error"]) == (503, "state.db: the disk is full: free some space")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/say", {"text": "", "id": "1"}, 400),
        ("/api/say", {"text": " \n", "id": "1"}, 400),
        ("/api/say", {"text": "hello"}, 400),
        ("/api/say", {"text": "hello", "id": ""}, 400),
        ("/api/say", {"text": 5, "id": "1"}, 400),
        ("/api/say", {"text": "x" * 16_001, "id": "1"}, 413),
        ("/api/say", {"text": "hello", "id": "1" * 65}, 413),
        ("/api/say", b"[1]", 400),
        ("/api/say", b"", 400),
        ("/api/say", b"\xff\xfe", 400),
        ("/api/say", b"[" * 50_000, 400),
        ("/api/answer", {"id": "1", "word": "true"}, 400),
        ("/api/answer", {"id": "1", "word": "yes"}, 409),
        ("/api/off", {"name": "nothing"}, 503),
        ("/api/off", {}, 400),
        ("/api/history?hours=nan", None, 400),
        ("/api/history?hours=-1", None, 400),
        ("/api/csv?hours=-1", None, 400),
        ("/api/history?hours=1&back=-1", None, 400),
        ("/api/history?hours=1&back=nan", None, 400),
        ("/api/history?hours=x", None, 400),
        ("/api/history?sensor=%ff", None, 400),
        ("/api/history?sensor=%ed%a0%80", None, 400),
        ("/api/nothing", None, 404),
        ("/api/say", None, 405),
        ("/api/state", {}, 405),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(client, path, body, status):
    found, headers, answer = client.ask(path, body)
    assert found == status
    assert headers["content-type"].startswith("application/json")
    assert json.loads(answer)["error"]
    assert not client.posted


def test_a_lone_surrogate_is_no_text_to_a_store(client):
    client.told("/api/say", b'{"text": "a\\ud800b", "id": "1"}')
    assert client.posted[0].text == "a?b"


def test_the_state_has_all_that_a_browser_shows_first(client):
    client.house.hears("hello")
    state = client.told("/api/state")
    assert [line["text"] for line in state["said"]] == ["hello", "heard: hello"]
    assert state["readings"][0]["text"] == "21.4 °C"
    assert state["outputs"][0]["left"] == 90
    assert (state["jobs"], state["rules"], state["live"], state["questions"]) == (
        [ListRow("1.", "10:22 water the tomatoes", command="/job")._asdict()],
        [ListRow("hot", "when it is hot: tell you", command="/rule", paused=True)._asdict()],
        None,
        [],
    )


def test_a_torn_database_leaves_the_board_and_stop(client):
    client.house.torn = True
    state = client.told("/api/state")
    assert (state["said"], state["problem"]) == ([], "state.db is damaged")
    assert state["readings"]
    assert client.told("/api/stop", {})["stopped"] == "by owner"


def test_outputs_are_switched_off_and_all_stopped_and_resumed(client):
    assert client.told("/api/off", {"name": "pump"})["outputs"][0]["level"] == "off"
    assert client.told("/api/stop", {})["text"].startswith("stopped")
    assert client.told("/api/board")["stopped"] == "by owner"
    assert client.told("/api/resume", {})["stopped"] == ""


def test_stop_is_never_put_off(client):
    found = {client.ask("/api/off", {"name": "pump"})[0] for _ in range(14)}
    assert found == {200, 429}
    assert {client.ask("/api/stop", {})[0] for _ in range(14)} == {200}


def test_the_past_comes_in_few_points(client):
    found = client.told("/api/history?sensor=porch&quantity=temperature&hours=24")
    assert len(found["points"]) == 200
    assert found["end"] - found["begin"] == pytest.approx(86_400)
    assert client.told("/api/history?sensor=no&quantity=temperature&hours=1e99")["points"] == []
    before = client.told("/api/history?sensor=porch&quantity=temperature&hours=24&back=48")
    assert (found["end"] - before["end"]) / 3600 == pytest.approx(48, abs=0.1)
    assert len(client.told("/api/day")["series"][0]["points"]) == 48


def test_the_past_can_be_taken_along_as_a_file_for_a_spreadsheet(client):
    status, headers, body = client.ask("/api/csv?sensor=porch&quantity=tem%22%0d%0aX:%20y&hours=1")
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert headers["content-disposition"] == 'attachment; filename="porch-tem_X_y.csv"'
    first, *rows = body.decode().splitlines()
    assert first == "time,lowest,mean,highest"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ,-1,0,1", rows[0])
    assert len(rows) == 20_000
    assert client.ask("/api/csv?sensor=no&hours=1")[2] == b"time,lowest,mean,highest\r\n"
    client.cookie = ""
    assert client.ask("/api/csv?sensor=porch&quantity=temperature&hours=1")[0] == 401


def test_what_is_kept_in_the_browser_is_the_page_alone(client):
    shell = re.search(r"FILES = (\[[^\]]*\])", client.ask("/offline.js")[2].decode())[1]
    names = {path.name for path in FILES} - {"index.html", "offline.js"}
    assert set(json.loads(shell)) == {"/", *(f"/{name}" for name in names)}
    assert client.ask("/")[1]["content-security-policy"].endswith(
        "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def test_a_turn_is_heard_while_it_goes_on(client):
    with client.stream() as heard:
        assert heard("board")[1]["readings"][0]["sensor"] == "porch"
        around = client.page.around(ARRIVED)
        around.listen(Text("It is "))
        around.listen(ToolRun("sensor_read", {"name": "porch"}, "21.4", 3.0))
        around.say("a moment")
        live = client.told("/api/state")["live"]
        assert live["text"] == "It is "
        assert client.page.answered(ARRIVED, turn("It is 21.4 °C.", "the model is slow"), "It is 21.4 °C.")
        found = [heard() for _ in range(5)]
    assert [kind for kind, _ in found] == ["begun", "text", "tool", "said", "ended"]
    assert found[2][1]["name"] == "sensor_read"
    assert (found[4][1]["text"], found[4][1]["problem"]) == ("It is 21.4 °C.", "the model is slow")
    assert client.told("/api/state")["live"] is None


def test_a_lone_surrogate_ends_no_stream(client):
    with client.stream() as heard:
        around = client.page.around(ARRIVED)
        around.say("a\ud800b")
        around.say("after")
        assert [heard("begun", "said")[1].get("text") for _ in range(3)][1:] == ["a\ud800b", "after"]


def test_an_answer_that_nobody_sees_becomes_a_letter(client):
    client.page.around(ARRIVED)
    assert not client.page.answered(ARRIVED, turn("21.4"), "21.4")


def test_who_was_away_hears_what_was_missed_and_a_stranger_begins_anew(client):
    seen = client.told("/api/state")["seen"]
    client.page.around(ARRIVED).say("missed")
    with client.stream(seen) as heard:
        assert [heard("begun", "said")[0], heard("begun", "said")[0]] == ["begun", "said"]
    for strange in ("other-1", f"{seen}999", "x", "-", f"{seen.partition('-')[0]}-%C2%B2"):
        with client.stream(strange) as heard:
            assert heard("anew", "said") == ("anew", {})
    for n in range(401):
        client.page.around(ARRIVED).say(str(n))
    with client.stream(seen) as heard:
        assert heard("anew", "said") == ("anew", {})


def test_a_sixth_browser_sends_the_one_away_that_has_listened_longest(client):
    streams = []
    try:
        for _ in range(6):
            stream = client.stream()
            streams.append(stream)
            heard = stream.__enter__()
            heard("board")
            if len(streams) == 1:
                first = heard
        assert first()[0] == "displaced"  # and does not come again by itself, to send the next one away
        assert first() is None
        client.page.around(ARRIVED)
        assert heard("begun")[0] == "begun"
    finally:
        for stream in streams:
            stream.__exit__(None, None, None)


def test_a_letter_stays_on_the_page_once_also_after_a_restart(client):
    letter = OutboxMessage(7, "page:home", "water the tomatoes", 5.0)
    with client.stream() as heard:
        client.page.send(letter)
        assert heard("said")[1] == {"role": "assistant", "text": "water the tomatoes", "at": 5.0}
    client.page.send(letter)
    client.house.hears("hello", 4.0)
    client.house.hears("bye", 6.0)
    shown = [line["text"] for line in client.told("/api/state")["said"]]
    assert shown == ["hello", "heard: hello", "water the tomatoes", "bye", "heard: bye"]
    again = DashboardChannel(client.house, client.home, "127.0.0.1", 0)
    again.send(letter)
    assert len(json.loads((client.home / LETTERS).read_text())) == 1


def test_a_letter_that_the_conversation_has_as_its_answer_is_shown_once(client):
    client.house.hears("hello", 4.0)
    client.house.mark = "[simulated]"
    client.page.send(OutboxMessage(8, "page:home", "heard: hello\n[simulated]", 5.0))
    assert [line["text"] for line in client.told("/api/state")["said"]] == ["hello", "heard: hello"]


def test_a_letter_that_cannot_be_kept_is_told_later(client, monkeypatch):
    monkeypatch.setattr("picoclaw.channels.dashboard.live.write_atomic", full)
    with pytest.raises(ChannelDown, match="the disk is full"):
        client.page.send(OutboxMessage(9, "page:home", "now", 5.0))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"number": 1}]', "[" * 100_000])
def test_torn_letters_are_none(tmp_path, text):
    (tmp_path / LETTERS).write_text(text)
    DashboardChannel(PaperHouse(), tmp_path, "127.0.0.1", 0).send(OutboxMessage(1, "page:home", "now", 5.0))
    assert len(json.loads((tmp_path / LETTERS).read_text())) == 1


@pytest.mark.parametrize("word", ["yes", "no", "always"])
def test_leave_is_given_by_the_person_for_exactly_that(client, word):
    with client.stream() as heard:
        client.house.asked = [make_question(KEPT)]
        client.page.changed(KEPT)
        _, question = heard("question")
        assert question["call"] == "exec\n  command: reboot\n(it is told to)"
        assert client.told("/api/state")["questions"] == [question]
        for body, code in (({"id": "another", "word": "yes"}, 409), ({"id": KEPT.nonce, "word": "perhaps"}, 400)):
            assert client.ask("/api/answer", body)[0] == code
        assert not client.posted
        client.told("/api/answer", {"id": question["id"], "word": word})
        (arrived,) = client.posted
        assert (arrived.key, arrived.text, arrived.origin) == ("page:home", f"/{word} 3 {KEPT.nonce}", "web")
        assert arrived.who.startswith("page:")
        client.page.changed(KEPT._replace(state="running"))
        ended = KEPT._replace(state="done", answered_by="telegram:7")
        client.house.asked = [make_question(ended)]
        client.page.changed(ended)
        assert heard("question")[1]["outcome"] == "Number 3: done (answered on Telegram)."
        assert client.ask("/api/answer", {"id": question["id"], "word": word})[0] == 409


def test_a_question_has_its_card_and_is_no_letter(client):
    client.house.asked = [make_question(KEPT)]
    client.page.send(OutboxMessage(1, "page:home", "number 3 waits for your approval", 5.0, approval=3))
    client.page.send(OutboxMessage(2, "page:home", "number 4 is not known any more", 5.0, approval=4))
    assert [line["text"] for line in client.told("/api/state")["said"]] == ["number 4 is not known any more"]


def test_what_the_conversation_does_not_keep_stays_on_the_page(client):
    failed = turn("", "the model cannot be reached")._replace(stopped="error")
    command = turn("It runs.")._replace(steps=0)
    pressed = turn("Number 3 was done.")._replace(steps=0)
    with client.stream() as heard:
        heard("board")
        client.house.lines.append(ChatEntry("user", "how warm is it?", 1.0))
        for number, (text, made, reply) in enumerate(
            (
                ("how warm is it?", failed, "the model cannot be reached"),
                ("/status", command, "It runs."),
                ("/yes 3 a1b2c3d4e5f6", pressed, "Number 3 was done."),
                ("hello", turn("Hello."), "Hello."),
            )
        ):
            external = "answer a1b2c3d4e5f6" if text.startswith("/yes") else str(number)
            arrived = ARRIVED._replace(text=text, external=external)
            client.page.around(arrived)
            assert client.page.answered(arrived, made, reply)
    said = [(line["role"], line["text"]) for line in client.told("/api/state")["said"]]
    assert said == [
        ("user", "how warm is it?"),
        ("assistant", "the model cannot be reached"),
        ("user", "/status"),
        ("assistant", "It runs."),
    ]


def test_how_questions_have_ended_stands_in_the_conversation(client):
    client.house.hears("hello")
    client.house.asked = [make_question(KEPT._replace(state="expired"))]
    said = [(line["role"], line["text"]) for line in client.told("/api/state")["said"]]
    assert said[2:] == [("outcome", "Number 3: not done, because nobody answered in time.")]


def test_health_tells_strangers_which_parts_do_not_work_and_no_more(tmp_path):
    now = [100.0]
    with served(tmp_path, clock=lambda: now[0]) as client:
        assert client.ask("/health")[::2] == (200, b"ok\n")
        client.house.well = False
        now[0] += 10.1
        assert client.ask("/health")[::2] == (503, b"degraded: telegram is down, clock\n")


def test_strangers_who_ask_for_the_health_have_it_looked_into_once_in_ten_seconds(tmp_path):
    now, looks = [100.0], []

    class Counted(PaperHouse):
        def troubles(self):
            looks.append(now[0])
            time.sleep(0.05)
            return []

    with served(tmp_path, Counted(), clock=lambda: now[0]) as client:
        for moment in (100.0, 109.9, 110.1):
            now[0] = moment
            threads = [later(lambda: client.ask("/health")) for _ in range(6)]
            for thread in threads:
                thread.join()
    assert looks == [100.0, 110.1]


def test_health_waits_for_nobody_who_looks_into_it(tmp_path):
    now, begun, let_go = [100.0], threading.Event(), threading.Event()

    class Hanging(PaperHouse):
        def troubles(self):
            if now[0] > 100.0:
                begun.set()
                assert let_go.wait(10)
            return []

    with served(tmp_path, Hanging(), clock=lambda: now[0]) as client:
        assert client.ask("/health")[0] == 200
        now[0] = 111.0
        thread = later(lambda: client.ask("/health"))
        assert begun.wait(10)
        assert client.ask("/health")[::2] == (200, b"ok\n")  # what was found before
        let_go.set()
        thread.join()


@each_row(
    ("problem", "word"),
    [
        ("telegram is down: https://api.telegram.org/bot1:SECRET cannot be reached", "telegram is down"),
        ("the agent thread is frozen", "the agent thread is frozen"),
        ("clock: nobody vouches for it", "clock"),
        ("model: http://user:SECRET@10.0.0.1/v1 answers with HTTP 500", "model"),
        ("model SECRET: wants a key", "model"),
        ("/home/SECRET/.picoclaw/state.db is damaged", "see picoclaw status"),
    ],
)
def test_health_names_a_trouble_without_address_path_or_name(problem, word):
    assert name_troubles([problem, problem]) == [word]


def test_it_says_how_it_is_and_ends_at_once(tmp_path):
    before = threading.active_count()
    with served(tmp_path) as client:
        assert client.page.status().up
        client.login()
        client.told("/api/say", {"text": "hello", "id": "1"})
        assert client.page.status().last_contact > 1e9
        with client.stream() as heard:
            heard("board")
            begun = time.monotonic()
            client.page.stop()
            assert time.monotonic() - begun < 2
            assert heard() is None
        assert not client.page.status().up
        client.page.stop()
    while threading.active_count() > before and time.monotonic() - begun < 3:
        time.sleep(0.01)
    assert threading.active_count() <= before  # one of an earlier test may have ended meanwhile


def test_it_ends_also_while_a_sensor_hangs(tmp_path):
    hanging = threading.Event()

    class Hanging(PaperHouse):
        def readings(self):
            hanging.wait(10)
            return []

    with served(tmp_path, Hanging()) as client:
        client.login()
        asking = later(lambda: client.ask("/api/board"))
        time.sleep(0.05)
        begun = time.monotonic()
        client.page.stop()
        assert time.monotonic() - begun < 2
        hanging.set()
        asking.join(2)


@pytest.mark.parametrize(("host", "said"), [("shed.local", "is not an address"), ("", "is not an address")])
def test_an_address_that_cannot_be_had_is_said(tmp_path, host, said):
    page = DashboardChannel(PaperHouse(), tmp_path, host, 0)
    with pytest.raises(ChannelError, match=said):
        page.start(lambda _: None)
    assert said in page.status().error
    page.stop()


def test_an_address_that_is_not_there_yet_is_listened_at(tmp_path):
    page = DashboardChannel(PaperHouse(), tmp_path, "192.0.2.1", 0)
    page.start(lambda _: None)
    assert (page.status().up, page.status().error) == (True, "")
    page.stop()


def test_a_port_that_is_taken_is_said(tmp_path):
    with served(tmp_path) as client:
        page = DashboardChannel(PaperHouse(), tmp_path, "127.0.0.1", client.port)
        with pytest.raises(ChannelError, match=f"port {client.port}"):
            page.start(lambda _: None)


def test_notes_are_searched_and_opened_by_who_is_logged_in_only(client):
    (found,) = client.told("/api/notes?words=pump%20fuse")["notes"]
    assert (found["name"], found["text"]) == ("memory/2026-11-20.md", "the pump's fuse is 5 A")
    assert client.told("/api/notes?words=elephant")["notes"] == []
    assert "5 A" in client.told("/api/note?path=memory/2026-11-20.md")["text"]
    assert client.ask("/api/note?path=../secrets.toml")[0] == 503
    client.cookie = ""
    assert [client.ask(path)[0] for path in ("/api/notes?words=fuse", "/api/note?path=memory/2026-11-20.md")] == [
        401,
        401,
    ]
