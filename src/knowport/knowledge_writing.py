"""The part of a knowledge base that writes documents: ingest, put, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict, Unpack

from knowport.bootstrap import Composition
from knowport.core.domains import parse_catalogue
from knowport.core.filter_values import checked_filter
from knowport.core.identity import checked_doc_id, make_doc_id
from knowport.core.text import normalise_text
from knowport.errors import InvalidInput, KnowportError
from knowport.model import (
    FileOutcome,
    FileResult,
    IngestProgress,
    IngestReport,
    LoadedFile,
    Metadata,
    Reread,
    Root,
    TextFormat,
)
from knowport.pipelines.documents import Origin, checked_metadata, checked_scope, checked_source
from knowport.pipelines.ingest import ingest, preview
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.put import delete_present, put_file, put_text
from knowport.pipelines.replace import known_document
from knowport.pipelines.watch import keep_in_sync
from knowport.settings import Settings

# Outcomes of a file that the index holds after an ingest.
_HELD = (FileOutcome.INDEXED, FileOutcome.UNCHANGED)


class Sync(TypedDict, total=False):
    """How files become documents, and which.

    ``source`` names the origin and prefixes every document id; by default the folder's name. The
    category is ``category``, else with ``category_from_folder`` the first folder below the path,
    else the front matter's; other options the next time change the documents' categories, which
    their results say. ``include`` and ``exclude`` are patterns as in ``.gitignore``; so are the
    lines of ``.knowportignore`` files. ``force`` writes unchanged files again. ``delete_missing``
    deletes the documents of the source whose files are gone (but not those that the patterns would
    not let pass): never when the folder holds no file, is not readable in parts, or is another
    than the one that the source came from, unless ``force_delete``.
    """

    source: str | None
    category: str | None
    category_from_folder: bool
    kb_scope: str | None
    include: Sequence[str]
    exclude: Sequence[str]
    force: bool
    delete_missing: bool
    force_delete: bool


API_SOURCE = "api"
"""The source of documents that are put without one."""


class WritesDocuments:
    """Safe to call from several threads: writes take turns, each document is the old or the new."""

    settings: Settings
    _parts: Composition

    def ingest(
        self,
        path: str | Path,
        *,
        on_progress: Callable[[IngestProgress], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        dry_run: bool = False,
        **options: Unpack[Sync],
    ) -> IngestReport:
        """Bring the index in line with a file or the files below a folder; see ``Sync``.

        Unchanged files are left alone; a file that is no document any more keeps its last good
        version and is reported as failed. A ``domains.toml`` at the top of the folder becomes the
        source's domain catalogue. ``dry_run`` reports what would happen, and writes nothing.
        ``should_stop`` is asked between documents and batches. Raises InvalidInput,
        ConfigurationError, EmbeddingError, EngineError or LedgerError; what was finished until
        then stays.
        """
        root = Path(path)
        asked = self._asked(root, options)
        # A path that is not there, or cannot be looked into, makes no index.
        next(iter(self._parts.find_files(root, asked.include, asked.exclude)), None)
        domains = self._parts.read_catalogue(root)
        if domains is not None:
            parse_catalogue(domains, where=str(root / "domains.toml"))
        if dry_run:
            return preview(root, self._parts.read_ports(), asked, should_stop=should_stop)
        before = self._parts.roots.of(asked.source)
        self._parts.roots.remember(asked.source, self._root(root, options, before))
        try:
            report = ingest(
                root, self._ports, asked, on_progress=on_progress, should_stop=should_stop
            )
        except InvalidInput:  # nothing came from there
            self._parts.roots.remember(asked.source, before)
            raise
        finally:  # also what was finished until an error makes a calibration expire
            self._parts.refresh_calibration()
        if not any(file.outcome in _HELD for file in report.files):
            self._parts.roots.remember(asked.source, before)
        if root.is_dir():
            self.set_domains(domains, source=asked.source, kb_scope=asked.kb_scope)
        return report

    def _root(self, path: Path, options: Sync, before: Root | None) -> Root:
        folder = _folder(path)
        if path.is_dir():
            return Root(folder, _remembered(options))
        return before if before and before.folder == folder else Root(folder, None)

    @property
    def takes_writes(self) -> bool:
        """Whether documents can be written now: not while the index is read-only, because it was
        built with another embedder, analyzer or schema, or is lost."""
        return self._parts.takes_writes()

    def reread(
        self,
        *,
        on_progress: Callable[[IngestProgress], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[Reread, ...]:
        """``ingest`` every folder again that this home has ingested, as it was ingested last.

        What did not come from a folder, or from one that is gone, stays as the ledger has it.
        Raises as ``ingest``.
        """
        done = []
        for source, root in sorted(self._parts.roots.all().items()):
            report = None
            if root.options is not None and root.folder.is_dir() and not should_stop():
                report = self.ingest(
                    root.folder,
                    on_progress=on_progress,
                    should_stop=should_stop,
                    source=source,
                    **root.options,
                )
            done.append(Reread(source, str(root.folder), report))
        return tuple(done)

    def watch(
        self,
        path: str | Path,
        *,
        on_report: Callable[[IngestReport], None],
        on_error: Callable[[KnowportError], None],
        on_progress: Callable[[IngestProgress], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        **options: Unpack[Sync],
    ) -> None:
        """``ingest`` now and after every change below the path, until ``should_stop`` says so.

        ``on_report`` hears of each time, ``on_error`` of a failure that may pass (the engine or
        the embedder is away); then it is tried again a while later. Raises as ``ingest`` does.
        """
        keep_in_sync(
            self._parts.ticks(Path(path), self.settings.home),
            lambda: self.ingest(path, on_progress=on_progress, should_stop=should_stop, **options),
            on_report=on_report,
            on_error=on_error,
            should_stop=should_stop,
        )

    def _asked(self, root: Path, options: Sync) -> IngestOptions:
        folder, named = _folder(root), options.get("source")
        source = named if named is not None else folder.name or "documents"
        other = self._parts.roots.other_than(folder, source)
        if other is not None and named is None:
            raise InvalidInput(
                f"The source {source!r} was ingested from {str(other)!r}, and its document ids are "
                f"those that {str(folder)!r} would get.",
                field="source",
                remedy="Name another source, or name this one if both are to share it.",
            )
        home, exclude = self.settings.home.resolve(), tuple(options.get("exclude", ()))
        if home != folder and home.is_relative_to(folder):  # our own files are no documents
            exclude += (self._parts.literal(home.relative_to(folder).as_posix()),)
        return IngestOptions(
            source=source,
            kb_scope=options.get("kb_scope") or self.settings.retrieval.kb_scope,
            category=options.get("category"),
            category_from_folder=options.get("category_from_folder", False),
            include=tuple(options.get("include", ())),
            exclude=exclude,
            force=options.get("force", False),
            delete_missing=options.get("delete_missing", False),
            force_delete=options.get("force_delete", False),
            other_root="" if other is None else str(other),
        )

    def set_domains(
        self, catalogue: str | None, *, source: str = API_SOURCE, kb_scope: str | None = None
    ) -> None:
        """Set the domain catalogue of a source in a scope, as TOML text; None forgets it.

        Catalogues of several sources of a scope are used together. Raises ConfigurationError.
        """
        if catalogue is not None:
            parse_catalogue(catalogue, where=f"the catalogue of {source}")
        scope = kb_scope or self.settings.retrieval.kb_scope
        self._parts.ledger.store_catalogue(source, catalogue, kb_scope=scope)
        self._parts.refresh_catalogues()

    def put(
        self,
        doc_id: str,
        text: str,
        *,
        title: str | None = None,
        category: str | None = None,
        source: str | None = None,
        text_format: TextFormat = "markdown",
        metadata: Metadata | None = None,
        kb_scope: str | None = None,
    ) -> FileResult:
        """Bring one text into the index under an id, over an older version of it.

        ``title`` and ``category`` win over those of the text's front matter, ``metadata`` is laid
        over the rest of it; ``source`` is "api" by default. The outcome is ``indexed`` (reason
        ``new`` or ``changed``) or ``unchanged``. Raises InvalidInput, LoadError (reason ``empty``)
        for a text without words, EmbeddingError, EngineError or LedgerError; an older version then
        stays as it was.
        """
        origin = self._origin(doc_id, title, category, source, metadata, kb_scope)
        return self._put(lambda: put_text(LoadedFile(text, text_format), origin, self._ports))

    def put_file(
        self,
        data: bytes,
        name: str,
        *,
        doc_id: str | None = None,
        title: str | None = None,
        category: str | None = None,
        source: str | None = None,
        metadata: Metadata | None = None,
        kb_scope: str | None = None,
    ) -> FileResult:
        """Like ``put``, for the bytes of a file of any known format.

        ``name`` is the file's name and no path on this machine: with the source it makes the id
        where ``doc_id`` is not given. Raises LoadError also for what is no document.
        """
        if doc_id is None:
            doc_id = make_doc_id(source or API_SOURCE, name)
        origin = self._origin(doc_id, title, category, source, metadata, kb_scope)
        return self._put(lambda: put_file(data, name, origin, self._ports))

    def delete(self, doc_id: str) -> int:
        """Delete a document; returns how many chunks went. Raises UnknownDocument."""
        known = known_document(doc_id, self._parts.ledger)
        try:
            return delete_present(known.doc_id, self._ports)
        finally:
            self._parts.refresh_calibration()

    def _ports(self) -> IngestPorts:
        return self._parts.ingest_ports()

    def _origin(
        self,
        doc_id: str,
        title: str | None,
        category: str | None,
        source: str | None,
        metadata: Metadata | None,
        kb_scope: str | None,
    ) -> Origin:
        name = checked_doc_id(doc_id)
        return Origin(
            doc_id=name,
            source=checked_source(source or API_SOURCE),
            kb_scope=checked_scope(kb_scope or self.settings.retrieval.kb_scope),
            name=PurePosixPath(name).stem,
            title=normalise_text(title or "").text,
            category=checked_filter(category, field="category"),
            metadata=checked_metadata(metadata or {}),
        )

    def _put(self, put: Callable[[], FileResult]) -> FileResult:
        try:
            return put()
        finally:  # what was written makes a calibration expire
            self._parts.refresh_calibration()


def _remembered(options: Sync) -> dict[str, Any]:
    """The options that a later ingest needs to find the same documents, as JSON values."""
    names = ("category", "category_from_folder", "kb_scope")
    patterns = {
        "include": list(options.get("include", ())),
        "exclude": list(options.get("exclude", ())),
    }
    return {name: options.get(name) for name in names if options.get(name)} | patterns


def _folder(root: Path) -> Path:
    return (root if root.is_dir() else root.parent).resolve()
