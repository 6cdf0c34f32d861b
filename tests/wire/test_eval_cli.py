"""``knowport eval`` and ``knowport calibrate`` as a script meets them, with the bundled model."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from support import clean_environment, driver, knowport, make_folder, mark

PAGES = {f"page{n}.md": f"# Page {n}\n\n{mark('cli', n)}\n" for n in range(3)}
QUERIES = [
    {"_id": f"q{n}", "text": mark("cli", n), "group": "first" if n == 0 else "rest"}
    for n in range(3)
]
GATE = """
set = "set"
group_by = "group"
tolerance = 0.01
[index]
documents = 3
[expected.overall]
"R@1" = {value}
[expected.first]
"nDCG@10" = 1.0
"""


class Base:
    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.set = make_folder(
            folder / "set",
            {
                **PAGES,
                "queries.jsonl": "".join(json.dumps(query) + "\n" for query in QUERIES),
                "qrels.tsv": "".join(f"q{n}\tpage{n}.md\t1\n" for n in range(3)),
            },
        )
        self.first = knowport(
            "eval", self.set, "--group-by", "group", "--report", folder / "out", "--json",
            home=self.home,
        )  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(tmp_path_factory.mktemp("eval"))


def test_json_alone_on_stdout_and_progress_on_stderr(base: Base) -> None:
    assert base.first.returncode == 0, base.first.stderr
    report = json.loads(base.first.stdout)
    assert report["set"]["documents"] == 3
    assert set(report["setups"][0]["figures"]) == {"overall", "first", "rest"}
    assert "queries 3/3" in base.first.stderr
    assert {path.name for path in (base.folder / "out").iterdir()} == {
        "report.html", "report.json", "report.md",
    }  # fmt: skip
    assert json.loads((base.folder / "out" / "report.json").read_text("utf-8")) == report
    assert (base.home / "evaluation").is_dir()
    assert not (base.home / "milvus.db").exists(), "the home's own index is never touched"


def test_tables_for_people(base: Base) -> None:
    done = knowport("eval", base.set, "--compare", "bm25", "dense", home=base.home)
    assert done.returncode == 0, done.stderr
    for part in ("bm25: ranking", "dense against bm25", "nDCG@10", "no setting of the product"):
        assert part in done.stdout
    assert "0 chunks" in done.stderr or "ingest" in done.stderr


def test_a_gate_passes_fails_and_asks_to_be_raised(base: Base) -> None:
    outcomes = {}
    for value in ("1.0", "0.5"):
        path = base.folder / f"gate-{value}.toml"
        path.write_text(GATE.replace("{value}", value), encoding="utf-8")
        outcomes[value] = knowport("eval", "--gate", path, home=base.home)
        assert outcomes[value].returncode == 0, outcomes[value].stderr
    assert "raise" not in outcomes["1.0"].stdout
    assert '"R@1" = { value = 1.0000, tolerance = 0.01 }' in outcomes["0.5"].stdout
    (base.set / "qrels.tsv").write_text("q0\tpage0.md\t1\nq1\tpage2.md\t1\n", encoding="utf-8")
    try:
        path = base.folder / "gate-1.0.toml"
        failed = knowport("eval", "--gate", path, "--json", home=base.home)
        assert failed.returncode == 12
        values = json.loads(failed.stdout)
        assert values["passed"] is False
        assert {v["name"]: v["state"] for v in values["verdicts"]}["overall R@1"] == "worse"
    finally:
        (base.set / "qrels.tsv").write_text(
            "".join(f"q{n}\tpage{n}.md\t1\n" for n in range(3)), encoding="utf-8"
        )


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["eval"], 2, "No set was named"),
        (["eval", "nowhere"], 2, "no such folder"),
        (["eval", "set", "--compare", "fast", "dense"], 2, "No setup is called 'fast'"),
        (["eval", "set", "--compare", "rrf", "dense", "--mode", "dense"], 2, "leave out --mode"),
        (["eval", "set", "--group-by", "colour"], 2, "has a field 'colour'"),
        (["eval", "set", "--measure", "Wisdom@3"], 2, "is no measure"),
        (["eval", "set", "--gate", "g.toml"], 2, "leave out SET"),
        (["eval", "--gate", "none.toml"], 3, "There is no file"),
        (["calibrate", "--queries", "none.jsonl"], 2, "there is no such file"),
        (["calibrate", "--queries", "set/queries.jsonl"], 2, "lists the documents"),
        (["calibrate", "--queries", "l.jsonl", "--refuse-below", "0.9"], 2, "between 0 and 0.75"),
    ],
)
def test_errors_name_the_way_out(base: Base, arguments: list[str], code: int, what: str) -> None:
    done = knowport(*arguments, "--json", home=base.home)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert what in json.loads(done.stderr)["error"]["message"]


def test_some_failed_is_told_by_the_exit_code(base: Base) -> None:
    bad = base.set / "latin.md"
    bad.write_bytes(b"# caf\xe9\n")
    try:
        done = knowport("eval", base.set, home=base.home)
    finally:
        bad.unlink()
    assert done.returncode == 8
    assert "Not indexed: 1 document: latin.md (unknown_encoding" in done.stderr


def test_calibrate_refuses_says_why_and_stores_nothing(base: Base) -> None:
    home = base.folder / "own"
    labelled = base.folder / "labelled.jsonl"
    labelled.write_text('{"text": "x y", "documents": ["page1.md"]}\n', encoding="utf-8")
    empty = knowport("calibrate", "--queries", labelled, home=home)
    assert empty.returncode == 2
    assert "holds no document" in empty.stderr
    assert knowport("ingest", base.set, home=home).returncode == 0
    done = knowport("calibrate", "--queries", labelled, "--json", home=home)
    assert done.returncode == 13
    assert "at least 15 are needed" in json.loads(done.stdout)["refusal"]
    assert not (home / "calibration.json").exists()


def test_calibrate_stores_and_lookups_use_it(base: Base) -> None:
    home = base.folder / "calibrated"
    pages = {f"p{n}.md": f"# Page {n}\n\n{mark('cal', n)}\n" for n in range(8)}
    rows: list[dict[str, object]] = [
        {"text": mark("cal", n), "documents": [f"p{n}.md"]} for n in range(8)
    ]
    rows += [{"text": f"how do I bake bread number {n}", "documents": []} for n in range(8)]
    folder = make_folder(base.folder / "cal", pages)
    labelled = base.folder / "cal.jsonl"
    labelled.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert knowport("ingest", folder, home=home).returncode == 0
    dry = knowport("calibrate", "--queries", labelled, "--dry-run", home=home)
    assert dry.returncode == 0, dry.stderr
    assert not (home / "calibration.json").exists()
    out = base.folder / "calibration"
    done = knowport("calibrate", "--queries", labelled, "--report", out, home=home)
    assert done.returncode == 0, done.stderr
    for part in ("AUROC", "held out", "Risk-coverage", "calibration.json"):
        assert part in done.stdout
    page = (out / "calibration.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert "default-src 'none'" in page
    assert "Refusing" in page
    assert json.loads((out / "calibration.json").read_text(encoding="utf-8"))["queries"] == 16
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as ledger:
        assert ledger.execute("SELECT count(*) FROM traces").fetchone() == (0,)
    explained = json.loads(knowport("explain", mark("cal", 1), "--json", home=home).stdout)
    assert explained["calibrated"] is True
    (folder / "new.md").write_text("# New\n\nAnother page.\n", encoding="utf-8")
    assert knowport("ingest", folder, home=home).returncode == 0
    answer = knowport("lookup", mark("cal", 1), "--json", home=home)
    codes = [notice["code"] for notice in json.loads(answer.stdout)["notices"]]
    assert codes == ["calibration_expired"]
    status = knowport("status", "--json", home=home)
    assert "corpus changed" in status.stderr
    assert "corpus changed" in json.loads(status.stdout)["warnings"][0]


def test_an_interrupt_ends_it_between_documents_and_the_next_run_goes_on(base: Base) -> None:
    work, home = base.folder / "interrupted", base.folder / "home2"
    outputs = [base.folder / name for name in ("stdout", "stderr")]
    arguments = ["eval", base.set, "--work", work, "--json", f"--home={home}"]
    pid = driver().start(
        do="cli",
        arguments=[*map(str, arguments)],
        environment=clean_environment(),
        folder=base.folder,
        stdout=outputs[0],
        stderr=outputs[1],
        seconds_per_text=0.4,
    )

    for _ in range(300):
        if outputs[1].exists() and "ingest" in outputs[1].read_text("utf-8"):
            break
        time.sleep(0.1)
    os.kill(pid, signal.SIGINT)
    assert driver().ended() == 130
    assert outputs[0].read_text("utf-8") == ""
    assert "Interrupted" in outputs[1].read_text("utf-8")
    assert "Traceback" not in outputs[1].read_text("utf-8")


def test_help_has_an_example(base: Base) -> None:
    for name, example in (("eval", "--compare dense hybrid"), ("calibrate", "labelled.jsonl")):
        done = knowport(name, "--help", home=base.home)
        assert done.returncode == 0
        assert f"Example: knowport {name}" in done.stdout
        assert example in done.stdout
