"""`picoclaw init`: makes the home folder and what belongs into it; can be run at any time, and breaks nothing.

On a terminal it asks for what is not set, each question with an option that answers it, and offers the parts that answer
on the buses. It ends with what is set and what to do next.

`picoclaw migrate`: shows what can be taken over from another agent's home, does it once, and takes it back.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw import workspace
from picoclaw.cli.arguments import Options, Parser, UsageError, bold, format_table
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    call_tool,
    confirm,
    format_count,
    format_minute,
    open_app,
    print_note,
    print_safe,
    print_wrapped,
    read_secret,
)
from picoclaw.config import load_config
from picoclaw.daemon.process import is_lock_held
from picoclaw.errors import ConfigError
from picoclaw.files import get_home
from picoclaw.maintenance import import_home as journals
from picoclaw.maintenance import setup, systemd
from picoclaw.maintenance.foreign_homes import MOVED_SUFFIX, PROGRAMS, Kind, find_daemon, find_homes, read_home
from picoclaw.maintenance.import_home import MigrationJournal, MigrationPlan, MigrationState, Step, diff_page, make_plan
from picoclaw.records import replace
from picoclaw.text import escape_unprintable, format_json
from picoclaw.times import parse_zone
from picoclaw.workspace import get_owner_time, is_namesakes_home

if TYPE_CHECKING:
    from picoclaw.app import App


def add_init_options(parser: Parser) -> None:
    add_board_option(parser)
    parser.exclude("--diff", "--keep", "--first-meeting", "--ask", "--no-questions")
    parser.add_argument("--diff", "show the changes of the included pages (SOUL.md and others) as a patch for yours")
    parser.add_argument("--keep", "keep your pages as they are, and do not mention the changes again")
    parser.add_argument("--first-meeting", "repeat the first meeting in the next chat")
    parser.add_argument("--ask", "also ask about settings that are set")
    parser.add_argument("--no-questions", "ask nothing, even at a terminal")
    parser.add_argument("--model-url URL", f"an OpenAI-compatible server: {setup.LOCAL_SERVERS['Ollama']}", default="")
    parser.add_argument("--model NAME", "the model's name at that server", default="")
    parser.add_argument("--key-from FILE", "a file that holds its API key; - for standard input")
    parser.add_argument("--zone ZONE", "where you live: Europe/Berlin, or a city", default="")
    parser.add_argument("--telegram-token-from FILE", "a file with a bot's token; - for standard input")
    parser.add_argument("--telegram-allow ID", "who may talk to the bot", type=int, repeats=True)
    parser.add_argument("--matrix-server URL", "the Matrix server of the board's account", default="")
    parser.add_argument("--matrix-token-from FILE", "a file with its access token; `matrix login` gets one")
    pages = ["off", *setup.DASHBOARD_HOSTS]
    parser.add_argument("--page", "who can open the page: nobody, this board, your network", choices=pages, default="")


def run_init(given: Options) -> int:
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
    found = systemd.find_running_service()
    if found is None:
        print_wrapped("End the `picoclaw run` that runs, and start it again.")
    elif not found.user and os.geteuid() != 0:
        print_wrapped("`sudo picoclaw restart` does that.")
    elif asks and confirm("Restart it now?"):
        systemd.run_systemctl(found, "restart", "picoclaw")
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


def add_migrate_options(parser: Parser) -> None:
    parser.exclude("--yes", "--dry-run", "--undo")
    parser.add_argument(
        "--from KIND[:PATH]",
        f"{', '.join(PROGRAMS)}; and where its home is, if not in yours",
        dest="origin",
        type=_parse_origin,
    )
    parser.add_argument("--dry-run", "only show what would be done, even at a terminal")
    parser.add_argument("--yes", "do not ask; import everything except keys and skills")
    parser.add_argument("--keys", "with --yes: also the keys and the bot's token")
    parser.add_argument("--skill NAME", "with --yes: also this skill; can be repeated", repeats=True)
    parser.add_argument("--undo", "undo the import from KIND")
    parser.add_argument("--json", "print it as JSON, without contents of files")


def _parse_origin(text: str) -> tuple[Kind, Path | None]:
    kind, _, path = text.partition(":")
    for known in PROGRAMS:
        if kind == known:
            return known, Path(os.path.abspath(os.path.expanduser(path))) if path else None  # noqa: PTH100, PTH111
    raise UsageError(f"{kind[:40]!r} is not one of {', '.join(PROGRAMS)}")


def run_migrate(given: Options) -> int:
    """Show it, or do it, or take it back; exit code 1 when it could not be done, or nothing was found."""
    home = get_home(os.environ)
    if (given.keys or given.skill) and not given.yes:
        raise ConfigError("--keys and --skill go with --yes; without it you are asked")
    if given.undo:
        return _undo_migration(home, given)
    user = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails where nobody has a home
    found = list(find_homes(home, user))
    if given.origin and given.origin[1]:
        found = [(given.origin[0], given.origin[1])]
    elif given.origin:
        found = [one for one in found if one[0] == given.origin[0]]
        if not found and (begun := MigrationJournal(home, given.origin[0]).state()).home:
            found = [(given.origin[0], Path(begun.home))]
    if not found:
        what = PROGRAMS[given.origin[0]].title if given.origin else " or ".join(one.title for one in PROGRAMS.values())
        raise ConfigError(f"no home of {what} was found in {user}; --from KIND:PATH names one")
    if given.json and not given.yes:
        print(format_json([_plan_to_dict(home, *one) for one in found]))
        return 0
    asks = bool(given.origin) and sys.stdin.isatty() and sys.stdout.isatty() and not (given.dry_run or given.json)
    if not given.yes and not asks:
        for kind, path in found:
            _show_origin(home, kind, path)
        name = given.origin[0] if given.origin else found[0][0]
        print_wrapped(
            f"Nothing was changed. `picoclaw migrate --from {name}` asks and does it, with --yes without asking."
        )
        return 0
    if len(found) > 1:
        places = ", ".join(f"--from {kind}:{path}" for kind, path in found)
        raise ConfigError(f"there are {len(found)} homes; choose one: {places}")
    return _take_over(home, *found[0], given)


def _plan_migration(home: Path, kind: Kind, path: Path, *, keys: bool) -> MigrationPlan:
    config = load_config()
    if is_namesakes_home(home):  # it is moved aside first: there is nothing of ours yet
        config = replace(config, home=home.with_name(f"{home.name}.new"))
    agent = read_home(kind, path)
    count = 0
    if (home / "state.db").exists():
        from picoclaw.stores import Stores

        stores = Stores(config)
        try:
            count = len(stores.jobs.all())
        finally:
            stores.close()
    agreed = MigrationJournal(home, kind).state().agreed
    return make_plan(agent, config, get_owner_time(home), keys=keys, jobs=count, agreed=agreed)


def _select_waiting(plan: MigrationPlan, state: MigrationState) -> list[Step]:
    """The steps that a run could do now; after the first one only those that take a yes of their own."""
    steps = [step for step in plan.steps if step.name not in state.done]
    return [step for step in steps if step.consent and step.name in state.offered] if state.ended else steps


def _show_origin(home: Path, kind: Kind, path: Path) -> None:
    plan, state = _plan_migration(home, kind, path, keys=True), MigrationJournal(home, kind).state()
    print(bold(f"{PROGRAMS[kind].title}: {escape_unprintable(str(path))}"))
    if pid := find_daemon(kind, path):
        print_wrapped(f"  it runs (process {pid}); stop it before you take it over: {PROGRAMS[kind].stop}")
    if path == home and is_namesakes_home(home):
        print_wrapped(f"  first  the folder is moved to {home}{MOVED_SUFFIX}, as it is: both programs call theirs so")
    if state.ended:
        print_wrapped(f"  taken over on {format_minute(home, state.ended)}; --undo takes that back")
    elif state.begun:
        print_wrapped(
            f"  begun on {format_minute(home, state.begun)} and not finished, {len(state.done)} steps done; --yes goes on"
        )
    _print_steps(_select_waiting(plan, state))
    for what, why in [] if state.ended else plan.left:
        print_wrapped(f"  leave  {what}: {why}".replace("\n", "\\n"), indent=" " * 9)
    for step in [] if state.ended else [step for step in plan.steps if step.consent == "page"]:
        print_safe("", *diff_page(step, plan.home))
    print()


def _print_steps(steps: Iterable[Step]) -> None:
    for step in steps:
        word = {"": "take", "page": "take", "key": "ask", "skill": "ask"}[step.consent]
        if step.told:
            print_wrapped(f"  {word:6} {step.told}".replace("\n", "\\n"), indent=" " * 9)
        for remark in step.remarks:
            print_wrapped(f"         note: {remark}".replace("\n", "\\n"), indent=" " * 11)


def _plan_to_dict(home: Path, kind: Kind, path: Path) -> dict[str, Any]:
    plan, state = _plan_migration(home, kind, path, keys=True), MigrationJournal(home, kind).state()
    steps = [
        {"name": step.name, "told": step.told, "asks": step.consent, "notes": list(step.remarks)}
        for step in _select_waiting(plan, state)
    ]
    return {
        "kind": kind,
        "home": str(path),
        "running": find_daemon(kind, path),
        "begun": state.begun,
        "ended": state.ended,
        "steps": steps,
        "left": [{"what": what, "why": why} for what, why in plan.left],
    }


def _take_over(home: Path, kind: Kind, path: Path, given: Options) -> int:
    state = MigrationJournal(home, kind).state()
    beside = home.with_name(home.name + MOVED_SUFFIX)
    if state.begun and state.home != str(path) and path not in {home, beside}:
        raise ConfigError(
            f"{state.home} was taken over already; `picoclaw migrate --undo --from {kind}` takes that back"
        )
    plan = _plan_migration(home, kind, path, keys=True)
    names = {step.subject for step in plan.steps if step.consent == "skill"}
    if unknown := [name for name in given.skill if name not in names]:
        taken = {name.split()[1] for name in {*state.done, *state.agreed} if name.startswith("skill ")}
        if not set(unknown) <= taken:
            raise ConfigError(
                f"there is no skill {unknown[0]!r} to take; there are: {', '.join(sorted(names)) or 'none'}"
            )
    journals.check_daemon(plan.agent)
    waiting = _select_waiting(plan, state)
    if not given.yes:
        _show_origin(home, kind, path)
        if waiting and not state.begun and not confirm("Take this over? You are asked for each page, key and skill."):
            print("Nothing was changed.")
            return 1
    agreed = state.agreed | set(_choose_steps(plan.home, waiting, given))
    wanted = [step for step in waiting if not step.consent or step.name in agreed]
    if not wanted and state.ended:
        print_wrapped(f"Nothing was changed: {path} was taken over on {format_minute(home, state.ended)}.")
        _print_waiting(kind, waiting)
        return 0
    if kind != "picoclaw" and is_namesakes_home(home):
        raise ConfigError(f"{home} is sipeed/picoclaw's: take that over first, with `picoclaw migrate --from picoclaw`")
    moved = journals.move_aside(plan.agent, home)
    if moved != path:
        print_wrapped(f"moved {path} to {moved}, as it was: here is picoclaw's own home now")
    keys = any(step.consent == "key" and step.name in agreed for step in plan.steps)
    plan = _plan_migration(home, kind, moved, keys=keys)
    done: list[str] = []
    journals.run_plan(home, plan, agreed, done.append if given.json else print_wrapped)
    rest = [step for step in waiting if step.consent and step.name not in agreed]
    if given.json:
        print(
            format_json(
                {"done": done, "left": [list(one) for one in plan.left], "waiting": [step.name for step in rest]}
            )
        )
        return 0
    for what, why in [] if state.ended else plan.left:
        print_wrapped(f"left: {what}: {why}".replace("\n", "\\n"))
    _print_waiting(kind, rest)
    print_wrapped(f"`picoclaw migrate --undo --from {kind}` takes this back.")
    if is_lock_held(home):
        print_wrapped("picoclaw runs with the settings of before; `picoclaw restart` takes the new ones.")
    return 0


def _choose_steps(home: Path, waiting: Sequence[Step], given: Options) -> Iterator[str]:
    """Name the steps that are agreed to: by the options, or by answers on the terminal."""
    skills: dict[str, bool] = {}
    for step in waiting:
        name = step.subject
        if step.consent and given.yes:
            if step.consent == "page" or (step.consent == "key" and given.keys) or name in given.skill:
                yield step.name
        elif step.consent in {"page", "key"}:
            if step.consent == "page":
                print_safe("", *diff_page(step, home))
            if confirm(escape_unprintable(f"Take {step.told}?")):
                yield step.name
        elif step.consent == "skill":
            if name not in skills:
                text = next(one.value for one in waiting if one.name == f"skill {name} SKILL.md")
                print_safe("", text.decode(errors="replace"))
                skills[name] = confirm(
                    f"Take the skill {escape_unprintable(name)}? What it says becomes instructions for the model."
                )
            if skills[name]:
                yield step.name


def _print_waiting(kind: Kind, rest: Sequence[Step]) -> None:
    skills = sorted({step.subject for step in rest if step.consent == "skill"})
    keys = [step for step in rest if step.consent == "key"]
    pages = [step.subject for step in rest if step.consent == "page"]
    if keys:
        print_wrapped(
            f"Not taken: {format_count(len(keys), 'key')}; `picoclaw migrate --from {kind} --yes --keys` takes them."
        )
    if skills:
        print_wrapped(f"Not taken: the skills {', '.join(skills)}; read them, then add --skill NAME.")
    if pages:
        print_wrapped(f"Not taken: {', '.join(pages)}; `picoclaw migrate --from {kind}` asks again.")


def _undo_migration(home: Path, given: Options) -> int:
    begun = [kind for kind in PROGRAMS if MigrationJournal(home, kind).state().begun]
    if given.origin:
        begun = [given.origin[0]]
    elif not home.exists():  # the way back was cut off between two renames
        begun = ["picoclaw"]
    if len(begun) != 1:
        raise ConfigError(f"--undo takes --from {'|'.join(begun)}" if begun else "nothing was taken over")
    for line in journals.undo(home, begun[0]):
        print_wrapped(line)
    print_note("it is taken back")
    return 0
