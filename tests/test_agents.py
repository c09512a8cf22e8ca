"""Several agents in one home: each with its own pages, notes, tools and conversations."""

import pytest
from model_server import ModelServer, reply

from picoclaw.agents import agent_id
from picoclaw.app import App
from picoclaw.config import Config, load_config
from picoclaw.config.tables import AgentConfig, ModelConfig, PersonConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.sim.board import SimBoard
from picoclaw.messages import Inbound
from picoclaw.workspace import prepare_home

PEOPLE = {
    "ada": PersonConfig("owner", telegram=1),
    "bob": PersonConfig("member", telegram=2),
    "cleo": PersonConfig("member", telegram=3),
    "dan": PersonConfig("guest", telegram=4),
}


@pytest.fixture
def home(tmp_path):
    prepare_home(tmp_path / "home")
    return tmp_path / "home"


def test_an_id_is_the_same_on_every_board():
    assert agent_id("garden") == agent_id("garden") == "58b1ad50-b501-5532-90a1-799aedfa7187"
    assert agent_id("garden") != agent_id("gardens")


@pytest.mark.parametrize(
    ("toml", "wrong"),
    [
        ("[agents.Garden]", "a key is small letters"),
        ("[agents.garden]\n[agents.Garden]", "it would be the same as [agents.garden]"),
        ('[agents."../x"]', "a key is small letters"),
        ("[agents.a]\ndefault = true\n[agents.b]\ndefault = true", "a is the default already"),
        ("[agents.a]\ndefault = true\n[agents.default]", "means the home's own agent"),
        ("[agents.a]\ndefault = true\ntools = ['exec']", "the default agent is this home"),
        ("[agents.a]\nmodel = 'big'", "there is no [models.big]; there is no [models.NAME] at all"),
        ("[models.bigg]\n[agents.a]\nmodel = 'big'", "did you mean 'bigg'?"),
        ("[agents.a]\ntools = ['rm -rf']", "is no tool's name"),
        ("[agents.a]\nworkspace = 'garden'", "must be a whole path"),
        ("[agents.a]\nworkspace = '{home}/workspace'", "is in the home, or holds it"),
        ("[agents.a]\nworkspace = '/'", "is in the home, or holds it"),
        ("[agents.a]\nworkspace = '/srv/x'\n[agents.b]\nworkspace = '/srv/x/'", "is that of [agents.a]"),
        ("[agents.a]\nworkspace = '/srv/x'\n[agents.b]\nworkspace = '/srv/x/y'", "or one lies in the other"),
        ("[agents.a]\ntype = 'closed'", "open"),
        ("[agents]\nx = 1", "must be a table"),
    ],
)
def test_what_is_wrong_with_the_tables_is_said(home, toml, wrong):
    (home / "config.toml").write_text(toml.replace("{home}", str(home)))
    with pytest.raises(ConfigError) as error:
        load_config({"PICOCLAW_HOME": str(home)})
    assert wrong in str(error.value)


AGENTS = {
    "garden": AgentConfig("Flora", "waters the beans", model="small", tools=["sensor_*", "write_file", "memory_*"]),
    "house": AgentConfig(description="looks after the house", type="open"),
}


class Household:
    """The app of a home with two further agents; `ask` sends a person's message. `says` is what its model answers."""

    def __init__(self, home, says=lambda _: reply("so it is"), agents=AGENTS, **settings):
        self.server = ModelServer(says).__enter__()
        url = self.server.url
        models = {"small": ModelConfig(url, "tiny", retries=0)}
        config = Config(home, people=PEOPLE, agents=agents, model=ModelConfig(url, "m", retries=0), models=models)
        self.app = App(config, SimBoard(), **settings)

    def ask(self, number, text, session="", origin=""):
        origin, who = origin or {1: "owner", 4: "guest"}.get(number, "member"), f"telegram:{number}"
        return self.app.dispatcher.answer(Inbound(session or who, text, origin, who=who))

    def sent(self):
        return self.server.requests[-1].body

    def close(self):
        self.app.close()
        self.server.__exit__(None, None, None)


@pytest.fixture
def household(home):
    made = Household(home)
    yield made
    made.close()


def offered(body):
    return {tool["function"]["name"] for tool in body["tools"]}


def test_a_conversation_is_held_with_the_agent_that_was_chosen(household, home):
    household.ask(1, "hello there, you")
    assert household.sent()["model"] == "m"
    assert "exec" in offered(household.sent())
    said = household.ask(1, "/agent garden").reply
    assert "garden answers" in said
    assert "/sessions 1" in said
    household.ask(1, "the beans are dry, I fear")
    sent = household.sent()
    assert sent["model"] == "tiny"
    assert offered(sent) - {"first_run", "read_result"} <= {
        *("sensor_list", "sensor_read", "sensor_history", "write_file"),
        *(f"memory_{name}" for name in ("store", "search", "get", "update", "forget", "rank", "share")),
    }
    assert "Flora" in sent["messages"][0]["content"]
    assert (home / "agents/garden/workspace/SOUL.md").exists()
    assert "hello there, you" not in str(sent)  # another agent's conversation
    household.ask(1, "/new")
    household.ask(1, "and now it rains a lot")
    assert household.sent()["model"] == "tiny"  # a new conversation goes on with the same agent
    household.ask(1, "/agent default")
    household.ask(1, "what is new around here, then")
    assert household.sent()["model"] == "m"
    household.ask(1, "/sessions 2")
    household.ask(1, "still so dry around here, then")
    assert household.sent()["model"] == "tiny"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "/agent",
            "* default: this home's own agent\n  garden: Flora - waters the beans\n  house: looks after the house",
        ),
        ("/agent gardn", "There is no agent 'gardn'; did you mean 'garden'?; /agent lists them."),
        ("/agent ../../x", "There is no agent '../../x'"),
        ("/agent default", "default answers here already."),
    ],
)
def test_the_command_lists_the_agents_and_refuses_others(household, text, answer):
    assert answer in household.ask(1, text).reply
    assert answer in household.ask(2, text).reply


def test_a_conversation_whose_agent_is_gone_says_so(household, home):
    household.ask(1, "/agent garden")
    household.ask(1, "the beans are dry, I fear")
    household.app.close()
    again = App(Config(home, people=PEOPLE, agents={"house": AGENTS["house"]}), SimBoard())
    turn = again.dispatcher.answer(Inbound("telegram:1", "how warm is it?", "owner", who="telegram:1"))
    assert turn.stopped == "error"
    assert "there is no agent 'garden'" in turn.notice.text
    assert "/agent goes on with another" in turn.notice.text
    assert "garden is not in config.toml any more" in again.dispatcher.answer(Inbound("telegram:1", "/agent")).reply
    assert "default answers" in again.dispatcher.answer(Inbound("telegram:1", "/agent default")).reply
    again.close()
