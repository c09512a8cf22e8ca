"""How long a search takes and what memory it needs, beside plain FTS5 and plain numpy.

    python tests/bench/memory_search.py [CHUNKS...]      usually 10000 and 100000

The chunks are made up of the shipped table's words, as rare as those of a language (Zipf), about 1,000 characters each
in lines of 15 words, their vectors of noise, so that nothing but the speed means anything; the questions have two to eight words, so that about half of the chunks have one of them, as with LoCoMo's.
Plain FTS5 is the same OR of the same words, best 36; plain numpy one product with the same int8 rows, all of them held
in memory. Prints milliseconds of the process's own time on the processor, warm, so that a busy machine does not count;
and how much a fresh process grows by its searches, the table loaded before.
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from picoclaw.files import find_shipped
from picoclaw.memory.embedding import StaticEmbedder
from picoclaw.memory.index import IndexFile
from picoclaw.memory.search import extract_terms, search_memory

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SEARCHES, DIMS, WORDS = 60, 128, 20_000
SIDES = ("text", "hybrid", "plain FTS5", "plain numpy")


def load_table():
    return StaticEmbedder(find_shipped("templates/embeddings"))


def list_words(table):
    """Words that the table knows, in an order that says nothing."""
    pieces = zlib.decompress((find_shipped("templates/embeddings") / "vocabulary.z").read_bytes()).decode().split("\n")
    words = [piece for piece in pieces if piece.isascii() and piece.isalpha() and extract_terms(piece) and piece[2:]]
    random.Random(3).shuffle(words)
    return words[:WORDS]


def made(folder, chunks, table):
    """An index of so many chunks."""
    import numpy as np

    chance = random.Random(5)
    words = list_words(table)
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    for file in range(0, chunks, 200):
        path = folder / "memory" / f"{2000 + file // 60_000}01" / f"{file}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        few = [
            [chance.choices(words, cum_weights=weights, k=15) for _ in range(8)] for _ in range(min(200, chunks - file))
        ]
        path.write_text("\n\n".join("\n".join(f"- {' '.join(line)}" for line in lines) for lines in few))
    index = IndexFile(folder / "memory.db", folder)
    index.sync()
    noise = np.random.default_rng(1)
    while missing := index.unembedded(table.name, 5000):
        rows = noise.integers(-127, 128, (len(missing), DIMS), np.int8)
        index.keep_vectors(table.name, DIMS, [(n, row.tobytes()) for (n, _), row in zip(missing, rows, strict=True)])
    return index


def questions(table):
    words = list_words(table)
    chance = random.Random(7)
    ranks = [int(WORDS ** chance.uniform(0.4, 1)) - 1 for _ in range(SEARCHES * 5)]
    return [" ".join(words[rank] for rank in ranks[i * 5 : i * 5 + chance.randint(2, 8)]) for i in range(SEARCHES)]


def timed(work, asked):
    """The median and the 95th percentile in milliseconds, each question asked once before."""
    taken = []
    for question in asked[:5]:
        work(question)
    for question in asked:
        best = 1.0
        for _ in range(5):  # others use the machine as well
            began = time.process_time()
            work(question)
            best = min(best, time.process_time() - began)
        taken.append(1000 * best)
    return statistics.median(taken), statistics.quantiles(taken, n=20)[-1]


def product_of(index, table):
    import numpy as np

    every = np.frombuffer(b"".join(rows for some in index.vectors() for _, _, rows in some), np.int8).reshape(-1, DIMS)
    held = every[every.any(axis=1)]

    def work(question):
        wanted = table.embed([question])[0]
        cosines = np.concatenate([held[i : i + 4096].astype(np.float32) @ wanted for i in range(0, len(held), 4096)])
        return np.argpartition(-cosines, 24)[:24]

    return work


def peak():
    """The most memory that this process has had, in kB; ru_maxrss would count the parent's."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def grown(folder, side):
    """How many megabytes a fresh process grows by its searches, numpy included."""
    index, table = IndexFile(folder / "memory.db", folder), load_table()
    asked = questions(table)[:20]
    index.match(["pump"], 1)
    before = peak()
    for question in asked:
        search_memory(index, question, table if side == "hybrid" else None, NOW)
    print((peak() - before) / 1024)


def main():
    if sys.argv[1:2] == ["--grown"]:
        grown(Path(sys.argv[2]), sys.argv[3])
        return
    table = load_table()
    asked = questions(table)
    for chunks in map(int, sys.argv[1:] or ["10000", "100000"]):
        with tempfile.TemporaryDirectory() as name:
            index = made(Path(name), chunks, table)
            work = {
                "text": lambda question, index=index: search_memory(index, question, None, NOW),
                "hybrid": lambda question, index=index: search_memory(index, question, table, NOW),
                "plain FTS5": lambda question, index=index: index.match(extract_terms(question), 36),
                "plain numpy": product_of(index, table),
            }
            took = {side: timed(work[side], asked) for side in SIDES}
            print(f"\n{index.stats()['chunks']} chunks")
            for side, (median, slowest) in took.items():
                print(f"{side:12} p50 {median:7.2f} ms, p95 {slowest:7.2f} ms")
            plain = took["plain FTS5"][0], took["plain numpy"][0]
            print(f"text: {took['text'][0] / plain[0]:.2f} times plain FTS5", end="; ")
            print(f"hybrid: {took['hybrid'][0] / sum(plain):.2f} times plain FTS5 and plain numpy together")
            for side in ("text", "hybrid"):
                command = [sys.executable, __file__, "--grown", name, side]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                print(f"{side}: {float(done.stdout):.1f} MB more in a fresh process")


if __name__ == "__main__":
    main()
