"""Policies for tests."""

from picoclaw.security.policy import Policy, VerdictRow


def override_effects(*effects):
    """A policy that gives some effects another verdict, whoever asks."""
    return Policy(
        {name: dict.fromkeys(VerdictRow._fields, verdict) for one in effects for name, verdict in one.items()}
    )
