"""Office documents: which one an archive holds is told by its parts."""

from __future__ import annotations

from importlib import import_module

from lxml import etree

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.archive import broken, entries, safe_parts
from knowport.adapters.loading.parsers.titles import real_title
from knowport.adapters.loading.sniff import unsupported

_TYPES = "[Content_Types].xml"
_KINDS = {"word": "docx", "ppt": "pptx", "xl": "xlsx"}  # by the folder that holds its parts
_CORE = "docProps/core.xml"
_DUBLIN_CORE_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """A DOCX, PPTX or XLSX document. Raises LoadError ``unsupported_format`` for other archives,
    and what ``entries`` and ``safe_parts`` raise."""
    found = entries(data, limits)
    names = {entry.filename for entry in found}
    kinds = {_KINDS.get(name.partition("/")[0]) for name in names} - {None}
    if _TYPES not in names or not kinds:
        raise unsupported(
            "an OpenDocument or EPUB document" if "mimetype" in names else "a ZIP archive"
        )
    parts = safe_parts(data, found, limits)
    # Each brings a library that the other formats do without.
    parser = import_module(f"knowport.adapters.loading.parsers.{min(filter(None, kinds))}")
    parsed: Parsed = parser.parse_parts(parts, _title(parts), limits)
    return parsed


def xml(part: bytes, name: str) -> etree._Element:
    """Root of an XML part. Raises LoadError ``broken``."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        return etree.fromstring(part, parser)
    except etree.XMLSyntaxError as error:
        raise broken(f"{name!r} is not XML: {error.msg}.") from error


def _title(parts: dict[str, bytes]) -> str:
    if not parts.get(_CORE):
        return ""
    return real_title(xml(parts[_CORE], _CORE).findtext(_DUBLIN_CORE_TITLE) or "")
