"""Whatever the text and the options: nothing is lost, limits hold, chunks are in order."""

from itertools import pairwise

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from knowport.core.chunking import ChunkingOptions, chunk_document
from knowport.core.front_matter import split_front_matter
from knowport.core.markdown import BlockKind, parse_markdown
from knowport.core.text import clip_utf8, grapheme_cut, normalise_text

BEGINS_WITH_A_MARK = regex.compile(r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]")

words = st.sampled_from(
    [
        "restart",
        "the",
        "v1.2",
        "先看监控，",
        "再看日志；",
        "“不要慌。”",
        "然后呢？",
        "……",
        "done.",
        "Ok!",
        "👨‍👩‍👧‍👦",
        "🇨🇳",
        "🇨🇳🇩🇪",
        "👋🏽",
        "1️⃣",
        "e\u0301",
        "𠮷",
        "각",
        "क्ष",
        "x" * 30,
        "字" * 40,
        "a|b",
        "\\|",
        "`",
    ]
)
lines = st.builds(
    lambda parts, glue: glue.join(parts),
    st.lists(words, min_size=1, max_size=12),
    st.sampled_from([" ", ""]),
)
paragraphs = st.lists(lines, min_size=1, max_size=4).map("\n".join)
headings = st.builds(lambda level, line: "#" * level + " " + line, st.integers(1, 4), lines)
fences = st.builds(
    lambda mark, info, body, close: "\n".join([mark + info, *body, *([mark] if close else [])]),
    st.sampled_from(["```", "~~~~", "`````"]),
    st.sampled_from(["", "sh", " yaml title"]),
    st.lists(lines | st.just("") | st.just("# comment"), max_size=8),
    st.sampled_from([True, True, True, False]),
)
tables = st.builds(
    lambda rows: "\n".join(["| key | value |", "|-----|------:|", *rows]),
    st.lists(st.builds(lambda a, b: f"| {a} | {b} |", words, lines), max_size=8),
)
lists = st.lists(lines, min_size=1, max_size=4).map(lambda items: "- " + "\n- ".join(items))
separators = st.sampled_from(
    ["---", "<!-- comment -->", "", "> quoted. text", "    code  here", "Set\n==="]
)
blocks = paragraphs | headings | fences | tables | lists | separators
documents = st.builds(
    lambda front, parts, glue: front + glue.join(parts),
    st.sampled_from(["", "", "---\ntitle: x\n---\n"]),
    st.lists(blocks, max_size=10),
    st.sampled_from(["\n\n", "\n", "\n\n\n\n"]),
)
options = st.integers(1, 150).flatmap(
    lambda size: st.builds(
        ChunkingOptions, st.just(size), st.integers(0, size - 1), st.integers(64, 300)
    )
)


def chunks_of(text, chosen, text_format="markdown"):
    return chunk_document("d", text, text_format, "T", chosen)


def uncovered(text, chunks):
    """Offsets of text in no span, but for blocks that hold nothing for a reader."""
    blank = [
        (block.start, block.end)
        for section in parse_markdown(text, split_front_matter(text).body_start)
        for block in section.blocks
        if block.kind is BlockKind.BLANK
    ]
    missing = set(range(split_front_matter(text).body_start, len(text)))
    for start, end in [(c.start, c.end) for c in chunks] + blank:
        missing.difference_update(range(start, end))
    return [offset for offset in missing if not text[offset].isspace()]


@settings(max_examples=200, deadline=None)
@given(documents, options)
def test_limits_order_and_coverage(text, chosen):
    chunks = chunks_of(text, chosen)
    assert [c.chunk_index for c in chunks] == list(range(len(chunks)))
    for c in chunks:
        assert c.content.strip()
        assert 1 <= len(c.content) <= chosen.size
        assert len(c.content.encode()) <= chosen.max_bytes
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert chosen.overlap or before.end <= after.start
    assert uncovered(text, chunks) == []
    assert chunks_of(text, chosen) == chunks


@settings(max_examples=150, deadline=None)
@given(st.lists(paragraphs | headings | lists, max_size=8).map("\n\n".join), options)
def test_prose_is_the_text_of_its_span(text, chosen):
    for c in chunks_of(text, chosen):
        assert c.content == text[c.start : c.end]


@settings(max_examples=150, deadline=None)
@given(documents, st.integers(80, 150), st.integers(0, 79))
def test_no_chunk_begins_inside_a_grapheme(text, size, overlap):
    for c in chunks_of(text, ChunkingOptions(size, overlap, max_bytes=400)):
        assert not BEGINS_WITH_A_MARK.match(c.content)
        assert grapheme_cut(text, c.start) == c.start


@settings(max_examples=200, deadline=None)
@given(documents, options)
def test_a_chunk_never_spans_two_sections_with_text(text, chosen):
    body = parse_markdown(text, split_front_matter(text).body_start)
    little = (BlockKind.HEADING, BlockKind.BLANK)
    for c in chunks_of(text, chosen):
        inside = [s for s in body if s.start < c.end and c.start < s.end]
        assert all(block.kind in little for s in inside[:-1] for block in s.blocks)
        levels = [s.level for s in inside]
        assert levels == sorted(set(levels))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), options)
def test_any_plain_text(raw, chosen):
    text = normalise_text(raw).text
    chunks = chunks_of(text, chosen, "plain")
    missing = set(range(len(text)))
    for c in chunks:
        assert c.content == text[c.start : c.end]
        assert len(c.content) <= chosen.size
        assert len(c.content.encode()) <= chosen.max_bytes
        missing.difference_update(range(c.start, c.end))
    lost = "".join(text[offset] for offset in missing)
    assert not regex.sub(r"[\s=*_-]", "", lost)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters() | st.sampled_from("\r\n\x00\ufeff\x85\ud800"), max_size=80))
def test_normalise_is_idempotent_and_leaves_no_controls(raw):
    text = normalise_text(raw).text
    assert normalise_text(text).text == text
    assert normalise_text(text).removed == 0
    assert not regex.search(r"[\p{Cc}--[\n\t]]|[\ufeff\ud800-\udfff]", text, regex.V1)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=20).map("".join), st.integers(0, 200))
def test_clip_is_the_longest_prefix_on_a_border(text, max_bytes):
    clipped = clip_utf8(text, max_bytes)
    assert text.startswith(clipped)
    assert len(clipped.encode()) <= max_bytes
    graphemes = regex.findall(r"\X", text)
    fitting = ""
    for grapheme in graphemes:
        if len((fitting + grapheme).encode()) > max_bytes:
            break
        fitting += grapheme
    assert clipped == fitting or (not fitting and clipped == graphemes[0][: len(clipped)])
