"""From a file to its text: what it is, in which encoding, by which parser, within which limits."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from knowport.adapters.loading.clean import clean_markdown, clean_text, has_text
from knowport.adapters.loading.decode import decode
from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.process import ParserProcess
from knowport.adapters.loading.read import check_size, read_file
from knowport.adapters.loading.sniff import TEXTS, named_kind, sniff
from knowport.errors import LoadError
from knowport.model import LoadedFile, TextFormat

LOADER_VERSION = "2"
"""Another one when other texts are made of the same bytes."""

_PARSERS = {
    "pdf": "pdf",
    "zip": "office",
    "html": "html",
    "csv": "csv",
    "rst": "rst",
    "asciidoc": "asciidoc",
}
_DEFAULT_LIMITS = LoadLimits()
_BINARY = ("pdf", "zip")
_OFFICE = ("docx", "pptx", "xlsx")


class FileLoader:
    """Reads files as documents. Thread-safe.

    Markdown, plain text and source code are read here; all other formats are parsed in up to
    ``processes`` processes, which are started when they are needed and killed if they take more
    than ``limits`` allow. Use it as a context manager, or call ``close``.
    """

    def __init__(self, limits: LoadLimits = _DEFAULT_LIMITS, processes: int = 2) -> None:
        self._limits = limits
        self._idle = [ParserProcess() for _ in range(processes)]
        self._free = threading.Semaphore(processes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the parser processes that are idle; a file that is loaded later starts new ones."""
        for process in self._idle:
            process.close()

    def load(self, path: Path) -> LoadedFile:
        """Read one file. Raises LoadError, whose ``reason`` is one of

        ``unreadable``, ``changed_while_read``, ``too_large``, ``empty``, ``not_text``,
        ``unknown_encoding``, ``unsupported_format``, ``encrypted``, ``broken``, ``zip_bomb``,
        ``forbidden_dtd`` and ``too_slow``.
        """
        return self.load_bytes(read_file(path, self._limits.file_bytes), path.name)

    def load_bytes(self, data: bytes, name: str) -> LoadedFile:
        """Read the content of a file of that name; its ending tells kinds of text apart.

        Raises LoadError, as ``load`` does.
        """
        check_size(len(data), self._limits.file_bytes)
        if not data:
            raise _empty("It has no bytes.")
        kind = ""
        try:
            kind = sniff(data, name)
            parsed, encoding = self._parsed(data, kind)
        except LoadError as error:
            raise _against_name(error, kind, name) from error
        text, removed = clean_text(parsed.text)
        if kind == "markdown":
            text, hidden = clean_markdown(text)
            removed += hidden
        if not has_text(text):
            raise _empty("It holds no text.", kind)
        return LoadedFile(
            text=text,
            text_format=cast(TextFormat, parsed.text_format),
            kind=parsed.kind,
            encoding=encoding,
            title=" ".join(clean_text(parsed.title)[0].split()),
            removed=parsed.removed + removed,
            metadata=parsed.metadata,
            file_hash=hashlib.sha256(data).hexdigest(),
        )

    def _parsed(self, data: bytes, kind: str) -> tuple[Parsed, str]:
        """What the file says, and the encoding it says it in."""
        if kind in _BINARY:
            return self._in_process(kind, data), ""
        decoded = decode(data, declares=kind in ("html", "code"))
        if kind in _PARSERS:
            text, removed = clean_text(decoded.text)
            parsed = self._in_process(kind, text.encode("utf-8", "ignore"))
            return replace(
                parsed, removed=parsed.removed + removed + decoded.lost
            ), decoded.encoding
        text_format = "markdown" if kind == "markdown" else "plain"
        return Parsed(decoded.text, kind, text_format, removed=decoded.lost), decoded.encoding

    def _in_process(self, kind: str, data: bytes) -> Parsed:
        parser = f"knowport.adapters.loading.parsers.{_PARSERS[kind]}"
        with self._process() as process:
            return process.parse(parser, data, self._limits)

    @contextmanager
    def _process(self) -> Iterator[ParserProcess]:
        with self._free:
            process = self._idle.pop()  # the last one used, which runs already
            try:
                yield process
            finally:
                self._idle.append(process)


_USUAL = FileLoader()


def load_file(path: Path) -> LoadedFile:
    """Read one file within the usual limits. Raises LoadError, as ``FileLoader.load`` does."""
    return _USUAL.load(path)


def load_bytes(data: bytes, name: str) -> LoadedFile:
    """Read the bytes of a file of that name within the usual limits. Raises LoadError."""
    return _USUAL.load_bytes(data, name)


def _empty(message: str, kind: str = "") -> LoadError:
    scanned = "Its pages may be scanned: run them through text recognition (OCR)."
    return LoadError(message, reason="empty", remedy=scanned if kind == "pdf" else "")


def _against_name(error: LoadError, kind: str, name: str) -> LoadError:
    """The error in the light of what the file's name promises.

    What is no text is an error under the name of a text, and else a format that is not read.
    """
    named = named_kind(name)
    reason = error.reason
    if reason == "not_text" and not named:
        reason = "unsupported_format"
    elif reason == "unsupported_format" and named in TEXTS:
        reason = "not_text"
    same = named in (kind, "") or (kind == "zip" and named in _OFFICE)
    remark = "" if same or kind in TEXTS else f" Its name, {name!r}, says {named}."
    return LoadError(f"{error.message}{remark}", reason=reason, remedy=error.remedy)
