"""The part of a knowledge base that looks after its index: audit and repair."""

from __future__ import annotations

from knowport.bootstrap import Composition
from knowport.pipelines.audit import AuditReport, OnProgress
from knowport.pipelines.audit_active import DEFAULT_SAMPLE, RepairReport, audit, repair
from knowport.pipelines.mend import MendPorts


class AuditsIndex:
    """Others may read and write meanwhile."""

    _parts: Composition

    def audit(
        self,
        *,
        sample: int | None = DEFAULT_SAMPLE,
        on_progress: OnProgress = lambda _: None,
    ) -> AuditReport:
        """Hold ledger and index against each other, in all scopes; nothing is changed.

        ``sample`` chunks, always the same ones, are also searched for by their vectors and words;
        None: all. Raises EngineError, EmbeddingError, LedgerError, or GenerationChanged where
        another generation becomes the active one meanwhile.
        """
        serving = self._parts.follow()
        if serving.generation is None or serving.index is None:
            return AuditReport((), 0, 0)
        ports = MendPorts(
            serving.embedder, self._parts.ledger, serving.index, serving.name, serving.chunking
        )
        lexical = serving.generation.lexical
        return audit(ports, lexical=lexical, sample=sample, on_progress=on_progress)

    def repair(
        self,
        *,
        sample: int | None = DEFAULT_SAMPLE,
        on_progress: OnProgress = lambda _: None,
    ) -> RepairReport:
        """Audit, mend what is found from the ledger's texts, and audit again.

        Raises as ``audit``, and IndexMismatch where the index is read-only.
        """
        before = self.audit(sample=sample, on_progress=on_progress)
        if not before.findings:
            return RepairReport(before, before, (), (), {})
        serving, writing = self._parts.follow(), self._parts.ingest_ports()
        assert serving.generation is not None  # else there were no findings
        ports = MendPorts(
            writing.embedder,
            writing.ledger,
            writing.index,
            writing.generation,
            writing.chunking,
        )
        lexical = serving.generation.lexical
        return repair(before, ports, lexical=lexical, sample=sample, on_progress=on_progress)
