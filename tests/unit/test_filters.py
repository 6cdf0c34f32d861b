"""Filter expressions: literal values, and only ``==`` and ``and``."""

from __future__ import annotations

import pytest

from knowport.adapters.milvus import filters
from knowport.errors import InvalidInput


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", '""'),
        ("network", '"network"'),
        ("夜班", '"夜班"'),
        ('night "shift"', r'"night \"shift\""'),
        ("back\\", r'"back\\"'),
        ('\\"', r'"\\\""'),
        ('x" or doc_id != "', r'"x\" or doc_id != \""'),
        ("it's 100% *_", '"it\'s 100% *_"'),
    ],
)
def test_literal(value: str, expected: str) -> None:
    assert filters.literal(value, field="category") == expected
    assert filters.is_literal(value)


@pytest.mark.parametrize("value", ["a\nb", "\r", "\t", "\x00", "\x7f", "\x85", "\ud800", "a\udfff"])
def test_control_characters_are_refused_by_field(value: str) -> None:
    assert not filters.is_literal(value)
    with pytest.raises(InvalidInput, match=r"category .* contains a control character") as error:
        filters.literal(value, field="category")
    assert error.value.field == "category"


def test_equals_joins_what_is_given() -> None:
    assert filters.equals() == ""
    assert filters.equals(kb_scope=None, category=None) == ""
    assert filters.equals(kb_scope="a", category=None) == 'kb_scope == "a"'
    assert filters.equals(kb_scope="a", category="") == 'kb_scope == "a" and category == ""'
    assert filters.equals(doc_id='"') == r'doc_id == "\""'
