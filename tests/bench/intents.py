"""How often the intents choose the right tool, and how long it takes: `python tests/bench/intents.py [file.json]`."""

import gc
import json
import sys
import tempfile
import time
import tomllib
import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from picoclaw.intents.grammar import IntentMatch, load_grammar  # noqa: E402 - a checkout need not be installed
from picoclaw.intents.matcher import IntentMatcher  # noqa: E402
from picoclaw.workspace import list_intent_files, list_languages, read_intent_tables  # noqa: E402

SHIPPED = ROOT / "templates" / "intents" / "en.toml"
CORPUS = ROOT / "tests" / "data" / "intents_dev.json"


def judge(match: IntentMatch | None, case: dict[str, Any]) -> str:
    """What is wrong with the match, or nothing."""
    called = match.tool if match and not match.missing and match.tool != "output" else ""
    wanted = "" if case["tool"] in {None, "none"} else case["tool"]
    if called != wanted:
        return f"wanted {wanted or 'no tool'}, got {called or 'none'}"
    expected = case.get("arguments", {}).items()
    wrong = {name: value for name, value in expected if match and match.arguments.get(name) != value}
    return f"wanted {wrong}, got {match.arguments}" if match and wrong else ""


def accuracy(matcher: IntentMatcher, cases: list[dict[str, Any]]) -> None:
    """Print the misses, and for each kind how many tools and how many whole calls were right."""
    total: Counter[str] = Counter()
    tools: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for case in cases:
        wrong = judge(matcher.match(case["text"], {"cron"}), case)
        total[case["kind"]] += 1
        tools[case["kind"]] += not wrong or "{" in wrong[:8]
        calls[case["kind"]] += not wrong
        if wrong:
            print(f"  {case['kind']}: {case['text']!r}: {wrong}")
    for kind, number in total.items():
        print(f"{kind:9} tool {tools[kind]}/{number}, with arguments {calls[kind]}/{number}")


def cost(cases: list[dict[str, Any]]) -> None:
    """Print the CPU time to load, to the first answer of each kind, and of a match."""
    marks = [time.process_time()]
    data = tomllib.loads(SHIPPED.read_text("utf-8"))
    marks.append(time.process_time())
    matcher = IntentMatcher([data])
    marks.append(time.process_time())
    for text in ("how warm is the greenhouse?", "do my tomatoes need a blanket tonight?"):
        matcher.match(text)
        marks.append(time.process_time())
    spans = [f"{(after - before) * 1000:.1f}" for before, after in pairwise(marks)]
    print("ms: TOML {}, compile {}, first by template {}, first by topic {}".format(*spans))
    gc.freeze()  # else a collection of all that was compiled, 40 to 90 ms, falls into one of the matches
    each = []
    for case in cases:
        start = time.process_time()
        matcher.match(case["text"])
        each.append((time.process_time() - start) * 1000)
    print(
        f"ms a match: mean {sum(each) / len(each):.2f}, longest {max(each):.2f}, over 5: {sum(ms > 5 for ms in each)}"
    )


def calibration(matcher: IntentMatcher, cases: list[dict[str, Any]]) -> None:
    """Print how often a match is right, by the tenth of its score; templates count as 1.0."""
    right: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for case in cases:
        match = matcher.match(case["text"], {"cron"})
        if match and match.tool and not match.missing:
            tenth = min(10, int(match.score * 10 + 1e-9))
            total[tenth] += 1
            right[tenth] += not judge(match, case)
    for tenth in sorted(total):
        print(f"score {tenth / 10:.1f}: {right[tenth]} of {total[tenth]} right ({right[tenth] / total[tenth]:.0%})")


def talk_about_orders() -> None:
    """Print how many sentences the property test makes of the orders in the data, and of how many intents."""
    sys.path.insert(0, str(ROOT / "tests"))
    import test_intents_exact as english
    import test_intents_languages as others

    doing = [name for name, text in english.ORDERS if english.acts(text)]
    print(f"en: {len(doing)} orders of {len(set(doing))} intents x {len(english.TALK)} kinds of talk")
    with tempfile.TemporaryDirectory() as folder:
        for language in others.LANGUAGES:
            provider = others.make_provider(Path(folder))
            provider.match(others.SAID[language][0][0])
            made = dict.fromkeys(others.orders(language))
            doing = [name for name, text in made if others.moves(others.answer(provider, text))]
            kinds = len(others.TALK[language])
            print(f"{language}: {len(doing)} orders of {len(set(doing))} intents x {kinds} kinds of talk")


def languages() -> None:
    """Print what loading each language from its cache costs, and what it keeps in memory."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for _ in range(2):  # the first compiles
            kept = []
            for language in ["en", *(one for one in list_languages() if one != "en")]:
                tracemalloc.start()
                start = time.process_time()
                files = list_intent_files(home, language)
                cache = home / f"{language}.cache"
                grammar = load_grammar(files, cache, read_intent_tables, translated=language != "en")
                kept.append(IntentMatcher(grammar))
                spent = (time.process_time() - start) * 1000
                print(
                    f"{language}: {spent:.1f} ms (traced), {tracemalloc.get_traced_memory()[0] / 1024:.0f} KB, ", end=""
                )
                tracemalloc.stop()
                start = time.process_time()
                load_grammar(files, cache, read_intent_tables, translated=language != "en")
                print(
                    f"{(time.process_time() - start) * 1000:.1f} ms from its cache of {cache.stat().st_size // 1024} KB"
                )


def main() -> None:
    """Measure one file of cases."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    cases = json.loads(path.read_text("utf-8"))
    accuracy(IntentMatcher([tomllib.loads(SHIPPED.read_text("utf-8"))]), cases)
    cost(cases)
    calibration(IntentMatcher([tomllib.loads(SHIPPED.read_text("utf-8"))]), cases)
    languages()
    talk_about_orders()


if __name__ == "__main__":
    main()
