"""How much of what was said is found again: `python tests/bench/recall.py FILES...`, LoCoMo's, one conversation each.

    --tune          show a grid of the fusion's numbers, on the first two files
    --least N       the score that a hit has to have, instead of the usual one
    --url, --model  compare with an embedding server instead of the table that ships

The sessions are written as daily notes into a workspace that is thrown away, indexed and searched by picoclaw itself.
recall@6 is the share of a question's evidence in the first six hits, MRR what the rank of the first right one is worth
(1, 1/2, ...). "chunks" cuts the notes as usual; in "turns" every remark is a note of its own. A hit below the least
score is no hit, except in the vectors' column: alone they are only an order. LoCoMo: https://github.com/snap-research/locomo
"""

import argparse
import itertools
import json
import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from picoclaw.memory import search
from picoclaw.memory.embedding import RemoteEmbedder, StaticEmbedder, quantise
from picoclaw.memory.index import IndexFile
from picoclaw.memory.search import search_memory as search_search
from picoclaw.memory.search import search_vectors
from picoclaw.resources import find_shipped

ADVERSARIAL = 5  # questions whose answer is in none of the sessions
SIDES = ("text", "vectors", "hybrid")
GRID = {"DEVIATIONS": (10, 15, 20), "DATED": (0, 0.4, 0.7), "BESIDE": (0, 0.2, 0.3)}


class Conversation(NamedTuple):
    """Remarks by when and how they are named, and questions with the names of the remarks that answer them."""

    name: str
    remarks: list
    questions: list
    asked: datetime


class Corpus(NamedTuple):
    """A conversation in an index, and which remark stands on which line."""

    index: IndexFile
    places: dict
    conversation: Conversation


def conversation(path):
    data = json.loads(Path(path).read_text())
    remarks = []
    for key, turns in data.items():
        if re.fullmatch(r"session_\d+", key) and isinstance(turns, list):
            when = datetime.strptime(data[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            remarks += [(when, t["dia_id"], f"{t['speaker']}: {' '.join(t['text'].split())}") for t in turns]
    remarks.sort(key=lambda remark: remark[0])
    names = {name for _, name, _ in remarks}
    questions = []
    for entry in data["qa"]:
        evidence = {f"D{a}:{b}" for e in entry.get("evidence", []) for a, b in re.findall(r"D:?(\d+):(\d+)", e)} & names
        if entry.get("category") != ADVERSARIAL and evidence:
            questions.append((entry["question"], evidence))
    return Conversation(Path(path).stem, remarks, questions, remarks[-1][0] + timedelta(days=1))


def noted(talk, workspace, unit):
    """Write the remarks down; says where each is."""
    notes, places = {}, {}
    for when, name, text in talk.remarks:
        own = "" if unit == "chunks" else f"-{name.replace(':', '-')}"
        path = f"memory/{when:%Y%m}/{when:%Y%m%d}{own}.md"
        lines = notes.setdefault(path, [f"# {when:%Y-%m-%d}", ""])
        lines.append(f"- {when:%H:%M} {text}")
        places[path, len(lines)] = name
    for path, lines in notes.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("\n".join(lines) + "\n")
    return places


def indexed(talk, folder, unit, embedder):
    workspace = Path(folder) / f"{talk.name}-{unit}"
    places = noted(talk, workspace, unit)
    index = IndexFile(workspace / "memory.db", workspace)
    index.sync()
    while missing := index.unembedded(embedder.name, 256):
        rows = quantise(embedder.embed([text for _, text in missing]))
        index.keep_vectors(embedder.name, embedder.dims, [(n, row) for (n, _), row in zip(missing, rows, strict=True)])
    return Corpus(index, places, talk)


def found(corpus, question, side, embedder, least):
    """The first six hits."""
    if side == "vectors":
        close = search_vectors(corpus.index, question, embedder, ())
        best = sorted(close[0], key=lambda number: -close[0][number]) if close else []
        return corpus.index.rows(best[:6])
    return search_search(
        corpus.index, question, embedder if side == "hybrid" else None, corpus.conversation.asked, least=least
    )


def measured(corpus, side, embedder, least):
    """Recall@6 and MRR, each the mean of all questions."""
    recall = rank = 0.0
    for question, evidence in corpus.conversation.questions:
        hits = found(corpus, question, side, embedder, least)
        had = [{corpus.places.get((hit.path, line)) for line in range(hit.start, hit.end + 1)} for hit in hits]
        recall += len(evidence & set().union(*had)) / len(evidence)
        rank += next((1 / place for place, some in enumerate(had, 1) if some & evidence), 0)
    return recall / len(corpus.conversation.questions), rank / len(corpus.conversation.questions)


def mean(results):
    return tuple(sum(column) / len(results) for column in zip(*results, strict=True))


def line(name, figures):
    print(f"{name:24}" + "".join(f"{recall:8.3f} {rank:.3f}" for recall, rank in figures), flush=True)


def tune(corpora, embedder, least):
    usual = {name: getattr(search, name) for name in GRID}
    print(f"{' '.join(GRID):24}" + "".join(f"{side:>14}" for side in ("text", "hybrid")))
    for numbers in itertools.product(*GRID.values()):
        for name, number in zip(GRID, numbers, strict=True):
            setattr(search, name, number)
        figures = [mean([measured(corpus, side, embedder, least) for corpus in corpora]) for side in ("text", "hybrid")]
        line(" ".join(map(str, numbers)), figures)
    for name, number in usual.items():
        setattr(search, name, number)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--least", type=float, default=search.MIN_SCORE)
    parser.add_argument("--url", help="of an embedding server, to /v1")
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    embedder = (
        RemoteEmbedder(options.url, options.model, seconds=600)
        if options.url
        else StaticEmbedder(find_shipped("templates/embeddings"))
    )
    with tempfile.TemporaryDirectory() as folder:
        for unit in ("chunks", "turns"):
            corpora = [indexed(conversation(path), folder, unit, embedder) for path in options.files]
            print(f"\n{unit}, {embedder.name}: recall@6 and MRR")
            if options.tune:
                tune(corpora[:2], embedder, options.least)
                continue
            print(" " * 24 + "".join(f"{side:>14}" for side in SIDES))
            results = [[measured(corpus, side, embedder, options.least) for side in SIDES] for corpus in corpora]
            for corpus, figures in zip(corpora, results, strict=True):
                line(f"{corpus.conversation.name} ({len(corpus.conversation.questions)} questions)", figures)
            line("mean", [mean(side) for side in zip(*results, strict=True)])


if __name__ == "__main__":
    main()
