"""The command line.

Results go to standard output, everything else to standard error. Exit codes: 0 done; 1 a lookup
found nothing; 10 the index is empty; 8 some files failed; 12 a gate failed; 13 calibration was
refused; 130 interrupted; 141 the reader of the output closed it; 70 a fault of ours; the others are
listed in ``knowport.errors``.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from importlib import metadata
from types import FrameType
from typing import Annotated, Any

import typer

from knowport.entrypoints.commands import MARKUP, Commands
from knowport.entrypoints.options import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT_CLOSED,
    EXIT_OUTPUT_FULL,
    dumps,
    err,
    out,
)
from knowport.errors import InvalidInput, KnowportError

# Typer exports this class only as the base of others.
UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError"
)

app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)


def main() -> None:
    """Run the command line; every error of ours becomes its message, remedy and exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    signal.signal(signal.SIGINT, _interrupted)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except KnowportError as error:
        code = _tell(error)
    except UsageError as error:
        code = _tell(_as_input_error(error))
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except SystemExit as stop:
        # Typer turns a closed output into exit code 1, which means "nothing found" here.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        code = EXIT_OUTPUT_CLOSED
    except BrokenPipeError:
        code = EXIT_OUTPUT_CLOSED
    except OSError as error:  # nothing but the output is written without an error of ours
        if error.errno == errno.ENOSPC:
            err.print(f"The output cannot be written: {error.strerror}.", style="red", markup=False)
            code = EXIT_OUTPUT_FULL
        else:
            code = _tell_fault()
    except Exception:  # noqa: BLE001  # a crash must not look like "nothing found", which is 1
        code = _tell_fault()
    if code in (EXIT_OUTPUT_CLOSED, EXIT_OUTPUT_FULL):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still to be flushed
    raise SystemExit(code if isinstance(code, int) else 0)


def _tell_fault() -> int:
    traceback.print_exc()
    err.print("This is a fault of Knowport. Please report it with the lines above.")
    return EXIT_FAULT


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C where nothing else is asked to stop; Typer ends the command without a word."""
    os.write(2, b"Interrupted.\n")
    signal.default_int_handler(number, frame)


def _tell(error: KnowportError) -> int:
    if "--json" in sys.argv[1:]:
        told = {
            "code": error.code,
            "message": error.message,
            "remedy": error.remedy,
            "transient": error.transient,
        }
        sys.stderr.write(dumps({"error": told}) + "\n")
    else:
        err.print(f"Error: {error.message}", style="red", markup=False)
        if error.remedy:
            err.print(error.remedy, markup=False)
    return error.exit_code


def _as_input_error(error: Any) -> InvalidInput:
    """What Typer says of an option or argument, in the form of all our errors."""
    command = error.ctx.command_path if error.ctx else "knowport"
    return InvalidInput(
        error.format_message(), field="arguments", remedy=f"See `{command} --help`."
    )


def _version(asked: bool) -> None:
    if asked:
        out.print(f"knowport {metadata.version('knowport')}", markup=False)
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Look up evidence in your own documents, for people and for agents."""
    if context.invoked_subcommand is None:
        out.print(context.get_help(), markup=False)
