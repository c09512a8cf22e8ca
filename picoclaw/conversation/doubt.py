"""Marks what an answer gives as measured although nobody has measured it."""

from picoclaw.conversation import Conversation
from picoclaw.hw.claims import unfounded
from picoclaw.prompt import fill


def mark(talk: Conversation, asked: str, system: str, template: str) -> str:
    """Put the template behind the newest answer when nothing bears its measurements out; returns what was added."""
    answer = talk.messages[-1]
    values = unfounded(answer.text, asked, talk.shown(), system)
    if not values:
        return ""
    added = f"\n{fill(template, {'values': ', '.join(values)}, 'values')}\n"
    talk.messages[-1] = answer._replace(text=f"{answer.text}{added}".rstrip())
    return added
