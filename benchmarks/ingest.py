"""How fast files become an index, beside the bare engine writes that it stands on.

    python benchmarks/ingest.py [--chunks 20000] [--json FILE] [--profile]

A folder of Markdown files is ingested slice by slice, by turns with raw writes of the same rows,
so that other work on the machine falls on both. ``--profile`` ingests under cProfile and prints
where the time goes; its rates are then not to be compared.
"""

from __future__ import annotations

import argparse
import cProfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pymilvus import MilvusClient

import machine
from corpus import DIMENSION, SOURCE, Corpus, Page
from knowport import KnowledgeBase, Settings
from knowport.adapters.milvus import Engine, MilvusIndex
from knowport.adapters.milvus.index import MAX_BATCH_ROWS
from knowport.adapters.milvus.schema import to_row
from knowport.core.chunking import ChunkingOptions, chunk_document
from knowport.core.compose import search_text, text_hash
from knowport.model import EmbedderIdentity, FileOutcome, IngestReport, Matrix, Vector
from lookup import COLLECTION, raw_upsert, seconds

GOAL = 0.70
AGAIN_GOAL = 0.03
SLICE_PAGES = 200
EMBEDDING_BATCH = 64
MEANING = f"""
Ingest: chunks a second, vectors given, {DIMENSION} dimensions, mixed Chinese and English text,
embedded Milvus Lite.

  KnowledgeBase.ingest  a folder of Markdown files, ten chunks each: read, chunk, hash, embedding
                        cache, SQLite ledger, write, and the count at the end; the embedder returns
                        ready vectors, up to {EMBEDDING_BATCH} a call
  raw upsert            client.upsert of the same rows, made beforehand, {MAX_BATCH_ROWS} a call,
                        into an equal collection in a file of its own
  ratio                 of the rates over the whole run, and its median over slices of
                        {SLICE_PAGES} files, which take turns; the goal is {GOAL:.2f} or more
  again                 all files once more, unchanged and in one folder: the share of the time
                        that they took at first; the goal is below {AGAIN_GOAL:.2f}
"""


def main() -> None:
    arguments = _arguments()
    described = machine.description()
    print(machine.heading(MEANING, described), flush=True)
    profile = cProfile.Profile() if arguments.profile else None
    result = measure(arguments.chunks, profile)
    print("\n" + _table(result), flush=True)
    machine.finish(described, result, profile, arguments.json)


def measure(chunks: int, profile: cProfile.Profile | None = None) -> dict[str, Any]:
    """Ingest and write raw that many chunks, slice by slice."""
    spent: dict[str, list[float]] = {"ingest": [], "raw": []}
    counts: list[int] = []
    with TemporaryDirectory(prefix="knowport-bench-") as folder:
        home = Path(folder)
        raw = Engine.connect(str(home / "raw.db"))
        knowledge = KnowledgeBase(settings=Settings(home=home / "kb"), embedder=ReadyVectors())
        try:
            MilvusIndex(raw, COLLECTION, dimension=DIMENSION, lexical=True).create()
            _warm_up(home / "warm", knowledge, raw.client)
            for turn, pages in enumerate(slices_of(chunks)):
                root = write_files(home / f"slice-{turn}", pages)
                rows = [row for page in pages for row in rows_of(page)]
                runs = [
                    ("ingest", partial(_ingest, knowledge, root, len(rows), profile)),
                    ("raw", partial(raw_upsert, raw.client, rows)),
                ]
                for name, run in runs if turn % 2 else reversed(runs):
                    spent[name].append(seconds(run))
                counts.append(len(rows))
                write_files(home / "all", pages)
            again = seconds(partial(_ingest_again, knowledge, home / "all"))
            peak = machine.peak_rss_mb()
        finally:
            knowledge.close()
            raw.close()
    rates = {name: sum(counts) / sum(taken) for name, taken in spent.items()}
    by_slice = [raw_s / own_s for raw_s, own_s in zip(spent["raw"], spent["ingest"], strict=True)]
    return {
        "chunks": sum(counts),
        "ingest_chunks_s": rates["ingest"],
        "raw_rows_s": rates["raw"],
        "ratio": rates["ingest"] / rates["raw"],
        "ratio_median": median(by_slice),
        "ratio_slices": by_slice,
        "goal": GOAL,
        "again_seconds": again,
        "again_share": again / sum(spent["ingest"]),
        "again_goal": AGAIN_GOAL,
        "peak_rss_mb": peak,
    }


class ReadyVectors:
    """An embedder that hands out vectors made beforehand, so that embedding costs nothing."""

    identity = EmbedderIdentity(provider="benchmark", model="ready", dimension=DIMENSION)
    batch_size = EMBEDDING_BATCH

    def __init__(self) -> None:
        drawn = np.random.default_rng(1).standard_normal((4_096, DIMENSION), dtype=np.float32)
        self._vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        self._next = 0

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if self._next + len(texts) > len(self._vectors):
            self._next = 0
        start, self._next = self._next, self._next + len(texts)
        return self._vectors[start : self._next]


def _ingest(
    knowledge: KnowledgeBase, root: Path, expected: int, profile: cProfile.Profile | None
) -> None:
    """Ingest a folder; fails unless it gave the number of chunks that it was made of."""
    if profile:
        report: IngestReport = profile.runcall(knowledge.ingest, root, source=SOURCE)
    else:
        report = knowledge.ingest(root, source=SOURCE)
    indexed = report.count(FileOutcome.INDEXED)
    if report.chunks_written != expected or indexed != len(report.files):
        raise RuntimeError(
            f"{root}: {indexed} of {len(report.files)} files indexed, "
            f"{report.chunks_written} chunks of {expected} written"
        )


def _ingest_again(knowledge: KnowledgeBase, root: Path) -> None:
    """Ingest files that the index holds already; fails where anything was done with one."""
    report = knowledge.ingest(root, source=SOURCE)
    unchanged = report.count(FileOutcome.UNCHANGED)
    if unchanged != len(report.files) or report.chunks_embedded:
        raise RuntimeError(f"{root}: {unchanged} of {len(report.files)} files unchanged")


def _warm_up(folder: Path, knowledge: KnowledgeBase, client: MilvusClient) -> None:
    """The first write creates the collection and loads the engine's dictionary."""
    page = Corpus(10, seed=1).page(0)
    client.upsert(COLLECTION, rows_of(page))
    knowledge.ingest(write_files(folder, [page]), source="warm")


def slices_of(chunks: int) -> Iterator[list[Page]]:
    pages = Corpus(chunks).pages()
    while some := list(islice(pages, SLICE_PAGES)):
        yield some


def write_files(root: Path, pages: Sequence[Page]) -> Path:
    """The pages as Markdown, one section a chunk, at the paths that their ids tell."""
    for page in pages:
        path = root / page.chunks[0].chunk.doc_id.removeprefix(f"{SOURCE}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_markdown(page), encoding="utf-8")
    return root


def _markdown(page: Page) -> str:
    sections = [
        f"## {item.chunk.breadcrumb.removeprefix(f'{page.title} > ')}\n\n{item.chunk.content}\n"
        for item in page.chunks
    ]
    return f"---\ncategory: {page.category}\n---\n\n# {page.title}\n\n" + "\n".join(sections)


def rows_of(page: Page) -> list[dict[str, Any]]:
    """The rows that ingest makes of the page's file, but for the vectors."""
    doc_id, text = page.chunks[0].chunk.doc_id, _markdown(page)
    chunks = chunk_document(doc_id, text, "markdown", page.title, ChunkingOptions())
    return [
        to_row(
            replace(
                item,
                chunk=chunk,
                content_hash=text_hash(chunk.content),
                search_text=search_text(chunk),
            )
        )
        for item, chunk in zip(page.chunks, chunks, strict=True)
    ]


def _table(result: dict[str, Any]) -> str:
    low, high = min(result["ratio_slices"]), max(result["ratio_slices"])
    return "\n".join(
        [
            f"{result['chunks']:,} chunks",
            f"  KnowledgeBase.ingest {result['ingest_chunks_s']:>8,.0f} chunks/s",
            f"  raw upsert           {result['raw_rows_s']:>8,.0f} rows/s",
            f"  ratio                {result['ratio']:>8.2f}   goal {GOAL:.2f}; median of the "
            f"slices {result['ratio_median']:.2f}, {low:.2f} to {high:.2f}",
            f"  again                {result['again_share']:>8.3f}   goal {AGAIN_GOAL:.2f}; "
            f"{result['again_seconds']:.2f} s",
            f"  peak RSS             {result['peak_rss_mb']:>8,.0f} MB, both engines included",
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--profile", action="store_true", help="print where ingest spends its time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
