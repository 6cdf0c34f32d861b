"""An ingest as a sync: what becomes of each file, what is not done again, what is never lost."""

from __future__ import annotations

import os
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowport.core.chunking import ChunkingOptions
from knowport.errors import (
    EmbeddingError,
    EmbeddingUnavailable,
    EngineError,
    EngineUnavailable,
    GenerationChanged,
    InvalidInput,
    LoadError,
)
from knowport.model import FileOutcome, FileResult, IngestProgress, IngestReport, Matrix
from knowport.pipelines import retry
from knowport.pipelines.ingest import ingest, preview
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.replace import LARGE_DOCUMENT, cut
from support import HashEmbedder, make_folder, page
from sync_support import MemoryIndex, add_generation, ingest_ports


class World:
    """A folder, and ports that count what is digested and loaded."""

    def __init__(self, ports: IngestPorts, folder: Path, embedder: HashEmbedder) -> None:
        self.folder, self.embedder = folder, embedder
        self.digested: list[str] = []
        self.loaded: list[str] = []
        self.ports = replace(
            ports,
            digest=self._noting(self.digested, ports.digest),
            load=self._noting(self.loaded, ports.load),
        )

    @staticmethod
    def _noting(names: list[str], call: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def noted(path: Path) -> Any:
            names.append(path.name)
            return call(path)

        return noted

    @property
    def index(self) -> MemoryIndex:
        index = self.ports.index
        assert isinstance(index, MemoryIndex)
        return index

    def files(self, files: dict[str, str | bytes]) -> None:
        make_folder(self.folder, files)

    def ingest(self, **options: Any) -> IngestReport:
        self.digested.clear()
        self.loaded.clear()
        running = {k: options.pop(k) for k in ("on_progress", "should_stop") if k in options}
        return ingest(self.folder, lambda: self.ports, self.options(**options), **running)

    def preview(self, **options: Any) -> IngestReport:
        return preview(self.folder, self.ports, self.options(**options))

    @staticmethod
    def options(**options: Any) -> IngestOptions:
        return IngestOptions(**{"source": "kb", "kb_scope": "default", **options})

    def assert_whole(self) -> None:
        """The index holds the chunks of the ledger's texts, and nothing else."""
        expected = {}
        for info in self.ports.ledger.documents():
            assert info.state == "indexed"
            document = self.ports.ledger.document_text(info.doc_id)
            assert document is not None
            chunks = cut(document, self.ports.chunking).chunks
            assert info.chunk_count == len(chunks)
            expected |= {f"{c.doc_id}#chunk-{c.chunk_index}": c.content for c in chunks}
        assert {n: row.chunk.content for n, row in self.index.rows.items()} == expected


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    embedder = HashEmbedder()
    with ingest_ports(tmp_path, embedder) as ports:
        yield World(ports, tmp_path / "kb", embedder)


def outcomes(report: IngestReport) -> dict[str, tuple[str, str]]:
    """Outcome and reason by file name."""
    return {Path(f.path).name: (str(f.outcome), f.reason) for f in report.files}


def by_name(report: IngestReport) -> dict[str, FileResult]:
    return {Path(f.path).name: f for f in report.files}


# -- what is not done again -----------------------------------------------------------------------


def test_an_unchanged_folder_of_2000_files_is_neither_parsed_nor_embedded(world: World) -> None:
    world.files({f"{n % 20}/d{n}.md": f"# Page {n}\n\ntext number {n}\n" for n in range(2_000)})
    first = world.ingest()
    assert first.count(FileOutcome.INDEXED) == len(world.loaded) == 2_000
    assert world.digested == []  # nothing is known of them
    embedded, upserts = world.embedder.documents_embedded, len(world.index.upserts)
    assert embedded == first.chunks_embedded == 2_000
    again = world.ingest()
    assert again.count(FileOutcome.UNCHANGED) == len(world.digested) == 2_000
    assert world.loaded == []
    assert world.embedder.documents_embedded == embedded
    assert len(world.index.upserts) == upserts
    assert (again.chunks_written, again.chunks_embedded) == (0, 0)


def test_one_changed_paragraph_embeds_only_the_chunk_that_it_touches(world: World) -> None:
    parts = [f"Paragraph {n}. " + f"word{n} " * 60 for n in range(40)]
    world.files({"long.md": page("Long", parts), "other.md": "# Other\n\nother\n"})
    assert world.ingest().chunks_written == 41
    parts[17] = parts[17].replace("Paragraph", "Changed paragraph")
    world.files({"long.md": page("Long", parts)})
    report = world.ingest()
    assert outcomes(report) == {"long.md": ("indexed", "changed"), "other.md": ("unchanged", "")}
    assert report.chunks_embedded == 1
    assert report.chunks_written == 40
    world.assert_whole()


def test_another_form_of_the_same_document_is_parsed_once_and_not_written(world: World) -> None:
    world.files({"a.md": "# A\n\none\ntwo\n"})
    world.ingest()
    world.files({"a.md": "# A\r\n\r\none\r\ntwo\r\n"})
    assert outcomes(world.ingest()) == {"a.md": ("unchanged", "")}
    assert world.loaded == ["a.md"]
    assert outcomes(world.ingest()) == {"a.md": ("unchanged", "")}
    assert world.loaded == []
    assert len(world.index.upserts) == 1


def test_a_new_version_of_the_loader_parses_every_file_again(world: World) -> None:
    world.files({"a.md": "# A\n\none\n"})
    world.ingest()
    world.ports = replace(world.ports, loader_version="other")
    assert outcomes(world.ingest()) == {"a.md": ("unchanged", "")}
    assert world.loaded == ["a.md"]
    world.ingest()
    assert world.loaded == []


def test_force_writes_unchanged_files_again(world: World) -> None:
    world.files({"a.md": "# A\n\none\n"})
    world.ingest()
    report = world.ingest(force=True)
    assert outcomes(report) == {"a.md": ("indexed", "forced")}
    assert (report.chunks_written, report.chunks_embedded) == (1, 0)


def test_duplicate_content_is_embedded_once_and_is_no_error(world: World) -> None:
    text = "# Same\n\nthe same words\n"
    world.files({"a.md": text, "b/a.md": text, "c.md": text})
    report = world.ingest()
    assert report.count(FileOutcome.INDEXED) == 3
    assert (report.chunks_written, report.chunks_embedded) == (3, 1)
    world.assert_whole()


# -- what becomes of a file -----------------------------------------------------------------------


def test_a_document_knows_its_front_matter_and_its_file(world: World) -> None:
    front = "---\ntitle: 夜班\ncategory: operations\ntags: [a, b]\nfile: mine\n---\n\ntext\n"
    world.files(
        {
            "a.md": front,
            "plain.txt": "line\n",
            "gbk.md": "# 重启数据库之前先备份日志\n".encode("gbk"),
        }
    )
    report = world.ingest()
    assert report.count(FileOutcome.INDEXED) == 3
    infos = {info.doc_id: info for info in world.ports.ledger.documents()}
    a = infos["kb/a.md"]
    assert (a.title, a.category, a.source) == ("夜班", "operations", "kb")
    assert a.metadata == {"tags": ["a", "b"], "file": {"kind": "markdown", "encoding": "utf-8"}}
    assert infos["kb/plain.txt"].title == "plain"
    assert infos["kb/gbk.md"].metadata["file"]["encoding"] == "gb18030"
    results = by_name(report)
    assert results["gbk.md"].detail == "Read as gb18030."
    assert (results["a.md"].reason, results["a.md"].detail) == ("new", "")


def test_what_is_left_out_of_a_file_is_counted(world: World) -> None:
    world.files({"a.md": "# A\n\nzero\u200bwidth \x07bell\U000e0041\n"})
    detail = by_name(world.ingest())["a.md"].detail
    assert detail == "2 characters of hidden or unreadable content were left out."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        (" \n\n---\n", "empty"),
        (b"\x00\x01\x02" * 99, "not_text"),
        (None, "unreadable"),
    ],
)
def test_a_good_version_is_not_replaced_by_nothing(
    world: World, content: str | bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.files({"a.md": "# A\n\ngood\n", "b.md": "# B\n\nother\n"})
    world.ingest()
    before = dict(world.index.rows)
    if content is None:

        def unreadable(path: Path) -> Any:
            raise LoadError("It cannot be read.", reason="unreadable")

        world.ports = replace(world.ports, digest=unreadable, load=unreadable)
        (world.folder / "b.md").unlink()
    else:
        world.files({"a.md": content})
    result = by_name(world.ingest(delete_missing=content is not None))["a.md"]
    assert (str(result.outcome), result.reason) == ("failed", reason)
    assert result.detail.endswith("The version of before stays in the index.")
    assert world.index.text("kb/a.md") == [before["kb/a.md#chunk-0"].chunk.content]


def test_a_file_that_never_was_a_document_is_skipped(world: World) -> None:
    world.files(
        {"empty.md": "", "a.md": "# A\n\na\n", "x.png": b"\x89PNG\r\n\x1a\n", "y": b"\0\1" * 99}
    )
    report = world.ingest()
    assert outcomes(report) == {
        "a.md": ("indexed", "new"),
        "empty.md": ("skipped", "empty"),
        "x.png": ("skipped", "unsupported_format"),
        "y": ("skipped", "unsupported_format"),
    }


def test_names_that_cannot_be_ids_fail_and_the_others_go_on(world: World) -> None:
    composed, decomposed = (unicodedata.normalize(form, "ré-パ.md") for form in ("NFC", "NFD"))
    longest = "长" * 84 + ".md"  # 255 bytes
    below = "/".join(["d" * 200] * 2)
    world.files({name: f"# T\n\n{n}\n" for n, name in enumerate([composed, decomposed, longest])})
    world.files({"new\nline.md": "# T\n\nx\n", "a#chunk-1": "x\n", f"{below}/x.md": "x\n"})
    (world.folder / os.fsdecode(b"bad\xff.md")).write_text("# T\n\nx\n")
    results = by_name(world.ingest())
    first, second = sorted([composed, decomposed])
    assert results[first].outcome is results[longest].outcome is FileOutcome.INDEXED
    for name in (second, "new\nline.md", "a#chunk-1", "x.md", "bad\udcff.md"):
        assert (str(results[name].outcome), results[name].reason) == ("failed", "invalid_doc_id")
    assert repr(str(world.folder / first)) in results[second].detail
    world.assert_whole()


def test_what_the_index_refuses_fails_and_the_others_go_on(world: World) -> None:
    world.files({f"{n}.md": f"# {n}\n\n{n}\n" for n in "abc"})
    world.index.refused = {"kb/b.md"}
    report = world.ingest()
    assert outcomes(report)["b.md"] == ("failed", "invalid_content")
    assert report.count(FileOutcome.INDEXED) == 2
    assert [info.doc_id for info in world.ports.ledger.documents()] == ["kb/a.md", "kb/c.md"]


def test_a_document_of_another_scope_is_not_taken_over(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    world.ingest(kb_scope="first")
    result = by_name(world.ingest(kb_scope="second"))["a.md"]
    assert (str(result.outcome), result.reason) == ("failed", "invalid_doc_id")
    assert "another scope" in result.detail
    assert {row.kb_scope for row in world.index.rows.values()} == {"first"}


def test_other_category_options_change_documents_and_say_so(world: World) -> None:
    world.files({"net/a.md": "# A\n\na\n", "top.md": "# T\n\nt\n"})
    world.ingest(category_from_folder=True)
    assert {r.category for r in world.index.rows.values()} == {"net", ""}
    assert outcomes(world.ingest(category_from_folder=True))["a.md"] == ("unchanged", "")
    report = world.ingest()
    assert outcomes(report) == {"a.md": ("indexed", "category"), "top.md": ("unchanged", "")}
    assert by_name(report)["a.md"].detail == "Its category was 'net' and is '' now."
    assert {r.category for r in world.index.rows.values()} == {""}
    assert report.chunks_embedded == 0
    assert outcomes(world.ingest(category="all"))["top.md"] == ("indexed", "category")


# -- files that are gone --------------------------------------------------------------------------


def test_files_that_are_gone_are_reported_and_deleted_only_when_asked(world: World) -> None:
    world.files({"a.md": "# A\n\na\n", "sub/b.md": page("B", ["x", "y", "z"])})
    world.ingest()
    world.ingest(source="other")
    (world.folder / "sub" / "b.md").unlink()
    report = world.ingest()
    assert list(report.vanished) == ["kb/sub/b.md"]
    assert report.count(FileOutcome.DELETED) == 0
    dry = world.preview(delete_missing=True)
    report = world.ingest(delete_missing=True)
    assert report.files == dry.files
    deleted = by_name(report)["b.md"]
    assert deleted == FileResult(
        str(world.folder / "sub/b.md"), FileOutcome.DELETED, "kb/sub/b.md", 3, "missing"
    )
    assert report.vanished == ()
    assert {info.doc_id for info in world.ports.ledger.documents()} == {
        "kb/a.md",
        "other/a.md",
        "other/sub/b.md",
    }
    world.assert_whole()


def test_an_empty_folder_deletes_nothing_unless_forced(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    world.ingest()
    (world.folder / "a.md").unlink()
    world.files({".hidden.md": "x"})
    report = world.ingest(delete_missing=True)
    (refusal,) = report.files
    assert (str(refusal.outcome), refusal.reason, refusal.path) == (
        "failed",
        "not_deleted",
        str(world.folder),
    )
    assert "holds no file" in refusal.detail
    assert list(report.vanished) == ["kb/a.md"]
    assert world.ingest(delete_missing=True, force_delete=True).count(FileOutcome.DELETED) == 1
    assert world.index.rows == {}


def test_an_unreadable_subfolder_deletes_nothing_unless_forced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.files({"a.md": "# A\n\na\n", "b.md": "# B\n\nb\n", "locked/c.md": "# C\n\nc\n"})
    world.ingest()
    (world.folder / "b.md").unlink()
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = world.ingest(delete_missing=True)
    assert outcomes(report)["locked"] == ("failed", "unreadable")
    assert outcomes(report)["kb"] == ("failed", "not_deleted")
    assert sorted(report.vanished) == ["kb/b.md", "kb/locked/c.md"]
    assert len(world.index.rows) == 3
    report = world.ingest(delete_missing=True, force_delete=True)
    assert report.count(FileOutcome.DELETED) == 2
    assert list(world.index.rows) == ["kb/a.md#chunk-0"]


def test_another_folder_of_the_source_deletes_nothing_unless_forced(world: World) -> None:
    world.files({"a.md": "# A\n\na\n", "b.md": "# B\n\nb\n"})
    world.ingest()
    (world.folder / "b.md").unlink()
    report = world.ingest(delete_missing=True, other_root="/elsewhere/kb")
    assert "'/elsewhere/kb'" in by_name(report)["kb"].detail
    assert len(world.index.rows) == 2
    world.ingest(delete_missing=True, force_delete=True, other_root="/elsewhere/kb")
    assert len(world.index.rows) == 1


def test_what_the_patterns_leave_out_is_neither_missed_nor_deleted(world: World) -> None:
    world.files({"a.md": "# A\n\na\n", "b.txt": "b\n", "c.md": "# C\n\nc\n"})
    world.ingest()
    (world.folder / "c.md").unlink()
    report = world.ingest(include=["*.md"], delete_missing=True)
    assert outcomes(report) == {"a.md": ("unchanged", ""), "c.md": ("deleted", "missing")}
    assert world.ingest(exclude=["*.txt"]).vanished == ()
    # But a file that the folder itself says to ignore is none of it any more.
    world.files({".knowportignore": "*.txt\n"})
    assert list(world.ingest().vanished) == ["kb/b.txt"]


def test_a_single_file_misses_nothing(world: World) -> None:
    world.files({"a.md": "# A\n\na\n", "b.md": "# B\n\nb\n"})
    world.ingest()
    (world.folder / "b.md").unlink()
    report = ingest(world.folder / "a.md", lambda: world.ports, world.options(delete_missing=True))
    assert outcomes(report) == {"a.md": ("unchanged", "")}
    assert report.vanished == ()
    assert len(world.index.rows) == 2


def test_a_document_that_another_process_adds_meanwhile_is_not_missing(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    world.ingest()
    find = world.ports.find

    def find_and_add(*arguments: Any) -> Iterator[Path | FileResult]:
        found = list(find(*arguments))
        world.files({"late.md": "# Late\n\nlate\n"})
        late = world.folder / "late.md"
        ports = replace(world.ports, find=find)
        assert ingest(late, lambda: ports, world.options()).count(FileOutcome.INDEXED) == 1
        return iter(found)

    world.ports = replace(world.ports, find=find_and_add)
    report = world.ingest(delete_missing=True)
    assert report.vanished == ()
    assert sorted(world.index.rows) == ["kb/a.md#chunk-0", "kb/late.md#chunk-0"]


def test_force_delete_alone_makes_no_sense(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    with pytest.raises(InvalidInput) as caught:
        world.ingest(force_delete=True)
    assert caught.value.field == "force_delete"


def test_a_dry_run_tells_what_the_ingest_then_does_and_writes_nothing(world: World) -> None:
    world.files({"a.md": "# A\n\na\n", "b.md": page("B", ["x", "y"]), "gone.md": "# G\n\ng\n"})
    world.ingest()
    world.files({"b.md": page("B", ["x", "z", "y"]), "new.md": "# N\n\nn\n", "empty.md": ""})
    (world.folder / "gone.md").unlink()
    rows, infos = dict(world.index.rows), world.ports.ledger.documents()
    embedded = world.embedder.documents_embedded
    dry = world.preview(delete_missing=True)
    assert outcomes(dry) == {
        "a.md": ("unchanged", ""),
        "b.md": ("indexed", "changed"),
        "empty.md": ("skipped", "empty"),
        "new.md": ("indexed", "new"),
        "gone.md": ("deleted", "missing"),
    }
    assert by_name(dry)["b.md"].chunks == 3
    assert (dry.chunks_written, dry.chunks_embedded) == (0, 0)
    assert (world.index.rows, world.ports.ledger.documents()) == (rows, infos)
    assert world.embedder.documents_embedded == embedded
    assert world.ingest(delete_missing=True).files == dry.files


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("loses", [0, 1])
def test_an_interrupted_deletion_is_finished_and_no_loss(
    world: World, rows: int, loses: int
) -> None:
    """However many of its rows are left, and whether or not others have lost some."""
    world.files({"a.md": "# A\n\na\n", "b.md": page("B", ["x", "y", "z"])})
    world.ingest()
    (world.folder / "b.md").unlink()
    world.ports.ledger.begin_delete("kb/b.md")
    world.index.delete_by_doc_id("kb/b.md", from_index=rows)
    if loses:
        del world.index.rows["kb/a.md#chunk-0"]
        with pytest.raises(
            EngineError, match=r"holds 0 chunks .* expects 1\. Not whole: 1 document"
        ):
            world.ingest()
        (info,) = world.ports.ledger.documents()
        assert (info.doc_id, info.state) == ("kb/a.md", "writing")
    assert world.ingest().vanished == ()
    assert [info.doc_id for info in world.ports.ledger.documents()] == ["kb/a.md"]
    world.assert_whole()


@pytest.mark.parametrize("scope", ["default", "other"])
def test_what_was_begun_of_a_file_that_is_gone_is_written_without_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    """The engine failed in the midst of it, and its file will not be read again."""
    monkeypatch.setattr(retry, "FIRST_WINDOW", 0.001)
    world.files({"a.md": "# A\n\na\n"})
    world.ingest()
    text = page("Gone", [f"part {n}" for n in range(600)])
    make_folder(world.folder.parent / "more", {"gone.md": text})

    def fails_at_the_second_slice(call: str) -> None:
        if call == "upsert" and len(world.index.rows) > 500:
            raise EngineError("The disk is full.")

    world.index.before = fails_at_the_second_slice
    more = World.options(source="more", kb_scope=scope)
    with pytest.raises(EngineError, match=r"The disk is full\."):
        ingest(world.folder.parent / "more", lambda: world.ports, more)
    world.index.before = lambda _call: None
    states = {i.doc_id: i.state for i in world.ports.ledger.documents()}
    assert states == {"kb/a.md": "indexed", "more/gone.md": "writing"}

    assert outcomes(world.ingest()) == {"a.md": ("unchanged", "")}

    if scope == "other":  # is none of this ingest's business
        assert [i.doc_id for i in world.ports.ledger.unfinished()] == ["more/gone.md"]
    else:
        world.assert_whole()


def test_what_cannot_be_finished_does_not_hinder_others(world: World) -> None:
    """And the engine's losses are told beside it."""
    world.files({"a.md": "# A\n\na\n", "b.md": page("B", ["x", "poison", "z"])})
    world.ingest()
    (world.folder / "b.md").unlink()
    world.ports.ledger.reopen_writes(["kb/b.md"])
    world.index.delete_by_doc_id("kb/b.md", from_index=1)
    world.ports = replace(world.ports, embedder=Refusing(model="another"))

    assert outcomes(world.ingest()) == {"a.md": ("unchanged", "")}

    del world.index.rows["kb/a.md#chunk-0"]
    with pytest.raises(EngineError, match=r"holds 0 chunks .* expects 1\. Not whole: 1 document"):
        world.ingest()


class Refusing(HashEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        for position, text in enumerate(texts):
            if "poison" in text:
                raise EmbeddingError("It is refused.", position=position)
        return super().embed_documents(texts)


def test_an_interrupted_deletion_of_a_file_that_is_there_is_written_anew(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    world.ingest()
    world.ports.ledger.begin_delete("kb/a.md")
    world.index.delete_by_doc_id("kb/a.md")
    assert outcomes(world.ingest()) == {"a.md": ("indexed", "unfinished")}
    world.assert_whole()


# -- failures in the midst of it ------------------------------------------------------------------


@pytest.fixture
def many(world: World) -> World:
    """A hundred documents of thirty chunks each: several groups."""
    parts = [[f"text {n} {part}" for part in range(30)] for n in range(100)]
    world.files({f"d{n:03}.md": page(f"Page {n}", parts[n]) for n in range(100)})
    return world


def test_groups_are_large_and_progress_goes_up_to_the_end(many: World) -> None:
    seen: list[IngestProgress] = []
    report = many.ingest(on_progress=seen.append)
    assert (report.chunks_written, report.chunks_embedded) == (3_000, 3_000)
    assert max(many.index.upserts) <= 500
    assert sum(many.index.upserts) == 3_000
    done = [(p.bytes_done, p.files_done, p.chunks_done) for p in seen]
    assert done == sorted(done)
    last = seen[-1]
    assert last.bytes_done == last.bytes_total > 0
    assert (last.files_done, last.files_total, last.chunks_done) == (100, 100, 3_000)
    assert {Path(p.path).parent for p in seen} == {many.folder}
    many.assert_whole()


def test_a_passing_failure_of_the_engine_is_retried(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WINDOW", 0.001)
    failures = [EngineUnavailable("away") for _ in range(3)]

    def before(_call: str) -> None:
        if failures:
            raise failures.pop()

    many.index.before = before
    assert many.ingest().count(FileOutcome.INDEXED) == 100
    many.assert_whole()


def test_a_lasting_failure_of_the_engine_ends_the_ingest_once_and_keeps_what_is_done(
    many: World,
) -> None:
    error = EngineError("The disk is full.")

    def before(_call: str) -> None:
        if len(many.index.upserts) == 2:
            raise error

    many.index.before = before
    with pytest.raises(EngineError) as caught:
        many.ingest()
    assert caught.value is error
    many.index.before = lambda _: None
    states = [info.state for info in many.ports.ledger.documents()]
    done = states.count("indexed")
    assert done == sum(many.index.upserts) // 30
    assert set(states) == {"indexed", "writing"}
    report = many.ingest()
    assert report.count(FileOutcome.UNCHANGED) == done
    assert report.count(FileOutcome.INDEXED) == 100 - done
    assert {f.reason for f in report.files} == {"", "new", "unfinished"}
    many.assert_whole()


class Failing(HashEmbedder):
    """Fails for good when it has embedded so many texts."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if self.documents_embedded >= self.after:
            raise EmbeddingUnavailable("The endpoint is away.")
        return super().embed_documents(texts)


def test_a_failure_of_the_embedder_keeps_what_came_before_it(many: World) -> None:
    many.ports = replace(many.ports, embedder=Failing(after=1_008))
    with pytest.raises(EmbeddingUnavailable, match=r"^In the batch from kb/d033\.md#chunk-18: "):
        many.ingest()
    many.assert_whole()
    assert len(many.ports.ledger.documents()) == 1_008 // 30
    many.ports = replace(many.ports, embedder=many.embedder)
    report = many.ingest()
    assert report.count(FileOutcome.UNCHANGED) == 33
    assert report.chunks_embedded == 3_000 - 1_008  # nothing is embedded twice


def test_the_earlier_of_two_failures_is_told(many: World) -> None:
    """The writer is behind the embedder, so its failure is of earlier files."""

    def before(_call: str) -> None:
        time.sleep(0.3)
        raise EngineError("The disk is full.")

    many.index.before = before
    many.ports = replace(many.ports, embedder=Failing(after=1_008))
    with pytest.raises(EngineError, match="disk is full"):
        many.ingest()


def test_should_stop_keeps_the_files_before(many: World) -> None:
    report = many.ingest(should_stop=lambda: many.embedder.documents_embedded >= 1_000)
    assert report.interrupted
    # 63 batches of 16 are 1,008 chunks: 33 whole documents.
    assert [Path(f.path).name for f in report.files] == [f"d{n:03}.md" for n in range(33)]
    assert report.chunks_written == 33 * 30
    many.assert_whole()
    (many.folder / "d000.md").unlink()
    stopped = many.ingest(delete_missing=True, should_stop=lambda: True)
    assert stopped.interrupted
    assert stopped.count(FileOutcome.DELETED) == 0
    assert len(many.ports.ledger.documents()) == 33


def test_an_interrupt_leaves_whole_documents_and_no_thread(many: World) -> None:
    def interrupt(now: IngestProgress) -> None:
        if now.files_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many.ingest(on_progress=interrupt)
    assert not [t for t in threading.enumerate() if t.name.startswith("knowport-ingest")]
    many.assert_whole()
    assert 0 < len(many.ports.ledger.documents()) < 100


def test_a_switch_of_the_generation_begins_the_rest_again_with_the_new_one(world: World) -> None:
    world.files({f"{n}.md": f"# {n}\n\ntext {n}\n" for n in range(5)})
    old = world.ports
    new = replace(
        old,
        index=MemoryIndex(),
        generation="g2",
        embedder=HashEmbedder(model="other"),
        chunking=ChunkingOptions(size=300),
    )
    add_generation(old.ledger, "g2", new.embedder)  # type: ignore[arg-type]
    given = [old, new, new]
    report = ingest(world.folder, lambda: given.pop(0), world.options())
    assert report.count(FileOutcome.INDEXED) == len(report.files) == 5
    assert report.chunks_written == 5
    assert old.index.rows == {}  # type: ignore[attr-defined]
    assert len(new.index.rows) == 5  # type: ignore[attr-defined]


def test_switches_without_end_are_an_error(world: World) -> None:
    world.files({"a.md": "# A\n\na\n"})
    world.ports = replace(world.ports, generation="never")
    with pytest.raises(GenerationChanged):
        world.ingest()


def test_a_failure_of_the_ledger_while_reading_is_told_after_what_came_before(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowport.errors import LedgerError
    from knowport.pipelines import opening

    monkeypatch.setattr(opening, "LOOK_AHEAD", 10)
    real, calls = many.ports.ledger.infos, []

    def infos(doc_ids: Sequence[str]) -> Any:
        if len(doc_ids) == 10:  # a look ahead, and not the writer's question
            calls.append(doc_ids)
            if len(calls) == 3:
                raise LedgerError("The ledger is gone.")
        return real(doc_ids)

    monkeypatch.setattr(many.ports.ledger, "infos", infos)
    with pytest.raises(LedgerError, match="gone"):
        many.ingest()
    assert len(many.ports.ledger.documents()) == 20
    many.assert_whole()


# -- large documents, and several writers ---------------------------------------------------------


def test_a_large_document_is_written_in_slices_and_replaced_whole(world: World) -> None:
    count = LARGE_DOCUMENT + 300
    world.files(
        {"large.md": page("Large", [f"text {n}" for n in range(count)]), "z.md": "# Z\n\nz\n"}
    )
    report = world.ingest()
    assert (report.chunks_written, report.chunks_embedded) == (count + 1, count + 1)
    assert max(world.index.upserts) <= 500
    world.assert_whole()
    world.files({"large.md": page("Large", [f"text {n}" for n in range(1, 40)])})
    report = world.ingest()
    assert outcomes(report)["large.md"] == ("indexed", "changed")
    # The titles of the sections count from 0, so that every text is another one.
    assert report.chunks_written == report.chunks_embedded == 39
    world.assert_whole()


def test_two_ingests_of_one_document_at_once_end_as_one_of_them(world: World) -> None:
    """Under many interleavings the index holds the version of the ledger, whole."""
    versions = [
        page(f"Version {n}", [f"v{n} {part}" for part in range(3 + 11 * n)]) for n in (0, 1)
    ]
    folders = [make_folder(world.folder / str(n), {"a.md": versions[n]}) for n in (0, 1)]
    for _ in range(15):
        barrier = threading.Barrier(2)

        def run(folder: Path, barrier: threading.Barrier = barrier) -> IngestReport:
            barrier.wait()
            return ingest(folder, lambda: world.ports, world.options(force=True))

        with ThreadPoolExecutor(2) as threads:
            reports = list(threads.map(run, folders))
        assert all(report.count(FileOutcome.INDEXED) == 1 for report in reports)
        world.assert_whole()
        document = world.ports.ledger.document_text("kb/a.md")
        assert document is not None
        assert document.text in versions


def test_no_more_is_read_ahead_than_there_is_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the engine is, what is under way stays bounded, and so does memory."""
    from knowport.pipelines import ingest_run

    monkeypatch.setattr(ingest_run, "ROOM", 100_000)
    monkeypatch.setattr(ingest_run, "GROUP_CHUNKS", 10)
    paragraphs = ["words " * 50] * 33
    world.files({f"d{n:02}.md": page(f"Page {n}", paragraphs) for n in range(60)})
    size = (world.folder / "d00.md").stat().st_size
    assert 10_000 < size < 12_000
    most: list[int] = []

    def before(_call: str) -> None:
        if not most:
            time.sleep(1.0)
            most.append(len(world.loaded))

    world.index.before = before
    assert world.ingest().count(FileOutcome.INDEXED) == 60
    assert most[0] <= 100_000 // size + 1
    world.assert_whole()
