"""What becomes of every file of the shared manifests, against what they expect.

    python tests/manifest_table.py      prints the table; exit code 1 where an outcome is wrong

A file is loaded, normalised, titled and cut into chunks, as an ingest does it before anything is
embedded. The folder is ``KNOWPORT_SHARED``, or ``shared`` beside the repository.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowport.adapters.loading import FileLoader
from knowport.core.chunking import ChunkingOptions, chunk_document, document_title
from knowport.core.front_matter import FrontMatter, split_front_matter
from knowport.core.markdown import parse_markdown
from knowport.core.text import normalise_text, utf8_length
from knowport.errors import LoadError
from knowport.model import Chunk, LoadedFile

SHARED = Path(os.environ.get("KNOWPORT_SHARED", Path(__file__).parents[1].parent / "shared"))
CHUNKING = ChunkingOptions()
MOST_SECONDS = 5.0

INDEXED = "indexed"
# What the first manifest says in prose, as reasons. All other files are to be indexed.
REFUSED: Mapping[str, Sequence[str]] = {
    "26_empty.md": ["empty"],
    "27_whitespace_only.md": ["empty"],
    "28_truncated.pdf": ["broken", INDEXED],
    "29_only_magic.pdf": ["broken"],
    "29_zeros.pdf": ["broken"],
    "29_eof_cut_two_bytes.pdf": ["broken", INDEXED],
    "30_image_only.pdf": ["empty"],
    "31_encrypted.pdf": ["encrypted"],
    "33_zip_bomb_small.docx": ["zip_bomb", "too_large"],
    "34_zip_bomb_lying_sizes.docx": ["zip_bomb", "too_large"],
    "35_zip_many_entries.docx": ["too_large", INDEXED],
    "36_entity_expansion.docx": ["forbidden_dtd"],
    "05_utf16le_no_bom.txt": ["unknown_encoding", INDEXED],
    "52_mixed_batch/bad.pdf": ["broken"],
    "52_mixed_batch/bad.docx": ["broken"],
    "52_mixed_batch/binary.md": ["not_text"],
    "52_mixed_batch/unknown.xyz": ["empty", "unsupported_format"],
}
ENCODINGS = {"01_gbk_runbook.md": "gb18030", "02_gb18030_rare.md": "gb18030"}


@dataclass(frozen=True)
class Case:
    """A file and what its manifest says of it: the outcomes it allows, and facts of the text."""

    path: Path
    name: str
    expectation: str
    outcomes: Sequence[str]
    facts: Mapping[str, Any]
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Outcome:
    """``indexed``, or the reason why not."""

    name: str
    detail: str
    seconds: float
    loaded: LoadedFile | None = None
    title: str = ""
    text: str = ""
    headings: int = 0
    chunks: Sequence[Chunk] = field(default_factory=tuple)


def cases() -> Iterator[Case]:
    """Every file of both manifests; none where there is no shared folder."""
    inputs, nasty = SHARED / "inputs", SHARED / "data" / "docs" / "nasty"
    if not (inputs / "MANIFEST.json").is_file():
        return
    for entry in json.loads((inputs / "MANIFEST.json").read_text("utf-8")):
        name, facts = entry["file"], entry["facts"]
        yield Case(
            inputs / name,
            name,
            " or ".join(REFUSED.get(name, [INDEXED])),
            REFUSED.get(name, [INDEXED]),
            facts,
            entry["bytes"],
            entry["sha256"],
        )
    for entry in json.loads((nasty / "MANIFEST.json").read_text("utf-8")):
        facts = {"must_find": [entry["probe"]]} if entry["probe"] else {}
        yield Case(
            nasty / "files" / entry["path"],
            entry["path"],
            entry["expect"],
            _outcomes(entry["expect"]),
            facts,
            entry["bytes"],
        )


def _outcomes(expectation: str) -> Sequence[str]:
    refused = ["empty", "encrypted", "not_text", "unsupported_format", "unknown_encoding"]
    if re.match(r"indexed (?:or|by)|skipped or indexed", expectation):
        return [INDEXED, *refused]
    if re.match(r"skipped|rejected|encrypted", expectation):
        return refused
    return [INDEXED]


def outcome_of(path: Path, loader: FileLoader) -> Outcome:
    """What becomes of a file."""
    started = time.monotonic()
    try:
        loaded = loader.load(path)
    except LoadError as error:
        return Outcome(error.reason, str(error), time.monotonic() - started)
    text = normalise_text(loaded.text).text
    markdown = loaded.text_format == "markdown"
    front = split_front_matter(text) if markdown else FrontMatter()
    title = document_title(text, loaded.text_format, front) or path.stem
    chunks = chunk_document("doc", text, loaded.text_format, title, CHUNKING)
    seconds = time.monotonic() - started
    if not chunks:
        return Outcome("empty", "It holds no text.", seconds, loaded, title, text)
    sections = parse_markdown(text, front.body_start) if markdown else []
    headings = sum(section.level > 0 for section in sections)
    detail = f"{loaded.kind} {loaded.encoding} {len(chunks)} chunks, {loaded.removed} removed"
    return Outcome(INDEXED, detail, seconds, loaded, title, text, headings, chunks)


def problems(case: Case, outcome: Outcome) -> list[str]:
    """What is not as the manifest says; empty where all is."""
    if outcome.name not in case.outcomes:
        return [f"{outcome.name}, expected {' or '.join(case.outcomes)}"]
    found = []
    if outcome.seconds > MOST_SECONDS:
        found.append(f"took {outcome.seconds:.1f} s")
    if outcome.name != INDEXED:
        return found if outcome.detail else [*found, "no detail"]
    assert outcome.loaded
    if case.sha256 and outcome.loaded.file_hash != case.sha256:
        found.append("another hash")
    if case.name in ENCODINGS and outcome.loaded.encoding != ENCODINGS[case.name]:
        found.append(f"encoding {outcome.loaded.encoding}")
    return found + list(_chunk_problems(outcome)) + list(_fact_problems(case.facts, outcome))


def _chunk_problems(outcome: Outcome) -> Iterator[str]:
    for chunk in outcome.chunks:
        if len(chunk.content) > CHUNKING.size:
            yield f"chunk {chunk.chunk_index} has {len(chunk.content)} characters"
        if utf8_length(chunk.content) > CHUNKING.max_bytes:
            yield f"chunk {chunk.chunk_index} is over the engine's limit"
        if re.search("[\0\x1b\ufffd\ufeff\U000e0000-\U000e007f]", chunk.content):
            yield f"chunk {chunk.chunk_index} holds a character that it must not"


def _fact_problems(facts: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    loaded_title = outcome.loaded.title if outcome.loaded else ""
    shown = [loaded_title, outcome.title]
    shown += [f"{chunk.breadcrumb}\n{chunk.content}" for chunk in outcome.chunks]
    everything = unicodedata.normalize("NFKC", "\n".join(shown))
    for words in [*facts.get("must_find", ()), *facts.get("must_find_if_ok", ())]:
        if unicodedata.normalize("NFKC", words) not in everything:
            yield f"{words!r} is not found"
    unwanted = ("must_not_contain", "must_not_contain_in_chunks", "stored_text_must_not_contain")
    for words in [words for key in unwanted for words in facts.get(key, ())]:
        if words in loaded_title or any(words in chunk.content for chunk in outcome.chunks):
            yield f"{words!r} is there"
    for key, value in facts.get("row_for", {}).items():
        if not any(key in line and value in line for line in everything.splitlines()):
            yield f"no row has {key} and {value}"
    if "title" in facts and facts["title"] not in (outcome.title, loaded_title):
        yield f"title {outcome.title!r}"
    yield from _structure_problems(facts, outcome)


def _structure_problems(facts: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    match facts.get("headings"):
        case int(count) if outcome.headings != count:
            yield f"{outcome.headings} headings"
        case list(wanted):
            paths = {part for c in outcome.chunks for part in c.breadcrumb.split(" > ")}
            if paths != set(wanted):
                yield f"headings {sorted(paths)}"
    for marker, breadcrumb in facts.get("breadcrumbs", {}).items():
        if not any(marker in c.content and c.breadcrumb == breadcrumb for c in outcome.chunks):
            yield f"{marker} is not under {breadcrumb}"
    if len(outcome.chunks) < facts.get("chunks_min", 0):
        yield f"{len(outcome.chunks)} chunks"
    if facts.get("joined_chunks_equal_source"):
        joined = "".join(chunk.content for chunk in outcome.chunks)
        if "".join(joined.split()) != "".join(outcome.text.split()):
            yield "the chunks are not the source"


def main() -> int:
    """Print the table."""
    wrong = total = 0
    with FileLoader() as loader:
        for case in cases():
            outcome = outcome_of(case.path, loader)
            found = problems(case, outcome)
            total += 1
            wrong += bool(found)
            name = case.name if len(case.name) <= 45 else f"{case.name[:44]}…"
            verdict = f"WRONG: {'; '.join(found)}" if found else "as expected"
            print(  # noqa: T201
                f"{name:<46}| {case.expectation[:60]:<60} | {outcome.name:<18} | {verdict:<11} | "
                f"{outcome.seconds:5.2f} s | {outcome.detail[:90]}"
            )
    print(f"{total} files, {total - wrong} as expected, {wrong} not")  # noqa: T201
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
