"""Word documents: mammoth makes HTML of them, with headings by style."""

from __future__ import annotations

import re
from collections.abc import Iterator

import mammoth
from lxml import etree, html

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.archive import broken, packed
from knowport.adapters.loading.parsers.html import render
from knowport.adapters.loading.parsers.office import xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STYLES = "word/styles.xml"
_BODY = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_OFF = ("0", "false", "off")
_DEEPEST_HEADING = 6


def parse_parts(parts: dict[str, bytes], title: str, limits: LoadLimits) -> Parsed:
    """The parts of a document as Markdown; hidden runs are left out and counted."""
    removed = 0
    for name, part in parts.items():
        if _BODY.fullmatch(name) and b"vanish" in part:
            parts[name], hidden = _without_hidden_runs(xml(part, name))
            removed += hidden
    styles = "\n".join(_style_map(xml(parts[_STYLES], _STYLES))) if parts.get(_STYLES) else ""
    try:
        page = mammoth.convert_to_html(
            packed(parts),
            style_map=styles,
            convert_image=mammoth.images.img_element(lambda _: {}),
        )
    except (KeyError, OSError) as error:
        raise broken(f"The document lacks a part: {error}") from error
    text, invisible = render(html.fromstring(f"<div>{page.value}</div>"), limits)
    return Parsed(text, "docx", title=title, removed=removed + invisible)


def _without_hidden_runs(root: etree._Element) -> tuple[bytes, int]:
    removed = 0
    for mark in list(root.iter(f"{_W}vanish")):
        run = mark.getparent().getparent()
        if run is None or run.tag != f"{_W}r" or mark.get(f"{_W}val", "1").lower() in _OFF:
            continue
        removed += sum(len(text.text or "") for text in run.iter(f"{_W}t"))
        run.getparent().remove(run)
    return etree.tostring(root, encoding="utf-8", xml_declaration=True), removed


def _style_map(root: etree._Element) -> Iterator[str]:
    """mammoth's own map knows the built-in headings by name only; here those of an organisation,
    which have an outline level or are based on a style that has one."""
    styles = {style.get(f"{_W}styleId"): style for style in root.iter(f"{_W}style")}
    yield "p[style-name='Title'] => h1:fresh"
    for style_id, style in styles.items():
        level = _outline_level(style, styles)
        if style_id and level is not None and "'" not in style_id:
            yield f"p.{_escaped(style_id)} => h{min(level + 1, _DEEPEST_HEADING)}:fresh"


def _outline_level(
    style: etree._Element | None, styles: dict[str | None, etree._Element]
) -> int | None:
    seen = set()
    while style is not None and style not in seen:
        seen.add(style)
        level = style.find(f"{_W}pPr/{_W}outlineLvl")
        if level is not None:
            value = level.get(f"{_W}val", "")
            return int(value) if value in set("012345678") else None  # 9 is body text
        based_on = style.find(f"{_W}basedOn")
        style = styles.get(based_on.get(f"{_W}val")) if based_on is not None else None
    return None


def _escaped(style_id: str) -> str:
    return re.sub(r"([^\w-])", r"\\\1", style_id)
