"""How a process follows the ledger's pointer to the active generation."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.milvus import MilvusIndex
from knowport.bootstrap.serving import Pointer, Serving
from knowport.core.chunking import ChunkingOptions
from knowport.errors import EngineError, IndexMismatch, LedgerError
from knowport.model import EmbedderIdentity, Generation, SearchRequest
from rebuilds import doc_id
from support import HashEmbedder, mark

EMBEDDER = HashEmbedder()


def generation(name: str) -> Generation:
    return Generation(
        name=name,
        collection=f"c_{name}",
        embedder=EmbedderIdentity("hash", "bigrams", 64),
        analyzer={},
        schema_version=1,
        lexical=True,
        proved_on="x",
        created_at="1",
    )


def serving(of: Generation | None) -> Serving:
    return Serving(of, None, EMBEDDER, ChunkingOptions())


class World:
    """A ledger, a clock, and an opening that can be held up or fail."""

    def __init__(self) -> None:
        self.active: Generation | Exception | None = generation("g1")
        self.asked = self.opened = 0
        self.now = 100.0
        self.fails: Exception | None = None
        self.may_open = threading.Event()
        self.may_open.set()
        self.pointer = Pointer(self, self.open, serving(None), clock=lambda: self.now)  # type: ignore[arg-type]
        self.pointer.refresh()

    def active_generation(self) -> Generation | None:
        self.asked += 1
        if isinstance(self.active, Exception):
            raise self.active
        return self.active

    def open(self, of: Generation) -> Serving:
        self.opened += 1
        assert self.may_open.wait(120)
        if self.fails:
            raise self.fails
        return serving(of)


@pytest.fixture
def world() -> World:
    return World()


def test_the_ledger_is_asked_at_most_once_a_second(world: World) -> None:
    assert (world.asked, world.opened) == (1, 1)
    for _ in range(100):
        assert world.pointer.current().name == "g1"
    assert world.asked == 1
    world.now += 1.01
    for _ in range(100):
        world.pointer.current()
    assert (world.asked, world.opened) == (2, 1), "an unchanged pointer opens nothing"


def test_a_switch_is_followed_within_a_second_or_at_once_when_asked(world: World) -> None:
    world.active = generation("g2")
    assert world.pointer.current().name == "g1"
    world.now += 1.01
    assert world.pointer.current().name == "g2"
    world.active = generation("g3")
    assert world.pointer.refresh().name == "g3"
    assert world.pointer.held.name == "g3"


def test_only_one_waits_for_the_new_generation_to_open(world: World) -> None:
    """The others look up in the old one meanwhile."""
    world.active = generation("g2")
    world.now += 1.01
    world.may_open.clear()
    first: list[str] = []
    opener = threading.Thread(target=lambda: first.append(world.pointer.current().name))
    opener.start()
    while world.opened < 2:
        pass
    assert [world.pointer.current().name for _ in range(10)] == ["g1"] * 10
    world.may_open.set()
    opener.join(120)
    assert first == ["g2"]
    assert world.pointer.current().name == "g2"


@pytest.mark.parametrize("trouble", [LedgerError("It is away."), IndexMismatch("No embedder.")])
def test_what_cannot_be_followed_is_said_and_tried_again(world: World, trouble: Any) -> None:
    if isinstance(trouble, LedgerError):
        world.active = trouble
    else:
        world.active, world.fails = generation("g2"), trouble
    world.now += 1.01
    for _ in range(3):
        held = world.pointer.current()
        assert held.name == "g1"
        assert [notice.code for notice in held.behind] == ["generation_not_followed"]
        assert trouble.message in held.behind[0].message
    asked = world.asked
    with pytest.raises(type(trouble)):
        world.pointer.refresh()
    world.active, world.fails = generation("g2"), None
    world.now += 1.01
    assert world.pointer.current() == serving(world.active)
    assert world.asked == asked + 2


def test_a_trouble_that_is_over_is_not_said_any_more(world: World) -> None:
    world.active = LedgerError("It is away.")
    world.now += 1.01
    assert world.pointer.current().behind
    world.active = generation("g1")
    world.now += 1.01
    assert world.pointer.current().behind == ()


def test_what_is_held_can_be_changed(world: World) -> None:
    world.pointer.change(lambda held: replace(held, recut=("x",)))
    assert world.pointer.current().recut == ("x",)
    world.active = None  # a ledger that was emptied changes nothing for who has it open
    assert world.pointer.refresh().name == "g1"


# -- lookups into which a switch falls --------------------------------------------------------


def dropping(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Switch, and drop the old generation, when the lexical leg has its hits and the other one has
    not. Returns what becomes the collections that the other one is searched in."""
    kb.rebuild.start()
    kb.rebuild.verify(sample=1)
    real, searched = MilvusIndex.search, []

    def begin_search(index: MilvusIndex, request: SearchRequest) -> Any:
        hits = real(index, request)
        return lambda: hits

    def search(index: MilvusIndex, request: SearchRequest) -> Any:
        if request.mode == "dense":
            searched.append(index.collection)
            if len(searched) == 1:
                kb.rebuild.activate()
                kb.rebuild.drop("g1")
        return real(index, request)

    monkeypatch.setattr(MilvusIndex, "begin_search", begin_search)
    monkeypatch.setattr(MilvusIndex, "search", search)
    return searched


def test_a_lookup_whose_generation_is_dropped_is_made_anew_and_whole(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leg that had its hits by then would answer alone otherwise."""
    searched = dropping(kb, monkeypatch)
    answer = kb.lookup(mark("first", 1, 0, 0))
    assert len(searched) == 2
    assert answer.generation == kb.status().generation != "g1"
    assert answer.notices == ()
    assert answer.evidence[0].document_id == f"{doc_id(1)}#chunk-0"


def test_an_explanation_whose_generation_is_dropped_likewise(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropping(kb, monkeypatch)
    result = kb.explain(mark("first", 1, 0, 0)).result
    assert result.generation == kb.status().generation != "g1"
    assert [attempt.mode for attempt in result.attempts] == ["hybrid"]


def test_a_leg_that_fails_in_the_active_generation_leaves_a_degraded_answer(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the ledger cannot say which one that is by now. Whole answers do not ask it."""
    asked: list[str] = []
    real = kb._parts.follow

    def follow() -> Serving:
        asked.append("asked")
        return real()

    def fails(*_: Any) -> Any:
        raise LedgerError("It is away.")

    monkeypatch.setattr(kb._parts, "follow", follow)
    query = mark("first", 1, 0, 0)
    assert kb.lookup(query).notices == ()
    assert asked == []

    searches: list[str] = []
    search = MilvusIndex.search

    def without_dense(index: MilvusIndex, request: SearchRequest) -> Any:
        searches.append(request.mode)
        if request.mode == "dense":
            raise EngineError("It is broken.")
        return search(index, request)

    monkeypatch.setattr(MilvusIndex, "search", without_dense)
    assert [notice.code for notice in kb.lookup(query).notices] == ["degraded"]
    assert (asked, searches) == (["asked"], ["dense"])
    monkeypatch.setattr(kb._parts, "follow", fails)
    assert [notice.code for notice in kb.lookup(query).notices] == ["degraded"]
