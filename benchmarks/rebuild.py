"""How fast an index is rebuilt, and what lookups feel of it.

    python benchmarks/rebuild.py [--chunks 10000] [--json FILE] [--profile]

First a rebuild without a change beside raw writes of the same rows, then a whole rebuild with
smaller chunks, a rollback and a second one under steady lookups. ``--profile`` prints where the
first one spends its time; its rates are then not to be compared.
"""

from __future__ import annotations

import argparse
import cProfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import machine
from corpus import DIMENSION, SOURCE, Corpus
from ingest import ReadyVectors, rows_of, slices_of, write_files
from knowport import Answer, KnowledgeBase, Settings, load_settings
from knowport.adapters.milvus import Engine, MilvusIndex
from knowport.core.chunking import ChunkingOptions
from knowport.errors import KnowportError
from knowport.model import Vector
from knowport.pipelines.rebuild_ports import RebuildProgress
from knowport.pipelines.replace import cut
from lookup import COLLECTION, raw_upsert, seconds

SMALLER = 250
THREADS = 4
BASELINE_SECONDS = 10.0
MEANING = """
Rebuilding an index, vectors given or cached, mixed Chinese and English text, embedded Milvus Lite.

  build        a rebuild without a change: texts from the ledger, cut, vectors from the cache,
               written; beside raw upserts of the same rows, half before it and half after
  verify       every row compared, 200 chunks searched for
  switch       the last pass and the switch; writers waited for `blocked`
  lookups      KnowledgeBase.lookup, traced, at a steady rate from several threads, in each phase of
               a rebuild with smaller chunks, and of a rollback
  empty        answers without evidence to a query that has some in that generation
  not whole    answers with evidence that is not, word for word, of the generation they name

The lookups, the rebuild and the engine share the cores.
"""


def main() -> None:
    arguments = _arguments()
    described = machine.description()
    print(machine.heading(MEANING, described), flush=True)
    profile = cProfile.Profile() if arguments.profile else None
    result = measure(arguments.chunks, arguments.per_second, profile)
    print("\n" + _table(result), flush=True)
    machine.finish(described, result, profile, arguments.json)


def measure(chunks: int, per_second: float, profile: cProfile.Profile | None) -> dict[str, Any]:
    """Rebuild an index of that many chunks, first alone and then under lookups."""
    with TemporaryDirectory(prefix="knowport-bench-") as folder:
        home = Path(folder)
        rows = _ingest(home, chunks)
        raw = Engine.connect(str(home / "raw.db"))
        try:
            MilvusIndex(raw, COLLECTION, dimension=DIMENSION, lexical=True).create()
            raw.client.upsert(COLLECTION, rows[:1])
            middle = len(rows) // 2
            before = seconds(lambda: raw_upsert(raw.client, rows[:middle]))
            with KnowledgeBase(settings=Settings(home=home / "kb"), embedder=ReadyVectors()) as kb:
                alone = _alone(kb, profile)
            after = seconds(lambda: raw_upsert(raw.client, rows[middle:]))
        finally:
            raw.close()
        raw_rate = len(rows) / (before + after)
        settings = load_settings({"home": home / "kb", "chunking": {"size": SMALLER}})
        with KnowledgeBase(settings=settings, embedder=_SameVectors()) as kb:
            served = _under_lookups(kb, chunks, per_second)
        peak = machine.peak_rss_mb()
    return {
        "chunks": len(rows),
        "raw_rows_s": raw_rate,
        "ratio": alone["build_chunks_s"] / raw_rate,
        **alone,
        "per_second": per_second,
        **served,
        "peak_rss_mb": peak,
    }


def _ingest(home: Path, chunks: int) -> list[dict[str, Any]]:
    """Fill a knowledge base; returns the rows that it holds, but for the vectors."""
    rows = []
    with KnowledgeBase(settings=Settings(home=home / "kb"), embedder=ReadyVectors()) as kb:
        for pages in slices_of(chunks):
            write_files(home / "pages", pages)
            rows += [row for page in pages for row in rows_of(page)]
        kb.ingest(home / "pages", source=SOURCE)
    return rows


def _alone(kb: KnowledgeBase, profile: cProfile.Profile | None) -> dict[str, Any]:
    built = profile.runcall(kb.rebuild.start) if profile else kb.rebuild.start()
    verify = seconds(kb.rebuild.verify)
    switched = kb.rebuild.activate()
    back = kb.rebuild.rollback()
    kb.rebuild.drop(built.generation)
    return {
        "build_chunks_s": built.chunks / built.seconds,
        "embedded": built.misses,
        "verify_s": verify,
        "switch_ms": 1000 * switched.seconds,
        "switch_blocked_ms": 1000 * switched.blocked,
        "rollback_ms": 1000 * back.seconds,
    }


class _SameVectors(ReadyVectors):
    """An embedder that gives a query the same vector each time."""

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._vectors[crc32(text.encode()) % len(self._vectors)]
        return vector


# -- lookups meanwhile ------------------------------------------------------------------------


@dataclass
class _Lookups:
    """Lookups at a steady rate; what came of them, by phase."""

    kb: KnowledgeBase
    queries: Sequence[str]
    per_second: float
    phase: str = "before"
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def running(self) -> Iterator[None]:
        stop, numbers = threading.Event(), count()
        threads = [
            threading.Thread(target=self._ask, args=(stop, numbers, place / self.per_second))
            for place in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _ask(self, stop: threading.Event, numbers: Iterator[int], first: float) -> None:
        due = time.monotonic() + first
        while not stop.wait(max(0.0, due - time.monotonic())):
            due += THREADS / self.per_second
            query, phase = self.queries[next(numbers) % len(self.queries)], self.phase
            started = time.perf_counter()
            try:
                answer = self.kb.lookup(query)
            except KnowportError as error:
                self.errors[str(error)] += 1
                continue
            self.times[phase].append(1000 * (time.perf_counter() - started))
            self.answers.append((query, answer))

    def told(self, now: RebuildProgress) -> None:
        self.phase = "build" if now.step == "build" else "verify"


def _under_lookups(kb: KnowledgeBase, chunks: int, per_second: float) -> dict[str, Any]:
    """A rebuild with smaller chunks, back, and forth again, under lookups."""
    queries = [query.text for query in Corpus(chunks).queries(100)]
    answered = {kb.status().generation: _answered(kb, queries)}  # warms up, too
    lookups = _Lookups(kb, queries, per_second)
    with lookups.running():
        time.sleep(BASELINE_SECONDS)
        run = kb.rebuild.run(on_progress=lookups.told)
        lookups.phase = "switches"
        for _ in range(10):  # an even number: at the end the new one is active again
            kb.rebuild.rollback()
            time.sleep(BASELINE_SECONDS / 20)
    new = run.build.generation
    answered[new] = _answered(kb, queries)
    sizes = {name: SMALLER if name == new else ChunkingOptions().size for name in answered}
    held = {name: _contents(kb, size) for name, size in sizes.items()}
    return {
        "lookups": {
            phase: {"count": len(times)}
            | {f"p{share}": machine.percentile(times, share) for share in (50, 99)}
            | {"worst": max(times)}
            for phase, times in lookups.times.items()
        },
        "errors": dict(lookups.errors),
        "empty": sum(
            not answer.found and query in answered[answer.generation]
            for query, answer in lookups.answers
        ),
        "not_whole": sum(_is_mixed(answer, held) for _, answer in lookups.answers),
        "generations": dict(Counter(answer.generation for _, answer in lookups.answers)),
    }


def _answered(kb: KnowledgeBase, queries: Sequence[str]) -> set[str]:
    return {query for query in queries if kb.lookup(query).found}


def _contents(kb: KnowledgeBase, size: int) -> dict[str, str]:
    """Content of every chunk by its key, cut to a size."""
    found = {}
    for info in kb.documents():
        _, document = kb.document(info.doc_id)
        for chunk in cut(document, ChunkingOptions(size)).chunks:
            found[f"{chunk.doc_id}#chunk-{chunk.chunk_index}"] = chunk.content
    return found


def _is_mixed(answer: Answer, held: Mapping[str, Mapping[str, str]]) -> bool:
    whole = held[answer.generation]
    return any(
        not whole.get(item.document_id, "").startswith(item.excerpt.removesuffix("…"))
        if item.truncated
        else whole.get(item.document_id) != item.excerpt
        for item in answer.evidence
    )


# -- what is shown ----------------------------------------------------------------------------


def _table(result: dict[str, Any]) -> str:
    rows = [
        f"{result['chunks']:,} chunks",
        f"  build                {result['build_chunks_s']:>8,.0f} chunks/s, "
        f"{result['embedded']} embedded",
        f"  raw upsert           {result['raw_rows_s']:>8,.0f} rows/s",
        f"  ratio                {result['ratio']:>8.2f}",
        f"  verify               {result['verify_s']:>8.1f} s",
        f"  switch               {result['switch_ms']:>8.0f} ms, writers waited "
        f"{result['switch_blocked_ms']:.0f} ms",
        f"  rollback             {result['rollback_ms']:>8.0f} ms",
        "",
        f"  lookups, {result['per_second']:g} a second  "
        + "".join(f"{name:>8}" for name in ("count", "p50", "p99", "worst")),
    ]
    for phase, figures in result["lookups"].items():
        rows.append(
            f"    {phase:<20}{figures['count']:>8}"
            + "".join(f"{figures[name]:>8.1f}" for name in ("p50", "p99", "worst"))
        )
    rows += [
        f"  errors {sum(result['errors'].values())}, empty {result['empty']}, "
        f"not whole {result['not_whole']}; {result['generations']}",
        *(f"    {number} x {error}" for error, number in result["errors"].items()),
        f"  peak RSS             {result['peak_rss_mb']:>8,.0f} MB, engine included",
    ]
    return "\n".join(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--per-second", type=float, default=20.0)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--profile", action="store_true", help="print where the build spends time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
