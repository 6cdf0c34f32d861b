"""The stored form of calibrated thresholds, and what they are tied to.

A threshold belongs to one embedder, one analyzer, one way of chunking and one corpus. The file
carries the fingerprint of the four; thresholds whose fingerprint differs from that of the
knowledge base at hand have expired and are not used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from knowport.core.chunking import ChunkingOptions
from knowport.core.relevance import Thresholds
from knowport.model import EmbedderIdentity

FILE_NAME = "calibration.json"
FORMAT = 2
_KEYS = ("low", "medium", "high", "lexical_weight", "amount_weight", "language_offset")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hex digests of what a threshold depends on."""

    embedder: str
    analyzer: str
    chunking: str
    corpus: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibrated thresholds and the kb_scope that they were fitted on."""

    thresholds: Thresholds
    kb_scope: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Why a stored calibration is not used."""

    reason: str


def fingerprint(
    embedder: EmbedderIdentity,
    analyzer: Mapping[str, Any],
    chunking: ChunkingOptions,
    documents: Iterable[tuple[str, str]],
) -> Fingerprint:
    """Fingerprint of a knowledge base; ``documents`` are ids and content hashes of its scope."""
    return Fingerprint(
        embedder=_digest(asdict(embedder)),
        analyzer=_digest(dict(analyzer)),
        chunking=_digest(asdict(chunking)),
        corpus=corpus_hash(documents),
    )


def corpus_hash(documents: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over sorted document ids and content hashes."""
    return _digest(sorted(documents))


def dump_calibration(
    calibration: Calibration, fitted_on: Fingerprint, report: Mapping[str, Any]
) -> str:
    """The file's text; ``report`` tells people how the thresholds came about."""
    values = {name: getattr(calibration.thresholds, name) for name in _KEYS}
    payload = {
        "format": FORMAT,
        "kb_scope": calibration.kb_scope,
        "thresholds": values,
        "fingerprint": asdict(fitted_on),
        "report": report,
    }
    return json.dumps(payload, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def load_calibration(text: str, current: Fingerprint) -> Calibration | Expired:
    """The calibration in a file's text, or why it cannot serve the knowledge base at hand."""
    try:
        payload = json.loads(text)
        if payload["format"] != FORMAT:
            return Expired(f"it has format {payload['format']}, not {FORMAT}")
        fitted_on = Fingerprint(**payload["fingerprint"])
        values = {name: float(payload["thresholds"][name]) for name in _KEYS}
        scope = str(payload["kb_scope"])
    except (ValueError, TypeError, KeyError) as error:
        return Expired(f"the file cannot be read ({type(error).__name__}: {error})")
    if not (
        all(map(math.isfinite, values.values()))
        and values["low"] < values["medium"] < values["high"]
    ):
        return Expired("its thresholds are not ascending numbers")
    changed = [name for name, value in asdict(current).items() if value != getattr(fitted_on, name)]
    if changed:
        return Expired(f"the {' and the '.join(changed)} changed since")
    thresholds = Thresholds(
        low=values["low"],
        medium=values["medium"],
        high=values["high"],
        lexical_weight=values["lexical_weight"],
        amount_weight=values["amount_weight"],
        language_offset=values["language_offset"],
        calibrated=True,
    )
    return Calibration(thresholds, scope)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
