"""What an answer says about itself: a leg that failed, and why there is no evidence."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from knowport.core.packing import Packing
from knowport.core.selection import Selection
from knowport.model import Attempt, Notice, QueryPlan
from knowport.ports import KnowledgeSearchPort, Ledger


def failed_legs(attempts: Sequence[Attempt]) -> Iterator[Notice]:
    """One notice for each leg that failed while the other answered."""
    for failed in dict.fromkeys(a.failed_leg for a in attempts if a.failed_leg):
        yield Notice("degraded", f"One leg of the search failed and the other answered. {failed}")


def why_nothing(
    plan: QueryPlan,
    attempts: Sequence[Attempt],
    selection: Selection,
    packing: Packing,
    index: KnowledgeSearchPort | None,
    ledger: Ledger,
) -> Iterator[Notice]:
    """The one reason why an answer has no evidence; asked only then, so it may cost a read."""
    if packing.evidence:
        return
    hits = any(attempt.hits for attempt in attempts)
    if index is None or (not hits and index.count(kb_scope=plan.kb_scope) == 0):
        yield Notice(
            "empty_index",
            f"The index holds no documents in scope '{plan.kb_scope}': nothing was searched. "
            "Ingest documents first (`knowport ingest PATH`), or name the right folder (--home, "
            "KNOWPORT_HOME).",
        )
    elif not hits:
        yield _no_hits(plan, attempts[-1], ledger.categories(plan.kb_scope))
    elif packing.drops:
        yield Notice("budget_too_small", "Evidence was found, but none fits the budget.")
    elif selection.drops:
        yield Notice(
            "below_threshold", "Something was found, but none of it is close enough to the query."
        )


def _no_hits(plan: QueryPlan, last: Attempt, known: tuple[str, ...]) -> Notice:
    if plan.category is not None and plan.category not in known:
        return Notice("unknown_category", _unknown_category(plan.category, known))
    where = "" if last.category is None else f" in category '{last.category}'"
    guessed = " The query names it; no other was searched." if where and not plan.category else ""
    return Notice("nothing_found", f"Nothing was found{where}.{guessed}")


def _unknown_category(category: str, known: tuple[str, ...]) -> str:
    folded = list(dict.fromkeys(name.lower() for name in known))
    near = difflib.get_close_matches(category.lower(), folded, n=3, cutoff=0.6)
    nearest = [name for match in near for name in known if name.lower() == match] or known[:10]
    hint = f" Did you mean: {', '.join(nearest)}?" if nearest else " No document has a category."
    return f"No document has the category '{category}'.{hint}"
