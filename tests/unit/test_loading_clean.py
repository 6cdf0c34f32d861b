"""What no reader sees is taken out, and nothing else."""

import time

import pytest

from knowport.adapters.loading.clean import clean_markdown, clean_text, has_text


@pytest.mark.parametrize(
    ("text", "cleaned", "removed"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n", 0),
        ("\x1b[1;31mERROR\x1b[0m done", "ERROR done", 11),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink", 25),
        ("\x1b(Btext\x1b=", "text", 5),
        ("stray \x1b and text", "stray \x1b and text", 0),
        ("lost \ufffd and tag\U000e0041\U000e007f", "lost  and tag", 3),
        ("![x](data:image/png;base64," + "iVBORw0K" * 100 + ") after", "![x]() after", 822),
        ("data:text/plain;base64,QUJD is short", "data:text/plain;base64,QUJD is short", 0),
        (
            "zero\u200bwidth, 👨\u200d👩\u200d👧, café",
            "zero\u200bwidth, 👨\u200d👩\u200d👧, café",
            0,
        ),
    ],
)
def test_texts(text, cleaned, removed):
    assert clean_text(text) == (cleaned, removed)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a <!-- hidden --> b", "a  b"),
        ("<!--\n# Hidden heading\n\nmore\n-->\n本指南\n", "\n本指南\n"),
        ("<!---->x<!-->y", "xy"),
        ("<script>alert(1)</script>x<STYLE type=a>.a{}</STYLE >y", "xy"),
        ("<template><b>x</b></template>", ""),
        (
            "<details><summary>S</summary>kept</details>",
            "<details><summary>S</summary>kept</details>",
        ),
        ("never closed <!-- so kept", "never closed <!-- so kept"),
        ("<scripture>kept</scripture>", "<scripture>kept</scripture>"),
    ],
)
def test_markdown(text, cleaned):
    assert clean_markdown(text) == (cleaned, len(text) - len(cleaned))


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<!-- shown -->\n<script>x</script>\n```\n",
        "~~~\n<!-- shown -->\n~~~\n",
        "1. item\n\n   ```\n   <!-- shown -->\n   ```\n",
        "> ```\n> <!-- shown -->\n> ```\n",
        "    <!-- indented code -->\n",
        "use `<!-- shown -->` and ``<script>`</script>``\n",
        "```\n<!-- never closed\n",
    ],
)
def test_code_in_markdown_is_kept(text):
    assert clean_markdown(text) == (text, 0)


def test_a_fence_inside_a_comment_goes_with_it():
    text = "before\n\n<!--\n```\ncode\n```\n-->\n\n```\n<!-- shown -->\n```\n\nafter <!-- x -->\n"

    assert clean_markdown(text)[0] == "before\n\n\n\n```\n<!-- shown -->\n```\n\nafter \n"


@pytest.mark.parametrize(
    "piece", ["<!--", "<script>", "`", "`` ` ", "```\n", "> ```\n", "    a\n\n", "-->", "a\n\n"]
)
def test_hostile_markdown_does_not_take_long(piece):
    text = f"<!-- x -->{piece * 100_000}"
    started = time.process_time()

    clean_markdown(text)

    assert time.process_time() - started < 5


def test_one_backtick_protects_no_other_paragraph():
    assert clean_markdown("a ` b\n\n<!-- x -->\n\nc ` d")[0] == "a ` b\n\n\n\nc ` d"


@pytest.mark.parametrize("text", ["a", "备", "７", "🚀", "→ b", "é"])
def test_something_to_look_for(text):
    assert has_text(f"--- {text} ---")


@pytest.mark.parametrize(
    "text", ["", " \n\t\u3000\xa0", "---\n***\n___", "。", "?", "=== … !", "\u200b"]
)
def test_nothing_to_look_for(text):
    assert not has_text(text)
