"""How long something takes by itself: the least processor time of several runs, without collections of garbage."""

import gc
import time
from collections.abc import Callable


def least_seconds(action: Callable[[], object], times: int = 3) -> float:
    """Run an action some times; returns the least processor time in seconds."""
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
