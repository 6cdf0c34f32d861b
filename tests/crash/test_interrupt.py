"""Ctrl-C and kill -9: what was finished stays, what was half done is finished at the next start."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.errors import IndexInUse
from knowport.model import FileOutcome, SearchMode
from support import HashEmbedder, clean_environment, driver, make_folder, mark, page, stored_chunks

DOCUMENTS = 12
SEED = 20240229
MODES: tuple[SearchMode, ...] = ("dense", "hybrid")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``home``, an index of version 1 of all documents; ``v1``, ``v2`` and ``new`` to ingest."""
    folder = tmp_path_factory.mktemp("base")
    make_folder(folder / "v1", {f"d{n:02}.md": version_1(n) for n in range(DOCUMENTS)})
    make_folder(folder / "v2", {f"d{n:02}.md": version_2(n) for n in range(DOCUMENTS)})
    make_folder(folder / "new", {f"d{n:02}.md": version_2(n + 100) for n in range(DOCUMENTS)})
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        report = kb.ingest(folder / "v1", source="kb")
    assert report.count(FileOutcome.INDEXED) == DOCUMENTS
    return folder


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    """A copy of the index of version 1."""
    return Path(shutil.copytree(base / "home", tmp_path / "home"))


def version_1(number: int) -> str:
    return page(f"Page {number}", [mark("first", number, part) for part in range(6)])


def version_2(number: int) -> str:
    """Shorter for even numbers, longer for odd ones."""
    parts = 2 if number % 2 == 0 else 9
    return page(f"Page {number}", [mark("second", number, part) for part in range(parts)])


def doc_id(number: int) -> str:
    return f"kb/d{number:02}.md"


def reopened(home: Path) -> KnowledgeBase:
    """The knowledge base once the engine of the killed process has let go of the file."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return KnowledgeBase(home, embedder=HashEmbedder())
        except IndexInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def assert_whole(kb: KnowledgeBase) -> None:
    """Nothing is unfinished, and ledger and engine hold the same chunks, both ways."""
    assert kb.status().unfinished == 0
    expected = {
        f"{info.doc_id}#chunk-{index}"
        for info in kb.documents()
        for index in range(info.chunk_count)
    }
    stored = stored_chunks(kb)
    assert len(stored) == len(set(stored)), "a chunk is stored twice"
    assert set(stored) == expected
    assert kb.status().chunks == len(expected)
    assert all(info.state == "indexed" for info in kb.documents())


def assert_findable(kb: KnowledgeBase, number: int, *versions: str) -> None:
    """A document is whole in one of the versions, and only that one answers, in both modes."""
    _, document = kb.document(doc_id(number))
    version = "first" if document.text == version_1(number) else "second"
    assert document.text == (version_1(number) if version == "first" else version_2(number))
    assert version in versions
    other = "second" if version == "first" else "first"
    for mode in MODES:
        for part in (0, 1):
            best = kb.lookup(mark(version, number, part), mode=mode).evidence[0]
            assert best.document_id == f"{doc_id(number)}#chunk-{part}"
            assert mark(version, number, part) in best.excerpt
        for part in (0, 8):
            answer = kb.lookup(mark(other, number, part), mode=mode)
            assert not any(mark(other, number, part) in item.excerpt for item in answer.evidence)


# -- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.fixture
def forty(tmp_path: Path) -> Path:
    return make_folder(
        tmp_path / "forty",
        {
            f"d{n:02}.md": page(f"Page {n}", [f"text {n} {part}" for part in range(3)])
            for n in range(40)
        },
    )


def interrupted(folder: Path, home: Path, times: int) -> tuple[int, str]:
    """``knowport ingest`` of ``folder`` with Ctrl-C in its midst; exit code and output."""
    log = home.parent / "log"
    group = driver().start(
        do="cli",
        arguments=["ingest", str(folder), "--source", "kb", "--home", str(home)],
        environment=clean_environment(),
        folder=home.parent,
        stdout=log,
        stderr=log,
        seconds_per_text=0.02,
    )
    wait_for(lambda: log.exists() and " 20 %" in log.read_text())
    for number in range(times):
        if number:
            wait_for(lambda: "Ctrl-C again" in log.read_text())
        os.killpg(group, signal.SIGINT)  # a terminal interrupts the engine's process as well
    return driver().ended(), log.read_text()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_whole_documents(forty: Path, tmp_path: Path, times: int) -> None:
    home = tmp_path / "home"
    code, output = interrupted(forty, home, times)
    assert code == 130
    assert "Traceback" not in output
    assert "Interrupted" in output
    assert "Milvus" not in output, "the engine died of the Ctrl-C"
    with reopened(home) as kb:
        assert_whole(kb)
        done = len(kb.documents())
        # The first Ctrl-C writes what has its vectors; the second stops before that.
        assert (times == 1) <= done < 40
        report = kb.ingest(forty, source="kb")
        assert report.chunks_embedded < sum(info.chunk_count for info in kb.documents())
        assert report.count(FileOutcome.UNCHANGED) == done
        assert report.count(FileOutcome.INDEXED) == 40 - done
        assert not report.interrupted
        assert_whole(kb)


def test_should_stop_keeps_the_document_at_hand_as_it_was(home: Path, base: Path) -> None:
    embedder = HashEmbedder(batch_size=2)
    with KnowledgeBase(home, embedder=embedder) as kb:
        # Version 2 of the first two documents has 2 + 9 chunks: stop in the midst of the second.
        report = kb.ingest(
            base / "v2", source="kb", should_stop=lambda: embedder.documents_embedded >= 6
        )
        assert report.interrupted
        assert [result.doc_id for result in report.files] == [doc_id(0)]
        assert_whole(kb)
        assert_findable(kb, 0, "second")
        assert_findable(kb, 1, "first")


# -- kill -9 --------------------------------------------------------------------------------------


def moments(count: int) -> list[float]:
    """Seeded shares of the way at which to kill, one in each part of it."""
    generator = random.Random(SEED)
    return [(part + generator.random()) / count for part in range(count)]


@pytest.fixture(scope="module")
def seconds(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How long each kind of work takes from ``ready`` to its end when nobody kills it."""
    taken = {}
    for kind in WORK:
        home = tmp_path_factory.mktemp(kind) / "home"
        shutil.copytree(base / "home", home)
        driver().start(home=home, **work(kind, base))
        assert driver().until("ready") == "ready"
        start = time.monotonic()
        assert driver().ended() == 0
        taken[kind] = time.monotonic() - start
    return taken


WORK = ("ingest", "reingest", "delete")


def work(kind: str, base: Path) -> dict[str, Any]:
    """A job over the base: new documents, changed ones, or all of them deleted."""
    if kind == "delete":
        return {"do": "delete", "documents": [doc_id(n) for n in range(DOCUMENTS)]}
    path = base / ("new" if kind == "ingest" else "v2")
    return {"do": "ingest", "path": path, "source": "new" if kind == "ingest" else "kb"}


@pytest.mark.parametrize(
    ("kind", "share"), [(kind, share) for kind in WORK for share in moments(5)]
)
def test_kill_9_at_any_moment(
    base: Path, home: Path, seconds: dict[str, float], kind: str, share: float
) -> None:
    driver().start(home=home, **work(kind, base))
    assert driver().until("ready") == "ready"
    time.sleep(share * seconds[kind])
    driver().kill()
    assert driver().ended() in (-signal.SIGKILL, 0)  # 0: it was faster than the one measured

    with reopened(home) as kb:
        assert_whole(kb)
        held = {info.doc_id for info in kb.documents()}
        if kind == "delete":
            left = [n for n in range(DOCUMENTS) if doc_id(n) in held]
            assert left == list(range(DOCUMENTS - len(left), DOCUMENTS)), "deleted in order"
            for number in left[::4]:
                assert_findable(kb, number, "first")
            for number in set(range(DOCUMENTS)) - set(left):
                answer = kb.lookup(mark("first", number, 1))
                assert not any(doc_id(number) in item.document_id for item in answer.evidence)
            return
        assert held.issuperset(doc_id(n) for n in range(DOCUMENTS))
        for number in range(0, DOCUMENTS, 3):
            assert_findable(kb, number, "first", *(["second"] if kind == "reingest" else []))
        again = work(kind, base)
        report = kb.ingest(again["path"], source=again["source"])
        assert report.count(FileOutcome.UNCHANGED) + report.count(FileOutcome.INDEXED) == DOCUMENTS
        assert_whole(kb)
        assert len(kb.documents()) == (2 * DOCUMENTS if kind == "ingest" else DOCUMENTS)


@pytest.mark.parametrize(
    ("point", "version_of_first"),
    [
        ("SqlLedger.begin_writes", "second"),  # before the engine is written
        ("MilvusIndex.upsert_chunks", "second"),  # before the old tail is deleted
        ("MilvusIndex.delete_by_doc_id", "second"),  # before the ledger commits
        ("SqlLedger.commit_writes", "second"),
        ("SqlLedger.store_vectors", "first"),  # before anything is replaced
    ],
)
def test_killed_inside_a_replacement(
    base: Path, home: Path, point: str, version_of_first: str
) -> None:
    code = driver().run(home=home, die_after=point, **work("reingest", base))
    assert code == -signal.SIGKILL
    with reopened(home) as kb:
        assert_whole(kb)
        assert_findable(kb, 0, version_of_first)
        assert_findable(kb, 1, version_of_first)  # of the same group
        assert kb.ingest(base / "v2", source="kb").count(FileOutcome.FAILED) == 0
        assert_whole(kb)
        assert_findable(kb, 0, "second")


@pytest.mark.parametrize(
    "point", ["SqlLedger.begin_delete", "MilvusIndex.delete_by_doc_id", "SqlLedger.commit_delete"]
)
def test_killed_inside_a_delete(home: Path, point: str) -> None:
    code = driver().run(do="delete", home=home, documents=[doc_id(3)], die_after=point)
    assert code == -signal.SIGKILL
    with reopened(home) as kb:
        assert_whole(kb)
        assert doc_id(3) not in {info.doc_id for info in kb.documents()}
        assert_findable(kb, 4, "first")


@pytest.mark.parametrize("point", ["SqlLedger.add_generation", "MilvusIndex.prove_analyzer"])
def test_killed_before_the_first_collection_is_made(base: Path, tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    code = driver().run(home=home, die_after=point, **work("ingest", base))
    assert code == -signal.SIGKILL
    with reopened(home) as kb:
        assert [n.code for n in kb.lookup("page").notices] == ["empty_index"]
        assert kb.ingest(base / "v1", source="kb").count(FileOutcome.INDEXED) == DOCUMENTS
        assert_whole(kb)
        assert_findable(kb, 5, "first")
