"""
Headless Chromium, for pages as people see them: their DOM, their look, and the faults axe finds.

Driven by Selenium through Chromium's own driver. Where one of the three is missing, tests are
skipped. axe-core comes from the npm registry once, and is kept under the user's cache directory.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integration.rigs.waiting import eventually

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
DRIVER: Final = "chromedriver"
AXE: Final = "axe-core@4.14.1"
WITHIN_S: Final = 90.0
OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-extensions",
    "--disable-background-networking",
    "--force-device-scale-factor=1",
)


class Page:
    """One window, which keeps its cookies."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 - the types of Selenium may be missing
        self._driver = driver

    def show(self, url: str) -> Page:
        """Load a page."""
        self._driver.get(url)
        return self

    def log_in(self, url: str, token: str) -> Page:
        """Send the token in the form that the page shows."""
        self.show(url)
        self.fill("token", token)
        self.press("Log in")
        return self

    def fill(self, name: str, value: str, *, within: str = "") -> None:
        """Type into a field, the first of this name within the element of a CSS selector."""
        field = self._field(name, within)
        field.clear()
        field.send_keys(value)

    def check(self, name: str, *, within: str = "") -> None:
        """Check a box, or take the check out of it; found as ``fill`` does."""
        self._field(name, within).click()

    def choose(self, name: str, value: str, *, within: str = "") -> None:
        """Choose a value of a list; found as ``fill`` does."""
        self._field(name, within).find_element("css selector", f'option[value="{value}"]').click()

    def _field(self, name: str, within: str) -> Any:  # noqa: ANN401 - as above
        return self._driver.find_element("css selector", f'{within} [name="{name}"]')

    def press(self, words: str) -> None:
        """Press the button whose text begins with these words."""
        buttons = self._driver.find_elements("tag name", "button")
        self._leave_by(next(b for b in buttons if b.text.startswith(words)))

    def follow(self, words: str) -> None:
        """Follow the first link with this text."""
        self._leave_by(self._driver.find_element("link text", words))

    def _leave_by(self, element: Any) -> None:  # noqa: ANN401 - as above
        """Click, and wait until the next page is there."""
        self.run("window.isLeft = true")
        element.click()
        eventually(
            lambda: bool(self.run("return !window.isLeft && document.readyState === 'complete'")),
            within_s=WITHIN_S,
            every_s=0.1,
            what="the next page is loaded",
        )

    @property
    def html(self) -> str:
        """The page as the browser understood it."""
        return str(self._driver.page_source)

    @property
    def words(self) -> str:
        """The text that people see."""
        return str(self._driver.find_element("tag name", "body").text)

    def run(self, script: str) -> Any:  # noqa: ANN401 - what the script returns
        """Run a script and return its value."""
        return self._driver.execute_script(script)

    def picture(self, to: Path, *, width: int, is_dark: bool = False) -> None:
        """Write what the whole page looks like at this width, as PNG."""
        self._emulate(width, is_dark=is_dark)
        bottom = "document.querySelector('footer').getBoundingClientRect().bottom + scrollY"
        size = {"width": width, "height": self.run(f"return Math.ceil({bottom})")}
        shot = self._driver.execute_cdp_cmd(
            "Page.captureScreenshot",
            {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "scale": 1, **size}},
        )
        to.write_bytes(base64.b64decode(shot["data"]))

    def overflow(self, *, width: int) -> int:
        """Return how many pixels the page is wider than the window."""
        self._emulate(width)
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def cut(self, *, width: int) -> Sequence[str]:
        """Return the parts, but fields, that are wider than what shows of them, and by how much."""
        self._emulate(width)
        script = """
            return [...document.querySelectorAll("section, section *:not(svg *, input, select)")]
              .filter(e => e.clientWidth > 1 && getComputedStyle(e).display !== "inline")
              .filter(e => e.scrollWidth > e.clientWidth)
              .map(e => `${e.tagName} ${e.className} of ${e.closest("section").id}: ` +
                        `${e.scrollWidth - e.clientWidth}`)
        """
        found: list[str] = self.run(script)
        return found

    def faults(self, *, width: int = 1280, is_dark: bool = False) -> Sequence[str]:
        """Return what axe finds: the rule, how grave it is, and the elements."""
        self._emulate(width, is_dark=is_dark)
        self._driver.execute_cdp_cmd(
            "Runtime.evaluate", {"expression": axe_core().read_text(encoding="utf-8")}
        )
        found = self._driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then(r => done(r.violations))"
        )
        return [
            f"{v['id']} ({v['impact']}): {v['help']}: {node['html']}"
            for v in found
            for node in v["nodes"]
        ]

    def _emulate(self, width: int, *, is_dark: bool = False) -> None:
        self._driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


class Browser:
    """Starts windows."""

    def __init__(self, program: str, driver: str) -> None:
        """Use these programs."""
        self._program = program
        self._driver = driver

    @classmethod
    def found(cls) -> Browser | None:
        """Return a browser if there is one."""
        program = next((p for p in map(shutil.which, NAMES) if p is not None), None)
        driver = shutil.which(DRIVER)
        has_selenium = importlib.util.find_spec("selenium") is not None
        if program is None or driver is None or not has_selenium:
            return None
        return cls(program, driver)

    @classmethod
    def required(cls) -> Browser:
        """Return a browser, or skip the test."""
        browser = cls.found()
        if browser is None:
            needed = f"one of {', '.join(NAMES)}, {DRIVER} and the Python package selenium"
            pytest.skip(f"no headless Chromium: {needed} are needed")
        return browser

    @contextmanager
    def window(self) -> Iterator[Page]:
        """Open a window."""
        from selenium import webdriver  # noqa: PLC0415 - it may be missing
        from selenium.webdriver.chrome.options import Options  # noqa: PLC0415 - as above
        from selenium.webdriver.chrome.service import Service  # noqa: PLC0415 - as above

        options = Options()
        options.binary_location = self._program
        for option in OPTIONS:
            options.add_argument(option)
        driver = webdriver.Chrome(options, Service(self._driver))
        driver.set_page_load_timeout(WITHIN_S)
        driver.set_script_timeout(WITHIN_S)
        try:
            yield Page(driver)
        finally:
            driver.quit()


def axe_core() -> Path:
    """Return axe-core's script; it is downloaded once. Without npm the test is skipped."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = (Path(base) if base else Path.home() / ".cache") / "kafka-reassigner" / "axe"
    script = root / f"{AXE}.min.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"no npm, which downloads {AXE}")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        subprocess.run([npm, "pack", AXE, "--silent"], cwd=scratch, check=True, timeout=WITHIN_S)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            content = packed.extractfile("package/axe.min.js")
            if content is None:
                raise FileNotFoundError(f"{AXE} has no axe.min.js")
            fresh = Path(scratch) / "axe.js"
            fresh.write_bytes(content.read())
        fresh.replace(script)
    return script
