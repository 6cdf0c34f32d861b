"""The part of a knowledge base that rebuilds its index and keeps old evidence checkable."""

from __future__ import annotations

from functools import cached_property

from knowport.bootstrap import Composition
from knowport.core.evidence_map import EvidenceStatus, instant, judge
from knowport.core.identity import parse_evidence_key
from knowport.errors import InvalidInput
from knowport.pipelines.rebuild import Rebuild


class Rebuilds:
    """Others may read and write meanwhile."""

    _parts: Composition

    @cached_property
    def rebuild(self) -> Rebuild:
        """Builds a new generation of the index, proves it, switches to it, and back."""
        return Rebuild(self._parts.rebuild_ports())

    def evidence(
        self,
        key: str,
        *,
        generation: str | None = None,
        at: str | None = None,
        kb_scope: str | None = None,
    ) -> EvidenceStatus:
        """Whether an evidence key that was cited still stands for the same text, and where that
        text is now.

        ``generation`` (as the answer named it) and ``at`` (ISO 8601, in UTC unless it says
        otherwise) say when it was cited;
        without them the oldest text that it is known to have stood for is meant. With a
        ``kb_scope`` whatever stood in another one is as if it had never been. Raises InvalidInput
        for what is no evidence key, or for a generation that nothing is known of.
        """
        doc_id, _ = parse_evidence_key(key)
        versions = self._parts.ledger.versions(doc_id, kb_scope=kb_scope)
        if generation is not None:
            self._refuse_unheard_of(generation, {version.generation for version in versions})
        moment = None if at is None else instant(at)
        return judge(key, versions, generation=generation, at=moment)

    def _refuse_unheard_of(self, generation: str, of_document: set[str]) -> None:
        """A slip of the pen is not to be taken for a citation of something that is gone."""
        known = of_document | {one.name for one in self._parts.ledger.generations()}
        if of_document and generation not in known:
            raise InvalidInput(
                f"Nothing is known of a generation {generation!r}.",
                field="generation",
                remedy=f"This document stood in {', '.join(sorted(of_document))}.",
            )
