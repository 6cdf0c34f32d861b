"""`explain`, `trace` and `domains check` as a user meets them: processes, and a real engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase, load_settings
from knowport.errors import ConfigurationError
from support import HashEmbedder, knowport, make_folder, page

DOMAINS = """
[[domain]]
id = "cellar"
keywords = ["flooded"]

[[domain]]
id = "mysql"
names = ["MySQL"]

[[domain]]
id = "redis"
names = ["Redis", "缓存"]
"""
CAFE = unicodedata.normalize("NFC", "Café Ångström.md")
CELLAR = "Flooded cellar. " * 9
FILES = {
    "domains.toml": DOMAINS,
    "mysql/locks.md": page("Lock waits", [f"A lock wait timeout, case {n}." for n in range(4)]),
    "mysql/codes.md": "# Codes\n\nERROR 1205 (HY000): lock wait timeout exceeded\n",
    "redis/failover.md": "# Redis failover\n\nA lock wait while the replica is promoted.\n",
    "cellar/a.md": f"# A\n\n{CELLAR}\n",
    "cellar/b.md": f"# B\n\n{CELLAR}\n",
    f"redis/{CAFE}": "# Coffee\n\nThe espresso machine needs descaling.\n",
}
PRIVATE = {"secret.md": "# Secret\n\nA lock wait timeout of somebody else.\n"}


def run(*arguments: str | Path, home: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """With settings as RAG__RETURN_N=1."""
    environment = {f"KNOWPORT_{name}": str(value) for name, value in settings.items()}
    return knowport(*arguments, home=home, environment=environment, hash_embedder=True)


def only_json(done: subprocess.CompletedProcess[str]) -> Any:
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be looked things up in."""
    folder = tmp_path_factory.mktemp("explain")
    home = folder / "home"
    kb = make_folder(folder / "kb", FILES)
    done = run("ingest", kb, "--category-from-folder", "--json", home=home)
    assert json.loads(done.stdout)["counts"]["indexed"] == 6
    private = make_folder(folder / "private", PRIVATE)
    assert run("ingest", private, "--scope", "private", home=home).returncode == 0
    return home


# -- explain ----------------------------------------------------------------------------------


def test_explain_json_is_the_answer_and_all_that_led_to_it(home: Path) -> None:
    explained = only_json(run("explain", "MySQL lock wait timeout", "--json", home=home))

    assert list(explained) == [
        "answer",
        "query",
        "plan",
        "attempts",
        "selected_attempt",
        "calibrated",
        "candidates",
        "fusion_check",
        "timings_ms",
        "document",
    ]
    assert explained["query"] == "MySQL lock wait timeout"
    assert explained["plan"]["domains"] == ["mysql"]
    assert explained["plan"]["soft_category"] == "mysql"
    assert [term["text"] for term in explained["plan"]["terms"]] == [
        "mysql",
        "lock",
        "wait",
        "timeout",
    ]
    assert explained["attempts"][0]["name"] == "filtered"
    assert explained["fusion_check"] == []
    assert explained["document"] is None
    kept = [c["document_id"] for c in explained["candidates"] if c["fate"] == "kept"]
    assert kept == [item["document_id"] for item in explained["answer"]["evidence"]]
    for candidate in explained["candidates"]:
        assert candidate["dense"] is not None
        assert candidate["dense_rank"] or candidate["sparse_rank"]
    assert list(explained["timings_ms"]) == ["plan", "embed", "search", "select", "pack"]


def test_explain_for_people(home: Path) -> None:
    done = run("explain", "MySQL 1205", "-d", "kb/mysql/codes.md", home=home)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "query    MySQL 1205"
    assert "terms    mysql (word), 1205 (identifier)" in lines
    assert "domains  mysql" in lines
    assert "filter   mysql (guessed)" in lines
    assert any(line.startswith("attempt  filtered: ") for line in lines)
    row = next(line for line in lines if "kb/mysql/codes.md#chunk-0" in line)
    assert row.split()[:3] == ["1", "kb/mysql/codes.md#chunk-0", "kept"]
    assert lines[-1] == "kept: kb/mysql/codes.md#chunk-0, rank 1: It is in the answer."
    assert "disagree" not in done.stdout


REASONS = [
    ("1205", {}, "kb/mysql/codes.md#chunk-0", "kept"),
    ("1205", {}, "kb/mysql/codes.md", "kept"),
    ("1205", {}, "kb/nothing.md", "not_in_index"),
    ("1205", {}, "kb/mysql/codes.md#chunk-1", "not_in_index"),
    ("1205", {}, "private/secret.md", "wrong_scope"),
    ("1205", {"kb_scope": "private"}, "kb/mysql/codes.md", "wrong_scope"),
    ("1205", {"category": "mysql"}, "kb/redis/failover.md", "filtered_out"),
    ("espresso", {}, unicodedata.normalize("NFC", f"kb/redis/{CAFE}"), "kept"),
    ("espresso", {}, unicodedata.normalize("NFD", f"kb/redis/{CAFE}"), "kept"),
    ("espresso", {}, unicodedata.normalize("NFD", f"kb/redis/{CAFE}#chunk-0"), "kept"),
]
# Each hangs on a setting.
REASONS_BY_SETTINGS: list[tuple[str, dict[str, object], str, str]] = [
    ("lock wait case 2", {"RAG__MAX_CHUNKS_PER_DOCUMENT": 1}, "mysql/locks.md#chunk-0", "over_cap"),
    ("1205", {"RAG__RETURN_N": 1}, "mysql/locks.md", "beyond_return_n"),
    ("1205", {"RAG__RETRIEVE_K": 1}, "redis/failover.md", "beyond_retrieve_k"),
    ("flooded cellar", {"PACK__MAX_CHARS": 200}, "cellar/b.md", "out_of_budget"),
    (
        "1205",
        {"RETRIEVAL__NORMALIZATION__REFERENCE_THRESHOLD": 0.9},
        "redis/failover.md",
        "below_threshold",
    ),
]


def test_the_reason_why_a_document_is_or_is_not_there(home: Path) -> None:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        for query, asked, document_id, reason in REASONS:
            found = kb.explain(query, document_id=document_id, **asked).whereabouts
            assert found is not None
            assert (found.document_id, found.reason) == (document_id, reason)


@pytest.mark.parametrize(("query", "settings", "name", "reason"), REASONS_BY_SETTINGS)
def test_the_reason_that_a_setting_makes(
    home: Path, query: str, settings: dict[str, object], name: str, reason: str
) -> None:
    done = run("explain", query, "-d", f"kb/{name}", "--json", home=home, **settings)

    explained = only_json(done)
    found = explained["document"]
    assert (found["document_id"], found["reason"]) == (f"kb/{name}", reason)
    assert found["message"]
    assert explained["answer"]["withheld"].get(reason, 1) >= 1


def test_the_real_ranks_beyond_retrieve_k(home: Path) -> None:
    """They are the places in both legs as wide as the index, by the engine itself."""
    query, name = "lock wait timeout case 0", "kb/redis/failover.md"
    narrow = load_settings({"home": home, "rag": {"retrieve_k": 1}})
    with KnowledgeBase(settings=narrow, embedder=HashEmbedder()) as kb:
        found = kb.explain(query, document_id=name).whereabouts
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        scores = {h.doc_id: h.scores for h in kb.run_lookup(query).attempts[-1].hits}[name]

    assert found is not None
    assert found.reason == "beyond_retrieve_k"
    assert (found.dense_rank, found.sparse_rank) == (scores.dense_rank, scores.sparse_rank)
    assert min(found.dense_rank or 0, found.sparse_rank or 0) > 1
    assert f"dense {scores.dense_rank}, sparse {scores.sparse_rank}" in found.message


def test_explain_of_an_empty_index(tmp_path: Path) -> None:
    done = run("explain", "1205", "-d", "kb/a.md", "--json", home=tmp_path / "home")

    explained = only_json(done)
    assert explained["candidates"] == explained["attempts"] == []
    assert explained["document"]["reason"] == "not_in_index"
    assert [n["code"] for n in explained["answer"]["notices"]] == ["empty_index"]
    shown = run("explain", "1205", home=tmp_path / "home")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_explain_refuses_what_lookup_refuses(home: Path) -> None:
    done = run("explain", "x", "--category", "a\tb", "--json", home=home)

    assert (done.returncode, done.stdout) == (2, "")
    assert json.loads(done.stderr)["error"]["code"] == "invalid_input"


# -- trace ------------------------------------------------------------------------------------


def test_a_lookup_leaves_a_trace_and_explain_none(tmp_path: Path, home: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    query = "MySQL lock wait timeout, case 2"
    with KnowledgeBase(own, embedder=HashEmbedder()) as kb:
        explained = kb.explain(query).result.lookup_id
    first = only_json(run("lookup", query, "--json", home=own))
    second = only_json(run("lookup", query, "--json", home=own, TRACE__CONTENT="true"))

    assert run("trace", explained, home=own).returncode == 9
    plain = run("trace", first["lookup_id"], home=own)
    full = run("trace", second["lookup_id"], "--json", home=own)

    kept = [c["document_id"] for c in only_json(plain)["candidates"] if c["fate"] == "kept"]
    assert kept == [item["document_id"] for item in first["evidence"]]
    for text in ("timeout", "case 2", "Lock waits", "section"):
        assert text not in plain.stdout
        assert text in full.stdout
    assert only_json(full)["query"] == query


@pytest.mark.parametrize("lookup_id", ["lk_0", "'; drop table traces; --"])
def test_an_unknown_trace_is_an_unknown_thing(home: Path, lookup_id: str) -> None:
    done = run("trace", lookup_id, "--json", home=home)

    assert (done.returncode, done.stdout) == (9, "")
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "unknown_lookup"
    assert "trace.max_age_days" in error["remedy"]


# -- domains ----------------------------------------------------------------------------------


def test_domains_check_of_a_catalogue_that_fits(home: Path) -> None:
    done = run("domains", "check", "--json", home=home)
    assert only_json(done) == {"domains": ["cellar", "mysql", "redis"], "findings": []}

    shown = run("domains", "check", home=home)
    assert (shown.returncode, shown.stdout) == (0, "3 domains, 0 findings.\n")


def test_domains_check_lists_what_does_not_fit_and_exits_with_8(tmp_path: Path, home: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    catalogue = (
        '[[domain]]\nid = "MySQL"\nnames = ["mysql"]\nkeywords = ["replication"]\n'
        '[[domain]]\nid = "redis"\nkeywords = ["ＲＥＰＬＩＣＡＴＩＯＮ", "主从"]\n'
    )
    with KnowledgeBase(own, embedder=HashEmbedder()) as kb:
        kb.set_domains(catalogue, source="kb")
        plan = kb.run_lookup("replication").plan

    done = run("domains", "check", "--json", home=own)
    shown = run("domains", "check", home=own)

    assert (done.returncode, done.stderr) == (8, "")
    found = json.loads(done.stdout)
    assert found["domains"] == ["MySQL", "redis"]
    assert [f["code"] for f in found["findings"]] == [
        "unknown_category",
        "unused_category",
        "unused_category",
        "shared_phrase",
    ]
    assert "'MySQL' and 'redis' share replication" in found["findings"][3]["message"]
    assert shown.returncode == 8
    assert shown.stdout.splitlines()[0].startswith("unknown_category: Domain 'MySQL'")
    assert shown.stdout.splitlines()[-1] == "2 domains, 4 findings."
    # the shared keyword names both, so nothing is guessed
    assert (plan.domains, plan.soft_category) == (("MySQL", "redis"), None)


def test_domains_check_without_a_catalogue_or_an_index(tmp_path: Path) -> None:
    done = run("domains", "check", "--json", home=tmp_path / "home")

    assert only_json(done) == {"domains": [], "findings": []}


BAD_CATALOGUES = [
    ("[[domain]", "is not TOML"),
    ('[[domain]]\nid = "mysql"\nnames = [""]\n', "names of 'mysql' holds an empty keyword"),
    ('[[domain]]\nid = "mysql"\n', "domain 'mysql' has no names"),
    ('[[domain]]\nid="x"\nnames=["a1"]\n[[domain]]\nid="x"\nnames=["b1"]\n', "id 'x' twice"),
    (b"# \xff\n", "cannot be read"),
]


@pytest.mark.parametrize(("catalogue", "says"), BAD_CATALOGUES)
def test_a_bad_catalogue_stops_an_ingest_before_anything_is_written(
    tmp_path: Path, catalogue: str | bytes, says: str
) -> None:
    home = tmp_path / "home"
    folder = make_folder(tmp_path / "kb", {**FILES, "domains.toml": catalogue})

    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        with pytest.raises(ConfigurationError) as refused:
            kb.ingest(folder)
        status = kb.status()

    assert str(folder / "domains.toml") in refused.value.message
    assert says in refused.value.message
    assert (status.documents, status.chunks, status.generation) == (0, 0, "")
    assert not (home / "milvus.db").exists()


def test_a_bad_catalogue_is_a_wrong_configuration(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {**FILES, "domains.toml": '[[domain]]\nid = "x"\n'})

    done = run("ingest", folder, "--json", home=tmp_path / "home")

    assert (done.returncode, done.stdout) == (3, "")
    error = json.loads(done.stderr)["error"]
    assert error["message"].startswith(f"{folder / 'domains.toml'}: domain 'x' has no names")


@pytest.fixture
def kb(tmp_path: Path, home: Path) -> Iterator[KnowledgeBase]:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with KnowledgeBase(own, embedder=HashEmbedder()) as opened:
        yield opened


def domain_ids(kb: KnowledgeBase) -> list[str]:
    return [domain.id for domain in kb.domains.domains]


def test_a_bad_catalogue_leaves_the_one_in_force(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {"domains.toml": "[[", "new.md": "# New\n\nnew\n"})

    with pytest.raises(ConfigurationError, match="is not TOML"):
        kb.ingest(folder, source="kb")
    with pytest.raises(ConfigurationError, match="the catalogue of api is not TOML"):
        kb.set_domains("[[")

    assert domain_ids(kb) == ["cellar", "mysql", "redis"]
    assert "kb/new.md" not in {info.doc_id for info in kb.documents()}


def test_a_folder_without_a_catalogue_forgets_that_of_its_source(
    kb: KnowledgeBase, tmp_path: Path
) -> None:
    one = make_folder(tmp_path / "one", {"new.md": "# New\n\nnew\n"})

    kb.ingest(one, source="another")
    assert domain_ids(kb) == ["cellar", "mysql", "redis"]
    kb.ingest(one / "new.md", source="kb")  # a file says nothing about the folder
    assert domain_ids(kb) == ["cellar", "mysql", "redis"]
    kb.ingest(one, source="kb")
    assert domain_ids(kb) == []
    assert kb.run_lookup("MySQL lock").plan.domains == ()


def test_catalogues_of_two_sources_are_used_together(kb: KnowledgeBase, tmp_path: Path) -> None:
    more = '[[domain]]\nid = "redis"\nnames = ["keydb"]\n[[domain]]\nid = "net"\nnames = ["dns"]\n'
    folder = make_folder(tmp_path / "more", {"domains.toml": more, "a.md": "# A\n\na\n"})

    kb.ingest(folder, source="more")

    assert domain_ids(kb) == ["cellar", "mysql", "redis", "net"]
    for query, domain in (("keydb lock", "redis"), ("缓存 lock", "redis"), ("dns", "net")):
        assert kb.run_lookup(query).plan.domains == (domain,)
    kb.set_domains(None, source="more")
    assert domain_ids(kb) == ["cellar", "mysql", "redis"]
    assert kb.run_lookup("keydb lock").plan.domains == ()


def test_a_scope_knows_nothing_of_the_domains_of_another(kb: KnowledgeBase, tmp_path: Path) -> None:
    theirs = '[[domain]]\nid = "secret"\nnames = ["bluebird"]\n'
    folder = make_folder(tmp_path / "kb", {"domains.toml": theirs, "their.md": "# A\n\nbluebird\n"})

    kb.ingest(folder, source="kb", kb_scope="theirs")

    assert kb.run_lookup("bluebird", kb_scope="theirs").plan.domains == ("secret",)
    assert kb.run_lookup("bluebird").plan.domains == ()
    assert kb.run_lookup("keydb lock", kb_scope="theirs").plan.domains == ()
    assert "secret" not in domain_ids(kb)
    kb.set_domains(None, source="kb")
    assert domain_ids(kb) == []
    assert kb.run_lookup("bluebird", kb_scope="theirs").plan.domains == ("secret",)


def test_a_catalogue_set_by_code_is_kept(kb: KnowledgeBase) -> None:
    kb.set_domains('[[domain]]\nid = "net"\nnames = ["dns"]\n')
    home = kb.settings.home
    kb.close()

    with KnowledgeBase(home, embedder=HashEmbedder()) as again:
        assert domain_ids(again) == ["net", "cellar", "mysql", "redis"]
        assert [f.code for f in again.check_domains()] == ["unknown_category"]


# -- filters on the real engine ---------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("mode", ["hybrid", "dense"])
@pytest.mark.parametrize("ranker", ["adaptive", "rrf"])
def test_a_hard_category_never_returns_another(
    home: Path, mode: Any, parallel: bool, ranker: str
) -> None:
    """Not for a query that names another domain and whose words stand only there."""
    settings = load_settings(
        {
            "home": home,
            "retrieval": {
                "filter": {"parallel": parallel},
                "hybrid": {"ranker": ranker},
                "normalization": {"reference_threshold": -1},
            },
        }
    )
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        for query in ("MySQL 1205 HY000", "lock wait timeout, case 3", "？"):
            result = kb.run_lookup(query, category="redis", mode=mode)
            assert result.evidence, "what little there is is shown"
            assert {c.hit.category for c in result.candidates} == {"redis"}
            assert [attempt.name for attempt in result.attempts] == ["filtered"]


def test_a_guess_that_does_not_serve_is_given_up_on_the_real_engine(home: Path) -> None:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        result = kb.run_lookup("Redis: HY000 1205 exceeded")

    assert [(a.name, a.category) for a in result.attempts] == [
        ("filtered", "redis"),
        ("unfiltered", None),
    ]
    assert {hit.category for hit in result.attempts[0].hits} == {"redis"}
    assert result.selected_attempt == "unfiltered"
    assert result.evidence[0].block.candidate.key == "kb/mysql/codes.md#chunk-0"


@pytest.mark.parametrize("query", ["x" * 3_900, "库" * 3_900, "1" * 3_900])
def test_one_huge_token_is_answered(home: Path, query: str) -> None:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        answer = kb.lookup(query)

    assert {notice.code for notice in answer.notices} <= {"below_threshold"}
