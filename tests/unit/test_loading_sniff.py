"""The content says what a file is; its name only tells kinds of text apart."""

import pytest

from documents import archive, docx, paragraph, pdf
from knowport.adapters.loading.sniff import named_kind, sniff
from knowport.errors import LoadError

PAGE = b"<!DOCTYPE html><html><body>x</body></html>"


@pytest.mark.parametrize("name", ["a.pdf", "a.md", "a.txt", "README", "a.docx"])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (pdf(["x"]), "pdf"),
        (b"\n" + pdf(["x"]), "pdf"),
        (docx(paragraph("x")), "zip"),
        (archive({}), "zip"),
        (PAGE, "html"),
        (b"\xef\xbb\xbf\n<!-- x --><HTML lang=en>", "html"),
        (b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">', "html"),
        (PAGE.decode().encode("utf-16"), "html"),
    ],
)
def test_the_name_does_not_matter_for_formats_with_marks(data, kind, name):
    assert sniff(data, name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "markdown"),
        ("A.MARKDOWN", "markdown"),
        ("a.rst", "rst"),
        ("a.adoc", "asciidoc"),
        ("a.csv", "csv"),
        ("a.tsv", "csv"),
        ("a.yaml", "code"),
        ("a.py", "code"),
        ("a.txt", "text"),
        ("a.log", "text"),
        ("a.md.txt", "text"),
        ("README", "text"),
        ("a.unknown", "text"),
    ],
)
def test_the_name_tells_kinds_of_text_apart(name, kind):
    assert sniff("备份 text".encode(), name) == kind


def test_a_script_without_ending_is_code():
    assert sniff(b"#!/bin/sh\nls\n", "run") == "code"


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"<p>A fragment</p>", "a.html", "html"),
        (b"No tag, 1 < 2", "a.html", "text"),
        (b"<h1 align=center>Logo</h1>\n# Title", "README.md", "markdown"),
        (b"<header>not html's head</header>", "a.md", "markdown"),
        (b"junk before %PDF-1.4", "a.pdf", "pdf"),
        (b"The header is %PDF-1.4", "a.md", "markdown"),
    ],
)
def test_where_both_count(data, name, kind):
    assert sniff(data, name) == kind


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"x" * 20, "a PNG image"),
        (b"\x1f\x8b\x08abc", "a gzip archive"),
        (b"\x7fELF\x02", "a program"),
        (b"\0\0\0\x18ftypmp42", "a video or image"),
        (b"a.txt" + b"\0" * 252 + b"ustar\0", "a tar archive"),
        (b"{\\rtf1 x}", "an RTF document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 90, "an old Office document"),
    ],
)
def test_known_formats_without_text_are_named(data, what):
    with pytest.raises(LoadError) as error:
        sniff(data, "a.md")

    assert error.value.reason == "unsupported_format"
    assert error.value.message.startswith(f"The file is {what}")
    assert error.value.remedy


def test_an_office_document_with_a_password_is_encrypted():
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")

    with pytest.raises(LoadError) as error:
        sniff(data, "a.docx")

    assert error.value.reason == "encrypted"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.PDF", "pdf"), ("a.docx", "docx"), ("a.htm", "html"), ("a.md", "markdown"), ("a.xyz", "")],
)
def test_what_a_name_promises(name, kind):
    assert named_kind(name) == kind
