"""What goes wrong with an installation, a backup or a home, in one line."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error


class MaintenanceError(PicoclawError):
    """An installation, a backup or a restored home is not as it should be; nothing was changed unless it says so."""


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Put what the operating system refuses into one line that names the path; raises CareError."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise MaintenanceError(f"{error.filename or path} cannot be changed: {explain_os_error(error)}") from None
