"""Prometheus' own checker, where it is installed (Debian's package is `prometheus`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str, directory: Path) -> tuple[int, str]:
    """Run promtool in a directory; return its exit code and what it said. Skips without it."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [program, *arguments], check=False, capture_output=True, text=True, cwd=directory
    )
    return done.returncode, done.stdout + done.stderr
