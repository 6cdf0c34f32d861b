"""Finish at the start what an interruption left.

========  =================================================================================
state     action
========  =================================================================================
writing   write the ledger's text again, whole, and delete the tail; delete a document that
          the index refuses, which the next ingest of its file will report
deleting  delete again
========  =================================================================================
"""

from __future__ import annotations

from knowport.core.chunking import ChunkingOptions
from knowport.errors import InvalidInput
from knowport.pipelines.replace import Index, Write, cut, delete_document, replace_documents
from knowport.pipelines.vectors import Vectors
from knowport.ports import Embedder, Ledger


def recover(embedder: Embedder, ledger: Ledger, index: Index, chunking: ChunkingOptions) -> int:
    """Finish every unfinished document; returns how many there were."""
    unfinished = ledger.unfinished()
    for info in unfinished:
        if info.state == "deleting":
            delete_document(info.doc_id, ledger, index)
            continue
        document = ledger.document_text(info.doc_id)
        if document is None:  # deleted by another process meanwhile
            continue
        whole = cut(document, chunking)
        vectors = Vectors(embedder, ledger)
        texts = dict(zip(whole.hashes, whole.texts, strict=True))
        vectors.fill(texts, keys=whole.keys)
        write = Write(document, whole.indexed(vectors.known), new=False)
        try:
            index.check(write.chunks)
        except InvalidInput:
            delete_document(info.doc_id, ledger, index)
        else:
            replace_documents([write], ledger, index)
    return len(unfinished)
