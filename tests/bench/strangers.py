"""Put sentences to the agent without a model, on the simulated board that strangers were told of, and print each reply.

`python tests/bench/strangers.py FILE.json`: a list of sentences, or of rows with `say`, `expect` (shown beside the reply)
and `talk`, the number of the conversation that the row belongs to. What a reply is, right, honest, wrong or confusing, a
person has to judge.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from picoclaw.app import App  # noqa: E402 - a checkout need not be installed
from picoclaw.config import Config  # noqa: E402
from picoclaw.config.tables import BoardConfig, MemoryConfig  # noqa: E402
from picoclaw.hw.detect import choose_board  # noqa: E402
from picoclaw.messages import Inbound  # noqa: E402
from picoclaw.outputs.config import load_outputs, save_armed  # noqa: E402
from picoclaw.store.database import HISTORY_MIGRATIONS, Database  # noqa: E402
from picoclaw.store.samples import ClockReading, SampleBlock, Samples, Series  # noqa: E402
from picoclaw.workspace import prepare_home  # noqa: E402

PARTS = """[parts.greenhouse]
part = "bme280"
address = 0x76
values = { temperature = 24.5, humidity = 61, pressure = 1012 }
[parts.outside]
part = "sht3x"
address = 0x44
values = { temperature = 8.2, humidity = 78 }
[parts.bench]
part = "bh1750"
address = 0x23
values = { light = 4200 }
[parts.dimmer]
part = "pca9685"
address = 0x40
named = false
"""
OUTPUTS = """[outputs.fan]
line = "GPIO17"
kind = "motor"
longest_on_s = 3600
confirm = false
who = ["owner", "rule"]
[outputs.pump]
line = "GPIO27"
kind = "pump"
longest_on_s = 600
confirm = false
who = ["owner", "rule"]
[outputs.lamp]
part = "pca9685"
address = 0x40
channel = 0
kind = "light"
longest_on_s = 43200
confirm = false
who = ["owner", "rule"]
"""
LAMP = """[outputs.lamp]
line = "GPIO17"
kind = "light"
longest_on_s = 43200
confirm = false
who = ["owner", "rule"]
"""
MEANS = {
    ("greenhouse", "temperature"): 22.0, ("greenhouse", "humidity"): 60.0, ("greenhouse", "pressure"): 1010.0,
    ("outside", "temperature"): 9.0, ("outside", "humidity"): 75.0, ("bench", "light"): 4000.0,
}  # fmt: skip
SWINGS = {("greenhouse", "pressure"): 0.01}
DAYS = 9


def make_home(home: Path) -> None:
    """A home with three sensors, three armed outputs and some days of readings."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "sim.toml").write_text(PARTS, "utf-8")
    _furnish(home, OUTPUTS, MEANS)


def make_lamp_home(home: Path) -> None:
    """A home with the greenhouse of every simulated board, an armed lamp, and some days of readings."""
    _furnish(home, LAMP, {name: mean for name, mean in MEANS.items() if name[0] == "greenhouse"})


def make_pump_home(home: Path) -> None:
    """The same with a fan and a pump."""
    outputs = OUTPUTS.partition("[outputs.lamp]")[0] + LAMP.replace("GPIO17", "GPIO22")
    _furnish(home, outputs, {name: mean for name, mean in MEANS.items() if name[0] == "greenhouse"})


def _furnish(home: Path, outputs: str, means: dict[tuple[str, str], float]) -> None:
    prepare_home(home, restore=True)
    (home / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    (home / "outputs.toml").write_text(outputs, "utf-8")
    declared = load_outputs(home / "outputs.toml").outputs
    save_armed(home, {name: output.digest for name, output in declared.items()})
    now = datetime.now(UTC)
    database = Database(home / "history.db", HISTORY_MIGRATIONS)
    samples = Samples(database)
    first = now - timedelta(days=DAYS)
    for hour in range(DAYS * 24):
        at = [hour * 3600.0 + minute * 60 for minute in range(0, 60, 5)]
        swing = abs((first + timedelta(hours=hour)).hour - 2) / 12 - 0.5  # lowest at night
        blocks = [
            SampleBlock(Series(*name), [(one, mean * (1 + SWINGS.get(name, 0.2) * swing)) for one in at])
            for name, mean in means.items()
        ]
        samples.keep(ClockReading("filled", at[-1], first + timedelta(seconds=at[-1])), blocks, [])
    database.close()


def hold(home: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Say each row in its turn; yields it with the reply."""
    config = Config(home, board=BoardConfig(kind="sim"), memory=MemoryConfig(embeddings="off"))
    with closing(App(config, choose_board("sim", config))) as app:
        talk = None
        for row in rows:
            if row.get("talk") != talk:
                talk = row.get("talk")
                app.wiring.outputs.resume("owner")
            yield row, app.dispatcher.answer(Inbound(f"terminal{talk or ''}", row["say"])).reply


def read_rows(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_text("utf-8"))
    return [{"say": row} if isinstance(row, str) else row for row in found]


def main() -> None:
    """Ask all that is in one file."""
    with tempfile.TemporaryDirectory() as folder:
        make_home(Path(folder))
        for number, (row, reply) in enumerate(hold(Path(folder), read_rows(Path(sys.argv[1]))), 1):
            print(f"[{number}] {row['say']}")
            if row.get("expect"):
                print(f"    ({row['expect']})")
            print("    > " + reply.strip().replace("\n", "\n    > "), flush=True)


if __name__ == "__main__":
    main()
