"""What a turn has used of its limits."""

from collections.abc import Callable
from dataclasses import dataclass, field

from picoclaw.config import LimitsConfig
from picoclaw.messages import Usage
from picoclaw.prompt import Templates, fill

LAST_WORD_SECONDS = 60.0


@dataclass(slots=True)
class Spent:
    """Counts from when it is made; `clock` gives seconds, `deadline` is by it."""

    limits: LimitsConfig
    clock: Callable[[], float]
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self.deadline = self.clock() + self.limits.seconds

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.clock() >= self.deadline

    def reached(self) -> str:
        """Name the limit that is reached, '' for none."""
        limits = self.limits
        reached = {
            "steps": self.steps >= limits.steps,
            "seconds": self.late,
            "tokens": self.usage.total >= limits.tokens,
        }
        return next((name for name, over in reached.items() if over), "")

    def reason(self, limit: str, prompts: Templates) -> str:
        """Say which limit ended a turn."""
        numbers = {"steps": self.limits.steps, "seconds": f"{self.limits.seconds:g}", "tokens": self.limits.tokens}
        return fill(prompts[f"limit_{limit}"], {name: str(number) for name, number in numbers.items()})

    def allow_last_word(self) -> None:
        """Give one more answer the time that it takes."""
        self.deadline = self.clock() + min(LAST_WORD_SECONDS, self.limits.seconds)
