"""Find text files below a folder and read them as UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from knowport.errors import InvalidInput, LoadError
from knowport.model import LoadedFile, TextFormat

FORMATS: dict[str, TextFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "plain",
}
MAX_FILE_BYTES = 64_000_000


def find_files(root: Path) -> Iterator[Path]:
    """Files below ``root``, or ``root`` itself if it is a file, in order of path.

    Hidden files and folders are left out, and links are not followed out of the tree. Raises
    InvalidInput if ``root`` is not there or cannot be listed.
    """
    if root.is_file():
        yield root
        return
    if not root.is_dir():
        raise InvalidInput(
            f"{str(root)!r} does not exist.", field="path", remedy="Name a file or a folder."
        )
    yield from _below(root)


def _below(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InvalidInput(
            f"The folder {str(folder)!r} cannot be listed: {error.strerror}.", field="path"
        ) from error
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _below(entry)
        elif entry.is_file():
            yield entry


def load_file(path: Path) -> LoadedFile:
    """Read one file. Raises LoadError with a reason: ``unsupported_format``, ``too_large``,
    ``unreadable``, ``not_text`` or ``not_utf8``."""
    text_format = FORMATS.get(path.suffix.lower())
    if text_format is None:
        raise LoadError(
            f"{path.suffix or 'a name without an ending'} is not a known text format.",
            reason="unsupported_format",
            remedy=f"Known: {', '.join(sorted(FORMATS))}.",
        )
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise LoadError(
                f"The file has {size} bytes; the limit is {MAX_FILE_BYTES}.", reason="too_large"
            )
        raw = path.read_bytes()
    except OSError as error:
        raise LoadError(f"The file cannot be read: {error.strerror}.", reason="unreadable") from error
    if raw.count(b"\0") * 100 > len(raw):  # a stray NUL is cleaned later; many are not text
        raise LoadError("The file holds binary data.", reason="not_text")
    try:
        return LoadedFile(raw.decode("utf-8"), text_format)
    except UnicodeDecodeError as error:
        raise LoadError(
            f"The file is not UTF-8: byte {error.start} cannot be decoded.",
            reason="not_utf8",
            remedy="Convert it to UTF-8.",
        ) from error
