"""The log: one JSON object a line on standard error, secrets masked whoever wrote them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

import structlog

from knowport.core.redaction import Redactor

# Libraries that tell of every connection at these levels.
_CHATTY = ("asyncio", "httpcore", "httpx", "openai", "pymilvus", "python_multipart", "urllib3")


class _Redacting(structlog.stdlib.ProcessorFormatter):
    """The last step, so that nothing goes around it: tracebacks and libraries' lines as well."""

    def __init__(self, redact: Redactor) -> None:
        shared = _shared()
        super().__init__(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _shared() -> list[structlog.types.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def set_up_logging(level: str, secrets: Iterable[str] = ()) -> None:
    """Send the log of this process to standard error; ``secrets`` never appear in it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting(Redactor(secrets)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
