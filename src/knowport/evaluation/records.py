"""What is recorded of one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowport.evaluation.measures import ChunkSpan


@dataclass(frozen=True, slots=True)
class QueryRun:
    """What one query got. Ids are corpus ids.

    ``documents``  ranked by their first candidate chunk, each once, before thresholds and cap
    ``returned``   the evidence, best first, with spans in code points
    ``unfiltered_documents``  of the evidence as it would be without thresholds
    ``score``      highest relevance score of all candidates (``core.relevance``), None if unknown:
                   the lookup is refused where it is below the lowest threshold
    ``milliseconds``  by step, and ``total`` as a caller sees it
    ``error``      why there is no answer, or ''
    """

    query_id: str
    documents: tuple[str, ...] = ()
    returned: tuple[ChunkSpan, ...] = ()
    evidence: tuple[str, ...] = ()
    unfiltered_documents: tuple[str, ...] = ()
    answers: tuple[ChunkSpan, ...] = ()
    chunks_with_answer: int = 0
    found: bool = False
    level: str = "none"
    score: float | None = None
    attempts: tuple[str, ...] = ()
    selected_attempt: str = ""
    guessed_category: str = ""
    notices: tuple[str, ...] = ()
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
