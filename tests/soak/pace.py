"""A clock that goes faster, for processes that cannot tell: `pace.c`, compiled and loaded before the C library's own.

Nothing of picoclaw is changed for it. A process that is given `Pace.environment` sees dates and waits pass so many
times as fast, and so does what it starts; `Pace.now()` is what its clock shows. What it does itself takes as long as
ever: at a pace of 100 an answer that takes the machine 0.1 s has taken 10 s, and who waits 20 s for a server waits 0.2.
"""

import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

SOURCE = Path(__file__).with_name("pace.c")
COMPILERS = ("cc", "gcc", "gcc-12", "clang")
_BEGINS_H, _APART_S = 5.5, 2.0
_SECOND = 1_000_000_000


def compiler() -> str:
    """The C compiler of this machine, '' where there is none."""
    return next((path for name in COMPILERS if (path := shutil.which(name))), "")


class Pace:
    """A day that begins tomorrow at 05:30 UTC, later than any file of today, and goes `pace` times as fast.

    Where that cannot be had, `problem` says why, the pace is 1, and it begins now.
    """

    def __init__(self, folder: Path, pace: int) -> None:
        self.pace, self.problem = pace, ""
        self._library = folder / "pace.so"
        self._begin = time.monotonic_ns()
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.first = (today + timedelta(days=1, hours=_BEGINS_H)).timestamp()
        if pace > 1:
            self.problem = self._made() or self._tried()
        if pace == 1 or self.problem:
            self.pace, self.first = 1, time.time()

    def _made(self) -> str:
        """Compile it; says what is wrong."""
        if not compiler():
            return "no C compiler"
        words = [compiler(), "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", str(self._library)]
        done = subprocess.run([*words, str(SOURCE), "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
        return done.stderr.partition("\n")[0] if done.returncode else ""

    def _tried(self) -> str:
        """Ask a process what time it is; says what is wrong."""
        words = [sys.executable, "-c", "import time; print(time.time())"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        shown = float(done.stdout or 0)
        good = self.now() - _APART_S * self.pace < shown <= self.now()
        return "" if good else f"a process takes no other clock: {done.stderr[:200] or shown}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process is given that is to live by this clock."""
        if self.pace == 1:
            return {}
        told = f"{self.pace} {self._begin} {int(self.first) * _SECOND}"
        return {"LD_PRELOAD": str(self._library), "SOAK_PACE": told}

    def now(self) -> float:
        """The date that it shows, in seconds since 1970."""
        return self.first + (time.monotonic_ns() - self._begin) / _SECOND * self.pace
