"""From bytes to text: BOM, UTF-8, UTF-16 without BOM, what the content declares, a guess.

A text is never decoded with replacement characters. Where no encoding is sure the file is refused.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from knowport.adapters.loading.guess import guess_encoding
from knowport.errors import LoadError

_BOMS = (
    (b"\xff\xfe\0\0", "utf-32-le"),  # before UTF-16, whose BOM it begins with
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # ESC colours many a log
_CONTROL_CHARACTERS = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
_DECLARED = re.compile(
    rb"""<meta[^>]{1,500}?charset\s*=\s*["']?\s*([\w.:-]{1,40})"""
    rb"""|\A\s*<\?xml[^>]{1,500}?encoding\s*=\s*["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
# Labels that mean a larger encoding than they say, as browsers read them.
_READ_AS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
_TRUSTED = re.compile(r"utf-8|gb18030|big5|cp9\d\d|cp125\d|iso8859|koi8|euc_|shift_jis|tis")
# What UTF-16 without BOM must be made of; ASCII proves the byte order.
_PLAIN = re.compile(r"[\t\n\r -~]")
_USUAL = re.compile(
    "[\t\n\r -~\xa0-\xff\u2010-\u203b\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef]"
)
_MANY_VALID = 20  # characters beyond ASCII that speak for UTF-8, for each byte that does not
_ASCII = re.compile(rb"[\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """``encoding`` is a Python codec name; ``lost`` counts bytes that were left out."""

    text: str
    encoding: str
    lost: int = 0


def decode(data: bytes, *, declares: bool = False) -> Decoded:
    """Text of a file. With ``declares`` its head may name its encoding, as HTML and XML do.

    Raises LoadError: ``not_text`` for binary data, ``unknown_encoding`` where none is sure.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _with_bom(data[len(bom) :], encoding)
    controls = len(_CONTROLS.findall(data))
    nuls = data.count(0)
    if nuls * 10 <= len(data) and (text := _strict(data, "utf-8")) is not None:
        _refuse_binary(controls * 10 > len(data))
        return Decoded(text, "utf-8")
    if nuls and (utf16 := _utf16(data)):
        return utf16
    _refuse_binary(controls * 100 > len(data))
    declared = _declared(data) if declares else None
    if (mended := _mended_utf8(data, declared=declared == "utf-8")) is not None:
        return mended
    for encoding in filter(None, (declared, guess_encoding(data))):
        if (text := _strict(data, encoding)) is not None:
            return Decoded(text, encoding)
    raise LoadError(
        "The encoding of the file is not sure.",
        reason="unknown_encoding",
        remedy="Convert it to UTF-8.",
    )


def _with_bom(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, "ignore")
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    lost = len(data) - len(text.encode(codec))
    _refuse_binary(
        lost * _MANY_VALID > len(data) or len(_CONTROL_CHARACTERS.findall(text)) * 10 > len(text)
    )
    return Decoded(text, encoding, lost)


def _mended_utf8(data: bytes, *, declared: bool) -> Decoded | None:
    """UTF-8 that was damaged in a few places."""
    text = data.decode("utf-8", "ignore")
    encoded = text.encode()
    lost = len(data) - len(encoded)
    beyond_ascii = len(text) - len(_ASCII.findall(encoded))
    few = lost * _MANY_VALID <= (len(data) if declared else beyond_ascii)
    return Decoded(text, "utf-8", lost) if few else None


def _utf16(data: bytes) -> Decoded | None:
    """UTF-16 without BOM: in one byte order nearly all of it is usual text, and some is ASCII."""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = _strict(data, encoding)
        if (
            text
            and len(_USUAL.findall(text)) >= 0.9 * len(text)
            and len(_PLAIN.findall(text)) >= 0.02 * len(text)
        ):
            return Decoded(text, encoding)
    return None


def _declared(data: bytes) -> str | None:
    """The codec that the head of an HTML or XML text names, None where it is not one we trust."""
    match = _DECLARED.search(data[:4_096])
    if match is None:
        return None
    try:
        name = codecs.lookup((match[1] or match[2]).decode("ascii")).name
    except LookupError:
        return None
    name = _READ_AS.get(name, name)
    return name if _TRUSTED.match(name) else None


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _refuse_binary(binary: bool) -> None:
    if binary:
        raise LoadError(
            "The file holds binary data.", reason="not_text", remedy="Leave it out, or convert it."
        )
