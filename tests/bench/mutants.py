"""The share of small faults that the tests notice.

    pip install coverage
    python tests/bench/mutants.py map [TEST_FILE ...]      # once: which tests reach which line; all files without names
    python tests/bench/mutants.py run [COUNT] [SEED] [--in picoclaw/store ...] [--tests TEST_FILE ...] [--minutes N]

`run` puts one fault at a time into a random line of `picoclaw/` (a comparison turned round, a condition negated, a
number moved by one, a result or a call left out), runs the tests that reach that line, at most 60, the quickest of each file first, and
counts the faults that make one fail, with the 95 % interval of Wilson. What an import runs is reached by all tests of
its module. `--tests` goes by these files only: so the same faults can be counted before and after tests are merged.
It changes files of the checkout and restores them: use a copy. The map lies in build/mutants, a file for each file of
tests, and is made again for those that have changed.
"""

import argparse
import ast
import atexit
import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "build/mutants"
NOW = MAP / "now"
"""Holds, for each process of pytest, the test that it runs."""
MAX_TESTS, MAX_TESTS_OF_FILE, TIMEOUT_S, MAP_TIMEOUT_S = 60, 40, 90, 400
LEFT_OUT = {"bench", "hostile", "lab", "model", "package"}
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
        with contextlib.suppress(OSError):
            return (NOW / str(process)).read_text()
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return ""


def start_measuring():
    """Measure this process until it ends; what it forks is measured in the name of the test at that time."""
    measured = coverage.Coverage(
        data_file=str(NOW / "data"), data_suffix=True, source=[str(ROOT / "picoclaw")], config_file=False,
        messages=False,
    )  # fmt: skip
    measured._warn = lambda *_, **__: None
    measured.start()

    def save():
        with contextlib.suppress(OSError, coverage.CoverageException):  # the test may have filled the disk
            measured.stop()
            measured.save()

    def rename():
        with contextlib.suppress(OSError, coverage.CoverageException):
            measured.switch_context(find_test() or "none")

    atexit.register(save)
    os.register_at_fork(after_in_child=rename)
    return measured


def measure_child():
    if plugin.measured is None and NOW.is_dir() and (test := find_test()):  # once: site-packages may be listed twice
        plugin.measured = start_measuring()
        plugin.measured.switch_context(test)


class Plugin:
    """What pytest calls while a file of tests is mapped."""

    def __init__(self):
        self.measured, self.times = None, {}

    def pytest_runtest_logstart(self, nodeid):
        if self.measured is None:
            self.measured = start_measuring()
            self.named = NOW / str(os.getpid())
        self.measured.switch_context(nodeid)
        self.named.write_text(nodeid)

    def pytest_runtest_logreport(self, report):
        kept = self.times.setdefault(report.nodeid, [0.0, True])
        kept[0] += report.duration
        kept[1] &= report.outcome == "passed"

    def pytest_sessionfinish(self):
        (NOW / "times").write_text(json.dumps(self.times))


plugin = Plugin()
pytest_runtest_logstart = plugin.pytest_runtest_logstart
pytest_runtest_logreport = plugin.pytest_runtest_logreport
pytest_sessionfinish = plugin.pytest_sessionfinish


def run_pytest(*args, timeout):
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
    memory = {"PYTEST_DEBUG_TEMPROOT": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **memory, "PYTHONPATH": path}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return 1
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def list_test_files():
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path for path in found if not LEFT_OUT & set(path.relative_to(ROOT).parts)]


def map_tests(paths):
    """Run each file of tests that has changed, with each process measured, those that the tests start as well."""
    hook = Path(next(path for path in sys.path if path.endswith("site-packages"))) / "mutants.pth"
    hook.write_text(
        f"import sys; sys.path.append({str(Path(__file__).parent)!r}); __import__('mutants').measure_child()\n"
    )
    try:
        for number, path in enumerate(paths, 1):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            record = MAP / f"{path.relative_to(ROOT / 'tests').as_posix().replace('/', '+')}.json"
            if record.exists() and json.loads(record.read_text())["digest"] == digest:
                continue
            shutil.rmtree(NOW, ignore_errors=True)
            NOW.mkdir(parents=True)
            began = time.monotonic()
            options = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "mutants", "-m", "not alone"]
            run_pytest(*options, str(path), timeout=MAP_TIMEOUT_S)
            times = json.loads((NOW / "times").read_text()) if (NOW / "times").exists() else {}
            record.write_text(json.dumps({"digest": digest, "times": times, "lines": read_lines(times)}))
            seconds = time.monotonic() - began
            print(f"{number:4} of {len(paths)}  {seconds:6.1f} s  {len(times):5} tests  {path.name}", flush=True)
    finally:
        hook.unlink()
        shutil.rmtree(NOW, ignore_errors=True)


def read_lines(times):
    """{file: {line: the quickest tests that reach it}} of what was measured just now; line 0 has those of any line."""
    merged = coverage.Coverage(data_file=str(NOW / "data"), config_file=False, messages=False)
    with contextlib.suppress(coverage.CoverageException):
        merged.combine(data_paths=[str(NOW)])
    data = merged.get_data()
    found = {}
    for file in data.measured_files():
        lines = {
            line: {test for test in tests if times.get(test, (0, False))[1]}
            for line, tests in data.contexts_by_lineno(file).items()
        }
        lines[0] = set().union(*lines.values())
        found[str(Path(file).relative_to(ROOT))] = {
            line: sorted(tests, key=lambda test: times[test][0])[:MAX_TESTS_OF_FILE]
            for line, tests in lines.items()
            if tests
        }
    return found


def read_map(paths):
    """({(file, line): tests}, {test: seconds}) of the files of tests that were mapped."""
    reached, seconds = {}, {}
    for path in paths:
        record = MAP / f"{path.relative_to(ROOT / 'tests').as_posix().replace('/', '+')}.json"
        if record.exists():
            kept = json.loads(record.read_text())
            seconds.update((test, time) for test, (time, _) in kept["times"].items())
            for file, lines in kept["lines"].items():
                for line, tests in lines.items():
                    reached.setdefault((file, int(line)), []).extend(tests)
    return reached, seconds


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


def run_at_import(tree):
    """The lines that are in no function."""
    within = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            within.update(range(node.body[0].lineno, node.end_lineno + 1))
    return set(range(tree.body[-1].end_lineno + 1)) - within


def interval(noticed, count):
    """The 95 % interval of a share, after Wilson (JASA 22, 1927)."""
    share, z = noticed / count, 1.96
    middle, wide = share + z * z / (2 * count), z * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return [(middle + sign * wide) / (1 + z * z / count) for sign in (-1, 1)]


def select_tests(tests, seconds):
    """The quickest test of each file, then the second of each, and so on."""
    ranks = {}
    for test in sorted(set(tests), key=lambda test: (seconds[test], test)):
        ranks.setdefault(test.partition("::")[0], []).append(test)
    turns = [(rank, seconds[test], test) for file in ranks.values() for rank, test in enumerate(file)]
    return [test for _, _, test in sorted(turns)[:MAX_TESTS]]


def run_mutants(given):
    reached, seconds = read_map(given.tests)
    chosen = random.Random(given.seed)
    places = []  # (path, line), so that each line has the same chance
    for path in sorted((ROOT / "picoclaw").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not given.within or any(name.startswith(part) for part in given.within):
            places += [(path, line) for line in sorted({line for line, _ in list_faults(ast.parse(path.read_text()))})]
    noticed = unreached = tried = 0
    end = time.monotonic() + 60 * given.minutes
    for number, (path, line) in enumerate(chosen.sample(places, min(given.count, len(places))), 1):
        if time.monotonic() > end:
            break
        text, name = path.read_text(), str(path.relative_to(ROOT))
        tree = ast.parse(text)
        at_import = line in run_at_import(tree)
        chosen.choice([fault for at, fault in list_faults(tree) if at == line])()
        if given.only and number not in given.only:
            continue
        tests = select_tests(reached.get((name, 0 if at_import else line), ()), seconds)
        began = time.monotonic()
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        try:
            found = bool(tests) and run_pytest("-x", *tests, timeout=TIMEOUT_S) != 0
        finally:
            path.write_text(text)
        tried, noticed, unreached = tried + 1, noticed + found, unreached + (not tests)
        verdict = "noticed" if found else "not noticed" if tests else "not reached"
        changed = text.splitlines()[line - 1].strip()
        print(f"{number:4} {verdict:11} {time.monotonic() - began:5.1f} s  {name}:{line}  {changed[:90]}", flush=True)
    if tried:
        low, high = interval(noticed, tried)
        print(
            f"{noticed} of {tried} noticed: {noticed / tried:.0%}, by 95 % {low:.0%} to {high:.0%}; "
            f"{unreached} in lines that no test is known to reach"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(required=True, dest="verb")
    verbs.add_parser("map").add_argument("tests", nargs="*", type=Path)
    run = verbs.add_parser("run")
    run.add_argument("count", nargs="?", type=int, default=200)
    run.add_argument("seed", nargs="?", type=int, default=1)
    run.add_argument("--in", dest="within", nargs="*", default=[])
    run.add_argument("--tests", nargs="*", type=Path, default=[])
    run.add_argument("--only", nargs="*", type=int, default=[], metavar="N", help="the faults of these numbers")
    run.add_argument("--minutes", type=float, default=600)
    given = parser.parse_args()
    given.tests = [path.resolve() for path in given.tests] or list_test_files()
    if given.verb == "map":
        map_tests(given.tests)
    else:
        run_mutants(given)


if __name__ == "__main__":
    main()
