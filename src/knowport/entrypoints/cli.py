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
from dataclasses import asdict
from importlib import metadata
from types import FrameType
from typing import Annotated, Any

import typer

from knowport.entrypoints import (
    audit_cli,
    calibrate_cli,
    documents_cli,
    eval_cli,
    ingest_cli,
    keys_cli,
    lookup_cli,
    mcp_cli,
    rebuild_cli,
    render,
    serve_cli,
    wire,
)
from knowport.entrypoints.options import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT_CLOSED,
    EXIT_OUTPUT_FULL,
    Config,
    Home,
    Json,
    err,
    out,
    print_json,
)
from knowport.entrypoints.remote import Server, either
from knowport.errors import InvalidInput, KnowportError
from knowport.settings import effective_settings

# Typer exports this class only as the base of others.
UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError"
)

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take [rag] in a help text for markup
)
app.add_typer(ingest_cli.app)
app.add_typer(audit_cli.app)
app.add_typer(rebuild_cli.rebuild_app, name="rebuild")
app.add_typer(lookup_cli.app)
app.add_typer(documents_cli.documents_app, name="documents")
app.add_typer(documents_cli.domains_app, name="domains")
app.add_typer(eval_cli.app)
app.add_typer(calibrate_cli.app)
app.add_typer(mcp_cli.app)
app.add_typer(serve_cli.app)
app.add_typer(keys_cli.app, name="keys")


@app.command()
def status(
    as_json: Json = False, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """Print what the index holds and what it stands on."""
    with either(server, home, config) as kb:
        current = kb.status()
    if as_json:
        print_json(asdict(current))
    else:
        render.status(out, current)


@app.command("config")
def show_config(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Print every setting in force, where it comes from and what it means. Secrets are masked.

    A setting is taken from the environment (KNOWPORT_RAG__RETRIEVE_K=30), else from the file
    (section [rag], retrieve_k = 30), else its default.
    """
    overrides = {"home": home} if home is not None else {}
    rows = effective_settings(overrides, config=config)
    if as_json:
        print_json({row.key: {"value": row.value, "origin": row.origin} for row in rows})
    else:
        render.settings(out, [asdict(row) for row in rows])


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
        sys.stderr.write(wire.dumps(wire.error_json(error)) + "\n")
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
