"""`picoclaw init`: makes the home folder and what belongs into it; can be run at any time, and breaks nothing.

On a terminal it asks for what is not set, each question with an option that answers it, and offers the parts that answer
on the buses. It ends with what is set and what to do next.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from picoclaw import workspace
from picoclaw.cli.arguments import Options, Parser, bold, format_table
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    call_tool,
    open_app,
    print_safe,
    print_wrapped,
    read_secret,
)
from picoclaw.config import load_config
from picoclaw.daemon.process import is_lock_held
from picoclaw.errors import ConfigError
from picoclaw.maintenance import service, setup
from picoclaw.text import escape_unprintable
from picoclaw.times import parse_zone

if TYPE_CHECKING:
    from picoclaw.app import App


def options(parser: Parser) -> None:
    add_board_option(parser)
    parser.exclude("--diff", "--keep", "--first-meeting", "--ask", "--no-questions")
    parser.add_flag("--diff", help="show the changes of the included pages (SOUL.md and others) as a patch for yours")
    parser.add_flag("--keep", help="keep your pages as they are, and do not mention the changes again")
    parser.add_flag("--first-meeting", help="repeat the first meeting in the next chat")
    parser.add_flag("--ask", help="also ask about settings that are set")
    parser.add_flag("--no-questions", help="ask nothing, even at a terminal")
    parser.add_argument(
        "--model-url", metavar="URL", default="", help=f"an OpenAI-compatible server: {setup.LOCAL_SERVERS['Ollama']}"
    )
    parser.add_argument("--model", metavar="NAME", default="", help="the model's name at that server")
    parser.add_argument("--key-from", metavar="FILE", help="a file that holds its API key; - for standard input")
    parser.add_argument("--zone", metavar="ZONE", default="", help="where you live: Europe/Berlin, or a city")
    parser.add_argument("--telegram-token-from", metavar="FILE", help="a file with a bot's token; - for standard input")
    parser.add_argument("--telegram-allow", metavar="ID", type=int, repeats=True, help="who may talk to the bot")
    parser.add_argument("--matrix-server", metavar="URL", default="", help="the Matrix server of the board's account")
    parser.add_argument(
        "--matrix-token-from", metavar="FILE", help="a file with its access token; `matrix login` gets one"
    )
    pages = ["off", *setup.DASHBOARD_HOSTS]
    parser.add_argument(
        "--page", choices=pages, default="", help="who can open the page: nobody, this board, your network"
    )


def run(given: Options) -> int:
    """Make what is missing, say what was made and what the owner should know; set what was asked for."""
    home = load_config().home
    wanted = _parse_settings(given)
    if wanted and (given.diff or given.keep):
        raise ConfigError("--diff and --keep set nothing: give the settings to an `init` of their own")
    if given.diff:
        shown = workspace.diff_templates(home)
        if sys.stdout.isatty():  # which it cannot drive; `patch -p0` in the workspace takes it as it is
            print(escape_unprintable(shown.decode(errors="replace")), end="")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(shown)
        take = f"`picoclaw init --diff | patch -p0 -d {home / 'workspace'}` takes it, `picoclaw init --keep` leaves it"
        print(take if shown else "nothing is new in the templates of your pages", file=sys.stderr)
        return 0
    if given.keep:
        kept = workspace.keep_pages(home)
        print(f"{', '.join(kept)}: kept as they are" if kept else "nothing is new in the templates of your pages")
        return 0
    made, problem = workspace.prepare_home(home, restore=True, meeting=given.first_meeting)
    if home in made:
        print(f"made {home}, and in it {len(made) - 1} files and folders")
    else:
        print("".join(f"made {path}\n" for path in made), end="")
    if not made and not problem and not wanted:
        print(f"{home} is complete; nothing was changed")
    for what, fix in workspace.examine_workspace(home):
        print_safe(f"note: {what}\n      → {fix}" if fix else f"note: {what}")
    if problem:
        raise ConfigError(problem)
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    if given.ask and not tty:
        raise ConfigError("--ask takes a terminal; `picoclaw init --help` lists the options that answer the questions")
    asks = tty and not wanted and not given.no_questions
    answers: Iterable[setup.InitialSettings] = [wanted] if wanted else []
    if asks:
        answers = setup.ask_settings(load_config(), again=given.ask)
    is_new_model = needs_restart = False
    for answer in answers:
        print_wrapped(*setup.write_settings(home, answer))
        is_new_model = is_new_model or bool(answer.url or answer.model)
        needs_restart = needs_restart or any(answer._replace(zone=""))
    if is_new_model:
        print_safe(*setup.probe_profile(home))
    with open_app(given) as app:
        if asks:
            needs_restart = _offer_parts(app) or needs_restart
        print_wrapped(f"Settings are in {home / 'config.toml'}; `picoclaw doctor` checks them.\n")
        settings = dict(setup.describe_settings(app.config, app.board, app.wiring.wired))
    print_safe(*format_table(settings))
    if needs_restart and is_lock_held(home):
        _offer_restart(asks=asks)
    print(f"\n{bold('What you can do next')}")
    print_safe(*format_table(_list_next_steps(settings)))
    return 0


def _offer_parts(app: "App") -> bool:
    """Ask for a name for each part that answers and no sensor has; tells whether one was added."""
    added, wiring = False, app.wiring
    taken = {(part.bus, part.address) for part in wiring.wired.values() if part.route == "i2c"}
    taken |= set(wiring.outputs.parts()) if wiring.outputs else set()
    for found in setup.find_parts(app.board, app.config.home, taken):
        if isinstance(found, str):
            print_safe(found)
            continue
        where, part = f"0x{found.address:02x} on i2c-{found.bus}", next(iter(found.parts), "")
        if not part:
            print_wrapped(f"{where} answers, but no driver knows a part there; `picoclaw tool i2c` reads it.")
            continue
        if found.is_certain:
            print_wrapped(f"{where} answers like a {part.upper()}.")
        else:
            print_wrapped(f"{where} answers; what it is cannot be told by asking. It may be: {', '.join(found.parts)}.")
            part = _ask("  Which is printed on it?", ("", *found.parts))
        if part and (name := _ask("  A name to add it by, such as porch")):
            given = {"name": name, "part": part, "bus": found.bus, "address": found.address}
            added = call_tool(app, DEFAULT_SESSION, "sensor_add", given) or added
    return added


def _ask(question: str, choices: tuple[str, ...] = ()) -> str:
    """Ask; Enter is "". Raises ConfigError where the person leaves."""
    try:
        while (answer := input(f"{question} [leave it]: ").strip()) not in choices and choices:
            print_wrapped(f"  write one of {', '.join(choices[1:])}, or press Enter")
    except (EOFError, KeyboardInterrupt):
        raise ConfigError("stopped; your answers so far are saved") from None
    return answer


def _offer_restart(*, asks: bool) -> None:
    """Say that what runs has the settings of before, and restart it where that can be done and is wanted."""
    print_wrapped("\npicoclaw runs with the settings of before and takes the new ones at its next start.")
    found = service.find_running_service()
    if found is None:
        print_wrapped("End the `picoclaw run` that runs, and start it again.")
    elif not found.user and os.geteuid() != 0:
        print_wrapped("`sudo picoclaw restart` does that.")
    elif asks and _ask("Restart it now?", ("", "y", "yes")):
        service.run_systemctl(found, "restart", "picoclaw")
        print("It is restarted.")


def _list_next_steps(settings: Mapping[str, str]) -> dict[str, str]:
    """Choose three commands by what is set."""
    steps = {'picoclaw chat -m "how warm is it?"': "ask it something; without -m it goes on as a chat"}
    if settings["page"] != "off":
        steps["picoclaw page code"] = "a code to log in to its page, once it runs"
    elif settings["Telegram"] == "on":
        steps["picoclaw telegram pair"] = "let yourself in, once it runs"
    elif settings["Matrix"] != "off":
        steps["picoclaw matrix pair"] = "let yourself in, once it runs"
    else:
        steps["picoclaw init --page network"] = "a page for phones and computers in your network"
    if settings["service"] == "not installed":
        steps["sudo picoclaw service install --as $USER"] = "run it now, and whenever the board starts"
    else:
        steps["picoclaw status"] = "see how it is"
    return steps


def _parse_settings(given: Options) -> setup.InitialSettings | None:
    """Take the options; None when there is none of them. Raises ConfigError."""
    if [given.key_from, given.telegram_token_from, given.matrix_token_from].count("-") > 1:
        raise ConfigError("standard input can hold one secret: give the other one as a file")
    try:
        zone = str(parse_zone(given.zone)) if given.zone else ""
    except ValueError as error:
        raise ConfigError(f"--zone: {error}") from None
    wanted = setup.InitialSettings(
        given.model_url,
        given.model,
        read_secret(given.key_from),
        zone,
        read_secret(given.telegram_token_from),
        tuple(given.telegram_allow),
        given.page,
        matrix_server=given.matrix_server,
        matrix_token=read_secret(given.matrix_token_from),
    )
    return wanted if any(wanted) else None
