"""core/lexical.py: coverage of a query by a chunk, and what it makes of the legs."""

import math

import pytest

from knowport.core.lexical import LegWeights, coverage, leg_weights
from knowport.core.terms import query_terms


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
