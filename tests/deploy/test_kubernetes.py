"""The manifests: against the schemas of Kubernetes, and against what the daemon expects."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller.reactor.host import SHUTDOWN_S
from controller.setting_sources import load_settings
from controller.settings import Settings, variable_of

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DIRECTORY: Final = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION: Final[dict[str, Any]] = yaml.safe_load(
    (DIRECTORY / "kustomization.yaml").read_text()
)
MANIFESTS: Final[dict[str, dict[str, Any]]] = {
    document["kind"]: document
    for name in KUSTOMIZATION["resources"]
    for document in yaml.safe_load_all((DIRECTORY / name).read_text())
}
POD: Final[dict[str, Any]] = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]
CONTAINER: Final[dict[str, Any]] = POD["containers"][0]
ENVIRONMENT: Final[dict[str, Any]] = {one["name"]: one for one in CONTAINER["env"]}


@pytest.mark.parametrize("kind", sorted(MANIFESTS))
def test_a_manifest_is_what_kubernetes_takes(kind: str) -> None:
    """No unknown key, no wrong type."""
    schemas = pytest.importorskip("kubernetes_validate", reason="in the dev extra: make setup")
    schemas.validate(MANIFESTS[kind], schemas.latest_version(), strict=True)


def test_a_manifest_that_kubernetes_would_refuse_is_found() -> None:
    """The schemas do look at what stands in a pod."""
    schemas = pytest.importorskip("kubernetes_validate", reason="in the dev extra: make setup")
    error = importlib.import_module("kubernetes_validate").ValidationError
    spec = MANIFESTS["StatefulSet"]["spec"]
    wrong = MANIFESTS["StatefulSet"] | {"spec": spec | {"replica": 2}}
    with pytest.raises(error):
        schemas.validate(wrong, schemas.latest_version(), strict=True)


def test_kustomize_puts_them_together() -> None:
    """What it prints names every resource, the settings' digest and the image's tag."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run(
        [kubectl, "kustomize", str(DIRECTORY)], check=True, capture_output=True, text=True
    )
    documents = list(yaml.safe_load_all(built.stdout))
    assert {document["kind"] for document in documents} == {*MANIFESTS, "ConfigMap"}
    (config,) = (d["metadata"]["name"] for d in documents if d["kind"] == "ConfigMap")
    (pod,) = (d["spec"]["template"]["spec"] for d in documents if d["kind"] == "StatefulSet")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["settings"]["configMap"]["name"] == config != "reassigner"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pod["containers"][0]["image"] == f"kafka-reassigner:{version}"


def test_kustomize_adds_the_monitoring_where_it_is_uncommented(tmp_path: Path) -> None:
    """As the comment in the file says."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    copy = tmp_path / "kubernetes"
    shutil.copytree(DIRECTORY, copy)
    file = copy / "kustomization.yaml"
    file.write_text(
        re.sub(r"^# (components:|  - monitoring)$", r"\1", file.read_text(), flags=re.MULTILINE)
    )
    built = subprocess.run(
        [kubectl, "kustomize", str(copy)], check=True, capture_output=True, text=True
    )
    kinds = {document["kind"] for document in yaml.safe_load_all(built.stdout)}
    assert kinds == {*MANIFESTS, "ConfigMap", "ServiceMonitor", "PrometheusRule"}


def test_there_are_two_and_one_of_them_always_stays() -> None:
    """A drained node leaves a standby to take over."""
    assert MANIFESTS["StatefulSet"]["spec"]["replicas"] == 2
    budget = MANIFESTS["PodDisruptionBudget"]["spec"]
    assert budget["maxUnavailable"] == 1


def test_every_selector_finds_the_pods() -> None:
    """Service, budget, affinity and the set itself go by one label."""
    labels = MANIFESTS["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    (term,) = POD["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [
        MANIFESTS["Service"]["spec"]["selector"],
        MANIFESTS["StatefulSet"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        term["podAffinityTerm"]["labelSelector"]["matchLabels"],
    ] == [labels] * 4


def test_the_settings_load() -> None:
    """The mounted file is valid for the daemon, and is where ``--config`` names it."""
    settings = load_settings({}, {}, DIRECTORY / "settings.toml")
    assert settings.zookeeper.endswith("/kafka")
    (mount,) = (m for m in CONTAINER["volumeMounts"] if m["name"] == "settings")
    assert ENVIRONMENT["REASSIGNER_CONFIG"]["value"] == f"{mount['mountPath']}/settings.toml"
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert generated["files"] == ["settings.toml"]


def test_only_settings_that_exist_are_set() -> None:
    """A variable that no setting reads would be ignored without a word."""
    known = {variable_of(field) for field in Settings.model_fields} | {"REASSIGNER_CONFIG"}
    assert {name for name in ENVIRONMENT if name.startswith("REASSIGNER_")} <= known


def test_the_leader_publishes_an_address_that_leads_to_it() -> None:
    """Its pod's, with the port on which the image listens, and which probes and service name."""
    assert ENVIRONMENT["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert list(ENVIRONMENT).index("POD_IP") < list(ENVIRONMENT).index("REASSIGNER_HTTP_ADVERTISE")
    (port,) = CONTAINER["ports"]
    assert ENVIRONMENT["REASSIGNER_HTTP_ADVERTISE"]["value"] == "$(POD_IP)"
    assert "REASSIGNER_HTTP" not in ENVIRONMENT
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert f"REASSIGNER_HTTP=0.0.0.0:{port['containerPort']} " in dockerfile
    probes = [CONTAINER[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} == {port["name"]}
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz"]
    assert MANIFESTS["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]


def test_it_has_the_time_to_give_the_role_back() -> None:
    """SIGKILL comes long after the daemon has given up by itself."""
    assert POD["terminationGracePeriodSeconds"] >= 2 * SHUTDOWN_S


def test_a_pod_may_do_nothing_it_does_not_need() -> None:
    """Not root, as the image says, nothing written but the journal and /tmp, no capability."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    users = re.findall(r"^USER (\d+)$", dockerfile, re.MULTILINE)
    context, own = POD["securityContext"], CONTAINER["securityContext"]
    assert context["runAsNonRoot"] is True
    assert [str(context[key]) for key in ("runAsUser", "fsGroup")] == users[-1:] * 2
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert POD["automountServiceAccountToken"] is False
    journal = ENVIRONMENT["REASSIGNER_JOURNAL_DIR"]["value"]
    writable = {m["mountPath"] for m in CONTAINER["volumeMounts"] if not m.get("readOnly")}
    assert str(Path(journal).parent) in writable


def test_the_monitor_scrapes_the_service() -> None:
    """It selects the service by a label it has, and the port by its name."""
    monitor = yaml.safe_load((DIRECTORY / "monitoring" / "servicemonitor.yaml").read_text())
    labels = MANIFESTS["Service"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == MANIFESTS["Service"]["spec"]["ports"][0]["name"]
    assert labels[monitor["spec"]["jobLabel"]] == "reassigner"
