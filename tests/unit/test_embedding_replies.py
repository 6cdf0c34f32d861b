"""What an embeddings endpoint answered is read without trust."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from knowport.adapters.embedding.replies import Kind, Trouble, read_reply, vectors_in_order
from knowport.adapters.embedding.transport import NoReply, Reply
from knowport.errors import EmbeddingError


def read(status: int, content: Any, content_type: str = "application/json") -> Any:
    body = content if isinstance(content, str) else json.dumps(content)
    reply = Reply(status, content_type, "7", body.encode())
    return read_reply(reply, scrub=lambda text: text.replace("KEY", "[key]"))


# Messages as servers send them.
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            {"error": {"message": "batch size is invalid, it should not be larger than 10"}},
            Kind.BATCH,
        ),  # DashScope
        (
            413,
            {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"},
            Kind.BATCH,
        ),  # TEI
        (
            400,
            {"error": {"message": "BatchEmbedContentsRequest: at most 100 requests in one batch"}},
            Kind.BATCH,
        ),  # Gemini
        (413, "<html>Request Entity Too Large</html>", Kind.BATCH),  # nginx
        (
            400,
            {"error": {"message": "This model's maximum context length is 8192 tokens"}},
            Kind.TOO_LONG,
        ),  # OpenAI
        (
            400,
            {"object": "error", "message": "maximum context length is 512 tokens", "code": 400},
            Kind.TOO_LONG,
        ),  # vLLM
        (
            413,
            {"error": "`inputs` must have less than 512 tokens. Given: 604"},
            Kind.TOO_LONG,
        ),  # TEI
        (
            500,
            {
                "error": {
                    "message": "input is too large to process. increase the physical batch size",
                    "code": 500,
                }
            },
            Kind.TOO_LONG,
        ),  # llama.cpp
        (400, {"error": "the input length exceeds the context length"}, Kind.TOO_LONG),  # Ollama
        (
            500,
            {"error": "failed to encode response: json: unsupported value: NaN"},
            Kind.NOT_A_NUMBER,
        ),  # Ollama
        (
            400,
            {"error": {"message": "does not support matryoshka representation"}},
            Kind.DIMENSIONS,
        ),  # vLLM
        (401, {"error": {"message": "no"}}, Kind.KEY),
        (403, "forbidden", Kind.KEY),
        (404, {"detail": "Not Found"}, Kind.NOT_FOUND),
        (429, {"error": {"message": "Limit 1000000 tokens per minute"}}, Kind.TRANSIENT),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, Kind.REFUSED),
        (502, "<html>bad gateway</html>", Kind.TRANSIENT),
        (503, "", Kind.TRANSIENT),
        (200, {"error": {"message": "model overloaded", "code": 503}}, Kind.TRANSIENT),
        (200, {"error": {"message": "slow down", "code": "429"}}, Kind.TRANSIENT),
        (200, {"error": {"message": "slow down", "type": "rate_limit_error"}}, Kind.TRANSIENT),
        (200, {"error": {"message": "who are you", "code": 401}}, Kind.KEY),
        (200, {"error": "no such thing"}, Kind.REFUSED),
        (200, "<html>gateway</html>", Kind.NOT_JSON),
        (200, "", Kind.NOT_JSON),
        (200, {"object": "list"}, Kind.REFUSED),
        (200, [], Kind.REFUSED),
        (200, {"data": {"0": [1]}}, Kind.REFUSED),
        (400, {"error": {"message": "input cannot be an empty string"}}, Kind.REFUSED),
        (422, {"detail": [{"msg": "field required"}]}, Kind.REFUSED),
    ],
)
def test_troubles_are_told_apart(status: int, body: Any, kind: Kind) -> None:
    trouble = read(status, body)
    assert isinstance(trouble, Trouble)
    assert trouble.kind is kind
    assert f"HTTP {status}" in trouble.message


def test_a_trouble_shows_message_code_and_what_the_server_asks_for() -> None:
    assert read(200, {"error": {"message": "model overloaded.", "code": 503}}) == Trouble(
        Kind.TRANSIENT, "HTTP 200: model overloaded. (code 503)", "7"
    )
    assert read(502, "<html>\n bad </html>", "text/html") == Trouble(
        Kind.TRANSIENT, "HTTP 502 with text/html, not JSON: <html> bad </html>", "7"
    )
    assert read(503, "").message == "HTTP 503 with an empty body"


def test_secrets_are_taken_out_before_the_message_is_cut() -> None:
    message = read(400, {"error": "x" * 289 + "KEY" + "y" * 100}).message
    assert message == "HTTP 400: " + "x" * 289 + "…"
    assert read(400, {"error": "KEY is wrong"}).message == "HTTP 400: [key] is wrong"


def test_no_reply_is_transient() -> None:
    assert read_reply(NoReply("ConnectError: refused"), scrub=str) == Trouble(
        Kind.TRANSIENT, "ConnectError: refused"
    )


def test_an_empty_error_beside_data_is_none() -> None:
    assert read(200, {"error": None, "data": [1]}) == [1]


def entries(*pairs: tuple[Any, Any]) -> list[object]:
    return [{"index": index, "embedding": vector} for index, vector in pairs]


def test_vectors_go_where_their_index_says() -> None:
    got = vectors_in_order(entries((2, [3]), (0, [1]), (1, [2])), count=3, first=0)
    assert got == [[1], [2], [3]]


def test_without_any_index_their_order_counts() -> None:
    assert vectors_in_order([{"embedding": [1]}, {"embedding": [2]}], count=2, first=0) == [
        [1],
        [2],
    ]


@pytest.mark.parametrize(
    ("given", "message", "position"),
    [
        (entries((0, [1]), (0, [2])), "index 0 twice", None),
        (entries((0, [1]), (2, [2])), "index 2, but 2 texts", None),
        (entries((0, [1]), (-1, [2])), "index -1, but 2 texts", None),
        (entries((0, [1]), (1, [2]), (2, [3])), "index 2, but 2 texts", None),
        (entries((0, [1]), (True, [2])), "not a whole number", None),
        (entries((0, [1]), ("1", [2])), "not a whole number", None),
        ([{"index": 0, "embedding": [1]}, {"embedding": [2]}], "not a whole number", None),
        (entries((0, [1])), "1 vectors for 2 texts; that of the text at position 11", 11),
        ([], "0 vectors for 2 texts; that of the text at position 10", 10),
    ],
)
def test_a_reply_that_does_not_fit_the_texts_is_refused(
    given: list[object], message: str, position: int | None
) -> None:
    with pytest.raises(EmbeddingError, match=message) as caught:
        vectors_in_order(given, count=2, first=10)
    assert caught.value.position == position


def test_base64_is_known_by_its_type() -> None:
    text = base64.b64encode(np.array([1.5, -2.0], dtype="<f4").tobytes()).decode()
    [vector] = vectors_in_order(entries((0, text)), count=1, first=0)
    np.testing.assert_array_equal(vector, [1.5, -2.0])


@pytest.mark.parametrize("text", ["AACAPw", "AACA!w==", "AACAPwA=", "é"])
def test_broken_base64_is_refused(text: str) -> None:
    with pytest.raises(EmbeddingError, match="position 4 is neither") as caught:
        vectors_in_order(entries((0, text)), count=1, first=4)
    assert caught.value.position == 4
