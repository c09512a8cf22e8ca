"""Ask a set of tests/model/blind.toml of a real small model, and print what came of each request as a line of JSON.

    python tests/bench/profiles.py (SET | FILE.toml) (URL | alone) [small|full] [third]

`third` takes a third of each kind, always the same and in mixed order, for what is slow. The sum is printed last.
"""

import json
import random
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

from strangers import make_home, make_lamp_home, make_pump_home  # noqa: E402 - a checkout need not be installed

from picoclaw.cli.model import load_requests, run_requests, summarize  # noqa: E402
from picoclaw.config import Config  # noqa: E402
from picoclaw.config.tables import ModelConfig  # noqa: E402

SETS = {"a": load_requests()} | tomllib.loads((ROOT / "tests/model/blind.toml").read_text("utf-8"))
FURNISHED = {
    "d": make_home,
    "f": make_lamp_home,
    "g": make_lamp_home,
    "h": make_lamp_home,
    "i": make_lamp_home,
    "j": make_lamp_home,
    "k": make_lamp_home,
    "l": make_lamp_home,
    "m": make_lamp_home,
    "n": make_pump_home,
    "o": make_pump_home,
    "p": make_pump_home,
}
"""Sets that ask about more than the shipped requests do."""
NAMES = {"none": "talk"}


def choose(tables: dict[str, list[list[str]]], *, is_third: bool) -> list[tuple[str, list[str]]]:
    """The requests with their kinds."""
    chance = random.Random(20)
    asked = []
    for kind, rows in tables.items():
        asked += [(kind, row) for row in (chance.sample(rows, round(len(rows) / 3)) if is_third else rows)]
    if is_third:
        chance.shuffle(asked)
    return asked


def main() -> None:
    """Ask, and print."""
    name, url, *more = sys.argv[1:]
    profile = "full" if "full" in more else "small"
    model = ModelConfig(base_url="" if url == "alone" else url, name=url, profile=profile, idle_seconds=600)
    config = Config(home=Path("unused"), model=model)
    rows = []
    is_file = name.endswith(".toml")
    tables = next(iter(tomllib.loads(Path(name).read_text("utf-8")).values())) if is_file else SETS[name]
    asked = choose({NAMES.get(kind, kind): rows for kind, rows in tables.items()}, is_third="third" in more)
    furnish = FURNISHED.get(Path(name).stem, make_home) if is_file else FURNISHED.get(name)
    for row in run_requests(config, asked, alone=url == "alone", furnish=furnish):
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)
    print(*summarize(rows, config, alone=url == "alone"))
    called = [row["request"] for row in rows if row["kind"] == "talk" and row["tools"]]
    print(f"tools called for talk: {called}")


if __name__ == "__main__":
    main()
