"""``knowport ingest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowport.entrypoints import wire
from knowport.entrypoints.ingest_output import (
    StopOnInterrupt,
    ingest_progress,
    print_passing_error,
    print_report,
)
from knowport.entrypoints.options import (
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Config,
    Home,
    Json,
    Scope,
    dumps,
    print_json,
    print_json_line,
)
from knowport.entrypoints.remote import Server, either
from knowport.errors import InvalidInput
from knowport.knowledge_base import KnowledgeBase
from knowport.knowledge_writing import Sync
from knowport.model import FileOutcome, IngestReport

app = typer.Typer()


@app.command()
def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder that is searched for files.")],
    source: Annotated[
        str | None,
        typer.Option(help="Name of the origin; begins every document id. Else the folder's name."),
    ] = None,
    category: Annotated[str | None, typer.Option(help="Category of every document.")] = None,
    category_from_folder: Annotated[
        bool, typer.Option("--category-from-folder", help="The first folder below PATH is it.")
    ] = False,
    scope: Scope = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="Only files that match, as in .gitignore; may be repeated.", show_default=False
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="No files that match, as in .gitignore; may be repeated. Lines of "
            ".knowportignore files do the same.",
            show_default=False,
        ),
    ] = None,
    delete_missing: Annotated[
        bool,
        typer.Option("--delete-missing", help="Delete documents whose files are gone."),
    ] = False,
    force_delete: Annotated[
        bool,
        typer.Option(
            "--force-delete",
            help="Also where the folder is empty, not all readable, or another than before.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would happen, and write nothing.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on after every change, until Ctrl-C.")
    ] = False,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Write the report to this file, as JSON.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write unchanged files again.")] = False,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Bring the index in line with files: new and changed ones are indexed, unchanged ones are
    left alone, and those that are gone are reported, and deleted with --delete-missing.

    Every file that is not indexed is listed with its reason; the exit code is 8 if one failed.
    Ctrl-C stops after the document at hand is whole; run the same command to go on. With --server
    the files are sent to a running service.

    Example: knowport ingest handbook/ --category-from-folder
    """
    if watch and dry_run:
        raise InvalidInput("--watch and --dry-run exclude each other.", field="watch")
    if report_file is not None:
        _write(report_file, "")  # a file that cannot be written is no surprise after hours
    options = Sync(
        source=source,
        category=category,
        category_from_folder=category_from_folder,
        kb_scope=scope,
        include=include or (),
        exclude=exclude or (),
        force=force,
        delete_missing=delete_missing,
        force_delete=force_delete,
    )

    def show(report: IngestReport) -> None:
        values = {**wire.report_json(report), "path": str(path), "dry_run": dry_run}
        if report_file is not None:
            _write(report_file, dumps(values) + "\n")
        if as_json:
            (print_json_line if watch else print_json)(values)
        else:
            print_report(report, dry_run=dry_run)

    stop = StopOnInterrupt()
    with either(server, home, config) as kb, stop:
        if not isinstance(kb, KnowledgeBase):
            # Imported here: an ingest without a service needs no HTTP client.
            from knowport.entrypoints.upload import (  # noqa: PLC0415
                refuse_local_options,
                upload,
            )

            refuse_local_options(
                delete_missing=delete_missing, dry_run=dry_run, watch=watch, force=force
            )
            report = upload(
                kb,
                path,
                source=source,
                category=category,
                category_from_folder=category_from_folder,
                kb_scope=scope,
                include=include or (),
                exclude=exclude or (),
                should_stop=stop.asked,
            )
        elif watch:
            kb.watch(
                path,
                on_report=show,
                on_error=print_passing_error,
                should_stop=stop.asked,
                **options,
            )
            return
        else:
            with ingest_progress(quiet=as_json or dry_run) as on_progress:
                report = kb.ingest(
                    path,
                    on_progress=on_progress,
                    should_stop=stop.asked,
                    dry_run=dry_run,
                    **options,
                )
    show(report)
    if report.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if report.count(FileOutcome.FAILED):
        raise typer.Exit(EXIT_PARTIAL)
    if all(result.outcome is FileOutcome.SKIPPED for result in report.files):
        raise InvalidInput(
            f"No document was found in {str(path)!r}.",
            field="path",
            remedy="Its files are hidden, excluded, empty or of no known format.",
        )


def _write(file: Path, text: str) -> None:
    try:
        # A name that is not Unicode becomes an escape of JSON.
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InvalidInput(
            f"The report {str(file)!r} cannot be written: {error.strerror}.", field="report"
        ) from error
