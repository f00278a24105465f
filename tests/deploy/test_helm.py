"""
The Helm chart: it creates what Kustomize creates, and takes values in place of edits.

Skipped where ``helm`` is not installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller.setting_sources import load_settings

ROOT: Final = Path(__file__).resolve().parent.parent.parent
CHART: Final = ROOT / "deploy" / "helm" / "reassigner"
KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
OF_HELM: Final = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
"""Labels that a release adds."""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program; skip the test where it is not installed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return subprocess.run([found, *arguments], check=False, capture_output=True, text=True)


def rendered(*options: str, release: str = "reassigner") -> dict[str, dict[str, Any]]:
    """Return the resources of a release by their kind."""
    done = run("helm", "template", release, str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one is not None}


def comparable(value: Any) -> Any:  # noqa: ANN401 - what YAML holds
    """Return a resource without what only a release has, and without what Kubernetes defaults."""
    if isinstance(value, dict):
        defaults = {"scheme": "HTTP", "imagePullPolicy": "IfNotPresent"}
        return {
            key: comparable(inner)
            for key, inner in value.items()
            if key not in OF_HELM | {"annotations"} and inner != defaults.get(key, ())
        }
    return [comparable(one) for one in value] if isinstance(value, list) else value


def test_the_chart_creates_what_kustomize_creates() -> None:
    """With the values that it comes with, and with the monitoring turned on."""
    helm = rendered("--set", "monitoring.enabled=true")
    files = (KUBERNETES.glob("*.yaml"), (KUBERNETES / "monitoring").glob("*.yaml"))
    manifests = [yaml.safe_load(path.read_text()) for group in files for path in group]
    kinds = {one["kind"]: one for one in manifests if "kustomize" not in one["apiVersion"]}
    (container,) = kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    tag = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"][0]["newTag"]
    container["image"] += f":{tag}"
    assert helm.keys() == kinds.keys() | {"ConfigMap"}
    for kind, manifest in kinds.items():
        if kind == "PrometheusRule":  # its annotations are the texts of alerts
            assert helm[kind]["spec"] == manifest["spec"]
        assert comparable(helm[kind]) == comparable(manifest), kind
    settings = helm["ConfigMap"]["data"]["settings.toml"]
    assert tomllib.loads(settings) == tomllib.loads((KUBERNETES / "settings.toml").read_text())


def test_chart_and_image_have_the_version_of_the_package() -> None:
    """One version for all."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


OTHER: Final = (
    "--set=settings.insecure_http=false,tls=true",
    "--set=secret=,fileSecrets[0]=kafka.tls,storage.className=fast,image.tag=1.2.3,replicas=3",
    "--set=monitoring.enabled=true,monitoring.labels.release=prometheus",
    "--set=podLabels.team=kafka,podAnnotations.note=x,nodeSelector.disk=ssd",
    "--set=imagePullSecrets[0].name=mirror,priorityClassName=high",
    '--set-json=tolerations=[{"key":"kafka","operator":"Exists"}]',
)


def test_every_value_reaches_a_resource_that_kubernetes_takes() -> None:
    """Also those that are empty by default."""
    schemas = pytest.importorskip("kubernetes_validate", reason="in the dev extra: make setup")
    helm = rendered(*OTHER, release="moves")
    for kind, manifest in helm.items():
        if kind not in {"ServiceMonitor", "PrometheusRule"}:
            schemas.validate(manifest, schemas.latest_version(), strict=True)
        assert manifest["metadata"]["name"] == "moves-reassigner"
    pod = helm["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "kafka-reassigner:1.2.3"
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert "envFrom" not in container
    assert [v["secret"] for v in pod["volumes"] if "secret" in v] == [{"secretName": "kafka.tls"}]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert helm["ServiceMonitor"]["spec"]["endpoints"][0]["scheme"] == "https"
    selector = helm["StatefulSet"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= helm["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


def test_the_daemon_takes_the_settings_of_the_chart(tmp_path: Path) -> None:
    """Numbers and texts arrive as they were given, by options or by a file of values."""
    given = {"max_partitions_in_flight": 1_000_000, "step_size": 2, "tenure_linger": 7.5}
    wanted = load_settings({"zookeeper": "zk1:2181/kafka"}, {}, toml(tmp_path / "given", given))
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"settings": {"zookeeper": "zk1:2181/kafka", **given}}))
    options = ",".join(f"settings.{name}={value}" for name, value in given.items())
    for shown in (
        rendered("--values", str(values)),
        rendered(f"--set=settings.zookeeper=zk1:2181/kafka,{options}"),
    ):
        content = tomllib.loads(shown["ConfigMap"]["data"]["settings.toml"])
        assert content.pop("insecure_http") is True
        assert load_settings({}, {}, toml(tmp_path / "shown", content)) == wanted


def toml(file: Path, content: Mapping[str, object]) -> Path:
    """Write numbers and texts as TOML."""
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items()))
    return file


def test_other_settings_start_the_pods_anew() -> None:
    """The daemon reads its settings once."""

    def checksum(*options: str) -> str:
        template = rendered(*options)["StatefulSet"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert checksum() == checksum() != checksum("--set", "settings.step_size=2")


@pytest.mark.parametrize(
    "option",
    ["replica=3", "replicas=none", "settings.zookeeper=", "probes.scheme=HTTPS", "image.name=x"],
)
def test_a_value_that_does_not_exist_is_refused(option: str) -> None:
    """By the schema of the values."""
    done = run("helm", "template", "reassigner", str(CHART), "--set", option)
    assert done.returncode != 0
    assert "values don't meet the specifications" in done.stderr, done.stderr


def test_helm_finds_nothing_to_remark() -> None:
    """Its own checks."""
    done = run("helm", "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_names_every_value() -> None:
    """So that no value is forgotten there."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - {"global"} == values.keys()
