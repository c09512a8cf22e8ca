"""People, agents, links, teams and grants on the page: the same as at a shell, and the same words for what is wrong."""

import json
import shlex
from datetime import UTC

import pytest
from page_house import served
from test_dashboard import STATUS

from picoclaw import cli
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.config.tables import AgentConfig, PersonConfig, TeamConfig
from picoclaw.daemon.dashboard import DaemonBackend
from picoclaw.hw.sim import SimBoard
from picoclaw.security.audit import LOG_NAME
from picoclaw.store.people import SkillGrants
from picoclaw.workspace import prepare_home

TABLES = """[people.ada]
role = "owner"
[people.bob]
[people.dan]
role = "guest"
[agents.garden]
[agents.cellar]
[links]
garden = ["cellar"]
[teams.a]
lead = "garden"
members = { garden = "", cellar = "" }
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("PICOCLAW_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    prepare_home(home)
    skill = home / "workspace/skills/tomatoes/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tomatoes\ndescription: grow tomatoes\n---\nWater them.\n")
    return home


@pytest.fixture
def client(home):
    app = App(load_config(), SimBoard())
    house = DaemonBackend(app.config, app.wiring, lambda: UTC, "", lambda: STATUS, lambda: app.toolset.names)
    house.posted = []
    with served(home, house) as one:
        one.login()
        yield one
    house.close()
    app.close()


def change(client, kind, act, key="", **values):
    status, _, body = client.ask("/api/change_household", {"kind": kind, "act": act, "key": key, "values": values})
    said = json.loads(body)
    return status, said.get("text") or said["error"]


def rows(client, kind):
    """What the page lists of a kind: each key with its text."""
    kinds = client.told("/api/household")["kinds"]
    return {key: text for name, _, _, _, found in kinds if name == kind for key, text, _ in found}


def test_people_are_added_changed_and_removed_on_the_page(client):
    assert rows(client, "people") == {}
    status, text = change(client, "people", "add", "bob", telegram="2")
    assert (status, text.startswith("bob is a member"), "restart it: sudo picoclaw restart" in text) == (
        200,
        True,
        True,
    )
    assert rows(client, "people") == {"bob": "member, telegram:2"}
    assert change(client, "people", "edit", "bob", role="guest", time_zone="Asia/Tokyo")[0] == 200
    assert load_config().people == {"bob": PersonConfig("guest", 2, time_zone="Asia/Tokyo")}
    change(client, "people", "edit", "bob", time_zone="", telegram="")
    assert load_config().people == {"bob": PersonConfig("guest")}
    assert "bob was removed" in change(client, "people", "remove", "bob")[1]
    assert load_config().people == {}
    entry = json.loads((client.home / LOG_NAME).read_text().splitlines()[-1])
    assert (entry["act"], entry["kind"], entry["change"], entry["name"]) == ("settings", "people", "remove", "bob")
    assert entry["who"].startswith("page:")


def test_whoever_takes_the_last_owner_away_is_told_who_is_the_owner_then(client):
    change(client, "people", "add", "ada", role="owner")
    assert "the last owner" in change(client, "people", "edit", "ada", role="member")[1]
    change(client, "people", "edit", "ada", role="owner")
    assert "the last owner" in change(client, "people", "remove", "ada")[1]


def test_a_person_who_is_removed_is_taken_out_of_the_agents_too(client):
    for name in ("bob", "eve"):
        change(client, "people", "add", name)
    change(client, "agents", "add", "garden", people="bob, eve")
    change(client, "agents", "add", "diary", people="bob")
    status, text = change(client, "people", "remove", "bob")
    assert (status, "was removed from the people of the agent garden" in text) == (200, True)
    assert {key: agent.people for key, agent in load_config().agents.items()} == {"garden": ["eve"], "diary": []}


def test_what_has_no_links_has_none_to_take_out(client):
    change(client, "people", "add", "bob")
    before = (client.home / "config.toml").read_text()
    assert change(client, "links", "remove", "oven") == (400, "oven has no link")
    assert change(client, "links", "edit", "oven", to="")[0] == 400
    assert (client.home / "config.toml").read_text() == before


@pytest.mark.parametrize("folder", ["/proc/x", "/nowhere/at/all"])
def test_an_agent_that_can_have_no_folder_is_not_added(client, folder):
    change(client, "agents", "add", "garden")
    before = (client.home / "config.toml").read_text()
    assert change(client, "agents", "add", "diary", workspace=folder)[0] == 400
    assert load_config().agents == {"garden": AgentConfig()}
    assert change(client, "agents", "edit", "garden", workspace=folder, name="Flora")[0] == 400
    assert load_config().agents == {"garden": AgentConfig()}
    assert "diary" not in before + (client.home / "config.toml").read_text()


def test_agents_links_and_teams_are_made_on_the_page(client):
    assert "no tool of this board is called pumpe" in change(client, "agents", "add", "garden", tools="pumpe")[1]
    change(client, "agents", "edit", "garden", name="Flora", tools="sensor_*, output", type="open", people="")
    assert load_config().agents["garden"] == AgentConfig("Flora", tools=["sensor_*", "output"], type="open", people=[])
    assert rows(client, "agents")["garden"] == "Flora (open, sensor_* output, for the owner)"
    assert (client.home / "agents/garden/workspace/SOUL.md").exists()
    change(client, "agents", "add", "cellar")
    assert change(client, "links", "add", "garden", to="cellar, default") == (
        200,
        "garden may give tasks to cellar, default\nIf the service runs, restart it: sudo picoclaw restart",
    )
    assert change(client, "links", "edit", "garden", to="default")[0] == 200
    assert rows(client, "links") == {"garden": "may give tasks to default"}
    members = "garden = plants, soil\n\ncellar\n"
    assert "leads the team house" in change(client, "teams", "add", "house", lead="garden", members=members)[1]
    assert load_config().teams["house"] == TeamConfig("garden", {"garden": "plants, soil", "cellar": ""})
    change(client, "teams", "edit", "house", workflow="Ask first.", members=f"{members}default = speaks")
    listed = "led by garden: garden (plants, soil), cellar, default (speaks). Ask first."
    assert rows(client, "teams") == {"house": listed}
    assert change(client, "teams", "remove", "house")[0] == 200
    assert change(client, "links", "remove", "garden")[0] == 200
    assert rows(client, "links") == rows(client, "teams") == {}
    assert change(client, "agents", "remove", "garden")[0] == 200
    assert list(rows(client, "agents")) == ["default", "cellar"]


def test_skills_are_granted_and_taken_back_on_the_page(client):
    (client.home / "config.toml").write_text(TABLES)
    assert change(client, "grants", "add", "tomatoes", to="person:bob")[0] == 200
    assert " in version " in change(client, "grants", "add", "tomatoes", to="agent:garden")[1]
    assert change(client, "grants", "add", "tomatoes", to="everyone")[0] == 200
    found = rows(client, "grants")
    assert list(found) == ["tomatoes agent:garden", "tomatoes everyone", "tomatoes person:bob"]
    assert "granted to person bob by page:" in found["tomatoes person:bob"]
    assert (
        "it is still granted to agent garden, person bob" in change(client, "grants", "remove", "tomatoes everyone")[1]
    )
    change(client, "grants", "remove", "tomatoes agent:garden")
    assert list(rows(client, "grants")) == ["tomatoes person:bob"]
    assert not (client.home / "pinned/garden/tomatoes").exists()


def test_a_form_has_what_may_be_chosen(client):
    (client.home / "config.toml").write_text(TABLES)
    forms = {
        kind: {name: rest for name, *rest in fields} for kind, _, _, fields, _ in client.told("/api/household")["kinds"]
    }
    assert forms["people"]["role"][1:] == ["choice", ["owner", "member", "guest"], "member"]
    assert forms["people"]["agent"][2] == ["", "default", "garden", "cellar"]
    assert forms["agents"]["people"][1:] == ["text", [], "*"]
    assert forms["agents"]["default"][1:] == ["choice", ["no", "yes"], "no"]
    assert forms["teams"]["members"][1] == "lines"
    assert forms["grants"]["key"][2] == ["tomatoes"]
    assert forms["grants"]["to"][2] == ["everyone", "person:bob", "agent:default", "agent:garden", "agent:cellar"]


WRONG = [
    ("people add 'a b'", ("people", "add", "a b", {}), "'a b' cannot be a name"),
    ("people add Bob", ("people", "add", "Bob", {}), "a name is small letters, digits and _"),
    ("people add ''", ("people", "add", "", {}), "'' cannot be a name"),
    ("people edit eve", ("people", "edit", "eve", {"role": "guest"}), "nobody is called 'eve'"),
    ("people add eve --telegram 1", ("people", "add", "eve", {"telegram": "1"}), "telegram:1 is ada already"),
    ("people edit bob --matrix bob", ("people", "edit", "bob", {"matrix": "bob"}), "write it as @name:example.org"),
    ("people edit bob --zone Mars/Base", ("people", "edit", "bob", {"time_zone": "Mars/Base"}), "Mars/Base"),
    ("people edit dan --agent garden", ("people", "edit", "dan", {"agent": "garden"}), "a guest has the home's own"),
    ("people edit bob --agent gard", ("people", "edit", "bob", {"agent": "gard"}), "did you mean 'garden'"),
    ("people add owner --role member", ("people", "add", "owner", {"role": "member"}), "has to have that role"),
    ("people add guest", ("people", "add", "guest", {}), "has to have that role"),
    ("people remove eve", ("people", "remove", "eve", {}), "nobody is called 'eve'"),
    ("agents add garden", ("agents", "add", "garden", {}), "is there already"),
    ("agents add Garden", ("agents", "add", "Garden", {}), "it would be the same as [agents.garden]"),
    ("agents add ../x", ("agents", "add", "../x", {}), "cannot be a name"),
    ("agents edit x", ("agents", "edit", "x", {}), "is not there; `agents add` adds it"),
    ("agents edit garden --model big", ("agents", "edit", "garden", {"model": "big"}), "there is no [models.big]"),
    ("agents edit garden --people eve", ("agents", "edit", "garden", {"people": "eve"}), "there is no person 'eve'"),
    ("agents edit garden --workspace near", ("agents", "edit", "garden", {"workspace": "near"}), "a whole path"),
    ("agents remove cellar", ("agents", "remove", "cellar", {}), "cellar is still needed: garden may give tasks to cellar"),
    ("agents remove garden", ("agents", "remove", "garden", {}), "the team a has it (`picoclaw teams edit a"),
    ("agents remove oven", ("agents", "remove", "oven", {}), "there is no agent 'oven'"),
    ("agents edit garden --workspace /nowhere", ("agents", "edit", "garden", {"workspace": "/nowhere"}), "make the folder"),
    ("agents edit garden --name 'a\nb'", ("agents", "edit", "garden", {"name": "a\nb"}), "one line of at most 100"),
    (f"agents edit garden --description {'x' * 1001}", ("agents", "edit", "garden", {"description": "x" * 1001}), "one line of at most 1000"),
    ("teams edit a --member 'a b=c'", ("teams", "edit", "a", {"members": "garden\ncellar\na b = c"}), "there is no agent 'a b'"),
    ("teams edit a --member '=c'", ("teams", "edit", "a", {"members": "garden\ncellar\n= c"}), "there is no agent ''"),
    ("agents remove default", ("agents", "remove", "default", {}), "always there"),
    ("teams link garden garden", ("links", "add", "garden", {"to": "garden"}), "may not be linked to itself"),
    ("teams link gardn cellar", ("links", "add", "gardn", {"to": "cellar"}), "there is no agent 'gardn'"),
    ("teams link cellar oven", ("links", "add", "cellar", {"to": "oven"}), "there is no agent 'oven'"),
    ("teams add a --lead garden", ("teams", "add", "a", {"lead": "garden"}), "is there already"),
    ("teams add b --member garden", ("teams", "add", "b", {"members": "garden"}), "a team needs a lead"),
    ("teams add b --lead garden --member garden", ("teams", "add", "b", {"lead": "garden", "members": "garden"}), "the lead is alone"),
    ("teams add b --lead default --member garden --member cellar", ("teams", "add", "b", {"lead": "default", "members": "garden\ncellar"}), "must be one of its members"),
    ("teams remove b", ("teams", "remove", "b", {}), "there is no team 'b'"),
    ("skills grant tomatoes --person ada", ("grants", "add", "tomatoes", {"to": "person:ada"}), "ada has every skill"),
    ("skills grant tomatoes --person dan", ("grants", "add", "tomatoes", {"to": "person:dan"}), "dan is a guest"),
    ("skills grant tomatoes --agent gard", ("grants", "add", "tomatoes", {"to": "agent:gard"}), "there is no agent"),
    ("skills grant tomato --person bob", ("grants", "add", "tomato", {"to": "person:bob"}), "did you mean 'tomatoes'"),
    ("skills publish reminders", ("grants", "add", "reminders", {"to": "everyone"}), "reminders came with picoclaw"),
    ("skills revoke tomatoes --person bob", ("grants", "remove", "tomatoes person:bob", {}), "tomatoes is not granted to person bob"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "asked", "wrong"), WRONG, ids=[row[0][:60] for row in WRONG])
def test_what_is_wrong_is_said_in_the_same_words_at_a_shell_and_changes_nothing(client, capsys, typed, asked, wrong):
    text = TABLES.replace('role = "owner"', 'role = "owner"\ntelegram = 1')
    (client.home / "config.toml").write_text(text)
    kind, act, key, values = asked
    status, said = change(client, kind, act, key, **values)
    assert (status, wrong in said) == (400, True), said
    assert cli.run(shlex.split(typed)) == 1
    printed = " ".join("".join(capsys.readouterr()).split())
    assert printed == f"picoclaw: {' '.join(said.split())}"
    assert (client.home / "config.toml").read_text() == text
    assert SkillGrants(client.house.state).all() == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"kind": "people", "act": "add", "key": 5}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": ["role"]}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"role": 1}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"role": "king"}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"telegram": "-1"}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"telegram": "9" * 30}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"telegram": "²"}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"matrix": 'a"\n[limits]\nsteps = 1'}}, 400),
        ({"kind": "people", "act": "add", "key": "x", "values": {"matrix": "\x7f"}}, 400),
        ({"kind": "people", "act": "add", "key": "x\n[limits]"}, 400),
        ({"kind": "people", "act": "add", "key": "x" * 201}, 413),
        ({"kind": "people", "act": "add", "key": "x", "values": {"agent": "x" * 5000}}, 413),
        ({"kind": "people", "act": "add", "key": "x", "values": {"api_key": "x"}}, 400),
        ({"kind": "people", "act": "drop", "key": "x"}, 400),
        ({"kind": "limits", "act": "edit", "key": "steps"}, 400),
        ({"kind": "links", "act": "add", "key": "a\nb", "values": {"to": "cellar"}}, 400),
        ({"kind": "links", "act": "add", "key": "garden", "values": {}}, 400),
        ({"kind": "grants", "act": "add", "key": "tomatoes", "values": {"to": "person:"}}, 400),
        ({"kind": "grants", "act": "remove", "key": "tomatoes"}, 400),
        ({"kind": "teams", "act": "edit", "key": "a", "values": {"members": "garden = x\nno such = y\n"}}, 400),
    ],
)
def test_what_no_form_sends_changes_no_other_setting(client, body, status):
    (client.home / "config.toml").write_text(TABLES)
    assert client.ask("/api/change_household", body)[0] == status
    config = load_config()
    assert config.limits.steps == 20
    assert set(config.people) == {"ada", "bob", "dan"}
    assert SkillGrants(client.house.state).all() == []


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("people", 0, "nobody but you"),
        ("people add ada", 0, "ada is a member"),
        ("people add ada --telegram -5", 1, "outside 0 to"),
        ("people edit ada", 1, "nobody is called 'ada'"),
        ("people remove ada", 1, "nobody is called 'ada'"),
        ("agents add garden", 0, "garden is ready"),
        ("agents remove garden", 1, "there is no agent 'garden'"),
        ("agents summon garden", 2, "WHO is missing"),
        ("agents summon", 2, "KEY is missing"),
        ("teams link garden", 2, "TO is missing"),
        ("teams edit a", 1, "there is no team 'a'"),
        ("skills revoke tomatoes", 1, "there is no skill 'tomatoes'"),
    ],
)
def test_where_there_is_no_home_yet_it_is_made_or_said(tmp_path, monkeypatch, capsys, typed, code, said):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert cli.run(shlex.split(typed)) == code
    printed = " ".join("".join(capsys.readouterr()).split())
    assert said in printed
    assert "Traceback" not in printed
