"""The Debian package: its scripts, and that it agrees with the unit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

DEPLOY: Final = Path(__file__).resolve().parent.parent.parent / "deploy"
DEBIAN: Final = DEPLOY / "debian"
UNIT: Final = (DEPLOY / "systemd" / "reassigner.service").read_text()
BUILD: Final = (DEBIAN / "build").read_text()


def of_unit(key: str) -> str:
    """Return the value of a key of the unit."""
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    return str(value)


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm", "build"])
def test_a_shell_reads_every_script(script: str) -> None:
    """Those of the package are for any POSIX shell, as dpkg runs them."""
    shell = "bash" if script == "build" else "sh"
    done = subprocess.run(
        ["/usr/bin/env", shell, "-n", str(DEBIAN / script)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_finds_what_the_package_installs() -> None:
    """The program, the settings, the user, and the page that it names."""
    program, _, _, settings = of_unit("ExecStart").split()
    assert f"ln -s {program} " in BUILD
    assert f"echo {settings} > " in BUILD
    user = of_unit("User")
    assert f'--gecos "Kafka partition reassigner" {user}\n' in (DEBIAN / "postinst").read_text()
    (page,) = re.findall(r"^Documentation=file:/opt/reassigner/(.*)$", UNIT, re.MULTILINE)
    assert f'"$prefix/{page}"' in BUILD


def test_a_purge_removes_what_the_daemon_left() -> None:
    """Its directory, the secrets that the unit reads, and the user."""
    purge = (DEBIAN / "postrm").read_text()
    assert f"rm -rf /var/lib/{of_unit('StateDirectory')}\n" in purge
    assert of_unit("EnvironmentFile").removeprefix("-") in purge
    assert f"deluser --quiet --system {of_unit('User')}" in purge


def test_every_exception_from_debians_rules_has_a_reason() -> None:
    """A comment stands above each group."""
    lines = (DEBIAN / "lintian-overrides").read_text().splitlines()
    assert lines[0].startswith("# ")
    assert all(re.fullmatch(r"# \S.*|kafka-reassigner: [a-z-]+", line) for line in lines)
