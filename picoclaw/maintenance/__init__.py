"""Where picoclaw is installed: a folder of versions side by side, and a link that says which one is used.

ROOT/versions/20261122-ab12/   an environment of its own (venv) for each version
ROOT/current                   the link that the command and the service go through; switching is one rename
ROOT/previous                  what `current` was before
ROOT/source                    what was installed from, one line: a folder, a wheel, an address or a name
ROOT/link                      the path of the command, one line
ROOT/trial                     there while a version is on trial: the new name, the old name, the home, a line each
"""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error, make_folder, sync_folder, write_atomic
from picoclaw.records import NamedTuple


class MaintenanceError(PicoclawError):
    """An installation, a backup or a restored home is not as it should be; nothing was changed unless it says so."""


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a MaintenanceError that names the path."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise MaintenanceError(f"{error.filename or path} cannot be changed: {explain_os_error(error)}") from None


_MAX_LINE_BYTES = 4096


class UpdateTrial(NamedTuple):
    """A version on trial, the one before it, and the home that both use."""

    new: str
    old: str
    home: Path


class Installation:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = root / "versions"

    def get_version(self, link: str) -> str:
        """Return the version that `current` or `previous` points to, '' if there is none."""
        try:
            return (self.root / link).readlink().name
        except OSError:
            return ""

    def python(self, name: str) -> Path:
        return self.versions / name / "bin/python"

    def note(self, name: str) -> str:
        """Read `source` or `link`, empty when it was not noted."""
        try:
            with (self.root / name).open(encoding="utf-8", errors="replace") as file:
                return file.read(_MAX_LINE_BYTES).strip()
        except OSError:
            return ""

    def keep(self, name: str, text: str) -> None:
        """Write `source`, `link` or `trial` durably; raises MaintenanceError."""
        with translate_os_errors(self.root / name):
            write_atomic(self.root / name, f"{text}\n".encode(), 0o644)

    def trial(self) -> UpdateTrial | None:
        lines = self.note("trial").splitlines()
        return UpdateTrial(lines[0], lines[1], Path(lines[2])) if len(lines) == 3 else None

    def point(self, link: str, name: str) -> None:
        """Point `current` or `previous` to a version, by one rename; raises MaintenanceError."""
        young = self.root / f".{link}.{os.getpid()}"
        with translate_os_errors(self.root / link):
            young.unlink(missing_ok=True)
            young.symlink_to(Path("versions") / name)
            young.replace(self.root / link)
            sync_folder(self.root)

    def empty_version(self) -> Path:
        """Make the folder of a new version; raises MaintenanceError."""
        with translate_os_errors(self.versions):
            make_folder(self.versions, 0o755)
            folder = Path(tempfile.mkdtemp(prefix="v-", dir=self.versions))
            folder.chmod(0o755)
            return folder

    def tidy(self) -> None:
        """Remove the versions that neither link points to, unfinished ones too."""
        used = {self.get_version("current"), self.get_version("previous"), Path(sys.prefix).name}
        for folder in self.versions.iterdir():
            if folder.name not in used:
                shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the installation; raises MaintenanceError if another process holds the lock."""
        with translate_os_errors(self.root / "lock"):
            handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise MaintenanceError(f"{self.root} is being changed by another picoclaw update; wait for it") from None
        finally:
            os.close(handle)


def find_installation(prefix: str = sys.prefix) -> Installation | None:
    """Return the installation of this interpreter; None for a checkout, pipx or a distribution's package."""
    folder = Path(prefix)
    root = folder.parent.parent
    return Installation(root) if folder.parent.name == "versions" and (root / "current").is_symlink() else None


@contextlib.contextmanager
def act_as_owner(home: Path) -> Iterator[None]:
    """As root, act with the rights of the home's owner, because links in it may lead elsewhere."""
    if os.geteuid() != 0:
        yield
        return
    with translate_os_errors(home):
        found = next(path for path in (home, *home.parents) if path.exists()).stat()
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(found.st_gid)
    os.seteuid(found.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)
