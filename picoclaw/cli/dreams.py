"""The part of `picoclaw memory` that changes what is remembered: a dream now, a review now, and the way back."""

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from picoclaw.app import App
from picoclaw.cli.common import opened, printable
from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory.dream import versions
from picoclaw.memory.dream.direct import Model
from picoclaw.memory.dream.dream import Dream
from picoclaw.memory.dream.dream import restore as put_back
from picoclaw.messages import Purpose
from picoclaw.skills.skill import Skill, unmet
from picoclaw.store.marks import Marks
from picoclaw.stores import Stores
from picoclaw.workspace.pages import owner_time

_NO_MODEL = "no model is configured (base_url under [model] in config.toml)"


def dream(_: Stores, given: argparse.Namespace) -> int:
    """Do now what is done at night, and write it down; returns 1 when the model did not answer."""
    with opened(given, make=False) as app:
        now = app.now()
        chores = app.chores()
        said, answered = chores.dreamt(now)
        _say(said or ["nothing has changed since the last dream"])
        problems = chores.recorded(said, now)
        _say(problems)
        if not app.config.model.base_url:
            _say([f"MEMORY.md and the tasks stay as they are: {_NO_MODEL}"])
    return 0 if answered and not problems else 1


def review(stores: Stores, given: argparse.Namespace) -> int:
    """Go through the open tasks now; raises ProviderError when the model does not answer."""
    if not stores.config.model.base_url:
        raise ConfigError(f"a review takes a model: {_NO_MODEL}")
    with opened(given, make=False) as app:
        config, stores = app.config, app.stores
        marks = Marks(stores.database)
        dreaming = Dream(config.home, config.workspace, app.prompts, stores.pulse, marks, lambda: _skills(app))
        step = dreaming.review(_model(app), app.now())
        _say([step.said or "no task was changed"])
    return 0


def listed(stores: Stores, _: argparse.Namespace) -> int:
    """Print what dreams did, and what can be restored: versions of MEMORY.md, and notes as they were."""
    _say(versions.dreams(stores.config.home))
    for number, path in enumerate(versions.restorable(stores.config.home), 1):
        _say([f"{number:>3}  {path}{_corrected(path)}"])
    return 0


def _corrected(path: Path) -> str:
    if path.suffix != ".json":
        return ""
    try:
        found = versions.read_correction(path)
    except StoreError as error:
        return f"  {error}"
    return f'  {found.path}: "{found.before}" became "{found.after}"'


def restore(stores: Stores, given: argparse.Namespace) -> int:
    """Put an earlier MEMORY.md or note back; the present one is kept as the newest version."""
    config = stores.config
    path = put_back(config.home, config.workspace, Marks(stores.database), given.number, owner_time(config.home))
    if path.suffix == ".md":
        said = f"MEMORY.md is {path.name} again"
    else:
        note = versions.read_correction(path)
        said = f'{note.path} says "{note.before}" again'
    _say([f"{said}; `picoclaw memory restore 1` takes that back"])
    return 0


def _model(app: App) -> Model:
    return Model(app.models, app.config.model.context_tokens, time.monotonic, purpose=Purpose("review"))


def _skills(app: App) -> Iterator[Skill]:
    here = app.here()
    return (skill for skill in app.library.skills.values() if not unmet(skill, here))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line).replace("\n", "\\n"))
