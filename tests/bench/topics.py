"""Train the classifier of topics, and count what comes of sentences at first sight.

`python tests/bench/topics.py` reads tests/data/sentences/LANGUAGE*.txt (a topic on a line of its own behind "# ", then
sentences, in which "(a|b)" is a choice), and writes templates/intents/LANGUAGE.topics. It needs numpy. With `--held` it trains
for judging, without one writer each, and writes beside the machine's other temporary files.

`python tests/bench/topics.py --judge FILE...` asks each sentence of such files by itself, of a board that has all of NAMES, and
counts per topic what comes: right, honest (asked back, refused), proposed, wrong (another topic was answered), acted (what
acts or adds another thing than was wanted), and how often the topic is right per tenth of its share. The language is that of
the file's name. With `--held` the weights are those trained without these sentences.
"""

import functools
import json
import random
import re
import sys
import tempfile
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from picoclaw.intents.compiler import compile_grammar, translate_table  # noqa: E402 - a checkout need not be installed
from picoclaw.intents.grammar import Grammar, read_marks  # noqa: E402
from picoclaw.intents.matcher import IntentMatcher  # noqa: E402
from picoclaw.intents.provider import IntentProvider  # noqa: E402
from picoclaw.intents.topics import SCALE, ZERO, load_topics  # noqa: E402
from picoclaw.messages import Message, Request  # noqa: E402

MOST = 6
STEPS, DECAY = 45, 1.5e-4
HELD = Path(tempfile.gettempdir()) / "picoclaw_topics"
NAMES = dict.fromkeys(("fan", "pump", "heater", "grow_light"), "output") | dict.fromkeys(
    ("greenhouse", "outdoor", "soil", "tank", "battery"), "sensor"
)
OVERVIEW = ["sensor_all", "output_list", "cron_list", "rule_list"]
VERDICTS = ("right", "honest", "proposed", "wrong", "acted")
OFFERED = tuple(
    {"name": name}
    for name in [
        "board_status",
        "cron",
        "fleet_read",
        "i2c",
        "list_dir",
        "memory_forget",
        "memory_search",
        "memory_store",
        "memory_update",
        "output",
        "output_history",
        "read_file",
        "rule",
        "sensor_excursions",
        "sensor_history",
        "sensor_list",
        "sensor_read",
    ]
)
_CHOICE = re.compile(r"\(([^()]*)\)")


def read_rows(file: Path) -> list[tuple[str, str]]:
    topic, rows = "", []
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("# "):
            topic = line[2:].strip()
        elif line.strip():
            rows.append((topic, line.strip()))
    return rows


def spell_out(line: str, chance: random.Random) -> list[str]:
    """Some of the sentences that a line stands for."""
    parts = [part.split("|") if n % 2 else [part] for n, part in enumerate(_CHOICE.split(line))]
    size = int(np.prod([len(part) for part in parts]))
    told = {" ".join("".join(chance.choice(part) for part in parts).split()) for _ in range(min(size, MOST) * 3)}
    return sorted(told)[:: max(1, len(told) // MOST)][:MOST]


@functools.cache
def load_table(language: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / f"templates/intents/{language}.toml").read_text("utf-8"))


@functools.cache
def load_grammar(language: str) -> Grammar:
    return Grammar(compile_grammar([translate_table(load_table("en"), load_table(language))], [language]))


def make_matcher(language: str, names: Mapping[str, str] = NAMES) -> IntentMatcher:
    data = load_table("en") if language == "en" else translate_table(load_table("en"), load_table(language))
    matcher = IntentMatcher([data])
    matcher.learn_names(names)
    return matcher


UNSERVED = frozenset(
    [
        "unmeasured",
        "forecast",
        "cannot_reach",
        "advice",
        "praise",
        "remark",
        "not_wanted",
        "reported",
        "nothing",
        "list_clear",
        "file_write",
    ]
)


def list_features(matcher: IntentMatcher, text: str) -> set[str]:
    """What the classifier of topics counts in a sentence."""
    s = matcher._read(text)
    return matcher._features.read(s) if s.words else set()


def judge(provider: IntentProvider, topic: str, text: str) -> tuple[str, str]:
    """What comes of a sentence, and the topics that were answered."""
    message = Message("user", f"<moment>Thursday 2026-05-14 12:00</moment>\n{text}")
    wishes = [match for _, match in provider.understand(Request("", (message,), OFFERED, 100, 0.0))]
    found = [(provider._matcher.topics.find_topic_of(match), match) for match in wishes if match]
    found = [("doing", found[0][1])] if [one.intent for _, one in found] == OVERVIEW else found
    found = [(name, one) for name, one in found if one.tool != "output" or one.arguments.get("name", "fan") in NAMES]
    names = [name for name, _ in found if name]
    told = " + ".join(names) or ("-" if not found else f"({found[0][1].intent})")
    moves = [
        name
        for name, match in found
        if name and match.tool and provider._matcher.intents[match.intent].kind in {"acts", "adds"}
    ]
    if any(match.route == "proposal" and match.arguments for _, match in found):
        meant = {provider._matcher.topics.find_topic_of(match._replace(missing="", route="")) for _, match in found}
        told = "? " + " + ".join(sorted(meant))
        return ("proposed" if provider._matcher.topics.is_answer(topic, sorted(meant)) else "wrong"), told
    if len(names) < len(wishes) and moves:
        return "honest", f"partly {told}"  # nothing is done before a yes
    if not names:
        return ("right" if topic == "nothing" else "honest"), told
    if provider._matcher.topics.is_answer(topic, names):
        return "right", told
    return ("acted" if moves else "wrong"), told


def make_provider(names: Mapping[str, str] = NAMES) -> IntentProvider:
    marks = {file.stem: read_marks(file) for file in (ROOT / "templates/intents").glob("*.toml")}
    return IntentProvider([load_table("en")], languages=marks, load=load_grammar, declared=lambda: names)


def judge_files(files: Sequence[Path]) -> None:
    for file in files:
        provider, rows = make_provider(), read_rows(file)
        if not file.stem.startswith("en"):  # as somebody is known whose language this is
            provider._usual = lambda language=file.stem[:2]: language
        matcher = provider._listen_in(file.stem[:2])
        if "--held" in sys.argv:
            matcher.__dict__["_classifier"] = load_topics(HELD / f"{file.stem}.topics")
        verdicts: dict[str, Counter[str]] = defaultdict(Counter)
        tenths: dict[int, list[bool]] = defaultdict(list)
        for topic, text in rows:
            verdict, told = judge(provider, topic, text)
            verdicts[topic][verdict] += 1
            share, found = matcher._classifier.score(list_features(matcher, text))[0]
            tenths[min(9, int(share * 10))].append(found == topic)
            print(f"{verdict:8} {topic:18} {told:28} {found} {share:.2f} | {text}")
        for topic, counts in verdicts.items():
            print(f"{file.stem} {topic:22} " + " ".join(f"{name} {counts[name]:3}" for name in VERDICTS))
        for tenth, right in sorted(tenths.items()):
            print(
                f"{file.stem} share {tenth / 10:.1f}: {sum(right)} of {len(right)} right ({sum(right) / len(right):.0%})"
            )
        served = [counts for topic, counts in verdicts.items() if topic not in UNSERVED]
        for kind, some in (("all", verdicts.values()), ("what the board can do", served)):
            total = sum((Counter(one) for one in some), Counter())
            told = ", ".join(f"{name} {total[name]} ({total[name] / total.total():.1%})" for name in VERDICTS)
            print(f"{file.stem}, {kind}, {total.total()} sentences: {told}", flush=True)


def train(
    bags: Sequence[Collection[str]], topics: Sequence[int], size: int, weights: Sequence[float]
) -> dict[str, bytes]:
    """Multinomial logistic regression; returns the features and their weights, '' for those of none."""
    counts = Counter(feature for bag in bags for feature in bag)
    names = sorted(feature for feature, count in counts.items() if count > 2)
    numbers = {name: n for n, name in enumerate(names)}
    found = [[*(numbers[one] for one in bag if one in numbers), len(names)] for bag in bags]
    column = np.array([n for row in found for n in row])
    first = np.cumsum([0, *map(len, found[:-1])])
    order = np.argsort(column, kind="stable")
    row = np.repeat(np.arange(len(bags)), list(map(len, found)))[order]
    begins = np.searchsorted(column[order], np.arange(len(names) + 1))
    wanted = np.zeros((len(bags), size), dtype=np.float32)
    wanted[np.arange(len(bags)), topics] = 1.0
    share = np.array(weights, dtype=np.float32)[:, None] / sum(weights)
    w = np.zeros((len(names) + 1, size), dtype=np.float32)
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, STEPS + 1):
        z = np.add.reduceat(w[column], first, axis=0)
        z -= z.max(1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        gradient = np.add.reduceat(((p - wanted) * share)[row], begins, axis=0) + DECAY * w
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient * gradient - square)
        w -= 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-7) * min(1.0, 40 / step)
    return pack([*names, ""], w)


def pack(names: list[str], w: np.ndarray) -> dict[str, bytes]:
    """Features and their weights, without pairs, beginnings and pieces that weigh next to nothing."""
    steps = np.clip(np.rint(w * SCALE), -30, 30).astype(int)
    return {
        name: bytes((ZERO + row).tolist())
        for name, row in zip(names, steps, strict=True)
        if abs(row).max() > any(mark in name for mark in " *~")
    }


class Rows:
    """The sentences of a language, with what the classifier counts in each."""

    def __init__(self, language: str) -> None:
        matcher, chance = make_matcher(language), random.Random(1)
        nameless = make_matcher(language, {})  # "lights" are an output only where one is declared
        self.rows: list[tuple[str, str, float, set[str], str]] = []
        for source, topic, line in list_lines(language):
            texts = spell_out(line, chance)
            for text in texts:
                bags = [list_features(matcher, text), list_features(nameless, text)]
                weight = (1.0 if source[-1:].isdigit() else 0.4 * len(texts) ** -0.5) / (1 if bags[0] == bags[1] else 2)
                self.rows += [(topic, text, weight, bag, source) for bag in bags[: 1 if bags[0] == bags[1] else 2]]

    def train(self, leave_out: str = "-") -> bytes:
        rows = [one for one in self.rows if one[4] != leave_out]
        topics = sorted({one[0] for one in rows})
        numbers = [topics.index(one[0]) for one in rows]
        told = train([one[3] for one in rows], numbers, len(topics), [one[2] for one in rows])
        told = dict(
            sorted(told.items(), key=lambda one: (one[1], one[0]))
        )  # alike ones side by side take an eighth less
        return b"\n".join([json.dumps(topics).encode(), "\t".join(told).encode(), b"".join(told.values())])


def list_lines(language: str) -> Iterator[tuple[str, str, str]]:
    """Each line, with its file and its topic."""
    folder = ROOT / "tests/data/sentences"
    for file in sorted(folder.glob(f"{language}*.txt")):
        yield from ((file.stem, topic, line) for topic, line in read_rows(file))


def main() -> None:
    if "--help" in sys.argv:
        print(__doc__)
        return
    if "--judge" in sys.argv:
        judge_files([Path(one) for one in sys.argv[1:] if one[0] != "-"])
        return
    for language in [one for one in sys.argv[1:] if one[0] != "-"] or ["en", "de", "es", "fr"]:
        rows = Rows(language)
        if "--held" in sys.argv:  # for --judge: without the file that is to be asked
            for left in sorted({one[4] for one in rows.rows if one[4][-1:].isdigit()}):
                write(HELD / f"{left}.topics", rows.train(leave_out=left))
        else:
            write(ROOT / f"templates/intents/{language}.topics", rows.train())


def write(file: Path, told: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    packed = zlib.compress(told, 9)
    file.write_bytes(packed)
    print(file.name, told.count(b"\t") + 1, "features", len(told), "bytes,", len(packed), "packed", flush=True)


if __name__ == "__main__":
    main()
