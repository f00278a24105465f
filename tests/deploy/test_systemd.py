"""The systemd unit: what it starts and what it grants."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from controller.cli.output import Exit
from controller.reactor.host import SHUTDOWN_S
from controller.settings import Settings, variable_of

UNIT: Final = (
    Path(__file__).resolve().parent.parent.parent / "deploy" / "systemd" / "reassigner.service"
)


def service() -> dict[str, list[str]]:
    """Return the section [Service], every key with its values."""
    section = UNIT.read_text().partition("[Service]\n")[2].partition("\n[Install]")[0]
    values: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE):
        values.setdefault(key, []).append(value)
    return values


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    """An unknown key would be ignored with a warning, and what it was to forbid allowed."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/reassigner/bin/reassigner", "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, [x for x in done.stderr.splitlines() if UNIT.name in x]) == (0, [])


def test_systemd_finds_little_that_the_daemon_could_do_to_the_machine() -> None:
    """Its own measure, from 0 (nothing) to 10 (everything); the network is what is left."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", "--threshold=20", str(UNIT)],
        check=False,
        capture_output=True,
        text=True,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd cannot look at a unit that is not installed")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


def test_the_daemon_is_started_with_settings_that_exist() -> None:
    """The variables are the daemon's, and the journal is where it may write."""
    values = service()
    set_here = dict(line.split("=", 1) for line in values["Environment"])
    known = {variable_of(field) for field in Settings.model_fields}
    assert {name for name in set_here if name.startswith("REASSIGNER_")} <= known
    (state,) = values["StateDirectory"]
    assert set_here["REASSIGNER_JOURNAL_DIR"].startswith(f"/var/lib/{state}/")
    (command,) = values["ExecStart"]
    assert re.fullmatch(r"\S+/reassigner run --config /etc/reassigner/\S+\.toml", command)


def test_it_has_the_time_to_give_the_role_back() -> None:
    """SIGKILL comes long after the daemon has given up by itself."""
    (seconds,) = service()["TimeoutStopSec"]
    assert int(seconds) >= 2 * SHUTDOWN_S


def test_it_is_not_restarted_where_a_restart_changes_nothing() -> None:
    """A cluster that is refused is refused again."""
    assert service()["RestartPreventExitStatus"] == [str(Exit.REFUSED.value)]
    assert service()["Restart"] == ["on-failure"]


def test_it_may_do_nothing_it_does_not_need() -> None:
    """No capability, no way to more rights, the system read only, no other's files."""
    values = service()
    assert values["User"] == ["reassigner"]
    assert values["CapabilityBoundingSet"] == [""]
    assert values["NoNewPrivileges"] == ["yes"]
    assert values["ProtectSystem"] == ["strict"]
    assert values["ProtectHome"] == ["yes"]
