"""Errors as RFC 9457 problem documents: one shape on every route, with the way out.

Whatever goes wrong becomes a ``Problem`` here: errors of ours, what FastAPI finds in a request,
what Starlette refuses, and a fault of ours, of which nothing but the request id is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from knowport.core.redaction import Redactor
from knowport.errors import EmbeddingError, InvalidInput, KnowportError, LoadError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
MOST_ERRORS = 50
MOST_CHARS = 1_000

# By ``KnowportError.code``. 502: what we stand on answered wrongly; 503: later it may work; 507:
# when somebody has freed space.
STATUS_OF = {
    "invalid_input": 422,
    "configuration": 500,
    "index_mismatch": 503,
    "index_in_use": 503,
    "engine": 502,
    "engine_unavailable": 503,
    "engine_full": 507,
    "embedding": 502,
    "embedding_unavailable": 503,
    "load": 422,
    "ledger": 500,
    "ledger_busy": 503,
    "ledger_full": 507,
    "generation_changed": 503,
    "rebuild": 409,
    "unknown_document": 404,
    "unknown_lookup": 404,
}


class Problem(HTTPException):
    """An error reply.

    ``code`` is stable and for programs; ``detail`` names the thing; ``remedy`` is the way out;
    ``errors`` are the faults of single fields, ``{"field": ..., "message": ...}``.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        remedy: str = "",
        transient: bool = False,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        more = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
        super().__init__(status, detail, headers={**more, **(headers or {})})
        self.code = code
        self.remedy = remedy
        self.transient = transient
        self.errors = tuple(errors)

    def document(self, request_id: str, redact: Redactor) -> dict[str, Any]:
        """The members of the document, secrets masked."""
        return {
            "type": f"urn:knowport:problem:{self.code}",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": redact(_short(self.detail)),
            "code": self.code,
            "remedy": redact(self.remedy),
            "transient": self.transient,
            "request_id": request_id,
            "errors": [
                {k: redact(_short(v)) for k, v in error.items()}
                for error in self.errors[:MOST_ERRORS]
            ],
        }

    def body(self, request_id: str, redact: Redactor) -> bytes:
        """The document as UTF-8 JSON."""
        document = self.document(request_id, redact)
        # A message may quote what the client sent, and so hold what UTF-8 cannot carry.
        text = json.dumps(document, ensure_ascii=False)
        return text.encode("utf-8", errors="backslashreplace")


def _short(text: str) -> str:
    """A message may quote all that a client sent."""
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"


def as_problem(error: Exception) -> Problem:
    """What a client is told of an error."""
    match error:
        case Problem():
            return error
        case KnowportError():
            return _of_ours(error)
        case RequestValidationError():
            return _of_validation(error)
        case HTTPException():
            return _of_framework(error)
        case _:
            return Problem(
                500,
                "internal",
                "The service failed in a way that it does not know.",
                remedy="Look for the request id in the log of the service.",
            )


def _of_ours(error: KnowportError) -> Problem:
    status, errors = STATUS_OF.get(error.code, 500), []
    if isinstance(error, InvalidInput):
        errors = [{"field": error.field, "message": error.message}]
    elif isinstance(error, LoadError):
        errors = [{"field": "file", "message": error.reason}]
    elif isinstance(error, EmbeddingError) and error.position is not None:
        status = 422  # one text is to blame
    return Problem(
        status,
        error.code,
        error.message,
        remedy=error.remedy,
        transient=error.transient,
        errors=errors,
    )


def _of_validation(error: RequestValidationError) -> Problem:
    found = [
        {"field": ".".join(map(str, item["loc"])), "message": item["msg"]}
        for item in error.errors()
    ]
    said = "; ".join(f"{item['field']}: {item['message']}" for item in found[:5])
    return Problem(
        422,
        "invalid_request",
        f"The request does not fit this route: {said}.",
        remedy="See /openapi.json for what the route takes.",
        errors=found,
    )


def _of_framework(error: HTTPException) -> Problem:
    known = {
        400: ("bad_request", "Mend the request; see /openapi.json for what the route takes."),
        404: ("unknown_route", "See /openapi.json for the routes."),
        405: ("method_not_allowed", "See the Allow header for the methods of this route."),
        413: ("too_large", "Send less; server.max_body_bytes is the limit."),
    }
    code, remedy = known.get(error.status_code, ("refused", ""))
    return Problem(error.status_code, code, error.detail, remedy=remedy, headers=error.headers)
