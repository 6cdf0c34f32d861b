"""Who may do what over HTTP: keys, scopes, roles, rates, Host and Origin."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import Running, running
from knowport import KnowledgeBase, load_settings
from knowport.entrypoints.http.server import listen, refuse_open_network, refuse_workers
from knowport.errors import ConfigurationError
from support import HashEmbedder, knowport, make_folder

JSON = {"Content-Type": "application/json"}
SECRET_DOC = "other/plans.md"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With keys, and with a document in another scope."""
    folder = tmp_path_factory.mktemp("access")
    roots = make_folder(folder / "roots", {"book/a.md": "# A\n\nAlpha zebra.\n"})
    (folder / "roots" / "book" / "out.md").symlink_to(make_folder(folder, {"o.md": "x"}) / "o.md")
    (folder / "roots" / "away").symlink_to(folder)
    with running(folder / "home", {"ingest_roots": [roots]}) as one:
        one.kb.put(SECRET_DOC, "# Plans\n\nQuartz heron.\n", source="other", kb_scope="other")
        one.key()  # from here on a key is needed
        yield one


@pytest.fixture(scope="module")
def keys(served: Running) -> dict[str, httpx.Client]:
    made = {role: served.key(role=role) for role in ("reader", "writer", "admin")}
    made["other"] = served.key(scope="other", role="admin")
    return {name: served.as_holder(key) for name, key in made.items()}


def code(reply: httpx.Response) -> tuple[int, str]:
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    return reply.status_code, reply.json()["code"]


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer kp_",
        b"Bearer kp_" + b"A" * 43,
        "Bearer tökén".encode("latin-1"),
        "Bearer tökén".encode(),
        b"Basic kp_x",
        b"Bearer " + b"x" * 20_000,
        b"kp_x",
        b"Bearer a b",
        b"Bearer \xff\xfe",
    ],
)
def test_every_wrong_key_is_the_same_401(served: Running, header: bytes | None) -> None:
    headers = [] if header is None else [(b"Authorization", header)]

    reply = served.client.post("/v1/lookup", json={"query": "x"}, headers=headers)

    assert code(reply) == (401, "unauthorized")
    assert reply.headers["www-authenticate"] == 'Bearer realm="knowport"'
    assert reply.json()["detail"] == (
        "This needs an access key, and there is none in the request that can be used."
    )


def test_two_keys_are_none(served: Running) -> None:
    key = f"Bearer {served.key()}"

    reply = served.client.get("/v1/status", headers=[("Authorization", key)] * 2)

    assert code(reply) == (401, "unauthorized")


@pytest.mark.parametrize("path", ["/metrics", "/v1/jobs", "/v1/generations", "/nothing", "/mcp"])
def test_whatever_is_not_public_needs_a_key(served: Running, path: str) -> None:
    assert served.client.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_probes_and_the_description_are_public(served: Running, path: str) -> None:
    assert served.client.get(path).status_code in (200, 503)


def test_a_key_ends_when_it_is_revoked_or_expires(served: Running) -> None:
    revoked, brief = served.key(), served.key(expires_at=datetime.now(UTC) + timedelta(seconds=2))
    with served.as_holder(revoked) as one, served.as_holder(brief) as two:
        assert one.get("/v1/status").status_code == 200
        assert two.get("/v1/status").status_code == 200
        ids = [key.key_id for key in served.kb.access.listed()]

        served.kb.access.revoke(ids[-2])

        deadline = time.monotonic() + 120
        for client in (one, two):  # neither is told to the service: it finds out by itself
            while client.get("/v1/status").status_code == 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert code(client.get("/v1/status")) == (401, "unauthorized")


def test_only_the_hash_of_a_key_is_kept(served: Running) -> None:
    key = served.key()

    home = served.kb.settings.home
    # The engine's own files are left alone: closing its lock file would free its lock.
    kept = b"".join(path.read_bytes() for path in home.glob("ledger.sqlite3*"))

    assert key.encode() not in kept
    assert len(key) >= 3 + 43
    assert key.startswith("kp_")


# -- scopes -----------------------------------------------------------------------------------


def test_a_lookup_finds_nothing_of_another_scope(keys: dict[str, httpx.Client]) -> None:
    asked = {"query": "Quartz heron"}

    replies = [keys[name].post("/v1/lookup", json=asked) for name in ("other", "reader")]
    assert [reply.status_code for reply in replies] == [200, 200], [r.text for r in replies]
    mine, theirs = (reply.json() for reply in replies)

    assert [e["document_id"] for e in mine["evidence"]] == [f"{SECRET_DOC}#chunk-0"]
    assert "Quartz" not in json.dumps(theirs)
    assert "plans" not in json.dumps(theirs)


@pytest.mark.parametrize("scope", ["other", "no-such-scope"])
def test_another_scope_cannot_be_named_whether_it_is_there_or_not(
    keys: dict[str, httpx.Client], scope: str
) -> None:
    admin = keys["admin"]
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/lookup", {"json": {"query": "x", "kb_scope": scope}}),
        ("POST", "/v1/explain", {"json": {"query": "x", "kb_scope": scope}}),
        ("GET", "/v1/status", {"params": {"kb_scope": scope}}),
        ("GET", "/v1/documents", {"params": {"kb_scope": scope}}),
        ("GET", "/v1/documents", {"params": {"kb_scope": scope, "id": SECRET_DOC}}),
        ("PUT", "/v1/documents", {"json": {"id": "a", "text": "x", "kb_scope": scope}}),
        ("DELETE", "/v1/documents", {"params": {"kb_scope": scope, "id": SECRET_DOC}}),
        ("PUT", "/v1/domains", {"json": {"source": "a", "catalogue": None, "kb_scope": scope}}),
        ("POST", "/v1/ingest", {"json": {"path": "/", "kb_scope": scope}}),
    ]
    for method, path, more in asked:
        reply = admin.request(method, path, **more)

        assert code(reply) == (404, "unknown_scope"), path
        assert reply.json()["detail"] == f"There is no scope '{scope}'."


def test_documents_and_traces_of_another_scope_are_as_if_they_did_not_exist(
    served: Running, keys: dict[str, httpx.Client]
) -> None:
    admin, other = keys["admin"], keys["other"]
    lookup_id = other.post("/v1/lookup", json={"query": "Quartz"}).json()["lookup_id"]
    assert other.get(f"/v1/lookups/{lookup_id}").status_code == 200

    def same(first: httpx.Response, second: httpx.Response, names: tuple[str, str]) -> None:
        assert code(first) == code(second)
        assert code(first)[0] == 404
        one, two = first.json(), second.json()
        assert one["detail"].replace(*names) == two["detail"]
        assert one["remedy"] == two["remedy"]

    gone = "other/nothing.md"
    for document_id in ("{}", "{}#chunk-0"):
        there, not_there = document_id.format(SECRET_DOC), document_id.format(gone)
        same(
            admin.get("/v1/documents", params={"id": there}),
            admin.get("/v1/documents", params={"id": not_there}),
            (SECRET_DOC, gone),
        )
    same(
        admin.delete("/v1/documents", params={"id": SECRET_DOC}),
        admin.delete("/v1/documents", params={"id": gone}),
        (SECRET_DOC, gone),
    )
    same(
        admin.get(f"/v1/lookups/{lookup_id}"),
        admin.get("/v1/lookups/lk_x"),
        (lookup_id, "lk_x"),
    )
    for document_id in (SECRET_DOC, f"{SECRET_DOC}#chunk-0", f"{SECRET_DOC}#chunk-99"):
        why = admin.post("/v1/explain", json={"query": "x", "document_id": document_id}).json()
        assert why["document"]["reason"] == "not_in_index"
        assert why["document"]["message"] == f"No document has the id '{SECRET_DOC}'."
    page = admin.get("/v1/documents", params={"limit": 500}).json()["documents"]
    assert SECRET_DOC not in [document["doc_id"] for document in page]
    assert "other" not in json.dumps(admin.get("/v1/status").json()["categories"])
    assert served.kb.document(SECRET_DOC)[0].chunk_count == 1


def test_an_id_of_another_scope_is_not_overwritten(
    served: Running, keys: dict[str, httpx.Client]
) -> None:
    reply = keys["admin"].put("/v1/documents", json={"id": SECRET_DOC, "text": "mine"})

    assert code(reply) == (409, "id_not_free")
    assert "other'" not in reply.text
    assert served.kb.document(SECRET_DOC)[1].text.startswith("# Plans")


def test_domains_are_set_in_the_scope_of_the_key_only(keys: dict[str, httpx.Client]) -> None:
    body = {"source": "birds", "catalogue": '[[domain]]\nid = "fowl"\nnames = ["heron"]\n'}

    def domains(name: str) -> list[str]:
        return keys[name].post("/v1/explain", json={"query": "heron"}).json()["plan"]["domains"]

    assert code(keys["reader"].put("/v1/domains", json=body)) == (403, "forbidden")
    assert keys["other"].put("/v1/domains", json=body).status_code == 200
    assert (domains("other"), domains("reader")) == (["fowl"], [])
    assert keys["writer"].put("/v1/domains", json={**body, "catalogue": None}).status_code == 200
    assert domains("other") == ["fowl"]
    assert keys["other"].put("/v1/domains", json={**body, "catalogue": None}).status_code == 200
    assert domains("other") == []


def test_jobs_are_seen_in_their_scope_only(keys: dict[str, httpx.Client], served: Running) -> None:
    root = served.service.settings.ingest_roots[0]
    begun = keys["writer"].post("/v1/ingest", json={"path": str(root / "book")})
    job = begun.json()["job_id"]

    assert begun.status_code == 202
    assert begun.headers["location"] == f"/v1/jobs/{job}"
    assert keys["reader"].get(f"/v1/jobs/{job}").status_code == 200
    for method, path in (("GET", job), ("POST", f"{job}/cancel"), ("GET", f"{job}/events")):
        assert code(keys["other"].request(method, f"/v1/jobs/{path}")) == (404, "unknown_job")
    assert keys["other"].get("/v1/jobs").json() == {"jobs": []}


# -- roles ------------------------------------------------------------------------------------


def test_each_role_may_do_its_own_and_what_lesser_ones_may(
    keys: dict[str, httpx.Client],
) -> None:
    asked: list[tuple[str, str, str, dict[str, Any]]] = [
        ("reader", "POST", "/v1/lookup", {"json": {"query": "x"}}),
        ("reader", "POST", "/v1/explain", {"json": {"query": "x"}}),
        ("reader", "GET", "/v1/lookups/lk_x", {}),
        ("reader", "GET", "/v1/evidence?id=none%23chunk-0", {}),
        ("reader", "GET", "/v1/documents", {}),
        ("reader", "GET", "/v1/status", {}),
        ("reader", "GET", "/v1/jobs", {}),
        ("reader", "GET", "/v1/jobs/job_x", {}),
        ("reader", "GET", "/v1/jobs/job_x/events", {}),
        ("reader", "GET", "/metrics", {}),
        ("writer", "PUT", "/v1/documents", {"json": {"id": "bad/", "text": "x"}}),
        ("writer", "DELETE", "/v1/documents?id=none", {}),
        ("writer", "PUT", "/v1/domains", {"json": {"source": "none", "catalogue": None}}),
        ("writer", "POST", "/v1/ingest", {"json": {"path": "/nowhere"}}),
        ("writer", "POST", "/v1/jobs/job_x/cancel", {}),
        ("admin", "GET", "/v1/generations", {}),
        ("admin", "POST", "/v1/generations", {"json": {"nonsense": 1}}),
        ("admin", "POST", "/v1/generations/verify", {"json": {"nonsense": 1}}),
        ("admin", "POST", "/v1/generations/activate", {"json": {"nonsense": 1}}),
        ("admin", "POST", "/v1/generations/rollback", {"json": {"nonsense": 1}}),
        ("admin", "POST", "/v1/generations/abort", {}),
        ("admin", "DELETE", "/v1/generations/none", {}),
        ("admin", "POST", "/v1/audit", {"json": {"nonsense": 1}}),
    ]
    ranks = ["reader", "writer", "admin"]
    for least, method, path, more in asked:
        for role in ranks:
            reply = keys[role].request(method, path, **more)
            forbidden = reply.status_code == 403 and reply.json()["code"] == "forbidden"
            assert forbidden is (ranks.index(role) < ranks.index(least)), (role, method, path)


def test_where_things_lie_is_told_to_an_admin_only(keys: dict[str, httpx.Client]) -> None:
    told = {role: keys[role].get("/v1/status").json() for role in ("reader", "admin")}

    assert (told["reader"]["home"], told["reader"]["milvus_uri"]) == (None, None)
    assert told["admin"]["home"]
    assert told["admin"]["milvus_uri"]


# -- folders of the machine -------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "/",
        "{root}/..",
        "{root}/away/o.md",
        "{root}/book/out.md",
        "{root}/book/../../o.md",
        "{root}/none",
        "relative",
        "",
        "x" * 5_000,
        "{root}-sibling",
    ],
)
def test_nothing_but_the_roots_is_read_links_resolved(
    served: Running, keys: dict[str, httpx.Client], path: str
) -> None:
    root = served.service.settings.ingest_roots[0]

    reply = keys["writer"].post("/v1/ingest", json={"path": path.format(root=root)})

    assert code(reply) == (403, "path_not_allowed")


def test_folders_are_not_read_unless_roots_are_set(tmp_path: Path) -> None:
    with running(tmp_path / "home", documents={}) as one:
        reply = one.client.post("/v1/ingest", json={"path": str(tmp_path)})

        assert code(reply) == (403, "ingest_off")
        assert "server.ingest_roots" in reply.json()["remedy"]


# -- Host, Origin, rates ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 403),
        ({"Host": "localhost.attacker.example"}, 403),
        ({"Host": "localhost@attacker.example"}, 403),
        ({"Host": "127.0.0.1.nip.io"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": "kb.internal"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "http://localhost.evil.example"}, 403),
    ],
)
def test_on_loopback_only_allowed_hosts_and_origins_are_answered(
    hosts: Running, headers: dict[str, str], status: int
) -> None:
    reply = hosts.client.get("/v1/status", headers=headers)

    assert reply.status_code == status, reply.text
    if status == 403:
        assert reply.json()["code"] in {"host_not_allowed", "origin_not_allowed"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("hosts") / "home"
    with running(home, {"allowed_hosts": ["kb.internal"]}, documents={}) as one:
        yield one


def test_a_key_may_send_so_many_requests_and_is_told_when_again(tmp_path: Path) -> None:
    limits = {"rate_per_second": 2, "rate_burst": 3}
    with running(tmp_path / "home", limits, documents={}) as one:
        first, second = one.key(), one.key()
        with one.as_holder(first) as client, one.as_holder(second) as other:
            replies = [client.get("/v1/status") for _ in range(6)]
            unlucky = next(reply for reply in replies if reply.status_code != 200)

            assert [reply.status_code for reply in replies[:3]] == [200] * 3
            assert code(unlucky) == (429, "rate_limited")
            assert unlucky.headers["retry-after"] == "1"
            assert unlucky.json()["transient"] is True
            assert other.get("/v1/status").status_code == 200
            assert client.get("/healthz").status_code == 200
            time.sleep(1.1)
            assert client.get("/v1/status").status_code == 200


# -- where it may listen ----------------------------------------------------------------------


def test_a_network_is_served_only_with_a_usable_key(tmp_path: Path) -> None:
    settings = load_settings({"home": tmp_path / "home", "server": {"host": "0.0.0.0", "port": 0}})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        with listen(settings.server) as listening:
            with pytest.raises(ConfigurationError, match="keys create"):
                refuse_open_network(kb, listening)
            soon = datetime.now(UTC) + timedelta(seconds=4)
            kb.access.create(kb_scope="default", role="reader", expires_at=soon)
            refuse_open_network(kb, listening)
            time.sleep(4.1)
            with pytest.raises(ConfigurationError, match="keys create"):
                refuse_open_network(kb, listening)
        with listen(load_settings({"server": {"port": 0}}).server) as loopback:
            refuse_open_network(kb, loopback)


def test_an_expired_key_does_not_open_what_it_guarded(tmp_path: Path) -> None:
    with running(tmp_path / "home", documents={}) as one:
        one.key(expires_at=datetime.now(UTC) + timedelta(seconds=1))
        time.sleep(1.2)

        assert code(one.client.get("/v1/status")) == (401, "unauthorized")


@pytest.mark.parametrize(("value", "refused"), [("4", True), ("1", False), ("", False)])
def test_several_workers_are_refused(value: str, refused: bool) -> None:
    environment = {"WEB_CONCURRENCY": value}
    if refused:
        with pytest.raises(ConfigurationError, match="one process"):
            refuse_workers(environment)
    else:
        refuse_workers(environment)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with listen(load_settings({"server": {"port": 0}}).server) as taken:
        port = taken.getsockname()[1]

        done = knowport("serve", f"--port={port}", home=tmp_path / "home")

    assert done.returncode == ConfigurationError.exit_code
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


# -- knowport keys ----------------------------------------------------------------------------


def test_the_command_makes_lists_and_revokes_keys(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = knowport(
        "keys",
        "create",
        "--scope=default",
        "--role=reader",
        "--name=bot",
        "--expires=90d",
        "--json",
        home=home,
    )
    key = json.loads(made.stdout)
    listed = knowport("keys", "list", "--json", home=home)
    table = knowport("keys", "list", home=home)

    assert key["key"].startswith("kp_")
    assert (key["role"], key["kb_scope"], key["name"]) == ("reader", "default", "bot")
    days = datetime.fromisoformat(key["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < days <= timedelta(days=90)
    [row] = json.loads(listed.stdout)
    assert (row["key_id"], row["state"]) == (key["key_id"], "valid")
    assert "key_hash" not in row
    for output in (listed.stdout, table.stdout, made.stderr):
        assert key["key"] not in output
    assert knowport("keys", "revoke", key["key_id"], home=home).returncode == 0
    [row] = json.loads(knowport("keys", "list", "--json", home=home).stdout)
    assert row["state"] == "revoked"
    again = knowport("keys", "revoke", key["key_id"], home=home)
    assert again.returncode == 2
    assert "keys list" in again.stderr


def test_a_running_service_learns_of_keys_that_the_command_makes(tmp_path: Path) -> None:
    """The command needs no engine, which the service holds."""

    def until(client: httpx.Client, status: int) -> None:
        deadline = time.monotonic() + 120
        while client.get("/v1/status").status_code != status:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    home = tmp_path / "home"
    with running(home, documents={}) as one:
        until(one.client, 200)
        made = knowport("keys", "create", "--scope=a", "--role=reader", "--json", home=home)
        key = json.loads(made.stdout)
        until(one.client, 401)
        with one.as_holder(key["key"]) as client:
            assert client.get("/v1/status").json()["kb_scope"] == "a"
            knowport("keys", "revoke", key["key_id"], home=home)
            until(client, 401)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--scope= ", "--role=reader"], "scope"),
        (["--scope=a", "--role=reader", "--expires=yesterday"], "expires"),
        (["--scope=a", "--role=reader", "--expires=2001-01-01"], "expire"),
        (["--scope=a", "--role=owner"], "role"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused(
    tmp_path: Path, arguments: list[str], field: str
) -> None:
    done = knowport("keys", "create", *arguments, home=tmp_path / "home")

    assert done.returncode == 2
    assert field in done.stderr
    assert "kp_" not in done.stdout
