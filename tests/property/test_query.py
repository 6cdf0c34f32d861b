"""Whatever is asked: a plan or InvalidInput, and normalised text."""

import contextlib
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from knowport.core.query import normalise_query, plan_query
from knowport.errors import InvalidInput

odd = st.sampled_from(
    [
        "\0",
        "\ud835",
        "\x85",
        "\u2028",
        "\u3000",
        "¨",
        "\u0308",
        "\ufdfa",
        "ﬁ",
        "Ｖ",
        "的",
        "🚀",
        "x",
    ]
)
queries = st.text() | st.lists(odd | st.characters(), max_size=30).map("".join)
surrogates = st.text(st.characters(categories=["Cs", "Cc", "Lu", "Zs"]), max_size=20)


@given(queries | surrogates)
@example("\n¨\n¨")
def test_normalising_twice_changes_nothing(query):
    once = normalise_query(query)

    assert normalise_query(once) == once


@given(queries | surrogates)
def test_normalised_text_is_one_clean_line(query):
    text = normalise_query(query)

    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in text)
    assert unicodedata.is_normalized("NFKC", text)
    assert text == " ".join(text.split())
    text.encode()


@given(
    queries | surrogates | st.integers(3_990, 4_010).map("备".__mul__),
    st.sampled_from(["default", "", "*", "a\n"]) | queries,
    st.none() | queries | surrogates,
    st.sampled_from(["dense", "hybrid"]),
)
def test_a_plan_can_be_searched_or_the_input_is_refused(query, scope, category, mode):
    # Anything else than InvalidInput fails the test.
    with contextlib.suppress(InvalidInput):
        plan = plan_query(query, kb_scope=scope, category=category, mode=mode)

        assert plan.text
        assert len(plan.text) <= 4_000
        assert plan.kb_scope == plan.kb_scope.strip() != ""
        assert plan.category is None or plan.category == plan.category.strip() != ""
        assert plan.mode == (mode if plan.lexical else "dense")
        assert bool(plan.notices) == (mode == "hybrid" and not plan.lexical)
