import pytest

from knowport.core.front_matter import split_front_matter
from knowport.core.markdown import MAX_HEADING, BlockKind, parse_markdown


def outline(text: str, start: int = 0) -> list[tuple[int, str]]:
    return [(s.level, " > ".join(s.breadcrumb)) for s in parse_markdown(text, start)]


def blocks(text: str, start: int = 0) -> list[tuple[str, str]]:
    return [
        (block.kind.value, text[block.start : block.end])
        for section in parse_markdown(text, start)
        for block in section.blocks
    ]


class TestFrontMatter:
    def test_yaml(self):
        text = "---\ntitle: 夜班\ntags: [a, 1]\nday: 2024-05-06\n---\n# Body\n"
        found = split_front_matter(text)
        assert found.values == {"title": "夜班", "tags": ["a", 1], "day": "2024-05-06"}
        assert text[found.body_start :] == "# Body\n"

    def test_toml(self):
        text = '+++\ntitle = "T"\nat = 2024-05-06T07:08:09\n[owner]\nn = 1.5\n+++\nBody'
        found = split_front_matter(text)
        assert found.values == {"title": "T", "at": "2024-05-06T07:08:09", "owner": {"n": 1.5}}
        assert text[found.body_start :] == "Body"

    def test_values_are_json_without_control_characters(self):
        text = '---\na: "x\\0y"\n1: .nan\nb: !!binary aGk=\nc: !!set {k}\nd: 99999999999999999999\n'
        text += "...\n"
        assert split_front_matter(text).values == {
            "a": "xy",
            "1": "nan",
            "b": "b'hi'",
            "c": ["k"],
            "d": "99999999999999999999",
        }

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "---",
            "---\n",
            "---\na: 1\n",  # unclosed
            "---\na: [\n---\n",
            "---\n- a\n---\n",  # not a mapping
            "---\n---\n",
            "\n---\na: 1\n---\n",  # not at the very start
            " ---\na: 1\n---\n",
            "----\na: 1\n----\n",
            "---\na: 1\n--- x\n",
            "+++\na = \n+++\n",
            "+++\na = 1\n---\n",
            "---\nday: 2024-13-45\n---\n",
            "---\na: !!int\n---\n",
            "---\na: !!python/object:os.system x\n---\n",
            "---\n&a [*a]: 1\n---\n",
            "---\na: &a [*a]\n---\n",
            "---\na: " + "[" * 5000 + "\n---\n",
        ],
    )
    def test_anything_else_is_body(self, text):
        found = split_front_matter(text)
        assert (found.values, found.body_start) == ({}, 0)

    @pytest.mark.parametrize("repeat", ["[*x{0}, *x{0}]", "{{<<: [*x{0}, *x{0}]}}"])
    def test_aliases_that_multiply_end_soon(self, repeat):
        lines = ["x0: &x0 {a: 1}"]
        lines += [f"x{n + 1}: &x{n + 1} {repeat.format(n)}" for n in range(60)]
        text = "\n".join(["---", *lines, "---", ""])
        assert split_front_matter(text).body_start == 0


class TestHeadings:
    def test_path_and_levels(self):
        text = "intro\n\n# A\n\n### C\n\n## B\nx\n# D"
        assert outline(text) == [
            (0, ""),
            (1, "A"),
            (3, "A > C"),
            (2, "A > B"),
            (1, "D"),
        ]

    def test_spans_and_lines_count_in_the_whole_text(self):
        text = "---\na: 1\n---\n# A\n\nx\n\nB\n---\ny\n"
        first, second = parse_markdown(text, split_front_matter(text).body_start)
        assert (first.first_line, first.end_line, second.first_line) == (3, 7, 7)
        assert text[first.start : first.end] == "# A\n\nx\n\n"
        assert text[second.start : second.end] == "B\n---\ny\n"
        assert second.breadcrumb == ("A", "B")

    def test_text_is_plain(self):
        text = "# **Bold** `a|b` [link](u) ![alt](i) &amp; \\* <b>x</b> [r] #\n\n"
        text += "Two\nlines\n===\n\n[r]: u"
        assert outline(text) == [(1, "Bold a|b link alt & * x r"), (1, "Two lines")]

    def test_long_heading_is_cut(self):
        assert outline("# " + "字" * 5000) == [(1, "字" * MAX_HEADING)]

    @pytest.mark.parametrize(
        "text",
        [
            "> # quoted",
            "- # in an item",
            "1. x\n\n   ## in an item",
            "```\n# fenced\n```",
            "~~~~\n```\n# fenced\n```\n~~~~",
            "````\n```\n# fenced\n```\n````",
            "- a\n  ```\n  # fenced\n  ```",
            "```\n# unclosed",
            "    # indented",
            "<!--\n# comment\n-->",
            "#not a heading",
            "####### seven",
        ],
    )
    def test_not_headings(self, text):
        assert [level for level, _ in outline(text)] == [0]


class TestBlocks:
    def test_kinds(self):
        text = (
            "# H\npara\nline two\n\n```sh\n# x\n```\n- a\n\n  b\n\n***\n\n| a |\n|---|\n| 1 |\n\n"
            "<!-- c -->\n\n<p>html</p>\n\n[ref]: http://x\n\n> q\n\n    code\n"
        )
        assert blocks(text) == [
            ("heading", "# H"),
            ("prose", "para\nline two"),
            ("fence", "```sh\n# x\n```"),
            ("prose", "- a\n\n  b"),
            ("blank", "***"),
            ("table", "| a |\n|---|\n| 1 |"),
            ("blank", "<!-- c -->"),
            ("prose", "<p>html</p>"),
            ("prose", "[ref]: http://x"),
            ("prose", "> q"),
            ("prose", "    code"),
        ]

    @pytest.mark.parametrize(
        "text", ["---", "#", "-", ">", "<!-- a --> <!-- b -->", "<!-- a -\nb -->", "* * *"]
    )
    def test_blank_kinds(self, text):
        assert blocks(text) == [("blank", text)]

    def test_comment_followed_by_text_is_text(self):
        assert blocks("<!-- a --> text") == [("prose", "<!-- a --> text")]

    def test_table_directly_after_a_paragraph_line(self):
        text = "Text before:\n| a \\| b | c |\n|:--|--:|\n| `a|b` | 1 |\n\nafter"
        assert blocks(text) == [
            ("prose", "Text before:"),
            ("table", "| a \\| b | c |\n|:--|--:|\n| `a|b` | 1 |"),
            ("prose", "after"),
        ]

    @pytest.mark.parametrize("end", ["# H", "> q", "- item", "```\nx\n```", "***", "    code"])
    def test_table_ends_at_another_block(self, end):
        text = f"| a | b |\n|---|---|\n| 1 | 2 |\n{end}"
        assert blocks(text)[0] == ("table", "| a | b |\n|---|---|\n| 1 | 2 |")

    def test_not_a_table(self):
        assert blocks("| a | b |\n|---|\n| 1 |") == [("prose", "| a | b |\n|---|\n| 1 |")]

    def test_blank_text(self):
        assert parse_markdown(" \n\t\n\u3000\n\xa0") == []

    def test_deep_lists_do_not_swallow_what_follows(self):
        text = "".join("  " * n + "- x\n" for n in range(30)) + "\n# H\n"
        assert outline(text) == [(0, ""), (1, "H")]

    @pytest.mark.parametrize(
        "line", [">" * 100_000, "> " * 20_000 + "a", "- " * 20_000, "[" * 100_000]
    )
    def test_pathological_nesting_is_one_block(self, line):
        assert [text for _, text in blocks(line + "\n")] == [line.rstrip()]

    def test_every_line_belongs_to_one_block(self):
        text = "a\n\n[x]: y\n# H\n\n[z]: y\n[z2]: y\n\n> b\n"
        spans = [(b.start, b.end) for s in parse_markdown(text) for b in s.blocks]
        assert "".join(text[a:b] for a, b in spans) == "a[x]: y# H[z]: y\n[z2]: y> b"
        assert BlockKind.HEADING in {b.kind for s in parse_markdown(text) for b in s.blocks}
