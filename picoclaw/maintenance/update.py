"""Updates: a new version is made beside the old and tried on a copy; one link is turned, and turned back if it fails.

The order, which a cut may end anywhere: environment, trial on a copy, `trial` noted, service stopped, databases copied,
link turned, service started, watched, `trial` removed. Until the link is turned nothing of the old version is touched.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from picoclaw.files import make_folder, sync_folder
from picoclaw.maintenance import (
    Installation,
    MaintenanceError,
    UpdateTrial,
    act_as_owner,
    database_copy,
    translate_os_errors,
)
from picoclaw.maintenance.systemd import Service

SNAPSHOT_FOLDER = "before-update"
_MIN_FREE_BYTES = 300_000_000
"""Bytes: a version takes 100 to 150 MB, and pip as much again while it unpacks."""
_PIP_TIMEOUT_S, _TRIAL_TIMEOUT_S = 3600.0, 300.0
_TAIL_LINES = 5

_RELEVANT_FINDINGS = {"settings", "state.db", "history.db", "rules.toml", "outputs", "embeddings"}
"""Of the doctor's findings: what a version can break. A newer doctor may well find more that is wrong here."""

ProgressCallback = Callable[[str], None]
DrawProgress = Callable[[int, int], None]
"""Shows a part of a whole."""


def build_version(place: Installation, source: str, pip: tuple[str, ...] = (), draw: DrawProgress | None = None) -> str:
    """Make an environment with the new version; returns its name. Raises MaintenanceError, and removes what it made.

    `draw` is called about once a second with how many files there are, and how many the present version has.
    """
    free = os.statvfs(place.root)
    if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES:
        raise MaintenanceError(f"{place.root}: an update needs {_MIN_FREE_BYTES // 1_000_000} MB free; free some space")
    place.tidy()
    folder = place.empty_version()
    try:
        whole = _count_files(place.versions / place.get_version("current")) if draw else 0
        tick = (lambda: draw(min(_count_files(folder), whole - 1), whole)) if draw else (lambda: None)
        _run_build_step("the new environment", tick, sys.executable, "-m", "venv", str(folder))
        wheels = ("--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check")
        _run_build_step(
            "pip", tick, str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *wheels, *pip, source
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder.name


def _count_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _run_build_step(what: str, tick: Callable[[], None], *command: str) -> None:
    try:
        code, said = _run_ticking(command, tick)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MaintenanceError(f"{what} could not be made: {error}; nothing was changed") from None
    if code:
        last = "\n".join(said.strip().splitlines()[-_TAIL_LINES:])
        raise MaintenanceError(f"{what} failed; nothing was changed:\n{last}")


def _run_ticking(command: Sequence[str], tick: Callable[[], None]) -> tuple[int, str]:
    """Run a command, and tick each second meanwhile; returns its exit code and what it said."""
    end, pipe = time.monotonic() + _PIP_TIMEOUT_S, subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, errors="replace") as child:
        try:
            while True:
                try:
                    out, err = child.communicate(timeout=1)
                    return child.returncode, err or out
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise
                    tick()
        except BaseException:
            child.kill()
            raise


def is_same_version(place: Installation, one: str, other: str) -> bool:
    """Whether two versions hold the same packages, file by file; what pip notes of where they came from is left out."""
    first, second = _list_package_files(place, one), _list_package_files(place, other)
    return first.keys() == second.keys() and all(
        filecmp.cmp(path, second[name], shallow=False) for name, path in first.items()
    )


def _list_package_files(place: Installation, version: str) -> dict[Path, Path]:
    root = place.versions / version / "lib"
    found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(root): path for path in found if path.name not in {"RECORD", "direct_url.json"}}


def try_version(python: Path, before: Path, home: Path) -> str:
    """Try a version in an empty home, and on a copy of this one; returns its words. Raises MaintenanceError if it is worse.

    `before` is the interpreter of the present version: what it finds bad as well is no fault of the new one.
    """
    worse: set[str] = set()
    with act_as_owner(home), translate_os_errors(home):
        folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=home if home.is_dir() else None))
    try:
        said = _run_version(python, folder / "bare", "--version")
        _run_version(python, folder / "bare", "chat", "--board", "sim", "-m", "how warm is it?")
        if home.is_dir():
            with act_as_owner(home), translate_os_errors(home):
                _copy_home_for_trial(home, folder / "like")
            worse = find_new_faults(python, folder / "like", before, home)
    finally:
        with act_as_owner(home):
            shutil.rmtree(folder, ignore_errors=True)
    if worse:
        raise MaintenanceError(
            f"{said} reports problems that {before} did not: {', '.join(sorted(worse))}; nothing was changed"
        )
    return said


def find_new_faults(python: Path, home: Path, before: Path, its_home: Path) -> set[str]:
    """Name what one version's doctor finds bad and the other's did not; raises MaintenanceError when one cannot look."""
    return _list_bad_findings(python, home) - _list_bad_findings(before, its_home)


def _copy_home_for_trial(home: Path, like: Path) -> None:
    like.mkdir(0o700)
    for path in home.iterdir():
        if path.name in database_copy.DATABASE_MIGRATIONS:
            database_copy.copy_database(path, like / path.name)
        elif (
            not path.name.startswith((".", SNAPSHOT_FOLDER))
            and path.suffix not in {".lock", ".sock"}
            and ".db" not in path.name
        ):
            (like / path.name).symlink_to(path)


def _run_version(python: Path, home: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run a version with the rights of the home's owner, because drivers in that home are run; returns its output."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        found = next(path for path in (home, *home.parents) if path.exists()).stat()
        owner = {"user": found.st_uid, "group": found.st_gid, "extra_groups": []}
    try:
        done = subprocess.run(
            (str(python), "-m", "picoclaw", *words),
            env={**environment, "PICOCLAW_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
            cwd="/",
            **owner,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MaintenanceError(f"the new version failed its trial: {error}; nothing was changed") from None
    if done.returncode not in codes:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        why = f"`picoclaw {words[0]}` ended with {done.returncode}: {last}"
        raise MaintenanceError(f"the new version failed its trial: {why}; nothing was changed")
    return str(done.stdout).strip()


def _list_bad_findings(python: Path, home: Path) -> set[str]:
    """Name the bad findings of a version's doctor that a version can cause."""
    words = ("doctor", "--offline", "--json", "--board", "sim")
    try:
        rows = json.loads(_run_version(python, home, *words, codes=(0, 1)))
        found = [(row.get("status", row.get("mark")), row.get("name", row.get("what"))) for row in rows]  # as in 0.1
        return {name for status, name in found if status == "bad" and name in _RELEVANT_FINDINGS}
    except (ValueError, AttributeError, TypeError):
        raise MaintenanceError(f"the doctor of {python} gave no findings; nothing was changed") from None


def switch_version(
    place: Installation,
    new: str,
    home: Path,
    service: Service | None,
    seconds: float,
    say: ProgressCallback,
    draw: DrawProgress = lambda _done, _total: None,
) -> None:
    """Switch the link, start the service and watch it; raises MaintenanceError after switching back."""
    old = place.get_version("current")
    place.keep("trial", f"{new}\n{old}\n{home}")
    try:
        if service:
            service.do("stop")
        _snapshot_databases(home)
        place.point("previous", old)
        place.point("current", new)
        if service:
            service.do("start")
            _watch_service(service, seconds, say, draw)
    except BaseException as error:
        roll_back(place, UpdateTrial(new, old, home), service)
        if isinstance(error, MaintenanceError):
            raise MaintenanceError(f"{error}; went back to {old}") from None
        raise
    end_trial(place, home)


def _watch_service(service: Service, seconds: float, say: ProgressCallback, draw: DrawProgress) -> None:
    before, begin = service.restarts(), time.monotonic()
    say(f"the service has started; watching it for {seconds:.0f} s")
    while (left := begin + seconds - time.monotonic()) > 0:
        draw(int(100 * (seconds - left)), int(100 * seconds))
        time.sleep(min(left, 1.0))
    if before < 0 or service.restarts() != before:
        raise MaintenanceError(f"the service did not stay up for {seconds:.0f} s (see picoclaw service logs)")


def roll_back(place: Installation, trial: UpdateTrial, service: Service | None) -> None:
    """Switch back to the version before, and restore databases that only the new one can read; those are kept aside."""
    if not place.python(trial.old).exists():
        raise MaintenanceError(f"{trial.old} is no longer installed")
    if service:
        service.do("stop")
    _restore_databases(trial.home)
    place.point("current", trial.old)
    end_trial(place, trial.home)
    if service:
        service.do("start")


def end_trial(place: Installation, home: Path) -> None:
    """End the trial and keep the current version."""
    with translate_os_errors(place.root):
        (place.root / "trial").unlink(missing_ok=True)
        sync_folder(place.root)
    with act_as_owner(home):
        shutil.rmtree(home / SNAPSHOT_FOLDER, ignore_errors=True)


def _snapshot_databases(home: Path) -> None:
    if not home.is_dir():
        return
    with act_as_owner(home), translate_os_errors(home):
        shutil.rmtree(home / SNAPSHOT_FOLDER, ignore_errors=True)
        make_folder(home / SNAPSHOT_FOLDER)
        for name in database_copy.DATABASE_MIGRATIONS:
            if (home / name).exists():
                database_copy.copy_database(home / name, home / SNAPSHOT_FOLDER / name)


def _restore_databases(home: Path) -> None:
    """Restore the databases of the old version whose schema the new one has changed."""
    with act_as_owner(home), translate_os_errors(home):
        kept = [home / SNAPSHOT_FOLDER / name for name in database_copy.DATABASE_MIGRATIONS]
        changed = [
            p
            for p in kept
            if p.exists() and database_copy.list_migrations(p) != database_copy.list_migrations(home / p.name)
        ]
        for path in changed:
            now = home / path.name
            for end in database_copy.WAL_SUFFIXES:
                now.with_name(path.name + end).unlink(missing_ok=True)
            now.rename(home / f"{path.name}.newer-{time.strftime('%Y%m%d-%H%M%S')}")
            path.rename(now)
            sync_folder(home)
