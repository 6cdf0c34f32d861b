"""The methods of the client, one for each thing that the service does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from knowport.client.jobs import LongWork
from knowport.client.reading import given, value_of
from knowport.client.rebuild import Rebuild
from knowport.client.transport import Call, Transport
from knowport.client.values import ChunkText, DocumentPage, DocumentText, ServiceStatus, Stored
from knowport.core.evidence_map import EvidenceStatus
from knowport.errors import ConfigurationError
from knowport.model import Answer, DocumentInfo, Metadata, SearchMode, TextFormat

T = TypeVar("T")

_ANSWER = TypeAdapter(Answer)
_CHUNK = TypeAdapter(ChunkText)
_DOCUMENT = TypeAdapter(DocumentText)
_EVIDENCE = TypeAdapter(EvidenceStatus)
_JSON = TypeAdapter(dict[str, Any])
_PAGE = TypeAdapter(DocumentPage)
_STATUS = TypeAdapter(ServiceStatus)
_STORED = TypeAdapter(Stored)


class Client(LongWork):
    """A client of one service. Safe to use from several threads.

    ``timeout`` is in seconds, for each wait on the network. What the service was too busy for
    (429 and 503) is sent again up to ``retries`` times, after as long as it asked for; where it
    asks for more than ``longest_wait`` seconds, the error is raised at once. So is a request that
    did not reach it. ``http`` replaces the network, for tests. Every method raises ServiceError.
    Use it as a context manager, or call ``close``.
    """

    def __init__(
        self,
        server: str,
        *,
        api_key: str = "",
        timeout: float = 60.0,
        retries: int = 4,
        longest_wait: float = 30.0,
        http: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = Transport(
            server,
            api_key,
            timeout=timeout,
            retries=retries,
            longest_wait=longest_wait,
            http=http,
        )

        self.rebuild = Rebuild(self._transport)

    @classmethod
    def from_environment(cls, **options: Any) -> Self:
        """A client of KNOWPORT_SERVER with the key KNOWPORT_API_KEY; ``options`` as of the class.

        Raises ConfigurationError.
        """
        server = os.environ.get("KNOWPORT_SERVER", "")
        if not server:
            raise ConfigurationError(
                "No service is named.", remedy="Set KNOWPORT_SERVER=http://host:port."
            )
        return cls(server, api_key=os.environ.get("KNOWPORT_API_KEY", ""), **options)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- looking up -------------------------------------------------------------------------

    def lookup(
        self,
        query: str,
        *,
        category: str | None = None,
        kb_scope: str | None = None,
        mode: SearchMode | None = None,
    ) -> Answer:
        """Evidence for a query. Nothing found is an answer with ``found`` false."""
        body = given(query=query, category=category, kb_scope=kb_scope, mode=mode)
        return self._get(_ANSWER, Call("POST", "/v1/lookup", body=body))

    def explain(
        self,
        query: str,
        *,
        document_id: str | None = None,
        category: str | None = None,
        kb_scope: str | None = None,
        mode: SearchMode | None = None,
    ) -> dict[str, Any]:
        """A lookup with everything that led to its answer, as JSON values."""
        body = given(
            query=query, document_id=document_id, category=category, kb_scope=kb_scope, mode=mode
        )
        return self._get(_JSON, Call("POST", "/v1/explain", body=body))

    def trace(self, lookup_id: str) -> dict[str, Any]:
        """The stored trace of a lookup, as JSON values."""
        return self._get(_JSON, Call("GET", f"/v1/lookups/{quote(lookup_id, safe='')}"))

    def evidence(
        self,
        document_id: str,
        *,
        generation: str | None = None,
        at: str | None = None,
        kb_scope: str | None = None,
    ) -> EvidenceStatus:
        """Whether an evidence key that was cited still stands for the same text, and where that
        text is now; ``generation`` and ``at`` (UTC, ISO 8601) say when it was cited."""
        query = {"id": document_id, "generation": generation, "at": at, "kb_scope": kb_scope}
        return self._get(_EVIDENCE, Call("GET", "/v1/evidence", query=query))

    # -- documents --------------------------------------------------------------------------

    def documents(
        self, *, category: str | None = None, kb_scope: str | None = None
    ) -> Iterator[DocumentInfo]:
        """All documents of the scope, in order of id, fetched page by page."""
        cursor: str | None = None
        while True:
            page = self.documents_page(category=category, kb_scope=kb_scope, cursor=cursor)
            yield from page.documents
            cursor = page.next_cursor
            if cursor is None:
                return

    def documents_page(
        self,
        *,
        category: str | None = None,
        kb_scope: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> DocumentPage:
        """One page of the documents of the scope; without a ``cursor`` the first."""
        query = {"category": category, "kb_scope": kb_scope, "cursor": cursor, "limit": limit}
        return self._get(_PAGE, Call("GET", "/v1/documents", query=query))

    def document(self, doc_id: str, *, kb_scope: str | None = None) -> DocumentText:
        """One document with its text."""
        query = {"id": doc_id, "kb_scope": kb_scope}
        values = self._get(_JSON, Call("GET", "/v1/documents", query=query))
        text = values.pop("text", None)
        return value_of(_DOCUMENT, json.dumps({"info": values, "text": text}).encode())

    def chunk(self, document_id: str, *, kb_scope: str | None = None) -> ChunkText:
        """The chunk that an evidence key names, to check a citation with."""
        query = {"id": document_id, "kb_scope": kb_scope}
        return self._get(_CHUNK, Call("GET", "/v1/documents", query=query))

    def put(
        self,
        doc_id: str,
        text: str,
        *,
        text_format: TextFormat = "markdown",
        title: str | None = None,
        category: str | None = None,
        source: str | None = None,
        metadata: Metadata | None = None,
        kb_scope: str | None = None,
    ) -> Stored:
        """Bring a text into the index, over an older version of the document."""
        body = given(
            id=doc_id,
            text=text,
            text_format=text_format,
            title=title,
            category=category,
            source=source,
            metadata=metadata,
            kb_scope=kb_scope,
        )
        return self._get(_STORED, Call("PUT", "/v1/documents", body=body))

    def put_file(
        self,
        file: Path | bytes,
        *,
        name: str | None = None,
        doc_id: str | None = None,
        title: str | None = None,
        category: str | None = None,
        source: str | None = None,
        metadata: Metadata | None = None,
        kb_scope: str | None = None,
    ) -> Stored:
        """Bring a file of any known format into the index. Bytes need a ``name``; without a
        ``doc_id`` it becomes ``source/name``."""
        data = file if isinstance(file, bytes) else file.read_bytes()
        if name is None:
            if isinstance(file, bytes):
                raise ConfigurationError("Bytes need a name.", remedy="Give name='page.pdf'.")
            name = file.name
        form = {
            "id": doc_id,
            "title": title,
            "category": category,
            "source": source,
            "metadata": None if metadata is None else json.dumps(dict(metadata)),
            "kb_scope": kb_scope,
        }
        return self._get(_STORED, Call("PUT", "/v1/documents", form=form, file=(name, data)))

    def delete(self, doc_id: str, *, kb_scope: str | None = None) -> int:
        """Delete a document; returns how many chunks went."""
        query = {"id": doc_id, "kb_scope": kb_scope}
        values = self._get(_JSON, Call("DELETE", "/v1/documents", query=query))
        return int(values["chunks_deleted"])

    def set_domains(
        self, catalogue: str | None, *, source: str, kb_scope: str | None = None
    ) -> tuple[str, ...]:
        """Set the domain catalogue of a source, as TOML text; None forgets it. Returns the ids of
        its domains."""
        # None is sent: it says something here.
        body = {"source": source, "catalogue": catalogue, **given(kb_scope=kb_scope)}
        values = self._get(_JSON, Call("PUT", "/v1/domains", body=body))
        return tuple(values["domains"])

    # -- the service ------------------------------------------------------------------------

    def status(self, *, kb_scope: str | None = None) -> ServiceStatus:
        """What the knowledge base holds and stands on."""
        query = {"kb_scope": kb_scope}
        return self._get(_STATUS, Call("GET", "/v1/status", query=query))

    def _get(self, kind: TypeAdapter[T], call: Call) -> T:
        return value_of(kind, self._transport.send(call))
