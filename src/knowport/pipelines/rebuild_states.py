"""The states of generations: which is under way, how one begins, changes and is dropped."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from knowport.core.mismatch import REBUILD, differences, recut
from knowport.errors import RebuildError
from knowport.model import DocumentInfo, Generation, GenerationState
from knowport.pipelines.rebuild_fill import pending
from knowport.pipelines.rebuild_ports import (
    Collection,
    GenerationStatus,
    RebuildPorts,
    RebuildStatus,
)
from knowport.ports import Ledger

UNDER_WAY: tuple[GenerationState, ...] = ("building", "built", "verified")
STATUS = "See `knowport rebuild status`."


def under_way(ledger: Ledger) -> Generation | None:
    """The generation that is being built or waits to be switched to.

    None is where none is active: the very first ingest was interrupted, and the next one makes it.
    """
    generations = ledger.generations()
    if not _has_active(generations):
        return None
    return next((known for known in generations if known.state in UNDER_WAY), None)


def _has_active(generations: Sequence[Generation]) -> bool:
    return any(known.state == "active" for known in generations)


def refuse_without_index(generations: Sequence[Generation]) -> None:
    """Raises RebuildError where no generation is active, so that there is nothing to rebuild."""
    if not _has_active(generations):
        raise RebuildError(
            "There is no index to rebuild yet.",
            remedy="Ingest documents first (`knowport ingest PATH`).",
        )


def required(ledger: Ledger, states: Sequence[GenerationState]) -> Generation:
    """The generation under way, which must be in one of the states. Raises RebuildError."""
    refuse_without_index(ledger.generations())
    generation = under_way(ledger)
    if generation is None:
        raise RebuildError("No rebuild is under way.", remedy=f"{REBUILD} begins one.")
    if generation.state not in states:
        raise RebuildError(
            f"Generation {generation.name} is {generation.state}, not {' or '.join(states)}.",
            remedy=f"{REBUILD} goes on with it.",
        )
    return generation


def begin(ports: RebuildPorts) -> Generation:
    """Record a new generation as the settings ask for it.

    Its name and collection are never used again: an old answer names its generation, and a reader
    may still have an old collection open.
    """
    with ports.ledger.exclusive():
        generations = ports.ledger.generations()
        refuse_without_index(generations)
        numbers = [int(known.name.partition("-")[0].lstrip("g")) for known in generations]
        number, tag = max(numbers) + 1, secrets.token_hex(3)
        generation = ports.wanted(f"g{number}-{tag}", f"{ports.prefix}_g{number}_{tag}")
        ports.ledger.save_generation(generation)
        return generation


def changed(generation: Generation, ledger: Ledger, **changes: Any) -> Generation:
    """Record changes of a generation that is still in the state it was seen in."""
    with ledger.exclusive():
        known = {g.name: g for g in ledger.generations()}.get(generation.name)
        if known is None or known.state != generation.state:
            raise RebuildError(
                f"Generation {generation.name} was {generation.state} and is "
                f"{known.state if known else 'gone'} now.",
                remedy=STATUS,
            )
        now = replace(known, **changes)
        ledger.save_generation(now)
        return now


def drop(generation: Generation, ledger: Ledger, collection: Collection) -> None:
    """Drop a generation that is not active, so that it can be interrupted anywhere."""
    with ledger.exclusive():
        active = ledger.active_generation()
        if active is not None and active.name == generation.name:
            raise RebuildError(
                f"Generation {generation.name} is the active one and cannot be dropped.",
                remedy=f"Switch to another one first ({REBUILD}, or `knowport rebuild rollback`).",
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


def status(ports: RebuildPorts) -> RebuildStatus:
    """Every generation and what can be done next."""
    generations = ports.ledger.generations()
    active = next((known for known in generations if known.state == "active"), None)
    infos = ports.ledger.documents()
    rows = tuple(_status_of(known, infos, ports) for known in generations)
    collections = {known.collection for known in generations}
    differs = () if active is None else plan_differences(active, ports.wanted("", ""))
    return RebuildStatus(
        generations=rows,
        differs=differs,
        unknown=tuple(name for name in ports.collections() if name not in collections),
        next_step=_next_step(rows, differs, ports),
    )


def _status_of(
    known: Generation, infos: Sequence[DocumentInfo], ports: RebuildPorts
) -> GenerationStatus:
    total = len(infos)
    lost = not ports.collection(known).exists()
    if known.state == "active":
        return GenerationStatus(known, total, total, sum(i.chunk_count for i in infos), lost)
    missing = len(pending(ports.ledger, known.name).changed)
    chunks = ports.ledger.built_chunks(known.name)
    return GenerationStatus(known, max(total - missing, 0), total, chunks, lost)


def _next_step(
    rows: Sequence[GenerationStatus], differs: Sequence[str], ports: RebuildPorts
) -> str:
    by_state = {row.generation.state: row for row in rows}
    active = by_state.get("active")
    if active is None:
        return "There is no index yet: `knowport ingest PATH` makes one."
    waiting = next((by_state[state].generation for state in UNDER_WAY if state in by_state), None)
    if waiting is not None:
        return _goes_on(waiting, plan_differences(waiting, ports.wanted("", "")))
    if active.lost:
        return f"The active collection is gone: {REBUILD} builds it anew."
    if differs:
        return f"{REBUILD} builds the index with the settings of now."
    previous = [row.generation.name for row in rows if row.generation.state == "previous"]
    if previous:
        return (
            f"`knowport rebuild rollback` goes back; `knowport rebuild drop {previous[0]}` frees "
            f"the room of {previous[0]}."
        )
    return ""


def _goes_on(waiting: Generation, other: Sequence[str]) -> str:
    if other:
        return (
            f"{waiting.name} is {waiting.state} with other settings ({'; '.join(other)}): restore "
            "them to go on with it, or `knowport rebuild abort` drops it."
        )
    return f"{REBUILD} goes on with {waiting.name}."


def now() -> str:
    """UTC, ISO 8601, to the millisecond, so that of two switches the later one is known."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
