"""Reading the text that an evidence key stands for."""

from __future__ import annotations

from knowport.core.chunking import ChunkingOptions
from knowport.core.compose import text_hash
from knowport.core.identity import parse_evidence_key
from knowport.core.wording import counted
from knowport.errors import InvalidInput, UnknownDocument
from knowport.model import Chunk, DocumentInfo
from knowport.pipelines.replace import cut, known_document, unknown_document
from knowport.ports import Ledger


def read_chunk(
    key: str, ledger: Ledger, chunking: ChunkingOptions, *, kb_scope: str
) -> tuple[DocumentInfo, Chunk]:
    """The chunk of that evidence key in the active generation, with its document.

    The ledger keeps a document's text and where each chunk lies in it. The document is cut again
    as the generation cuts, because a part of a split table repeats the table's header, and the
    chunk is held against the hash that was recorded. Raises UnknownDocument, also for a document
    of another scope.
    """
    try:
        doc_id, index = parse_evidence_key(key)
    except InvalidInput as error:
        raise UnknownDocument(error.message, remedy=error.remedy) from None
    info = known_document(doc_id, ledger)
    document = ledger.document_text(info.doc_id)
    if document is None or info.kb_scope != kb_scope:
        raise unknown_document(doc_id)
    marks = ledger.marks([info.doc_id]).get(info.doc_id, ())
    if index >= len(marks):
        raise UnknownDocument(
            f"Document {info.doc_id!r} has {counted(len(marks), 'chunk')}; there is no {key!r}.",
            remedy="It may have changed since it was cited; look the question up again.",
        )
    mark = marks[index]
    chunks = cut(document, chunking).chunks
    if index < len(chunks) and text_hash(chunks[index].content) == mark.content_hash:
        return info, chunks[index]
    # An older Knowport cut it otherwise.
    content = document.text[mark.start : mark.end]
    return info, Chunk(info.doc_id, index, content, info.title, "", mark.start, mark.end)
