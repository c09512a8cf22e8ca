"""How long something takes by itself, and waiting for something that another thread or process does."""

import gc
import time
from collections.abc import Callable


def least_seconds(action: Callable[[], object], times: int = 3) -> float:
    """Run an action some times, without collections of garbage; returns the least processor time in seconds."""
    took = []
    gc.disable()
    try:
        for _ in range(times):
            began = time.process_time()
            action()
            took.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(took)


def is_in_proportion(work, short: int, long: int, most: float, enough: float = 0.0) -> bool:
    """Whether `long` characters take at most `most` times as long as `short` ones, or `enough` seconds.

    `work(length)` makes what is to be timed. One measurement is enough where it leaves no doubt; else it is the least
    of three.
    """
    took = {short: float("inf"), long: float("inf")}
    for _ in range(3):
        for length in (long, short):
            took[length] = min(took[length], least_seconds(work(length), 1))
            if took[long] <= enough:
                return True
        if took[long] < 0.6 * most * took[short]:
            return True
    return took[long] < most * took[short]


def until(is_so: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that another thread or process does."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
