"""The daemon's image as it was built: who runs, what it carries, how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from integration.containers.deployment import LABEL
from integration.containers.engines import Engine
from integration.containers.images import ROOT, build_own
from integration.rigs.certificates import CertificateAuthority
from integration.rigs.waiting import eventually

UID: Final = 10095
_ADDED_MB: Final = 100
"""More than the daemon and its packages take: 61 MB."""
_LIST: Final = """\
import importlib.metadata as m, json
print(json.dumps({d.name: d.version for d in m.distributions()}))"""


@pytest.fixture(scope="module")
def image(built_images: dict[str, str]) -> str:
    """Give the name of the image."""
    return built_images["DAEMON_IMAGE"]


def run(engine: Engine, image: str, *command: str) -> str:
    """Run a command in a container as strict as the manifests: read only, without network."""
    strict = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none")  # noqa: S108 - the container's
    program, *arguments = command
    return engine.run("run", "--rm", *strict, "--entrypoint", program, image, *arguments)


def installed(engine: Engine, image: str) -> dict[str, str]:
    """Return the Python packages of the image with their versions, by normalised name."""
    found = json.loads(run(engine, image, "python", "-c", _LIST))
    return {normalised(name): version for name, version in found.items()}


def normalised(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def configuration(engine: Engine, image: str) -> dict[str, Any]:
    """Return what the image says of itself."""
    (found,) = json.loads(engine.run("image", "inspect", image))
    # Docker keeps the health check with the rest, Podman beside it.
    check = {"Healthcheck": found.get("Healthcheck")}
    config: dict[str, Any] = check | found["Config"]
    return config


def test_it_runs_as_a_user_without_rights_and_changes_nothing_of_itself(
    engine: Engine, image: str
) -> None:
    """Not root, no capability; what belongs to the image is not the user's."""
    assert run(engine, image, "id", "-u").strip() == str(UID)
    assert run(engine, image, "id", "-g").strip() == str(UID)
    status = run(engine, image, "cat", "/proc/self/status")
    assert re.findall(r"^CapEff:\s*(\w+)$", status, re.MULTILINE) == ["0" * 16]
    look = f"find / -xdev -user {UID} -not -path '/proc/*' 2>/dev/null || true"
    assert run(engine, image, "sh", "-c", look).split() == ["/var/lib/reassigner"]


def test_it_holds_nothing_that_builds_or_installs(engine: Engine, image: str) -> None:
    """No compiler, no pip in the environment, no Spark, no source tree, no tests."""
    look = "for p in cc gcc g++ clang make ld; do command -v $p; done; true"
    assert run(engine, image, "sh", "-c", look) == ""
    packages = installed(engine, image)
    assert {"pip", "setuptools", "pyspark", "pytest"} & set(packages) == set()
    assert run(engine, image, "sh", "-c", "ls -d /source /opt/tools 2>/dev/null; true") == ""


def test_it_carries_the_versions_that_were_tested(engine: Engine, image: str) -> None:
    """Each package, and no other than the SBOM lists."""
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    constraints = {normalised(name): version for name, version in pinned.items()}
    packages = installed(engine, image)
    own = packages.pop("kafka-reassigner")
    assert {n: v for n, v in packages.items() if constraints.get(n) != v} == {}
    bill = json.loads(run(engine, image, "cat", "/opt/reassigner/sbom.cdx.json"))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["version"] == own
    listed = {normalised(part["name"]): part["version"] for part in bill["components"]}
    listed.pop("kafka-reassigner", None)
    assert listed == packages


def test_it_adds_little_to_the_image_it_is_built_on(
    engine: Engine, built_images: dict[str, str]
) -> None:
    """The layers of the daemon, measured by the engine."""

    def size(image: str) -> int:
        return int(engine.run("image", "inspect", "--format", "{{.Size}}", image))

    added = size(built_images["DAEMON_IMAGE"]) - size(built_images["PYTHON_IMAGE"])
    assert 0 < added < _ADDED_MB * 1_000_000


def test_a_second_build_carries_the_same(
    engine: Engine, image: str, built_images: dict[str, str]
) -> None:
    """Without any layer of the first: the bill of materials is the same, byte for byte."""
    again = "localhost/kafka-reassigner:again"
    build_own(engine, built_images["PYTHON_IMAGE"], again, "--no-cache")
    bill = ("cat", "/opt/reassigner/sbom.cdx.json")
    try:
        assert run(engine, again, *bill) == run(engine, image, *bill)
        assert installed(engine, again) == installed(engine, image)
    finally:
        engine.run("rmi", again)


def test_it_says_how_it_is_started_stopped_and_checked(engine: Engine, image: str) -> None:
    """The daemon is the first process and gets the signals, without a shell between."""
    config = configuration(engine, image)
    assert config["Entrypoint"] == ["reassigner"]
    assert config["Cmd"] == ["run"]
    assert config["StopSignal"] in {"SIGTERM", "15"}
    assert config["User"] == str(UID)
    assert config["Healthcheck"] is not None


@pytest.mark.parametrize("http", ["plain", "locked"])
def test_a_daemon_without_zookeeper_is_alive_and_ends_on_sigterm(
    engine: Engine, image: str, http: str, tmp_path: Path
) -> None:
    """It waits for ZooKeeper and is healthy; SIGTERM ends process 1 with 0, with no SIGKILL."""
    options = ["--read-only", "--tmpfs", "/tmp", "--network", "none", "--label", LABEL]  # noqa: S108 - the container's
    settings = {"ZOOKEEPER": "127.0.0.1:2181/kafka", "INSECURE_HTTP": "true"}
    if http == "locked":
        own = CertificateAuthority(tmp_path / "tls").issue("daemon")
        for file in (own.certificate, own.key):
            file.chmod(0o644)  # the daemon is another user
        options += ["--volume", f"{tmp_path / 'tls'}:/tls:ro"]
        settings = {
            "ZOOKEEPER": "127.0.0.1:2181/kafka",
            "HTTP": "0.0.0.0:9443",
            "HTTP_TOKEN": "correct horse battery staple",
            "HTTP_TLS_CERTFILE": f"/tls/{own.certificate.name}",
            "HTTP_TLS_KEYFILE": f"/tls/{own.key.name}",
        }
    said = [part for n, v in settings.items() for part in ("--env", f"REASSIGNER_{n}={v}")]
    container = engine.run("run", "--detach", *options, *said, image).strip()
    try:
        eventually(lambda: engine.is_healthy(container), within_s=60, every_s=0.5)
        assert "reassigner" in engine.run("exec", container, "cat", "/proc/1/cmdline")
        engine.run("stop", "--time", "30", container)
        assert engine.run("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
    finally:
        engine.run("rm", "--force", "--volumes", container)
