"""Finish what an interruption left, at the start and at the end of an ingest.

========  =================================================================================
state     action
========  =================================================================================
writing   write the ledger's text again, whole, and delete the tail
deleting  delete again
========  =================================================================================

What a living writer of another process has at hand looks the same from outside. It holds the lock
meanwhile, so the state of a document is read again under it, and only what is unfinished even
then is finished. A knowledge base whose unfinished documents cannot be finished now (its writer is
busy for long, the ledger is read-only, the embedder is away, the disk is full) opens all the same:
they stay unfinished, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowport.core.chunking import ChunkingOptions
from knowport.errors import EmbeddingError, EngineError, GenerationChanged, LedgerError
from knowport.pipelines.mend import MendPorts, mend
from knowport.pipelines.replace import Index
from knowport.ports import Embedder, Ledger


@dataclass(frozen=True, slots=True)
class Recovery:
    """How many documents were finished, how many are not, and why; ``reason`` is '' for none."""

    finished: int = 0
    left: int = 0
    reason: str = ""


def recover(
    embedder: Embedder, ledger: Ledger, index: Index, chunking: ChunkingOptions, generation: str
) -> Recovery:
    """Finish every unfinished document of the active generation, which ``index`` is.

    Raises LedgerError only where the ledger cannot even be read.
    """
    doc_ids = [info.doc_id for info in ledger.unfinished()]
    if not doc_ids:
        return Recovery()
    try:
        refused = finish(doc_ids, MendPorts(embedder, ledger, index, generation, chunking))
        reason = next(iter(refused.values()), "Another process writes them.")
    except (EmbeddingError, EngineError, GenerationChanged, LedgerError) as error:
        reason = str(error)
    left = len(ledger.unfinished())
    return Recovery(len(doc_ids) - left, left, reason if left else "")


def finish(doc_ids: Sequence[str], ports: MendPorts) -> Mapping[str, str]:
    """Finish those of the documents that are unfinished; those that cannot be, with the reason.

    Raises as ``mend`` does.
    """

    def still_unfinished(doc_id: str) -> bool:
        info = ports.ledger.document(doc_id)
        return info is not None and info.state != "indexed"

    return mend(doc_ids, ports, needed=still_unfinished).refused
