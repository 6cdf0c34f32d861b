"""Markdown from clean HTML, for all formats that come by way of HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from html_to_markdown import ConversionOptions, PreprocessingOptions, WarningKind, convert

from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.errors import LoadError

_OPTIONS = ConversionOptions(
    bullets="-",
    sup_symbol="^",  # 10 to the power of 3 is not 103
    compact_tables=True,
    extract_metadata=False,
    autolinks=False,
    highlight_style="none",
    skip_images=True,
    hidden_content="all",  # what is hidden was removed before, and counted
    preprocessing=PreprocessingOptions(enabled=False, remove_navigation=False, remove_forms=False),
)
_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})")
# "1\. Text" and "\- text" are harmless as what they look like; "\# text" must not be a heading.
_NEEDLESS_ESCAPE = re.compile(r"^([ >]*)(?:(\d+)\\([.)])|\\([-+*])(?![-+*]))")

# These would open a block of HTML, which swallows what follows.
_OPENS_HTML = re.compile(
    r"^((?:[ >]|[-*+] |\d+[.)] )*)<(?=[!?]|(?:script|pre|style|textarea)\b)", re.IGNORECASE
)


def to_markdown(html: str, limits: LoadLimits) -> str:
    """Text of an HTML fragment with headings, lists, tables and code as Markdown.

    Raises LoadError ``broken`` where it is nested too deeply, ``too_large``.
    """
    result = convert(html, _OPTIONS)
    if any(warning.kind == WarningKind.DEPTH_LIMIT_EXCEEDED for warning in result.warnings):
        raise LoadError("Its elements are nested too deeply.", reason="broken")
    text = result.content or ""
    check_length(len(text), limits)
    return "\n".join(_as_text(text))


def check_length(characters: int, limits: LoadLimits) -> None:
    """Raises LoadError ``too_large`` where a text is longer than the limit."""
    if characters > limits.characters:
        raise LoadError(
            f"Its text is longer than {limits.characters} characters.",
            reason="too_large",
            remedy=raised("characters"),
        )


def _as_text(text: str) -> Iterator[str]:
    """Lines in which text outside of code is not read as markup, and has no needless escapes."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        if fence:
            yield line
        else:
            yield _OPENS_HTML.sub(r"\1\\<", _NEEDLESS_ESCAPE.sub(r"\1\2\3\4", line))
