"""`picoclaw model test` and `picoclaw model probe`: what the configured model can do, asked on a simulated board.

`picoclaw prompt`: exactly what would be sent for the next message, and how many bytes of what.
`picoclaw usage`: the tokens and the money that models have taken, by day, model, cause, channel, agent or person.
"""

import contextlib
import json
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from picoclaw.agent.context import BuiltContext
from picoclaw.app import App
from picoclaw.cli.arguments import Options, Parser, parse_count, parse_days
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    add_person_option,
    check_conversation,
    check_person,
    open_app,
    print_note,
    print_safe,
)
from picoclaw.config import Config, load_config
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.files import find_shipped
from picoclaw.hw import detect
from picoclaw.messages import ERROR_PREFIX, Caller, Inbound, Origin, Request, ToolCall, TurnHooks
from picoclaw.prompts import BYTES_A_TOKEN, PROMPT_MODES, Page, count_bytes, estimate_tokens
from picoclaw.providers import anthropic, openai, spending
from picoclaw.records import replace
from picoclaw.store.ledger import RETENTION_DAYS
from picoclaw.stores import PastTurns, Stores
from picoclaw.text import escape_control_tokens, escape_unprintable, format_json
from picoclaw.workspace import get_owner_time

_KINDS = {"plain": "one wish", "two": "two wishes", "talk": "no tool needed"}
_DEFAULT_REQUESTS = 40
_SEED = (
    ("write_file", {"path": "shopping.txt", "content": "milk\neggs\nbread\n"}),
    ("write_file", {"path": "garden.md", "content": "# Garden\nSow carrots in April.\n"}),
    ("write_file", {"path": "todo.txt", "content": "sweep the yard\n"}),
    ("memory_store", {"text": "The spare key is under the blue flower pot."}),
    ("memory_store", {"text": "The router's password is on the label at its bottom."}),
    ("memory_store", {"text": "Anna's birthday is on 14 March."}),
    ("memory_store", {"text": "The ferns need shade."}),
    ("cron", {"action": "add", "message": "water the tomatoes", "at": "tomorrow 18:00"}),
    ("pulse", {"action": "add", "text": "repair the pump"}),
)
"""What the home of a test begins with."""


def add_model_options(parser: Parser) -> None:
    test = parser.add_words(
        {
            "test": ("send it requests on a simulated board, and count the right ones", _test_model),
            "probe": ("send it two requests, and say which profile suits it", _probe_model),
        }
    )["test"]
    test.add_argument("-n, --requests N", "how many (default 40)", type=parse_count(1, 1000), default=_DEFAULT_REQUESTS)
    test.add_argument("--kind", "only plain requests, two wishes in one, or talk", choices=tuple(_KINDS))
    test.add_argument("--profile", "instead of the configured one", choices=("full", "small"))
    test.add_argument("--alone", "ask the built-in matcher instead of the model")
    test.add_argument("--json", "print JSON")


def _probe_model(_: Options) -> int:
    from picoclaw.providers.model import probe_model

    config = load_config()
    if not config.model.base_url:
        raise ConfigError("no model is set up: `picoclaw init` does that")
    suits, told = probe_model(config.model, config.api_key)
    print_safe(f"{told}; the {suits} profile suits it, {_name_profile(config)} is used")
    return 0


def _test_model(given: Options) -> int:
    config = load_config()
    if not config.model.base_url and not given.alone:
        raise ConfigError("no model is set up: `picoclaw init` does that; --alone asks the built-in matcher")
    if given.profile:
        config = replace(config, model=replace(config.model, profile=given.profile))
    rows = []
    for row in run_requests(config, select_requests(given.requests, given.kind), alone=given.alone):
        rows.append(row)
        if not given.json:
            shown = " ".join(row["reply"].split())[:100]
            print_safe(f"{row['verdict']:8} {row['seconds']:6.1f} s  {row['request']}\n{'':18}{shown}")
            for act in row["acts"]:
                print_safe(f"{'':18}{act[:120]}")
    if given.json:
        print(format_json(rows))
    else:
        print_safe(*summarize(rows, config, alone=given.alone))
    return 0


def load_requests() -> dict[str, list[list[str]]]:
    """The shipped requests by kind: what is asked, what the answer must say, what must be called."""
    return tomllib.loads((find_shipped("templates") / "model_test.toml").read_text(encoding="utf-8"))


def select_requests(count: int, kind: str | None = None) -> list[tuple[str, list[str]]]:
    """Take so many requests, spread over each kind."""
    tables = {name: rows for name, rows in load_requests().items() if kind in {None, name}}
    share = min(1.0, count / sum(map(len, tables.values())))
    found = []
    for name, rows in tables.items():
        number = max(1, round(len(rows) * share))
        found += [(name, rows[i * len(rows) // number]) for i in range(number)]
    return found


def run_requests(
    config: Config,
    asked: Sequence[tuple[str, list[str]]],
    *,
    alone: bool = False,
    furnish: Callable[[Path], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Ask each request in a home of its own, which is thrown away; gives what came of it as data.

    `furnish` puts into that home what the requests are about beyond what the shipped ones need.
    """
    model = replace(config.model, base_url="", then=[]) if alone else replace(config.model, then=[])
    with tempfile.TemporaryDirectory(prefix="picoclaw-test-", ignore_cleanup_errors=True) as folder:
        seeded = Path(folder) / "seeded"
        base = Config(home=seeded, model=model, api_key=config.api_key, limits=config.limits)
        if furnish:
            furnish(seeded)
        _seed_home(base)
        for number, (kind, (text, reply, acts)) in enumerate(asked):
            home = shutil.copytree(seeded, Path(folder) / str(number))
            yield {"kind": kind} | _ask(replace(base, home=home), text, reply, acts)
            shutil.rmtree(home, ignore_errors=True)


def _open(config: Config) -> App:
    return App(config, detect.choose_board("sim", config), rehearses=True)


def _seed_home(config: Config) -> None:
    from picoclaw.workspace import prepare_home

    prepare_home(config.home, restore=True)
    (config.workspace / "BOOTSTRAP.md").unlink(missing_ok=True)
    with contextlib.closing(_open(config)) as app:
        caller = Caller("terminal", "owner", app.now(), print_note)
        for name, arguments in _SEED:
            good, result = app.toolset.run(ToolCall("1", name, dict(arguments)), caller)
            if not good:
                raise PicoclawError(f"the test home could not be made: {name}: {result}")


def _ask(config: Config, text: str, reply: str, acts: str) -> dict[str, Any]:
    began = time.monotonic()
    with contextlib.closing(_open(config)) as app:
        acting: list[dict[str, Any]] = []

        def listen(event: object) -> None:  # before it is made: a file that was written cannot be written again
            if isinstance(event, ToolCall):
                with contextlib.suppress(PicoclawError):
                    acting.extend([event.arguments] if app.toolset.effect(event) != "read" else [])

        turn = app.dispatcher.answer(Inbound("terminal", text), TurnHooks(listen=listen))
        # a call that was refused counts where it waits for the owner's yes
        done = [
            (f"{run.name} {json.dumps(run.arguments, ensure_ascii=False)}", run.arguments in acting)
            for run in turn.tools
            if not run.result.startswith(ERROR_PREFIX) or "waits for" in run.result
        ]
    made = [call for call, is_act in done if is_act]
    wanted = [one for one in acts.split(" ;; ") if one]
    how = re.IGNORECASE | re.DOTALL
    missing = [one for one in wanted if not any(re.search(one, call, how) for call, _ in done)]
    if missing and all(re.search(one, "\n".join(made), how) for one in missing):
        unasked, missing = [], []  # an expression that is of all acts together
    else:
        unasked = [act for act in made if not any(re.search(one, act, how) for one in wanted)]
    gives_up = "without a model" in turn.reply or "have no model" in turn.reply
    is_right = not (turn.stopped or unasked or missing or gives_up) and bool(re.search(reply, turn.reply, how))
    # an act with other words than expected is wrong, one where none was asked for is unasked
    verdict = "right" if is_right else "unasked" if unasked and not wanted else "wrong"
    return {
        "request": text,
        "reply": turn.reply,
        "acts": made,
        "tools": [run.name for run in turn.tools],
        "verdict": verdict,
        "by": turn.provider,
        "prompt_tokens": turn.usage.prompt_tokens,
        "answer_tokens": turn.usage.completion_tokens,
        "seconds": round(time.monotonic() - began, 1),
        "notice": turn.notice.text,
    }


def summarize(rows: Sequence[dict[str, Any]], config: Config, *, alone: bool) -> Iterator[str]:
    who = "the built-in matcher" if alone else f"{config.model.name or 'the model'}, profile {_name_profile(config)}"
    yield f"--- {who}"
    for kind, label in _KINDS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        if of_kind:
            right = sum(row["verdict"] == "right" for row in of_kind)
            yield f"{label}: {right} of {len(of_kind)} right"
    unasked = sum(row["verdict"] == "unasked" for row in rows)
    by_model = [row for row in rows if row["prompt_tokens"]]
    tokens = sum(row["prompt_tokens"] + row["answer_tokens"] for row in rows)
    yield f"done unasked: {unasked}"
    yield f"answered without the model: {len(rows) - len(by_model)} of {len(rows)}; {tokens} tokens"
    if by_model:
        times = sorted(row["seconds"] for row in by_model)
        yield f"seconds by the model: {times[len(times) // 2]:.1f} usually, {times[-1]:.1f} at most"
    if failed := [row["notice"] for row in rows if "answered without a model" in row["notice"]]:
        yield f"the model did not answer {len(failed)} times: {failed[0]}"
    right = sum(row["verdict"] == "right" for row in rows) / max(1, len(rows))
    if unasked:
        yield "What to expect: it does things that nobody asked for. Do not let it switch anything."
    elif right >= _GOOD:
        yield "What to expect: it does what it is asked, about as well as these figures."
    else:
        hint = "" if alone or config.model.is_small else " Try: picoclaw model test --profile small"
        yield f"What to expect: often not what was asked; look at what it says it did.{hint}"


_GOOD = 0.8


def _name_profile(config: Config) -> str:
    return "small" if config.model.is_small else "full"


_DEFAULT_DAYS = 7


def add_usage_options(parser: Parser) -> None:
    parser.add_argument(
        "--days DAYS",
        f"how many days: 30, 30d, 4w (default {_DEFAULT_DAYS})",
        type=parse_days(1, RETENTION_DAYS),
        default=_DEFAULT_DAYS,
    )
    parser.add_argument("--by", "group by (default: day)", choices=spending.USAGE_KEYS, default="day")
    parser.add_argument("--json", "print JSON")


def run_usage(given: Options) -> int:
    """Print it; nothing is made and no server is asked."""
    config = load_config()
    costs, stores, last = config.costs, Stores(config), get_owner_time(config.home).date()
    with closing(stores):
        first = last - timedelta(days=given.days - 1)
        is_there = (config.home / "state.db").exists()
        found = stores.accounts.rows(first.isoformat(), last.isoformat()) if is_there else {}
    own = config.default_agent
    rows = {
        place._replace(agent=place.agent or own, person=place.person or "owner"): taken
        for place, taken in found.items()
    }
    of_today = {place: taken for place, taken in rows.items() if place.day == last.isoformat()}
    if given.json:
        used = spending.count_use(of_today, costs.by_model)
        day = {"date": last.isoformat(), "tokens": used.tokens, "money": used.money}
        caps = {"day_tokens": costs.day_tokens, "day_money": costs.day_money, "percent": used.percent(costs)}
        told = [{given.by: name} | taken._asdict() for name, taken in spending.sum_by(rows, given.by).items()]
        sums = {"rows": told, "all": spending.sum_all(rows)._asdict()}
        print(format_json({"by": given.by, **sums, "today": day | caps, "currency": costs.currency}))
    elif not rows:
        print(spending.NO_USAGE if given.days == RETENTION_DAYS else f"No model was used in {given.days} days.")
    else:
        print_safe(*spending.format_table(rows, given.by, costs), *spending.format_today(of_today, costs))
    return 0


def add_prompt_options(parser: Parser) -> None:
    parser.add_argument("-m, --message TEXT", "the message to show it for", default="how warm is it?")
    parser.add_argument("--session S", "the conversation to continue", default=DEFAULT_SESSION)
    parser.add_argument("--agent KEY", "the agent that would answer: see `picoclaw agents`", default="")
    add_person_option(parser, "who would ask")
    parser.add_argument("--mode", "instead of the configured one", choices=PROMPT_MODES)
    origins = ["owner", "cron", "heartbeat"]
    parser.add_argument("--origin", "who would ask: owner, cron, heartbeat", choices=origins, default="owner")
    parser.add_argument("--json", "print the request's body and the byte counts as JSON")
    add_board_option(parser)


def run_prompt(given: Options) -> int:
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

        request = SmallProvider(app.models, lambda: app.matcher, app.prompts, app.config.workspace).build_request(
            request
        )
        told = told._replace(sections=[Page("small", request.system)])
        brief = brief._replace(system=request.system)
    write: Callable[..., dict[str, Any]] = openai.build_body
    if model.api != "openai":
        write = anthropic.build_messages_body if model.api == "anthropic" else openai.build_responses_body
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
