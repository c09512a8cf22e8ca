"""How a server proves who it is: by the certificates that this board trusts."""

import os
import ssl
from pathlib import Path

_HASHED_CAS = Path("/etc/ssl/certs")


def context() -> ssl.SSLContext:
    """Make a context that reads a CA file when a handshake needs it, not the whole bundle."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "SSL_CERT_FILE" not in os.environ and any(_HASHED_CAS.glob("*.0")):
        made.load_verify_locations(capath=str(_HASHED_CAS))
    else:
        made.load_default_certs()
    return made
