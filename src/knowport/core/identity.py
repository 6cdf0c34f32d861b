"""Document ids and evidence keys."""

from __future__ import annotations

import re
import unicodedata

from knowport.errors import InvalidInput

MAX_DOC_ID_BYTES = 400
# Control characters (Unicode category Cc) and surrogates (Cs).
_UNUSABLE = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
# At most 18 digits: the engine's integers end there.
_KEY_END = re.compile(r"#chunk-(0|[1-9][0-9]{0,17})\Z")


def make_doc_id(source: str, relative_path: str) -> str:
    """``source/relative/path`` as a checked document id."""
    return checked_doc_id(f"{source}/{relative_path}")


def checked_doc_id(doc_id: str) -> str:
    """The id in NFC; raises InvalidInput for an id that could not be stored or told apart.

    Refused: blank, control characters, lone surrogates, over 400 UTF-8 bytes, an absolute path,
    an empty, ``.`` or ``..`` segment, and an ending that reads as an evidence key.
    """
    name = unicodedata.normalize("NFC", doc_id)
    problem = _problem(name)
    if problem:
        shown = name if len(name) <= 80 else name[:80] + "…"
        raise InvalidInput(
            f"Document id {shown!r} {problem}.",
            field="doc_id",
            remedy="Rename the file, or choose another source name.",
        )
    return name


def _problem(name: str) -> str | None:
    if not name.strip():
        return "is blank"
    if _UNUSABLE.search(name):
        return "holds a control character or a lone surrogate"
    if (size := len(name.encode())) > MAX_DOC_ID_BYTES:
        return f"has {size} UTF-8 bytes; the limit is {MAX_DOC_ID_BYTES}"
    if any(segment.strip() in {"", ".", ".."} for segment in name.split("/")):
        return "has an empty, '.' or '..' segment, or begins or ends with '/'"
    if _KEY_END.search(name):
        return "ends like an evidence key (#chunk-N)"
    return None


def evidence_key(doc_id: str, chunk_index: int | None, vector_id: str, rank: int) -> str:
    """The identity of a piece of evidence: ``doc_id#chunk-N``, else ``vector:ID``, else ``rank:R``.

    ``rank`` is the original rank inside the lookup, from 1.
    """
    if doc_id and chunk_index is not None:
        return f"{doc_id}#chunk-{chunk_index}"
    return f"vector:{vector_id}" if vector_id else f"rank:{rank}"


def parse_evidence_key(key: str) -> tuple[str, int]:
    """``(doc_id, chunk_index)`` of a chunk's key, split at its last ``#chunk-``.

    Raises InvalidInput for anything else.
    """
    match = _KEY_END.search(key)
    if match is None or match.start() == 0:
        raise InvalidInput(
            f"{key!r} is not an evidence key.",
            field="document_id",
            remedy="An evidence key looks like handbook/page.md#chunk-3.",
        )
    return key[: match.start()], int(match[1])
