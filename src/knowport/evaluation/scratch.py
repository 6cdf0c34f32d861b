"""The scratch knowledge base that a set is measured in.

It is a home like any other (index, ledger, embedding cache) below the folder that the user names,
one for each set and embedder, so that a second run embeds nothing. It always uses the embedded
engine and an SQLite ledger of its own: a measurement never touches what serves.

Documents of a ``corpus.jsonl`` go through the ingest pipeline with a loader of their own. Their
corpus id, which may hold anything, becomes one percent-encoded path segment; title and category
become front matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr, ValidationError

from knowport.core.calibration import corpus_hash
from knowport.core.chunking import ChunkingOptions, chunk_document
from knowport.core.identity import make_doc_id
from knowport.core.text import normalise_text
from knowport.errors import ConfigurationError, IndexMismatch, InvalidInput
from knowport.evaluation.datasets import LABEL_FILES, CorpusDocument, Dataset
from knowport.evaluation.measures import ChunkSpan
from knowport.knowledge_base import KnowledgeBase
from knowport.model import FileOutcome, IngestProgress, IngestReport, LoadedFile
from knowport.pipelines.ingest import ingest
from knowport.pipelines.ingest_options import IngestOptions
from knowport.ports import Embedder
from knowport.settings import Settings

_MAX_SEGMENT = 200


@dataclass(frozen=True, slots=True)
class Prepared:
    """A set as it stands in the scratch index.

    ``corpus_ids`` maps document ids to the ids that the labels use. ``not_indexed`` are documents
    of the set that are not in the index, each with the reason. ``fingerprint`` is the SHA-256 over
    the sorted document ids and content hashes.
    """

    corpus_ids: Mapping[str, str]
    chunks: int
    not_indexed: Mapping[str, str]
    fingerprint: str
    embedded: int
    seconds: float


def open_scratch(
    dataset: Dataset, settings: Settings, work: Path, embedder: Embedder | None = None
) -> KnowledgeBase:
    """Open the scratch knowledge base of a set below ``work``; raises what KnowledgeBase raises."""
    identity = asdict(embedder.identity) if embedder else _embedding(settings)
    key = sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    home = work / f"{dataset.name}-{key}"
    local = settings.model_copy(
        update={
            "home": home,
            "milvus": settings.milvus.model_copy(update={"uri": "", "token": SecretStr("")}),
            "ledger": settings.ledger.model_copy(update={"url": SecretStr("")}),
            # A stored trace is no part of a lookup's time, and nobody will ask for these.
            "trace": settings.trace.model_copy(update={"max_count": 0}),
        }
    )
    try:
        # Validated anew: what a server can do the embedded engine may not.
        local = Settings.model_validate(local.model_dump())
    except ValidationError as error:
        reasons = "; ".join(item["msg"].removeprefix("Value error, ") for item in error.errors())
        raise ConfigurationError(
            f"Sets are measured in the embedded engine, which cannot use the settings: {reasons}.",
        ) from None
    try:
        return KnowledgeBase(settings=local, embedder=embedder)
    except IndexMismatch as error:
        error.remedy = f"Delete the scratch folder {home}, or name another one with --work."
        raise


def _embedding(settings: Settings) -> dict[str, object]:
    names = ("provider", "base_url", "model", "dimensions", "query_prefix", "document_prefix")
    return {name: getattr(settings.embedding, name) for name in names}


def prepare(
    kb: KnowledgeBase,
    dataset: Dataset,
    *,
    on_progress: Callable[[IngestProgress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Prepared | None:
    """Bring a set's documents into the scratch index, and nothing else; None if it was stopped."""
    if dataset.corpus is None:
        report = kb.ingest(
            dataset.folder,
            source=dataset.name,
            exclude=[f"/{name}" for name in LABEL_FILES],
            on_progress=on_progress,
            should_stop=should_stop,
        )
        names = {
            result.doc_id: result.doc_id.removeprefix(f"{dataset.name}/")
            for result in report.files
            if result.doc_id and result.reason != "unsupported_format"
        }
    else:
        names = {document_id(dataset, corpus_id): corpus_id for corpus_id in dataset.corpus}
        report = _ingest_corpus(kb, dataset, dataset.corpus, on_progress, should_stop)
    if report.interrupted:
        return None
    for info in kb.documents():
        if info.doc_id not in names:
            kb.delete(info.doc_id)
    stored = kb.documents()
    if not stored:
        raise InvalidInput(
            f"{dataset.folder}: no document of the set could be indexed.",
            field="set",
            remedy="A set has a corpus.jsonl, or Markdown and text files.",
        )
    missing = {
        names[result.doc_id]: f"{result.reason}: {result.detail}"
        for result in report.files
        if result.doc_id in names and result.outcome in (FileOutcome.FAILED, FileOutcome.SKIPPED)
    }
    return Prepared(
        corpus_ids={info.doc_id: names[info.doc_id] for info in stored},
        chunks=sum(info.chunk_count for info in stored),
        not_indexed=missing,
        fingerprint=corpus_hash((info.doc_id, info.content_hash) for info in stored),
        embedded=report.chunks_embedded,
        seconds=report.seconds,
    )


def document_id(dataset: Dataset, corpus_id: str) -> str:
    """The document id of a corpus id, one to one."""
    return make_doc_id(dataset.name, _segment(corpus_id))


def _segment(corpus_id: str) -> str:
    encoded = quote(corpus_id, safe="", errors="surrogatepass")
    if len(encoded) > _MAX_SEGMENT:
        encoded = sha256(corpus_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded}.md"


def _ingest_corpus(
    kb: KnowledgeBase,
    dataset: Dataset,
    corpus: Mapping[str, CorpusDocument],
    on_progress: Callable[[IngestProgress], None],
    should_stop: Callable[[], bool],
) -> IngestReport:
    by_path = {dataset.folder / _segment(name): document for name, document in corpus.items()}

    def find(_root: Path, _include: Sequence[str], _exclude: Sequence[str]) -> Iterator[Path]:
        yield from by_path

    def text(path: Path) -> str:
        document = by_path[path]
        return front_matter(document) + document.text

    def digest(path: Path) -> str:
        return sha256(text(path).encode("utf-8", "surrogatepass")).hexdigest()

    def load(path: Path) -> LoadedFile:
        return LoadedFile(text(path), "markdown", file_hash=digest(path))

    parts = kb._parts
    kb.set_domains(parts.read_catalogue(dataset.folder), source=dataset.name)
    return ingest(
        dataset.folder,
        lambda: replace(parts.ingest_ports(), find=find, digest=digest, load=load),
        IngestOptions(source=dataset.name, kb_scope=kb.settings.retrieval.kb_scope),
        on_progress=on_progress,
        should_stop=should_stop,
    )


def front_matter(document: CorpusDocument) -> str:
    """Title and category of a corpus document as YAML before its text; '' where it has neither."""
    fields = {"title": document.title, "category": document.category}
    # JSON is YAML, and quotes whatever a title may hold.
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in fields.items() if value.strip()]
    return f"---\n{''.join(lines)}---\n" if lines else ""


class AnswerSpans:
    """Where chunks and answers stand in the texts of the index."""

    def __init__(self, kb: KnowledgeBase, dataset: Dataset, prepared: Prepared) -> None:
        self._kb, self._dataset, self._prepared = kb, dataset, prepared
        self._doc_ids = {name: doc_id for doc_id, name in prepared.corpus_ids.items()}
        self._labelled = {span.doc_id for spans in dataset.spans.values() for span in spans}
        self._chunks: dict[str, list[ChunkSpan]] = {}
        self._raw: dict[str, str] = {}

    def answers(self, query_id: str) -> list[ChunkSpan]:
        """Spans of a query in code points of the normalised texts; those of a document that is
        not in the index are kept, and nothing can overlap them."""
        found = []
        for span in self._dataset.spans.get(query_id, ()):
            start, end = span.start, span.end
            if span.doc_id in self._doc_ids:
                raw, shift = self._text(span.doc_id)
                start, end = (len(normalise_text(raw[: shift + at]).text) for at in (start, end))
            found.append(ChunkSpan(span.doc_id, start, end))
        return found

    def chunk(self, corpus_id: str, index: int) -> ChunkSpan:
        """Span of a chunk; of a document without answers it does not matter, and is empty."""
        if corpus_id not in self._labelled:
            return ChunkSpan(corpus_id, index, index)
        return self.chunks(corpus_id)[index]

    def chunks(self, corpus_id: str) -> list[ChunkSpan]:
        """Spans of all chunks of a document, as the ingest cut it; none if it is not there."""
        if corpus_id not in self._chunks:
            found: list[ChunkSpan] = []
            if corpus_id in self._doc_ids:
                _, document = self._kb.document(self._doc_ids[corpus_id])
                chosen = self._kb.settings.chunking
                options = ChunkingOptions(size=chosen.size, overlap=chosen.overlap)
                cut = chunk_document(
                    document.doc_id, document.text, document.text_format, document.title, options
                )
                found = [ChunkSpan(corpus_id, chunk.start, chunk.end) for chunk in cut]
            self._chunks[corpus_id] = found
        return self._chunks[corpus_id]

    def _text(self, corpus_id: str) -> tuple[str, int]:
        """The raw text that was ingested, and where the text that spans count in begins."""
        if self._dataset.corpus is not None:
            document = self._dataset.corpus[corpus_id]
            front = front_matter(document)
            return front + document.text, len(front)
        if corpus_id not in self._raw:
            path = self._dataset.folder / corpus_id
            self._raw[corpus_id] = path.read_text(encoding="utf-8")
        return self._raw[corpus_id], 0
