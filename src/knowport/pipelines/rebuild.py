"""Build the index anew while it serves, prove the new one, switch to it, and back.

::

    start      a new generation beside the active one, filled from the ledger's texts
    verify     prove it (``rebuild_verify``)
    activate   catch up with what was written meanwhile, and switch: one transaction
    rollback   the same, back to the generation before
    run        start (or go on), verify, activate

What a generation's state says, and what is done about it. Every step can be interrupted anywhere
and be asked for again:

=========  ================================  ============================  =========================
state      what there may be                 at the next start             then
=========  ================================  ============================  =========================
building   a collection or none, some        it stays; the active one      ``run`` goes on, if the
           documents in it, the one at       answers                       settings are the same
           hand half written                                               still; ``abort``
building,  nothing                           the first write makes it      ingest
and none
is active
built      every document as it was          it stays                      ``run``, ``verify``,
                                                                           ``activate --force``,
                                                                           ``abort``
verified   the same, and a report            it stays                      ``run``, ``activate``,
                                                                           ``abort``
active     it answers and is written to      unfinished documents are      ``run``
                                             finished (``recovery``); a
                                             lost collection is an error
                                             that names ``run``
previous   every document as it was when     it stays                      ``rollback``, ``drop``
           it stopped being active
dropping   a collection or none              the drop is finished          nothing is left
=========  ================================  ============================  =========================

A killed ``activate`` has switched or has not, because the switch is one transaction; in the second
case the generation is still what it was. Collections that the ledger does not know are told of and
never touched, unless one is named: they may be another knowledge base's.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from knowport.core.mismatch import differences, recut
from knowport.errors import RebuildError
from knowport.model import BuiltDocument, Generation, GenerationState
from knowport.pipelines.rebuild_fill import Filler, expected_chunks, pending
from knowport.pipelines.rebuild_ports import (
    BuildReport,
    Collection,
    GenerationStatus,
    Judge,
    OnProgress,
    RebuildPorts,
    RebuildProgress,
    RebuildStatus,
    RunReport,
    SwitchReport,
    Target,
    VerifyReport,
)
from knowport.pipelines.rebuild_verify import SAMPLE, prove
from knowport.ports import Ledger

UNDER_WAY: tuple[GenerationState, ...] = ("building", "built", "verified")
_STATUS = "See `knowport rebuild status`."
_RUN = "`knowport rebuild run`"


class Rebuild:
    """The steps of a rebuild. One at a time; lookups and writes go on meanwhile.

    Each step raises RebuildError where it cannot be done in the state that things are in, and
    EngineError, EmbeddingError or LedgerError; what was done until then stays.
    """

    def __init__(self, ports: RebuildPorts) -> None:
        self._ports = ports
        self._ledger: Ledger = ports.ledger

    # -- looking ----------------------------------------------------------------------------

    def status(self) -> RebuildStatus:
        """Every generation and what can be done next."""
        ports = self._ports
        generations = self._ledger.generations()
        active = next((known for known in generations if known.state == "active"), None)
        total = len(self._ledger.documents())
        rows = [self._status_of(known, total) for known in generations]
        collections = {known.collection for known in generations}
        differs = () if active is None else plan_differences(active, ports.wanted("", ""))
        return RebuildStatus(
            generations=tuple(rows),
            differs=differs,
            unknown=tuple(name for name in ports.collections() if name not in collections),
            next_step=_next_step(rows, differs),
        )

    def _status_of(self, known: Generation, total: int) -> GenerationStatus:
        present = total
        if known.state != "active":
            left = pending(self._ledger, known.name)
            present = max(total - len(left.changed), 0)
        lost = not self._ports.collection(known).exists()
        return GenerationStatus(known, present, total, lost)

    # -- steps ------------------------------------------------------------------------------

    def start(
        self,
        *,
        on_progress: OnProgress = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> BuildReport:
        """Begin a new generation as the settings ask for it, and build it.

        Refused where one is under way already.
        """
        with self._ports.alone():
            under_way = self._under_way()
            if under_way is not None:
                raise RebuildError(
                    f"A rebuild is under way: generation {under_way.name} is {under_way.state}.",
                    remedy=f"{_RUN} goes on with it, `knowport rebuild abort` drops it.",
                )
            return self._build(self._begin(), on_progress, should_stop)

    def verify(
        self,
        *,
        judge: Judge | None = None,
        sample: int = SAMPLE,
        on_progress: OnProgress = lambda _: None,
    ) -> VerifyReport:
        """Prove the generation that is built. What is damaged is built anew by the next ``run``."""
        with self._ports.alone():
            return self._verify(self._required(("built", "verified")), judge, sample, on_progress)

    def activate(
        self, *, force: bool = False, on_progress: OnProgress = lambda _: None
    ) -> SwitchReport:
        """Switch to the generation that is verified; ``force`` takes one that is not, and is
        recorded with it."""
        with self._ports.alone():
            generation = self._required(("built", "verified"))
            if generation.state != "verified" and not force:
                failed = "; ".join(generation.report.get("failures", ()))
                raise RebuildError(
                    f"Generation {generation.name} is not verified"
                    + (f": {failed}." if failed else "."),
                    remedy="Run `knowport rebuild verify`, or insist with --force.",
                )
            return self._switch(generation, force and generation.state != "verified", on_progress)

    def run(
        self,
        *,
        judge: Judge | None = None,
        force: bool = False,
        sample: int = SAMPLE,
        on_progress: OnProgress = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> RunReport:
        """Build, verify and switch; goes on with a rebuild that was interrupted.

        Raises RebuildError where the verification fails, unless ``force``.
        """
        with self._ports.alone():
            generation = self._under_way() or self._begin()
            differs = plan_differences(generation, self._ports.wanted("", ""))
            if differs:
                raise RebuildError(
                    f"Generation {generation.name} is {generation.state} with other settings: "
                    f"{'; '.join(differs)}.",
                    remedy="Restore those settings to go on with it, or drop it with "
                    "`knowport rebuild abort`.",
                )
            built = self._build(generation, on_progress, should_stop)
            if built.stopped:
                return RunReport(built)
            verified = self._verify(self._required(("built",)), judge, sample, on_progress)
            if not verified.passed and not force:
                raise RebuildError(
                    f"Generation {generation.name} did not pass, so nothing was switched: "
                    f"{'; '.join(failure.rstrip('.') for failure in verified.failures)}.",
                    remedy=f"{_RUN} mends what is damaged and verifies again; `knowport rebuild "
                    "abort` drops it; `knowport rebuild activate --force` insists.",
                )
            if should_stop():
                return RunReport(built, verified)
            generation = self._required(("built", "verified"))
            switched = self._switch(generation, not verified.passed, on_progress)
            return RunReport(built, verified, switched)

    def rollback(
        self, name: str | None = None, *, on_progress: OnProgress = lambda _: None
    ) -> SwitchReport:
        """Switch back to the generation that was active before, or to the previous one named."""
        with self._ports.alone():
            previous = [g for g in self._ledger.generations() if g.state == "previous"]
            chosen = [g for g in previous if name in (None, g.name)]
            if not chosen:
                raise RebuildError(
                    "There is no generation to roll back to."
                    if name is None
                    else f"There is no previous generation {name}.",
                    remedy=_STATUS,
                )
            latest = max(chosen, key=lambda known: known.activated_at)
            return self._switch(latest, False, on_progress)

    def abort(self) -> str:
        """Drop the generation that is being built, built or verified; returns its name."""
        with self._ports.alone():
            generation = self._required(UNDER_WAY)
            drop(generation, self._ledger, self._ports.collection(generation))
            return generation.name

    def drop(self, name: str) -> str:
        """Drop a generation that is not active, or a collection that looks like one and that the
        ledger does not know; returns the collection's name."""
        with self._ports.alone():
            known = {generation.name: generation for generation in self._ledger.generations()}
            if name in known:
                drop(known[name], self._ledger, self._ports.collection(known[name]))
                return known[name].collection
            of_ledger = {generation.collection for generation in known.values()}
            if name in of_ledger or name not in self._ports.collections():
                raise RebuildError(f"There is no generation {name}.", remedy=_STATUS)
            self._ports.drop_collection(name)
            return name

    # -- inside a step ----------------------------------------------------------------------

    def _under_way(self) -> Generation | None:
        return next((g for g in self._ledger.generations() if g.state in UNDER_WAY), None)

    def _required(self, states: Sequence[GenerationState]) -> Generation:
        """The generation under way, which must be in one of the states."""
        generation = self._under_way()
        if generation is None:
            raise RebuildError("No rebuild is under way.", remedy=f"{_RUN} begins one.")
        if generation.state not in states:
            raise RebuildError(
                f"Generation {generation.name} is {generation.state}, not {' or '.join(states)}.",
                remedy=f"{_RUN} goes on with it.",
            )
        return generation

    def _begin(self) -> Generation:
        """Record a new generation. Its name and collection are never used again: an old answer
        names its generation, and a reader may still have an old collection open."""
        with self._ledger.exclusive():
            generations = self._ledger.generations()
            if not any(known.state == "active" for known in generations):
                raise RebuildError(
                    "There is no index to rebuild yet.",
                    remedy="Ingest documents first (`knowport ingest PATH`).",
                )
            numbers = [int(known.name.partition("-")[0].lstrip("g")) for known in generations]
            number, tag = max(numbers) + 1, secrets.token_hex(3)
            collection = f"{self._ports.prefix}_g{number}_{tag}"
            generation = self._ports.wanted(f"g{number}-{tag}", collection)
            self._ledger.save_generation(generation)
            return generation

    def _save(self, generation: Generation, **changes: Any) -> Generation:
        """Record changes of a generation that is still in the state it was seen in."""
        with self._ledger.exclusive():
            known = {g.name: g for g in self._ledger.generations()}.get(generation.name)
            if known is None or known.state != generation.state:
                raise RebuildError(
                    f"Generation {generation.name} was {generation.state} and is "
                    f"{known.state if known else 'gone'} now.",
                    remedy=_STATUS,
                )
            changed = replace(known, **changes)
            self._ledger.save_generation(changed)
            return changed

    def _build(
        self, generation: Generation, on_progress: OnProgress, should_stop: Callable[[], bool]
    ) -> BuildReport:
        target = self._ports.target(generation)
        if not target.index.exists():
            if generation.state != "building":
                generation = self._save(generation, state="building", report={})
                target = replace(target, generation=generation)
            self._ledger.drop_built(target.name, list(self._ledger.built(target.name)))
            if not self._is_proved(generation):
                target.index.prove_analyzer()
            target.index.create()
        filler = Filler(
            self._ledger,
            target,
            generation.state,
            on_progress=on_progress,
            should_stop=should_stop,
        )
        stopped = filler.fill()
        if not stopped:
            self._save(generation, state="built")
        return filler.report(stopped=stopped)

    def _is_proved(self, generation: Generation) -> bool:
        """Whether this engine has shown with another generation that the analyzer works."""
        return any(
            dict(known.analyzer) == dict(generation.analyzer)
            and known.proved_on == generation.proved_on
            for known in self._ledger.generations()
            if known.state in ("active", "previous")
        )

    def _target(self, generation: Generation) -> Target:
        """A generation that was built, opened."""
        target = self._ports.target(generation)
        if not target.index.exists():
            remedy = f"{_RUN} builds it anew"
            if generation.state == "previous":
                remedy = f"Drop it (`knowport rebuild drop {generation.name}`)"
            raise RebuildError(
                f"The collection {generation.collection} of generation {generation.name} is gone.",
                remedy=f"{remedy}.",
            )
        return target

    def _verify(
        self, generation: Generation, judge: Judge | None, sample: int, on_progress: OnProgress
    ) -> VerifyReport:
        target = self._target(generation)
        active = self._ledger.active_generation()
        assert active is not None  # else nothing could have been built
        serving: Collection | None = self._ports.collection(active)
        if serving is not None and not serving.exists():
            serving = None
        proof = prove(target, serving, self._ledger, sample=sample, on_progress=on_progress)
        failures, report = proof.failures, dict(proof.report)
        if judge is not None and serving is not None:
            on_progress(RebuildProgress("judge", 0, 0))
            verdict = judge(self._ports.lookup(active), self._ports.lookup(generation))
            failures += verdict.failures
            report["judge"] = dict(verdict.report)
        report |= {
            "verified_at": _now(),
            "against": active.name if serving is not None else "",
            "passed": not failures,
            "failures": list(failures),
        }
        self._ledger.store_built(
            target.name, [BuiltDocument(doc_id, "", ()) for doc_id in proof.damaged]
        )
        self._save(generation, state="built" if failures else "verified", report=report)
        return VerifyReport(target.name, failures, report)

    def _switch(
        self, generation: Generation, forced: bool, on_progress: OnProgress
    ) -> SwitchReport:
        started = time.monotonic()
        target = self._target(generation)
        active = self._ledger.active_generation()
        filler = Filler(self._ledger, target, generation.state, on_progress=on_progress)
        filler.fill()
        with self._ledger.exclusive():
            blocked_from = time.monotonic()
            filler.finish()
            _refuse_other_count(target, self._ledger)
            self._ledger.activate(target.name, activated_at=_now(), forced=forced)
            blocked = time.monotonic() - blocked_from
        warning = self._ports.switched()
        return SwitchReport(
            generation=target.name,
            previous=active.name if active else "",
            forced=forced,
            caught_up=filler.handled,
            blocked=blocked,
            seconds=time.monotonic() - started,
            warning=warning,
        )


def drop(generation: Generation, ledger: Ledger, collection: Collection) -> None:
    """Drop a generation that is not active, so that it can be interrupted anywhere."""
    with ledger.exclusive():
        active = ledger.active_generation()
        if active is not None and active.name == generation.name:
            raise RebuildError(
                f"Generation {generation.name} is the active one and cannot be dropped.",
                remedy="Switch to another one first (`knowport rebuild rollback`).",
            )
        ledger.save_generation(replace(generation, state="dropping"))
    if collection.exists():
        collection.drop()
    ledger.drop_generation(generation.name)


def finish_drops(ledger: Ledger, collection: Callable[[Generation], Collection]) -> None:
    """Finish the drops that were interrupted. Raises EngineError or LedgerError."""
    for generation in ledger.generations():
        if generation.state == "dropping":
            drop(generation, ledger, collection(generation))


def plan_differences(generation: Generation, wanted: Generation) -> tuple[str, ...]:
    """All in which a generation is not what the settings ask for."""
    return (*differences(generation, wanted), *recut(generation, wanted))


def _refuse_other_count(target: Target, ledger: Ledger) -> None:
    expected, stored = expected_chunks(ledger, target.name), target.index.count()
    if stored != expected:
        again = (
            f"Drop it (`knowport rebuild drop {target.name}`)"
            if target.generation.state == "previous"
            else f"{_RUN} finds out which and mends them"
        )
        raise RebuildError(
            f"Generation {target.name} holds {stored} chunks, and {expected} were built. Nothing "
            "was switched.",
            remedy=f"{again}.",
        )


def _next_step(rows: Sequence[GenerationStatus], differs: Sequence[str]) -> str:
    states = {row.generation.state: row for row in rows}
    active = states.get("active")
    if active is None:
        return "There is no index yet: `knowport ingest PATH` makes one."
    for state in UNDER_WAY:
        if state in states:
            return f"{_RUN} goes on with {states[state].generation.name}."
    if active.lost:
        return f"The active collection is gone: {_RUN} builds it anew."
    if differs:
        return f"{_RUN} builds the index with the settings of now."
    return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
