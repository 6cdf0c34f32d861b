"""Labelled questions about a knowledge base at hand, and what its lookups bring for them.

One JSON object a line: ``text`` (or ``query``) is the question; the relevant documents stand in
``documents`` (ids) or ``evidence`` (objects with ``document``, as in examples/ops-kb/labels.jsonl);
an empty list says that the knowledge base has no answer. An id may be the whole document id or its
end from a ``/`` on, where that is unique. Other fields are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowport.core import relevance
from knowport.core.relevance import Thresholds
from knowport.errors import EmbeddingError, InvalidInput
from knowport.evaluation.datasets import json_lines
from knowport.evaluation.fitting import Block, Sample
from knowport.evaluation.runs import Stopped, without_thresholds
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Assessment

_REMEDY = "docs/evaluation.md tells what a line holds."


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A question and the documents that answer it; none: it ought to be refused."""

    query_id: str
    text: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """Samples to fit on, and the queries left out, each with the reason."""

    samples: tuple[Sample, ...]
    left_out: Mapping[str, str]


def read_labelled(path: Path) -> tuple[LabelledQuery, ...]:
    """Read the file; raises InvalidInput naming the line."""
    return labelled(json_lines(path), str(path))


def labelled(
    rows: Iterable[tuple[int, Mapping[str, Any]]], origin: str
) -> tuple[LabelledQuery, ...]:
    """Queries of JSON objects, each with the number of its line; raises InvalidInput naming that
    and their ``origin``."""
    found: dict[str, LabelledQuery] = {}
    for number, row in rows:
        text = row.get("text", row.get("query"))
        if not isinstance(text, str) or not text.strip():
            raise _bad(origin, number, "'text' is missing, blank or not a text")
        query_id = str(row.get("_id", row.get("id", f"line {number}")))
        if query_id in found:
            raise _bad(origin, number, f"the id {query_id!r} stands there a second time")
        documents = _documents(origin, number, row)
        found[query_id] = LabelledQuery(query_id, text, documents)
    if not found:
        raise InvalidInput(f"{origin} holds no query.", field="queries", remedy=_REMEDY)
    return tuple(found.values())


def _documents(origin: str, number: int, row: Mapping[str, Any]) -> tuple[str, ...]:
    named = row.get("documents")
    if named is None and isinstance(row.get("evidence"), list):
        named = [
            item.get("document") if isinstance(item, dict) else None for item in row["evidence"]
        ]
    if not isinstance(named, list) or not all(isinstance(name, str) and name for name in named):
        raise _bad(
            origin,
            number,
            "neither 'documents' nor 'evidence' lists the documents (an empty "
            "list: there is no answer)",
        )
    return tuple(dict.fromkeys(named))


def collect(
    kb: KnowledgeBase,
    queries: Sequence[LabelledQuery],
    *,
    on_query: Callable[[int, int], None] = lambda _done, _total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Collected:
    """Look every query up; judge what would be returned if no threshold held anything back.

    With a calibration a lookup is refused when not one of the first ``return_n`` reaches the
    lowest threshold (``core.selection``), so a sample carries these and no others.

    Left out: a query that the embedder refused, whose lookup lost a leg or found nothing at all,
    and one whose documents are not in the index (then its label says nothing). Raises Stopped.
    """
    scale, return_n = kb.thresholds, kb.settings.rag.return_n
    resolve = Resolver(info.doc_id for info in kb.documents())
    samples, left_out = [], {}
    for done, query in enumerate(queries):
        if should_stop():
            raise Stopped
        on_query(done, len(queries))
        gold = {resolve(name) for name in query.documents} - {""}
        if query.documents and not gold:
            left_out[query.query_id] = f"not in the index: {', '.join(query.documents)}"
            continue
        try:
            result = kb.run_lookup(query.text, traced=False)
        except (EmbeddingError, InvalidInput) as error:
            left_out[query.query_id] = error.message
            continue
        if any(notice.code == "degraded" for notice in result.notices):
            left_out[query.query_id] = "one leg of the search failed"
            continue
        kept = without_thresholds(kb, result)
        blocks = tuple(
            _block(c.hit.scores.dense, c.assessment, len(result.plan.terms), scale)
            for c in sorted(result.candidates, key=lambda c: c.rank)[:return_n]
            if c.hit.scores.dense is not None
        )
        if not blocks:
            left_out[query.query_id] = "nothing was found"
            continue
        right = any(candidate.hit.doc_id in gold for candidate in kept)
        samples.append(
            Sample(query.query_id, bool(query.documents), right, blocks, refused=not result.found)
        )
    on_query(len(queries), len(queries))
    return Collected(tuple(samples), left_out)


def _block(cosine: float, assessment: Assessment, terms: int, scale: Thresholds) -> Block:
    assert assessment.score is not None  # a known cosine gives a score
    coverage = assessment.coverage
    amount = relevance.amount(coverage, terms)
    lexical = scale.lexical_weight * coverage + scale.amount_weight * amount
    rest = assessment.score - cosine - lexical
    return Block(cosine, coverage, amount, rest if abs(rest) > 1e-9 else 0.0)


class Resolver:
    def __init__(self, doc_ids: Iterable[str]) -> None:
        self._known: dict[str, str] = {}
        for doc_id in doc_ids:
            self._known[doc_id] = doc_id
            parts = doc_id.split("/")
            for start in range(1, len(parts)):
                end = "/".join(parts[start:])
                # '' where several documents end like that
                self._known[end] = "" if end in self._known else doc_id

    def __call__(self, name: str) -> str:
        """The document id that was meant, or ''."""
        return self._known.get(name, "")


def _bad(origin: str, line: int, problem: str) -> InvalidInput:
    return InvalidInput(f"{origin}:{line}: {problem}.", field="queries", remedy=_REMEDY)
