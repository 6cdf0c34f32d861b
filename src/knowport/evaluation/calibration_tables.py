"""The report of a calibration as tables of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowport.evaluation.tables import Table, cell


def calibration_tables(values: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[Table]]:
    """Facts and tables of a calibration's report."""
    facts_shown = [
        (
            "queries",
            f"{values['queries']}: {values['right']} with right evidence, "
            f"{values['wrong']} without, of them {values['unanswerable']} unanswerable",
        ),
        ("seed", str(values["seed"])),
        ("stored", values["stored"] or "no"),
    ]
    facts_shown += [(f"left out {name}", why) for name, why in values["left_out"].items()]
    if "auroc" not in values:
        return facts_shown, []
    facts_shown.insert(
        1,
        (
            "AUROC",
            f"{cell(values['auroc'], interval=True)} held out; alone: "
            + ", ".join(
                f"{name} {value:.3f}" for name, value in values["auroc_of_features"].items()
            ),
        ),
    )
    names = ("refusal_precision", "refusal_recall", "unanswerable_refused", "right_refused")
    refusals = [
        [label, *(cell(values[key][name], interval=True) for name in names)]
        for label, key in (("held out", "held_out"), ("thresholds in force", "in_force"))
    ]
    spaced = [name.replace("_", " ") for name in names]
    found: list[Table] = [("Refusing", ["", *spaced], refusals)]
    found.append(
        (
            "Other values of --refuse-below, held out",
            ["refuse below", "refused", *spaced[:3]],
            [
                [
                    f"{row['refuse_below']:.1f}",
                    str(row["refused"]),
                    *(_share(row[n]) for n in names[:3]),
                ]
                for row in values["operating_points"]
            ],
        )
    )
    if values["thresholds"]:
        found.append(_levels_table(values))
    found.append(
        (
            "Risk-coverage, held out",
            ["coverage", "risk"],
            [[f"{coverage:.2f}", f"{risk:.3f}"] for coverage, risk in _tenths(values)],
        )
    )
    return facts_shown, found


def _levels_table(values: Mapping[str, Any]) -> Table:
    rows = [
        [
            name,
            "-" if name == "none" else f"{values['thresholds'][name]:.4f}",
            str(level["queries"]),
            _share(level["right"]),
        ]
        for name, level in values["levels"].items()
    ]
    weights = values["thresholds"]
    title = (
        f"Levels (weight of coverage {weights['lexical_weight']:.2f}, of amount "
        f"{weights['amount_weight']:.2f}; counted on the queries fitted on)"
    )
    return title, ["level", "from score", "queries", "right"], rows


def _tenths(values: Mapping[str, Any]) -> list[tuple[float, float]]:
    """About ten points of the curve."""
    curve = values["risk_coverage"]
    return [min(curve, key=lambda point: abs(point[0] - tenth / 10)) for tenth in range(1, 11)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
