"""run.py ONLY PATH...: run tests of a guest with pytest and print one line for each, as the guest's only output."""

import re
import sys
import time

began = time.monotonic()
import pytest  # noqa: E402


def reason(report: pytest.TestReport) -> list[str]:
    """Tell where a test failed and why, without the listing of its source."""
    lines = report.longreprtext.splitlines()
    return [line for line in lines if line.startswith("E  ") or re.match(r"\S+:\d+: ", line)]


class Lines:
    """A reporter for a serial console."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the outcome of a test, and why it failed."""
        if report.when != "call" and report.outcome == "passed":
            return
        word = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}[report.outcome]
        note = "; ".join(f"{key} {value}" for key, value in report.user_properties)
        print(f"{word} {report.nodeid.removeprefix('test_')} ({report.duration:.2f} s) {note}".rstrip(), flush=True)
        if report.failed:
            print("\n".join(f"     {line}" for line in reason(report)), flush=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Print why a file cannot be collected."""
        if report.failed:
            print(f"FAIL {report.nodeid}\n{report.longreprtext}", flush=True)

    def pytest_warning_recorded(self, warning_message: object) -> None:
        """Warnings are errors in the normal suite; here they are only told."""
        print(f"WARN {warning_message}", flush=True)


only, *paths = sys.argv[1:]
sys.path[:0] = ["/run/job"]
print(f"lab: pytest imported in {time.monotonic() - began:.1f} s", flush=True)
options = ["-p", "no:terminal", "-p", "no:cacheprovider", "--rootdir", ".", "-s", "-k", only]
sys.exit(pytest.main([*options, *paths], plugins=[Lines()]))
