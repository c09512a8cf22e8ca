"""The `cron` tool: reminders, and jobs that ask, run or call something when they are due."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from picoclaw.errors import ToolError
from picoclaw.messages import Caller, ToolCall, is_owner
from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.schema import Span
from picoclaw.slots import Plan, described
from picoclaw.store.jobs import CatchUp, Deliver, Job, Jobs, Kind
from picoclaw.tools import own_words
from picoclaw.tools.command_line import words_of
from picoclaw.tools.job_times import LONGEST_S, When, details, kept, later, moved, renewed, row, shown_rights, timed
from picoclaw.tools.toolset import Effects, tool
from picoclaw.trust.policy import Effect

_MOST_JOBS = 100
_NEEDS_A_YES = {"exec", "actuate", "instruct", "erase"}
_WHERE = {
    (
        "reminder",
        False,
    ): "told in an open interactive `picoclaw chat`, else on Telegram or the page, late if there is none",
    ("job", False): "done while `picoclaw run` or an interactive `picoclaw chat` runs",
    ("reminder", True): "told in this chat",
    ("job", True): "done by `picoclaw run`, and told in this chat",
}
"""What becomes of it in a terminal's chat, and in one of the daemon's channels."""
_CHANNELS = ("telegram:", "page:")
_LATER = {
    *("get", "update", "move", "snooze", "enable", "disable", "run"),
    *("command", "rights", "every_seconds", "tz", "deliver", "late", "job"),
}
_CHANGES = {"update", "move", "snooze", "enable", "run"}
_WORD_OF_SHELL = re.compile(r"[^\s|&;<>()$`\"'=]+")
EffectOf = Callable[[ToolCall], Effect]


class _Wish(NamedTuple):
    """What a job is to be; empty is what was not said. `write` and `network` are what its command may do."""

    kind: Kind | Literal[""]
    payload: str
    catch_up: CatchUp | Literal[""]
    deliver: Deliver | Literal[""]
    when: When
    write: bool = False
    network: bool = False


def _when(arguments: Mapping[str, Any]) -> When:
    at, cron_expr, tz = (arguments[name].strip() for name in ("at", "cron_expr", "tz"))
    return When(arguments["at_seconds"], at, arguments["every_seconds"], cron_expr, tz)


class Reminders:
    """Reminders and jobs of the chat that the turn belongs to, and of no other."""

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        effects: Callable[[], EffectOf],
        *,
        commands: bool,
        shell: bool = False,
        mono: Callable[[], float] = boottime,
    ) -> None:
        """`jobs()` opens the store when it is first needed.

        `effects()` gives what looks at a call of another tool, and raises ToolError for one that cannot be made;
        `commands`: whether commands may be run at all, `shell`: also a line of shell; `mono` is the clock of this boot
        that nobody can set.
        """
        self._jobs = jobs
        self._effects = effects
        self._commands, self._shell = commands, shell
        self._mono = mono

    def _effects_of(self, arguments: Mapping[str, Any]) -> Effects:
        """A command needs what `exec` needs, and when it is planned: nobody can be asked when it is due."""
        action = arguments["action"]
        if action in {"list", "get"}:
            return ("read",)
        number = arguments["job"] if action in _CHANGES else 0
        known = next((job for job in self._jobs().all() if job.number == number), None) if number else None
        line, kind = arguments["command"].strip(), arguments["kind"].strip().lower() or (known.kind if known else "")
        message = arguments["message"].strip() or (known.payload if known else "")
        if action in {"add", *_CHANGES} and not line and kind == "tool":
            if message.partition(" ")[0] != "exec":
                return ("plan",)
            self._fit(Job(0, "", message, Plan("at"), "tool", "skip"), _Wish("tool", "", "", "", When()))
            return ("exec_planned",)
        if not line and (known is None or known.kind != "command"):
            return ("plan",)
        if not self._commands:
            raise ToolError('commands are switched off: exec = "off" under [tools] in config.toml')
        if line:
            words_of((), line, shell=self._shell)
        job = known if known and not line else None
        write, network = (job.write, job.network) if job else _rights(arguments["rights"])
        changes: Effects = ("exec",) if write else ()
        reaches: Effects = ("network", "exec_network") if network else ()
        return ("exec_planned", *changes, *reaches)

    def _vouched(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message says what a reminder is to tell, and orders just this of the one it names.

        What is done later by itself, a command or a task for a model, is more than words: it may begin untainted.
        """
        action, number, message = arguments["action"], arguments["job"], arguments["message"]
        kind, when = arguments["kind"].strip().lower() or "reminder", _when(arguments)
        more = any(arguments[name].strip() for name in ("command", "deliver", "late", "rights")) or kind != "reminder"
        if action == "add":
            return not more and own_words.is_reminder(message, when, caller)
        old = next((job for job in self._jobs().all() if number and job.number == number), None)
        new = own_words.ordered(action, "job", number, [old.payload], caller) if old else None
        if old is None or new is None:
            return False
        if action not in {"update", "move", "snooze"}:
            return action in {"remove", "disable"} or (old.kind == "reminder" and not more)
        if more or old.kind != "reminder" or (message and any(when)):
            return False
        return own_words.is_text(message, new) if message else own_words.is_time(new, when, caller.now)

    def _means(self, arguments: Mapping[str, Any]) -> str:
        number = arguments["job"] if arguments["action"] != "add" else 0
        known = (job for job in self._jobs().all() if job.number == number) if number else ()
        was = next((f"{job.kind} {number} is now: {job.payload}{shown_rights(job)}" for job in known), "")
        if not arguments["command"].strip():
            return was
        write, network = _rights(arguments["rights"])
        can = ["change files in the workspace"] * write + ["use the network, your own included"] * network
        said = f"run this line whenever it is due, unasked; it may {' and '.join(can) or 'only look'}"
        return "; ".join(filter(None, [was, said]))

    @tool(effect=_effects_of, later=_LATER, means=_means, vouched=_vouched)
    def cron(
        self,
        action: Literal["add", "list", "get", "update", "remove", "move", "snooze", "enable", "disable", "run"],
        caller: Caller,
        message: str = "",
        kind: str = "",
        command: str = "",
        at_seconds: Annotated[float, Span(0, LONGEST_S)] = 0.0,
        at: Annotated[str, "18:30, tomorrow 07:30"] = "",
        every_seconds: Annotated[float, Span(0, LONGEST_S)] = 0.0,
        cron_expr: str = "",
        tz: str = "",
        deliver: str = "",
        late: str = "",
        job: Annotated[int, Span(0, 1_000_000_000)] = 0,
        rights: str = "",
    ) -> str:
        """Keep reminders. add: message, time; kind turn: a task then."""
        if action == "list":
            return self._list(caller)
        when = _when(locals())
        ran = command.strip()
        named: Any = "command" if ran else _word("kind", kind)
        told = _word("late", late), _word("deliver", deliver)
        wish = _Wish(named, ran or message.strip(), *told, when, *_rights(rights))
        if action == "add":
            return self._add(caller, wish)
        old = self._jobs().get(caller.session, job)
        if old is None:
            raise ToolError(f"this chat has no reminder {job}; {_LISTED}")
        if action in _CHANGES:
            _permit(caller, _worked_in(old, wish))
        elif action != "get" and caller.origin == "guest":
            _permit(caller, old)
        if action == "snooze":
            return self._snooze(caller, old, at_seconds)
        if action == "move":
            wish = _Wish("", "", "", "", moved(old, when, caller.now))
        if action in {"update", "move"}:
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

    def _snooze(self, caller: Caller, old: Job, seconds: float) -> str:
        """Make one that is due once later, by so long than it is due or, if that is past, than now.

        A reminder that repeats keeps its times, and comes once more.
        """
        if old.plan.kind != "at" and old.kind == "reminder" and seconds:
            return self._once_more(caller, old, seconds)
        if old.plan.kind != "at":
            raise ToolError(
                f"{_noun(old)} {old.number} repeats, {described(old.plan)}, and was left as it is; give it other times,"
                f" as in: move {_noun(old)} {old.number} to every day at 8"
            )
        if not seconds:
            raise ToolError("how long is missing: give at_seconds, which must be more than 0")
        mono, boot = self._mono(), boot_id()
        job = self._jobs().change(
            caller.session, old.number, lambda job: later(job, seconds, caller.now, mono, boot)._replace(enabled=True)
        )
        return f"{_noun(old)} {old.number} {kept(job, caller.now)}: {job.payload}" if job else _gone(old)

    def _once_more(self, caller: Caller, old: Job, seconds: float) -> str:
        """Tell one that repeats once more, so much later than now, beside its plan."""
        if len(self._jobs().of(caller.session)) >= _MOST_JOBS:
            raise ToolError(f"this chat has {_MOST_JOBS} reminders and jobs already; remove some first")
        once = Job(0, old.session, old.payload, Plan("at"), "reminder", old.catch_up, old.deliver)
        once = timed(once, When(at_seconds=seconds), caller.now, self._mono(), boot_id())
        once = once._replace(number=self._jobs().add(once))
        return (
            f"reminder {old.number} repeats and keeps its times ({described(old.plan)}); it comes once more as reminder"
            f" {once.number}, which {kept(once, caller.now)}: {old.payload}"
        )

    def _fit(self, job: Job, wish: _Wish) -> Job:
        """Refuse what could not be done when it is due."""
        if job.kind == "command":
            words_of((), job.payload, shell=self._shell)
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
        number = self._jobs().add(once._replace(mono=self._mono(), write=job.write, network=job.network))
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


def _rights(text: str) -> tuple[bool, bool]:
    """Read what a planned command may do: write, network, both, or neither."""
    given = set(text.lower().replace(",", " ").split())
    if unknown := given - {"write", "network"}:
        raise ToolError(f"rights must be 'write', 'network', 'write network' or nothing, not {min(unknown)[:60]!r}")
    return "write" in given, "network" in given


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
    commands = [job.payload for job in jobs if job.kind == "command"]
    return frozenset(word for line in commands for word in (*_WORD_OF_SHELL.findall(line), *_quoted(line)))


def _quoted(line: str) -> list[str]:
    """Name the words of a line as a shell reads them: a name in quotes may have a space in it."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _heard(caller: Caller) -> None:
    """Note in a group chat that what is listed may be another person's word; its number is below zero."""
    if ":-" in caller.session:
        caller.heard.add("cron list")


_LISTED = '`picoclaw cron list`, or "list my reminders" in the chat, shows what there is'


def _permit(caller: Caller, job: Job) -> None:
    """A turn that no person asked for may be led by what it has read, and would go on by itself."""
    if job.kind != "reminder" and not is_owner(caller.origin):
        raise ToolError(
            "only the owner can plan jobs, in their own chat or by `picoclaw cron add`; a reminder can be added here"
        )


def _worked_in(job: Job, wish: _Wish) -> Job:
    kind = wish.kind or job.kind
    usual: CatchUp = "once" if kind in {"reminder", "turn", "fresh"} else "skip"
    anew = kind == "command" and bool(wish.payload)
    return job._replace(
        kind=kind,
        write=wish.write if anew else job.write,
        network=wish.network if anew else job.network,
        payload=wish.payload or job.payload,
        catch_up=wish.catch_up or (usual if kind != job.kind or not job.number else job.catch_up),
        deliver=wish.deliver or job.deliver,
    )


def _noun(job: Job) -> str:
    return "reminder" if job.kind == "reminder" else "job"


def _where(job: Job) -> str:
    return _WHERE[_noun(job), job.session.startswith(_CHANNELS)]


def _gone(job: Job) -> str:
    raise ToolError(f"{_noun(job)} {job.number} was due or removed meanwhile; {_LISTED}")
