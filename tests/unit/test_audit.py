"""Every kind of fault between ledger and index is found, named, and mended from the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowport.adapters.ledger import SqlLedger
from knowport.core.chunking import ChunkingOptions
from knowport.core.compose import content_hash
from knowport.errors import GenerationChanged
from knowport.model import BuiltDocument, Document, Generation
from knowport.pipelines.audit import AuditProgress, AuditReport, ExpectedDocument, audit_index
from knowport.pipelines.audit_active import audit, repair
from knowport.pipelines.mend import MendPorts
from knowport.pipelines.probe import probe, sampled
from knowport.pipelines.replace import Write, cut, marks, replace_documents
from knowport.pipelines.vectors import Vectors
from memory_index import Held, MemoryIndex
from support import HashEmbedder, page

CHUNKING = ChunkingOptions(size=200)
G1 = Generation(
    name="g1",
    collection="biz_g1",
    embedder=HashEmbedder().identity,
    analyzer={},
    schema_version=1,
    lexical=True,
    proved_on="memory",
    created_at="2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[MendPorts]:
    """Documents of 2, 3 and 4 chunks, ``kb/2.md`` to ``kb/4.md``, written as an ingest does."""
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    ledger.save_generation(G1)
    ledger.activate("g1", activated_at=G1.created_at, forced=False)
    ports = MendPorts(HashEmbedder(), ledger, MemoryIndex(), "g1", CHUNKING)
    write([document(n) for n in (2, 3, 4)], ports)
    yield ports
    ledger.close()


def document(chunks: int, word: str = "first", **more: str) -> Document:
    made = Document(
        doc_id=f"kb/{chunks}.md",
        source="kb",
        title=f"Page {chunks}",
        category=more.get("category", "network"),
        kb_scope=more.get("kb_scope", "default"),
        text=page(
            f"Page {chunks}", [f"{word} text{chunks}{n} about part{n}" for n in range(chunks)]
        ),
        text_format="markdown",
        content_hash="",
    )
    return replace(made, content_hash=content_hash(made))


def prepared(made: Document, ports: MendPorts) -> Write:
    whole = cut(made, CHUNKING)
    vectors = Vectors(ports.embedder, ports.ledger)
    vectors.fill(dict(zip(whole.hashes, whole.texts, strict=True)), keys=whole.keys)
    return Write(made, whole.indexed(vectors.known))


def write(documents: Sequence[Document], ports: MendPorts) -> None:
    writes = [prepared(made, ports) for made in documents]
    replace_documents(writes, ports.ledger, ports.index, generation="g1")


def memory(ports: MendPorts) -> MemoryIndex:
    assert isinstance(ports.index, MemoryIndex)
    return ports.index


def codes(report: AuditReport) -> list[tuple[str, str]]:
    return [(finding.code, finding.key or finding.doc_id) for finding in report.findings]


def audited(ports: MendPorts, sample: int | None = None) -> AuditReport:
    return audit(ports, lexical=True, sample=sample)


# -- faults, and what they are called -------------------------------------------------------------


def drop(*ids: str) -> Callable[[MemoryIndex], None]:
    def spoil(index: MemoryIndex) -> None:
        index.rows = [row for row in index.rows if row.id not in ids]

    return spoil


def change(row_id: str, how: Callable[[Held], Held]) -> Callable[[MemoryIndex], None]:
    return lambda index: index.change(row_id, how)


def copy(row_id: str, how: Callable[[Held], Held]) -> Callable[[MemoryIndex], None]:
    def spoil(index: MemoryIndex) -> None:
        index.rows.append(how(next(row for row in index.rows if row.id == row_id)))

    return spoil


FAULTS: dict[str, tuple[Callable[[MemoryIndex], None], list[tuple[str, str]]]] = {
    "nothing": (lambda _: None, []),
    "a chunk is gone": (drop("kb/3.md#chunk-1"), [("missing", "kb/3.md#chunk-1")]),
    "a document is gone": (drop("kb/2.md#chunk-0", "kb/2.md#chunk-1"), [("missing", "kb/2.md")]),
    "a row of an unknown document": (
        copy(
            "kb/2.md#chunk-0",
            lambda row: replace(row, id="gone.md#chunk-0").with_chunk(doc_id="gone.md"),
        ),
        [("ghost", "gone.md")],
    ),
    "a row beyond the last chunk": (
        copy(
            "kb/2.md#chunk-0",
            lambda row: replace(row, id="kb/2.md#chunk-2").with_chunk(chunk_index=2),
        ),
        [("ghost", "kb/2.md#chunk-2")],
    ),
    "a row whose id is no chunk's": (
        copy("kb/2.md#chunk-0", lambda row: replace(row, id="17")),
        [("ghost", "17")],
    ),
    "a row that says it is another document's": (
        copy("kb/2.md#chunk-0", lambda row: row.with_chunk(doc_id="kb/3.md")),
        # Listed is the last row of an id, so the document seems to have lost its own.
        [
            ("duplicate", "kb/2.md"),
            ("missing", "kb/2.md#chunk-0"),
            ("ghost", "kb/2.md#chunk-0"),
        ],
    ),
    "other text": (
        change("kb/4.md#chunk-3", lambda row: row.with_chunk(content="tampered")),
        [("wrong_hash", "kb/4.md#chunk-3")],
    ),
    "another hash": (
        change("kb/4.md#chunk-3", lambda row: row.with_item(content_hash="0" * 64)),
        [("wrong_hash", "kb/4.md#chunk-3")],
    ),
    "another scope": (
        change("kb/2.md#chunk-0", lambda row: row.with_item(kb_scope="secret")),
        [("wrong_scope", "kb/2.md#chunk-0")],
    ),
    "another category": (
        change("kb/2.md#chunk-0", lambda row: row.with_item(category="")),
        [("wrong_category", "kb/2.md#chunk-0")],
    ),
    "an id twice": (copy("kb/2.md#chunk-1", lambda row: row), [("duplicate", "kb/2.md")]),
    "another text's vector": (
        change(
            "kb/4.md#chunk-2", lambda row: row.with_item(vector=HashEmbedder().embed_query("x"))
        ),
        [("not_found_dense", "kb/4.md#chunk-2")],
    ),
    "no words in the lexical index": (
        change("kb/4.md#chunk-2", lambda row: replace(row, words=frozenset())),
        [("not_found_sparse", "kb/4.md#chunk-2")],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_mended(fault: str, ports: MendPorts) -> None:
    spoil, expected = FAULTS[fault]
    spoil(memory(ports))

    report = audited(ports)

    assert codes(report) == expected
    assert report.documents == 3
    repaired = repair(report, ports, lexical=True, sample=None)
    assert codes(repaired.after) == []
    assert repaired.refused == {}
    assert sorted(memory(ports).iter_ids()) == [
        f"kb/{n}.md#chunk-{chunk}" for n in (2, 3, 4) for chunk in range(n)
    ]
    assert memory(ports).count() == 9
    touched = {finding.doc_id for finding in report.findings}
    assert {*repaired.rewritten, *repaired.deleted} == touched


def test_an_engine_that_lists_an_id_twice_is_told_of_once(ports: MendPorts) -> None:
    index = memory(ports)
    index.lists_all = True
    index.rows.append(index.rows[0])

    assert codes(audited(ports)) == [("duplicate", "kb/2.md#chunk-0")]


def test_documents_of_every_scope_are_audited(ports: MendPorts) -> None:
    write([document(5, kb_scope="team-b", category="")], ports)

    assert codes(audited(ports)) == []
    memory(ports).change("kb/5.md#chunk-0", lambda row: row.with_item(kb_scope="default"))
    assert codes(audited(ports)) == [("wrong_scope", "kb/5.md#chunk-0")]


# -- what a living writer has at hand is no fault -------------------------------------------------


def test_a_document_that_is_replaced_during_the_audit_is_no_fault(ports: MendPorts) -> None:
    told: list[AuditProgress] = []

    def replace_it(now: AuditProgress) -> None:
        if not told:  # the comparison is over, the first probe is done
            write([document(4, "second")], ports)
            memory(ports).delete_by_doc_id("kb/3.md")
            write([document(3, "second")], ports)
        told.append(now)

    report = audit(ports, lexical=True, sample=None, on_progress=replace_it)

    assert codes(report) == []
    assert [now.step for now in told].count("probe") == 3


def test_a_document_that_comes_during_the_audit_is_no_ghost(ports: MendPorts) -> None:
    class Slow(MemoryIndex):
        def iter_rows(self, *, doc_id: str | None = None):  # type: ignore[no-untyped-def]
            if doc_id is None:  # the ledger has been read
                write([document(5)], late)
            return super().iter_rows(doc_id=doc_id)

    late = replace(ports, index=Slow(memory(ports).rows))

    report = audited(late)

    assert codes(report) == []
    assert report.documents == 3
    assert report.chunks == 14


def test_a_switch_during_the_audit_is_an_error(ports: MendPorts) -> None:
    def switch(_: AuditProgress) -> None:
        if ports.ledger.active_generation() == G1:
            ports.ledger.save_generation(replace(G1, name="g2", state="built"))
            built = [
                # As a rebuild that cuts alike would have left it.
                built_document(made, ports)
                for made in (document(2), document(3), document(4))
            ]
            ports.ledger.store_built("g2", built)
            ports.ledger.activate("g2", activated_at="2026-01-02T00:00:00+00:00", forced=False)

    with pytest.raises(GenerationChanged, match="g1"):
        audit(ports, lexical=True, sample=None, on_progress=switch)


def built_document(made: Document, ports: MendPorts) -> BuiltDocument:
    return BuiltDocument(made.doc_id, made.content_hash, marks(prepared(made, ports).chunks))


# -- half done ------------------------------------------------------------------------------------


def test_half_done_documents_are_named_and_finished(ports: MendPorts) -> None:
    ports.ledger.reopen_writes(["kb/3.md"])
    memory(ports).delete_by_doc_id("kb/3.md", from_index=1)
    ports.ledger.begin_delete("kb/4.md")

    report = audited(ports)

    assert codes(report) == [("unfinished", "kb/3.md"), ("unfinished", "kb/4.md")]
    repaired = repair(report, ports, lexical=True)
    assert repaired.rewritten == ["kb/3.md"]
    assert repaired.deleted == ["kb/4.md"]
    assert codes(repaired.after) == []
    assert repaired.after.documents == 2
    assert memory(ports).count() == 5


def test_what_cannot_be_written_again_stays_a_finding_with_its_reason(ports: MendPorts) -> None:
    index = memory(ports)
    drop("kb/3.md#chunk-0", "kb/4.md#chunk-0")(index)
    index.refused = {"kb/3.md"}

    repaired = repair(audited(ports), ports, lexical=True)

    assert codes(repaired.after) == [("missing", "kb/3.md#chunk-0")]
    assert repaired.refused == {"kb/3.md": "kb/3.md is too long."}
    assert repaired.rewritten == ["kb/4.md"]
    assert index.count() == 8


def test_a_crash_between_deleting_and_writing_again_is_remembered(ports: MendPorts) -> None:
    index = memory(ports)
    index.rows.append(index.rows[0])  # kb/2.md, once more
    report = audited(ports)

    def die(name: str, _: object) -> None:
        if name == "upsert":
            raise KeyboardInterrupt

    index.before = die
    with pytest.raises(KeyboardInterrupt):
        repair(report, ports, lexical=True)
    assert index.count(doc_id="kb/2.md") == 0
    assert [info.doc_id for info in ports.ledger.unfinished()] == ["kb/2.md"]


# -- a generation that is being built -------------------------------------------------------------


def test_any_index_is_audited_against_what_is_handed_in(ports: MendPorts) -> None:
    hashes = [mark.content_hash for mark in ports.ledger.marks(["kb/2.md"])["kb/2.md"]]
    expected = [
        ExpectedDocument("kb/2.md", "default", "network", hashes[::-1]),
        ExpectedDocument("kb/9.md", "default", "", ["0" * 64]),
    ]

    report = audit_index(ports.index, expected)

    assert codes(report) == [
        ("wrong_hash", "kb/2.md#chunk-0"),
        ("wrong_hash", "kb/2.md#chunk-1"),
        ("ghost", "kb/3.md"),
        ("ghost", "kb/4.md"),
        ("missing", "kb/9.md"),
    ]
    assert (report.documents, report.chunks, report.probed) == (2, 9, 0)


# -- probes ---------------------------------------------------------------------------------------


def test_the_sample_is_the_same_whatever_else_comes() -> None:
    counts = {f"kb/{n}.md": 10 for n in range(50)}
    chosen = sampled(counts, 20)

    assert sum(map(len, chosen.values())) == 20
    assert sampled(dict(reversed(counts.items())), 20) == chosen
    more = sampled({**counts, "new.md": 10}, 20)
    assert sum(set(more.get(doc_id, ())) >= set(ns) for doc_id, ns in chosen.items()) >= 17
    assert sampled(counts, 0) == {}
    assert sampled({"a.md": 2, "b.md": 1}, None) == {"a.md": [0, 1], "b.md": [0]}
    assert sampled({"a.md": 2}, 50) == {"a.md": [0, 1]}


def test_copies_of_a_text_count_as_found(ports: MendPorts) -> None:
    index = memory(ports)
    original = next(row for row in index.rows if row.id == "kb/2.md#chunk-0")
    copies = [
        replace(original, id=f"a{n:04}.md#chunk-0").with_chunk(doc_id=f"a{n:04}.md", chunk_index=0)
        for n in range(1_500)
    ]
    index.rows.extend(copies)

    assert probe(index, [original.item], lexical=True) == []
    index.rows.remove(original)
    assert [found.code for found in probe(index, [original.item], lexical=True)] == [
        "not_found_dense",
        "not_found_sparse",
    ]


def test_a_chunk_without_words_is_not_asked_of_the_lexical_leg(ports: MendPorts) -> None:
    index = memory(ports)
    index.change("kb/2.md#chunk-0", lambda row: replace(row, words=frozenset()))
    row = next(row for row in index.rows if row.id == "kb/2.md#chunk-0")

    assert probe(index, [row.item], lexical=False) == []
    assert probe(index, [replace(row.item, search_text="🎉 的 ！")], lexical=True) == []
    assert [f.code for f in probe(index, [row.item], lexical=True)] == ["not_found_sparse"]


def test_a_slightly_different_vector_of_an_endpoint_is_the_same(ports: MendPorts) -> None:
    row = memory(ports).rows[0]
    noise = np.zeros_like(row.item.vector)
    noise[0] = 0.01

    assert (
        probe(memory(ports), [replace(row.item, vector=row.item.vector + noise)], lexical=False)
        == []
    )
