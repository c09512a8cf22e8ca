"""`picoclaw summon`: a model writes the files of a new character; nothing is written without a yes to the diff."""

import sys
import termios
import time

from picoclaw.agent import summon
from picoclaw.app import App
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import add_board_option, open_app, print_note
from picoclaw.errors import ConfigError, ProviderError
from picoclaw.prompts import count_bytes
from picoclaw.resources import find_shipped
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import Pages

_MAX_PERSONA_CHARS = 2000


def options(parser: Parser) -> None:
    parser.add_argument("persona", nargs="+", metavar="WHO", help='such as "a sarcastic greenhouse keeper"')
    parser.add_argument("--agent", metavar="KEY", default="", help="the agent to change: a key of `picoclaw agents`")
    parser.add_flag("--yes", help="write the model's text without asking")
    parser.add_flag("--dry-run", help="print the diff and write nothing")
    add_board_option(parser)


def run(given: Options) -> int:
    """Ask once, show the diff, write on consent; 1 when the model's files could not be used or written."""
    persona = " ".join(given.persona).strip()
    if not 0 < len(persona) <= _MAX_PERSONA_CHARS:
        raise ConfigError(f"the character must be told in 1 to {_MAX_PERSONA_CHARS} characters, not {len(persona)}")
    with open_app(given, make=not given.dry_run) as home:
        app = home.open_view("", given.agent)
        workspace = app.config.workspace
        good, problem = _request_character(app, persona)
        wanted, problems = summon.list_changes(workspace, find_shipped("templates") / "workspace", good)
        for each in problems:
            print_note(each)
        if problem:
            print_note(f"{problem}; the templates {'are offered instead' if wanted else 'would change nothing'}")
        for change in wanted:
            print(escape_unprintable(summon.format_diff(change)), end="")
        if wanted and not given.dry_run:
            agreed = _confirm(by_model=bool(good), yes=given.yes)
            if not agreed:
                return 1 if agreed is None else int(not good)
            written = []
            try:  # in order; it says which, also when the disk fails in the middle
                for change in wanted:
                    if summon.write_change(workspace, change):
                        written.append(change.name)
                    else:
                        print_note(f"{change.name} was changed meanwhile and is left alone; run it again")
            finally:
                print(f"Wrote {', '.join(written) or 'nothing'}.", flush=True)
            return 1 if len(written) < len(wanted) else int(not good)
        if good and not wanted:
            print("Nothing to change.")
    return int(not good)


def _request_character(app: App, persona: str) -> tuple[dict[str, str], str]:
    """Have the model write the files; returns those that can be used, and if there are none why."""
    model = app.config.model
    if not model.base_url:
        return {}, "no model is set up: `picoclaw init` does that"
    pages = Pages(app.config.agent_folder).pages(summon.SUMMON_FILES)
    tools = [name for name in app.toolset.only_reading if name != "skill_search"]
    deadline = time.monotonic() + app.config.limits.seconds
    print_note(f"asking {app.models.name}; Ctrl-C ends it")
    request, too_long = summon.build_request(app.prompts, persona, pages, tools, model, deadline)
    try:
        answer = summon.ask_for_files(app.models, request)
    except ProviderError as error:
        return {}, f"the model did not answer: {error}"
    good, problems = summon.check_files(answer, too_long)
    for problem in problems:
        print_note(problem)
    counted = f"{answer.usage.prompt_tokens} tokens in, {answer.usage.completion_tokens} out"
    print_note(f"{counted}; {len(good)} files of {sum(map(count_bytes, good.values()))} bytes in all")
    return good, "" if good else "nothing of the model's answer could be used"


def _confirm(*, by_model: bool, yes: bool) -> bool | None:
    """Ask the person; None when there is nobody to ask. A --yes was not meant for templates over the owner's words."""
    if yes and by_model:
        return True
    if yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        why = "--yes is not for the templates" if yes else "it takes a terminal, or --yes"
        print_note(f"nothing was written: {why}")
        return None
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
    try:
        agreed = input("Write these files? [y/N] " if by_model else "Write the templates? [y/N] ")
    except EOFError:
        agreed = ""
        print()
    if agreed.strip().lower() in {"y", "yes"}:
        return True
    print("Nothing was written.")
    return False
