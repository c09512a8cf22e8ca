"""The share of small faults that the tests notice.

    pip install coverage
    python tests/bench/mutants.py map            # once: which tests reach which line (runs the whole suite)
    python tests/bench/mutants.py run [COUNT] [SEED]

`run` puts one fault at a time into a random line of `picoclaw/` (a comparison turned round, a condition negated, a
number moved by one, a result or a statement left out), runs the tests that reach that line, at most 40 of the quickest,
and counts the faults that make one fail. It changes files of the checkout and restores them: use a copy.
"""

import ast
import atexit
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / ".coverage.mutants"
TIMES = ROOT / ".mutants-times.json"
MAX_TESTS, TIMEOUT_S = 40, 150
SUITE = ["tests", "--ignore=tests/package", "--ignore=tests/hostile"]
NEGATED = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def find_test():
    """The test that has started this process, by way of the processes above it; '' without one."""
    process = os.getpid()
    while process > 1:
        named = ROOT / f".mutants-now.{process}"
        if named.exists():
            return named.read_text()
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return ""


def start_measuring(test):
    """Measure this process until it ends, in the name of a test."""
    measured = coverage.Coverage(
        data_file=str(DATA), data_suffix=True, source=[str(ROOT / "picoclaw")], config_file=False, context=test,
        messages=False,
    )  # fmt: skip
    measured._warn = lambda *_, **__: None
    measured.start()

    def save():
        with contextlib.suppress(OSError, coverage.CoverageException):  # the test may have filled the disk
            measured.stop()
            measured.save()

    atexit.register(save)
    return measured


def measure_child():
    if test := find_test():
        start_measuring(test)


class Plugin:
    """What pytest calls in each of its processes."""

    def __init__(self):
        self.measured, self.times = None, {}

    def pytest_runtest_logstart(self, nodeid):
        if "MUTANTS_MAP" not in os.environ or ("xdist" in sys.modules and "PYTEST_XDIST_WORKER" not in os.environ):
            return
        if self.measured is None:
            self.measured = start_measuring(None)
            self.named = ROOT / f".mutants-now.{os.getpid()}"
            atexit.register(self.named.unlink)
        self.measured.switch_context(nodeid)
        self.named.write_text(nodeid)

    def pytest_runtest_logreport(self, report):
        kept = self.times.setdefault(report.nodeid, [0.0, True])
        kept[0] += report.duration
        kept[1] &= report.outcome != "failed"

    def pytest_sessionfinish(self, session):
        if not hasattr(session.config, "workerinput"):
            TIMES.write_text(json.dumps(self.times))


plugin = Plugin()
pytest_runtest_logstart = plugin.pytest_runtest_logstart
pytest_runtest_logreport = plugin.pytest_runtest_logreport
pytest_sessionfinish = plugin.pytest_sessionfinish


def run_pytest(*args, timeout=None, **environment):
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path, **environment}, start_new_session=True,
        stdout=None if timeout is None else subprocess.DEVNULL, stderr=None if timeout is None else subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return 1


def map_tests():
    """Run the suite with each process measured, those that the tests start as well."""
    hook = Path(next(path for path in sys.path if path.endswith("site-packages"))) / "mutants.pth"
    hook.write_text(
        f"import sys; sys.path.append({str(Path(__file__).parent)!r}); __import__('mutants').measure_child()\n"
    )
    try:
        run_pytest(
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-n",
            "2",
            "--dist",
            "worksteal",
            "-p",
            "mutants",
            *SUITE,
            MUTANTS_MAP="1",
        )
    finally:
        hook.unlink()
    merged = coverage.Coverage(data_file=str(DATA), config_file=False)
    merged.combine(data_paths=[str(DATA.parent)])
    merged.save()


def list_faults(tree):
    """Yield (line, function that makes the fault in the tree)."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if name == "body" and isinstance(value, list):
                for place, node in enumerate(value):
                    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                        yield node.lineno, lambda value=value, place=place: value.__setitem__(place, ast.Pass())
        if isinstance(parent, ast.Compare) and type(parent.ops[0]) in NEGATED:
            yield parent.lineno, lambda node=parent: node.ops.__setitem__(0, NEGATED[type(node.ops[0])]())
        elif isinstance(parent, ast.If | ast.IfExp | ast.While):
            yield (
                parent.test.lineno,
                lambda node=parent: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)),
            )
        elif isinstance(parent, ast.BoolOp):
            yield (
                parent.lineno,
                lambda node=parent: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()),
            )
        elif isinstance(parent, ast.Constant) and type(parent.value) in {int, float}:
            yield parent.lineno, lambda node=parent: setattr(node, "value", node.value + 1)
        elif isinstance(parent, ast.Constant) and type(parent.value) is bool:
            yield parent.lineno, lambda node=parent: setattr(node, "value", not node.value)
        elif isinstance(parent, ast.Return) and parent.value is not None:
            yield parent.lineno, lambda node=parent: setattr(node, "value", ast.Constant(None))


def run_mutants(count, seed):
    data = coverage.CoverageData(str(DATA))
    data.read()
    times = json.loads(TIMES.read_text())
    chosen = random.Random(seed)
    paths = sorted((ROOT / "picoclaw").rglob("*.py"))
    places = []  # (path, line), so that each line has the same chance
    for path in paths:
        places += [(path, line) for line in sorted({line for line, _ in list_faults(ast.parse(path.read_text()))})]
    noticed = unreached = 0
    for number, (path, line) in enumerate(chosen.sample(places, count), 1):
        text = path.read_text()
        tree = ast.parse(text)
        chosen.choice([fault for at, fault in list_faults(tree) if at == line])()
        data.set_query_contexts(None)
        tests = [name for name in data.contexts_by_lineno(str(path)).get(line, []) if times.get(name, [0, False])[1]]
        tests.sort(key=lambda name: times[name][0])
        began = time.monotonic()
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        try:
            found = bool(tests) and run_pytest("-x", *tests[:MAX_TESTS], timeout=TIMEOUT_S) != 0
        finally:
            path.write_text(text)
        noticed += found
        unreached += not tests
        verdict = "noticed" if found else "not noticed" if tests else "not reached"
        print(f"{number:4} {verdict:12} {time.monotonic() - began:5.1f} s  {path.relative_to(ROOT)}:{line}", flush=True)
    print(f"{noticed} of {count} noticed ({noticed / count:.0%}); {unreached} in lines that no test is known to reach")


if __name__ == "__main__":
    if sys.argv[1:] == ["map"]:
        map_tests()
    elif sys.argv[1:2] == ["run"]:
        count, seed = [*map(int, sys.argv[2:]), *(200, 1)[len(sys.argv) - 2 :]]
        run_mutants(count, seed)
    else:
        sys.exit(__doc__)
