"""What an engine loses without an error, as on a full disk, is noticed and written anew."""

from pathlib import Path

import pytest

from knowport import KnowledgeBase
from knowport.errors import EngineError
from knowport.model import FileOutcome
from support import HashEmbedder, make_folder


def test_chunks_that_the_engine_lost_are_noticed_and_written_anew(tmp_path: Path) -> None:
    page = "# A\n\n## One\n\nfirst part\n\n## Two\n\nsecond part\n"
    folder = make_folder(tmp_path / "kb", {"a.md": page, "b.md": "# B\n\nother\n"})
    home = tmp_path / "home"
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        whole = kb.ingest(folder).chunks_written
        assert kb._parts.index is not None
        assert kb._parts.index.delete_by_doc_id("kb/a.md", from_index=1) == 1

        with pytest.raises(EngineError, match=r"Not whole: 1 document"):
            kb.ingest(folder)
        assert kb.status().unfinished == 1

    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert kb.status().unfinished == 0
        assert kb.status().chunks == whole
        assert kb.ingest(folder).count(FileOutcome.UNCHANGED) == 2


def test_documents_without_a_file_are_named_and_stay(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {"a.md": "# A\n\nalpha\n", "b.md": "# B\n\nbeta\n"})
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        assert kb.ingest(folder).vanished == ()
        (folder / "b.md").unlink()

        assert list(kb.ingest(folder).vanished) == ["kb/b.md"]
        assert [info.doc_id for info in kb.documents()] == ["kb/a.md", "kb/b.md"]
        assert kb.ingest(folder / "a.md", source="kb").vanished == ()
