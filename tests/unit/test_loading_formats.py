"""What each parser makes of its format."""

import datetime

import pytest

from documents import archive, docx, paragraph, pdf, pptx, word_table, xlsx
from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import asciidoc, csv, html, office, rst
from knowport.adapters.loading.parsers import pdf as pdf_parser
from knowport.errors import LoadError


def parse(parser, source, **limits):
    data = source.encode() if isinstance(source, str) else source
    return parser.parse(data, LoadLimits(**limits))


def text_of(parser, source):
    return parse(parser, source).text.strip()


def refused(parser, source, **limits):
    with pytest.raises(LoadError) as error:
        parse(parser, source, **limits)
    return error.value


# -- HTML -----------------------------------------------------------------------------------


def test_html_keeps_its_structure():
    page = """<!DOCTYPE html><html><head><title> R&amp;D —
        手册 </title></head><body><h1>VPN&nbsp;setup</h1><p>Use TLS&nbsp;1.3 &amp; port&#160;443;
        1 &lt; 2; caf&eacute;; &#x1F680;; literal &amp;lt;b&amp;gt;.</p><h2>Steps</h2>
        <ol><li>Open <code>vpn.conf</code></li><li>Set<pre>a = 1
# b</pre></li></ol><table><tr><th>city</th><th>gw</th></tr><tr><td>上海|x</td><td>192.0.2.7</td>
        </tr></table></body></html>"""

    parsed = parse(html, page)

    assert parsed.title == "R&D — 手册"
    assert (parsed.kind, parsed.text_format, parsed.removed) == ("html", "markdown", 0)
    assert parsed.text.strip() == (
        "# VPN setup\n\nUse TLS 1.3 & port 443;\n1 < 2; café; 🚀; literal &lt;b&gt;.\n\n"
        "## Steps\n\n1. Open `vpn.conf`\n2. Set\n\n   ```\n   a = 1\n   # b\n   ```\n\n"
        "| city | gw |\n| --- | --- |\n| 上海\\|x | 192.0.2.7 |"
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>HIDDEN</script>",
        '<script type="application/ld+json">{"a": "HIDDEN"}</script>',
        "<style>HIDDEN</style>",
        "<template>HIDDEN</template>",
        "<noscript>HIDDEN</noscript>",
        "<!-- HIDDEN -->",
        "<p hidden>HIDDEN</p>",
        '<p style="color: red; DISPLAY : none !important">HIDDEN</p>',
        '<p style="display:/* x */none">HIDDEN</p>',
        '<p style="visibility:hidden">HIDDEN</p>',
        '<p style="font-size:0">HIDDEN</p>',
        '<p style="font-size: 0.0px">HIDDEN</p>',
        '<p style="opacity:0">HIDDEN</p>',
        "<div hidden><p>deep <b>HIDDEN</b></p></div>",
        "<nav>HIDDEN</nav>",
        '<div role="navigation">HIDDEN</div>',
    ],
)
def test_what_is_not_shown_is_removed_and_counted(hidden):
    parsed = parse(html, f"<body><p>before</p>{hidden}after</body>")

    assert parsed.text.split() == ["before", "after"]
    assert parsed.removed >= len("HIDDEN")


@pytest.mark.parametrize(
    "shown",
    [
        '<p style="font-size: 10px; opacity: 0.5">SHOWN</p>',
        '<p style="display: block">SHOWN</p>',
        '<p aria-hidden="true">SHOWN</p>',
        "<details><summary>Cause</summary>SHOWN</details>",
        "<form><label>SHOWN</label></form>",
        "<footer>SHOWN</footer>",
        '<img alt="SHOWN" src="a.png">',
        "<svg><text>SHOWN</text></svg>",
        "<header>SHOWN</header>",
    ],
)
def test_what_is_shown_is_kept(shown):
    assert "SHOWN" in text_of(html, f"<body><p>before</p>{shown}</body>")


def test_a_page_of_links_alone_is_its_menu():
    assert text_of(html, "<nav><a href='/a'>Home</a></nav>") == "Home"


def test_invisible_characters_are_removed_and_counted():
    tags = "".join(chr(0xE0000 + ord(c)) for c in "ignore")
    parsed = parse(html, f"<p>Zero\u200bwidth so\xadft{tags} \u202eback\u202c 👨\u200d👩</p>")

    assert parsed.text.strip() == "Zerowidth soft back 👨\u200d👩"
    assert parsed.removed == 4 + len("ignore")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<div>a</div><div>b</div>", "a\n\nb"),
        ("<button>Home</button><button>Docs</button>", "Home Docs"),
        ("<p>a<br>b</p>", "a  \nb"),
        ("<table><tr><td>city</td><td>gw</td></tr></table>", "| city | gw |\n| --- | --- |"),
        ("<dl><dt>T</dt><dd>D</dd></dl>", "T\n\nD"),
        ("<p>10<sup>3</sup> tables<sup><a href='#f'>1</a></sup></p>", "10^3^ tables^1^"),
    ],
)
def test_blocks_and_cells_are_apart(body, words):
    assert text_of(html, body) == words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<a href="https://x.org/a">site</a>', "[site](https://x.org/a)"),
        ('<a href="https://x.org/">https://x.org/</a>', "https://x.org/"),
        ('<a href="/docs">docs</a> <a href="#x">x</a> <a href="javascript:x()">y</a>', "docs x y"),
        ('<h2>Install<a class="headerlink" href="#i">¶</a></h2>', "## Install"),
    ],
)
def test_links(body, words):
    assert text_of(html, body) == words


def test_text_is_not_taken_for_markup():
    texts = ["# no heading", "&lt;!-- no comment --&gt;", "&lt;script&gt; no script", "1. a"]
    page = "".join(f"<p>{text}</p>" for text in texts)

    assert text_of(html, page) == (
        "\\# no heading\n\n\\<!-- no comment -->\n\n\\<script> no script\n\n1. a"
    )


def test_code_is_kept_as_it_is():
    page = (
        '<pre><code class="language-sh">\n$ ls \\- 1\\. # x\n```\n&lt;!-- x --&gt;\n</code></pre>'
    )

    assert text_of(html, page) == "````sh\n$ ls \\- 1\\. # x\n```\n<!-- x -->\n````"


def test_broken_html_is_read_as_a_browser_does():
    assert text_of(html, "<p>unclosed <b>bold<p>next<table><td>x") == (
        "unclosed **bold**\n\nnext\n\n| x |\n| --- |"
    )


def test_text_after_the_end_of_a_page_is_kept():
    page = "<html><body><p>one</p></body></html><p>two</p><html><body><p>three</p></body></html>"

    assert text_of(html, page).split() == ["one", "two", "three"]


def test_html_that_nests_too_deeply_is_refused_and_not_cut():
    assert refused(html, "<div>" * 500 + "x").reason == "broken"
    assert refused(html, "<div>" * 5_000 + "x").reason == "broken"
    assert text_of(html, "<div>" * 300 + "x") == "x"


def test_a_page_without_anything_is_empty():
    assert text_of(html, "<html></html>") == ""
    assert text_of(html, " ") == ""


# -- office documents -----------------------------------------------------------------------


def test_a_word_document_keeps_its_structure():
    body = (
        paragraph("Runbook", "Title")
        + paragraph("Restart", "Heading1")
        + paragraph("Stop &amp; start.")
        + paragraph("Details", "Ours")
        + word_table([["Code", "Meaning"], ["1040", "连接数过多"]])
        + paragraph("# no heading")
    )

    parsed = parse(office, docx(body, title="Database runbook"))

    assert (parsed.kind, parsed.title) == ("docx", "Database runbook")
    assert parsed.text.strip() == (
        "# Runbook\n\n# Restart\n\nStop & start.\n\n## Details\n\n"
        "| Code | Meaning |\n| --- | --- |\n| 1040 | 连接数过多 |\n\n\\# no heading"
    )


def test_hidden_runs_of_a_word_document_are_removed_and_counted():
    body = (
        paragraph("shown")
        + paragraph("HIDDEN", run="<w:vanish/>")
        + paragraph("also shown", run='<w:vanish w:val="0"/>')
    )

    parsed = parse(office, docx(body))

    assert parsed.text.split("\n\n") == ["shown", "also shown\n"]
    assert parsed.removed == len("HIDDEN")


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("VPN  handbook\n2024", "VPN handbook 2024"),
        ("Microsoft Word - draft.doc", ""),
        ("PowerPoint Presentation", ""),
        ("PowerPoint 演示文稿", ""),
        ("Document1", ""),
        ("", ""),
        ("Documentation", "Documentation"),
    ],
)
def test_titles_that_programs_give_are_none(title, kept):
    assert parse(office, docx(paragraph("x"), title=title)).title == kept


def test_an_external_entity_is_never_read():
    prolog = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/hostname">]>'

    assert refused(office, docx(paragraph("&x;"), prolog=prolog)).reason == "forbidden_dtd"


def test_a_word_document_without_a_body_is_broken():
    whole = docx(paragraph("x"))
    types = archive({"[Content_Types].xml": "<Types/>", "word/other.xml": "<x/>"})

    assert refused(office, types).reason == "broken"
    assert parse(office, whole).text.strip() == "x"


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"a.txt": "x"}, "a ZIP archive"),
        ({"mimetype": "application/epub+zip"}, "an OpenDocument or EPUB document"),
        ({"[Content_Types].xml": "<Types/>"}, "a ZIP archive"),
    ],
)
def test_other_archives_are_not_read(files, what):
    error = refused(office, archive(files))

    assert (error.reason, error.message) == ("unsupported_format", f"The file is {what}.")


def test_a_presentation_has_a_heading_for_each_slide():
    parsed = parse(
        office,
        pptx(
            {"title": "Failover", "bullets": [(0, "Check lag"), (1, "under 5 s"), (0, "Promote")]},
            {"title": "Ports", "table": [["Service", "Port"], ["mysql", "33|06"]]},
            {"title": "HIDDEN", "hidden": True},
            {"bullets": [(0, "# one line")], "notes": "Say\nthis"},
        ),
    )

    assert (parsed.kind, dict(parsed.metadata)) == ("pptx", {"slides": 4})
    assert parsed.text == (
        "# Failover\n\n- Check lag\n  - under 5 s\n- Promote\n\n"
        "## Ports\n\n| Service | Port |\n| --- | --- |\n| mysql | 33\\|06 |\n\n"
        "## Slide 4\n\n\\# one line\n\nNotes: Say this\n"
    )
    assert parsed.removed == len("## HIDDEN")


def test_a_presentation_of_too_many_slides_is_refused():
    data = pptx({"title": "a"}, {"title": "b"})

    error = refused(office, data, pages=1)

    assert error.reason == "too_large"
    assert error.message == "The presentation has 2 slides; the limit is 1."


def test_a_workbook_has_a_heading_and_a_table_for_each_sheet():
    parsed = parse(
        office,
        xlsx(
            {
                "Ports 端口": [
                    ["Service", "Port", "Up"],
                    ["mysql", 3306, True],
                    ["a|b\nc", 1.5, ""],
                ],
                "Dates": [["Since"], [datetime.date(2024, 1, 31)]],
                "Secret": [["HIDDEN"], ["HIDDEN"]],
            },
            hidden="Secret",
        ),
    )

    assert (parsed.kind, dict(parsed.metadata)) == ("xlsx", {"sheets": 3})
    assert parsed.text == (
        "## Ports 端口\n\n| Service | Port | Up |\n| --- | --- | --- |\n"
        "| mysql | 3306 | TRUE |\n| a\\|b c | 1.5 |  |\n\n"
        "## Dates\n\n| Since |\n| --- |\n| 2024-01-31 |\n\n"
    )
    assert parsed.removed > len("HIDDENHIDDEN")


def test_a_sheet_may_hold_titles_and_several_tables():
    rows = [
        ["Servers", "", ""],
        [],
        ["Name", "IP", ""],
        ["a", "192.0.2.1", ""],
        [],
        ["b", "192.0.2.2", ""],
        [],
        ["", "Port", "Service"],
        ["", 22, "ssh"],
    ]

    assert text_of(office, xlsx({"S": rows})) == (
        "## S\n\nServers\n\n| Name | IP |\n| --- | --- |\n| a | 192.0.2.1 |\n| b | 192.0.2.2 |\n\n"
        "| Port | Service |\n| --- | --- |\n| 22 | ssh |"
    )


def test_a_sheet_that_grows_beyond_the_limit_is_refused():
    data = xlsx({"S": [["x" * 30_000]] * 20})

    error = refused(office, data, characters=500_000)

    assert error.reason == "too_large"
    assert error.message == "Its text is longer than 500000 characters."


# -- PDF ------------------------------------------------------------------------------------


def test_a_pdf_gives_the_text_of_its_pages():
    parsed = parse(pdf_parser, pdf(["Firewall change", "Step 1"], ["Page two"], title="Changes"))

    assert parsed.text == "Firewall change\nStep 1\n\nPage two"
    assert (parsed.kind, parsed.text_format, parsed.title) == ("pdf", "plain", "Changes")
    assert dict(parsed.metadata) == {"pages": 2}


@pytest.mark.parametrize("by", ["user", "owner"])
def test_an_encrypted_pdf_is_refused(by):
    error = refused(pdf_parser, pdf(["secret"], encrypt=by))

    assert (error.reason, error.message) == ("encrypted", "The document is encrypted.")
    assert "without a password" in error.remedy


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7",
        b"%PDF-1.4\n" + b"\0" * 200_000,
        pdf(["x"])[:200],
        b"%PDF-1.4\n" + b"\n" * 99_999,
    ],
    ids=["magic", "zeros", "cut", "line ends"],
)
def test_a_broken_pdf_is_refused(data):
    error = refused(pdf_parser, data)

    assert error.reason == "broken"
    assert error.message.startswith("The PDF cannot be opened: ")


def test_a_pdf_whose_end_is_cut_is_recovered():
    assert parse(pdf_parser, pdf(["recovered"])[:-4]).text == "recovered"


def test_a_pdf_of_too_many_pages_is_refused():
    error = refused(pdf_parser, pdf(["a"], ["b"], ["c"]), pages=2)

    assert (error.reason, error.message) == ("too_large", "The PDF has 3 pages; the limit is 2.")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["主库宕机后需要提", "升从库为新的主库"], "主库宕机后需要提升从库为新的主库"),
        (["第一章", "主库宕机后需要提升从库"], "第一章\n主库宕机后需要提升从库"),
        (["主库宕机后需要。", "升从库为新的主库"], "主库宕机后需要。\n升从库为新的主库"),
        (["two English", "lines here"], "two English\nlines here"),
    ],
)
def test_chinese_words_are_put_together_over_line_ends(lines, text):
    assert pdf_parser._joined(lines) == text


# -- CSV ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("a,b\n1,2\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ("a;b\n1,5;2\n", "| a | b |\n| --- | --- |\n| 1,5 | 2 |\n"),
        ("a\tb\n1\t2, 3\n", "| a | b |\n| --- | --- |\n| 1 | 2, 3 |\n"),
        ("sep=;\na;b,c\n", "| a | b,c |\n| --- | --- |\n"),
        ("\n,\na\n1,2\n", "| a |  |\n| --- | --- |\n| 1 | 2 |\n"),
        ('a,b\n"x\ny","p|q"\n', "| a | b |\n| --- | --- |\n| x y | p\\|q |\n"),
        ("name\none\ntwo\n", "| name |\n| --- |\n| one |\n| two |\n"),
        ("\n", ""),
    ],
)
def test_csv_becomes_a_table(source, table):
    assert parse(csv, source).text == table


def test_a_long_csv_field_and_one_wide_row_are_no_problem():
    long = "x" * 300_000
    wide = ",".join("y" * 2_000)

    text = parse(csv, f"a,b\n{long},1\n{wide}\n" + "1,2\n" * 1_000).text

    assert f"| {long} | 1 |" in text
    assert len(text) < 400_000


# -- reStructuredText and AsciiDoc ----------------------------------------------------------


def test_rst_keeps_its_structure():
    source = """
Title
=====

Text with ``code``, *em* and |sub|.

.. |sub| replace:: more

Part
----

.. code-block:: bash
   :caption: unknown to docutils

   # comment
   ls

+-----+-----+
| A   | B   |
+=====+=====+
| 1   | 2   |
+-----+-----+
"""

    assert text_of(rst, source) == (
        "# Title\n\nText with `code`, *em* and more.\n\n## Part\n\n```bash\n# comment\nls\n```\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("See :ref:`the part <part>` and :func:`~a.b`.", "See the part and `a.b`."),
        (".. versionadded:: 3.2\n   The option.", "3.2\nThe option."),
        (".. tab:: Linux\n\n   Install **it**.", "Linux\n\nInstall **it**."),
        (".. toctree::\n\n   a\n   b\n\nText", "Text"),
        (".. raw:: html\n\n   <script>x</script>\n\nText", "Text"),
        (".. include:: /etc/hostname\n\nText", "Text"),
        (".. csv-table::\n   :file: /etc/hostname\n\nText", "Text"),
        (".. image:: a.png\n   :unknown: x\n", "```\n.. image:: a.png\n   :unknown: x\n```"),
        (".. a comment\n\nText", "Text"),
        ("*unclosed and ``open", "*unclosed and ``open"),
    ],
)
def test_what_docutils_does_not_know_is_kept_and_nothing_is_read_from_disk(source, text):
    assert text_of(rst, source) == text


def test_settings_that_lie_about_do_not_count(tmp_path, monkeypatch):
    (tmp_path / "docutils.conf").write_text("[general]\nfile_insertion_enabled: yes\n")
    (tmp_path / "secret.csv").write_text("SECRET\n")
    monkeypatch.chdir(tmp_path)

    assert text_of(rst, ".. csv-table::\n   :file: secret.csv\n\nText") == "Text"


ASCIIDOC = """= Database Runbook
:product: MySQL

// a comment
== Restart {product}

[[restart]]
.Steps
. Stop it with kbd:[Ctrl+C]
.. nested
. See <<other,the other part>> and https://example.org/x[the site]

[source,bash]
----
== no heading
systemctl restart mysql
----

[NOTE]
====
Mind the *replica*.
====

////
hidden
////

[cols="1,2",options="header"]
|===
|Code |Meaning

|1040
|Too many
connections

|1205 a|Lock wait \\| timeout
|===

Old heading
-----------

include::x.adoc[]
image::a.png[Diagram]
"""


def test_asciidoc_keeps_its_structure():
    parsed = parse(asciidoc, ASCIIDOC)

    assert "\n".join(line for line in parsed.text.splitlines() if line) == (
        "# Database Runbook\n## Restart MySQL\n**Steps**\n1. Stop it with Ctrl+C\n   1. nested\n"
        "1. See the other part and [the site](https://example.org/x)\n"
        "```bash\n== no heading\nsystemctl restart mysql\n```\n**NOTE**\nMind the *replica*.\n"
        "| Code | Meaning |\n| --- | --- |\n| 1040 | Too many connections |\n"
        "| 1205 | Lock wait \\| timeout |\n## Old heading\nDiagram"
    )
    assert parsed.removed == len("// a comment") + len("hidden")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("|===\n|a |b\n|c |d\n|===", "| a | b |\n| --- | --- |\n| c | d |"),
        ("[cols=3*]\n|===\n|a\n|b\n|c\n|===", "| a | b | c |\n| --- | --- | --- |"),
        ("----\nnever closed", "```\nnever closed\n```"),
        ("....\n```\n....", "````\n```\n````"),
        ("* a\n** b", "- a\n   - b"),
        ("{unknown} {nbsp}stays", "{unknown}  stays"),
        ("'''", "---"),
        ("++++\n<b>x</b>\n++++", "<b>x</b>"),
    ],
)
def test_asciidoc_parts(source, text):
    assert text_of(asciidoc, source) == text


@pytest.mark.parametrize("parser", [asciidoc, rst, csv, html])
def test_hostile_text_does_not_take_long(parser):
    for piece in (
        "[",
        "<<",
        "|",
        "`",
        "{a",
        "link:",
        "*",
        ":a:`",
        "\n|===\n",
        "<a ",
        '"',
        ".. a::\n",
    ):
        parse(parser, "x\n" + piece * 3_000)
