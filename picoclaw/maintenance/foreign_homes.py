"""The homes of other agents, told apart and read: sipeed/picoclaw (Go), nanobot and openclaw.

Nothing is written there, and nothing is followed out of them. Formats: the programs' own homes (nanobot 0.3, openclaw
2026.4 and 2026.9) and the documents of sipeed/picoclaw; what their settings are called is in the tables below.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from picoclaw import files
from picoclaw.config.files import ANTHROPIC_URL, OPENAI_URL, OPENROUTER_URL
from picoclaw.errors import SkillError
from picoclaw.files import explain_os_error
from picoclaw.maintenance import MaintenanceError
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.skills import SKILL_FILE
from picoclaw.text import pattern

Kind = Literal["picoclaw", "nanobot", "openclaw"]


class ForeignProgram(NamedTuple):
    """A program that homes come from: its folders below a user's, its settings there, and how its daemon is known."""

    title: str
    folders: tuple[str, ...]
    settings: tuple[str, ...]
    daemon: re.Pattern[str]
    stop: str


MOVED_SUFFIX = "-sipeed"
"""Ends the name of the folder that a Go picoclaw's home is moved to, where it was in ours."""

PROGRAMS: Mapping[Kind, ForeignProgram] = {
    "picoclaw": ForeignProgram(
        "sipeed/picoclaw (Go)",
        (".picoclaw", f".picoclaw{MOVED_SUFFIX}"),
        ("config.json",),
        pattern(r"(?:^|/)picoclaw(?:-launcher)?\0(?:.*\0)?gateway\0"),
        "stop `picoclaw gateway`",
    ),
    "nanobot": ForeignProgram(
        "nanobot",
        (".nanobot",),
        ("config.json",),
        pattern(r"^nanobot-gateway\0|(?:^|/|\0)nanobot\0(?:.*\0)?(?:gateway|webui)\0"),
        "`nanobot gateway stop`, or Ctrl-C where it runs",
    ),
    "openclaw": ForeignProgram(
        "openclaw",
        (".openclaw", ".moltbot", ".clawdbot"),
        ("openclaw.json", "moltbot.json", "clawdbot.json"),
        pattern(
            r"^(?:openclaw|clawdbot|moltbot)(?:-gateway)?\0|(?:openclaw|clawdbot|moltbot)[^\0]*\0(?:.*\0)?gateway\0"
        ),
        "`openclaw gateway stop`, or Ctrl-C where it runs",
    ),
}

PROVIDERS: Mapping[str, str] = {
    "anthropic": ANTHROPIC_URL,
    "anthropic-messages": ANTHROPIC_URL,
    "dashscope": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "groq": "https://api.groq.com/openai/v1",
    "lm_studio": "http://127.0.0.1:1234/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "mistral": "https://api.mistral.ai/v1",
    "moonshot": "https://api.moonshot.ai/v1",
    "nvidia": "https://integrate.api.nvidia.com/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "openai": OPENAI_URL,
    "openrouter": OPENROUTER_URL,
    "qwen": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "siliconflow": "https://api.siliconflow.cn/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "zhipu": "https://open.bigmodel.cn/api/paas/v4",
}
"""Where the providers are, by the names that the three programs have for them."""

_APIS = {"openai-completions": "openai", "openai-responses": "responses", "anthropic-messages": "anthropic"}

PAGES = {
    "AGENTS.md": "AGENTS.md",
    "AGENT.md": "AGENTS.md",
    "SOUL.md": "SOUL.md",
    "IDENTITY.md": "IDENTITY.md",
    "USER.md": "USER.md",
    "TOOLS.md": "TOOLS.md",
    "HEARTBEAT.md": "HEARTBEAT.md",
    "memory/MEMORY.md": "memory/MEMORY.md",
    "MEMORY.md": "memory/MEMORY.md",
    "memory.md": "memory/MEMORY.md",
}
"""Their pages, and what these are called here; the first that is there counts."""

_DIGESTS = """
239f3c81 70120d70 72ba16b7 7d63b4da 9804c95b a1dc34ce abb46188 c007ed94 ca31d9ca e3b0c442 03ff0c97 0c2d95c3
1b0aa1d8 271e2dea 2e1e8815 30b6f5b0 331d1d3c 3401603e 4059935e 55f901a8 5719350d 68112d57 6b9892a1 743f370d
7822048b 80ecb90e 83ef5a03 86803bd4 a0151a00 a3759014 a52adedd aedca4c8 afb1a330 b1c2e809 bdc60670 be39b83c
bfd7f7a5 c8f4507a ca7f1954 cccad783 d58b7ed6 d7171f73 df25a9c6 f32c1441 f5052d54 240d299f daab0d62 d93cd095
e418ca9a 15cdfe57 5a840ad5
"""
_SHIPPED_PAGE_DIGESTS = frozenset(_DIGESTS.split())
"""How the SHA-256 begins of pages as sipeed/picoclaw, nanobot and openclaw 2026.4 have made them: nothing of their owner's is in those."""

_SHIPPED_SKILLS: Mapping[Kind, frozenset[str]] = {
    "picoclaw": frozenset(
        ["agent-browser", "github", "hardware", "picoclaw-agent", "skill-creator", "summarize", "tmux", "weather"]
    ),
    "nanobot": frozenset(
        ["clawhub", "cron", "github", "memory", "my", "skill-creator", "summarize", "tmux", "update-setup", "weather"]
    ),
    "openclaw": frozenset(),
}
"""Skills that came with the program, and speak of its own tools."""

ABSENT_TOOLS = {
    "apply_patch": "edit_file",
    "append_file": "write_file",
    "browser": "web_fetch",
    "canvas": "",
    "create_goal": "pulse",
    "delegate": "spawn",
    "find_files": "list_dir",
    "find_skills": "skill_search",
    "generate_image": "",
    "grep": "exec",
    "image_generate": "",
    "install_skill": "skill_create",
    "list_sessions": "",
    "load_image": "",
    "reaction": "",
    "run_cli_app": "exec",
    "search_sessions": "memory_search",
    "send_file": "",
    "send_session_message": "message",
    "send_tts": "",
    "sessions_history": "",
    "sessions_list": "",
    "sessions_send": "message",
    "sessions_spawn": "spawn",
    "subagent": "spawn",
    "tts": "",
    "update_goal": "pulse",
    "update_plan": "pulse",
}
"""Tools of theirs that are not here, and what is used instead."""

_MAX_TEXT_BYTES = 1_000_000
_MAX_STORE_BYTES = 200_000_000
_MAX_SKILL_BYTES, _MAX_SKILL_FILES = 4_000_000, 200
_MAX_ENTRIES = 5000
_MAX_NOTES_BYTES = 20_000_000
_DAY_FILE = pattern(r"(?:\d{6}/)?(\d{4})-?(\d\d)-?(\d\d)(?:-[\w-]{1,60})?\.md")
_FRONT = pattern(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
_PERSON = pattern(r"(?:tg:|telegram:)?(\d{1,15})(?:\|.*)?", re.IGNORECASE)
_MATRIX_PERSON = pattern(r"@[^\s:]+:[^\s]+")
_REFERENCE = pattern(r"(?:\$\{\w+\}|enc://.*|file://.*|\[NOT_HERE\]|YOUR_.*|sk-your-.*|\s*)", re.IGNORECASE)


class ForeignJob(NamedTuple):
    """A planned job of another program: a reminder that is said, a task for the model, or a command that is run.

    Moments are seconds since 1970, 0 for none; `interval_s` and `expression` say when it repeats, `zone` is as written.
    """

    id: str
    name: str
    text: str
    kind: Literal["reminder", "task", "command"]
    at: float
    interval_s: float
    expression: str
    zone: str
    next_at: float
    is_on: bool
    is_silent: bool
    channel: str
    chat: str


class ForeignModel(NamedTuple):
    """The model that it asks; `key` is empty where none was found."""

    base_url: str
    name: str
    api: str
    key: str
    context_tokens: int


class ForeignSkill(NamedTuple):
    """The files of a skill by their paths in its folder, what it is for, and remarks for people."""

    files: Mapping[str, bytes]
    description: str
    notes: tuple[str, ...]


@dataclass
class ForeignAgent:
    """What was found in a home. `not_taken` is what is not taken: what, and why; `untouched` are pages as the program made them."""

    kind: Kind
    home: Path
    workspace: Path
    pages: dict[str, str] = field(default_factory=dict)
    notes: dict[date, list[tuple[str, str]]] = field(default_factory=dict)
    skills: dict[str, ForeignSkill] = field(default_factory=dict)
    jobs: list[ForeignJob] = field(default_factory=list)
    model: ForeignModel | None = None
    telegram_token: str = ""
    telegram_people: tuple[int, ...] = ()
    matrix_server: str = ""
    matrix_token: str = ""
    matrix_people: tuple[str, ...] = ()
    zone: str = ""
    not_taken: list[tuple[str, str]] = field(default_factory=list)
    untouched: set[str] = field(default_factory=set)

    def leave(self, what: str, why: str) -> None:
        self.not_taken.append((what, why))


def find_homes(ours: Path, user: Path) -> Iterator[tuple[Kind, Path]]:
    """Find the homes of a user that are there, each once; a Go picoclaw's may be our own folder, or beside it."""
    seen = set()
    for kind, origin in PROGRAMS.items():
        places = [user / name for name in origin.folders]
        if kind == "picoclaw":
            places += [ours, ours.with_name(ours.name + MOVED_SUFFIX)]
        for place in places:
            real = os.path.realpath(place)
            if real not in seen and find_settings(kind, place):
                seen.add(real)
                yield kind, place


def find_settings(kind: Kind, home: Path) -> Path | None:
    """Return the file of settings that says that this is such a home; None when it is none."""
    return next((home / name for name in PROGRAMS[kind].settings if os.path.lexists(home / name)), None)


def find_daemon(kind: Kind, home: Path) -> int:
    """Return the process of the other program that serves this home, 0 for none. One that hides its home counts."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace") + "\0"
            if not PROGRAMS[kind].daemon.search(words) or "timeout\0" in words[:80]:
                continue
            variables = dict(
                line.split("=", 1)
                for line in (path / "environ").read_bytes().decode(errors="replace").split("\0")
                if "=" in line
            )
        except PermissionError:
            variables = {}
        except OSError:
            continue
        theirs = variables.get("OPENCLAW_STATE_DIR") or (
            f"{variables['HOME']}/{home.name}" if variables.get("HOME") else str(home)
        )
        if os.path.realpath(theirs) == os.path.realpath(home) or "config" in words:
            return int(path.name)
    return 0


class _Folder:
    """A folder that is read without leaving it: no link out, no file of another user, nothing that is too large."""

    def __init__(self, root: Path, left: list[tuple[str, str]]) -> None:
        self.root, self._left = os.path.realpath(root), left
        self._owner = Path(self.root).stat().st_uid

    def read(self, name: str, most: int = _MAX_TEXT_BYTES) -> bytes | None:
        """Read a file; None when there is none, or when it is not taken, which is then said."""
        try:
            place = files.resolve_below(self.root, f"{self.root}/{name}")
            if place is None:
                return self._leave(name, "a link that leads out of this home; put a copy in its place")
            with os.fdopen(files.open_rooted(place), "rb") as file:
                about = os.fstat(file.fileno())
                if about.st_uid != self._owner:
                    return self._leave(name, "it belongs to another user than the home")
                if about.st_size > most:
                    return self._leave(name, f"it has {about.st_size / 1e6:.1f} MB; at most {most / 1e6:g} are taken")
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return self._leave(name, explain_os_error(error))

    def _leave(self, name: str, why: str) -> bytes | None:
        self._left.append((name, why))
        return None

    def text(self, name: str, most: int = _MAX_TEXT_BYTES) -> str | None:
        """Read a text in UTF-8; None as `read`."""
        data = self.read(name, most)
        if data is None:
            return None
        try:
            if b"\0" not in data:
                return data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            pass
        self._left.append((name, "it is no text in UTF-8"))
        return None

    def names(self, name: str) -> list[str]:
        """List a folder, nothing where there is none."""
        try:
            place = files.resolve_below(self.root, f"{self.root}/{name}")
            found = sorted(path.name for path in place.path.iterdir()) if place else []
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._left.append((name, explain_os_error(error)))
            return []
        if len(found) > _MAX_ENTRIES:
            self._left.append((name, f"of {len(found)} files the first {_MAX_ENTRIES} are looked at"))
        return found[:_MAX_ENTRIES]

    def table(self, name: str) -> dict[str, Any]:
        """Read settings in JSON or JSON5; an empty table where they cannot be read, which is then said."""
        if (text := self.text(name)) is None:
            return {}
        try:
            found = parse_json5(text)
        except ValueError as error:
            self._left.append((name, f"it is not valid JSON: {error}"))
            return {}
        if isinstance(found, dict):
            return found
        self._left.append((name, "it holds no table of settings"))
        return {}


def read_home(kind: Kind, home: Path) -> ForeignAgent:
    """Read all that can be taken from a home. Raises MaintenanceError when it is none, or somebody else's."""
    settings = find_settings(kind, home)
    if settings is None:
        wanted = " or ".join(PROGRAMS[kind].settings)
        raise MaintenanceError(f"{home} is no home of {PROGRAMS[kind].title}: there is no {wanted}")
    try:
        owner = home.stat().st_uid
        if owner != os.geteuid() and os.geteuid() != 0:
            raise MaintenanceError(f"{home} belongs to another user; run this as that user")
        found = ForeignAgent(kind, home, home / "workspace")
        folder = _Folder(home, found.not_taken)
        config = folder.table(settings.name)
        _READERS[kind](found, folder, config)
        _read_workspace(found)
    except OSError as error:
        raise MaintenanceError(f"{error.filename or home} cannot be read: {explain_os_error(error)}") from None
    return found


def _get(table: Any, path: str, kind: type = str) -> Any:
    """Look a value up by its path; one of another type is as good as none."""
    for name in path.split("."):
        table = table.get(name) if isinstance(table, dict) else None
    good = isinstance(table, kind) and not (kind is not bool and isinstance(table, bool))
    return table if good else kind()


def _pick(table: Any, *names: str) -> Any:
    found = (table.get(name) for name in names) if isinstance(table, dict) else ()
    return next((value for value in found if value not in (None, "")), None)


def _set_workspace(found: ForeignAgent, given: str) -> None:
    """Take the workspace that the settings name; below a home that was moved it is where it was moved to."""
    path = found.home / "workspace"
    if given:  # ~ is the folder that the home lies in, also where it was copied to
        path = found.home.parent / given.removeprefix("~/")
    before = found.home.with_name(found.home.name.removesuffix(MOVED_SUFFIX))
    if path.is_relative_to(before):
        path = found.home / path.relative_to(before)
    found.workspace = path


def _take_telegram(found: ForeignAgent, token: Any, people: Iterable[Any]) -> None:
    numbers = list(found.telegram_people)
    for entry in people:
        text = str(entry).strip()
        if match := _PERSON.fullmatch(text):
            numbers.append(int(match[1]))
        elif text == "*":
            found.leave("Telegram allow *", "everybody may talk to that bot; here only people who are named")
        elif text and not text.startswith("YOUR_"):
            found.leave(f"Telegram allow {text[:40]}", "only numbers of people are taken: a name may change hands")
    found.telegram_people = tuple(dict.fromkeys(number for number in numbers if number > 0))
    found.telegram_token = found.telegram_token or _take_key(found, token, "Telegram token")


def _take_matrix(found: ForeignAgent, table: Any, token: Any, people: Iterable[Any]) -> None:
    server = str(_pick(table, "homeserver") or "").rstrip("/")
    if not re.fullmatch(r"https?://[^\s/@?#]+", server):
        return
    known = [text for entry in people if _MATRIX_PERSON.fullmatch(text := str(entry).strip())]
    found.matrix_server, found.matrix_people = server, tuple(dict.fromkeys(known))
    found.matrix_token = _take_key(found, token, "Matrix token")
    if not found.matrix_token:
        found.leave("Matrix account", "only an access token is taken, no password; `picoclaw matrix login` gets one")
    if any(_get(table, name, bool) for name in ("e2eeEnabled", "encryption")) or _pick(table, "crypto_passphrase"):
        found.leave("Matrix encryption", "picoclaw cannot read encrypted rooms; make one without")


def _take_key(found: ForeignAgent, key: Any, where: str) -> str:
    """A key that is written there; one that is kept elsewhere is left."""
    if isinstance(key, str) and not _REFERENCE.fullmatch(key):
        return key.strip() if key.isascii() and key.isprintable() else ""
    if isinstance(key, dict) or (isinstance(key, str) and key.startswith(("${", "enc://", "file://"))):
        found.leave(where, "it is not in the settings, but in a variable, a file or encrypted; set it by hand")
    return ""


def _leave_channels(found: ForeignAgent, channels: Any, is_on: Callable[[Any], bool]) -> None:
    for name, table in channels.items() if isinstance(channels, dict) else ():
        if isinstance(table, dict) and name not in {"telegram", "matrix", "defaults"} and is_on(table):
            found.leave(f"channel {str(name)[:40]}", "of channels only Telegram and Matrix are taken")


def _leave_servers(found: ForeignAgent, servers: dict[str, Any]) -> None:
    if servers:
        found.leave("MCP servers", f"{len(servers)}: picoclaw starts none that its owner has not set up here")


def _read_nanobot(found: ForeignAgent, folder: _Folder, config: dict[str, Any]) -> None:
    defaults = _get(config, "agents.defaults", dict)
    _set_workspace(found, _get(defaults, "workspace"))
    found.zone = _get(defaults, "timezone")
    telegram = _get(config, "channels.telegram", dict)
    pairing = _get(folder.table("pairing.json"), "approved.telegram", list)
    people = [*_get(telegram, "allowFrom", list), *_get(telegram, "allow_from", list), *pairing]
    _take_telegram(found, telegram.get("token"), people)
    matrix = _get(config, "channels.matrix", dict)
    if matrix.get("enabled") is True:
        _take_matrix(found, matrix, _pick(matrix, "accessToken"), _get(matrix, "allowFrom", list))
    _leave_channels(found, _get(config, "channels", dict), lambda table: table.get("enabled") is True)
    providers = _get(config, "providers", dict)
    preset = _get(config, f"modelPresets.{_get(defaults, 'modelPreset') or '-'}", dict)
    model, name = (
        _get(preset, "model") or _get(defaults, "model"),
        _get(preset, "provider") or _get(defaults, "provider"),
    )
    prefix = model.partition("/")[0]
    if name in {"", "auto"}:
        with_key = (one for one in providers if _pick(providers[one], "apiKey", "api_key", "apiBase", "api_base"))
        name = prefix if _pick(providers.get(prefix), "apiKey", "api_key", "apiBase") else next(with_key, prefix)
    table = providers.get(name, {})
    key = _take_key(found, _pick(table, "apiKey", "api_key"), f"{name} key")
    _set_model(found, name, model, _pick(table, "apiBase", "api_base"), key)
    _leave_servers(found, _get(config, "tools.mcpServers", dict))
    root = str(found.workspace)
    stores = [_Folder(Path(base), found.not_taken) for base in (root, str(found.home)) if Path(base).is_dir()]
    jobs: dict[str, Any] = {}
    for store in reversed(stores):
        for entry in _get(store.table("cron/jobs.json"), "jobs", list):
            jobs[str(_pick(entry, "id"))] = entry
        for line in (store.text("cron/action.jsonl") or "").splitlines():  # what a gateway has not seen yet
            with suppress(ValueError, RecursionError):
                act = json.loads(line)
                entry = _get(act, "params", dict)
                if _get(act, "action") == "del":
                    jobs.pop(str(_pick(entry, "job_id")), None)
                elif entry:
                    jobs[str(_pick(entry, "id"))] = entry
    _take_jobs(found, jobs.values(), {})
    if Path(found.workspace).is_dir():
        _read_nanobot_history(
            found, _Folder(found.workspace, found.not_taken).text("memory/history.jsonl", 8_000_000) or ""
        )
    _leave_conversations(found, folder, "sessions")


def _read_nanobot_history(found: ForeignAgent, text: str) -> None:
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
            moment = datetime.fromisoformat(_get(entry, "timestamp"))
            if body := _get(entry, "content").strip():
                found.notes.setdefault(moment.date(), []).append((f"{moment:%H:%M} ", body))


def _read_openclaw(found: ForeignAgent, folder: _Folder, config: dict[str, Any]) -> None:
    if "$include" in config:
        found.leave("$include", "settings in further files are not read")
    defaults = _get(config, "agents.defaults", dict)
    _set_workspace(found, _get(defaults, "workspace") or _get(config, "agent.workspace"))
    found.zone = _get(defaults, "userTimezone")
    agents = [*_get(config, "agents.entries", dict), *_get(config, "agents.list", list)]
    if len(agents) > 1:
        found.leave("agents", f"of {len(agents)} only the workspace of the first is taken")
    telegram = _get(config, "channels.telegram", dict)
    accounts = [telegram, *_get(telegram, "accounts", dict).values()]
    people = [entry for account in accounts for entry in _get(account, "allowFrom", list)]
    for name in folder.names("credentials"):
        if name.startswith("telegram") and name.endswith("allowFrom.json"):
            people += _get(folder.table(f"credentials/{name}"), "allowFrom", list)
    tokens = (_pick(account, "botToken", "token") for account in accounts)
    rows = _read_openclaw_state(found, folder)
    token = next((one for one in tokens if one), None)
    _take_telegram(found, token, [*people, *rows["people"]])
    matrix = _get(config, "channels.matrix", dict)
    if matrix.get("enabled") is not False:
        allowed = [*_get(matrix, "dm.allowFrom", list), *_get(matrix, "allowFrom", list)]
        _take_matrix(found, matrix, _pick(matrix, "accessToken"), allowed)
    _leave_channels(found, _get(config, "channels", dict), lambda table: table.get("enabled") is not False)
    chosen = defaults.get("model")
    name, _, model = (chosen if isinstance(chosen, str) else _get(chosen, "primary")).partition("/")
    table = _get(config, f"models.providers.{name or '-'}", dict)
    profiles = _get(folder.table("agents/main/agent/auth-profiles.json"), "profiles", dict).values()
    stored = (_pick(one, "key") for one in profiles if _get(one, "provider") == name and _get(one, "type") == "api_key")
    key = _take_key(found, _pick(table, "apiKey") or next(stored, None), f"{name} key")
    known: dict[str, Any] = next((one for one in _get(table, "models", list) if _get(one, "id") == model), {})
    api = _get(table, "api")
    if api and api not in _APIS:
        found.leave(f"model {name}/{model}"[:80], f"picoclaw does not speak {api[:40]}")
    else:
        _set_model(
            found, name, model, _pick(table, "baseUrl"), key, _APIS.get(api, ""), _get(known, "contextWindow", int)
        )
    _leave_servers(found, _get(config, "mcp.servers", dict))
    if every := _get(defaults, "heartbeat.every"):
        found.leave("heartbeat interval", f"{every[:20]} there; here it is every_minutes under [heartbeat]")
    stored_jobs = [*_get(folder.table("cron/jobs.json"), "jobs", list), *rows["jobs"]]
    _take_jobs(found, {str(_pick(entry, "id")): entry for entry in stored_jobs}.values(), rows["next"])
    _leave_conversations(found, folder, "agents/main/sessions")


def _read_openclaw_state(found: ForeignAgent, folder: _Folder) -> dict[str, Any]:
    """What newer versions keep in SQLite: jobs, people, and the pages as they were made. A copy is read."""
    rows: dict[str, Any] = {"jobs": [], "next": {}, "people": []}
    name = "state/openclaw.sqlite"
    if (data := folder.read(name, _MAX_STORE_BYTES)) is None:
        return rows
    import apsw

    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "state.sqlite")
        path.write_bytes(data)
        if log := folder.read(f"{name}-wal", _MAX_STORE_BYTES):
            path.with_name("state.sqlite-wal").write_bytes(log)
        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                for text, state in connection.execute("SELECT job_json, state_json FROM cron_jobs ORDER BY sort_order"):
                    with suppress(ValueError, RecursionError):
                        entry = json.loads(str(text))
                        rows["jobs"].append(entry)
                        rows["next"][str(_pick(entry, "id"))] = _pick(json.loads(str(state)), "nextRunAtMs")
                query = "SELECT entry FROM channel_pairing_allow_entries WHERE channel_key = 'telegram'"
                rows["people"] = [entry for (entry,) in connection.execute(query)]
                for page, digest in connection.execute(
                    "SELECT filename, sha256 FROM workspace_generated_bootstrap_hashes"
                ):
                    here = found.workspace / str(page)
                    with suppress(OSError):
                        if str(page) in PAGES and sha256(files.read_file(here, _MAX_TEXT_BYTES)).hexdigest() == digest:
                            found.untouched.add(str(page))
            finally:
                connection.close()
        except apsw.Error as error:
            found.leave(name, f"not all of it could be read ({error}); start that program once, then try again")
    return rows


def _read_picoclaw(found: ForeignAgent, folder: _Folder, config: dict[str, Any]) -> None:
    defaults = _get(config, "agents.defaults", dict)
    _set_workspace(found, _get(defaults, "workspace"))
    secrets = _read_yaml(found, folder, ".security.yml")
    channels = _get(config, "channel_list", dict) or _get(config, "channels", dict)
    telegram = _get(channels, "telegram", dict)
    kept = _get(secrets, "channel_list.telegram", dict) or _get(secrets, "channels.telegram", dict)
    token = _pick(kept, "token") or _pick(_get(kept, "settings", dict), "token")
    token = token or _pick(_get(telegram, "settings", dict), "token") or _pick(telegram, "token")
    people = telegram.get("allow_from")
    _take_telegram(found, token, people if isinstance(people, list) else [people] if people else [])
    matrix = _get(channels, "matrix", dict)
    if matrix.get("enabled") is True:
        settings = _get(matrix, "settings", dict) or matrix
        kept = _get(secrets, "channel_list.matrix", dict) or _get(secrets, "channels.matrix", dict)
        token = _pick(kept, "access_token") or _pick(_get(kept, "settings", dict), "access_token")
        _take_matrix(found, settings, token or _pick(settings, "access_token"), _get(matrix, "allow_from", list))
    _leave_channels(found, channels, lambda table: table.get("enabled") is True)
    chosen = _get(defaults, "model_name") or _get(defaults, "model")
    table: dict[str, Any] = next(
        (one for one in _get(config, "model_list", list) if _get(one, "model_name") == chosen), {}
    )
    model, name = _get(table, "model") or chosen, _get(table, "provider") or _get(defaults, "provider")
    if not name:
        name, _, model = model.partition("/") if model.partition("/")[0] in PROVIDERS else ("openai", "", model)
    old = _get(config, f"providers.{name or '-'}", dict)
    written = _get(secrets, "model_list", dict)
    keys = _pick(written.get(chosen) or written.get(f"{chosen}:0"), "api_keys") or _pick(table, "api_keys", "api_key")
    key = keys[0] if isinstance(keys, list) and keys else keys or _pick(old, "api_key")
    base_url = _pick(table, "api_base") or _pick(old, "api_base")
    _set_model(found, name, model, base_url, _take_key(found, key, f"{name} key"))
    if others := [
        one for one in _get(config, "model_list", list) if one is not table and _pick(one, "api_keys", "api_key")
    ]:
        found.leave("further models", f"{len(others)}: add those that you use as [models.NAME]")
    _leave_servers(found, _get(config, "tools.mcp.servers", dict))
    if Path(found.workspace).is_dir():
        store = _Folder(found.workspace, found.not_taken)
        _take_jobs(found, _get(store.table("cron/jobs.json"), "jobs", list), {})
        _leave_conversations(found, store, "sessions")


def _read_yaml(found: ForeignAgent, folder: _Folder, name: str) -> dict[str, Any]:
    if (text := folder.text(name)) is None:
        return {}
    import yaml

    try:
        read = yaml.safe_load(text)
        return read if isinstance(read, dict) else {}
    except (yaml.YAMLError, RecursionError, ValueError):
        found.leave(name, "it is not valid YAML; the keys in it are not read")
        return {}


_READERS: Mapping[Kind, Callable[[ForeignAgent, _Folder, dict[str, Any]], None]] = {
    "picoclaw": _read_picoclaw,
    "nanobot": _read_nanobot,
    "openclaw": _read_openclaw,
}


def _set_model(
    found: ForeignAgent, provider: str, model: str, base_url: Any, key: str, api: str = "", context_tokens: int = 0
) -> None:
    """Take the model if its server and, where that is on the net, its key are known."""
    url = base_url.rstrip("/") if isinstance(base_url, str) else ""
    if not model or not provider:
        return
    name = f"model {provider}/{model}"[:80] if not model.startswith(f"{provider}/") else f"model {model}"[:80]
    default = PROVIDERS.get(provider, "")
    is_anthropic = api == "anthropic" or (not api and default == ANTHROPIC_URL)
    if is_anthropic and url and not url.endswith("/v1"):
        url += "/v1"
    url = url or default
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url or "@" in url:
        found.leave(name, "the address of its server is not known; `picoclaw init --model-url` sets one")
    elif not key and not re.match(r"https?://(?:127\.|localhost|10\.|192\.168\.|\[::1\])", url) and not base_url:
        found.leave(name, "no key for it is in the home; `picoclaw init` sets a model")
    else:
        short = model.removeprefix(f"{provider}/")
        found.model = ForeignModel(url, short, api or ("anthropic" if is_anthropic else "openai"), key, context_tokens)


def _leave_conversations(found: ForeignAgent, folder: _Folder, name: str) -> None:
    if names := [one for one in folder.names(name) if not one.startswith(".")]:
        found.leave(
            "conversations", f"{len(names)} in {name}: they hold calls of that program's tools; they stay there"
        )


# Jobs: one shape with three dialects.

_KINDS: Mapping[str, Literal["reminder", "task"]] = {
    "agent_turn": "task",
    "agentTurn": "task",
    "systemEvent": "reminder",
}
_OWN_KINDS = {"system_event": "nanobot", "heartbeat": "openclaw"}
_NOWHERE = {"", "last", "cli", "direct", "webui", "websocket", "internal"}


def _take_jobs(found: ForeignAgent, entries: Iterable[Any], next_ms: Mapping[str, Any]) -> None:
    for entry in entries:
        name = str(_pick(entry, "name", "displayName") or _pick(entry, "id") or "job")[:60]
        payload, schedule, state = (_get(entry, key, dict) for key in ("payload", "schedule", "state"))
        kind, command = _get(payload, "kind"), _read_command(payload)
        if kind in _OWN_KINDS or _pick(entry, "declarationKey"):
            found.leave(f"job {name}", "that program made it for itself")
            continue
        text = command or _pick(payload, "message", "text")
        if (kind not in _KINDS and not command) or not isinstance(text, str) or not text.strip():
            found.leave(f"job {name}", f"what it does ({kind[:40] or 'nothing'}) is not known here")
            continue
        delivery = _get(entry, "delivery", dict)
        session = str(_pick(payload, "sessionKey", "session_key") or "")
        channel = _pick(delivery, "channel") or _pick(payload, "originChannel", "origin_channel", "channel")
        chat = _pick(delivery, "to") or _pick(payload, "originChatId", "origin_chat_id", "to")
        channel, chat = str(channel or session.partition(":")[0]), str(chat or session.partition(":")[2])
        number = str(_pick(entry, "id") or sha256(json.dumps(entry, default=str).encode()).hexdigest())[:64]
        found.jobs.append(
            ForeignJob(
                number,
                name,
                text.strip(),
                "command" if command else _KINDS[kind],
                _read_moment(_pick(schedule, "atMs", "at_ms", "at")),
                _read_moment(_pick(schedule, "everyMs", "every_ms")),
                str(_pick(schedule, "expr") or ""),
                str(_pick(schedule, "tz") or ""),
                _read_moment(_pick(state, "nextRunAtMs", "next_run_at_ms") or next_ms.get(number)),
                entry.get("enabled") is not False,
                _get(delivery, "mode") == "none",
                "" if channel in _NOWHERE else channel[:40],
                chat.removeprefix("telegram:")[:80],
            )
        )


def _read_command(payload: Mapping[str, Any]) -> str:
    import shlex

    words = payload.get("argv")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        return words[-1] if words[:-1] in (["sh", "-lc"], ["sh", "-c"], ["bash", "-c"]) else shlex.join(words)
    return str(_get(payload, "command"))


def _read_moment(value: Any) -> float:
    """Milliseconds, or ISO 8601, in seconds; 0 for neither."""
    try:
        seconds = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value or 0) / 1000
        return seconds if 0 <= seconds < 32_503_680_000 else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


# The workspace: pages, notes and skills are Markdown in all three.


def _read_workspace(found: ForeignAgent) -> None:
    if not Path(found.workspace).is_dir():
        found.leave("workspace", f"{found.workspace} is not there")
        return
    folder = _Folder(found.workspace, found.not_taken)
    for name, ours in PAGES.items():
        if ours in found.pages or (text := folder.text(name)) is None:
            continue
        if name in found.untouched or sha256(text.encode()).hexdigest()[:8] in _SHIPPED_PAGE_DIGESTS:
            found.leave(name, "as that program made it: nothing of yours is in it")
        elif text := _FRONT.sub("", text, count=1).strip():
            found.pages[ours] = f"{text}\n"
    _read_notes(found, folder)
    for root, base in ((folder, "skills"), *_list_shared_skills(found)):
        for name in root.names(base):
            if name in found.skills or name.startswith(".") or not Path(f"{root.root}/{base}/{name}").is_dir():
                continue
            if name in _SHIPPED_SKILLS[found.kind]:
                found.leave(f"skill {name}", "it came with that program, and speaks of its own tools")
            else:
                _read_skill(found, root, f"{base}/{name}", name)


def _list_shared_skills(found: ForeignAgent) -> Iterator[tuple[_Folder, str]]:
    if found.kind != "nanobot" and os.path.realpath(found.home) != os.path.realpath(found.workspace):
        yield _Folder(found.home, found.not_taken), "skills"


def _read_notes(found: ForeignAgent, folder: _Folder) -> None:
    """Read the notes of days, wherever they lie: memory/2026-11-20.md and memory/202611/20261120.md."""
    from picoclaw.memory.files import parse_entries

    names = folder.names("memory")
    for month in [name for name in names if re.fullmatch(r"\d{6}", name)]:
        names += [f"{month}/{name}" for name in folder.names(f"memory/{month}")]
    total = 0
    for name in names:
        match = _DAY_FILE.fullmatch(name)
        if match is None:
            if name.endswith(".md") and name != "MEMORY.md":
                found.leave(
                    f"memory/{name}", "it is not the note of a day; copy it into workspace/memory if you use it"
                )
            continue
        try:
            day = date(int(match[1]), int(match[2]), int(match[3]))
        except ValueError:
            continue
        text = folder.text(f"memory/{name}")
        total += len(text or "")
        if total > _MAX_NOTES_BYTES:
            found.leave(f"memory/{name}", "the notes have more than 20 MB; this one and those behind it are left")
            return
        entries = [(entry.stamp if ":" in entry.stamp[:3] else "", entry.body) for entry in parse_entries(text or "")]
        if entries:
            found.notes.setdefault(day, []).extend(entries)


def _read_skill(found: ForeignAgent, folder: _Folder, base: str, name: str) -> None:
    before, content = len(found.not_taken), dict[str, bytes]()
    waiting, size = [""], 0
    while waiting:
        inner = waiting.pop()
        for entry in folder.names(f"{base}/{inner}".rstrip("/")):
            path = f"{inner}/{entry}".lstrip("/")
            full = f"{folder.root}/{base}/{path}"
            if entry.startswith(".") or entry in {"node_modules", "__pycache__"}:
                continue
            if Path(full).is_dir() and not Path(full).is_symlink():
                if path.count("/") < 8:
                    waiting.append(path)
            elif (data := folder.read(f"{base}/{path}", _MAX_SKILL_BYTES)) is not None:
                content[path], size = data, size + len(data)
        if size > _MAX_SKILL_BYTES or len(content) > _MAX_SKILL_FILES:
            found.leave(f"skill {name}", f"it has more than {_MAX_SKILL_FILES} files or 4 MB")
            return
    if SKILL_FILE not in content:
        if len(found.not_taken) == before:
            found.leave(f"skill {name}", f"it has no {SKILL_FILE}")
        return
    from picoclaw.skills import frontmatter

    try:
        read = frontmatter.parse_skill(content[SKILL_FILE].decode(), Path(name))
    except (SkillError, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, SkillError) else "it is no text in UTF-8"
        found.leave(f"skill {name}", f"{SKILL_FILE} cannot be used: {why}")
        return
    needs = [" or ".join(names) for names in read.needs.programs] + list(read.needs.environment)
    notes = (*read.notes, *([f"it needs {', '.join(needs)}"] if needs else ()))
    found.skills[read.name] = ForeignSkill(
        content, read.description, (*notes, *find_absent_tools(content[SKILL_FILE].decode()))
    )


def find_absent_tools(text: str) -> Sequence[str]:
    """Name the tools that a text speaks of and that are not here, with what is used instead."""
    named = [tool for tool in ABSENT_TOOLS if re.search(rf"`{tool}\b|\b{tool}\b(?= tool)", text)]
    return [
        f"it speaks of the tool {tool}, {f'here {used}' if (used := ABSENT_TOOLS[tool]) else 'which is not here'}"
        for tool in named
    ]


_TOKEN = pattern(
    r"""(?P<space>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)(?![\w$]))"""
    r"""|(?P<word>[A-Za-z_$][\w$]*)|(?P<mark>[{}\[\]:,])""",
    re.DOTALL,
)
_ESCAPE = pattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LITERALS = {"true", "false", "null"}


def parse_json5(text: str) -> Any:
    """Read a document. Raises ValueError saying in which line it goes wrong."""
    parts: list[str] = []
    at, comma, before = 0, -1, "["
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at : at + 20]!r} is not expected there")
        at = found.end()
        if found["space"]:
            parts.append("\n" * found[0].count("\n") or " ")  # so that an error names the right line
            continue
        if found[0] in {"}", "]"} and comma >= 0:
            parts[comma] = " "
        comma = len(parts) if found[0] == "," and before not in {"[", "{", ","} else -1
        before = found[0]
        if found["number"]:
            parts.append(_format_number(found[0]))
        elif found["word"] and found[0] not in _LITERALS:
            parts.append(json.dumps(found[0]))
        else:
            parts.append(json.dumps(_unescape(found[0][1:-1])) if found["text"] else found[0])
    try:
        return json.loads("".join(parts))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _format_number(text: str) -> str:
    sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-")
    if digits in {"Infinity", "NaN"}:
        return "null"
    if digits[:2] in {"0x", "0X"}:
        return f"{sign}{int(digits, 16)}"
    return sign + (repr(float(digits)) if not digits.isdecimal() else str(int(digits[:400])))


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if code := found[1] or found[2]:
            return chr(int(code, 16))
        return "" if found[3] in {"\n", "\r\n", "\r"} else _ESCAPED.get(found[3], found[3])

    joined = _ESCAPE.sub(replace, text)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u escapes
