"""The rules of people, agents, notes and links on boards that share a store: what holds on one holds on the others.

Each runs on SQLite and on PostgreSQL; those of skills and grants are in test_shared_skills.py.
"""

from contextlib import closing

import pytest
from person import picoclaw
from rows import each_row
from shared_kit import Board, Clock

from picoclaw.agents import agent_id
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.config.tables import AgentConfig, PersonConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.memory.search import OWN_FACTOR
from picoclaw.messages import Caller, ToolCall
from picoclaw.records import replace
from picoclaw.shared_store.home import read_agent
from picoclaw.store.people import ContextFiles
from picoclaw.tools.delegate import build_delegation_page
from picoclaw.workspace import prepare_home

AGENTS = {"garden": AgentConfig(type="open"), "cellar": AgentConfig(type="predefined")}
PEOPLE = {"anna": PersonConfig(telegram=1), "bob": PersonConfig(telegram=2)}
IDS = {"default": "58d01eb7", "garden": "58b1ad50-b501-5532-90a1-799aedfa7187"}


@pytest.fixture
def homes(boards):
    """Makes boards whose people and agents are real: each with the app of its home."""
    apps = []

    def make(name):
        board = boards(name)
        prepare_home(board.config.home)
        board.config = replace(board.config, people=PEOPLE, agents=AGENTS)
        board.app = App(board.config, SimBoard())
        apps.append(board.app)
        return board

    yield make
    for app in apps:
        app.close()


def pages(board, person, agent):
    return board.app.open_view(person, agent).personal


def call(board, person, tool, **arguments):
    view = board.app.open_view(person, "")
    who = f"telegram:{PEOPLE[person].telegram}"
    said = arguments.get("text", "")
    caller = Caller(who, "member", view.now(), print, set(), (f"note for everyone: {said}",), who=who)
    return view.toolset.call(ToolCall("1", tool, arguments), caller)


# --- agents ---


def test_an_agent_has_one_id_and_one_row_whoever_writes_it(homes, place):
    for name in ("shed", "kitchen"):
        homes(name).run()
    store = place.open("reader")
    rows = {row["key"]: row["id"] for row in store.list_rows("agents", {})}
    assert rows == {key: agent_id(key) for key in ("default", "garden", "cellar")}
    assert rows["garden"] == IDS["garden"]


# --- pages of a person ---


@pytest.mark.parametrize(
    ("agent", "page", "hers", "bobs"),
    [
        ("garden", "SOUL.md", "Anna's\n", "the agent's\n"),  # open: the person's first, the agent's behind it
        ("garden", "TOOLS.md", "Anna's\n", "the agent's\n"),
        ("cellar", "SOUL.md", "the agent's\n", "the agent's\n"),  # predefined: shared, whatever somebody has written there
        ("cellar", "HEARTBEAT.md", "the agent's\n", "the agent's\n"),
        ("cellar", "USER.md", "Anna's\n", None),
        ("garden", "USER.md", "Anna's\n", None),
    ],
)  # fmt: skip
def test_whose_page_is_read_on_another_board(homes, agent, page, hers, bobs):
    one, two = homes("shed"), homes("kitchen")
    for board in (one, two):
        pages(board, "anna", agent)
        if page != "USER.md":
            (board.config.home / "agents" / agent / "workspace" / page).write_text("the agent's\n")
    ContextFiles(one.database).write(agent_id(agent), "anna", page, "Anna's\n", one.clock())
    for board in (one, two):
        board.run()
    assert pages(two, "anna", agent).read_merged(page) == hers
    bob = pages(two, "bob", agent).read_merged(page)
    assert bob == bobs if bobs else "Anna" not in bob


@pytest.mark.parametrize("agent", ["", "garden", "cellar"])
@pytest.mark.parametrize("first", ["meets her", "hears of her"])
def test_seeding_overwrites_nothing_that_is_known_elsewhere(homes, agent, first):
    """The kitchen gives Anna a template and a first meeting; the shed has filled the one and ended the other."""
    one, two = homes("shed"), homes("kitchen")
    known = pages(one, "anna", agent)
    known.write("USER.md", "- Name: Anna\n")
    known.write("BOOTSTRAP.md", "")
    one.run()
    two.clock.seconds += 1000
    if first == "meets her":
        pages(two, "anna", agent)
    for board in (two, one, two):
        board.run()
    for board in (one, two):
        found = pages(board, "anna", agent)
        found.prepare()
        assert (found.read("USER.md"), found.read("BOOTSTRAP.md")) == ("- Name: Anna\n", "")
        board.run()  # of the agent's own pages, which its first use has made
    assert one.run().is_empty
    assert two.run().is_empty


# --- notes ---


def test_notes_of_a_person_and_of_everyone_on_another_board(homes):
    """Both are found, a person's own with 1.2 times the score, what stands in both once, and nobody another's."""
    one, two = homes("shed"), homes("kitchen")
    both = "the plumber comes on Tuesday"
    call(one, "anna", "memory_store", text=both)
    call(one, "bob", "memory_share", text=both)
    call(one, "anna", "memory_store", text="the number of the safe is 1234")
    for board in (one, two):
        board.run()

    def search(person, query):
        memory = two.app.open_view(person, "").stores.memory
        return memory.search(query, two.app.now())

    (hers,), (bobs,) = search("anna", "plumber Tuesday"), search("bob", "plumber Tuesday")
    assert (hers.path.startswith("memory/"), bobs.path.startswith("shared/memory/")) == (True, True)
    assert hers.score == pytest.approx(min(1.0, bobs.score * OWN_FACTOR), abs=0.02)
    assert [hit.path.partition("/")[0] for hit in search("anna", "number of the safe")][:1] == ["memory"]
    assert not any("1234" in hit.snippet for hit in search("bob", "number of the safe"))


# --- an agent that is taken over from the store ---


def configure(folder, url, more=""):
    (folder / "picoclaw").mkdir(parents=True)
    (folder / "picoclaw/config.toml").write_text(f'[store]\nurl = "{url}"\nboard = "kitchen"\n{more}')


@pytest.fixture
def shed(place, tmp_path):
    """A board that has described an agent, with a page and a note."""
    board = Board(tmp_path / "shed", place.url, Clock(), agents=())
    about = AgentConfig(name="Rosa", description="waters the beds", type="open", tools=["sensor_*"], model="big")
    board.config = replace(board.config, agents={"garden": about})
    board.write("SOUL.md", "You like \x1b[31mroses.\n", agent="garden")
    board.write("memory/plants.md", "- basil at the window\n", agent="garden")
    board.run()
    yield board
    board.stack.close()


def test_an_agent_of_the_store_is_listed_shown_and_taken_over(shed, place, tmp_path):
    home = tmp_path / "picoclaw"
    configure(tmp_path, place.url, '[agents.cellar]\ndescription = "wine"\n[links]\ncellar = ["default"]\n')
    listed = picoclaw(tmp_path, "agents").stdout
    assert "garden  Rosa - waters the beds (in the store, by shed): `picoclaw agents add garden --from-store`" in listed
    refused = picoclaw(tmp_path, "agents", "add", "garden", "--from-store", stdin="y\n")
    assert (refused.returncode, "\x1b" in refused.stdout) == (1, False)
    assert "roses." in refused.stdout  # it is shown before it is asked about
    assert "it takes a terminal, or --yes" in refused.stderr
    assert not (home / "agents/garden").exists()
    done = picoclaw(tmp_path, "agents", "add", "garden", "--from-store", "--yes")
    assert done.returncode == 0, done.stderr
    assert "there is no [models.big] here" in done.stderr
    config = load_config({"PICOCLAW_HOME": str(home)})
    agent = config.agents["garden"]
    assert (agent.name, agent.type, agent.tools, agent.model) == ("Rosa", "open", ["sensor_*"], "")
    assert (home / "agents/garden/workspace/SOUL.md").read_text() == "You like \x1b[31mroses.\n"
    assert "in the store" not in picoclaw(tmp_path, "agents").stdout
    assert picoclaw(tmp_path, "store", "sync").returncode == 0
    assert (home / "agents/garden/workspace/memory/plants.md").read_text() == "- basil at the window\n"
    with closing(App(replace(config, links={"cellar": ["garden"]}), SimBoard())) as app:
        view = app.open_view("", "cellar")
        assert "waters the beds" in build_delegation_page(view.config, view.prompts).text
    assert "is there already" in picoclaw(tmp_path, "agents", "add", "garden", "--from-store", "--yes").stderr


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (
            ("add", "attic", "--from-store", "--yes"),
            "the store has no agent 'attic' for this board; it has default, garden",
        ),
        (("add", "default", "--from-store", "--yes"), "is the home's own agent"),
    ],
)
def test_what_cannot_be_taken_over_is_said(shed, place, tmp_path, words, wrong):
    configure(tmp_path, place.url)
    assert wrong in picoclaw(tmp_path, "agents", *words).stderr


def test_without_the_store_the_agents_of_the_home_are_listed(tmp_path):
    configure(tmp_path, "postgresql://a@127.0.0.1:9/d")
    found = picoclaw(tmp_path, "agents")
    assert found.returncode == 0
    assert "default  this board's own agent" in found.stdout
    assert "nothing listens there" in found.stderr


ROW = {"id": agent_id("garden"), "key": "garden", "board": "thief", "at": 1.0, "deleted": False}


@each_row(
    ("settings", "table", "names"),
    [
        ('{"table": {"type": "open"}, "pages": {"SOUL.md": "a"}}', {"type": "open"}, ["SOUL.md"]),
        ('{"table": {"type": "predefined", "default": true, "workspace": "/etc"}, "pages": {}}', {}, []),
        ('{"table": {"name": 3, "tools": "all"}, "pages": {"../../x.md": "a", "config.toml": "a", "SOUL.md": 3}}', {}, []),
        ('{"table": [], "pages": null}', {}, []),
        (f'{{"pages": {{"SOUL.md": "{"a" * 300_000}"}}}}', {}, []),
    ],
)  # fmt: skip
def test_of_a_row_only_what_an_agent_has_is_taken(settings, table, names):
    found = read_agent({**ROW, "settings": settings})
    assert (dict(found.table), list(found.pages)) == (table, names)


@each_row("change", [{"settings": "{"}, {"settings": "3"}, {"key": "cellar"}, {"deleted": True}])
def test_a_row_that_is_no_agent_is_none(change):
    assert read_agent({**ROW, "settings": "{}", **change}) is None
