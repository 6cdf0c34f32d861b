"""kill -9 at any moment, of the process or of its embedded engine: nothing indexed is lost.

Each chain is one home that is worked on and killed again and again. A round ingests new files,
ingests changed ones, or deletes some; it is killed, opened again and audited. TEST_KILLS
says how many rounds there are in all.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.model import FileOutcome, SearchMode
from support import HashEmbedder, children_of, driver, make_folder, mark, page

KILLS = int(os.environ.get("TEST_KILLS", "10"))
ROUNDS = 10
SEED = 20240229
DOCUMENTS = 40
KINDS = ("ingest", "reingest", "delete")
VICTIMS = ("process", "process", "engine", "restart")
SUFFIXES = ("md", "txt", "html", "csv", "rst", "py")
MODES: tuple[SearchMode, ...] = ("dense", "hybrid")

State = dict[int, int]
"""Version by number of the documents that are indexed."""


def name(number: int) -> str:
    return f"d{number:02}.{SUFFIXES[number % len(SUFFIXES)]}"


def doc_id(number: int) -> str:
    return f"kb/{name(number)}"


def marks(number: int, version: int) -> list[str]:
    """What stands in a version of a document and nowhere else; some are longer, some shorter."""
    return [mark(number, version, part) for part in range(1 + (7 * number + 5 * version) % 8)]


def content(number: int, version: int) -> bytes:
    title, parts = f"Page {number}", marks(number, version)
    text = {
        "md": lambda: page(title, parts),
        "txt": lambda: "\n\n".join(f"数据库检查 {part}" for part in parts),
        "html": lambda: (
            f"<html><body><h1>{title}</h1>"
            + "".join(f"<h2>{n}</h2><p>{part}</p>" for n, part in enumerate(parts))
            + "</body></html>"
        ),
        "csv": lambda: "name,words\n" + "".join(f"{n},{part}\n" for n, part in enumerate(parts)),
        "rst": lambda: f"{title}\n=======\n\n" + "\n\n".join(parts),
        "py": lambda: "".join(f"# {part}\nnumber_{n} = {n}\n\n" for n, part in enumerate(parts)),
    }[SUFFIXES[number % len(SUFFIXES)]]()
    return text.encode("gb18030" if name(number).endswith("txt") else "utf-8")


def files(state: Mapping[int, int]) -> dict[str, bytes]:
    return {name(number): content(number, version) for number, version in state.items()}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A home that holds version 0 of most documents."""
    folder = tmp_path_factory.mktemp("base")
    state = dict.fromkeys(range(DOCUMENTS - 10), 0)
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        report = kb.ingest(make_folder(folder / "files", files(state)), source="kb")
    assert report.count(FileOutcome.INDEXED) == len(state)
    return folder / "home", state


@pytest.fixture(scope="module")
def seconds(base: tuple[Path, State], tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How long each kind of round takes from ``ready`` to its end when nobody kills it."""
    taken = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        shutil.copytree(base[0], folder / "home")
        job, _ = planned(kind, base[1], 1, random.Random(SEED), folder)
        driver().start(home=folder / "home", **job)
        assert driver().until("ready") == "ready"
        start = time.monotonic()
        assert driver().ended() == 0
        taken[kind] = time.monotonic() - start
    return taken


def planned(
    kind: str, state: State, version: int, rng: random.Random, folder: Path
) -> tuple[dict[str, Any], State]:
    """A round's job, and the state that it leads to if it is not killed."""
    if kind == "delete":
        goes = rng.sample(sorted(state), len(state) // 3)
        job = {"do": "delete", "documents": [doc_id(number) for number in goes]}
        return job, {number: v for number, v in state.items() if number not in goes}
    absent = set(range(DOCUMENTS)) - set(state)
    changed = absent if kind == "ingest" else rng.sample(sorted(state), len(state) // 2)
    after = {**state, **dict.fromkeys(changed, version)}
    given = dict.fromkeys(absent, version) if kind == "ingest" else after
    path = make_folder(folder / f"files-{version}", files(given))
    return {"do": "ingest", "path": path, "source": "kb"}, after


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", range(-(-KILLS // ROUNDS)))
def test_nothing_indexed_is_lost(
    chain: int, base: tuple[Path, State], seconds: dict[str, float], tmp_path: Path
) -> None:
    rng = random.Random(SEED + chain)
    home = Path(shutil.copytree(base[0], tmp_path / "home"))
    state = dict(base[1])
    for number in range(1, 1 + min(ROUNDS, KILLS - chain * ROUNDS)):
        possible = [k for k in KINDS if k != "ingest" or len(state) < DOCUMENTS]
        kind = "ingest" if len(state) < DOCUMENTS // 2 else rng.choice(possible)
        job, after = planned(kind, state, number, rng, tmp_path)
        victim = rng.choice(VICTIMS)
        killed = kill(home, job, victim, rng.random() * 1.05 * seconds[kind], rng)
        with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
            state = checked(kb, state, after, rng)
        for group in killed:
            assert_gone(group)


def kill(
    home: Path, job: dict[str, Any], victim: str, after: float, rng: random.Random
) -> list[int]:
    """Run a job until it is killed ``after`` so many seconds; the process groups that it led."""
    group = driver().start(home=home, **job)
    assert driver().until("ready") == "ready"
    time.sleep(after)
    if victim == "engine":
        with contextlib.suppress(ProcessLookupError):  # the job may be done
            os.kill(engine_of(group), signal.SIGKILL)
        time.sleep(rng.random())
    driver().kill()
    assert driver().ended() in (-signal.SIGKILL, 0, 99)  # 99: it noticed that its engine is gone
    if victim != "restart":
        return [group]
    again = driver().start(home=home, **job)
    time.sleep(rng.random() * 1.5)  # it waits for the engine, opens, and finishes what was left
    driver().kill()
    driver().ended()
    return [group, again]


def engine_of(process: int) -> int:
    """The embedded engine is a child of the process."""
    with contextlib.suppress(FileNotFoundError):
        for child, command in children_of(process).items():
            if command.split("\0")[0].endswith("/milvus"):
                return child
    raise ProcessLookupError


def checked(kb: KnowledgeBase, before: State, after: State, rng: random.Random) -> State:
    """The state that the knowledge base is in; each document is whole as before or as after."""
    assert kb.warnings == ()
    assert kb.status().unfinished == 0
    report = kb.audit(sample=20)
    assert report.findings == ()
    infos = {info.doc_id: info for info in kb.documents()}
    assert report.documents == len(infos)
    assert report.chunks == sum(info.chunk_count for info in infos.values())
    now: State = {}
    for number in range(DOCUMENTS):
        allowed = {before.get(number), after.get(number)}
        if doc_id(number) not in infos:
            assert None in allowed, f"{doc_id(number)} is lost"
            continue
        _, document = kb.document(doc_id(number))
        versions = [v for v in allowed if v is not None and is_version(document.text, number, v)]
        assert len(versions) == 1, f"{doc_id(number)} is neither the old nor the new one"
        now[number] = versions[0]
    assert len(now) == len(infos)
    for number in rng.sample(sorted(now), 2):
        assert_found(kb, number, marks(number, now[number]))
    gone = [(n, v) for n, v in before.items() if now.get(n) != v]
    assert_not_found(kb, [marks(number, version)[0] for number, version in gone[:2]])
    return now


def is_version(text: str, number: int, version: int) -> bool:
    """Whether a text holds all that stands in a version, and no more of the like."""
    beyond = mark(number, version, len(marks(number, version)))
    return all(part in text for part in marks(number, version)) and beyond not in text


def assert_found(kb: KnowledgeBase, number: int, parts: Iterable[str]) -> None:
    """By words; that each chunk is found in both legs is what the audit proves."""
    for part in parts:
        evidence = kb.lookup(part).evidence
        assert [e.document_id.split("#")[0] for e in evidence if part in e.excerpt] == [
            doc_id(number)
        ]


def assert_not_found(kb: KnowledgeBase, parts: Iterable[str]) -> None:
    for part in parts:
        for mode in MODES:
            answer = kb.lookup(part, mode=mode)
            assert not any(part in item.excerpt for item in answer.evidence)


def assert_gone(group: int) -> None:
    """Neither the engine nor a parser outlives its process for long."""
    deadline = time.monotonic() + 120
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, "a process of the killed one lives on"
        time.sleep(0.05)
