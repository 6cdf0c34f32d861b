"""The command's first lines: until the rest is loaded, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

OUTPUT_FAILED = 74  # EX_IOERR of sysexits.h


def main() -> None:
    """Load the command line and run it."""
    if sys.stderr is None:  # closed by whoever started us
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end
    if sys.stdout is None:
        sys.stderr.write("The output cannot be written: it is closed.\n")
        raise SystemExit(OUTPUT_FAILED)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from knowport.entrypoints import cli  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
