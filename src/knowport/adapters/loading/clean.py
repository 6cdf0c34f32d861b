"""What no reader of a text sees, taken out of it before anything else looks at it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt

# A replacement character tells only that something was lost before; tag characters are invisible.
_WORTHLESS = re.compile("[\ufffd\U000e0000-\U000e007f]")
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # window titles and links
    r"|[ -/]*[0-~])"
)
_DATA_URI = re.compile(r"data:[\w.+-]*/?[\w.+-]*(?:;[\w=.-]+)*;base64,[A-Za-z0-9+/=%_-]{200,}")
_HAS_TEXT = re.compile(r"[^\W_]|[\u2190-\u2bff\U0001f000-\U0001faff]")

_HIDING = re.compile(r"<!--|<(?:script|style|template)\b", re.IGNORECASE)
_HIDDEN = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)(?P=ticks)(?!`))"
    r"|<!--(?:-?>|.*?-->)"
    r"|<(?P<tag>script|style|template)\b[^>]*>.*?</(?P=tag)\s*>",
    re.IGNORECASE | re.DOTALL,
)


def clean_text(text: str) -> tuple[str, int]:
    """A text with LF line ends and without escape sequences of terminals, embedded images,
    replacement and tag characters; and how many characters were removed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    removed = 0
    for marker, pattern in (("\x1b", _ESCAPE), (";base64,", _DATA_URI), ("", _WORTHLESS)):
        if marker in text:
            before = len(text)
            text = pattern.sub("", text)
            removed += before - len(text)
    return text, removed


def clean_markdown(text: str) -> tuple[str, int]:
    """A Markdown text without HTML comments, scripts, style sheets and templates, except in code;
    and how many characters were removed. ``text`` has LF line ends."""
    if not _HIDING.search(text):
        return text, 0
    cleaned = "".join(
        part if is_code else _HIDDEN.sub(lambda match: match["code"] or "", part)
        for is_code, part in _code_and_rest(text)
    )
    return cleaned, len(text) - len(cleaned)


def has_text(text: str) -> bool:
    """Whether there is a letter, a digit or a pictograph: something that can be looked for."""
    return _HAS_TEXT.search(text) is not None


def _code_and_rest(text: str) -> Iterator[tuple[bool, str]]:
    """Code blocks and what stands between them, in order; joined they are ``text``."""
    lines = text.split("\n")
    lines[:-1] = [line + "\n" for line in lines[:-1]]
    done = 0
    for token in _BLOCKS.parse(text):
        if token.type in ("fence", "code_block") and token.map and token.map[0] >= done:
            first, end = token.map
            yield False, "".join(lines[done:first])
            yield True, "".join(lines[first:end])
            done = end
    yield False, "".join(lines[done:])


# The preset's nesting limit of 20 swallows all that follows a list of ten levels.
_BLOCKS = MarkdownIt("commonmark", {"maxNesting": 100}).disable(
    ["normalize", "inline", "text_join"]
)
_BLOCKS.parse("-")  # rule caches are filled at the first use, and not safely by two threads at once
