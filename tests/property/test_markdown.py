"""Markdown in windows: how much is parsed at once has no influence on what is found."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowport.core.markdown import parse_markdown

LINES = (
    "text",
    "# Top",
    "### Deep ###",
    "Set",
    "===",
    "---",
    "- item",
    "  - nested",
    "1. one",
    "> quoted",
    "```",
    "~~~~ sh",
    "    indented",
    "| a | b |",
    "|---|---|",
    "| 1 | 2 |",
    "<div>",
    "</div>",
    "<!-- open",
    "close -->",
    "[ref]: /url",
    '[long]: /url "title',
    'goes on"',
    "\\",
    "  ",
    "",
    "",
)
texts = st.lists(st.sampled_from(LINES), max_size=40).map("\n".join)


def parsed(text, **window):
    """The sections; a heading may be a link by a definition that only a wide window sees."""
    return [
        replace(s, breadcrumb=tuple(title.translate(BRACKETS) for title in s.breadcrumb))
        for s in parse_markdown(text, **window)
    ]


BRACKETS = str.maketrans("", "", "[]")


@settings(max_examples=500, deadline=None)
@given(texts, st.integers(1, 60))
@example("text\n[ref]: /url\n===\n# Top\n[ref]: /url", 1)
def test_the_window_has_no_influence(text, window):
    assert parsed(text, window=window) == parsed(text)


def test_a_heading_knows_the_links_before_it_in_every_window():
    text = "[a]: /x\n\n# See [here][a]\n\ntext\n\n# And [here][a]\n"

    sections = parse_markdown(text, window=1)

    assert [s.breadcrumb for s in sections[1:]] == [("See here",), ("And here",)]
