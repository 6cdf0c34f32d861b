"""Find the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from knowport.adapters.loading.patterns import IGNORE_FILE, Ignored, parse, selector
from knowport.errors import InvalidInput
from knowport.model import FileOutcome, FileResult

CATALOGUE_FILE = "domains.toml"

_LINK = "Links are not followed; what they point to is found only at its own place."
_SPECIAL = "It is neither a file nor a folder."


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is being walked; ``path`` is relative to the root, '' or ending with /."""

    path: str
    ignored: Ignored | None
    entries: Iterator[os.DirEntry[str]]


def find_files(
    root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Iterator[Path | FileResult]:
    """Files below ``root``, or ``root`` itself if it is a file, in order of path.

    Hidden files and folders, the domain catalogue at the top, what a ``.knowportignore`` names and
    what the patterns do not let pass are left out. Links are never followed, so nothing outside of
    ``root`` is reached and nothing is found twice: in place of a link, of what is neither file nor
    folder, and of a folder that cannot be read, comes a result that says so. Raises InvalidInput
    for a wrong pattern, and if ``root`` is not there or cannot be read.
    """
    selects = selector(include, exclude)
    try:
        is_file, is_folder = root.is_file(), root.is_dir()
        if is_file:
            yield root
            return
        if not is_folder:
            raise InvalidInput(
                f"{str(root)!r} does not exist.", field="path", remedy="Name a file or a folder."
            )
        folders = [_opened(str(root), "", None)]
    except OSError as error:
        raise InvalidInput(
            f"{str(root)!r} cannot be read: {error.strerror}.",
            field="path",
            remedy="Mend its permissions, or name another path.",
        ) from error
    while folders:
        folder = folders[-1]
        entry = next(folder.entries, None)
        if entry is None:
            folders.pop()
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        path = f"{folder.path}{entry.name}{'/' if is_folder else ''}"
        file = Path(entry.path)
        if not selects(path) or (folder.ignored is not None and folder.ignored(path)):
            continue
        if is_folder:
            try:
                folders.append(_opened(entry.path, path, folder.ignored))
            except (OSError, InvalidInput) as error:
                problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
                yield FileResult(
                    str(file),
                    FileOutcome.FAILED,
                    reason="unreadable",
                    detail=f"The folder cannot be read: {problem}. What was indexed of it stays.",
                )
        elif entry.is_file(follow_symlinks=False):
            yield file
        else:
            reason, detail = ("link", _LINK) if entry.is_symlink() else ("special", _SPECIAL)
            yield FileResult(str(file), FileOutcome.SKIPPED, reason=reason, detail=detail)


def _opened(folder: str, path: str, above: Ignored | None) -> _Folder:
    """Its entries in order and what is ignored in it. Raises OSError, and InvalidInput for an
    ignore file that cannot be understood."""
    ignored, shown = above, []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == IGNORE_FILE:
                ignored = Ignored(path, _ignore_patterns(entry.path), above)
            elif not entry.name.startswith(".") and (path or entry.name != CATALOGUE_FILE):
                shown.append(entry)
    return _Folder(path, ignored, iter(sorted(shown, key=lambda entry: entry.name)))


def _ignore_patterns(file: str) -> GitIgnoreSpec:
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{file}: it is not UTF-8.", field="path", remedy="Convert it to UTF-8."
        ) from error
    return parse(lines, where=file, field="path")
