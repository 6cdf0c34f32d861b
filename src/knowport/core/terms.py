"""The lexical terms of a query: identifiers kept whole, words, and pairs of Chinese characters.

This is our own light reading of a text, used to judge how much of a query a chunk really
contains. The engine's analyzer does the searching; it cannot be asked what it matched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import regex


class TermKind(StrEnum):
    IDENTIFIER = "identifier"
    WORD = "word"
    HAN = "han"


@dataclass(frozen=True, slots=True)
class Term:
    """``text`` is lower case, as it is looked for."""

    text: str
    kind: TermKind


# What stands for one exact thing: codes (1205, HY000, ORA-00257, 0x80070005), snake_case,
# kebab-case with a digit, CamelCase, paths, dotted names and versions, CONSTANTS.
_IDENTIFIER = regex.compile(
    r"""
    (?<![0-9A-Za-z_])(?:
        /[\w.\-]+(?:/[\w.\-]+)+                          # /etc/my.cnf
      | [A-Za-z][A-Za-z0-9]*(?:[_][A-Za-z0-9]+)+         # innodb_lock_wait_timeout
      | [A-Za-z0-9]+(?:[-.:/][A-Za-z0-9]+)*-?\d[\w.\-]*   # ORA-00257, v1.2.3, 8.0.32, HY000
      | [a-z0-9]+(?:[-.][a-z0-9]+){2,}                   # repl-backlog-size, net.ipv4.tcp_tw_reuse
      | [A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+                # CrashLoopBackOff
      | [A-Z]{4,}                                        # CLUSTERDOWN
    )(?![0-9A-Za-z_])
    """,
    regex.VERBOSE,
)
_WORD = regex.compile(r"[0-9a-z]+")
_HAN = regex.compile(r"\p{Han}+")

STOP_WORDS = frozenset(
    "a about all am an and any are as at be been but by can could do does did for from get had has"
    " have he her here how i if in into is it its just me my no not of on one or our out over she"
    " should so some than that the their them then there these they this to up us was we were what"
    " when where which while who whom whose why will with would you your".split()
)
_STOP_HAN = frozenset("的了是在和与或及而也都就吗呢吧啊呀么嘛哦着得地之其此这那个些把被让给对从到为以于")


def query_terms(text: str) -> tuple[Term, ...]:
    """Distinct terms of a normalised query in order of appearance, without stop words.

    An identifier's parts are not terms of their own. A Chinese run gives its overlapping pairs of
    characters, cut at function characters; a run of one character gives itself.
    """
    terms: dict[Term, None] = {}
    rest = text
    for match in _IDENTIFIER.finditer(text):
        terms[Term(match.group().lower(), TermKind.IDENTIFIER)] = None
        rest = rest[: match.start()] + " " * len(match.group()) + rest[match.end() :]
    for word in _WORD.findall(rest.lower()):
        if word not in STOP_WORDS:
            terms[Term(word, TermKind.WORD)] = None
    for run in _HAN.findall(rest):
        for piece in "".join(" " if c in _STOP_HAN else c for c in run).split():
            pairs = [piece[i : i + 2] for i in range(len(piece) - 1)] or [piece]
            terms.update(dict.fromkeys(Term(pair, TermKind.HAN) for pair in pairs))
    return tuple(terms)


def contains(text: str, term: Term) -> bool:
    """Whether a lower-case text holds a term: Latin between word borders, Chinese anywhere."""
    start = text.find(term.text)
    if term.kind is TermKind.HAN:
        return start >= 0
    while start >= 0:
        end = start + len(term.text)
        if not (_joins(text, start - 1) or _joins(text, end)):
            return True
        start = text.find(term.text, start + 1)
    return False


def _joins(text: str, position: int) -> bool:
    """Whether the character there would make a term part of a longer word."""
    if not 0 <= position < len(text):
        return False
    c = text[position]
    return c.isascii() and c.isalnum()
