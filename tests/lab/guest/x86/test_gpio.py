"""GPIO on the kernel's gpio-sim: lines and edges by picoclaw, with libgpiod and the simulator's files as referees."""

import threading
import time
from contextlib import closing

import gpiod
import lab
import pytest
from gpiod.line import Bias, Direction, Edge, Value

from picoclaw.errors import BusFault, DeviceMissing

LABEL, BUTTON, LED, FREE = "pinctrl-lab", 4, 17, 20


def level(pins, offset):
    return int((pins / f"sim_gpio{offset}/value").read_text())


def pull(pins, offset, way):
    (pins / f"sim_gpio{offset}/pull").write_text(way)


def test_the_chip_is_listed_as_libgpiod_lists_it(pins, board):
    with gpiod.Chip(f"/dev/{pins.name}") as chip:
        info = chip.get_info()
        infos = [chip.get_line_info(n) for n in range(info.num_lines)]
    assert (f"/dev/{pins.name}", info.label, info.num_lines) in board.gpio_chips()
    ours = board.lines(LABEL)
    assert [(i.offset, i.name or "", i.consumer or "", i.direction == Direction.OUTPUT) for i in infos] == [
        (line.offset, line.name, line.consumer, line.output) for line in ours
    ]
    assert ours[LED].name == "LED"


def test_an_output_is_driven_at_once_and_seen_outside(pins, board):
    with_line = board.line_out(LABEL, LED, 1)
    seen = [level(pins, LED)]
    for value in (0, 1, 0):
        with_line.set(value)
        seen += [level(pins, LED), with_line.get()]
    holder = board.lines(LABEL)[LED]
    with_line.close()
    assert seen == [1, 0, 0, 1, 1, 0, 0]
    assert (holder.consumer, holder.output) == ("picoclaw", True)
    assert not board.lines(LABEL)[LED].consumer


@pytest.mark.parametrize(("bias", "expected"), [("pull-up", 1), ("pull-down", 0)])
def test_bias_decides_an_open_input(pins, board, bias, expected):
    line = board.line_in(LABEL, FREE, bias=bias)
    assert (line.get(), level(pins, FREE)) == (expected, expected)
    line.close()


def test_an_input_follows_the_outside(pins, board):
    line = board.line_in(LABEL, BUTTON)
    seen = []
    for way in ("pull-up", "pull-down", "pull-up"):
        pull(pins, BUTTON, way)
        seen.append(line.get())
    line.close()
    assert seen == [1, 0, 1]


def test_edges_with_their_times(pins, board):
    pull(pins, BUTTON, "pull-up")
    with closing(board.line_in(LABEL, BUTTON, edges=True)) as line:
        times, levels = [time.monotonic_ns()], []
        for way in ("pull-down", "pull-up", "pull-down"):
            threading.Timer(0.05, pull, (pins, BUTTON, way)).start()
            edges = line.edges(5.0)
            levels += [edge.level for edge in edges]
            times += [edge.at_ns for edge in edges]
        assert line.edges(0.05) == []
    times.append(time.monotonic_ns())
    assert levels == [0, 1, 0]
    assert times == sorted(set(times))


def test_the_referee_sees_the_same_edges(pins):
    pull(pins, BUTTON, "pull-up")
    kind = {"direction": Direction.INPUT, "edge_detection": Edge.BOTH, "bias": Bias.PULL_UP}
    with gpiod.request_lines(f"/dev/{pins.name}", config={BUTTON: gpiod.LineSettings(**kind)}) as request:
        pull(pins, BUTTON, "pull-down")
        assert request.wait_edge_events(5)
        assert [event.event_type.name for event in request.read_edge_events()] == ["FALLING_EDGE"]
        assert request.get_value(BUTTON) == Value.INACTIVE


def test_a_line_that_somebody_holds_is_refused_by_name(pins, board):
    with gpiod.request_lines(f"/dev/{pins.name}", consumer="referee", config={FREE: None}):
        assert board.lines(LABEL)[FREE].consumer == "referee"
        with pytest.raises(BusFault, match="referee"):
            board.line_out(LABEL, FREE, 1)
        with pytest.raises(BusFault, match="referee"):
            board.line_in(LABEL, FREE)
    board.line_in(LABEL, FREE).close()


def test_a_line_that_we_hold_is_refused_to_others(pins, board):
    line = board.line_out(LABEL, FREE, 0)
    with pytest.raises(OSError, match="busy"):
        gpiod.request_lines(f"/dev/{pins.name}", config={FREE: None})
    line.close()


@pytest.mark.parametrize(("chip", "offset"), [(LABEL, 28), ("no-such-chip", 0), ("/dev/gpiochip99", 0)])
def test_what_does_not_exist(pins, board, chip, offset):
    with pytest.raises(DeviceMissing):
        board.line_in(chip, offset)


def test_the_level_after_a_process_was_killed(pins, board, record_property):
    """Told, not judged: it is the controller's affair, and the reason why outputs have a supervisor."""
    lab.kill_a_driver_of(LABEL, LED, lambda: level(pins, LED) == 1)
    lab.wait_for(lambda: not board.lines(LABEL)[LED].consumer, "the kernel takes the line back")
    record_property("level after kill -9:", level(pins, LED))
    board.line_out(LABEL, LED, 0).close()
