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


def until(is_so: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that another thread or process does."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
