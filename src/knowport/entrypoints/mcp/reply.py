"""Answers and errors as a client gets them, never longer than the limit.

An answer goes out twice: as structured output (the projection), and as text for models that read
only text.
"""

from __future__ import annotations

from dataclasses import replace

from mcp.types import CallToolResult, TextContent

from knowport.client.tool import answer_text, error_text
from knowport.core.packing import CUT_MARK, MIN_EXCERPT, cut_at_sentence
from knowport.entrypoints import wire
from knowport.errors import KnowportError
from knowport.model import Answer, Notice


def answer_result(answer: Answer, *, max_bytes: int) -> CallToolResult:
    """The result of a lookup, at most ``max_bytes`` of JSON in UTF-8.

    What does not fit goes from the end, the last excerpt that is left is cut; the answer then says
    so, and how to go on.
    """
    result = _result(answer)
    left_out = 0
    while answer.evidence and (size := _size(result)) > max_bytes:
        *others, last = answer.evidence
        room = int(len(last.excerpt) * 0.8 * max_bytes / size)
        if others or room < MIN_EXCERPT:
            left_out += 1
            answer = replace(answer, evidence=tuple(others))
        else:
            shorter = cut_at_sentence(last.excerpt, room) + CUT_MARK
            answer = replace(answer, evidence=(replace(last, excerpt=shorter, truncated=True),))
        result = _result(_capped(answer, left_out))
    return result


def error_result(error: KnowportError) -> CallToolResult:
    """An error that the model can read and act on."""
    return CallToolResult(content=[TextContent(text=error_text(error))], is_error=True)


def _capped(answer: Answer, left_out: int) -> Answer:
    notice = Notice(
        "reply_capped",
        "The reply was cut to its limit. Ask more narrowly, or read a whole excerpt as the "
        "resource knowport://chunk/{document_id}, the id percent-encoded.",
    )
    withheld = {**answer.withheld, "reply_limit": left_out} if left_out else answer.withheld
    return replace(answer, withheld=withheld, notices=(*answer.notices, notice))


def _result(answer: Answer) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=answer_text(answer))],
        structured_content=wire.answer_json(answer),
    )


def _size(result: CallToolResult) -> int:
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
