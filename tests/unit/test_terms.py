"""core/terms.py: what of a query is a lexical term."""

import pytest

from knowport.core.terms import Term, TermKind, contains, query_terms

I, W, H = TermKind.IDENTIFIER, TermKind.WORD, TermKind.HAN


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ERROR 1205 (HY000)", [("error", I), ("1205", I), ("hy000", I)]),
        ("ORA-00257", [("ora-00257", I)]),
        ("203/EXEC", [("203/exec", I)]),
        ("CrashLoopBackOff", [("crashloopbackoff", I)]),
        ("CLUSTERDOWN", [("clusterdown", I)]),
        ("innodb_lock_wait_timeout", [("innodb_lock_wait_timeout", I)]),
        ("/etc/my.cnf 8.0.32", [("/etc/my.cnf", I), ("8.0.32", I)]),
        ("repl-backlog-size", [("repl-backlog-size", I)]),
        ("exit code 137", [("exit", W), ("code", W), ("137", I)]),
        ("read-only mode", [("read", W), ("only", W), ("mode", W)]),
        ("is the of and to?", []),
        ("从库延迟怎么排查", [("从库", H), ("库延", H), ("延迟", H), ("排查", H)]),
        ("MySQL主从切换", [("mysql", W), ("主从", H), ("从切", H), ("切换", H)]),
        ("库", [("库", H)]),
        ("？！，🚀", []),
        ("lock lock LOCKED", [("lock", W), ("locked", I)]),
    ],
)
def test_the_terms_of_a_query(query, expected):
    assert query_terms(query) == tuple(Term(text, kind) for text, kind in expected)


@pytest.mark.parametrize(
    ("text", "term", "kind", "expected"),
    [
        ("error 1205 (hy000)", "1205", I, True),
        ("error 12055", "1205", I, False),
        ("error 11205", "1205", I, False),
        ("12055 then 1205.", "1205", I, True),
        ("processes", "es", W, False),
        ("库1205行", "1205", I, True),
        ("主从复制延迟", "从复", H, True),
        ("主从复制延迟", "延后", H, False),
        ("set innodb_lock_wait_timeout=50", "innodb_lock_wait_timeout", I, True),
        ("", "x", W, False),
    ],
)
def test_a_text_contains_a_term_as_a_whole(text, term, kind, expected):
    assert contains(text, Term(term, kind)) is expected
