"""The encoding of a text that says nothing of it and is not Unicode.

chardet ranks the encodings. Its first choice counts only where the text gives it enough to go by
and no other encoding, which would give another text, comes near: a wrong guess is indexed as
nonsense that nobody finds, while a refusal names the file.
"""

from __future__ import annotations

import codecs
import re

SAMPLE_BYTES = 64_000
_MULTIBYTE = {
    "gb18030": ("gb18030",),
    "big5": ("big5", "cp950", "big5hkscs"),
    "cp932": ("cp932",),
    "euc_jp": ("euc_jp",),
    "cp949": ("cp949",),
}
_SAME_FAMILY = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5hkscs": "big5",
    "cp950": "big5",
    "shift_jis": "cp932",
    "shift_jis_2004": "cp932",
    "euc_jis_2004": "euc_jp",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
    "iso8859-15": "cp1252",
}
_MULTIBYTE_EVIDENCE = 16  # bytes beyond ASCII
_WESTERN_EVIDENCE = 8
_MARGIN = 1.5  # first choice over the next one
# What Western European texts have beyond ASCII: letters, alone or in pairs between ASCII letters,
# quotes, dashes, spaces and a few signs.
_WESTERN = re.compile(
    rb"(?<![\x80-\xff])[\xc0-\xd6\xd8-\xf6\xf8-\xff\x8a\x8c\x8e\x9a\x9c\x9e\x9f]{1,2}(?![\xc0-\xff])"
    rb"|[\x80\x85\x91-\x97\x99\xa0\xa1\xa3\xa7\xa9-\xab\xae\xb0\xb2\xb7\xba\xbb\xbf]"
)
_USUAL_SHARE = 0.9
# Signs with the same place in all Windows encodings: enough, where there is nothing else.
_OTHER_THAN_SIGNS = re.compile(
    rb"[\x80-\x84\x86-\x90\x98-\x9f\xa1-\xa8\xaa\xac\xad\xaf\xb1-\xb6\xb8-\xba\xbc-\xff]"
    rb"|[\x80-\xff]{2}"
)
_HANGUL = re.compile(rb"[\xb0-\xc8][\xa1-\xfe]")  # in EUC-KR
_ASCII_LETTERS = re.compile(rb"[A-Za-z]")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")


def guess_encoding(data: bytes) -> str | None:
    """Python codec name of the one encoding that is likely by far, else None.

    ``data`` has something beyond ASCII.
    """
    if not _OTHER_THAN_SIGNS.search(data):
        return "cp1252"
    sample = _sample(data)
    evidence = len(_BEYOND_ASCII.findall(sample))
    ranking = _ranking(sample)
    if not ranking:
        return None
    first, score, text = ranking[0]
    others = (other_score for _, other_score, other in ranking[1:] if other != text)
    clear = score >= _MARGIN * next(others, 0.0)
    if first in _MULTIBYTE:
        sure = clear and evidence >= _MULTIBYTE_EVIDENCE
        if not sure or (first == "cp949" and not _korean(sample)):
            return None
        return next((name for name in _MULTIBYTE[first] if _decodes(data, name)), None)
    if text == _decoded(sample, "cp1252") and evidence >= _WESTERN_EVIDENCE and _western(sample):
        return "cp1252"
    return None


def _sample(data: bytes) -> bytes:
    """The first lines with something beyond ASCII: the rest says nothing."""
    size = 0
    lines = []
    for line in data.splitlines():
        if not line.isascii():
            lines.append(line[:SAMPLE_BYTES])
            size += len(lines[-1])
            if size >= SAMPLE_BYTES:
                break
    return b"\n".join(lines)


def _ranking(sample: bytes) -> list[tuple[str, float, str]]:
    """Encodings with their score and what they make of the sample, best first."""
    import chardet  # noqa: PLC0415 - its tables are large, and most folders never need them

    found = chardet.detect_all(
        sample,
        ignore_threshold=True,
        encoding_era=chardet.EncodingEra.MODERN_WEB | chardet.EncodingEra.LEGACY_ISO,
    )
    ranking = []
    for result in found:
        name = result["encoding"]
        if name is None or (text := _decoded(sample, name)) is None:
            continue
        codec = codecs.lookup(name).name
        ranking.append((_SAME_FAMILY.get(codec, codec), result["confidence"], text))
    return ranking


def _korean(sample: bytes) -> bool:
    """Nearly all is the usual syllables. Chinese text read as Korean has Chinese signs and rare
    syllables among them."""
    beyond = len(_BEYOND_ASCII.findall(sample))
    return 2 * len(_HANGUL.findall(sample)) >= _USUAL_SHARE * beyond


def _western(sample: bytes) -> bool:
    beyond = len(_BEYOND_ASCII.findall(sample))
    usual = sum(map(len, _WESTERN.findall(sample)))
    ascii_letters = len(_ASCII_LETTERS.findall(sample))
    return usual >= _USUAL_SHARE * beyond and ascii_letters >= beyond


def _decoded(sample: bytes, encoding: str) -> str | None:
    """Text of a sample, which may end inside a character."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except (UnicodeDecodeError, LookupError):
        return None


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
