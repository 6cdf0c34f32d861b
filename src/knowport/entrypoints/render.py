"""Results for people, on a rich console."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from knowport.core.evidence_map import EvidenceStatus
from knowport.core.wording import counted
from knowport.model import (
    Answer,
    DocumentInfo,
    Status,
)

if TYPE_CHECKING:
    from knowport.client import ServiceStatus

_WORD = re.compile(r"[0-9A-Za-z_.\-]{2,}|[\u4e00-\u9fff]{2,}")


def answer(console: Console, found: Answer, query: str) -> None:
    """Each piece of evidence: id and level, heading path and source, the excerpt highlighted."""
    words = _highlight_words(query)
    for number, item in enumerate(found.evidence, start=1):
        console.print(
            Text.assemble(
                (f"{number}. ", "bold"),
                (item.document_id, "bold cyan"),
                (f"  {item.relevance_level}", "green"),
            )
        )
        console.print(Text(f"   {item.breadcrumb or item.title}  ({item.source})", "dim"))
        excerpt = Text("\n".join("   " + line for line in item.excerpt.splitlines()))
        excerpt.highlight_words(words, "bold yellow", case_sensitive=False)
        console.print(excerpt)
        console.print()
    for notice in found.notices:
        console.print(Text(notice.message, "yellow"))
    if not found.found:
        console.print("Nothing found.")
    withheld = ", ".join(f"{count} {reason}" for reason, count in found.withheld.items())
    if withheld:
        console.print(Text(f"Not shown: {withheld.replace('_', ' ')}.", "dim"))


def explanation(console: Console, values: dict[str, Any]) -> None:
    """Plan, attempts, candidates with ranks and fates, and where the asked document is."""
    plan = values["plan"]
    terms = ", ".join(f"{term['text']} ({term['kind']})" for term in plan["terms"]) or "none"
    rows = {
        "query": plan["text"],
        "mode": plan["mode"],
        "terms": terms,
        "domains": ", ".join(plan["domains"]) or "none",
        "filter": plan["category"]
        or (f"{plan['soft_category']} (guessed)" if plan["soft_category"] else "none"),
    }
    for name, value in rows.items():
        console.print(Text.assemble((f"{name:<9}", "bold"), str(value)))
    for attempt in values["attempts"]:
        weights = attempt["weights"]
        fused = (
            f"dense {weights['dense']:.2f}, sparse {weights['sparse']:.2f} ({weights['reason']})"
            if weights
            else attempt["mode"]
        )
        low = f", {attempt['low_quality']}" if attempt["low_quality"] else ""
        console.print(
            Text.assemble(
                ("attempt  ", "bold"), f"{attempt['name']}: {counted(attempt['hits'], 'hit')}, "
            ),
            Text(f"{fused}, best level {attempt['level']}{low}"),
        )
    console.print(Text.assemble(("selected ", "bold"), values["selected_attempt"]))
    table = Table(box=None, pad_edge=False)
    for name in ("rank", "document_id", "fate", "level", "score", "covers", "dense", "sparse"):
        table.add_column(name, overflow="fold")
    for item in values["candidates"]:
        table.add_row(
            str(item["rank"]),
            Text(item["document_id"]),
            Text(item["fate"], "green" if item["fate"] == "kept" else "dim"),
            Text(item["level"]),
            _number(item["score"]),
            _number(item["coverage"]),
            f"{_number(item['dense'])} #{item['dense_rank'] or '-'}",
            f"{_number(item['sparse'])} #{item['sparse_rank'] or '-'}",
        )
    console.print(table)
    if values["fusion_check"]:
        console.print(Text(f"Fused ranks disagree: {values['fusion_check']}", "red"))
    if values["document"]:
        console.print(
            Text(f"{values['document']['reason']}: {values['document']['message']}", "bold")
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _highlight_words(query: str) -> list[str]:
    """Latin words whole; of a Chinese run its pairs of characters, as its words are not known."""
    words: list[str] = []
    for run in _WORD.findall(query):
        if run[0].isascii():
            words.append(run)
        else:
            words.extend(run[i : i + 2] for i in range(len(run) - 1))
    return words


def documents(console: Console, infos: Sequence[DocumentInfo]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("document", "category", "chunks", "title"):
        table.add_column(name, overflow="fold")
    for info in infos:
        table.add_row(
            Text(info.doc_id), Text(info.category), str(info.chunk_count), Text(info.title)
        )
    console.print(table)
    console.print(f"{counted(len(infos), 'document')}.")


def document(console: Console, info: DocumentInfo, text: str) -> None:
    for name in ("doc_id", "title", "category", "kb_scope", "chunk_count", "state", "updated_at"):
        console.print(Text(f"{name}: {getattr(info, name)}", "dim"))
    console.print()
    console.print(Text(text))


def status(console: Console, current: Status | ServiceStatus) -> None:
    embedder = current.embedder
    rows = {
        "home": current.home or "-",
        "milvus": f"{current.milvus_uri or '-'} ({current.engine or 'not opened yet'})",
        "generation": f"{current.generation} ({current.collection})" if current.generation else "-",
        "embedder": f"{embedder.provider} {embedder.model}, {embedder.dimension} dimensions",
        "scope": current.kb_scope,
        "documents": str(current.documents),
        "chunks": str(current.chunks),
        "categories": ", ".join(current.categories) or "-",
        "unfinished": str(current.unfinished),
    }
    for name, value in rows.items():
        console.print(Text.assemble((f"{name:<12}", "bold"), value))


def settings(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("key", "value", "origin", "description"):
        table.add_column(name, overflow="fold")
    for row in rows:
        value = "-" if row["value"] in (None, "") else str(row["value"])
        table.add_row(Text(row["key"]), Text(value), Text(row["origin"]), Text(row["description"]))
    console.print(table)


def evidence_text(status: EvidenceStatus) -> str:
    said = {
        "current": "still stands for the same text",
        "moved": f"the text stands under {', '.join(status.to)} now",
        "split": f"the text is spread over {', '.join(status.to)} now",
        "changed": "no chunk of the document holds the text as it was",
        "deleted": "its document was deleted",
        "unknown": "what it stood for is not known",
    }[status.state]
    lines = [f"{status.state}: {said}"]
    if status.ambiguous:
        lines = [
            "ambiguous: it has stood for several texts; --generation or --at says which was cited:"
        ]
        lines += [
            f"  {m.since} to {m.until or 'now'} in {m.generation}: {m.state}"
            + (f", {', '.join(m.to)}" if m.state in ("moved", "split") else "")
            for m in status.meanings
        ]
    return "\n".join(lines)
