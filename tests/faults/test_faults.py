"""What the suite of cuts and failures rests on, and a few of them; `make cuts` has thousands."""

import random
import re
import subprocess
import sys
from pathlib import Path

import day
import pytest
import sweep
from card import ROOT, Card, Step, written
from promises import Case, reminders
from rows import each_row
from runs import cuts

from picoclaw.store.database import Database

CUTS = Path(__file__).resolve().parents[1] / "bench/cuts.py"
NEW = (Step("new", 1, "file"), Step("link", ROOT, "a", 1))
WRITTEN = Step("write", 1, at=0, data=b"x" * 2000)
SYNCED, NAMED = Step("sync", 1), Step("sync", ROOT)


def disks(*steps, mode="torn", times=200):
    """The disks that a cut after these steps may leave."""
    card = Card()
    for step in steps:
        card.take(step)
    found = (card.image(mode, random.Random(seed)) for seed in range(times))
    return {tuple(sorted((name, data) for name, (_, data) in image.items())) for image in found}


@each_row(
    ("steps", "mode", "left"),
    [
        ([*NEW, WRITTEN], "dropped", {()}),
        ([*NEW, WRITTEN], "kept", {(("a", WRITTEN.data),)}),
        ([*NEW, WRITTEN, SYNCED], "dropped", {()}),
        ([*NEW, WRITTEN, NAMED], "dropped", {(("a", b""),)}),
        ([*NEW, WRITTEN, SYNCED, NAMED], "torn", {(("a", WRITTEN.data),)}),
        ([*NEW, NAMED, Step("unlink", ROOT, "a")], "torn", {(("a", b""),), ()}),
        ([*NEW, NAMED, Step("rename", ROOT, "a", ROOT, "b", what=1)], "torn", {(("a", b""),), (("b", b""),)}),
        ([*NEW, NAMED, WRITTEN, SYNCED, Step("size", 1, at=3)], "torn", {(("a", b"xxx"),), (("a", WRITTEN.data),)}),
        ([*NEW, Step("link", ROOT, "b", 1)], "ordered", {(), (("a", b""),), (("a", b""), ("b", b""))}),
    ],
    ids=["nothing", "a kill", "no name", "no data", "all", "a name goes", "a new name", "cut short", "in order"],
)
def test_what_a_cut_leaves(steps, mode, left):
    assert disks(*steps, mode=mode) == left


def test_a_write_that_was_not_synced_is_torn_at_its_sectors():
    left = {found[0][1] for found in disks(*NEW, NAMED, WRITTEN)}
    assert {len(data.rstrip(b"\0")) for data in left} == {0, 512, 1024, 1536, 2000}
    assert b"\0" * 2000 in left
    assert b"" in left


def test_a_disk_is_made_real(tmp_path):
    written({"home": ("folder", b""), "home/a": ("file", b"text"), "home/bell": ("pipe", b"")}, tmp_path / "card")
    assert (tmp_path / "card/home/a").read_bytes() == b"text"
    assert (tmp_path / "card/home/bell").is_fifo()


def test_a_cut_may_come_right_before_the_world_sees_something():
    """What is struck out before it is sent is lost there, and at no operation of the disk."""
    steps = (SYNCED, Step("event", what=("told", 1, "done T004: tea")), SYNCED)
    assert {cut.at for cut in cuts(steps, 4, seed=1)} == {0, 1, 2, 3}


@pytest.mark.parametrize("rang", [True, False])
def test_a_reminder_that_never_rings_is_lost_though_it_is_in_the_book(tmp_path, rang):
    database = Database(tmp_path / "state.db")
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO jobs (session, message, due, kind, plan, enabled)"
            " VALUES ('phone:1', 'T004 turn the roast', 5, 'reminder', 'at', 0)"
        )
    database.close()
    told = [
        ("told", 1, "done T004: reminder 1 is kept"),
        *([("told", 2, "Reminder: T004 turn the roast")] if rang else []),
    ]
    lost = [wrong for kind, wrong in reminders(Case(day.DAY, told, (), tmp_path)) if kind == "loss" and wrong]
    assert lost == ([] if rang else ["reminder T004 was confirmed, and is gone"])


@pytest.mark.sweep
def test_nothing_promised_is_lost_and_nothing_done_twice():
    """And a day that leaves out its syncs is seen to lose something."""
    counts = {"count": sweep.take(6, 16), "kills": sweep.take(1, 2), "failures": sweep.take(3, 7), "proofs": 2}
    words = [
        "--short",
        "--workers",
        "2",
        *(word for name, count in counts.items() for word in (f"--{name}", str(count))),
    ]
    done = subprocess.run([sys.executable, CUTS, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) promises checked", done.stdout)[1]) > sweep.take(200, 500)
    noticed = re.findall(r"without the syncs of (\w+): noticed at (\d) of 2 cuts", done.stdout)
    assert {what for what, cuts in noticed if int(cuts)} == {"databases", "files", "folders"}
