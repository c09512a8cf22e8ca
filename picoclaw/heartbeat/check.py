"""The other kind of heartbeat: somebody outside asks whether picoclaw is alive."""

OK = "HEARTBEAT_OK"
_LONGEST = 40
_ASKED = {"heartbeat", "heart beat", "heartbeat check", "health check", "healthcheck"}


def is_check(text: str) -> bool:
    """Tell whether a message asks for nothing but a sign of life."""
    if len(text) > _LONGEST:
        return False
    words = "".join(char if char.isalnum() else " " for char in text.casefold()).split()
    return " ".join(words).removesuffix(" please") in _ASKED
