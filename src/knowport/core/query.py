"""From what was asked to what will be searched for."""

from __future__ import annotations

import re
import unicodedata

import regex

from knowport.core.domains import NO_DOMAINS, Catalogue
from knowport.core.filter_values import checked_filter
from knowport.core.terms import STOP_WORDS, query_terms
from knowport.errors import InvalidInput
from knowport.model import Notice, QueryPlan, SearchMode

MAX_QUERY_CHARS = 4_000

# The categories Cc and Cs of Unicode.
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
# The engine's analyzer keeps Chinese words and ASCII letters and digits; nothing else is a term.
_TERM = regex.compile(r"\p{Han}+|[0-9a-z]+")
_STOP_HAN = frozenset(
    "的了是在和与或及而也都就吗呢吧啊呀么嘛哦着得地之其此这那个些把被让给对从到为以于"
)


def plan_query(
    query: str,
    *,
    kb_scope: str,
    category: str | None = None,
    mode: SearchMode = "hybrid",
    catalogue: Catalogue = NO_DOMAINS,
) -> QueryPlan:
    """Normalise and check a query, and read its hints.

    The text is NFKC with single spaces and without control characters. A query without any
    lexical term (only punctuation, emoji or stop words) is searched by meaning alone, with a
    notice. Raises InvalidInput for a blank query, one over 4,000 characters, or a scope or
    category that cannot be used.
    """
    if not isinstance(query, str):
        raise InvalidInput(
            f"The query is not text but {type(query).__name__}.",
            field="query",
            remedy="Give a text.",
        )
    if mode not in ("dense", "hybrid", "sparse"):
        raise InvalidInput(
            f"There is no mode {mode!r}.", field="mode", remedy="Use 'hybrid' or 'dense'."
        )
    text = normalise_query(query[: MAX_QUERY_CHARS + 1])
    # NFKC writes some characters out: one may become eighteen.
    if (size := max(len(query), len(text))) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"The query has {size} characters; the limit is {MAX_QUERY_CHARS}.",
            field="query",
            remedy="Ask one question, or paste only the telling lines of a log.",
        )
    if all(c == " " or unicodedata.category(c) == "Cf" for c in text):  # Cf is invisible
        raise InvalidInput(
            "The query is blank.", field="query", remedy="Ask a question or give an error code."
        )
    scope = checked_filter(kb_scope, field="kb_scope")
    if scope is None:
        raise InvalidInput("kb_scope is blank.", field="kb_scope", remedy="Name a scope.")
    lexical = has_lexical_terms(text)
    notices = []
    if mode == "hybrid" and not lexical:
        notices.append(
            Notice(
                "no_lexical_terms",
                "The query has no words that could be matched; it was searched by meaning only.",
            )
        )
    hard_category = checked_filter(category, field="category")
    domains = catalogue.match(text)
    return QueryPlan(
        original=query,
        text=text,
        lexical=lexical,
        kb_scope=scope,
        category=hard_category,
        mode=mode if lexical else "dense",
        notices=tuple(notices),
        terms=query_terms(text),
        domains=domains,
        soft_category=domains[0] if hard_category is None and len(domains) == 1 else None,
    )


def normalise_query(query: str) -> str:
    """NFKC, control characters and lone surrogates as spaces, white space folded, trimmed."""
    return " ".join(unicodedata.normalize("NFKC", _CONTROL.sub(" ", query)).split())


def has_lexical_terms(text: str) -> bool:
    """Whether the text holds a term that is not a stop word."""
    for term in _TERM.findall(text.lower()):
        if term[0].isascii():
            if term not in STOP_WORDS:
                return True
        elif not _STOP_HAN.issuperset(term):
            return True
    return False
