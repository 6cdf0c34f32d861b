"""The adapters of one knowledge base, opened as far as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from knowport.adapters.embedding.checked import CheckedEmbedder
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.loading import (
    LOADER_VERSION,
    FileLoader,
    LoadLimits,
    Roots,
    digest_file,
    find_files,
    literal,
    read_catalogue,
    selector,
    ticks,
)
from knowport.adapters.milvus import Engine, MilvusIndex
from knowport.bootstrap.calibrated import (
    calibrated,
    fingerprint_of,
    notices_of,
    thresholds_of,
    warnings_of,
)
from knowport.bootstrap.embedders import configured_embedder, reach_of
from knowport.bootstrap.generations import Generations
from knowport.bootstrap.rebuilding import follow_alias, rebuild_ports
from knowport.bootstrap.serving import Pointer, Serving
from knowport.core.calibration import Fingerprint
from knowport.core.chunking import ChunkingOptions
from knowport.core.domains import NO_DOMAINS, Catalogue, merge_catalogues, parse_catalogue
from knowport.core.mismatch import REBUILD
from knowport.core.wording import counted
from knowport.errors import EngineError, IndexMismatch, KnowportError, LedgerError
from knowport.model import Generation, LookupResult
from knowport.pipelines.ingest_ports import IngestPorts, ReadPorts
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.rebuild_ports import Lookup, RebuildPorts
from knowport.pipelines.rebuild_states import finish_drops
from knowport.pipelines.recovery import recover
from knowport.pipelines.search import SearchOptions
from knowport.ports import Embedder
from knowport.settings import Settings

T = TypeVar("T")


class Composition:
    """The adapters of one knowledge base, and the generation that it serves.

    ``embedder`` replaces the configured one; ``other_embedders`` are those that other generations
    may have been built with. ``lost_ok`` opens a knowledge base whose active collection is gone,
    so that it can be rebuilt. Without an active generation a server must answer all the same, and
    an index that the ledger does not know is refused. Raises ConfigurationError, IndexInUse,
    IndexMismatch, EngineError or LedgerError.
    """

    find_files = staticmethod(find_files)
    literal = staticmethod(literal)
    ticks = staticmethod(ticks)
    read_catalogue = staticmethod(read_catalogue)

    def __init__(
        self,
        settings: Settings,
        embedder: Embedder | None = None,
        *,
        other_embedders: Sequence[Embedder] = (),
        lost_ok: bool = False,
    ) -> None:
        self.settings = settings
        own = CheckedEmbedder(embedder) if embedder else configured_embedder(settings)
        self.roots = Roots(settings.home / "roots.json")
        self._loader = FileLoader(LoadLimits(**settings.loading.model_dump()))
        self.ledger = SqlLedger(settings.ledger_url)
        self.generations = Generations(
            settings,
            self.ledger,
            [own, *map(CheckedEmbedder, other_embedders)],
            {} if embedder else reach_of(settings),
            lost_ok=lost_ok,
        )
        self._lost_ok = lost_ok
        self._of_start: list[str] = []
        self._unfinished = ""
        try:
            self.refresh_catalogues()
            chunking = settings.chunking
            nothing = Serving(None, None, own, ChunkingOptions(chunking.size, chunking.overlap))
            self._pointer = Pointer(self.ledger, self._open, nothing)
            self._start()
        except BaseException:
            self.close()
            raise

    def _open(self, generation: Generation) -> Serving:
        return calibrated(self.generations.open_active(generation), self.ledger, self.settings)

    def _start(self) -> None:
        """Open what is active and finish what an interruption left."""
        serving = self._pointer.refresh()
        if serving.generation is None or serving.index is None:
            if not self._lost_ok:
                self.generations.refuse_lost_ledger()
            return
        self._finish_documents(serving)
        # In this order: an engine may refuse to drop a collection that the alias still names.
        for tidy in (
            partial(follow_alias, self.generations.connected(), self.settings, serving.generation),
            partial(finish_drops, self.ledger, self.generations.index_of),
        ):
            try:
                tidy()
            except (EngineError, LedgerError) as error:
                self._of_start.append(f"What a rebuild left to be tidied up still is: {error}")

    def _finish_documents(self, serving: Serving) -> None:
        """Finish what an interruption left, where the index takes writes."""
        if serving.index is None or serving.differs or not serving.index.exists():
            return
        left = recover(serving.embedder, self.ledger, serving.index, serving.chunking, serving.name)
        self._unfinished = ""
        if left.left:
            self._unfinished = (
                f"Unfinished, and not to be finished now: {counted(left.left, 'document')}. "
                f"{left.reason}"
            )
        self.refresh_calibration()

    def _follow_switch(self) -> None:
        """Serve what this process has switched to, and finish what could not be while the index
        was read-only."""
        self._finish_documents(self.follow())

    def close(self) -> None:
        """Release the engine, the ledger and the processes that parse files."""
        self._loader.close()
        self.generations.close()
        self.ledger.close()

    def refresh_catalogues(self) -> None:
        """Read the domain catalogues anew."""
        found = self.ledger.catalogues()
        self._catalogues = {scope: _catalogue(texts) for scope, texts in found.items()}

    def catalogue(self, kb_scope: str) -> Catalogue:
        """The domains of a scope; none of another one are known in it."""
        return self._catalogues.get(kb_scope, NO_DOMAINS)

    # -- what is served ---------------------------------------------------------------------

    @property
    def serving(self) -> Serving:
        """The active generation, as the ledger had it at most about a second ago."""
        return self._pointer.current()

    def with_serving(self, call: Callable[[Serving], T]) -> T:
        """What ``call`` makes of the generation in force.

        Called anew where it fails because another process has switched and dropped that
        generation, within the second in which this one does not know of it.
        """
        serving = self._pointer.current()
        try:
            return call(serving)
        except EngineError as error:
            try:
                now = self._pointer.refresh()
            except KnowportError:  # what failed first is what there is to say
                raise error from None
            if now.name == serving.name:
                raise
            return call(now)

    @property
    def engine(self) -> Engine | None:
        """The engine, if it was needed until now."""
        return self.generations.engine

    @property
    def index(self) -> MilvusIndex | None:
        return self.serving.index

    def follow(self) -> Serving:
        """The generation that the ledger calls active now."""
        return self._pointer.refresh()

    # -- calibration ------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        """What calibrated thresholds of the configured scope depend on, as it stands now."""
        return fingerprint_of(self.serving, self.ledger, self.settings)

    def refresh_calibration(self) -> None:
        """Read the stored calibration anew and see whether it still fits."""
        self._pointer.change(lambda held: calibrated(held, self.ledger, self.settings))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever runs this knowledge base should know."""
        unfinished = [self._unfinished] if self._unfinished else []
        return (*warnings_of(self.serving), *unfinished, *self._of_start)

    # -- what pipelines get -----------------------------------------------------------------

    def lookup_ports(self, serving: Serving, kb_scope: str | None = None) -> LookupPorts:
        """Ports for a lookup in a scope, by default the configured one; all of one generation."""
        scope = kb_scope or self.settings.retrieval.kb_scope
        return LookupPorts(
            embedder=serving.embedder,
            ledger=self.ledger,
            index=serving.index,
            generation=serving.name,
            thresholds=thresholds_of(serving, self.settings, scope),
            catalogue=self.catalogue(scope),
            notices=notices_of(serving),
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
        """Ports for writing, of the generation that is active now; the first call on an empty
        ledger makes the first one. Raises IndexMismatch where the generation is read-only."""
        serving = self._pointer.refresh()
        if serving.index is None:
            self.generations.create_first()
            serving = self._pointer.refresh()
        if serving.differs:
            raise IndexMismatch(
                f"The index in {self.settings.home} was built with other settings, so it is "
                f"read-only: {'; '.join(serving.differs)}.",
                remedy=f"Run {REBUILD} to build it anew with the settings of now, while the old "
                "one answers; or restore the old settings. Nothing was changed.",
            )
        assert serving.index is not None
        return IngestPorts.over(
            self._read_ports(serving),
            embedder=serving.embedder,
            index=serving.index,
            generation=serving.name,
        )

    def takes_writes(self) -> bool:
        """Whether the index that is active now, if any, takes writes."""
        serving = self._pointer.refresh()
        return serving.index is None or (not serving.differs and serving.index.exists())

    def read_ports(self) -> ReadPorts:
        """Ports to see what an ingest would do; they write nothing and make no generation."""
        return self._read_ports(self._pointer.refresh())

    def _read_ports(self, serving: Serving) -> ReadPorts:
        return ReadPorts(
            ledger=self.ledger,
            chunking=serving.chunking,
            find=find_files,
            selector=selector,
            digest=digest_file,
            load=self._loader.load,
            load_bytes=self._loader.load_bytes,
            loader_version=LOADER_VERSION,
        )

    # -- rebuilding -------------------------------------------------------------------------

    def rebuild_ports(self) -> RebuildPorts:
        """Ports for building, proving and switching generations."""
        return rebuild_ports(
            self.settings,
            self.ledger,
            self.generations,
            lookup=self._lookup_in,
            follow=self._follow_switch,
        )

    def _lookup_in(self, generation: Generation) -> Lookup:
        """Lookups in one generation, whichever is active."""
        serving = calibrated(self.generations.open(generation), self.ledger, self.settings)
        ports = self.lookup_ports(serving)
        options, retrieval = self.lookup_options(), self.settings.retrieval

        def look_up(query: str) -> LookupResult:
            return lookup(
                query, ports, options, kb_scope=retrieval.kb_scope, mode=retrieval.search.mode
            )

        return look_up


def _catalogue(texts: Mapping[str, str]) -> Catalogue:
    return merge_catalogues(
        parse_catalogue(text, where=f"domains.toml of {source}") for source, text in texts.items()
    )
