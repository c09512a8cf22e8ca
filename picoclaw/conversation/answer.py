"""One answer of a model, as far as it has come."""

from dataclasses import dataclass, field

from picoclaw.messages import End, Event, Text, ToolCall, Usage
from picoclaw.prompt import Templates, fill
from picoclaw.providers.repetition import REPEATS, repeated

FILTERED = "content_filter"
"""How a server says that it has ended an answer that it does not want to give."""


@dataclass(slots=True)
class Answer:
    """What was said, and which calls were asked for; `end` is how it ended, once it has."""

    said: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    end: End = field(default_factory=lambda: End("stop", Usage()))

    def take(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Text():
                self.said += event.text
            case ToolCall():
                self.calls.append(event)
            case End():
                self.end = event

    @property
    def repeats(self) -> bool:
        """Whether it was ended because it only says the same again and again; nothing of worth comes after."""
        return self.end.finish == REPEATS

    def worded(self, prompts: Templates, most: int, instead: str) -> str:
        """Its text as it is kept: `instead` where it says nothing, and marked when it was cut, at `most` tokens."""
        if self.end.finish == FILTERED and not self.calls:
            return f"{self.said}\n{prompts['filtered']}".strip()
        if not self.said.strip():
            return "" if self.calls else instead
        if self.calls:
            return self.said
        if self.repeats:
            return f"{self.said[: len(self.said) - repeated(self.said)].rstrip()}\n{prompts['repeats']}"
        if self.end.finish == "length":
            return f"{self.said}\n{fill(prompts['cut'], {'tokens': str(most)})}"
        return self.said
