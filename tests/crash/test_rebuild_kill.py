"""kill -9 at every state of a rebuild and at random moments: the active generation answers, the
audit is clean, and the same command goes on.

TEST_REBUILD_KILLS says at how many random moments.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from pymilvus.client import grpc_handler

from knowport import KnowledgeBase
from knowport.errors import IndexInUse
from knowport.pipelines.rebuild_states import UNDER_WAY
from knowport.settings import load_settings
from rebuilds import Hasty, assert_clean, doc_id, states, text_of
from support import HashEmbedder, driver, make_folder, mark

KILLS = int(os.environ.get("TEST_REBUILD_KILLS", "6"))
SEED = 20240229
DOCUMENTS = 8
VERSIONS = ("first", "second")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``home`` with eight pages cut to 600 characters; ``second``, their second versions."""
    folder = tmp_path_factory.mktemp("base")
    for version in VERSIONS:
        make_folder(
            folder / version,
            {
                f"d{n:02}.md": text_of(n, version, parts=4 if version == "first" else 1 + n % 7)
                for n in range(DOCUMENTS)
            },
        )
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(folder / "first", source="kb")
    return folder


@pytest.fixture
def home(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grpc_handler, "time", Hasty())
    return Path(shutil.copytree(base / "home", tmp_path / "home"))


def put(base: Path, number: int, version: str = "second") -> str:
    return f"put {doc_id(number)} {base / version / f'd{number:02}.md'}"


def reopened(home: Path, size: int = 300) -> KnowledgeBase:
    """The knowledge base once the engine of the killed process has let go of the file."""
    settings = load_settings({"home": home, "chunking": {"size": size}})
    deadline = time.monotonic() + 120
    while True:
        try:
            return KnowledgeBase(settings=settings, embedder=HashEmbedder())
        except IndexInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def assert_answers(kb: KnowledgeBase) -> None:
    """Every page is whole in one of its versions, and found by its words."""
    for info in kb.documents():
        number = int(info.doc_id[4:6])
        text = kb.document(info.doc_id)[1].text
        version = "first" if mark("first", number, 0, 0) in text else "second"
        for at in (0, 1):
            answer = kb.lookup(mark(version, number, 0, at))
            assert answer.generation == kb.status().generation
            assert answer.evidence[0].document_id.startswith(f"{info.doc_id}#chunk-")
            assert mark(version, number, 0, at) in answer.evidence[0].excerpt


# The steps of one job, with documents changed, deleted and added in between, so that every step
# has something to catch up with.
def steps(base: Path) -> list[str]:
    return [
        "start",
        put(base, 0),
        f"delete {doc_id(1)}",
        put(base, 2),
        "verify",
        "activate",
        put(base, 3),
        f"delete {doc_id(4)}",
        "rollback",
        "rollback",
        "drop g1",
    ]


@pytest.mark.parametrize(
    ("step", "point", "calls", "left"),
    [
        (0, "SqlLedger.save_generation", 1, ["active", "building"]),  # no collection yet
        (0, "MilvusIndex.create", 1, ["active", "building"]),  # an empty one
        (0, "MilvusIndex.upsert_chunks", 1, ["active", "building"]),  # rows without marks
        (0, "SqlLedger.store_built", 4, ["active", "building"]),  # half of it
        (0, "SqlLedger.save_generation", 2, ["active", "built"]),
        (4, "SqlLedger.save_generation", 1, ["active", "verified"]),
        (
            5,
            "MilvusIndex.delete_by_doc_id",
            1,
            ["active", "verified"],
        ),  # catching up
        (5, "MilvusIndex.upsert_chunks", 1, ["active", "verified"]),
        (5, "SqlLedger.activate", 1, ["previous", "active"]),
        (8, "MilvusIndex.upsert_chunks", 1, ["previous", "active"]),
        (8, "SqlLedger.activate", 1, ["active", "previous"]),
        (10, "SqlLedger.save_generation", 1, ["active"]),  # the start has finished the drop
        (10, "MilvusIndex.drop", 1, ["active"]),
    ],
)
def test_killed_at_every_state(
    base: Path, home: Path, step: int, point: str, calls: int, left: list[str]
) -> None:
    job = steps(base)
    job.insert(step, f"die {point} {calls}")
    assert driver().run(do="rebuild", home=home, size=300, steps=job) == -signal.SIGKILL

    with reopened(home) as kb:
        assert kb.warnings == () or "chunking.size" in kb.warnings[0]
        assert states(kb) == left
        assert kb.rebuild.status().unknown == ()
        assert_answers(kb)
        assert kb.audit(sample=3).findings == ()
        if left == ["previous", "active"]:
            kb.rebuild.rollback()
        else:
            kb.rebuild.run(sample=3)
        assert_answers(kb)
        assert_clean(kb)


def test_killed_at_random_moments(base: Path, home: Path) -> None:
    """One home, worked on and killed again and again; nothing is put right in between."""
    draw = random.Random(SEED)
    plans = [
        [put(base, 0), "run", f"delete {doc_id(1)}", put(base, 1, "first"), "rollback"],
        ["run", put(base, 2), put(base, 3), "rollback", f"delete {doc_id(5)}", "run"],
        [put(base, 0, "first"), "begin", put(base, 2, "first"), "abort", "run", put(base, 5)],
    ]
    driver().start(
        do="rebuild",
        home=Path(shutil.copytree(home, home.parent / "timed")),
        size=300,
        steps=plans[1],
    )
    assert driver().until("ready") == "ready"
    start = time.monotonic()
    assert driver().ended() == 0
    seconds = time.monotonic() - start
    killed = rounds = 0
    while killed < KILLS:
        rounds += 1
        assert rounds <= 3 * KILLS, "most jobs end before they are killed"
        size = draw.choice((300, 600))
        driver().start(do="rebuild", home=home, size=size, steps=draw.choice(plans))
        assert driver().until("ready") == "ready"
        time.sleep(draw.uniform(0, 0.6 * seconds))
        driver().kill()
        killed += driver().ended() == -signal.SIGKILL
        with reopened(home, size) as kb:
            assert states(kb).count("active") == 1
            assert "dropping" not in states(kb)
            assert kb.status().unfinished == 0
            assert_answers(kb)
            assert_clean(kb)
            for row in kb.rebuild.status().generations[:-3]:  # the disk is not endless
                if row.generation.state == "previous":
                    kb.rebuild.drop(row.generation.name)
    with reopened(home) as kb:
        if any(row.generation.state in UNDER_WAY for row in kb.rebuild.status().generations):
            kb.rebuild.abort()  # it may have been begun with other settings
        kb.rebuild.run(sample=5)
        assert_answers(kb)
        assert_clean(kb)
