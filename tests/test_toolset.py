"""How tools are described and called."""

import json
from datetime import UTC, datetime
from typing import Annotated, Literal

import pytest
from recording import toolset as make_toolset
from rows import each_row

from picoclaw.errors import Denied, HardwareError, StoreError, ToolError
from picoclaw.messages import Caller, ToolCall
from picoclaw.schema import Span
from picoclaw.tools.registry import MessageTool, Toolset, collect_tools, tool

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def caller(origin="owner", say=print):
    return Caller("home", origin, NOW, say)


class Valve:
    """Tools with a memory of what was done, in order."""

    def __init__(self, deeds):
        self.deeds = deeds

    @tool(effect=lambda self, arguments: "read" if arguments["action"] == "look" else "actuate")
    def valve(self, action: Literal["look", "open"], degrees: Annotated[int, Span(0, 90), "how far"] = 90) -> str:
        """Look at the valve,
        or open it."""
        self.deeds.append(("run", action, degrees))
        return f"{action} {degrees}"

    @tool(effect="read")
    def who(self, caller: Caller, greeting: str = "hello") -> str:
        """Tell who is asking."""
        return f"{greeting} {caller.session} {caller.now:%H:%M}"

    @tool(effect="read")
    def echo(self, text: str) -> str:
        """Say it again."""
        return text

    @tool(effect="read")
    def fail(self, how: str) -> str:
        """Fail."""
        raise {"tool": ToolError, "hardware": HardwareError, "bug": KeyError}[how]("the pipe is clogged")

    def not_a_tool(self) -> str:
        """Do what the model may not ask for."""
        return "done"


class Witness:
    """A guard and a journal that write into the same list as the tools."""

    def __init__(self, longest=1000, secrets=(), denied=False, full=False):
        self.deeds = []
        self.denied = denied
        self.full = full
        self.toolset = Toolset(
            [Valve(self.deeds)], guard=self.guard, journal=self.journal, longest_result=longest, secrets=secrets
        )

    def guard(self, asked, caller):
        self.deeds.append(("guard", asked.effect, asked.call.arguments))
        if self.denied:
            raise Denied("not today")

    def journal(self, call, caller):
        self.deeds.append(("journal", call.name, call.arguments))
        if self.full:
            raise StoreError("the disk is full")

    def call(self, name, /, broken="", **arguments):
        return self.toolset.call(ToolCall("c1", name, arguments, broken), caller())


# --- description ---


def test_a_tool_is_described_by_its_signature_and_docstring():
    definitions = {d["name"]: d for d in Witness().toolset.definitions()}
    assert list(definitions) == ["valve", "who", "echo", "fail"]
    assert definitions["valve"] == {
        "name": "valve",
        "description": "Look at the valve, or open it.",
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["look", "open"]},
                "degrees": {"type": "integer", "description": "how far"},
            },
            "required": ["action"],
        },
    }


def test_the_caller_is_handed_in_and_hidden_from_the_model():
    witness = Witness()
    (who,) = (d for d in witness.toolset.definitions() if d["name"] == "who")
    assert list(who["parameters"]["properties"]) == ["greeting"]
    assert witness.call("who") == "hello home 12:00"
    assert witness.call("who", caller="me").startswith("error: argument unknown 'caller'")


def test_definitions_are_the_same_bytes_each_time():
    assert json.dumps(Witness().toolset.definitions()) == json.dumps(Witness().toolset.definitions())


def test_an_effect_may_depend_on_the_arguments():
    effects = {t.name: t.effects for t in collect_tools(Valve([]))}
    assert effects["valve"]({"action": "look"}) == ("read",)
    assert effects["valve"]({"action": "open"}) == ("actuate",)
    assert effects["echo"]({}) == ("read",)


# --- calls ---


@each_row(
    ("call", "said"),
    [
        (("valves", {}), "error: there is no tool 'valves'; did you mean 'valve'?"),
        (("not_a_tool", {}), "error: there is no tool 'not_a_tool'; known: valve, who, echo, fail"),
        (("", {}), "error: there is no tool ''; known: valve, who, echo, fail"),
        (("valve", {}), "error: argument 'action' is missing"),
        (("valve", {"action": "open", "angle": 3}), "error: argument unknown 'angle'; known: action, degrees"),
        (("valve", {"action": "open", "degrees": 91}), "error: argument 'degrees' is 91, outside 0 to 90; how far"),
        (("fail", {"how": "tool"}), "error: the pipe is clogged"),
        (("fail", {"how": "hardware"}), "error: the pipe is clogged"),
        (("fail", {"how": "bug"}), "error: fail failed unexpectedly: KeyError: 'the pipe is clogged'"),
        (("echo", {"text": "fine"}), "fine"),
    ],
)
def test_whatever_goes_wrong_becomes_a_result(call, said):
    assert Witness().call(call[0], **call[1]) == said


def test_broken_arguments_are_sent_back_and_not_run():
    witness = Witness()
    answer = witness.call("valve", broken='{"action": "open"' * 1000)
    assert answer.startswith('error: the arguments of valve are not a JSON object: \'{"action"')
    assert len(answer) < 350
    assert witness.deeds == []


def test_ctrl_c_is_not_taken_for_a_failed_tool():
    class Interrupted:
        @tool(effect="read")
        def wait(self) -> str:
            """Wait."""
            raise KeyboardInterrupt

    toolset = make_toolset(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        toolset.call(ToolCall("c1", "wait"), caller())


def test_an_act_is_guarded_then_journalled_then_done():
    witness = Witness()
    assert witness.call("valve", action="OPEN", degrees="0x2d") == "open 45"
    arguments = {"action": "open", "degrees": 45}
    assert witness.deeds == [("guard", "actuate", arguments), ("journal", "valve", arguments), ("run", "open", 45)]


def test_a_read_is_not_journalled():
    witness = Witness()
    witness.call("valve", action="look")
    assert [deed[0] for deed in witness.deeds] == ["guard", "run"]


@each_row(
    ("setting", "said", "seen"),
    [
        ({"denied": True}, "error: not today", ["guard"]),
        (
            {"full": True},
            "error: nothing was done, since it cannot be written down first: the disk is full",
            ["guard", "journal"],
        ),
    ],
)
def test_what_was_refused_or_could_not_be_written_down_is_not_done(setting, said, seen):
    witness = Witness(**setting)
    assert witness.call("valve", action="open") == said
    assert [deed[0] for deed in witness.deeds] == seen


@each_row("arguments", [{}, {"action": "open", "degrees": 999}])
def test_a_call_that_does_not_fit_reaches_neither_guard_nor_journal(arguments):
    witness = Witness()
    witness.call("valve", **arguments)
    assert witness.deeds == []


# --- results ---


@each_row("length", [99, 100])
def test_a_result_that_fits_is_shown_whole(length):
    assert Witness(longest=100).call("echo", text="x" * length) == "x" * length


def test_a_long_result_keeps_its_beginning_and_its_end():
    answer = Witness(longest=200).call("echo", text="BEGIN" + "x" * 5000 + "[exit code 3]")
    assert answer.startswith("BEGIN")
    assert answer.endswith("[exit code 3]")
    assert "[cut: 4818 characters left out here; ask for a smaller part]" in answer
    assert len(answer) < 300


SECRET = "sk-live-0123456789abcdef"


@each_row(
    ("name", "arguments"),
    [
        ("echo", {"text": f"PICOCLAW_API_KEY={SECRET}\n{SECRET}"}),
        ("echo", {"text": "x" * 740 + SECRET + "x" * 500}),
        ("echo", {"text": SECRET * 1000}),
        ("valve", {"action": SECRET}),
        ("who", {SECRET: 1}),
        (SECRET, {}),
        ("fail", {"how": SECRET}),
    ],
)
def test_a_secret_is_in_no_result(name, arguments):
    answer = Witness(secrets=("", SECRET)).call(name, **arguments)
    assert SECRET[:16] not in answer


@each_row("key", ["", "x", "0", "none", "ollama"])
def test_a_key_that_is_no_secret_does_not_spoil_results(key):
    text = "0x76 answers: none of the ollama boxes"
    assert Witness(secrets=(key,)).call("echo", text=text) == text


def test_a_result_can_always_be_written_as_utf_8():
    answer = Witness().call("echo", text="caf\udce9 \ud83d ☕")
    assert answer.encode() == "caf? ? ☕".encode()


def test_a_message_is_said_at_once_in_the_callers_chat():
    heard = []
    toolset = make_toolset(MessageTool())
    say = caller(say=heard.append)
    assert toolset.call(ToolCall("c1", "message", {"text": "on it"}), say) == "sent"
    assert toolset.call(ToolCall("c2", "message", {"text": " \n"}), say) == "error: text is empty"
    assert heard == ["on it"]


# --- tools that are offered ---


class Drawer:
    """A tool that brings in what nobody in the chat has said."""

    @tool(effect="read", brings=True)
    def look(self, place: str = "") -> str:
        """Look."""
        return f"a letter in {place}"

    @tool(effect="write")
    def mend(self) -> str:
        """Mend."""
        return "mended"

    @tool(effect="write")
    def burn(self) -> str:
        """Burn."""
        return "burnt"

    @tool(effect="read")
    def light(self) -> str:
        """Light a match."""
        return "lit"


def drawer():
    return make_toolset(Drawer())


@each_row(
    ("offered", "shown"), [(None, ["look", "mend", "burn", "light"]), ({"burn", "look"}, ["look", "burn"]), ((), [])]
)
def test_only_what_is_offered_is_described(offered, shown):
    assert [d["name"] for d in drawer().definitions(offered)] == shown


def test_a_tool_that_is_not_offered_can_be_called():
    assert drawer().call(ToolCall("1", "mend"), caller()) == "mended"


def test_a_caller_remembers_what_was_brought_in():
    asked = caller()
    drawer().call(ToolCall("1", "light"), asked)
    assert asked.taints == set()
    drawer().call(ToolCall("2", "look", {"place": "x" * 300}), asked)
    assert asked.taints == {"look " + "x" * 95}
    assert caller().taints == set()
