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
from support import HashEmbedder, knowport, make_folder, page

DOMAINS = """
[[domain]]
id = "mysql"
names = ["MySQL"]

[[domain]]
id = "redis"
names = ["Redis", "缓存"]
"""
NFC = unicodedata.normalize("NFC", "Café Ångström.md")
FILES = {
    "domains.toml": DOMAINS,
    "mysql/locks.md": page("Lock waits", [f"A lock wait timeout, case {n}." for n in range(4)]),
    "mysql/codes.md": "# Codes\n\nERROR 1205 (HY000): lock wait timeout exceeded\n",
    "redis/failover.md": "# Redis failover\n\nA lock wait while the replica is promoted.\n",
    f"redis/{NFC}": "# Coffee\n\nThe espresso machine needs descaling.\n",
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
    assert json.loads(done.stdout)["counts"]["indexed"] == 4
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


ONE_EACH = {"RAG__MAX_CHUNKS_PER_DOCUMENT": 1}
REASONS: list[tuple[str, list[str], dict[str, object], str, str]] = [
    ("1205", [], {}, "kb/mysql/codes.md#chunk-0", "kept"),
    ("1205", [], {}, "kb/mysql/codes.md", "kept"),
    ("lock wait case 2", [], ONE_EACH, "kb/mysql/locks.md#chunk-0", "over_cap"),
    ("1205", [], {"RAG__RETURN_N": 1}, "kb/mysql/locks.md", "beyond_return_n"),
    (
        "1205",
        [],
        {"RETRIEVAL__NORMALIZATION__REFERENCE_THRESHOLD": 0.9},
        "kb/redis/failover.md",
        "below_threshold",
    ),
    ("1205", [], {}, "kb/nothing.md", "not_in_index"),
    ("1205", [], {}, "kb/mysql/codes.md#chunk-1", "not_in_index"),
    ("1205", [], {}, "private/secret.md", "wrong_scope"),
    ("1205", ["--scope", "private"], {}, "kb/mysql/codes.md", "wrong_scope"),
    ("1205", ["--category", "mysql"], {}, "kb/redis/failover.md", "filtered_out"),
    ("1205", [], {"RAG__RETRIEVE_K": 1}, "kb/redis/failover.md", "beyond_retrieve_k"),
]


@pytest.mark.parametrize(("query", "options", "settings", "document_id", "reason"), REASONS)
def test_the_reason_why_a_document_is_or_is_not_there(
    home: Path,
    query: str,
    options: list[str],
    settings: dict[str, object],
    document_id: str,
    reason: str,
) -> None:
    done = run(
        *("explain", query, "--document-id", document_id, "--json", *options),
        home=home,
        **settings,
    )

    found = only_json(done)["document"]
    assert (found["document_id"], found["reason"]) == (document_id, reason)
    assert found["message"]


def test_the_reason_out_of_budget(tmp_path: Path, home: Path) -> None:
    """A budget of 200 has room for one of two chunks of 150 characters."""
    own = Path(shutil.copytree(home, tmp_path / "home"))
    texts = {f"{name}.md": f"# {name}\n\n{'Flooded cellar. ' * 9}\n" for name in "ab"}
    make_folder(tmp_path / "more", texts)
    assert run("ingest", tmp_path / "more", home=own).returncode == 0

    reasons = [
        only_json(
            run(
                *("explain", "flooded cellar", "-d", f"more/{name}.md", "--json"),
                home=own,
                PACK__MAX_CHARS=200,
            )
        )["document"]["reason"]
        for name in "ab"
    ]

    assert sorted(reasons) == ["kept", "out_of_budget"]


def test_the_real_ranks_beyond_retrieve_k(home: Path) -> None:
    """They are the places in both legs as wide as the index, by the engine itself."""
    settings = load_settings({"home": home, "rag": {"retrieve_k": 1}})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        narrow = kb.explain("1205 replica", document_id="kb/redis/failover.md").whereabouts
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        wide = {hit.doc_id: hit.scores for hit in kb.run_lookup("1205 replica").attempts[-1].hits}

    scores = wide["kb/redis/failover.md"]
    assert narrow is not None
    assert narrow.reason == "beyond_retrieve_k"
    assert (narrow.dense_rank, narrow.sparse_rank) == (scores.dense_rank, scores.sparse_rank)
    assert narrow.sparse_rank == 2
    assert f"dense {scores.dense_rank}, sparse 2" in narrow.message


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_id_in_either_unicode_form(home: Path, form: str) -> None:
    name = unicodedata.normalize(form, f"kb/redis/{NFC}")

    for document_id in (name, f"{name}#chunk-0"):
        done = run("explain", "espresso", "-d", document_id, "--json", home=home)
        assert only_json(done)["document"]["reason"] == "kept"


def test_explain_leaves_no_trace_and_lookup_does(tmp_path: Path, home: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    explained = only_json(run("explain", "1205", "--json", home=own))
    looked_up = only_json(run("lookup", "1205", "--json", home=own))

    gone = run("trace", explained["answer"]["lookup_id"], "--json", home=own)
    kept = only_json(run("trace", looked_up["lookup_id"], home=own))

    assert gone.returncode == 2
    assert kept["lookup_id"] == looked_up["lookup_id"]
    assert [c["document_id"] for c in kept["candidates"] if c["fate"] == "kept"] == [
        item["document_id"] for item in looked_up["evidence"]
    ]


def test_explain_of_an_empty_index(tmp_path: Path) -> None:
    done = run("explain", "1205", "-d", "kb/a.md", "--json", home=tmp_path / "home")

    explained = only_json(done)
    assert explained["candidates"] == explained["attempts"] == []
    assert explained["document"]["reason"] == "not_in_index"
    assert [n["code"] for n in explained["answer"]["notices"]] == ["empty_index"]
    shown = run("explain", "1205", home=tmp_path / "home")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_explain_refuses_what_lookup_refuses(home: Path) -> None:
    for query, options in ((" ", ()), ("x" * 4_001, ()), ("x", ("--category", "a\tb"))):
        done = run("explain", query, *options, "--json", home=home)
        assert (done.returncode, done.stdout) == (2, "")
        assert json.loads(done.stderr)["error"]["code"] == "invalid_input"


# -- trace ------------------------------------------------------------------------------------


def test_a_trace_holds_no_text_unless_the_settings_ask_for_it(tmp_path: Path, home: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    query = "MySQL lock wait timeout, case 2"

    first = only_json(run("lookup", query, "--json", home=own))
    second = only_json(run("lookup", query, "--json", home=own, TRACE__CONTENT="true"))
    plain = run("trace", first["lookup_id"], home=own).stdout
    full = run("trace", second["lookup_id"], home=own).stdout

    for text in ("timeout", "case 2", "Lock waits", "section"):
        assert text not in plain
        assert text in full
    assert json.loads(full)["query"] == query


@pytest.mark.parametrize("lookup_id", ["lk_0", "", "lk_\u2603", "'; drop table traces; --"])
def test_an_unknown_trace_is_bad_input(home: Path, lookup_id: str) -> None:
    done = run("trace", lookup_id, "--json", home=home)

    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "invalid_input"
    assert "trace.max_age_days" in error["remedy"]


def test_without_traces_there_is_nothing_to_see(tmp_path: Path, home: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    answer = only_json(run("lookup", "1205", "--json", home=own, TRACE__MAX_COUNT=0))

    assert answer["notices"] == []
    assert run("trace", answer["lookup_id"], home=own).returncode == 2


# -- domains ----------------------------------------------------------------------------------


def test_domains_check_of_a_catalogue_that_fits(home: Path) -> None:
    done = run("domains", "check", "--json", home=home)
    assert only_json(done) == {"domains": ["mysql", "redis"], "findings": []}

    shown = run("domains", "check", home=home)
    assert (shown.returncode, shown.stdout) == (0, "2 domains, 0 findings.\n")


def test_domains_check_lists_what_does_not_fit_and_exits_with_8(tmp_path: Path) -> None:
    home, kb = tmp_path / "home", tmp_path / "kb"
    catalogue = (
        '[[domain]]\nid = "MySQL"\nnames = ["mysql"]\nkeywords = ["replication"]\n'
        '[[domain]]\nid = "redis"\nkeywords = ["ＲＥＰＬＩＣＡＴＩＯＮ", "主从"]\n'
    )
    make_folder(kb, {**FILES, "domains.toml": catalogue})
    assert run("ingest", kb, "--category-from-folder", home=home).returncode == 0

    done = run("domains", "check", "--json", home=home)
    shown = run("domains", "check", home=home)

    assert (done.returncode, done.stderr) == (8, "")
    found = json.loads(done.stdout)
    assert found["domains"] == ["MySQL", "redis"]
    assert [f["code"] for f in found["findings"]] == [
        "unknown_category",
        "unused_category",
        "shared_phrase",
    ]
    assert "'MySQL' and 'redis' share replication" in found["findings"][2]["message"]
    assert shown.returncode == 8
    assert shown.stdout.splitlines()[0].startswith("unknown_category: Domain 'MySQL'")
    assert shown.stdout.splitlines()[-1] == "2 domains, 3 findings."
    # the shared keyword names both, so nothing is guessed
    explained = only_json(run("explain", "replication", "--json", home=home))
    assert explained["plan"]["domains"] == ["MySQL", "redis"]
    assert explained["plan"]["soft_category"] is None


def test_domains_check_without_a_catalogue_or_an_index(tmp_path: Path) -> None:
    done = run("domains", "check", "--json", home=tmp_path / "home")

    assert only_json(done) == {"domains": [], "findings": []}


BAD_CATALOGUES = [
    ("[[domain]", "is not TOML"),
    ('[[domain]]\nid = "mysql"\nnames = [""]\n', "names of 'mysql' holds an empty keyword"),
    ('[[domain]]\nid = "mysql"\n', "domain 'mysql' has no names"),
    ('[[domain]]\nid="x"\nnames=["a1"]\n[[domain]]\nid="x"\nnames=["b1"]\n', "id 'x' twice"),
    (b"# \xcf\xb5\n", "cannot be read"),
]


@pytest.mark.parametrize(("catalogue", "says"), BAD_CATALOGUES)
def test_a_bad_catalogue_stops_an_ingest_before_anything_is_written(
    tmp_path: Path, catalogue: str | bytes, says: str
) -> None:
    home = tmp_path / "home"
    kb = make_folder(tmp_path / "kb", {**FILES, "domains.toml": catalogue})

    done = run("ingest", kb, "--json", home=home)

    assert (done.returncode, done.stdout) == (3, "")
    message = json.loads(done.stderr)["error"]["message"]
    assert str(kb / "domains.toml") in message
    assert says in message
    assert not (home / "milvus.db").exists()
    status = only_json(run("status", "--json", home=home))
    assert (status["documents"], status["chunks"], status["generation"]) == (0, 0, "")


@pytest.fixture
def kb(tmp_path: Path, home: Path) -> Iterator[KnowledgeBase]:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with KnowledgeBase(own, embedder=HashEmbedder()) as opened:
        yield opened


def domain_ids(kb: KnowledgeBase) -> list[str]:
    return [domain.id for domain in kb.domains.domains]


def test_a_bad_catalogue_leaves_the_one_in_force(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {"domains.toml": "[[", "new.md": "# New\n\nnew\n"})

    from knowport.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="is not TOML"):
        kb.ingest(folder, source="kb")
    with pytest.raises(ConfigurationError, match="the catalogue of api is not TOML"):
        kb.set_domains("[[")

    assert domain_ids(kb) == ["mysql", "redis"]
    assert "kb/new.md" not in {info.doc_id for info in kb.documents()}


def test_a_folder_without_a_catalogue_forgets_that_of_its_source(
    kb: KnowledgeBase, tmp_path: Path
) -> None:
    one = make_folder(tmp_path / "one", {"new.md": "# New\n\nnew\n"})

    kb.ingest(one, source="another")
    assert domain_ids(kb) == ["mysql", "redis"]
    kb.ingest(one / "new.md", source="kb")  # a file says nothing about the folder
    assert domain_ids(kb) == ["mysql", "redis"]
    kb.ingest(one, source="kb")
    assert domain_ids(kb) == []
    assert kb.run_lookup("MySQL lock").plan.domains == ()


def test_catalogues_of_two_sources_are_used_together(kb: KnowledgeBase, tmp_path: Path) -> None:
    more = '[[domain]]\nid = "redis"\nnames = ["keydb"]\n[[domain]]\nid = "net"\nnames = ["dns"]\n'
    folder = make_folder(tmp_path / "more", {"domains.toml": more, "a.md": "# A\n\na\n"})

    kb.ingest(folder, source="more")

    assert domain_ids(kb) == ["mysql", "redis", "net"]
    for query, domain in (("keydb lock", "redis"), ("缓存 lock", "redis"), ("dns", "net")):
        assert kb.run_lookup(query).plan.domains == (domain,)
    kb.set_domains(None, source="more")
    assert domain_ids(kb) == ["mysql", "redis"]
    assert kb.run_lookup("keydb lock").plan.domains == ()


def test_a_catalogue_set_by_code_is_kept(kb: KnowledgeBase) -> None:
    kb.set_domains('[[domain]]\nid = "net"\nnames = ["dns"]\n')
    home = kb.settings.home
    kb.close()

    with KnowledgeBase(home, embedder=HashEmbedder()) as again:
        assert domain_ids(again) == ["net", "mysql", "redis"]
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
        result = kb.run_lookup("Redis ERROR 1205 (HY000): lock wait timeout exceeded")

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
