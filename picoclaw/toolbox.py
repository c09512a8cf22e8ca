"""Which tools there are on this board and with these settings, and what each of them can reach."""

import os
from collections.abc import Callable, Iterator
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Protocol

from picoclaw.config import Config
from picoclaw.memory.index.files import FOLDER, ROOT_FILES
from picoclaw.messages import Stop
from picoclaw.reflex.bell import ring
from picoclaw.skills.library import Library, tiers_of
from picoclaw.skills.skill import Here
from picoclaw.store.task import Task
from picoclaw.store.tasks import Tasks
from picoclaw.stores import Stores
from picoclaw.tools.file_places import CHECKLIST
from picoclaw.tools.files import Files
from picoclaw.tools.first_run import FirstRun
from picoclaw.tools.jobs import Reminders, words_run
from picoclaw.tools.message import Messages
from picoclaw.tools.pulse import PulseTool
from picoclaw.tools.recall import Recall
from picoclaw.tools.results import WholeResults
from picoclaw.tools.rules import Rules
from picoclaw.tools.sensor_history import SensorHistory
from picoclaw.tools.shell import Shell
from picoclaw.tools.skills import SkillTools
from picoclaw.tools.spawn import Spawn
from picoclaw.tools.toolset import Toolset
from picoclaw.tools.web import WebPages, WebSearch
from picoclaw.wiring import Wiring
from picoclaw.workspace.pages import PAGES
from picoclaw.workspace.seeds import MEETING, first_meeting


class House(Protocol):
    """What tools are made of: an App."""

    config: Config

    @property
    def stores(self) -> Stores:
        """What outlasts the process."""

    @property
    def wiring(self) -> Wiring:
        """The board and what hangs on it."""

    @property
    def library(self) -> Library:
        """The skills."""

    @property
    def helpers(self) -> Tasks:
        """The helpers' tasks."""

    @property
    def toolset(self) -> Toolset:
        """The tools themselves, for those that look at others."""

    def here(self) -> Here:
        """What skills may need of this machine."""


def groups(
    house: House, whole: WholeResults, zone: Callable[[], tzinfo | None], do: Callable[[Task, Stop], Task] | None
) -> Iterator[object]:
    """Make the groups of tools, in the order in which a model is shown them; those of absent hardware are left out.

    `whole` keeps long results, `zone` is the owner's, and `do` has a helper's task done, None without a model.
    """
    config, home, stores = house.config, house.config.home, house.stores
    yield house.wiring.sensors()
    yield Files(
        *(config.workspace, config.tools.extra_folders),
        library=house.library,
        instructions=lambda: _instructions(config),
        run=lambda: words_run(stores.jobs.all()),
        foreign=lambda: stores.foreign_files,
    )
    yield Recall(config.workspace, stores.memory, past=config.memory.messages)
    commands, line = config.tools.exec != "off", config.tools.shell
    yield Reminders(lambda: stores.jobs, lambda: house.toolset.effect, commands=commands, shell=line)
    yield PulseTool(lambda: stores.pulse)
    yield Messages()
    yield Spawn(lambda: house.helpers, lambda: house.toolset.names, config.helpers, do, partial(ring, home))
    yield from _web(config)
    yield SensorHistory(lambda: stores.samples)
    yield Rules(home, house.wiring.measured, lambda: str(zone() or ""))
    yield SkillTools(house.library, house.here, config.workspace)
    yield FirstRun(home, jobs=lambda: stores.jobs)
    yield whole
    if config.tools.exec != "off":
        kept, tools = (lambda: _untouched(config)), config.tools
        seen = lambda: stores.foreign_files.all() if (home / "state.db").exists() else ()  # noqa: E731
        yield Shell(
            *(config.workspace, os.environ),
            folders=tools.extra_folders,
            shell=tools.shell,
            environ=tools.environment,
            kept=kept,
            foreign=seen,
        )
    yield from house.wiring.buses()


def _web(config: Config) -> Iterator[object]:
    """Make the tools that reach the web, as far as the owner wants them."""
    web = config.web
    if web.enabled:
        yield (pages := WebPages(os.environ, web.seconds))
        if web.search != "off":
            yield WebSearch(pages, web.search, web.searxng_url, config.brave_key)


def _instructions(config: Config) -> tuple[Path, ...]:
    """Name what tells later turns how to work; the pages may be written while the first meeting is open."""
    names = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md") if not first_meeting(config.home) else ()
    tiers = [folder for _, folder in tiers_of(config.home)]
    return (config.workspace / "prompts", *tiers, *(config.workspace / name for name in (*names, MEETING)))


def _untouched(config: Config) -> tuple[Path, ...]:
    """Name what no command changes, because later turns are told it."""
    pages = dict.fromkeys((*PAGES, *ROOT_FILES, CHECKLIST, MEETING, FOLDER))
    return (*_instructions(config), *(config.workspace / name for name in pages))
