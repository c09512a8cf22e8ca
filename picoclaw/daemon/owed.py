"""What the disk did not take: written down, in its order, as soon as it takes it again."""

import threading
from collections import deque
from collections.abc import Callable

from picoclaw.errors import StoreDamaged, StoreError

_MOST, _MOST_KNOWN = 500, 200
Act = Callable[[], object]


class Owed:
    """The bookkeeping that one process owes to the disk; an answer is worth more than that."""

    def __init__(self, lock: threading.RLock, note: Callable[[str], None]) -> None:
        """`lock` is that of the database, `note` is told in a line what is wrong, once for each trouble."""
        self._lock, self._note = lock, note
        self._acts: deque[Act] = deque(maxlen=_MOST)
        self._known: deque[tuple[str, str]] = deque(maxlen=_MOST_KNOWN)
        self._complaint = ""

    def write(self, act: Act) -> bool:
        """Write something down, after all that is owed; tells whether the disk took it, else it is owed as well."""
        with self._lock:
            self._acts.append(act)
            return self.settle()

    def settle(self) -> bool:
        """Write down what is owed; tells whether nothing is any more."""
        with self._lock:
            taken = False
            try:
                while self._acts:
                    self._acts[0]()
                    self._acts.popleft()
                    taken = True
            except StoreError as error:
                self._complain(error, f"{error}; it goes on from memory until the disk takes it")
                return False
            if self._complaint and taken:
                self._complaint = ""
                self._note("the disk takes everything again, and what was missing is written down")
            return True

    @property
    def trouble(self) -> str:
        """Why the disk takes nothing, '' as far as it is known to."""
        return self._complaint

    def _complain(self, error: StoreError, text: str) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._note(text)

    def swap(self, act: Act | None, other: Act | None) -> bool:
        """Owe something else instead, or nothing any more; tells whether it was still owed."""
        with self._lock:
            owed = any(one is act for one in self._acts)
            kept = ((other if one is act else one) for one in self._acts)
            self._acts = deque((one for one in kept if one), _MOST)
            return owed

    def begin(self, key: str, external: str, error: StoreError) -> bool:
        """Remember what is answered without being kept; tells whether it is new. '' is never the same.

        Damage, which is mended by beginning afresh, is raised where the other side sends it again.
        """
        with self._lock:
            self._complain(error, f"a message could not be kept, and is answered all the same: {error}")
            if external and isinstance(error, StoreDamaged):
                raise error
            if self.knows(key, external):
                return False
            self._known.append((key, external))
            return True

    def knows(self, key: str, external: str) -> bool:
        """Tell whether this number of a chat was answered without being kept."""
        return bool(external) and (key, external) in self._known
