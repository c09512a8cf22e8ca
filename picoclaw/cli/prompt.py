"""`picoclaw prompt`: exactly what would be sent for the next message, and how many bytes of what."""

import argparse
import json
from datetime import datetime

from picoclaw.cli.common import board_option, opened, printable
from picoclaw.messages import Message, Request
from picoclaw.prompt import estimated_tokens, size
from picoclaw.providers import wire


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("-m", "--message", metavar="TEXT", default="how warm is it?", help="the message to show it for")
    parser.add_argument("--session", default="terminal", metavar="S")
    parser.add_argument("--json", action="store_true", help="print the request's body and the byte counts as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the request that `chat -m TEXT` would make first."""
    with opened(given, make=False) as app:
        kept = (app.config.home / "state.db").exists()
        history = [m for turn in app.history.turns(given.session) for m in turn] if kept else []
        acts = [act for _, act in app.history.unknown_acts(given.session)] if kept else []
        text = app.composed(given.message, datetime.now().astimezone(), acts)
        messages = (*history, Message("user", text))
        model = app.config.model
        request = Request(app.system, messages, app.toolset.definitions(), model.answer_tokens, 0.0)
        name, temperature = model.name or "default", model.temperature
        body = wire.body(request, name, stream=model.stream, temperature=temperature)
        sent = bool(model.base_url)
    counts = {
        "system_bytes": size(app.system),
        "tools_bytes": size(body.get("tools", [])),
        "messages_bytes": size([m for m in body["messages"] if m["role"] != "system"]),
        "body_bytes": size(body),
    }
    if given.json:
        print(json.dumps(counts | {"sent": sent, "body": body}, ensure_ascii=False))
        return 0
    for message in body["messages"]:
        print(f"--- {message['role']}\n{printable(message.get('content') or '')}")
        for call in message.get("tool_calls", []):
            print(f"    calls {call['function']['name']} {printable(call['function']['arguments'])}")
    print("--- tools")
    for definition in body.get("tools", []):
        print(json.dumps(definition["function"], ensure_ascii=False))
    print("---")
    for name, count in counts.items():
        print(f"{name.replace('_', ' ')}: {count} (about {estimated_tokens(count)} tokens)")
    if not sent:
        print("No model is configured: nothing is sent, the built-in matcher reads the message itself.")
    return 0
