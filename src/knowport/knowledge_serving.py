"""The part of a knowledge base that a service for several callers stands on."""

from __future__ import annotations

from functools import cached_property

from knowport.bootstrap import Composition
from knowport.core.filter_values import checked_filter
from knowport.model import DocumentInfo
from knowport.pipelines.access import AccessKeys
from knowport.pipelines.documents import checked_scope


class ServesCallers:
    """Access keys, and lists that come in pages."""

    _parts: Composition

    @cached_property
    def access(self) -> AccessKeys:
        """Who may use this knowledge base over a network."""
        return AccessKeys(self._parts.ledger)

    def documents_page(
        self, *, kb_scope: str, after: str, limit: int, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        """At most ``limit`` documents of a scope whose id is greater than ``after``, in order of
        id; '' begins. Raises InvalidInput for a filter that cannot be used."""
        return self._parts.ledger.documents_page(
            kb_scope=checked_scope(kb_scope),
            category=checked_filter(category, field="category"),
            after=after,
            limit=limit,
        )
