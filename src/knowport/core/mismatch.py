"""How a generation differs from what the settings ask for, in words. Pure."""

from __future__ import annotations

from knowport.model import EmbedderIdentity, Generation

REBUILD = "`knowport rebuild run`"


def differences(generation: Generation, wanted: Generation) -> tuple[str, ...]:
    """What makes a generation read-only: another embedder, analyzer or schema than is wanted."""
    said = []
    if generation.embedder != wanted.embedder:
        was, now = described(generation.embedder), described(wanted.embedder)
        said.append(f"the embedder was {was}, is {now}")
    if generation.schema_version != wanted.schema_version:
        said.append(f"the schema was {generation.schema_version}, is {wanted.schema_version}")
    if dict(generation.analyzer) != dict(wanted.analyzer):
        was, now = str(dict(generation.analyzer)), str(dict(wanted.analyzer))
        said.append(f"the analyzer was {was}, is {now}")
    return tuple(said)


def recut(generation: Generation, wanted: Generation) -> tuple[str, ...]:
    """How chunks are cut otherwise than is wanted."""
    return tuple(
        f"chunking.{name} was {generation.chunking.get(name)}, is {value}"
        for name, value in wanted.chunking.items()
        if generation.chunking.get(name) != value
    )


def described(embedder: EmbedderIdentity) -> str:
    """An embedder on one line, with its prefixes where it has any."""
    prefixes = {"query": embedder.query_prefix, "document": embedder.document_prefix}
    said = "".join(f", {name} prefix {text!r}" for name, text in prefixes.items() if text)
    return f"{embedder.provider} {embedder.model} ({embedder.dimension} numbers{said})"
