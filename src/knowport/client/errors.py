"""What can go wrong between a client and a service.

::

    KnowportError
    └── ServiceError            the service failed, or answered something unknown
        ├── ServiceUnavailable  it cannot be reached, is too busy, or took too long   (transient)
        ├── AccessDenied        the access key is missing, wrong, or may not do this
        ├── NotFound            there is no such thing, or not in the scope of the key
        └── RequestRefused      the request cannot be used as it is

``problem`` is the problem document (RFC 9457) that the service sent, empty where it sent none;
``status`` the HTTP status, 0 where there was no reply. ``code`` is the one of the problem, so it is
that of the same error in the service's own process (``invalid_input``, ``engine_unavailable``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowport.errors import ConfigurationError, KnowportError, UnknownDocument


class ServiceError(KnowportError):
    """The service failed, or its answer cannot be understood."""

    exit_code = 15
    code = "service"

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        status: int = 0,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.problem = dict(problem or {})
        self.code = str(self.problem.get("code") or type(self).code)
        self.exit_code = _EXIT_CODES.get(self.code, type(self).exit_code)
        self.transient = bool(self.problem.get("transient", type(self).transient))

    @property
    def request_id(self) -> str:
        """What the log of the service knows the request by, '' where it did not say."""
        return str(self.problem.get("request_id", ""))


class ServiceUnavailable(ServiceError):
    """The service cannot be reached, is too busy, or took too long."""

    code = "service_unavailable"
    transient = True


class AccessDenied(ServiceError):
    """The access key is missing, wrong or expired, or its role does not allow this."""

    exit_code = ConfigurationError.exit_code
    code = "unauthorized"


class NotFound(ServiceError):
    """There is no such thing, or not in the scope of the key."""

    code = "not_found"


class RequestRefused(ServiceError):
    """The request cannot be used as it is."""

    code = "refused"


def error_of(status: int, problem: Mapping[str, Any]) -> ServiceError:
    """The error that a reply stands for; ``problem`` may be empty."""
    kind: type[ServiceError]
    match status:
        case 401 | 403:
            kind = AccessDenied
        case 404:
            kind = NotFound
        case 408 | 429 | 503 | 504:
            kind = ServiceUnavailable
        case _ if 400 <= status < 500:
            kind = RequestRefused
        case _:
            kind = ServiceError
    remedy = str(problem.get("remedy") or "")
    if _of_the_key(kind, problem) and "KNOWPORT_API_KEY" not in remedy:
        remedy = f"{remedy} Give the key as KNOWPORT_API_KEY, or as api_key=.".lstrip()
    return kind(
        str(problem.get("detail") or f"The service answered with HTTP status {status}."),
        remedy=remedy,
        status=status,
        problem=problem,
    )


def _of_the_key(kind: type[ServiceError], problem: Mapping[str, Any]) -> bool:
    """Whether another access key would help: not where a path or a Host header is refused."""
    return kind is AccessDenied and problem.get("code", "") in {"", "unauthorized", "forbidden"}


def _exit_codes() -> dict[str, int]:
    """Exit code by code of every error that the service may pass on."""
    found, todo = {}, [KnowportError]
    while todo:
        kind = todo.pop()
        found[kind.code] = kind.exit_code
        todo.extend(kind.__subclasses__())
    return found


# A service has two kinds of unknown things that the process itself has not.
_EXIT_CODES = _exit_codes() | dict.fromkeys(
    ("unknown_scope", "unknown_job"), UnknownDocument.exit_code
)
