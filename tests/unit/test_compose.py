"""core/compose.py: the text of a chunk that is searched."""

import unicodedata

import pytest

from candidates import hit
from knowport.core.compose import folded, lexical_text, search_text, text_hash
from knowport.model import Chunk


def composed(title, breadcrumb, content="Free it."):
    return search_text(Chunk("d", 0, content, title, breadcrumb, 0, len(content)))


@pytest.mark.parametrize(
    ("title", "breadcrumb", "text"),
    [
        ("Runbook", "Disk > Full", "Runbook\nDisk > Full\nFree it."),
        ("Runbook", "", "Runbook\nFree it."),
        ("", "Disk", "Disk\nFree it."),
        ("", "", "Free it."),
        # a heading path that begins with the title says it already
        ("Runbook", "Runbook", "Runbook\nFree it."),
        ("Runbook", "Runbook > Disk", "Runbook > Disk\nFree it."),
        # but not one that begins with a longer word
        ("Back", "Backup > Disk", "Back\nBackup > Disk\nFree it."),
        ("备份", "备份恢复 > 磁盘", "备份\n备份恢复 > 磁盘\nFree it."),
        # nor one that has it further down
        ("Disk", "Runbook > Disk", "Disk\nRunbook > Disk\nFree it."),
    ],
)
def test_title_heading_path_and_content_are_searched_each_once(title, breadcrumb, text):
    assert composed(title, breadcrumb) == text


def test_wide_and_narrow_forms_meet():
    assert composed("ＶＰＮ", "ＶＰＮ > ①", "Ｐｏｒｔ　４４３") == "VPN > 1\nPort 443"
    assert composed("A\u030a", "", "x") == "\u00c5\nx"


def test_content_is_searched_as_it_is():
    assert composed("T", "", "| a | b |\n\n  x = 1\n") == "T\n| a | b |\n\n  x = 1"


def test_the_hash_is_the_sha_256_of_the_utf_8_bytes():
    assert text_hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert text_hash("备份") == "70e372abbae5f619b7e4987ad1f48103f10060cc48f5333d37cdbade10051a5b"


def test_the_text_that_terms_are_looked_for_in_has_lower_case_and_half_width_letters():
    found = hit(title="ＭｙＳＱＬ 手册", breadcrumb="锁", content="ERROR １２０５：超时。")
    plain = hit(title="MySQL", breadcrumb="锁", content="超时，重试。")

    assert lexical_text(found).decode() == "mysql 手册\n锁\nerror 1205:超时。"
    assert lexical_text(plain).decode() == "mysql\n锁\n超时，重试。"


@pytest.mark.parametrize("letters", ["０９", "ＡＺ", "ａｚ"])
def test_all_full_width_letters_and_digits_are_folded(letters):
    narrow = unicodedata.normalize("NFKC", letters).lower()

    assert folded(f"键{letters}值").decode() == f"键{narrow}值"
    assert {chr(c) for c in range(0x110000) if _is_folded(c)} == {
        chr(c) for a, z in ("０９", "ＡＺ", "ａｚ") for c in range(ord(a), ord(z) + 1)
    }


def _is_folded(code: int) -> bool:
    """Whether NFKC is applied for the sake of that character."""
    return folded(f"{chr(code)}①".encode("utf-8", "replace").decode()).endswith(b"1")


def test_a_lone_surrogate_in_a_text_is_no_error():
    assert folded("a\ud800B") == b"a?b"
