"""Gates: figures that a set reached once and must not fall below.

A gate file is TOML::

    set = "../examples/ops-kb"        # below the file's own folder
    setup = "hybrid"                  # a named setup; by default the default settings
    group_by = "group"
    seed = 1
    tolerance = 0.01                  # how much worse, absolutely, is still the same

    [settings.rag]                    # as knowport.toml; nothing else is in force: neither the
    retrieve_k = 20                   # environment nor ./knowport.toml reach a gate

    [index]                           # must hold exactly
    documents = 33

    [expected.overall]                # then one section for each group
    "nDCG@10" = 0.62
    "R@5" = { value = 0.70, tolerance = 0.02 }

All measures are better when higher. A gate fails when a figure is worse beyond its tolerance, when
a measure or a group is missing, when the index holds something else, or when a query failed, lost
a leg, or a document was not indexed. It says which figures are better, so that they can be raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from knowport.errors import ConfigurationError
from knowport.evaluation import measures, setups
from knowport.evaluation.runs import Setup
from knowport.evaluation.summary import OVERALL
from knowport.evaluation.tables import Table, troubles
from knowport.settings import Settings

_KEYS = {"set", "setup", "group_by", "seed", "tolerance", "settings", "index", "expected"}
_INDEX = ("documents", "chunks", "queries", "unanswerable")
_ROUNDING = 1e-9
SEED = 1


class State(StrEnum):
    OK = "ok"
    BETTER = "better"
    WORSE = "worse"
    MISSING = "missing"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The least figure of a measure in a group is ``value`` minus ``tolerance``, both 0..1."""

    group: str
    measure: str
    value: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate file. ``more`` are measures beyond the usual ones."""

    path: Path
    set_folder: Path
    setup: Setup
    group_by: str | None
    seed: int
    index: Mapping[str, int]
    expected: tuple[Expectation, ...]
    more: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one expectation; ``found`` is None where there is no figure."""

    name: str
    state: State
    expected: float | None
    found: float | None
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.state in (State.OK, State.BETTER)


def read_gate(path: Path, home: Path) -> Gate:
    """Read a gate; its scratch indexes stand below ``home``. Raises ConfigurationError."""
    values = setups.read_toml(path)
    if unknown := sorted(values.keys() - _KEYS):
        raise _bad(path, f"unknown keys: {', '.join(unknown)}")
    folder = values.get("set")
    if not isinstance(folder, str):
        raise _bad(path, "`set` must name the folder of a set")
    for key, kind in (("group_by", str), ("seed", int), ("setup", str)):
        if key in values and not isinstance(values[key], kind):
            raise _bad(path, f"`{key}` has the wrong type")
    expected = tuple(_expected(path, values))
    if not expected:
        raise _bad(path, "it expects nothing")
    index = values.get("index", {})
    if not isinstance(index, dict) or any(
        name not in _INDEX or type(count) is not int for name, count in index.items()
    ):
        raise _bad(path, f"[index] holds whole numbers: {', '.join(_INDEX)}")
    usual = {*measures.RANKING, *measures.EVIDENCE, *measures.ABSTENTION}
    return Gate(
        path=path,
        set_folder=path.parent / folder,
        setup=_setup(path, values, home),
        group_by=values.get("group_by"),
        seed=values.get("seed", SEED),
        index=index,
        expected=expected,
        more=tuple(dict.fromkeys(e.measure for e in expected if e.measure not in usual)),
    )


def _setup(path: Path, values: Mapping[str, Any], home: Path) -> Setup:
    name = values.get("setup", "default")
    base, mode, note = setups.named(name) if "setup" in values else ({}, None, "")
    try:
        merged = setups.merged(base, values.get("settings", {}))
        settings = Settings(**setups.merged(merged, {"home": home}))
    except (ValidationError, TypeError, AttributeError) as error:
        raise _bad(path, f"[settings] cannot be used: {error}") from None
    return Setup(name, settings, mode, note)


def _expected(path: Path, values: Mapping[str, Any]) -> list[Expectation]:
    default = _share(path, "tolerance", values.get("tolerance", 0.0))
    groups = values.get("expected", {})
    found = []
    if not isinstance(groups, dict) or not all(isinstance(g, dict) for g in groups.values()):
        raise _bad(path, "[expected.GROUP] sections are needed")
    for group, of_group in groups.items():
        if group != OVERALL and "group_by" not in values:
            raise _bad(path, f"[expected.{group}] needs `group_by`")
        for measure, given in of_group.items():
            name, tolerance, value = f"{group} {measure}", default, given
            if isinstance(given, dict):
                if given.keys() - {"value", "tolerance"} or "value" not in given:
                    raise _bad(path, f"{name}: only `value` and `tolerance` are known")
                value = given["value"]
                tolerance = _share(path, name, given.get("tolerance", default))
            found.append(Expectation(group, measure, _share(path, name, value), tolerance))
    return found


def _share(path: Path, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _bad(path, f"{name}: {value!r} is no number from 0 to 1")
    return float(value)


def judge(gate: Gate, report: Mapping[str, Any]) -> list[Verdict]:
    """Hold a report of one setup against the gate. Pure."""
    setup, found = report["setups"][0], []
    for name, count in gate.index.items():
        actual = report["set"][name]
        state = State.OK if actual == count else State.DIFFERENT
        found.append(Verdict(name, state, count, actual))
    for expectation in gate.expected:
        found.append(_judged(expectation, setup["figures"]))
    found.extend(Verdict(name, State.FAILED, 0, count) for name, count in troubles(report).items())
    return found


def _judged(expectation: Expectation, figures: Mapping[str, Any]) -> Verdict:
    name = f"{expectation.group} {expectation.measure}"
    of_group = figures.get(expectation.group)
    if of_group is None:
        return Verdict(name, State.MISSING, expectation.value, None, "no query is in this group")
    mean = of_group.get(expectation.measure, {}).get("mean")
    if mean is None:
        return Verdict(name, State.MISSING, expectation.value, None, "it was not measured")
    if mean < expectation.value - expectation.tolerance - _ROUNDING:
        state = State.WORSE
    elif mean > expectation.value + expectation.tolerance + _ROUNDING:
        state = State.BETTER
    else:
        state = State.OK
    return Verdict(name, state, expectation.value, mean, f"tolerance {expectation.tolerance:g}")


def passed(verdicts: Sequence[Verdict]) -> bool:
    """Whether nothing stands in the way."""
    return all(verdict.passed for verdict in verdicts)


def table(verdicts: Sequence[Verdict]) -> Table:
    """Verdicts as a table."""

    def number(value: float | None) -> str:
        if value is None:
            return "-"
        return str(value) if isinstance(value, int) else f"{value:.4f}"

    rows = [[v.name, str(v.state), number(v.expected), number(v.found), v.detail] for v in verdicts]
    return "Gate", ["what", "state", "expected", "found", ""], rows


def raised(gate: Gate, verdicts: Sequence[Verdict]) -> str:
    """TOML lines for the gate file with the figures that are better now; '' if none is."""
    better = {v.name: v.found for v in verdicts if v.state is State.BETTER}
    lines: list[str] = []
    for group in dict.fromkeys(e.group for e in gate.expected):
        of_group = [
            f'"{e.measure}" = {{ value = {better[name]:.4f}, tolerance = {e.tolerance:g} }}'
            for e in gate.expected
            if e.group == group and (name := f"{group} {e.measure}") in better
        ]
        if of_group:
            lines += [f"[expected.{group}]", *of_group]
    return "\n".join(lines)


def _bad(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: {problem}.", remedy="docs/evaluation.md tells what a gate file holds."
    )
