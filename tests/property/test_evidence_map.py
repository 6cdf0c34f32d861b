"""An old evidence key leads to chunks that really hold its text."""

from __future__ import annotations

import hashlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from knowport.core.chunking import ChunkingOptions, chunk_document
from knowport.core.compose import text_hash
from knowport.core.evidence_map import EvidenceState, Fate, fates, follow, judge, map_chunk
from knowport.model import ChunkMark, DocumentVersion

DOC = "kb/page.md"

words = st.text("abcdefg 数据库主从。\n", min_size=1, max_size=40)
sections = st.tuples(st.sampled_from(["# A", "## B", "### C"]), st.lists(words, max_size=6))
pages = st.lists(sections, min_size=1, max_size=6).map(
    lambda parts: "\n\n".join(f"{head}\n\n" + "\n\n".join(texts) for head, texts in parts)
)
sizes = st.integers(5, 120)


def version(text: str, size: int, generation: str = "g1", overlap: int = 0) -> DocumentVersion:
    options = ChunkingOptions(size=size, overlap=min(overlap, size - 1))
    chunks = chunk_document(DOC, text, "markdown", "Page", options)
    marks = tuple(ChunkMark(text_hash(c.content), c.start, c.end) for c in chunks)
    return DocumentVersion(DOC, generation, text_hash(text), marks, since="1")


def shuffled(text: str, order: int) -> str:
    """The paragraphs of a text in another order."""
    parts = text.split("\n\n")
    return "\n\n".join(
        sorted(parts, key=lambda part: hashlib.sha256(f"{order}{part}".encode()).digest())
    )


@given(pages, sizes, sizes, st.integers(0, 10))
def test_cut_otherwise_the_same_text_is_found_whole(
    text: str, one: int, other: int, overlap: int
) -> None:
    old, new = version(text, one), version(text, other, overlap=overlap)
    for number, mark in enumerate(old.marks):
        mapped = map_chunk(old, number, new)
        assert mapped.fate is not Fate.CHANGED
        held = set()
        for chunk in mapped.to:
            held.update(range(new.marks[chunk].start, new.marks[chunk].end))
        missing = [text[at] for at in range(mark.start, mark.end) if at not in held]
        assert not "".join(missing).strip(" \n\t#"), "words of the old chunk are nowhere"
        for chunk in mapped.to:
            found = new.marks[chunk]
            assert found.start < mark.end, "a chunk that has nothing to do with it"
            assert mark.start < found.end, "a chunk that has nothing to do with it"


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=12).map(
    lambda found: tuple(ChunkMark("", start, start + length) for start, length in sorted(found))
)


@given(spans, spans)
def test_they_are_found_among_any_spans_that_begin_in_order(
    old: tuple[ChunkMark, ...], new: tuple[ChunkMark, ...]
) -> None:
    """As by looking at each; and counted as one by one."""
    first, second = (DocumentVersion(DOC, "g", "", marks, since="1") for marks in (old, new))
    for number, mark in enumerate(old):
        touching = [n for n, m in enumerate(new) if m.start < mark.end and mark.start < m.end]
        whole = [n for n in touching if new[n].start <= mark.start and mark.end <= new[n].end]
        mapped = map_chunk(first, number, second)
        if whole or len(touching) == 1:
            assert mapped.to[0] in (whole or touching)
            assert len(mapped.to) == 1
        else:
            assert mapped.to == tuple(touching)
            assert mapped.fate is (Fate.SPLIT if touching else Fate.GONE)
    one_by_one = Counter(map_chunk(first, n, second).fate for n in range(len(old)))
    assert fates(old, new) == one_by_one


@given(pages, sizes)
def test_nothing_changes_where_nothing_changed(text: str, size: int) -> None:
    old = version(text, size)
    for number in range(len(old.marks)):
        mapped = map_chunk(old, number, version(text, size, "g2"))
        assert (mapped.fate, mapped.to) == (Fate.SAME, (number,))


@given(pages, sizes, st.lists(sizes, min_size=1, max_size=4))
def test_back_to_the_old_cut_every_key_is_what_it_was(
    text: str, size: int, between: list[int]
) -> None:
    """However often it was cut otherwise meanwhile."""
    cuts = [size, *between, size]
    history = [version(text, cut, f"g{n}") for n, cut in enumerate(cuts)]
    for number in range(len(history[0].marks)):
        assert follow(history, number).to == (number,)


@given(pages, sizes, sizes, st.integers(0, 3))
def test_in_an_edited_text_only_an_equal_content_counts(
    text: str, one: int, other: int, order: int
) -> None:
    edited = shuffled(text, order) + "\n\nmore"
    old, new = version(text, one), version(edited, other)
    contents = [mark.content_hash for mark in new.marks]
    for number, mark in enumerate(old.marks):
        mapped = map_chunk(old, number, new)
        if mark.content_hash in contents:
            assert mapped.fate in (Fate.SAME, Fate.MOVED)
            assert [contents[chunk] for chunk in mapped.to] == [mark.content_hash]
        else:
            assert (mapped.fate, mapped.to) == (Fate.CHANGED, ())


@given(pages, st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=5))
def test_what_is_said_to_be_current_is_so_whenever_it_was_cited(
    text: str, steps: list[tuple[int, bool]]
) -> None:
    history: list[DocumentVersion] = []
    for number, (size, edit) in enumerate(steps):
        text = f"{text}\n\nedit {number}" if edit else text
        history.append(version(text, size, f"g{number}"))
    now = history[-1]
    for number in range(max(len(v.marks) for v in history)):
        status = judge(f"{DOC}#chunk-{number}", list(reversed(history)))
        if status.state is not EvidenceState.CURRENT or status.ambiguous:
            continue
        for old in history:
            if number < len(old.marks) and old.content_hash == now.content_hash:
                assert now.marks[number].start <= old.marks[number].start
                assert old.marks[number].end <= now.marks[number].end
        assert all(meaning.to == (f"{DOC}#chunk-{number}",) for meaning in status.meanings)
