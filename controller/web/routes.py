"""
The response of each path: ``/metrics``, the probes, ``/status``, ``/explain``, and the pages.

Knows nothing of sockets. Reads the newest snapshot and asks the loop about partitions; never reads
the view. Only forms change anything, and only where tokens are configured; then every path but the
probes, ``/metrics`` and the log-in needs one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from controller.core.model import Instant, RequestId
from controller.reactor.ports import Clock
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.partition_documents import Filter
from controller.telemetry.status_publisher import StatusPublisher
from controller.web import pages
from controller.web.access import ANYONE, Access, Identity
from controller.web.broker_survey import BrokerSurvey
from controller.web.forms import CONTROL, LIMITS, LOGIN, NEEDS_OPERATE, PLAN, READ_ONLY, ControlForm
from controller.web.http_messages import (
    FORM_BYTES_MAX,
    HTML,
    HttpRequest,
    Response,
    html,
    is_number,
    json_response,
    text,
)
from controller.web.report_index import IndexedReport, ReportIndex
from controller.web.steering import PAGE_ACTIONS
from controller.znodes.paths import parse_topic_partition

ANSWER_WITHIN_S: Final = 3.0
"""The loop answers questions at least once a second, unless a cycle takes longer."""
LISTING_WITHIN_S: Final = 1.5
_STARTING: Final = "the daemon is starting"
_USAGE: Final = "ask for /explain?partition=TOPIC-NUMBER"
QUIET_S: Final = 60.0
"""An idle loop cycles every second; a commit may take as long as a ZooKeeper session lasts."""
REPORTS: Final = "/reports/"
METRICS_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"


class Health:
    """
    The answers of the probes: whether the process is alive and whether it is ready, with a reason.

    Alive: the loop's thread completed a cycle within ``QUIET_S``. Ready: alive and connected to the
    ZooKeeper of a cluster, as leader or as standby. Each call looks at loop and session.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self.last_cycle: Callable[[], Instant | None] = lambda: None
        """Returns the time of the loop's last cycle; None: its thread does not run."""
        self.session: Callable[[], SessionStatus] = lambda: SessionStatus.LOST
        self.leader: Callable[[], str | None] = lambda: None
        """Returns the address of the leading daemon's HTTP server; None: none is known."""
        self.awaited: Callable[[], str | None] = lambda: None
        """Returns what is missing of a cluster; None: it exists."""

    def why_dead(self) -> str | None:
        """Return why the process should be restarted; None if it is alive."""
        last = self.last_cycle()
        if last is None:
            return "the loop does not run"
        quiet = self._clock.now() - last
        if quiet > QUIET_S:
            return f"the loop has not completed a cycle for {quiet:.0f} s"
        return None

    def why_unready(self) -> str | None:
        """Return why the process cannot do its work now; None if it can."""
        session = self.session()
        if session is not SessionStatus.CONNECTED:
            return f"the ZooKeeper session is {session.value}"
        return self.awaited() or self.why_dead()


class Routes:
    """
    Answers paths and forms; safe from any thread.

    Without ``access`` everyone may read; without ``form`` nothing can be changed; without
    ``reports`` none are shown; without ``survey`` bytes and disks of idle brokers are unknown.
    """

    def __init__(  # noqa: PLR0913 - the sources of the responses
        self,
        *,
        metrics: Metrics,
        publisher: StatusPublisher,
        health: Health,
        wall: Callable[[], datetime],
        access: Access | None = None,
        form: ControlForm | None = None,
        reports: ReportIndex | None = None,
        survey: BrokerSurvey | None = None,
    ) -> None:
        self._metrics = metrics
        self._publisher = publisher
        self._health = health
        self._wall = wall
        self._access = access
        self._form = form
        self._reports = reports
        self._survey = survey
        pages.name_cluster(lambda: publisher.cluster)
        self._public: Mapping[str, Callable[[HttpRequest], Response]] = {
            "/metrics": lambda _: self.metrics(),
            "/healthz": lambda _: _probe(self._health.why_dead()),
            "/readyz": lambda _: _probe(self._why_unready()),
            "/page.js": lambda _: Response(HTTPStatus.OK, "text/javascript", pages.SCRIPT),
        }
        self._readable: Mapping[str, Callable[[HttpRequest, Identity], Response]] = {
            "/": self.page,
            "/status": lambda _, __: self.status(),
            "/explain": lambda request, _: self.explain(request),
            "/history": self.history,
            "/partition": self.partition,
            **({} if form is None else {CONTROL: _form, PLAN: self.plan, LIMITS: self.limits}),
        }

    def answer(self, request: HttpRequest) -> Response:
        """Return the response to a GET."""
        name = request.name
        if name in self._public:
            return self._public[name](request)
        if name == LOGIN and self._access is not None:
            return html(pages.render_login(pages.safe_path(request.query.get("next", ""))))
        who = ANYONE if self._access is None else self._access.identify(request)
        if isinstance(who, Response):
            return _with_log_in(request, who)
        if name.startswith(REPORTS) and self._reports is not None:
            return self.report(name.removeprefix(REPORTS))
        return self._readable.get(name, self._missing)(request, who)

    def _missing(self, *_: object) -> Response:
        paths = " ".join((*self._readable, *self._public))
        return text(HTTPStatus.NOT_FOUND, f"not found; there are {paths}")

    def post(self, request: HttpRequest) -> Response:
        """Return the response to a form."""
        if self._form is None:
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY, Allow="GET, HEAD")
        return self._form.post(request)

    def body_max(self, request: HttpRequest) -> int:
        """Return the largest body of a form, of which only path and headers are known yet."""
        return FORM_BYTES_MAX if self._form is None else self._form.body_max(request)

    @property
    def takes_forms(self) -> bool:
        """Whether anything can be changed here."""
        return self._form is not None

    def explain(self, request: HttpRequest) -> Response:
        """Return what the daemon knows of one partition."""
        partition = parse_topic_partition(request.query.get("partition", ""))
        if partition is None:
            return text(HTTPStatus.BAD_REQUEST, _USAGE)
        if self._publisher.latest is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        try:
            document = self._publisher.request_partition(partition).result(ANSWER_WITHIN_S)
        except TimeoutError:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "the loop is busy; ask again")
        return json_response(document)

    def partition(self, request: HttpRequest, who: Identity) -> Response:
        """Return the page about one partition."""
        response = self.explain(request)
        if response.status is not HTTPStatus.OK:
            return response
        found = json.loads(response.body)
        page = pages.render_partition(f"{found['topic']}-{found['partition']}", found, who)
        return html(page, HTTPStatus.OK if found["known"] else HTTPStatus.NOT_FOUND)

    def plan(self, request: HttpRequest, who: Identity) -> Response:
        """Return the forms for work, with what the query chooses."""
        if not who.may_operate or self._form is None:
            return text(HTTPStatus.FORBIDDEN, NEEDS_OPERATE)
        return self._form.plan(who, {"kind": "drain", **request.query})

    def limits(self, _: HttpRequest, who: Identity) -> Response:
        """Return the form for throttle, window and limits."""
        if not who.may_operate or self._form is None:
            return text(HTTPStatus.FORBIDDEN, NEEDS_OPERATE)
        return self._form.limits(who)

    def metrics(self) -> Response:
        """Return the metrics in Prometheus' text format."""
        self._metrics.session_is(self._health.session())
        return Response(HTTPStatus.OK, METRICS_TYPE, self._metrics.exposition())

    def status(self) -> Response:
        """Return the status document."""
        document = self._document()
        if document is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        return json_response(document)

    def page(self, request: HttpRequest, who: Identity) -> Response:
        """Return the overview, with the partitions that the query selects."""
        document = self._document()
        if document is None:
            return html(pages.render_starting())
        if document["role"] != "leader":
            return html(pages.render_standby(document, who))
        fields = request.query
        wanted = _filter(fields)
        listing = None
        with contextlib.suppress(TimeoutError):
            listing = self._publisher.request_partitions(wanted).result(LISTING_WITHIN_S)
        page = pages.render_page(
            document,
            listing,
            wanted=wanted,
            who=who,
            ended=self._publisher.timelines.summaries(),
            reports=self._newest_reports(),
            points=self._publisher.trend,
            surveyed=None if self._survey is None else self._survey.latest(),
            is_still=bool(fields.get("still")),
            is_accepted=bool(fields.get("accepted")),
        )
        return html(page)

    def history(self, request: HttpRequest, who: Identity) -> Response:
        """Return the page about one request."""
        name = request.query.get("request", "")
        timeline, status = self._publisher.timelines.of(name), self._document()
        page = pages.render_history(
            name,
            timeline,
            self._wall(),
            self._newest_reports(),
            status=status,
            ended=self._publisher.timelines.summaries(),
            who=who,
        )
        is_known = timeline is not None or self._is_known(name)
        return html(page, HTTPStatus.OK if is_known else HTTPStatus.NOT_FOUND)

    def _is_known(self, request: str) -> bool:
        """Return whether the newest snapshot has a request, be it among many."""
        found = self._publisher.latest
        if found is None:
            return False
        name, work = RequestId(request), found.work
        is_listed = any(r["id"] == name for r in found.status["requests"])
        return is_listed or name in work.moving or name in work.waiting

    def report(self, name: str) -> Response:
        """Return a report of past work, as it was written."""
        body = None if self._reports is None else self._reports.read(name)
        if body is None:
            return text(HTTPStatus.NOT_FOUND, "there is no such report")
        return Response(HTTPStatus.OK, HTML, body)

    def _newest_reports(self) -> Sequence[IndexedReport]:
        return () if self._reports is None else self._reports.newest()

    def _why_unready(self) -> str | None:
        """Return why the daemon is not ready; it has no status before its first cycle."""
        reason = self._health.why_unready()
        if reason is None and self._publisher.latest is None:
            return _STARTING
        return reason

    def _document(self) -> Mapping[str, Any] | None:
        snapshot = self._publisher.latest
        if snapshot is None:
            return None
        unready = self._why_unready()
        leads = snapshot.status["role"] == "leader"
        evacuations = snapshot.status["evacuations"]
        if evacuations and self._survey is not None:
            verdicts = self._survey.verdicts()
            evacuations = [{**e, "verdict": verdicts.get(e["broker"])} for e in evacuations]
        return {
            **snapshot.status,
            "evacuations": evacuations,
            "leader": None if leads else self._health.leader(),
            "ready": unready is None,
            "unready_because": unready,
            "zookeeper": self._health.session().value,
        }


def _filter(fields: Mapping[str, str]) -> Filter:
    """Return the filter of a query; a value that is not a number is ignored."""
    broker, page = fields.get("broker", ""), fields.get("page", "")
    return Filter(
        topic=fields.get("topic", "").strip(),
        request=fields.get("request", "").strip(),
        phase=fields.get("phase", ""),
        broker=int(broker) if is_number(broker) else None,
        page=int(page) if is_number(page) else 1,
    )


def _form(request: HttpRequest, who: Identity) -> Response:
    if not who.may_operate:
        return text(HTTPStatus.FORBIDDEN, NEEDS_OPERATE)
    action = PAGE_ACTIONS.get(request.query.get("action", ""))
    if action is None:
        return text(HTTPStatus.NOT_FOUND, f"there are {' '.join(PAGE_ACTIONS)}")
    return html(pages.render_form(action, request.query.get("request", ""), who))


def _with_log_in(request: HttpRequest, refused: Response) -> Response:
    """Show the log-in form to a browser; a program gets the refusal as it is."""
    is_browser = "text/html" in request.headers.get("accept", "")
    if refused.status is not HTTPStatus.UNAUTHORIZED or not is_browser:
        return refused
    page = html(pages.render_login(pages.safe_path(request.path)), refused.status)
    return replace(page, headers={**page.headers, **refused.headers})


def _probe(reason: str | None) -> Response:
    if reason is None:
        return text(HTTPStatus.OK, "ok")
    return text(HTTPStatus.SERVICE_UNAVAILABLE, reason)
