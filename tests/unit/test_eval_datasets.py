"""evaluation/datasets.py: both forms of a set, and what is wrong with one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from knowport.errors import InvalidInput
from knowport.evaluation.datasets import Span, read_corpus, read_dataset
from support import OPS_KB, REPOSITORY, make_folder

SHARED = Path(os.environ.get("KNOWPORT_SHARED", REPOSITORY.parent / "shared")) / "data" / "sets"
QUERIES = '{"_id": "q1", "text": "one", "group": "g"}\n{"_id": "q2", "text": "two"}\n'


def a_set(folder: Path, **files: str) -> Path:
    names = {"queries": "queries.jsonl", "qrels": "qrels.tsv", "spans": "qrels_spans.tsv"}
    given = {"queries": QUERIES, "qrels": "q1\ta.md\t1\n", **files}
    return make_folder(
        folder, {names.get(name, f"{name}.jsonl"): text for name, text in given.items()}
    )


def test_the_example_base() -> None:
    found = read_dataset(OPS_KB)
    assert found.name == "ops-kb"
    assert found.corpus is None
    assert len(found.queries) == 189
    assert found.queries[0].group("group") == "term"
    assert found.gold["a-001"] == {"mysql/lock-wait-deadlock.md": 1, "mysql/error-codes.md": 1}
    assert sum(query.query_id not in found.gold for query in found.queries) == 25
    assert Span("mysql/error-codes.md", 4681, 4757) in found.spans["a-001"]
    assert found.unknown_queries == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared sets are not here")
@pytest.mark.parametrize("name", ["xquad_zh", "prom_runbooks_en", "mysql_errcode_en"])
def test_shared_sets(name: str) -> None:
    found = read_dataset(SHARED / name)
    described = json.loads((SHARED / name / "META.json").read_text("utf-8"))
    assert found.corpus is not None
    assert len(found.corpus) == described["docs"]
    assert len(found.queries) == described["queries"]
    assert {doc for gold in found.gold.values() for doc in gold} <= found.corpus.keys()


def test_header_or_not(tmp_path: Path) -> None:
    with_header = a_set(tmp_path / "a", qrels="query-id\tcorpus-id\tscore\nq1\ta.md\t1\n")
    without = a_set(tmp_path / "b")
    assert read_dataset(with_header).gold == read_dataset(without).gold == {"q1": {"a.md": 1}}
    assert read_dataset(a_set(tmp_path / "trec", qrels="q1\t0\ta.md\t1\n")).gold["q1"] == {
        "a.md": 1
    }


def test_gold_twice_counts_once_and_zero_is_not_gold(tmp_path: Path) -> None:
    found = read_dataset(a_set(tmp_path / "s", qrels="q1\ta\t1\nq1\ta\t2\nq2\tb\t0\n"))
    assert found.gold == {"q1": {"a": 2}}


def test_labels_of_unknown_queries_are_listed(tmp_path: Path) -> None:
    found = read_dataset(a_set(tmp_path / "s", qrels="q9\ta\t1\nq1\ta\t1\n", spans="q8\ta\t0\t1\n"))
    assert found.unknown_queries == ("q9", "q8")
    assert found.gold == {"q1": {"a": 1}}


def test_ids_of_files_are_in_nfc_and_ids_of_a_corpus_as_they_are(tmp_path: Path) -> None:
    decomposed = "cafe\u0301.md"
    files = read_dataset(a_set(tmp_path / "a", qrels=f"q1\t{decomposed}\t1\n"))
    assert files.gold == {"q1": {"caf\u00e9.md": 1}}
    corpus = json.dumps({"id": decomposed, "text": "x"})
    listed = read_dataset(a_set(tmp_path / "b", qrels=f"q1\t{decomposed}\t1\n", corpus=corpus))
    assert listed.gold == {"q1": {decomposed: 1}}


def test_the_fingerprint_follows_the_labels(tmp_path: Path) -> None:
    one = read_dataset(a_set(tmp_path / "a")).fingerprint
    assert one == read_dataset(a_set(tmp_path / "b")).fingerprint
    assert one != read_dataset(a_set(tmp_path / "c", qrels="q1\tb.md\t1\n")).fingerprint


def test_a_limit_spreads_over_the_file(tmp_path: Path) -> None:
    many = "".join(f'{{"id": {n}, "text": "t"}}\n' for n in range(10))
    found = read_dataset(a_set(tmp_path / "s", queries=many, qrels="0\ta\t1\n"))
    assert [query.query_id for query in found.limited(3).queries] == ["0", "3", "6"]
    assert found.limited(99) is found
    assert found.queries[0].group("none such") == "none"


@pytest.mark.parametrize(
    ("files", "where", "what"),
    [
        ({"queries": QUERIES + '{"_id": "q1", "text": "x"}'}, "queries.jsonl:3", "second time"),
        ({"queries": ""}, "queries.jsonl", "no query"),
        ({"queries": "\n{nonsense\n"}, "queries.jsonl:2", "not JSON"),
        ({"queries": "[1]\n"}, "queries.jsonl:1", "not a JSON object"),
        ({"queries": '{"_id": "q", "text": " "}'}, "queries.jsonl:1", "'text'"),
        ({"queries": '{"text": "x"}'}, "queries.jsonl:1", "'_id' or 'id'"),
        ({"qrels": "q1\ta\t-1\n"}, "qrels.tsv:1", "negative"),
        ({"qrels": "q1\ta\tyes\n"}, "qrels.tsv:1", "whole number"),
        ({"qrels": "q1\ta\t1\nq1 a 1\n"}, "qrels.tsv:2", "3 are needed"),
        ({"qrels": "q1\t\t1\n"}, "qrels.tsv:1", "empty one"),
        ({"spans": "q1\ta\t5\t5\n"}, "qrels_spans.tsv:1", "empty"),
        ({"spans": "q1\ta\t-5\t5\n"}, "qrels_spans.tsv:1", "negative"),
        ({"spans": "q1\ta\t5\n"}, "qrels_spans.tsv:1", "4 are needed"),
        (
            {"corpus": '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}'},
            "corpus.jsonl:2",
            "seco",
        ),
        ({"corpus": '{"id": "a", "text": 5}'}, "corpus.jsonl:1", "'text'"),
        ({"corpus": '{"id": "a", "text": "", "title": []}'}, "corpus.jsonl:1", "'title'"),
        ({"corpus": "\n"}, "corpus.jsonl", "no document"),
    ],
)
def test_what_is_malformed_is_named(
    tmp_path: Path, files: dict[str, str], where: str, what: str
) -> None:
    with pytest.raises(InvalidInput, match=what) as caught:
        read_dataset(a_set(tmp_path / "s", **files))
    assert where in caught.value.message


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such folder"):
        read_dataset(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"queries\.jsonl: there is no such file"):
        read_dataset(make_folder(tmp_path / "empty", {}))
    broken = make_folder(tmp_path / "latin", {"queries.jsonl": b'{"_id": "q", "text": "\xe9"}'})
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_dataset(broken)


def test_a_byte_order_mark_and_crlf_are_no_part_of_ids(tmp_path: Path) -> None:
    folder = a_set(tmp_path / "s", queries="\ufeff" + QUERIES, qrels="q1\ta.md\t1\r\n")
    assert read_dataset(folder).gold == {"q1": {"a.md": 1}}
    assert read_corpus(
        make_folder(tmp_path / "c", {"corpus.jsonl": '{"_id": 7, "text": "x"}'}) / "corpus.jsonl"
    ).keys() == {"7"}
