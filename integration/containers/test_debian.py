"""The Debian package: built, installed on a machine with systemd, upgraded, removed and purged."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.containers.deployment import Deployment
from integration.containers.images import ROOT, standin
from integration.containers.machines import SETTINGS, UNIT, Machine

SETTINGS_FILE: Final = "/etc/reassigner/reassigner.toml"

pytestmark = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None or sys.version_info[:2] != (3, 11),
    reason="the package is built by Debian's tools, and for the Python of Debian 12",
)


@pytest.fixture(scope="module")
def package() -> Path:
    """Build the package."""
    built = subprocess.run(
        [str(ROOT / "deploy" / "debian" / "build"), sys.executable],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert built.returncode == 0, built.stdout[-3000:]
    (found,) = (ROOT / "build" / "deb").glob("kafka-reassigner_*.deb")
    return found


@pytest.fixture
def machine(deployment: Deployment, package: Path) -> Iterator[Machine]:
    """Give a machine with the file of the package, in the network of the deployment."""
    base = deployment.images["PYTHON_IMAGE"]
    image = standin(deployment.engine, "debian", base, {"reassigner.deb": package})
    with Machine.running(deployment, image) as found:
        yield found


def test_debians_own_checks_find_nothing(package: Path) -> None:
    """What is deliberate has its reason in ``lintian-overrides``."""
    lintian = shutil.which("lintian")
    if lintian is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(
        [lintian, "--allow-root", "--fail-on", "error,warning", str(package)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_package_is_installed_upgraded_removed_and_purged(machine: Machine) -> None:
    """The daemon starts when its settings are there, and nothing is left after a purge."""
    install = "dpkg --install /root/reassigner.deb; echo ended with $?"
    said = machine.shell(install)
    assert "ended with 0" in said, said
    assert f"Set zookeeper in {SETTINGS_FILE}" in said
    assert machine.state("ActiveState") == "inactive"
    assert machine.shell(f"stat --format '%U:%G %a' {SETTINGS_FILE}") == "root:reassigner 640\n"
    assert machine.shell("reassigner --version").startswith("kafka-reassigner ")
    assert machine.shell(f"systemd-analyze verify --man=no {UNIT}") == ""

    machine.shell(f"echo '{SETTINGS}' > {SETTINGS_FILE}")
    machine.shell(f"systemctl enable --now {UNIT}")
    machine.await_ready()
    before = machine.state("MainPID")
    user = machine.shell(f"ps -o user= -p {before} || stat --format %U /proc/{before}").split()[-1]
    assert user == "reassigner"
    assert machine.shell("ls /var/lib/reassigner/journal").strip()

    said = machine.shell(install)  # the same version once more is an upgrade
    assert "ended with 0" in said, said
    assert "Set zookeeper" not in said
    machine.await_ready()
    assert machine.state("MainPID") not in {before, "0"}
    assert machine.shell(f"cat {SETTINGS_FILE}").strip() == SETTINGS.strip()

    said = machine.shell("dpkg --remove kafka-reassigner; echo ended with $?")
    assert re.search(r"ended with 0\s*\Z", said), said
    assert "not-found" in machine.state("LoadState")
    assert "No such file" in machine.shell("ls -d /opt/reassigner")
    assert "journal" in machine.shell("ls /var/lib/reassigner")

    said = machine.shell("dpkg --purge kafka-reassigner; echo ended with $?")
    assert re.search(r"ended with 0\s*\Z", said), said
    left = "ls -d /etc/reassigner /var/lib/reassigner /etc/systemd/system/*/reassigner.service"
    assert machine.shell(f"({left} 2> /dev/null)") == ""
    assert machine.shell("getent passwd reassigner; getent group reassigner") == ""
