"""How much of what was said is found again: `python tests/bench/recall.py [FILES...]`, LoCoMo's, one conversation each.

    --tune          show a grid of the fusion's numbers, on the first two files
    --least N       the score from which a hit is certain, instead of the usual one
    --url, --model  compare with an embedding server instead of the table that ships
    --minilm        compare with the extra picoclaw-edge[minilm], if it is installed

The sessions are written as daily notes into a workspace that is thrown away, indexed and searched by picoclaw itself.
recall@6 is the share of a question's evidence in the first six hits, MRR what the rank of the first right one is worth
(1, 1/2, ...). "chunks" cuts the notes as usual; in "turns" every remark is a note of its own. Vectors alone are only an
order. LoCoMo: https://github.com/snap-research/locomo

Then the households in data/: which share of the questions have the right note first, or in the first three, or as a
certain hit; how often nothing certain is found where no note has an answer. "days" has a file a day, "one" all notes in
one file, "third" two thirds of them, "large" those of the first conversation beside them.
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
from picoclaw.files import find_shipped
from picoclaw.memory import search
from picoclaw.memory.embedding import MiniLMEmbedder, RemoteEmbedder, StaticEmbedder, find_minilm, quantise
from picoclaw.memory.index import IndexFile
from picoclaw.memory.search import search_memory as search_search
from picoclaw.memory.search import search_vectors

ADVERSARIAL = 5  # questions whose answer is in none of the sessions
SIDES = ("text", "vectors", "hybrid")
GRID = {"ENTRY_WEIGHT": (0, 0.3, 0.4), "DEVIATION_WEIGHT": (0.02, 0.033, 0.05), "DAY_WEIGHT": (0.1, 0.17)}
HOUSEHOLDS = ("household_a", "household_b", "household_c")
ASKED = datetime(2026, 11, 22, 12, tzinfo=UTC)
KINDS = ("own", "last", "other")


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
    return Corpus(fill(workspace, embedder), places, talk)


def fill(workspace, embedder):
    """An index of a workspace, with the vectors of all that is in it."""
    index = IndexFile(workspace / "memory.db", workspace)
    index.sync()
    while missing := index.unembedded(embedder.name, 256):
        rows = quantise(embedder.embed([text for _, text in missing]))
        index.keep_vectors(embedder.name, embedder.dims, [(n, row) for (n, _), row in zip(missing, rows, strict=True)])
    return index


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


def household(name):
    """A made-up household: notes (day, key, text), and questions (kind, question, key)."""
    notes, questions = [], []
    for entry in (Path(__file__).parent / "data" / f"{name}.txt").read_text().splitlines():
        kind, *parts = [part.strip() for part in entry.split("|")]
        if kind.startswith("note "):
            notes.append((kind[5:], *parts))
        elif kind and not kind.startswith("#"):
            questions.append((kind, parts[0], parts[1] if parts[1:] else ""))
    return notes, questions


def lived_in(name, folder, layout, embedder, talk):
    """A household's notes in an index; says on which line of which file each is."""
    notes, questions = household(name)
    notes = [note for place, note in enumerate(notes) if layout != "third" or place % 3]
    workspace = Path(folder) / f"{name}-{layout}-{embedder.name}"
    files, places = {}, {}
    for day, key, text in notes:
        dated = "2026-11-21" if layout == "one" else day
        path = "memory/MEMORY.md" if dated == "lasting" else f"memory/{dated[:7]}/{dated}.md".replace("-", "")
        lines = files.setdefault(path, [f"# {dated}", ""])
        lines.append(f"- {text}" if dated == "lasting" else f"- 09:00 {text}")
        places[key] = path, len(lines)
    for path, lines in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("\n".join(lines) + "\n")
    if layout == "large":
        noted(talk, workspace, "chunks")
    asked = [question for question in questions if question[0] == "none" or question[2] in places]
    return fill(workspace, embedder), places, asked


def answered(index, places, questions, embedder, least):
    """Of each kind of question: how many, with the right note first, in the first three, and as a certain hit.

    Where there is no answer, the last three are the same: how often nothing certain is found.
    """
    counts = {kind: [0, 0, 0, 0] for kind in (*KINDS, "none")}
    for kind, question, key in questions:
        hits = search_search(index, question, embedder, ASKED, least=least)
        counts[kind][0] += 1
        if kind == "none":
            good = [not any(hit.is_certain for hit in hits)] * 3
        else:
            path, number = places[key]
            right = [hit.path == path and hit.start <= number <= hit.end for hit in hits[:3]]
            certain = any(one and hit.is_certain for one, hit in zip(right, hits[:3], strict=True))
            good = any(right[:1]), any(right), certain
        for place, one in enumerate(good, 1):
            counts[kind][place] += one
    return counts


def households(folder, embedder, least, talk):
    layouts = ("days", "one", "third", *(["large"] if talk else []))
    print(f"\nhouseholds, {embedder.name}: first, in three, certain; without an answer: nothing certain")
    for name, layout in itertools.product(HOUSEHOLDS, layouts):
        index, places, questions = lived_in(name, folder, layout, embedder, talk)
        for side in ("text", "hybrid"):
            counts = answered(index, places, questions, embedder if side == "hybrid" else None, least)
            total = [sum(counts[kind][place] for kind in KINDS) for place in range(4)]
            parts = [f"{kind} {n}: {a} {b} {c}" for kind, (n, a, b, c) in counts.items() if kind != "none"]
            silent = counts["none"]
            share = f"{total[2] / total[0]:4.0%} in three, {silent[1] / silent[0]:4.0%} nothing"
            print(f"{name} {layout:6} {side:7} {share}  ({'; '.join(parts)})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--least", type=float, default=search.MIN_SCORE)
    parser.add_argument("--url", help="of an embedding server, to /v1")
    parser.add_argument("--model", default="")
    parser.add_argument("--minilm", action="store_true")
    options = parser.parse_args()
    embedder = StaticEmbedder(find_shipped("templates/embeddings"))
    if options.url:
        embedder = RemoteEmbedder(options.url, options.model, seconds=600)
    elif options.minilm:
        embedder = MiniLMEmbedder(find_minilm(), embedder)
    with tempfile.TemporaryDirectory() as folder:
        for unit in ("chunks", "turns") if options.files else ():
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
        if not options.tune:
            talk = conversation(options.files[0]) if options.files else None
            households(folder, embedder, options.least, talk)


if __name__ == "__main__":
    main()
