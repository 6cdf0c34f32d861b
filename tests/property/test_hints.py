"""Hints steer: they choose a filter and break ties, and never more than that."""

from __future__ import annotations

import itertools
import unicodedata

from hypothesis import assume, example, given
from hypothesis import strategies as st

from fakes import SCALE, FakeEmbedder, FakeIndex, FakeLedger, Row
from knowport.core.compose import folded
from knowport.core.domains import NO_DOMAINS, Catalogue, Domain, merge_catalogues
from knowport.core.fusion import fuse_legs
from knowport.core.lexical import coverage, leg_weights
from knowport.core.projection import project
from knowport.core.query import normalise_query, plan_query
from knowport.core.terms import STOP_WORDS, contains, places, query_terms
from knowport.model import AttemptName, LegWeights, RelevanceLevel, Scores, SearchHit
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.search import SearchOptions

# -- headings and fusion ----------------------------------------------------------------------

names = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8)
shares = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
weights = st.builds(LegWeights, shares, shares, st.just("x"))


def leg(ids, *, dense):
    return [
        SearchHit(name, name, 0, "", "", "", "", "", scores)
        for rank, name in enumerate(ids, start=1)
        for scores in [
            Scores(dense=1 / rank, dense_rank=rank)
            if dense
            else Scores(sparse=9.0, sparse_rank=rank)
        ]
    ]


@given(names, names, weights, st.integers(1, 100))
def test_the_union_is_in_order_of_the_fused_score_alone(dense, sparse, weights, k) -> None:
    hits = fuse_legs(leg(dense, dense=True), leg(sparse, dense=False), weights=weights, k=k)

    scores = [hit.scores.fused for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert sorted(hit.id for hit in hits) == sorted({*dense, *sparse})


@given(names, names, weights, st.integers(1, 100), st.data())
def test_a_hit_in_a_heading_never_outranks_a_better_fused_score(
    dense, sparse, weights, k, data
) -> None:
    legs = leg(dense, dense=True), leg(sparse, dense=False)
    bonus = data.draw(st.fixed_dictionaries({name: st.integers(0, 50) for name in "abcdefghij"}))

    plain = fuse_legs(*legs, weights=weights, k=k)
    preferred = fuse_legs(*legs, weights=weights, k=k, prefer=bonus.__getitem__)

    # place by place the same scores: a preference only permutes what is tied
    assert [h.scores.fused for h in preferred] == [h.scores.fused for h in plain]
    assert {h.id: h.scores for h in preferred} == {h.id: h.scores for h in plain}
    for one, other in itertools.pairwise(preferred):
        if one.scores.fused == other.scores.fused:
            assert (-bonus[one.id], one.id) < (-bonus[other.id], other.id)


words = st.sampled_from(
    ["lock", "wait", "mysql", "redis", "1205", "ORA-00257", "主从", "延迟", "zz"]
)
texts = st.lists(words, max_size=6).map(" ".join)
queries = st.lists(words, min_size=1, max_size=5).map(" ".join)
rows = st.lists(
    st.builds(
        Row,
        doc_id=st.sampled_from("abcd"),
        number=st.integers(0, 3),
        content=texts,
        cosine=st.floats(-1, 1).map(lambda value: round(value, 2)),
        bm25=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        category=st.sampled_from(["mysql", "redis", ""]),
        title=texts,
    ),
    unique_by=lambda row: row.id,
    max_size=12,
)
CATALOGUE = Catalogue(
    (
        Domain("mysql", ("mysql",), (), ("主从",)),
        Domain("redis", ("redis",), (), ("延迟",)),
    )
)
options = st.builds(
    LookupOptions,
    search=st.builds(SearchOptions, retrieve_k=st.integers(1, 15), rrf_k=st.sampled_from([1, 60])),
    parallel=st.booleans(),
    retry_unfiltered_on_low_quality=st.booleans(),
    return_n=st.integers(1, 6),
)


def looked_up(query, rows, options, category=None, catalogue=CATALOGUE):
    ports = LookupPorts(FakeEmbedder(), FakeLedger(rows), FakeIndex(rows), "g1", SCALE, catalogue)
    return lookup(query, ports, options, kb_scope="default", category=category)


@given(queries, rows, options, st.sampled_from([None, "mysql", "redis", "nope"]))
def test_attempts_follow_from_the_plan(query, rows, options, category) -> None:
    result = looked_up(query, rows, options, category)
    plan, (first, *more) = result.plan, result.attempts

    soft = CATALOGUE.match(plan.text) if category is None else ()
    assert plan.soft_category == (soft[0] if len(soft) == 1 else None)
    assert first.category == (category or plan.soft_category)
    assert [attempt.category for attempt in more] in ([], [None])
    assert not more or plan.soft_category
    if plan.soft_category:
        wanted = options.parallel or bool(first.low_quality)
        assert bool(more) == (options.retry_unfiltered_on_low_quality and wanted)
    if category is not None:
        assert {c.hit.category for c in result.candidates} <= {category}
    for attempt in result.attempts:
        name = AttemptName.UNFILTERED if attempt.category is None else AttemptName.FILTERED
        assert attempt.name is name
        assert len(attempt.assessments) == len(attempt.hits)
    if result.evidence:
        assert result.selected_attempt is project(result).evidence[0].via
    else:
        assert result.selected_attempt is result.attempts[-1].name


@given(queries, rows, options)
def test_an_attempt_is_as_good_as_what_it_would_return(query, rows, options) -> None:
    result = looked_up(query, rows, options)

    for attempt in result.attempts:
        alone = LookupOptions(
            search=options.search, return_n=options.return_n, retry_unfiltered_on_low_quality=False
        )
        again = looked_up(query, rows, alone, attempt.category, catalogue=NO_DOMAINS)
        assert again.attempts[0].hits == attempt.hits
        assert again.level is attempt.level
        assert bool(attempt.low_quality) == (again.level is not RelevanceLevel.HIGH)


@given(queries, rows, options)
def test_evidence_is_of_the_attempts_and_no_key_comes_twice(query, rows, options) -> None:
    result = looked_up(query, rows, options)
    answer = project(result)

    found = {
        attempt.name: {hit.id: hit.content for hit in attempt.hits} for attempt in result.attempts
    }
    ids = [item.document_id for item in answer.evidence]
    assert len(set(ids)) == len(ids)
    for item in answer.evidence:
        assert found[item.via][item.document_id] == item.excerpt
        assert item.relevance_level is not RelevanceLevel.NONE
    ranks = [item.block.candidate.rank for item in result.evidence]
    assert ranks == sorted(ranks)
    assert answer.found == bool(answer.evidence)
    assert answer.found or answer.notices, "an empty answer says why"
    kept, dropped = set(ids), {drop.key for drop in result.drops if drop.reason != "duplicate"}
    assert not kept & dropped
    assert kept | dropped == {candidate.key for candidate in result.candidates}


@given(queries, rows, st.sampled_from([1, 7, 60, 1_000]))
def test_how_the_legs_are_fused_changes_no_level(query, rows, k) -> None:
    def levels(**search):
        (attempt,) = looked_up(
            query, rows, LookupOptions(search=SearchOptions(retrieve_k=50, **search)), "mysql"
        ).attempts
        return {hit.id: a for hit, a in zip(attempt.hits, attempt.assessments, strict=True)}

    assert levels(rrf_k=k) == levels(rrf_k=60) == levels(ranker="rrf", rrf_k=k)


# -- weights ------------------------------------------------------------------------------------


@given(queries, st.lists(texts, min_size=1, max_size=6))
def test_coverage_is_a_share_and_whole_where_a_text_holds_the_query(query, others) -> None:
    terms = query_terms(query)
    candidates = [folded(text) for text in (query, *others)]
    whole, *rest = coverage(terms, places(terms, candidates), len(candidates))

    assert whole == 1.0
    assert all(0.0 <= share <= 1.0 for share in rest)


@given(queries, st.floats(0, 1), st.floats(0, 1))
def test_more_coverage_never_makes_the_lexical_leg_count_less(query, one, other) -> None:
    low, high = sorted((one, other))
    first, second = (leg_weights(query_terms(query), c) for c in (low, high))

    assert 0.0 <= first.sparse <= second.sparse <= 1.0
    assert first.sparse - first.dense <= second.sparse - second.dense
    assert max(first.dense, first.sparse) > 0


# -- domains ------------------------------------------------------------------------------------

latin = st.text(st.sampled_from("abcXYZ089"), min_size=1, max_size=6)
han = st.text(st.sampled_from("数据库主从延迟"), min_size=1, max_size=4)
phrases = (latin | han).map(str.casefold).filter(lambda text: text not in STOP_WORDS)
catalogues = st.lists(
    st.builds(
        Domain,
        id=st.sampled_from(["one", "two", "three", "four"]),
        names=st.lists(phrases, min_size=1, max_size=4, unique=True).map(tuple),
        aliases=st.just(()),
        keywords=st.just(()),
    ),
    unique_by=lambda domain: domain.id,
    max_size=4,
).map(lambda domains: Catalogue(tuple(domains)))
odd = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
asked = st.lists(phrases | st.sampled_from([" ", ",", "，", "/", "-"]) | odd, max_size=8).map(
    "".join
)


@given(catalogues, asked)
@example(Catalogue((Domain("one", ("i\u0307",), (), ()),)), "İ")
def test_a_matched_domain_has_a_phrase_in_the_query(catalogue, query) -> None:
    text = normalise_query(query)
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())

    matched = catalogue.match(text)

    assert list(matched) == sorted(set(matched))
    by_id = {domain.id: domain for domain in catalogue.domains}
    for name in matched:
        assert any(phrase in folded for phrase in by_id[name].phrases)


@given(
    catalogues.filter(lambda catalogue: catalogue.domains),
    st.sampled_from(["", " ", "，", "? "]),
    st.sampled_from(["", " ", "。"]),
)
def test_a_phrase_alone_names_its_owners_and_nobody_else(catalogue, before, after) -> None:
    for phrase in catalogue.domains[0].phrases:
        owners = {domain.id for domain in catalogue.domains if phrase in domain.phrases}

        assert set(catalogue.match(before + phrase + after)) == owners


@given(latin, st.sampled_from("abcxyz_"))
def test_a_latin_phrase_inside_a_longer_word_is_no_match(word, letter) -> None:
    phrase = word.casefold()
    alone = Catalogue((Domain("one", (phrase,), (), ()),))

    assert alone.match(f"{letter}{phrase}{letter}") == ()
    assert alone.match(f"{phrase}{letter}") == ()


@given(catalogues, st.randoms(use_true_random=False), asked)
def test_the_order_of_a_catalogue_changes_nothing(catalogue, random, query) -> None:
    domains = list(catalogue.domains)
    random.shuffle(domains)

    assert Catalogue(tuple(domains)).match(query) == catalogue.match(query)


@given(catalogues, catalogues, asked)
def test_catalogues_of_two_sources_merge_in_any_order(one, other, query) -> None:
    both, turned = merge_catalogues([one, other]), merge_catalogues([other, one])

    assert both.match(query) == turned.match(query)
    assert {d.id: d.phrases for d in both.domains} == {d.id: d.phrases for d in turned.domains}
    assert merge_catalogues([both, one]) == both
    ids = [domain.id for domain in both.domains]
    assert len(set(ids)) == len(ids)


@given(catalogues, asked, st.sampled_from([None, "", "*", "null", "other"]))
def test_a_guess_is_made_for_one_domain_and_only_without_a_category(
    catalogue, query, category
) -> None:
    assume(any(unicodedata.category(c) != "Cf" for c in normalise_query(query)))

    plan = plan_query(query, kb_scope="default", category=category, catalogue=catalogue)

    guess = plan.domains[0] if len(plan.domains) == 1 and plan.category is None else None
    assert plan.soft_category == guess
    assert plan.domains == catalogue.match(plan.text)


# -- terms --------------------------------------------------------------------------------------


@given(st.lists(phrases | odd | words, max_size=8).map(" ".join))
def test_every_term_of_a_query_is_contained_in_it(query) -> None:
    text = normalise_query(query)

    terms = query_terms(text)

    assert len(set(terms)) == len(terms)
    for term in terms:
        assert term.text == term.text.lower()
        assert contains(folded(text), term), term
