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
building   a collection, whole or half       it stays; the active one      ``run`` goes on, if the
           made, or none; some documents     answers                       settings are the same
           in it, the one at hand half                                     still; ``abort``
           written
building,  nothing                           it stays                      the next ingest makes it;
and none                                                                   every step is refused
is active
built      every document as it was          it stays                      ``run``, ``verify``,
                                                                           ``activate --force``,
                                                                           ``abort``
verified   the same, and a report            it stays                      ``run``, ``activate``,
                                                                           ``abort``
active     it answers and is written to;     unfinished documents are      ``run``
           before the first document its     finished (``recovery``), a
           collection may be half made,      half made collection is made
           or none                           whole; a lost collection is
                                             an error that names ``run``
previous   every document as it was when     it stays                      ``rollback``, ``drop``
           it stopped being active
dropping   a collection or none              the drop is finished, after   nothing is left
                                             the alias has left it
=========  ================================  ============================  =========================

A killed ``activate`` has switched or has not, because the switch is one transaction; in the second
case the generation is still what it was. Collections that the ledger does not know are told of and
never touched, unless one is named: they may be another knowledge base's.
"""

from __future__ import annotations

from collections.abc import Callable

from knowport.core.mismatch import REBUILD
from knowport.errors import RebuildError
from knowport.model import Generation
from knowport.pipelines.rebuild_ports import (
    BuildReport,
    Judge,
    NotVerified,
    OnProgress,
    RebuildPorts,
    RebuildStatus,
    RunReport,
    SwitchReport,
    VerifyReport,
)
from knowport.pipelines.rebuild_states import (
    STATUS,
    UNDER_WAY,
    begin,
    drop,
    plan_differences,
    refuse_without_index,
    required,
    status,
    under_way,
)
from knowport.pipelines.rebuild_steps import build, switch, verify
from knowport.pipelines.rebuild_verify import SAMPLE


class Rebuild:
    """The steps of a rebuild. One at a time; lookups and writes go on meanwhile.

    Each step raises RebuildError where it cannot be done in the state that things are in, and
    EngineError, EmbeddingError or LedgerError; what was done until then stays.
    """

    def __init__(self, ports: RebuildPorts) -> None:
        self._ports = ports
        self._ledger = ports.ledger

    def status(self) -> RebuildStatus:
        """Every generation and what can be done next."""
        return status(self._ports)

    @property
    def needless(self) -> bool:
        """Whether a rebuild would make the same index again."""
        active = self._ledger.active_generation()
        return (
            active is not None
            and under_way(self._ledger) is None
            and not plan_differences(active, self._ports.wanted("", ""))
            and self._ports.collection(active).exists()
        )

    def start(
        self,
        *,
        on_progress: OnProgress = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> BuildReport:
        """Begin a new generation as the settings ask for it, and build it.

        Refused where one is under way already.
        """
        with self._ledger.rebuilding():
            waiting = under_way(self._ledger)
            if waiting is not None:
                raise RebuildError(
                    f"A rebuild is under way: generation {waiting.name} is {waiting.state}.",
                    remedy=f"{REBUILD} goes on with it, `knowport rebuild abort` drops it.",
                )
            return build(begin(self._ports), self._ports, on_progress, should_stop)

    def verify(
        self,
        *,
        judge: Judge | None = None,
        sample: int = SAMPLE,
        on_progress: OnProgress = lambda _: None,
    ) -> VerifyReport:
        """Prove the generation that is built. What is damaged is built anew by the next ``run``."""
        with self._ledger.rebuilding():
            generation = required(self._ledger, ("built", "verified"))
            return verify(generation, self._ports, judge, sample, on_progress)

    def activate(
        self, *, force: bool = False, on_progress: OnProgress = lambda _: None
    ) -> SwitchReport:
        """Switch to the generation that is verified; ``force`` takes one that is not, and is
        recorded with it."""
        with self._ledger.rebuilding():
            generation = required(self._ledger, ("built", "verified"))
            reason = _unproved(generation, self._ledger.active_generation())
            if reason and not force:
                raise RebuildError(
                    f"Generation {generation.name} {reason}.",
                    remedy="Run `knowport rebuild verify`, or insist with --force.",
                )
            return switch(generation, self._ports, on_progress, forced=bool(reason))

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

        Raises NotVerified where the verification fails, unless ``force``.
        """
        with self._ledger.rebuilding():
            generation = under_way(self._ledger) or begin(self._ports)
            differs = plan_differences(generation, self._ports.wanted("", ""))
            if differs:
                raise RebuildError(
                    f"Generation {generation.name} is {generation.state} with other settings: "
                    f"{'; '.join(differs)}.",
                    remedy="Restore those settings to go on with it, or drop it with "
                    "`knowport rebuild abort`.",
                )
            built = build(generation, self._ports, on_progress, should_stop)
            if built.stopped:
                return RunReport(built)
            generation = required(self._ledger, ("built",))
            verified = verify(generation, self._ports, judge, sample, on_progress)
            if not verified.passed and not force:
                raise NotVerified(generation.name, verified.failures, RunReport(built, verified))
            if should_stop():
                return RunReport(built, verified)
            generation = required(self._ledger, ("built", "verified"))
            switched = switch(generation, self._ports, on_progress, forced=not verified.passed)
            return RunReport(built, verified, switched)

    def rollback(
        self, name: str | None = None, *, on_progress: OnProgress = lambda _: None
    ) -> SwitchReport:
        """Switch back to the generation that was active before, or to the previous one named."""
        with self._ledger.rebuilding():
            previous = [g for g in self._ledger.generations() if g.state == "previous"]
            chosen = [g for g in previous if name in (None, g.name)]
            if not chosen:
                raise RebuildError(
                    "There is no generation to roll back to."
                    if name is None
                    else f"There is no previous generation {name}.",
                    remedy=STATUS,
                )
            latest = max(chosen, key=lambda known: known.activated_at)
            return switch(latest, self._ports, on_progress, forced=False)

    def abort(self) -> str:
        """Drop the generation that is being built, built or verified; returns its name."""
        with self._ledger.rebuilding():
            generation = required(self._ledger, UNDER_WAY)
            self._drop(generation)
            return generation.name

    def drop(self, name: str) -> str:
        """Drop a generation that is not active, or a collection that looks like one and that the
        ledger does not know; returns the collection's name."""
        with self._ledger.rebuilding():
            known = {generation.name: generation for generation in self._ledger.generations()}
            if name in known:
                refuse_without_index(list(known.values()))
                self._drop(known[name])
                return known[name].collection
            of_ledger = {generation.collection for generation in known.values()}
            if name in of_ledger or name not in self._ports.collections():
                raise RebuildError(f"There is no generation {name}.", remedy=STATUS)
            self._ports.drop_collection(name)
            return name

    def _drop(self, generation: Generation) -> None:
        """Drop a generation; engines refuse it for a collection that an alias still names. Where
        the alias cannot follow, it may name another thing, so the drop is tried all the same."""
        self._ports.outside()
        drop(generation, self._ledger, self._ports.collection(generation))


def _unproved(generation: Generation, active: Generation | None) -> str:
    """Why a generation is not proved to be fit to replace the active one, or ''."""
    if generation.state != "verified":
        failed = "; ".join(generation.report.get("failures", ()))
        return f"is not verified: {failed}" if failed else "is not verified"
    against = generation.report.get("against")
    if against and active is not None and against != active.name:
        return f"was verified against {against}, and {active.name} is active now"
    return ""
