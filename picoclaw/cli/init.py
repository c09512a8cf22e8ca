"""`picoclaw init`: makes the home folder and what belongs into it; a second time it changes nothing.

On a terminal it asks for the few settings that a new home wants; every question has an option that answers it.
"""

import argparse
import sys
from collections.abc import Iterable

from picoclaw import workspace
from picoclaw.cli.common import print_safe
from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.maintenance import setup
from picoclaw.text import escape_unprintable


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--diff", action="store_true", help="only show what is new in the pages' templates, as a patch")
    choice.add_argument("--keep", action="store_true", help="only note that the pages stay as they are without it")
    choice.add_argument("--first-meeting", action="store_true", help="bring back BOOTSTRAP.md, to be asked once more")
    choice.add_argument("--ask", action="store_true", help="ask for the settings once more")
    choice.add_argument("--no-questions", action="store_true", help="ask nothing, also on a terminal the first time")
    setup.add_settings_options(parser)


def run(given: argparse.Namespace) -> int:
    """Make what is missing, say what was made and what the owner should know; set what was asked for."""
    home = load_config().home
    wanted = setup.parse_settings(given)
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
