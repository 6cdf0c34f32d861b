"""A query, its plan, and what a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from knowport.model.values import Metadata, Notice, RankerName, SearchMode, Vector


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: ``vector`` has the embedder's dimension, ``retrieve_k`` is the leg width.

    Only ``sparse`` does without a vector; the dense cosine of its hits is then not known.
    """

    query: str
    vector: Vector | None
    kb_scope: str
    retrieve_k: int = 20
    mode: SearchMode = "hybrid"
    category: str | None = None
    ranker: RankerName = "rrf"
    rrf_k: int = 60
    weight_dense: float = 1.0
    weight_sparse: float = 0.8


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a hit, kept apart because their scales differ; None where not known.

    ``fused``   what the ranker gave; for RRF the sum of 1/(k + rank); orders, nothing else
    ``dense``   cosine of query and chunk vector, -1..1
    ``sparse``  BM25, 0 or more
    Ranks count from 1 within their leg.
    """

    fused: float | None = None
    dense: float | None = None
    dense_rank: int | None = None
    sparse: float | None = None
    sparse_rank: int | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """What the search port returns."""

    id: str
    doc_id: str
    chunk_index: int | None
    content: str
    title: str
    breadcrumb: str
    source: str
    category: str
    scores: Scores
    metadata: Metadata = field(default_factory=dict)


class AttemptName(StrEnum):
    FILTERED = "filtered"
    UNFILTERED = "unfiltered"


@dataclass(frozen=True, slots=True)
class HitReason:
    """Why a candidate is here: the attempt that found it and the rank it had there (from 1)."""

    attempt: AttemptName
    rank: int


class TermKind(StrEnum):
    IDENTIFIER = "identifier"
    WORD = "word"
    HAN = "han"


@dataclass(frozen=True, slots=True)
class Term:
    """A lexical term of a query; ``text`` is lower case, as it is looked for."""

    text: str
    kind: TermKind


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What will be searched for.

    ``text`` is the normalised query and ``terms`` are its lexical terms. ``lexical`` tells whether
    it has any word that BM25 could match. ``category`` is the caller's hard filter;
    ``domains`` are those that the query names, and ``soft_category`` is the one of them if it is
    alone and no category is given.
    """

    original: str
    text: str
    lexical: bool
    kb_scope: str
    category: str | None
    mode: SearchMode
    notices: tuple[Notice, ...] = ()
    terms: tuple[Term, ...] = ()
    domains: tuple[str, ...] = ()
    soft_category: str | None = None


@dataclass(frozen=True, slots=True)
class LegWeights:
    """How much each leg counts in weighted RRF, 0..1, and why (a stable code)."""

    dense: float
    sparse: float
    reason: str
