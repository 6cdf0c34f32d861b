"""What no reader of a text sees, taken out of it before anything else looks at it."""

from __future__ import annotations

import re
import sys

# A replacement character tells only that something was lost before; tag characters are invisible.
_WORTHLESS = re.compile("[\ufffd\U000e0000-\U000e007f]")
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # window titles and links
    r"|[()*+#%][0-~]|[=>78DEHMNOZc])"  # character sets and modes
)
_DATA_URI = re.compile(r"data:[\w.+-]*/?[\w.+-]*(?:;[\w=.-]+)*;base64,[A-Za-z0-9+/=%_-]{200,}")
_HAS_TEXT = re.compile(r"[^\W_]|[\u2190-\u2bff\U0001f000-\U0001faff]")

_HIDING = re.compile(r"<!--|<(?:script|style|template)\b", re.IGNORECASE)
# What hides text in Markdown, and the code in which nothing is hidden.
_OPENER = re.compile(
    r"(?P<comment><!--)"
    r"|(?P<element><(?P<tag>script|style|template)\b)"
    r"|(?P<indented>(?:\A|(?<=\n\n))(?:(?: {4}|\t).*(?:\n|\Z))+)"
    r"|(?P<fence>^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])(?=[ \t]))*[ \t]*"
    r"(?P<marks>`{3,}(?=[^`\n]*$)|~{3,}).*)"
    r"|(?P<span>`+)",
    re.IGNORECASE | re.MULTILINE,
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
    and how many characters were removed. ``text`` has LF line ends.

    What is never closed is kept, but for a fence, which ends with the text.
    """
    if not _HIDING.search(text):
        return text, 0
    closers = _Closers(text)
    kept: list[str] = []
    done = at = 0
    while opener := _OPENER.search(text, at):
        at = closers.end_of(opener)
        if (opener["comment"] or opener["element"]) and at > opener.end():
            kept.append(text[done : opener.start()])
            done = at
    kept.append(text[done:])
    cleaned = "".join(kept)
    return cleaned, len(text) - len(cleaned)


def has_text(text: str) -> bool:
    """Whether there is a letter, a digit or a pictograph: something that can be looked for."""
    return _HAS_TEXT.search(text) is not None


class _Closers:
    """Finds where what was opened ends. A closer that was looked for in vain is not looked for
    again, so that many openers without one take no quadratic time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[tuple[str, int]] = set()
        self._paragraph = -1  # where the one ends that was last looked into

    def end_of(self, opener: re.Match[str]) -> int:
        """End of what it opens; of the opener itself where nothing closes it."""
        if opener["comment"]:
            return self._after(r"-->", opener.start() + 2) or opener.end()
        if opener["element"]:
            return self._after(rf"(?i:</{opener['tag']}\s*>)", opener.end()) or opener.end()
        if opener["indented"]:
            return opener.end()
        if marks := opener["marks"]:
            closing = rf"(?m:^[ \t>]*{marks[0]}{{{len(marks)},}}[ \t]*$)"
            return self._after(closing, opener.end()) or len(self._text)
        if self._paragraph < opener.end():
            blank = self._text.find("\n\n", opener.end())
            self._paragraph = blank if blank >= 0 else len(self._text)
        ticks = rf"(?<!`){opener['span']}(?!`)"
        return self._after(ticks, opener.end(), self._paragraph) or opener.end()

    def _after(self, closer: str, start: int, end: int = sys.maxsize) -> int | None:
        if (closer, end) in self._missing:
            return None
        found = re.compile(closer).search(self._text, start, end)
        if found is None:
            self._missing.add((closer, end))
            return None
        return found.end()
