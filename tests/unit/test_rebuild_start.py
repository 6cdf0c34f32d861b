"""What an interruption in the midst of a step leaves, and what the next start and step make of it.

A collection is made in three calls, a first generation is recorded and then activated, and a
switch is followed by what is beside it: an interruption falls between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymilvus import MilvusClient

from knowport import KnowledgeBase
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import MilvusIndex
from knowport.bootstrap import rebuilding
from knowport.bootstrap.generations import Generations
from knowport.errors import (
    EngineError,
    EngineUnavailable,
    IndexMismatch,
    KnowportError,
    LedgerError,
)
from knowport.model import Generation
from rebuilds import Base, assert_answers, assert_clean, refused, states
from support import HashEmbedder

AWAY = EngineUnavailable("Milvus cannot be reached.")


class Killed(BaseException):
    """No error: what nothing may catch."""


@contextmanager
def killed_in(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, call: int = 1
) -> Iterator[None]:
    """The process dies in a call (from 1) of a method, before anything is done in it."""
    original: Callable[..., Any] = getattr(owner, method)
    calls: list[str] = []

    def called(*args: Any, **more: Any) -> Any:
        calls.append(method)
        if len(calls) == call:
            raise Killed
        return original(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, called)
        try:
            yield
        except Killed:
            return
    pytest.fail(f"{method} was not called {call} times")


def failing(error: KnowportError) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


# -- a collection that is half made ---------------------------------------------------------------

PARTS = [("_create_index", 1), ("_create_index", 2), ("load_collection", 1)]


@pytest.mark.parametrize(("method", "call"), PARTS)
def test_a_new_collection_that_is_half_made_is_made_whole(
    base: Base, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    with base.filled() as kb:
        with killed_in(monkeypatch, MilvusClient, method, call):
            kb.rebuild.run(sample=3)
        assert states(kb) == ["active", "building"]
        assert_answers(kb, 1)
    with base.open() as kb:
        assert kb.rebuild.run(sample=3).switch is not None
        assert states(kb) == ["previous", "active"]
        assert_answers(kb, 1)
        assert_clean(kb)


@pytest.mark.parametrize("lost_ok", [False, True])
@pytest.mark.parametrize(("method", "call"), [("create_collection", 1), *PARTS])
def test_the_first_collection_that_is_half_made_is_made_whole(
    base: Base, monkeypatch: pytest.MonkeyPatch, method: str, call: int, lost_ok: bool
) -> None:
    with base.open() as kb, killed_in(monkeypatch, MilvusClient, method, call):
        kb.ingest(base.pages, source="kb")
    with base.open(lost_ok=lost_ok) as kb:
        assert not kb.lookup("anything").found
        kb.ingest(base.pages, source="kb")
        assert_answers(kb, 1)
        assert_clean(kb)
        kb.rebuild.run(sample=3)


def test_the_first_collection_is_made_whole_without_a_start(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service lives on when its engine is away for a moment."""
    with base.open() as kb:
        with monkeypatch.context() as patch:
            patch.setattr(MilvusClient, "_create_index", failing(AWAY))
            with pytest.raises(EngineUnavailable):
                kb.ingest(base.pages, source="kb")
            with pytest.raises(EngineUnavailable):
                kb.ingest(base.pages, source="kb")
        kb.ingest(base.pages, source="kb")
        assert_answers(kb, 1)
        assert_clean(kb)


def test_an_index_that_is_gone_is_made_over_the_rows_that_are_there(base: Base) -> None:
    with base.filled() as kb:
        collection = kb.status().collection
    base.engine.client.release_collection(collection)
    base.engine.client.drop_index(collection, "sparse_vector")
    with base.open() as kb:
        assert_answers(kb, 1)
        assert_clean(kb)


def test_a_whole_collection_is_opened_without_the_lock_of_writers(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.filled().close()
    monkeypatch.setattr(SqlLedger, "exclusive", failing(LedgerError("Busy.")))
    monkeypatch.setattr(MilvusClient, "_create_index", failing(EngineError("Made again.")))
    with base.open() as kb:
        assert_answers(kb, 1)


# -- a first generation that is recorded and not active -------------------------------------------


def test_a_first_ingest_that_was_interrupted_leaves_nothing_to_rebuild(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    with base.open() as kb, killed_in(monkeypatch, SqlLedger, "activate"):
        kb.ingest(base.pages, source="kb")
    with base.open(lost_ok=True) as kb:
        before = kb.rebuild.status()
        assert states(kb) == ["building"]
        assert "knowport ingest" in before.next_step
        rebuild = kb.rebuild
        for step in (
            rebuild.run,
            rebuild.start,
            rebuild.verify,
            rebuild.activate,
            lambda: rebuild.activate(force=True),
            rebuild.abort,
            lambda: rebuild.drop("g1"),
        ):
            error = refused(step, "There is no index to rebuild yet")
            assert "knowport ingest" in error.remedy
        refused(rebuild.rollback, "no generation to roll back to")
        assert rebuild.status() == before
        assert not [name for name in base.engine.client.list_collections() if base.prefix in name]
    other = {"chunking": {"size": 300}}
    with base.open(settings=other) as kb:
        kb.ingest(base.pages, source="kb")
        assert states(kb) == ["active"]
        assert kb.rebuild.status().differs == ()
        assert_answers(kb, 1)
        assert_clean(kb)


# -- the alias for outside readers ----------------------------------------------------------------


class Aliases:
    """An engine that refuses to drop a collection which its alias names, as Milvus 2.5.5 does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.stuck = "", False
        drop = MilvusIndex.drop

        def point(_: object, __: str, collection: str) -> None:
            if self.stuck:
                raise AWAY
            self.at = collection

        def dropped(index: MilvusIndex) -> None:
            if self.at == index.collection:
                raise EngineError(f"Collection {index.collection} has associated aliases.")
            drop(index)

        monkeypatch.setattr(rebuilding, "point_alias", point)
        monkeypatch.setattr(MilvusIndex, "drop", dropped)


@pytest.fixture
def aliases(monkeypatch: pytest.MonkeyPatch) -> Aliases:
    return Aliases(monkeypatch)


@pytest.fixture
def left_behind(base: Base, aliases: Aliases) -> Iterator[KnowledgeBase]:
    """Switched, and the alias still at the old generation."""
    base.filled().close()
    with base.open() as kb:
        assert aliases.at == f"{base.prefix}_g1"
        aliases.stuck = True
        switch = kb.rebuild.run(sample=3).switch
        assert switch is not None
        assert "does not follow" in switch.warning
        yield kb


def test_a_drop_lets_the_alias_follow_first(left_behind: KnowledgeBase, aliases: Aliases) -> None:
    aliases.stuck = False
    left_behind.rebuild.drop("g1")
    assert aliases.at == left_behind.status().collection
    assert states(left_behind) == ["active"]


def test_an_abort_lets_the_alias_follow_first(
    base: Base, left_behind: KnowledgeBase, aliases: Aliases
) -> None:
    name = left_behind.rebuild.start().generation
    aliases.at = f"{base.prefix}_{name.replace('-', '_')}"  # by somebody else's hand
    with pytest.raises(EngineError, match="aliases"):
        left_behind.rebuild.abort()
    aliases.stuck = False
    assert left_behind.rebuild.drop(name)
    assert states(left_behind) == ["previous", "active"]
    name = left_behind.rebuild.start().generation
    aliases.at = f"{base.prefix}_{name.replace('-', '_')}"
    assert left_behind.rebuild.abort() == name


def test_a_start_lets_the_alias_follow_before_it_finishes_drops(
    base: Base, left_behind: KnowledgeBase, aliases: Aliases
) -> None:
    with pytest.raises(EngineError, match="aliases"):
        left_behind.rebuild.drop("g1")
    assert states(left_behind) == ["dropping", "active"]
    with base.open() as kb:  # neither of the two keeps the other from being tried
        assert ["tidied up" in warning for warning in kb.warnings] == [True, True]
        assert_answers(kb, 1)
    aliases.stuck = False
    with base.open() as kb:
        assert (states(kb), kb.warnings) == (["active"], ())
        assert aliases.at == kb.status().collection


def test_drops_are_finished_though_the_alias_cannot_follow(
    base: Base, aliases: Aliases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its name is taken by a collection it never can."""
    with base.filled() as kb:
        kb.rebuild.start()
        with monkeypatch.context() as patch:
            patch.setattr(MilvusIndex, "drop", failing(AWAY))
            with pytest.raises(EngineUnavailable):
                kb.rebuild.abort()
    aliases.stuck = True
    with base.open() as kb:
        assert states(kb) == ["active"]
        assert len(kb.warnings) == 1
        new = kb.rebuild.start().generation
        assert kb.rebuild.abort() == new


# -- what is beside a switch ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "method", "error"),
    [
        (Generations, "open_active", AWAY),
        (Generations, "open_active", IndexMismatch("Its embedder is not at hand.")),
        (SqlLedger, "active_generation", LedgerError("The ledger failed.")),
        (Generations, "connected", AWAY),
    ],
)
def test_a_switch_that_was_made_is_told_as_made(
    base: Base,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    error: KnowportError,
) -> None:
    with base.filled() as kb:
        new = kb.rebuild.start().generation
        kb.rebuild.verify(sample=3)
        activate = SqlLedger.activate

        def activate_and_fail(*args: Any, **more: Any) -> None:
            activate(*args, **more)
            patch.setattr(owner, method, failing(error))

        with monkeypatch.context() as patch:
            patch.setattr(SqlLedger, "activate", activate_and_fail)
            switch = kb.rebuild.activate()
        assert switch.generation == new
        assert error.message in switch.warning
        assert states(kb) == ["previous", "active"]
        assert kb._parts.follow().name == new
        assert_answers(kb, 1)
        assert_clean(kb)


def test_the_alias_follows_though_this_process_does_not(
    base: Base, aliases: Aliases, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = HashEmbedder()
    with base.filled(old) as kb:
        kb.rebuild.start()
        kb.rebuild.verify(sample=3)
        monkeypatch.setattr(Generations, "open_active", failing(AWAY))
        assert "follows a switch" in kb.rebuild.activate().warning
        active: Generation | None = kb._parts.ledger.active_generation()
        assert active is not None
        assert aliases.at == active.collection
