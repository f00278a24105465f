"""
The HTTP server: which requests are answered, within limits of time and number; how it is built.

Each request has a deadline for all that the client sends and reads. Where connections are too
many, others are closed, so that a probe, which arrives in one packet, is always answered. Probes
are answered on the server's thread. Pages are made on threads; their number at a time has a limit
of its own. Errors are logged here and answered with a plain status. See ``docs/decisions/0030``.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import h11
import structlog

from controller.async_server import AsyncServer
from controller.core.cluster.model import is_loopback
from controller.credentials import ServerTls
from controller.errors import InvalidInputError
from controller.reactor.ports import Clock
from controller.setting_values import HttpAddress
from controller.settings import Settings
from controller.telemetry.metrics import Metrics
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.access import Access, Tokens
from controller.web.broker_survey import BrokerSurvey
from controller.web.forms import READ_ONLY, Attempt, ControlForm, PlanForm
from controller.web.http_connections import HttpConnection
from controller.web.http_messages import HttpRequest, Response, is_number, text
from controller.web.page_plans import PagePlans
from controller.web.report_index import ReportIndex
from controller.web.routes import Health, Routes
from controller.web.steering import CONNECT_S, Steering
from controller.zk.operator_client import OperatorClient

REQUEST_S: Final = 10.0
"""Time for a client to send a request and to read the response, in all."""
CONNECTIONS_MAX: Final = 64
"""One more closes one that had no answer yet, if there is any, of the client that has the most."""
CLIENT_CONNECTIONS_MAX: Final = 24
"""For one client address; one more closes one of its own."""
PAGES_MAX: Final = 32
"""Responses made at a time, probes not counted."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
ANY_HOST: Final = frozenset({"/metrics"})
"""Served under any name: Prometheus addresses its targets as its configuration names them."""
LOCAL_NAMES: Final = (".localhost", ".local", ".internal", ".svc", ".home.arpa")
"""Suffixes that cannot be registered as domains."""
ANY_NAME: Final = "*"
UNKNOWN_NAME: Final = "this server does not go by that name; add it to the setting http_hosts"

_log: Final = structlog.stdlib.get_logger(__name__)


class HttpServer(AsyncServer[HttpConnection]):
    """
    Serves the routes on a thread of its own, from ``start`` on; ``tls`` None: plain HTTP.

    ``names`` are registered names of this server, in lower case, besides the machine's own.
    """

    def __init__(
        self,
        address: HttpAddress,
        routes: Routes,
        *,
        names: Collection[str] = (),
        tls: ServerTls | None = None,
    ) -> None:
        super().__init__(
            "http", "http", address, HttpConnection, CONNECTIONS_MAX, CLIENT_CONNECTIONS_MAX
        )
        self._routes = routes
        self._names = {address.host.lower(), *names}
        self._tls = tls
        self._making = 0

    def _report_failure(self, message: str, error: BaseException | None) -> None:
        _log.error("http_failed", error=message, exc_info=error)

    async def _serve(self, connection: HttpConnection) -> None:
        # Whatever a client did wrong, or that it is gone, only ends its connection.
        with suppress(OSError, TimeoutError, h11.ProtocolError):
            if self._tls is not None:
                await connection.start_tls(self._tls.context(), REQUEST_S)
            while True:
                async with asyncio.timeout(REQUEST_S) as limit:
                    if not await self._exchange(connection, limit):
                        return

    async def _exchange(self, connection: HttpConnection, limit: asyncio.Timeout) -> bool:
        """Answer a request; return whether another one may follow."""
        try:
            request = await connection.next_request()
        except h11.RemoteProtocolError as error:
            response = text(HTTPStatus(error.error_status_hint), str(error))
            is_unread = True
        else:
            if request is None:
                return False
            connection.note_use()
            response, is_unread = await self._answer(connection, request, limit)
        await connection.respond(response, is_last=is_unread or connection.method == "POST")
        if not is_unread:
            connection.was_served = True
            connection.note_use()
            if connection.may_continue:
                return True
        await connection.discard()
        return False

    async def _answer(
        self, connection: HttpConnection, request: HttpRequest, limit: asyncio.Timeout
    ) -> tuple[Response, bool]:
        """Return the response to a request, and whether a body was left unread."""
        routes = self._routes
        if connection.method in {"GET", "HEAD"}:
            await connection.body()
            if request.name in PROBES:
                return routes.answer(request), False
            return await self._make(connection, limit, request, routes.answer), False
        if connection.method != "POST" or not routes.takes_forms:
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY, Allow="GET, HEAD"), True
        length, most = request.headers.get("content-length", ""), routes.body_max(request)
        if not is_number(length) or int(length) > most:
            return text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes"), True
        request = replace(request, body=await connection.body())
        return await self._make(connection, limit, request, routes.post), False

    async def _make(
        self,
        connection: HttpConnection,
        limit: asyncio.Timeout,
        request: HttpRequest,
        make: Callable[[HttpRequest], Response],
    ) -> Response:
        """Make a response, if not too many are being made; the time for it is not the client's."""
        if self._making >= PAGES_MAX:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; ask again")

        loop = asyncio.get_running_loop()
        done: asyncio.Future[Response] = loop.create_future()

        def on_thread() -> None:
            response = self._page(request, make)
            self.post(lambda: None if done.done() else done.set_result(response))

        left_s = (limit.when() or loop.time()) - loop.time()
        limit.reschedule(None)
        self._making += 1
        connection.is_served = True
        try:
            # Not of a pool, whose threads the end of the process would wait for.
            threading.Thread(target=on_thread, name="http-page", daemon=True).start()
            return await done
        finally:
            connection.is_served = False
            self._making -= 1
            limit.reschedule(loop.time() + left_s)

    def _page(self, request: HttpRequest, make: Callable[[HttpRequest], Response]) -> Response:
        """Return the response to a request if its ``Host`` header is accepted."""
        host = request.headers.get("host")
        if request.name not in ANY_HOST and not is_addressed(host, self._names):
            return text(HTTPStatus.MISDIRECTED_REQUEST, UNKNOWN_NAME)
        try:
            return make(request)
        except Exception:  # noqa: BLE001 - a defect ends one request
            _log.exception("http_failed", client=request.client)
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, "a defect; see the log of the daemon")


def is_addressed(host: str | None, names: Collection[str]) -> bool:
    """
    Return whether a ``Host`` header may name this server.

    A web site can point a name of its own at our address, and its pages may then read our responses
    (DNS rebinding). It cannot do so with an address, nor with a name outside registered domains.
    Browsers always send the header.
    """
    if host is None or ANY_NAME in names:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    with suppress(ValueError):
        return bool(ip_address(name))
    if name and ("." not in name or name.endswith(LOCAL_NAMES)):
        return True
    return name in names or name in _machine()


@cache
def _machine() -> frozenset[str]:
    """Return this machine's names; the lookup may take long and is made once, when needed."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


# --- from the settings ---------------------------------------------------------------------------


def build_http(  # noqa: PLR0913 - what it answers from
    settings: Settings,
    *,
    metrics: Metrics,
    publisher: StatusPublisher,
    health: Health,
    clock: Clock,
    wall: Callable[[], datetime],
    audit: Callable[[Mapping[str, Any]], None],
    survey: BrokerSurvey | None = None,
) -> HttpServer:
    """
    Return the server of these settings, bound to its address.

    ``audit`` is called with the fields of every attempt to act.

    Raises:
        InvalidInputError: the address is not protected, not free, or a file is invalid.

    """
    check_exposure(settings)
    access = _access(settings, clock)
    form = None
    if access is not None:
        connect = partial(OperatorClient, settings, connect_s=CONNECT_S)
        status = partial(_status_of, publisher)
        plans = PlanForm(PagePlans(settings, connect, status), clock)
        steering = Steering(connect, status=status)
        form = ControlForm(access, steering, plans, lambda attempt: _audit(attempt, audit))
    routes = Routes(
        metrics=metrics,
        publisher=publisher,
        health=health,
        wall=wall,
        access=access,
        form=form,
        survey=survey,
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
    if settings.http_tls_certfile is None or settings.http_tls_keyfile is None:
        return None
    report = partial(_report, "http_certificate_invalid")
    return ServerTls("http_tls", settings.http_tls_certfile, settings.http_tls_keyfile, report)


def _access(settings: Settings, clock: Clock) -> Access | None:
    if settings.http_tokens is None and settings.http_token is None:
        return None
    report = partial(_report, "http_tokens_invalid")
    return Access(
        Tokens(settings.http_tokens, settings.http_token, report),
        clock,
        cookie=f"reassigner-{settings.http.port}",
        is_tls=settings.http_tls_certfile is not None,
    )


def _report(event: str, why: str) -> None:
    _log.warning(event, error=why)


def _status_of(publisher: StatusPublisher) -> Mapping[str, Any] | None:
    latest = publisher.latest
    return None if latest is None or latest.status["role"] != "leader" else latest.status


def _audit(attempt: Attempt, audit: Callable[[Mapping[str, Any]], None]) -> None:
    """Log and record an attempt; an empty request or name is null."""
    fields = {**attempt._asdict(), "request": attempt.request or None, "by": attempt.by or None}
    _log.info("steered", **fields)
    audit(fields)
