"""Types that everything else is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
"""One embedding, shape ``(dimension,)``."""


Matrix: TypeAlias = npt.NDArray[np.float32]
"""Embeddings of several texts in their order, shape ``(n, dimension)``."""


Metadata: TypeAlias = Mapping[str, Any]
"""JSON values by name."""


SearchMode: TypeAlias = Literal["dense", "sparse", "hybrid"]


RankerName: TypeAlias = Literal["adaptive", "rrf", "weighted"]


TextFormat: TypeAlias = Literal["markdown", "plain"]


Role: TypeAlias = Literal["reader", "writer", "admin"]


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """What decides the vector of a text. Two indexes of one identity are comparable."""

    provider: str
    model: str
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader of an answer should know; ``code`` is stable, ``message`` is prose."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An access key as it is kept: its hash (hex SHA-256) and never itself.

    Times are UTC, ISO 8601; '' for never.
    """

    key_id: str
    key_hash: str
    kb_scope: str
    role: Role
    name: str
    created_at: str
    expires_at: str = ""
    revoked_at: str = ""
