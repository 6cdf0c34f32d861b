"""The alias for outside readers follows every switch, where the engine has aliases."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from pymilvus import MilvusClient

from engines import QUIET
from knowport.adapters.milvus import Engine, MilvusIndex, collections, point_alias
from knowport.errors import EngineError
from knowport.model import SearchMode
from rebuilds import DOCUMENTS, Base, assert_clean
from support import HashEmbedder

pytestmark = pytest.mark.timeout(600)


@pytest.mark.engine("lite-server", "milvus-2.3")
def test_an_alias_is_made_and_moved(engine: Engine) -> None:
    blue, green = (
        MilvusIndex(engine, f"alias_{name}", dimension=2, lexical=False)
        for name in ("blue", "green")
    )
    for index in (blue, green):
        index.create()
    for index in (blue, blue, green, blue):
        point_alias(engine, "alias_of_both", index.collection)
        described = engine.client.describe_alias("alias_of_both")
        assert described["collection_name"] == index.collection
    assert {"alias_blue", "alias_green"} <= set(collections(engine))
    with pytest.raises(EngineError, match="alias alias_green"):
        point_alias(engine, "alias_green", blue.collection)  # the name of a collection


@pytest.mark.engine("lite")
def test_an_embedded_file_has_no_alias_and_needs_none(engine: Engine) -> None:
    point_alias(engine, "anything", "nothing")


@pytest.mark.engine("lite-server", "milvus-2.3")
def test_an_outside_reader_gets_the_old_or_the_new_through_switch_and_rollback(
    engine: Engine, engine_name: str, tmp_path: Path
) -> None:
    base = Base(engine, tmp_path)
    mode: SearchMode = "hybrid" if engine.lexical else "dense"
    settings = {"retrieval": {"search": {"mode": mode}}}
    small = {**settings, "chunking": {"size": 300}}
    with base.open(settings=settings) as kb:
        kb.ingest(base.pages, source="kb")
        wide = kb.status().chunks
    stop, counts, errors = threading.Event(), Counter[int](), []
    reader = MilvusClient(base.uri, grpc_options=QUIET)

    def read() -> None:
        while not stop.wait(0.05):
            try:
                rows = reader.query(base.prefix, filter="", output_fields=["count(*)"])
                counts[int(rows[0]["count(*)"])] += 1
            except Exception as error:  # noqa: BLE001  # any error is what is looked for
                errors.append(error)

    with base.open(settings=small) as kb:  # the start makes the alias
        outside = threading.Thread(target=read)
        outside.start()
        try:
            run = kb.rebuild.run(sample=5)
            assert run.switch is not None
            assert run.switch.warning == ""
            narrow = kb.status().chunks
            described = engine.client.describe_alias(base.prefix)
            assert described["collection_name"] == kb.status().collection
            stop.wait(0.5)
            kb.rebuild.rollback()
            stop.wait(0.5)
        finally:
            stop.set()
            outside.join(120)
        assert errors == []
        assert set(counts) == {wide, narrow}
        assert len(kb.documents()) == DOCUMENTS
        assert_clean(kb)
        kb.rebuild.drop(run.build.generation)
        kb.rebuild.run(sample=5)
        kb.rebuild.drop("g1")  # the alias has left it
    reader.close()


@pytest.mark.engine("lite-server")
def test_a_name_that_is_taken_is_told_of_and_the_switch_made(
    engine: Engine, tmp_path: Path
) -> None:
    base = Base(engine, tmp_path)
    MilvusIndex(engine, base.prefix, dimension=2, lexical=False).create()
    base.filled(HashEmbedder()).close()
    with base.open() as kb:
        assert any(f"alias {base.prefix}" in warning for warning in kb.warnings)
        switch = kb.rebuild.run(sample=5).switch
        assert switch is not None
        assert "does not follow" in switch.warning
        assert kb.status().generation == switch.generation
