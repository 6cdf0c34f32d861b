"""Ranking measures that this package does not compute itself, by ir-measures name.

``AP@10``, ``P@5``, ``Success@1`` and the like need the package ir-measures (extra ``eval``). The
rules are the same: scores fall strictly by rank, so that there are no ties; a query with gold and
no result scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from knowport.errors import ConfigurationError, InvalidInput
from knowport.evaluation import measures

INSTALL = "Install it: pip install 'knowport[eval]'."


def check_names(names: Sequence[str]) -> None:
    """Raises InvalidInput for a name that is no measure, ConfigurationError where ir-measures is
    needed and not installed."""
    for name in names:
        if not measures.is_ranking_measure(name):
            _parsed(name)


def values(
    name: str, rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Mapping[str, int]]
) -> dict[str, float]:
    """Values of the queries that have gold, by ir-measures; raises as ``check_names``."""
    measure = _parsed(name)
    import ir_measures  # noqa: PLC0415  # an extra

    judged = {query_id: dict(gold[query_id]) for query_id in rankings if gold.get(query_id)}
    run = {
        query_id: {
            doc_id: float(len(rankings[query_id]) - rank)
            for rank, doc_id in enumerate(measures.distinct(rankings[query_id]))
        }
        for query_id in judged
    }
    found = dict.fromkeys(judged, 0.0)
    if any(run.values()):
        for item in ir_measures.iter_calc([measure], judged, run):
            if not math.isfinite(item.value):
                raise InvalidInput(
                    f"{name} is {item.value} for query {item.query_id!r}.", field="measure"
                )
            found[item.query_id] = float(item.value)
    return found


def _parsed(name: str) -> Any:
    try:
        import ir_measures  # noqa: PLC0415  # an extra
    except ImportError:
        raise ConfigurationError(
            f"The measure {name} is computed by the package ir-measures, which is not installed "
            "(extra `eval`).",
            remedy=INSTALL,
        ) from None
    try:
        return ir_measures.parse_measure(name)
    except (ValueError, NameError, SyntaxError, KeyError):
        raise InvalidInput(
            f"{name!r} is no measure.",
            field="measure",
            remedy="Names are those of ir-measures, such as nDCG@10, R@5, RR@10 or AP@10.",
        ) from None
