"""MCP over streamable HTTP, as a part of the running service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from http_service import Running, running

PAGES = {
    "handbook/failover.md": "# 主库切换 🚀\n\n值班长 🚑 批准后切换主库，再通知业务方 ★。\n",
    "handbook/redis.md": "# Redis failover\n\nSentinel promotes a replica; clients reconnect.\n",
}
SECRET_PAGE = "# 薪资系统\n\n主库切换要财务批准。\n"
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextmanager
def served(home: Path, **server: Any) -> Iterator[Running]:
    with running(home, server, documents={}) as started:
        for doc_id, text in PAGES.items():
            started.kb.put(doc_id, text)
        started.kb.put("payroll/db.md", SECRET_PAGE, kb_scope="payroll")
        yield started


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Without access keys."""
    with served(tmp_path_factory.mktemp("http") / "home") as started:
        yield started


def message(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def lookup(query: str, number: Any = 1) -> dict[str, Any]:
    return message("tools/call", number, name="lookup_knowledge", arguments={"query": query})


def post(service: Running, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **ACCEPT, **headers}
    return httpx.post(f"{service.url}/mcp", content=content, headers=given, timeout=30)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdk_client(service, mode):
    """Both eras of the protocol: with a handshake, and without."""

    async def talk() -> None:
        async with Client(f"{service.url}/mcp", mode=mode) as client:
            [tool] = (await client.list_tools()).tools
            result = await client.call_tool(tool.name, {"query": "主库切换 🚀"})
            best = result.structured_content["evidence"][0]
            assert best["document_id"] == "handbook/failover.md#chunk-0"
            assert "值班长 🚑" in result.content[0].text

            wrong = await client.call_tool(tool.name, {"query": " "})
            assert wrong.is_error
            assert wrong.content[0].text.startswith("Error (invalid_input): The query is blank.")

            listed = (await client.list_resources()).resources
            assert [resource.name for resource in listed] == list(PAGES)
            uri = f"knowport://chunk/{quote(best['document_id'], safe='')}"
            assert (await client.read_resource(uri)).contents[0].text == best["excerpt"]
            with pytest.raises(MCPError):
                await client.read_resource("knowport://document/payroll%2Fdb.md")
            with pytest.raises(MCPError):
                await client.call_tool("no_such_tool", {})

    anyio.run(talk)


def test_many_clients_at_once(service):
    async def one(number: int) -> None:
        async with Client(f"{service.url}/mcp") as client:
            for _ in range(3):
                result = await client.call_tool("lookup_knowledge", {"query": f"切换 {number}"})
                assert not result.is_error

    async def all_of_them() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(one, number)

    anyio.run(all_of_them)


def test_a_client_that_gives_up_breaks_nothing(service):
    async def talk() -> None:
        async with Client(f"{service.url}/mcp", mode="legacy") as client:
            for number in range(10):
                with anyio.move_on_after(0.001):
                    await client.call_tool("lookup_knowledge", {"query": f"切换 {number}"})
            result = await client.call_tool("lookup_knowledge", {"query": "主库切换"})
            assert result.structured_content["found"]

    anyio.run(talk)


def test_a_request_needs_no_session(service):
    reply = post(service, lookup("主库切换 🚀", number="七"))
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert reply.json()["id"] == "七"
    assert reply.json()["result"]["structuredContent"]["found"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no JSON", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b"[" * 10_000, 400, -32700),
        (b"[]", 400, -32602),
        (b'{"jsonrpc": "2.0", "id": 1}', 400, -32602),
        (message("no/such/method"), 200, -32601),
        (message("m" * 100_000), 200, -32601),
        (message("tools/call", name="lookup_knowledge", arguments=[]), 200, -32602),
    ],
)
def test_bodies_that_are_no_request(service, body, status, code):
    reply = post(service, body)
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == code
    assert len(reply.content) < 2_000


def test_methods_other_than_post(service):
    for method in ("GET", "DELETE", "PUT"):
        reply = httpx.request(method, f"{service.url}/mcp", headers=ACCEPT)
        assert reply.status_code == 405
        assert reply.headers["allow"] == "POST"
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "attacker.example"}, "host_not_allowed"),
        ({"Origin": "http://evil.example"}, "origin_not_allowed"),
        ({"Origin": "null"}, "origin_not_allowed"),
    ],
)
def test_a_page_of_elsewhere_cannot_ask(service, headers, code):
    reply = post(service, lookup("主库切换"), **headers)
    assert (reply.status_code, reply.json()["code"]) == (403, code)


def test_a_body_over_the_limit(service):
    reply = post(service, b" " * (5 * 2**20))
    assert reply.status_code == 413


def test_it_is_seen_under_its_route(service):
    post(service, lookup("主库切换"))
    figures = httpx.get(f"{service.url}/metrics").text
    assert 'knowport_http_requests_total{method="POST",route="/mcp",status="200"}' in figures


def test_the_access_key_decides_the_scope(tmp_path):
    with served(tmp_path / "home") as service:
        mine, payroll = service.key("default"), service.key("payroll")

        def documents(key: str) -> list[str]:
            bearer = {"Authorization": f"Bearer {key}"}
            found = post(service, lookup("主库切换"), **bearer).json()["result"]
            return [item["document_id"] for item in found["structuredContent"]["evidence"]]

        assert documents(payroll) == ["payroll/db.md#chunk-0"]
        assert documents(mine)[0] == "handbook/failover.md#chunk-0"
        assert "payroll/db.md#chunk-0" not in documents(mine)
        for uri in ("knowport://chunk/payroll%2Fdb.md%23chunk-0", "knowport://document/no.md"):
            reply = post(
                service, message("resources/read", uri=uri), Authorization=f"Bearer {mine}"
            )
            assert reply.json()["error"]["data"]["code"] == "unknown_document"

        for headers in ({}, {"Authorization": "Bearer kp_wrong"}):
            reply = post(service, lookup("主库切换"), **headers)
            assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")

        async def talk() -> None:
            headers = {"Authorization": f"Bearer {payroll}"}
            async with create_mcp_http_client(headers=headers) as http:
                transport = streamable_http_client(f"{service.url}/mcp", http_client=http)
                async with Client(transport) as client:
                    listed = (await client.list_resources()).resources
                    assert [resource.name for resource in listed] == ["payroll/db.md"]

        anyio.run(talk)


def test_too_many_that_wait_are_told_to_come_again(tmp_path):
    with served(tmp_path / "home", lookup_threads=1, lookup_queue=0) as service:
        release = threading.Event()
        held = service.service.reads.submit(release.wait)
        reply = post(service, lookup("主库切换")).json()["result"]
        release.set()
        held.result(10)
        assert reply["isError"]
        text = reply["content"][0]["text"]
        assert text.startswith("Error (overloaded): Too many requests wait already")
        assert text.endswith("The same call may succeed later.")
        assert not post(service, lookup("主库切换")).json()["result"]["isError"]
