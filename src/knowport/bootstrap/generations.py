"""How generations are made, opened and reached: the engine behind them, their embedders."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import (
    ANALYZER,
    SCHEMA_VERSION,
    Engine,
    MilvusIndex,
    collections,
    is_embedded,
)
from knowport.bootstrap.embedders import embedder_of
from knowport.bootstrap.serving import Serving
from knowport.core.chunking import CHUNKER_VERSION, ChunkingOptions
from knowport.core.mismatch import REBUILD, described, differences, recut
from knowport.errors import ConfigurationError, IndexMismatch
from knowport.model import Generation
from knowport.ports import Embedder
from knowport.settings import Settings


class Generations:
    """Makes and opens the generations of one knowledge base.

    ``at_hand`` are embedders, the one of the settings first, and ``reach`` is what a generation
    keeps to reach that one again. ``lost_ok`` opens a generation whose collection is gone.
    """

    def __init__(
        self,
        settings: Settings,
        ledger: SqlLedger,
        at_hand: Sequence[Embedder],
        reach: dict[str, Any],
        *,
        lost_ok: bool,
    ) -> None:
        self._settings, self._ledger = settings, ledger
        self._at_hand, self._reach, self._lost_ok = at_hand, reach, lost_ok
        self._connecting = threading.Lock()
        self.engine: Engine | None = None

    def close(self) -> None:
        """Release the engine."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def connected(self) -> Engine:
        """The engine, opened by the first who asks."""
        milvus = self._settings.milvus
        with self._connecting:
            if self.engine is None:
                # A terminal sends Ctrl-C to every process of its group, and the embedded engine, a
                # child of ours, would die of it in the middle of a write. It inherits this mask.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    self.engine = Engine.connect(
                        self._settings.milvus_uri,
                        token=milvus.token.get_secret_value(),
                        timeout=milvus.timeout,
                    )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return self.engine

    @property
    def there(self) -> bool:
        """Whether there may be anything in the engine: not in an embedded file that is not there,
        which is not to be made by looking."""
        uri = self._settings.milvus_uri
        return not is_embedded(uri) or Path(uri).exists()

    # -- making -----------------------------------------------------------------------------

    def wanted(self, name: str, collection: str) -> Generation:
        """A generation as the settings ask for it; the ledger does not know it yet."""
        engine, chunking = self.connected(), self._settings.chunking
        return Generation(
            name=name,
            collection=collection,
            embedder=self._at_hand[0].identity,
            analyzer=ANALYZER if engine.lexical else {},
            schema_version=SCHEMA_VERSION,
            lexical=engine.lexical,
            proved_on=engine.version,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            chunking={
                "size": chunking.size,
                "overlap": chunking.overlap,
                "version": CHUNKER_VERSION,
            },
            embedding=self._reach,
            state="building",
        )

    def new(self, name: str, collection: str) -> Generation:
        """The same for one that is to be made. Raises ConfigurationError where the settings ask
        for more than the engine can."""
        generation = self.wanted(name, collection)
        if not generation.lexical and self._settings.retrieval.search.mode == "hybrid":
            raise ConfigurationError(
                f"Milvus {generation.proved_on} has no BM25 search.",
                remedy='Use Milvus 2.5 or later, or set retrieval.search.mode = "dense".',
            )
        return generation

    def create_first(self) -> None:
        """The first generation of an empty ledger.

        The analyzer is proved first, then the ledger learns of the collection, then it is made:
        a crash in between leaves a generation whose collection is made, or made whole, at the next
        start. One that the ledger learned of and that was not activated is recorded anew.
        """
        with self._ledger.exclusive():
            if self._ledger.active_generation() is not None:
                return  # another process was quicker
            generation = self.new("g1", f"{self._settings.milvus.collection}_g1")
            strange = self._collections()
            if strange:
                raise self._not_its_ledger(strange)
            index = self.index_of(generation)
            index.prove_analyzer()
            self._ledger.save_generation(generation)
            self._ledger.activate(generation.name, activated_at=generation.created_at, forced=False)
            index.create()

    def refuse_lost_ledger(self) -> None:
        """For a ledger without a generation: where the engine holds generations all the same, the
        ledger that knows them is lost or another one, and to call the index empty would be wrong.

        Raises ConfigurationError then, and EngineUnavailable where a server cannot be reached. An
        embedded file that is not there is not made.
        """
        if not self.there:
            return
        strange = self._collections()
        if strange and self._ledger.active_generation() is None:  # another process may have begun
            raise self._not_its_ledger(strange)

    def _collections(self) -> list[str]:
        """Collections of generations that the engine holds under the configured name."""
        pattern = re.compile(rf"{re.escape(self._settings.milvus.collection)}_g\d+(_[0-9a-f]+)?")
        return [name for name in collections(self.connected()) if pattern.fullmatch(name)]

    def _not_its_ledger(self, strange: Sequence[str]) -> ConfigurationError:
        uri = self._settings.milvus_uri
        away = f"move {uri} away" if is_embedded(uri) else "set another milvus.collection"
        return ConfigurationError(
            f"Milvus at {uri} already holds {', '.join(strange)}, which the ledger "
            f"{self._ledger.where} does not know: it is empty, new, or not the one that belongs "
            "to that index.",
            remedy="Use the ledger that the index was built with (home or ledger.url), or restore "
            f"it from a copy. If there is none, {away} and run `knowport ingest` again.",
        )

    # -- opening ----------------------------------------------------------------------------

    def index_of(self, generation: Generation) -> MilvusIndex:
        """The collection of a generation, whether it is there or not."""
        return MilvusIndex(
            self.connected(),
            generation.collection,
            dimension=generation.embedder.dimension,
            lexical=generation.lexical,
        )

    def embedder_of(self, generation: Generation) -> Embedder:
        """The embedder that a generation was built with. Raises IndexMismatch."""
        embedder = embedder_of(generation, self._settings, self._at_hand)
        if embedder is None:
            raise IndexMismatch(
                f"Generation {generation.name} in {self._settings.home} was built with the "
                f"embedder {described(generation.embedder)}, which is not at hand; "
                f"{described(self._at_hand[0].identity)} is.",
                remedy="Restore the old settings; or open the knowledge base with both embedders "
                f"(other_embedders) and rebuild ({REBUILD}). Nothing was changed.",
            )
        return embedder

    def open_active(self, generation: Generation) -> Serving:
        """Open the active generation. Raises IndexMismatch, EngineError or LedgerError."""
        self.embedder_of(generation)  # before anything is made or changed
        index = self.index_of(generation)
        lost = not index.exists() and bool(self._ledger.documents())
        if lost and not self._lost_ok:
            raise IndexMismatch(
                f"Milvus at {self._settings.milvus_uri} has no collection "
                f"{generation.collection}, and the ledger knows documents in it.",
                remedy=f"Check milvus.uri; if the collection is lost, {REBUILD} builds it "
                "anew from the ledger's texts.",
            )
        if not lost:
            self._make_whole(index)
        return self.open(self._adopted(generation, index))

    def _make_whole(self, index: MilvusIndex) -> None:
        """Make what an interruption left out of a collection; another process may be at it."""
        alone = not index.is_whole() and not self._ledger.read_only
        with self._ledger.exclusive() if alone else nullcontext():
            index.create()

    def open(self, generation: Generation) -> Serving:
        """Open a generation for reading; raises IndexMismatch."""
        wanted = self.wanted(generation.name, generation.collection)
        if not generation.lexical:  # made on an older engine, and good enough for its searches
            wanted = replace(wanted, analyzer={})
        return Serving(
            generation=generation,
            index=self.index_of(generation),
            embedder=self.embedder_of(generation),
            chunking=chunking_of(generation),
            differs=differences(generation, wanted),
            recut=recut(generation, wanted),
        )

    def _adopted(self, generation: Generation, index: MilvusIndex) -> Generation:
        """The generation with what an older Knowport did not record, and proved on this engine."""
        engine = self.connected()
        if generation.proved_on == engine.version and generation.chunking:
            return generation
        if generation.proved_on != engine.version:
            index.prove_analyzer()
        wanted = self.wanted(generation.name, generation.collection)
        with self._ledger.exclusive():
            known = {known.name: known for known in self._ledger.generations()}
            adopted = replace(known[generation.name], proved_on=engine.version)
            if not adopted.chunking:
                adopted = replace(adopted, chunking=wanted.chunking)
                if adopted.embedder == wanted.embedder:
                    adopted = replace(adopted, embedding=wanted.embedding)
            self._ledger.save_generation(adopted)
        return adopted


def chunking_of(generation: Generation) -> ChunkingOptions:
    """How the texts of a generation are cut."""
    return ChunkingOptions(size=generation.chunking["size"], overlap=generation.chunking["overlap"])
