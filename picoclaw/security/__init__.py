"""Policy, guard, approvals, audit, sandbox, redaction."""
