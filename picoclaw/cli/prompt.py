"""`picoclaw prompt`: exactly what would be sent for the next message, and how many bytes of what."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from picoclaw.agent.context import BuiltContext
from picoclaw.app import App
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    check_conversation,
    check_person,
    open_app,
    print_note,
    print_safe,
)
from picoclaw.messages import Inbound, Origin, Request
from picoclaw.prompts import BYTES_A_TOKEN, PROMPT_MODES, Section, count_bytes, estimate_tokens
from picoclaw.providers import anthropic, openai, responses
from picoclaw.records import replace
from picoclaw.stores import PastTurns
from picoclaw.text import escape_control_tokens, escape_unprintable, format_json


def options(parser: Parser) -> None:
    parser.add_argument("-m", "--message", metavar="TEXT", default="how warm is it?", help="the message to show it for")
    parser.add_argument("--session", default=DEFAULT_SESSION, metavar="S", help="the conversation to continue")
    parser.add_argument("--agent", metavar="KEY", default="", help="the agent that would answer: see `picoclaw agents`")
    parser.add_argument(
        "--as", dest="person", metavar="NAME", default="", help="who would ask: a name of `picoclaw people`"
    )
    parser.add_argument("--mode", choices=PROMPT_MODES, help="instead of the configured one")
    origins = ["owner", "cron", "heartbeat"]
    parser.add_argument("--origin", choices=origins, default="owner", help="who would ask: owner, cron, heartbeat")
    parser.add_flag("--json", help="print the request's body and the byte counts as JSON")
    add_board_option(parser)


def run(given: Options) -> int:
    """Print the request that `chat -m TEXT` would make first."""
    with open_app(given, make=False) as home:
        check_conversation(home, given.session)
        if given.mode:
            home.config = replace(home.config, prompt=replace(home.config.prompt, mode=given.mode))
        app, origin = _find_view(home, given)
        if not given.message.strip():
            print("picoclaw prompt: -m needs a text that is not empty", file=sys.stderr)
            return 2
        inbound = Inbound(given.session, given.message, origin)
        told, body = _build_request(app, inbound)
        left_out = app.context_builder.left_out(inbound)
        unused = [f"{path} is not used: no template has that name" for path in app.prompts.unknown(app.toolset.names)]
        sent, problems = bool(app.config.model.base_url), [*told.problems, *unused]
        ratio = told.brief.bytes_a_token
    sections = [(part.name, escape_control_tokens(part.text)) for part in told.sections]  # as they are sent
    counts = {
        "system_bytes": count_bytes(escape_control_tokens(told.brief.system)),
        "tools_bytes": count_bytes(body.get("tools", [])),
        "messages_bytes": count_bytes(_list_messages(body)),
        "body_bytes": count_bytes(body),
    }
    if given.json:
        parts = [{"name": name, "bytes": count_bytes(text), "text": text} for name, text in sections]
        extra = {"sent": sent, "bytes_a_token": ratio, "problems": problems, "sections": parts, "left_out": left_out}
        print(format_json(counts | extra | {"body": body}))
        return 0
    for name, text in sections:
        size = count_bytes(text)
        print_safe(f"--- system: {name}, {size} bytes, about {estimate_tokens(size, ratio)} tokens", text)
    for line in _format_messages(body):
        print(line)
    print("--- left out of your files", *map(escape_unprintable, left_out or ["nothing"]), sep="\n")
    print("--- total")
    for name, count in counts.items():
        print(f"{name.replace('_', ' ')}: {count} (about {estimate_tokens(count, ratio)} tokens)")
    for problem in problems:
        print_note(problem)
    if not sent:
        print("No model is configured: nothing is sent, the built-in matcher reads the message itself.")
    return 0


def _find_view(app: App, given: Options) -> tuple[App, Origin]:
    """The app as whoever would ask has it with the agent, and as whom they ask."""
    agent = given.agent or app.find_agent(given.session)
    role = check_person(app.config, given.person)
    return app.open_view(given.person if role == "member" else "", agent), role or given.origin


def _build_request(app: App, inbound: Inbound) -> tuple[BuiltContext, dict[str, Any]]:
    kept = (app.config.home / "state.db").exists()
    earlier, acts, summary, _ = app.stores.load_history(inbound.session) if kept else PastTurns([], [])
    told = replace(app.context_builder, tidy=False).build(inbound, earlier, [act for _, act in acts], app.now())
    model = app.config.model
    ratio = app.stores.bytes_a_token(told.brief.model or app.config.model.name or "default") if kept else BYTES_A_TOKEN
    brief = told.brief._replace(bytes_a_token=ratio, summary=summary)
    agent = replace(app.agent, window=model.context_tokens)  # also where none is configured
    talk = agent.build_conversation(brief, earlier)
    tools = agent.tools(brief)
    lost, wrap = app.prompts["lost"], app.prompts["untrusted"]
    request = Request(
        brief.system, talk.list_messages(), tools, app.room.answer, 0.0, brief.model, lost=lost, untrusted=wrap
    )
    if model.is_small and model.base_url and inbound.origin != "heartbeat":
        from picoclaw.agent.small import SmallProvider

        request = SmallProvider(app.models, app.make_matcher, app.prompts, app.config.workspace).build_request(request)
        told = told._replace(sections=[Section("small", request.system)])
        brief = brief._replace(system=request.system)
    write: Callable[..., dict[str, Any]] = openai.build_body
    if model.api != "openai":
        write = anthropic.build_messages_body if model.api == "anthropic" else responses.build_responses_body
    return told._replace(brief=brief), write(
        request, model.name or "default", stream=model.stream, temperature=model.temperature
    )


def _format_messages(body: dict[str, Any]) -> Iterator[str]:
    for message in _list_messages(body):
        text, calls = _parse_message(message)
        yield f"--- {message.get('role') or message['type']}\n{escape_unprintable(text)}"
        yield from (f"    calls {name} {escape_unprintable(arguments)}" for name, arguments in calls)
    if schema := body.get("response_format", body.get("text")):
        yield f"--- schema of the answer\n{json.dumps(schema, ensure_ascii=False)}"
    yield "--- tools"
    for definition in body.get("tools", []):
        yield json.dumps(definition.get("function", definition), ensure_ascii=False)


def _list_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in body.get("messages") or body["input"] if one.get("role") != "system"]


def _parse_message(message: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The text of a message in either format, and its calls with their arguments."""
    if message.get("type") == "function_call":
        return "", [(message["name"], message["arguments"])]
    content = message.get("content") or message.get("output") or ""
    if isinstance(content, str):
        functions = [call["function"] for call in message.get("tool_calls", [])]
        return content, [(function["name"], function["arguments"]) for function in functions]
    texts = [str(block.get("text") or block.get("content") or "") for block in content]
    calls = [block for block in content if block.get("type") == "tool_use"]
    written = [(call["name"], json.dumps(call["input"], ensure_ascii=False)) for call in calls]
    return "\n".join(filter(None, texts)), written
