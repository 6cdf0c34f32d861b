"""core/identity.py: what a document may be called and what an evidence key stands for."""

import unicodedata

import pytest

from knowport.core.identity import (
    MAX_DOC_ID_BYTES,
    checked_doc_id,
    evidence_key,
    make_doc_id,
    parse_evidence_key,
)
from knowport.errors import InvalidInput

LONGEST = "x" * MAX_DOC_ID_BYTES

ACCEPTED = [
    "plain",
    "with#hash",
    "dir/sub/file.md",
    "has space",
    "100%25",
    "q?x=1&y",
    "C:\\temp\\a.md",
    'quote"id',
    "back\\slash",
    "中文-编号",
    "Å",
    "ＦＵＬＬ",
    "UPPER",
    "upper",
    "trailing.",
    ".hidden/..dots/...",
    "-rf",
    "ops_01",
    "opsX01",
    "7",
    "a#chunk-",
    "a#chunk-x",
    "a#chunk-01",
    "a#chunk-0/b",
    LONGEST,
]
REFUSED = {
    "": "is blank",
    " ": "is blank",
    "\u3000": "is blank",
    "tab\tid": "control character",
    "nul\0": "control character",
    "line\nbreak": "control character",
    "c1\x85": "control character",
    "lone \ud835": "lone surrogate",
    LONGEST + "x": "401 UTF-8 bytes; the limit is 400",
    "长" * 134: "402 UTF-8 bytes; the limit is 400",
    "/etc/passwd": "'..' segment, or begins or ends with '/'",
    "..": "'..' segment",
    "../up": "'..' segment",
    "a/../b": "'..' segment",
    "a/ .. /b": "'..' segment",
    "./a": "'.' or '..' segment",
    "a//b": "empty",
    "a/ /b": "empty",
    "trailing/": "begins or ends with '/'",
    "a#chunk-0": "ends like an evidence key",
    "dir/a.md#chunk-12": "ends like an evidence key",
}


def test_the_key_of_a_chunk_is_its_document_and_index():
    assert evidence_key("ops/a.md", 3, "any", 9) == "ops/a.md#chunk-3"
    assert evidence_key("ops/a.md", 0, "any", 9) == "ops/a.md#chunk-0"


def test_without_a_chunk_the_key_is_the_vector_id():
    assert evidence_key("", 3, "v7", 9) == "vector:v7"
    assert evidence_key("ops/a.md", None, "v7", 9) == "vector:v7"


def test_without_either_the_key_is_the_rank():
    assert evidence_key("", None, "", 9) == "rank:9"
    assert evidence_key("ops/a.md", None, "", 9) == "rank:9"


@pytest.mark.parametrize("doc_id", ACCEPTED)
def test_an_accepted_id_stays_as_it_is_and_its_keys_lead_back_to_it(doc_id):
    assert checked_doc_id(doc_id) == doc_id
    for index in (0, 7, 10, 10**18 - 1):
        assert parse_evidence_key(evidence_key(doc_id, index, "", 1)) == (doc_id, index)


@pytest.mark.parametrize("doc_id", REFUSED, ids=ascii)
def test_an_id_that_could_not_be_stored_or_told_apart_is_refused(doc_id):
    with pytest.raises(InvalidInput) as refused:
        checked_doc_id(doc_id)

    assert refused.value.field == "doc_id"
    assert REFUSED[doc_id] in refused.value.message
    assert refused.value.remedy == "Rename the file, or choose another source name."


def test_a_refusal_shows_the_beginning_of_a_long_id_and_can_be_printed():
    with pytest.raises(InvalidInput) as long:
        checked_doc_id("y" * 5_000)
    with pytest.raises(InvalidInput) as surrogate:
        checked_doc_id("\ud835")

    assert "y" * 80 + "…" in long.value.message
    assert "y" * 81 not in long.value.message
    surrogate.value.message.encode()


def test_both_unicode_forms_of_a_name_are_one_id():
    assert checked_doc_id("A\u030a.md") == checked_doc_id("\u00c5.md") == "\u00c5.md"


def test_the_limit_counts_the_composed_form():
    decomposed = unicodedata.normalize("NFD", "é" * 200)

    assert len(decomposed.encode()) == 600
    assert checked_doc_id(decomposed) == "é" * 200


def test_names_that_only_look_alike_stay_apart():
    alike = ["UPPER", "upper", "ops_01", "opsX01", "ＦＵＬＬ", "FULL", "a", "a.", "a "]

    assert len({checked_doc_id(name) for name in alike}) == len(alike)


def test_a_documents_id_is_its_path_below_the_name_of_its_source():
    assert make_doc_id("ops", "redis/oom.md") == "ops/redis/oom.md"
    assert make_doc_id("team/ops", "A\u030a.md") == "team/ops/\u00c5.md"


@pytest.mark.parametrize("source", ["", "..", "/", "a/", "a\n", "\ud800"])
def test_a_source_that_cannot_begin_an_id_is_refused(source):
    with pytest.raises(InvalidInput) as refused:
        make_doc_id(source, "a.md")

    assert refused.value.field == "doc_id"


def test_a_key_is_split_at_its_last_mark():
    assert parse_evidence_key("a#chunk-1/b#chunk-2") == ("a#chunk-1/b", 2)
    assert parse_evidence_key("a#chunk-x#chunk-2") == ("a#chunk-x", 2)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ops/a.md",
        "vector:v7",
        "rank:3",
        "#chunk-0",
        "a#chunk-",
        "a#chunk--1",
        "a#chunk-01",
        "a#chunk-1.0",
        "a#chunk-１",
        "a#chunk-0 ",
        "a#chunk-0\n",
        "a#Chunk-0",
        "a#chunk-" + "9" * 5_000,
    ],
)
def test_what_is_no_key_of_a_chunk_is_refused(key):
    with pytest.raises(InvalidInput) as refused:
        parse_evidence_key(key)

    assert refused.value.field == "document_id"
