"""`picoclaw check`: whether everything that is kept in a home is whole, and what mends what is not.

It looks at what it can without an app, a board or a model, changes nothing unless it is to mend, and raises nothing.
The doctor asks whether the set-up works; this asks whether anything was lost.
"""

from collections.abc import Iterator
from pathlib import Path

from picoclaw.check import databases, files, records
from picoclaw.check.finding import Finding
from picoclaw.disk import explain
from picoclaw.errors import PicoclawError

__all__ = ["Finding", "examine", "mend"]


def examine(home: Path) -> Iterator[Finding]:
    """Look at everything in turn."""
    if not home.is_dir():
        yield Finding("note", "home", f"{home} does not exist yet; picoclaw init makes it")
        return
    yield from files.permissions(home)
    yield from files.settings(home)
    yield from databases.examine(home)
    yield from databases.index(home)
    yield from records.audits(home)
    yield from records.promises(home)
    yield from files.pages(home)
    yield from files.leftovers(home)


def mend(home: Path) -> list[Finding]:
    """Mend what can be mended; returns what was done, or why it could not be."""
    done: list[Finding] = []
    for finding in list(examine(home)):
        if finding.mend is None:
            continue
        try:
            done += [Finding("mended", finding.what, said) for said in finding.mend()]
        except PicoclawError as error:
            done.append(Finding("bad", finding.what, f"cannot be mended: {error}"))
        except OSError as error:
            done.append(Finding("bad", finding.what, f"cannot be mended: {error.filename}: {explain(error)}"))
    return done
