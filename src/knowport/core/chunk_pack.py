"""Packs the blocks of one section into chunks."""

from __future__ import annotations

from collections.abc import Iterable

from knowport.core.chunk_frame import frame_of, split_framed
from knowport.core.chunk_split import Budget, Piece, measure, split_prose
from knowport.core.markdown import Block, BlockKind


def pack(text: str, blocks: Iterable[Block], full: Budget, overlap: int) -> list[Piece]:
    """Contents of the chunks of one section, in order, each within ``full``.

    A block goes into the open chunk where it fits, or begins a new one. It is cut where it fits
    into no chunk. It is cut as well where the open chunk holds only headings: a heading stays
    with what follows it. A chunk of only rules and comments is left out.
    """
    packer = _Packer(text, full, overlap)
    for block in blocks:
        packer.add(block)
    return packer.finish()


def says_little(block: Block) -> bool:
    """Whether a block should not be a chunk without the text that follows it."""
    return block.kind in (BlockKind.HEADING, BlockKind.BLANK)


class _Packer:
    def __init__(self, text: str, full: Budget, overlap: int) -> None:
        self._text = text
        self._full = full
        self._overlap = overlap
        self._done: list[Piece] = []
        self._open: list[Piece] = []
        self._blocks: list[Block] = []  # one for each piece of the open chunk
        self._room = full

    def add(self, block: Block) -> None:
        whole = Piece(self._text[block.start : block.end], block.start, block.end)
        fits_alone = self._full.holds(measure(whole.content))
        if self._fits(whole):
            pieces = [whole]
        elif fits_alone and not self._wants_company():
            self._close()
            pieces = [whole]
        else:
            pieces = self._cut(block, whole, fits_alone)
        for position, piece in enumerate(pieces):
            # The first piece does not fit where it was only white space and left out.
            if position > 0 or not self._fits(piece):
                self._close()
            self._place(piece, block)

    def finish(self) -> list[Piece]:
        self._close()
        return self._done

    def _cut(self, block: Block, whole: Piece, fits_alone: bool) -> list[Piece]:
        frame = frame_of(self._text, block, self._full)
        room = self._room_before(block.start)
        # A small rest of room is not worth a cut; what repeats must leave half of it for text.
        worth = self._full.part(4 if self._wants_company() else 2)
        head = measure(frame.prefix + frame.suffix) if frame else Budget(0, 0)
        if not room.holds(worth) or not room.part(2).holds(head):
            self._close()
            if fits_alone:
                return [whole]
            room = self._full
        if frame:
            return split_framed(self._text, block, frame, room, self._full)
        return split_prose(
            self._text, block.start, block.end, room, self._full, overlap=self._overlap
        )

    def _wants_company(self) -> bool:
        """Whether the open chunk holds a heading and nothing that it heads."""
        kinds = {block.kind for block in self._blocks}
        return BlockKind.HEADING in kinds and all(map(says_little, self._blocks))

    def _fits(self, piece: Piece) -> bool:
        return self._room_before(piece.start).holds(measure(piece.content))

    def _room_before(self, start: int) -> Budget:
        """Room for a piece at ``start`` in the open chunk."""
        if not self._open:
            return self._full
        return self._room.minus(self._text[self._open[-1].end : start])

    def _place(self, piece: Piece, block: Block) -> None:
        self._room = self._room_before(piece.start).minus(piece.content)
        self._open.append(piece)
        self._blocks.append(block)

    def _close(self) -> None:
        if any(block.kind is not BlockKind.BLANK for block in self._blocks):
            parts = [self._open[0].content]
            for before, piece in zip(self._open, self._open[1:], strict=False):
                parts += (self._text[before.end : piece.start], piece.content)
            self._done.append(Piece("".join(parts), self._open[0].start, self._open[-1].end))
        self._open, self._blocks, self._room = [], [], self._full
