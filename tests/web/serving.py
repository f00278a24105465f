"""A server on the loopback interface, and what it answers from."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from controller.actions.draining import NewDrains
from controller.actions.evacuating import LeadershipTask
from controller.core.model import BrokerId, RequestId, TopicPartition, Zxid
from controller.core.requests.outcomes import RequestHistory
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.core.view import ClusterView
from controller.credentials import ServerTls
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews.plan_files import Plan, PlanFile
from controller.previews.proposal import Goal
from controller.setting_values import HttpAddress
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.access import Access, Tokens
from controller.web.forms import Attempt, ControlForm, PlanForm
from controller.web.http_messages import FORM
from controller.web.http_server import HttpServer
from controller.web.page_plans import (
    BrokerChoice,
    NewQuiesce,
    PagePlans,
    PlanPreview,
    PreviewTable,
    Wanted,
)
from controller.web.routes import Health, Routes
from controller.web.steering import PageAction, Steering
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import replicas, tp
from tests.telemetry.builders import FixedClock, a_view

ANYWHERE = HttpAddress("127.0.0.1", 0)
WITHIN_S: Final = 10.0


READ_TOKEN = "only to read, and nothing else"  # noqa: S105 - of nothing
TOKEN = "correct horse battery staple"  # noqa: S105 - of nothing


REQUEST = RequestId("r")
"""A request that is open."""

Done = tuple[str, str | None, str]
"""An action with its request and its author."""


class RecordedSteering(Steering):
    """Records the actions, and carries them out on a cluster in memory."""

    def __init__(self, cluster: FakeCluster, publisher: StatusPublisher) -> None:
        """Act on a cluster."""

        def status() -> Mapping[str, Any] | None:
            # Without controls, for which no form waits.
            found = publisher.latest
            return None if found is None else {**found.status, "controls": {}}

        super().__init__(lambda: nullcontext(FakeOperator(cluster)), lambda: AT_MS, status)
        self.done: list[Done] = []

    def carry_out(self, action: PageAction, request: str, by: str) -> bool:
        """Carry out an action, and record it unless it is refused."""
        is_shown = super().carry_out(action, request, by)
        self.done.append((action, request or None, by))
        return is_shown


class FakePlans(PagePlans):
    """Previews and submits any plan, and any drain but one of broker 9; records them."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Plan, RequestOptions]] = []
        self.goals: list[Goal] = []
        self.drained: list[tuple[NewDrains, str]] = []
        self.tasks: list[tuple[Cancellation | LeadershipTask | NewQuiesce, str]] = []
        """Undone requests, leaderships and quiesces."""

    def brokers(self) -> Sequence[BrokerChoice]:
        """Offer three brokers."""
        words = {5: "rack a, 3 replicas", 6: "dead", 7: "<new>"}
        return [BrokerChoice(BrokerId(b), about) for b, about in words.items()]

    def topics(self) -> Sequence[str]:
        """Offer two topics."""
        return ["orders", "payments"]

    def propose(self, goal: Goal) -> PlanFile:
        """Record the goal, and move one partition."""
        self.goals.append(goal)
        return PlanFile(entries={TopicPartition("g", 0): replicas(4, 5)})

    def parse(self, text: str) -> PlanFile:
        """Take any text for a plan."""
        return PlanFile(entries={TopicPartition(text, 0): replicas(4, 5)})

    def preview(self, wanted: Wanted) -> PlanPreview:
        """Show what is in the plan; a drain moves one partition."""
        if isinstance(wanted, NewDrains) and 9 in wanted.brokers:
            raise InvalidInputError("there is no broker <9>")
        if isinstance(wanted, NewDrains | LeadershipTask):
            plan, reason = {tp(): replicas(4, 5)}, wanted.about.reason
        elif isinstance(wanted, Cancellation | NewQuiesce):
            plan, reason = {tp(): replicas(4, 5)}, wanted.reason
        else:
            plan, reason = dict(wanted.plan.entries), wanted.options.reason
        table = PreviewTable("Brokers", ("broker", "in"), (("<4>", "1 GB"),))
        return PlanPreview(
            entries=len(plan),
            refused=0,
            summary=("1 partition in 2 steps",),
            problems=("<problem>",),
            conflicts=("<conflict>",),
            changes=tuple(f"{p}: moves" for p in plan),
            tables=(table,),
            waits=("<wait>",),
            notes=(f"<note {reason}>",),
        )

    def submit(self, wanted: Wanted, by: str) -> tuple[RequestId | None, bool]:
        """Record it."""
        return self._recorded(wanted, by), True

    def _recorded(self, wanted: Wanted, by: str) -> RequestId | None:
        if isinstance(wanted, NewDrains):
            self.drained.append((wanted, by))
            return RequestId("drain-<7>")
        if isinstance(wanted, Cancellation | LeadershipTask | NewQuiesce):
            self.tasks.append((wanted, by))
            return RequestId("other-<7>")
        if wanted.options.reason == "conflict":
            error = ReassignmentConflictError("new reassignments are <disabled>")
            error.add_note("At least 1 of 2 parts <were> written.")
            raise error
        self.submitted.append((wanted.plan.entries, replace(wanted.options, requested_by=by)))
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
        history = RequestHistory(request=REQUEST, czxid=Zxid(1))
        self.cluster = FakeCluster(histories={REQUEST: history})
        self.steering = RecordedSteering(self.cluster, self.publisher)
        self.plans = FakePlans()
        self.audited: list[Attempt] = []
        self.problems: list[str] = []
        access, form = None, None
        if tokens is not None:
            accepted = Tokens(tokens, None, self.problems.append)
            access = Access(accepted, self.clock, cookie="session", is_tls=tls is not None)
            plans = PlanForm(self.plans, self.clock)
            form = ControlForm(access, self.steering, plans, self.audited.append)
        self.routes = Routes(
            metrics=Metrics(),
            publisher=self.publisher,
            health=self.health,
            wall=self.clock.wall,
            access=access,
            form=form,
        )
        self.server = HttpServer(ANYWHERE, self.routes, tls=tls)

    @property
    def steered(self) -> list[Done]:
        """The actions that were carried out."""
        return self.steering.done

    def is_running(self) -> None:
        """Publish a status, with a live loop and a connected session."""
        self.health.last_cycle = self.clock.now
        self.health.session = lambda: SessionStatus.CONNECTED
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

    def fetch(
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
        response, body = self.fetch("/login", "POST", body=form, Content_Type=FORM)
        assert response.status == HTTPStatus.SEE_OTHER, body
        cookie = response.headers["Set-Cookie"].partition(";")[0]
        page = self.fetch("/", Cookie=cookie)[1]
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
    return served.fetch("/control", "POST", body=form, source=source, **headers)
