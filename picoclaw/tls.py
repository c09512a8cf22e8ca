"""How a server proves who it is: by the certificates that this board trusts, in one context for all connections."""

import os
import ssl
from functools import cache
from pathlib import Path

_HASHED_CAS = Path("/etc/ssl/certs")


def context() -> ssl.SSLContext:
    """Give the context of this process, which reads a CA file when a handshake needs it, not the whole bundle.

    Where the owner names a bundle (SSL_CERT_FILE), or there are no hashed certificates, it is read as a whole, once.
    """
    return _made(os.environ.get("SSL_CERT_FILE"))


@cache
def _made(bundle: str | None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if bundle is None and any(_HASHED_CAS.glob("*.0")):
        made.load_verify_locations(capath=str(_HASHED_CAS))
    else:
        made.load_default_certs()
    return made
