"""The share of small faults that the tests notice.

    python tests/bench/mutants.py map [COUNT] [SEED] [--in picoclaw/store ...] [--tests TEST_FILE ...]
    python tests/bench/mutants.py run [COUNT] [SEED] [--in picoclaw/store ...] [--tests TEST_FILE ...] [--minutes N]

Both choose COUNT random lines of `picoclaw/` and a fault for each (a comparison turned round, a condition negated, a
number moved by one, a result or a call left out). `map` puts a call into each of these lines that writes down which test
reached it, in the tests' processes and in those that they start, and runs the tests once; without names all but those
marked `alone`. `run` puts one fault at a time, runs the tests that reach its line, at most 60, the quickest of each file
first, and counts the faults that make one fail, with the 95 % interval of Wilson. What an import runs is reached by all
tests that run a function of its module. `--tests` goes by these files only: so the same faults can be counted before and
after tests are merged, and files that have changed are mapped again. The map lies in build/mutants. Files of the checkout
are changed and restored: use a copy.
"""

import argparse
import ast
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "build/mutants"
PROBE = ROOT / "picoclaw/_probe.py"
MAX_TESTS, TIMEOUT_S, MAP_TIMEOUT_S = 60, 90, 3600
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
PROBE_TEXT = """
import os

FOLDER = {folder!r}
_seen = set()
_tests = {{}}
_open, _write, _close = os.open, os.write, os.close


def _find_test():
    process = os.getpid()
    while process > 1:
        try:
            with open(f"{{FOLDER}}/now.{{process}}") as file:
                return file.read()
        except OSError:
            pass
        with open(f"/proc/{{process}}/stat") as file:
            process = int(file.read().rpartition(")")[2].split()[1])
    return ""


def hit(number):
    own = os.getpid()
    try:
        test = _tests.get(own)
        if test is None:
            test = _tests[own] = _find_test()
        if test and (number, test) not in _seen:
            _seen.add((number, test))
            file = _open(f"{{FOLDER}}/hits", os.O_WRONLY | os.O_APPEND)
            _write(file, f"{{number}} {{test}}\\n".encode())
            _close(file)
    except (OSError, ValueError):
        pass
"""
"""What is imported by every process that reaches a chosen line."""


class Plugin:
    """What pytest calls while the tests are mapped."""

    def pytest_runtest_logstart(self, nodeid):
        if "PYTEST_WORKER" in os.environ:
            (MAP / f"now.{os.getpid()}").write_text(nodeid)
            if (probe := sys.modules.get("picoclaw._probe")) is not None:
                probe._tests[os.getpid()] = nodeid

    def pytest_runtest_logreport(self, report):
        if "PYTEST_WORKER" not in os.environ:
            with (MAP / "times").open("a") as file:
                file.write(json.dumps([report.nodeid, report.duration, report.outcome]) + "\n")


plugin = Plugin()
pytest_runtest_logstart = plugin.pytest_runtest_logstart
pytest_runtest_logreport = plugin.pytest_runtest_logreport


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


def choose_faults(given):
    """[(number, path, line)], each line with the same chance, and what chooses the fault of a line."""
    chosen = random.Random(given.seed)
    places = []
    for path in sorted((ROOT / "picoclaw").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not given.within or any(name.startswith(part) for part in given.within):
            places += [(path, line) for line in sorted({line for line, _ in list_faults(ast.parse(path.read_text()))})]
    sample = chosen.sample(places, min(given.count, len(places)))
    return [(number, path, line) for number, (path, line) in enumerate(sample, 1)], chosen


def put_probes(text, chosen):
    """The module's text with a call at each of the lines; {number: line}."""
    tree = ast.parse(text)
    at_import = run_at_import(tree)
    calls = {number: ast.parse(f"__import__('picoclaw._probe')._probe.hit({number})").body[0] for number in chosen}
    places = []  # (length of the statement, the list that it is in, its place, number)
    for number, line in chosen.items():
        found = []
        for parent in ast.walk(tree):
            for name, value in ast.iter_fields(parent):
                if name not in {"body", "orelse", "finalbody"} or not isinstance(value, list):
                    continue
                if line in at_import:
                    if isinstance(parent, ast.FunctionDef) and name == "body":
                        is_docstring = ast.get_docstring(parent) is not None and len(value) > 1
                        places.append((value, value[is_docstring], number))
                    continue
                for node in value:
                    if node.lineno <= line <= node.end_lineno:
                        found.append((node.end_lineno - node.lineno, len(found), value, node))
        if found:
            *_, value, node = min(found, key=lambda one: (one[0], -one[1]))
            places.append((value, node, number))
    for value, node, number in places:
        value.insert(value.index(node), calls[number])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def map_tests(given):
    """Run the tests with a call in each line that is chosen."""
    MAP.mkdir(parents=True, exist_ok=True)
    for old in MAP.glob("*"):
        if old.name != "map.json":
            old.unlink()
    (MAP / "hits").touch()
    kept, by_path = {}, {}
    faults, _ = choose_faults(given)
    for number, path, line in faults:
        by_path.setdefault(path, {})[number] = line
    try:
        PROBE.write_text(PROBE_TEXT.format(folder=str(MAP)))
        for path, chosen in by_path.items():
            kept[path] = path.read_text()
            path.write_text(put_probes(kept[path], chosen))
        options = ["--workers", "2", "-p", "mutants", "-m", "not alone"]
        run_pytest(*options, *map(str, given.tests or list_test_files()), timeout=MAP_TIMEOUT_S)
    finally:
        PROBE.unlink(missing_ok=True)
        for path, text in kept.items():
            path.write_text(text)
    seconds, failed, reached = {}, set(), {}
    for row in (MAP / "times").read_text().splitlines():
        test, took, outcome = json.loads(row)
        seconds[test] = seconds.get(test, 0) + took
        failed.update([test] if outcome != "passed" else [])
    for row in (MAP / "hits").read_text().splitlines():
        number, _, test = row.partition(" ")
        if test in seconds and test not in failed:
            reached.setdefault(number, set()).add(test)
    made = read_map(given)
    if given.tests:  # the others stay
        names = tuple(f"{path.relative_to(ROOT)}::" for path in given.tests)
        for number, tests in made["reached"].items():
            reached.setdefault(number, set()).update(test for test in tests if not test.startswith(names))
        seconds = {**made["seconds"], **seconds}
    which = [given.count, given.seed, given.within]
    reached = {number: sorted(tests) for number, tests in reached.items()}
    (MAP / "map.json").write_text(json.dumps({"which": which, "reached": reached, "seconds": seconds}))
    print(f"{len(seconds)} tests, {len(failed)} failed or were skipped; {len(reached)} of {len(faults)} lines reached")


def read_map(given):
    """{number: tests} and {test: seconds} of the faults that were mapped."""
    with contextlib.suppress(OSError):
        kept = json.loads((MAP / "map.json").read_text())
        if kept["which"] == [given.count, given.seed, given.within]:
            return kept
    return {"reached": {}, "seconds": {}}


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
    made = read_map(given)
    reached, seconds = made["reached"], made["seconds"]
    names = tuple(f"{path.relative_to(ROOT)}::" for path in given.tests) or ""
    faults, chosen = choose_faults(given)
    noticed = unreached = tried = 0
    end = time.monotonic() + 60 * given.minutes
    for number, path, line in faults:
        if time.monotonic() > end:
            break
        text, name = path.read_text(), str(path.relative_to(ROOT))
        tree = ast.parse(text)
        chosen.choice([fault for at, fault in list_faults(tree) if at == line])()
        if given.only and number not in given.only:
            continue
        tests = select_tests([test for test in reached.get(str(number), ()) if test.startswith(names)], seconds)
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
    for verb in ("map", "run"):
        one = verbs.add_parser(verb)
        one.add_argument("count", nargs="?", type=int, default=200)
        one.add_argument("seed", nargs="?", type=int, default=1)
        one.add_argument("--in", dest="within", nargs="*", default=[])
        one.add_argument("--tests", nargs="*", type=lambda name: Path(name).resolve(), default=[])
    run = verbs.choices["run"]
    run.add_argument("--only", nargs="*", type=int, default=[], metavar="N", help="the faults of these numbers")
    run.add_argument("--minutes", type=float, default=600)
    given = parser.parse_args()
    if given.verb == "map":
        map_tests(given)
    else:
        run_mutants(given)


if __name__ == "__main__":
    main()
