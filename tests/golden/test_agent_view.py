"""What an agent sees, to the letter, over a fixed base.

A change here is a change of the contract with every agent. Where it is meant, write the file anew
and read the difference::

    KNOWPORT_REGOLD=1 pytest tests/golden/test_agent_view.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.entrypoints import wire
from knowport.entrypoints.options import dumps
from support import HashEmbedder, make_folder

GOLDEN = Path(__file__).with_name("agent_view.json")
# Taken away at once: Knowport refuses variables with its prefix that name no setting.
REGOLD = os.environ.pop("KNOWPORT_REGOLD", "")

FILES = {
    "mysql/lock-wait.md": "# 锁等待\n\n## 现象\n\n支付库报 ERROR 1205 (HY000)，事务等不到行锁。\n\n"
    "## 处理\n\n查 `sys.innodb_lock_waits`，找到持锁的会话并终止它。\n\n"
    "## 预防\n\n事务要短，先改的行放在最后。\n",
    "redis/failover.md": "---\ntitle: Redis failover\nowner: platform\n---\n\n"
    "Sentinel promotes a replica after `down-after-milliseconds`; clients must reconnect.\n\n"
    "| state | meaning |\n|---|---|\n| sdown | one sentinel |\n| odown | the quorum |\n",
    "notes.txt": "The badge printer on floor 3 uses cartridge HP-950XL.\n",
}
LOOKUPS: list[dict[str, Any]] = [
    {"query": "ERROR 1205 (HY000) 事务等不到行锁"},
    {"query": "which cartridge does the badge printer use", "mode": "dense"},
    {"query": "sentinel", "category": "redis-cluster"},
]


def seen(folder: Path) -> list[dict[str, Any]]:
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(make_folder(folder / "kb", FILES), source="kb", category_from_folder=True)
        views = []
        for lookup in LOOKUPS:
            answer = json.loads(dumps(wire.answer_json(kb.lookup(**lookup))))
            assert answer["lookup_id"].startswith("lk_")
            views.append({"lookup": lookup, "answer": {**answer, "lookup_id": "lk_*"}})
    return views


def test_the_agents_view_is_as_it_was(tmp_path: Path) -> None:
    views = seen(tmp_path)
    if REGOLD:
        GOLDEN.write_text(dumps(views) + "\n", encoding="utf-8")
        pytest.skip(f"{GOLDEN.name} was written anew")
    assert json.loads(GOLDEN.read_text(encoding="utf-8")) == views
    assert dumps(views) + "\n" == GOLDEN.read_text(encoding="utf-8"), "the order of keys"
