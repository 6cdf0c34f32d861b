import json
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from knowport.core.chunking import ChunkingOptions, chunk_document, document_title
from knowport.core.front_matter import split_front_matter
from knowport.core.text import normalise_text
from knowport.errors import ConfigurationError
from knowport.model import Chunk

FAMILY = "👨‍👩‍👧‍👦"


def chunk(
    text: str, size: int = 600, text_format: str = "markdown", **options
) -> tuple[Chunk, ...]:
    return chunk_document("doc", text, text_format, "Title", ChunkingOptions(size, **options))


def contents(text: str, size: int = 600, **options) -> list[str]:
    return [c.content for c in chunk(text, size, **options)]


class TestOptions:
    @pytest.mark.parametrize(
        ("size", "overlap", "setting"),
        [
            (500, 500, "chunking.overlap"),
            (500, 600, "chunking.overlap"),
            (500, -1, "chunking.overlap"),
            (1, 1, "chunking.overlap"),
            (0, 0, "chunking.size"),
            (-1, 0, "chunking.size"),
        ],
    )
    def test_refused(self, size, overlap, setting):
        with pytest.raises(ConfigurationError, match=setting) as error:
            ChunkingOptions(size, overlap)
        assert setting in error.value.remedy

    def test_max_bytes_refused(self):
        with pytest.raises(ConfigurationError, match=r"max_bytes"):
            ChunkingOptions(max_bytes=63)

    @pytest.mark.parametrize(
        ("size", "overlap", "count"),
        [(500, 50, 23), (500, 0, 20), (500, 251, 39), (500, 499, 39), (1, 0, 5000)],
    )
    @pytest.mark.timeout(60)
    def test_short_lines_end_for_every_overlap(self, size, overlap, count):
        chunks = chunk("a\n" * 5000, size, overlap=overlap)
        assert len(chunks) == count
        starts = [c.start for c in chunks]
        assert starts == sorted(set(starts))

    @pytest.mark.parametrize("overlap", [0, 50, 251, 499])
    def test_one_character_more_than_the_size(self, overlap):
        assert [len(c) for c in contents("字" * 501, 500, overlap=overlap)] == [
            500,
            min(overlap, 250) + 1,
        ]

    def test_huge_size_is_cut_by_bytes(self):
        chunks = chunk("字" * 50_000, 10**9)
        assert [len(c.content) for c in chunks] == [20_000, 20_000, 10_000]

    def test_byte_limit_falls_on_a_grapheme_border(self):
        assert contents(FAMILY * 5, 10**9, max_bytes=64) == [FAMILY * 2, FAMILY * 2, FAMILY]


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("---\ntitle: 夜班  交接\n---\n# H1", "夜班 交接"),
            ("---\ntitle: 2024-05-06\n---\n", "2024-05-06"),
            ("---\ntitle: 7\n---\n", "7"),
            ("---\ntitle: true\n---\n# H1", "H1"),
            ("---\ntitle: ''\n---\n# H1", "H1"),
            ("---\ntitle: [a]\n---\n# H1", "H1"),
            ("## Two\n\n# `One`\n\n# Other", "One"),
            ("Set *ext*\n===", "Set ext"),
            ("#\n\n# One", "One"),
            ("## Two\n\n> # Quoted", None),
            ("text", None),
        ],
    )
    def test_markdown(self, text, title):
        assert document_title(text, "markdown", split_front_matter(text)) == title

    def test_plain_text_has_no_heading(self):
        assert document_title("# H", "plain", split_front_matter("")) is None


class TestSections:
    def test_chunk_fields(self):
        text = "---\ntitle: x\n---\n# 手册\n\nfirst\n\n## `Deploy` now\n\nsecond\n"
        assert chunk(text) == (
            Chunk("doc", 0, "# 手册\n\nfirst", "Title", "手册", 17, 28),
            Chunk("doc", 1, "## `Deploy` now\n\nsecond", "Title", "手册 > Deploy now", 30, 53),
        )

    def test_equal_headings_stay_apart(self):
        text = (
            "# Deploy\n\n## Prerequisites\n\nA.\n\n## Steps\n\nOne.\n\n# Rollback\n\n"
            "## Prerequisites\n\nB.\n\n## Steps\n\nTwo.\n\n## Steps\n\nThree.\n\n# Deploy\n\nEnd.\n"
        )
        assert [(c.breadcrumb, c.content) for c in chunk(text)] == [
            ("Deploy > Prerequisites", "# Deploy\n\n## Prerequisites\n\nA."),
            ("Deploy > Steps", "## Steps\n\nOne."),
            ("Rollback > Prerequisites", "# Rollback\n\n## Prerequisites\n\nB."),
            ("Rollback > Steps", "## Steps\n\nTwo."),
            ("Rollback > Steps", "## Steps\n\nThree."),
            ("Deploy", "# Deploy\n\nEnd."),
        ]

    def test_heading_without_text_is_carried_only_to_a_deeper_section(self):
        text = "# A\n## B\n## C\n### D\nd\n# E"
        assert [(c.breadcrumb, c.content) for c in chunk(text)] == [
            ("A > B", "# A\n## B"),
            ("A > C > D", "## C\n### D\nd"),
            ("E", "# E"),
        ]

    def test_rule_before_the_first_heading_is_no_chunk(self):
        assert contents("---\n\n# A\n\na") == ["---\n\n# A\n\na"]

    @pytest.mark.parametrize(
        "text", ["", " \n\t\n\u3000\n", "---\n\n***\n", "<!-- c -->\n\n---", "#"]
    )
    def test_no_text_no_chunk(self, text):
        assert chunk(text) == ()

    @pytest.mark.parametrize("text", ["", " \n\u3000\n", "-----\n\n=====\n"])
    def test_no_plain_text_no_chunk(self, text):
        assert chunk(text, text_format="plain") == ()

    def test_rule_alone_in_a_chunk_is_left_out(self):
        assert contents("abcdefgh\n\n---\n\nijklmnop", 8) == ["abcdefgh", "ijklmnop"]

    def test_plain_text_knows_no_headings(self):
        text = "# not a heading\n\n\n  indented\n\n---\nx"
        chunks = chunk(text, 20, text_format="plain")
        assert [(c.content, c.breadcrumb) for c in chunks] == [
            ("# not a heading", ""),
            ("  indented\n\n---\nx", ""),
        ]
        assert [text[c.start : c.end] for c in chunks] == [c.content for c in chunks]


class TestPacking:
    def test_whole_blocks_in_order(self):
        assert contents("aaaa\n\nbbbb\n\ncccc\n\ndd", 10) == ["aaaa\n\nbbbb", "cccc\n\ndd"]

    def test_blank_lines_between_blocks_count(self):
        assert contents("aaaa\n\n\nbbbb", 10) == ["aaaa", "bbbb"]

    def test_fence_and_table_stay_whole_where_they_fit(self):
        fence = "```\n1\n2\n3\n```"
        table = "|a|\n|-|\n|1|\n|2|"
        assert contents(f"word word\n\n{fence}\n\n{table}", 16) == ["word word", fence, table]

    def test_heading_stays_with_a_block_that_fits_only_without_it(self):
        text = "# Heading\n\nOne two three. Four five six. Seven eight nine."
        assert contents(text, 50) == [
            "# Heading\n\nOne two three. Four five six.",
            "Seven eight nine.",
        ]

    def test_heading_that_leaves_no_room_stands_alone(self):
        assert contents("# Heading heading\n\nOne two three.", 20) == [
            "# Heading heading",
            "One two three.",
        ]

    def test_size_holds_where_the_room_below_a_heading_is_only_indentation(self):
        assert contents("# abc\n\n    code", 8) == ["# abc", "    code"]
        assert all(len(c) <= 4 for c in contents("# restart\n\n    code  here", 4))

    def test_lead_in_stays_with_a_block_that_is_cut_anyway(self):
        assert contents("Ports:\n\n```\naaaa\nbbbb\ncccc\ndddd\n```", 26) == [
            "Ports:\n\n```\naaaa\nbbbb\n```",
            "```\ncccc\ndddd\n```",
        ]


class TestTables:
    HEAD = "| p | q |\n|---|--:|\n"

    def test_cut_between_rows_with_the_header_repeated(self):
        rows = [f"| {n} | x |" for n in range(5)]
        text = "# T\n\n" + self.HEAD + "\n".join(rows) + "\n"
        chunks = chunk(text, 48)
        assert [c.content for c in chunks] == [
            "# T\n\n" + self.HEAD + "\n".join(rows[:2]),
            self.HEAD + "\n".join(rows[2:4]),
            self.HEAD + rows[4],
        ]
        assert [text[c.start : c.end] for c in chunks[1:]] == ["\n".join(rows[2:4]), rows[4]]
        assert chunks[0].start == 0

    def test_text_follows_the_last_rows(self):
        text = self.HEAD + "| 1 | x |\n| 2 | x |\n| 3 | x |\n\nafter"
        assert contents(text, 42)[-1] == self.HEAD + "| 3 | x |\n\nafter"

    def test_head_stands_alone_under_a_heading_rather_than_cut_a_row(self):
        text = "# Heading1\n\n" + self.HEAD + "| 1 | xxxx xxxx xxxx xxxx xxxx xx |"
        assert contents(text, 60) == [
            "# Heading1\n\n" + self.HEAD.rstrip(),
            self.HEAD + "| 1 | xxxx xxxx xxxx xxxx xxxx xx |",
        ]

    def test_long_row_keeps_header_and_first_cell(self):
        text = self.HEAD + "| a\\|b | " + "长" * 60 + " |\n| last | end |"
        found = contents(text, 60)
        assert found == [
            self.HEAD + "| a\\|b | " + "长" * 31,
            self.HEAD + "| a\\|b | " + "长" * 29 + " |",
            self.HEAD + "| last | end |",
        ]

    def test_pipe_in_code_ends_the_first_cell(self):
        text = self.HEAD + "| `a|b` | " + "长" * 50 + " |"
        assert contents(text, 60)[1].startswith(self.HEAD + "| `a| 长")

    def test_first_cell_that_takes_too_much_is_not_repeated(self):
        text = self.HEAD + "| long first cell | " + "长" * 60 + " |"
        assert contents(text, 60)[1] == self.HEAD + "长" * 40

    def test_header_that_takes_more_than_half_is_not_repeated(self):
        text = "| long header | q |\n|---|---|\n| 1 | x |\n| 2 | x |\n| 3 | x |"
        assert contents(text, 50) == [
            "| long header | q |\n|---|---|\n| 1 | x |\n| 2 | x |",
            "| 3 | x |",
        ]


class TestFences:
    def test_reopened_with_the_same_line_and_closed(self):
        text = "~~~~ python\na = 1\n# b\n```\nc = 3\n~~~~"
        chunks = chunk(text, 35)
        assert [c.content for c in chunks] == [
            "~~~~ python\na = 1\n# b\n```\n~~~~",
            "~~~~ python\nc = 3\n~~~~",
        ]
        assert [text[c.start : c.end] for c in chunks] == [
            "~~~~ python\na = 1\n# b\n```",
            "c = 3\n~~~~",
        ]

    def test_unclosed_fence(self):
        assert contents("```\naaaa\n# b\n", 20) == ["```\naaaa\n# b"]
        assert contents("```\naaaa\n# b\nc = 1", 17) == [
            "```\naaaa\n# b\n```",
            "```\nc = 1\n```",
        ]

    def test_shorter_fence_line_at_the_end_closes_nothing(self):
        assert contents("````\naaaa\nbbbb\ncccc\n```", 22) == [
            "````\naaaa\nbbbb\n````",
            "````\ncccc\n```\n````",
        ]

    def test_line_too_long_is_cut_at_the_size(self):
        assert contents("```\n" + "x" * 20 + "\ny\n```", 20) == [
            "```\n" + "x" * 12 + "\n```",
            "```\n" + "x" * 8 + "\ny\n```",
        ]

    def test_blank_lines_at_the_end_lose_no_fence(self):
        text = "```\naaaa\nbbbb\n\n\n\n\n\n\n\n\n\n```"
        chunks = chunk(text, 20)
        assert [c.content.rstrip("\n`") for c in chunks] == ["```\naaaa\nbbbb"]
        assert chunks[-1].end == len(text)

    def test_opening_that_takes_more_than_half_is_not_repeated(self):
        text = "```" + "i" * 20 + "\naaaa\nbbbb\ncccc\n```"
        assert contents(text, 30) == ["```" + "i" * 20 + "\naaaa", "bbbb\ncccc\n```"]

    def test_fence_in_a_list_is_cut_between_lines(self):
        assert contents("- item\n  ```yaml\n  # key\n  a: 1\n  ```", 24) == [
            "- item\n  ```yaml\n  # key",
            "  a: 1\n  ```",
        ]

    def test_indented_code_keeps_its_indentation(self):
        assert contents("    # a\n    b = 1\n    c", 18) == ["    # a\n    b = 1", "    c"]


class TestProse:
    def test_chinese_sentences(self):
        text = "先看监控；再看日志……然后呢？值班人说：“不要慌。”（等五分钟！）再查。"
        assert contents(text, 8) == [
            "先看监控；",
            "再看日志……",
            "然后呢？",
            "值班人说：",
            "“不要慌。”",
            "（等五分钟！）",
            "再查。",
        ]

    def test_quote_beyond_the_limit_belongs_to_its_sentence(self):
        assert contents("一。二三。”四", 5) == ["一。", "二三。”四"]

    def test_english_sentences(self):
        text = 'See v1.2 now. "Really?" he said; go on! End'
        assert contents(text, 25) == ['See v1.2 now. "Really?"', "he said; go on! End"]

    def test_number_of_a_list_item_is_no_sentence(self):
        assert contents("1. aaa bbb\n2. ccc ddd eee fff ggg", 17) == [
            "1. aaa bbb",
            "2. ccc ddd eee",
            "fff ggg",
        ]

    def test_order_of_borders(self):
        # A list, because paragraphs of their own are blocks of their own.
        assert contents("- One. Two\n  x. y\n\n  Three. Four", 26) == [
            "- One. Two\n  x. y",
            "  Three. Four",
        ]
        assert contents("aaa. bbb ccc\nddd. eee fff", 20) == ["aaa. bbb ccc", "ddd. eee fff"]
        assert contents("aaa. bbb，ccc ddd", 12) == ["aaa.", "bbb，ccc ddd"]
        assert contents("aaa，bbb ccc ddd", 10) == ["aaa，bbb", "ccc ddd"]
        assert contents("甲乙丙，丁戊己庚辛壬", 7) == ["甲乙丙，", "丁戊己庚辛壬"]

    def test_early_line_end_gives_way_to_a_later_sentence(self):
        assert contents("a\nBbbb bbb. Cccc cccc cccc", 16) == ["a\nBbbb bbb.", "Cccc cccc cccc"]

    def test_hard_cut_on_a_grapheme_border(self):
        assert contents(FAMILY * 3, 10) == [FAMILY] * 3
        assert contents("🇨🇳" * 4, 5) == ["🇨🇳" * 2] * 2
        assert contents("字" * 7, 3) == ["字字字", "字字字", "字"]

    def test_grapheme_longer_than_the_size_is_cut(self):
        assert contents("a" + "\u0301" * 5, 3) == ["a\u0301\u0301", "\u0301\u0301\u0301"]

    def test_sentence_end_keeps_its_variation_selector(self):
        assert contents("甲乙！\ufe0f丙丁", 3) == ["甲乙", "！\ufe0f丙", "丁"]

    def test_mark_on_a_space_stays_with_it(self):
        assert contents("abcd \u0301efg", 5) == ["abcd", " \u0301efg"]

    def test_long_word_after_a_short_one_is_cut(self):
        assert contents("ab cdefghijklmnop", 12) == ["ab cdefghijk", "lmnop"]

    def test_overlap_repeats_whole_sentences(self):
        text = "Aaa aaa. Bbb bbb. Ccc ccc. Ddd ddd."
        assert contents(text, 26, overlap=10) == [
            "Aaa aaa. Bbb bbb. Ccc ccc.",
            "Ccc ccc. Ddd ddd.",
        ]

    def test_overlap_gives_way_to_whole_sentences(self):
        text = "Aaa aaa aaa. Bbb bbb. Cccc cccc cccc cc."
        assert contents(text, 24, overlap=11) == ["Aaa aaa aaa. Bbb bbb.", "Cccc cccc cccc cc."]

    def test_overlap_without_sentences(self):
        assert contents("aa bb cc dd ee ff gg", 11, overlap=5) == [
            "aa bb cc dd",
            "cc dd ee ff",
            "ee ff gg",
        ]
        assert contents("字" * 10, 6, overlap=2) == ["字" * 6, "字" * 6]

    def test_overlap_that_would_bring_no_new_text_is_left_out(self):
        assert contents("restart\n    code", 3, overlap=1)[:4] == ["res", "sta", "art", "cod"]

    def test_overlap_stays_inside_a_block_of_prose(self):
        assert contents("aaaa aaaa\n\nbbbb bbbb", 10, overlap=5) == ["aaaa aaaa", "bbbb bbbb"]
        fence = "```\naaaa\nbbbb\ncccc\n```"
        assert contents(fence, 18, overlap=9) == ["```\naaaa\nbbbb\n```", "```\ncccc\n```"]


# ---- files that caused trouble elsewhere, in small form; the real ones where they are at hand ----

SHARED = Path(os.environ.get("KNOWPORT_SHARED", Path(__file__).parents[2].parent / "shared"))
SENTENCES = "先看监控，再看日志；值班人说：“不要慌。”然后呢？等五分钟……再查一次。"
EMOJI = f"消防👩‍🚒 家庭{FAMILY} 旗🇨🇳 手👋🏽 生僻𠮷𡈽𪚥 组合e\u0301 n\u0303 键帽1️⃣。"


def table_text(rows: int) -> str:
    head = "# Ports\n\n| port | service | note |\n|-----:|---------|------|\n"
    return head + "".join(f"| {n} | svc-{n:05} | 说明{n % 7} |\n" for n in range(rows))


SMALL = {
    "06_utf8_bom_frontmatter.md": "\ufeff---\ntitle: T\ntags: [a]\n---\n# H\n\nx\n\nS\n---\n\ny",
    "07_crlf.md": "---\r\ntitle: T\r\n---\r\n# Alpha\r\n\r\nx\r\n"
    "## Beta\r\n```sh\r\n# no\r\n```\r\n",
    "08_lone_cr.md": "# One MARK-CR08\rtext a\r\r## Two\rtext b\r",
    "09_fenced_hash.md": "# Real heading one\n```\n# a\n```\n"
    "## Real heading two\n````\n```\n# b\n```\n````\n## Real heading three\n```\n# c",
    "13_table_30k_rows.md": table_text(30_000),
    "16_single_line_300kb_cjk.md": "# 长行\n\n" + "中" * 100_000,
    "17_cjk_sentences.md": "# 句\n\n" + SENTENCES * 330,
    "18_emoji_astral.md": "# 图标\n\n" + EMOJI * 300,
    "19_nul_and_controls.txt": "api\x00-gateway\x0btab\x0c\x1b[31mred\x7f \u2028sep\ufeff\u200b",
    "27_whitespace_only.md": " \t\r\n\u3000\xa0 \n\n---\n\n---\n\n<!-- only a comment -->\n",
    "all_flags.md": "🇨🇳" * 20_000,
    "short_lines.md": "a\n" * 5000,
    "blank_lines.md": "\n" * 200_000 + "x",
    "escaped_pipes.md": "|a|b|\n|-|-|\n|" + "\\|" * 100_000,
    "exclamations.md": "!" * 200_000 + "。" * 200_000,
}


def real_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


REAL = {
    f"shared/{name}": real_text(SHARED / "inputs" / name)
    for name in [*SMALL, "11_duplicate_headings.md", "14_table_awkward.md", "40_reingest/v1.md"]
    if (SHARED / "inputs" / name).is_file()
}
INPUTS = SMALL | REAL


def variants(name: str) -> list[str]:
    """The small form of an input, and the real one where it is at hand."""
    return [text for key, text in INPUTS.items() if key.removeprefix("shared/") == name]


def clean_chunks(text: str, size: int = 600, text_format: str = "markdown", **options):
    return chunk(normalise_text(text).text, size, text_format, **options)


@pytest.mark.parametrize("size", [100, 600, 10**9])
@pytest.mark.parametrize("name", INPUTS)
def test_limits_and_time_hold_for_every_input(name, size):
    text = normalise_text(INPUTS[name]).text
    started = time.process_time()
    chunks = chunk(text, size)
    assert time.process_time() - started < 2
    assert [c.chunk_index for c in chunks] == list(range(len(chunks)))
    covered = 0
    for c in chunks:
        assert c.content.strip()
        assert len(c.content) <= size
        assert len(c.content.encode()) <= 60_000
        assert covered <= c.start < c.end
        covered = c.end
        assert "\r" not in c.content


def test_bom_front_matter():
    for text in variants("06_utf8_bom_frontmatter.md"):
        chunks = clean_chunks(text)
        assert len(chunks) == 2
        assert not any("tags:" in c.content or "\ufeff" in c.content for c in chunks)
        assert chunks == clean_chunks(text.removeprefix("\ufeff"))


def test_line_ends_do_not_matter():
    for text in variants("07_crlf.md"):
        assert clean_chunks(text) == clean_chunks(text.replace("\r\n", "\n"))
        assert [c.breadcrumb for c in clean_chunks(text)] == ["Alpha", "Alpha > Beta"]
    for text in variants("08_lone_cr.md"):
        found = [c.breadcrumb for c in clean_chunks(text)]
        assert found == ["One MARK-CR08", "One MARK-CR08 > Two"]


def test_comments_in_code_are_no_headings():
    for text in variants("09_fenced_hash.md"):
        assert [c.breadcrumb.split(" > ")[-1] for c in clean_chunks(text)] == [
            "Real heading one",
            "Real heading two",
            "Real heading three",
        ]


@pytest.mark.parametrize("size", [200, 600, 10**9])
def test_every_chunk_of_a_long_table_has_the_header_and_whole_rows(size):
    for text in variants("13_table_30k_rows.md"):
        lines = text.split("\n")
        head, rows = "\n".join(lines[2:4]) + "\n", [line for line in lines[4:] if line]
        chunks = clean_chunks(text, size)
        found = []
        for c in chunks:
            _, has_head, body = c.content.partition(head)
            assert has_head
            found += body.split("\n")
        assert found == rows
        assert all(c.content.startswith(head) for c in chunks[1:])


def test_chinese_prose_is_cut_only_after_sentences():
    for text in variants("17_cjk_sentences.md"):
        for c in clean_chunks(text):
            assert c.content.endswith(tuple("。！？；…”"))
            assert c.content[0] not in "”。！？；…"


@pytest.mark.parametrize("size", [8, 100, 600])
def test_emoji_chunks_join_to_the_source(size):
    for text in variants("18_emoji_astral.md"):
        chunks = clean_chunks(text, size)
        assert "".join("".join(c.content for c in chunks).split()) == "".join(text.split())
        for c in chunks:
            assert c.content[0] not in "\u200d\ufe0f\u20e3\u0301\u0303\U0001f3fd"
            assert sum("\U0001f1e6" <= letter <= "\U0001f1ff" for letter in c.content) % 2 == 0


def test_control_characters_are_gone_and_offsets_agree():
    for raw in variants("19_nul_and_controls.txt"):
        text = normalise_text(raw).text
        chunks = chunk(text, 20, text_format="plain")
        assert all(text[c.start : c.end] == c.content for c in chunks)
        assert not {"\x00", "\x1b", "\x0b", "\ufeff"} & set("".join(c.content for c in chunks))
        assert "api-gateway" in " ".join(c.content for c in chunks)


def test_white_space_and_rules_give_no_chunk():
    for text in variants("27_whitespace_only.md"):
        assert clean_chunks(text) == ()


def test_shared_breadcrumbs_and_counts():
    for text in variants("11_duplicate_headings.md"):
        found = {c.content[-13:-2]: c.breadcrumb for c in clean_chunks(text)}
        assert len(clean_chunks(text)) == 6
        assert found["MARK-DUPA11"] == "Deploy > Prerequisites"
        assert found["MARK-DUPB11"] == "Rollback > Prerequisites"
    for text in variants("40_reingest/v1.md"):
        assert len(clean_chunks(text)) >= 12
    for text in variants("14_table_awkward.md"):
        head = "| 指标 \\| 维度 | 阈值 | 说明 |\n| :--- | ---: | --- |\n"
        long_row = [c.content for c in clean_chunks(text) if "长长长" in c.content]
        assert len(long_row) > 1
        assert all(c.startswith(head + "| very long cell |") for c in long_row)


OPTION_FILES = list((SHARED / "inputs").glob("51_chunk_options.jsonl"))


def test_shared_options():
    for line in [line for path in OPTION_FILES for line in path.read_text().splitlines()]:
        case = json.loads(line)
        if case["want"] == "config error":
            with pytest.raises(ConfigurationError):
                ChunkingOptions(case["size"], case["overlap"])
            continue
        for text in (SENTENCES * 330, "a\n" * 5000, "字" * (min(case["size"], 10**5) + 1)):
            started = time.process_time()
            chunks = chunk(text, case["size"], overlap=case["overlap"])
            assert time.process_time() - started < 5
            assert len(chunks) <= len(text)
            assert all(a.start < b.start for a, b in pairwise(chunks))
