"""`python -m picoclaw` and the command `picoclaw`; answers --version before anything else is imported."""

import sys


def main() -> int:
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from picoclaw import __version__

        try:
            print(f"picoclaw {__version__}", flush=True)
            return 0
        except OSError as error:
            from picoclaw.cli import handle_output_error

            return handle_output_error(error)
    import gc

    gc.disable()  # until everything is built: there is no garbage in imports, and looking for it takes 7 % of a start
    try:
        from picoclaw.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 1
    _leave(code)
    return code


def _leave(code: int) -> None:
    """End at once where a thread still runs: the interpreter aborts when one holds a stream that it wants to flush."""
    threading = sys.modules.get("threading")
    if threading and threading.active_count() > 1:
        import os
        from contextlib import suppress

        with suppress(OSError, AttributeError):  # AttributeError: there is none
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
