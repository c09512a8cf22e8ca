"""Faults of every class against Telegram and the model of real daemons. `tests/bench/network_faults.py` plays 300."""

import pytest
from bench import network_faults
from network import possible

pytestmark = pytest.mark.skipif(not possible(), reason="nobody is given a network namespace here")


def test_nothing_is_lost_and_nothing_is_done_twice():
    found = network_faults.many(20, 3, 5, brief=True)
    assert len(found) == 5
    for each in found:
        assert [each[name] for name in network_faults.BAD] == [[], {}, {}, [], []]
        assert each["drained"]
        assert each["code"] == 0
        assert each["modelled"] > 0
        assert each["kills"] == 1
    took = [seconds for each in found for *_, seconds in each["took"]]
    assert len(took) == 20
    assert max(took) < 60
