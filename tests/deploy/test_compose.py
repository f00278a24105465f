"""The compose file and the image: statically, since not every machine runs containers."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller import health_check
from controller.settings import Settings

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DOCKERFILE: Final = (ROOT / "deploy" / "Dockerfile").read_text()
SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
BROKERS: Final = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}
DAEMONS: Final = ("reassigner", "standby")
CONNECT: Final = "zookeeper:2181/kafka"
_DEFAULTED: Final = re.compile(r"\$\{(\w+_IMAGE):-([^}]+)\}")


def variable_and_image(service: dict[str, Any]) -> tuple[str, str]:
    """Return the variable that names another image for a service, and its default."""
    found = _DEFAULTED.fullmatch(service["image"])
    assert found is not None, f"{service['image']} is not a variable with a default"
    return found[1], found[2]


def _listeners(text: str) -> dict[str, tuple[str, int]]:
    """Read ``NAME://host:port,...``."""
    found = re.findall(r"(\w+)://([\w-]*):(\d+)", text)
    return {name: (host, int(port)) for name, host, port in found}


def test_there_are_a_zookeeper_five_brokers_the_daemon_and_those_who_watch() -> None:
    """The cluster is the one that the documentation promises."""
    assert set(SERVICES) == {"zookeeper", *DAEMONS, "prometheus", "grafana", *BROKERS}
    assert len(BROKERS) == 5


def test_it_is_what_compose_takes() -> None:
    """No unknown key, no wrong type."""
    pytest.importorskip("check_jsonschema", reason="in the dev extra: make setup")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, str(ROOT / "docker-compose.yml")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_image_is_pinned_and_still_runs_zookeeper_mode() -> None:
    """Kafka 4 has no ZooKeeper mode: nothing newer than 7.9 (Kafka 3.9) may slip in."""
    images = {image for _, image in map(variable_and_image, SERVICES.values())}
    assert all(re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+", image) for image in images), images
    named = [image.rpartition(":") for image in images if "confluentinc/" in image]
    assert {name.rpartition("/")[2] for name, _, _ in named} == {"cp-kafka", "cp-zookeeper"}
    versions = {version for _, _, version in named}
    assert len(versions) == 1
    assert re.fullmatch(r"7\.9\.\d+", versions.pop())


def test_what_the_image_is_built_on_is_pinned() -> None:
    """Both stages begin with the same, down to the patch; compose and the Dockerfile agree."""
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${PYTHON_IMAGE}"}
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", default)
    argument = SERVICES["reassigner"]["build"]["args"]["PYTHON_IMAGE"]
    assert argument == f"${{PYTHON_IMAGE:-{default}}}"


@pytest.mark.parametrize("name", sorted(BROKERS))
def test_a_broker_is_fit_for_the_native_engine(name: str) -> None:
    """Protocol below 2.7, the chroot everybody else uses, and a listener the daemon can reach."""
    environment = BROKERS[name]["environment"]
    assert environment["KAFKA_INTER_BROKER_PROTOCOL_VERSION"] == "2.6"
    assert environment["KAFKA_ZOOKEEPER_CONNECT"] == CONNECT
    inter_broker = environment["KAFKA_INTER_BROKER_LISTENER_NAME"]
    assert _listeners(environment["KAFKA_ADVERTISED_LISTENERS"])[inter_broker] == (name, 9092)


def test_brokers_differ_where_they_must() -> None:
    """Ids, host ports and advertised addresses are unique; racks are shared by two at most."""
    environments = [service["environment"] for service in BROKERS.values()]
    assert len({one["KAFKA_BROKER_ID"] for one in environments}) == 5
    assert len({one["KAFKA_ADVERTISED_LISTENERS"] for one in environments}) == 5
    assert len({one["KAFKA_BROKER_RACK"] for one in environments}) == 3
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert len({port.split(":")[1] for port in ports}) == len(ports)


@pytest.mark.parametrize("name", sorted(BROKERS))
def test_the_external_listener_is_published_where_it_says(name: str) -> None:
    """A client on the host follows the advertised address: it must be the published port."""
    service = BROKERS[name]
    _host, port = _listeners(service["environment"]["KAFKA_ADVERTISED_LISTENERS"])["EXTERNAL"]
    assert _listeners(service["environment"]["KAFKA_LISTENERS"])["EXTERNAL"][1] == port
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_nothing_is_published_beyond_this_machine() -> None:
    """Neither ZooKeeper nor the brokers are secured here."""
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_daemon_waits_for_every_broker_and_meets_them_under_their_chroot() -> None:
    """It starts when all brokers serve, on the ZooKeeper path they registered under."""
    assert all("healthcheck" in service for service in BROKERS.values())
    for name in DAEMONS:
        daemon = SERVICES[name]
        assert set(daemon["depends_on"]) == set(BROKERS)
        assert {one["condition"] for one in daemon["depends_on"].values()} == {"service_healthy"}
        assert daemon["environment"]["REASSIGNER_ZOOKEEPER"] == CONNECT


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_may_write_its_journal_alone(name: str) -> None:
    """A journal of its own, /tmp in memory, no capability, no way to more rights."""
    daemon = SERVICES[name]
    assert daemon["read_only"] is True
    assert daemon["tmpfs"] == ["/tmp"]  # noqa: S108 - the container's
    assert daemon["cap_drop"] == ["ALL"]
    assert daemon["security_opt"] == ["no-new-privileges:true"]
    (volume,) = daemon["volumes"]
    others = [SERVICES[other]["volumes"] for other in DAEMONS if other != name]
    assert [volume] not in others


def test_the_leader_publishes_the_name_of_its_service() -> None:
    """By that every container finds it; the name of the container changes with each start."""
    for name in DAEMONS:
        assert SERVICES[name]["environment"]["REASSIGNER_HTTP_ADVERTISE"] == name


def test_only_settings_that_exist_are_set() -> None:
    """A variable that no setting reads would be ignored without a word."""
    known = {f"REASSIGNER_{name.removesuffix('_s').upper()}" for name in Settings.model_fields}
    in_image = set(re.findall(r"\b(REASSIGNER_\w+)=", DOCKERFILE))
    in_compose = set(SERVICES["reassigner"]["environment"])
    assert in_image | in_compose <= known


def test_the_image_is_named_after_the_version_it_holds() -> None:
    """The tag in the compose file follows the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in DAEMONS:
        _, image = variable_and_image(SERVICES[name])
        assert image == f"{project['name']}:{project['version']}"


def test_the_image_is_built_from_files_that_exist() -> None:
    """Every COPY of the repository's files finds its source."""
    assert (ROOT / SERVICES["reassigner"]["build"]["dockerfile"]).is_file()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_image_runs_without_root_and_answers_whether_it_lives() -> None:
    """The last user is not root; the health check takes the daemon's settings."""
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    (created,) = re.findall(r"useradd .*--uid (\d+)", DOCKERFILE)
    assert users[-1:] == [created] != ["0"]
    assert f'CMD ["python", "-m", "{health_check.__name__}"]' in DOCKERFILE
    assert "REASSIGNER_HTTP=0.0.0.0:8095" in DOCKERFILE


def test_every_directory_that_is_mounted_exists() -> None:
    """A path that does not exist would be made, empty, and owned by root."""
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    volumes = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["volumes"]
    sources = {mount.split(":")[0] for mount in mounts}
    paths = {source for source in sources if source.startswith(".")}
    assert [path for path in paths if not (ROOT / path).is_dir()] == []
    assert sources - paths == set(volumes)


def test_a_service_is_waited_for_only_if_it_says_when_it_is_healthy() -> None:
    """Else compose would wait for ever; the daemon's check is in its image."""
    for service in SERVICES.values():
        for name in service.get("depends_on", {}):
            assert "healthcheck" in SERVICES[name] or name in DAEMONS


def test_prometheus_scrapes_the_daemon_and_grafana_queries_prometheus() -> None:
    """By the names and ports of this file, with every file of rules and dashboards in place."""
    prometheus = ROOT / "deploy" / "prometheus"
    config = yaml.safe_load((prometheus / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "reassigner"
    (scraped,) = job["static_configs"]
    assert scraped["targets"] == [f"{name}:8095" for name in DAEMONS]
    assert scraped["labels"] == {"cluster": "kafka"}
    assert {file.name for file in prometheus.glob("*.rules.yml")} == set(config["rule_files"])
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "reassigner.yml").read_text())[
        "providers"
    ]
    targets = {mount.split(":")[1]: mount for mount in SERVICES["grafana"]["volumes"]}
    mounted = targets[provider["options"]["path"]]
    assert list((ROOT / mounted.split(":")[0]).glob("*.json"))
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / mounted.split(":")[0] / Path(home).name).is_file()
