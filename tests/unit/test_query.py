"""core/query.py: what a query becomes before it is searched for."""

import pytest

from knowport.core.domains import Catalogue, Domain
from knowport.core.filter_values import checked_filter
from knowport.core.query import MAX_QUERY_CHARS, normalise_query, plan_query
from knowport.errors import InvalidInput


def plan(query, *, kb_scope="default", **options):
    return plan_query(query, kb_scope=kb_scope, **options)


# -- text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ＶＰＮ\u3000ｓｅｔｕｐ\u3000４４３", "VPN setup 443"),
        ("ﬁle ½ ①", "file 1⁄2 1"),
        ("Å disk A\u030a", "Å disk Å"),
        ("line one\nline two\ttab\r\nend", "line one line two tab end"),
        ("a\0b", "a b"),
        ("bad \ud835 here", "bad here"),
        ("  two   spaces  ", "two spaces"),
        ("he said \"restart\" and 'stop' \\ end", "he said \"restart\" and 'stop' \\ end"),
        ("path C:\\temp\\", "path C:\\temp\\"),
        ('x" or doc_id != "', 'x" or doc_id != "'),
        ("100%_done", "100%_done"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("'; drop table docs; --", "'; drop table docs; --"),
        ("\u202eabc\u202c", "\u202eabc\u202c"),
        ("MySQL主从切换failover怎么做", "MySQL主从切换failover怎么做"),
    ],
)
def test_text_is_normalised_and_nothing_else(query, text):
    found = plan(query)

    assert normalise_query(query) == text
    assert (found.text, found.original) == (text, query)
    assert (found.lexical, found.mode, found.notices) == (True, "hybrid", ())


@pytest.mark.parametrize("query", ["", "   \t\n", "\u3000", "\0", "\ud835", "\u200b\u202e \ufeff"])
def test_a_blank_query_is_refused(query):
    with pytest.raises(InvalidInput) as refused:
        plan(query)

    assert refused.value.field == "query"
    assert refused.value.message == "The query is blank."
    assert refused.value.remedy == "Ask a question or give an error code."


def test_a_query_has_a_longest_length():
    longest = "备份" * (MAX_QUERY_CHARS // 2)

    assert plan(longest).text == longest
    for query, size in ((longest + "x", 4_001), ("备份" * 10_000, 20_000), (" " * 20_000, 20_000)):
        with pytest.raises(InvalidInput) as refused:
            plan(query)
        assert refused.value.field == "query"
        assert f"has {size} characters; the limit is 4000" in refused.value.message


def test_the_length_counts_what_normalising_writes_out():
    assert len(plan("\ufdfa" * 222).text) == 222 * 18
    with pytest.raises(InvalidInput, match="has 4014 characters"):
        plan("\ufdfa" * 223)


# -- lexical terms --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["?!...,;", "？！。，、", "的了是在", "the of and to", "The OF", "的 the ？", "🚀🚀", "a", "é"],
)
def test_without_a_term_a_query_is_searched_by_meaning_alone_and_says_so(query):
    found = plan(query)

    assert (found.lexical, found.mode) == (False, "dense")
    assert [notice.code for notice in found.notices] == ["no_lexical_terms"]
    assert found.notices[0].message == (
        "The query has no words that could be matched; it was searched by meaning only."
    )


@pytest.mark.parametrize("query", ["的了是在", "restart"])
def test_a_dense_search_needs_no_notice(query):
    found = plan(query, mode="dense")

    assert (found.mode, found.notices) == ("dense", ())


@pytest.mark.parametrize(
    "query",
    [
        "111123",
        "7",
        "库",
        "c",
        "C++ 🚀",
        "HY000",
        "ORA-00257",
        "innodb_lock_wait_timeout",
        "zzqxv wqjjk",
        "the disk",
        "是不是",
        "ＶＰＮ",
        "٣ x",
    ],
)
def test_identifiers_digits_and_single_characters_are_terms(query):
    found = plan(query)

    assert (found.lexical, found.mode, found.notices) == (True, "hybrid", ())


# -- filters --------------------------------------------------------------------------------


@pytest.mark.parametrize("category", [None, "", "   ", "\u3000", "*", " * ", "null", "NULL"])
def test_a_category_that_stands_for_none_is_no_filter(category):
    assert plan("x", category=category).category is None


@pytest.mark.parametrize(
    "category",
    [
        'night "shift"',
        "夜班\\",
        "100%",
        "ops_01",
        "opsX01",
        'x" or category != "',
        "{}",
        "OPERATIONS",
        "operations",
        "does-not-exist",
        "none",
        "a*",
        "x" * 256,
    ],
)
def test_any_other_category_is_taken_literally(category):
    assert plan("x", category=category).category == category


def test_a_filter_is_trimmed_and_composed():
    found = plan("x", kb_scope=" A\u030a ", category="  夜班 ")

    assert (found.kb_scope, found.category) == ("\u00c5", "夜班")


@pytest.mark.parametrize("value", ["a\nb", "\na", "a\n", "a\tb", "nul\0", "c1\x9f", "lone \ud835"])
@pytest.mark.parametrize("field", ["category", "kb_scope"])
def test_a_filter_with_a_control_character_is_refused(field, value):
    with pytest.raises(InvalidInput) as refused:
        plan("x", **{field: value})

    assert refused.value.field == field
    assert "contains a control character" in refused.value.message
    refused.value.message.encode()


@pytest.mark.parametrize(("value", "size"), [("x" * 257, 257), ("安" * 86, 258)])
@pytest.mark.parametrize("field", ["category", "kb_scope"])
def test_a_filter_is_at_most_256_bytes(field, value, size):
    with pytest.raises(InvalidInput) as refused:
        plan("x", **{field: value})

    assert refused.value.field == field
    assert refused.value.message == f"{field} has {size} UTF-8 bytes; the limit is 256."


@pytest.mark.parametrize("scope", ["", "  ", "*", "null"])
def test_a_scope_can_never_be_left_open(scope):
    with pytest.raises(InvalidInput) as refused:
        plan("x", kb_scope=scope)

    assert refused.value.field == "kb_scope"


def test_a_filter_that_is_not_given_is_none():
    assert checked_filter(None, field="category") is None


# -- domains --------------------------------------------------------------------------------

CATALOGUE = Catalogue((Domain("mysql", ("mysql",), (), ()), Domain("redis", ("redis",), (), ())))


@pytest.mark.parametrize(
    ("query", "category", "domains", "soft"),
    [
        ("restart MySQL", None, ("mysql",), "mysql"),
        ("restart MySQL", "*", ("mysql",), "mysql"),
        # two domains decide nothing
        ("MySQL and Redis", None, ("mysql", "redis"), None),
        ("restart nginx", None, (), None),
        # and a category that was given is never guessed away
        ("restart MySQL", "redis", ("mysql",), None),
    ],
)
def test_a_single_domain_is_a_filter_that_may_be_widened(query, category, domains, soft):
    found = plan(query, category=category, catalogue=CATALOGUE)

    assert (found.domains, found.soft_category) == (domains, soft)
