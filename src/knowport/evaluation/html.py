"""The report as one HTML page that stands alone: inline style and SVG, no script, no request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from knowport.evaluation import svg
from knowport.evaluation.calibration_tables import calibration_tables
from knowport.evaluation.tables import facts, tables, warnings

_PLOTTED = ("nDCG@10", "R@5", "SpanHit@5", "EvidencePrecision@5")
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff; }
table { border-collapse: collapse; margin: .5em 0 1.5em; font-size: 13px; }
th, td { padding: .25em .6em; border-bottom: 1px solid #ddd; text-align: left; }
td { font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; font-family: inherit; }
.warning { border-left: 4px solid #e08a1e; padding-left: .8em; }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto; }
"""


def to_html(report: Mapping[str, Any]) -> str:
    """The page of an evaluation."""
    title = f"Evaluation of {report['set']['name']}"
    body = [f"<h1>{escape(title)}</h1>"]
    body += [f'<p class="warning">{escape(text)}</p>' for text in warnings(report)]
    body.append(_table(["", ""], [list(row) for row in facts(report)]))
    body.append("<h2>Plots</h2>")
    body += [f"<figure>{plot}</figure>" for plot in plots(report)]
    for heading, head, rows in tables(report):
        body.append(f"<h2>{escape(heading)}</h2>{_table(head, rows)}")
    for setup in report["setups"]:
        settings = json.dumps(setup["settings"], ensure_ascii=False, indent=2)
        body.append(
            f"<details><summary>Settings of {escape(setup['name'])}</summary>"
            f"<pre>{escape(settings)}</pre></details>"
        )
        body.append(_queries(setup))
    return _page(title, body)


def calibration_html(values: Mapping[str, Any]) -> str:
    """The page of a calibration, from the values that ``knowport calibrate --json`` prints."""
    title = "Calibration of the relevance levels"
    body = [f"<h1>{title}</h1>"]
    if values["refusal"]:
        body.append(f'<p class="warning">Not calibrated. {escape(values["refusal"])}</p>')
    shown, found = calibration_tables(values)
    body.append(_table(["", ""], [list(row) for row in shown]))
    if "risk_coverage" in values:
        plot = svg.lines(
            "Risk against coverage, held out: as fewer queries are refused",
            {"held out": values["risk_coverage"]},
            "coverage: share of queries answered",
            "risk: share of answers without a relevant document",
        )
        body.append(f"<figure>{plot}</figure>")
    body += [f"<h2>{escape(name)}</h2>{_table(head, rows)}" for name, head, rows in found]
    return _page(title, body)


def _page(title: str, body: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def plots(report: Mapping[str, Any]) -> list[str]:
    """SVG texts: measures by group, latency by step, risk against coverage, changes."""
    setups = report["setups"]
    groups = list(setups[0]["figures"])
    found = []
    for name in _PLOTTED:
        series = {
            setup["name"]: [_bar(setup["figures"][group].get(name)) for group in groups]
            for setup in setups
        }
        shown = [at for at in range(len(groups)) if any(v[at] for v in series.values())]
        if shown:
            picked = {key: [values[at] for at in shown] for key, values in series.items()}
            title = f"{name} by group, 95 % intervals"
            found.append(svg.grouped_bars(title, [groups[at] for at in shown], picked))
    for share in ("p50", "p95"):
        rows = {
            setup["name"]: {
                step: of_step[share]
                for step, of_step in setup["latency_ms"].items()
                if step != "total" and of_step[share] is not None
            }
            for setup in setups
        }
        found.append(svg.stacked(f"Latency: {share} of each step", rows, "ms"))
    curves = {setup["name"]: setup["risk_coverage"] for setup in setups if setup["risk_coverage"]}
    if curves:
        found.append(
            svg.lines(
                "Risk against coverage: as the threshold on the relevance score falls",
                curves,
                "coverage: share of queries answered",
                "risk: share of answers without a relevant document",
            )
        )
    compared = report.get("comparison")
    if compared and compared["changes"]:
        rows_of_changes = [
            (f"{r['query_id']} {r['text']}", r["delta"]) for r in compared["changes"]
        ]
        title = f"Largest changes of {compared['changes_of']}: {compared['b']} - {compared['a']}"
        found.append(svg.changes(title, rows_of_changes))
    return found


def _bar(
    figure: Mapping[str, Any] | None,
) -> tuple[float, float | None, float | None] | None:
    if figure is None or figure["mean"] is None:
        return None
    return figure["mean"], figure["low"], figure["high"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    thead = f"<thead><tr>{heads}</tr></thead>" if any(head) else ""
    return f'<div class="wide"><table>{thead}<tbody>{body}</tbody></table></div>'


def _queries(setup: Mapping[str, Any]) -> str:
    """Every query with its figures and evidence, folded."""
    rows = []
    for query in setup["queries"]:
        values = query["values"]
        shown = [f"{values[n]:.3f}" if n in values else "-" for n in ("nDCG@10", "SpanHit@5")]
        score = "-" if query["score"] is None else f"{query['score']:.3f}"
        rows.append(
            [
                query["query_id"],
                query["text"],
                *shown,
                query["level"],
                score,
                ", ".join(query["evidence"]),
            ]
        )
    head = ["query", "text", "nDCG@10", "SpanHit@5", "level", "score", "evidence"]
    return (
        f"<details><summary>Queries of {escape(setup['name'])}</summary>{_table(head, rows)}"
        "</details>"
    )
