"""Where the knowledge comes from: a knowledge base of this process, or a running service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from knowport.client import ChunkText, Client, DocumentPage, DocumentText
from knowport.entrypoints.mcp.threads import Threads
from knowport.errors import UnknownDocument
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Answer


class Backend(Protocol):
    """One scope of a knowledge base. The methods raise KnowportError."""

    async def lookup(self, query: str, category: str | None) -> Answer: ...

    async def chunk(self, key: str) -> ChunkText:
        """The chunk that an evidence key names."""
        ...

    async def document(self, doc_id: str) -> DocumentText: ...

    async def documents(self, cursor: str | None, limit: int) -> DocumentPage:
        """A page of the documents, in order of id; without a cursor the first."""
        ...


class LocalBackend:
    """A knowledge base of this process. ``opened`` gives it, and may take long."""

    def __init__(
        self, opened: Callable[[], KnowledgeBase], threads: Threads, kb_scope: str
    ) -> None:
        self._opened = opened
        self._threads = threads
        self._scope = kb_scope

    async def lookup(self, query: str, category: str | None) -> Answer:
        return await self._threads(
            lambda: self._opened().lookup(query, category=category, kb_scope=self._scope)
        )

    async def chunk(self, key: str) -> ChunkText:
        return await self._threads(lambda: read_chunk(self._opened(), key, self._scope))

    async def document(self, doc_id: str) -> DocumentText:
        return await self._threads(lambda: read_document(self._opened(), doc_id, self._scope))

    async def documents(self, cursor: str | None, limit: int) -> DocumentPage:
        return await self._threads(lambda: read_page(self._opened(), cursor, limit, self._scope))


class RemoteBackend:
    """A running service. The access key of the client decides the scope, or else ``kb_scope``."""

    def __init__(self, client: Client, threads: Threads, kb_scope: str | None) -> None:
        self._client = client
        self._threads = threads
        self._scope = kb_scope

    async def lookup(self, query: str, category: str | None) -> Answer:
        return await self._threads(
            lambda: self._client.lookup(query, category=category, kb_scope=self._scope)
        )

    async def chunk(self, key: str) -> ChunkText:
        return await self._threads(lambda: self._client.chunk(key, kb_scope=self._scope))

    async def document(self, doc_id: str) -> DocumentText:
        return await self._threads(lambda: self._client.document(doc_id, kb_scope=self._scope))

    async def documents(self, cursor: str | None, limit: int) -> DocumentPage:
        return await self._threads(
            lambda: self._client.documents_page(cursor=cursor, limit=limit, kb_scope=self._scope)
        )


def read_chunk(kb: KnowledgeBase, key: str, kb_scope: str) -> ChunkText:
    info, chunk = kb.chunk(key, kb_scope=kb_scope)
    return ChunkText(
        id=f"{chunk.doc_id}#chunk-{chunk.chunk_index}",
        doc_id=chunk.doc_id,
        source=info.source,
        title=chunk.title,
        breadcrumb=chunk.breadcrumb,
        category=info.category,
        content=chunk.content,
        start=chunk.start,
        end=chunk.end,
    )


def read_document(kb: KnowledgeBase, doc_id: str, kb_scope: str) -> DocumentText:
    """A document; one of another scope is as if it did not exist."""
    info, document = kb.document(doc_id)
    if info.kb_scope != kb_scope:
        raise UnknownDocument(f"No document has the id {doc_id!r}.")
    return DocumentText(info, document.text)


def read_page(kb: KnowledgeBase, cursor: str | None, limit: int, kb_scope: str) -> DocumentPage:
    """A page of documents. The cursor is the last id of the page before."""
    infos = kb.documents_page(kb_scope=kb_scope, after=cursor or "", limit=limit)
    return DocumentPage(infos, infos[-1].doc_id if len(infos) == limit else None)
