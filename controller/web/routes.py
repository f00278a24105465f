"""
The response of each path: ``/metrics``, the probes, ``/status``, ``/explain``, and the pages.

Knows nothing of sockets. Reads the newest snapshot and asks the loop about partitions; never reads
the view. Only the control form changes anything, and only where a token is configured.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from controller.telemetry.metrics import Metrics
from controller.telemetry.partition_documents import Filter
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.control_form import ControlForm
from controller.web.pages import ACTIONS, Overview, render_form, render_history, render_page
from controller.web.probes import Health
from controller.web.report_index import IndexedReport, ReportIndex
from controller.znodes.paths import parse_topic_partition

ANSWER_WITHIN_S: Final = 3.0
"""The loop answers questions at least once a second, unless a cycle takes longer."""
LISTING_WITHIN_S: Final = 1.5
DIGITS_MAX: Final = 10
_STARTING: Final = "the daemon is starting"
READ_ONLY: Final = "only GET and HEAD"
_USAGE: Final = "ask for /explain?partition=TOPIC-NUMBER"
REPORTS: Final = "/reports/"
HTML: Final = "text/html; charset=utf-8"
METRICS_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body and the headers that differ between paths."""

    status: HTTPStatus
    content_type: str
    body: bytes
    location: str = ""


def text(status: HTTPStatus, words: str) -> Response:
    """Return a line of plain text."""
    return Response(status, "text/plain; charset=utf-8", f"{words}\n".encode())


def _html(page: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, HTML, page.encode())


class Routes:
    """Answers paths and forms; safe from any thread."""

    def __init__(  # noqa: PLR0913 - the sources of the responses
        self,
        *,
        metrics: Metrics,
        publisher: StatusPublisher,
        health: Health,
        wall: Callable[[], datetime],
        form: ControlForm | None = None,
        reports: ReportIndex | None = None,
    ) -> None:
        """
        Answer from these.

        Args:
            metrics: What ``/metrics`` exports.
            publisher: Has the newest snapshot, and passes questions to the loop.
            health: The answers of the probes.
            wall: The time of day, in UTC.
            form: Accepts actions; None: nothing can be changed here.
            reports: Reports of past work; None: none are shown.

        """
        self._metrics = metrics
        self._publisher = publisher
        self._health = health
        self._wall = wall
        self._form = form
        self._reports = reports
        self._queries: Mapping[str, Callable[[str], Response]] = {
            "/": self.page,
            "/explain": self.explain,
            "/history": self.history,
        }
        self._paths: Mapping[str, Callable[[], Response]] = {
            "/": lambda: self.page(""),
            "/status": self.status,
            "/explain": lambda: text(HTTPStatus.BAD_REQUEST, _USAGE),
            "/metrics": self.metrics,
            "/healthz": lambda: _probe(self._health.why_dead()),
            "/readyz": lambda: _probe(self._why_unready()),
        }

    def answer(self, path: str) -> Response:
        """Return the response to a path with its query."""
        name, _, query = path.partition("?")
        if query and name in self._queries:
            return self._queries[name](query)
        if name == "/control" and self._form is not None:
            return _form(query)
        if name.startswith(REPORTS) and self._reports is not None:
            return self.report(name.removeprefix(REPORTS))
        if name in self._paths:
            return self._paths[name]()
        return text(HTTPStatus.NOT_FOUND, f"not found; there are {' '.join(self._paths)}")

    def post(self, path: str, headers: Mapping[str, str], body: bytes, client: str) -> Response:
        """Return the response to a form."""
        if self._form is None or path != "/control":
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY)
        result = self._form.take(headers, body, client)
        return Response(result.status, HTML, result.html.encode(), result.location)

    @property
    def takes_forms(self) -> bool:
        """Whether anything can be changed here."""
        return self._form is not None

    def explain(self, query: str) -> Response:
        """Return what the daemon knows of one partition."""
        partition = parse_topic_partition(_fields(query).get("partition", ""))
        if partition is None:
            return text(HTTPStatus.BAD_REQUEST, _USAGE)
        if self._publisher.latest is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        try:
            document = self._publisher.ask(partition).result(ANSWER_WITHIN_S)
        except TimeoutError:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "the loop is busy; ask again")
        return _json(document)

    def metrics(self) -> Response:
        """Return the metrics in Prometheus' text format."""
        self._metrics.session_is(self._health.session)
        return Response(HTTPStatus.OK, METRICS_TYPE, self._metrics.exposition())

    def status(self) -> Response:
        """Return the status document."""
        document = self._document()
        if document is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        return _json(document)

    def page(self, query: str) -> Response:
        """Return the overview, with the partitions that the query selects."""
        document = self._document()
        if document is None:
            return _html(render_page(None))
        fields = _fields(query)
        wanted = _filter(fields)
        listing = None
        with contextlib.suppress(TimeoutError):
            listing = self._publisher.ask_partitions(wanted).result(LISTING_WITHIN_S)
        shown = Overview(
            status=document,
            listing=listing,
            wanted=wanted,
            ended=self._publisher.timelines.summaries(),
            is_still=bool(fields.get("still")),
            is_steerable=self._form is not None,
            reports=self._newest_reports(),
        )
        return _html(render_page(shown))

    def history(self, query: str) -> Response:
        """Return the page about one request."""
        request = _fields(query).get("request", "")
        timeline = self._publisher.timelines.of(request)
        page = render_history(request, timeline, self._wall(), self._newest_reports())
        return _html(page, HTTPStatus.NOT_FOUND if timeline is None else HTTPStatus.OK)

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
        return {
            **snapshot.status,
            "ready": unready is None,
            "unready_because": unready,
            "zookeeper": self._health.session.value,
        }


def _fields(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


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


def is_number(words: str) -> bool:
    """Return whether the text is a short non-negative integer."""
    return words.isascii() and words.isdigit() and len(words) < DIGITS_MAX


def _form(query: str) -> Response:
    fields = _fields(query)
    action = fields.get("action", "")
    if action not in ACTIONS:
        return text(HTTPStatus.NOT_FOUND, f"there are {' '.join(ACTIONS)}")
    return _html(render_form(action, fields.get("request", "")))


def _json(document: Mapping[str, Any]) -> Response:
    body = json.dumps(document, indent=1).encode()
    return Response(HTTPStatus.OK, "application/json", body + b"\n")


def _probe(reason: str | None) -> Response:
    if reason is None:
        return text(HTTPStatus.OK, "ok")
    return text(HTTPStatus.SERVICE_UNAVAILABLE, reason)
