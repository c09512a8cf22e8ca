"""One running picoclaw: joins its parts, makes the tools of this board and these settings, takes all apart again."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from picoclaw.agent.context import ContextBuilder
from picoclaw.agent.dispatcher import BY_COMMAND, Dispatcher, OnboardingProvider, is_onboarding_dropped
from picoclaw.agent.loop import Agent
from picoclaw.automation.clock import wake_all
from picoclaw.config import Config
from picoclaw.config.tables import UNATTENDED_LIMITS
from picoclaw.errors import ConfigError, StoreDamaged, StoreError, StoreNewer
from picoclaw.files import find_shipped
from picoclaw.messages import TASK_SESSIONS, Message, Origin, Stop, Turn
from picoclaw.prompts import WindowBudget, split_window
from picoclaw.providers import BUILT_IN_PROVIDER, Provider
from picoclaw.records import dataclass, replace
from picoclaw.security.audit import AuditLog
from picoclaw.security.guard import ApprovalManager, Guard, PolicyLoader
from picoclaw.security.policy import CallRequest, Requester, get_requester
from picoclaw.security.redaction import Redactor
from picoclaw.store.conversations import find_agent
from picoclaw.stores import Stores, list_secrets
from picoclaw.text import list_terms
from picoclaw.tools.registry import ON_REQUEST, MessageTool, ResultTool, ToolGroup, Toolset, select_tools
from picoclaw.wiring import Wiring
from picoclaw.workspace import (
    MAX_PAGE_BYTES,
    ONBOARDING_PAGE,
    PAGES,
    Pages,
    Prompts,
    get_owner_time,
    list_intent_files,
    list_languages,
    read_fields,
    read_intent_tables,
    read_text,
)

if TYPE_CHECKING:
    from picoclaw.agent.compaction import Compaction
    from picoclaw.agents import PersonalPages
    from picoclaw.hw.board import Board
    from picoclaw.intents.grammar import Grammar
    from picoclaw.intents.provider import IntentProvider
    from picoclaw.maintenance.upkeep import MaintenanceJobs
    from picoclaw.memory.memory import MemoryIndex
    from picoclaw.providers.model import Chain, ModelLink
    from picoclaw.skills import SkillContext, SkillLibrary
    from picoclaw.store.approvals import Approval
    from picoclaw.store.database import Database
    from picoclaw.store.people import People
    from picoclaw.store.subagent_tasks import Task, Tasks
    from picoclaw.tools.web import WebFetchTool


def make_tools(
    app: App, whole: ResultTool, zone: Callable[[], tzinfo | None], do: Callable[[Task, Stop], Task] | None
) -> Iterator[ToolGroup]:
    """Name the tools, in the order in which a model is shown them; those of absent hardware are left out.

    A member of the household has those that reach nothing of the owner's.

    `whole` keeps long results, `zone` is the owner's, and `do` has a sub-agent's task done, None without a model.
    """
    config, home, stores = app.config, app.config.home, app.stores

    def make_files() -> object:
        from picoclaw.tools.cron import list_command_words
        from picoclaw.tools.files import FileTools

        return FileTools(
            config.workspace,
            () if is_member else config.tools.extra_folders,
            home=home,
            library=app.library,
            instructions=lambda: _list_instruction_files(app),
            pages=app.personal,
            run=lambda: list_command_words(stores.jobs.all()),
            foreign=lambda: stores.foreign_files,
            virtual=_list_virtual_pages(config),
        )

    def make_memory() -> object:
        from picoclaw.tools.memory import MemoryTools

        return MemoryTools(
            config.workspace,
            stores.memory,
            past=config.memory.messages,
            person=config.person,
            read_owner_time=partial(get_owner_time, home),
        )

    def make_cron() -> object:
        from picoclaw.tools.cron import CronTool

        commands = config.tools.exec != "off" and (not config.agent or "exec" in app.toolset.names)
        jobs, effect, line = lambda: stores.jobs, lambda: app.toolset.effect, config.tools.shell
        return CronTool(
            jobs, effect, commands=commands, shell=line, agent=config.agent, word_heading=app.word_reminder_heading
        )

    def make_pulse() -> object:
        from picoclaw.tools.memory import PulseTool

        return PulseTool(lambda: stores.pulse)

    def make_subagents() -> object:
        from picoclaw.tools.subagents import SubagentTools

        ring = partial(wake_all, home)
        return SubagentTools(
            lambda: app.subagent_tasks, lambda: app.toolset.names, config.subagents, do, ring, agent=config.agent
        )

    def make_delegate() -> object:
        from picoclaw.tools.delegate import DelegateTools

        return DelegateTools(
            lambda: app.subagent_tasks,
            lambda: app.toolset.names,
            lambda who, agent: app.find_view(who, agent).toolset.names,
            config,
            do,
            partial(wake_all, home),
        )

    @cache
    def make_web() -> WebFetchTool:
        from picoclaw.tools.web import WebFetchTool

        return WebFetchTool(os.environ, config.web.seconds)

    def make_search() -> object:
        from picoclaw.tools.web import WebSearchTool

        return WebSearchTool(make_web(), config.web.search, config.web.searxng_url, config.brave_key)

    def make_history() -> object:
        from picoclaw.tools.sensors import SensorHistory

        return SensorHistory(lambda: stores.samples)

    def make_fleet() -> object:
        from picoclaw.tools.fleet import FleetTools

        return FleetTools(home)

    def make_rules() -> object:
        from picoclaw.tools.rules import RuleTool

        return RuleTool(home, app.wiring.measured, lambda: str(zone() or ""), app.list_waiting_names)

    def make_skills() -> object:
        from picoclaw.tools.skills import SkillTools

        return SkillTools(app.library, app.skill_context, config.workspace, app.rate_skills, app.list_skill_readers)

    def make_first_run() -> object:
        from picoclaw.tools.onboarding import FirstRunTool

        # those of a member, and with another agent, are in their own zone from the beginning
        jobs = None if app.personal else lambda: stores.jobs
        return FirstRunTool(config.folder, jobs=jobs, is_member=is_member, pages=app.personal)

    def make_exec() -> object:
        from picoclaw.tools.exec import ExecTools

        tools = config.tools
        return ExecTools(
            config.workspace,
            os.environ,
            home=home,
            folders=tools.extra_folders,
            shell=tools.shell,
            environ=tools.environment,
            kept=lambda: _list_protected_files(app),
            foreign=lambda: stores.foreign_files.all() if (home / "state.db").exists() else (),
        )

    is_member = bool(config.person)
    yield ToolGroup(("sensor_list", "sensor_read", "board_status"), app.wiring.sensors)
    yield ToolGroup(("read_file", "write_file", "edit_file", "list_dir"), make_files)
    memory = ["store", "search", "get", "update", "forget", "rank", *(["share"] if config.people else [])]
    yield ToolGroup(tuple(f"memory_{name}" for name in memory), make_memory)
    yield ToolGroup(("cron",), make_cron)
    if not is_member:
        yield ToolGroup(("pulse",), make_pulse)
    yield ToolGroup(("message",), MessageTool)
    if not is_member:
        yield ToolGroup(("spawn", "spawn_status"), make_subagents)
    if config.links or config.teams:
        from picoclaw.tools.delegate import MAX_LISTED, list_targets

        targets = len(list_targets(config))
        names = ("delegate", "delegate_search")[: (targets > 0) + (targets > MAX_LISTED)]
        yield ToolGroup(names, make_delegate)
    if config.web.enabled:
        yield ToolGroup(("web_fetch",), make_web)
        if config.web.search != "off":
            yield ToolGroup(("web_search",), make_search)
    yield ToolGroup(("sensor_history", "sensor_excursions"), make_history)
    if not is_member:
        yield ToolGroup(("rule",), make_rules)
    if not is_member and config.mqtt.host and config.mqtt.fleet:
        yield ToolGroup(("fleet_list", "fleet_read", "fleet_ask"), make_fleet)
    if config.mcp and not is_member:
        from picoclaw.tools.mcp import list_groups

        yield from list_groups(config)
    skills = ["search", *(() if is_member else ("create", "update"))]
    yield ToolGroup(tuple(f"skill_{name}" for name in skills), make_skills)
    yield ToolGroup(("first_run",), make_first_run)
    yield ToolGroup(("read_result",), lambda: whole)
    if config.tools.exec != "off" and not is_member:
        yield ToolGroup(("exec", "process"), make_exec)
    yield from (group for group in app.wiring.buses() if not is_member or "output" in group.names)


def _list_virtual_pages(config: Config) -> tuple[str, ...]:
    if not (config.links or config.teams):
        return ()
    from picoclaw.tools.delegate import VIRTUAL_PAGES

    return VIRTUAL_PAGES


def _list_instruction_files(app: App) -> tuple[Path, ...]:
    """Name what tells later turns how to work; the pages may be written while the first meeting is open.

    A member's own pages tell nothing but the turns of theirs.
    """
    from picoclaw.skills import list_home_tiers

    config = app.config
    names: tuple[str, ...] = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md")
    if app.context_builder.pages.read_onboarding():
        names = ()
    if app.personal and config.person:
        names = tuple(name for name in names if name not in app.personal.names)
    tiers = [folder for _, folder in list_home_tiers(config.home)]
    return (config.workspace / "prompts", *tiers, *(config.workspace / name for name in (*names, ONBOARDING_PAGE)))


def _list_protected_files(app: App) -> tuple[Path, ...]:
    """Name what no command changes, because later turns are told it."""
    from picoclaw.memory.files import MEMORY_FOLDER, ROOT_FILES
    from picoclaw.prompts import CHECKLIST_PAGE

    pages = dict.fromkeys((*PAGES, *ROOT_FILES, CHECKLIST_PAGE, ONBOARDING_PAGE, MEMORY_FOLDER))
    return (*_list_instruction_files(app), *(app.config.workspace / name for name in pages))


def open_tasks(database: Database, mark: str) -> Tasks:
    """Open the tasks of a database; the `mark` says in reports what board they come from."""
    from picoclaw.store.subagent_tasks import Tasks

    def format_reports(tasks: Sequence[Task]) -> str:
        from picoclaw.agent import workflow

        return workflow.format_reports(tasks, mark)

    return Tasks(database, format_reports)


_SKILL_WEIGHTS = 0.3, 0.7  # of the words and the vectors of a skill
SIMULATED_MARK = "[simulated board, not real values]"


@dataclass
class App:
    """One running picoclaw. Parts that a verb does not use are not made.

    `ask` shows a person a call and returns their answer; in a rehearsal nobody is asked about the hardware. `changed`
    is called with each call that waits for a yes, when it was asked about, answered or done. `language` is that of
    whoever is answered, '' where config.toml does not say. `root` is the home's app, if this is a person's or an
    agent's view of it.
    """

    config: Config
    board: Board
    ask: Callable[[str], bool] | None = None
    rehearses: bool = False
    changed: Callable[[Approval], None] = lambda _: None
    root: App | None = None
    language: str = ""

    @property
    def mark(self) -> str:
        """What is said with whatever comes from a simulated board."""
        return SIMULATED_MARK if self.board.simulated else ""

    @cached_property
    def prompts(self) -> Prompts:
        return Prompts(self.config.home / "workspace")

    @cached_property
    def stores(self) -> Stores:
        return Stores(self.config, self.now, self.root.stores if self.root else None)

    @cached_property
    def wiring(self) -> Wiring:
        return Wiring(self.config, self.board)

    @property
    def room(self) -> WindowBudget:
        model = self.config.model
        return split_window(model.context_tokens, model.answer_tokens, self.config.limits.result_chars)

    @cached_property
    def toolset(self) -> Toolset:
        """The tools of this board and configuration; those of absent hardware are left out."""
        whole = ResultTool(lambda: self.stores.results, self.room.result)
        do_now = None
        if self.config.model.base_url:
            from picoclaw.agent.subagents import run_task_in_turn

            do_now = partial(run_task_in_turn, self)
        guard = Guard(self.rights.policy, self.ask, self.approving.queue_call, self.audit.note)
        groups = make_tools(self, whole, self.context_builder.zone, do_now)
        if self.config.agent:
            groups = select_tools(groups, self.config.agents[self.config.agent].tools)
        made = Toolset(
            groups,
            guard=guard,
            journal=self.stores.begin_act,
            longest_result=self.room.result,
            secrets=list_secrets(self.config, os.environ),
            wording=lambda name: None if "." in name else self.prompts.get(f"tool_{name}"),
            keep_whole=whole.keep,
        )
        made.ended, made.accepted, made.ask_ahead = self.audit.note_result, self._accept, guard.ask_ahead
        return made

    def _accept(self, asked: CallRequest) -> None:
        """Take the files for the owner's that a person was shown with a call and has said yes to."""
        from picoclaw.tools.exec import bind_foreign_files

        if asked.bound and (files := [one for one in self.stores.foreign_files.all() if os.path.lexists(one.path)]):
            every = bind_foreign_files(files).items() <= asked.bound.items()
            shown = [one for one in files if every or bind_foreign_files([one]).items() <= asked.bound.items()]
            self.stores.foreign_files.accept(one.number for one in shown)

    @cached_property
    def audit(self) -> AuditLog:
        return AuditLog(self.config.home, Redactor(list_secrets(self.config, os.environ)))

    @cached_property
    def rights(self) -> PolicyLoader:
        config, approvals = self.config, lambda: self.stores.approvals
        file = config.home / "policy.toml"
        return PolicyLoader(file, approvals, config.tools.exec, lambda: self.rehearses, config.agent, config.person)

    @cached_property
    def approving(self) -> ApprovalManager:
        stores, minutes = self.stores, self.config.approvals.minutes
        return ApprovalManager(
            stores,
            lambda one: self.find_view(one.asked_by, one.agent).toolset,
            self.rights.policy,
            self.now,
            minutes,
            self._changed,
            self.audit.note,
            self.config.agent,
            lambda one: self.explain_role_change(one.asked_by, one.origin),
            self._name_asker,
        )

    def _name_asker(self, asked: Approval) -> str:
        """Whose call it is that was approved, as StandingApproval's `whose`."""
        who = get_requester(asked.origin)
        return (
            f"member {self.people.find(asked.asked_by)}" if who == "member" else who if who in {"guest", "mcp"} else ""
        )

    def find_person(self, who: str) -> str:
        """Name the person whom a channel calls `who`, '' for nobody of the household. Raises StoreError."""
        return self.people.find(who) if who and self.config.people else ""

    def explain_role_change(self, who: str, origin: Origin) -> str:
        """See describe_role_change; '' where nobody is named, at the board's own terminal."""
        if not who:
            return ""
        from picoclaw.channels.pairing import describe_role_change

        return describe_role_change(self.config, who, origin)

    def _changed(self, approval: Approval) -> None:
        wake_all(self.config.home)
        self.changed(approval)

    @cached_property
    def provider(self) -> Provider:
        """The configured model with the built-in matcher behind it, or the matcher alone."""
        if not self.config.model.base_url:
            return self.matcher

        def load() -> IntentProvider:
            return self.matcher

        model: Provider = self._chain(load)
        if self.config.model.is_small:
            from picoclaw.agent.small import SmallProvider

            model = SmallProvider(self.models, load, self.prompts, self.config.workspace, self._is_noted)
        return OnboardingProvider(model, load, self.is_onboarding_led, lambda: self.prompts["invitation"])

    def _is_noted(self, words: str) -> bool:
        """Whether one place in the notes has all of the words."""
        try:
            hits = self.stores.memory.search(words, self.now())
        except StoreError:
            return False
        return any(set(list_terms(hit.snippet)).issuperset(list_terms(words)) for hit in hits)

    @cached_property
    def models(self) -> Provider:
        """The configured models alone: what nobody has asked for is not answered by the matcher."""
        return self._chain(None)

    def _chain(self, fallback: Callable[[], IntentProvider] | None) -> Chain:
        from picoclaw.providers.model import Chain

        first, *then = self.links
        return Chain(first, fallback, then=then)

    @cached_property
    def links(self) -> tuple[ModelLink, ...]:
        """The configured models in their order; none of their servers is reached yet."""
        from picoclaw.providers.model import build_links

        return build_links(self.config, lambda: self.stores.ledger, self.context_builder.zone)

    def is_onboarding_led(self, turns: Sequence[Sequence[Message]]) -> bool:
        """Whether the matcher holds the first meeting, which the model has dropped; only the shipped ritual's."""
        return (
            bool(self.config.model.base_url)
            and (self.config.model.is_small or is_onboarding_dropped(turns))
            and self.context_builder.pages.is_shipped_onboarding()
        )

    @cached_property
    def languages(self) -> dict[str, frozenset[str]]:
        """The words by which each language is told."""
        from picoclaw.intents.grammar import read_marks

        return {one: read_marks(find_shipped("templates") / f"intents/{one}.toml") for one in list_languages()}

    def load_language(self, language: str = "en") -> Grammar:
        """Load the grammar of a language, with the owner's own files. Raises ConfigError."""
        from picoclaw.intents.grammar import load_grammar

        home = self.config.home
        files, english = list_intent_files(home, language), language == "en"
        cache = home / ("intents.cache" if english else f"intents-{language}.cache")
        return load_grammar(files, cache, read_intent_tables, translated=not english)

    def word_reminder_heading(self, texts: Sequence[str]) -> str:
        """Say "Reminder:" in the language of the last of some texts that is told by its words; '' for English."""
        from picoclaw.intents.conversation import clean_text
        from picoclaw.intents.grammar import find_language

        said = [clean_text(text) for text in reversed(texts[-3:])]
        language = find_language(said, self.languages) or (self.root or self).language or "en"
        with suppress(ConfigError):
            return self.load_language(language).say["reminder"] if language != "en" else ""
        return ""

    @cached_property
    def matcher(self) -> IntentProvider:
        """The built-in matcher, one for all who answer with it: its grammar takes 12 MB."""
        from picoclaw.intents.provider import IntentProvider

        known = self.config.model.name or self.config.model.shown_url
        return IntentProvider(
            self.load_language(),
            configured_model=known,
            unlisted=self.toolset.names & ON_REQUEST,
            languages=self.languages,
            load=self.load_language,
            declared=self.wiring.list_names,
            usual=lambda: (self.root or self).language,
            confirmed=self._list_confirmed,
            waiting=self._list_waiting_rules,
        )

    def _list_confirmed(self) -> list[str]:
        """The tools each of whose changes waits for a yes, whoever asks; a note that is named by all its words does not."""
        policy = self.rights.policy()
        is_asked = all(policy.verdict("instruct", "rule", who)[0] != "allow" for who in get_args(Requester))
        return ["rule"] if is_asked else []

    def _list_waiting_rules(self) -> dict[int, str]:
        """What each rule means that waits for the owner's yes, by its number; nothing for another person."""
        waiting = () if self.config.person else self.stores.approvals.waiting()
        return {one.number: one.means for one in waiting if one.call.name == "rule"}

    def list_waiting_names(self) -> list[str]:
        """The names of the rules that wait for a yes."""
        return [
            str(one.call.arguments.get("name", ""))
            for one in self.stores.approvals.waiting()
            if one.call.name == "rule"
        ]

    @cached_property
    def agent(self) -> Agent:
        model = self.config.model
        return Agent(
            self.provider,
            self.toolset,
            self.prompts,
            self.config.limits,
            0 if model.is_small or not model.base_url else model.context_tokens,
            self.room.answer,
            writes=self.toolset.writes,
        )

    @cached_property
    def light_agent(self) -> Agent:
        """The loop for heartbeats and webhooks: tight limits, and no matcher, which would take a line for an order."""
        limits = replace(UNATTENDED_LIMITS, result_chars=self.config.limits.result_chars)
        return replace(self.agent, provider=self.models, limits=limits, window=self.config.model.context_tokens)

    @cached_property
    def library(self) -> SkillLibrary:
        """The skills; their front matter is kept in a file, so that a start reads none that has not changed.

        A member has those that came with picoclaw, and what was granted to them, to everyone or to the agent.
        """
        from picoclaw.skills import GRANTED, PINNED_FOLDER, SkillLibrary, list_home_tiers

        config, tiers = self.config, list_home_tiers(self.config.home)
        if config.person:
            tiers.insert(0, (GRANTED, config.home / PINNED_FOLDER / (config.agent or config.default_agent)))
        cache = config.home / "skills.cache" if config.home.is_dir() else None
        library = SkillLibrary(tiers, cache, self._list_granted_skills if config.person else None)
        library.refresh()
        return library

    def _list_granted_skills(self) -> dict[str, str]:
        """What a member may use; nothing while that cannot be read."""
        from picoclaw.store.people import SkillGrants

        config = self.config
        try:
            return SkillGrants(self.stores.database).list_accessible(
                config.agent or config.default_agent, config.person
            )
        except StoreError:
            return {}

    def list_skill_readers(self, name: str) -> list[str]:
        """Name who may use a skill besides the owner, as it is whenever they do."""
        if not self.config.people:
            return []
        from picoclaw.store.people import SkillGrants

        try:
            grants = SkillGrants(self.stores.database).all()
        except StoreError as error:
            return [f"whoever it is granted to, which cannot be read now ({error}),"]
        return [one.grantee.partition(":")[2] or one.grantee for one in grants if one.skill == name and not one.pinned]

    @cached_property
    def skill_index(self) -> MemoryIndex:
        """The vectors of the skills, each person's of those that they may use."""
        from picoclaw.memory.files import Document
        from picoclaw.memory.memory import MemoryIndex

        def list_documents() -> Iterator[Document]:
            for skill in filter(lambda skill: skill.listed, self.library.skills.values()):
                text = f"{skill.name}: {skill.description}\n{', '.join(skill.triggers)}"
                yield Document(f"skills/{skill.name}", zlib.crc32(text.encode()), partial(str, text), "")

        config, embedder = self.config, self.stores.memory.get_embedder
        folder = config.folder if config.person else config.home
        return MemoryIndex(folder, Path(os.devnull), embedder, list_documents, name="skills.db")

    def rate_skills(self, query: str, words: Mapping[str, float]) -> Mapping[str, float]:
        """Combine the scores of skills by their words with those of their vectors, by name; where there are any."""
        if self.config.memory.embeddings == "off" or not self.config.folder.is_dir():
            return words
        from picoclaw.memory.search import combine_documents

        try:
            near = {path.removeprefix("skills/"): score for path, score in self.skill_index.compare(query).items()}
        except StoreError:
            return words
        return combine_documents(words, near, _SKILL_WEIGHTS)

    def skill_context(self) -> SkillContext:
        """What skills may need of this machine, as it is now; its parts are only looked for where a skill asks."""
        from picoclaw.skills import SkillContext

        asked = any(skill.needs.parts for skill in self.library.skills.values())
        parts = self.wiring.parts() if asked else frozenset[str]()
        return SkillContext(self.toolset.names, parts, self._command_environment)

    @cached_property
    def _command_environment(self) -> Mapping[str, str]:
        from picoclaw.security.sandbox import build_environment

        return build_environment(os.environ, self.config.tools.environment)

    @cached_property
    def context_builder(self) -> ContextBuilder:
        config = self.config
        shared = Pages(config.agent_folder) if config.person else None
        return ContextBuilder(self, config, Pages(config.folder, shared=shared, own=self.personal))

    @cached_property
    def personal(self) -> PersonalPages | None:
        """The pages that are a person's own; None in the home itself, where all are the owner's."""
        if not (self.config.person or self.config.agent):
            return None
        from picoclaw.agents import PersonalPages

        return PersonalPages(self.config, lambda: self.stores.context_files, self.now)

    def describe_person(self) -> str:
        """What USER.md says of whoever has this view, once they have said who they are; '' before that."""
        pages = self.context_builder.pages
        if pages.read_onboarding(tidy=False) or "Name" not in read_fields(pages.read("USER.md")):
            return ""
        if self.personal:
            return self.personal.read("USER.md") or ""
        return read_text(self.config.workspace / "USER.md", MAX_PAGE_BYTES) or ""

    @cached_property
    def people(self) -> People:
        from picoclaw.store.people import People

        return People(self.config.people, self.stores.database)

    @cached_property
    def views(self) -> dict[tuple[str, str], App]:
        """The views of this home that were asked for, by person and agent."""
        return {}

    def find_agent(self, session: str) -> str:
        """The key of the agent that a conversation is held with, '' for the home's own, and when the disk fails.

        Raises StoreError where the database cannot be used at all.
        """
        if not (self.config.agents or (self.config.home / "state.db").exists()):
            return ""
        number = session.removeprefix(TASK_SESSIONS)
        try:
            if number != session and number.isdecimal():
                task = self.subagent_tasks.get(int(number))
                return task.agent if task else ""
            return find_agent(self.stores.database, session)
        except (StoreDamaged, StoreNewer):
            raise
        except StoreError:
            return ""

    def find_view(self, who: str, agent: str = "") -> App:
        """The app as a person has it with an agent: with their own workspace and notes there, or this one.

        `who` is what a channel calls a person; without a member of that name it is the owner's. A view is asked for
        views of its own person alone. Raises StoreError, and ConfigError when there is no such agent, or no workspace
        can be made.
        """
        root, person = self.root or self, self.config.person
        if not person and root.config.people and root.people.role(who) == "member":
            person = root.people.find(who)
        return root.open_view(person, agent)

    def open_view(self, person: str, agent: str) -> App:
        """The app of the home as a member of the household has it, by their name, '' for the owner, with an agent.

        Raises as find_view does.
        """
        config, known = self.config, ""
        if agent == config.default_agent:
            agent = ""
        if not (person or agent):
            return self
        if (person, agent) not in self.views:
            if agent:
                from picoclaw.agents import check_open, prepare_agent, select_agent

                if person:
                    check_open(config, agent, person)
                config = select_agent(config, agent)
                prepare_agent(config)
                known = self.open_view(person, "").describe_person()
            config = replace(config, person=person, memory=replace(config.memory, messages=False))
            view = App(config, self.board, self.ask, self.rehearses, self.changed, self)
            view.wiring = self.wiring
            if view.personal:
                view.personal.prepare(known)
            self.views[person, agent] = view
        return self.views[person, agent]

    @cached_property
    def subagent_tasks(self) -> Tasks:
        return open_tasks(self.stores.database, self.mark)

    def now(self) -> datetime:
        """The time, in the owner's zone where it is known, else in the board's."""
        return datetime.now().astimezone(self.context_builder.zone())

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self)

    def settle(self, session: str, stop: Stop | None = None) -> list[str]:
        """See Compaction.settle; nothing where the model was not to be had a moment ago."""
        asked = self.__dict__.get("provider")
        if not self.config.model.base_url or (asked and asked.name == BUILT_IN_PROVIDER):
            return []
        return self.compaction.settle(session, stop)

    @cached_property
    def compaction(self) -> Compaction:
        from picoclaw.agent.compaction import Compaction

        return Compaction(self)

    def maintenance_jobs(
        self, stop: Stop | None = None, failed_at: Callable[[], float] = lambda: 0.0
    ) -> MaintenanceJobs:
        """What is done unasked in this home, until `stop` says that somebody waits for the model.

        `failed_at` tells when the model failed an app that answers people, where this one does not.
        """
        from picoclaw.maintenance.upkeep import MaintenanceJobs
        from picoclaw.memory.dream import DreamModel

        window, stores = self.config.model.context_tokens, self.stores
        return MaintenanceJobs(
            self.config,
            self.prompts,
            lambda: stores.database,
            lambda: stores.memory,
            self.library.skills.values,
            (lambda: DreamModel(self.models, window, time.monotonic, stop)) if self.config.model.base_url else None,
            stores.redact,
            self._warm_prompt(stop) if self.config.model.base_url and self.config.model.is_small else None,
            lambda: max(self.get_failure_time(), failed_at()),
            self._index_skills,
        )

    def _index_skills(self, seconds: float) -> None:
        """Give vectors to the skills that have none, where there are so many that a model searches. Raises StoreError."""
        from picoclaw.prompts import BYTES_A_TOKEN
        from picoclaw.skills import fits_prompt

        self.library.refresh()
        if not fits_prompt(list(self.library.skills.values()), BYTES_A_TOKEN):
            self.skill_index.refresh(seconds=seconds)

    def get_failure_time(self) -> float:
        """When the newest request of the first model failed, in seconds of the epoch; 0 where it did not."""
        from picoclaw.providers.model import describe_links

        return max((link["at"] for link in describe_links(self.links[:1]) if link["error"]), default=0.0)

    def _warm_prompt(self, stop: Stop | None) -> Callable[[], bool]:
        def warm() -> bool:
            from picoclaw.agent.small import warm_prompt
            from picoclaw.hw.kernel import is_strained

            return not is_strained(self.board) and warm_prompt(self.models, self.prompts, stop)

        return warm

    def close(self) -> None:
        """Take apart what was made, in the reverse order; may be called twice."""
        self.wiring.close()
        self.close_own()
        if self.config.mcp:
            from picoclaw.tools.mcp import close_servers

            close_servers(self.config.home)

    def close_own(self) -> None:
        """Close what is this app's own, and leave the board to the one who shares it."""
        for view in self.__dict__.get("views", {}).values():
            view.close_own()
        for part in (self.__dict__.get(name) for name in ("provider", "models", "skill_index", "stores")):
            if part:
                part.close()


def is_simulated(app: App, turn: Turn) -> bool:
    """Tell whether an answer has to be marked: a command's, or a sign of life, says nothing of the board."""
    return app.board.simulated and turn.provider != BY_COMMAND
