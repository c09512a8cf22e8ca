"""Train the classifier of topics, and say how often it is right per tenth of its score.

`python tests/bench/topics.py` reads tests/data/sentences/LANGUAGE.txt (a topic on a line of its own behind "# ", then
sentences, in which "(a|b)" is a choice), leaves out each fifth line in turn to be asked, prints what comes of that, and
writes templates/intents/LANGUAGE.topics from all lines. It needs numpy.
"""

import json
import random
import re
import sys
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from picoclaw.intents.compiler import translate_table  # noqa: E402 - a checkout need not be installed
from picoclaw.intents.matcher import IntentMatcher  # noqa: E402
from picoclaw.intents.topics import SCALE, TopicClassifier, list_features  # noqa: E402

FOLDS, MOST = 5, 16
NAMES = dict.fromkeys(("fan", "pump", "heater", "grow_light"), "output") | dict.fromkeys(
    ("greenhouse", "outdoor", "soil", "tank", "battery"), "sensor"
)
_EXAMPLES_OF = {
    "sensor_read": "?now",
    "i2c_scan": "nothing",
    "i2c_buses": "nothing",
    "i2c_read": "nothing",
} | dict.fromkeys(("list_dir", "read_file"), "nothing")
_CHOICE = re.compile(r"\(([^()]*)\)")


def read_sentences(language: str) -> list[tuple[str, str]]:
    topic, rows = "", []
    for line in (ROOT / f"tests/data/sentences/{language}.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            topic = line[2:].strip()
        elif line.strip():
            rows.append((topic, line.strip()))
    rows += [
        (topic, line) for topic, line in read_examples(language) if topic in {name for name, _ in rows} | {"nothing"}
    ]
    return rows


def read_examples(language: str) -> list[tuple[str, str]]:
    """The examples in the grammar; of an order they are nothing that is asked."""
    data = tomllib.loads((ROOT / f"templates/intents/{language}.toml").read_text("utf-8"))
    rows = []
    for name, intent in data["intents"].items():
        topic = "nothing" if intent.get("acts") or intent.get("adds") else _EXAMPLES_OF.get(name, name)
        rows += [(topic, line) for line in intent.get("examples", "").split("\n") if line.strip()]
    return rows


def spell_out(line: str, chance: random.Random) -> list[str]:
    """Some of the sentences that a line stands for."""
    parts = [part.split("|") if n % 2 else [part] for n, part in enumerate(_CHOICE.split(line))]
    size = int(np.prod([len(part) for part in parts]))
    told = {" ".join("".join(chance.choice(part) for part in parts).split()) for _ in range(min(size, MOST) * 3)}
    return sorted(told)[:: max(1, len(told) // MOST)][:MOST]


def make_matcher(language: str, names: Mapping[str, str] = NAMES) -> IntentMatcher:
    tables = {
        one: tomllib.loads((ROOT / f"templates/intents/{one}.toml").read_text("utf-8")) for one in {"en", language}
    }
    data = tables["en"] if language == "en" else translate_table(tables["en"], tables[language])
    matcher = IntentMatcher([data])
    matcher.declared = lambda: names
    return matcher


def train(bags: list[set[str]], topics: list[int], size: int, weights: list[float]) -> tuple[list[str], np.ndarray]:
    """Multinomial logistic regression; returns the features and a row of weights for each, the last one for none."""
    counts = Counter(feature for bag in bags for feature in bag)
    names = sorted(feature for feature, count in counts.items() if count > 1)
    numbers = {name: n for n, name in enumerate(names)}
    x = np.zeros((len(bags), len(names) + 1), dtype=np.float32)
    for row, bag in enumerate(bags):
        x[row, [numbers[one] for one in bag if one in numbers]] = 1.0
    x[:, -1] = 1.0
    y = np.zeros((len(bags), size), dtype=np.float32)
    y[np.arange(len(bags)), topics] = 1.0
    share = np.array(weights, dtype=np.float32)[:, None]
    share /= share.sum()
    w = np.zeros((len(names) + 1, size), dtype=np.float32)
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, 121):
        z = x @ w
        z -= z.max(1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        gradient = x.T @ ((p - y) * share) + 2e-5 * w
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient * gradient - square)
        w -= 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-7) * min(1.0, 40 / step)
    return [*names, ""], w


def pack(topics: list[str], names: list[str], w: np.ndarray) -> list[bytes]:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    rows = [json.dumps(topics).encode()]
    for name, weights in zip(names, w, strict=True):
        steps = np.clip(np.rint(weights * SCALE), -18, 17).astype(int)
        told = "".join(
            f"{digits[n // 36]}{digits[n % 36]}{digits[one + 18]}" for n, one in enumerate(steps) if abs(one) > 1
        )
        if told:
            rows.append(f"{name}\t{told}".encode())
    return rows


def main() -> None:
    for language in [one for one in sys.argv[1:] if one[0] != "-"] or ["en", "de", "es", "fr"]:
        chance, matcher = random.Random(1), make_matcher(language)
        rows = [
            (topic, text, n)
            for n, (topic, line) in enumerate(read_sentences(language))
            for text in spell_out(line, chance)
        ]
        tokens = [matcher.list_tokens(text) for _, text, _ in rows]
        nameless = make_matcher(language, {})  # "lights" are an output only where one is declared
        more = [(row, nameless.list_tokens(row[1])) for row in rows if row[0] == "nothing"]
        more = [(row, found) for row, found in more if found not in tokens]
        rows += [row for row, _ in more]
        bags = [list_features(one) for one in (*tokens, *(found for _, found in more))]
        topics = sorted({topic for topic, _, _ in rows})
        numbers = [topics.index(topic) for topic, _, _ in rows]
        per_line = Counter(n for _, _, n in rows)
        weights = [per_line[n] ** -0.5 * (0.4 if topic == "nothing" else 1.0) for topic, _, n in rows]
        tenths: dict[int, list[bool]] = defaultdict(list)
        misses = Counter()
        for fold in range(FOLDS if "--quick" not in sys.argv else 0):
            kept = [i for i, row in enumerate(rows) if row[2] % FOLDS != fold]
            names, w = train(
                [bags[i] for i in kept], [numbers[i] for i in kept], len(topics), [weights[i] for i in kept]
            )
            classifier = TopicClassifier(pack(topics, names, w))
            for topic, text, n in rows:
                if n % FOLDS == fold:
                    share, found = classifier.score(matcher.list_tokens(text))[0]
                    tenths[min(9, int(share * 10))].append(found == topic)
                    if found != topic:
                        misses[(topic, found)] += 1
        for tenth, right in sorted(tenths.items()):
            print(f"{language} {tenth / 10:.1f}: {sum(right)} of {len(right)} right ({sum(right) / len(right):.0%})")
        print(misses.most_common(25))
        names, w = train(bags, numbers, len(topics), weights)
        packed = pack(topics, names, w)
        (ROOT / f"templates/intents/{language}.topics").write_bytes(zlib.compress(b"\n".join(packed), 9))
        print(language, len(rows), "sentences", len(packed), "features", sum(map(len, packed)), "bytes")


if __name__ == "__main__":
    main()
