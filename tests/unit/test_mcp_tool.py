"""What the tool takes, the URIs of resources, and lines of a descriptor."""

from __future__ import annotations

import os
import threading

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowport.entrypoints.mcp.lines import LineTooLong, lines
from knowport.entrypoints.mcp.tool import arguments, definition
from knowport.entrypoints.mcp.uris import Target, parse_uri, uri_of
from knowport.errors import InvalidInput


def test_only_query_and_category():
    schema = definition().input_schema
    assert list(schema["properties"]) == ["query", "category"]
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False


def test_the_output_schema_is_that_of_an_answer():
    schema = definition().output_schema
    assert list(schema["properties"]) == [
        "found",
        "relevance_level",
        "lookup_id",
        "generation",
        "evidence",
        "withheld",
        "notices",
    ]
    assert list(schema["$defs"]["Evidence"]["properties"]) == [
        "document_id",
        "source",
        "title",
        "breadcrumb",
        "excerpt",
        "truncated",
        "relevance_level",
        "via",
    ]


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        ({"query": "vpn"}, ("vpn", None)),
        ({"query": "vpn", "category": None}, ("vpn", None)),
        ({"query": "vpn", "category": "net"}, ("vpn", "net")),
        # Blank arguments that a model made up ask for nothing.
        ({"query": "vpn", "category": "", "docId": "", "cursor": "", "limit": None}, ("vpn", "")),
    ],
)
def test_arguments(given_, read):
    assert arguments(given_) == read


@pytest.mark.parametrize(
    ("given_", "field"),
    [
        (None, "query"),
        ({}, "query"),
        ({"query": None}, "query"),
        ({"query": ["vpn"]}, "query"),
        ({"query": 5}, "query"),
        ({"query": "x", "category": 1}, "category"),
        ({"query": "x", "category": {"a": 1}}, "category"),
        ({"query": "x", "limit": 100_000}, "limit"),
        ({"query": "x", "docId": "a.md"}, "docId"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "a" * 10_000: 1}, "a" * 50),
    ],
)
def test_arguments_that_ask_for_something_else(given_, field):
    with pytest.raises(InvalidInput) as raised:
        arguments(given_)
    assert raised.value.field == field
    assert len(str(raised.value)) < 300


def test_uris():
    assert (
        uri_of("chunk", "值班/a b.md#chunk-3")
        == "knowport://chunk/%E5%80%BC%E7%8F%AD%2Fa%20b.md%23chunk-3"
    )
    assert uri_of("document", "a.md", offset=7) == "knowport://document/a.md?offset=7"
    assert parse_uri("knowport://document/a.md?offset=7") == Target("document", "a.md", 7)
    # As people write them.
    assert parse_uri("knowport://chunk/kb/a.md#chunk-3") == Target("chunk", "kb/a.md#chunk-3")


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)


@given(st.sampled_from(["chunk", "document"]), ids, st.integers(0, 10**12 - 1))
def test_every_id_survives_its_uri(kind, identity, offset):
    uri = uri_of(kind, identity, offset=offset)
    assert uri.isascii()
    assert parse_uri(uri) == Target(kind, identity, offset)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "knowport://",
        "knowport://chunk/",
        "knowport://secret/a",
        "file:///etc/passwd",
        "http://chunk/a",
        "knowport://chunk/%FF",
        "x" * 100_000,
    ],
)
def test_other_uris_are_refused(uri):
    with pytest.raises(InvalidInput) as raised:
        parse_uri(uri)
    assert len(str(raised.value)) < 500


def read_all(descriptor: int, max_bytes: int = 10) -> list[bytes | None]:
    """Lines; None for one that is too long."""

    async def collect() -> list[bytes | None]:
        return [
            None if isinstance(line, LineTooLong) else line
            async for line in lines(descriptor, max_bytes=max_bytes)
        ]

    return anyio.run(collect)


CASES = {
    b"": [],
    b"a\nb\n": [b"a", b"b"],
    b"a\n\nb": [b"a", b"", b"b"],
    b"0123456789\n01234567890\nc\n": [b"0123456789", None, b"c"],
    b"x" * 200_000 + b"\nok\n": [None, b"ok"],
    b"ok\n" + b"x" * 200_000: [b"ok", None],
    "漢\n🚑".encode(): ["漢".encode(), "🚑".encode()],
}


@pytest.mark.parametrize("sent", CASES)
def test_lines_of_a_pipe(sent):
    read_end, write_end = os.pipe()

    def send() -> None:
        with open(write_end, "wb") as pipe:  # noqa: PTH123  # a descriptor
            pipe.write(sent)

    sender = threading.Thread(target=send)
    sender.start()
    assert read_all(read_end) == CASES[sent]
    sender.join()
    os.close(read_end)


@pytest.mark.parametrize("sent", CASES)
def test_lines_of_a_file(sent, tmp_path):
    (tmp_path / "session").write_bytes(sent)
    with (tmp_path / "session").open("rb") as file:
        assert read_all(file.fileno()) == CASES[sent]


def test_waiting_for_a_line_can_be_cancelled():
    read_end, write_end = os.pipe()

    async def wait() -> bool:
        with anyio.move_on_after(0.05) as scope:
            async for _ in lines(read_end, max_bytes=10):
                raise AssertionError
        return scope.cancelled_caught

    assert anyio.run(wait)
    os.close(read_end)
    os.close(write_end)
