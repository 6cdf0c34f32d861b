"""The command's first lines: until the rest is loaded, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line and run it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from knowport.entrypoints import cli  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
