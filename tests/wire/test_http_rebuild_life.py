"""A service that is ended in the middle of a rebuild: it answers, and the rebuild goes on."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from http_service import Serving
from knowport.client import Client
from rebuilds import doc_id, text_of
from support import driver, knowport, make_folder, mark

DOCUMENTS = 6
SMALL = {"KNOWPORT_CHUNKING__SIZE": "300"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rebuilt")
    files = make_folder(folder / "kb", {f"d{n:02}.md": text_of(n) for n in range(DOCUMENTS)})
    done = knowport("ingest", files, home=folder / "home", hash_embedder=True)
    assert done.returncode == 0, done.stderr
    return folder / "home"


@pytest.fixture
def home(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "home"))


def assert_whole(client: Client, generation: str) -> None:
    """Every page is found by its words, in that generation, and the audit is clean."""
    for number in range(DOCUMENTS):
        found = client.lookup(mark("first", number, 0, 0))
        assert found.generation == generation
        assert found.evidence[0].document_id == f"{doc_id(number)}#chunk-0"
    audited = client.wait(client.audit(sample="all").job_id)
    assert audited.result is not None
    assert audited.result["findings"] == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)]
)
def test_ended_in_the_middle_of_a_rebuild_it_answers_and_goes_on(
    home: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    serving = Serving(tmp_path)
    process = serving.start(home, seconds_per_text=0.05, **SMALL)
    with Client(process.url) as client:
        job = client.rebuild.run(sample=5)
        deadline = time.monotonic() + 120
        while not (progress := client.job(job.job_id).progress) or progress["misses"] < 5:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.tell(number)
        assert driver().ended() == code

    again = serving.start(home, **SMALL)
    with Client(again.url) as client:
        assert [row.state for row in client.rebuild.status().generations] == ["active", "building"]
        assert_whole(client, "g1")
        done = client.wait(client.rebuild.run(sample=5).job_id)
        assert done.state == "done", done
        assert done.result is not None
        assert done.result["build"]["hits"] >= 5, "what was embedded before is not embedded again"
        assert_whole(client, done.result["switch"]["generation"])
        client.wait(client.rebuild.rollback().job_id)
        assert_whole(client, "g1")
        again.tell(signal.SIGTERM)
        assert driver().ended() == 0
