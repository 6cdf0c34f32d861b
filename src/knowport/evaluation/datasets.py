"""Labelled retrieval sets in the BEIR layout, read strictly.

Two forms are known:

=============  ==========================================  =======================================
file           folder form (examples/ops-kb)               corpus form (shared sets)
=============  ==========================================  =======================================
documents      the Markdown and text files of the folder   ``corpus.jsonl``: id, title, text, and
                                                           category where there is one
queries.jsonl  ``_id`` or ``id``, ``text``, more fields     the same
               such as ``group``
qrels.tsv      query, document, relevance                  the same
qrels_spans    query, document, start, end: code points    the same, into ``text``
.tsv           of the file (optional)                      (optional)
=============  ==========================================  =======================================

A first line ``query-id corpus-id ...`` is a header and may be missing. A relevance of 0 says
"judged, not relevant". Gold listed twice counts once, with its highest relevance. What names no
query or no
document is counted and listed (``Dataset.unknown_*``), because public sets have such lines; all
else that is malformed is an error naming file and line.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from knowport.errors import InvalidInput
from knowport.model import Metadata

QUERIES, QRELS, SPANS, CORPUS = "queries.jsonl", "qrels.tsv", "qrels_spans.tsv", "corpus.jsonl"
LABEL_FILES = (QUERIES, QRELS, SPANS)
_HEADER = "query-id"


@dataclass(frozen=True, slots=True)
class Query:
    """One labelled question; ``fields`` are all its values, such as ``group``."""

    query_id: str
    text: str
    fields: Metadata = field(default_factory=dict)

    def group(self, by: str) -> str:
        """The value of a field as a group's name; 'none' where it has none."""
        value = self.fields.get(by)
        return "none" if value is None or value == "" else str(value)


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """One line of a ``corpus.jsonl``."""

    doc_id: str
    title: str
    text: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Where an answer stands: ``start`` to ``end`` (exclusive), code points of the raw text."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """A set. ``corpus`` is None in the folder form.

    ``gold`` maps every query that has a relevant document to its documents and their relevance, 1
    or more; a query that is not in it has none and ought to be refused. ``fingerprint`` is the
    SHA-256 of the label files and of ``corpus.jsonl``.
    """

    name: str
    folder: Path
    queries: tuple[Query, ...]
    gold: Mapping[str, Mapping[str, int]]
    spans: Mapping[str, tuple[Span, ...]]
    corpus: Mapping[str, CorpusDocument] | None
    fingerprint: str
    unknown_queries: tuple[str, ...] = ()

    def limited(self, count: int) -> Dataset:
        """The same with at most ``count`` queries, spread evenly over the file."""
        total = len(self.queries)
        if count >= total:
            return self
        kept = tuple(self.queries[position * total // count] for position in range(count))
        return replace(self, queries=kept)


def read_dataset(folder: Path) -> Dataset:
    """Read a set. Raises InvalidInput naming the file, and the line where there is one."""
    if not folder.is_dir():
        raise _bad(folder, None, "there is no such folder", "Name the folder of a set.")
    queries = _queries(folder / QUERIES)
    known = {query.query_id for query in queries}
    unknown: dict[str, None] = {}
    corpus = read_corpus(folder / CORPUS) if (folder / CORPUS).is_file() else None
    # A file's document id is in NFC, whatever its name on disk.
    canonical = _as_it_is if corpus is not None else _nfc
    gold = _qrels(folder / QRELS, known, unknown, canonical)
    spans: dict[str, tuple[Span, ...]] = {}
    if (folder / SPANS).is_file():
        spans = _spans(folder / SPANS, known, unknown, canonical)
    return Dataset(
        name=folder.resolve().name,
        folder=folder,
        queries=queries,
        gold=gold,
        spans=spans,
        corpus=corpus,
        fingerprint=_fingerprint(folder),
        unknown_queries=tuple(unknown),
    )


def read_corpus(path: Path) -> dict[str, CorpusDocument]:
    """Documents of a ``corpus.jsonl`` by id. Raises InvalidInput."""
    found: dict[str, CorpusDocument] = {}
    for number, row in json_lines(path):
        doc_id = _text(path, number, row, ("id", "_id"))
        if doc_id in found:
            raise _bad(path, number, f"the document id {doc_id!r} stands there a second time")
        optional = {name: row.get(name, "") for name in ("title", "category")}
        optional = {name: "" if value is None else value for name, value in optional.items()}
        for name, value in optional.items():
            if not isinstance(value, str):
                raise _bad(path, number, f"{name!r} is not a text")
        if not isinstance(row.get("text"), str):
            raise _bad(path, number, "'text' is missing or not a text")
        found[doc_id] = CorpusDocument(doc_id, optional["title"], row["text"], optional["category"])
    if not found:
        raise _bad(path, None, "it holds no document")
    return found


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """``(line number from 1, object)`` of a JSON Lines file; blank lines are passed over."""
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _bad(path, number, f"it is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise _bad(path, number, "it is not a JSON object")
        yield number, row


def _queries(path: Path) -> tuple[Query, ...]:
    found: dict[str, Query] = {}
    for number, row in json_lines(path):
        query_id = _text(path, number, row, ("_id", "id"))
        if query_id in found:
            raise _bad(path, number, f"the query id {query_id!r} stands there a second time")
        found[query_id] = Query(query_id, _text(path, number, row, ("text",)), row)
    if not found:
        raise _bad(path, None, "it holds no query")
    return tuple(found.values())


def _qrels(
    path: Path, known: set[str], unknown: dict[str, None], canonical: Callable[[str], str]
) -> dict[str, dict[str, int]]:
    gold: dict[str, dict[str, int]] = {}
    for number, (query_id, doc_id, value) in _table(path, 3):
        relevance = _integer(path, number, value, "relevance")
        if query_id not in known:
            unknown[query_id] = None
        elif relevance:
            of_query, name = gold.setdefault(query_id, {}), canonical(doc_id)
            of_query[name] = max(relevance, of_query.get(name, 0))
    return gold


def _spans(
    path: Path, known: set[str], unknown: dict[str, None], canonical: Callable[[str], str]
) -> dict[str, tuple[Span, ...]]:
    spans: dict[str, dict[Span, None]] = {}
    for number, (query_id, doc_id, first, last) in _table(path, 4):
        start, end = _integer(path, number, first, "start"), _integer(path, number, last, "end")
        if start >= end:
            raise _bad(path, number, f"the span {start}..{end} is empty")
        if query_id not in known:
            unknown[query_id] = None
        else:
            spans.setdefault(query_id, {})[Span(canonical(doc_id), start, end)] = None
    return {query_id: tuple(of_query) for query_id, of_query in spans.items()}


def _table(path: Path, columns: int) -> Iterator[tuple[int, Sequence[str]]]:
    for number, line in _lines(path):
        if not line.strip() or (number == 1 and line.split("\t", 1)[0].strip() == _HEADER):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) == 4 and columns == 3 and cells[1] in {"0", "Q0"}:
            del cells[1]  # TREC's unused iteration
        if len(cells) != columns or not all(cells):
            raise _bad(
                path, number, f"it has {len(cells)} cells, or an empty one; {columns} are needed"
            )
        yield number, cells


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise _bad(path, None, "there is no such file") from None
    except OSError as error:
        raise _bad(path, None, f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _bad(path, None, f"it cannot be read as UTF-8: {error}") from None


def _text(path: Path, number: int, row: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and name != "text":
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
    raise _bad(path, number, f"{' or '.join(map(repr, names))} is missing, blank or not a text")


def _integer(path: Path, number: int, value: str, name: str) -> int:
    try:
        found = int(value)
    except ValueError:
        raise _bad(path, number, f"{name} {value!r} is not a whole number") from None
    if found < 0:
        raise _bad(path, number, f"{name} {found} is negative")
    return found


def _as_it_is(doc_id: str) -> str:
    return doc_id


def _nfc(doc_id: str) -> str:
    return unicodedata.normalize("NFC", doc_id)


def _fingerprint(folder: Path) -> str:
    digest = sha256()
    for name in (QUERIES, QRELS, SPANS, CORPUS):
        path = folder / name
        if path.is_file():
            digest.update(f"{name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _bad(path: Path, line: int | None, problem: str, remedy: str = "") -> InvalidInput:
    where = f"{path}:{line}" if line is not None else str(path)
    return InvalidInput(
        f"{where}: {problem}.",
        field="set",
        remedy=remedy or "docs/evaluation.md tells how a set is laid out.",
    )
