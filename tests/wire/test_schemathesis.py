"""The whole API description against the service: whatever it allows and forbids is sent, and every
answer must be one that it describes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from http_service import Running, running, until_ready
from support import clean_environment, make_folder

OPERATIONS = 25
# What is left out: the description cannot say all that makes a query, an id or a scope unusable
# (blank, control characters, bytes in UTF-8), so a request that fits it may still get a 422.
LEFT_OUT = "positive_data_acceptance"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("schema")
    roots = make_folder(folder / "roots", {"a.md": "# A\n\nAlpha.\n"})
    with running(folder / "home", {"ingest_roots": [roots], "job_queue": 100_000}) as one:
        until_ready(one.client)
        yield one


@pytest.mark.parametrize(
    ("phases", "examples"), [("examples,coverage,fuzzing", 10), ("stateful", 4)]
)
def test_every_answer_is_described_and_none_is_a_fault(
    served: Running, tmp_path: Path, phases: str, examples: int
) -> None:
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"{served.url}/openapi.json",
            f"--header=Authorization: Bearer {served.key(role='admin')}",
            f"--phases={phases}",
            f"--max-examples={examples}",
            f"--exclude-checks={LEFT_OUT}",
            "--seed=20240601",
            "--generation-deterministic",
            "--workers=2",
            "--no-color",
        ],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr
    assert f"Selected: {OPERATIONS}/{OPERATIONS}" in done.stdout
