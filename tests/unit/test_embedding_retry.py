"""How long to wait before a request is sent again."""

from __future__ import annotations

import random

import pytest

from knowport.adapters.embedding.retry import seconds_asked, wait_before_retry

NOW = 1792567660.0  # Wed, 21 Oct 2026 07:27:40 GMT


class FixedRandom(random.Random):
    """Gives the ``share`` of every range."""

    def __init__(self, share: float) -> None:
        super().__init__(0)
        self.share = share

    def uniform(self, a: float, b: float) -> float:
        return a + self.share * (b - a)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0.0),
        ("", 0.0),
        ("0", 0.0),
        ("2", 2.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("soon", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 20.0),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", 20.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),  # past
        ("Wed, 99 Oct 2026 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", 0.0),
    ],
)
def test_what_the_server_asks_for(header: str | None, seconds: float) -> None:
    assert seconds_asked(header, wall_time=NOW) == seconds


@pytest.mark.parametrize(
    ("retry", "window"), [(0, 0.5), (1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0), (6, 30.0), (50, 30.0)]
)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_unasked_the_wait_is_anywhere_in_a_doubling_window(
    retry: int, window: float, share: float
) -> None:
    rng = FixedRandom(share)
    assert wait_before_retry(retry, None, wall_time=NOW, rng=rng) == share * window


@pytest.mark.parametrize(
    ("header", "share", "wait"),
    [("2", 0.0, 2.0), ("2", 1.0, 3.0), ("59.5", 1.0, 60.0), ("86400", 0.0, 60.0)],
)
def test_asked_the_wait_is_as_long_or_a_little_longer_up_to_a_minute(
    header: str, share: float, wait: float
) -> None:
    assert wait_before_retry(4, header, wall_time=NOW, rng=FixedRandom(share)) == wait
