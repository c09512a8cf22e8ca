"""What the check finds: a thing, how it is, and what mends it."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """One thing that was looked at. `bad`: something is lost or in danger; a `note` is good to know.

    `mend` puts it right and says what it did, None where only a person can; it raises PicoclawError or OSError.
    """

    mark: Literal["good", "note", "bad", "mended"]
    what: str
    how: str
    mend: Callable[[], Sequence[str]] | None = None
