"""Numbers with their nouns."""

import re
from pathlib import Path

import pytest

import knowport
from knowport.core.wording import counted

# What commands print of, after a number in braces that no helper has looked at.
_PLURAL = re.compile(r"\{[^{}]*\} (documents|chunks|findings|files|domains|hits)\b")
# In the words of a plural that is never one: columns, sums of an HTML report.
_SOURCES = sorted((Path(knowport.__file__).parent / "entrypoints").glob("*_cli.py"))


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 chunks"), (1, "1 chunk"), (2, "2 chunks"), (1_205, "1205 chunks")]
)
def test_one_is_not_many(count: int, said: str) -> None:
    assert counted(count, "chunk") == said


@pytest.mark.parametrize("file", _SOURCES, ids=lambda file: file.name)
def test_no_command_prints_a_plural_of_its_own(file: Path) -> None:
    assert not _PLURAL.findall(file.read_text("utf-8"))
