"""Small knowledge bases for the tests of rebuilds, all in one embedded engine.

An engine takes most of a second to start, and to prove an analyzer takes two; what is asked here
does not depend on either. Each base has a home, so a ledger, and a prefix of collections of its
own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.milvus import Engine
from knowport.errors import KnowportError, RebuildError
from knowport.ports import Embedder
from knowport.settings import load_settings
from support import HashEmbedder, make_folder, mark, page, stored_chunks

DOCUMENTS = 6
_numbers = itertools.count()


class Hasty:
    """``time`` for the engine's client, which waits half a second before it first asks whether an
    index is made."""

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Base:
    """A home in the shared engine and a folder of pages that were ingested."""

    def __init__(self, engine: Engine, folder: Path, *, documents: int = DOCUMENTS) -> None:
        self.uri, self.engine = engine.uri, engine
        self.home, self.prefix = folder / "home", f"t{next(_numbers)}"
        self.pages = make_folder(
            folder / "kb", {f"d{n:02}.md": text_of(n) for n in range(documents)}
        )

    def open(
        self,
        embedder: Embedder | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> KnowledgeBase:
        values = {"home": self.home, "milvus": {"uri": self.uri, "collection": self.prefix}}
        return KnowledgeBase(
            settings=load_settings({**values, **(settings or {})}),
            embedder=embedder or HashEmbedder(),
            **more,
        )

    def filled(self, embedder: Embedder | None = None) -> KnowledgeBase:
        """Open, with the pages ingested."""
        kb = self.open(embedder)
        kb.ingest(self.pages, source="kb")
        return kb


def text_of(number: int, version: str = "first", parts: int = 4) -> str:
    """A page of four chunks; of three times as many where chunks hold 300 characters at most."""
    sentences = [
        "\n\n".join(
            f"{mark(version, number, part, n)} 数据库主从切换之后检查复制延迟。 "
            + f"Restart_{version}_{number}_{part}_{n} now; " * 4
            for n in range(2)
        )
        for part in range(parts)
    ]
    return page(f"Page {number}", sentences)


def doc_id(number: int) -> str:
    return f"kb/d{number:02}.md"


def assert_clean(kb: KnowledgeBase) -> None:
    """Ledger and index hold the same, every chunk is found, and nothing is unfinished."""
    report = kb.audit(sample=None)
    assert report.findings == ()
    assert report.probed == report.chunks == len(stored_chunks(kb))
    assert kb.status().unfinished == 0


def states(kb: KnowledgeBase) -> list[str]:
    """States of the generations, oldest first."""
    return [row.generation.state for row in kb.rebuild.status().generations]


def refused(call: Callable[[], Any], *words: str) -> KnowportError:
    """A step is refused, with a remedy, and says these words."""
    with pytest.raises(RebuildError) as caught:
        call()
    assert caught.value.exit_code == 14
    assert caught.value.remedy
    for word in words:
        assert word in str(caught.value)
    return caught.value


def assert_answers(kb: KnowledgeBase, number: int, version: str = "first") -> None:
    """A page is found by its words, in the active generation."""
    answer = kb.lookup(mark(version, number, 0, 0))
    assert answer.generation == kb.status().generation
    assert answer.evidence[0].document_id == f"{doc_id(number)}#chunk-0"


class Fails:
    """A method that raises at some calls (from 1) and does its work at the others."""

    def __init__(self, owner: type, method: str, error: Exception, *calls: int) -> None:
        self.owner, self.method, self.error, self.calls = owner, method, error, calls
        self.original: Callable[..., Any] = getattr(owner, method)
        self.count = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fails = self

        def called(*args: Any, **kwargs: Any) -> Any:
            fails.count += 1
            if fails.count in fails.calls:
                raise fails.error
            return fails.original(*args, **kwargs)

        monkeypatch.setattr(self.owner, self.method, called)
