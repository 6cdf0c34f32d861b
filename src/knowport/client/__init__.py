"""The client of a running Knowport service::

    from knowport.client import Client

    with Client("http://127.0.0.1:8765", api_key="kp_...") as knowport:
        answer = knowport.lookup("ERROR 1205 (HY000)")

Values are those of the vocabulary; every failure is a ``ServiceError``, which is a
``KnowportError`` and carries the problem document of the service.
"""

from knowport.client.client import Client
from knowport.client.errors import (
    AccessDenied,
    NotFound,
    RequestRefused,
    ServiceError,
    ServiceUnavailable,
)
from knowport.client.rebuild import Rebuild
from knowport.client.values import (
    ChunkText,
    DocumentPage,
    DocumentText,
    GenerationInfo,
    GenerationList,
    Job,
    ServiceStatus,
    Stored,
)
from knowport.core.evidence_map import EvidenceState, EvidenceStatus

__all__ = [
    "AccessDenied",
    "ChunkText",
    "Client",
    "DocumentPage",
    "DocumentText",
    "EvidenceState",
    "EvidenceStatus",
    "GenerationInfo",
    "GenerationList",
    "Job",
    "NotFound",
    "Rebuild",
    "RequestRefused",
    "ServiceError",
    "ServiceStatus",
    "ServiceUnavailable",
    "Stored",
]
