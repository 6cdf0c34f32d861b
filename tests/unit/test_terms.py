"""core/terms.py: what of a query is a lexical term."""

import pytest

from knowport.core.compose import folded
from knowport.core.terms import Term, TermKind, contains, places, query_terms

IDENT, WORD, HAN = TermKind.IDENTIFIER, TermKind.WORD, TermKind.HAN


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ERROR 1205 (HY000)", [("error", IDENT), ("1205", IDENT), ("hy000", IDENT)]),
        ("ORA-00257", [("ora-00257", IDENT)]),
        ("203/EXEC", [("203/exec", IDENT)]),
        ("CrashLoopBackOff", [("crashloopbackoff", IDENT)]),
        ("CLUSTERDOWN", [("clusterdown", IDENT)]),
        ("innodb_lock_wait_timeout", [("innodb_lock_wait_timeout", IDENT)]),
        ("/etc/my.cnf 8.0.32", [("/etc/my.cnf", IDENT), ("8.0.32", IDENT)]),
        ("repl-backlog-size", [("repl-backlog-size", IDENT)]),
        ("exit code 137", [("exit", WORD), ("code", WORD), ("137", IDENT)]),
        ("read-only mode", [("read", WORD), ("only", WORD), ("mode", WORD)]),
        ("is the of and to?", []),
        ("从库延迟怎么排查", [("从库", HAN), ("库延", HAN), ("延迟", HAN), ("排查", HAN)]),
        ("MySQL主从切换", [("mysql", WORD), ("主从", HAN), ("从切", HAN), ("切换", HAN)]),
        ("库", [("库", HAN)]),
        ("？！，🚀", []),
        ("lock lock LOCKED", [("lock", WORD), ("locked", IDENT)]),
    ],
)
def test_the_terms_of_a_query(query, expected):
    assert query_terms(query) == tuple(Term(text, kind) for text, kind in expected)


@pytest.mark.parametrize(
    ("text", "term", "kind", "expected"),
    [
        ("error 1205 (hy000)", "1205", IDENT, True),
        ("error 12055", "1205", IDENT, False),
        ("error 11205", "1205", IDENT, False),
        ("12055 then 1205.", "1205", IDENT, True),
        ("processes", "es", WORD, False),
        ("库1205行", "1205", IDENT, True),
        ("主从复制延迟", "从复", HAN, True),
        ("主从复制延迟", "延后", HAN, False),
        ("set innodb_lock_wait_timeout=50", "innodb_lock_wait_timeout", IDENT, True),
        ("", "x", WORD, False),
    ],
)
def test_a_text_contains_a_term_as_a_whole(text, term, kind, expected):
    assert contains(text.encode(), Term(term, kind)) is expected


@pytest.mark.parametrize(
    ("text", "term", "kind", "expected"),
    [
        ("error 1205 (1205)", "1205", IDENT, 6),
        ("12055 then 1205.", "1205", IDENT, 11),
        ("processes es", "es", WORD, 10),
        ("主从复制与复制", "复制", HAN, 6),
        ("nothing", "es", WORD, -1),
    ],
)
def test_the_place_of_a_term_is_where_it_first_stands_as_a_whole(text, term, kind, expected):
    assert places([Term(term, kind)], [text.encode()]) == [[expected]]


def test_each_term_has_a_row_and_each_text_a_place_in_bytes():
    """Latin in any case and width, Chinese anywhere."""
    texts = [folded(text) for text in ("ERROR １２０５：主从", "error 12055", "MySQL 主 从")]

    assert places(query_terms("1205 主从 mysql"), texts) == [[6, -1, -1], [-1, -1, 0], [11, -1, -1]]
    assert places((), texts) == []
    assert places(query_terms("1205"), []) == [[]]
