"""What a measurement stands on: the machine, the versions, and what the processes took."""

from __future__ import annotations

import cProfile
import json
import os
import platform
import pstats
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

LIBRARIES = ("knowport", "pymilvus", "milvus-lite", "numpy", "SQLAlchemy", "grpcio")


def description() -> dict[str, object]:
    """The machine, the libraries and the date; ``load`` is the load average before the run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(_kilobytes(Path("/proc/meminfo"), "MemTotal") / 1e6, 1),
        "load": [round(value, 1) for value in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def heading(meaning: str, machine: dict[str, object]) -> str:
    """The top of an output: what its figures mean and what they were measured on."""
    libraries = machine["libraries"]
    assert isinstance(libraries, dict)
    return "\n".join(
        [
            meaning.strip(),
            "",
            f"machine    {machine['cores']} cores, {machine['cpu']}, {machine['memory_gb']} GB, "
            f"{machine['system']}",
            f"load       {machine['load']} (1, 5, 15 minutes) before the run",
            f"software   Python {machine['python']}, "
            + ", ".join(f"{name} {number}" for name, number in libraries.items()),
            f"date       {machine['date']}",
        ]
    )


def finish(
    machine: dict[str, object],
    result: dict[str, Any],
    profile: cProfile.Profile | None,
    file: Path | None,
) -> None:
    """Print where a profiled run spent its time, and write the figures to a file, if there is one
    of either."""
    if profile:
        for order in ("cumulative", "tottime"):
            pstats.Stats(profile).strip_dirs().sort_stats(order).print_stats(45)
    if file:
        text = json.dumps({"machine": machine, **result}, indent=2)
        file.write_text(text + "\n", encoding="utf-8")


def peak_rss_mb() -> float:
    """Sum of the highest resident sizes of this process and all below it.

    The peaks need not have been at the same time, so this is an upper bound.
    """
    return sum(_peak_kilobytes(pid) for pid in [os.getpid(), *_below(os.getpid())]) / 1024


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, share))


def _below(parent: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _parent(folder) == parent:
            yield int(folder.name)
            yield from _below(int(folder.name))


def _parent(folder: Path) -> int:
    try:
        # The name in parentheses may hold spaces; the parent is the second field after it.
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return -1


def _peak_kilobytes(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM")


def _kilobytes(table: Path, name: str) -> int:
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"
