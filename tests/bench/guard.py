"""What trust costs: the guard per call, and the walls per command. `python tests/bench/guard.py [ROUNDS]`."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from picoclaw.messages import Caller, ToolCall
from picoclaw.security.guard import Guard
from picoclaw.security.policy import CallRequest, Policy, compute_digest, decide
from picoclaw.security.sandbox import find_missing_program
from picoclaw.tools.exec import ExecTools
from picoclaw.tools.registry import Toolset


def timed(what: str, do: Callable[[], object], rounds: int, unit: float = 1e3, name: str = "ms") -> None:
    """Print the median and the 95th percentile of so many rounds."""
    do()
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        do()
        took.append((time.perf_counter() - began) * unit)
    took.sort()
    print(f"{what:52} {statistics.median(took):8.2f} {took[len(took) * 95 // 100]:8.2f} {name}")


def main() -> None:
    """Measure, and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    caller = Caller("bench", "owner", datetime.now(UTC), print, taints={"web_fetch https://example.org"})
    asked = CallRequest("exec", ToolCall("1", "exec", {"argv": ["true"], "write": True}), "run true", {"in": "/tmp"})
    reads = asked._replace(effect="read")
    policy = Policy()
    guard = Guard(lambda: policy)
    print(f"{'':52} {'median':>8} {'p95':>8}")
    timed("decide on a call", lambda: decide(policy, asked, "owner", caller.taints), rounds * 100, 1e6, "µs")
    timed("sum up what a yes holds for", lambda: compute_digest(asked), rounds * 100, 1e6, "µs")
    timed("the guard, for a call that looks", lambda: guard(reads, caller), rounds * 100, 1e6, "µs")
    if missing := find_missing_program():
        print(f"no walls: {missing} is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        group = ExecTools(workspace, os.environ)
        tools = Toolset([group], guard=guard, journal=lambda *_: None, longest_result=10_000)

        def calls(*argv: str) -> Callable[[], object]:
            return lambda: tools.call(ToolCall("1", "exec", {"argv": list(argv)}), caller)

        def plain(*argv: str) -> Callable[[], object]:
            return lambda: subprocess.run(argv, capture_output=True, check=False)

        for argv in (("true",), ("ls", "-la", "/"), ("/usr/bin/python3", "-c", "1")):
            timed(f"{argv[0]}, without walls", plain(*argv), rounds)
            timed(f"{argv[0]}, within", calls(*argv), rounds)
        script = workspace / "script"
        script.write_bytes(bytes(1_000_000))
        write = ToolCall("1", "exec", {"argv": ["true", "script"], "write": True})
        timed(
            "true, with write and the checksum of 1 MB",
            lambda: tools.call(write, Caller("bench", "owner", caller.now, print)),
            rounds,
        )


if __name__ == "__main__":
    main()
