"""What has become of a piece of evidence that was cited earlier. Pure.

A chunk is known by its span in the document's text and by the hash of its content. Between two
versions with the same text spans decide; between different texts only an equal content does,
because the ledger keeps no old texts::

    same text     the chunk of the same number holds the whole old span     same
                  another chunk holds it                                    moved
                  several hold parts of it                                  split
                  none does                                                 gone
    other text    the chunk of the same number has the same content         same
                  another one has it                                        moved
                  none has it                                               changed

An old version is not followed step by step through every later one, which would blur it (a chunk
that was merged and split again would seem to have been split): the last version with the same text
is compared with it at once, and only from there on the next text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import accumulate, takewhile

from knowport.core.identity import parse_evidence_key
from knowport.errors import InvalidInput
from knowport.model import ChunkMark, DocumentVersion


class Fate(StrEnum):
    SAME = "same"
    MOVED = "moved"
    SPLIT = "split"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Mapped:
    """What became of a chunk; ``to`` are the numbers of the chunks that hold its text now."""

    fate: Fate
    to: tuple[int, ...] = ()


class EvidenceState(StrEnum):
    CURRENT = "current"
    MOVED = "moved"
    SPLIT = "split"
    CHANGED = "changed"
    DELETED = "deleted"
    UNKNOWN = "unknown"


_STATES = {
    Fate.SAME: EvidenceState.CURRENT,
    Fate.MOVED: EvidenceState.MOVED,
    Fate.SPLIT: EvidenceState.SPLIT,
    Fate.CHANGED: EvidenceState.CHANGED,
    Fate.GONE: EvidenceState.CHANGED,
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a key stood for from ``since`` until ``until`` ('': now) in a generation, and what has
    become of that text; ``to`` are the keys that hold it now."""

    generation: str
    since: str
    until: str
    state: EvidenceState
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceStatus:
    """Whether a key that was cited still stands for the same text.

    ``current``  it does
    ``moved``    the text stands under the one other key in ``to``
    ``split``    the text stands under the several keys in ``to``, in order
    ``changed``  no chunk of the document holds the text as it was
    ``deleted``  the document was deleted
    ``unknown``  no version that is known had such a chunk, or its chunks are not remembered

    ``meanings`` are all that the key stood for, oldest first, and ``state`` is that of the oldest,
    because a report may be that old. Where another one has fared otherwise the status is
    ``ambiguous``, and only the time of the citation tells.
    """

    key: str
    state: EvidenceState
    to: tuple[str, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    ambiguous: bool = False


def judge(
    key: str,
    versions: Sequence[DocumentVersion],
    *,
    generation: str | None = None,
    at: Instant | None = None,
) -> EvidenceStatus:
    """Judge a key by the history of its document, newest version first.

    ``generation`` and ``at`` leave only what the key may have stood for there and then. Raises
    InvalidInput for what is no evidence key.
    """
    doc_id, number = parse_evidence_key(key)
    history = list(reversed(versions))
    meanings = tuple(
        _meaning(doc_id, number, history, place)
        for place, version in enumerate(history)
        if (number < len(version.marks) or not version.marks) and _is_of(version, generation, at)
    )
    if not meanings:
        return EvidenceStatus(key, EvidenceState.UNKNOWN)
    oldest = meanings[0]
    ambiguous = any((m.state, m.to) != (oldest.state, oldest.to) for m in meanings)
    return EvidenceStatus(key, oldest.state, oldest.to, meanings, ambiguous)


@dataclass(frozen=True, slots=True)
class Instant:
    """A time as exactly as it is known: from ``first`` until before ``end``, in microseconds since
    1970. What is known to the second may be anywhere in that second."""

    first: int
    end: int


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# How exactly a time is given, by its parts: the hour, the minute, the second and its fraction.
_PARTS = re.compile(r"[\dW-]{7,10}(?:\D(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?)?")
_MICROSECONDS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)


def instant(text: str) -> Instant:
    """Read a time, which is in UTC unless it says otherwise. Raises InvalidInput."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text!r} is no time.",
            field="at",
            remedy="Give it in ISO 8601, in UTC unless it says otherwise: 2026-11-30T12:00:00Z.",
        ) from error
    first = (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
    return Instant(first, first + _precision(text))


def _precision(text: str) -> int:
    """How many microseconds a time may mean, as it is written."""
    found = _PARTS.match(text)
    parts = [part for part in found.groups() if part] if found else []
    if len(parts) < len(_MICROSECONDS):
        return _MICROSECONDS[len(parts)]
    return int(10 ** max(0, 6 - len(parts[-1])))


def _is_of(version: DocumentVersion, generation: str | None, at: Instant | None) -> bool:
    """Whether a version may be the one that is meant."""
    if generation is not None and version.generation != generation:
        return False
    if at is None:
        return True
    ended = bool(version.until) and instant(version.until).end <= at.first
    return instant(version.since).first < at.end and not ended


def _meaning(doc_id: str, number: int, history: Sequence[DocumentVersion], place: int) -> Meaning:
    version = history[place]
    if not version.marks:  # from before chunks were remembered
        return Meaning(version.generation, version.since, version.until, EvidenceState.UNKNOWN)
    mapped = follow(history[place:], number)
    state, to = _STATES[mapped.fate], mapped.to
    if history[-1].ended_by == "deleted":
        state, to = EvidenceState.DELETED, ()
    keys = tuple(f"{doc_id}#chunk-{chunk}" for chunk in to)
    return Meaning(version.generation, version.since, version.until, state, keys)


def follow(versions: Sequence[DocumentVersion], number: int) -> Mapped:
    """What became of a chunk of the first version in the last one; versions oldest first."""
    chunks: tuple[int, ...] = (number,)
    for older, newer in _steps(versions):
        mapped = [map_chunk(older, chunk, newer) for chunk in chunks]
        lost = [item.fate for item in mapped if item.fate in (Fate.CHANGED, Fate.GONE)]
        if lost:
            return Mapped(lost[0])
        chunks = tuple(dict.fromkeys(chunk for item in mapped for chunk in item.to))
    if len(chunks) > 1:
        return Mapped(Fate.SPLIT, tuple(sorted(chunks)))
    return Mapped(Fate.SAME if chunks == (number,) else Fate.MOVED, chunks)


def _steps(
    versions: Sequence[DocumentVersion],
) -> Iterator[tuple[DocumentVersion, DocumentVersion]]:
    """Pairs that lead from the first to the last version with as few comparisons as can be."""
    place, last = 0, len(versions) - 1
    while place < last:
        text = versions[place].content_hash
        same = next(n for n in range(last, place - 1, -1) if versions[n].content_hash == text)
        following = same if same > place else place + 1
        yield versions[place], versions[following]
        place = following


def map_chunk(old: DocumentVersion, number: int, new: DocumentVersion) -> Mapped:
    """What became of chunk ``number`` of one version in another one."""
    mark = old.marks[number]
    if old.content_hash != new.content_hash:
        equal = [n for n, m in enumerate(new.marks) if m.content_hash == mark.content_hash]
        return _one_of(equal, number) if equal else Mapped(Fate.CHANGED)
    return _by_span(mark, number, new.marks, _touching(mark, _ends(new.marks), new.marks))


def fates(old: Sequence[ChunkMark], new: Sequence[ChunkMark]) -> Counter[Fate]:
    """What becomes of the chunks of a text when it is cut otherwise, counted."""
    ends = _ends(new)
    return Counter(
        _by_span(mark, number, new, _touching(mark, ends, new)).fate
        for number, mark in enumerate(old)
    )


def _ends(marks: Sequence[ChunkMark]) -> list[int]:
    """For each chunk how far it and those before it reach, which never falls."""
    return list(accumulate((mark.end for mark in marks), max))


def _touching(mark: ChunkMark, ends: Sequence[int], marks: Sequence[ChunkMark]) -> list[int]:
    """The chunks that hold a part of a span. Chunks begin in order."""
    first = bisect_right(ends, mark.start)
    found = takewhile(lambda n: marks[n].start < mark.end, range(first, len(marks)))
    return [n for n in found if marks[n].end > mark.start]


def _by_span(
    mark: ChunkMark, number: int, new: Sequence[ChunkMark], touching: Sequence[int]
) -> Mapped:
    whole = [n for n in touching if new[n].start <= mark.start and mark.end <= new[n].end]
    if whole:
        return _one_of(whole, number)
    if len(touching) > 1:
        return Mapped(Fate.SPLIT, tuple(touching))
    # Chunks leave out nothing but white space and rules, so the one holds all there is.
    return _one_of(touching, number) if touching else Mapped(Fate.GONE)


def _one_of(chunks: Sequence[int], number: int) -> Mapped:
    nearest = min(chunks, key=lambda chunk: (abs(chunk - number), chunk))
    return Mapped(Fate.SAME if nearest == number else Fate.MOVED, (nearest,))
