"""What a first search costs, and that nothing else pays for it: `python tests/bench/memory_first.py`.

Each command runs in a fresh process, on notes of 200 days that are indexed already; the median of several runs. The
first search is measured within its process as well: from the question to the hits, numpy and the table of word vectors
loaded on the way.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
from cost import RUNS, measured

INSIDE = """
import sys, time
from datetime import datetime
from picoclaw.config import load_config
from picoclaw.stores import Stores
memory = Stores(load_config()).memory
assert "numpy" not in sys.modules
began = time.perf_counter()
memory.search("where does the boiler stand?", datetime.now().astimezone())
print(1000 * (time.perf_counter() - began), "numpy" in sys.modules)
"""
IMPORTED = """
import os, sys
from picoclaw.cli import run
said, sys.stdout = sys.stdout, open(os.devnull, "w")
run(sys.argv[1:])
print("numpy" in sys.modules, file=said)
"""
COMMANDS = (
    ("chat", "--board", "sim", "-m", "hello"),
    ("chat", "--board", "sim", "-m", "how warm is it?"),
    ("tools", "--board", "sim"),
    ("doctor", "--board", "sim"),
    ("memory", "stats"),
    ("memory", "search", "boiler pressure"),
    ("chat", "--board", "sim", "-m", "what did I note about the boiler?"),
)


def said(environment, code, *words):
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def main():
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"PICOCLAW_HOME": home}
        for days in range(200):
            day = date(2026, 3, 1) + timedelta(days)
            path = Path(home, f"workspace/memory/{day:%Y%m}/{day:%Y%m%d}.md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {day}\n\n- 14:05 the boiler is at {1 + days / 1000:.3f} bar\n- 18:00 fed the cat\n")
        Path(home).chmod(0o700)
        said(environment, IMPORTED, "memory", "index")
        print(f"{'':58} wall ms   peak MB   numpy   ({RUNS} runs)")
        for words in COMMANDS:
            runs = [measured([sys.executable, "-m", "picoclaw", *words], environment) for _ in range(RUNS)]
            _, wall, memory = (statistics.median(values) for values in zip(*runs, strict=True))
            numpy = "yes" if "True" in said(environment, IMPORTED, *words) else "no"
            print(f"{' '.join(words):58} {1000 * wall:7.0f} {memory:9.1f}   {numpy}")
        first = [float(said(environment, INSIDE).split()[0]) for _ in range(RUNS)]
        print(f"the first search of a process: {statistics.median(first):.0f} ms (least {min(first):.0f}; wanted: 300)")


if __name__ == "__main__":
    main()
