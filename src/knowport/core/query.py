"""From what was asked to what will be searched for."""

from __future__ import annotations

import unicodedata

import regex

from knowport.errors import InvalidInput
from knowport.model import Notice, QueryPlan, SearchMode

MAX_QUERY_CHARS = 4_000
MAX_FILTER_BYTES = 256

# The engine's analyzer keeps Chinese words and ASCII letters and digits; nothing else is a term.
_TERM = regex.compile(r"\p{Han}+|[0-9a-z]+")
_STOP_WORDS = frozenset(
    "a an and are as at be by do does did for from had has have how i if in into is it its me my no"
    " not of on or our so that the their them then there these they this to us was we were what when"
    " where which who why will with you your".split()
)
_STOP_HAN = frozenset(
    "的了是在和与或及而也都就吗呢吧啊呀么嘛哦着得地之其此这那个些把被让给对从到为以于"
)
_NO_FILTER = frozenset({"", "*", "null"})


def plan_query(
    query: str, *, kb_scope: str, category: str | None = None, mode: SearchMode = "hybrid"
) -> QueryPlan:
    """Normalise and check a query.

    The text is NFKC with single spaces and without control characters. A query without any
    lexical term (only punctuation, emoji or stop words) is searched by meaning alone, with a
    notice. Raises InvalidInput for a blank query, one over 4,000 characters, or a scope or
    category that cannot be used.
    """
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
    return QueryPlan(
        original=query,
        text=text,
        lexical=lexical,
        kb_scope=scope,
        category=checked_filter(category, field="category"),
        mode=mode if lexical else "dense",
        notices=tuple(notices),
    )


def normalise_query(query: str) -> str:
    """NFKC, control characters and lone surrogates as spaces, white space folded, trimmed."""
    kept = "".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in query)
    return " ".join(unicodedata.normalize("NFKC", kept).split())


def has_lexical_terms(text: str) -> bool:
    """Whether the text holds a term that is not a stop word."""
    for term in _TERM.findall(text.lower()):
        if term[0].isascii():
            if term not in _STOP_WORDS:
                return True
        elif not _STOP_HAN.issuperset(term):
            return True
    return False


def checked_filter(value: str | None, *, field: str) -> str | None:
    """A filter value trimmed, or None where it means no filter (blank, ``*``, ``null``).

    Raises InvalidInput for control characters, lone surrogates and over 256 UTF-8 bytes.
    """
    if value is None:
        return None
    # Looked for before trimming: a trailing line break is a mistake, not white space.
    if any(unicodedata.category(c) in {"Cc", "Cs"} for c in value):
        raise InvalidInput(
            f"{field} {value!r} contains a control character.",
            field=field,
            remedy="Remove line breaks, tabs and other control characters.",
        )
    trimmed = unicodedata.normalize("NFC", value.strip())
    if trimmed.lower() in _NO_FILTER:
        return None
    if (size := len(trimmed.encode())) > MAX_FILTER_BYTES:
        raise InvalidInput(
            f"{field} has {size} UTF-8 bytes; the limit is {MAX_FILTER_BYTES}.", field=field
        )
    return trimmed
