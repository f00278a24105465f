"""
The composition root: the only place where adapters are built and handed to the loop.

What runs where: the loop on the main thread; ZooKeeper's reads and claims, the brokers'
connections, the topic settings, the sizes, the journal and HTTP each on threads of their own, which
only put events into the inbox. If one of them ends, the process ends, and a standby takes over.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from types import FrameType
from typing import Final

import structlog

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.brokers.configs import DescribedTopicConfigs
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import DescribedLogDirs
from controller.brokers.reassignments import ControllerOrders
from controller.clocks import MonotonicClock
from controller.core.events import BrokersRead, Event, GuardsRead
from controller.core.model import BrokerId
from controller.core.view import ClusterView
from controller.debug_boundaries import Ambush, Trap, ambush_of
from controller.errors import Verdict
from controller.reactor.boundaries import Boundaries
from controller.reactor.host import Host, WakingInbox
from controller.reactor.loop import Reactor
from controller.reactor.ports import Inbox
from controller.settings import Settings
from controller.telemetry.arrivals import TimedInbox
from controller.telemetry.boards import StatusBoard
from controller.telemetry.health import Health
from controller.telemetry.http import HttpServer, Pages
from controller.telemetry.journal import Journal
from controller.telemetry.logs import configure_logging
from controller.telemetry.metrics import Metrics, SessionState
from controller.telemetry.observer import TelemetryObserver
from controller.zk.leadership import Leadership
from controller.zk.sessions import Session, build_client
from controller.zk.store import ZkStore

CONNECT_S: Final = 10 * 365 * 86_400.0
"""A daemon waits for ZooKeeper as long as it takes, and says that it is not ready."""


class BrokerFollower:
    """An inbox that shows the brokers, and who is the controller, to those who ask them."""

    def __init__(self, inner: Inbox) -> None:
        """Wrap an inbox."""
        self._inner = inner
        self.followers: tuple[DescribedTopicConfigs | DescribedLogDirs | ControllerOrders, ...] = ()
        self.orders: ControllerOrders | None = None

    def put(self, event: Event) -> None:
        """Pass the event on."""
        if isinstance(event, BrokersRead):
            for follower in self.followers:
                follower.update_brokers(event.brokers.values())
        elif isinstance(event, GuardsRead) and self.orders is not None:
            self.orders.update_controller(event.controller_broker)
        self._inner.put(event)


def security_of(settings: Settings) -> Security:
    """Return how brokers are spoken to."""
    return Security(
        security_protocol=settings.security_protocol.value,
        ssl_cafile=None if settings.ssl_cafile is None else str(settings.ssl_cafile),
        ssl_certfile=None if settings.ssl_certfile is None else str(settings.ssl_certfile),
        ssl_keyfile=None if settings.ssl_keyfile is None else str(settings.ssl_keyfile),
        ssl_password=_secret(settings.ssl_password),
        ssl_check_hostname=settings.ssl_check_hostname,
        sasl_mechanism=None if settings.sasl_mechanism is None else settings.sasl_mechanism.value,
        sasl_plain_username=settings.sasl_username,
        sasl_plain_password=_secret(settings.sasl_password),
    )


def _secret(value: object) -> str | None:
    reveal = getattr(value, "get_secret_value", None)
    return None if reveal is None else str(reveal())


def listeners_of(settings: Settings) -> ListenerChoice:
    """Return which listener of a broker is used."""
    return ListenerChoice(
        security_protocol=settings.security_protocol.value,
        control_plane_listener=settings.control_plane_listener,
        inter_broker_listener=settings.inter_broker_listener,
    )


def run(settings: Settings) -> int:
    """
    Run the daemon until it is asked to stop.

    Returns:
        0 after a clean stop: the role was handed back.

    Raises:
        NativeRefusedError: no engine that the settings allow would be safe on this cluster.
        ControllerError: the process cannot go on.

    """
    ambush = ambush_of(os.environ)
    configure_logging(settings.log_format, settings.log_level, sys.stderr)
    quiet_kafka()
    with ExitStack() as stack:
        host = _build(settings, stack, ambush)
        host.run()
    return 0


def quiet_kafka() -> None:
    """Silence the Kafka client: it reports every lost connection, and we tell them ourselves."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _build(settings: Settings, stack: ExitStack, ambush: Ambush | None) -> Host:
    """Build everything, start what has to run, and undo it in the reverse order."""
    log = structlog.stdlib.get_logger("controller")
    clock = MonotonicClock()
    metrics, health = Metrics(), Health(clock=clock)
    journal = Journal(settings.journal_dir)
    journal.start()
    stack.callback(journal.close)
    board = StatusBoard(
        clock=clock,
        wall=_utc_now,
        engine=settings.engine.value,
        stalled_after_s=settings.stalled_after_s,
    )
    http = HttpServer(settings.http, Pages(metrics=metrics, board=board, health=health))
    stack.callback(http.close)
    http.start()
    stopping = _Signals()
    session = Session(build_client(settings), timeout_s=settings.zookeeper_session_timeout_s)
    health.watch_session(lambda: _state_of(session))
    log.info(
        "starting",
        zookeeper=settings.zookeeper,
        http=str(http.address),
        engine=settings.engine.value,
    )

    waking = WakingInbox()
    arrivals = TimedInbox(waking, clock)
    inbox = BrokerFollower(arrivals)
    leadership = Leadership(session, inbox, http=str(http.address))
    store = ZkStore(
        session,
        inbox,
        controller_id=BrokerId(settings.controller_id),
        now_ms=_now_ms,
        leadership=leadership,
    )
    # Waiting for ZooKeeper is not being stuck: alive, though not ready.
    health.watch_loop(clock.now)
    session.start(within_s=CONNECT_S)
    stack.callback(session.stop)
    stack.callback(store.stop)
    stack.callback(leadership.stop)

    security, listeners = security_of(settings), listeners_of(settings)
    channels = BrokerChannels(
        inbox,
        ChannelOptions(
            controller_id=BrokerId(settings.controller_id), security=security, listeners=listeners
        ),
    )
    configs = DescribedTopicConfigs(inbox, security, listeners)
    sizes = DescribedLogDirs(inbox, security, listeners)
    orders = ControllerOrders(inbox, security, listeners)
    inbox.followers, inbox.orders = (configs, sizes, orders), orders
    for part in (channels, configs, sizes, orders):
        part.start()
        stack.callback(part.stop)

    observer = TelemetryObserver(
        log=log,
        metrics=metrics,
        journal=journal,
        board=board,
        clock=clock,
        wall=_utc_now,
        arrivals=arrivals,
    )
    reactor = Reactor(
        view=ClusterView(settings.options()),
        store=store,
        channels=channels,
        configs=configs,
        sizes=sizes,
        reassignments=orders,
        clock=clock,
        observer=observer,
        boundaries=None if ambush is None else _trapped(ambush, log),
        lease_s=settings.zookeeper_session_timeout_s,
    )

    def threads() -> Iterator[tuple[str, bool]]:
        yield from store.threads()
        yield "broker channels", channels.is_alive
        yield "topic settings", configs.is_alive
        yield "sizes", sizes.is_alive
        yield "controller orders", orders.is_alive
        yield "journal", journal.is_alive
        yield "http", http.is_alive

    def on_error(error: BaseException, verdict: Verdict) -> None:
        log.error("loop_error", verdict=verdict.value, error=str(error), exc_info=error)

    host = Host(
        reactor=reactor,
        inbox=waking,
        clock=clock,
        on_error=on_error,
        after_turn=observer.tend,
        threads=threads,
        unix_s=time.time,
    )
    health.watch_loop(lambda: host.last_turn)
    stopping.hand_over(host)
    leadership.start()
    return host


def _trapped(ambush: Ambush, log: structlog.stdlib.BoundLogger) -> Boundaries:
    """Set the trap of the debug hook, and say so loudly."""

    def announce(sprung: Ambush) -> None:
        log.warning("debug_boundary_reached", action=sprung.action, boundary=sprung.boundary.value)

    log.warning(
        "debug_boundary_set",
        action=ambush.action,
        boundary=ambush.boundary.value,
        nth=ambush.nth,
        detail="this daemon will kill or stop itself on purpose: never in production",
    )
    return Boundaries(Trap(ambush, announce).reached)


class _Signals:
    """Turns SIGTERM and SIGINT into a request to stop; before there is a loop, into the end."""

    def __init__(self) -> None:
        self._host: Host | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._received)

    def hand_over(self, host: Host) -> None:
        """From now on the loop is asked."""
        self._host = host

    def _received(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._host is None:
            raise SystemExit(0)
        self._host.request_shutdown()


def _state_of(session: Session) -> SessionState:
    if session.is_connected:
        return SessionState.CONNECTED
    return SessionState.LOST if session.is_lost else SessionState.SUSPENDED


def _utc_now() -> datetime:
    return datetime.now(tz=UTC)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
