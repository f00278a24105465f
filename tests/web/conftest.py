"""Servers for the tests of the web."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from controller.web import routes
from tests.web.serving import READ_TOKEN, TOKEN, Served


@pytest.fixture(autouse=True)
def _silent_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait briefly for the daemon's loop, which most tests do without."""
    monkeypatch.setattr(routes, "LISTING_WITHIN_S", 0.2)


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a server that answers."""
    found = Served()
    found.server.start()
    yield found
    found.server.stop()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """Return a file with the token of an operator and one of a reader, the latter as a hash."""
    digest = sha256(READ_TOKEN.encode()).hexdigest()
    path = tmp_path / "tokens.toml"
    path.write_text(
        f'[alice]\nrole = "operate"\ntoken = "{TOKEN}"\n\n'
        f'[grafana]\nrole = "read"\nsha256 = "{digest}"\n'
    )
    return path


@pytest.fixture
def steerable(tokens: Path) -> Iterator[Served]:
    """Return a server with tokens."""
    found = Served(tokens=tokens)
    found.server.start()
    found.is_running()
    yield found
    found.server.stop()
