"""What the shipped table of word vectors costs: `python tests/bench/embed.py`. Prints figures, judges nothing.

Times are the best and the median of several fresh processes; memory is the kernel's account of the process, all of it
and the part that is its own (what is mapped from a file can be given back at any time).
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = int(os.environ.get("RUNS", "7"))

MEASURED = """
import json, re, sys, time
from picoclaw.memory.embedding import StaticEmbedder
from picoclaw.files import find_shipped

def memory():
    status = open("/proc/self/status").read()
    return [int(re.search(name + r":\\s+(\\d+)", status)[1]) / 1024 for name in ("VmRSS", "RssAnon")]

def timed(name, act, times=1):
    began = time.perf_counter()
    for _ in range(times):
        act()
    out[name] = 1000 * (time.perf_counter() - began) / times

out = {}
out["MB before"], out["MB before, own"] = memory()
began = time.perf_counter()
import numpy
out["import numpy"] = 1000 * (time.perf_counter() - began)
out["MB with numpy"], out["MB with numpy, own"] = memory()
folder = find_shipped("templates") / "embeddings"
began = time.perf_counter()
table = StaticEmbedder(folder)
out["open the table"] = 1000 * (time.perf_counter() - began)
out["MB with the table"], out["MB with the table, own"] = memory()
short = "how warm was it in the greenhouse last night?"
chunk = ("We went to the market, bought tomatoes and watered the ferns; Caroline called about the boiler. " * 9)[:850]
timed("first short text", lambda: table.embed([short]))
timed("short text", lambda: table.embed([short]), 1000)
timed("chunk of 850 characters", lambda: table.embed([chunk]), 300)
numbers = table.pieces.tokens(chunk)
rows = numpy.zeros((29528, table.dims), numpy.int8)
timed("its cutting alone", lambda: table.pieces.tokens(chunk), 300)
timed("plain numpy: mean of as many rows", lambda: rows[numbers].astype(numpy.float32).mean(0), 300)
out["MB after it all"], out["MB after it all, own"] = memory()
print(json.dumps(out))
"""


def main() -> None:
    """Measure, print."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURED]
    runs = [
        json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    print(f"{'':36}{'best':>9}{'median':>9}   ({RUNS} processes; ms, or MB where it says so)")
    for name in runs[0]:
        values = [run[name] for run in runs]
        print(f"{name:36}{min(values):9.3f}{statistics.median(values):9.3f}")


if __name__ == "__main__":
    main()
