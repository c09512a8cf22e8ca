"""How much is tried of what is tried at every step: in `make test` a part, always the same; with SWEEP=1 all of it.

A test that uses it is marked `sweep`; `make sweep` runs those, whole.
"""

import itertools
import os

IS_WHOLE = bool(os.environ.get("SWEEP"))


def take(part, whole):
    """A number for `make test`, and the one for the sweep."""
    return whole if IS_WHOLE else part


def steps(each, first=0):
    """The numbers of the steps at which something is cut off, without an end: every one, or every `each`-th."""
    return itertools.count(first, take(each, 1))


def sample(cases, each):
    """All cases, or every `each`-th."""
    return list(cases)[:: take(each, 1)]
