"""Tests that run as root give up its rights where a file has to be really unreadable."""

import ctypes
from contextlib import contextmanager


@contextmanager
def ordinary_user():
    """Give up root's right to open everything, for a while, in this thread (capset(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    assert libc.capset(header, (ctypes.c_uint32 * 6)(0, held[1], 0, 0, held[4], 0)) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0
