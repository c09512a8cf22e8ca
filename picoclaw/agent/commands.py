"""What a person can ask for by a word that begins with /: answered in every chat, without a model and the network."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

from picoclaw.agent import workflow
from picoclaw.agent.context import AgentApp
from picoclaw.agent.dispatcher import CHAT_COMMANDS
from picoclaw.agents import list_agents
from picoclaw.automation import rules
from picoclaw.automation.clock import wake_all
from picoclaw.errors import ConfigError, PicoclawError, StoreError
from picoclaw.messages import Caller, Inbound, Message, Origin, Stop, ToolCall, Usage, is_owner, strip_context
from picoclaw.prompts import count_bytes, count_request_bytes, estimate_tokens, split_window
from picoclaw.providers import spending
from picoclaw.providers.model import describe_links
from picoclaw.records import NamedTuple, dataclass, replace
from picoclaw.schema import find_nearest
from picoclaw.security.guard import ApprovalAnswer
from picoclaw.security.untrusted import find_taints
from picoclaw.store.approvals import Approval
from picoclaw.store.sessions import ConversationInfo
from picoclaw.store.subagent_tasks import Task
from picoclaw.stores import Stores
from picoclaw.text import pattern, truncate
from picoclaw.times import format_duration, parse_duration


class CommandResult(NamedTuple):
    """What is said to the person.

    Not `good` when nothing was done; `again` is to be answered as if just said, `foreign` names what of that may be
    untrusted, and `made` is a call that has waited and was made now, which the conversation goes on with.
    """

    text: str
    good: bool = True
    again: str = ""
    made: Approval | None = None
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandContext:
    """The chat that a command was given in, by its `key`.

    `model` is the one that the next turn asks, `usual` the configured one, `now` the owner's wall clock. `who` gives
    the command, `origin` is what they are, and `stop` ends what it does.
    """

    app: AgentApp
    key: str
    now: datetime
    model: str
    usual: str
    who: str
    origin: Origin
    stop: Stop | None

    @property
    def stores(self) -> Stores:
        return self.app.stores

    def find_open_conversation(self) -> ConversationInfo | None:
        """The conversation that goes on, None when nothing was said in it yet."""
        return next((info for info in self.stores.sessions.listed(self.key) if not info.ended), None)


def describe_conversation(info: ConversationInfo) -> str:
    turns = f"{info.turns} turn{'s' * (info.turns != 1)}"
    agent = f" with {info.agent}" if info.agent else ""
    return f"{info.last[:16].replace('T', ' ')}, {turns}{agent}: {info.first or 'everything was undone'}"


def parse_number(text: str) -> int:
    """Read the number of something that is counted from 1; 0 for what is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else 0


# /approvals, /yes, /no and /always: what waits for the owner's yes, and their answer to it.

_APPROVAL_NUMBER = pattern(r"([0-9]{1,15})(?:\s+([0-9a-f]{8,64}))?")


def show_approvals(chat: CommandContext, rest: str) -> CommandResult:
    """List what waits, or show one of them whole."""
    approvals = chat.app.approving.approvals
    if rest:
        found = approvals.get(parse_number(rest))
        text = show_approval(found) if found else f"There is no question number {rest}."
        return CommandResult(text, good=bool(found))
    rows = [describe_approval(one, chat.key) for one in approvals.waiting()]
    return CommandResult("\n".join(rows) or "Nothing waits for your approval.")


def answer_approval(chat: CommandContext, rest: str, *, yes: bool, always: bool = False) -> CommandResult:
    """Have a call made that waits, or all of the one question that does, or not; `always` also when it is wanted again."""
    if always and not rest:
        return CommandResult("Nothing was done: /always takes the number of the question.", good=False)
    given = _APPROVAL_NUMBER.fullmatch(rest)
    if rest and not given:
        why = f"{rest!r} is no number of a question; /approvals lists them"
        return CommandResult(f"Nothing was done: {why}.", good=False)
    number = int(given[1]) if given else 0
    if not number:
        here = [one for one in chat.app.approving.approvals.waiting() if one.chat == chat.key]
        asked = {one.listed for one in here}
        if len(asked) != 1 or 0 in asked:
            why = (
                "several questions wait, so it takes a number"
                if here
                else "nothing waits for your approval in this chat"
            )
            rows = [describe_approval(one, chat.key) for one in here]
            return CommandResult("\n".join([f"Nothing was done: {why}.", *rows]), good=False)
        number = here[0].listed
    said = ApprovalAnswer(number, yes, chat.who, chat.origin, given[2] if given else None, always, whole=not given)
    outcome = chat.app.approving.answer(said, chat.stop)
    return CommandResult(outcome.text, outcome.good, made=outcome.made)


def describe_approval(one: Approval, key: str = "") -> str:
    """Describe one in a line; `key` is the chat that it is shown in."""
    minutes = max(1, round((one.expires - time.time()) / 60))
    where = "" if one.chat == key else f", asked in {one.chat}"
    return f"{one.number}  {one.shortly} ({minutes} min left{where})"


def show_approval(one: Approval) -> str:
    """Show one whole, with what became of it."""
    by = f" by {one.answered_by}" if one.answered_by else ""
    lines = [f"number {one.number}: {one.state}{by}", one.question, f"({one.rule}: {one.why})", one.outcome]
    return "\n".join(filter(None, lines))


# /set, /job and /rule: calls of tools that a person orders, past the same guard as a model's.

_NO_OUTPUTS = "Nothing was done: no output is declared in outputs.toml."
_LEVEL = pattern(
    r"(?P<name>\S+)\s+(?P<level>on|off|[0-9.]{1,8} ?%?)(?:\s+(?:for\s+)?(?P<time>.{1,40}))?", re.IGNORECASE
)
_CHANGE = pattern(r"(pause|resume|remove)\s+(\S.*)", re.IGNORECASE)
_ACTIONS = {"pause": "disable", "resume": "enable", "remove": "remove"}


def switch_output(chat: CommandContext, rest: str) -> CommandResult:
    """Bring an output to a level for a while."""
    how = "/set takes an output, a level and a time, such as /set pump on 10m or /set lamp 40% 2h"
    found = _LEVEL.fullmatch(rest)
    if found is None:
        return CommandResult(f"Nothing was done: {how}.", good=False)
    if chat.app.wiring.outputs is None:
        return CommandResult(_NO_OUTPUTS, good=False)
    try:
        seconds = parse_duration(found["time"]) if found["time"] else 0.0
    except ValueError:
        return CommandResult(f"Nothing was done: {found['time']!r} is not a length of time; {how}.", good=False)
    level = found["level"].replace(" ", "").lower()
    arguments = {"action": "set", "name": found["name"], "level": level, "seconds": seconds}
    return _call_tool(chat, chat.key, "output", arguments)


def resume_outputs(chat: CommandContext, _rest: str) -> CommandResult:
    if chat.app.wiring.outputs is None:
        return CommandResult(_NO_OUTPUTS, good=False)
    try:
        return CommandResult(chat.app.wiring.outputs.resume("owner"))
    except PicoclawError as error:
        return CommandResult(f"Nothing was done: {error}", good=False)


def change_job(chat: CommandContext, rest: str) -> CommandResult:
    found = _CHANGE.fullmatch(rest)
    number = parse_number(found[2]) if found else 0
    if found is None or not number:
        return CommandResult("Nothing was done: /job takes pause, resume or remove, and a number.", good=False)
    job = next((one for one in chat.stores.jobs.all() if one.number == number), None)
    if job is None:
        return CommandResult(f"Nothing was done: there is no reminder or job {number}.", good=False)
    return _call_tool(chat, job.session, "cron", {"action": _ACTIONS[found[1].lower()], "job": number})


def change_rule(chat: CommandContext, rest: str) -> CommandResult:
    if (found := _CHANGE.fullmatch(rest)) is None:
        return CommandResult("Nothing was done: /rule takes pause, resume or remove, and a name.", good=False)
    home, action, name = chat.app.config.home, found[1].lower(), found[2].strip()
    try:
        if action == "remove":
            rules.remove_rule(home, name)
        else:
            rules.change_rule(home, name, rules.PAUSE_CHANGES[action])
    except ConfigError as error:
        return CommandResult(f"Nothing was done: {error}", good=False)
    wake_all(home)
    done = {"pause": f"is paused; /rule resume {name} goes on with it", "resume": "is followed again"}
    return CommandResult(f"Rule {name} {done.get(action, 'is removed')}.")


def _call_tool(chat: CommandContext, session: str, name: str, arguments: dict[str, object]) -> CommandResult:
    """Make a call as whoever has typed the command; what needs a yes is asked about."""
    caller = Caller(session, chat.origin, chat.now, say=lambda _: None, who=chat.who, reply_to=chat.key, asks=[])
    with chat.app.approving.ask_at_end(caller):
        good, text = chat.app.toolset.run(ToolCall("1", name, arguments), caller)
    if caller.asks:
        if not is_owner(chat.origin):
            return CommandResult("It waits for the owner's yes.")
        numbers = " and ".join(map(str, caller.asks))
        return CommandResult(f"It waits for your approval: /yes {numbers} does it, /no {numbers} leaves it.")
    return CommandResult(text, good)


# The commands about the model: what its window is filled with, what it has cost, and which one is asked.

_MAX_MODEL_NAME = 200
_NO_LIMIT = 1 << 30
DEFAULT_MODEL = "default"
"""What is said instead of a model's name to go back to the configured one."""

_NO_MODEL = "No model is configured: base_url under [model] in config.toml, or PICOCLAW_BASE_URL."


def show_context(chat: CommandContext, _rest: str) -> CommandResult:
    """Tell what the next request is made of, in tokens, as far as it is known before it is said."""
    agent = replace(chat.app.agent, window=chat.app.config.model.context_tokens)  # also where none is configured
    ratio = chat.stores.bytes_a_token(chat.model)
    earlier, acts, summary, _ = chat.stores.load_history(chat.key)
    builder = replace(chat.app.context_builder, tidy=False)  # nothing is changed by it
    told = builder.build(Inbound(chat.key, ""), earlier, [act for _, act in acts], chat.now)
    brief = told.brief._replace(bytes_a_token=ratio, summary=summary)
    talk = agent.build_conversation(brief, earlier)
    tools, said = agent.tools(brief), [message for turn in talk.history for message in turn]
    sections = sorted(((estimate_tokens(count_bytes(text), ratio), name) for name, text in told.sections), reverse=True)
    left_out = f"; {talk.forgotten} older turns do not fit" if talk.forgotten else ""
    sizes = [
        (count_bytes(brief.system), f"system text: {', '.join(f'{count:,} {name}' for count, name in sections)}"),
        (count_bytes(list(tools)), f"{len(tools)} tools"),
        *([(count_bytes(talk.summary), "summary of what was said before")] if talk.summary else []),
        (count_request_bytes("", said, ()), f"{len(said)} messages of this conversation{left_out}"),
        (count_request_bytes("", talk.messages, ()), "the header of the next message"),
    ]
    window = agent.window
    rows = [(estimate_tokens(size, ratio), what) for size, what in sizes]
    rows.append((agent.answer, "room for the answer"))
    reserve = window - agent.answer - split_window(window, agent.answer).request
    rows.append((reserve, "kept free, because all this is estimated"))
    used = sum(tokens for tokens, _ in rows)
    rows.append((max(0, window - used), "free"))
    wide = max(len(f"{tokens:,}") for tokens, _ in rows)
    asked = chat.model if chat.stores.config.model.base_url else "no model, so nothing is sent"
    head = f"About {used:,} of {window:,} tokens ({used * 100 // window} %), at {ratio:.1f} bytes a token; {asked}:"
    return CommandResult("\n".join([head, *(f"{tokens:>{wide},}  {what}" for tokens, what in rows)]))


def show_usage(chat: CommandContext, _rest: str) -> CommandResult:
    """Tell the tokens in and out of this chat and of all chats, by model."""
    here, everywhere = chat.stores.sessions.usage(chat.now, chat.key), chat.stores.sessions.usage(chat.now)
    subagents = sum(task.used.tokens for task in chat.app.subagent_tasks.newest(chat.key, _NO_LIMIT))
    if not everywhere and not subagents:
        return CommandResult("No model was used yet.")
    today = month = ever = Usage()
    for spent in here:
        today, month, ever = today + spent.today, month + spent.month, ever + spent.ever
    rows = [("this chat", today, month, ever)]
    rows += [(f"{spent.provider}, all chats", spent.today, spent.month, spent.ever) for spent in everywhere]
    lines = [
        f"{name}: today {_format_usage(today)}, 30 days {_format_usage(month)}, ever {_format_usage(ever)}"
        for name, today, month, ever in rows
    ]
    lines += [f"sub-agents of this chat, recently: {subagents:,}"] if subagents else []
    day = chat.now.date().isoformat()
    lines += spending.format_today(chat.stores.accounts.rows(day, day), chat.stores.config.costs)
    return CommandResult("\n".join(["Tokens in + out:", *lines]))


def _format_usage(used: Usage) -> str:
    return f"{used.prompt_tokens:,} + {used.completion_tokens:,}"


def _list_model_order(chat: CommandContext) -> Iterator[str]:
    """Who is asked, one after another, and how it went when they were asked last; nothing where there is one alone."""
    rows, now = describe_links(chat.app.links), chat.now.timestamp()
    if len(rows) < 2:
        return
    yield "Asked in this order:"
    for row in sorted(rows, key=lambda row: not row["chosen"]):
        ago = f"{format_duration(max(0.0, now - row['at']))} ago" if row["at"] else ""
        how = f"no answer {ago}: {row['error']}" if row["error"] else f"answered {ago}" if ago else "not asked yet"
        only = "" if row["chosen"] else ", only if chosen with /model"
        yield f"  {row['name'] or DEFAULT_MODEL}: {row['model']} at {row['url']}{only}, {how}"
    yield "  and then the built-in matcher"


def choose_model(chat: CommandContext, rest: str) -> CommandResult:
    """Tell which model this conversation is held with, or choose another: a configured one, or of [model]'s server."""
    if not chat.stores.config.model.base_url:
        return CommandResult(_NO_MODEL, good=False)
    if not rest:
        here = f" for this conversation; /model {DEFAULT_MODEL} goes back to {chat.usual}"
        line = f"{chat.model}{here if chat.model != chat.usual else ''}."
        return CommandResult("\n".join([line, *_list_model_order(chat)]))
    if len(rest) > _MAX_MODEL_NAME or len(rest.split()) > 1 or not rest.isprintable():
        return CommandResult(
            f"{truncate(' '.join(rest.split()), 40)!r} is no name of a model: that is one word.", good=False
        )
    name = "" if rest in {DEFAULT_MODEL, chat.usual} else rest
    if name or chat.model != chat.usual:
        chat.stores.sessions.set_model(chat.key, name)
    back = f" /model {DEFAULT_MODEL} goes back to {chat.usual}." if name else ""
    return CommandResult(f"This conversation goes on with {name or chat.usual}.{back}")


def choose_agent(chat: CommandContext, rest: str) -> CommandResult:
    """List the agents and say which one answers here, or begin a conversation with another."""
    config = chat.app.find_view(chat.who).config if chat.origin == "member" else chat.app.config
    here = chat.stores.sessions.agent(chat.key) or config.default_agent
    if not rest:
        rows = [f"{'* ' if key == here else '  '}{key}: {what}" for key, what in list_agents(config).items()]
        why = "is not for you" if here in config.agents else "is not in config.toml any more"
        gone = "" if here in list_agents(config) else f"\n{here} {why}; /agent KEY goes on with another."
        return CommandResult("\n".join(rows) + gone)
    if rest not in list_agents(config):
        near = find_nearest(rest, list_agents(config))
        return CommandResult(
            f"There is no agent {truncate(' '.join(rest.split()), 40)!r}{near}; /agent lists them.", good=False
        )
    if rest == here:
        return CommandResult(f"{rest} answers here already.")
    before = chat.find_open_conversation()
    chat.stores.sessions.set_agent(chat.key, "" if rest == config.default_agent else rest, chat.now)
    kept = f" The conversation before is kept: /sessions {before.number} goes on with it." if before else ""
    return CommandResult(f"From here on {rest} answers.{kept}")


# The command about what sub-agents were given to do.

_MAX_TASKS = 20
_CANCEL_WORD = "cancel"


def show_tasks(chat: CommandContext, rest: str) -> CommandResult:
    """List the open and the newest tasks of this chat, or cancel one."""
    if not rest:
        listed = {*chat.app.subagent_tasks.unfinished(chat.key), *chat.app.subagent_tasks.newest(chat.key, _MAX_TASKS)}
        rows = [workflow.describe_task(task, chat.now.timestamp()) for task in sorted(listed)]
        return CommandResult("\n".join(rows) or "No sub-agent has had a task in this chat.")
    word, _, given = rest.partition(" ")
    if word.lower() != _CANCEL_WORD or not (number := parse_number(given)):
        what = f"{truncate(' '.join(rest.split()), 40)!r} is not understood"
        return CommandResult(f"{what}; /tasks cancel NUMBER cancels one.", good=False)
    tasks = chat.app.subagent_tasks
    ours = {task.number for task in tasks.unfinished(chat.key)}
    if number not in ours:
        has = f"open: {', '.join(map(str, sorted(ours)))}" if ours else "none is open"
        return CommandResult(f"There is no open task {number} in this chat: {has}.", good=False)
    ended = tasks.cancel(number, chat.key, chat.now.timestamp())
    wake_all(chat.stores.config.home)
    return CommandResult(f"Cancelled: {', '.join(task.label for task in ended)}.")


# The commands about what was said: begin anew, erase, take back, ask again, go on with an older conversation.

_MAX_LISTED = 20
_CONFIRM_WORD = "yes"


def begin_conversation(chat: CommandContext, _rest: str) -> CommandResult:
    """End the conversation and keep it."""
    before = chat.find_open_conversation()
    if before is None:
        return CommandResult("This conversation has no messages yet.")
    usual = f", with {chat.usual} again" if chat.model != chat.usual else ""
    chat.stores.sessions.begin_new(chat.key, chat.now)
    kept = f"The one before is kept: /sessions {before.number} goes on with it."
    return CommandResult(f"A new conversation begins{usual}. {kept}")


def clear_conversation(chat: CommandContext, rest: str) -> CommandResult:
    """Show what would be erased, and erase it once that is confirmed."""
    if rest.lower() not in {"", _CONFIRM_WORD}:
        return CommandResult("Nothing was deleted. /clear shows what it would delete, /clear yes does it.", good=False)
    before, tasks = chat.find_open_conversation(), chat.app.subagent_tasks.ended(chat.key)
    if before is None and not tasks:
        return CommandResult("There is nothing to delete: this conversation has no messages yet.")
    if not rest:
        what = f"for good {_format_counts(0, tasks)}."
        if before:
            counts = _format_counts(sum(1 for _ in chat.stores.sessions.transcript(before.number)), tasks)
            what = f"conversation {before.number} for good, {counts}; {describe_conversation(before)}"
        how = "/clear yes does it. /new begins another one and keeps this."
        return CommandResult(f"This would delete {what}\n{how}")
    # the tools whose calls were cut off, and that nobody was told of
    acts = dict.fromkeys(act.split(" ")[1] for _, act in chat.stores.history.unknown_acts(chat.key))
    cut_off = "".join(f"\nA call was cut off, its outcome is unknown: {act}." for act in acts)
    messages = chat.stores.sessions.erase(chat.key)
    all_tasks = chat.app.subagent_tasks
    left = sorted({*all_tasks.newest(chat.key, _MAX_LISTED), *all_tasks.unfinished(chat.key)})
    still = f"\nSub-agents still have {', '.join(task.label for task in left)}; /tasks shows it." if left else ""
    return CommandResult(
        f"Deleted for good: {_format_counts(messages, tasks)}. Notes, memory and reminders stay.{still}{cut_off}"
    )


def _format_counts(messages: int, tasks: Sequence[Task]) -> str:
    subagents = f", {len(tasks)} task{'s' * (len(tasks) != 1)} of sub-agents" if tasks else ""
    return f"{messages} message{'s' * (messages != 1)}{subagents}"


def undo_turn(chat: CommandContext, _rest: str) -> CommandResult:
    """Take the newest turn back."""
    turn = chat.stores.sessions.undo(chat.key)
    if turn is None:
        return CommandResult("There is nothing to take back: a model is shown no earlier turn.", good=False)
    done, said = _describe_acts(chat, turn), truncate(" ".join(_get_user_text(chat, turn).split()), 300)
    return CommandResult("\n".join(filter(None, [f"Taken back: {said or 'what cannot be read'}", done])))


def retry_turn(chat: CommandContext, _rest: str) -> CommandResult:
    """Have what the person said in the newest turn answered again; the new turn takes its place once it is kept."""
    number, turn = next(reversed(chat.stores.history.numbered(chat.key).items()), (0, ()))
    said = _get_user_text(chat, turn)
    if not said:
        return CommandResult("There is nothing to ask again: a model is shown no earlier turn.", good=False)
    history, read = chat.stores.history, set(find_taints(turn))
    foreign = tuple(name for name in history.heard_by(number) if name not in read)  # what it reads, it reads anew
    history.replace(chat.key, number)
    return CommandResult(_describe_acts(chat, turn), again=said, foreign=foreign)


def _describe_acts(chat: CommandContext, turn: Sequence[Message]) -> str:
    harmless = chat.app.agent.toolset.only_reading
    acts = dict.fromkeys(call.name for m in turn for call in m.calls if call.name not in harmless)
    return f"What was done stays done: {', '.join(acts)}." if acts else ""


def _get_user_text(chat: CommandContext, turn: Sequence[Message]) -> str:
    """All that the person said in a turn, also while it ran."""
    later = chat.app.prompts["meanwhile"].partition("{content}")[0]
    said = [message.text for message in turn[1:] if later and message.role == "user" and message.text.startswith(later)]
    first = [message.text for message in turn[:1]]
    return "\n".join(filter(None, map(strip_context, [*first, *said])))


def show_sessions(chat: CommandContext, rest: str) -> CommandResult:
    """List the chat's conversations, or go on with one of them."""
    found = chat.stores.sessions.listed(chat.key)
    if not rest:
        wide = max((len(str(info.number)) for info in found), default=0)
        rows = [
            f"{info.number:>{wide}}{' ' if info.ended else '*'} {describe_conversation(info)}"
            for info in found[:_MAX_LISTED]
        ]
        if len(found) > _MAX_LISTED:
            rows.append(f"and {len(found) - _MAX_LISTED} older ones: picoclaw sessions list")
        is_open = any(not info.ended for info in found)
        rows.append(f"{'* goes on now; ' * is_open}/sessions NUMBER goes on with another.")
        return CommandResult("\n".join(rows) if found else "This chat has no messages yet.")
    number = parse_number(rest)
    wanted = next((info for info in found if info.number == number), None)
    if wanted is None or not chat.stores.sessions.reopen(chat.key, number):
        numbers = ", ".join(str(info.number) for info in found[:_MAX_LISTED])
        has = f"it has {numbers}" if found else "it has none yet"
        return CommandResult(
            f"{truncate(' '.join(rest.split()), 40)} is no conversation of this chat; {has}.", good=False
        )
    return CommandResult(f"Conversation {number} goes on. {describe_conversation(wanted)}")


_COMMAND = pattern(r"/([\w-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


class ParsedCommand(NamedTuple):
    """A command as it was typed: its word in small letters, without the slash, and what follows."""

    word: str
    rest: str


class _CommandSpec(NamedTuple):
    """What a word does. `takes` names what may follow it, '' for nothing."""

    takes: str
    does: str
    run: Callable[[CommandContext, str], CommandResult]


_NOTHING_RUNS = "Nothing is running. STOP, without the slash, brings the outputs to safety."
_RUNS: dict[str, Callable[[CommandContext, str], CommandResult]] = {
    "new": begin_conversation,
    "clear": clear_conversation,
    "undo": undo_turn,
    "retry": retry_turn,
    "sessions": show_sessions,
    "context": show_context,
    "usage": show_usage,
    "model": choose_model,
    "agent": choose_agent,
    "tasks": show_tasks,
    "set": switch_output,
    "resume": resume_outputs,
    "job": change_job,
    "rule": change_rule,
    "approvals": show_approvals,
    "yes": partial(answer_approval, yes=True),
    "no": partial(answer_approval, yes=False),
    "always": partial(answer_approval, yes=True, always=True),
    "stop": lambda *_: CommandResult(_NOTHING_RUNS),
    "help": lambda *_: CommandResult(format_command_list()),
}
COMMANDS = {word: _CommandSpec(takes, does, _RUNS[word]) for word, (takes, does) in CHAT_COMMANDS.items()}


def parse_chat_command(text: str) -> ParsedCommand | None:
    """Take a text apart that is a command, known or not; None for another one, such as a path."""
    found = _COMMAND.fullmatch(text.strip())
    return ParsedCommand(found[1].lower(), (found[2] or "").strip()) if found else None


def run_chat_command(given: ParsedCommand, chat: CommandContext) -> CommandResult:
    """Do what a command says. Raises nothing: what goes wrong is said."""
    known = COMMANDS.get(given.word)
    if known is None:
        near = find_nearest(f"/{given.word}", {f"/{word}": row for word, row in COMMANDS.items()})
        more = " To have it answered, begin with a word without a slash." if given.rest else ""
        return CommandResult(f"/{given.word} is no command{near}.{more}".replace("?.", "?"), good=False)
    if given.rest and not known.takes:
        return CommandResult(f"Nothing was done: /{given.word} takes no arguments.", good=False)
    try:
        return known.run(chat, given.rest)
    except StoreError as error:
        return CommandResult(f"/{given.word} was not done: {error}", good=False)


def format_command_list(more: Iterable[tuple[str, str]] = ()) -> str:
    """List the commands, and `more` that a channel has itself: words and what they do."""
    rows = [(f"/{word} {row.takes}".rstrip(), row.does) for word, row in COMMANDS.items()]
    rows += [(f"/{word}", does) for word, does in more]
    wide = max(len(words) for words, _ in rows)
    return "\n".join(f"{words:<{wide}}  {does}" for words, does in rows)
