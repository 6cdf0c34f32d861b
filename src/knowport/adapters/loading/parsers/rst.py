"""reStructuredText: docutils makes HTML of it.

Sphinx adds directives, options and roles that docutils does not know. Their text is kept: such a
directive stands for its argument and its content, such a role for its text. What docutils refuses
all the same is kept as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en
from lxml import html

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.html import render

_SETTINGS = {
    "_disable_config": True,  # of the current folder
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 3,  # messages of errors hold the source of what was refused
    "halt_level": 5,
    "warning_stream": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "toc_backlinks": False,
    "initial_header_level": 1,
    "traceback": True,
}
_DIRECTIVE = re.compile(r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w:.+-]+?)::", re.MULTILINE)
_ROLE = re.compile(r":([A-Za-z][\w:.+-]*):`|`:([A-Za-z][\w:.+-]*):")
_WITHOUT_TEXT = frozenset(
    """
    autoclass autofunction automethod automodule autosummary contents currentmodule default-domain
    default-role highlight include index literalinclude meta module raw sectionauthor
    tabularcolumns toctree
    """.split()
)
_CODE = frozenset("code code-block prompt sourcecode".split())
_PROSE = frozenset("abbr doc guilabel menuselection numref ref term".split())
_WITH_TARGET = re.compile(r"(?P<text>.+?)\s*<[^<>]+>\Z", re.DOTALL)


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """A text in UTF-8 as Markdown."""
    source = data.decode()
    for name in {name.lower() for name in _DIRECTIVE.findall(source)}:
        if name in _CODE or name in _WITHOUT_TEXT or name not in en.directives:
            directives.register_directive(name, _AnyDirective)
    for name in {(before or after).lower() for before, after in _ROLE.findall(source)}:
        if name not in en.roles:
            # The stubs know only roles that make references.
            roles.register_local_role(name, cast(Any, _any_role))
    body = publish_parts(source, writer="html5", settings_overrides=_SETTINGS)["body"]
    root = html.fromstring(f"<div>{body}</div>")
    _drop_messages(root)
    _mark_code(root)
    text, removed = render(root, limits)
    return Parsed(text, "rst", removed=removed)


class _AnyOption(dict[str, Callable[[str], str]]):
    """Every option is known, and says nothing."""

    def __getitem__(self, name: str) -> Callable[[str], str]:
        return lambda argument: argument or ""

    def __bool__(self) -> bool:
        return True


class _AnyDirective(Directive):
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> list[nodes.Node]:
        if self.name in _WITHOUT_TEXT:
            return []
        if self.name in _CODE:
            return self._code()
        result: list[nodes.Node] = []
        if self.arguments:
            words, messages = self.state.inline_text(self.arguments[0], self.lineno)
            result = [nodes.paragraph("", "", *words), *messages]
        content = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, content)
        return result + content.children

    def _code(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        return [nodes.literal_block(code, code, classes=["code", *self.arguments])] if code else []


def _any_role(
    name: str, rawtext: str, text: str, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    text = nodes.unescape(text)
    target = _WITH_TARGET.match(text)
    words = (target["text"] if target else text).lstrip("~!")
    kind = nodes.inline if name in _PROSE else nodes.literal
    return [kind(rawtext, words)], []


def _drop_messages(root: html.HtmlElement) -> None:
    """Leave the source of what was refused in place of the messages about it."""
    for section in root.xpath(".//*[contains(@class, 'system-messages')]"):
        section.drop_tree()
    for message in root.xpath(".//aside[contains(@class, 'system-message')]"):
        for words in message.xpath("./p"):
            words.drop_tree()
        message.drop_tag()


def _mark_code(root: html.HtmlElement) -> None:
    for literal in root.xpath(".//span[contains(@class, 'literal')]"):
        literal.tag = "code"
    for code in root.xpath(".//pre/code"):
        languages = set(code.getparent().get("class", "").split()) - {"code", "literal-block"}
        code.set("class", f"language-{min(languages, default='')}")
