"""A server on the loopback interface, and what it answers from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Final
from urllib.parse import urlencode

from controller.core.model import RequestId
from controller.core.view import ClusterView
from controller.errors import ReassignmentConflictError
from controller.setting_values import HttpAddress
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.control_form import FORM, ControlForm
from controller.web.probes import Health
from controller.web.routes import Routes
from controller.web.server import (
    HttpServer,
)
from tests.telemetry.builders import FixedClock, a_view

ANYWHERE = HttpAddress("127.0.0.1", 0)
WITHIN_S: Final = 10.0


TOKEN = "correct horse battery staple"  # noqa: S105 - of nothing


class Steered:
    """Records the actions; refuses to cancel."""

    def __init__(self, done: list[tuple[str, str | None]]) -> None:
        """Record into ``done``."""
        self._done = done

    def pause(self, request: RequestId | None) -> None:
        """Record a pause."""
        self._done.append(("pause", request))

    def resume(self, request: RequestId | None) -> None:
        """Record a resumption."""
        self._done.append(("resume", request))

    def cancel(self, request: RequestId | None) -> None:
        """Refuse."""
        raise ReassignmentConflictError(f"another <cancel> is being carried out, not {request}")


class Served:
    """A server and what it answers from."""

    def __init__(self, *, token: str | None = None) -> None:
        """Listen on a free port; with a token there is a control form."""
        self.clock = FixedClock()
        self.health = Health(clock=self.clock)
        self.publisher = StatusPublisher(
            clock=self.clock, wall=self.clock.wall, engine="native", stalled_after_s=300.0
        )
        self.steered: list[tuple[str, str | None]] = []
        self.audited: list[tuple[str, str, str, str]] = []
        form = None
        if token is not None:
            form = ControlForm(
                token, Steered(self.steered), self.clock, lambda *t: self.audited.append(t)
            )
        self.routes = Routes(
            metrics=Metrics(),
            publisher=self.publisher,
            health=self.health,
            wall=self.clock.wall,
            form=form,
        )
        self.server = HttpServer(ANYWHERE, self.routes)

    def is_running(self) -> None:
        """Publish a status, with a live loop and a connected session."""
        self.health.watch_loop(self.clock.now)
        self.health.watch_session(lambda: SessionStatus.CONNECTED)
        self.publisher.tend(a_view(1).view)

    @contextmanager
    def cycling(self, view: ClusterView) -> Iterator[None]:
        """Call the publisher from another thread, as the loop does."""
        stopping = threading.Event()

        def cycle() -> None:
            while not stopping.wait(0.01):
                self.publisher.tend(view)

        loop = threading.Thread(target=cycle)
        loop.start()
        try:
            yield
        finally:
            stopping.set()
            loop.join()

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        body: str | None = None,
        source: str = "",
        **headers: str,
    ) -> tuple[HTTPResponse, str]:
        """Return an answer and its body, asked from a local address."""
        origin = (source, 0) if source else None
        connection = HTTPConnection(*self.server.address, timeout=5, source_address=origin)
        try:
            connection.request(
                method, path, body, {k.replace("_", "-"): v for k, v in headers.items()}
            )
            response = connection.getresponse()
            return response, response.read().decode()
        finally:
            connection.close()


def press(
    served: Served,
    action: str,
    token: str = TOKEN,
    request: str = "r",
    source: str = "",
    **headers: str,
) -> tuple[HTTPResponse, str]:
    """Send a form."""
    form = urlencode({"action": action, "request": request, "token": token})
    headers = {"Content_Type": FORM, **headers}
    return served.ask("/control", "POST", body=form, source=source, **headers)
