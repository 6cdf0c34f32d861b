"""Opens the ZIP archive of an office document so that no parser has to trust it.

Only the XML parts are inflated, and their bytes are counted while they are; what the archive says
of their sizes is not believed. The parsers then get a new archive, packed without compression,
that holds exactly what was counted, and empty files in place of pictures.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator

from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.adapters.loading.sniff import encrypted
from knowport.errors import LoadError

_PIECE, _BLOCK = 4_096, 65_536  # packed bytes read at once, inflated bytes given out at once
_FREE_OF_RATIO = 1_000_000  # small parts of many repetitions are nothing unusual
_LOCAL_HEADER = 30
_ENCRYPTED_FLAG = 0x1
_XML = (".xml", ".rels")


def entries(data: bytes, limits: LoadLimits) -> list[zipfile.ZipInfo]:
    """What an archive says it holds. Raises LoadError ``broken``, or ``too_large`` for too many."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise broken(f"The archive cannot be opened: {error}.") from error
    if len(found) > limits.entries:
        raise LoadError(
            f"The archive has {len(found)} entries; the limit is {limits.entries}.",
            reason="too_large",
            remedy=raised("entries"),
        )
    return found


def safe_parts(data: bytes, found: list[zipfile.ZipInfo], limits: LoadLimits) -> dict[str, bytes]:
    """Contents of the entries by name; those that are not XML are empty.

    Raises LoadError: ``broken``, ``encrypted``, ``too_large``, ``zip_bomb`` (a size that lies, a
    ratio that no document has) or ``forbidden_dtd``.
    """
    parts: dict[str, bytes] = {}
    room = limits.inflated_bytes
    for entry in found:
        if entry.flag_bits & _ENCRYPTED_FLAG:
            raise encrypted()
        if not entry.filename.lower().endswith(_XML):
            parts[entry.filename] = b""
            continue
        part = _inflated(data, entry, room, limits)
        room -= len(part)
        if b"<!DOCTYPE" in (part.replace(b"\0", b"") if b"\0" in part else part):
            raise LoadError(
                f"{entry.filename!r} declares a document type, which no office document needs.",
                reason="forbidden_dtd",
            )
        parts[entry.filename] = part
    return parts


def packed(parts: dict[str, bytes]) -> io.BytesIO:
    """An archive of these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    file.seek(0)
    return file


def broken(message: str) -> LoadError:
    """The error for a file that its parser cannot make sense of."""
    return LoadError(message, reason="broken", remedy="Open it in its program and save it anew.")


def _inflated(data: bytes, entry: zipfile.ZipInfo, room: int, limits: LoadLimits) -> bytes:
    start = entry.header_offset
    header = data[start : start + _LOCAL_HEADER]
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise broken(f"{entry.filename!r} is not where the archive says.")
    start += _LOCAL_HEADER + int.from_bytes(header[26:28], "little")
    start += int.from_bytes(header[28:30], "little")
    source = memoryview(data)[start : start + entry.compress_size]
    if entry.compress_type == zipfile.ZIP_STORED:
        part = bytes(source)
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        part = _deflated(source, entry, room, limits)
    else:
        raise broken(f"{entry.filename!r} is packed by a method that is not read.")
    if len(part) > room:
        raise _too_large(limits)
    if len(part) > entry.file_size:
        raise LoadError(f"{entry.filename!r} is larger than the archive says.", reason="zip_bomb")
    if zlib.crc32(part) != entry.CRC:
        raise broken(f"{entry.filename!r} is damaged.")
    return part


def _deflated(source: memoryview, entry: zipfile.ZipInfo, room: int, limits: LoadLimits) -> bytes:
    ratio_limit = max(_FREE_OF_RATIO, limits.inflation_ratio * len(source))
    blocks = []
    size = 0
    try:
        for block in _inflate(source):
            blocks.append(block)
            size += len(block)
            if size > room:
                raise _too_large(limits)
            if size > ratio_limit:
                raise LoadError(
                    f"{entry.filename!r} inflates to more than {limits.inflation_ratio} times its "
                    "size.",
                    reason="zip_bomb",
                    remedy="If it is to be trusted, raise loading.inflation_ratio.",
                )
            if size > entry.file_size:
                break  # the caller refuses it
    except zlib.error as error:
        raise broken(f"{entry.filename!r} is damaged: {error}.") from error
    return b"".join(blocks)


def _inflate(source: memoryview) -> Iterator[bytes]:
    """Inflated blocks of at most _BLOCK bytes."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    for start in range(0, len(source), _PIECE):
        piece = bytes(source[start : start + _PIECE])
        while block := stream.decompress(piece, _BLOCK):
            yield block
            piece = stream.unconsumed_tail
    yield stream.flush()


def _too_large(limits: LoadLimits) -> LoadError:
    return LoadError(
        f"The archive inflates to more than {limits.inflated_bytes} bytes.",
        reason="too_large",
        remedy=raised("inflated_bytes"),
    )
