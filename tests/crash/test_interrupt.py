"""Ctrl-C, and death at a given point: what was half done is finished at the next start."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.model import FileOutcome, SearchMode
from support import HashEmbedder, clean_environment, driver, make_folder, mark, page

DOCUMENTS = 12
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
    return KnowledgeBase(home, embedder=HashEmbedder())


def assert_whole(kb: KnowledgeBase) -> None:
    """Nothing is unfinished, and ledger and engine hold the same chunks, both ways."""
    assert kb.status().unfinished == 0
    assert kb.audit(sample=0).findings == ()


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


# -- killed at a point ----------------------------------------------------------------------------


def work(kind: str, base: Path) -> dict[str, Any]:
    """A job over the base: new documents or changed ones."""
    path = base / ("new" if kind == "ingest" else "v2")
    return {"do": "ingest", "path": path, "source": "new" if kind == "ingest" else "kb"}


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
    "point",
    ["MilvusIndex.upsert_chunks", "MilvusIndex.delete_by_doc_id", "SqlLedger.commit_writes"],
)
def test_killed_inside_the_recovery(base: Path, home: Path, point: str) -> None:
    assert driver().run(home=home, die_after="SqlLedger.begin_writes", **work("reingest", base)) < 0
    # It dies while it opens: before its own work nothing but the recovery writes.
    driver().start(home=home, die_after=point, **work("ingest", base))
    assert driver().until("ready") == f"ended -{signal.SIGKILL.value}"
    with reopened(home) as kb:
        assert_whole(kb)
        assert_findable(kb, 0, "second")
        assert_findable(kb, 1, "second")
        assert len(kb.documents()) == DOCUMENTS


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


@pytest.mark.parametrize(
    "point", ["MilvusIndex.prove_analyzer", "SqlLedger.save_generation", "SqlLedger.activate"]
)
def test_killed_before_the_first_collection_is_made(base: Path, tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    code = driver().run(home=home, die_after=point, **work("ingest", base))
    assert code == -signal.SIGKILL
    with reopened(home) as kb:
        assert [n.code for n in kb.lookup("page").notices] == ["empty_index"]
        assert kb.ingest(base / "v1", source="kb").count(FileOutcome.INDEXED) == DOCUMENTS
        assert_whole(kb)
        assert_findable(kb, 5, "first")
