"""A lookup from its attempts to the answer that an agent sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from knowport.model.search import AttemptName, HitReason, LegWeights, QueryPlan, SearchHit
from knowport.model.values import Notice, SearchMode


class RelevanceLevel(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Assessment:
    """How relevant a hit is.

    ``coverage`` is the share of the query's weight of terms that the chunk holds, 0..1; ``score``
    puts it and the dense cosine on one scale (see ``core.relevance``), None where neither is
    known; a fused score never enters.
    """

    level: RelevanceLevel
    score: float | None = None
    coverage: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit with its evidence key and its original rank (from 1) inside one lookup."""

    key: str
    rank: int
    hit: SearchHit
    reasons: tuple[HitReason, ...]
    assessment: Assessment = Assessment(RelevanceLevel.LOW)


class DropReason(StrEnum):
    DUPLICATE = "duplicate"
    OVER_CAP = "over_cap"
    BELOW_THRESHOLD = "below_threshold"
    BEYOND_RETURN_N = "beyond_return_n"
    OUT_OF_BUDGET = "out_of_budget"


@dataclass(frozen=True, slots=True)
class Drop:
    """A candidate that is not in the answer, and why."""

    key: str
    rank: int
    reason: DropReason


@dataclass(frozen=True, slots=True)
class EvidenceBlock:
    """A candidate that survived selection, with its level of relevance."""

    candidate: Candidate
    level: RelevanceLevel


@dataclass(frozen=True, slots=True)
class PackedEvidence:
    """An evidence block with the excerpt that fits the budget."""

    block: EvidenceBlock
    excerpt: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One search of a lookup and what it found, best first.

    ``assessments`` are one to one with ``hits``. ``weights`` is None where the engine fused.
    ``low_quality`` says why the attempt is not good enough to stand on a guessed filter, or ''.
    ``failed_leg`` names the leg that did not answer, with the reason, or is ''.
    """

    name: AttemptName
    mode: SearchMode
    category: str | None
    hits: tuple[SearchHit, ...]
    assessments: tuple[Assessment, ...] = ()
    weights: LegWeights | None = None
    level: RelevanceLevel = RelevanceLevel.NONE
    low_quality: str = ""
    failed_leg: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one step of a lookup took."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Everything about one lookup; the agent sees its projection only."""

    lookup_id: str
    generation: str
    plan: QueryPlan
    attempts: tuple[Attempt, ...]
    selected_attempt: AttemptName
    candidates: tuple[Candidate, ...]
    found: bool
    level: RelevanceLevel
    calibrated: bool
    evidence: tuple[PackedEvidence, ...]
    drops: tuple[Drop, ...]
    notices: tuple[Notice, ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One excerpt as the agent sees it; ``document_id`` is the evidence key to cite."""

    document_id: str
    source: str
    title: str
    breadcrumb: str
    excerpt: str
    truncated: bool
    relevance_level: RelevanceLevel
    via: AttemptName


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent sees of a lookup: no internal scores.

    ``withheld`` counts, by reason, the candidates that were found and are not in ``evidence``.
    """

    found: bool
    relevance_level: RelevanceLevel
    lookup_id: str
    generation: str
    evidence: tuple[Evidence, ...]
    withheld: Mapping[str, int]
    notices: tuple[Notice, ...]
