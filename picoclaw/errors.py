"""Every error picoclaw raises on purpose. A message names the noun that failed, what was wrong, what to try."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAITING_FOR_APPROVAL = " was not done yet: it waits for "
MEANING_PREFIX = "\nwhich means: "
"""Between the name of a call and what it waits for, in the text of Pending: it has not failed."""


class PicoclawError(Exception):
    """Anything picoclaw says no to; `str()` of it is one line for a person."""


class ConfigError(PicoclawError):
    """The configuration, a secret file or an environment variable is wrong."""


class UnknownTime(PicoclawError, ValueError):
    """A text says no time that picoclaw knows, or one that is yet to come."""


class SkillError(PicoclawError):
    """A skill cannot be read, or is not there."""


class StoreError(PicoclawError):
    """Durable state could not be read or written."""


class StoreDamaged(StoreError):
    """The database file is torn or is something else."""


class StoreNewer(StoreError):
    """The database holds a migration that this version does not know."""


class StoreUnreachable(StoreError):
    """A shared store does not answer now; another try may work."""


class ProviderError(PicoclawError):
    """A model server gave no usable answer."""

    is_unexplained = False
    """The server gave no reason that we know, so that it may be that the request was too long."""


class Unavailable(ProviderError):
    """Unreachable, overloaded or garbled; another try may work."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        """`retry_after`: seconds the server asked us to wait, 0 when it did not say."""
        super().__init__(message)
        self.retry_after = retry_after


class KnownDown(Unavailable):
    """The server did not answer before, and does not answer a knock; nobody has waited for it."""


class CircuitOpen(KnownDown):
    """The server has said that asking is no use before some moment, which has not come."""


class OverBudget(Unavailable):
    """What the owner allows for a day is used, so no server was asked: nothing is wrong with it or to be corrected."""


class Refused(ProviderError):
    """The server refused the request; the owner has to change something."""


class ContextOverflow(Refused):
    """The request is longer than the model's context window."""


class MaybeTooLong(ContextOverflow):
    """The server gave no reason that we know; half of the conversation is tried once."""


class NeedsOwner(Refused):
    """The server answers no request of ours before the owner has changed something."""


class KeyRefused(NeedsOwner):
    """The server does not take the key, or not for this model."""


class NotServed(NeedsOwner):
    """The server knows no such model, or no such path."""


class NoCredit(NeedsOwner):
    """The account at the server has nothing left to pay with."""


class Defect(ProviderError):
    """Our own code has failed at a message or at what a model said."""


@contextmanager
def raise_defects() -> Iterator[None]:
    """Raise Defect for an error that nobody raised on purpose: no message may end the process.

    A message that did would be asked again by the next process, and end that as well. The log of a service has the
    traceback, without the error's text, as that may hold what a person said.
    """
    try:
        yield
    except (PicoclawError, MemoryError):
        raise
    except Exception as error:
        import sys
        import traceback

        places = traceback.extract_tb(error.__traceback__)
        if not sys.stderr.isatty():
            print(f"{type(error).__name__}, a defect:", *traceback.format_list(places), sep="\n", file=sys.stderr)
        where = f"{type(error).__name__} in {Path(places[-1].filename).name}, line {places[-1].lineno}"
        raise Defect(
            f"picoclaw could not read this message, by a defect of its own ({where}); "
            "say it in other words, and please report it"
        ) from error


class DeadlinePassed(ProviderError):
    """The turn's time limit was reached while the model was answering."""


class ToolError(PicoclawError):
    """A tool call failed: what was wrong, and what to try."""


class Denied(ToolError):
    """The guard or a person did not allow the call."""


class Pending(Denied):
    """The call was not made, and is kept: it is made when the yes arrives."""


class HardwareError(PicoclawError):
    """A bus, a device file or a part failed."""


class DeviceMissing(HardwareError):
    """There is no such device file, or nothing answers at the address."""


class NoPermission(HardwareError):
    """The device is there, and this user may not open it."""


class BusFault(HardwareError):
    """The bus reported a fault: time-out, lost arbitration, a checksum that does not fit."""


class ChannelError(PicoclawError):
    """A channel cannot be begun, or refuses what is to be sent; trying again is no use."""


class ChannelDown(ChannelError):
    """A channel does not reach the other side now; what was to be sent is kept and tried again.

    `unsure` when some of it may have arrived all the same.
    """

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class ChatBusy(ChannelDown):
    """One chat can be told nothing for a while; others may."""


class TurnStopped(PicoclawError):
    """A person ended the turn with /stop or Ctrl-C."""


def explain_syntax(error: Exception) -> str:
    """Say why a text is no TOML or JSON; of Python's own limits, without its advice to programmers."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number in it has too many digits" if "set_int_max_str_digits" in str(error) else str(error)
