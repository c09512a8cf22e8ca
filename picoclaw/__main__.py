"""`python -m picoclaw` and the command `picoclaw`; answers --version before anything else is imported."""

import sys


def main() -> int:
    """Run the command line; returns its exit code."""
    if sys.argv[1:] == ["--version"]:
        from picoclaw import __version__

        print(f"picoclaw {__version__}")
        return 0
    from picoclaw.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
