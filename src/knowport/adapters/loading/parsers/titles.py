"""Titles that documents carry in their properties."""

from __future__ import annotations

import re

_NO_TITLE = re.compile(
    r"microsoft (?:word|powerpoint|excel) - .*"
    r"|(?:(?:microsoft )?(?:word|powerpoint|excel) )?(?:document|presentation|book|sheet) ?\d*"
    r"|(?:powerpoint ?)?(?:演示文稿|文档|工作簿|幻灯片) ?\d*"
    r"|(?:untitled|slide) ?\d*",
    re.IGNORECASE,
)


def real_title(title: str) -> str:
    """The title on one line, '' where it is one that a program writes of itself."""
    title = " ".join(title.split())
    return "" if _NO_TITLE.fullmatch(title) else title
