"""
The unit as systemd starts it: in a container with systemd as its first process.

The container is privileged, as a machine is; what the unit takes away from the daemon is looked at
in the daemon's process. Where the kernel lets no systemd run in a container, the tests are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.containers.deployment import Deployment
from integration.containers.images import ROOT, standin
from integration.containers.machines import SETTINGS, UNIT, Machine
from integration.rigs.waiting import eventually

EXPOSURE_AT_MOST: Final = 2.0
"""Of systemd's measure from 0 to 10; its own word for this is OK."""


@pytest.fixture(scope="module")
def machine(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Give a machine with the unit installed, in the network of the deployment."""
    settings: Path = tmp_path_factory.mktemp("systemd") / "reassigner.toml"
    settings.write_text(SETTINGS)
    files = {"reassigner.toml": settings, UNIT: ROOT / "deploy" / "systemd" / UNIT}
    base = deployment.images["DAEMON_IMAGE"]
    with Machine.running(deployment, standin(deployment.engine, "systemd", base, files)) as found:
        yield found


@pytest.fixture
def started(machine: Machine) -> Iterator[Machine]:
    """Give the machine with the daemon started by its unit, and stop it afterwards."""
    assert machine.shell(f"systemctl start {UNIT}") == ""
    machine.await_ready()
    yield machine
    machine.shell(f"systemctl stop {UNIT}")


def test_systemd_understands_the_installed_unit(machine: Machine) -> None:
    """With its program in place, ``verify`` has nothing to remark."""
    assert machine.shell(f"systemd-analyze verify --man=no {UNIT}") == ""


def test_systemd_finds_little_exposed(machine: Machine) -> None:
    """By its own measure of the unit."""
    said = machine.shell(f"systemd-analyze security --no-pager {UNIT}")
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE_AT_MOST, said


def test_the_daemon_works_within_its_sandbox(started: Machine) -> None:
    """It has a ZooKeeper session, no right, filtered system calls, and a read-only system."""
    assert '"role"' in started.served()
    pid = started.state("MainPID")
    status = started.shell(f"cat /proc/{pid}/status")
    assert re.findall(r"^Cap\w+:\s*(\w+)$", status, re.MULTILINE) == ["0" * 16] * 5
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\s*2$", status, re.MULTILINE)
    assert not re.search(r"^Uid:\s*0\b", status, re.MULTILINE)
    mounts = started.shell(f"cat /proc/{pid}/mountinfo")
    (root,) = re.findall(r"^\S+ \S+ \S+ / / (\S+)", mounts, re.MULTILINE)
    assert "ro" in root.split(",")
    journal = started.shell("ls /var/lib/reassigner/journal")
    assert journal.strip(), "the journal is empty"
    assert '"level": "error"' not in started.log()


def test_the_daemon_ends_when_systemd_stops_it(started: Machine) -> None:
    """SIGTERM, exit code 0, no failure recorded, the lead given back."""
    assert started.shell(f"systemctl stop {UNIT}") == ""
    assert started.state("ExecMainStatus") == "0"
    assert started.state("Result") == "success"
    assert started.state("ActiveState") == "inactive"


def test_a_daemon_that_dies_is_started_again(started: Machine) -> None:
    """After kill -9, once RestartSec is over."""
    before = started.state("MainPID")
    started.shell(f"kill -9 {before}")
    eventually(
        lambda: (
            started.state("MainPID") not in {before, "0"}
            and started.state("ActiveState") == "active"
        ),
        within_s=30,
        every_s=0.5,
    )
    assert started.state("NRestarts") == "1"
