"""The three steps of a rebuild on one generation: build it, verify it, switch to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from knowport.core.mismatch import REBUILD
from knowport.errors import RebuildError
from knowport.model import BuiltDocument, Generation
from knowport.pipelines.rebuild_fill import MOST_PASSES, Filler
from knowport.pipelines.rebuild_ports import (
    BuildReport,
    Judge,
    OnProgress,
    RebuildPorts,
    RebuildProgress,
    SwitchReport,
    Target,
    VerifyReport,
)
from knowport.pipelines.rebuild_states import changed, now
from knowport.pipelines.rebuild_verify import prove
from knowport.ports import Ledger


def build(
    generation: Generation,
    ports: RebuildPorts,
    on_progress: OnProgress,
    should_stop: Callable[[], bool],
) -> BuildReport:
    """Fill a generation, from where it is; its collection is made where it is missing."""
    ledger, target = ports.ledger, ports.target(generation)
    if not target.index.exists():
        if generation.state != "building":
            generation = changed(generation, ledger, state="building", report={})
            target = replace(target, generation=generation)
        ledger.drop_built(target.name, list(ledger.built(target.name)))
        if not _is_proved(generation, ledger):
            target.index.prove_analyzer()
        target.index.create()
    filler = Filler(
        ledger, target, generation.state, on_progress=on_progress, should_stop=should_stop
    )
    stopped = filler.fill()
    if not stopped:
        changed(generation, ledger, state="built")
    return filler.report(stopped=stopped)


def _is_proved(generation: Generation, ledger: Ledger) -> bool:
    """Whether this engine has shown with another generation that the analyzer works."""
    return any(
        dict(known.analyzer) == dict(generation.analyzer)
        and known.proved_on == generation.proved_on
        for known in ledger.generations()
        if known.state in ("active", "previous")
    )


def verify(
    generation: Generation,
    ports: RebuildPorts,
    judge: Judge | None,
    sample: int,
    on_progress: OnProgress,
) -> VerifyReport:
    """Prove a generation against what was built and against the active one, and record it.

    Documents that are damaged lose their marks, so that the next filling writes them again.
    """
    ledger, target = ports.ledger, _opened(generation, ports)
    active = ledger.active_generation()
    assert active is not None  # else nothing could have been built
    serving = ports.collection(active)
    lost = not serving.exists()
    proof = prove(target, None if lost else serving, ledger, sample=sample, on_progress=on_progress)
    failures, report = proof.failures, dict(proof.report)
    if judge is not None and not lost:
        on_progress(RebuildProgress("judge", 0, 0))
        verdict = judge(ports.lookup(active), ports.lookup(generation))
        failures += verdict.failures
        report["judge"] = dict(verdict.report)
    report |= {
        "verified_at": now(),
        "against": "" if lost else active.name,
        "passed": not failures,
        "failures": list(failures),
    }
    ledger.store_built(target.name, [BuiltDocument(doc_id, "", ()) for doc_id in proof.damaged])
    changed(generation, ledger, state="built" if failures else "verified", report=report)
    return VerifyReport(target.name, failures, report)


def switch(
    generation: Generation, ports: RebuildPorts, on_progress: OnProgress, *, forced: bool
) -> SwitchReport:
    """Catch a generation up while others write, then once more while they wait, and activate it."""
    started = time.monotonic()
    ledger, target = ports.ledger, _opened(generation, ports)
    active = ledger.active_generation()
    filler = Filler(ledger, target, generation.state, on_progress=on_progress)
    passes, blocked = 0, None
    while blocked is None:
        passes += 1
        filler.fill(passes=1)
        patient = passes < MOST_PASSES
        blocked = _activate(target, ledger, filler, patient=patient, forced=forced)
    warning = ports.switched()
    return SwitchReport(
        generation=target.name,
        previous=active.name if active else "",
        forced=forced,
        caught_up=filler.handled,
        blocked=blocked,
        seconds=time.monotonic() - started,
        warning=warning,
    )


def _activate(
    target: Target, ledger: Ledger, filler: Filler, *, patient: bool, forced: bool
) -> float | None:
    """Catch up with the last writes as the only writer, and activate; returns for how long others
    waited, in seconds.

    A ``patient`` one does not let them wait while more is embedded than the embedder takes at once:
    it does nothing and returns None.
    """
    with ledger.exclusive():
        blocked_from = time.monotonic()
        if not filler.finish(at_most=target.embedder.batch_size if patient else None):
            return None
        _refuse_other_count(target, ledger)
        ledger.activate(target.name, activated_at=now(), forced=forced)
        return time.monotonic() - blocked_from


def _opened(generation: Generation, ports: RebuildPorts) -> Target:
    """A generation that was built. Raises RebuildError where its collection is gone."""
    target = ports.target(generation)
    if not target.index.exists():
        previous = generation.state == "previous"
        raise RebuildError(
            f"The collection {generation.collection} of generation {generation.name} is gone.",
            remedy=f"Drop it (`knowport rebuild drop {generation.name}`)."
            if previous
            else f"{REBUILD} builds it anew.",
        )
    return target


def _refuse_other_count(target: Target, ledger: Ledger) -> None:
    expected, stored = ledger.built_chunks(target.name), target.index.count()
    if stored != expected:
        previous = target.generation.state == "previous"
        raise RebuildError(
            f"Generation {target.name} holds {stored} chunks, and {expected} were built. Nothing "
            "was switched.",
            remedy=f"Drop it (`knowport rebuild drop {target.name}`)."
            if previous
            else f"{REBUILD} finds out which, and mends them.",
        )
