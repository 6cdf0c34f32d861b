"""Documents that are put one by one, as the HTTP service does from several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.milvus import MilvusIndex
from knowport.errors import (
    EngineError,
    EngineUnavailable,
    GenerationChanged,
    InvalidInput,
    LoadError,
    UnknownDocument,
)
from knowport.model import FileOutcome, FileResult, LoadedFile
from knowport.pipelines import put as put_module
from knowport.pipelines import retry
from knowport.pipelines.documents import Origin
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.put import delete_present, put_file, put_text
from knowport.pipelines.retry import with_retries
from rebuilds import Base, assert_answers, doc_id, text_of
from support import HashEmbedder, page, stored_chunks
from sync_support import MemoryIndex, add_generation, ingest_ports

NIGHT = "早上九点交接，值班电话在公告栏。重启数据库之前先备份日志，再通知值班经理。\n"


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[IngestPorts]:
    with ingest_ports(tmp_path) as made:
        yield made


def origin(doc_id: str = "api/a.md", **more: Any) -> Origin:
    return Origin(**{"source": "api", "kb_scope": "default", "name": "a", "doc_id": doc_id, **more})


def put(ports: IngestPorts, text: str, **more: Any) -> FileResult:
    return put_text(LoadedFile(text, "markdown"), origin(**more), lambda: ports)


def memory(ports: IngestPorts) -> MemoryIndex:
    assert isinstance(ports.index, MemoryIndex)
    return ports.index


def test_put_says_what_it_did(ports: IngestPorts) -> None:
    long, short = page("A", ["x", "y", "z"]), page("A", ["x"])
    results = [put(ports, text) for text in (long, long, short, long)]
    assert [(str(r.outcome), r.reason, r.chunks) for r in results] == [
        ("indexed", "new", 3),
        ("unchanged", "", 3),
        ("indexed", "changed", 1),
        ("indexed", "changed", 3),
    ]
    assert {r.doc_id for r in results} == {r.path for r in results} == {"api/a.md"}
    assert len(memory(ports).text("api/a.md")) == 3
    assert len(memory(ports).upserts) == 3


def test_options_are_part_of_the_document(ports: IngestPorts) -> None:
    text = "---\ntitle: Own\ncategory: own\ntags: [x]\n---\n\n# Heading\n\nwords\n"
    put(ports, text)
    info = ports.ledger.document("api/a.md")
    assert info is not None
    assert (info.title, info.category, info.metadata) == ("Own", "own", {"tags": ["x"]})
    given = {"title": "Given\n title", "category": "given", "metadata": {"tags": [], "n": 1}}
    assert put(ports, text, **given).reason == "changed"
    info = ports.ledger.document("api/a.md")
    assert info is not None
    assert (info.title, info.category) == ("Given title", "given")
    assert info.metadata == {"tags": [], "n": 1}
    assert put(ports, text, **given).outcome is FileOutcome.UNCHANGED


def test_a_file_is_parsed_once_for_the_same_bytes_and_options(ports: IngestPorts) -> None:
    loads: list[str] = []

    def load_bytes(data: bytes, name: str) -> LoadedFile:
        loads.append(name)
        return ports.load_bytes(data, name)

    noting = replace(ports, load_bytes=load_bytes)

    def put_bytes(data: bytes, **more: Any) -> str:
        return str(put_file(data, "page.html", origin(**more), lambda: noting).outcome)

    html = b"<title>T</title><h1>Head</h1><p>words</p>"
    assert [put_bytes(html), put_bytes(html)] == ["indexed", "unchanged"]
    assert loads == ["page.html"]
    info = ports.ledger.document("api/a.md")
    assert info is not None
    assert info.metadata["file"]["kind"] == "html"
    assert put_bytes(html, category="other") == "indexed"
    assert put_bytes(html + b"<p>more</p>", category="other") == "indexed"
    assert len(loads) == 3


@pytest.mark.parametrize("text", ["", " \n\t\n", "---\ntitle: only front matter\n---\n"])
def test_a_text_without_words_leaves_the_older_version(ports: IngestPorts, text: str) -> None:
    put(ports, "# A\n\ngood\n")
    with pytest.raises(LoadError) as caught:
        put(ports, text)
    assert caught.value.reason == "empty"
    assert memory(ports).text("api/a.md") == ["# A\n\ngood"]


def test_what_the_index_refuses_is_raised_and_nothing_is_begun(ports: IngestPorts) -> None:
    memory(ports).refused = {"api/a.md"}
    with pytest.raises(InvalidInput):
        put(ports, "# A\n\na\n")
    assert ports.ledger.documents() == ()


def test_a_document_of_another_scope_is_not_taken_over(ports: IngestPorts) -> None:
    put(ports, "# A\n\na\n")
    with pytest.raises(InvalidInput) as caught:
        put(ports, "# A\n\na\n", kb_scope="second")
    assert caught.value.field == "doc_id"
    assert "default" not in caught.value.message


def test_chunks_that_the_index_lost_are_noticed(ports: IngestPorts) -> None:
    index = memory(ports)
    real = index.upsert_chunks
    index.upsert_chunks = lambda chunks: real(chunks[:-1])  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=r"does not hold document 'api/a\.md' whole"):
        put(ports, page("A", ["x", "y"]))
    assert [info.state for info in ports.ledger.documents()] == ["writing"]


def test_a_passing_failure_is_retried(ports: IngestPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WINDOW", 0.001)
    failures = [EngineUnavailable("away"), EngineUnavailable("away")]

    def before(_call: str) -> None:
        if failures:
            raise failures.pop()

    memory(ports).before = before
    assert put(ports, "# A\n\na\n").reason == "new"


def test_a_switch_meanwhile_writes_into_the_new_generation(ports: IngestPorts) -> None:
    new = replace(ports, index=MemoryIndex(), generation="g2")
    add_generation(ports.ledger, "g2", ports.embedder)  # type: ignore[arg-type]
    given = [ports, new]
    result = put_text(LoadedFile("# A\n\na\n", "markdown"), origin(), lambda: given.pop(0))
    assert result.reason == "new"
    assert memory(ports).rows == {}
    assert list(memory(new).rows) == ["api/a.md#chunk-0"]
    given = [ports, new]
    assert delete_present("api/a.md", lambda: given.pop(0)) == 1
    assert memory(new).rows == {}
    with pytest.raises(GenerationChanged):
        put(ports, "# A\n\na\n")


@pytest.fixture
def rebuilt(base: Base) -> Iterator[KnowledgeBase]:
    """Six pages, and a generation of smaller chunks that can be switched to."""
    with base.filled():
        pass
    with base.open(settings={"chunking": {"size": 300}}) as kb:
        kb.rebuild.start()
        kb.rebuild.verify(sample=1)
        yield kb


def assert_changed(kb: KnowledgeBase) -> None:
    """A put that falls into a switch says what it did, as the new generation holds it."""
    result = kb.put(doc_id(0), text_of(0, "second"))
    assert kb.status().generation != "g1"
    assert (str(result.outcome), result.reason) == ("indexed", "changed")
    assert result.chunks == kb.document(doc_id(0))[0].chunk_count > 4
    assert_answers(kb, 0, "second")
    assert kb.put(doc_id(0), text_of(0, "second")).outcome is FileOutcome.UNCHANGED


def test_a_switch_between_write_and_check_does_not_hide_the_change(
    rebuilt: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched: list[bool] = []

    def retrying(call: Any) -> Any:
        result = with_retries(call)
        if not switched:
            switched.append(True)
            rebuilt.rebuild.activate()
        return result

    monkeypatch.setattr(put_module, "with_retries", retrying)
    assert_changed(rebuilt)


def test_a_switch_in_the_midst_of_a_write_does_not_hide_the_change(
    rebuilt: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch takes the text over, so that there is nothing left to write."""
    fails = [EngineUnavailable("away")]
    real = MilvusIndex.upsert_chunks

    def upsert(index: MilvusIndex, chunks: Any) -> None:
        if fails:
            raise fails.pop()
        real(index, chunks)

    def retrying(call: Any) -> Any:
        try:
            return call()
        except EngineUnavailable:
            rebuilt.rebuild.activate()
            return call()

    monkeypatch.setattr(MilvusIndex, "upsert_chunks", upsert)
    monkeypatch.setattr(put_module, "with_retries", retrying)
    assert_changed(rebuilt)


def test_a_document_that_is_being_deleted_is_not_called_lost(
    ports: IngestPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer began to delete it between write and check, and was interrupted."""

    def retrying(call: Any) -> Any:
        call()
        ports.ledger.begin_delete("api/a.md")
        memory(ports).delete_by_doc_id("api/a.md")

    monkeypatch.setattr(put_module, "with_retries", retrying)
    assert put(ports, "# A\n\na\n").reason == "new"
    assert [info.state for info in ports.ledger.documents()] == ["deleting"]


def test_threads_that_put_and_delete_one_document_leave_it_whole(ports: IngestPorts) -> None:
    texts = [page(f"V{n}", [f"{n} {part}" for part in range(2 + 7 * n)]) for n in range(3)]

    def work(number: int) -> None:
        for _ in range(12):
            if number == 3:
                try:
                    delete_present("api/a.md", lambda: ports)
                except UnknownDocument:
                    continue
            else:
                put(ports, texts[number])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    put(ports, texts[1])
    assert memory(ports).text("api/a.md") == [
        f"## V1 section {part}\n\n1 {part}" if part else "# V1\n\n## V1 section 0\n\n1 0"
        for part in range(9)
    ]


def test_through_the_api(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        with pytest.raises(UnknownDocument):
            kb.delete("api/none.md")
        assert kb.status().generation == ""  # asking for what is not there makes no index
        first = kb.put("handbook/failover.md", page("Failover", ["promote", "reconnect"]))
        assert (str(first.outcome), first.reason, first.chunks) == ("indexed", "new", 2)
        uploaded = kb.put_file(NIGHT.encode("gb18030"), "夜班.txt", category="ops")
        assert uploaded.doc_id == "api/夜班.txt"
        info, document = kb.document("api/夜班.txt")
        assert (info.source, info.category, info.title) == ("api", "ops", "夜班")
        assert info.metadata["file"] == {"kind": "text", "encoding": "gb18030"}
        assert document.text == NIGHT
        assert kb.lookup("reconnect").evidence[0].document_id.startswith("handbook/failover.md#")
        named = kb.put_file(b"# X\n\nx\n", "x.md", doc_id="own/id", source="mine", title="Y")
        assert (named.doc_id, kb.document("own/id")[0].title) == ("own/id", "Y")
        assert kb.delete("handbook/failover.md") == 2
        assert sorted(c.partition("#")[0] for c in stored_chunks(kb)) == ["api/夜班.txt", "own/id"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"doc_id": "../x"}, "doc_id"),
        ({"doc_id": ""}, "doc_id"),
        ({"source": "a//b"}, "doc_id"),
        ({"category": "two\nlines"}, "category"),
        ({"kb_scope": "*"}, "kb_scope"),
        ({"metadata": {"x": float("nan")}}, "metadata"),
        ({"metadata": {"x": {1, 2}}}, "metadata"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        doc_id = arguments.pop("doc_id", "api/a.md")
        with pytest.raises(InvalidInput) as caught:
            kb.put(doc_id, "# A\n\na\n", **arguments)
        assert caught.value.field == field
        assert kb.status().generation == ""
