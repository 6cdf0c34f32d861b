"""core/packing.py: excerpts within a budget that counts everything."""

import pytest

from candidates import block
from knowport.core.packing import CUT_MARK, cut_at_sentence, header, pack, render
from knowport.model import Drop, DropReason

SENTENCE = "Check the disk. "  # 16 characters
# What a block of these tests costs beside its excerpt: "[d#chunk-1] T (s)\n" and "\n\n".
AROUND = 20


def text(size):
    return (SENTENCE * (size // len(SENTENCE) + 1))[:size]


def blocks(*sizes, **fields):
    return [block(rank, text(size), **fields) for rank, size in enumerate(sizes, start=1)]


def excerpts(packing):
    return [(p.block.candidate.rank, len(p.excerpt), p.truncated) for p in packing.evidence]


def left_out(packing):
    assert all(drop.reason is DropReason.OUT_OF_BUDGET for drop in packing.drops)
    return [drop.rank for drop in packing.drops]


# -- what is counted ------------------------------------------------------------------------


def test_rendered_evidence_has_a_header_an_excerpt_and_a_separator():
    packed = pack([block(3, "Free it.", breadcrumb="Ops > Disk", source="ops")], max_chars=200)

    assert render(packed.evidence) == "[d#chunk-3] Ops > Disk (ops)\nFree it.\n\n"
    assert render(()) == ""


def test_the_header_has_the_title_where_there_is_no_heading_path():
    assert header(block(1, "", title="Runbook", source="ops")) == "[d#chunk-1] Runbook (ops)"


def test_a_budget_is_used_to_its_last_character():
    pair = blocks(100, 50)
    exactly = 100 + 50 + 2 * AROUND

    packed = pack(pair, max_chars=exactly)

    assert excerpts(packed) == [(1, 100, False), (2, 50, False)]
    assert packed.drops == ()
    assert len(render(packed.evidence)) == exactly
    assert left_out(pack(pair, max_chars=exactly - 1)) == [2]


def test_the_header_of_each_piece_counts():
    packed = pack(blocks(999 - AROUND, 1), max_chars=1_000)

    assert excerpts(packed) == [(1, 999 - AROUND, False)]
    assert packed.drops == (Drop("d#chunk-2", 2, DropReason.OUT_OF_BUDGET),)


def test_characters_are_code_points():
    packed = pack([block(1, "备份🚀" * 40)], max_chars=120 + AROUND)

    assert excerpts(packed) == [(1, 120, False)]


# -- budgets 1,000 and 50 -------------------------------------------------------------------


def test_whole_chunks_first_then_one_cut_into_what_is_left():
    packed = pack(blocks(400, 400, 400), max_chars=1_000)

    assert excerpts(packed) == [(1, 400, False), (2, 400, False), (3, 131, True)]
    assert packed.evidence[2].excerpt == text(127) + CUT_MARK
    assert packed.drops == ()
    assert len(render(packed.evidence)) <= 1_000


def test_a_chunk_that_is_too_big_is_cut_at_a_sentence_end():
    packed = pack(blocks(5_000), max_chars=1_000)

    (only,) = packed.evidence
    assert only.truncated
    assert only.excerpt == (SENTENCE * 61).rstrip() + " […]"
    assert len(render(packed.evidence)) <= 1_000
    assert packed.drops == ()


def test_a_small_chunk_behind_a_big_one_is_kept_whole():
    packed = pack(blocks(5_000, 300), max_chars=1_000)

    assert excerpts(packed)[1] == (2, 300, False)
    assert packed.evidence[0].truncated
    assert packed.evidence[0].excerpt.endswith("disk. […]")
    assert len(render(packed.evidence)) <= 1_000


def test_only_the_best_ranked_of_those_that_do_not_fit_is_cut():
    packed = pack(blocks(600, 700, 100), max_chars=500)

    assert [(rank, cut) for rank, _, cut in excerpts(packed)] == [(1, True), (3, False)]
    assert left_out(packed) == [2]


@pytest.mark.parametrize(
    ("budget", "packed"), [(AROUND + 4 + 79, 0), (AROUND + 4 + 80, 1), (50, 0), (1, 0)]
)
def test_a_budget_below_a_header_and_80_characters_is_left_empty(budget, packed):
    packing = pack(blocks(400), max_chars=budget)

    assert len(packing.evidence) == packed
    assert left_out(packing) == [1] * (1 - packed)
    assert len(render(packing.evidence)) <= budget


def test_a_short_chunk_fits_a_small_budget():
    assert excerpts(pack(blocks(30), max_chars=50)) == [(1, 30, False)]


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_below_one_is_refused(budget):
    with pytest.raises(ValueError, match="max_chars must be at least 1"):
        pack(blocks(10), max_chars=budget)


def test_nothing_packs_to_nothing():
    assert pack([], max_chars=1_000).evidence == pack([], max_chars=1_000).drops == ()


def test_a_long_title_counts_and_its_id_is_never_cut():
    long = block(1, text(5_000), breadcrumb="T" * 700)

    packed = pack([long], max_chars=1_000)

    assert render(packed.evidence).startswith(f"[d#chunk-1] {'T' * 700} (s)\n")
    assert 80 <= len(packed.evidence[0].excerpt) <= 1_000 - 700
    assert len(render(packed.evidence)) <= 1_000


def test_a_title_that_leaves_no_room_does_not_keep_the_next_one_out():
    unfit = block(1, text(5_000), breadcrumb="T" * 990)

    packed = pack([unfit, *blocks(0, 5_000)[1:]], max_chars=1_000)

    assert [(rank, cut) for rank, _, cut in excerpts(packed)] == [(2, True)]
    assert left_out(packed) == [1]


# -- where a cut falls ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "limit", "cut"),
    [
        ("先看监控。再看日志。然后重启服务", 12, "先看监控。再看日志。"),
        ("先看监控。再看日志。然后重启服务", 10, "先看监控。再看日志。"),
        ("先看监控。再看日志。然后重启服务", 9, "先看监控。"),
        ("他说：“不要慌。”然后重启服务器吧", 11, "他说：“不要慌。”"),
        ("真的吗？！好；行…再说别的事情", 11, "真的吗？！好；行…"),
        ("Stop it. Check disk. Then restart", 25, "Stop it. Check disk."),
        ("Stop it. Check disk. Then restart", 20, "Stop it. Check disk."),
        ("Really?! Then do so now", 12, "Really?!"),
        ("line one\nline two and more", 14, "line one"),
        ("line one\nline two\nmore", 17, "line one\nline two"),
        # a point inside a number or a name ends no sentence
        ("Set v1.2.3 to 4.5 please", 17, "Set v1.2.3 to 4.5"),
        ("Set v1.2.3 to 4.5.6.7.8", 20, "Set v1.2.3 to"),
        # the only sentence end would waste more than half of the room
        ("Go. Then restart the service now", 24, "Go. Then restart the"),
        ("Go. Then restart the service now", 20, "Go. Then restart the"),
        ("好。然后依次重启全部的服务节点", 10, "好。然后依次重启全部"),
        ("a " + "x" * 30, 20, "a " + "x" * 18),
        # never inside a grapheme
        ("重启" + "👨‍👩‍👧‍👦" * 3, 15, "重启👨‍👩‍👧‍👦"),
        ("cafe\u0301cafe\u0301", 9, "cafe\u0301caf"),
    ],
)
def test_a_cut_falls_at_a_sentence_end_else_at_a_space_else_between_graphemes(source, limit, cut):
    assert cut_at_sentence(source, limit) == cut
