"""
What each path answers: ``/metrics``, the probes, ``/status``, ``/explain``, and the pages.

Knows nothing of sockets. Reads the newest snapshot, and has the loop asked about partitions; it
never touches the view. Nothing is changed here but by the forms of ``steering``, where a token is
configured.
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

from controller.telemetry.health import Health
from controller.telemetry.metrics import Metrics
from controller.telemetry.page import ACTIONS, Overview, render_form, render_history, render_page
from controller.telemetry.page_actions import Actions
from controller.telemetry.partition_filter import Filter
from controller.telemetry.report_index import IndexedReport, ReportIndex
from controller.telemetry.status_publisher import StatusPublisher
from controller.znodes.paths import parse_topic_partition

ANSWER_WITHIN_S: Final = 3.0
LISTING_WITHIN_S: Final = 1.5
DIGITS_MAX: Final = 10
"""The loop looks at the board at least once a second, unless a turn takes longer."""
_STARTING: Final = "the daemon is starting"
READ_ONLY: Final = "only GET and HEAD"
_ASKED_HOW: Final = "ask for /explain?partition=TOPIC-NUMBER"
REPORTS: Final = "/reports/"
HTML: Final = "text/html; charset=utf-8"
METRICS_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers."""

    status: HTTPStatus
    content_type: str
    body: bytes
    location: str = ""


def text(status: HTTPStatus, words: str) -> Answer:
    """Return a plain answer."""
    return Answer(status, "text/plain; charset=utf-8", f"{words}\n".encode())


class Routes:
    """The answer of each path; knows nothing of sockets."""

    def __init__(  # noqa: PLR0913 - what there is to answer from
        self,
        *,
        metrics: Metrics,
        board: StatusPublisher,
        health: Health,
        wall: Callable[[], datetime],
        desk: Actions | None = None,
        shelf: ReportIndex | None = None,
    ) -> None:
        """
        Answer from these.

        Args:
            metrics: What ``/metrics`` exports.
            board: The newest snapshot, and the loop's ear.
            health: What the probes say.
            wall: The time of day, in UTC.
            desk: Takes forms; None: nothing can be changed here.
            shelf: Reports of past work; None: none are shown.

        """
        self._metrics = metrics
        self._board = board
        self._health = health
        self._wall = wall
        self._desk = desk
        self._shelf = shelf
        self._asked: Mapping[str, Callable[[str], Answer]] = {
            "/": self.page,
            "/explain": self.explain,
            "/history": self.history,
        }
        self._paths: Mapping[str, Callable[[], Answer]] = {
            "/": lambda: self.page(""),
            "/status": self.status,
            "/explain": lambda: text(HTTPStatus.BAD_REQUEST, _ASKED_HOW),
            "/metrics": self.metrics,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
        }

    def answer(self, path: str) -> Answer:
        """Return the answer of a path, whatever follows its question mark."""
        name, _, query = path.partition("?")
        asked = self._asked.get(name)
        if asked is not None and query:
            return asked(query)
        if name == "/control" and self._desk is not None:
            return _form(query)
        if name.startswith(REPORTS) and self._shelf is not None:
            return self.report(name.removeprefix(REPORTS))
        found = self._paths.get(name)
        if found is None:
            return text(HTTPStatus.NOT_FOUND, f"not found; there are {' '.join(self._paths)}")
        return found()

    def post(self, path: str, headers: Mapping[str, str], body: bytes, client: str) -> Answer:
        """Return the answer to a form."""
        if self._desk is None or path != "/control":
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY)
        verdict = self._desk.take(headers, body, client)
        return Answer(verdict.status, HTML, verdict.html.encode(), verdict.location)

    @property
    def takes_forms(self) -> bool:
        """Whether anything can be changed here."""
        return self._desk is not None

    def explain(self, query: str) -> Answer:
        """What the daemon knows of one partition."""
        named = parse_qs(query).get("partition", [""])[0]
        partition = parse_topic_partition(named)
        if partition is None:
            return text(HTTPStatus.BAD_REQUEST, _ASKED_HOW)
        if self._board.latest is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        try:
            document = self._board.ask(partition).result(ANSWER_WITHIN_S)
        except TimeoutError:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "the loop is busy; ask again")
        return _json(document)

    def healthz(self) -> Answer:
        """Whether the process is alive."""
        return _probe(self._health.why_dead())

    def readyz(self) -> Answer:
        """Whether it could do its work."""
        return _probe(self._why_unready())

    def metrics(self) -> Answer:
        """Prometheus' text format."""
        self._metrics.session_is(self._health.session)
        return Answer(HTTPStatus.OK, METRICS_TYPE, self._metrics.exposition())

    def status(self) -> Answer:
        """The status document."""
        document = self._document()
        if document is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        return _json(document)

    def page(self, query: str) -> Answer:
        """The same for people, with the partitions that the query selects."""
        document = self._document()
        if document is None:
            return Answer(HTTPStatus.OK, HTML, render_page(None).encode())
        fields = _fields(query)
        wanted = _filter(fields)
        listing = None
        with contextlib.suppress(TimeoutError):
            listing = self._board.ask_partitions(wanted).result(LISTING_WITHIN_S)
        shown = Overview(
            status=document,
            listing=listing,
            wanted=wanted,
            ended=self._board.timelines.summaries(),
            is_still=bool(fields.get("still")),
            is_steerable=self._desk is not None,
            reports=self._reports(),
        )
        return Answer(HTTPStatus.OK, HTML, render_page(shown).encode())

    def history(self, query: str) -> Answer:
        """What is kept of one request."""
        request = _fields(query).get("request", "")
        found = self._board.timelines.of(request)
        status = HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK
        shown = render_history(request, found, self._wall(), self._reports())
        return Answer(status, HTML, shown.encode())

    def report(self, name: str) -> Answer:
        """A report of past work, as it was written."""
        body = None if self._shelf is None else self._shelf.read(name)
        if body is None:
            return text(HTTPStatus.NOT_FOUND, "there is no such report")
        return Answer(HTTPStatus.OK, HTML, body)

    def _reports(self) -> Sequence[IndexedReport]:
        return () if self._shelf is None else self._shelf.newest()

    def _why_unready(self) -> str | None:
        """Before its first turn a daemon has nothing to show, whatever its session says."""
        reason = self._health.why_unready()
        if reason is None and self._board.latest is None:
            return _STARTING
        return reason

    def _document(self) -> Mapping[str, Any] | None:
        snapshot = self._board.latest
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
    """Read what is wanted; what is no number selects nothing in particular."""
    broker, page = fields.get("broker", ""), fields.get("page", "")
    return Filter(
        topic=fields.get("topic", "").strip(),
        request=fields.get("request", "").strip(),
        phase=fields.get("phase", ""),
        broker=int(broker) if is_number(broker) else None,
        page=int(page) if is_number(page) else 1,
    )


def is_number(words: str) -> bool:
    """Whether it is a number that nobody would mind."""
    return words.isascii() and words.isdigit() and len(words) < DIGITS_MAX


def _form(query: str) -> Answer:
    fields = _fields(query)
    action = fields.get("action", "")
    if action not in ACTIONS:
        return text(HTTPStatus.NOT_FOUND, f"there are {' '.join(ACTIONS)}")
    page = render_form(action, fields.get("request", ""))
    return Answer(HTTPStatus.OK, HTML, page.encode())


def _json(document: Mapping[str, Any]) -> Answer:
    body = json.dumps(document, indent=1).encode()
    return Answer(HTTPStatus.OK, "application/json", body + b"\n")


def _probe(reason: str | None) -> Answer:
    if reason is None:
        return text(HTTPStatus.OK, "ok")
    return text(HTTPStatus.SERVICE_UNAVAILABLE, reason)
