"""
Headless Chromium, for pages as people see them: what the DOM becomes, and what it looks like.

Found by the names distributions give it; where there is none, what needs it is skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WITHIN_S: Final = 90.0
OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-extensions",
    "--disable-background-networking",
)


class Browser:
    """A browser that is started anew for every page."""

    def __init__(self, program: str) -> None:
        """Use this program."""
        self._program = program

    @classmethod
    def found(cls) -> Browser | None:
        """Return a browser if there is one."""
        program = next((p for p in map(shutil.which, NAMES) if p is not None), None)
        return None if program is None else cls(program)

    @classmethod
    def required(cls) -> Browser:
        """Return a browser, or skip the test."""
        browser = cls.found()
        if browser is None:
            pytest.skip(f"no headless Chromium: none of {', '.join(NAMES)} is installed")
        return browser

    def dom(self, url: str) -> str:
        """Return the page as the browser understood it."""
        return self._run("--dump-dom", url).decode()

    def screenshot(self, url: str, to: Path, *, width: int = 1280, height: int = 1000) -> None:
        """Write what the page looks like, as PNG."""
        self._run(f"--screenshot={to}", f"--window-size={width},{height}", url)

    def _run(self, *arguments: str) -> bytes:
        done = subprocess.run(
            [self._program, *OPTIONS, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=WITHIN_S,
            check=True,
        )
        return done.stdout
