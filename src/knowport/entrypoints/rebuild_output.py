"""What a rebuild shows while it runs, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from knowport.core.wording import counted
from knowport.entrypoints import wire
from knowport.entrypoints.progress import step_progress
from knowport.model import Reread
from knowport.pipelines.rebuild_ports import (
    OnProgress,
    RebuildProgress,
    RebuildStatus,
    RunReport,
    VerifyReport,
)

Values: TypeAlias = Mapping[str, Any]


def rebuild_progress(*, quiet: bool) -> AbstractContextManager[OnProgress]:
    """See ``step_progress``."""
    return step_progress(quiet=quiet, what=_what)


def _what(now: RebuildProgress) -> str:
    if now.step != "build":
        return now.step
    return f"build, vectors: {now.hits} from the cache, {now.misses} made"


def as_progress(values: Values) -> RebuildProgress:
    """The progress that a job tells, of which a later version may tell more."""
    return RebuildProgress(**{part.name: values[part.name] for part in fields(RebuildProgress)})


# -- results, as the JSON values that a service sends and --json prints -------------------------


def build_text(built: Values) -> str:
    stopped = (
        " Stopped before it was whole; `knowport rebuild run` goes on." if built["stopped"] else ""
    )
    removed = f", {built['removed']} removed" if built["removed"] else ""
    return (
        f"Generation {built['generation']}: {counted(built['documents'], 'document')}, "
        f"{counted(built['chunks'], 'chunk')} written{removed} in {built['seconds']:.1f} s; "
        f"vectors: {built['hits']} from the cache, {built['misses']} made.{stopped}"
    )


_FATES = {
    "same": "stand for the same text",
    "moved": "move to another chunk",
    "split": "are split",
    "changed": "change",
    "gone": "are gone",
}


def verify_text(verified: Values) -> str:
    figures = verified["report"]
    said = [
        f"{'Verified' if verified['passed'] else 'NOT verified'}: "
        f"{counted(figures['documents'], 'document')}, {counted(figures['chunks'], 'chunk')} "
        f"compared, {figures['searched_for']} searched for, "
        f"{counted(figures['findings'], 'finding')}."
    ]
    if figures.get("not_compared"):
        said.append(
            "Lookups were not compared with the active generation: "
            f"{figures['not_compared'].rstrip('.')}."
        )
    if "judge" in figures and figures["judge"].get("comparison"):
        judged = figures["judge"]
        compared, medians = judged["comparison"], judged["median_ms"]
        said.append(
            f"{judged['measure']} over {compared['queries']} labelled queries: "
            f"{compared['mean_a']:.3f} before, {compared['mean_b']:.3f} now (p = "
            f"{compared['p_value']:.3g}); median {medians['active']:.1f} ms before, "
            f"{medians['new']:.1f} ms now; {judged['left_out']} left out, which no document "
            "here answers."
        )
    keys = {fate: n for fate, n in figures.get("evidence_keys", {}).items() if n}
    if set(keys) - {"same"}:
        told = [f"{number} {_FATES[fate]}" for fate, number in keys.items()]
        said.append(f"Evidence keys: {', '.join(told)}; `knowport evidence KEY` follows them.")
    said += [f"Against it: {failure}." for failure in verified["failures"]]
    return "\n".join(said)


def switch_text(switched: Values) -> str:
    forced = ", although it is not verified (--force)" if switched["forced"] else ""
    text = (
        f"Switched from {switched['previous']} to {switched['generation']}{forced}; "
        f"{counted(switched['caught_up'], 'document')} caught up, writers waited "
        f"{1000 * switched['blocked']:.0f} ms. `knowport rebuild rollback` goes back."
    )
    return f"{text}\nWarning: {switched['warning']}" if switched["warning"] else text


def run_text(done: Values) -> str:
    parts = [_reread_text(one) for one in done.get("reread", ())]
    if done["build"] is None:
        return "\n".join([*parts, "Stopped before the rebuild; run the same command again."])
    parts.append(build_text(done["build"]))
    if done["verify"] is not None:
        parts.append(verify_text(done["verify"]))
    if done["switch"] is not None:
        parts.append(switch_text(done["switch"]))
    elif done["verify"] is not None and done["verify"]["passed"]:
        parts.append("Stopped before the switch; `knowport rebuild run` goes on.")
    return "\n".join(parts)


def run_json(report: RunReport) -> dict[str, Any]:
    return {
        "build": asdict(report.build),
        "verify": None if report.verify is None else verify_json(report.verify),
        "switch": None if report.switch is None else asdict(report.switch),
    }


def reread_json(found: Sequence[Reread]) -> list[dict[str, Any]]:
    return [
        {
            "source": one.source,
            "folder": one.folder,
            "report": None if one.report is None else wire.report_json(one.report),
        }
        for one in found
    ]


def reread_stopped(done: Values) -> bool:
    return any(one["report"] and one["report"]["interrupted"] for one in done.get("reread", ()))


def reread_failed(done: Values) -> bool:
    return any(
        one["report"] and one["report"]["counts"]["failed"] for one in done.get("reread", ())
    )


def _reread_text(one: Values) -> str:
    where = f"{one['source']}, {one['folder']}"
    if one["report"] is None:
        return f"Not read again, and rebuilt from its stored texts: {where}."
    counts = ", ".join(f"{number} {outcome}" for outcome, number in one["report"]["counts"].items())
    failed = [
        f"\n  {file['path']}: {file['reason']}: {file['detail']}"
        for file in one["report"]["files"]
        if file["outcome"] == "failed"
    ]
    return f"Read again: {where}: {counts}.{''.join(failed)}"


def verify_json(report: VerifyReport) -> dict[str, Any]:
    return {
        "generation": report.generation,
        "passed": report.passed,
        "failures": list(report.failures),
        "report": dict(report.report),
    }


def status_json(status: RebuildStatus) -> dict[str, Any]:
    return {
        "generations": [
            {
                **asdict(row.generation),
                "documents_present": row.present,
                "documents_known": row.documents,
                "chunks": row.chunks,
                "collection_lost": row.lost,
            }
            for row in status.generations
        ],
        "differs": list(status.differs),
        "unknown_collections": list(status.unknown),
        "next_step": status.next_step,
        "at_work": None,  # a service tells of a job
    }


def print_status(out: Console, status: Values) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("generation", "state", "documents", "chunks", "of size", "embedder", "since"):
        table.add_column(name, overflow="fold")
    for row in status["generations"]:
        table.add_row(
            row["name"],
            row["state"],
            f"{row['documents_present']}/{row['documents_known']}",
            str(row["chunks"]),
            str(row["chunking"].get("size", "?")),
            f"{row['embedder']['provider']} {row['embedder']['model']}",
            row["activated_at"] or row["created_at"],
        )
    if status["generations"]:
        out.print(table)
    for row in status["generations"]:
        for remark in _remarks(row):
            out.print(f"{row['name']}: {remark}.", markup=False)
    for text in status["differs"]:
        out.print(f"Not as the settings say: {text}.", markup=False)
    for name in status["unknown_collections"]:
        out.print(
            f"Collection {name} is none of this ledger. If it is no other knowledge base's, "
            f"`knowport rebuild drop {name}` drops it.",
            markup=False,
        )
    job = status.get("at_work")
    if job:
        now, far = job["progress"], ""
        if now and now["total"]:
            far = f", {now['step']}: {now['done']} of {now['total']}"
        out.print(
            f"At work: {job['kind']} ({job['job_id']}, {job['state']}{far}). `knowport rebuild "
            "abort` stops it, and drops what it was building.",
            markup=False,
        )
    elif status["next_step"]:
        out.print(status["next_step"], markup=False)


def _remarks(row: Values) -> list[str]:
    said, report = [], row["report"]
    if row["collection_lost"] and row["state"] != "building":
        said.append("its collection is gone")
    if row["forced"]:
        said.append("activated by force")
    if report.get("passed"):
        against = f" against {report['against']}" if report["against"] else ""
        said.append(f"verified{against}, {report['verified_at']}")
    elif report:
        said += [failure.rstrip(".") for failure in report.get("failures", ())]
    return said
