"""`picoclaw init`: makes the home folder and what belongs into it; a second time it changes nothing.

On a terminal it asks for the few settings that a new home wants; every question has an option that answers it.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from picoclaw import workspace
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import print_safe
from picoclaw.config import load_config
from picoclaw.config.files import read_regular
from picoclaw.errors import ConfigError
from picoclaw.maintenance import setup
from picoclaw.text import escape_unprintable
from picoclaw.times import parse_zone

_MAX_KEY_LENGTH = 4096


def options(parser: Parser) -> None:
    """Declare the verb's options."""
    parser.exclude("--diff", "--keep", "--first-meeting", "--ask", "--no-questions")
    parser.add_flag("--diff", help="only show what is new in the pages' templates, as a patch")
    parser.add_flag("--keep", help="only note that the pages stay as they are without it")
    parser.add_flag("--first-meeting", help="bring back BOOTSTRAP.md, to be asked once more")
    parser.add_flag("--ask", help="ask for the settings once more")
    parser.add_flag("--no-questions", help="ask nothing, also on a terminal the first time")
    parser.add_argument(
        "--model-url", metavar="URL", default="", help=f"an OpenAI-compatible server: {setup.LOCAL_SERVERS['Ollama']}"
    )
    parser.add_argument("--model", metavar="NAME", default="", help="the model's name at that server")
    parser.add_argument("--key-from", metavar="FILE", help="a file that holds its API key; - for standard input")
    parser.add_argument("--zone", metavar="ZONE", default="", help="where you live: Europe/Berlin, or a city")
    parser.add_argument("--telegram-token-from", metavar="FILE", help="a file with a bot's token; - for standard input")
    parser.add_argument("--telegram-allow", metavar="ID", type=int, repeats=True, help="who may talk to the bot")
    pages = ["off", *setup.DASHBOARD_HOSTS]
    parser.add_argument("--page", choices=pages, default="", help="the page in a browser, and for whom")


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
    for path in made:
        print(f"made {path}")
    if not made and not problem and not wanted:
        print(f"{home} is complete; nothing was changed")
    for what, fix in workspace.examine_workspace(home):
        print_safe(f"note: {what}\n      → {fix}" if fix else f"note: {what}")
    if problem:
        raise ConfigError(problem)
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    if given.ask and not tty:
        raise ConfigError("--ask takes a terminal; `picoclaw init --help` lists the options that answer the questions")
    is_new = home / "config.toml" in made  # a chat may have made the home before
    answers: Iterable[setup.InitialSettings] = [wanted] if wanted else []
    if not wanted and (given.ask or (is_new and not given.no_questions and tty)):
        answers = setup.ask_settings(load_config())
    is_new_model = False
    for answer in answers:
        print_safe(*setup.write_settings(home, answer))
        is_new_model = is_new_model or bool(answer.url or answer.model)
    if is_new_model:
        print_safe(*setup.probe_profile(home))
    print(f"Settings are in {home / 'config.toml'}; `picoclaw doctor` checks them.")
    return 0


def _parse_settings(given: Options) -> setup.InitialSettings | None:
    """Take the options; None when there is none of them. Raises ConfigError."""
    if given.key_from == given.telegram_token_from == "-":
        raise ConfigError("standard input can hold one secret: give the other one as a file")
    try:
        zone = str(parse_zone(given.zone)) if given.zone else ""
    except ValueError as error:
        raise ConfigError(f"--zone: {error}") from None
    wanted = setup.InitialSettings(
        given.model_url,
        given.model,
        _read_secret(given.key_from),
        zone,
        _read_secret(given.telegram_token_from),
        tuple(given.telegram_allow),
        given.page,
    )
    return wanted if any(wanted) else None


def _read_secret(path: str | None) -> str:
    if path is None:
        return ""
    text = sys.stdin.read(_MAX_KEY_LENGTH) if path == "-" else read_regular(Path(path)).decode(errors="replace")
    if not text.strip():
        raise ConfigError(f"{path} holds no key")
    return text.strip()
