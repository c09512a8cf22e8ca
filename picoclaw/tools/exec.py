"""The `exec` and `process` tools: commands in a sandbox, with a time limit, also in the background."""

import contextlib
import errno
import os
import re
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from picoclaw.errors import PicoclawError, ToolError
from picoclaw.files import explain_os_error
from picoclaw.hw.reading import UNITS
from picoclaw.messages import Caller, Stop
from picoclaw.schema import Span
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.security.sandbox import (
    LOST_EXIT_CODE,
    SANDBOX_PATH,
    RunningCommand,
    SandboxCommand,
    SandboxLayout,
    SandboxMissing,
    build_environment,
    is_self_contained,
    is_system_output,
    start_command,
)
from picoclaw.security.untrusted import is_known_text, is_plain_name
from picoclaw.text import pattern
from picoclaw.tools.registry import Effects, tool

if TYPE_CHECKING:
    from picoclaw.store.inbox_outbox import ForeignFile


_MAX_RUNNING, _MAX_FINISHED_KEPT = 8, 20
_KILL_TIMEOUT_S = 5.0


class BackgroundCommand:
    """A command of one chat; `mark` tells it from a command of the same number after a restart."""

    def __init__(self, request: SandboxCommand, session: str) -> None:
        self.number, self.request, self.session = 0, request, session
        self.shown = shlex.join(request.argv)
        self.running: RunningCommand | None = None
        self.problem = self.outcome = ""
        self.mark = os.urandom(8).hex()
        self.changed = threading.Event()

    def state(self) -> str:
        return self.outcome or "runs"

    def poll(self, seconds: float, stop: Stop) -> str:
        """The new output and the state, after `seconds` at the latest."""
        with stop.ends(self.changed.set):
            if not stop:
                self.changed.wait(seconds)
            if not self.outcome:
                self.changed.clear()
        said = self.running.output.take() if self.running else ""
        return f"{said}[{self.state()}]"

    def write(self, text: str, *, end: bool) -> str:
        """Write a line to its input, with `end` the last one. Raises ToolError."""
        running = self.running
        if self.outcome or running is None or running.stdin < 0:
            raise ToolError(f"command {self.number} reads nothing any more: {self.outcome or 'its input has ended'}")
        data = (text if not text or text.endswith("\n") else text + "\n").encode()
        os.set_blocking(running.stdin, False)
        try:
            taken = os.write(running.stdin, data) if data else 0
        except (BlockingIOError, BrokenPipeError):
            raise ToolError(f"command {self.number} does not read what is written to it") from None
        if taken < len(data):
            raise ToolError(f"only {taken} of {len(data)} bytes were read")
        if end:
            running.close_stdin()
        return f"{taken} bytes written"

    def kill(self) -> str:
        """Kill it with everything that it has started."""
        if self.running and not self.outcome:
            self.changed.clear()
            self.running.kill()
            self.changed.wait(_KILL_TIMEOUT_S)
        return self.state()


# Reads a command that a model wrote: a list of words, or a line without anything that only a shell understands.

_QUOTED = pattern(r"'[^']*'|\"(?:\\.|[^\"\\$`])*\"|\\.", re.DOTALL)
_SYNTAX = pattern(r"[|&;<>()$`\n\"'*]|\[|(?<!\S)[#~!]|\{[^{}\s,.]*[,.][^{}\s]*\}|(?<![:/\w])\?|^\s*\w+=")
_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"}
_WANTS_SHELL = "a line of shell is run with shell = true under [tools] in config.toml, the owner's to set"
_INSTEAD = "give argv, a program and its arguments; several commands are several calls"


def parse_command(argv: Sequence[str], line: str, *, shell: bool) -> tuple[str, ...]:
    """The words to run; a shell line becomes `sh -c` where the owner allows it. Raises ToolError."""
    line = line.strip()
    if bool(argv) == bool(line):
        raise ToolError(
            "argv is missing: a program and its arguments" if not argv else "give argv or command, not both"
        )
    words: tuple[str, ...] = tuple(argv)
    if len(words) == 1 and re.search(r"\s", words[0].strip()):
        line, words = words[0].strip(), ()  # a whole command in one word
    if "\0" in line or any("\0" in word for word in words):
        raise ToolError("the command holds a NUL character")
    found = words or _split_line(line, shell=shell)
    if not found or not found[0].strip():
        raise ToolError("argv is missing: a program and its arguments")
    if not shell and _is_shell_line(found):
        raise ToolError(f"{found[0]} -c: {_WANTS_SHELL}; {_INSTEAD}")
    return found


def _split_line(line: str, *, shell: bool) -> tuple[str, ...]:
    syntax = _SYNTAX.search(_QUOTED.sub("q", line))
    if shell and (syntax or not shutil.which(line.split(maxsplit=1)[0], path=SANDBOX_PATH)):
        return ("/bin/sh", "-c", line)  # such as `cd` and `exit`, which are no programs
    if syntax:
        raise ToolError(
            f"command holds what only a shell understands ({syntax[0].strip()!r}): {_INSTEAD}; {_WANTS_SHELL}"
        )
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ToolError(f"command cannot be taken apart: {error}; {_INSTEAD}") from None


def _is_shell_line(words: Sequence[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name not in _SHELLS:
        return False
    value = False
    for word in words[1:]:
        if not value and word[:1] not in {"-", "+"}:
            return False  # a script; what comes after it is the script's own affair
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return True
        value = not value and bool(re.fullmatch(r"[-+][a-zA-Z]*[oO]", word))
    return False


# The `exec` tool: runs a program in a sandbox; its time limit ends everything that it has started.

_MAX_TIMEOUT_S, _MAX_BACKGROUND_S = 600, 86_400
_IN_PERSON = frozenset({"owner", "web", "member", "guest"})
_HINTS = (
    ("write", "Read-only file system", "it could change nothing: write=true lets it change the workspace"),
    ("network", "ame resolution", "it had no network: network=true gives it one"),
    ("network", "Network is unreachable", "it had no network: network=true gives it one"),
    ("network", "ould not resolve host", "it had no network: network=true gives it one"),
)
_ERRORS = tuple(map(os.strerror, errno.errorcode))
_PHRASES = {
    "": "total / cannot access / cannot create directory / cannot remove / cannot stat / missing operand / execvp",
    "git": """\
On branch main / On branch master / main (root-commit) / master (root-commit) / main / master / HEAD
No commits yet / nothing to commit, working tree clean / no changes added to commit
Switched to a new branch / Switched to branch / create mode / delete mode / mode change
nothing added to commit but untracked files present (use "git add" to track) / Untracked files:
no changes added to commit (use "git add" and/or "git commit -a")
Changes to be committed: / Changes not staged for commit:
(use "git add <file>..." to update what will be committed)
(use "git add <file>..." to include in what will be committed) / (use "git rm --cached <file>..." to unstage)
(use "git restore <file>..." to discard changes in working directory)
(use "git restore --staged <file>..." to unstage)
new file: / modified: / deleted: / renamed: / file changed / files changed / insertions(+) / deletions(-)
insertion(+) / deletion(-)""",
    "python": """\
Traceback (most recent call last): / File / line / in <module> / AssertionError: / NameError: name
is not defined / passed in / failed in / Ran tests in / OK""",
}
"""What usual programs say themselves, beside numbers and the names that they are given; '' for all programs.

Phrases are separated by slashes and line ends.
"""

_SHOWS_FILES = frozenset({"show", "diff", "log", "grep", "blame", "cat-file", "whatchanged", "reflog", "stash"})
"""What of git prints what is in files, and what others have written of them."""
_MODE = pattern(r"[bcdlps-][rwxsStT-]{9}[.+]?")
_MONTHS = frozenset(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
_LONG_LISTING = pattern(r"^[bcdlps-][rwx-]{9}", re.MULTILINE)
_DIGESTS = frozenset({"sha1sum", "sha224sum", "sha256sum", "sha512sum", "md5sum", "b2sum"})
_DIGEST = pattern(r"[0-9a-f]{7,128}")
_STATES = frozenset({"A", "M", "D", "R", "AM", "AD", "MM", "MD", "RM", "??"})
_STARTERS = frozenset({"execvp", "bwrap", "prlimit", "env", "sh", "/bin/sh"})
_MAX_FOLDER_NAMES, _MAX_PATH_CHARS = 2000, 1000
_MAX_FILES_NAMED = 20
_DEVICES = "no device is shown to commands, whether it is there or not"


class ExecTools:
    """Runs commands that see the system and the workspace, but no secrets, home, devices or network."""

    def __init__(
        self,
        workspace: Path,
        ours: Mapping[str, str],
        *,
        home: Path | None = None,
        folders: Sequence[str] = (),
        shell: bool = False,
        environ: Sequence[str] = (),
        kept: Callable[[], Iterable[Path]] = lambda: (),
        foreign: Callable[[], Sequence["ForeignFile"]] = tuple,
    ) -> None:
        """`home` is picoclaw's, the folder of the workspace unless given. `ours` is our environment, of which `environ` names what commands inherit besides the locale.

        `folders` are further working folders; `shell`: whether shell lines may be run; `kept()` are read-only files of the
        workspace, `foreign()` the files written by tainted turns.
        """
        extra = tuple(Path(folder).expanduser() for folder in folders)
        self._layout = SandboxLayout(home or workspace.parent, workspace, Path(ours.get("HOME") or "/"), extra, kept)
        self._environment, self._passed_names = build_environment(ours, environ), frozenset(environ)
        self._shell, self._foreign = shell, foreign
        self._background: dict[int, BackgroundCommand] = {}
        self._last_number = 0

    def _parse(self, arguments: Mapping[str, Any]) -> SandboxCommand:
        """Parse the arguments; raises ToolError for what cannot be done."""
        words = parse_command(arguments["argv"] or (), arguments["command"], shell=self._shell)
        seconds = arguments["timeout"]
        if seconds > _MAX_TIMEOUT_S and not arguments["background"]:
            raise ToolError(f"timeout is over {_MAX_TIMEOUT_S}: give background=true, and look at it with process")
        try:
            cwd = (self._layout.workspace / Path(arguments["cwd"] or ".")).resolve()
        except (OSError, RuntimeError, ValueError):  # a ring of links, a NUL, a name that is too long
            raise ToolError(f"cwd {arguments['cwd'][:100]!r} leads nowhere; leave it out for the workspace") from None
        if not self._layout.is_visible(cwd):
            raise ToolError(f"cwd {cwd} is out of reach of commands; leave it out for the workspace")
        if not os.path.isdir(cwd):  # noqa: PTH112 - is_dir raises for long names
            raise ToolError(f"cwd {cwd} is no folder")
        return SandboxCommand(words, cwd, seconds, arguments["write"], arguments["network"])

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        request = self._parse(arguments)
        rights = describe_rights(write=request.write, network=request.network)
        line = ", as a line of shell" if request.argv[:2] == ("/bin/sh", "-c") else ""
        return f"run {request.argv[0]} in {request.cwd}{line}; it may {rights}, for {request.seconds:g} s at most"

    def _is_untrusted_output(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Whether the output may be somebody's text rather than the system's or ours."""
        if not good or arguments["background"]:
            return False
        request = self._parse(arguments)
        return not (is_system_output(request.argv) or self._is_known(request, result, caller.model_texts))

    def _is_known(self, request: SandboxCommand, result: str, written: Sequence[str]) -> bool:
        """Whether an output holds only what the model has written, file names, and usual phrases of programs."""
        program, *rest = request.argv
        output = result.rpartition("[")[0]
        is_git = program == "git" and ("--stat" in rest or _SHOWS_FILES.isdisjoint(rest))
        kind = "git" if is_git else "python" if program.startswith("py") else ""
        names = set()
        with contextlib.suppress(OSError), os.scandir(request.cwd) as entries:
            plain = (entry.name for entry in entries if is_plain_name(entry.name))
            names = set(islice(plain, _MAX_FOLDER_NAMES))
        owners = _list_users() if _LONG_LISTING.search(output) else ()

        def is_word(text: str) -> bool:
            if _MODE.fullmatch(text) or text in _MONTHS or text in owners or (is_git and text in _STATES):
                return True
            return bool((is_git or program in _DIGESTS) and _DIGEST.fullmatch(text))

        def is_name(text: str) -> bool:
            return text in names or any(_is_file(root, text) for root in (request.cwd, self._layout.workspace))

        usual = re.split(r" / |\n", f"{_PHRASES['']}\n{_PHRASES[kind]}")
        phrases = [*_ERRORS, *usual, *(rest if is_git else ())]
        lines = (line for line in output.splitlines() if not _is_system_error(line, request.argv))
        return is_known_text("\n".join(lines), phrases, written, is_word, is_name, UNITS)

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's newest message orders just this command."""
        plain = not (arguments["network"] or arguments["stdin"] or arguments["background"] or arguments["cwd"])
        return plain and orders.is_ordered_command(self._parse(arguments).argv, caller)

    def _is_private(self, arguments: Mapping[str, Any]) -> bool:
        """A command that only reads runs unasked; the owner is asked about one with more rights."""
        return not (arguments.get("write") or arguments.get("network"))

    def _bind_exec(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind the working folder, the environment, and the contents of files that the command names."""
        request = self._parse(arguments)
        shown = [name if name in self._passed_names else f"{name}={value}" for name, value in self._environment.items()]
        bound = {"in": str(request.cwd), "environment": shlex.join(shown)}
        for word in request.argv:
            for part in {word, word.rpartition("=")[2]}:
                path = Path(os.path.realpath(request.cwd / part))  # Path.resolve() fails for a ring of links
                if self._layout.is_writable(path) and os.path.isfile(path):  # noqa: PTH113 - and is_file() for a long word
                    bound[f"sha256 of {path}"] = _checksum(path)
        return bound | bind_foreign_files(self._list_foreign_files(request))

    def _describe_foreign(self, request: SandboxCommand | None = None) -> list[str]:
        return list(map(_describe_foreign_file, self._list_foreign_files(request)))

    def _list_foreign_files(self, request: SandboxCommand | None = None) -> "list[ForeignFile]":
        """List the files of tainted turns that a command could run.

        A command that runs no other code is judged by the files that it names, git also by its hooks and settings.
        """
        seen = [one for one in self._foreign() if os.path.lexists(one.path) and self._layout.is_visible(Path(one.path))]
        if not seen or request is None or not is_self_contained(request.argv):
            return seen
        named = [Path(os.path.realpath(request.cwd / word)) for word in request.argv[1:]]
        found = []
        for one in seen:
            real = Path(os.path.realpath(one.path))
            if request.argv[0] == "git":
                is_run = real in named or _may_be_code(Path(one.path))
            else:
                is_run = any(real.is_relative_to(path) for path in named)
            found += [one] * is_run
        return found

    @tool(
        effect=lambda self, arguments: _list_effects(self._parse(arguments)),
        brings=_is_untrusted_output,
        means=_explain,
        binds=_bind_exec,
        is_requested=_is_requested,
        private=_is_private,
        foreign_files=lambda self, arguments: self._describe_foreign(self._parse(arguments)),
    )
    def exec(
        self,
        argv: list[str] | None = None,
        *,
        write: Annotated[bool, "may change the workspace"] = False,
        network: bool = False,
        timeout: Annotated[float, Span(0.1, _MAX_BACKGROUND_S), "seconds, default 30"] = 30,
        cwd: str = "",
        stdin: str = "",
        background: Annotated[bool, "return at once; see process"] = False,
        command: Annotated[str, "a line instead of argv"] = "",
        caller: Caller | None = None,
    ) -> str:
        """Run a program, without a shell. By default it can only read: no changes, no network."""
        request = self._parse(locals())
        if background:
            return self._start_in_background(request, stdin, caller)
        stop = caller.stop if caller else Stop()
        with _hold_signals() as deliver_signals:
            running = self._start(request, stdin)
            try:
                deliver_signals()
                with stop.ends(running.kill):
                    if stop:  # it came during the start
                        running.kill()
                    finished = running.wait(time.monotonic() + request.seconds)
            finally:
                running.close()
        return _format_result(request, running.output.take(), running.exit_code, finished=finished)

    def _start(self, request: SandboxCommand, given: str | None) -> RunningCommand:
        if not self._layout.workspace.is_dir():
            raise ToolError(f"{self._layout.workspace} is not there: picoclaw init makes it")
        try:
            return start_command(request, self._layout, self._environment, given)
        except (OSError, ValueError) as error:
            why = explain_os_error(error) if isinstance(error, OSError) else error
            raise ToolError(f"the command could not be started: {why}") from None

    def _start_in_background(self, request: SandboxCommand, given: str, caller: Caller | None) -> str:
        if caller is None or caller.origin not in _IN_PERSON or caller.depth:
            raise ToolError("only a person's chat runs commands in the background: leave out background")
        known = self._background
        if sum(not one.outcome for one in known.values()) >= _MAX_RUNNING:
            raise ToolError(f"{_MAX_RUNNING} commands run in the background already: kill one with process")
        for number in [n for n, one in known.items() if one.outcome][: max(len(known) - _MAX_FINISHED_KEPT, 0)]:
            del known[number]
        process, begun = BackgroundCommand(request, caller.session), threading.Event()
        threading.Thread(target=self._supervise, args=(process, begun), name="command", daemon=True).start()
        begun.wait()
        if process.problem:
            raise ToolError(process.problem)
        self._last_number += 1
        process.number = self._last_number
        known[process.number] = process
        if given:
            process.write(given, end=False)
        return (
            f"command {process.number} runs for {request.seconds:g} s at most; process looks at it, writes and ends it"
        )

    def _supervise(self, process: BackgroundCommand, begun: threading.Event) -> None:
        """Start a command, collect its output, end it. The kernel kills it when this thread ends."""
        try:
            running = process.running = self._start(process.request, None)
        except (PicoclawError, OSError) as error:
            process.problem = f"the command could not be started: {error}"
            return
        finally:
            begun.set()
        in_time = running.wait(time.monotonic() + process.request.seconds)
        code = running.close()
        process.outcome = f"ended with exit code {code}" if in_time else f"stopped after {process.request.seconds:g} s"
        process.changed.set()

    def _get_process_effects(self, arguments: Mapping[str, Any]) -> Effects:
        """Writing to a command has the effects of the command."""
        found = self._background.get(arguments["number"])
        return _list_effects(found.request) if found and arguments["action"] == "write" else ("read",)

    def _bind_process(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        found = self._background.get(arguments["number"])
        bound = {"to the command": found.shown, "as it was started": found.mark} if found else {}
        return bound | bind_foreign_files(self._list_foreign_files())

    def _is_untrusted_poll(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        if not good or arguments["action"] != "poll":
            return False
        request = self._background[arguments["number"]].request._replace(cwd=self._layout.workspace)
        return not self._is_known(request, result, caller.model_texts)

    @tool(
        effect=_get_process_effects,
        brings=_is_untrusted_poll,
        binds=_bind_process,
        foreign_files=lambda self, _: self._describe_foreign(),
        private=True,
    )
    def process(
        self,
        action: Literal["list", "poll", "write", "kill"],
        caller: Caller,
        number: Annotated[int, Span(0, 1_000_000_000)] = 0,
        text: Annotated[str, "for write: the line"] = "",
        *,
        eof: Annotated[bool, "for write: close the input"] = False,
        wait: Annotated[float, Span(0, 60), "for poll: seconds to wait for output"] = 0,
    ) -> str:
        """Follow up background commands: poll returns new output, write sends a line of input, kill ends one."""
        own = {one.number: one for one in self._background.values() if one.session == caller.session}
        if action == "list":
            return "\n".join(f"{one.number}: {one.shown[:200]} [{one.state()}]" for one in own.values()) or "none"
        if number not in own:
            raise ToolError(f"there is no command {number} in this chat; known: {', '.join(map(str, own)) or 'none'}")
        if action == "write":
            return own[number].write(text, end=eof)
        return own[number].kill() if action == "kill" else own[number].poll(wait, caller.stop)


_TEXT_SUFFIXES = frozenset({".md", ".txt", ".csv", ".tsv", ".log", ".json"})
_LOADED_NAMES = frozenset({"cmakelists.txt", "requirements.txt", "package.json"})


def _may_be_code(path: Path) -> bool:
    """Whether a program may load a file without being given its name."""
    inside = any(part.startswith(".git") for part in path.parts)
    return inside or path.suffix.lower() not in _TEXT_SUFFIXES or path.name.lower() in _LOADED_NAMES


def _describe_foreign_file(one: "ForeignFile") -> str:
    return f"{one.path} (written after {', '.join(one.heard[:2]) or 'a guest had spoken'})"


def bind_foreign_files(seen: Sequence["ForeignFile"]) -> dict[str, str]:
    """Bind an approval to the contents of files of tainted turns; very many are summed up."""
    sums = {_describe_foreign_file(one): _checksum(Path(one.path)) for one in seen}
    bound = {f"a yes also takes for yours {name}, sha256": sums[name] for name in list(sums)[:_MAX_FILES_NAMED]}
    if more := list(sums.items())[_MAX_FILES_NAMED:]:
        import hashlib

        bound[f"and {len(more)} more such files, sha256 of all"] = hashlib.sha256(repr(more).encode()).hexdigest()
    return bound


def describe_rights(*, write: bool, network: bool) -> str:
    """Say to a person what a command with some rights may do; '' without any."""
    return " and ".join(["change files in the workspace"] * write + ["use the network, your own included"] * network)


def _list_effects(request: SandboxCommand) -> Effects:
    """Without write and network the kernel lets nothing be changed, whatever is run."""
    found: list[Effect] = ["network", "exec_network"] if request.network else []
    found += ["exec"] * request.write
    return tuple(found) or ("read",)


def _list_users() -> set[str]:
    """The users and groups of our files, as shown by `ls -l`."""
    import grp
    import pwd

    found = {"root", "nobody", "nogroup"}
    with contextlib.suppress(KeyError):
        found |= {pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name}
    return found


def _is_system_error(line: str, argv: Sequence[str]) -> bool:
    """Whether a line is a system error about a word of the command: `ls: cannot access 'x': ...`."""
    begin, _, why = line.rpartition(": ")
    of, _, what = begin.partition(": ")
    words = what.replace("execvp ", "").replace("'", " ").replace("\u2018", " ").replace("\u2019", " ").split()
    plain = all(word in argv or word in {"cannot", "access", "create", "directory", "remove", "stat"} for word in words)
    return why in _ERRORS and of in {argv[0], *_STARTERS} and plain and all(map(is_plain_name, set(argv) & set(words)))


def _is_file(root: Path, text: str) -> bool:
    """Whether a text is the path of a file below a folder with only plain names."""
    if len(text) > _MAX_PATH_CHARS or ".." in text or "\0" in text:
        return False
    path = root / text
    if not path.is_relative_to(root) or not all(map(is_plain_name, path.relative_to(root).parts)):
        return False
    return os.path.lexists(path)


def _checksum(path: Path) -> str:
    import hashlib

    try:
        if not path.is_file():
            return "no regular file"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {explain_os_error(error)}") from None


def _format_result(request: SandboxCommand, said: str, code: int, *, finished: bool) -> str:
    if code == LOST_EXIT_CODE:
        raise SandboxMissing(
            "the service that runs commands ended without a word: `picoclaw service install` repairs it"
        )
    if said.startswith("bwrap: ") and code:
        raise SandboxMissing(f"the sandbox could not be made: {said.splitlines()[0]}; `picoclaw doctor` says more")
    if not finished:
        return (
            f"{said}[stopped after {request.seconds:g} s, with everything that it had started; a longer timeout"
            f" (up to {_MAX_TIMEOUT_S}) may help]"
        )
    hints = [hint for right, sign, hint in _HINTS if code and sign in said and not getattr(request, right)]
    hints += [_DEVICES] if code and re.search(r"/dev/(?!shm/)[^\n]{1,99}: No such file", said) else []
    return f"{said}[exit code {code}{''.join(f'; {hint}' for hint in hints[:1])}]"


@contextlib.contextmanager
def _hold_signals() -> Iterator[Callable[[], None]]:
    """Delay signals while a command is being started, so that it cannot be left running unowned.

    Yields a function that restores the handlers and raises the delayed signals.
    """
    handlers: dict[int, Any] = {}
    held: list[int] = []

    def deliver() -> None:
        while handlers:
            signal.signal(*handlers.popitem())
        while held:
            signal.raise_signal(held.pop())

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, lambda which, _: held.append(which))
    try:
        yield deliver
    finally:
        deliver()
