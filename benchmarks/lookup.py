"""How long a lookup takes, beside the bare engine calls that it stands on.

    python benchmarks/lookup.py [--sizes 1000,10000,100000] [--queries 200] [--json FILE]

Each size gets a fresh embedded index in a temporary folder. Whatever is compared is measured in
one run, by turns, so that other work on the machine falls on all of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pymilvus import AnnSearchRequest, MilvusClient, RRFRanker

import machine
from corpus import DIMENSION, KB_SCOPE, SOURCE, Corpus, Page, Query
from knowport import KnowledgeBase, Settings
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import ANALYZER, SCHEMA_VERSION, Engine, MilvusIndex
from knowport.adapters.milvus.index import MAX_BATCH_ROWS
from knowport.adapters.milvus.schema import OUTPUT_FIELDS, to_row
from knowport.core.query import normalise_query
from knowport.core.relevance import default_thresholds
from knowport.model import (
    Document,
    EmbedderIdentity,
    Generation,
    Matrix,
    PlannedWrite,
    RankerName,
    SearchMode,
    SearchRequest,
    Vector,
)
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.replace import marks
from knowport.pipelines.search import SearchOptions

MEANING = f"""
Lookup: time of one query, vectors given, {DIMENSION} dimensions, mixed Chinese and English text,
embedded Milvus Lite with exact (FLAT) search.

  raw hybrid         one pymilvus hybrid_search: 20 a leg, RRF 60, 20 returned with the same fields,
                     the scope filter on each leg
  raw two legs       two pymilvus searches, dense and BM25, 20 returned of each
  index hybrid       MilvusIndex.search, fused in the engine: the tie rule and the cosine on top
  pipeline rrf       the whole lookup on that, with a real SQLite ledger
  pipeline adaptive  the whole lookup as it is by default: both legs searched at once, fused by
                     Knowport
  KnowledgeBase      KnowledgeBase.lookup: that, with its trace stored in the ledger
  raw dense          one pymilvus search, 20 returned
  pipeline dense     the whole lookup in dense mode
  of raw             ratio of the medians to the raw call of that mode
  upsert             rows a second of MilvusIndex.upsert_chunks and of raw client.upsert, into equal
                     collections in files of their own, {MAX_BATCH_ROWS} a call, slices taking turns
  cold start         from the start of a new process to its first answer over the filled index
  peak RSS           highest resident size, the engine's process included: of a process that only
                     opens the index and looks things up; and of the one that filled it
"""

COLLECTION = "biz_g1"
IDENTITY = EmbedderIdentity(provider="benchmark", model="given", dimension=DIMENSION)
WIDTH, RRF_K = 20, 60
WARM_UP = 20
COLD_QUERIES = 50
CALLS = {
    "raw hybrid": "raw hybrid",
    "raw two legs": "raw hybrid",
    "index hybrid": "raw hybrid",
    "pipeline rrf": "raw hybrid",
    "pipeline adaptive": "raw hybrid",
    "KnowledgeBase": "raw hybrid",
    "raw dense": "raw dense",
    "pipeline dense": "raw dense",
}
"""What is timed, and the raw call that it is compared with."""


def main() -> None:
    arguments = _arguments()
    if arguments.cold:
        _cold(arguments.cold)
        return
    described = machine.description()
    print(machine.heading(MEANING, described), flush=True)
    sizes = []
    for size in sorted(arguments.sizes):
        sizes.append(measure(size, arguments.queries))
        print("\n" + _table(sizes[-1]), flush=True)
    if arguments.json:
        result = {"machine": described, "queries": arguments.queries, "sizes": sizes}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def measure(size: int, queries: int) -> dict[str, Any]:
    """Fill one index of that size, and time everything over it."""
    corpus = Corpus(size)
    with TemporaryDirectory(prefix="knowport-bench-") as folder:
        home = Path(folder)
        ledger = SqlLedger(Settings(home=home).ledger_url)
        engine = Engine.connect(Settings(home=home).milvus_uri)
        try:
            index = _create(engine)
            _record_generation(ledger, engine)
            fill = _fill(corpus, index, ledger, home / "raw.db")
            asked = list(corpus.queries(WARM_UP + queries))
            embedder = GivenVectors(_vectors_by_text(asked))
            with KnowledgeBase(settings=Settings(home=home), embedder=embedder) as knowledge:
                bench = _Bench(engine.client, index, _ports(embedder, ledger, index), knowledge)
                times, answered = _time_calls(asked, bench)
            filled_rss = machine.peak_rss_mb()
        finally:
            engine.close()
            ledger.close()
        cold = _time_cold_start(home, asked[:COLD_QUERIES])
    medians = {name: machine.percentile(spent, 50) for name, spent in times.items()}
    return {
        "chunks": size,
        "calls": {
            name: {
                "p50_ms": medians[name],
                "p95_ms": machine.percentile(spent, 95),
                "of_raw": medians[name] / medians[CALLS[name]],
            }
            for name, spent in times.items()
        },
        "answered": answered,
        "upsert": {**fill, "of_raw": fill["index_rows_s"] / fill["raw_rows_s"]},
        "cold_start_s": cold["seconds"],
        "peak_rss_mb": {"lookups": cold["peak_rss_mb"], "fill": filled_rss},
    }


# -- filling --------------------------------------------------------------------------------


def _fill(
    corpus: Corpus, index: MilvusIndex, ledger: SqlLedger, raw_file: Path
) -> dict[str, float]:
    """Write the corpus through the index and raw, slice by slice; rows a second of both."""
    raw = Engine.connect(str(raw_file))
    spent = {"index": 0.0, "raw": 0.0}
    try:
        _create(raw)
        first = next(corpus.chunks())  # the first write of an engine loads its dictionary
        index.upsert_chunks([first])
        raw_upsert(raw.client, [to_row(first)])
        for turn, pages in enumerate(_slices(corpus)):
            chunks = [chunk for page in pages for chunk in page.chunks]
            rows = [to_row(chunk) for chunk in chunks]
            writers: list[tuple[str, Callable[[], None]]] = [
                ("index", partial(index.upsert_chunks, chunks)),
                ("raw", partial(raw_upsert, raw.client, rows)),
            ]
            for name, write in writers if turn % 2 else reversed(writers):
                spent[name] += seconds(write)
            _record_pages(ledger, pages)
    finally:
        raw.close()
    return {f"{name}_rows_s": corpus.size / taken for name, taken in spent.items()}


def raw_upsert(client: MilvusClient, rows: Sequence[Mapping[str, Any]]) -> None:
    """What a user of pymilvus would write, in batches as large as Knowport's."""
    for start in range(0, len(rows), MAX_BATCH_ROWS):
        client.upsert(COLLECTION, list(rows[start : start + MAX_BATCH_ROWS]))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _slices(corpus: Corpus) -> Iterator[list[Page]]:
    """Pages of 250 to 2,500 chunks at a time."""
    pages = corpus.pages()
    count = min(250, max(25, corpus.size // 200))
    while some := list(islice(pages, count)):
        yield some


def _create(engine: Engine) -> MilvusIndex:
    index = MilvusIndex(engine, COLLECTION, dimension=DIMENSION, lexical=True)
    index.create()
    return index


def _record_generation(ledger: SqlLedger, engine: Engine) -> None:
    ledger.save_generation(
        Generation(
            name="g1",
            collection=COLLECTION,
            embedder=IDENTITY,
            analyzer=ANALYZER,
            schema_version=SCHEMA_VERSION,
            lexical=True,
            proved_on=engine.version,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    )


def _record_pages(ledger: SqlLedger, pages: Sequence[Page]) -> None:
    for page in pages:
        document = Document(
            doc_id=page.chunks[0].chunk.doc_id,
            source=SOURCE,
            title=page.title,
            category=page.category,
            kb_scope=KB_SCOPE,
            text="\n\n".join(chunk.chunk.content for chunk in page.chunks),
            text_format="plain",
            content_hash="",
        )
        ledger.begin_writes([PlannedWrite(document, marks(page.chunks))])
        ledger.commit_writes([document.doc_id], generation="g1")


# -- timing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """An embedder that knows its queries beforehand, so that embedding costs nothing."""

    vectors: Mapping[str, Vector]
    identity: EmbedderIdentity = IDENTITY
    batch_size: int = 1

    def embed_query(self, text: str) -> Vector:
        return self.vectors[text]

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Bench:
    """The same index at each level of the code."""

    client: MilvusClient
    index: MilvusIndex
    ports: LookupPorts
    knowledge: KnowledgeBase

    def calls(self, query: Query) -> dict[str, Callable[[], object]]:
        request = SearchRequest(query.text, query.vector, KB_SCOPE, retrieve_k=WIDTH, rrf_k=RRF_K)
        return {
            "raw hybrid": partial(_raw_hybrid, self.client, query),
            "raw two legs": partial(_raw_two_legs, self.client, query),
            "index hybrid": partial(self.index.search, request),
            "pipeline rrf": partial(_pipeline, query, self.ports, "hybrid", "rrf"),
            "pipeline adaptive": partial(_pipeline, query, self.ports, "hybrid", "adaptive"),
            "KnowledgeBase": partial(self.knowledge.lookup, query.text),
            "raw dense": partial(_raw_leg, self.client, "dense_vector", query.vector),
            "pipeline dense": partial(_pipeline, query, self.ports, "dense", "adaptive"),
        }


def _ports(embedder: GivenVectors, ledger: SqlLedger, index: MilvusIndex) -> LookupPorts:
    return LookupPorts(
        embedder=embedder,
        ledger=ledger,
        index=index,
        generation="g1",
        thresholds=default_thresholds(IDENTITY, 0.5),
    )


def _time_calls(asked: Sequence[Query], bench: _Bench) -> tuple[dict[str, list[float]], float]:
    """Milliseconds of each call for each query after the warm-up, in random order within a query;
    and the share of queries that were answered."""
    times: dict[str, list[float]] = {name: [] for name in CALLS}
    answered = 0
    order = np.random.default_rng(1)
    for number, query in enumerate(asked):
        calls = bench.calls(query)
        for name in order.permutation(list(calls)):
            taken = seconds(calls[name])
            if number >= WARM_UP:
                times[name].append(1_000 * taken)
        answered += number >= WARM_UP and bench.knowledge.lookup(query.text).found
    return times, answered / (len(asked) - WARM_UP)


def _raw_hybrid(client: MilvusClient, query: Query) -> object:
    scope = f'kb_scope == "{KB_SCOPE}"'
    legs = [
        AnnSearchRequest([query.vector], "dense_vector", {}, WIDTH, expr=scope),
        AnnSearchRequest([query.text], "sparse_vector", {}, WIDTH, expr=scope),
    ]
    return client.hybrid_search(
        COLLECTION, legs, RRFRanker(RRF_K), limit=WIDTH, output_fields=OUTPUT_FIELDS
    )


def _raw_two_legs(client: MilvusClient, query: Query) -> object:
    return (
        _raw_leg(client, "dense_vector", query.vector),
        _raw_leg(client, "sparse_vector", query.text),
    )


def _raw_leg(client: MilvusClient, field: str, data: Vector | str) -> object:
    return client.search(
        COLLECTION,
        data=[data],
        anns_field=field,
        filter=f'kb_scope == "{KB_SCOPE}"',
        limit=WIDTH,
        output_fields=OUTPUT_FIELDS,
    )


def _pipeline(query: Query, ports: LookupPorts, mode: SearchMode, ranker: RankerName) -> object:
    options = LookupOptions(search=SearchOptions(retrieve_k=WIDTH, ranker=ranker, rrf_k=RRF_K))
    return lookup(query.text, ports, options, kb_scope=KB_SCOPE, mode=mode)


# -- cold start -----------------------------------------------------------------------------


def _time_cold_start(home: Path, asked: Sequence[Query]) -> dict[str, float]:
    """Start a new process over the filled index, wait for its first answer and its peak size."""
    questions = home / "questions.npz"
    np.savez(
        questions,
        texts=np.array([query.text for query in asked]),
        vectors=np.array([query.vector for query in asked]),
    )
    command = [sys.executable, __file__, "--cold", str(home)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        taken = time.perf_counter() - start
        peak = process.stdout.readline()
    if process.returncode or first.strip() != "answered":
        raise RuntimeError(f"the cold process failed with {process.returncode}: {first}{peak}")
    return {"seconds": taken, "peak_rss_mb": float(peak)}


def _cold(home: Path) -> None:
    """In the new process: open, answer once, say so, answer the others, tell the peak size."""
    with np.load(home / "questions.npz") as stored:
        asked = [
            Query(str(t), v, "") for t, v in zip(stored["texts"], stored["vectors"], strict=True)
        ]
    embedder = GivenVectors(_vectors_by_text(asked))
    with KnowledgeBase(settings=Settings(home=home), embedder=embedder) as knowledge:
        knowledge.lookup(asked[0].text)
        print("answered", flush=True)
        for query in asked[1:]:
            knowledge.lookup(query.text)
        print(machine.peak_rss_mb(), flush=True)


def _vectors_by_text(asked: Sequence[Query]) -> dict[str, Vector]:
    return {normalise_query(query.text): query.vector for query in asked}


# -- reporting ------------------------------------------------------------------------------


def _table(result: Mapping[str, Any]) -> str:
    upsert, rss = result["upsert"], result["peak_rss_mb"]
    lines = [
        f"{result['chunks']:,} chunks",
        f"  {'call':<20}{'p50 ms':>9}{'p95 ms':>9}{'of raw':>9}",
    ]
    for name, call in result["calls"].items():
        lines.append(
            f"  {name:<20}{call['p50_ms']:>9.2f}{call['p95_ms']:>9.2f}{call['of_raw']:>9.2f}"
        )
    lines += [
        f"  upsert              MilvusIndex {upsert['index_rows_s']:,.0f} rows/s, "
        f"raw {upsert['raw_rows_s']:,.0f} rows/s, ratio {upsert['of_raw']:.2f}",
        f"  cold start          {result['cold_start_s']:.1f} s to the first answer",
        f"  peak RSS            {rss['lookups']:,.0f} MB for lookups, "
        f"{rss['fill']:,.0f} MB while filling",
        f"  answered            {result['answered']:.0%} of the queries",
    ]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=_numbers, default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


if __name__ == "__main__":
    main()
