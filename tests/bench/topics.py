"""Train the classifier of topics, and say how often it is right per tenth of its score.

`python tests/bench/topics.py` reads tests/data/sentences/LANGUAGE.txt (a topic on a line of its own behind "# ", then
sentences, in which "(a|b)" is a choice), leaves out each fifth line in turn to be asked, prints what comes of that, and
writes templates/intents/LANGUAGE.topics from all lines. It needs numpy.

`python tests/bench/topics.py --judge FILE...` asks each sentence of such files by itself, of a board that has all of NAMES, and
counts per topic what comes: right, honest (asked back, refused), wrong (another topic was answered), acted (what acts or
adds another thing than was wanted). `tests/data/sentences/LANGUAGE1.txt` and `en2.txt` are for that; the training does not read them.
"""

import json
import random
import re
import sys
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from picoclaw.intents.compiler import compile_grammar, translate_table  # noqa: E402 - a checkout need not be installed
from picoclaw.intents.grammar import NEEDS_CLOCK, Grammar, IntentMatch, read_marks  # noqa: E402
from picoclaw.intents.matcher import IntentMatcher  # noqa: E402
from picoclaw.intents.provider import IntentProvider  # noqa: E402
from picoclaw.intents.topics import SCALE, TopicClassifier, list_features  # noqa: E402
from picoclaw.messages import Message, Request  # noqa: E402

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
OVERVIEW = ["sensor_all", "output_list", "cron_list", "rule_list"]
VERDICTS = ("right", "honest", "wrong", "acted")
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


def read_sentences(language: str) -> list[tuple[str, str]]:
    rows = read_rows(ROOT / f"tests/data/sentences/{language}.txt")
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


_AS_NAMED = frozenset(
    [
        "unmeasured",
        "forecast",
        "sensor_list",
        "sensors_ok",
        "board_ok",
        "board_status",
        "board_uptime",
        "board_address",
        "clock",
        "doing",
        "output_list",
        "output_why",
        "output_longest",
        "output_can",
        "cron_list",
        "rule_list",
        "hello",
        "thanks",
        "goodbye",
        "who",
        "help",
        "heard_asked",
        "heard_told",
        "cannot_reach",
        "list_clear",
        "output_past",
        "praise",
        "remark",
        "not_wanted",
        "reported",
        "advice",
        "calendar",
    ]
)
"""Intents that are their own topics."""
_ANSWERS = {
    "version": "board_version", "howto": "help", "cannot": "nothing", "not_done": "not_wanted",
    "no_thanks": "not_wanted", "sorry": "praise", "sensor_verdict": "advice", "soil_verdict": "advice", "output_since":
    "output_past", "list_dir": "file_list", "read_file": "file_read", "sum": "sum", "cpu_hot": "board_cpu_temperature",
    "undo": "", "can_you": "help", "output_all": "",
}  # fmt: skip
"""What other intents are an answer to; '' for those that only say how a thing is to be said."""
_FITS = {
    "board_disk": "board_status",
    "board_memory": "board_status",
    "board_load": "board_status",
    "board_uptime": "board_status",
    "board_cpu_temperature": "board_status",
    "?now": "?all ?limit advice", "?all": "?now", "?low": "?past ?when", "?high": "?past ?when", "?past": "",
    "?mean": "?past", "?limit": "?low ?high ?often ?now", "?often": "?limit", "?when": "?low ?high ?limit ?past ?often",
    "?comparetime": "", "?trend": "?chart ?comparetime", "advice": "?now", "board_ok": "board_status sensors_ok", "board_status": "board_ok",
    "doing": "output_state output_list", "output_list": "output_state doing", "output_state": "output_list output_why doing",
    "output_why": "output_state output_list output_past", "output_longest": "", "output_planned": "cron_list rule_list",
    "output_off": "outputs_off", "output_water": "output_later output_daily", "outputs_off": "output_off", "output_later": "output_daily", "output_daily": "output_later rule", "cron_add": "cron_timer",
    "cron_timer": "cron_add", "cron_pause": "", "cron_report": "cron_repeat", "rule_tell": "", "rule_change": "rule_tell rule_switch",
    "memory_search": "memory_what list_show", "memory_what": "memory_search", "list_show": "memory_search", "memory_correct": "memory_store",
    "cannot_reach": "nothing", "nothing": "cannot_reach unmeasured", "remark": "nothing praise", "praise": "nothing remark thanks hello who", "reported": "nothing remark not_wanted",
    "not_wanted": "nothing remark reported", "list_remove": "memory_forget", "memory_forget": "list_remove", "thanks": "praise", "who": "help praise", "help": "who output_can howto", "forecast": "nothing",
    "unmeasured": "nothing cannot_reach", "output_can": "output_list help", "file_write": "", "list_clear": "", "sensors_ok": "?all", "sensor_list": "?all", "calendar": "sum", "sum": "calendar", "output_past": "",
}  # fmt: skip
"""What else is an answer to a topic."""


def name_topic(match: IntentMatch) -> str:
    """The topic that a match answers; '' where it only says how to say it, or asks back."""
    given, said, intent = match.arguments, match.said, match.intent
    if match.missing not in {"", NEEDS_CLOCK} or match.route in {"unclear", "unknown"}:
        return ""
    action = str(given.get("action", ""))
    match match.tool:
        case "sensor_read":
            if given.get("sensor") == "cpu":
                return "board_cpu_temperature"
            if "_health" in said:
                return "sensors_ok"
            if intent in {"sensor_verdict", "soil_verdict"}:
                return "advice"
            return (
                "?compare" if "_other" in said else "?limit" if "_beyond" in said else "?all" if not given else "?now"
            )
        case "sensor_history":
            signs = {"chart": "?chart", "compare": "?comparetime", "_other": "?compare", "_beyond": "?limit"}
            found = (topic for sign, topic in signs.items() if sign in given or sign in said)
            return next(found, "?trend" if "trend" in intent else f"?{said.get('_figure') or 'past'}")
        case "sensor_excursions":
            return "?often"
        case "board_status":
            part = {"cpu_load": "load"}.get(str(said.get("_part", "")), said.get("_part", ""))
            return "board_ok" if "_status" in said else f"board_{part}" if part else "board_status"
        case "output":
            if action == "list":
                return intent if intent in _AS_NAMED else "output_state"
            if action == "off":
                return "output_off" if "name" in given and intent != "outputs_off" else "outputs_off"
            is_water = intent == "output_water"
            return "output_water" if is_water else "output_on" if given.get("level", "on") == "on" else "output_level"
        case "output_history":
            return "output_past"
        case "rule":
            if action == "add":
                when = str(given.get("when", ""))
                if not any(word in when for word in ("above", "below", "at least", "at most")):
                    return "output_daily"
                return "rule_switch" if "output" in given else "rule_tell"
            return f"rule_{action}"
        case "cron":
            if action == "add":
                repeats = "cron_expr" in given or "every_seconds" in given
                if given.get("kind") != "tool":
                    timed = intent in {"cron_timer", "cron_wake"}
                    return "cron_timer" if timed else "cron_repeat" if repeats else "cron_add"
                if not str(given.get("message", "")).startswith("output"):
                    return "cron_report"
                return "output_daily" if repeats else "output_later"
            if action == "remove":
                return "cron_remove_all" if said.get("_called") == "**" else "cron_remove"
            names = {"disable": "pause", "enable": "resume", "snooze": "move", "get": "list"}
            return f"cron_{names.get(action, action)}"
        case "memory_store" | "memory_share":
            listed = "_list" in said or re.match(r"[\w -]*(?:list|liste|lista)[\w -]*: ", str(given.get("text", "")))
            return "list_add" if listed else "memory_store"
        case "memory_search":
            return "list_show" if "_list" in said else "memory_search"
        case "memory_forget":
            return "list_remove" if "_list" in said or intent.startswith("list") else "memory_forget"
        case "memory_update":
            return "memory_correct"
    return _ANSWERS.get(match.tool, _ANSWERS.get(intent, intent if intent in _AS_NAMED else ""))


def is_answer(topic: str, names: Sequence[str]) -> bool:
    if topic == "several":
        return len(names) > 1
    if topic == "output_two":
        return len(names) > 1 and {*names} <= {"output_on", "output_off", "output_level", "output_water"}
    close = {topic, *_FITS.get(topic, "").split()}
    return all(name in close for name in names)


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


def judge(provider: IntentProvider, topic: str, text: str) -> tuple[str, str]:
    """What comes of a sentence, and the topics that were answered."""
    message = Message("user", f"<moment>Thursday 2026-05-14 12:00</moment>\n{text}")
    wishes = [match for _, match in provider.understand(Request("", (message,), OFFERED, 100, 0.0))]
    found = [(name_topic(match), match) for match in wishes if match]
    found = [("doing", found[0][1])] if [one.intent for _, one in found] == OVERVIEW else found
    found = [(name, one) for name, one in found if one.tool != "output" or one.arguments.get("name", "fan") in NAMES]
    names = [name for name, _ in found if name]
    told = " + ".join(names) or ("-" if not found else f"({found[0][1].intent})")
    moves = [
        name
        for name, match in found
        if name and match.tool and provider._matcher.intents[match.intent].kind in {"acts", "adds"}
    ]
    if len(names) < len(wishes) and moves:
        return "honest", f"partly {told}"  # nothing is done before a yes
    if not names:
        return ("right" if topic == "nothing" else "honest"), told
    if is_answer(topic, names):
        return "right", told
    return ("acted" if moves else "wrong"), told


def make_provider(names: Mapping[str, str] = NAMES) -> IntentProvider:
    folder = ROOT / "templates/intents"
    tables = {one.stem: tomllib.loads(one.read_text("utf-8")) for one in folder.glob("*.toml")}

    def load(language: str) -> Grammar:
        return Grammar(compile_grammar([translate_table(tables["en"], tables[language])], [language]))

    marks = {language: read_marks(folder / f"{language}.toml") for language in tables}
    return IntentProvider([tables["en"]], languages=marks, load=load, declared=lambda: names)


def judge_file(file: Path) -> None:
    """Print what comes of each sentence of a file, then the counts of each topic."""
    provider, language = make_provider(), file.stem[:2]
    provider._usual = lambda: "" if language == "en" else language  # as somebody is known whose language this is
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for topic, text in read_rows(file):
        verdict, told = judge(provider, topic, text)
        verdicts[topic][verdict] += 1
        print(f"{verdict:8} {topic:18} {told:28} {text}")
    for topic, counts in verdicts.items():
        print(f"{file.stem} {topic:22} " + " ".join(f"{name} {counts[name]:3}" for name in VERDICTS))
    served = [counts for topic, counts in verdicts.items() if topic not in UNSERVED]
    for kind, some in (("all", verdicts.values()), ("what the board can do", served)):
        total = sum((Counter(one) for one in some), Counter())
        told = ", ".join(f"{name} {total[name]} ({total[name] / total.total():.1%})" for name in VERDICTS)
        print(f"{file.stem}, {kind}, {total.total()} sentences: {told}", flush=True)


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
    if "--judge" in sys.argv:
        for one in sys.argv[1:]:
            if one[0] != "-":
                judge_file(Path(one))
        return
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
