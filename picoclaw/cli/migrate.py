"""`picoclaw migrate`: shows what can be taken over from another agent's home, does it once, and takes it back."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from picoclaw.cli.arguments import Options, Parser, UsageError, bold
from picoclaw.cli.common import confirm, format_count, format_minute, print_note, print_safe, print_wrapped
from picoclaw.config import load_config
from picoclaw.daemon.process import is_lock_held
from picoclaw.errors import ConfigError
from picoclaw.maintenance.migrate import plan as journals
from picoclaw.maintenance.migrate.origins import MOVED_SUFFIX, PROGRAMS, Kind, find_daemon, find_homes, read_home
from picoclaw.maintenance.migrate.plan import (
    MigrationJournal,
    MigrationPlan,
    MigrationState,
    Step,
    diff_page,
    make_plan,
)
from picoclaw.records import replace
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace import is_namesakes_home
from picoclaw.workspace.pages import get_owner_time


def options(parser: Parser) -> None:
    parser.exclude("--yes", "--dry-run", "--undo")
    parser.add_argument(
        "--from",
        dest="origin",
        metavar="KIND[:PATH]",
        type=_parse_origin,
        help=f"{', '.join(PROGRAMS)}; and where its home is, if not in yours",
    )
    parser.add_flag("--dry-run", help="only show what would be done, even at a terminal")
    parser.add_flag("--yes", help="do not ask; import everything except keys and skills")
    parser.add_flag("--keys", help="with --yes: also the keys and the bot's token")
    parser.add_argument("--skill", metavar="NAME", repeats=True, help="with --yes: also this skill; can be repeated")
    parser.add_flag("--undo", help="undo the import from KIND")
    parser.add_flag("--json", help="print it as JSON, without contents of files")


def _parse_origin(text: str) -> tuple[Kind, Path | None]:
    kind, _, path = text.partition(":")
    for known in PROGRAMS:
        if kind == known:
            return known, Path(os.path.abspath(os.path.expanduser(path))) if path else None  # noqa: PTH100, PTH111
    raise UsageError(f"{kind[:40]!r} is not one of {', '.join(PROGRAMS)}")


def run(given: Options) -> int:
    """Show it, or do it, or take it back; exit code 1 when it could not be done, or nothing was found."""
    home = get_home(os.environ)
    if (given.keys or given.skill) and not given.yes:
        raise ConfigError("--keys and --skill go with --yes; without it you are asked")
    if given.undo:
        return _undo(home, given)
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
            _show(home, kind, path)
        name = given.origin[0] if given.origin else found[0][0]
        print_wrapped(
            f"Nothing was changed. `picoclaw migrate --from {name}` asks and does it, with --yes without asking."
        )
        return 0
    if len(found) > 1:
        places = ", ".join(f"--from {kind}:{path}" for kind, path in found)
        raise ConfigError(f"there are {len(found)} homes; choose one: {places}")
    return _take_over(home, *found[0], given)


def _plan(home: Path, kind: Kind, path: Path, *, keys: bool) -> MigrationPlan:
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


def _show(home: Path, kind: Kind, path: Path) -> None:
    plan, state = _plan(home, kind, path, keys=True), MigrationJournal(home, kind).state()
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
    plan, state = _plan(home, kind, path, keys=True), MigrationJournal(home, kind).state()
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
    plan = _plan(home, kind, path, keys=True)
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
        _show(home, kind, path)
        if waiting and not state.begun and not confirm("Take this over? You are asked for each page, key and skill."):
            print("Nothing was changed.")
            return 1
    agreed = state.agreed | set(_choose(plan.home, waiting, given))
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
    plan = _plan(home, kind, moved, keys=keys)
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


def _choose(home: Path, waiting: Sequence[Step], given: Options) -> Iterator[str]:
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


def _undo(home: Path, given: Options) -> int:
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
