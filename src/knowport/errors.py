"""What can go wrong, and the way out of it.

::

    KnowportError
    ├── InvalidInput            2   a query, filter, id or path that cannot be used
    ├── ConfigurationError      3   a setting is wrong, unknown or missing
    ├── IndexMismatch           4   the index was built with other settings: rebuild
    ├── IndexInUse              5   another process holds the embedded file   (transient)
    ├── EngineError             6   Milvus refused or failed
    │   ├── EngineUnavailable   6   Milvus cannot be reached                  (transient)
    │   └── EngineFull          6   the disk of the embedded index is full
    ├── EmbeddingError          7   the embedder refused, or returned vectors that cannot be used
    │   └── EmbeddingUnavailable 7  the embedding endpoint is away or says to wait (transient)
    ├── LoadError               8   one file cannot be read as a document
    ├── LedgerError            11   the ledger cannot be read or written
    │   ├── LedgerBusy         11   another writer holds it for too long      (transient)
    │   └── LedgerFull         11   the disk of the ledger is full
    ├── GenerationChanged       4   the index was switched in the middle of a write (transient)
    ├── RebuildError           14   a rebuild step that cannot be done in this state
    ├── UnknownDocument         9   no document has that id
    └── UnknownLookup           9   no lookup of that id has a trace (any more)

The number is the exit code of the command line; 15 is an error of a running service that has none
of these (``knowport.client``), and an access key that it refuses is 3. 10 stands for an empty
index, 1 for a lookup that found nothing, 130 for an interrupt; these are outcomes, not errors.

Every error says what it is about (``message``) and what to do (``remedy``). ``transient`` tells
whether the same call may succeed later without a change.
"""

from __future__ import annotations


class KnowportError(Exception):
    """Base of all errors that Knowport raises on purpose."""

    exit_code = 70
    code = "internal"
    transient = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class InvalidInput(KnowportError):
    """A query, filter, id or path that cannot be used; ``field`` names it."""

    exit_code = 2
    code = "invalid_input"

    def __init__(self, message: str, *, field: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.field = field


class ConfigurationError(KnowportError):
    """A setting is wrong, unknown or missing."""

    exit_code = 3
    code = "configuration"


class IndexMismatch(KnowportError):
    """The stored index was built with another embedder, analyzer or schema."""

    exit_code = 4
    code = "index_mismatch"


class IndexInUse(KnowportError):
    """Another process holds the embedded index file."""

    exit_code = 5
    code = "index_in_use"
    transient = True


class EngineError(KnowportError):
    """Milvus refused a call or failed in it."""

    exit_code = 6
    code = "engine"


class EngineUnavailable(EngineError):
    """Milvus cannot be reached."""

    code = "engine_unavailable"
    transient = True


class EngineFull(EngineError):
    """The disk of the embedded index has no room for what is to be written."""

    code = "engine_full"


class EmbeddingError(KnowportError):
    """The embedder refused a text, or returned vectors that cannot be used.

    ``position`` is the place of the text in the call that failed, where one text is to blame.
    """

    exit_code = 7
    code = "embedding"

    def __init__(self, message: str, *, remedy: str = "", position: int | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.position = position


class EmbeddingUnavailable(EmbeddingError):
    """The embedding endpoint is away, overloaded, or told us to wait."""

    code = "embedding_unavailable"
    transient = True


class LoadError(KnowportError):
    """One file cannot be read as a document; ``reason`` is a stable code such as ``not_text``."""

    exit_code = 8
    code = "load"

    def __init__(self, message: str, *, reason: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class UnknownDocument(KnowportError):
    """No document has that id."""

    exit_code = 9
    code = "unknown_document"


class UnknownLookup(KnowportError):
    """No lookup of that id has a trace, or none any more."""

    exit_code = 9
    code = "unknown_lookup"


class LedgerError(KnowportError):
    """The ledger cannot be read or written."""

    exit_code = 11
    code = "ledger"


class LedgerBusy(LedgerError):
    """Another writer held the knowledge base for too long."""

    code = "ledger_busy"
    transient = True


class LedgerFull(LedgerError):
    """The disk of the ledger is full."""

    code = "ledger_full"


class GenerationChanged(KnowportError):
    """The active generation was switched in the middle of a write; the write starts again."""

    exit_code = 4
    code = "generation_changed"
    transient = True


class RebuildError(KnowportError):
    """A step of a rebuild that cannot be done in this state, or a verification that failed."""

    exit_code = 14
    code = "rebuild"
