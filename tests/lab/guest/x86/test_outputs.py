"""Outputs on gpio-sim: an output that is on when a process dies, and one whose time is over."""

import time

import lab
import lab_outputs
import pytest
from conftest import LABEL

PUMP = 20


def level_of(pins):
    return lambda: int((pins / f"sim_gpio{PUMP}/value").read_text())


@pytest.mark.parametrize("victim", lab_outputs.VICTIMS)
def test_a_sudden_death_leaves_nothing_on(pins, tmp_path, victim, record_property):
    home = lab_outputs.home(tmp_path, LABEL, PUMP)
    runs = [lab_outputs.kill(home, victim, level_of(pins)) for _ in range(3)]
    record_property("longest on afterwards, ms", round(max(took for _, took in runs) * 1000))
    assert all(took < lab_outputs.longest(starting) for starting, took in runs), runs


def test_a_lease_ends_by_itself(pins, tmp_path):
    home = lab_outputs.home(tmp_path, LABEL, PUMP)
    began = time.monotonic()
    client = lab_outputs.on(home, 1.0)
    starting = time.monotonic() - began
    lab.wait_for(lambda: level_of(pins)() == 0, "the lease has ended", 5.0)
    assert 0.9 < time.monotonic() - began < starting + 1.0 + lab_outputs.longest(starting)
    client.kill()
    client.wait()
