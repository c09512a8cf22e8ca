"""The `exec` tool: runs a program within walls of the kernel's own, with a time limit that takes everything along."""

import contextlib
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from picoclaw.disk import explain
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, Stop
from picoclaw.sandbox.running import LOST, Running, SandboxMissing, end_all, start
from picoclaw.sandbox.walls import Ground, Wish, environment
from picoclaw.schema import Span
from picoclaw.tools import background as commands
from picoclaw.tools.background import Process, Processes
from picoclaw.tools.command_line import words_of
from picoclaw.tools.toolset import Effects, tool
from picoclaw.trust.policy import Effect

_LONGEST_S, _LONGEST_BEHIND_S = 600, 86_400
_IN_PERSON = frozenset({"owner", "web", "guest"})
_HINTS = (
    ("write", "Read-only file system", "it could change nothing: write=true lets it change the workspace"),
    ("network", "ame resolution", "it had no network: network=true gives it one"),
    ("network", "Network is unreachable", "it had no network: network=true gives it one"),
    ("network", "ould not resolve host", "it had no network: network=true gives it one"),
)
_DEVICES = "no device is shown to commands, whether it is there or not"


class Shell:
    """Runs commands that see the system and the workspace, without the agent's secrets, home, devices or network."""

    def __init__(
        self,
        workspace: Path,
        ours: Mapping[str, str],
        *,
        folders: Sequence[str] = (),
        shell: bool = False,
        kept: Callable[[], Iterable[Path]] = lambda: (),
    ) -> None:
        """`ours` is our environment, of which next to nothing is passed on; the workspace lies in picoclaw's home.

        `folders` are further ones that may be worked in; `shell`: whether a line of shell may be run; `kept()` are
        the pages of the workspace that no command changes.
        """
        extra = tuple(Path(folder).expanduser() for folder in folders)
        self._ground = Ground(workspace.parent, workspace, Path(ours.get("HOME") or "/"), extra, kept)
        self._environment = environment(ours)
        self._shell = shell
        self._processes = Processes()

    def _wish(self, arguments: Mapping[str, Any]) -> Wish:
        """Read what is wanted; raises ToolError for what cannot be done."""
        words = words_of(arguments["argv"] or (), arguments["command"], shell=self._shell)
        seconds = arguments["timeout"]
        if seconds > _LONGEST_S and not arguments["background"]:
            raise ToolError(f"timeout is over {_LONGEST_S}: give background=true, and look at it with process")
        try:
            cwd = (self._ground.workspace / Path(arguments["cwd"] or ".")).resolve()
        except (OSError, RuntimeError, ValueError):  # a ring of links, a NUL, a name that is too long
            raise ToolError(f"cwd {arguments['cwd'][:100]!r} leads nowhere; leave it out for the workspace") from None
        if not self._ground.shows(cwd):
            raise ToolError(f"cwd {cwd} is out of reach of commands; leave it out for the workspace")
        if not os.path.isdir(cwd):  # noqa: PTH112 - is_dir raises for long names
            raise ToolError(f"cwd {cwd} is no folder")
        return Wish(words, cwd, seconds, arguments["write"], arguments["network"])

    def _effect(self, arguments: Mapping[str, Any]) -> Effects:
        """Without write and network the kernel lets nothing be changed, whatever is run."""
        return _does(self._wish(arguments))

    def _means(self, arguments: Mapping[str, Any]) -> str:
        wish = self._wish(arguments)
        rights = ["change files in the workspace"] * wish.write + ["use the network, your own included"] * wish.network
        line = ", as a line of shell" if wish.argv[:2] == ("/bin/sh", "-c") else ""
        return f"run {wish.argv[0]} in {wish.cwd}{line}; it may {' and '.join(rights)}, for {wish.seconds:g} s at most"

    def _binds(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind where it runs, with which variables, and what is in the files that it names."""
        wish = self._wish(arguments)
        bound = {"in": str(wish.cwd), "environment": shlex.join(f"{k}={v}" for k, v in self._environment.items())}
        for word in wish.argv:
            for part in {word, word.rpartition("=")[2]}:
                path = Path(os.path.realpath(wish.cwd / part))  # Path.resolve() fails for a ring of links
                if self._ground.works_in(path) and os.path.isfile(path):  # noqa: PTH113 - and is_file() for a long word
                    bound[f"sha256 of {path}"] = _checksum(path)
        return bound

    @tool(
        effect=_effect,
        brings=True,
        means=_means,
        binds=_binds,
        opens=("process",),
        later=("timeout", "cwd", "stdin", "background", "command"),
    )
    def exec(  # noqa: PLR0913 - a model names those that it needs
        self,
        argv: list[str] | None = None,
        *,
        write: bool = False,
        network: bool = False,
        timeout: Annotated[float, Span(0.1, _LONGEST_BEHIND_S), "seconds"] = 30,
        cwd: str = "",
        stdin: str = "",
        background: Annotated[bool, "go on at once; `process` looks at it"] = False,
        command: Annotated[str, "a line instead of argv"] = "",
        caller: Caller | None = None,
    ) -> str:
        """Run a program without a shell. It can only read; write=true: change the workspace."""
        wish = self._wish(locals())
        if background:
            return self._go_on(wish, stdin, caller)
        stop = caller.stop if caller else Stop()
        with _Signals() as signals:
            running = self._begin(wish, stdin)
            try:
                signals.deliver()
                with _ended_by(stop, running):
                    finished = running.collect(time.monotonic() + wish.seconds)
            finally:
                running.close()
        return _told(wish, running.output.take(), running.code, finished=finished)

    def _begin(self, wish: Wish, given: str | None) -> Running:
        if not self._ground.workspace.is_dir():
            raise ToolError(f"{self._ground.workspace} is not there: picoclaw init makes it")
        try:
            return start(wish, self._ground, self._environment, given)
        except (OSError, ValueError) as error:
            why = explain(error) if isinstance(error, OSError) else error
            raise ToolError(f"the command could not be started: {why}") from None

    def _go_on(self, wish: Wish, given: str, caller: Caller | None) -> str:
        if caller is None or caller.origin not in _IN_PERSON or caller.depth:
            raise ToolError("only a person's chat runs commands in the background: leave out background")
        process = Process(0, caller.session, shlex.join(wish.argv), _does(wish), wish.seconds)
        self._processes.begin(process, lambda: self._begin(wish, None))
        if given:
            commands.write(process, given, end=False)
        return f"command {process.number} runs for {wish.seconds:g} s at most; process looks at it, writes and ends it"

    def _process_effect(self, arguments: Mapping[str, Any]) -> Effects:
        """What is written to a command is done by it."""
        return self._processes.effects(arguments["number"]) if arguments["action"] == "write" else ("read",)

    def _written_to(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        return self._processes.bound(arguments["number"])

    @tool(effect=_process_effect, brings=True, binds=_written_to)
    def process(
        self,
        action: Literal["list", "poll", "write", "kill"],
        caller: Caller,
        number: Annotated[int, Span(0, 1_000_000_000)] = 0,
        text: Annotated[str, "a line"] = "",
        *,
        eof: Annotated[bool, "no more comes"] = False,
        wait: Annotated[float, Span(0, 60), "seconds"] = 0,
    ) -> str:
        """Look after commands in the background: poll shows what is new."""
        if action == "list":
            own = self._processes.of(caller.session)
            return "\n".join(f"{one.number}: {one.shown[:200]} [{one.state()}]" for one in own) or "none"
        one = self._processes.get(caller.session, number)
        if action == "write":
            return commands.write(one, text, end=eof)
        if action == "kill":
            return commands.kill(one)
        return commands.look(one, wait, caller.stop)


def _does(wish: Wish) -> Effects:
    found: list[Effect] = ["network"] * wish.network
    found += ["exec"] * wish.write
    return tuple(found) or ("read",)


def end_commands() -> None:
    """End every command that another thread runs, with all that it holds: nobody would be there to time it."""
    end_all()


def passed_on(ours: Mapping[str, str]) -> dict[str, str]:
    """Make of our environment what a command has as its own."""
    return environment(ours)


def _checksum(path: Path) -> str:
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {explain(error)}") from None


def _told(wish: Wish, said: str, code: int, *, finished: bool) -> str:
    """Show what came of a command, and what it lacked."""
    if code == LOST:
        raise SandboxMissing("the service that runs commands ended without a word: `picoclaw service install` mends it")
    if said.startswith("bwrap: ") and code:
        raise SandboxMissing(f"the sandbox could not be made: {said.splitlines()[0]}; `picoclaw doctor` says more")
    if not finished:
        return (
            f"{said}[stopped after {wish.seconds:g} s, with everything that it had started; a longer timeout"
            f" (up to {_LONGEST_S}) may help]"
        )
    hints = [hint for right, sign, hint in _HINTS if code and sign in said and not getattr(wish, right)]
    hints += [_DEVICES] if code and re.search(r"/dev/(?!shm/)[^\n]{1,99}: No such file", said) else []
    return f"{said}[exit code {code}{''.join(f'; {hint}' for hint in hints[:1])}]"


class _Signals:
    """Holds back what would interrupt the start of a command, and leave it running without anybody who knows it."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._held: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if callable(handler := signal.getsignal(number)):
                    self._before[number] = handler
                    signal.signal(number, lambda which, _: self._held.append(which))
        return self

    def __exit__(self, *_: object) -> None:
        self.deliver()

    def deliver(self) -> None:
        """Let them come again, and give those that came meanwhile."""
        while self._before:
            signal.signal(*self._before.popitem())
        while self._held:
            signal.raise_signal(self._held.pop())


@contextlib.contextmanager
def _ended_by(stop: Stop, running: Running) -> Iterator[None]:
    """Give the word to stop power over a command, also when it was said while the command started."""
    with stop.ends(running.kill):
        if stop:
            running.kill()
        yield
