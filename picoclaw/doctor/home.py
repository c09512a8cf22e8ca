"""The home folder: whether it can be used, by nobody else, and whether a secret has left the file it belongs in."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from picoclaw.disk import explain
from picoclaw.hw.health import Row

_ELSEWHERE = "give this user the folders above it, or set PICOCLAW_HOME to a folder of its own"
_ENVIRONMENTS = ("/etc/default/picoclaw", "/etc/picoclaw/environment")
_SECRET = re.compile(rb"^\s*(?:export\s+)?(\w*(?:KEY|TOKEN|PASSWORD)\w*)\s*=\s*\S", re.MULTILINE)
_LARGEST = 1_000_000
_SHORTEST_SECRET = 12
"""Shorter keys are placeholders such as "none", which a page may well contain."""


def examine(home: Path) -> Iterator[Row]:
    """Look at the folder, and at files elsewhere that hold a key for the service."""
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except FileNotFoundError:
        yield Row("note", "home", f"{home} does not exist yet", "picoclaw init")
        return
    except OSError as error:
        yield Row("bad", "home", f"{home} cannot be looked at: {explain(error)}", _ELSEWHERE)
        return
    if mode & 0o077:
        yield Row("bad", "home", f"{home} is open to others (mode {mode:04o})", f"chmod 700 {home}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Row("bad", "home", f"{home} cannot be read and written by this user", f"sudo chown -R $USER {home}")
    else:
        yield Row("good", "home", str(home))
    yield from _foreign(home)


def _foreign(home: Path) -> Iterator[Row]:
    """Files of another owner: what `sudo picoclaw` once made, the service cannot write."""
    user = os.geteuid()
    try:
        theirs = [e.name for e in os.scandir(home) if user and e.stat(follow_symlinks=False).st_uid != user]
    except OSError:
        return
    if theirs:
        mend = f"sudo chown -R $USER {home}"
        yield Row("bad", "home", f"{', '.join(sorted(theirs)[:3])} in it belong to another user", mend)


def leaks(secrets: tuple[str, ...], workspace: Path, environments: tuple[str, ...] = _ENVIRONMENTS) -> Iterator[Row]:
    """Look for a secret where a model, or another user, would read it."""
    wanted = [secret.encode() for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    for path in _files(workspace) if wanted else ():
        if any(secret in _content(path) for secret in wanted):
            mend = "take it out, and have the server make a new one: the model has been told it"
            yield Row("bad", "secrets", f"{path} holds a key of secrets.toml, and a model reads that folder", mend)
    for name in environments:
        path = Path(name)
        try:
            open_to_all = path.stat().st_mode & 0o044
        except OSError:
            continue
        if open_to_all and (found := _SECRET.search(_content(path))):
            yield Row(
                "bad", "secrets", f"{path} can be read by others and sets {found[1].decode()}", f"chmod 600 {path}"
            )


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (Path(where, name) for name in names)


def _content(path: Path) -> bytes:
    """Up to a megabyte of a regular file, nothing of what cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return b""
        return path.read_bytes()
    except OSError:
        return b""
