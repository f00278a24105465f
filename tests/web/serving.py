"""A server on the loopback interface, and what it answers from."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.core.requests.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.server_tls import ServerTls
from controller.setting_values import HttpAddress
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.access import Access
from controller.web.control_form import Attempt, ControlForm
from controller.web.http_messages import FORM
from controller.web.plan_form import PlanForm
from controller.web.plans import PlacedPlan, PlanPreview, PreviewTable
from controller.web.probes import Health
from controller.web.routes import Routes
from controller.web.server import HttpServer
from controller.web.tokens import Tokens
from tests.core.builders import replicas, tp
from tests.telemetry.builders import FixedClock, a_view

ANYWHERE = HttpAddress("127.0.0.1", 0)
WITHIN_S: Final = 10.0


READ_TOKEN = "only to read, and nothing else"  # noqa: S105 - of nothing
TOKEN = "correct horse battery staple"  # noqa: S105 - of nothing


Done = tuple[str, str | None, str]
"""An action with its request and its author."""


class Steered:
    """Records the actions; refuses to cancel."""

    def __init__(self, done: list[Done]) -> None:
        """Record into ``done``."""
        self._done = done

    def pause(self, request: RequestId | None, by: str) -> None:
        """Record a pause."""
        self._done.append(("pause", request, by))

    def resume(self, request: RequestId | None, by: str) -> None:
        """Record a resumption."""
        self._done.append(("resume", request, by))

    def warn(self, request: RequestId | None, by: str) -> None:
        """Record the value of a setting."""
        self._done.append(("warn", request, by))

    def wait(self, request: RequestId | None, by: str) -> None:
        """Record the value of a setting."""
        self._done.append(("wait", request, by))

    def cancel(self, request: RequestId | None, by: str) -> None:
        """Refuse."""
        del by
        raise ReassignmentConflictError(f"another <cancel> is being carried out, not {request}")


class FakePlans:
    """Previews and submits any plan but one for broker 9; records what is submitted."""

    def __init__(self) -> None:
        self.submitted: list[tuple[PlacedPlan, RequestOptions]] = []

    def drain(self, broker: BrokerId) -> PlacedPlan:
        """Move one partition."""
        if broker == 9:
            raise InvalidInputError("broker <9> has no replica")
        return PlacedPlan({tp(): replicas(4, 5)})

    def parse(self, text: str) -> PlacedPlan:
        """Take any text for a plan."""
        return PlacedPlan({TopicPartition(text, 0): replicas(4, 5)})

    def preview(self, plan: PlacedPlan, options: RequestOptions) -> PlanPreview:
        """Show what is in the plan."""
        table = PreviewTable("Brokers", ("broker", "in"), (("<4>", "1 GB"),))
        return PlanPreview(
            entries=len(plan.entries),
            refused=0,
            summary=("1 partition in 2 steps",),
            problems=("<problem>",),
            conflicts=("<conflict>",),
            changes=tuple(f"{p}: moves" for p in plan.entries),
            tables=(table,),
            waits=("<wait>",),
            notes=(f"<note {options.reason}>",),
        )

    def submit(self, plan: PlacedPlan, options: RequestOptions) -> RequestId:
        """Record it."""
        if options.reason == "conflict":
            raise ReassignmentConflictError("new reassignments are <disabled>")
        self.submitted.append((plan, options))
        return RequestId("request_<7>")


class Served:
    """A server and what it answers from."""

    def __init__(self, *, tokens: Path | None = None, tls: ServerTls | None = None) -> None:
        """Listen on a free port; with a file of tokens there are forms."""
        self.clock = FixedClock()
        self.health = Health(clock=self.clock)
        self.publisher = StatusPublisher(
            clock=self.clock, wall=self.clock.wall, engine="native", stalled_after_s=300.0
        )
        self.steered: list[Done] = []
        self.plans = FakePlans()
        self.audited: list[Attempt] = []
        self.problems: list[str] = []
        access, form = None, None
        if tokens is not None:
            accepted = Tokens(tokens, None, self.problems.append)
            access = Access(accepted, self.clock, cookie="session", is_tls=tls is not None)
            plans = PlanForm(self.plans, self.clock)
            form = ControlForm(access, Steered(self.steered), plans, self.audited.append)
        self.routes = Routes(
            metrics=Metrics(),
            publisher=self.publisher,
            health=self.health,
            wall=self.clock.wall,
            access=access,
            form=form,
        )
        self.server = HttpServer(ANYWHERE, self.routes, tls=tls)

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

    def log_in(self, token: str = TOKEN) -> tuple[str, str]:
        """Log in as a browser does; return the cookie and the secret of the forms."""
        form = urlencode({"token": token, "next": "/"})
        response, body = self.ask("/login", "POST", body=form, Content_Type=FORM)
        assert response.status == HTTPStatus.SEE_OTHER, body
        cookie = response.headers["Set-Cookie"].partition(";")[0]
        page = self.ask("/", Cookie=cookie)[1]
        found = re.search(r'name="csrf" value="([^"]+)"', page)
        assert found is not None, page
        return cookie, found[1]


def bearer(token: str = TOKEN) -> dict[str, str]:
    """Return the header of a program."""
    return {"Authorization": f"Bearer {token}"}


def press(
    served: Served,
    action: str,
    token: str = TOKEN,
    request: str = "r",
    source: str = "",
    **headers: str,
) -> tuple[HTTPResponse, str]:
    """Send a form as a program does."""
    form = urlencode({"action": action, "request": request})
    headers = {"Content_Type": FORM, **bearer(token), **headers}
    return served.ask("/control", "POST", body=form, source=source, **headers)
