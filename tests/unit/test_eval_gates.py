"""evaluation/gates.py: the harness itself, on good and on broken input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowport.errors import ConfigurationError
from knowport.evaluation import gates
from knowport.evaluation.gates import Gate, State
from support import REPOSITORY, make_folder

BASE = """
set = "../set"
group_by = "group"
tolerance = 0.02
[settings.rag]
retrieve_k = 7
[index]
documents = 3
[expected.overall]
"nDCG@10" = 0.5
"R@5" = { value = 0.8, tolerance = 0.1 }
[expected.term]
"R@5" = 1
"""


def gate_of(folder: Path, text: str = BASE) -> Gate:
    path = make_folder(folder / "gates", {"g.toml": text}) / "g.toml"
    return gates.read_gate(path, folder / "home")


def report(**changes: Any) -> dict[str, Any]:
    """What a run reports, as far as a gate reads it."""
    figures: dict[str, Any] = {
        "overall": {"nDCG@10": {"mean": 0.5}, "R@5": {"mean": 0.8}},
        "term": {"R@5": {"mean": 1.0}},
    }
    behaviour = {"errors": 0, "degraded": 0, **changes.get("behaviour", {})}
    for name, value in changes.get("figures", {}).items():
        group, measure = name.split()
        figures[group][measure] = {"mean": value}
    for group in changes.get("without", ()):
        del figures[group]
    return {
        "set": {"documents": 3, "not_indexed": {}, **changes.get("set", {})},
        "setups": [{"figures": figures, "behaviour": {"overall": behaviour}}],
    }


def states(gate: Gate, **changes: Any) -> dict[str, State]:
    return {verdict.name: verdict.state for verdict in gates.judge(gate, report(**changes))}


def test_as_expected(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    assert gate.set_folder == tmp_path / "gates" / ".." / "set"
    assert gate.setup.settings.rag.retrieve_k == 7
    assert gate.setup.settings.home == tmp_path / "home"
    verdicts = gates.judge(gate, report())
    assert {verdict.state for verdict in verdicts} == {State.OK}
    assert gates.passed(verdicts)
    assert gates.raised(gate, verdicts) == ""
    assert len(gates.table(verdicts)[2]) == 4


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("overall nDCG@10", 0.48, State.OK),
        ("overall nDCG@10", 0.4799, State.WORSE),
        ("overall nDCG@10", 0.0, State.WORSE),
        ("overall nDCG@10", None, State.MISSING),
        ("overall nDCG@10", 0.52, State.OK),
        ("overall nDCG@10", 0.521, State.BETTER),
        ("overall R@5", 0.7, State.OK),
        ("overall R@5", 0.69, State.WORSE),
        ("term R@5", 0.97, State.WORSE),
    ],
)
def test_tolerance(tmp_path: Path, name: str, value: float | None, state: State) -> None:
    gate = gate_of(tmp_path)
    verdicts = gates.judge(gate, report(figures={name: value}))
    found = {verdict.name: verdict for verdict in verdicts}[name]
    assert found.state is state
    assert found.found == value
    assert gates.passed(verdicts) is (state in (State.OK, State.BETTER))


def test_better_says_what_to_raise(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    verdicts = gates.judge(gate, report(figures={"overall R@5": 0.95}))
    raised = gates.raised(gate, verdicts)
    assert raised == '[expected.overall]\n"R@5" = { value = 0.9500, tolerance = 0.1 }'
    lifted = BASE.replace('"R@5" = { value = 0.8, tolerance = 0.1 }', raised.split("\n")[1])
    again = gate_of(tmp_path, lifted)
    assert {v.state for v in gates.judge(again, report(figures={"overall R@5": 0.95}))} == {
        State.OK
    }


def test_a_missing_group_fails(tmp_path: Path) -> None:
    assert states(gate_of(tmp_path), without=["term"])["term R@5"] is State.MISSING


def test_a_measure_that_was_not_taken_fails(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, BASE + '"SpanHit@5" = 0.0\n')
    assert states(gate)["term SpanHit@5"] is State.MISSING


@pytest.mark.parametrize(
    ("change", "name", "state"),
    [
        ({"set": {"documents": 2}}, "documents", State.DIFFERENT),
        ({"behaviour": {"errors": 1}}, "queries failed", State.FAILED),
        ({"behaviour": {"degraded": 1}}, "queries lost a leg", State.FAILED),
        ({"set": {"not_indexed": {"a.md": "x"}}}, "documents not indexed", State.FAILED),
    ],
)
def test_trouble_fails_even_where_the_figures_hold(
    tmp_path: Path, change: dict[str, Any], name: str, state: State
) -> None:
    gate = gate_of(tmp_path)
    assert states(gate, **change)[name] is state
    assert not gates.passed(gates.judge(gate, report(**change)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("nonsense", "cannot be read"),
        (BASE.replace('set = "../set"', ""), "`set` must name"),
        (BASE + "[extra]\n", "unknown keys: extra"),
        (BASE.replace("retrieve_k", "retrieve_kk"), r"\[settings\] cannot be used"),
        (BASE.replace("retrieve_k = 7", "retrieve_k = 0"), r"\[settings\] cannot be used"),
        ('set = "x"\n', "expects nothing"),
        ('set = "x"\n[expected]\noverall = 1\n', r"\[expected\.GROUP\]"),
        ('set = "x"\nexpected = 1\n', r"\[expected\.GROUP\]"),
        ('set = "x"\n[expected.term]\n"R@5" = 1\n', "needs `group_by`"),
        (BASE.replace('"nDCG@10" = 0.5', '"nDCG@10" = 1.5'), "no number from 0 to 1"),
        (BASE.replace('"nDCG@10" = 0.5', '"nDCG@10" = nan'), "no number from 0 to 1"),
        (BASE.replace('"nDCG@10" = 0.5', '"nDCG@10" = "0.5"'), "no number from 0 to 1"),
        (BASE.replace('"nDCG@10" = 0.5', '"nDCG@10" = true'), "no number from 0 to 1"),
        (BASE.replace("tolerance = 0.02", "tolerance = -1"), "no number from 0 to 1"),
        (BASE.replace("value = 0.8", "least = 0.8"), "only `value` and `tolerance`"),
        (BASE.replace("documents = 3", "documents = true"), "whole numbers"),
        (BASE.replace("documents = 3", "pages = 3"), "whole numbers"),
        (BASE.replace("[settings.rag]", "seed = 1.5\n[settings.rag]"), "wrong type"),
        (BASE.replace("[settings.rag]", 'setup = "fast"\n[settings.rag]'), "No setup is called"),
    ],
)
def test_a_broken_gate_file_is_an_error_and_no_pass(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        gate_of(tmp_path, text)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no file"):
        gates.read_gate(tmp_path / "none.toml", tmp_path)


def test_more_measures_are_asked_for(tmp_path: Path) -> None:
    assert gate_of(tmp_path, BASE + '"AP@10" = 0.1\n"R@20" = 0.1\n').more == ("AP@10", "R@20")


def test_the_environment_does_not_reach_a_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWPORT_RAG__RETURN_N", "1")
    assert gate_of(tmp_path).setup.settings.rag.return_n == 5


def test_every_gate_of_the_repository_can_be_read(tmp_path: Path) -> None:
    files = list((REPOSITORY / "regressions").glob("*.toml"))
    assert files
    for path in files:
        assert (gates.read_gate(path, tmp_path).set_folder / "queries.jsonl").is_file()
