"""Begins a channel later that cannot be begun now: an address may come minutes after the board, a port become free."""

import threading
from collections.abc import Callable

from picoclaw.channels.channel import Channel, Post
from picoclaw.errors import ChannelError

_FIRST_S, _LONGEST_S, _PATIENCE_S = 5.0, 60.0, 2.0


def begin(channel: Channel, post: Post, note: Callable[[str], None], seconds: float = _FIRST_S) -> Callable[[], None]:
    """Try after `seconds`, then less and less often, down to once a minute; returns what gives that up."""
    ending = threading.Event()

    def tried() -> None:
        wait = seconds
        while not ending.wait(wait):
            try:
                channel.start(post)
            except ChannelError:
                wait = min(2 * wait, _LONGEST_S)
            else:
                note(f"{channel.name}: up now")
                return

    thread = threading.Thread(target=tried, name=f"{channel.name} later", daemon=True)
    thread.start()

    def given_up() -> None:
        ending.set()
        thread.join(_PATIENCE_S)

    return given_up
