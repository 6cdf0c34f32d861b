"""Quality over labelled sets: BM25 alone, dense alone, plain RRF, and the default.

    python benchmarks/quality.py SETS [--only NAME ...] [--queries 300] [--work DIR] [--json FILE]

SETS is a folder of sets (corpus.jsonl, queries.jsonl, qrels.tsv). Every set goes through the
pipeline that serves agents, in a scratch index; embeddings are kept in DIR between runs. Of sets
with long pages 60 documents are taken: those that answer the sampled queries, up to 36, and
others at random, with a fixed seed. nDCG@10 and R@5 count documents.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from knowport.evaluation.datasets import Dataset, read_dataset
from knowport.evaluation.harness import evaluate
from knowport.evaluation.setups import setup
from machine import description, heading

SETUPS = ("bm25", "dense", "rrf", "adaptive")
SAMPLED_DOCUMENTS = 60
ANSWERING_SHARE = 0.6
SEED = 7
# Pages of several thousand characters each; the others are taken whole.
LONG = ("k8s_", "milvus_faq_")


def main() -> int:
    """Print one row for each set as it is done, and the averages."""
    arguments = _arguments()
    meaning = "nDCG@10, then R@5; gap: the default's nDCG@10 less that of the better single leg."
    print(heading(meaning, description()), end="\n\n")
    print(f"{'set':<26}{'docs':>6}{'queries':>8}" + "".join(f"{name:>10}" for name in SETUPS * 2))
    rows = []
    for folder in _folders(arguments):
        row = _measured(_sampled(read_dataset(folder), arguments.queries), arguments.work)
        rows.append(row)
        print(_line(row), flush=True)
    if rows:
        print(_line(_average(rows)))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--work", type=Path, default=Path(".cache/quality"))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


def _folders(arguments: argparse.Namespace) -> Iterable[Path]:
    for folder in sorted(path.parent for path in arguments.sets.glob("*/corpus.jsonl")):
        if not arguments.only or folder.name in arguments.only:
            yield folder


def _sampled(dataset: Dataset, queries: int) -> Dataset:
    """At most so many queries; of a set with long pages 60 documents as well."""
    if not dataset.name.startswith(LONG) or dataset.corpus is None:
        answerable = replace(
            dataset, queries=tuple(q for q in dataset.queries if q.query_id in dataset.gold)
        )
        return answerable.limited(queries)
    chance = random.Random(SEED)
    shuffled = [query for query in dataset.queries if query.query_id in dataset.gold]
    chance.shuffle(shuffled)
    kept: set[str] = set()
    asked = []
    for query in shuffled:
        gold = set(dataset.gold[query.query_id])
        if len(kept | gold) <= SAMPLED_DOCUMENTS * ANSWERING_SHARE:
            kept |= gold
            asked.append(query)
    others = [doc_id for doc_id in dataset.corpus if doc_id not in kept]
    chance.shuffle(others)
    kept |= set(others[: SAMPLED_DOCUMENTS - len(kept)])
    return replace(
        dataset,
        name=f"{dataset.name}-{SAMPLED_DOCUMENTS}",
        queries=tuple(asked[:queries]),
        gold={query.query_id: dataset.gold[query.query_id] for query in asked},
        spans={},
        corpus={doc_id: dataset.corpus[doc_id] for doc_id in dataset.corpus if doc_id in kept},
    )


def _measured(dataset: Dataset, work: Path) -> dict[str, Any]:
    report = evaluate(dataset, [setup(name, {}) for name in SETUPS], work, seed=SEED)
    figures = {
        found["name"]: {
            measure: found["figures"]["overall"][measure]["mean"] for measure in ("nDCG@10", "R@5")
        }
        for found in report["setups"]
    }
    return {
        "set": dataset.name,
        "documents": len(dataset.corpus or {}),
        "queries": len(dataset.queries),
        "figures": figures,
    }


def _average(rows: list[dict[str, Any]]) -> dict[str, Any]:
    figures = {
        name: {
            measure: sum(row["figures"][name][measure] for row in rows) / len(rows)
            for measure in ("nDCG@10", "R@5")
        }
        for name in SETUPS
    }
    return {
        "set": "average",
        "documents": sum(row["documents"] for row in rows),
        "queries": sum(row["queries"] for row in rows),
        "figures": figures,
    }


def _line(row: dict[str, Any]) -> str:
    figures = row["figures"]
    cells = [figures[name][measure] for measure in ("nDCG@10", "R@5") for name in SETUPS]
    gap = cells[3] - max(cells[0], cells[1])
    shown = "".join(f"{cell:>10.3f}" for cell in cells)
    return f"{row['set']:<26}{row['documents']:>6}{row['queries']:>8}{shown}  gap {gap:+.3f}"


if __name__ == "__main__":
    sys.exit(main())
