"""The Python API::

from knowport import KnowledgeBase

with KnowledgeBase() as kb:
    kb.ingest("docs/")
    answer = kb.lookup("ERROR 1205 (HY000)")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from knowport.bootstrap import Composition
from knowport.core.calibration import Fingerprint
from knowport.core.domains import Catalogue, Finding, parse_catalogue
from knowport.core.filter_values import checked_filter
from knowport.core.identity import checked_doc_id
from knowport.core.projection import project
from knowport.core.relevance import Thresholds
from knowport.errors import InvalidInput, LedgerError, UnknownDocument
from knowport.model import (
    Answer,
    Document,
    DocumentInfo,
    IngestProgress,
    IngestReport,
    LookupResult,
    Metadata,
    Notice,
    SearchMode,
    Status,
)
from knowport.pipelines.explain import Explanation, explain
from knowport.pipelines.ingest import IngestOptions, ingest
from knowport.pipelines.lookup import lookup
from knowport.pipelines.replace import delete_document
from knowport.pipelines.trace import trace_of
from knowport.ports import Embedder
from knowport.settings import Settings, load_settings

_PRUNE_EVERY = 100


class KnowledgeBase:
    """A knowledge base: ingest documents, look things up.

    ``settings`` come from ``knowport.toml`` and the environment unless given; ``home`` overrides
    the folder in them. ``embedder`` replaces the configured one; it may be any object with the
    ``Embedder`` methods. Raises ConfigurationError, IndexInUse, IndexMismatch, EngineError or
    LedgerError. Use it as a context manager, or call ``close``.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        if settings is None:
            settings = load_settings({"home": Path(home)} if home is not None else {})
        elif home is not None:
            settings = settings.model_copy(update={"home": Path(home)})
        self.settings = settings
        self._parts = Composition(settings, embedder)
        self._traced = 0

    # -- writing ----------------------------------------------------------------------------

    def ingest(
        self,
        path: str | Path,
        *,
        source: str | None = None,
        category: str | None = None,
        category_from_folder: bool = False,
        kb_scope: str | None = None,
        force: bool = False,
        on_progress: Callable[[IngestProgress], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        """Bring a file or the files below a folder into the index; unchanged ones are left alone.

        ``source`` names the origin and prefixes every document id; by default the folder's name.
        A ``domains.toml`` at the top of the folder becomes the source's domain catalogue.
        ``should_stop`` is asked between documents and batches. Raises InvalidInput,
        ConfigurationError, EmbeddingError, EngineError or LedgerError; what was finished until
        then stays.
        """
        root = Path(path)
        options = IngestOptions(
            source=source if source is not None else _source_name(root),
            kb_scope=kb_scope or self.settings.retrieval.kb_scope,
            category=category,
            category_from_folder=category_from_folder,
            force=force,
        )
        next(iter(self._parts.find_files(root)), None)  # a path that is not there makes no index
        domains = self._parts.read_catalogue(root)
        if domains is not None:
            parse_catalogue(domains, where=str(root / "domains.toml"))
        try:
            report = ingest(
                root,
                self._parts.ingest_ports(),
                options,
                on_progress=on_progress,
                should_stop=should_stop,
            )
        finally:  # also what was finished until an error makes a calibration expire
            self._parts.refresh_calibration()
        if root.is_dir():
            self.set_domains(domains, source=options.source)
        return report

    def set_domains(self, catalogue: str | None, *, source: str = "api") -> None:
        """Set the domain catalogue of a source, as TOML text; None forgets it.

        Catalogues of several sources are used together. Raises ConfigurationError.
        """
        if catalogue is not None:
            parse_catalogue(catalogue, where=f"the catalogue of {source}")
        self._parts.ledger.store_catalogue(source, catalogue)
        self._parts.refresh_catalogue()

    def delete(self, doc_id: str) -> int:
        """Delete a document; returns how many chunks went. Raises UnknownDocument."""
        info, _ = self.document(doc_id)
        ports = self._parts.ingest_ports()
        try:
            return delete_document(info.doc_id, ports.ledger, ports.index)
        finally:
            self._parts.refresh_calibration()

    # -- looking up -------------------------------------------------------------------------

    def lookup(
        self,
        query: str,
        *,
        category: str | None = None,
        kb_scope: str | None = None,
        mode: SearchMode | None = None,
    ) -> Answer:
        """Evidence for a query, as an agent sees it.

        ``category`` is a hard filter. Nothing found is an answer with ``found`` false. Raises
        InvalidInput, EmbeddingError, EngineError or LedgerError.
        """
        return project(self.run_lookup(query, category=category, kb_scope=kb_scope, mode=mode))

    def run_lookup(
        self,
        query: str,
        *,
        category: str | None = None,
        kb_scope: str | None = None,
        mode: SearchMode | None = None,
    ) -> LookupResult:
        """Like ``lookup``, with scores, drops and timings; its trace is stored."""
        result = self._lookup(query, category, kb_scope, mode)
        try:
            self._store_trace(result)
        except LedgerError as error:
            notice = Notice("trace_not_stored", error.message)
            return replace(result, notices=(*result.notices, notice))
        return result

    def explain(
        self,
        query: str,
        *,
        document_id: str | None = None,
        category: str | None = None,
        kb_scope: str | None = None,
        mode: SearchMode | None = None,
    ) -> Explanation:
        """A lookup with everything that led to its answer; it leaves no trace.

        ``document_id``, an evidence key or a document id, asks why that is or is not in it.
        """
        result = self._lookup(query, category, kb_scope, mode)
        ports = self._parts.lookup_ports(result.plan.kb_scope)
        options = self._parts.lookup_options()
        return explain(result, document_id, ports, options)

    def trace(self, lookup_id: str) -> Metadata | None:
        """The stored trace of a lookup, or None if there is none (any more)."""
        return self._parts.ledger.trace(lookup_id)

    def _lookup(
        self, query: str, category: str | None, kb_scope: str | None, mode: SearchMode | None
    ) -> LookupResult:
        scope = kb_scope or self.settings.retrieval.kb_scope
        return lookup(
            query,
            self._parts.lookup_ports(scope),
            self._parts.lookup_options(),
            kb_scope=scope,
            category=category,
            mode=mode or self.settings.retrieval.search.mode,
        )

    def _store_trace(self, result: LookupResult) -> None:
        keep, ledger = self.settings.trace, self._parts.ledger
        if keep.max_count and keep.max_age_days:
            ledger.store_trace(result.lookup_id, trace_of(result, content=keep.content))
        # Also where no trace is kept any more: those of before are to go.
        if self._traced % _PRUNE_EVERY == 0:
            ledger.prune_traces(max_age_days=keep.max_age_days, max_count=keep.max_count)
        self._traced += 1

    # -- looking around ---------------------------------------------------------------------

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        """Documents of a scope (by default the configured one), in order of id.

        Raises InvalidInput for a filter that cannot be used.
        """
        scope = checked_filter(kb_scope or self.settings.retrieval.kb_scope, field="kb_scope")
        if scope is None:
            raise InvalidInput("kb_scope is blank.", field="kb_scope", remedy="Name a scope.")
        category = checked_filter(category, field="category")
        return self._parts.ledger.documents(kb_scope=scope, category=category)

    def document(self, doc_id: str) -> tuple[DocumentInfo, Document]:
        """One document with its text; raises UnknownDocument."""
        unknown = UnknownDocument(
            f"No document has the id {doc_id!r}.", remedy="See `knowport documents list`."
        )
        try:
            doc_id = checked_doc_id(doc_id)
        except InvalidInput:
            raise unknown from None
        ledger = self._parts.ledger
        info, document = ledger.document(doc_id), ledger.document_text(doc_id)
        if info is None or document is None:
            raise unknown
        return info, document

    @property
    def domains(self) -> Catalogue:
        """The domain catalogue in force."""
        return self._parts.catalogue

    def check_domains(self) -> tuple[Finding, ...]:
        """Hold the domain catalogue against the categories in the index."""
        scope = self.settings.retrieval.kb_scope
        return self._parts.catalogue.check(self._parts.ledger.categories(scope))

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds in force for the configured scope, calibrated or not."""
        return self._parts.lookup_ports().thresholds

    def fingerprint(self) -> Fingerprint:
        """What calibrated thresholds depend on, as it stands now."""
        return self._parts.fingerprint()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever runs this knowledge base should know."""
        return (*self.settings.warnings, *(n.message for n in self._parts.notices))

    def status(self) -> Status:
        """What the knowledge base holds and stands on."""
        parts, scope = self._parts, self.settings.retrieval.kb_scope
        return Status(
            home=str(self.settings.home.absolute()),
            milvus_uri=self.settings.milvus_uri,
            engine=parts.engine.version if parts.engine else "",
            generation=parts.generation.name if parts.generation else "",
            collection=parts.generation.collection if parts.generation else "",
            embedder=parts.embedder.identity,
            kb_scope=scope,
            documents=len(parts.ledger.documents(kb_scope=scope)),
            chunks=parts.index.count(kb_scope=scope) if parts.index else 0,
            categories=parts.ledger.categories(scope),
            unfinished=len(parts.ledger.unfinished()),
            warnings=self.warnings,
        )

    def close(self) -> None:
        """Release the engine and the ledger."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _source_name(root: Path) -> str:
    folder = root if root.is_dir() else root.parent
    return folder.resolve().name or "documents"
