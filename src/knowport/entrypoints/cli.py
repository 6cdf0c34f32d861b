"""The command line.

Results go to standard output, everything else to standard error. Exit codes: 0 done; 1 a lookup
found nothing; 10 the index is empty; 8 some files failed; 12 a gate failed; 13 calibration was
refused; 130 interrupted; 141 the reader of the output closed it; 70 a fault of ours; the others are
listed in ``knowport.errors``.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from knowport.entrypoints import eval_cli, render, wire
from knowport.errors import InvalidInput, KnowportError
from knowport.knowledge_base import KnowledgeBase
from knowport.model import FileOutcome, IngestProgress
from knowport.settings import effective_settings, load_settings

EXIT_NOT_FOUND = 1
EXIT_PARTIAL = 8
EXIT_EMPTY = 10
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CLOSED = 141  # as a shell reports a program that ended by SIGPIPE

app = typer.Typer(
    help="Look up evidence in your own documents, for people and for agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take [rag] in a help text for markup
)
documents_app = typer.Typer(help="List, show and delete documents.", no_args_is_help=True)
app.add_typer(documents_app, name="documents")
domains_app = typer.Typer(help="The domain catalogue.", no_args_is_help=True)
app.add_typer(domains_app, name="domains")
app.add_typer(eval_cli.app)  # `eval` and `calibrate`, at the top level

# Into a pipe or a file an id is never folded over two lines.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 10_000)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the index and the ledger.", show_default=False),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; else ./knowport.toml.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Scope = Annotated[
    str | None,
    typer.Option("--scope", help="kb_scope; else retrieval.kb_scope.", show_default=False),
]


@contextmanager
def _open(home: Path | None, config: Path | None) -> Iterator[KnowledgeBase]:
    overrides = {"home": home} if home is not None else {}
    settings = load_settings(overrides, config=config)
    with KnowledgeBase(settings=settings) as kb:
        for warning in kb.warnings:
            err.print(f"Warning: {warning}", style="yellow", markup=False)
        yield kb


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
    force: Annotated[bool, typer.Option("--force", help="Write unchanged files again.")] = False,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Bring Markdown and text files into the index; unchanged files are left alone.

    Ctrl-C stops after the document at hand is whole; run the same command to go on.

    Example: knowport ingest handbook/ --category-from-folder
    """
    stop = _StopOnInterrupt()
    with _open(home, config) as kb, stop, _progress(quiet=as_json) as on_progress:
        report = kb.ingest(
            path,
            source=source,
            category=category,
            category_from_folder=category_from_folder,
            kb_scope=scope,
            force=force,
            on_progress=on_progress,
            should_stop=stop.asked,
        )
    if as_json:
        _print_json(wire.report_json(report))
    else:
        render.report(out, report)
    if report.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if report.count(FileOutcome.FAILED):
        raise typer.Exit(EXIT_PARTIAL)
    if not any(r.outcome in (FileOutcome.INDEXED, FileOutcome.UNCHANGED) for r in report.files):
        raise InvalidInput(
            f"No document was found in {str(path)!r}.",
            field="path",
            remedy="Markdown (.md) and text (.txt) files are read.",
        )


@app.command()
def lookup(
    query: Annotated[str, typer.Argument(help="A question, an error line or a code.")],
    category: Annotated[
        str | None, typer.Option("--category", "-c", help="Only documents of this category.")
    ] = None,
    mode: Annotated[
        Literal["dense", "hybrid"] | None,
        typer.Option(help="Else retrieval.search.mode.", show_default=False),
    ] = None,
    scope: Scope = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print evidence for a query. With --json, exactly what an agent gets.

    Exit code 1: nothing found. 10: the index is empty.

    Example: knowport lookup "ERROR 1205 (HY000)" --json
    """
    with _open(home, config) as kb:
        answer = kb.lookup(query, category=category, kb_scope=scope, mode=mode)
    if as_json:
        _print_json(wire.answer_json(answer))
    else:
        render.answer(out, answer, query)
    if not answer.found:
        empty = any(notice.code == "empty_index" for notice in answer.notices)
        raise typer.Exit(EXIT_EMPTY if empty else EXIT_NOT_FOUND)


@app.command()
def explain(
    query: Annotated[str, typer.Argument(help="As for lookup.")],
    document_id: Annotated[
        str | None,
        typer.Option(
            "--document-id", "-d", help="Evidence key or document id: why is it (not) there?"
        ),
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", "-c", help="Only documents of this category.")
    ] = None,
    mode: Annotated[
        Literal["dense", "hybrid"] | None,
        typer.Option(help="Else retrieval.search.mode.", show_default=False),
    ] = None,
    scope: Scope = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print how a lookup came to its answer: plan, attempts, and the fate of every candidate.

    Example: knowport explain "ERROR 1205" --document-id handbook/mysql/locks.md
    """
    with _open(home, config) as kb:
        explanation = kb.explain(
            query, document_id=document_id, category=category, kb_scope=scope, mode=mode
        )
    values = wire.explanation_json(explanation)
    if as_json:
        _print_json(values)
    else:
        render.explanation(out, values)


@app.command()
def trace(
    lookup_id: Annotated[str, typer.Argument(help="As an answer names it: lk_...")],
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print the stored trace of a lookup, as JSON with or without --json."""
    del as_json  # a trace has one form
    with _open(home, config) as kb:
        stored = kb.trace(lookup_id)
    if stored is None:
        raise InvalidInput(
            f"There is no trace of {lookup_id!r}.",
            field="lookup_id",
            remedy="Traces are kept for trace.max_age_days and up to trace.max_count.",
        )
    _print_json(stored)


@domains_app.command("check")
def domains_check(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Hold the domain catalogue against the categories in the index.

    Unknown domains, categories without a domain and shared keywords are listed; exit code 8 if
    there is any. The catalogue is the domains.toml at the top of an ingested folder.
    """
    with _open(home, config) as kb:
        findings = kb.check_domains()
        domains = kb.domains.domains
    if as_json:
        _print_json(
            {
                "domains": [domain.id for domain in domains],
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            out.print(f"{finding.code}: {finding.message}", markup=False)
        out.print(f"{len(domains)} domains, {len(findings)} findings.", markup=False)
    if findings:
        raise typer.Exit(EXIT_PARTIAL)


@documents_app.command("list")
def documents_list(
    category: Annotated[
        str | None, typer.Option("--category", "-c", help="Only documents of this category.")
    ] = None,
    scope: Scope = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the documents of a scope."""
    with _open(home, config) as kb:
        infos = kb.documents(kb_scope=scope, category=category)
    if as_json:
        _print_json([wire.document_json(info) for info in infos])
    else:
        render.documents(out, infos)


@documents_app.command("show")
def documents_show(
    doc_id: Annotated[str, typer.Argument(help="As `documents list` prints it.")],
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print a document's stored text and what is known of it."""
    with _open(home, config) as kb:
        info, document = kb.document(doc_id)
    if as_json:
        _print_json(wire.document_json(info, document))
    else:
        render.document(out, info, document)


@documents_app.command("delete")
def documents_delete(
    doc_id: Annotated[str, typer.Argument(help="As `documents list` prints it.")],
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Delete a document from the index. The file it came from stays."""
    with _open(home, config) as kb:
        removed = kb.delete(doc_id)
    if as_json:
        _print_json({"doc_id": doc_id, "chunks_deleted": removed})
    else:
        out.print(f"Deleted {doc_id}: {removed} chunks.", markup=False)


@app.command()
def status(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Print what the index holds and what it stands on."""
    with _open(home, config) as kb:
        current = kb.status()
    if as_json:
        _print_json(wire.status_json(current))
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
        _print_json({row.key: {"value": row.value, "origin": row.origin} for row in rows})
    else:
        render.settings(out, [asdict(row) for row in rows])


class _StopOnInterrupt:
    """The first Ctrl-C asks the ingest to stop where nothing is half done; the second stops it."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        return self._asked

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._ask)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if kind is KeyboardInterrupt:
            err.print("Interrupted. What was half done is finished at the next start.")

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        err.print("Stopping after the batch at hand. Ctrl-C again to stop at once.")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[IngestProgress], None]]:
    """A bar on a terminal; a line every tenth of the way elsewhere; nothing with --json."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _progress_lines()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    with bar:
        task = bar.add_task("Ingesting", total=None, rate="")

        def show(now: IngestProgress) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{now.chunks_done / elapsed:.1f} chunks/s" if elapsed > 0.5 else ""
            bar.update(
                task,
                completed=now.bytes_done,
                total=max(now.bytes_total, 1),
                description=f"{now.files_done}/{now.files_total} {Path(now.path).name[:40]}",
                rate=rate,
            )

        yield show


def _progress_lines() -> Callable[[IngestProgress], None]:
    shown = -1

    def show(now: IngestProgress) -> None:
        nonlocal shown
        tenth = 10 * now.bytes_done // max(now.bytes_total, 1)
        if tenth > shown:
            shown = tenth
            err.print(
                f"{tenth * 10:3d} %  {now.files_done}/{now.files_total} files, "
                f"{now.chunks_done} chunks",
                markup=False,
            )

    return show


def _print_json(value: Any) -> None:
    sys.stdout.write(wire.dumps(value) + "\n")


def main() -> None:
    """Run the command line; every error of ours becomes its message, remedy and exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except KnowportError as error:
        if "--json" in sys.argv[1:]:
            sys.stderr.write(wire.dumps(wire.error_json(error)) + "\n")
        else:
            err.print(f"Error: {error.message}", style="red", markup=False)
            if error.remedy:
                err.print(error.remedy, markup=False)
        raise SystemExit(error.exit_code) from None
    except SystemExit as stop:
        # Typer and rich turn a closed output into exit code 1, which means "nothing found" here.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
    except BrokenPipeError:
        pass
    except Exception as error:
        traceback.print_exc()
        raise SystemExit(KnowportError.exit_code) from error
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still to be flushed
    raise SystemExit(EXIT_OUTPUT_CLOSED)


if __name__ == "__main__":
    main()
