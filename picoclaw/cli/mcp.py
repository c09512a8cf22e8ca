"""`picoclaw mcp`: other servers' tools for the agent, and this board as a server for other programs."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import (
    add_board_option,
    confirm,
    open_app,
    print_note,
    print_safe,
    print_wrapped,
    require_terminal,
)
from picoclaw.config import Config, load_config
from picoclaw.config.files import add_table, read_regular, remove_table
from picoclaw.config.tables import McpConfig, check_name
from picoclaw.errors import ConfigError
from picoclaw.files import remove_file, write_atomic
from picoclaw.mcp import pins
from picoclaw.tools.mcp import McpServers, judge_effect
from picoclaw.workspace import prepare_home

_ALONE = "a program may not agree to its own tools: type this in a terminal, where a person reads them"
_EFFECTS = {
    "read": "runs unasked: the sandbox lets it change nothing and reach nobody",
    "network": "is asked about once you have read something untrusted: it says that it only reads",
    "mcp_act": "asks you each time",
}


def options(parser: Parser) -> None:
    serve = "serve this board's tools on standard input and output (the default unless at a terminal)"
    words = parser.add_words(
        {
            "serve": (serve, _serve),
            "list": ("list the servers, and what you have agreed to (the default at a terminal)", _list),
            "add": ("add a server to config.toml, review its tools, and agree to them", _add),
            "agree": ("review a server's present tools, and agree to them", _agree),
            "login": ("log in to a remote server, with a link for your browser", _log_in),
            "remove": ("remove a server from config.toml, with its token and your agreement", _remove),
        },
        "list" if sys.stdin.isatty() else "serve",
    )
    add_board_option(words["serve"])
    words["add"].add_argument("name", "what you call it: small letters, digits and _")
    words["add"].add_argument(
        "target URL or COMMAND", "its address, or -- and the program with its arguments", nargs="+"
    )
    words["add"].add_argument("--tool TOOL", "use this tool alone; can be given again", repeats=True)
    words["add"].add_argument("--folder PATH", "a folder that it may read", repeats=True)
    words["add"].add_argument("--write PATH", "a folder that it may read and change", repeats=True)
    words["add"].add_argument("--network", "it may use the network")
    for word in ("agree", "login", "remove"):
        words[word].add_argument("name", "the server's name in config.toml")


def run(given: Options) -> int:
    """Do it; exit code 1 when a server is not used."""
    return given.act(given)


def _find_table(given: Options) -> tuple[Config, McpConfig]:
    """The settings, and those of the server that is named. Raises ConfigError."""
    config = load_config()
    if given.name not in config.mcp:
        raise ConfigError(f"there is no [mcp.{given.name}]; there are: {', '.join(config.mcp) or 'none'}")
    return config, config.mcp[given.name]


def _serve(given: Options) -> int:
    """Serve until the client hangs up."""
    import os

    from picoclaw.mcp.server import BoardBackend, McpServer, serve_pipes
    from picoclaw.records import replace

    with open_app(given) as app:
        app.config = replace(app.config, mcp={})  # what other servers offer is not passed on
        serve_pipes(McpServer(BoardBackend(lambda: app, os.uname().nodename)))
    return 0


def _list(_: Options) -> int:
    config = load_config()
    for name, table in config.mcp.items():
        pin, used = pins.load_pin(config.home, name), pins.list_pinned(config.home, name, table)
        where = table.url or " ".join(table.command)
        if used:
            state = f"{len(used)} tools agreed to"
        elif pin and pin.agreed:
            state = f"other tools are chosen than you have agreed to: picoclaw mcp agree {name}"
        else:
            state = f"not agreed to, so not used: picoclaw mcp agree {name}"
        print_wrapped(f"{name}: {state}; {where}")
        for one in used:
            print_safe(f"  {name}.{one.name}: {_EFFECTS[judge_effect(table, says_it_reads=one.says_it_reads)]}")
    if not config.mcp:
        print_wrapped("no MCP server is configured: picoclaw mcp add NAME -- COMMAND, or picoclaw mcp add NAME URL")
    return 0


def _add(given: Options) -> int:
    """Write the table, and have the owner agree to what the server offers."""
    config = load_config()
    if given.name in config.mcp:
        raise ConfigError(f"[mcp.{given.name}] is there already: change it in config.toml, or remove it first")
    is_url = len(given.target) == 1 and given.target[0].startswith(("http://", "https://"))
    values: dict[str, Any] = {"url": given.target[0]} if is_url else {"command": given.target}
    values |= {"tools": given.tool} if given.tool else {}
    values |= {"folders": _make_absolute(given.folder)} if given.folder else {}
    values |= {"write": _make_absolute(given.write)} if given.write else {}
    values |= {"network": True} if given.network else {}
    path = config.home / "config.toml"
    check_name(given.name, f"[mcp.{given.name}]")
    McpConfig(**values).check(f"[mcp.{given.name}]", config.home)
    prepare_home(config.home)
    text = add_table(read_regular(path).decode(), f"mcp.{given.name}", values)
    write_atomic(path.resolve(), text.encode())
    print_wrapped(f"[mcp.{given.name}] is in {path}")
    return _agree(given)


def _make_absolute(folders: Sequence[str]) -> list[str]:
    return [str(Path(folder).expanduser().absolute()) for folder in folders]


def _agree(given: Options) -> int:
    """Show what the server offers now, and take the owner's yes for exactly that."""
    (config, table), name = _find_table(given), given.name
    require_terminal(_ALONE)
    prepare_home(config.home)
    with closing(McpServers(config.home, config.mcp, config.mcp_tokens)) as servers:
        offer = servers.read_offer(name)
    pin = _load_pin(config.home, name)
    chosen = pins.select_tools(offer, table.tools)
    if unknown := set(table.tools) - {str(one.get("name")) for one in chosen}:
        print_note(f"[mcp.{name}] names tools that it does not have: {', '.join(sorted(unknown))}")
    print_wrapped(*pins.format_offer(name, offer, table), indent="      ")
    if pin and pin.agreed and (changes := list(pins.describe_changes(pin.offer, offer, table.tools))):
        print_wrapped("", "Since you agreed:", *(f"  {one}" for one in changes), indent="    ")
    print_wrapped("", *_describe_rights(table))
    digest = pins.compute_offer_digest(offer, table.tools)
    if not confirm(f"Use these {len(chosen)} tools?"):
        print_wrapped("not agreed: nothing of it is used" if not (pin and pin.agreed) else "left as it was")
        return 1
    pins.save_pin(config.home, name, pins.Pin(offer, digest))
    print_wrapped(
        f"agreed: {len(pins.list_pinned(config.home, name, table))} tools ({digest[:12]}). If a running picoclaw is to use them: sudo picoclaw restart"
    )
    return 0


def _log_in(given: Options) -> int:
    """Have the owner log in at a server, in a browser anywhere."""
    from picoclaw.mcp.http import log_in

    (config, table), name = _find_table(given), given.name
    require_terminal("a login needs a person: type this in a terminal")
    if not table.url:
        raise ConfigError(f"[mcp.{name}] runs here, and needs no login")
    prepare_home(config.home)

    def ask(link: str) -> str:
        print_safe("Open this link in a browser, on any machine, and log in:", "", link, "")
        print_wrapped("The browser then fails to open a page at 127.0.0.1. Copy its whole address.")
        return input("The address: ")

    log_in(config.home, name, table, config.mcp_tokens.get(name, ""), ask)
    print_wrapped(f"logged in at {name}; next: picoclaw mcp agree {name}")
    return 0


def _load_pin(home: Path, name: str) -> pins.Pin | None:
    """What was agreed to before, None where that cannot be read: it is written anew."""
    try:
        return pins.load_pin(home, name)
    except ConfigError as error:
        print_note(str(error))
        return None


def _describe_rights(table: McpConfig) -> list[str]:
    if table.url:
        return [f"It runs elsewhere, at {table.url}, and gets whatever its tools are called with."]
    rights = [f"reads {', '.join(table.folders)}"] if table.folders else []
    rights += [f"changes {', '.join(table.write)}"] if table.write else []
    rights += ["uses the network, your own included"] if table.network else []
    rights += [f"gets the variables {', '.join(table.environment)}"] if table.environment else []
    return [f"It runs in the sandbox, and {'; '.join(rights) or 'neither changes files nor uses the network'}."]


def _remove(given: Options) -> int:
    import shutil

    from picoclaw.mcp.http import get_token_path

    (config, _), name = _find_table(given), given.name
    path = config.home / "config.toml"
    text = remove_table(read_regular(path).decode(), f"mcp.{name}")
    write_atomic(path.resolve(), text.encode())
    remove_file(pins.get_pin_path(config.home, name))
    get_token_path(config.home, name).unlink(missing_ok=True)
    shutil.rmtree(config.home / "mcp" / name, ignore_errors=True)
    print_wrapped(f"[mcp.{name}] is out of {path}")
    return 0
