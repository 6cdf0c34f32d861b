"""The Python API::

from knowport import KnowledgeBase

with KnowledgeBase() as kb:
    kb.ingest("docs/")
    answer = kb.lookup("ERROR 1205 (HY000)")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from knowport.bootstrap import Composition
from knowport.bootstrap.serving import Serving
from knowport.core.calibration import Fingerprint
from knowport.core.domains import Catalogue, Finding
from knowport.core.filter_values import checked_filter
from knowport.core.projection import project
from knowport.core.redaction import Redactor
from knowport.core.relevance import Thresholds
from knowport.errors import InvalidInput, KnowportError, LedgerError
from knowport.knowledge_audit import AuditsIndex
from knowport.knowledge_rebuild import Rebuilds
from knowport.knowledge_serving import ServesCallers
from knowport.knowledge_writing import WritesDocuments
from knowport.model import (
    Answer,
    Chunk,
    Document,
    DocumentInfo,
    LookupResult,
    Metadata,
    Notice,
    SearchMode,
    Status,
)
from knowport.pipelines.explain import Explanation, explain
from knowport.pipelines.lookup import LookupPorts, lookup
from knowport.pipelines.passages import read_chunk
from knowport.pipelines.replace import known_document, unknown_document
from knowport.pipelines.trace import trace_of
from knowport.ports import Embedder
from knowport.settings import Settings, load_settings, secrets_of

_PRUNE_EVERY = 100
T = TypeVar("T")


class KnowledgeBase(WritesDocuments, AuditsIndex, Rebuilds, ServesCallers):
    """A knowledge base: ingest documents, look things up.

    ``settings`` come from ``knowport.toml`` and the environment unless given; ``home`` overrides
    the folder in them. ``embedder`` replaces the configured one; it may be any object with the
    ``Embedder`` methods. ``other_embedders`` are those that older generations of the index may
    have been built with, so that the old one answers while a new one is built. ``lost_ok`` opens
    it although the active collection is gone, for a rebuild. Raises ConfigurationError,
    IndexInUse, IndexMismatch, EngineError or LedgerError. Use it as a context manager, or call
    ``close``.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        other_embedders: Sequence[Embedder] = (),
        lost_ok: bool = False,
    ) -> None:
        if settings is None:
            settings = load_settings({"home": Path(home)} if home is not None else {})
        elif home is not None:
            settings = settings.model_copy(update={"home": Path(home)})
        self.settings = settings
        self._parts = Composition(
            settings, embedder, other_embedders=other_embedders, lost_ok=lost_ok
        )
        self._redact = Redactor(secrets_of(settings))
        self._traced = 0

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
        traced: bool = True,
    ) -> LookupResult:
        """Like ``lookup``, with scores, drops and timings; ``traced`` stores its trace."""
        result = self._of_one_generation(
            lambda ports: self._lookup_in(ports, query, category, kb_scope, mode),
            kb_scope,
            lambda result: result,
        )
        if not traced:
            return result
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

        def explained(ports: LookupPorts) -> Explanation:
            result = self._lookup_in(ports, query, category, kb_scope, mode)
            return explain(result, document_id, ports, self._parts.lookup_options())

        return self._of_one_generation(explained, kb_scope, lambda found: found.result)

    def trace(self, lookup_id: str) -> Metadata | None:
        """The stored trace of a lookup, or None if there is none (any more)."""
        return self._parts.ledger.trace(lookup_id)

    def _of_one_generation(
        self,
        call: Callable[[LookupPorts], T],
        scope: str | None,
        result_of: Callable[[T], LookupResult],
    ) -> T:
        """What ``call`` finds in the generation in force, or anew where it is dropped meanwhile."""

        def of(serving: Serving) -> T:
            return call(self._parts.lookup_ports(serving, scope))

        found = self._parts.with_serving(of)
        return self._parts.with_serving(of) if self._is_of_before(result_of(found)) else found

    def _is_of_before(self, result: LookupResult) -> bool:
        """Whether a leg failed in a generation that is not the active one any more."""
        if all(not attempt.failed_leg for attempt in result.attempts):
            return False
        try:
            return self._parts.follow().name != result.generation
        except KnowportError:  # the other leg's answer is what there is
            return False

    def _lookup_in(
        self,
        ports: LookupPorts,
        query: str,
        category: str | None,
        kb_scope: str | None,
        mode: SearchMode | None,
    ) -> LookupResult:
        return lookup(
            query,
            ports,
            self._parts.lookup_options(),
            kb_scope=kb_scope or self.settings.retrieval.kb_scope,
            category=category,
            mode=mode or self.settings.retrieval.search.mode,
        )

    def _store_trace(self, result: LookupResult) -> None:
        keep, ledger = self.settings.trace, self._parts.ledger
        if keep.max_count and keep.max_age_days:
            trace = trace_of(result, content=keep.content)
            # Whoever pastes a log line as a query, or a key as a category, must not find it here.
            # Candidates are numbers and ids of what is stored anyway.
            masked = {k: self._redact.values(v) for k, v in trace.items() if k != "candidates"}
            ledger.store_trace(result.lookup_id, trace | masked)
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
        ledger = self._parts.ledger
        info = known_document(doc_id, ledger)
        document = ledger.document_text(info.doc_id)
        if document is None:  # deleted this moment
            raise unknown_document(doc_id)
        return info, document

    def chunk(self, key: str, *, kb_scope: str | None = None) -> tuple[DocumentInfo, Chunk]:
        """The chunk that an evidence key names, with its document; raises UnknownDocument."""
        scope = kb_scope or self.settings.retrieval.kb_scope
        return read_chunk(key, self._parts.ledger, self._parts.serving.chunking, kb_scope=scope)

    @property
    def domains(self) -> Catalogue:
        """The domain catalogue in force in the configured scope."""
        return self._parts.catalogue(self.settings.retrieval.kb_scope)

    def check_domains(self) -> tuple[Finding, ...]:
        """Hold the domain catalogue against the categories in the index, in that scope."""
        categories = self._parts.ledger.categories(self.settings.retrieval.kb_scope)
        return self.domains.check(categories)

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds in force for the configured scope, calibrated or not."""
        return self._parts.lookup_ports(self._parts.serving).thresholds

    def fingerprint(self) -> Fingerprint:
        """What calibrated thresholds depend on, as it stands now."""
        return self._parts.fingerprint()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever runs this knowledge base should know."""
        return (*self.settings.warnings, *self._parts.warnings)

    def status(self, kb_scope: str | None = None) -> Status:
        """What the knowledge base holds in a scope, by default the configured one, and what it
        stands on."""
        scope = kb_scope or self.settings.retrieval.kb_scope
        return self._parts.with_serving(lambda serving: self._status(serving, scope))

    def _status(self, serving: Serving, scope: str) -> Status:
        parts = self._parts
        return Status(
            home=str(self.settings.home.absolute()),
            milvus_uri=self.settings.milvus_uri,
            engine=parts.engine.version if parts.engine else "",
            generation=serving.name,
            collection=serving.generation.collection if serving.generation else "",
            embedder=serving.embedder.identity,
            kb_scope=scope,
            documents=len(parts.ledger.documents(kb_scope=scope)),
            chunks=serving.index.count(kb_scope=scope) if serving.index else 0,
            categories=parts.ledger.categories(scope),
            unfinished=len(parts.ledger.unfinished()),
            warnings=self.warnings,
        )

    @property
    def engine_ended(self) -> bool:
        """Whether the embedded engine has ended, and nothing works until all is opened anew."""
        engine = self._parts.engine
        return engine is not None and engine.ended

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
