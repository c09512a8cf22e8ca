"""The verbs of `picoclaw`: the module of each is imported when it is used."""

import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TextIO, cast

from picoclaw.cli.arguments import (
    HelpRequested,
    Options,
    Parser,
    UsageError,
    bold,
    fit_to_terminal,
    format_table,
    suggest,
    wrap,
)
from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error

GROUPS = {
    "Talk to it": {
        "chat": ("talk to the agent, or ask one question with -m", 'picoclaw chat -m "how warm is it?"'),
        "approvals": ("list the actions that need your approval, and answer", "picoclaw approvals yes 3"),
        "sessions": ("show, search, export and delete past conversations", "picoclaw sessions search boiler"),
        "memory": ("search, list and check the notes; put them in order", "picoclaw memory search boiler"),
        "skills": ("list, show, search and check the skills", "picoclaw skills show writing-skills"),
        "summon": (
            "let a model write the agent's character from your description",
            'picoclaw summon "a friendly gardener who keeps it short"',
        ),
    },
    "Measure and switch": {
        "sensors": ("read the sensors now, all of them or one", "picoclaw sensors greenhouse"),
        "history": (
            "show past measurements, as charts and figures",
            "picoclaw history greenhouse.temperature yesterday",
        ),
        "outputs": ("list, arm, switch and check the outputs", "picoclaw outputs set pump on 10m"),
        "stop": ("set every output to its safe level now; picoclaw keeps running", "picoclaw stop"),
        "cron": (
            "list, add and change the reminders and jobs of all chats",
            'picoclaw cron add "water the plants" --in 2h',
        ),
        "rules": ("explain, check and remove rules, and show their log", "picoclaw rules explain frost"),
        "heartbeat": ("check the list in HEARTBEAT.md now", "picoclaw heartbeat --dry-run"),
    },
    "Keep it running": {
        "init": (
            "set it up: model, time zone, Telegram, page; run it again to change something",
            "picoclaw init --zone Berlin --page network",
        ),
        "status": ("show whether picoclaw runs, and its state", "picoclaw status"),
        "start": ("start the service", "sudo picoclaw start"),
        "restart": ("stop the service and start it again", "sudo picoclaw restart"),
        "logs": ("show the service's log", "picoclaw logs -n 100 --follow"),
        "service": (
            "install picoclaw as a service that starts at boot, or remove it",
            "sudo picoclaw service install --as $USER",
        ),
        "run": ("run picoclaw in the foreground, as the service does", "picoclaw run --board sim"),
        "doctor": ("check the set-up, and say how to fix problems", "picoclaw doctor --offline"),
        "check": ("check the stored data, and repair it with --repair", "picoclaw check --repair"),
        "update": ("install a new version; go back if it fails", "sudo picoclaw update"),
        "backup": (
            "save everything into one file, even while picoclaw runs",
            "picoclaw backup /media/usb/picoclaw.tar.gz",
        ),
        "restore": ("restore a backup", "picoclaw restore picoclaw-20261122-080000.tar.gz"),
        "migrate": (
            "import notes, pages, jobs and settings from nanobot, openclaw or sipeed/picoclaw",
            "picoclaw migrate --from nanobot",
        ),
        "uninstall": ("remove picoclaw from this machine", "sudo picoclaw uninstall"),
    },
    "Decide who may do what": {
        "policy": (
            "show who may do what, and revoke standing approvals",
            'picoclaw policy explain exec \'{"command": "ls"}\'',
        ),
        "audit": ("show the actions that were done or refused, and who asked", "picoclaw audit --since yesterday"),
        "page": ("show the web page's address, and print login codes", "picoclaw page code"),
        "mqtt": ("list the topics of the MQTT broker, and suggest sensors to add", "picoclaw mqtt discover"),
        "fleet": ("pair boards with each other, read from them, and stop them all", "picoclaw fleet read workshop"),
        "store": (
            "share notes, conversations and costs with other boards through one database",
            "picoclaw store status",
        ),
        "mcp": (
            "use the tools of MCP servers, and serve this board's to other programs",
            "picoclaw mcp add clock -- uvx mcp-server-time",
        ),
        "telegram": ("let people talk to the Telegram bot", "picoclaw telegram pair"),
        "matrix": ("log in to Matrix, and let people talk to the board there", "picoclaw matrix pair"),
    },
    "Name people and agents": {
        "people": (
            "list, add and change the people of your household and their roles",
            "picoclaw people add ada --role member",
        ),
        "agents": (
            "list, add and change agents, each with its own pages, notes, tools and model",
            'picoclaw agents add garden --description "knows the greenhouse"',
        ),
        "teams": ("let agents give tasks to each other, alone or as a team", "picoclaw teams link default garden"),
    },
    "Look inside": {
        "tools": ("list the tools that the agent has on this board", "picoclaw tools"),
        "tool": ("call one tool by hand, without a model", 'picoclaw tool i2c \'{"action": "scan"}\''),
        "prompt": ("show exactly what would be sent to a model", 'picoclaw prompt -m "how warm is it?"'),
        "model": ("test the configured model on a simulated board", "picoclaw model test --requests 20"),
        "usage": ("show the tokens and the money that models have used", "picoclaw usage --days 30 --by model"),
        "completion": (
            "print a script with which bash or zsh completes commands",
            "picoclaw completion bash > ~/.local/share/bash-completion/completions/picoclaw",
        ),
    },
}
"""The commands by purpose: what each does, and an example."""

VERBS = {name: entry for group in GROUPS.values() for name, entry in group.items()}

_SHARED_MODULES = {
    **dict.fromkeys(("cron", "heartbeat", "rules"), "automation"),
    **dict.fromkeys(("page", "people", "telegram", "matrix"), "channels"),
    **dict.fromkeys(("agents", "summon", "teams"), "agents"),
    **dict.fromkeys(("approvals", "audit", "policy"), "policy"),
    **dict.fromkeys(("backup", "check", "doctor", "restore", "uninstall", "update"), "maintenance"),
    **dict.fromkeys(("fleet", "mqtt", "store"), "boards"),
    **dict.fromkeys(("init", "migrate"), "init"),
    **dict.fromkeys(("model", "prompt", "usage"), "model"),
    **dict.fromkeys(("sensors", "tool", "tools"), "tool"),
    **dict.fromkeys(("logs", "restart", "start"), "service"),
}
"""Modules of several verbs, whose functions are named after each; what has words alone needs no function of its own."""

_WITHOUT_COMMAND = ("--help", "-h", "--version")
"""Options that are given without a command."""

_EARLY_VALUES = {"--board", "--session", "-m", "--message", "-n", "--since"}
"""Options whose value is no command, also in front of one."""


def load_verb(name: str) -> tuple[Callable[[Parser], None], Callable[[Options], int]]:
    """Import what declares the options of a verb, and what runs it."""
    if name in _SHARED_MODULES:
        module = importlib.import_module(f"picoclaw.cli.{_SHARED_MODULES[name]}")
        return getattr(module, f"add_{name}_options", lambda _: None), getattr(module, f"run_{name}", _run_word)
    # a module `run` would take the place of the function that everybody imports
    module = importlib.import_module(f"picoclaw.cli.{'daemon' if name == 'run' else name}")
    return module.options, module.run


def _run_word(given: Options) -> int:
    return given.act(given)


def run(arguments: Sequence[str]) -> int:
    """Run one verb. Returns 0, 1 (an error, said in one line on stderr), 2 (wrong usage) or 3 (status: it does not run)."""
    _prepare_streams()
    # Bytes that are not UTF-8 arrive as lone surrogates, which no database, no server and no terminal takes.
    arguments = [argument.encode("utf-8", "replace").decode() for argument in arguments]
    if sys.stdout is None:
        return _print_error("standard output is closed; open it, or send it to /dev/null")
    try:
        code = _run_verb(arguments)
        sys.stdout.flush()
    except PicoclawError as error:
        return _print_error(str(error))
    except KeyboardInterrupt:
        return _print_error("interrupted")
    except EOFError:  # Ctrl-D at a question
        return _print_error("the question was not answered")
    except OSError as error:
        if error.filename is not None:
            return _print_error(f"{error.filename}: {explain_os_error(error)}")
        return handle_output_error(error)
    return code


def _print_error(text: str) -> int:
    print(fit_to_terminal(f"picoclaw: {text}", sys.stderr), file=sys.stderr)
    return 1


def _prepare_streams() -> None:
    """Make the standard streams safe to use, also where the one who started us has closed them.

    A closed one is opened again on /dev/null, so that no file of ours gets its number.
    """
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        while os.open(os.devnull, os.O_RDWR) < 2:
            pass
    if sys.stdin is None:
        sys.stdin = cast("TextIO", _ClosedInput())
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _ClosedInput:
    """Stands for a standard input that is closed: whoever wants to read it ends the program in one line."""

    def __getattr__(self, name: str) -> NoReturn:
        raise PicoclawError("standard input is closed; open it, or give the question with -m")


def handle_output_error(error: OSError) -> int:
    """Say it, unless the reader has simply left; what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return _print_error(f"standard output cannot be written: {explain_os_error(error)}")


def _run_verb(arguments: Sequence[str]) -> int:
    words = [word for word in arguments if word != "help"] if arguments[:1] == ["help"] else list(arguments)
    place = _find_verb(words)
    if place is None:
        if arguments and arguments[0] in {"--version", "version"}:
            from picoclaw import __version__

            print(f"picoclaw {__version__}")
        elif unknown := [word for word in words if word not in _WITHOUT_COMMAND]:
            if unknown[0] in {*_EARLY_VALUES, "--json"}:
                return _refuse("picoclaw", f"a command is missing beside {unknown[0]}")
            return _refuse("picoclaw", f"there is no option {unknown[0]}{suggest(unknown[0], _WITHOUT_COMMAND)}")
        elif arguments:
            print("\n".join(_format_help()))
        else:
            from picoclaw.cli.status import print_overview

            print_overview()
        return 0
    verb = words.pop(place)
    if verb not in VERBS:
        return _refuse("picoclaw", _explain_unknown(verb, words))
    try:
        add_options, run_verb = load_verb(verb)
        parser = Parser(verb, *VERBS[verb])
        add_options(parser)
        if arguments[:1] == ["help"]:
            words.append("--help")
        return run_verb(parser.parse(words))
    except HelpRequested as wanted:
        print("\n".join(wanted.lines))
        return 0
    except UsageError as error:
        return _refuse(f"picoclaw {verb}", str(error))


def _refuse(called: str, why: str) -> int:
    from picoclaw.text import escape_unprintable

    print(fit_to_terminal(f"{called}: {escape_unprintable(why)} ({called} --help)", sys.stderr), file=sys.stderr)
    return 2


def _find_verb(words: Sequence[str]) -> int | None:
    """Where the verb is: options may be in front of it."""
    for place, word in enumerate(words):
        if not word.startswith("-") and (not place or words[place - 1] not in _EARLY_VALUES):
            return place
        if word in {"-h", "--help", "--version"}:
            return None
    return None


# What people type for what another command does.
_MEANT = {
    "detect": "init",
    "scan": "init",
    "setup": "init",
    "sensor": "sensors",
    "read": "sensors",
    "gpio": "outputs",
    "switch": "outputs",
    **dict.fromkeys(("remind", "reminder", "reminders", "jobs"), "cron"),
    **dict.fromkeys(("alarm", "alarms"), "rules"),
    **dict.fromkeys(("config", "configure", "settings"), "init"),
    **dict.fromkeys(("ask", "talk", "say"), "chat"),
    **dict.fromkeys(("web", "dashboard", "login"), "page"),
}


def _explain_unknown(verb: str, words: Sequence[str]) -> str:
    if (meant := _MEANT.get(verb)) and all(word.startswith("-") for word in words):
        return f"there is no command {verb!r}; did you mean {meant}?"
    if near := suggest(verb, VERBS):
        return f"there is no command {verb!r}{near}"
    question = " ".join([verb, *words])
    if " " in question:
        return f'there is no command {verb!r}; to ask the agent: picoclaw chat -m "{question}"'
    return f"there is no command {verb!r}"


def _format_help() -> Iterator[str]:
    yield "picoclaw: an AI agent for single-board computers"
    for title, verbs in GROUPS.items():
        yield from ("", bold(title))
        yield from format_table({name: purpose for name, (purpose, _) in verbs.items()})
        _, example = next(iter(verbs.values()))
        yield f"  for example: {example}"
    everywhere = (
        "`picoclaw COMMAND --help` shows the options of a command and an example. --board sim uses the simulated board,"
        " --json prints for programs, and -n says how many where a command lists; they go anywhere in the line."
    )
    codes = (
        "Exit codes: 0 for done, 1 for an error or something that is wrong, 2 for a command that was typed wrongly; `status`"
        " has 3 when picoclaw does not run."
    )
    yield from ("", *wrap(everywhere), "", *wrap(codes))
