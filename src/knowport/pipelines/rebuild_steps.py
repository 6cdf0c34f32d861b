"""The three steps of a rebuild on one generation: build it, verify it, switch to it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from knowport.core.mismatch import REBUILD
from knowport.errors import EmbeddingError, LedgerError, RebuildError
from knowport.model import BuiltDocument, Generation, Metadata
from knowport.pipelines.rebuild_fill import MOST_PASSES, Filler
from knowport.pipelines.rebuild_ports import (
    BuildReport,
    Judge,
    OnProgress,
    RebuildPorts,
    RebuildProgress,
    SwitchReport,
    Target,
    Verdict,
    VerifyReport,
)
from knowport.pipelines.rebuild_sides import judged
from knowport.pipelines.rebuild_states import changed, now
from knowport.pipelines.rebuild_verify import prove
from knowport.ports import Embedder, Ledger


def build(
    generation: Generation,
    ports: RebuildPorts,
    on_progress: OnProgress,
    should_stop: Callable[[], bool],
) -> BuildReport:
    """Fill a generation, from where it is; its collection is made as far as it is missing."""
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
        report = _outlasting(generation.report) if filler.handled else generation.report
        changed(generation, ledger, state="built", report=report)
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

    Documents that are damaged lose their marks, so that the next filling writes them again. Where
    some have lost them before it begins with that, and where a judge compares, because that can be
    done only with what is in both.
    """
    ledger, target = ports.ledger, _opened(generation, ports)
    active = ledger.active_generation()
    assert active is not None  # else nothing could have been built
    unmarked = "" in ledger.built(target.name).values()
    if unmarked and not generation.report.get("passed", True):  # of what is mended now
        generation = changed(generation, ledger, report=_outlasting(generation.report))
    if unmarked or judge is not None:
        Filler(ledger, target, generation.state, on_progress=on_progress).fill()
    serving = ports.collection(active)
    unread = "" if serving.exists() else "its collection is gone"
    by_words = serving if active.lexical and not unread else None
    proof = prove(target, by_words, ledger, sample=sample, on_progress=on_progress)
    failures, report = proof.failures + _unable(target.embedder), dict(proof.report)
    unread = unread or proof.unread
    if judge is not None and not unread:
        on_progress(RebuildProgress("judge", 0, 0))
        lookups = ports.lookup(active), ports.lookup(generation)
        verdict = judged(judge, *lookups, target=target, ledger=ledger)
        if isinstance(verdict, Verdict):
            failures += verdict.failures
            report |= {"judge": dict(verdict.report), "judged_against": list(verdict.failures)}
        else:
            unread = verdict.message
    elif judge is None and generation.report.get("judged_against"):
        report |= _outlasting(generation.report)
        failures += tuple(
            f"{sentence}; that stands until it passes with labelled queries (`--queries`)"
            for sentence in report["judged_against"]
        )
    if not unread and judge is None and target.generation.lexical and not active.lexical:
        unread = "it has no lexical index"
    report |= {
        "verified_at": now(),
        "against": "" if unread else active.name,
        "not_compared": unread.rstrip("."),
        "passed": not failures,
        "failures": list(failures),
    }
    ledger.store_built(target.name, [BuiltDocument(doc_id, "", ()) for doc_id in proof.damaged])
    changed(generation, ledger, state="built" if failures else "verified", report=report)
    return VerifyReport(target.name, failures, report)


def _outlasting(report: Metadata) -> dict[str, Any]:
    """What labelled queries spoke against, which is not mended by writing documents again."""
    if not report.get("judged_against"):
        return {}
    return {name: report[name] for name in ("judge", "judged_against")}


def _unable(embedder: Embedder) -> tuple[str, ...]:
    """Stored vectors say nothing of an embedder that is away: it has to answer for a new text."""
    try:
        embedder.embed_query(f"knowport {secrets.token_hex(8)}")
    except EmbeddingError as error:
        return (f"its embedder does not embed a query: {error.message.rstrip('.')}",)
    return ()


def switch(
    generation: Generation, ports: RebuildPorts, on_progress: OnProgress, *, forced: bool
) -> SwitchReport:
    """Catch a generation up while others write, then once more while they wait, and activate it."""
    started = time.monotonic()
    ledger, target = ports.ledger, _opened(generation, ports)
    active = ledger.active_generation()
    filler = Filler(ledger, target, generation.state, on_progress=on_progress)
    passes, waits, done = 0, [], False
    while not done:
        passes += 1
        filler.fill(passes=1)
        with ledger.exclusive():
            blocked_from = time.monotonic()
            done = filler.finish(patient=passes < MOST_PASSES)
            if done:
                _refuse_other_count(target, ledger)
                ledger.activate(target.name, activated_at=now(), forced=forced)
            waits.append(time.monotonic() - blocked_from)
    warnings = [ports.switched()]
    try:
        ledger.tidy_up()
    except LedgerError as error:  # the switch is made all the same, and the next one tidies up
        warnings.append(f"The ledger could not be tidied up: {error}")
    return SwitchReport(
        generation=target.name,
        previous=active.name if active else "",
        forced=forced,
        caught_up=filler.handled,
        blocked=max(waits),
        seconds=time.monotonic() - started,
        warning=" ".join(filter(None, warnings)),
    )


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
