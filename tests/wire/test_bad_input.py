"""Input that cannot be used: a clear error or a stated outcome, and the stored data stays whole."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowport import Answer, KnowledgeBase
from knowport.errors import (
    EmbeddingError,
    IndexInUse,
    IndexMismatch,
    InvalidInput,
    KnowportError,
    UnknownDocument,
)
from knowport.model import FileOutcome, FileResult, SearchMode
from support import HashEmbedder, knowport, make_folder, mark, page, stored_chunks

MODES: tuple[SearchMode, ...] = ("dense", "hybrid")
FILES = {
    "page.md": page("Page", [mark(n) for n in range(3)]),
    "mysql/lock.md": "# 锁等待\n\n支付库报 ERROR 1205 (HY000)，事务等不到行锁。\n",
    "redis/slots.md": "# Slots\n\nCLUSTERDOWN Hash slot not served\n",
}
CHUNKS = 5
DESTRUCTIVE = ("delete", "remove", "move", "rm ")


class FaultyEmbedder(HashEmbedder):
    """Hands the vectors of every batch that holds the word POISON through ``spoil``."""

    def __init__(self) -> None:
        super().__init__()
        self.spoil: Callable[[Any], Any] = lambda made: made

    def embed_documents(self, texts: Any) -> Any:
        made = super().embed_documents(texts)
        return self.spoil(made) if any("POISON" in text for text in texts) else made


@pytest.fixture(scope="module")
def embedder() -> FaultyEmbedder:
    return FaultyEmbedder()


@pytest.fixture(scope="module")
def kb(
    tmp_path_factory: pytest.TempPathFactory, embedder: FaultyEmbedder
) -> Iterator[KnowledgeBase]:
    """A small base; every test leaves it as it was."""
    folder = tmp_path_factory.mktemp("bad")
    with KnowledgeBase(folder / "home", embedder=embedder) as opened:
        opened.ingest(make_folder(folder / "kb", FILES), source="kb", category_from_folder=True)
        yield opened


def state(kb: KnowledgeBase) -> dict[str, Any]:
    """What a fault must not change: the rows, the ledger, and the answer to a lookup."""
    answers = {mode: kb.lookup("ERROR 1205", mode=mode) for mode in MODES}
    return {
        "chunks": sorted(stored_chunks(kb)),
        "documents": {i.doc_id: (i.content_hash, i.chunk_count, i.state) for i in kb.documents()},
        "unfinished": kb.status().unfinished,
        "evidence": {mode: answer.evidence for mode, answer in answers.items()},
    }


@contextmanager
def unchanged(kb: KnowledgeBase) -> Iterator[None]:
    before = state(kb)
    assert len(before["chunks"]) >= CHUNKS
    assert before["unfinished"] == 0
    assert before["evidence"]["hybrid"][0].document_id == "kb/mysql/lock.md#chunk-0"
    yield
    assert state(kb) == before


def ids(answer: Answer) -> list[str]:
    return [item.document_id for item in answer.evidence]


def notices(answer: Answer) -> list[str]:
    return [notice.code for notice in answer.notices]


def by_name(results: Any) -> dict[str, FileResult]:
    return {Path(result.path).name: result for result in results}


# -- queries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "　", "\u200b\ufeff", "\0\0", "\ud800"])
def test_a_blank_query_is_refused(kb: KnowledgeBase, query: str) -> None:
    with unchanged(kb), pytest.raises(InvalidInput, match="blank") as caught:
        kb.lookup(query)
    assert caught.value.field == "query"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("query", ["锁" * 20_000, "x" * 20_000, " " * 20_000, "\ufdfa" * 3_999])
def test_a_query_of_20_000_characters_is_refused(kb: KnowledgeBase, query: str) -> None:
    with unchanged(kb), pytest.raises(InvalidInput, match=r"limit is 4000") as caught:
        kb.lookup(query)
    assert caught.value.field == "query"
    assert len(caught.value.message) < 200, "the query itself is not repeated"


def test_the_longest_query_is_answered(kb: KnowledgeBase) -> None:
    for mode in MODES:
        assert kb.lookup(("ERROR 1205 " * 400)[:4_000], mode=mode).found


@pytest.mark.parametrize(
    "query", ["？！，。", "...", "🚑", "👩‍👩‍👧‍👦🇨🇳", "的了", "the of and", "\\", '"']
)
def test_without_lexical_terms_only_meaning_is_searched_and_it_says_so(
    kb: KnowledgeBase, query: str
) -> None:
    result = kb.run_lookup(query, mode="hybrid")
    assert [attempt.mode for attempt in result.attempts] == ["dense"]
    assert result.notices[0].code == "no_lexical_terms"
    assert "no_lexical_terms" not in notices(kb.lookup(query, mode="dense")), "it was asked for"


@pytest.mark.parametrize("query", ["ERROR\0 1205", "\ud800ERROR 1205\udfff", "ERROR\x1b 1205"])
def test_nul_and_lone_surrogates_do_not_disturb_a_query(kb: KnowledgeBase, query: str) -> None:
    for mode in MODES:
        assert ids(kb.lookup(query, mode=mode)) == ids(kb.lookup("ERROR 1205", mode=mode))


@pytest.mark.parametrize(
    "query", ["'; drop", '" or 1 == 1', "a\\", "{x} %s $1", "id in ['a']", "[[", "*", "-1", "NOT"]
)
def test_queries_that_look_like_a_language_are_only_text(kb: KnowledgeBase, query: str) -> None:
    with unchanged(kb):
        for mode in MODES:
            kb.lookup(query, mode=mode)


def test_a_lookup_before_any_ingest_says_that_the_index_is_empty(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        for query in ("ERROR 1205", "？"):
            answer = kb.lookup(query)
            assert (answer.found, answer.evidence, answer.relevance_level) == (False, (), "none")
            assert notices(answer) == ["empty_index"]
        folder = make_folder(tmp_path / "kb", {"a.md": "# A\n\ntext\n"})
        kb.ingest(folder, source="kb")
        assert kb.lookup("text").found
        assert kb.delete("kb/a.md") == 1
        for mode in MODES:  # M05: BM25 over an empty collection
            assert notices(kb.lookup("text", mode=mode)) == ["empty_index"]


# -- filters --------------------------------------------------------------------------------------


def test_an_unknown_category_is_said_with_the_nearest(kb: KnowledgeBase) -> None:
    answer = kb.lookup("1205", category="mysqll")
    assert (answer.found, answer.evidence) == (False, ())
    assert notices(answer) == ["unknown_category"]
    assert "mysql" in answer.notices[0].message


@pytest.mark.parametrize(
    "category",
    ['mysql" or category != "', "mysql\\", '"', "'", "夜班\\", "mysql' or '1'=='1", "m%", "MYSQL"],
)
def test_a_hostile_category_matches_nothing_but_itself(kb: KnowledgeBase, category: str) -> None:
    with unchanged(kb):
        for mode in MODES:
            answer = kb.lookup("1205", category=category, mode=mode)
            assert (answer.found, notices(answer)) == (False, ["unknown_category"])
        assert kb.documents(category=category) == ()


@pytest.mark.parametrize("category", ['night "shift"', "夜班\\", "o'neill", "50%_x"])
def test_a_category_with_quotes_is_found_by_itself(
    kb: KnowledgeBase, tmp_path: Path, category: str
) -> None:
    folder = make_folder(tmp_path / "odd", {"a.md": "# A\n\ntext one\n"})
    with unchanged(kb):
        kb.ingest(folder / "a.md", source="odd", category=category)
        for mode in MODES:
            assert ids(kb.lookup("text", category=category, mode=mode)) == ["odd/a.md#chunk-0"]
        assert [info.doc_id for info in kb.documents(category=category)] == ["odd/a.md"]
        kb.delete("odd/a.md")


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\0", "a\tb", "\ud800", "x" * 257, "锁" * 86])
@pytest.mark.parametrize("field", ["category", "kb_scope"])
def test_a_filter_that_cannot_be_used_is_refused_everywhere(
    kb: KnowledgeBase, tmp_path: Path, field: str, value: str
) -> None:
    folder = make_folder(tmp_path / "more", {"more.md": "# More\n\nmore\n"})
    given: dict[str, Any] = {field: value}
    calls: list[Callable[[], object]] = [
        lambda: kb.lookup("1205", **given),
        lambda: kb.ingest(folder, source="kb", **given),
        lambda: kb.documents(**given),
    ]
    with unchanged(kb):
        for call in calls:
            with pytest.raises(InvalidInput) as caught:
                call()
            assert caught.value.field == field


@pytest.mark.parametrize("category", ["", "  ", "*", "null"])
def test_a_blank_category_is_no_filter(kb: KnowledgeBase, category: str) -> None:
    assert ids(kb.lookup("1205", category=category)) == ids(kb.lookup("1205"))


@pytest.mark.parametrize("scope", [" ", "*", "null"])
def test_a_blank_scope_is_refused(kb: KnowledgeBase, scope: str) -> None:
    for call in (lambda: kb.lookup("1205", kb_scope=scope), lambda: kb.documents(kb_scope=scope)):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field == "kb_scope"


def test_scopes_never_see_each_other(tmp_path: Path) -> None:
    same = "# Same\n\nthe same words in both\n"
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        for scope in ("a", 'b" or kb_scope == "a'):
            name = scope[0]
            folder = make_folder(tmp_path / name, {"x.md": same, f"{name}.md": f"# {name}\n\nx\n"})
            kb.ingest(folder, source=name, kb_scope=scope)
        for mode in MODES:
            assert {i[0] for i in ids(kb.lookup("the same words", kb_scope="a", mode=mode))} == {
                "a"
            }
            hostile = kb.lookup("the same words", kb_scope='b" or kb_scope == "a', mode=mode)
            assert {i[0] for i in ids(hostile)} == {"b"}
            for other in ("default", "A", 'a" or kb_scope != "'):
                answer = kb.lookup("the same words", kb_scope=other, mode=mode)
                assert (answer.evidence, notices(answer)) == ((), ["empty_index"])
        assert [i.doc_id for i in kb.documents(kb_scope="a")] == ["a/a.md", "a/x.md"]
        assert kb.documents() == ()


def test_an_id_of_another_scope_is_refused(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {"page.md": "# Other\n\nother\n"})
    with unchanged(kb):
        report = kb.ingest(folder, source="kb", kb_scope="other")
    assert [(f.outcome, f.reason) for f in report.files] == [("failed", "invalid_doc_id")]
    assert "another scope than 'other'" in report.files[0].detail
    assert kb.documents(kb_scope="other") == ()


# -- document ids ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["a#b.md", "a#chunk-1.md", "sp ace.md", "q'uo\"te.md", "back\\slash.md", "100%.md", "🚑.md"],
)
def test_odd_ids_are_stored_found_and_deleted(kb: KnowledgeBase, tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path / "odd", {name: page("Odd", [mark(name, 0), mark(name, 1)])})
    with unchanged(kb):
        assert kb.ingest(folder, source="odd").count(FileOutcome.INDEXED) == 1
        for mode in MODES:
            best = kb.lookup(mark(name, 1), mode=mode).evidence[0]
            assert best.document_id == f"odd/{name}#chunk-1"
        assert kb.document(f"odd/{name}")[0].chunk_count == 2
        make_folder(tmp_path / "odd", {name: page("Odd", [mark(name, 2)])})
        assert kb.ingest(folder, source="odd").count(FileOutcome.INDEXED) == 1
        assert [c for c in stored_chunks(kb) if c.startswith("odd/")] == [f"odd/{name}#chunk-0"]
        assert kb.delete(f"odd/{name}") == 1


@pytest.mark.parametrize("name", ["x" * 250 + ".md", "a#chunk-1", "new\nline.md", "\udcff.md"])
def test_an_id_that_cannot_be_used_is_reported(
    kb: KnowledgeBase, tmp_path: Path, name: str
) -> None:
    below = "/".join(["y" * 200] * (len(name) > 100)) + "/"
    folder = make_folder(tmp_path / "odd", {"good.md": "# Good\n\ngood\n"})
    path = folder / below.lstrip("/") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Bad\n\nbad\n")
    with unchanged(kb):
        results = by_name(kb.ingest(folder, source="odd").files)
        assert results["good.md"].outcome == "indexed"
        assert results[name].outcome in ("failed", "skipped")
        assert results[name].reason in ("invalid_doc_id", "unsupported_format")
        kb.delete("odd/good.md")


@pytest.mark.parametrize("source", ["", "..", "/abs", "a//b", "nul\0", "\ud800", "x" * 500])
def test_a_source_that_cannot_begin_an_id_is_refused(
    kb: KnowledgeBase, tmp_path: Path, source: str
) -> None:
    folder = make_folder(tmp_path / "more", {"more.md": "# More\n\nmore\n"})
    with unchanged(kb), pytest.raises(InvalidInput) as caught:
        kb.ingest(folder, source=source)
    assert caught.value.field == "doc_id"


@pytest.mark.parametrize(
    "doc_id",
    ["", "kb", "kb/none.md", "kb/page.md#chunk-0", 'x" or doc_id != "', "x' or '1'='1", "\0",
     "\ud800", "x" * 500, "kb/%", "KB/page.md"],
)  # fmt: skip
def test_an_unknown_id_deletes_nothing(kb: KnowledgeBase, doc_id: str) -> None:
    with unchanged(kb):
        for call in (kb.delete, kb.document):
            with pytest.raises(UnknownDocument) as caught:
                call(doc_id)
            assert caught.value.exit_code == 9


def test_names_that_differ_in_unicode_form_only(kb: KnowledgeBase, tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))
    folder = make_folder(
        tmp_path / "odd",
        {composed: "# Composed\n\ncomposed\n", decomposed: "# Decomposed\n\ndecomposed\n"},
    )
    with unchanged(kb):
        results = by_name(kb.ingest(folder, source="odd").files)
        first, second = sorted([composed, decomposed])
        assert results[first].outcome == "indexed"
        assert (results[second].outcome, results[second].reason) == ("failed", "invalid_doc_id")
        assert first in results[second].detail
        for name in (composed, decomposed):  # R12: either form finds it
            assert kb.document(f"odd/{name}")[0].doc_id == f"odd/{composed}"
        assert kb.delete(f"odd/{decomposed}") == 1


# -- files ----------------------------------------------------------------------------------------


def test_a_path_that_is_not_there(kb: KnowledgeBase, tmp_path: Path) -> None:
    with unchanged(kb), pytest.raises(InvalidInput) as caught:
        kb.ingest(tmp_path / "none")
    assert caught.value.field == "path"
    assert str(tmp_path / "none") in caught.value.message


def test_a_path_that_is_not_there_makes_no_index(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        with pytest.raises(InvalidInput):
            kb.ingest(tmp_path / "none")
        assert kb.status().generation == ""
    assert not (tmp_path / "home" / "milvus.db").exists()


def test_a_folder_without_documents(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make_folder(
        tmp_path / "other", {"a.png": b"\x89PNG\r\n\x1a\n", ".hidden.md": "# Hidden\n\nhidden\n"}
    )
    for name, skipped in (("empty", 0), ("other", 1)):
        done = knowport("ingest", tmp_path / name, "--json", home=tmp_path / "home")
        assert done.returncode == 2
        report = json.loads(done.stdout)
        assert sum(report["counts"].values()) == report["counts"]["skipped"] == skipped
        error = json.loads(done.stderr)["error"]
        assert error["code"] == "invalid_input"
        assert str(tmp_path / name) in error["message"]


def test_files_without_text_are_skipped_and_the_older_version_stays(
    kb: KnowledgeBase, tmp_path: Path
) -> None:
    """L21."""
    folder = make_folder(tmp_path / "odd", {"page.md": page("Old", [mark("old")]), "other.md": "x"})
    with unchanged(kb):
        kb.ingest(folder, source="odd")
        stored = {
            "page.md": " \n\t\n　\n",
            "empty.md": "",
            "rule.md": "---\n\n***\n",
            "bom.txt": "\ufeff",
        }
        make_folder(folder, stored)
        results = by_name(kb.ingest(folder, source="odd").files)
        for name in stored:
            outcome = "failed" if name == "page.md" else "skipped"
            assert (results[name].outcome, results[name].reason) == (outcome, "empty")
            assert results[name].chunks == 0
        assert results["page.md"].detail.endswith("The version of before stays in the index.")
        assert results["other.md"].outcome == "unchanged"
        for mode in MODES:
            assert ids(kb.lookup(mark("old"), mode=mode))[0] == "odd/page.md#chunk-0"
        assert kb.delete("odd/page.md") == 1
        assert kb.delete("odd/other.md") == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\x7fELF\0\0\1" * 50, "not_text"), ("# Caf\u00e9\n".encode("latin-1"), "unknown_encoding")],
)
def test_a_file_that_is_not_text(
    kb: KnowledgeBase, tmp_path: Path, content: bytes, reason: str
) -> None:
    files = {"a.md": "# A\n\na\n", "b.md": content, "c.md": "# C\n\nc\n"}
    folder = make_folder(tmp_path / "odd", files)
    with unchanged(kb):
        results = by_name(kb.ingest(folder, source="odd").files)
        assert [results[name].outcome for name in files] == ["indexed", "failed", "indexed"]
        assert results["b.md"].reason == reason
        for name in ("a.md", "c.md"):
            kb.delete(f"odd/{name}")


DEEP = "".join(f"{'#' * level} {'深' * 199}{level}\n\n" for level in range(1, 7)) + "text\n"
WIDE = "---\n" + f"note: {'长' * 25_000}\n" + "---\n\n# Wide\n\ntext\n"


def test_what_the_index_refuses_leaves_the_older_version_and_a_base_that_opens(
    tmp_path: Path,
) -> None:
    """The engine has limits in bytes: of a heading path, of front matter."""
    home = tmp_path / "home"
    folder = make_folder(tmp_path / "kb", {"page.md": page("Old", [mark("old")])})
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.ingest(folder, source="kb")
        make_folder(folder, {"page.md": DEEP, "new.md": WIDE, "zebra.md": "# Z\n\nz\n"})
        results = by_name(kb.ingest(folder, source="kb").files)
        for name in ("page.md", "new.md"):
            assert results[name].outcome == "failed"
            assert f"kb/{name}#chunk-0" in results[name].detail
            assert "limit" in results[name].detail
        assert results["zebra.md"].outcome == "indexed"
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert [info.doc_id for info in kb.documents()] == ["kb/page.md", "kb/zebra.md"]
        assert kb.status().unfinished == 0
        assert sorted(stored_chunks(kb)) == ["kb/page.md#chunk-0", "kb/zebra.md#chunk-0"]
        assert mark("old") in kb.document("kb/page.md")[1].text
        assert ids(kb.lookup(mark("old")))[0] == "kb/page.md#chunk-0"


# -- embedders ------------------------------------------------------------------------------------


def _last(value: float) -> Callable[[Any], Any]:
    def spoil(made: Any) -> Any:
        made[-1, 7] = value
        return made

    return spoil


@pytest.mark.parametrize(
    "fault",
    [
        (lambda made: [*made[:-1], None], 1, "not a list of numbers"),
        (_last(np.nan), 1, "not finite"),
        (_last(np.inf), 1, "not finite"),
        (lambda made: made * [[1.0], [0.0]], 1, "zero"),
        (lambda made: [*made[:-1], made[-1, :10]], 1, "expected 64 numbers, got 10"),
        (lambda made: made[:, :10], 0, "expected 64 numbers, got 10"),
        (lambda made: [["a"] * 64] * len(made), 0, "number 0 is str"),
    ],
    ids=["none", "nan", "inf", "zero", "one-short", "all-short", "text"],
)
def test_a_vector_that_cannot_be_used_fails_its_file(
    poisoned: Path,
    kb: KnowledgeBase,
    embedder: FaultyEmbedder,
    fault: tuple[Callable[[Any], Any], int, str],
) -> None:
    """E05."""
    embedder.spoil, chunk, said = fault
    with unchanged(kb):
        results = by_name(kb.ingest(poisoned, source="odd").files)
        assert results["b.md"].outcome == "failed"
        assert results["b.md"].reason == "embedding"
        assert f"odd/b.md#chunk-{chunk}: " in results["b.md"].detail
        assert said in results["b.md"].detail
        assert not any(stored.startswith("odd/b.md") for stored in stored_chunks(kb))
        for name in ("a.md", "c.md"):
            assert results[name].outcome == "indexed"
            assert kb.delete(f"odd/{name}") == 1


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    files = {"a.md": "# A\n\na\n", "b.md": page("B", ["good", "POISON"]), "c.md": "# C\n\nc\n"}
    return make_folder(tmp_path / "odd", files)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made[:-1],
        lambda made: np.vstack([made, made]),
        lambda made: None,
    ],
    ids=["too-few", "too-many", "none"],
)
def test_a_wrong_number_of_vectors_stops_and_names_the_place(
    poisoned: Path, kb: KnowledgeBase, embedder: FaultyEmbedder, spoil: Callable[[Any], Any]
) -> None:
    embedder.spoil = spoil
    with unchanged(kb):
        try:
            with pytest.raises(EmbeddingError, match=r"odd/b\.md#chunk-0") as caught:
                kb.ingest(poisoned, source="odd")
            assert caught.value.exit_code == 7
        finally:
            assert kb.delete("odd/a.md") == 1


@pytest.mark.parametrize("vector", [None, [np.nan] * 64, [0.5] * 63, [0.0] * 64])
def test_a_query_vector_that_cannot_be_used_is_an_error_or_said(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, vector: Any
) -> None:
    with unchanged(kb):
        with monkeypatch.context() as patch:
            patch.setattr(HashEmbedder, "embed_query", lambda *_: vector)
            with pytest.raises(EmbeddingError) as caught:
                kb.lookup("1205", mode="dense")
            answer = kb.lookup("1205", mode="hybrid")  # the lexical leg still answers
        assert caught.value.exit_code == 7
        assert notices(answer) == ["degraded"]
        assert ids(answer) == ["kb/mysql/lock.md#chunk-0"]


def test_another_embedder_than_the_stored_one(tmp_path: Path) -> None:
    """M16: the same dimension, another model."""
    home = tmp_path / "home"
    folder = make_folder(tmp_path / "kb", FILES)
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.ingest(folder, source="kb")
        before = state(kb)
    with pytest.raises(IndexMismatch) as caught:
        KnowledgeBase(home, embedder=HashEmbedder(model="other"))
    assert caught.value.exit_code == 4
    assert "rebuild" in caught.value.remedy
    assert "bigrams" in caught.value.message
    assert "other" in caught.value.message
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert state(kb) == before


# -- a second process -----------------------------------------------------------------------------


def test_a_second_process_on_the_same_file(kb: KnowledgeBase) -> None:
    """M14."""
    home = Path(kb.settings.home)
    with unchanged(kb):
        for arguments in (["status"], ["lookup", "1205", "--json"]):
            # The mismatch of embedders would come first, so they are made to agree.
            done = knowport(*arguments, home=home, hash_embedder=True)
            assert done.returncode == 5
            assert done.stdout == ""
            assert str(home / "milvus.db") in done.stderr
            assert f"process {os.getpid()}" in done.stderr
            assert not any(word in done.stderr.lower() for word in DESTRUCTIVE)
        assert json.loads(done.stderr)["error"]["transient"] is True


def test_two_in_one_process_share_the_file(kb: KnowledgeBase) -> None:
    with unchanged(kb):
        with KnowledgeBase(kb.settings.home, embedder=HashEmbedder()) as second:
            assert state(second) == state(kb)
        assert kb.lookup("1205").found, "closing the second leaves the first open"


def test_every_error_says_what_to_do() -> None:
    def leaves(kind: type[KnowportError]) -> Iterator[type[KnowportError]]:
        yield kind
        for below in kind.__subclasses__():
            yield from leaves(below)

    # What a client raises carries the code of the service's own error.
    kinds = {kind for kind in leaves(KnowportError) if kind.__module__ == "knowport.errors"}
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert IndexInUse.transient
    assert IndexInUse.exit_code == 5
