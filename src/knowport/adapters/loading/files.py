"""Find text files below a folder and read them as UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowport.errors import ConfigurationError, InvalidInput, LoadError
from knowport.model import LoadedFile, TextFormat

FORMATS: dict[str, TextFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "plain",
}
MAX_FILE_BYTES = 64_000_000
CATALOGUE_FILE = "domains.toml"


def find_files(root: Path) -> Iterator[Path]:
    """Files below ``root``, or ``root`` itself if it is a file, in order of path.

    Below ``root``, hidden files and folders and all links are left out. Raises InvalidInput if
    ``root`` is not there, or if it or a folder below it cannot be read.
    """
    with _refusing(root):
        is_file, is_folder = root.is_file(), root.is_dir()
    if is_file:
        yield root
    elif is_folder:
        yield from _below(root)
    else:
        raise InvalidInput(
            f"{str(root)!r} does not exist.", field="path", remedy="Name a file or a folder."
        )


def _below(folder: Path) -> Iterator[Path]:
    with _refusing(folder):
        shown = (
            entry
            for entry in folder.iterdir()
            if not entry.name.startswith(".") and entry.name != CATALOGUE_FILE
        )
        kinds = [
            (entry, entry.is_dir(), entry.is_file())
            for entry in sorted(shown)
            if not entry.is_symlink()
        ]
    for entry, is_folder, is_file in kinds:
        if is_folder:
            yield from _below(entry)
        elif is_file:
            yield entry


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{str(path)!r} cannot be read: {error.strerror}.",
            field="path",
            remedy="Mend its permissions, or name another path.",
        ) from error


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
        raise LoadError(
            f"The file cannot be read: {error.strerror}.", reason="unreadable"
        ) from error
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


def read_catalogue(root: Path) -> str | None:
    """The text of ``domains.toml`` at the top of a folder, or None. Raises ConfigurationError."""
    path = root / CATALOGUE_FILE
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
