"""Runs every hostile test and prints how many attacks and honest requests of each class were tried, and stopped.

    python tests/hostile/report.py [further words for pytest]

Ends with 1 when an attack got through, or when more than one honest request in a hundred was stopped.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = [HERE, HERE.parent / "test_page_hostile.py"]
MOST_STOPPED = 0.01

# Tests whose every case is one attack, or one honest request; what they try counts by its own name or the test's.
CASES = {
    "test_an_attack_shows_and_changes_nothing": "attack",
    "test_a_hard_link_shows_and_changes_nothing": "attack",
    "test_what_is_picoclaws_own_stays_so_when_a_folder_around_it_is_allowed": "attack",
    "test_what_is_too_large_is_said_at_once": "attack",
    "test_no_socket_is_opened_to_what_is_not_public": "attack",
    "test_no_redirect_leads_there": "attack",
    "test_no_name_leads_there": "attack",
    "test_an_honest_path_is_written_read_and_changed": "honest",
    "test_an_honest_file_in_a_folder_around_the_home_is_used": "honest",
    "test_an_honest_address_is_read": "honest",
    "test_a_link_from_elsewhere_opens_the_page_and_no_answer_lets_a_page_in": "honest",
}
ROOMS = {"test_hostile_files.py": "files", "test_hostile_web.py": "addresses", "test_page_hostile.py": "the page"}
ALL_ATTACKS = {"test_page_hostile.py"}
"""Files in which what is not named above is an attack."""


class Count:
    """Listens to pytest."""

    def __init__(self) -> None:
        self.tried: Counter[tuple[str, str]] = Counter()
        self.stopped: Counter[tuple[str, str]] = Counter()
        self.failed: list[str] = []
        self.skipped = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test has tried; one that fails for another reason is named."""
        self.skipped += report.skipped
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when != "call" or report.skipped:
            return
        counted = [value for name, value in report.user_properties if name == "hostile"]
        for side, kind, stopped in counted or self._case(report):
            self.tried[side, kind] += 1
            self.stopped[side, kind] += bool(stopped)

    def _case(self, report: pytest.TestReport) -> list[tuple[str, str, bool]]:
        file, _, test = report.nodeid.partition("::")
        file, name = Path(file).name, test.partition("[")[0]
        side = CASES.get(name) or ("attack" if file in ALL_ATTACKS or (file in ROOMS and "socket" not in test) else "")
        return [(side, ROOMS[file], report.passed == (side == "attack"))] if side and file in ROOMS else []


def table(count: Count) -> str:
    """Write the counts down, by class."""
    rows = []
    for side in ("attack", "honest"):
        kinds = sorted(kind for one, kind in count.tried if one == side)
        rows += [(f"{side}: {kind}", count.tried[side, kind], count.stopped[side, kind]) for kind in kinds]
        tried = sum(count.tried[side, kind] for kind in kinds)
        rows.append((f"all {side}{'s' if side == 'attack' else ''}", tried, sum(count.stopped[side, k] for k in kinds)))
    return "\n".join(
        [f"{'':52}{'tried':>7}{'stopped':>9}", *(f"{name:52}{tried:7}{stopped:9}" for name, tried, stopped in rows)]
    )


def main(words: list[str]) -> int:
    """Run, count, judge."""
    count = Count()
    given = words if "--workers" in words else ["--workers", "2", *words]
    ended = pytest.main(["-q", "--no-header", *map(str, FILES), *given], plugins=[count])
    print(table(count))
    honest = [(count.tried[one], count.stopped[one]) for one in count.tried if one[0] == "honest"]
    tried, stopped = (sum(column) for column in zip(*honest, strict=True)) if honest else (0, 0)
    through = sum(count.tried[one] - count.stopped[one] for one in count.tried if one[0] == "attack")
    print(f"{through} attacks got through; {stopped} of {tried} honest requests were stopped")
    print(f"{count.skipped} tests were skipped")
    print("\n".join(count.failed))
    return int(bool(ended) or through > 0 or stopped > MOST_STOPPED * tried)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
