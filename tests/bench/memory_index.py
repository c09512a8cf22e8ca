"""What the memory's index costs, in bytes, files and milliseconds: `python tests/bench/memory_index.py`.

Notes are made of words with the frequencies of a language (Zipf), a file of about 1,700 characters each. The walk, the
statements and the disk are this machine's; `plain` is the same look at the files, and the same text in one FTS5 table,
without anything of ours.
"""

import argparse
import itertools
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import apsw

from picoclaw.memory.index import IndexFile, split_chunks

DIMS = 256


def written():
    """Bytes given to the system to write, and bytes of pages that this made dirty and that were not dropped again."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"]), int(lines["write_bytes"]) - int(lines["cancelled_write_bytes"])


def vocabulary(dice):
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(dice.choices(letters, k=dice.randrange(2, 11))) for _ in range(20_000)]
    return words, list(itertools.accumulate(1 / rank for rank in range(1, 20_001)))


def note(dice, words, weights):
    lines = [" ".join(dice.choices(words, cum_weights=weights, k=12)) for _ in range(24)]
    return "# 2026-03-01\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def fill(workspace, files):
    dice = random.Random(1)
    words, weights = vocabulary(dice)
    for number in range(files):
        file = workspace / f"memory/{number // 30:04}/{number:06}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(note(dice, words, weights))
    return dice, words, weights


def timed(work, times=1):
    """The median of some runs in milliseconds, and the last result."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), result


def embed_all(index):
    while lacking := index.unembedded("bench", 1000):
        index.keep_vectors("bench", DIMS, [(number, os.urandom(DIMS)) for number, _ in lacking])


def walked(workspace):
    """A plain look at all files."""
    return sum(os.lstat(f"{top}/{name}").st_size for top, _, names in os.walk(workspace) for name in names)


def plain_fts5(path, workspace):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter unicode61'); BEGIN")
    for file in sorted(workspace.rglob("*.md")):
        connection.executemany(
            "INSERT INTO words VALUES (?)", [(chunk.text,) for chunk in split_chunks(file.read_text())]
        )
    connection.execute("COMMIT")
    return connection


def queries(dice, words):
    return [dice.sample(words[50:5000], 5) for _ in range(100)]


def changes(index, workspace, makers, number=50):
    """Add a line to notes, one at a time; each time the sync, and that it read one file."""
    dice, words, weights = makers
    files = dice.sample(sorted(workspace.rglob("*.md")), number)
    before, took, read = written(), [], set()
    for file in files:
        with file.open("a") as opened:
            opened.write(" ".join(dice.choices(words, cum_weights=weights, k=12)) + "\n")
        spent, done = timed(index.sync)
        took.append(spent)
        read.add(done.read)
    index.close()
    after = written()
    return sorted(took), read, (after[0] - before[0]) / number, (after[1] - before[1]) / number


def bench(folder, files):
    workspace, path = folder / "workspace", folder / "memory.db"
    makers = fill(workspace, files)
    text = walked(workspace)
    index = IndexFile(path, workspace)
    before = written()
    spent, done = timed(index.sync)
    index.close()
    given, dirty = (after - start for after, start in zip(written(), before, strict=True))
    print(f"{files} files, {text / 1e6:.2f} MB, {index.stats()['chunks']} chunks")
    print(
        f"first sync: {spent / 1000:.2f} s, read {done.read}, wrote {given / text:.1f} x the text ({dirty / text:.1f})"
    )
    spent, connection = timed(lambda: plain_fts5(folder / "plain.db", workspace))
    print(f"  plain FTS5: {spent / 1000:.2f} s")
    words_only = index.stats()["index_bytes"]
    embed_all(index)
    stats = index.stats()
    assert stats["vectors"] == stats["chunks"]
    print(f"size: {words_only / text:.2f} x the text, with vectors {stats['index_bytes'] / text:.2f} x")
    before = written()
    spent, done = timed(index.sync, 9)
    print(f"unchanged sync: {spent:.1f} ms, read {done.read}, bytes written {written()[0] - before[0]}")
    print(f"  plain look at the files: {timed(lambda: walked(workspace), 9)[0]:.1f} ms")
    index.close()
    before = written()
    spent, _ = timed(index.sync)
    index.close()
    given, dirty = (after - start for after, start in zip(written(), before, strict=True))
    print(f"unchanged sync of a new process: {spent:.1f} ms, to the card {dirty} bytes ({given} to shared memory)")
    took, read, given, dirty = changes(index, workspace, makers)
    print(
        f"one changed file: p50 {took[len(took) // 2]:.1f} ms, p95 {took[len(took) * 19 // 20]:.1f} ms, read {read},"
        f" wrote {given / 1000:.0f} kB ({dirty / 1000:.0f})"
    )
    searches(index, connection, queries(makers[0], makers[1]))
    spent, total = timed(lambda: sum(len(rows) for some in index.vectors() for _, _, rows in some), 9)
    print(f"all vectors: {spent:.1f} ms for {total / 1e6:.1f} MB")


def searches(index, connection, asked):
    sql = "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 24"
    ours = sorted(timed(lambda words=words: index.match(words, 24))[0] for words in asked)
    plain = sorted(
        timed(lambda words=words: connection.execute(sql, (" OR ".join(f'"{w}"' for w in words),)).fetchall())[0]
        for words in asked
    )
    print(f"match: p50 {ours[50]:.2f} ms, p95 {ours[95]:.2f} ms; plain FTS5 {plain[50]:.2f}, {plain[95]:.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="*", default=[2000])
    parser.add_argument("--folder", type=Path, help="where to work; usually a temporary folder")
    given = parser.parse_args()
    for files in given.files:
        folder = Path(tempfile.mkdtemp(prefix="memory-index-", dir=given.folder))
        try:
            bench(folder, files)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
