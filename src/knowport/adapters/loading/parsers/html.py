"""HTML without what its reader does not see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree, html

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.markdown import to_markdown
from knowport.errors import LoadError

_UNSEEN_TAGS = frozenset(
    "script style template noscript iframe object embed audio video canvas datalist".split()
)
# Breaks and hyphens that may be shown, marks of writing direction, tags; not joiners.
_UNSEEN_CHARACTERS = re.compile(
    "[\xad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufffd\U000e0000-\U000e007f]"
)
# Controls, and ends after which libxml2 would read nothing more.
_NOISE = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]|</(?:html|body)\s*>", re.IGNORECASE)
_ZERO = re.compile(r"0+(?:\.0*)?(?:[a-z]{2,4}|%)?|\.0+(?:[a-z]{2,4}|%)?")
_PERMALINK = re.compile(r"[\s\xb6#\xa7\U0001f517]*")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_MAX_DEPTH = 400  # well below the depths at which libxml2 and the converter drop text


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """A page, in UTF-8 whatever it says of itself, as Markdown."""
    source = _NOISE.sub("", data.decode())
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_pis=True)
    try:
        root = html.document_fromstring(source.encode(), parser=parser, ensure_head_body=True)
    except etree.ParserError:  # there is no element
        return Parsed("", "html")
    except etree.XMLSyntaxError as error:  # HTML has no wrong syntax: libxml2 got no memory
        raise MemoryError from error
    title = " ".join((root.findtext("head/title") or "").split())
    title, invisible = _UNSEEN_CHARACTERS.subn("", title)
    removed = invisible + _remove_unseen(root)
    text, invisible = render(root, limits)
    return Parsed(text, "html", title=title, removed=removed + invisible)


def render(root: html.HtmlElement, limits: LoadLimits) -> tuple[str, int]:
    """An element, all of which is shown, as Markdown; and how many characters were removed."""
    _simplify(root)
    removed = _clean_texts(root)
    return to_markdown(html.tostring(root, encoding="unicode"), limits), removed


def _remove_unseen(root: html.HtmlElement) -> int:
    """Drop what is not shown; returns how many characters of text that were."""
    removed = _drop_all(filter(_is_unseen, root.iter()))
    for head in list(root.iter("head")):
        head.drop_tree()
    menus = root.xpath("//nav | //*[@role='navigation']")
    if _length(root) > sum(map(_length, menus)):  # a page of links alone is its menu
        removed += _drop_all(menus)
    return removed


def _drop_all(elements: Iterable[html.HtmlElement]) -> int:
    """Remove elements but not the texts after them; how many characters of text they had."""
    removed = 0
    dropped: set[html.HtmlElement] = set()
    for element in list(elements):
        inside = not dropped.isdisjoint(element.iterancestors())
        if element.getparent() is not None and not inside:
            removed += _length(element)
            element.drop_tree()
            dropped.add(element)
    return removed


def _is_unseen(element: html.HtmlElement) -> bool:
    if not isinstance(element.tag, str):  # a comment
        return True
    return (
        element.tag in _UNSEEN_TAGS
        or element.get("hidden") is not None
        or _hiding_style(element.get("style", ""))
        or (
            element.tag == "a"
            and _PERMALINK.fullmatch(element.text_content()) is not None
            and any(ancestor.tag in _HEADINGS for ancestor in element.iterancestors())
        )
    )


def _hiding_style(style: str) -> bool:
    if not style:
        return False
    for declaration in re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL).lower().split(";"):
        name, _, value = declaration.replace("!important", "").partition(":")
        match name.strip(), value.strip():
            case ("display", "none") | ("visibility", "hidden" | "collapse"):
                return True
            case ("opacity" | "font-size", size) if _ZERO.fullmatch(size):
                return True
    return False


def _length(element: html.HtmlElement) -> int:
    if not isinstance(element.tag, str):
        return len(element.text or "")
    return sum(map(len, element.itertext()))


def _simplify(root: html.HtmlElement) -> None:
    """Links within the site become their text, pictures what they say instead, captions text."""
    for link in list(root.iter("a")):
        address = link.get("href", "")
        if address == link.text_content() or not address.startswith(("http://", "https://")):
            link.drop_tag()
    for picture in list(root.iter("img", "area")):
        _replace_by_text(picture, picture.get("alt", ""))
    for drawing in list(root.iter("svg")):
        labels = (label.text_content().strip() for label in drawing.iter("text"))
        _replace_by_text(drawing, " ".join(labels))
    for caption in list(root.iter("caption")):
        table = caption.getparent()
        if table.tag == "table" and table.getparent() is not None:
            caption.tag = "p"
            table.addprevious(caption)


def _replace_by_text(element: html.HtmlElement, text: str) -> None:
    element.tail = text + (element.tail or "")
    element.drop_tree()


def _clean_texts(root: html.HtmlElement) -> int:
    """Take invisible characters out of all texts; returns how many were removed."""
    removed = 0
    for element, attribute in _texts(root):
        before: str = getattr(element, attribute)
        text = _UNSEEN_CHARACTERS.sub("", before).replace("\xa0", " ")
        removed += len(before) - len(text)
        if text != before:
            setattr(element, attribute, text)
    return removed


def _texts(root: html.HtmlElement) -> Iterator[tuple[html.HtmlElement, str]]:
    """Each text as element and attribute."""
    depth = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > _MAX_DEPTH:
            raise LoadError("Its elements are nested too deeply.", reason="broken")
        attribute = "text" if event == "start" else "tail"
        if getattr(element, attribute):
            yield element, attribute
