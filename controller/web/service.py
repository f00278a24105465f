"""
The HTTP server of the daemon, built from the settings: its certificate, tokens, pages and forms.

Changes nothing by itself; the server answers after ``start``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from controller.core.cluster.model import is_loopback
from controller.errors import InvalidInputError
from controller.reactor.ports import Clock
from controller.server_tls import ServerTls
from controller.settings import Settings
from controller.telemetry.metrics import Metrics
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.access import Access
from controller.web.control_form import Attempt, ControlForm
from controller.web.page_plans import PagePlans
from controller.web.plan_form import PlanForm
from controller.web.probes import Health
from controller.web.report_index import ReportIndex
from controller.web.routes import Routes
from controller.web.server import HttpServer
from controller.web.steering import Steering, connection_of
from controller.web.tokens import Tokens

_log = structlog.stdlib.get_logger(__name__)


def build_http(  # noqa: PLR0913 - what it answers from
    settings: Settings,
    *,
    metrics: Metrics,
    publisher: StatusPublisher,
    health: Health,
    clock: Clock,
    wall: Callable[[], datetime],
    audit: Callable[[Mapping[str, Any]], None],
) -> HttpServer:
    """
    Return the server, bound to its address.

    Args:
        settings: What the operator configured.
        metrics: What ``/metrics`` exports.
        publisher: Has the newest snapshot, and passes questions to the loop.
        health: The answers of the probes.
        clock: Measures sessions and drafts.
        wall: The time of day, in UTC.
        audit: Called with the fields of every attempt to act.

    Raises:
        InvalidInputError: the address is not protected, not free, or a file is invalid.

    """
    check_exposure(settings)
    access = _access(settings, clock)
    form = None
    if access is not None:
        connect = partial(connection_of, settings)
        plans = PlanForm(PagePlans(settings, connect, lambda: _status_of(publisher)), clock)
        form = ControlForm(access, Steering(connect), plans, lambda attempt: _audit(attempt, audit))
    routes = Routes(
        metrics=metrics,
        publisher=publisher,
        health=health,
        wall=wall,
        access=access,
        form=form,
        reports=None if settings.reports_dir is None else ReportIndex(settings.reports_dir),
    )
    return HttpServer(settings.http, routes, names=_names(settings), tls=_tls(settings))


def check_exposure(settings: Settings) -> None:
    """
    Check that the HTTP server is protected where other machines can connect to it.

    Raises:
        InvalidInputError: TLS or tokens are missing, and ``insecure_http`` is not set.

    """
    if settings.insecure_http or is_loopback(settings.http.host):
        return
    missing = [] if settings.http_tls_certfile else ["http_tls_certfile and http_tls_keyfile"]
    if settings.http_tokens is None and settings.http_token is None:
        missing.append("http_tokens")
    if missing:
        raise InvalidInputError(
            f"http: other machines can connect to {settings.http}: set {' and '.join(missing)}, "
            "or insecure_http if the network is trusted"
        )


def _names(settings: Settings) -> frozenset[str]:
    """Return the registered names under which clients may address the server."""
    names = set((settings.http_hosts or "").split(","))
    if settings.http_advertise is not None:
        names.add(settings.http_advertise.host.lower())
    return frozenset(names - {""})


def _tls(settings: Settings) -> ServerTls | None:
    """Return the certificate of the server; None without one."""
    if settings.http_tls_certfile is None or settings.http_tls_keyfile is None:
        return None

    def problem(why: str) -> None:
        _log.warning("http_certificate_invalid", error=why)

    return ServerTls("http_tls", settings.http_tls_certfile, settings.http_tls_keyfile, problem)


def _access(settings: Settings, clock: Clock) -> Access | None:
    """Return the check of tokens; None without configured tokens."""
    if settings.http_tokens is None and settings.http_token is None:
        return None

    def problem(why: str) -> None:
        _log.warning("http_tokens_invalid", error=why)

    return Access(
        Tokens(settings.http_tokens, settings.http_token, problem),
        clock,
        cookie=f"reassigner-{settings.http.port}",
        is_tls=settings.http_tls_certfile is not None,
    )


def _status_of(publisher: StatusPublisher) -> Mapping[str, Any] | None:
    """Return the status of this daemon if it leads."""
    latest = publisher.latest
    return None if latest is None or latest.status["role"] != "leader" else latest.status


def _audit(attempt: Attempt, audit: Callable[[Mapping[str, Any]], None]) -> None:
    """Log and record an attempt; an empty request or name is null."""
    fields = {**attempt._asdict(), "request": attempt.request or None, "by": attempt.by or None}
    _log.info("steered", **fields)
    audit(fields)
