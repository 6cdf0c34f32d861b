"""Presentations: a heading for each slide, its texts and tables in order, its notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pptx import Presentation
from pptx.shapes.autoshape import Shape
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.slide import Slide
from pptx.table import Table
from pptx.text.text import TextFrame

from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.archive import broken, packed
from knowport.adapters.loading.parsers.markdown import check_length
from knowport.adapters.loading.parsers.tables import as_text, cell, markdown_table
from knowport.errors import LoadError


def parse_parts(parts: dict[str, bytes], title: str, limits: LoadLimits) -> Parsed:
    """The parts of a presentation as Markdown; hidden slides are left out and counted."""
    try:
        presentation = Presentation(packed(parts))
    except KeyError as error:
        raise broken(f"The presentation lacks a part: {error}.") from error
    slides = list(presentation.slides)
    if len(slides) > limits.pages:
        raise LoadError(
            f"The presentation has {len(slides)} slides; the limit is {limits.pages}.",
            reason="too_large",
            remedy=raised("pages"),
        )
    removed = 0
    pages: list[str] = []
    for number, slide in enumerate(slides, 1):
        page = "\n\n".join(_page(slide, number, first=not pages))
        if slide.element.get("show") in ("0", "false"):
            removed += len(page)
        else:
            pages.append(page)
        check_length(sum(map(len, pages)), limits)
    return Parsed(
        "\n\n".join(pages) + "\n",
        "pptx",
        title=title,
        removed=removed,
        metadata={"slides": len(slides)},
    )


def _page(slide: Slide, number: int, *, first: bool) -> Iterator[str]:
    """Blocks of one slide. The first slide's title heads all others."""
    heading = slide.shapes.title
    words = " ".join(heading.text_frame.text.split()) if heading is not None else ""
    yield f"{'#' if first and words else '##'} {words or f'Slide {number}'}"
    for shape in _flat(slide.shapes):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        if isinstance(shape, GraphicFrame) and shape.has_table:
            yield "".join(_table(shape.table)).rstrip()
        elif isinstance(shape, Shape) and shape.text_frame.text.strip():
            yield _text(shape.text_frame)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {_plain(notes)}"


def _flat(shapes: Iterable[BaseShape]) -> Iterator[BaseShape]:
    for shape in shapes:
        if isinstance(shape, GroupShape):
            yield from _flat(shape.shapes)
        else:
            yield shape


def _text(frame: TextFrame) -> str:
    """Paragraphs as a list, by their level, where there are several; else as they are."""
    paragraphs = [(p.level, _plain(p.text)) for p in frame.paragraphs if p.text.strip()]
    if len(paragraphs) == 1:
        return as_text(paragraphs[0][1])
    return "\n".join(f"{'  ' * level}- {text}" for level, text in paragraphs)


def _table(table: Table) -> Iterator[str]:
    rows = [[cell(c.text) for c in row.cells] for row in table.rows]
    return markdown_table(rows[0], rows[1:]) if rows else iter(())


def _plain(text: str) -> str:
    return " ".join(text.split())
