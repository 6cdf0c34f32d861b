"""Whatever the evidence and the budget: never over it, never cut where it should not be."""

from hypothesis import given
from hypothesis import strategies as st

from candidates import block
from knowport.core.packing import CUT_MARK, cut_at_sentence, header, pack, render
from knowport.model import DropReason

SENTENCES = [
    "Check the disk. ",
    "Really?! ",
    "A longer sentence of many plain words that goes on. ",
    "先看监控。",
    "再看日志，然后重启；",
    "他说：“不要慌。”",
    "Reboot 🚀👨‍👩‍👧‍👦 now! ",
    "| key | value |\n",
]
prose = st.lists(st.sampled_from(SENTENCES), max_size=60)
texts = (
    prose.map("".join)
    | st.text(max_size=400)
    | st.sampled_from(["字", "🚀", "x", " "]).map(lambda c: c * 300)
)
titles = st.text(max_size=12) | st.sampled_from(["", "标题" * 60, "T" * 400])
evidence = st.lists(st.tuples(texts, titles, titles), max_size=6).map(
    lambda rows: [
        block(rank, content, breadcrumb=breadcrumb, title=title)
        for rank, (content, breadcrumb, title) in enumerate(rows, start=1)
    ]
)
budgets = st.integers(1, 700) | st.integers(1, 6_000)


def key(block):
    return block.candidate.key


@given(evidence, budgets)
def test_what_is_rendered_is_within_the_budget_and_has_every_id_whole(blocks, budget):
    packed = pack(blocks, max_chars=budget).evidence

    rendered = render(packed)
    assert len(rendered) <= budget
    assert all(f"[{key(item.block)}]" in rendered for item in packed)


@given(evidence, budgets)
def test_every_block_is_packed_in_order_or_dropped(blocks, budget):
    packing = pack(blocks, max_chars=budget)

    packed = [key(item.block) for item in packing.evidence]
    dropped = [drop.key for drop in packing.drops]
    assert sorted(packed + dropped) == sorted(map(key, blocks))
    assert packed == [key(b) for b in blocks if key(b) in packed]
    assert all(drop.reason is DropReason.OUT_OF_BUDGET for drop in packing.drops)


@given(evidence, budgets)
def test_an_excerpt_is_whole_or_a_marked_beginning(blocks, budget):
    packed = pack(blocks, max_chars=budget).evidence

    for item in packed:
        content = item.block.candidate.hit.content
        if item.truncated:
            assert item.excerpt.endswith(CUT_MARK)
            assert content.startswith(item.excerpt.removesuffix(CUT_MARK))
            assert len(item.excerpt) < len(content)
        else:
            assert item.excerpt == content
    assert sum(item.truncated for item in packed) <= 1


@given(evidence, budgets)
def test_a_chunk_is_cut_or_dropped_only_if_it_does_not_fit_beside_those_before_it(blocks, budget):
    packing = pack(blocks, max_chars=budget)

    whole = {key(item.block) for item in packing.evidence if not item.truncated}
    room = budget
    for b in blocks:
        cost = len(header(b)) + 1 + len(b.candidate.hit.content) + 2
        assert (key(b) in whole) == (cost <= room)
        room -= cost if key(b) in whole else 0
    if packing.drops and not any(item.truncated for item in packing.evidence):
        dropped = {drop.key for drop in packing.drops}
        for b in blocks:
            # nothing is left out for which a header, 80 characters and the mark had room
            if key(b) in dropped:
                assert len(header(b)) + 1 + 80 + len(CUT_MARK) + 2 > room


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=60), st.integers(80, 400))
def test_a_cut_is_at_the_last_sentence_end_of_the_second_half(sentences, limit):
    text = "".join(sentences)
    ends = []
    position = 0
    for sentence in sentences:
        ends.append(position + len(sentence.rstrip()))
        position += len(sentence)
    # Only where the text goes on is it cut; what may follow a full stop is a space.
    fitting = [end for end in ends if limit // 2 <= end <= limit]
    if len(text) > limit and fitting:
        assert cut_at_sentence(text, limit) == text[: fitting[-1]]


@given(texts, st.integers(1, 120))
def test_a_cut_is_a_beginning_within_the_limit(text, limit):
    cut = cut_at_sentence(text, limit)

    assert text.startswith(cut)
    assert len(cut) <= limit
