"""Small reads beside the loader: the digest of a file, the catalogue of a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from knowport.adapters.loading.find import CATALOGUE_FILE
from knowport.adapters.loading.read import opened
from knowport.errors import ConfigurationError


def digest_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes. Raises LoadError (reason ``unreadable``)."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_catalogue(root: Path) -> str | None:
    """The text of ``domains.toml`` at the top of a folder, or None. Raises ConfigurationError."""
    path = root / CATALOGUE_FILE
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
