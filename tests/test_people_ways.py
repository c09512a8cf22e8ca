"""The ways in of a person besides Telegram and Matrix: their login on this machine, and the page."""

import functools
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from daemon_kit import Daemon, events_until, furnished, until
from page_house import Client, served
from person import PICOCLAW, picoclaw_process

from picoclaw.channels.dashboard import channel
from picoclaw.channels.dashboard.live import PageQuestion
from picoclaw.channels.dashboard.login import Logins, make_code
from picoclaw.channels.dashboard.programs import Programs
from picoclaw.channels.ipc import connect
from picoclaw.cli import run
from picoclaw.config import Config, load_config
from picoclaw.config.tables import HookConfig, PageConfig, PersonConfig
from picoclaw.daemon.socket import SocketChannel
from picoclaw.errors import ChannelError, ConfigError
from picoclaw.messages import Text
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import InboxMessage, Outbox, OutboxMessage
from picoclaw.store.sessions import Sessions
from picoclaw.workspace import Prompts, prepare_home

ME = pwd.getpwuid(os.getuid()).pw_name
OTHERS = ("nobody", "daemon")  # users that a Debian has


def run_as(user, tmp_path, *words, stdin="", home=""):
    """Run a command as another user of this machine, who has no home of picoclaw."""
    known = pwd.getpwnam(user)
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nowhere"), "LANG": "C.UTF-8"}
    return subprocess.run(
        ["setpriv", f"--reuid={known.pw_uid}", f"--regid={known.pw_gid}", "--clear-groups", *PICOCLAW, *words],
        env=given | ({"PICOCLAW_HOME": home} if home else {}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        check=False,
    )


@functools.cache
def can_be_others():
    if os.getuid() or not shutil.which("setpriv"):
        return False
    return not run_as("nobody", Path("/"), "--version").returncode


is_root = pytest.mark.skipif("not can_be_others()", reason="takes root, and a Python that other users can read")


@pytest.fixture(scope="module")
def household(tmp_path_factory):
    """A daemon that knows two other users of the machine: a member and an owner."""
    tmp_path = tmp_path_factory.mktemp("household")
    furnished(
        tmp_path,
        '[people.bob]\nterminal = "nobody"\ntime_zone = "Asia/Tokyo"\n[people.ada]\nrole = "owner"\nterminal = "daemon"\n',
    )
    with Daemon(tmp_path) as daemon:
        yield daemon.ready()


@is_root
def test_another_user_of_the_machine_chats_as_the_person_they_are(household, tmp_path):
    home = household.home
    assert picoclaw_process(home, "chat", "-m", "note that the safe's number is 1234").returncode == 0
    noted = run_as("nobody", tmp_path, "chat", "--on", ME, "-m", "note that my locker is number 77")
    assert (noted.returncode, "noted: " in noted.stdout) == (0, True), noted
    asked = run_as("nobody", tmp_path, "chat", "--on", ME, "-m", "what did I note about the number?")
    assert ("77" in asked.stdout, "1234" in asked.stdout) == (True, False)
    own = picoclaw_process(home, "chat", "-m", "what did I note about the number?").stdout
    assert ("77" in own, "1234" in own) == (False, True)
    as_owner = run_as("daemon", tmp_path, "chat", "--on", ME, "-m", "what did I note about the number?").stdout
    assert ("77" in as_owner, "1234" in as_owner) == (False, True)
    assert not (tmp_path / "nowhere").exists()
    with closing(Database(household.folder / "state.db")) as database:
        assert {info.key for info in Sessions(database).listed()} >= {"terminal", "terminal:nobody"}


@is_root
@pytest.mark.parametrize("session", ["terminal", "terminal:daemon", "page:home", "../x", "terminal:nobody2"])
def test_nobody_comes_into_a_conversation_that_is_not_theirs(household, tmp_path, session):
    said = f"note that {session} was here"
    assert run_as("nobody", tmp_path, "chat", "--on", ME, "--session", session, "-m", said).returncode == 0
    with closing(Database(household.folder / "state.db")) as database:
        keys = [info.key for info in Sessions(database).listed()]
        mine = "terminal:nobody" if session == "terminal" else f"terminal:nobody/{session}"
        assert mine in keys
        for info in Sessions(database).listed():
            texts = [row.text for row in Sessions(database).transcript(info.number)]
            assert any(said in text for text in texts) == (info.key == mine)


@is_root
@pytest.mark.parametrize("command", ["/model", "/approvals", "/yes 1", "/rule remove x"])
def test_a_member_at_a_terminal_has_a_members_commands(household, tmp_path, command):
    asked = run_as("nobody", tmp_path, "chat", "--on", ME, "-m", command)
    owners = run_as("daemon", tmp_path, "chat", "--on", ME, "-m", command)
    assert asked.stdout + asked.stderr != owners.stdout + owners.stderr


ASKING = """
import sys
from picoclaw.channels.ipc import connect_as_person
line = connect_as_person(int(sys.argv[1]), 10)
if line is None: sys.exit("none")
line.say({"do": sys.argv[2]})
print(line.next())
"""


@is_root
@pytest.mark.parametrize("word", ["status", "quit", "restart", "stop", "mqtt", "fleet"])
def test_what_terminals_may_ask_beside_a_chat_is_the_owners(household, tmp_path, word):
    known = pwd.getpwnam("nobody").pw_uid
    told = subprocess.run(
        ["setpriv", f"--reuid={known}", "--clear-groups", sys.executable, "-c", ASKING, str(os.getuid()), word],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "that is the owner's" in told.stdout, told
    assert household.process.poll() is None


@is_root
def test_who_is_not_named_is_not_let_in(household, tmp_path):
    asked = run_as("games", tmp_path, "chat", "--on", ME, "-m", "how warm is it?")
    assert (asked.returncode, asked.stdout) == (1, ""), asked
    with closing(Database(household.folder / "state.db")) as database:
        assert not [info.key for info in Sessions(database).listed() if "games" in info.key]


@is_root
def test_what_a_member_is_told_later_is_told_to_them_alone(household, tmp_path):
    with closing(household.line()) as owner:
        owner.say({"do": "attach", "session": "terminal"})
        events_until(owner, "attached")
        with closing(Database(household.folder / "state.db")) as database:
            Outbox(database).put("terminal:nobody", "Reminder: your tea", 0.0)
            Outbox(database).put("terminal", "Reminder: the owner's", 0.0)
            owner.connection.settimeout(10)
            picoclaw_process(household.home, "chat", "-m", "hello")  # wakes the delivery
            assert "the owner's" in str(events_until(owner, "message"))
            assert [one.session for one in Outbox(database).waiting()] == ["terminal:nobody"]
            heard = run_as("nobody", tmp_path, "chat", "--on", ME, stdin="hello\n")
            assert heard.returncode == 0
    # a terminal that stays open is told; one that asks from a pipe has no chat open
    with closing(Database(household.folder / "state.db")) as database:
        assert [one.session for one in Outbox(database).waiting()] == ["terminal:nobody"]
        attached = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", ATTACHING, str(os.getuid())],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "your tea" in attached.stdout, attached
        until(lambda: not Outbox(database).waiting())


ATTACHING = """
import sys
from picoclaw.channels.ipc import connect_as_person
line = connect_as_person(int(sys.argv[1]), 10)
line.say({"do": "attach", "session": "terminal"})
while "message" not in (event := line.next()): pass
print(event)
"""


def test_a_chat_on_another_users_board_says_why_there_is_none(tmp_path):
    assert "has no user 'nosuch'" in picoclaw_process(tmp_path, "chat", "--on", "nosuch", "-m", "hello").stderr
    nobody = picoclaw_process(tmp_path, "chat", "--on", "sync", "-m", "hello")
    assert (nobody.returncode, "no picoclaw of sync listens" in nobody.stderr) == (1, True)
    both = picoclaw_process(tmp_path, "chat", "--on", "sync", "--agent", "garden", "-m", "hello")
    assert (both.returncode, "--agent and --board" in both.stderr) == (1, True)


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ('terminal = "a b"', "no login name"),
        ('terminal = "root"', 'make the role "owner"'),
        ('terminal = "bob"\n[people.cleo]\nterminal = "bob"', "terminal:bob is bob already"),
    ],
)
def test_a_login_name_that_says_nothing_clear_is_refused(tmp_path, table, wrong):
    furnished(tmp_path, f"[people.bob]\n{table}\n")
    with pytest.raises(ConfigError, match=wrong):
        load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})


def test_a_home_without_such_people_listens_to_nobody_else(tmp_path):
    channel = SocketChannel(tmp_path, None, {"ada": PersonConfig("member", telegram=1)})
    assert channel._roles == {}
    assert Config(tmp_path).people == {}


def test_a_name_that_somebody_else_has_taken_is_not_believed(tmp_path):
    other = next(one for one in pwd.getpwall() if one.pw_uid not in {0, os.getuid()})
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(f"\0picoclaw/{other.pw_uid}")
        taken.listen()
        said = picoclaw_process(tmp_path, "chat", "--on", other.pw_name, "-m", "my secret")
        assert (said.returncode, "no picoclaw of" in said.stderr) == (1, True)
        taken.settimeout(1)
        with taken.accept()[0] as heard:
            assert heard.recv(1000) == b""


# --- the page ---

PEOPLE = {
    "ada": PersonConfig("owner"),
    "bob": PersonConfig("member", time_zone="Asia/Tokyo"),
    "cleo": PersonConfig("member"),
    "dan": PersonConfig("guest"),
}
OPEN = {"owner": 200, "ada": 200, "bob": 200, "dan": 200, "": 401}
RESIDENTS = OPEN | {"dan": 403}
OWNERS = RESIDENTS | {"bob": 403}
PUBLIC = dict.fromkeys(OPEN, 200)
ROUTES = {
    ("GET", "/api/state"): OPEN,
    ("GET", "/api/board"): OPEN,
    ("GET", "/api/plans"): OPEN,
    ("GET", "/api/history?sensor=porch&quantity=temperature"): OPEN,
    ("GET", "/api/csv?sensor=porch&quantity=temperature"): OPEN,
    ("GET", "/api/day"): OPEN,
    ("GET", "/api/events"): OPEN,
    ("GET", "/api/notes?words=fuse"): RESIDENTS,
    ("GET", "/api/note?path=memory/2026-11-20.md"): RESIDENTS,
    ("POST", "/api/say"): OPEN,
    ("POST", "/api/stop"): OPEN,
    ("POST", "/api/off"): OPEN,
    ("POST", "/api/logout"): OPEN,
    ("POST", "/api/answer"): OWNERS | {"owner": 409, "ada": 409},  # no question has that number
    ("POST", "/api/resume"): OWNERS,
    ("GET", "/api/household"): OWNERS,
    ("POST", "/api/change_household"): OWNERS | {"owner": 400, "ada": 400},  # which says nothing of what to change
    ("POST", "/api/login"): dict.fromkeys(OPEN, 403),  # without a code
    ("GET", "/health"): PUBLIC,
    ("GET", "/metrics"): dict.fromkeys(OPEN, 401),  # which has a token of its own, as these have
    ("GET", "/v1/models"): dict.fromkeys(OPEN, 401),
    ("GET", "/v1/models/picoclaw"): dict.fromkeys(OPEN, 401),
    ("POST", "/v1/chat/completions"): dict.fromkeys(OPEN, 401),
    ("GET", "/v1/other"): dict.fromkeys(OPEN, 401),
    ("POST", "/v1/other"): dict.fromkeys(OPEN, 401),
    ("POST", "/hooks/door"): dict.fromkeys(OPEN, 401),
    **{(method, "/mcp"): dict.fromkeys(OPEN, 401) for method in ("GET", "POST", "DELETE")},
    **{("GET", path): PUBLIC for path in channel.FILES},
}
BODY = {"text": "how warm is it?", "id": "abc", "name": "pump", "word": "yes", "code": "0000-0000"}


class Mcp:
    token = "secret"

    def answer(self, *_):
        raise AssertionError

    close = answer


@contextmanager
def household_page(folder):
    prepare_home(folder)
    config = Config(
        folder,
        hooks={"door": HookConfig("ring")},
        hook_secrets={"door": "whsec_" + "A" * 32},
        page=PageConfig(openai=True),
    )
    programs = Programs(config, Prompts(folder / "workspace")["untrusted"], print, lambda *_: None, lambda _: 0)
    with served(
        folder, people=PEOPLE, proxies=["127.0.0.1"], metrics_token="x" * 16, mcp=Mcp(), programs=programs
    ) as client:
        yield client


def log_in(client, who, address):
    """Log in as somebody, from an address of their own: there is a limit on how often one may try."""
    code = {"code": make_code(client.home, "" if who == "owner" else who)}
    status, headers, _ = client.ask("/api/login", code, headers=[("X-Forwarded-For", address)])
    assert status == 200
    client.cookie = headers["set-cookie"].partition("=")[2].partition(";")[0]


@pytest.mark.parametrize("who", OPEN)
def test_each_address_is_for_those_whose_role_has_it(tmp_path, who):
    with household_page(tmp_path) as client:
        found = {}
        for number, ((method, path), answers) in enumerate(ROUTES.items()):
            address, client.cookie = f"192.0.2.{number}", ""
            if who:
                log_in(client, who, address)
            if path == "/api/events" and answers[who] == 200:
                with client.stream() as next_event:
                    found[method, path] = 200 if next_event("board") else 0
                continue
            given = BODY if method == "POST" else None
            request = partial(client.ask, path, given, [("X-Forwarded-For", address)], method)
            found[method, path] = until(lambda: request()[0])  # noqa: B023 - 0: the half-closed line was given up
        assert found == {route: answers[who] for route, answers in ROUTES.items()}


def test_the_table_has_every_address(tmp_path):
    with household_page(tmp_path) as client:
        known = {(method, path.partition("?")[0]) for method, path in ROUTES}
        rules = {
            "/hooks/door": "/hooks/<name>",
            "/v1/models/picoclaw": "/v1/models/<name>",
            "/v1/other": "/v1/<path:path>",
        }
        served_here = client.page._server._server.application._app.routes
        assert {(route.method, route.rule) for route in served_here} == {(m, rules.get(p, p)) for m, p in known}


def test_each_sees_their_own_chat_and_plans(tmp_path):
    with household_page(tmp_path) as client:
        client.house.hears("where is the spare key?")
        client.house.asked = [PageQuestion(1, "n", "exec rm", "page:home", 9e9, "", "exec rm")]
        seen = {}
        for number, who in enumerate(("owner", "ada", "bob", "dan")):
            log_in(client, who, f"192.0.2.{number}")
            seen[who] = client.told("/api/state")
            client.told("/api/say", {"text": f"I am {who}", "id": who})
        for who in ("owner", "ada"):
            assert "spare key" in str(seen[who]["said"])
            assert (seen[who]["jobs"][0]["text"], len(seen[who]["rules"])) == ("10:22 water the tomatoes", 1)
            assert seen[who]["questions"][0]["call"] == "exec rm"
        for who in ("bob", "dan"):
            assert (seen[who]["said"], seen[who]["rules"], seen[who]["questions"]) == ([], [], [])
            assert seen[who]["jobs"][0]["text"] == f"11:00 {who}'s tea"
            assert "spare key" not in str(seen[who])
            assert "tomatoes" not in str(seen[who])
        said = [(one.key, one.origin, one.who) for one in client.posted]
        assert said[0][:2] == said[1][:2] == ("page:home", "web")
        assert said[2:] == [
            ("page:person/bob", "member", "login:bob"),
            ("page:person/dan", "guest", "login:dan"),
        ]


def test_what_is_told_to_one_is_not_shown_to_another(tmp_path):
    with household_page(tmp_path) as client:
        log_in(client, "bob", "192.0.2.1")
        bob = client.cookie
        log_in(client, "cleo", "192.0.2.2")
        cleo = client.cookie
        log_in(client, "owner", "192.0.2.3")
        with client.stream(cookie=bob) as to_bob, client.stream(cookie=cleo) as to_cleo, client.stream() as to_owner:
            sent = {"page:person/bob": "for bob", "page:person/cleo": "for cleo", "page:home": "for the owner"}
            for number, (session, text) in enumerate(sent.items(), 1):
                client.page.send(OutboxMessage(number, session, text, 1.0))
            heard = [follow("said")[1]["text"] for follow in (to_bob, to_cleo, to_owner)]
            assert heard == list(sent.values())
            hooks = client.page.around(InboxMessage("page:person/bob", "a secret", "login:bob", "member"))
            hooks.listen(Text("hush"))
            client.page.find_chat().events.publish("said", {"text": "the end"})
            client.page.find_chat("cleo").events.publish("said", {"text": "the end"})
            assert (to_bob("text")[1]["text"], to_owner()[1]["text"], to_cleo()[1]["text"]) == (
                "hush",
                "the end",
                "the end",
            )
        client.cookie = bob
        assert [line["text"] for line in client.told("/api/state")["said"]] == ["for bob"]


def test_who_is_logged_out_hears_nothing_more(tmp_path):
    with household_page(tmp_path) as client:
        log_in(client, "bob", "192.0.2.1")
        with client.stream() as to_bob:
            to_bob("board")
            Logins(client.home, people=PEOPLE).forget(person="bob")  # as `people remove` does
            client.page.send(OutboxMessage(1, "page:person/bob", "the new code of the door", 1.0))
            heard = []
            while one := to_bob():
                heard.append(one)
            assert "the door" not in str(heard)


class OthersTerminals(SocketChannel):
    """A channel to which every terminal is another user's of the machine."""

    def _find_user(self, connection):
        return "terminal:bob", "member"


@pytest.mark.parametrize(
    ("words", "waiting", "said"),
    [
        ({"text": "hi"}, 19, "kept"),
        ({"text": "hi"}, 20, "20 of your messages wait"),
        ({"text": "STOP"}, 20, "kept"),
        ({"text": " /stop "}, 20, "kept"),
        ({"text": "x" * 16_001}, 0, "16,000 characters at most"),
        ({"text": "hi", "session": "x" * 101}, 0, "100 characters at most"),
        ({"text": "hi", "id": "x" * 101}, 0, "100 characters at most"),
    ],
)
def test_how_much_another_user_may_send(tmp_path, words, waiting, said):
    posted = []
    host = SimpleNamespace(count_waiting=lambda who: waiting, running="", wake_delivery=lambda: None)
    channel = OthersTerminals(tmp_path, host)
    channel.start(posted.append)
    try:
        with closing(connect(tmp_path, 5)) as line:
            line.say({"do": "chat", "id": "1", **words})
            assert said in str(line.next())
        until(lambda: not channel._clients)
    finally:
        channel.stop()
    assert bool(posted) == (said == "kept")


def test_a_login_ends_with_the_person_and_changes_with_the_role(tmp_path):
    people = dict(PEOPLE)
    logins = Logins(tmp_path, people=people)
    secret = logins.enter(make_code(tmp_path, "bob"), "Firefox", "192.0.2.7")
    assert logins.find(secret) == ("bob", "member", "login:bob")
    assert not logins.is_owners()
    people["bob"] = PersonConfig("owner")
    assert logins.find(secret).role == "owner"
    assert logins.is_owners()
    del people["bob"]
    assert logins.find(secret) is None
    with pytest.raises(ChannelError, match="does not know eve yet: restart it"):
        logins.enter(make_code(tmp_path, "eve"), "Firefox", "192.0.2.7")
    people["eve"] = PersonConfig("guest")
    assert logins.enter((code := make_code(tmp_path, "eve")), "Firefox", "192.0.2.7")
    assert logins.enter(code, "Firefox", "192.0.2.7") == ""
    assert logins.forget(person="eve") == 1
    assert len(logins.listed()) == 1


def test_a_person_who_is_removed_is_logged_out(tmp_path, monkeypatch, capsys):
    folder = furnished(tmp_path, "[people.bob]\n")
    monkeypatch.setenv("PICOCLAW_HOME", str(folder))
    people = load_config().people
    secret = Logins(folder, people=people).enter(make_code(folder, "bob"), "Firefox", "192.0.2.7")
    assert run(["page", "status"]) == 0
    assert "bob, let in" in capsys.readouterr().out
    code = make_code(folder, "bob")
    assert run(["people", "remove", "bob"]) == 0
    service = Logins(folder, people=people)  # which has not been restarted yet
    assert service.find(secret) is None
    assert service.enter(code, "Firefox", "192.0.2.7") == ""
    owners = make_code(folder)
    service.forget(person="bob")
    assert service.enter(owners, "Firefox", "192.0.2.7")


LAMPS = """
[outputs.lamp]
line = "GPIO17"
kind = "light"
longest_on_s = 600
who = ["owner", "member"]
confirm = false

[outputs.pump]
line = "GPIO27"
kind = "pump"
longest_on_s = 600
who = ["owner"]
"""


def test_a_member_uses_the_page_of_a_running_board(tmp_path):
    """As Bob would: he logs in, asks, notes, plans, switches; and the owner has none of it in their own page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = furnished(
        tmp_path,
        f'[page]\nenabled = true\nport = {port}\n[people.bob]\ntime_zone = "Asia/Tokyo"\n[people.dan]\nrole = "guest"\n',
        LAMPS,
    )
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        bob, owner, dan = (Client(SimpleNamespace(port=port), folder, None, None) for _ in range(3))
        bob.login("bob")
        owner.login()
        dan.login("dan")

        def say(client, text):
            client.told("/api/say", {"text": text, "id": text})
            return until(lambda: find_answer(client, text))

        assert "noted: " in say(owner, "note that the safe's number is 1234")
        say(owner, "remind me tomorrow at 9 to lock the safe")
        assert "noted: " in say(bob, "note that my locker is number 77")
        assert "Asia/Tokyo" in str(bob.told("/api/state")["zone"])
        say(bob, "remind me tomorrow at 10 to open the locker")
        told = {one: client.told("/api/state") for one, client in (("bob", bob), ("owner", owner), ("dan", dan))}
        assert ["locker" in row["text"] for row in told["bob"]["jobs"]] == [True]
        assert told["dan"]["jobs"] == told["dan"]["errors"] == []
        assert {"safe" in str(told[one]) for one in ("bob", "dan")} == {False}
        assert bob.told("/api/notes?words=number")["notes"][0]["text"].count("77") == 1
        assert "1234" not in str(bob.told("/api/notes?words=safe"))
        assert "77" not in str(owner.told("/api/notes?words=locker"))
        with bob.stream() as to_bob:
            bob.told("/api/say", {"text": "/set lamp on 60s", "id": "lamp"})
            assert "lamp is on" in to_bob("ended")[1]["text"]
            bob.told("/api/say", {"text": "/set pump on 60s", "id": "pump"})
            refused = to_bob("ended")[1]
        levels = {row["name"]: row["level"] for row in bob.told("/api/board")["outputs"]}
        assert levels == {"lamp": "on", "pump": "off"}, refused
        assert bob.told("/api/off", {"name": "lamp"})["text"]
        assert dan.told("/api/stop", {})["stopped"]
        assert owner.told("/api/resume", {})["stopped"] == ""
        assert folder.joinpath("people/bob/workspace").is_dir()


def find_answer(client, text):
    time.sleep(0.2)  # a page may ask ten times a second
    said = client.told("/api/state")["said"]
    places = [n for n, line in enumerate(said) if line["role"] == "user" and line["text"] == text]
    answers = [line["text"] for line in said[places[-1] :] if line["role"] == "assistant"] if places else []
    return answers[0] if answers else ""
