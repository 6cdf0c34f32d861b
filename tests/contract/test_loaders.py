"""FileLoader: one contract for every format, and what the shared manifests say of each file."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from documents import docx, paragraph, pdf, pptx, xlsx
from knowport.adapters.loading import FileLoader, LoadLimits, load_bytes, load_file
from knowport.adapters.loading import read as reading
from knowport.errors import LoadError
from knowport.settings.loading import LoadingSettings
from manifest_table import cases, outcome_of, problems
from support import children_of

CASES = list(cases())
WORDS = "连接数过多 connections 1040"
PAGE = f'<html><head><meta charset="utf-8"><title>错误码</title></head><body><h1>A</h1>{WORDS}'
FILES = {
    "a.md": (f"# A\n\n{WORDS}\n".encode(), "markdown", "utf-8", "markdown"),
    "a.txt": (WORDS.encode("utf-16"), "text", "utf-16-le", "plain"),
    "a.html": (PAGE.encode(), "html", "utf-8", "markdown"),
    "a.pdf": (pdf(["connections 1040"], title="Codes"), "pdf", "", "plain"),
    "a.docx": (docx(paragraph("A", "Heading1") + paragraph(WORDS)), "docx", "", "markdown"),
    "a.pptx": (pptx({"title": "A", "bullets": [(0, WORDS)]}), "pptx", "", "markdown"),
    "a.xlsx": (xlsx({"A": [["错误码"], [WORDS]]}), "xlsx", "", "markdown"),
    "a.csv": (f"错误码,含义\n1040,{WORDS}\n".encode("gbk"), "csv", "gb18030", "markdown"),
    "a.rst": (f"A\n=\n\n{WORDS}\n".encode(), "rst", "utf-8", "markdown"),
    "a.adoc": (f"= A\n\n{WORDS}\n".encode(), "asciidoc", "utf-8", "markdown"),
    "a.yaml": (f"# {WORDS}\nport: 1040\n".encode(), "code", "utf-8", "plain"),
}


@pytest.fixture(scope="module")
def loader():
    with FileLoader() as loader:
        yield loader


@pytest.fixture
def file(tmp_path):
    def write(content, name="a.md"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(load, *arguments):
    with pytest.raises(LoadError) as error:
        load(*arguments)
    assert error.value.message
    return error.value


# -- every format ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read(loader, file, name):
    data, kind, encoding, text_format = FILES[name]

    loaded = loader.load(file(data, name))

    assert "connections 1040" in loaded.text
    assert (loaded.kind, loaded.encoding, loaded.text_format) == (kind, encoding, text_format)
    assert loaded.file_hash == hashlib.sha256(data).hexdigest()
    assert loaded.removed == 0
    assert loader.load_bytes(data, name) == loaded


@pytest.mark.parametrize("name", ["a.html", "a.docx", "a.pptx", "a.xlsx", "a.rst", "a.adoc"])
def test_headings_are_markdown_headings(loader, name):
    assert "\n# A\n" in f"\n{loader.load_bytes(FILES[name][0], name).text}".replace("## ", "# ")


def test_what_a_format_knows_of_itself(loader):
    assert loader.load_bytes(*pair("a.html")).title == "错误码"
    assert loader.load_bytes(*pair("a.pdf")).title == "Codes"
    assert loader.load_bytes(*pair("a.md")).title == ""
    assert loader.load_bytes(*pair("a.pdf")).metadata == {"pages": 1}
    assert loader.load_bytes(*pair("a.pptx")).metadata == {"slides": 1}


def pair(name):
    return FILES[name][0], name


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.html"])
@pytest.mark.parametrize("wrong", ["b.md", "b.pdf", "b", "b.docx"])
def test_the_content_decides_and_not_the_name(loader, name, wrong):
    data, kind, *_ = FILES[name]

    assert loader.load_bytes(data, wrong).kind == kind


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.csv", "a.rst", "a.adoc", "a.txt"])
def test_line_ends_do_not_matter(loader, name):
    source = FILES[name][0].decode(FILES[name][2])
    ends = [
        loader.load_bytes(source.replace("\n", end).encode(), name).text
        for end in ("\n", "\r\n", "\r")
    ]

    assert ends[0] == ends[1] == ends[2]
    assert "\r" not in ends[0]


def test_a_bom_makes_no_difference_but_for_the_hash(loader):
    source = f"---\ntitle: x\n---\n\n# A\n\n{WORDS}\n".encode()
    plain, marked = (
        loader.load_bytes(source, "a.md"),
        loader.load_bytes(b"\xef\xbb\xbf" + source, "a.md"),
    )

    assert plain.text == marked.text
    assert (plain.encoding, marked.encoding) == ("utf-8", "utf-8-sig")


def test_what_was_left_out_is_counted(loader):
    markdown = loader.load_bytes("text <!-- hidden --> \ufffd \x1b[31mred\x1b[0m".encode(), "a.md")
    page = loader.load_bytes(b"<p>text</p><script>hidden</script><p hidden>also</p>", "a.html")
    damaged = loader.load_bytes((WORDS * 9).encode() + b"\xff", "a.txt")

    assert (markdown.text, markdown.removed) == ("text   red", 25)
    assert (page.text, page.removed) == ("text\n", 10)
    assert (damaged.text, damaged.removed) == (WORDS * 9, 1)


def test_a_page_about_comments_keeps_them(loader):
    page = b"<p>Write &lt;!-- so --&gt; or &lt;script&gt;x&lt;/script&gt;.</p>"

    assert loader.load_bytes(page, "a.html").text == "Write <!-- so --> or <script>x</script>.\n"


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"", "a.md", "empty"),
        (b" \n\t\r\n", "a.md", "empty"),
        (b"---\n\n***\n\n<!-- x -->\n", "a.md", "empty"),
        (b"?", "a.xyz", "empty"),
        (b"<html><body><script>x</script></body></html>", "a.html", "empty"),
        (pdf([]), "a.pdf", "empty"),
        (docx(""), "a.docx", "empty"),
        (b"\n\n", "a.csv", "empty"),
        (b"%PDF-1.4\n", "a.pdf", "broken"),
        (b"PK\x03\x04 not really a zip", "a.docx", "broken"),
        (pdf(["x"], encrypt="user"), "a.pdf", "encrypted"),
        (docx(paragraph("x"), prolog="<!DOCTYPE d>"), "a.docx", "forbidden_dtd"),
        (docx("A" * 40_000_000), "a.docx", "zip_bomb"),
        (b"\x89PNG\r\n\x1a\n", "a.png", "unsupported_format"),
        (b"\x89PNG\r\n\x1a\n", "a.md", "not_text"),
        (bytes(range(256)) * 9, "a.md", "not_text"),
        (bytes(range(256)) * 9, "a.xyz", "unsupported_format"),
        ("备份".encode("gbk"), "a.md", "unknown_encoding"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_reason(loader, file, data, name, reason):
    from_bytes = refused(loader.load_bytes, data, name)
    from_file = refused(loader.load, file(data, name))

    assert from_bytes.reason == from_file.reason == reason
    assert from_bytes.message == from_file.message


def test_scanned_pages_are_hinted_at(loader):
    error = refused(loader.load_bytes, pdf([]), "a.pdf")

    assert "OCR" in error.remedy


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (
            b"PK\x03\x04 not really a zip",
            "a.pdf",
            "The archive cannot be opened: File is not a zip file. Its name, 'a.pdf', says pdf.",
        ),
        (
            b"PK\x03\x04 not really a zip",
            "a.docx",
            "The archive cannot be opened: File is not a zip file.",
        ),
        (b"\x1f\x8b\x08", "a.txt", "The file is a gzip archive. Its name, 'a.txt', says text."),
        (b"\x1f\x8b\x08", "a.gz", "The file is a gzip archive."),
    ],
)
def test_a_misleading_name_is_named_with_the_content(loader, data, name, message):
    assert refused(loader.load_bytes, data, name).message == message


# -- reading --------------------------------------------------------------------------------


def test_a_file_over_the_limit_is_refused_without_reading_it(file, monkeypatch):
    with FileLoader(LoadLimits(file_bytes=10)) as small:
        assert small.load(file("x" * 10)).text == "x" * 10
        assert refused(small.load_bytes, b"x" * 11, "a.md").reason == "too_large"

        monkeypatch.setattr(reading, "_read_up_to", lambda *_: pytest.fail("read"))
        error = refused(small.load, file("x" * 11))

    assert error.reason == "too_large"
    assert error.message == "The file has 11 bytes; the limit is 10."


@pytest.mark.parametrize("change", [b"", b"longer than before", b"same"])
def test_a_file_that_changes_while_it_is_read_is_refused(loader, file, monkeypatch, change):
    path = file(b"text")
    os.utime(path, ns=(1, 1))
    real = reading._read_up_to

    def read_and_change(opened, size):
        data = real(opened, size)
        path.write_bytes(change)
        return data

    monkeypatch.setattr(reading, "_read_up_to", read_and_change)

    assert refused(loader.load, path).reason == "changed_while_read"


def test_what_cannot_be_read_is_named_so(loader, tmp_path):
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")

    errors = {
        name: refused(loader.load, tmp_path / name)
        for name in ("gone.md", "folder.md", "pipe.md", "nul\0.md", "x" * 300)
    }

    assert {error.reason for error in errors.values()} == {"unreadable"}
    assert errors["gone.md"].message == "The file cannot be read: No such file or directory."
    assert "a folder, a pipe or a device" in errors["folder.md"].message
    assert "a folder, a pipe or a device" in errors["pipe.md"].message


@pytest.mark.parametrize(
    "name", ["a b（副本）.md", "a#b?c%20.md", "line\nbreak.md", "byte\udcff.md", "长" * 84 + ".md"]
)
def test_any_name_will_do(loader, file, name):
    assert loader.load(file("text", name)).text == "text"


# -- processes ------------------------------------------------------------------------------


def test_threads_get_their_own_answers(loader):
    def load(number):
        name = list(FILES)[number % len(FILES)]
        if name.endswith(".html"):
            return loader.load_bytes(f"<p>page {number}</p>".encode(), name).text == (
                f"page {number}\n"
            )
        return loader.load_bytes(*pair(name)).kind == FILES[name][1]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(load, range(120)))


def test_no_more_processes_than_allowed_run_at_once():
    before = _parsers()
    most = 0

    with FileLoader(processes=2) as two, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(two.load_bytes, *pair("a.docx")) for _ in range(30)]
        while not all(answer.done() for answer in answers):
            most = max(most, len(_parsers() - before))
            time.sleep(0.01)

    assert {answer.result().kind for answer in answers} == {"docx"}
    assert most == 2
    assert _parsers() == before


def _parsers():
    """Parser processes of this process."""
    worker = "knowport.adapters.loading.worker"
    return {pid for pid, command in children_of(os.getpid()).items() if worker in command}


def test_a_closed_loader_starts_again_when_it_is_asked():
    loader = FileLoader()
    assert loader.load_bytes(*pair("a.html")).kind == "html"
    loader.close()

    assert loader.load_bytes(*pair("a.html")).kind == "html"
    loader.close()


def test_limits_reach_the_parser():
    with FileLoader(LoadLimits(pages=1)) as loader:
        error = refused(loader.load_bytes, pdf(["a"], ["b"]), "a.pdf")

    assert (error.reason, error.message) == ("too_large", "The PDF has 2 pages; the limit is 1.")


def test_the_settings_are_the_limits():
    assert LoadLimits(**LoadingSettings().model_dump()) == LoadLimits()


@pytest.mark.parametrize(
    ("limit", "data", "name"),
    [
        ("file_bytes", *pair("a.md")),
        ("characters", *pair("a.html")),
        ("pages", pdf(["a"], ["b"]), "a.pdf"),
        ("entries", *pair("a.docx")),
        ("inflated_bytes", *pair("a.xlsx")),
    ],
)
def test_what_is_too_large_names_the_setting_that_lets_it_in(loader, limit, data, name):
    with FileLoader(LoadLimits(**{limit: 1})) as small:
        error = refused(small.load_bytes, data, name)

    assert (error.reason, error.remedy) == (
        "too_large",
        f"Split it, or raise loading.{limit}.",
    )
    assert limit in LoadingSettings.model_fields
    assert loader.load_bytes(data, name).text


def test_the_usual_loader_serves_as_functions(file):
    data, name = pair("a.md")

    assert load_file(file(data, name)) == load_bytes(data, name)


# -- the shared manifests -------------------------------------------------------------------


if CASES:

    @pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
    def test_a_file_becomes_what_its_manifest_says(loader, case):
        outcome = outcome_of(case.path, loader)

        assert problems(case, outcome) == []
