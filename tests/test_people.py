"""The people of a household: each has a workspace, notes and reminders of their own, and nobody has another's."""

import threading
import time
from contextlib import closing
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

import apsw
import pytest
from model_server import ModelServer, call, reply
from rows import each_row
from telegram_server import TOKEN
from test_earlier_home import make_earlier_database
from test_telegram import QUICK, WORDING, TelegramServer

from picoclaw.agent.subagents import run_task
from picoclaw.app import App
from picoclaw.automation.clock import ClockWatch
from picoclaw.automation.jobs import get_heading, word_missed
from picoclaw.automation.scheduler import Scheduler
from picoclaw.channels.telegram import TelegramChannel
from picoclaw.channels.telegram_api import make_pairing
from picoclaw.cli import run
from picoclaw.config import Config, load_config
from picoclaw.config.tables import AgentConfig, HookConfig, MemoryConfig, ModelConfig, PersonConfig, TelegramConfig
from picoclaw.daemon.background import run_job, word_reminder
from picoclaw.daemon.delivery import format_message
from picoclaw.errors import ConfigError
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, Inbound, Message, Notice, Stop, ToolCall, Turn, Usage
from picoclaw.records import replace
from picoclaw.security.policy import compute_digest
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox, OutboxMessage
from picoclaw.store.people import People
from picoclaw.workspace import prepare_home

PEOPLE = {
    "ada": PersonConfig("owner", telegram=1),
    "bob": PersonConfig("member", telegram=2, time_zone="Asia/Tokyo"),
    "cleo": PersonConfig("member", telegram=3),
    "dan": PersonConfig("guest", telegram=4),
}
SECRET, BOBS = "the safe's number is 1234", "my locker is number 77"


@pytest.fixture
def home(tmp_path):
    prepare_home(tmp_path / "home")
    return tmp_path / "home"


class Household:
    """The app of a home with a model that does as it is told; `ask` sends a person's message."""

    def __init__(self, home, script=None):
        self.server = ModelServer(script) if script else None
        model = ModelConfig()
        if self.server:
            self.server.__enter__()
            model = ModelConfig(self.server.url, "m", retries=0)
        self.app = App(Config(home, people=PEOPLE, model=model), SimBoard())

    def ask(self, number, text, origin="", session=""):
        origin, who = origin or {1: "owner", 4: "guest"}.get(number, "member"), f"telegram:{number}"
        return self.app.dispatcher.answer(Inbound(session or who, text, origin, who=who))

    def close(self):
        self.app.close()
        if self.server:
            self.server.__exit__()


@pytest.fixture
def household(home):
    made = Household(home)
    yield made
    made.close()


def test_nobody_finds_what_another_has_noted(household):
    for number, text in ((1, SECRET), (2, BOBS)):
        assert "noted: " in household.ask(number, f"note that {text}").reply
    found = {n: household.ask(n, "what did I note about the number?").reply for n in (1, 2, 3)}
    assert ("1234" in found[1], "77" in found[1]) == (True, False)
    assert ("1234" in found[2], "77" in found[2]) == (False, True)
    assert ("1234" in found[3], "77" in found[3]) == (False, False)
    assert BOBS in "".join(
        p.read_text() for p in (household.app.config.home / "people/bob/workspace/memory").rglob("*.md")
    )


def test_a_search_in_past_messages_finds_ones_own_only(home):
    app = App(Config(home, people=PEOPLE, memory=MemoryConfig(messages=True)), SimBoard())
    for number in (1, 2, 4):
        said = Turn("so it is", (Message("user", f"the zebra of {number}"),), 1, (), Usage(), "", "m", Notice(""))
        app.stores.history.keep(
            f"telegram:{number}", said, app.now(), asked_by="" if number == 1 else f"telegram:{number}"
        )
    turn = app.dispatcher.answer(Inbound("terminal", "what did I note about the zebra?", "owner"))
    assert [n for n in (1, 2, 4) if f"zebra of {n}" in turn.reply] == [1]
    app.close()


def test_a_members_model_has_tools_that_reach_nothing_of_the_owners(home):
    (home / "workspace/plan.txt").write_text("the owner's plan")
    (home / "workspace/USER.md").write_text("- Name: Ada\n- Preferences: tell nobody that I am away\n")
    (home / "workspace/skills/safe").mkdir(parents=True)
    (home / "workspace/skills/safe/SKILL.md").write_text(f"---\nname: safe\ndescription: opens\n---\n{SECRET}\n")
    wishes = iter(
        [
            reply("", call("read_file", {"path": "skills/safe/SKILL.md"}, "0")),
            reply("", call("read_file", {"path": "plan.txt"})),
            reply("", call("read_file", {"path": str(home / "workspace/plan.txt")}, "2")),
            reply("", call("write_file", {"path": "list.txt", "content": "milk"}, "3")),
            reply("", call("exec", {"argv": ["cat", str(home / "workspace/plan.txt")]}, "4")),
            reply("done"),
        ]
    )
    household = Household(home, lambda _: next(wishes))
    try:
        turn = household.ask(2, "show me the plan")
        results = {run.name: run.result for run in turn.tools}
        assert "the owner's plan" not in str(turn.messages)
        assert SECRET not in str(turn.messages)
        assert "list.txt" in results["write_file"]
        assert (home / "people/bob/workspace/list.txt").read_text() == "milk"
        assert not (home / "workspace/list.txt").exists()
        sent = household.server.requests[0].body
        assert "away" not in str(sent)
        offered = {tool["function"]["name"] for tool in sent["tools"]}
        assert not offered & {"exec", "pulse", "spawn", "rule", "skill_create", "sensor_add", "i2c", "gpio"}
        assert offered >= {"sensor_read", "memory_store", "memory_search", "cron", "read_file"}
    finally:
        household.close()


def test_a_members_first_meeting_fills_in_their_own_page(household, home):
    household.ask(3, "hello")
    household.ask(3, "call me Cleo")
    assert "- Name: Cleo" in household.app.find_view("telegram:3").personal.read("USER.md")
    assert "Cleo" not in (home / "workspace/USER.md").read_text()
    assert not (home / "people/cleo/workspace/USER.md").exists()
    assert not (home / "people/cleo/workspace/SOUL.md").exists()


def test_a_member_has_their_own_zone_and_reminders(household):
    assert str(household.app.find_view("telegram:2").context_builder.zone()) == "Asia/Tokyo"
    assert household.app.find_view("telegram:1") is household.app
    household.ask(2, "later")  # the first meeting
    assert "reminder" in household.ask(2, "remind me at 18:30 to feed the cat").reply
    (job,) = household.app.stores.jobs.all()
    due = datetime.fromtimestamp(job.plan.anchor, ZoneInfo("Asia/Tokyo"))
    assert (job.session, f"{due:%H:%M}") == ("telegram:2", "18:30")
    assert "no reminders" in household.ask(3, "what are my reminders?").reply.lower()


def test_a_member_whom_nobody_knows_is_a_guest(household):
    reply = household.ask(9, f"note that {SECRET}", "member").reply
    assert "noted in" not in reply
    assert not list((household.app.config.home / "people").glob("*"))


def test_commands_of_a_member_are_those_of_their_own_conversations(household):
    household.ask(2, "later")
    assert household.ask(2, "/new").provider == "command"
    for text in ("/yes 1", "/model x", "/job remove 1", "/rule remove x", "/approvals"):
        assert household.ask(2, text).provider != "command"


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("[people.Ada]", "a name is small letters"),
        ('[people.ada]\nrole = "boss"', "must be one of 'owner', 'member', 'guest'"),
        ("[people.a]\ntelegram = 5\n[people.b]\ntelegram = 5", "telegram:5 is a already"),
        ('[people.a]\ntime_zone = "Mars/Base"', "time_zone"),
        ("[telegram]\nowner = 5\n[people.a]\ntelegram = 5", "telegram:5 is the owner below"),
        ('[matrix]\nowner = "@a:x.org"\n[people.a]\nrole = "guest"\nmatrix = "@a:x.org"', "is the owner below"),
        ("people = 3", "must hold one table for each person"),
    ],
)
def test_tables_that_say_nothing_clear_are_refused(home, table, wrong):
    (home / "config.toml").write_text(table + "\n")
    with pytest.raises(ConfigError, match=wrong):
        load_config({"PICOCLAW_HOME": str(home)})


def test_a_code_pairs_the_person_that_it_was_made_for(home):
    config = Config(home, people={"eve": PersonConfig("member"), "own": PersonConfig("owner")})
    pairing = make_pairing(config)
    assert pairing.redeem(pairing.offer("eve"), "55", "Eve")
    assert (pairing.origin("55"), pairing.owner()) == (
        "member",
        "",
    )  # a member does not become the owner by being first
    assert pairing.redeem(pairing.offer("own"), "56", "Me")
    assert (pairing.origin("56"), pairing.owner(), pairing.origin("55")) == ("owner", "56", "member")
    assert pairing.redeem(pairing.offer(), "57", "Zed")
    assert pairing.origin("57") == "guest"
    pairing.close()
    database = Database(home / "state.db")
    assert People(config.people, database).list_ways("eve") == ["telegram:55"]
    assert People({}, database).find("telegram:55") == ""  # taken out of config.toml
    database.close()


def test_a_number_of_a_member_is_nobodys_owner(home):
    pairing = make_pairing(Config(home, people={"bob": PersonConfig("member", telegram=2)}))
    assert (pairing.allows("2"), pairing.owner(), pairing.origin("2")) == (True, "", "member")
    pairing.close()


def test_telegram_posts_a_member_as_one(home):
    with TelegramServer() as server:
        config = Config(home, telegram=TelegramConfig([1], server.url), telegram_token=TOKEN, people=PEOPLE)
        channel, posted, came = TelegramChannel(config, WORDING, QUICK), [], threading.Event()
        channel.start(lambda arrived: (posted.append(arrived), came.set()) if len(posted) < 1 else None)
        try:
            server.says(2, "how warm is it?")
            assert came.wait(5)
        finally:
            channel.stop()
    assert (posted[0].origin, posted[0].who) == ("member", "telegram:2")


def test_people_are_added_changed_listed_and_removed(home, monkeypatch, capsys):
    monkeypatch.setenv("PICOCLAW_HOME", str(home))

    def say(*words):
        code = run(["people", *words])
        out, err = capsys.readouterr()
        return code, out + err

    assert say() == (0, "nobody but you, the owner: `picoclaw people add NAME` adds a person\n")
    assert say("add", "bob", "--telegram", "2")[1].startswith("bob is a member: reads the sensors")
    assert say("add", "bob", "--role", "guest")[0] == 0
    assert say("list") == (0, "bob  guest, telegram:2\n")
    assert say("add", "Bob")[1].startswith("picoclaw: ")
    code, said = say("remove", "bo")
    assert (code, "nobody is called 'bo'; did you mean 'bob'" in said) == (1, True)
    (home / "config.toml").write_text('# mine\n[people.bob]\nrole = "guest"\n\n[limits]\nsteps = 5\n')
    assert say("remove", "bob")[0] == 0
    assert (home / "config.toml").read_text() == "# mine\n[limits]\nsteps = 5\n"
    assert load_config({"PICOCLAW_HOME": str(home)}).people == {}


# In a group the owner, members and guests share one conversation.
GROUPS = ["telegram:-100", "matrix:!shed:example.org"]


class Group(Household):
    """A household whose model does what is next in `wishes`; a text there is a long result of the turn's."""

    def __init__(self, home, key):
        super().__init__(home, self.wish)
        self.key, self.wishes, self.asking = key, [], 0

    def wish(self, _):
        while isinstance(self.wishes[0], str):
            who = "" if self.asking in {1, 4} else f"telegram:{self.asking}"
            self.app.find_view(who).stores.results.keep(self.key, "exec", self.wishes.pop(0), self.app.now())
        return self.wishes.pop(0)

    def say(self, number, text, *wishes):
        self.asking, self.wishes = number, list(wishes)
        return self.ask(number, text, session=self.key)


@pytest.mark.parametrize("key", GROUPS)
@pytest.mark.parametrize("asking", [2, 4])
@pytest.mark.parametrize("before", [1, 2, 4])
def test_in_a_group_nobody_is_shown_what_tools_have_told_another(home, key, asking, before):
    (home / "workspace/plan.txt").write_text(f"the owner's plan: {SECRET}\n")
    group = Group(home, key)
    try:
        group.say(before, "hello", reply("hello"))  # the owner's turn then rests on what another has said
        plan = reply("", call("read_file", {"path": "plan.txt"}))
        assert (
            SECRET
            in group.say(1, "read the plan", plan, f"its rest: {SECRET}", reply("I have read it")).tools[0].result
        )
        assert "rest" in group.app.stores.results.read(key, 1)
        rest = reply("", call("read_result", {"number": 1}, "9"))
        turn = group.say(asking, "what is in it?", rest, reply("done"))
        sent = str([request.body for request in group.server.requests[-2:]])
        assert ("I have read it" in sent, "1234" in sent, turn.tools[0].name) == (True, False, "read_result")
        assert "1234" not in str(turn.messages)
    finally:
        group.close()


def test_in_a_group_a_member_reads_on_in_a_result_of_their_own(home):
    group = Group(home, GROUPS[1])
    try:
        group.say(1, "hello", reply("hello"))
        rest = reply("", call("read_result", {"number": 1}, "9"))
        group.say(2, "list it", "milk and bread", reply("done"))
        assert "milk and bread" in group.say(2, "read on", rest, reply("done")).tools[0].result
    finally:
        group.close()


@pytest.mark.parametrize("group", GROUPS)
def test_a_member_ends_no_conversation_that_others_share(household, group):
    household.ask(1, "how warm is it?", session=group)
    for text in ("/undo", "/clear yes", "/new", "/retry", "/sessions"):
        assert household.ask(2, text, session=group).provider != "command"
    assert household.ask(2, "/help", session=group).provider == "command"
    assert household.ask(1, "/sessions", session=group).provider == "command"


@pytest.mark.parametrize(
    ("people", "allow", "marked", "owner"),
    [
        ({"dan": PersonConfig("guest", telegram=4)}, [4], "", ""),
        ({"bob": PersonConfig("member", telegram=4)}, [4, 5], "", "5"),
        ({"bob": PersonConfig("member", telegram=4)}, [], "4", ""),
        ({"dan": PersonConfig("guest", telegram=4), "ada": PersonConfig("owner", telegram=6)}, [4], "4", "6"),
        ({"dan": PersonConfig("guest", telegram=4)}, [], "7", "7"),
    ],
)
def test_a_role_in_the_settings_counts_more_than_who_came_first(home, people, allow, marked, owner):
    if marked:
        first = make_pairing(Config(home))
        assert first.redeem(first.offer(), marked, "First")
        assert first.origin(marked) == "owner"
        first.close()
    pairing = make_pairing(Config(home, people=people, telegram=TelegramConfig(allow)))
    roles = {str(person.telegram): person.role for person in people.values()}
    assert (pairing.owner(), {number: pairing.origin(number) for number in roles}) == (owner, roles)
    pairing.close()


def test_who_was_forgotten_is_a_guest_to_the_next_code(home):
    pairing = make_pairing(Config(home, people={"eve": PersonConfig("owner"), "bob": PersonConfig("member")}))
    assert pairing.redeem(pairing.offer(), "1", "Me")  # the owner, who was first
    for name, role in (("eve", "owner"), ("bob", "member")):
        assert pairing.redeem(pairing.offer(name), "55", "Eve")
        assert pairing.origin("55") == role
        assert pairing.forget("55")
        assert (pairing.allows("55"), pairing.origin("55")) == (False, "guest")
        assert pairing.redeem(pairing.offer(), "55", "Eve")
        assert pairing.origin("55") == "guest"
    pairing.close()


def test_a_home_that_is_not_there_yet_has_nobody(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "new"))
    for words, said in (
        (["people"], "nobody but you"),
        (["people", "list", "--json"], "[]"),
        (["people", "remove", "ada"], "there is no [people.NAME] at all"),
        (["prompt", "--as", "ada"], "there is no [people.NAME] at all"),
    ):
        run(words)
        assert said in "".join(capsys.readouterr()).replace("\n", " ")
    assert not (tmp_path / "new").exists()


def test_a_code_for_a_person_whom_the_service_does_not_know_yet_makes_a_guest(home):
    shell = make_pairing(Config(home, people={"eve": PersonConfig("owner")}))
    service = make_pairing(Config(home))
    code = shell.offer("eve")
    assert service.redeem(code, "55", "Eve")
    assert (service.origin("55"), service.owner()) == ("guest", "")
    assert not service.redeem(code, "56", "Mallory")  # it counts once
    assert shell.origin("55") == "owner"  # as the service sees it after a restart
    shell.close()
    service.close()


@pytest.mark.parametrize(("chat", "file"), [(1, "the owner's plan"), (2, "bob's plan"), (3, ""), (4, ""), (-100, "")])
def test_an_answer_brings_only_files_of_whoever_reads_it(home, chat, file):
    (home / "workspace/plan.txt").write_text("the owner's plan")
    (home / "people/bob/workspace").mkdir(parents=True)
    (home / "people/bob/workspace/plan.txt").write_text("bob's plan")
    with TelegramServer() as server:
        server.people |= {chat}
        config = Config(home, telegram=TelegramConfig([1], server.url), telegram_token=TOKEN, people=PEOPLE)
        channel = TelegramChannel(config, WORDING, QUICK)
        channel.start(lambda _: None)
        try:
            channel.send(OutboxMessage(1, f"telegram:{chat}", "![here](plan.txt)", 0.0))
        finally:
            channel.stop()
        (sent,) = server.sent
    assert (sent.file.decode(), sent.text) == (file, "here" if file else "here (plan.txt)")


@pytest.mark.parametrize("origin", ["hook", "remote", "guest"])
def test_programs_and_guests_are_answered_again_and_again(home, origin):
    app = App(Config(home, hooks={"house": HookConfig("{text}", "token")}), SimBoard())
    for _ in range(3):
        turn = app.dispatcher.answer(Inbound("hook:house", "how warm is it?", origin, who="hook:house"))
        assert "greenhouse: temperature" in turn.reply
    app.close()


def change_people(household, people, **more):
    """Start the app anew with other people, as a restart of picoclaw does."""
    config = replace(household.app.config, people=people, **more)
    household.app.close()
    household.app = App(config, SimBoard())


WITHOUT_BOB = {name: person for name, person in PEOPLE.items() if name != "bob"}
ROLES_SINCE = [  # who has asked, what became of them, and what is said to the yes
    (2, PEOPLE, ""),
    (2, PEOPLE | {"bob": PersonConfig("guest", telegram=2)}, "was a member of the household then and is a guest now"),
    (2, PEOPLE | {"bob": PersonConfig("owner", telegram=2)}, "was a member of the household then and is the owner now"),
    (2, WITHOUT_BOB, "telegram:2, who asked for it, may not write to this board any more"),
    (2, {}, "telegram:2, who asked for it, may not write to this board any more"),
    (1, PEOPLE | {"ada": PersonConfig("member", telegram=1)}, "was the owner then and is a member of the household now"),
    (4, PEOPLE | {"dan": PersonConfig("member", telegram=4)}, "was a guest then and is a member of the household now"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "people", "void"), ROLES_SINCE)
def test_a_call_that_waited_is_judged_by_the_role_of_now(home, number, people, void):
    """Never with the view or the rights of somebody else: the file would be the owner's."""
    (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    script = iter([reply("", call("write_file", {"path": "plan.md", "content": "figs"})), reply("it waits")])
    household = Household(home, lambda _: next(script, reply("so be it")))
    household.ask(number, "write the plan, please")
    assert household.app.approving.approvals.get(1).state == "waiting"
    change_people(household, people)
    said = household.app.dispatcher.answer(Inbound("terminal", "/yes 1")).reply
    written = {str(path.relative_to(home)) for path in home.rglob("plan.md")}
    household.close()
    if void:
        assert written == set()
        assert (
            f"Number 1 was not done: {'' if 'may not' in void else f'telegram:{number}, who asked for it, '}{void}"
            in said
        )
    else:
        assert written == {"people/bob/workspace/plan.md"}


@pytest.mark.parametrize("by", [1, 0])
def test_a_no_to_a_members_call_is_final_too(home, by):
    (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    script = iter([reply("", call("write_file", {"path": "plan.md", "content": "figs"})), reply("it waits")])
    household = Household(home, lambda _: next(script, reply("so be it")))
    household.ask(2, "write the plan, please")
    for text in ("/no 1", "/yes 1", "/always 1"):
        chat = "telegram:1" if by else "terminal"
        said = household.app.dispatcher.answer(Inbound(chat, text, who="telegram:1" if by else "")).reply
    household.ask(2, "/yes 1")
    assert "number 1 was refused: the answer was no, and it was not done" in said
    assert not list(home.rglob("plan.md"))
    household.close()


ASKERS = {  # who asks with which agent: two with a rule of their own each, and nobody with another's
    f"{name} with {agent or 'the home'}": (number, origin, agent)
    for agent in ("", "garden")
    for name, number, origin in (("ada", 1, "owner"), ("bob", 2, "member"), ("cleo", 3, "member"), ("dan", 4, "guest"))
}


@pytest.mark.parametrize("first", ASKERS)
def test_what_is_allowed_for_good_holds_for_that_agent_and_that_person(home, first):
    (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    app = App(Config(home, people=PEOPLE, agents={"garden": AgentConfig()}), SimBoard())
    wish = ToolCall("1", "write_file", {"path": "plan.md", "content": "figs", "mode": "append"})

    def ask(number, origin, agent):
        who = f"telegram:{number}"
        view = app.find_view(who, agent) if origin == "member" else app.find_view("", agent)
        caller = Caller(who, origin, app.now(), lambda _: None, who=who)
        return view.toolset.run(wish, caller)[0]

    assert not ask(*ASKERS[first])
    assert "allowed for good as rule 1" in app.dispatcher.answer(Inbound("terminal", "/always 1")).reply
    assert [name for name, asker in ASKERS.items() if ask(*asker)] == [first]
    (rule,) = app.approving.approvals.always()
    assert (rule.agent, rule.whose) == (
        ASKERS[first][2],
        {"ada": "", "bob": "member bob", "cleo": "member cleo", "dan": "guest"}[first.split()[0]],
    )
    app.close()


def test_what_the_owner_allowed_for_good_holds_for_their_jobs_too(home):
    (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    app = App(Config(home, people=PEOPLE), SimBoard())
    wish = ToolCall("1", "write_file", {"path": "plan.md", "content": "figs", "mode": "append"})
    origins = ("owner", "web", "cron", "heartbeat", "subagent", "guest", "mcp", "hook")
    callers = {origin: Caller("terminal", origin, app.now(), lambda _: None) for origin in origins}
    app.toolset.run(wish, callers["owner"])
    app.dispatcher.answer(Inbound("terminal", "/always 1"))
    good = [origin for origin, caller in callers.items() if app.toolset.run(wish, caller)[0]]
    app.close()
    assert good == ["owner", "web", "cron", "heartbeat", "subagent"]


@pytest.mark.parametrize(
    ("people", "why"),
    [
        (PEOPLE, ""),
        (
            PEOPLE | {"ada": PersonConfig("member", telegram=1)},
            "was the owner then and is a member of the household now",
        ),
        (PEOPLE | {"ada": PersonConfig("guest", telegram=1)}, "was the owner then and is a guest now"),
        ({}, "may not write to this board any more"),
    ],
)
@pytest.mark.parametrize("kind", ["turn", "tool"])
def test_a_job_of_somebody_who_was_the_owner_is_not_done(home, people, why, kind):
    household = Household(home, lambda _: reply("the beans are fine"))
    cron = household.app.toolset
    wish = {"turn": "look after the beans", "tool": "sensor_list"}[kind]
    call_ = ToolCall("1", "cron", {"action": "add", "message": wish, "kind": kind, "every_seconds": 3600})
    assert cron.run(call_, Caller("telegram:1", "owner", household.app.now(), lambda _: None, who="telegram:1"))[0]
    change_people(household, people)
    (job,) = household.app.stores.jobs.all()
    done = run_job(household.app, job)
    asked = len(household.server.requests)
    household.close()
    assert (done.good, asked) == (not why, 1 if kind == "turn" and not why else 0)
    assert why in done.text


def test_a_sub_agent_of_a_guest_has_the_rights_of_a_guest(home):
    (home / "policy.toml").write_text('[tools.spawn]\nguest = "allow"\n')
    (home / "workspace/secret.txt").write_text("1234")

    def answer(body):
        newest = body["messages"][-1]
        if newest["role"] == "tool":
            return reply(newest["content"])
        return reply("", call("read_file", {"path": "secret.txt"}))

    household = Household(home, answer)
    tasks = household.app.subagent_tasks
    wish = ToolCall("1", "spawn", {"task": "look up the secret"})
    caller = Caller("telegram:4", "guest", household.app.now(), lambda _: None, who="telegram:4")
    assert household.app.toolset.run(wish, caller)[0]
    task = tasks.claim(household.app.now().timestamp(), lambda _: True)
    assert run_task(household.app, task, Stop())
    report = tasks.get(task.number).result
    household.close()
    assert "1234" not in report
    assert task.origin == "guest"


# What is said without a model is said in a person's language where what they write does not tell it.
SPEAKING = PEOPLE | {
    "ada": PersonConfig("owner", telegram=1, language="fr"),
    "bob": PersonConfig("member", telegram=2, language="de"),
}


@pytest.fixture
def speakers(household):
    household.app.config = replace(household.app.config, people=SPEAKING)
    return household


@pytest.mark.parametrize(
    ("number", "said", "answer"),
    [
        (2, "temperature", "Temperatur"),
        (2, "asdf", "Das habe ich nicht verstanden"),
        (2, "how warm is it in the greenhouse?", "temperature"),  # who writes English is answered in it
        (1, "hum", "humidité"),
        (3, "temperature", "temperature"),
    ],
)
def test_each_is_answered_in_their_own_language(speakers, number, said, answer):
    assert answer in speakers.ask(number, said).reply


@pytest.mark.parametrize(
    ("number", "said", "heading"),
    [
        (2, "tea 10 min", "Erinnerung:"),
        (1, "remind me in 10 minutes to tea", "Rappel :"),
        (3, "remind me in 10 minutes to tea", "Reminder:"),
    ],
)
def test_a_reminder_is_headed_in_the_language_of_the_moment_it_is_told(speakers, number, said, heading):
    app = speakers.app
    caller = Caller(
        f"telegram:{number}", "owner" if number == 1 else "member", app.now(), print, who=f"telegram:{number}"
    )
    app.toolset.run(ToolCall("1", "cron", {"action": "add", "message": "tea", "at_seconds": 600}), caller)
    job = app.stores.jobs.all()[0]
    assert (job.heading, job.who) == ("Reminder:", f"telegram:{number}")  # as a model had it planned
    outbox, words = Outbox(app.stores.database), _make_wording(app)
    scheduler = Scheduler(
        app.stores.jobs, ClockWatch(lambda: True, job.boot), lambda _: None, lambda: None, print, words
    )
    scheduler.step(time.time() + 600, job.mono)
    assert [one.text for one in outbox.waiting()] == [f"{heading} tea"]


def _make_wording(app):
    return partial(word_reminder, People(app.config.people, app.stores.database).language)


LATE = [
    ("Reminder: tea", 7200, "Reminder: tea (was due 2 h ago)"),
    ("Erinnerung: Tee", 7200, "Erinnerung: Tee (war vor 2 h fällig)"),
    ("Erinnerung: Tee", 90000, "Erinnerung: Tee (war vor 1 Tag 1 h fällig)"),
    ("Recordatorio: té", 180000, "Recordatorio: té (era para hace 2 días 2 h)"),
    ("Rappel : thé", 7200, "Rappel : thé (prévu il y a 2 h)"),
    ("It is 7 °C", 7200, "It is 7 °C (was due 2 h ago)"),
    ("Rappel : thé", 30, "Rappel : thé"),
]


@each_row(("text", "late", "told"), LATE)
def test_a_late_reminder_says_so_in_its_own_language(text, late, told):
    assert format_message(OutboxMessage(1, "terminal", text, 1000.0), "terminal", 1000.0 + late) == told


def test_what_stands_before_a_reminder_is_the_same_in_both_files(household):
    for language in household.app.languages:
        assert get_heading(language) == household.app.load_language(language).say["reminder"]


def test_missed_ones_are_counted_in_the_reminders_language():
    assert word_missed("Rappel :", "3") == " (3 précédents ont été manqués)"
    assert word_missed("Reminder:", "3") == " (3 earlier ones were missed)"


def test_a_language_that_nobody_speaks_here_is_refused(home):
    (home / "config.toml").write_text('[people.bob]\nlanguage = "tlh"\n')
    with pytest.raises(ConfigError, match="'tlh' is none that picoclaw speaks; it speaks de, en, es, fr"):
        load_config({"PICOCLAW_HOME": str(home)})


MEETINGS = {
    "de": ["hallo", "Bob", "nein, das ist falsch", "nenn mich Bob", "ich wohne in Berlin", "auslassen"],
    "es": ["hola", "Bob", "eso está mal", "me llamo Bob", "vivo en Berlin", "omitir"],
    "fr": ["bonjour", "Bob", "c'est faux", "je m'appelle Bob", "j'habite à Berlin", "passer"],
}
SPOKEN_WORDS = {
    "de": "Notiert: Name Bob.\nZeitzone: ",
    "es": "Anotado: Nombre Bob.\nZona horaria: ",
    "fr": "Noté : Nom Bob.\nFuseau horaire : ",
}


@pytest.mark.parametrize("language", MEETINGS)
def test_the_first_meeting_is_held_in_a_persons_language(household, language):
    people = PEOPLE | {"bob": PersonConfig("member", telegram=2, language=language)}
    household.app.config = replace(household.app.config, people=people)
    answers = [household.ask(2, text).reply for text in MEETINGS[language]]
    assert SPOKEN_WORDS[language] in answers[1]
    assert SPOKEN_WORDS[language] in answers[3]
    assert "USER.md" in answers[5]
    page = household.app.find_view("telegram:2").personal.read("USER.md")
    assert ("- Name: Bob" in page, "- Time zone: Europe/Berlin" in page, "- Preferences: -" in page) == (
        True,
        True,
        True,
    )
    english = "Noted Known Name: Taken skip undo done called city keep anything thank"
    assert not [
        word
        for word in english.split()
        if any(word in answer for answer in answers if language != "de" or word != "Name:")
    ]


# What was allowed for good before it was kept whose call it was (migration 032): rows of that time, read by the guard.
APPROVED = {  # by digest: the origin, state and agent of each call that was approved so far
    "owners": [("owner", "done", "")],
    "gardens": [("owner", "failed", "garden")],
    "pages": [("web", "done", "")],
    "jobs": [("cron", "done", "garden")],
    "moved": [("owner", "done", "garden"), ("owner", "done", ""), ("owner", "waiting", "garden")],
    "forgotten": [],  # old approvals are deleted
    "members": [("member", "done", "")],
    "guests": [("guest", "done", "")],
    "hooks": [("hook", "done", "")],
    "boards": [("remote", "done", "")],
    "programs": [("mcp", "done", "")],
    "both": [("owner", "done", ""), ("member", "void", "")],  # nobody knows whose yes it was
}
STILL_ALLOWED = {"owners": "", "gardens": "garden", "pages": "", "jobs": "garden", "moved": "", "forgotten": ""}


def test_what_was_allowed_for_good_before_is_the_owners_alone(home):
    (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    wish = ToolCall("1", "write_file", {"path": "plan.md", "content": "figs", "mode": "append"})
    with closing(App(Config(home), SimBoard())) as app:
        digest = compute_digest(app.toolset.asked(wish, whole=True))
    rows = {digest if name == "owners" else name: calls for name, calls in APPROVED.items()}
    for file in home.glob("state.db*"):
        file.unlink()
    with closing(apsw.Connection(str(make_earlier_database(home / "state.db")))) as connection:
        connection.execute("DELETE FROM always; DELETE FROM approvals; DELETE FROM sqlite_sequence")
        connection.execute("ALTER TABLE approvals ADD COLUMN agent TEXT NOT NULL DEFAULT ''")
        for digest_of, calls in rows.items():
            connection.execute(
                "INSERT INTO always (digest, question, at, by) VALUES (?, 'write_file plan.md', 7.0, 'telegram:1')",
                (digest_of,),
            )
            for origin, state, agent in calls:
                connection.execute(
                    "INSERT INTO approvals (nonce, session, chat, origin, asked_by, call, effect, rule, why, means, bound,"
                    " digest, heard, question, at, expires, state, answered_by, outcome, agent) VALUES"
                    " (hex(randomblob(8)), 'terminal', 'terminal', ?, '', '{}', 'write', 'r', '', '', '{}', ?, '[]', 'q', 1.0,"
                    " 2.0, ?, '', '', ?)",
                    (origin, digest_of, state, agent),
                )
    app = App(Config(home, people=PEOPLE, agents={"garden": AgentConfig()}), SimBoard())
    kept = app.approving.approvals.always()
    names = {(digest if name == "owners" else name): agent for name, agent in STILL_ALLOWED.items()}
    assert {rule.digest: rule.agent for rule in kept} == names
    assert {(rule.whose, rule.question, rule.at, rule.by) for rule in kept} == {
        ("", "write_file plan.md", 7.0, "telegram:1")
    }
    assert [rule.number for rule in kept] == [1, 2, 3, 4, 5, 6]  # by which they are taken back

    def ask(number, origin, agent=""):
        who = f"telegram:{number}"
        view = app.find_view(who if origin == "member" else "", agent)
        return view.toolset.run(wish, Caller(who, origin, app.now(), lambda _: None, who=who))[0]

    assert (ask(1, "owner"), ask(2, "member"), ask(1, "owner", "garden")) == (True, False, False)
    assert app.approving.approvals.revoke(1)
    assert not ask(1, "owner")
    app.close()
