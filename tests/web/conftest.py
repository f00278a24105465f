"""Servers for the tests of the web."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.serving import TOKEN, Served


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a server that answers."""
    found = Served()
    found.server.start()
    yield found
    found.server.close()


@pytest.fixture
def steerable() -> Iterator[Served]:
    """Return a server with a token."""
    found = Served(token=TOKEN)
    found.server.start()
    found.is_running()
    yield found
    found.server.close()
