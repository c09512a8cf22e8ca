"""Skills of the owner's and who else may use them: public, private, or granted to a person or an agent."""

import json
import subprocess
import sys

import pytest
from model_server import ModelServer, call, reply
from test_people import PEOPLE

from picoclaw.app import App
from picoclaw.cli import run
from picoclaw.config import Config
from picoclaw.config.tables import AgentConfig, MemoryConfig, ModelConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, Inbound, ToolCall
from picoclaw.skills import list_home_tiers, pin_skill, read_skill
from picoclaw.store.database import Database
from picoclaw.store.people import AGENT, EVERYONE, PERSON, SkillGrant, SkillGrants
from picoclaw.workspace import prepare_home

OWNER, BOB, CLEO = 1, 2, 3
SECRET = "The number of the safe is 1234."
BUILT_IN = {"board-care", "greenhouse", "home-automation", "reminders", "wiring", "writing-skills"}
AGENTS = {"garden": AgentConfig(), "kitchen": AgentConfig()}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / "home"
    prepare_home(home)
    (home / "workspace/BOOTSTRAP.md").unlink()
    put(
        home, "tomatoes", "Grow tomatoes in the greenhouse", "Water the tomatoes daily.", "triggers: tomato, tomatoes\n"
    )
    put(home, "safe", "Opens the safe in the cellar", SECRET)
    return home


def put(home, name, description, text, more=""):
    folder = home / "workspace/skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n{text}\n")
    return folder


class Home:
    """The app of a household, as its members use it; `grant` is what the command line does."""

    def __init__(self, home, embeddings="off", script=None):
        self.server = ModelServer(script) if script else None
        model = ModelConfig()
        if self.server:
            self.server.__enter__()
            model = ModelConfig(self.server.url, "m", retries=0)
        memory = MemoryConfig(embeddings=embeddings)
        self.app = App(Config(home, people=PEOPLE, agents=AGENTS, memory=memory, model=model), SimBoard())
        self.grants = SkillGrants(self.app.stores.database)

    def view(self, number, agent=""):
        return self.app.find_view(f"telegram:{number}", agent)

    def names(self, number, agent=""):
        view = self.view(number, agent)
        view.library.refresh()
        return set(view.library.skills) - BUILT_IN

    def call(self, number, tool, agent="", **arguments):
        view = self.view(number, agent)
        origin = "owner" if number == OWNER else "member"
        caller = Caller(f"telegram:{number}", origin, view.now(), print, who=f"telegram:{number}")
        return view.toolset.call(ToolCall("1", tool, arguments), caller)

    def grant(self, skill, grantee):
        pinned = ""
        if grantee.startswith(AGENT):
            self.app.library.refresh()
            pinned = pin_skill(self.app.library.skills[skill], self.app.config.home, grantee.removeprefix(AGENT))
        self.grants.grant(SkillGrant(skill, grantee, pinned, "ada", "2026-11-26T08:00:00+00:00"))

    def close(self):
        self.app.close()
        if self.server:
            self.server.__exit__()


@pytest.fixture
def house(home):
    made = Home(home)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("grants", "bob", "cleo", "bob_in_the_garden", "cleo_in_the_kitchen"),
    [
        ([], "", "", "", ""),
        ([f"{PERSON}bob"], "tomatoes", "", "tomatoes", ""),
        ([EVERYONE], "tomatoes", "tomatoes", "tomatoes", "tomatoes"),
        ([f"{AGENT}garden"], "", "", "tomatoes", ""),
        ([f"{AGENT}default"], "tomatoes", "tomatoes", "", ""),
        ([f"{AGENT}garden", f"{PERSON}cleo"], "", "tomatoes", "tomatoes", "tomatoes"),
        ([f"{PERSON}bo", f"{PERSON}bobby", f"{PERSON}", f"{AGENT}bob", "bob", "*"], "", "", "", ""),
    ],
)
def test_who_has_a_skill(house, grants, bob, cleo, bob_in_the_garden, cleo_in_the_kitchen):
    for grantee in grants:
        house.grant("tomatoes", grantee)
    assert house.names(OWNER) == house.names(OWNER, "garden") == {"tomatoes", "safe"}
    found = [house.names(BOB), house.names(CLEO), house.names(BOB, "garden"), house.names(CLEO, "kitchen")]
    assert found == [{name} - {""} for name in (bob, cleo, bob_in_the_garden, cleo_in_the_kitchen)]
    assert set(house.view(BOB).library.skills) >= BUILT_IN


def test_list_accessible_says_who_has_which_version(tmp_path):
    database = Database(tmp_path / "state.db")
    grants = SkillGrants(database)
    for skill, grantee, pinned in (
        ("a", f"{PERSON}bob", ""),
        ("a", f"{AGENT}garden", "v1"),
        ("b", f"{AGENT}garden", "v2"),
        ("b", f"{AGENT}garden", "v3"),  # takes its place
        ("c", EVERYONE, ""),
    ):
        grants.grant(SkillGrant(skill, grantee, pinned, "ada", "2026-11-26T08:00:00+00:00"))
    assert grants.list_accessible("garden", "bob") == {"a": "", "b": "v3", "c": ""}
    assert grants.list_accessible("garden", "cleo") == {"a": "v1", "b": "v3", "c": ""}
    assert grants.list_accessible("default", "cleo") == {"c": ""}
    assert [grant.grantee for grant in grants.revoke("a")] == [f"{AGENT}garden", f"{PERSON}bob"]
    assert grants.revoke("a") == grants.revoke("c", f"{PERSON}bob") == []
    assert grants.list_accessible("default", "bob") == {"c": ""}
    database.close()


READS = [
    ("skills/safe/SKILL.md", False),
    ("skills/SAFE/SKILL.md", False),
    ("skills/tomatoes/../safe/SKILL.md", False),
    ("skills/tomatoes/..", False),
    ("skills/tomatoes/link.md", False),
    ("skills/tomatoes/SKILL.md/../../safe/SKILL.md", False),
    ("{home}/workspace/skills/safe/SKILL.md", False),
    ("{home}/workspace/skills/tomatoes/../safe/SKILL.md", False),
    ("{home}/skills.cache", False),
    ("../../../workspace/skills/safe/SKILL.md", False),
    ("skills//safe//SKILL.md", False),
    ("skills/tomatoes/SKILL.md", True),
    ("skills/tomatoes/beds.md", True),
    ("{home}/workspace/skills/tomatoes/SKILL.md", True),
    ("skills/board-care/SKILL.md", True),
]


@pytest.mark.parametrize(("path", "good"), READS)
def test_a_member_reads_what_was_granted_and_nothing_beside_it(house, path, good):
    home = house.app.config.home
    folder = home / "workspace/skills/tomatoes"
    (folder / "beds.md").write_text("two beds")
    (folder / "link.md").symlink_to(home / "workspace/skills/safe/SKILL.md")
    house.grant("tomatoes", f"{PERSON}bob")
    said = house.call(BOB, "read_file", path=path.format(home=home))
    assert (not said.startswith("error: "), "1234" in said) == (good, False)
    assert "1234" not in house.call(BOB, "list_dir", path="skills/tomatoes/..")
    assert house.call(CLEO, "read_file", path="skills/tomatoes/SKILL.md").startswith("error: ")


@pytest.mark.parametrize("tool", ["skill_create", "skill_update"])
def test_a_member_writes_no_skills(house, tool):
    house.grant("tomatoes", f"{PERSON}bob")
    said = house.call(BOB, tool, name="tomatoes", description="x", text="obey")
    assert said.startswith(f"error: there is no tool '{tool}'")
    for path in ("skills/tomatoes/SKILL.md", "skills/mine/SKILL.md"):
        house.call(
            BOB, "write_file", path=path, content="---\nname: mine\ndescription: mine\n---\nobey", mode="replace"
        )
    assert house.names(BOB) == {"tomatoes"}
    assert "obey" not in house.call(BOB, "read_file", path="skills/tomatoes/SKILL.md")
    assert "obey" not in (house.app.config.home / "workspace/skills/tomatoes/SKILL.md").read_text()


def test_a_private_skill_of_a_built_in_name_is_not_a_members(house):
    put(house.app.config.home, "greenhouse", "the owner's greenhouse", SECRET)
    house.app.library.refresh()
    assert "1234" in house.app.library.read_body("greenhouse")
    assert "1234" not in house.call(BOB, "read_file", path="skills/greenhouse/SKILL.md")
    assert not house.call(BOB, "read_file", path="skills/greenhouse/SKILL.md").startswith("error: ")


@pytest.mark.parametrize("embeddings", ["off", "table"])
def test_a_search_finds_what_is_accessible_until_it_is_revoked(home, embeddings):
    house = Home(home, embeddings)
    for number in range(9):
        put(home, f"bed-{number}", f"what grows in bed {number}", "Dig.")
        house.grant(f"bed-{number}", EVERYONE)
    house.grant("tomatoes", f"{PERSON}bob")
    queries = ("tomatoes", "safe cellar", "number 1234", '" OR safe:* "', "../safe")
    found = {number: "".join(house.call(number, "skill_search", query=q) for q in queries) for number in (1, BOB, CLEO)}
    assert ["tomatoes:" in found[number] for number in found] == [True, True, False]
    assert ["safe: Opens" in found[number] for number in found] == [True, False, False]
    assert "read skills/tomatoes/SKILL.md" in found[BOB]
    house.grants.revoke("tomatoes")
    assert "tomatoes:" not in house.call(BOB, "skill_search", query="tomatoes")
    assert (home / "people/bob/skills.db").exists() == (embeddings == "table")
    for path in (home / "people").rglob("skills.*"):  # a person's index never held more
        assert b"safe" not in path.read_bytes()
    house.close()


def test_what_is_revoked_is_gone_from_a_conversation_that_goes_on(home):
    wishes = [
        reply("", call("read_file", {"path": "skills/tomatoes/SKILL.md"}, "1")),
        reply("I know how."),
        reply("", call("read_file", {"path": "skills/tomatoes/SKILL.md"}, "2")),
        reply("", call("skill_search", {"query": "tomatoes"}, "3")),
        reply("I do not know."),
    ]
    house = Home(home, script=lambda _: wishes.pop(0))
    try:
        house.grant("tomatoes", f"{PERSON}bob")
        house.view(BOB).personal.write("BOOTSTRAP.md", "")  # he was asked already

        def say(text):
            house.server.requests.clear()
            turn = house.app.dispatcher.answer(Inbound("telegram:2", text, "member", who="telegram:2"))
            return turn, house.server.requests[0].body["messages"]

        say_first, sent = say("hello, what about my tomatoes?")
        assert "- tomatoes: Grow tomatoes" in sent[0]["content"]
        assert "Water the tomatoes daily" in sent[-1]["content"]  # its trigger was said
        assert "Water the tomatoes daily" in say_first.tools[0].result
        house.grants.revoke("tomatoes", f"{PERSON}bob")
        turn, sent = say("and the tomatoes now?")
        assert "- - tomatoes: Grow tomatoes" in sent[-1]["content"]  # told as what holds no longer
        assert "Water the tomatoes daily" not in sent[-1]["content"]
        assert turn.tools[0].result.startswith("error: ")
        assert "tomatoes:" not in turn.tools[1].result
    finally:
        house.close()


def test_what_is_revoked_within_a_turn_is_read_no_more(house):
    house.grant("tomatoes", f"{PERSON}bob")
    assert house.names(BOB) == {"tomatoes"}
    house.grants.revoke("tomatoes")
    assert house.call(BOB, "read_file", path="skills/tomatoes/SKILL.md").startswith("error: ")


def test_an_agent_keeps_the_version_that_it_was_granted(house):
    home = house.app.config.home
    folder = home / "workspace/skills/tomatoes"
    (folder / "bin").mkdir()
    (folder / "bin/water.sh").write_text("echo 1 litre")
    (folder / "bin/water.sh").chmod(0o755)
    house.grant("tomatoes", f"{AGENT}garden")
    house.grant("tomatoes", f"{PERSON}cleo")
    put(home, "tomatoes", "Grow tomatoes in the greenhouse", "Water them twice a day.")
    (folder / "bin/water.sh").write_text("echo 9 litres")

    def read(number, agent, path="SKILL.md"):
        return house.call(number, "read_file", agent, path=f"skills/tomatoes/{path}")

    assert ("daily" in read(BOB, "garden"), "1 litre" in read(BOB, "garden", "bin/water.sh")) == (True, True)
    assert ("twice" in read(CLEO, "garden"), "twice" in read(OWNER, "garden")) == (True, True)
    assert read(BOB, "kitchen").startswith("error: ")
    house.grant("tomatoes", f"{AGENT}garden")
    assert ("twice" in read(BOB, "garden"), "9 litres" in read(BOB, "garden", "bin/water.sh")) == (True, True)
    copy = home / "pinned/garden/tomatoes"
    assert (copy / "bin/water.sh").stat().st_mode & 0o777 == 0o700
    (folder / "SKILL.md").unlink()  # the owner has thrown it away
    assert "twice" in read(BOB, "garden")
    house.grants.revoke("tomatoes")
    assert copy.exists()
    assert read(BOB, "garden").startswith("error: ")  # a copy that is left gives nobody anything


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda folder: (folder / "out").symlink_to("/etc"), "is a symbolic link"),
        (lambda folder: (folder / "passwd").symlink_to("/etc/passwd"), "is a symbolic link"),
        (lambda folder: [(folder / f"{n}.md").write_text("x") for n in range(201)], "more than 200 files or 5 MB"),
        (lambda folder: (folder / "big").write_bytes(b"x" * 5_000_001), "more than 200 files or 5 MB"),
    ],
)
def test_a_skill_that_cannot_be_pinned_is_not_granted(home, make, wrong, monkeypatch, capsys):
    make(home / "workspace/skills/tomatoes")
    say = shell(home, monkeypatch, capsys)
    code, said = say("grant", "tomatoes", "--agent", "garden")
    assert (code, wrong in said) == (1, True)
    assert "granted" not in say("list")[1]
    assert not (home / "pinned/garden/tomatoes").exists()


def test_what_is_broken_of_the_owners_is_not_told_to_a_member(house):
    folder = put(house.app.config.home, "vault", "x", "y")
    (folder / "SKILL.md").write_text("no front matter: 1234")
    house.names(BOB)
    library = house.view(BOB).library
    assert (library.broken, library.shadowed, library.notes) == ([], [], [])


def test_while_the_grants_cannot_be_read_a_member_has_what_is_built_in(house, monkeypatch):
    house.grant("tomatoes", f"{PERSON}bob")
    assert house.names(BOB) == {"tomatoes"}
    with house.app.stores.database.transaction() as connection:
        connection.execute("ALTER TABLE skill_grants RENAME TO lost")
    assert house.names(BOB) == set()
    assert set(house.view(BOB).library.skills) == BUILT_IN


@pytest.mark.parametrize(
    ("grantees", "said"),
    [([], ""), ([f"{PERSON}bob", EVERYONE], "everyone and bob may use the skill too"), ([f"{AGENT}garden"], "")],
)
def test_the_owner_is_told_who_else_has_what_a_model_writes(house, grantees, said):
    for grantee in grantees:
        house.grant("tomatoes", grantee)
    caller = Caller("terminal", "owner", house.app.now(), print)
    asked = house.app.toolset.asked(ToolCall("1", "skill_update", {"name": "tomatoes", "text": "Obey."}), caller)
    assert (asked.effect, asked.means) == ("instruct", said)
    (house.app.config.home / "workspace/skills/tomatoes/SKILL.md").unlink()  # the grant is left
    new = {"name": "tomatoes", "description": "x", "text": "Obey."}
    assert house.app.toolset.asked(ToolCall("1", "skill_create", new), caller).means == said


# --- the search by words and vectors ---

POULTRY = "Let the hens out in the morning and shut the coop at dusk"
TOPICS = {
    "hens": POULTRY,
    "bread": "Bake bread with a sourdough starter",
    "router": "Restart the router when the network is down",
    "pills": "Remind grandfather of his medicine",
    "tyres": "Change tyres, oil and lamps of the car",
    "stars": "Set up the telescope and find planets",
}


@pytest.mark.parametrize(
    ("query", "table", "words"),
    [
        ("poultry", "hens", ""),
        ("tablets for grandpa", "pills", ""),
        ("vehicle wheels", "tyres", ""),
        ("restart router", "router", "router"),
        ("bread", "bread", "bread"),
        ("asdfgh qwertz", "", ""),
    ],
)
def test_skills_are_found_by_words_and_by_meaning(home, query, table, words):
    for name, description in TOPICS.items():
        put(home, name, description, "Do it.")
    for embeddings, expected in (("table", table), ("off", words)):
        house = Home(home, embeddings)
        found = house.call(OWNER, "skill_search", query=query)
        assert found.partition(":")[0] == expected if expected else found.startswith("none of the ")
        house.close()


def test_without_an_embedder_nothing_of_it_is_imported(home):
    (home / "config.toml").write_text('[memory]\nembeddings = "off"\n')
    code = (
        "import sys\nfrom picoclaw.cli import run\ncode = run(['skills', 'search', 'tomatoes'])\n"
        "print(code, sorted({'numpy', 'picoclaw.memory.embedding', 'picoclaw.memory.index'} & set(sys.modules)))"
    )
    environment = {"PICOCLAW_HOME": str(home), "HOME": str(home.parent), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "tomatoes: Grow" in done.stdout
    assert done.stdout.endswith("0 []\n")
    assert not (home / "skills.db").exists()


def test_vectors_are_made_at_start_for_those_that_lack_them(home):
    for number in range(30):
        put(home, f"bed-{number}", f"what grows in bed {number}", "Dig.")
    house = Home(home, "table")
    house.app._index_skills(5.0)
    count = len(house.app.library.skills)
    stats = house.app.skill_index.stats()
    assert (stats["chunks"], stats["vectors"]) == (count, count)
    put(home, "bed-30", "what grows in the last bed", "Dig.")
    house.app._index_skills(5.0)
    assert house.app.skill_index.stats()["vectors"] == count + 1
    house.close()


# --- the command line ---


def shell(home, monkeypatch, capsys):
    monkeypatch.setenv("PICOCLAW_HOME", str(home))
    tables = '[people.bob]\ntelegram = 2\n[people.ada]\nrole = "owner"\n[people.dan]\nrole = "guest"\n[agents.garden]\n'
    (home / "config.toml").write_text(tables)

    def say(*words):
        try:
            code = run(["skills", *words])
        except (SystemExit, ConfigError) as error:
            code = str(error)
        return code, "".join(capsys.readouterr())

    return say


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("grant tomatoes", "say to whom: --person NAME or --agent KEY"),
        ("grant tomatoes --person bo", "there is no [people.bo]; did you mean 'bob'?"),
        ("grant tomatoes --person ada", "ada has every skill"),
        ("grant tomatoes --person dan", "dan is a guest"),
        ("grant tomatoes --agent gard", "there is no agent 'gard'; did you mean 'garden'?"),
        ("grant tomatoes --agent ../../workspace", "there is no agent '../../workspace'"),
        ("grant tomatoes --person bob --agent garden", "one at a time"),
        ("grant tomatoe --person bob", "there is no skill 'tomatoe'; did you mean 'tomatoes'?"),
        ("grant ../safe --person bob", "there is no skill '../safe'"),
        ("grant reminders --person bob", "reminders came with picoclaw"),
        ("publish reminders", "reminders came with picoclaw"),
        ("publish", "NAME is missing"),
        ("revoke tomatoes", "tomatoes is not granted to anybody"),
        ("revoke tomatoes --person bob", "tomatoes is not granted to person bob"),
        ("revoke tomatoes --person bob --everyone", "one at a time"),
        ("revoke nothing", "there is no skill 'nothing'"),
    ],
)
def test_mistakes_at_the_command_line_grant_nothing(home, monkeypatch, capsys, words, wrong):
    say = shell(home, monkeypatch, capsys)
    code, said = say(*words.split())
    assert (code in {1, 2}, wrong in said, "Traceback" in said) == (True, True, False), said
    assert {one["visibility"] for one in json.loads(say("list", "--json")[1])["skills"]} == {"private", "public"}
    assert not (home / "pinned").exists()


def test_skills_are_granted_listed_and_revoked(home, monkeypatch, capsys):
    say = shell(home, monkeypatch, capsys)

    def listed():
        rows = json.loads(say("list", "--json")[1])["skills"]
        return {row["name"]: (row["visibility"], [one["grantee"] for one in row["grants"]]) for row in rows}

    assert listed()["tomatoes"] == ("private", [])
    assert listed()["reminders"] == ("public", [])
    assert say("grant", "tomatoes", "--person", "bob")[0] == 0
    code, said = say("grant", "tomatoes", "--agent", "garden")
    version = said.partition(" in version ")[2].partition(",")[0]
    assert (code, len(version)) == (0, 8)
    assert listed()["tomatoes"] == ("internal", ["agent:garden", "person:bob"])
    assert f"version {version}, the present one" in say("list")[1]
    put(home, "tomatoes", "Grow tomatoes in the greenhouse", "Another text.")
    assert f"version {version}, it has changed since" in say("show", "tomatoes")[1]
    assert say("publish", "tomatoes")[0] == 0
    assert listed()["tomatoes"][0] == "public"
    assert "it is still granted to agent garden, person bob" in say("revoke", "tomatoes", "--everyone")[1]
    assert (home / "pinned/garden/tomatoes/SKILL.md").exists()
    assert say("revoke", "tomatoes", "--agent", "garden")[0] == 0
    assert not (home / "pinned/garden/tomatoes").exists()
    for path in (home / "workspace/skills/tomatoes").iterdir():
        path.unlink()
    assert "tomatoes is granted, and there is no such skill any more" in say("list")[1]
    assert say("revoke", "tomatoes")[0] == 0
    assert "tomatoes" not in say("list")[1]


def test_a_version_is_that_of_all_files(home):
    folder = home / "workspace/skills/tomatoes"
    skill = read_skill(folder)
    versions = [pin_skill(skill, home, "garden")]
    (folder / "SKILL.md.bak").write_text("before")
    (folder / ".hidden").write_text("x")
    versions.append(pin_skill(skill, home, "garden"))
    (folder / "beds.md").write_text("two")
    versions.append(pin_skill(skill, home, "garden"))
    assert versions[0] == versions[1] != versions[2]
    assert list_home_tiers(home)  # the copies are in none of the owner's tiers
    assert all("pinned" not in str(tier) for _, tier in list_home_tiers(home))
