"""core/lexical.py: coverage of a query by a chunk, and what it makes of the legs."""

import math

import pytest

from candidates import hit
from knowport.core import lexical
from knowport.core.compose import folded
from knowport.core.lexical import LegWeights, leg_weights, lexical_evidence
from knowport.core.terms import places, query_terms


def coverage(terms, texts):
    return lexical.coverage(terms, places(terms, list(map(folded, texts))), len(texts))


def test_coverage_is_the_share_of_the_weight_of_terms_that_a_text_holds():
    terms = query_terms("lock timeout")

    # each term stands in one of two texts, so both weigh the same
    assert coverage(terms, ["a lock", "a timeout"]) == [0.5, 0.5]
    assert coverage(terms, ["a lock and a timeout", "neither"]) == [1.0, 0.0]


def test_a_rare_term_weighs_more_than_a_common_one():
    terms = query_terms("mysql 1236")
    texts = ["mysql 1236", "mysql", "mysql", "mysql"]
    rare, common = math.log(1 + 3.5 / 1.5), math.log(1 + 0.5 / 4.5)

    first, *rest = coverage(terms, texts)

    assert first == 1.0
    assert rest == pytest.approx([common / (common + rare)] * 3)


def test_what_no_candidate_holds_counts_against_all_of_them():
    terms = query_terms("mysql gtid")

    assert coverage(terms, ["mysql", "mysql"])[0] < 0.2


def test_an_absent_chinese_pair_counts_a_quarter():
    absent_word = coverage(query_terms("redis 延迟 zookeeper"), ["redis 延迟", "other"])[0]
    absent_pair = coverage(query_terms("redis 延迟 排查"), ["redis 延迟", "other"])[0]
    weight = math.log(1 + 1.5 / 1.5)
    missing = math.log(1 + 2.5 / 0.5)

    assert absent_word == pytest.approx(2 * weight / (2 * weight + missing))
    assert absent_pair == pytest.approx(2 * weight / (2 * weight + missing / 4))


def test_without_terms_or_texts_nothing_is_covered():
    assert coverage((), ["a", "b"]) == [0.0, 0.0]
    assert coverage(query_terms("mysql"), []) == []


def test_terms_are_looked_for_in_title_breadcrumb_and_content_of_each_hit():
    """Two of three hits hold each word, so all words weigh the same."""
    hits = [
        hit(vector_id="1", title="MySQL", breadcrumb="MySQL > Lock", content="Wait."),
        hit(vector_id="2", title="Ｍｙｓｑｌ", content="lock wait"),
        hit(vector_id="3", content="nothing"),
    ]

    evidence = lexical_evidence(query_terms("mysql lock wait"), hits)

    assert evidence.coverage == {"1": 1.0, "2": 1.0, "3": 0.0}
    assert evidence.in_headings == {"1": 2, "2": 1, "3": 0}


def test_a_hit_that_is_given_twice_is_one_candidate():
    """Counted twice it would make its words look common."""
    hits = [hit(vector_id="1", content="lock"), hit(vector_id="2", content="wait")]

    evidence = lexical_evidence(query_terms("lock wait"), [*hits, hits[0]])

    assert evidence.coverage == {"1": 0.5, "2": 0.5}


def test_a_term_that_begins_behind_the_headings_is_not_in_them():
    terms = query_terms("锁等待 wait")
    hits = [hit(vector_id="1", title="锁", breadcrumb="锁", content="等待 wait 锁等")]

    assert lexical_evidence(terms, hits).in_headings == {"1": 0}


def test_no_hits_are_no_evidence():
    evidence = lexical_evidence(query_terms("lock"), [])

    assert (evidence.coverage, evidence.in_headings) == ({}, {})


@pytest.mark.parametrize(
    ("query", "best", "expected"),
    [
        ("how do I fix replication lag", 0.0, LegWeights(1.0, 0.0, "lexical_covers_nothing")),
        ("how do I fix replication lag", 0.2, LegWeights(1.0, 0.25, "lexical_covers_little")),
        ("how do I fix replication lag", 0.4, LegWeights(1.0, 1.0, "lexical_covers_query")),
        ("how do I fix replication lag", 1.0, LegWeights(1.0, 1.0, "lexical_covers_query")),
        ("ERROR 1205", 1.0, LegWeights(0.5, 1.0, "identifiers_only")),
        ("ERROR 1205", 0.5, LegWeights(1.0, 1.0, "lexical_covers_query")),
        ("exit code 137", 1.0, LegWeights(1.0, 1.0, "lexical_covers_query")),
    ],
)
def test_the_lexical_leg_counts_as_much_as_it_covers(query, best, expected):
    assert leg_weights(query_terms(query), best) == expected
