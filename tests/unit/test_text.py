import pytest

from knowport.core.text import clip_utf8, grapheme_cut, normalise_text, utf8_reach

FAMILY = "👨‍👩‍👧‍👦"  # 7 code points, 25 bytes
FLAG = "🇨🇳"
ACUTE = "\u0301"


@pytest.mark.parametrize(
    ("raw", "text", "removed"),
    [
        ("", "", 0),
        ("a\tb\n", "a\tb\n", 0),
        ("\ufeff# A", "# A", 0),
        ("a\ufeffb", "ab", 1),
        ("a\r\nb\rc\n\rd", "a\nb\nc\n\nd", 0),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf", 0),
        ("api\x00-gateway \x1b[31mred\x07\x7f\x9f", "api-gateway [31mred", 5),
        ("a\U000e0041\U000e007fb", "ab", 2),
        ("a\ud83d\ude00b\udc00", "ab", 3),
        ("nb\xa0sp soft\xadhyphen zero\u200bwidth", "nb\xa0sp soft\xadhyphen zero\u200bwidth", 0),
        ("👩\u200d🚒", "👩\u200d🚒", 0),
    ],
)
def test_normalise_text(raw, text, removed):
    clean = normalise_text(raw)
    assert (clean.text, clean.removed) == (text, removed)


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("abc", 2, 2),
        ("abc", 9, 3),
        ("abc", 0, 0),
        ("中文字", 1, 1),
        (f"a{FAMILY}b", 7, 1),
        (f"a{FAMILY}b", 8, 8),
        (FAMILY * 3, 20, 14),
        (FAMILY, 5, 5),  # longer than the limit on its own: the limit holds
        (FLAG * 3, 3, 2),
        (f"x{FLAG * 3}", 4, 3),
        (f"e{ACUTE}e{ACUTE}", 3, 2),
        ("1\ufe0f\u20e31\ufe0f\u20e3", 4, 3),
        ("👋🏽👋🏽", 3, 2),
        ("a\n\u0301", 2, 2),
        ("a" + ACUTE * 9, 5, 5),
    ],
)
def test_grapheme_cut(text, limit, cut):
    assert grapheme_cut(text, limit) == cut


def test_grapheme_cut_counts_flags_from_the_start_it_is_given():
    assert grapheme_cut(FLAG * 4, 6, 1) == 5


def test_grapheme_cut_reads_only_near_the_limit():
    for text in ("字" * 300_000, FAMILY * 40_000, "a" * 300_000):
        for limit in range(1, len(text), 600):
            assert 0 <= limit - grapheme_cut(text, limit) < 7 or limit < 7


@pytest.mark.parametrize(
    ("text", "max_bytes", "clipped"),
    [
        ("abc", 2, "ab"),
        ("abc", 3, "abc"),
        ("中文", 5, "中"),
        ("中文", 2, ""),
        ("中文", -1, ""),
        (f"a{FAMILY}", 25, "a"),
        (f"a{FAMILY}", 26, f"a{FAMILY}"),
        (FAMILY, 24, "👨‍👩‍👧‍"),
        (FLAG * 2, 12, FLAG),
    ],
)
def test_clip_utf8(text, max_bytes, clipped):
    assert clip_utf8(text, max_bytes) == clipped


def test_utf8_reach_is_an_offset_into_the_whole_text():
    assert utf8_reach("ab中文", 1, 4, 4) == 3
    assert utf8_reach("ab中文", 1, 2, 4) == 2
    assert utf8_reach("ab中文", 2, 4, 2) == 2
