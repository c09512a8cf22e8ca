"""Faults of every class against Telegram and the model of real daemons. `tests/bench/network_faults.py` plays 300."""

import pytest
import sweep
from bench import network_faults
from network import possible

pytestmark = pytest.mark.skipif(not possible(), reason="nobody is given a network namespace here")


@pytest.mark.long
@pytest.mark.sweep
def test_nothing_is_lost_and_nothing_is_done_twice():
    faults, daemons = sweep.take(8, 20), sweep.take(2, 5)
    found = network_faults.many(faults, 3, daemons, brief=True)
    assert len(found) == daemons
    for each in found:
        assert [each[name] for name in network_faults.BAD] == [[], {}, {}, [], []]
        assert each["drained"]
        assert each["code"] == 0
        assert each["modelled"] > 0
        assert each["kills"] == 1
    took = [seconds for each in found for *_, seconds in each["took"]]
    assert len(took) == faults
    assert max(took) < 60
