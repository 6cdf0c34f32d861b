"""evaluation/statistics.py: intervals and paired tests that give the same figures each time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowport.evaluation import statistics


def test_one_query_alone_has_no_interval() -> None:
    assert statistics.mean([0.5]) == 0.5
    assert statistics.bootstrap_mean([0.5], seed=1) is None
    assert statistics.mean([]) is None
    assert statistics.bootstrap_mean([], seed=1) is None


def test_an_interval_holds_the_mean_and_narrows_with_more_queries() -> None:
    few = statistics.bootstrap_mean([0.0, 1.0] * 10, seed=1)
    many = statistics.bootstrap_mean([0.0, 1.0] * 1_000, seed=1)
    assert few
    assert many
    assert few.low < many.low < 0.5 < many.high < few.high
    # Normal theory: 1.96 * sqrt(0.25 / 2000)
    assert many.high - 0.5 == pytest.approx(0.0219, abs=0.002)


def test_the_same_seed_gives_the_same_figures_to_the_last_digit() -> None:
    values = np.random.default_rng(3).random(100).tolist()
    assert statistics.bootstrap_mean(values, seed=7) == statistics.bootstrap_mean(values, seed=7)
    assert statistics.bootstrap_mean(values, seed=7) != statistics.bootstrap_mean(values, seed=8)
    a, b = values, [min(1.0, value + 0.1) for value in values]
    assert statistics.compare(a, b, seed=7) == statistics.compare(a, b, seed=7)


def test_a_large_sample_is_drawn_in_blocks() -> None:
    interval = statistics.bootstrap_mean([0.25] * 5_000, seed=1)
    assert interval == statistics.Interval(0.25, 0.25)


def test_rows_without_a_value_are_left_out() -> None:
    def never(rows: statistics.Indices) -> statistics.Floats:
        return np.full(len(rows), np.nan)

    assert statistics.bootstrap(5, never, seed=1) is None


def test_exact_randomisation() -> None:
    # All of five move the same way: 2 of 2**5 patterns are as extreme.
    assert statistics.randomisation_test([0.2] * 5, seed=1) == (2 / 32, True)
    assert statistics.randomisation_test([0.2, -0.2], seed=1) == (1.0, True)
    assert statistics.randomisation_test([0.0] * 9, seed=1) == (1.0, True)
    assert statistics.randomisation_test([0.1] * 13 + [0.0] * 50, seed=1) == (2 / 2**13, True)


def test_drawn_randomisation_is_never_zero() -> None:
    p_value, exact = statistics.randomisation_test([1.0] * 60, seed=1)
    assert not exact
    assert p_value == 1 / (1 + statistics.PERMUTATIONS)


def test_noise_is_seldom_significant() -> None:
    rng = np.random.default_rng(11)
    values = [
        statistics.randomisation_test(rng.normal(0, 1, 20).tolist(), seed=n)[0] for n in range(100)
    ]
    assert 0 <= sum(value < 0.05 for value in values) <= 12


def test_wins_losses_and_ties() -> None:
    found = statistics.compare([0.0, 0.5, 1.0, 0.3], [1.0, 0.5, 0.5, 0.3], seed=1)
    assert found is not None
    assert (found.wins, found.losses, found.ties, found.queries) == (1, 1, 2, 4)
    assert found.delta == pytest.approx(0.125)
    assert statistics.compare([], [], seed=1) is None
    with pytest.raises(ValueError, match="same queries"):
        statistics.compare([1.0], [], seed=1)


def test_percentiles() -> None:
    assert statistics.percentile([], 0.5) is None
    assert statistics.percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert statistics.percentile(list(map(float, range(101))), 0.95) == pytest.approx(95.0)
    assert not math.isnan(statistics.percentile([1.0], 0.95) or 0.0)
