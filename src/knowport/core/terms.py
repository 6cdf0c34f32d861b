"""The lexical terms of a query: identifiers kept whole, words, and pairs of Chinese characters.

This is our own light reading of a text, used to judge how much of a query a chunk really
contains. The engine's analyzer does the searching; it cannot be asked what it matched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import regex

from knowport.model import Term, TermKind

# A run of Latin letters and digits with the joints that identifiers have.
_RUN = re.compile(r"/?[0-9A-Za-z]+(?:[-_.:/]+[0-9A-Za-z]+)*")
_JOINT = re.compile(r"[-_.:/]+")
_CAMEL = re.compile(r"(?:[A-Z][a-z0-9]+){2,}|[a-z]+(?:[A-Z][a-z0-9]+)+")
_HAN = regex.compile(r"\p{Han}+")

STOP_WORDS = frozenset(
    """
    a about all am an and any are as at be been but by can could did do does for from get had
    has have he her here how i if in into is it its just me my no not of on one or our out over
    she should so some than that the their them then there these they this to up us was we were
    what when where which while who whom whose why will with would you your
    """.split()
)
# Question words and particles; single characters that also build nouns (从库, 在线, 就绪) are not.
_STOP_HAN = re.compile(
    r"为什么|怎么办|怎么样|怎么|怎样|什么|如何|多少|哪些|哪个|请问|[的了吗呢吧啊呀嘛哦么]"
)


def query_terms(text: str) -> tuple[Term, ...]:
    """Distinct terms of a normalised query in order of appearance, without stop words.

    An identifier's parts are not terms of their own. A Chinese run gives its overlapping pairs of
    characters, cut at function characters; a run of one character gives itself.
    """
    terms: dict[Term, None] = {}
    for run in _RUN.findall(text):
        if _is_identifier(run):
            terms[Term(run.lower(), TermKind.IDENTIFIER)] = None
        else:
            words = (word for word in _JOINT.split(run.lower()) if word)
            terms.update((Term(w, TermKind.WORD), None) for w in words if w not in STOP_WORDS)
    for run in _HAN.findall(_STOP_HAN.sub(" ", text)):
        pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        terms.update((Term(pair, TermKind.HAN), None) for pair in pairs)
    return tuple(terms)


def _is_identifier(run: str) -> bool:
    """Whether a run stands for one exact thing.

    Codes and versions (1205, HY000, ORA-00257, 203/EXEC, v1.2.3), snake_case, paths, names of
    three parts and more (repl-backlog-size), CamelCase (CrashLoopBackOff) and capitals
    (CLUSTERDOWN).
    """
    if len(run) == 1:
        return False
    return (
        any(c.isdigit() for c in run)
        or "_" in run
        or run.startswith("/")
        or len(_JOINT.split(run)) >= 3
        or _CAMEL.fullmatch(run) is not None
        or (len(run) >= 4 and run.isupper())
    )


def places(terms: Sequence[Term], texts: Sequence[bytes]) -> list[list[int]]:
    """For each term a row: where it first stands in each folded text, or -1."""
    rows = []
    for term in terms:
        sought = term.text.encode()
        if term.kind is TermKind.HAN:
            rows.append([text.find(sought) for text in texts])
        else:
            rows.append([_place(text, sought) if sought in text else -1 for text in texts])
    return rows


def contains(text: bytes, term: Term) -> bool:
    """Whether a folded text holds a term: Latin between word borders, Chinese anywhere."""
    return places((term,), (text,))[0][0] >= 0


def _place(text: bytes, sought: bytes) -> int:
    """Where a text first holds a word as a whole, or -1."""
    start = text.find(sought)
    while start >= 0:
        end = start + len(sought)
        if not (_joins(text, start - 1) or _joins(text, end)):
            break
        start = text.find(sought, start + 1)
    return start


def _joins(text: bytes, position: int) -> bool:
    """Whether the byte there would make a word part of a longer one."""
    return 0 <= position < len(text) and text[position : position + 1].isalnum()
