"""A whole rebuild in this process, with what is shown meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowport.entrypoints import rebuild_output as output
from knowport.entrypoints.ingest_output import StopOnInterrupt, ingest_progress
from knowport.entrypoints.judging import judge_of
from knowport.entrypoints.options import err
from knowport.knowledge_base import KnowledgeBase
from knowport.pipelines.rebuild_ports import NotVerified

if TYPE_CHECKING:
    from knowport.evaluation.labelled import LabelledQuery


def run_here(
    kb: KnowledgeBase,
    labelled: tuple[LabelledQuery, ...] | None,
    stop: StopOnInterrupt,
    *,
    force: bool,
    sample: int,
    reread: bool,
    quiet: bool,
) -> dict[str, Any]:
    """What was done, as JSON values; where it did not pass, as far as it came.

    Folders are read again before it; where the index takes no writes, because it was built with
    another embedder, say, right after the switch. Raises as ``Rebuild.run`` otherwise.
    """
    done: dict[str, Any] = {"build": None, "verify": None, "switch": None}

    def read() -> None:
        with ingest_progress(quiet=quiet) as on_file:
            found = kb.reread(on_progress=on_file, should_stop=stop.asked)
        done["reread"] = output.reread_json(found)

    first = reread and kb.takes_writes
    if first:
        read()
    if stop.asked():
        return done
    if not quiet and kb.rebuild.needless:
        err.print("The index is as the settings ask for it; this builds the same again.")
    with output.rebuild_progress(quiet=quiet) as on_progress:
        try:
            report = kb.rebuild.run(
                judge=judge_of(kb, labelled, on_progress),
                force=force,
                sample=sample,
                on_progress=on_progress,
                should_stop=stop.asked,
            )
        except NotVerified as error:
            if error.run is None:
                raise
            report = error.run
    done |= output.run_json(report)
    if reread and not first and report.switch is not None:
        read()
    return done
