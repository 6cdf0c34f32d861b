"""core/domains.py: reading a catalogue and matching a query."""

import pytest

from knowport.core.domains import parse_catalogue
from knowport.errors import ConfigurationError

CATALOGUE = parse_catalogue(
    """
[[domain]]
id = "mysql"
names = ["MySQL", "数据库"]
keywords = ["主从", "replication"]

[[domain]]
id = "redis"
names = ["Redis"]
aliases = ["redis-cli"]
keywords = ["缓存", "replication", "cluster"]

[[domain]]
id = "search"
names = ["ES"]
aliases = ["redis cluster proxy"]
"""
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("mysql is slow", ("mysql",)),
        ("ＭｙＳＱＬ 慢", ("mysql",)),
        ("数据库主从延迟", ("mysql",)),
        ("mysql8 起不来", ("mysql",)),
        ("mysqlx plugin", ()),
        ("processes and indexes", ()),
        ("ES 集群", ("search",)),
        ("redis 缓存 或 mysql", ("mysql", "redis")),
        ("replication broke", ("mysql", "redis")),
        ("redis cluster proxy down", ("search",)),
        ("redis cluster down", ("redis",)),
        ("redis-cli hangs", ("redis",)),
        ("weather", ()),
        ("", ()),
    ],
)
def test_a_query_names_domains(query, expected):
    assert CATALOGUE.match(query) == expected


def test_the_check_finds_unknown_unused_and_shared():
    found = {finding.code: finding.message for finding in CATALOGUE.check(["mysql", "linux"])}

    assert "'search'" in found["unknown_category"]
    assert "'linux'" in found["unused_category"]
    assert "'mysql' and 'redis' share replication" in found["shared_phrase"]
    assert CATALOGUE.check(["mysql", "redis", "search"])[0].code == "shared_phrase"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[domain]", "is not TOML"),
        ("domain = 3", "must hold \\[\\[domain\\]\\] tables only"),
        ("[server]\nport = 1", "not server"),
        ('[[domain]]\nnames = ["a1"]', "has no id"),
        ('[[domain]]\nid = " "\nnames = ["a1"]', "has no id"),
        ('[[domain]]\nid = "x\\ty"\nnames = ["a1"]', "control character"),
        ('[[domain]]\nid = "x"', "no names, aliases or keywords"),
        ('[[domain]]\nid = "x"\nnames = [" "]', "empty keyword"),
        ('[[domain]]\nid = "x"\nnames = "y"', "must be a list"),
        ('[[domain]]\nid = "x"\nnames = [1]', "empty keyword"),
        ('[[domain]]\nid = "x"\nnames = ["the"]', "stands in almost every question"),
        ('[[domain]]\nid = "x"\nnames = ["y"]\ncolour = "red"', "unknown keys colour"),
        ('[[domain]]\nid = "x"\nnames = ["y"]\n[[domain]]\nid = "x"\nnames = ["z"]', "twice"),
    ],
)
def test_a_catalogue_at_fault_is_refused_by_name(text, message):
    with pytest.raises(ConfigurationError, match=message):
        parse_catalogue(text)


def test_an_empty_catalogue_matches_nothing():
    assert parse_catalogue("").match("mysql") == ()
