"""Hand-written stand-ins with memory: a provider that answers by a script, a clock turned by hand, a small toolbox."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from picoclaw.errors import ToolError
from picoclaw.messages import Caller, End, Event, Request, Text, ToolCall, Usage
from picoclaw.tools.registry import Toolset, tool

Step = Event | BaseException | Callable[[], object]
CALLER = Caller("terminal", "owner", datetime(2026, 3, 1, 12, 0, tzinfo=UTC), lambda _: None)

PROMPTS = {
    "untrusted": "[from {name}:\n{content}]",
    "cut": "[cut at {tokens} tokens]",
    "empty": "[empty]",
    "failed": "[failed: {error}]",
    "limit": "Last step: {reason}.",
    "measure": "{question} Measure it.",
    "not_run": "error: not run",
    "not_offered": "error: {tool} is not among {tools}",
    "lost": "error: lost",
    "lost_act": "error: cut off",
    "meanwhile": "<moment>meanwhile</moment>\n{content}",
    "put_off": "error: put off",
    "summarised": "<moment>summed up: {content}</moment>",
    "repeated": "error: made already: {result}",
    "repeats": "[repeats]",
    "filtered": "[filtered]",
    "result": "[{tool} gave {result}]",
    "unmeasured": "[not measured: {values}]",
    "written": "error: written already: {result}",
    "shortened": "{head}[shortened]",
    "stopped": "[stopped]",
    "limit_steps": "the limit of {steps} steps is reached",
    "limit_seconds": "the limit of {seconds} seconds is reached",
    "limit_tokens": "the limit of {tokens} tokens is reached",
    "limit_repeated": "the same calls were made again and again",
    "unfinished": "[unfinished: {reason}; used {tools}; newest {result}]",
}
TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "sensor_read", "description": "Measure.", "parameters": {"type": "object", "properties": {}}},
    {"name": "exec", "description": "Run.", "parameters": {"type": "object", "properties": {}}},
)


def joined(events: Iterable[Event]) -> list[Event]:
    """The events with neighbouring pieces of text put together."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Text) and out and isinstance(out[-1], Text):
            out[-1] = Text(out[-1].text + event.text)
        else:
            out.append(event)
    return out


def text_of(events: list[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, Text))


def calls_of(events: list[Event]) -> list[ToolCall]:
    return [e for e in events if isinstance(e, ToolCall)]


def says(text: str, finish: str = "stop", usage: Usage | None = None) -> list[Step]:
    """An answer in two pieces."""
    middle = len(text) // 2
    pieces: list[Step] = [Text(part) for part in (text[:middle], text[middle:]) if part]
    return [*pieces, End(finish, usage or Usage(7, 3))]


def calls(*wanted: ToolCall, text: str = "", usage: Usage | None = None) -> list[Step]:
    """An answer that asks for tools."""
    return [*([Text(text)] if text else []), *wanted, End("tool_calls", usage or Usage(7, 3))]


class Scripted:
    """Gives one answer after another. A step is an event to give, an error to raise, or something to do."""

    name = "scripted"

    def __init__(self, *answers: Iterable[Step]) -> None:
        self._answers = [list(answer) for answer in answers]
        self.requests: list[Request] = []
        self.hung_up = 0

    def events(self, request: Request) -> Iterator[Event]:
        self.requests.append(request)
        assert self._answers, "the script has no further answer"
        try:
            for step in self._answers.pop(0):
                if isinstance(step, BaseException):
                    raise step
                if callable(step):
                    step()
                else:
                    yield step
        except GeneratorExit:
            self.hung_up += 1
            raise

    def close(self) -> None:
        pass


class Clock:
    """Seconds that pass only when somebody turns the hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds


class Toolbox:
    """Tools that remember that they were used."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.used: list[tuple[Any, ...]] = []
        self._clock = clock or Clock()

    @tool(effect="read")
    def measure(self, quantity: str = "temperature") -> str:
        """Measure."""
        self.used.append(("measure", quantity))
        return f"{quantity} 21.4"

    @tool(effect="actuate")
    def switch(self, pin: int, on: bool) -> str:
        """Switch a pin."""
        self.used.append(("switch", pin, on))
        return f"pin {pin} is {'on' if on else 'off'}"

    @tool(effect="read")
    def fail(self) -> str:
        """Fail as a tool may."""
        self.used.append(("fail",))
        raise ToolError("the part is asleep; wake it first")

    @tool(effect="read")
    def explode(self) -> str:
        """Fail as a tool may not."""
        self.used.append(("explode",))
        raise ZeroDivisionError("division by zero")

    @tool(effect="read")
    def interrupted(self) -> str:
        """Be interrupted by Ctrl-C."""
        self.used.append(("interrupted",))
        raise KeyboardInterrupt

    @tool(effect="read")
    def dawdle(self, seconds: float) -> str:
        """Take a while."""
        self.used.append(("dawdle", seconds))
        self._clock.turn(seconds)
        return f"{seconds:g} s later"

    @tool(effect="read")
    def garble(self) -> str:
        """Give half a character, as a file name may hold."""
        return "caf\udce9.txt"

    @tool(effect="write")
    def note(self, text: str) -> str:
        """Note a line."""
        self.used.append(("note", text))
        return f"noted: {text}"

    @tool(effect="read")
    def recite(self, characters: int) -> str:
        """Say much."""
        self.used.append(("recite", characters))
        return "x" * characters


def toolset_of(toolbox: object, longest_result: int = 16_000) -> Toolset:
    return Toolset([toolbox], guard=lambda *_: None, journal=lambda *_: None, longest_result=longest_result)
