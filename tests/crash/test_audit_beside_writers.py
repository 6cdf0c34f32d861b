"""An audit beside writers finds no fault in what they have at hand."""

from __future__ import annotations

import threading
from pathlib import Path

from knowport import KnowledgeBase
from knowport.errors import UnknownDocument
from support import HashEmbedder, mark, page


def text(version: int) -> str:
    return page("Page", [mark(version, part) for part in range(2 + version % 5)])


def test_documents_that_come_change_and_go_are_no_findings(tmp_path: Path) -> None:
    stop = threading.Event()
    written = 0

    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        for n in range(30):
            kb.put(f"kb/stays-{n}.md", text(n))

        def write() -> None:
            nonlocal written
            while not stop.is_set():
                kb.put(f"kb/changes-{written % 7}.md", text(written))
                if written % 3 == 0:
                    try:
                        kb.delete(f"kb/changes-{(written + 3) % 7}.md")
                    except UnknownDocument:
                        assert written < 21
                written += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            reports = [kb.audit(sample=None) for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        last = kb.audit(sample=None)

    assert written > 10
    assert [report.findings for report in [*reports, last]] == [()] * 4
    assert all(report.documents >= 30 for report in reports)
    assert last.probed == last.chunks
