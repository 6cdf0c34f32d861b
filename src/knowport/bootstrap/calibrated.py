"""The thresholds of a generation that is served, calibrated or not, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

from knowport.bootstrap.serving import Serving
from knowport.core.calibration import (
    FILE_NAME,
    Calibration,
    Expired,
    Fingerprint,
    fingerprint,
    load_calibration,
)
from knowport.core.mismatch import REBUILD
from knowport.core.relevance import Thresholds, default_thresholds
from knowport.model import Notice
from knowport.ports import Ledger
from knowport.settings import Settings


def fingerprint_of(serving: Serving, ledger: Ledger, settings: Settings) -> Fingerprint:
    """What calibrated thresholds of the configured scope depend on, as it stands now."""
    documents = ledger.documents(kb_scope=settings.retrieval.kb_scope)
    return fingerprint(
        serving.embedder.identity,
        serving.generation.analyzer if serving.generation else {},
        serving.chunking,
        ((info.doc_id, info.content_hash) for info in documents),
    )


def calibrated(serving: Serving, ledger: Ledger, settings: Settings) -> Serving:
    """The serving with the stored calibration, if there is one, or why it does not fit."""
    path = settings.home / FILE_NAME
    if not path.is_file():
        return replace(serving, calibration=None)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return replace(serving, calibration=Expired(f"the file cannot be read ({error})"))
    current = fingerprint_of(serving, ledger, settings)
    return replace(serving, calibration=load_calibration(text, current))


def thresholds_of(serving: Serving, settings: Settings, kb_scope: str) -> Thresholds:
    """The thresholds in force in a scope."""
    calibration = serving.calibration
    if isinstance(calibration, Calibration) and calibration.kb_scope == kb_scope:
        return calibration.thresholds
    return default_thresholds(
        serving.embedder.identity, settings.retrieval.normalization.reference_threshold
    )


def notices_of(serving: Serving) -> tuple[Notice, ...]:
    """What the reader of any answer should know about the generation that it came from."""
    said = list(serving.behind)
    if serving.differs:
        said.append(
            Notice(
                "index_differs",
                f"The index was built with other settings: {'; '.join(serving.differs)}. It "
                f"answers as it is and takes no writes; {REBUILD} builds it anew.",
            )
        )
    if isinstance(serving.calibration, Expired):
        said.append(
            Notice(
                "calibration_expired",
                f"The calibration is not used, because {serving.calibration.reason}: relevance "
                "levels are the default ones. Run `knowport calibrate` again.",
            )
        )
    return tuple(said)


def warnings_of(serving: Serving) -> tuple[str, ...]:
    """What whoever runs the knowledge base should know about it."""
    said = [notice.message for notice in notices_of(serving)]
    if serving.recut:
        said.append(
            f"The index is cut otherwise than the settings say ({', '.join(serving.recut)}). What "
            f"is ingested is cut as the index is; {REBUILD} applies the settings."
        )
    return tuple(said)
