"""Architecture that tests hold: who may import whom, what may be caught, what a start may import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "picoclaw").rglob("*.py"))
HARDWARE = sorted((ROOT / "tools/hw").glob("*.py"))
CODE = PACKAGE + HARDWARE

FLOORS = [
    {"errors", "messages", "pattern"},
    {
        "around",
        "window",
        "schema",
        "disk",
        "prompt",
        "schedule",
        "resources",
        "ranges",
        "chart",
        "ranking",
        "markdown",
        "chat_markup",
        "redact",
    },
    {"rooted", "tls"},
    {"config", "courier", "workspace", "skills", "slots", "measure", "trust", "untrusted"},
    {"store", "hw", "providers", "sandbox"},
    {"conversation", "memory", "ledger", "reflex", "rules", "heartbeat", "helpers", "channels", "care", "web"},
    {"tools"},
    {"agent", "briefing", "wiring", "summon", "stores", "chores"},
    {"commands", "compaction", "toolbox"},
    {"desk", "errand", "daemon", "doctor", "check"},
    {"app", "watch", "crew"},
    {"cli"},
    {"__main__"},
]

# Modules that import something inside a function, with what it saves the commands that do without it.
LATE_IMPORTS = {
    "picoclaw/__main__.py": "argparse and everything else, for --version",
    "picoclaw/app.py": "HTTP and the summaries when no model is configured, the chores when somebody asks",
    "picoclaw/briefing.py": "the checklist's words, but for a heartbeat",
    "picoclaw/care/last.py": "tomllib, until a setting has changed",
    "picoclaw/chores.py": "what copies databases until something is copied, and the dream by day",
    "picoclaw/cli/__init__.py": "the verbs that were not asked for",
    "picoclaw/cli/approvals.py": "the socket and the chat, unless something is answered",
    "picoclaw/cli/attached.py": "the crew and the store, when no helper has anything to do",
    "picoclaw/cli/chat.py": "readline and select for -m; the crew when no helper has anything to do; the socket",
    "picoclaw/cli/common.py": "the app, for verbs that only print",
    "picoclaw/cli/household.py": "HTTP and the page when they are not configured",
    "picoclaw/cli/status.py": "the app, when a daemon answers",
    "picoclaw/cli/stop.py": "the configuration and the boards, when a keeper answers",
    "picoclaw/cli/run.py": "the check, unless a cut came before",
    "picoclaw/cli/screen.py": "readline from a pipe, and the board's name",
    "picoclaw/cli/terminal.py": "readline from a pipe, and the list of commands",
    "picoclaw/config/files.py": "tomllib without a config.toml",
    "picoclaw/daemon/models.py": "the chain of models, when none is configured",
    "picoclaw/desk.py": "the commands, when none was given",
    "picoclaw/heartbeat/checklist.py": "hashlib, and OpenSSL with it, until a checklist is read",
    "picoclaw/hw/boards.py": "the simulation when there is a board",
    "picoclaw/hw/checkup.py": "grp, for a file that may not be opened",
    "picoclaw/hw/linux/board.py": "ctypes, for the clock's state only",
    "picoclaw/hw/linux/i2c.py": "smbus2 without a bus",
    "picoclaw/hw/linux/serial.py": "pyserial until a port is opened",
    "picoclaw/reflex/declared.py": "hashlib, until an output is armed",
    "picoclaw/memory/dream/versions.py": "difflib until MEMORY.md is written anew",
    "picoclaw/memory/embedding/embed.py": "numpy and HTTP until something is embedded",
    "picoclaw/memory/embedding/static.py": "numpy until something is embedded",
    "picoclaw/memory/index/sync.py": "hashlib, until a chunk is read or written",
    "picoclaw/memory/search/near.py": "numpy until a question is compared",
    "picoclaw/providers/__init__.py": "HTTP until a model is asked, and the format that it does not speak",
    "picoclaw/providers/failure.py": "the words for waits, where a server names a number",
    "picoclaw/providers/http.py": "the words for waits, until a server refuses",
    "picoclaw/providers/patience.py": "email.utils, for the rarest form of Retry-After",
    "picoclaw/reflex/clock.py": "ctypes, only while an output is on or something is planned",
    "picoclaw/reflex/halt.py": "the hardware, when a keeper answers",
    "picoclaw/reflex/keeper/rescue.py": "the simulation on a real board",
    "picoclaw/rules/book.py": "tomllib when there are no rules",
    "picoclaw/hw/added.py": "tomllib until a part is added",
    "picoclaw/sandbox/launcher.py": "socket, until a command is asked for",
    "picoclaw/sandbox/running.py": "subprocess and socket until a command is run",
    "picoclaw/schedule.py": "zoneinfo until a zone is named, difflib for misspelt ones",
    "picoclaw/schema.py": "difflib, for misspelt names only",
    "picoclaw/skills/library.py": "yaml, when no skill has changed",
    "picoclaw/slots.py": "cronsim until something repeats by an expression",
    "picoclaw/stores.py": "numpy until something is embedded",
    "picoclaw/tools/rules.py": "the rules' words until a rule is asked for",
    "picoclaw/tools/sensor_history.py": "ranges and figures until the history is asked for",
    "picoclaw/tools/shell.py": "hashlib, until a yes is bound to a file",
    "picoclaw/tools/files.py": "hashlib, until a file is replaced",
    "picoclaw/tools/skills.py": "hashlib, until a skill is rewritten",
    "picoclaw/tools/skill_text.py": "yaml until a skill is written",
    "picoclaw/tools/web.py": "sockets, TLS and the page's parser until a page is read",
    "picoclaw/trust/chain.py": "hashlib, unless Python lacks a SHA-256 of its own",
    "picoclaw/trust/policy.py": "hashlib and json, until a call is summed up",
    "picoclaw/web/address.py": "idna and urllib until an address has letters beyond ASCII",
    "picoclaw/web/search.py": "lxml, when another engine than DuckDuckGo is asked",
    "picoclaw/wiring.py": "sockets when no outputs are declared, rules until one is written",
    "picoclaw/workspace/__init__.py": "tomllib, when the matcher is not asked",
    "picoclaw/workspace/news.py": "difflib, when no template has changed",
}


def name_of(path):
    return str(path.relative_to(ROOT))


def tree_of(path):
    return ast.parse(path.read_text())


def floor_of(module):
    parts = module.split(".")
    room = parts[1] if len(parts) > 1 else "__init__"
    return next((i for i, rooms in enumerate(FLOORS) if room in rooms), None), room


def imports_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "picoclaw":
                yield from (f"picoclaw.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize(
    "path", [p for p in PACKAGE if p.name != "__init__.py" or p.parent.name != "picoclaw"], ids=name_of
)
def test_imports_point_down(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    floor, room = floor_of(module)
    assert floor is not None, f"{room} is on no floor"
    for wanted in imports_of(tree_of(path)):
        if not wanted.startswith("picoclaw.") or wanted == "picoclaw.__version__":
            continue
        below, other = floor_of(wanted)
        assert other == room or (below is not None and below < floor), f"{module} imports {wanted}"


def test_broad_except_only_where_a_tool_must_not_end_the_turn():
    broad = [
        name_of(path)
        for path in CODE
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and (node.type is None or getattr(node.type, "id", "") == "Exception")
    ]
    assert broad == ["picoclaw/tools/toolset.py"]


def test_late_imports_are_listed():
    late = {
        name_of(path)
        for path in CODE
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and not (path in HARDWARE and function.name == "main")
    }
    assert late == set(LATE_IMPORTS)


def modules_of(*arguments):
    """What a command imports, by the interpreter's own account."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "picoclaw", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_importing_picoclaw_touches_nothing():
    code = "import sys; before = set(sys.modules); import picoclaw; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['picoclaw']"


def test_version_imports_next_to_nothing():
    assert not modules_of("--version") & {"argparse", "json", "inspect", "apsw", "httpcore", "tomllib", "picoclaw.cli"}


def test_help_does_not_import_the_agent():
    assert not modules_of("--help") & {"apsw", "httpcore", "picoclaw.app", "tomllib"}


def test_a_question_without_a_model_imports_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    seen = modules_of("chat", "--board", "sim", "-m", "how warm is it?")
    assert not seen & {
        "httpcore",
        "ssl",
        "socket",
        "asyncio",
        "numpy",
        "subprocess",
        "smbus2",
        "email",
        "logging",
        "difflib",
    }


def test_a_second_start_parses_no_skill(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    assert "yaml" in modules_of("chat", "--board", "sim", "-m", "hello")
    assert not modules_of("chat", "--board", "sim", "-m", "hello") & {"yaml", "frontmatter", "hashlib", "zoneinfo"}


def test_every_module_says_what_it_knows():
    assert all(ast.get_docstring(tree_of(path)) for path in CODE)


def test_no_private_words():
    """The checkout speaks of the project alone and holds no path of the machine it was written on."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in files.stdout.split("\n"):
        path = ROOT / name
        if name and path.is_file():
            assert f"{ROOT}/" not in path.read_text(errors="replace"), name
