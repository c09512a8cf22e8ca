"""Architecture that tests hold: who may import whom, what may be caught, what a start may import."""

import ast
import builtins
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "picoclaw").rglob("*.py"))
HARDWARE = sorted((ROOT / "tools/hw").glob("*.py"))
CODE = PACKAGE + HARDWARE
NAME = re.compile(r"`([A-Za-z_]\w*)(?:\(\))?`|\b([A-Z][a-z]+(?:[A-Z][a-z]+)+)\b")
OUTSIDE_NAMES = {
    "BeiDou",
    "CommonMark",
    "DeepSeek",
    "DuckDuckGo",
    "GN",
    "InvenSense",
    "MemoryMax",
    "MiniMax",
    "OpenClaw",
    "OpenMetrics",
    "OpenRouter",
    "PrivateTmp",
    "ProtectClock",
    "RetryInfo",
    "grow_light",
    "line17",
    "lineN",
    "modes",
}
"""Names of others, and examples, in docstrings."""

FLOORS = [
    {"records", "text"},
    {"automation.clock", "chart", "errors", "messages", "schema"},
    {"answers", "files", "http_client", "markdown", "prompts", "security.policy", "security.redaction"},
    {"security.hash_chain", "security.sandbox", "security.sandbox_launcher", "times", "web"},
    {"config", "schedules", "security.audit", "security.untrusted", "skills", "workspace"},
    {"hw", "providers", "store"},
    {"agents"},
    {"agent.workflow", "automation", "channels", "intents", "memory", "providers.spending"},
    {"mcp", "mqtt"},
    {"fleet", "shared_store"},
    {"outputs", "security", "stores"},
    {"tools"},
    {"maintenance", "security.guard", "wiring"},
    {"agent"},
    {"app"},
    {"mcp.server"},
    {"daemon"},
    {"cli"},
    {"__main__"},
]  # fmt: skip


def name_of(path):
    return str(path.relative_to(ROOT))


@cache
def tree_of(path):
    return ast.parse(path.read_text())


@cache
def nodes_of(path):
    return list(ast.walk(tree_of(path)))


def floor_of(module):
    """The floor of a module by the longest name in FLOORS that is it or holds it, and its package."""
    parts = module.split(".")[1:]
    floors = {name: number for number, names in enumerate(FLOORS) for name in names}
    found = next((floors[n] for n in (".".join(parts[:i]) for i in range(len(parts), 0, -1)) if n in floors), None)
    return found, parts[0] if parts else "__init__"


TWICE: set[str] = set()
"""Class names that may stand for two things."""

MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in PACKAGE}


def imports_of(path):
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES or node.module == "picoclaw" else node.module


def test_imports_point_down():
    wrong = []
    for path in PACKAGE:
        if path == ROOT / "picoclaw/__init__.py":
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        floor, room = floor_of(module)
        assert floor is not None, f"{room} is on no floor"
        for wanted in imports_of(path):
            if not wanted.startswith("picoclaw.") or wanted == "picoclaw.__version__":
                continue
            below, other = floor_of(wanted)
            if other != room and (below is None or below >= floor):
                wrong.append(f"{module} imports {wanted}")
    assert wrong == []


def test_broad_except_only_where_a_tool_must_not_end_the_turn_and_a_message_the_process():
    broad = [
        name_of(path)
        for path in CODE
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler) and (node.type is None or getattr(node.type, "id", "") == "Exception")
    ]
    assert broad == ["picoclaw/errors.py", "picoclaw/tools/registry.py"]


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


def test_a_model_is_asked_without_the_matcher():
    code = (
        "import sys; from picoclaw.app import App; from picoclaw.config.tables import Config, ModelConfig;"
        " from pathlib import Path; App(Config(Path('/nowhere'), ModelConfig('http://localhost:1/v1', 'm')), None).provider;"
        " print([name for name in sys.modules if name.startswith('picoclaw.intents')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
    modules_of("chat", "--board", "sim", "-m", "hello")  # makes the home
    assert "yaml" in modules_of("prompt", "--board", "sim", "-m", "hello")
    assert not modules_of("prompt", "--board", "sim", "-m", "hello") & {"yaml", "frontmatter", "hashlib", "zoneinfo"}
    assert not modules_of("chat", "--board", "sim", "-m", "hello") & {"yaml", "frontmatter", "hashlib", "zoneinfo"}


def test_every_module_says_what_it_knows():
    assert all(ast.get_docstring(tree_of(path)) for path in CODE)


def test_docstrings_name_what_is_there():
    """What stands in backticks, and what is written LikeAClass, is a name in the code."""
    names = set(dir(builtins)) | OUTSIDE_NAMES
    docstrings = []
    for path in CODE:
        names.update(path.with_suffix("").parts)
        for node in nodes_of(path):
            for field in ("id", "attr", "arg", "name", "asname"):
                names.update(str(getattr(node, field, "")).split("."))
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and (node.value.count(" ") < 4 or "CREATE TABLE" in node.value)
            ):
                names.update(re.findall(r"\w+", node.value))
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings.append((f"{name_of(path)}:{node.lineno}", node.value.value))
    words = [(at, word) for at, text in docstrings for found in NAME.finditer(text) for word in found.groups() if word]
    assert len(words) > 2000
    assert [(at, word) for at, word in words if word not in names] == []


def test_no_class_name_is_used_twice():
    names = [n.name for path in PACKAGE for n in tree_of(path).body if isinstance(n, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1} <= TWICE


def test_no_private_words():
    """The checkout speaks of the project alone and holds no path of the machine it was written on."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in files.stdout.split("\n"):
        path = ROOT / name
        if name and path.is_file():
            assert f"{ROOT}/" not in path.read_text(errors="replace"), name


def functions_of(tree, prefix=""):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")


def test_the_functions_that_the_map_names_exist():
    rows = re.findall(
        r"^(?:\d+\.|\|.+\|) `([\w/]+\.py):([\w.]+)`(?: \|)?$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 40
    missing = [f"{file}:{name}" for file, name in rows if name not in set(functions_of(tree_of(ROOT / file)))]
    assert not missing, "run `python tests/bench/lives.py --write`, and mend the rows of where to look"


def test_the_pages_made_of_the_program_are_up_to_date():
    sys.path.append(str(ROOT / "tests/bench"))
    from guide import is_current, make_pages

    stale = [path for path, text in make_pages(talks=False) if not is_current(path, text)]
    assert not stale, "run `python tests/bench/guide.py --write` and commit what it has changed"
