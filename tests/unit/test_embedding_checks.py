"""Texts and vectors are checked one by one, and the one at fault is named by its position."""

from __future__ import annotations

import numpy as np
import pytest

from knowport.adapters.embedding.checks import checked_matrix, checked_texts
from knowport.errors import EmbeddingError


def check(*vectors: object, dimension: int = 3, first: int = 0) -> np.ndarray:
    return checked_matrix(
        vectors, count=len(vectors), dimension=dimension, what="The model", first=first
    )


def test_lists_become_float32_rows_in_order() -> None:
    matrix = check([1, 0, 0], (0.5, 0.25, -2.0), np.array([0, 0, 1], dtype=np.float64))
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [0.5, 0.25, -2.0], [0, 0, 1]])


def test_no_texts_give_no_rows() -> None:
    assert check().shape == (0, 3)


@pytest.mark.parametrize(
    ("vector", "fault"),
    [
        ([1, 0], r"expected 3 numbers, got 2 \(see `embedding.dimensions`\)"),
        ([1, 0, 0, 0], "expected 3 numbers, got 4"),
        ([], "expected 3 numbers, got 0"),
        (None, "not a list of numbers"),
        ("abc", "not a list of numbers"),
        ({"a": 1}, "not a list of numbers"),
        (np.ones((3, 1), np.float32), "not a list of numbers"),
        (np.array([1, 2]), "not a list of numbers"),
        ([1, None, 0], "number 1 is null"),
        ([1, "0.5", 0], "number 1 is str"),
        ([1, 0, True], "number 2 is bool"),
        ([1, [0], 0], "number 1 is list"),
        ([1, float("nan"), 0], "number 1 is not finite"),
        ([float("-inf"), 0, 0], "number 0 is not finite"),
        ([0, 0, 1e39], "number 2 is not finite"),  # beyond float32
        ([0, 0, 10**400], "a number is too large"),  # beyond float64
        ([0, 0, 0], "its norm is zero"),
        ([0, 0, 1e-30], "its norm is zero"),  # its square underflows in float32
        ([0, 0, 1e30], "its norm is too large"),  # its square overflows in float32
    ],
)
def test_an_unusable_vector_is_refused(vector: object, fault: str) -> None:
    with pytest.raises(
        EmbeddingError, match=f"The model returned .* text at position 11: {fault}"
    ) as caught:
        check([1, 0, 0], vector, [0, 0, 0], first=10)
    assert caught.value.position == 11
    assert not caught.value.transient


def test_the_number_of_vectors_must_fit() -> None:
    with pytest.raises(EmbeddingError, match="returned 1 vectors for 2 texts") as caught:
        checked_matrix([[1, 0, 0]], count=2, dimension=3, what="The model")
    assert caught.value.position is None


def test_the_vectors_given_are_not_changed() -> None:
    given = np.ones((1, 3), dtype=np.float32)
    checked_matrix(given, count=1, dimension=3, what="The model")[0, 0] = 7
    assert given[0, 0] == 1


def test_nul_is_taken_out_and_all_else_stays() -> None:
    assert checked_texts(["a\0b", "", "知识 \U0001f600\n"]) == ["ab", "", "知识 \U0001f600\n"]


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(EmbeddingError, match=r"position 1 .* character 2 is a lone") as caught:
        checked_texts(["ok", "ab\udc80", "\ud800"])
    assert caught.value.position == 1
