"""Turn the labelled questions of a knowledge base into BEIR files.

Reads  ``labels.jsonl``      one question a line: _id, text, group, evidence [{document, quote}]
Writes ``queries.jsonl``     _id, text, group
       ``qrels.tsv``         query-id, corpus-id, score: the documents that answer
       ``qrels_spans.tsv``   query-id, corpus-id, start, end: where the quote stands, in code
                             points of the file, so that a chunk can be judged

A quote may stand more than once where two places answer alike; each gets a line.

    python examples/build_qrels.py [FOLDER] [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def build(folder: Path) -> dict[str, str]:
    """File name to text; raises SystemExit naming a label that no longer fits its page."""
    labels = [
        json.loads(line)
        for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    queries, documents, spans = (
        [],
        ["query-id\tcorpus-id\tscore"],
        ["query-id\tcorpus-id\tstart\tend"],
    )
    for label in labels:
        query = {"_id": label["_id"], "text": label["text"], "group": label["group"]}
        queries.append(json.dumps(query, ensure_ascii=False))
        for document in dict.fromkeys(item["document"] for item in label["evidence"]):
            documents.append(f"{label['_id']}\t{document}\t1")
        for item in label["evidence"]:
            text = (folder / item["document"]).read_text(encoding="utf-8")
            places = _places(text, item["quote"])
            if not places:
                raise SystemExit(f"{label['_id']}: {item['document']} has no {item['quote']!r}")
            spans.extend(
                f"{label['_id']}\t{item['document']}\t{start}\t{end}" for start, end in places
            )
    return {
        "queries.jsonl": "\n".join(queries) + "\n",
        "qrels.tsv": "\n".join(documents) + "\n",
        "qrels_spans.tsv": "\n".join(spans) + "\n",
    }


def _places(text: str, quote: str) -> list[tuple[int, int]]:
    places, start = [], text.find(quote)
    while start >= 0:
        places.append((start, start + len(quote)))
        start = text.find(quote, start + 1)
    return places


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "ops-kb")
    parser.add_argument("--check", action="store_true", help="fail if a file is out of date")
    arguments = parser.parse_args()
    stale = []
    for name, text in build(arguments.folder).items():
        path = arguments.folder / name
        if arguments.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run python {sys.argv[0]}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
