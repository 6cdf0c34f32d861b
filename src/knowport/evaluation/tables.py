"""A report as tables of text, the same for the terminal, Markdown and HTML. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from knowport.core.wording import counted
from knowport.evaluation import measures
from knowport.evaluation.summary import OVERALL

HEAD = measures.RANKING
ANSWER = (*measures.EVIDENCE[:4], *measures.ABSTENTION)

Table: TypeAlias = tuple[str, list[str], list[list[str]]]
"""Title, head and rows."""


def cell(figure: Mapping[str, Any] | None, *, interval: bool = False) -> str:
    """A figure for people: three digits, with the interval if asked; '-' where there is none."""
    if figure is None or figure["mean"] is None:
        return "-"
    text = f"{figure['mean']:.3f}"
    if interval and figure["low"] is not None:
        text += f" [{figure['low']:.3f}, {figure['high']:.3f}]"
    return text


def tables(report: Mapping[str, Any]) -> list[Table]:
    """``(title, head, rows)`` of every table, the same for terminal, Markdown and HTML."""
    found = []
    for setup in report["setups"]:
        ranking = (*HEAD, *_more(setup))
        for what, names in (("ranking", ranking), ("answers", ANSWER)):
            rows = _rows(setup, names)
            found.append((f"{setup['name']}: {what}", ["group", "queries", *names], rows))
        found.append(_behaviour(setup))
    found.append(_latency(report))
    if "comparison" in report:
        found.extend(_comparison(report["comparison"]))
    return found


def _more(setup: Mapping[str, Any]) -> list[str]:
    """Measures that were asked for beyond the usual ones."""
    usual = {*HEAD, *measures.EVIDENCE, *measures.ABSTENTION}
    return [name for name in setup["figures"][OVERALL] if name not in usual]


def _rows(setup: Mapping[str, Any], names: Sequence[str]) -> list[list[str]]:
    return [
        [
            group,
            str(setup["behaviour"][group]["queries"]),
            *(cell(of_group.get(name), interval=True) for name in names),
        ]
        for group, of_group in setup["figures"].items()
    ]


def _behaviour(setup: Mapping[str, Any]) -> Table:
    names = list(setup["behaviour"][OVERALL])
    rows = [
        [group, *(str(counts[name]) for name in names)]
        for group, counts in setup["behaviour"].items()
    ]
    return f"{setup['name']}: counts", ["group", *(n.replace("_", " ") for n in names)], rows


def _latency(report: Mapping[str, Any]) -> Table:
    rows = [
        [setup["name"], step, *("-" if v is None else f"{v:.1f}" for v in of_step.values())]
        for setup in report["setups"]
        for step, of_step in setup["latency_ms"].items()
    ]
    return "Latency, ms", ["setup", "step", "p50", "p95"], rows


def _comparison(compared: Mapping[str, Any]) -> list[Table]:
    a, b = compared["a"], compared["b"]
    head = ["group", "measure", "n", a, b, "delta", "95 %", "p", "wins", "losses", "ties"]
    rows = []
    for group, of_group in compared["groups"].items():
        for name, row in of_group.items():
            if name == "Found":  # the counts tell it better
                continue
            interval = row["interval"]
            ends = f"[{interval['low']:+.3f}, {interval['high']:+.3f}]" if interval else "-"
            p_value = f"{row['p_value']:.4f}{' exact' if row['exact'] else ''}"
            rows.append(
                [
                    group,
                    name,
                    str(row["queries"]),
                    f"{row['mean_a']:.3f}",
                    f"{row['mean_b']:.3f}",
                    f"{row['delta']:+.3f}",
                    ends,
                    p_value,
                    *(str(row[n]) for n in ("wins", "losses", "ties")),
                ]
            )
    moved = [
        [row["query_id"], row["text"], f"{row['a']:.3f}", f"{row['b']:.3f}", f"{row['delta']:+.3f}"]
        for row in compared["changes"]
    ]
    return [
        (f"{b} against {a}", head, rows),
        (f"Largest changes of {compared['changes_of']}", ["query", "text", a, b, "delta"], moved),
    ]


def facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the figures stand on, as name and value."""
    described, first = report["set"], report["setups"][0]
    embedder = first["embedder"]
    rows = [
        (
            "set",
            f"{described['name']}: {described['queries']} queries "
            f"({described['unanswerable']} unanswerable), "
            f"{counted(described['documents'], 'document')}, "
            f"{counted(described['chunks'], 'chunk')}",
        ),
        ("labels", described["fingerprint"]),
        ("corpus", first["corpus_fingerprint"]),
        ("embedder", f"{embedder['provider']} {embedder['model']}, {embedder['dimension']}"),
        ("engine", first["engine"]),
        ("versions", ", ".join(f"{name} {value}" for name, value in report["versions"].items())),
        ("seed", str(report["seed"])),
        ("made", report["created_at"]),
    ]
    for setup in report["setups"]:
        note = f" ({setup['note']})" if setup["note"] else ""
        calibrated = "calibrated" if setup["calibrated"] else "default thresholds"
        rows.append((f"setup {setup['name']}", f"mode {setup['mode']}{note}; {calibrated}"))
    return rows


def warnings(report: Mapping[str, Any]) -> list[str]:
    """What a reader must know before trusting the figures."""
    described, found = report["set"], []
    if described["gold_not_in_index"]:
        ids = sorted({doc for docs in described["gold_not_in_index"].values() for doc in docs})
        found.append(
            f"{len(ids)} relevant documents of {len(described['gold_not_in_index'])} "
            f"queries are not in the index: {_some(ids)}."
        )
    if described["labels_of_unknown_queries"]:
        ids = described["labels_of_unknown_queries"]
        found.append(f"{len(ids)} labelled queries are not in queries.jsonl: {_some(ids)}.")
    if described["not_indexed"]:
        reasons = [f"{name} ({reason})" for name, reason in described["not_indexed"].items()]
        found.append(f"Not indexed: {counted(len(reasons), 'document')}: {_some(reasons)}.")
    for setup in report["setups"]:
        if setup["errors"]:
            reasons = [f"{name}: {reason}" for name, reason in setup["errors"].items()]
            found.append(
                f"{setup['name']}: {len(reasons)} queries failed and score 0: {_some(reasons)}."
            )
        if degraded := setup["behaviour"][OVERALL]["degraded"]:
            found.append(f"{setup['name']}: in {degraded} queries one leg failed.")
    return found


def troubles(report: Mapping[str, Any]) -> dict[str, int]:
    """What keeps figures from standing for the product, with its count; nothing if all went well.

    An empty document is none, nor are labels that name what is not there: public sets have both.
    """
    counts = {"queries failed": 0, "queries lost a leg": 0}
    for setup in report["setups"]:
        counts["queries failed"] += setup["behaviour"][OVERALL]["errors"]
        counts["queries lost a leg"] += setup["behaviour"][OVERALL]["degraded"]
    counts["documents not indexed"] = sum(
        not reason.startswith("empty:") for reason in report["set"]["not_indexed"].values()
    )
    return {name: count for name, count in counts.items() if count}


def _some(items: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return "; ".join(items[:most]) + rest
