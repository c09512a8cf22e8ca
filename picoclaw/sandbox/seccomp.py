"""The system call filter of the sandbox: what no command needs and attackers go through is refused.

It stands behind the namespaces, not in their place: new namespaces and mounts, kernel keys, BPF, io_uring and the like,
and sockets of any family but those that are named. Numbers: the kernel's syscall tables of each machine.
Format: struct sock_filter of linux/filter.h, seccomp(2).
"""

import os
import struct
from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_NEW_USER = 0x10000000
_X32 = 0x40000000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
"""Address families."""

_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
"""io_uring_setup, _enter, _register; open_tree, move_mount, fsopen, fsconfig, fsmount, fspick; mount_setattr."""
_CLONE3 = 435


class _Machine(NamedTuple):
    """A machine's call numbers.

    refused: unshare, setns, mount, umount2, pivot_root, keyctl, add_key, request_key, bpf, perf_event_open,
    userfaultfd, open_by_handle_at, kexec_load, kexec_file_load, init_module, finit_module, delete_module.
    """

    architecture: int
    clone: int
    socket: int
    refused: tuple[int, ...]


_X86_64 = _Machine(
    0xC000003E,
    56,
    41,
    (272, 308, 165, 166, 155, 250, 248, 249, 321, 298, 323, 304, 246, 320, 175, 313, 176),
)
_AARCH64 = _Machine(
    0xC00000B7,
    220,
    198,
    (97, 268, 40, 39, 41, 219, 217, 218, 280, 241, 282, 265, 104, 294, 105, 273, 106),
)
_ARM = _Machine(
    0x40000028,
    120,
    281,
    (337, 375, 21, 52, 218, 311, 309, 310, 386, 364, 388, 371, 347, 401, 128, 379, 129),
)
_BOTH_ARMS = (_AARCH64, _ARM)
"""A 64-bit kernel with a 32-bit system is usual on a Raspberry Pi."""
_MACHINES = {"x86_64": (_X86_64,), "aarch64": _BOTH_ARMS, "armv7l": _BOTH_ARMS, "armv6l": _BOTH_ARMS}


@cache
def rules(families: Collection[int], machine: str = "") -> bytes:
    """Write the filter that lets sockets of these families be made; empty for a machine whose numbers are not known."""
    known = _MACHINES.get(machine or os.uname().machine, ())
    program = [_does(_LOAD, _ARCHITECTURE)]
    for one in known:
        block = list(_block(one, families))
        program += [_does(_EQUAL, one.architecture, 0, len(block)), *block]
    return b"".join([*program, _does(_RETURN, _KILL)]) if known else b""


def _block(machine: _Machine, families: Collection[int]) -> Iterable[bytes]:
    yield _does(_LOAD, _NUMBER)
    if machine is _X86_64:
        yield _does(_AT_LEAST, _X32, 0, 1)
        yield _refuse(_EPERM)
    for number in (*machine.refused, *_EVERYWHERE):
        yield _does(_EQUAL, number, 0, 1)
        yield _refuse(_EPERM)
    yield _does(_EQUAL, _CLONE3, 0, 1)
    yield _refuse(_ENOSYS)  # its flags cannot be seen; the C library goes on with clone then
    yield _does(_EQUAL, machine.clone, 0, 4)
    yield _does(_LOAD, _FIRST_ARGUMENT)
    yield _does(_ANY_BIT, _NEW_USER, 0, 1)
    yield _refuse(_EPERM)
    yield _does(_RETURN, _ALLOW)
    yield _does(_EQUAL, machine.socket, 0, 2 + 2 * len(families))
    yield _does(_LOAD, _FIRST_ARGUMENT)
    for family in families:
        yield _does(_EQUAL, family, 0, 1)
        yield _does(_RETURN, _ALLOW)
    yield _refuse(_EAFNOSUPPORT)
    yield _does(_RETURN, _ALLOW)


def _refuse(errno: int) -> bytes:
    return _does(_RETURN, _ERRNO | errno)


def _does(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)
