"""All settings as one frozen value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from knowport.settings.loading import LoadingSettings
from knowport.settings.mcp import McpSettings
from knowport.settings.sections import (
    ChunkingSettings,
    EmbeddingSettings,
    LedgerSettings,
    MilvusSettings,
    PackSettings,
    RagSettings,
    RetrievalSettings,
    TraceSettings,
)
from knowport.settings.server import ServerSettings

if TYPE_CHECKING:
    from sqlalchemy import URL

ENV_PREFIX = "KNOWPORT_"


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
    loading: LoadingSettings = LoadingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    pack: PackSettings = PackSettings()
    ledger: LedgerSettings = LedgerSettings()
    trace: TraceSettings = TraceSettings()
    server: ServerSettings = ServerSettings()
    mcp: McpSettings = McpSettings()

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

    @field_validator("home")
    @classmethod
    def _text(cls, home: Path) -> Path:
        try:
            str(home).encode()
        except UnicodeEncodeError:
            raise ValueError("the path of home must be UTF-8") from None
        return home

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
        from sqlalchemy import URL  # noqa: PLC0415  # `knowport config` opens no ledger

        # As text, a home with ? or % in its name would be read as another path.
        file = URL.create("sqlite", database=str(self.home / "ledger.sqlite3"))
        return self.ledger.url.get_secret_value() or file

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is set in a way that will go."""
        if self.rag.top_k is None:
            return ()
        return ("rag.top_k is deprecated: set rag.retrieve_k and rag.return_n.",)
