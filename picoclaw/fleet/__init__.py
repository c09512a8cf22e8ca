"""Boards at one broker that were paired with each other; imported only where [mqtt] has fleet = true."""

MISSING_NACL = 'the fleet is not installed: pip install "picoclaw-edge[fleet]"'
