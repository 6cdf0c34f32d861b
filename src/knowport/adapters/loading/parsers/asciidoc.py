"""AsciiDoc as Markdown: headings, code, tables, lists, and macros as their text.

There is no free library for it in Python, so the common part of the language is read line by line
here. What is not known stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.asciidoc_table import table
from knowport.adapters.loading.parsers.markdown import check_length

_ATTRIBUTE = re.compile(r":(!?[\w-]+!?):(?:\s+(.*))?$")
_HEADING = re.compile(r"(={1,6}|#{1,6})\s+(\S.*?)(?:\s+\1)?$")
_UNDERLINE = re.compile(r"(?:=+|-+|~+|\^+|\++)$")
_UNDERLINES = "=-~^+"
_BLOCK_ATTRIBUTES = re.compile(r"\[(?:[\w.#%*_\"'=]|\[\w).*\]$|\[\]$")
_SOURCE = re.compile(r"\[(?:source|,|%linenums)[^\]]*?,\s*\"?(?P<language>[\w+#-]+)|\[source")
_ADMONITION = re.compile(r"\[(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\b")
_BLOCK_TITLE = re.compile(r"\.([^\s.].*)$")
_ITEM = re.compile(r"\s*(?P<mark>\*{1,6}|-|\.{1,6})\s+(?P<text>\S.*)$")
_DIRECTIVE = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc|video|audio)::\S*?\[[^\]]*\]$")
_VERBATIM = re.compile(r"(-{4,}|\.{4,}|`{3,})(.*)$")
_COMMENT_BLOCK = re.compile(r"/{4,}$")
_CONTAINER = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--|\+{4,}|<{3,})$")
_TABLE = re.compile(r"[|!,:]={3,}$")

_MACROS = (
    (re.compile(r"\[\[[\w:.-]+(?:,[^\]]*)?\]\]"), ""),
    (re.compile(r"<<[^<>,\n]+,\s*([^<>\n]+)>>"), r"\1"),
    (re.compile(r"<<#?([^<>\n]+)>>"), r"\1"),
    (re.compile(r"(?:link:|\b)((?:https?|ftp)://[^\s\[\]]+)\[([^\]\n,^]+)[^\]\n]*\]"), r"[\2](\1)"),
    (re.compile(r"(?:link:)?\b((?:https?|ftp)://[^\s\[\]]+)\[\]"), r"\1"),
    (re.compile(r"(?:xref|link|mailto):[^\s\[\]]*\[([^\]\n,]+)[^\]\n]*\]"), r"\1"),
    (re.compile(r"image::?[^\s\[\]]*\[([^\],\n]*)[^\]\n]*\]"), r"\1"),
    (re.compile(r"(?:kbd|btn|footnote|stem|pass):\w*\[([^\]\n]*)\]"), r"\1"),
    (re.compile(r"menu:([^\s\[\]]+)\[([^\]\n]*)\]"), r"\1 > \2"),
)
_MARKS = {"+": "\n", "'''": "---"}  # goes on with a list item; a rule
_SPECIAL = re.compile(r"[\[{]|<<")
_REFERENCE = re.compile(r"\{([\w-]+)\}")
_BUILT_IN = {"nbsp": " ", "empty": "", "sp": " ", "zwsp": "", "amp": "&", "lt": "<", "gt": ">"}


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """A text in UTF-8 with LF line ends as Markdown."""
    reader = _Reader(data.decode().split("\n"))
    text = "\n".join(reader.blocks())
    check_length(len(text), limits)
    return Parsed(text, "asciidoc", removed=reader.removed)


class _Reader:
    """Goes down the lines once. ``attributes`` are those set so far."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [line.rstrip() for line in lines]
        self._at = 0
        self.attributes = dict(_BUILT_IN)
        self.removed = 0

    def blocks(self) -> Iterator[str]:
        """Lines of Markdown."""
        language = options = ""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if self._is_comment(line) or _DIRECTIVE.match(line) or self._sets_attribute(line):
                continue
            if _BLOCK_ATTRIBUTES.match(line):
                if source := _SOURCE.match(line):
                    language = source["language"] or ""
                if admonition := _ADMONITION.match(line):
                    yield f"**{admonition[1]}**"
                options += line
                continue
            if fence := _VERBATIM.match(line):
                yield from self._verbatim(fence[1], fence[2].strip() or language)
            elif _TABLE.match(line):
                yield from table(map(self._inline, self._until(line)), options)
            elif not _CONTAINER.match(line):
                yield self._line(line)
            if line:
                language = options = ""

    def _is_comment(self, line: str) -> bool:
        if _COMMENT_BLOCK.match(line):
            self.removed += sum(map(len, self._until(line)))
            return True
        if line.startswith("//") and not line.startswith("///"):
            self.removed += len(line)
            return True
        return False

    def _sets_attribute(self, line: str) -> bool:
        match = _ATTRIBUTE.match(line)
        if match:
            self.attributes[match[1].lower()] = match[2] or ""
        return match is not None

    def _until(self, delimiter: str) -> Iterator[str]:
        """Lines up to the delimiter, or to the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line == delimiter:
                return
            yield line

    def _verbatim(self, delimiter: str, language: str) -> Iterator[str]:
        lines = list(self._until(delimiter))
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", "\n".join(lines)))])
        return iter([f"{fence}{language}", *lines, fence])

    def _line(self, line: str) -> str:
        if heading := _HEADING.match(line):
            return f"{'#' * len(heading[1])} {self._inline(heading[2])}"
        if self._is_underlined(line):
            level = _UNDERLINES.index(self._lines[self._at][0]) + 1
            self._at += 1
            return f"{'#' * level} {self._inline(line)}"
        if item := _ITEM.match(line):
            indent = "   " * (len(item["mark"]) - 1)
            mark = "1." if item["mark"].startswith(".") else "-"
            return f"{indent}{mark} {self._inline(item['text'])}"
        if title := _BLOCK_TITLE.match(line):
            return f"**{self._inline(title[1])}**\n"
        return _MARKS.get(line) or self._inline(line)

    def _is_underlined(self, line: str) -> bool:
        """Whether the next line makes this one a heading, as in old AsciiDoc."""
        after = self._lines[self._at] if self._at < len(self._lines) else ""
        alone = self._at < 2 or not self._lines[self._at - 2]
        return bool(
            alone
            and line[:1].isalnum()
            and _UNDERLINE.match(after)
            and abs(len(after) - len(line)) <= 1
        )

    def _inline(self, text: str) -> str:
        if not _SPECIAL.search(text):
            return text
        text = _REFERENCE.sub(lambda name: self.attributes.get(name[1].lower(), name[0]), text)
        for pattern, replacement in _MACROS:
            text = pattern.sub(replacement, text)
        return text
