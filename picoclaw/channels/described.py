"""A turn for programs: what `--json` prints and the socket says."""

from typing import Any

from picoclaw.messages import Turn


def as_json(turn: Turn, reply: str, *, simulated: bool) -> dict[str, Any]:
    """Describe a turn; `reply` is all that was said, `simulated` whether the board is."""
    return {
        "reply": reply,
        "turn": {
            "steps": turn.steps,
            "tools": [
                {"name": r.name, "arguments": r.arguments, "result": r.result, "ms": round(r.ms, 3)} for r in turn.tools
            ],
            "usage": {
                "prompt_tokens": turn.usage.prompt_tokens,
                "completion_tokens": turn.usage.completion_tokens,
            },
            "stopped": turn.stopped,
        },
        "provider": turn.provider,
        "simulated": simulated,
    }
