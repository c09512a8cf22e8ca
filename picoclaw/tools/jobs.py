"""The `cron` tool: reminders, and jobs that ask, run or call something when they are due."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from picoclaw.errors import ToolError
from picoclaw.messages import Caller, ToolCall, is_owner
from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.schema import Span
from picoclaw.slots import Plan
from picoclaw.store.jobs import CatchUp, Deliver, Job, Jobs, Kind
from picoclaw.tools import own_words
from picoclaw.tools.job_times import LONGEST_S, When, details, kept, renewed, row, timed
from picoclaw.tools.toolset import tool
from picoclaw.trust.policy import Effect

_MOST_JOBS = 100
_NEEDS_A_YES = {"exec", "actuate", "instruct"}
_WHERE = {
    ("reminder", False): "told in an open interactive `picoclaw chat`, late if none is open then",
    ("job", False): "done while `picoclaw run` or an interactive `picoclaw chat` runs",
    ("reminder", True): "told in this chat",
    ("job", True): "done by `picoclaw run`, and told in this chat",
}
"""What becomes of it in a terminal's chat, and in one of the daemon's channels."""
_CHANNELS = ("telegram:", "page:")
_LATER = {
    *("get", "update", "enable", "disable", "run"),
    *("command", "every_seconds", "tz", "deliver", "late", "job"),
}
_WORD_OF_SHELL = re.compile(r"[^\s|&;<>()$`\"'=]+")
EffectOf = Callable[[ToolCall], Effect]


class _Wish(NamedTuple):
    """What a job is to be; empty is what was not said."""

    kind: Kind | Literal[""]
    payload: str
    catch_up: CatchUp | Literal[""]
    deliver: Deliver | Literal[""]
    when: When


class Reminders:
    """Reminders and jobs of the chat that the turn belongs to, and of no other."""

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        effects: Callable[[], EffectOf],
        *,
        commands: bool,
        mono: Callable[[], float] = boottime,
    ) -> None:
        """`jobs()` opens the store when it is first needed.

        `effects()` gives what looks at a call of another tool, and raises ToolError for one that cannot be made;
        `commands`: whether commands may be run at all; `mono` is the clock of this boot that nobody can set.
        """
        self._jobs = jobs
        self._effects = effects
        self._commands = commands
        self._mono = mono

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        """A command needs what `exec` needs, and when it is planned: nobody can be asked when it is due."""
        action = arguments["action"]
        if action in {"list", "get"}:
            return "read"
        number = arguments["job"] if action in {"update", "enable", "run"} else 0
        known = [job.kind for job in self._jobs().all() if job.number == number] if number else []
        if not arguments["command"].strip() and "command" not in known:
            return "plan"
        if not self._commands:
            raise ToolError('commands are switched off: exec = "off" under [tools] in config.toml')
        return "exec"

    def _vouched(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message says all that a reminder is to tell, and names the one that is meant.

        What is done later by itself, a command or a task for a model, is more than words: it may begin untainted.
        """
        number, message = arguments["job"], arguments["message"]
        old = next((job for job in self._jobs().all() if number and job.number == number), None)
        if old and not (own_words.named(f"{number}", caller) or own_words.named(old.payload, caller)):
            return False
        if arguments["action"] in {"remove", "disable"}:
            return old is not None
        kind = arguments["kind"].strip().lower() or (old.kind if old else "reminder")
        plain = kind == "reminder" and not arguments["command"].strip()
        return plain and (own_words.said(message, caller) if message else old is not None)

    def _means(self, arguments: Mapping[str, Any]) -> str:
        number = arguments["job"] if arguments["action"] != "add" else 0
        known = (job for job in self._jobs().all() if job.number == number) if number else ()
        return next((f"{job.kind} {number} is now: {job.payload}" for job in known), "")

    @tool(effect=_effect, later=_LATER, means=_means, vouched=_vouched)
    def cron(  # noqa: PLR0913, PLR0917 - a model names those that it needs
        self,
        action: Literal["add", "list", "get", "update", "remove", "enable", "disable", "run"],
        caller: Caller,
        message: str = "",
        kind: str = "",
        command: str = "",
        at_seconds: Annotated[float, Span(0, LONGEST_S)] = 0.0,
        at: Annotated[str, "18:30, tomorrow 07:30, 2026-12-01 08:00"] = "",
        every_seconds: Annotated[float, Span(0, LONGEST_S)] = 0.0,
        cron_expr: str = "",
        tz: str = "",
        deliver: str = "",
        late: str = "",
        job: Annotated[int, Span(0, 1_000_000_000)] = 0,
    ) -> str:
        """Keep reminders. add: message and a time; kind turn: a task for you then."""
        if action == "list":
            return self._list(caller)
        when = When(at_seconds, at.strip(), every_seconds, cron_expr.strip(), tz.strip())
        ran = command.strip()
        named: Any = "command" if ran else _word("kind", kind)
        wish = _Wish(named, ran or message.strip(), _word("late", late), _word("deliver", deliver), when)
        if action == "add":
            return self._add(caller, wish)
        old = self._jobs().get(caller.session, job)
        if old is None:
            raise ToolError(f"this chat has no reminder {job}; action list shows them")
        if action in {"update", "enable", "run"}:
            _permit(caller, _worked_in(old, wish))
        elif action != "get" and caller.origin == "guest":
            _permit(caller, old)
        if action == "update":
            return self._update(caller, old, wish)
        acts = {
            "get": self._get,
            "remove": self._remove,
            "enable": self._enable,
            "disable": self._disable,
            "run": self._run,
        }
        return acts[action](caller, old)

    def _list(self, caller: Caller) -> str:
        _heard(caller)
        jobs = sorted(self._jobs().of(caller.session), key=lambda job: (job.plan.kind != "at", job.plan.anchor))
        return "\n".join(row(job, caller.now) for job in jobs) or "no reminders"

    def _add(self, caller: Caller, wish: _Wish) -> str:
        if not wish.payload:
            raise ToolError("message is missing: what to remind of")
        if len(self._jobs().of(caller.session)) >= _MOST_JOBS:
            raise ToolError(f"this chat has {_MOST_JOBS} reminders and jobs already; remove some first")
        job = _worked_in(Job(0, caller.session, "", Plan("at"), wish.kind or "reminder"), wish)
        _permit(caller, job)
        job = timed(self._fit(job, wish), wish.when, caller.now, self._mono(), boot_id())
        job = job._replace(number=self._jobs().add(job))
        return f"{_noun(job)} {job.number} {kept(job, caller.now)}: {job.payload} ({_where(job)})"

    def _update(self, caller: Caller, old: Job, wish: _Wish) -> str:
        if old.kind == "command" and wish.payload and wish.kind != "command":
            raise ToolError(f"job {old.number} runs a command: give command, or remove it and add another")
        when = wish.when
        if when.tz and not when.cron_expr and old.plan.kind == "cron":
            when = when._replace(cron_expr=old.plan.text)
        plain = not any(when)

        def edited(job: Job) -> Job:
            job = self._fit(_worked_in(job, wish), wish)._replace(failures=0, last_error="")
            return job if plain else timed(job, when, caller.now, self._mono(), boot_id())._replace(enabled=True)

        job = self._jobs().change(caller.session, old.number, edited)
        return f"{_noun(old)} {old.number} {kept(job, caller.now)}: {job.payload}" if job else _gone(old)

    def _fit(self, job: Job, wish: _Wish) -> Job:
        """Refuse what could not be done when it is due."""
        if job.kind != "tool":
            return job
        if wish.catch_up == "once":
            raise ToolError("a tool is never called late, it may switch something; leave out late")
        call = called(job.payload)
        effect = self._effects()(call)
        if effect in _NEEDS_A_YES or call.name == "cron" or (call.name == "exec" and effect != "read"):
            raise ToolError(f"{call.name} may need a person's yes, and nobody is there when it is due; plan a reminder")
        return job

    def _get(self, caller: Caller, job: Job) -> str:
        _heard(caller)
        return details(job, caller.now)

    def _remove(self, caller: Caller, job: Job) -> str:
        return (
            f"{_noun(job)} {job.number} is removed" if self._jobs().remove(caller.session, job.number) else _gone(job)
        )

    def _enable(self, caller: Caller, job: Job) -> str:
        """What was missed while it was off is not made up for."""
        if job.plan.kind == "at" and job.plan.anchor <= caller.now.timestamp():
            raise ToolError(f"{_noun(job)} {job.number} was due once; update it with a new time")
        mono, boot = self._mono(), boot_id()
        now = self._jobs().change(caller.session, job.number, lambda job: renewed(job, caller.now, mono, boot))
        return f"{_noun(job)} {job.number} {kept(now, caller.now)}" if now else _gone(job)

    def _disable(self, caller: Caller, job: Job) -> str:
        done = self._jobs().change(caller.session, job.number, lambda job: job._replace(enabled=False))
        return f"{_noun(job)} {job.number} is off until it is enabled" if done else _gone(job)

    def _run(self, caller: Caller, job: Job) -> str:
        """Do it once more, now, beside its plan."""
        plan = Plan("at", anchor=caller.now.timestamp())
        once = Job(0, job.session, job.payload, plan, job.kind, job.catch_up, "always", boot=boot_id())
        number = self._jobs().add(once._replace(mono=self._mono()))
        return f"{_noun(job)} {job.number} is due now, as {number} ({_where(job)})"


_WORDS: dict[str, tuple[str, ...]] = {
    "kind": ("reminder", "turn", "fresh", "tool"),
    "late": get_args(CatchUp),
    "deliver": get_args(Deliver),
}
"""What the plain texts among the arguments may be: spelled out in the definition, they would cost bytes every turn."""


def _word(name: str, text: str) -> Any:
    word = text.strip().lower()
    if word and word not in _WORDS[name]:
        raise ToolError(f"{name} must be one of {', '.join(map(repr, _WORDS[name]))}, not {text[:60]!r}")
    return word


def called(payload: str) -> ToolCall:
    """Read the call that a job makes: the tool's name, and its arguments as JSON."""
    name, _, text = payload.partition(" ")
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {name} are not a JSON object: {text[:60]!r}")
    return ToolCall("job", name, arguments)


def words_run(jobs: Iterable[Job]) -> frozenset[str]:
    """Name the words of the commands that are planned: files among them are run when these are due."""
    commands = (job.payload for job in jobs if job.kind == "command")
    return frozenset(word for line in commands for word in _WORD_OF_SHELL.findall(line))


def _heard(caller: Caller) -> None:
    """Note in a group chat that what is listed may be another person's word; its number is below zero."""
    if ":-" in caller.session:
        caller.heard.add("cron list")


def _permit(caller: Caller, job: Job) -> None:
    """A turn that no person asked for may be led by what it has read, and would go on by itself."""
    if job.kind != "reminder" and not is_owner(caller.origin):
        raise ToolError("only a person can plan jobs; a reminder can be added here")


def _worked_in(job: Job, wish: _Wish) -> Job:
    kind = wish.kind or job.kind
    usual: CatchUp = "once" if kind in {"reminder", "turn", "fresh"} else "skip"
    return job._replace(
        kind=kind,
        payload=wish.payload or job.payload,
        catch_up=wish.catch_up or (usual if kind != job.kind or not job.number else job.catch_up),
        deliver=wish.deliver or job.deliver,
    )


def _noun(job: Job) -> str:
    return "reminder" if job.kind == "reminder" else "job"


def _where(job: Job) -> str:
    return _WHERE[_noun(job), job.session.startswith(_CHANNELS)]


def _gone(job: Job) -> str:
    raise ToolError(f"{_noun(job)} {job.number} was due or removed meanwhile; action list shows them")
