"""Plays every way in which model servers break, in both modes, and prints what a person sees of each.

server_shapes.py            prints the tables; fails where a turn does not end as it has to
server_shapes.py --check    the same, and fails where docs/servers.md says something else
server_shapes.py --write    puts them into docs/servers.md
server_shapes.py gzip 429   plays only those that have one of the words in their name
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from broken_server import Shape
from shape_kit import SHAPES, House, Played, check, every, play, rows_of

DOCS = Path(__file__).resolve().parents[2] / "docs/servers.md"
HEAD = "| the server | mode | asked | when it passes | what a person sees while it lasts |\n|---|---|---|---|---|"
TABLES = re.compile(r"### .*\Z", re.DOTALL)


def wrong(shape: Shape, stream: bool, played: Played) -> str:
    """What did not end as it has to, '' where all did."""
    try:
        check(shape, played)
    except AssertionError as error:
        return f"{shape.does} ({'streamed' if stream else 'whole'}): {error or played.lasts.told()}"
    return ""


def tables(house: House, words: list[str], failed: list[str]) -> Iterator[str]:
    """The tables' text; `failed` collects what did not end as it has to."""
    for title, shapes in SHAPES.items():
        chosen = [shape for shape in shapes if not words or any(word in shape.does for word in words)]
        lines = [f"### {title}\n", HEAD]
        for shape in chosen:
            played = {stream: play(house, shape, stream=stream) for stream in shape.modes}
            lines += rows_of(shape, played)
            failed += (problem for each in played.items() if (problem := wrong(shape, *each)))
        if chosen:
            yield "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="Play every way in which model servers break.")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/servers.md")
    parser.add_argument("--check", action="store_true", help="fail where docs/servers.md says something else")
    parser.add_argument("words", nargs="*", help="play only the shapes that are named so")
    given = parser.parse_args()
    failed: list[str] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, House(Path(folder) / "home") as house:
        text = "\n".join(tables(house, given.words, failed))
    if not given.check:
        print(text)
    modes = sum(len(shape.modes) for shape in every())
    print(f"{len(every())} shapes, {modes} with the two modes; {time.monotonic() - begun:.0f} s", file=sys.stderr)
    before = DOCS.read_text()
    if given.check and TABLES.search(before)[0] != text:
        failed.append("docs/servers.md says something else; --write mends it")
    if given.write and not given.words:
        DOCS.write_text(TABLES.sub(lambda _: text, before))
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
