"""
The manifests, applied to a real API server: what it takes, fills in and refuses.

There is no scheduler and no kubelet: nothing is started. Skipped where ``kube-apiserver``, ``etcd``
and ``kubectl`` are not installed.
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from integration.rigs.kafka_tools import ToolResult
from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import ReservedPort

DEPLOY: Final = Path(__file__).resolve().parents[1] / "deploy"
DIRECTORY: Final = DEPLOY / "kubernetes"
SHOW: Final = {
    "kustomize": ("kubectl", "kustomize", str(DIRECTORY)),
    "helm": ("helm", "template", "moves", str(DEPLOY / "helm" / "reassigner")),
}
"""The commands that print the manifests."""
PROGRAMS: Final = ("kube-apiserver", "etcd", "kubectl", "openssl")
TOKEN: Final = "of-a-server-that-lives-for-seconds"  # noqa: S105 - as it says
NAMESPACE: Final = "strict"
MODES: Final = ("enforce", "warn")

pytestmark = pytest.mark.skipif(
    any(shutil.which(program) is None for program in PROGRAMS),
    reason=f"not all of {', '.join(PROGRAMS)} are installed",
)


class Etcd(ChildProcess):
    """The store of the API server."""

    def __init__(self, directory: Path) -> None:
        self.port, self.peer_port = ReservedPort(), ReservedPort()
        self.url = f"http://{self.port.address}"
        peers = f"http://{self.peer_port.address}"
        command = ("etcd", "--data-dir", str(directory / "etcd"))
        clients = ("--listen-client-urls", self.url, "--advertise-client-urls", self.url)
        members = ("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers)
        everything = (*command, *clients, *members, "--initial-cluster", f"default={peers}")
        super().__init__("etcd", everything, log=directory / "etcd.log")


class ApiServer(ChildProcess):
    """An API server with one user, who may do everything."""

    def __init__(self, directory: Path, etcd: Etcd) -> None:
        self.port = ReservedPort()
        self._directory = directory
        key, tokens = directory / "accounts.key", directory / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key)], check=True, capture_output=True)  # noqa: S607 - wherever the machine has it
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        options = {
            "etcd-servers": etcd.url,
            "cert-dir": str(directory / "certificates"),
            "secure-port": str(self.port.number),
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "service-account-issuer": "https://localhost",
            "service-account-key-file": str(key),
            "service-account-signing-key-file": str(key),
            "service-cluster-ip-range": "10.0.0.0/24",
            "token-auth-file": str(tokens),
            "authorization-mode": "RBAC",
        }
        command = ("kube-apiserver", *(f"--{name}={value}" for name, value in options.items()))
        super().__init__("kube-apiserver", command, log=directory / "kube-apiserver.log")

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://{self.port.address}"

    def is_ready(self) -> bool:
        """Ask it."""
        return self.kubectl("get", "--raw", "/readyz").code == 0

    def kubectl(self, *arguments: str, stdin: str = "") -> ToolResult:
        """Run kubectl; return its exit code and both streams."""
        where = ("--server", self.url, "--insecure-skip-tls-verify", "--token", TOKEN)
        done = subprocess.run(
            ["kubectl", *where, "--cache-dir", str(self._directory / "cache"), *arguments],  # noqa: S607 - as above
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return ToolResult(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give an API server with a namespace that enforces the strictest standard for pods."""
    directory = tmp_path_factory.mktemp("kubernetes")
    etcd = Etcd(directory)
    server = ApiServer(directory, etcd)
    try:
        etcd.start()
        server.start()
        labels = {
            f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")
        }
        metadata = {"name": NAMESPACE, "labels": labels}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        created = server.kubectl("create", "--filename", "-", stdin=json.dumps(namespace))
        assert created.code == 0, created.stdout
        yield server
    finally:
        for process in (server, etcd):
            process.kill()
            process.port.close()
        etcd.peer_port.close()


def pod() -> dict[str, Any]:
    """Return a pod as the StatefulSet's template makes it."""
    template = yaml.safe_load((DIRECTORY / "statefulset.yaml").read_text())["spec"]["template"]
    template["spec"]["volumes"].append({"name": "state", "emptyDir": {}})
    metadata = {"name": "reassigner-0", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("tool", SHOW)
def test_the_api_server_takes_every_manifest(api_server: ApiServer, tool: str) -> None:
    """Without a warning: no unknown field, and nothing that the strictest standard refuses."""
    if shutil.which(SHOW[tool][0]) is None:
        pytest.skip(f"{tool} is not installed")
    shown = subprocess.run(SHOW[tool], check=True, capture_output=True, text=True)
    where = ("--namespace", NAMESPACE, "apply", "--server-side", "--validate=strict")
    applied = api_server.kubectl(*where, "--filename", "-", stdin=shown.stdout)
    assert applied.code == 0, applied.stdout
    assert "Warning" not in applied.stdout, applied.stdout
    assert applied.stdout.count("serverside-applied") == 5, applied.stdout


def test_the_strictest_standard_admits_the_pod_and_not_one_with_root(
    api_server: ApiServer,
) -> None:
    """Enforced where pods are created, which a StatefulSet's warning is not."""
    api_server.kubectl(
        "--namespace", NAMESPACE, "create", "serviceaccount", "reassigner"
    )  # unless the manifests are applied already
    rooted = copy.deepcopy(pod())
    rooted["spec"]["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0}
    dry = ("create", "--dry-run=server", "--filename", "-")
    refused = api_server.kubectl(*dry, stdin=json.dumps(rooted))
    assert refused.code != 0
    assert 'violates PodSecurity "restricted' in refused.stdout, refused.stdout
    admitted = api_server.kubectl(*dry, stdin=json.dumps(pod()))
    assert admitted.code == 0, admitted.stdout
