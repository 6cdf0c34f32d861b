"""The Python client, against a running service and against replies that none should send."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from http_service import Running, running
from knowport import KnowledgeBase, KnowportError
from knowport.client import (
    AccessDenied,
    ChunkText,
    Client,
    EvidenceState,
    NotFound,
    RequestRefused,
    ServiceError,
    ServiceUnavailable,
    Stored,
)
from knowport.client.errors import error_of
from knowport.errors import ConfigurationError
from knowport.model import Answer, FileOutcome, IngestReport
from support import make_folder

LOCKS = "# 锁等待\n\n## 现象\n\n支付库报 ERROR 1205 (HY000) 🚑。\n\n## 处理\n\n终止持锁的会话。\n"
IDS = ["handbook/a b#1?.md", "handbook/locks.md", "handbook/值班.md", "z/page.md"]
URL = "http://knowport.test"
SECRET = "kp_the-test-key"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("client")
    pages = {f"{n}.md": f"# Page {n}\n\nAlpha {n}.\n" for n in range(3)}
    make_folder(folder / "roots" / "kb", pages)
    roots = {"ingest_roots": [folder / "roots"]}
    with running(folder / "home", roots, documents={}) as started:
        for doc_id in IDS:
            text = LOCKS if doc_id == "handbook/locks.md" else f"# {doc_id}\n\nText.\n"
            started.kb.put(doc_id, text)
        yield started


@pytest.fixture
def kb(service: Running) -> KnowledgeBase:
    return service.kb


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


# -- against a running service --------------------------------------------------------------


def test_an_answer_is_the_one_of_the_knowledge_base(client, kb):
    answer = client.lookup("ERROR 1205 (HY000)")
    assert isinstance(answer, Answer)
    assert answer.evidence[0].excerpt == LOCKS[: LOCKS.index("\n\n## 处理")]
    own = kb.lookup("ERROR 1205 (HY000)")
    assert answer == replace(own, lookup_id=answer.lookup_id)
    assert client.trace(answer.lookup_id)["found"] is True


def test_nothing_found_is_an_answer(client):
    answer = client.lookup("ERROR 1205", category="no such category")
    assert not answer.found
    assert [notice.code for notice in answer.notices] == ["unknown_category"]


def test_a_citation_can_be_checked(client):
    evidence = client.lookup("ERROR 1205 (HY000)").evidence[0]
    chunk = client.chunk(evidence.document_id)
    assert chunk == ChunkText(
        id="handbook/locks.md#chunk-0",
        doc_id="handbook/locks.md",
        source="api",
        title="锁等待",
        breadcrumb="锁等待 > 现象",
        category="",
        content=evidence.excerpt,
        start=0,
        end=LOCKS.index("\n\n## 处理"),
    )


def test_explain(client):
    told = client.explain("ERROR 1205", document_id="handbook/locks.md#chunk-0")
    assert told["document"]["document_id"] == "handbook/locks.md#chunk-0"


@pytest.mark.parametrize("doc_id", IDS)
def test_every_id_reaches_its_document(client, doc_id):
    found = client.document(doc_id)
    assert found.info.doc_id == doc_id
    assert found.text == (LOCKS if doc_id == "handbook/locks.md" else f"# {doc_id}\n\nText.\n")


def test_documents_come_page_by_page(client):
    assert [info.doc_id for info in client.documents()] == IDS
    page = client.documents_page(limit=3)
    assert [info.doc_id for info in page.documents] == IDS[:3]
    rest = client.documents_page(limit=3, cursor=page.next_cursor)
    assert [info.doc_id for info in rest.documents] == IDS[3:]
    assert rest.next_cursor is None


def test_putting_and_deleting(client, tmp_path):
    metadata = {"owner": "值班"}
    stored = client.put("new/page.md", "# Zebra\n\nStripes.\n", category="zoo", metadata=metadata)
    assert stored == Stored("new/page.md", FileOutcome.INDEXED, 1, "new")
    assert client.document("new/page.md").info.metadata == metadata
    assert client.lookup("Zebra", category="zoo").evidence[0].document_id == "new/page.md#chunk-0"
    again = client.put("new/page.md", "# Zebra\n\nStripes.\n", category="zoo", metadata=metadata)
    assert again.outcome is FileOutcome.UNCHANGED

    (tmp_path / "斑马.md").write_text("# 斑马\n\n条纹。\n", encoding="utf-16")
    stored = client.put_file(tmp_path / "斑马.md", source="new", metadata=metadata)
    assert stored.id == "new/斑马.md"
    assert client.document("new/斑马.md").text == "# 斑马\n\n条纹。\n"
    assert client.put_file(b"Plain.\n", name="x.txt", doc_id="new/x").id == "new/x"

    for doc_id in ("new/page.md", "new/斑马.md", "new/x"):
        assert client.delete(doc_id) == 1
        with pytest.raises(NotFound):
            client.document(doc_id)


def test_a_job_is_waited_for(client, kb):
    folder = kb.settings.server.ingest_roots[0] / "kb"
    told: list[dict[str, Any]] = []
    job = client.wait(
        client.ingest(str(folder), source="jobs").job_id, on_progress=told.append, every=0.05
    )
    assert job.state == "done"
    assert job.result["counts"]["indexed"] == 3
    assert told[-1]["files_total"] == 3
    assert job.job_id in [known.job_id for known in client.jobs()]
    for number in range(3):
        client.delete(f"jobs/{number}.md")


def test_a_job_that_failed_raises_what_it_failed_of(client, kb, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise ConfigurationError("It is broken.", remedy="Mend it.")

    monkeypatch.setattr(kb, "ingest", fail)
    job = client.ingest(str(kb.settings.server.ingest_roots[0]))
    with pytest.raises(ServiceError, match=r"It is broken\. Mend it\.") as raised:
        client.wait(job.job_id, every=0.05)
    assert (raised.value.code, raised.value.exit_code) == ("configuration", 3)


def test_a_job_is_cancelled_where_the_one_who_waits_says_so(client, kb, monkeypatch):
    begun = threading.Event()

    def endless(*_: Any, should_stop: Callable[[], bool], **__: Any) -> Any:
        begun.set()
        while not should_stop():
            time.sleep(0.01)
        return IngestReport([], 0, 0, 0.0, interrupted=True)

    monkeypatch.setattr(kb, "ingest", endless)
    job = client.ingest(str(kb.settings.server.ingest_roots[0]))
    done = client.wait(job.job_id, should_stop=begun.is_set, every=0.02)
    assert (done.state, done.result["interrupted"]) == ("cancelled", True)


def test_an_audit_and_what_became_of_evidence(client):
    job = client.wait(client.audit(sample=2).job_id, every=0.05)
    assert (job.kind, job.result["probed"], job.result["findings"]) == ("audit", 2, [])
    job = client.wait(client.audit(repair=True, sample="all").job_id, every=0.05)
    assert job.result["after"]["probed"] == job.result["after"]["chunks"] == 5

    key = "handbook/locks.md#chunk-0"
    found = client.evidence(key)
    assert (found.state, found.to, found.ambiguous) == (EvidenceState.CURRENT, (key,), False)
    with pytest.raises(RequestRefused, match="Nothing is known of a generation 'g9'"):
        client.evidence(key, generation="g9")
    assert client.evidence(key, at="2001-01-01").meanings == ()


def test_a_rebuild_and_the_way_back(client):
    assert [g.name for g in client.rebuild.status().generations] == ["g1"]
    done = client.wait(client.rebuild.run().job_id, every=0.05)
    assert done.kind == "rebuild"
    first, new = client.rebuild.status().generations
    assert (first.name, first.state, new.state) == ("g1", "previous", "active")
    assert new.documents_present == new.documents_known == 4
    assert client.lookup("ERROR 1205").generation == new.name

    rows = client.rebuild.details()["generations"]
    assert [(row["name"], row["forced"], row["collection_lost"]) for row in rows] == [
        ("g1", False, False),
        (new.name, False, False),
    ]
    assert rows[1]["report"]["searched_for"] == 5

    client.wait(client.rebuild.rollback().job_id, every=0.05)
    assert client.lookup("ERROR 1205").generation == "g1"
    assert client.rebuild.drop(new.name) == new.collection
    with pytest.raises(RequestRefused) as raised:
        client.rebuild.abort()
    assert (raised.value.code, raised.value.exit_code, raised.value.status) == ("rebuild", 14, 409)
    with pytest.raises(RequestRefused):
        client.wait(client.rebuild.verify().job_id, every=0.05)
    with pytest.raises(RequestRefused):
        client.wait(client.rebuild.activate().job_id, every=0.05)


def test_status(client):
    status = client.status()
    assert (status.documents, status.kb_scope, status.engine) == (4, "default", "embedded")


@pytest.mark.parametrize(
    ("ask", "kind", "code", "exit_code", "status"),
    [
        (lambda c: c.lookup(" "), RequestRefused, "invalid_input", 2, 422),
        (lambda c: c.lookup("x" * 5_000), RequestRefused, "invalid_input", 2, 422),
        (lambda c: c.document("no/such.md"), NotFound, "unknown_document", 9, 404),
        (lambda c: c.chunk("handbook/locks.md#chunk-9"), NotFound, "unknown_document", 9, 404),
        (lambda c: c.delete("no/such.md"), NotFound, "unknown_document", 9, 404),
        (lambda c: c.trace("lk_none"), NotFound, "unknown_lookup", 9, 404),
        (lambda c: c.job("job/../x"), NotFound, "unknown_route", 15, 404),
        (lambda c: c.ingest("/etc"), AccessDenied, "path_not_allowed", 3, 403),
        (lambda c: c.put("../x", "text"), RequestRefused, "invalid_input", 2, 422),
    ],
)
def test_refusals_carry_the_problem(client, ask, kind, code, exit_code, status):
    with pytest.raises(kind) as raised:
        ask(client)
    error = raised.value
    assert isinstance(error, KnowportError)
    assert (error.code, error.exit_code, error.status) == (code, exit_code, status)
    assert error.message == error.problem["detail"]
    assert error.remedy
    assert error.problem["remedy"] == error.remedy
    assert error.request_id
    assert not error.transient


def test_the_access_key_is_sent_and_never_told(tmp_path):
    with running(tmp_path / "home", documents={}) as service:
        service.kb.put("payroll/db.md", "# Payroll\n\nAlpha.\n", kb_scope="payroll")
        reader = service.key("payroll")
        with Client(service.url, api_key=reader) as client:
            assert client.lookup("Payroll").evidence[0].document_id == "payroll/db.md#chunk-0"
            assert reader not in repr(client) + str(vars(client))
            with pytest.raises(AccessDenied) as raised:
                client.put("payroll/new.md", "text")
            assert (raised.value.code, raised.value.exit_code) == ("forbidden", 3)
            assert "KNOWPORT_API_KEY" in raised.value.remedy
            with pytest.raises(NotFound) as raised:
                client.lookup("Payroll", kb_scope="default")
            assert raised.value.code == "unknown_scope"
        with Client(service.url, api_key=SECRET) as client:
            with pytest.raises(AccessDenied) as raised:
                client.lookup("Payroll")
            assert (raised.value.status, raised.value.exit_code) == (401, 3)
            assert "KNOWPORT_API_KEY" in raised.value.remedy
            assert SECRET not in f"{raised.value!r} {raised.value} {raised.value.problem}"


# -- against replies that are made here -----------------------------------------------------

ANSWER = {
    "found": False,
    "relevance_level": "none",
    "lookup_id": "lk_1",
    "generation": "g1",
    "evidence": [],
    "withheld": {},
    "notices": [],
}
BUSY = {"code": "overloaded", "detail": "Too many wait.", "remedy": "Wait.", "transient": True}

Script = list[httpx.Response | Exception]


class Scripted:
    """A network that answers what it was told to, and remembers what was asked and waited."""

    def __init__(self, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        monkeypatch.setattr("knowport.client.transport.time.sleep", self.waits.append)
        self._script = script

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        told = self._script.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Client, Scripted]]:
    def make(*script: httpx.Response | Exception, **options: Any) -> tuple[Client, Scripted]:
        network = Scripted(list(script), monkeypatch)
        return Client(URL, api_key=SECRET, http=httpx.MockTransport(network), **options), network

    return make


def reply(status: int, value: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, json=value, headers=named)


GOOD = reply(200, ANSWER)


def test_a_busy_service_is_asked_again_after_as_long_as_it_said(scripted):
    client, network = scripted(
        reply(503, BUSY, Retry_After="2"), reply(429, BUSY, Retry_After="5"), GOOD
    )
    assert client.lookup("x").lookup_id == "lk_1"
    assert [request.content for request in network.requests] == [b'{"query":"x"}'] * 3
    first, second = network.waits
    assert 2 <= first <= 3
    assert 5 <= second <= 6


def test_without_a_word_of_how_long_the_wait_grows(scripted):
    client, network = scripted(*[reply(503, BUSY)] * 4, GOOD)
    assert client.lookup("x").lookup_id == "lk_1"
    assert all(wait <= 0.5 * 2**n for n, wait in enumerate(network.waits))
    assert len(network.waits) == 4


def test_retries_come_to_an_end(scripted):
    client, network = scripted(*[reply(503, BUSY, Retry_After="1")] * 3, retries=2)
    with pytest.raises(ServiceUnavailable, match=r"Too many wait\. Wait\.") as raised:
        client.lookup("x")
    assert (raised.value.code, raised.value.status) == ("overloaded", 503)
    assert raised.value.transient
    assert len(network.requests) == 3


def test_a_wait_that_is_too_long_is_told_at_once(scripted):
    client, network = scripted(reply(429, BUSY, Retry_After="31"), longest_wait=30)
    with pytest.raises(ServiceUnavailable):
        client.lookup("x")
    assert network.waits == []


def test_a_service_that_is_not_there_yet_is_asked_again(scripted):
    client, network = scripted(httpx.ConnectError("refused"), httpx.ConnectTimeout("late"), GOOD)
    assert client.lookup("x").lookup_id == "lk_1"
    assert len(network.waits) == 2


@pytest.mark.parametrize("error", [httpx.RemoteProtocolError("cut"), httpx.ReadError("reset")])
def test_a_connection_that_breaks(scripted, error):
    client, network = scripted(error, GOOD)
    assert client.lookup("x").lookup_id == "lk_1"
    client, network = scripted(error)
    with pytest.raises(ServiceUnavailable, match="cannot be reached"):
        client.ingest("/srv")  # nobody knows whether it has begun
    assert len(network.requests) == 1


def test_an_answer_that_takes_too_long_is_not_asked_for_again(scripted):
    client, network = scripted(httpx.ReadTimeout("slow"))
    with pytest.raises(ServiceUnavailable, match="did not answer in time") as raised:
        client.lookup("x")
    assert raised.value.code == "service_unavailable"
    assert len(network.requests) == 1


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        (httpx.Response(502, text="<html>Bad gateway</html>"), ServiceError, "HTTP status 502"),
        (httpx.Response(404, text="not here"), NotFound, "HTTP status 404"),
        (httpx.Response(500, json=["no", "problem"]), ServiceError, "HTTP status 500"),
        (httpx.Response(302, headers={"Location": "http://evil"}), ServiceError, "status 302"),
        (httpx.Response(200, text="<html>Hello</html>"), ServiceError, "something else"),
        (httpx.Response(200, json={}), ServiceError, "something else"),
        (httpx.Response(200, json={**ANSWER, "found": "maybe"}), ServiceError, "something else"),
    ],
)
def test_what_is_no_reply_of_ours_is_an_error(scripted, told, kind, message):
    client, network = scripted(told)
    with pytest.raises(ServiceError, match=message) as raised:
        client.lookup("x")
    assert type(raised.value) is kind
    assert raised.value.problem == {}
    assert len(network.requests) == 1, "nothing is sent elsewhere"


def test_members_of_a_newer_service_are_left_alone(scripted):
    client, _ = scripted(reply(200, {**ANSWER, "colour": "blue"}))
    assert client.lookup("x").found is False


def test_what_is_sent(scripted):
    client, network = scripted(GOOD, reply(200, {"documents": [], "next_cursor": None}))
    client.lookup("主库 🚑", category="mysql", kb_scope="s", mode="dense")
    client.documents_page(category="a&b=c", cursor="x+/=")
    first, second = network.requests
    assert json.loads(first.content) == {
        "query": "主库 🚑",
        "category": "mysql",
        "kb_scope": "s",
        "mode": "dense",
    }
    assert first.headers["authorization"] == f"Bearer {SECRET}"
    assert dict(second.url.params) == {"category": "a&b=c", "cursor": "x+/=", "limit": "100"}


def test_a_service_below_a_path(monkeypatch):
    network = Scripted([GOOD], monkeypatch)
    client = Client("https://gateway.test/knowport/", http=httpx.MockTransport(network))
    client.lookup("x")
    assert str(network.requests[0].url) == "https://gateway.test/knowport/v1/lookup"
    assert "authorization" not in network.requests[0].headers


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8765",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host:port",
        "http://host?x=1",
        "http://[::1",
    ],
)
def test_addresses_that_are_none(address):
    with pytest.raises(ConfigurationError) as raised:
        Client(address)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("api_key", ["kp_ tökén", "kp_a b", "kp_a\n", "密钥"])
def test_keys_that_are_none(api_key):
    with pytest.raises(ConfigurationError) as raised:
        Client(URL, api_key=api_key)
    assert api_key not in str(raised.value)


def test_bytes_need_a_name():
    with Client(URL) as client, pytest.raises(ConfigurationError, match="need a name"):
        client.put_file(b"text")


def test_from_the_environment(monkeypatch, service):
    monkeypatch.delenv("KNOWPORT_SERVER", raising=False)
    with pytest.raises(ConfigurationError, match="No service is named"):
        Client.from_environment()
    monkeypatch.setenv("KNOWPORT_SERVER", service.url)
    with Client.from_environment(retries=0) as client:
        assert client.status().documents == 4


def test_a_service_that_is_not_there():
    with (
        Client("http://127.0.0.1:9", retries=0) as client,
        pytest.raises(
            ServiceUnavailable, match=r"http://127\.0\.0\.1:9 cannot be reached"
        ) as raised,
    ):
        client.lookup("x")
    assert "http://127.0.0.1:9" in raised.value.message
    assert "knowport serve" in raised.value.remedy


def test_an_error_of_every_status_says_whether_it_may_pass():
    passing = {status for status in range(400, 600) if error_of(status, {}).transient}
    assert passing == {408, 429, 503, 504}
