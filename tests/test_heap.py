"""The threads of a process that lives long share one heap, as the C library's own account of its heaps says."""

import ctypes
import subprocess
import sys

import pytest

SHOW = """
import ctypes, threading
from picoclaw.daemon.watchdog import limit_malloc_arenas
if {shared}:
    assert limit_malloc_arenas()
meet = threading.Barrier(9)
def take():
    kept = [bytes(10_000) for _ in range(50)]
    meet.wait(), meet.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for one in threads:
    one.start()
meet.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
meet.wait()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="another C library than GNU's")
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "as usual"])
def test_threads_share_one_heap(shared):
    words = [sys.executable, "-c", SHOW.format(shared=shared)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    assert (done.stdout.count("<heap nr=") == 1) is shared
