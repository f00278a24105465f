"""
The composition root: the only module that builds adapters and passes them to the loop.

The loop runs on the main thread. ZooKeeper's reads and claims, the connections to brokers, topic
settings, log directories, the journal and HTTP have their own threads, which only put events into
the inbox. If one of them ends, the process ends, and a standby takes over.
"""

from __future__ import annotations

import gc
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import structlog

from controller import installed_version
from controller.brokers.broker_connections import quiet_kafka
from controller.brokers.broker_follower import BrokerFollower
from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.brokers.cluster_controller import ClusterController
from controller.brokers.config_queries import TopicConfigQuery
from controller.brokers.connection_settings import connection_settings_of
from controller.brokers.latencies import MeasuredLatencies
from controller.brokers.log_dirs import BrokerLogDirs, Capacities, DiskCapacities, no_capacities
from controller.brokers.produce_probe import ProduceProbe
from controller.clocks import MonotonicClock
from controller.core.model import BrokerId
from controller.core.view import ClusterView
from controller.endpoint.listing import build_endpoint
from controller.errors import Verdict
from controller.reactor.host import Host, Signals, WakingInbox
from controller.reactor.loop import Reactor
from controller.reactor.ports import Clock, Failpoints, Inbox
from controller.setting_values import advertised_address
from controller.settings import Settings
from controller.telemetry.journal import Journal
from controller.telemetry.logs import configure_logging
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.observer import TelemetryObserver, TimedInbox
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.broker_survey import BrokerSurvey
from controller.web.http_server import HttpServer, build_http
from controller.web.notifications import Delivery, DeliveryQueue, ExecHook, Slack, Target, Webhook
from controller.web.prometheus_query import PrometheusQuery
from controller.web.routes import Health
from controller.web.steering import CONNECT_S as PAGE_CONNECT_S
from controller.zk.client_submissions import ClientSubmissions
from controller.zk.daemon_election import Leadership
from controller.zk.operator_client import OperatorClient
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.probe_topic_writes import ProbeTopicWrites
from controller.zk.sessions import Session, build_client
from controller.zk.store import ZkStore
from controller.zk.workers import Pings

CONNECT_S: Final = 10 * 365 * 86_400.0
"""Longest wait for ZooKeeper: practically unlimited, with a daemon that is not ready."""
GARBAGE_THRESHOLD: Final = 50_000
"""
Allocations between two runs of the garbage collector, by default 700.

A run visits hundreds of thousands of live objects and frees next to nothing.
"""
SWITCH_INTERVAL_S: Final = 0.0005
"""
How long a busy thread keeps the interpreter while others wait for it, by default 5 ms.

An event passes some ten threads from ZooKeeper's connection to a broker's. While one thread decodes
the responses of a hundred brokers, each of these switches would take 5 ms (benchmarks/README.md).
"""
_log: Final = structlog.stdlib.get_logger("controller")


def run(settings: Settings, failpoints: Failpoints | None = None) -> int:
    """
    Run the daemon until it is asked to stop; return 0 after a clean stop: it has resigned.

    Tests of recovery give ``failpoints``, which are called between any two writes or sends.

    Raises:
        NativeRefusedError: no engine that the settings allow is safe on this cluster.
        ControllerError: the process has to end.

    """
    lines = configure_logging(settings.log_format, settings.log_level, sys.stderr)
    quiet_kafka()
    gc.set_threshold(GARBAGE_THRESHOLD)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with ExitStack() as stack:
        stack.callback(lines.flush)
        host = _build(settings, stack, failpoints)
        host.run()
    return 0


def _build(settings: Settings, stack: ExitStack, failpoints: Failpoints | None) -> Host:
    """Build and start the parts, each after those it uses; the stack stops them in reverse."""
    clock = MonotonicClock()
    telemetry = _telemetry(settings, stack, clock)
    signals = Signals()

    waking = WakingInbox()
    arrivals = TimedInbox(waking, clock)
    inbox = BrokerFollower(arrivals)
    endpoint = build_endpoint(settings, arrivals, telemetry.metrics, inbox)
    zookeeper = _zookeeper(settings, stack, clock, inbox, telemetry)
    brokers = _brokers(settings, stack, inbox, zookeeper.session)
    telemetry.publisher.unreachable = brokers.channels.unreachable
    queries = (brokers.configs, brokers.log_dirs, brokers.reassignments)
    inbox.update_brokers = tuple(query.update_brokers for query in queries)
    inbox.update_controller = brokers.reassignments.update_controller
    latencies = _latencies(settings, stack, clock, inbox, telemetry.metrics)
    submissions = None
    if endpoint is not None and endpoint.followers:
        inbox.update_brokers = (*inbox.update_brokers, *endpoint.followers)
        submissions = ClientSubmissions(arrivals, clock, lambda: OperatorClient(settings))
        submissions.start()
        stack.callback(submissions.stop)

    observer = TelemetryObserver(
        log=_log,
        metrics=telemetry.metrics,
        journal=telemetry.journal,
        publisher=telemetry.publisher,
        clock=clock,
        wall=_utc_now,
        arrivals=arrivals,
        notifier=telemetry.notifications,
    )
    stack.callback(observer.close)
    reactor = Reactor(
        view=ClusterView(
            replace(
                settings.options(),
                id_seed=secrets.token_bytes(16),
                endpoint=None if endpoint is None else endpoint.entry,
                serves_clients=endpoint is not None and bool(endpoint.followers),
            )
        ),
        store=zookeeper.store,
        channels=brokers.channels,
        configs=brokers.configs,
        broker_settings=brokers.configs,
        log_dirs=brokers.log_dirs,
        reassignments=brokers.reassignments,
        endpoint=None if endpoint is None else endpoint.tickets,
        submissions=submissions,
        clock=clock,
        observer=observer,
        failpoints=failpoints,
        lease=zookeeper.session.lease,
        latencies=latencies,
    )

    def threads() -> Iterator[tuple[str, bool]]:
        yield from zookeeper.store.threads()
        yield "broker channels", brokers.channels.is_alive
        yield "topic settings", brokers.configs.is_alive
        yield "log directories", brokers.log_dirs.is_alive
        yield "cluster controller", brokers.reassignments.is_alive
        yield "latencies", latencies.is_alive
        yield "journal", telemetry.journal.is_alive
        yield "zookeeper pings", zookeeper.pings.is_alive
        yield "http", telemetry.http.is_alive
        yield "broker survey", telemetry.survey.is_alive
        if endpoint is not None:
            yield "controller endpoint", endpoint.server.is_alive
        if submissions is not None:
            yield "client submissions", submissions.is_alive

    def on_error(error: BaseException, verdict: Verdict) -> None:
        _log.error("loop_error", verdict=verdict.value, error=str(error), exc_info=error)

    host = Host(
        reactor=reactor,
        inbox=waking,
        clock=clock,
        on_error=on_error,
        after_cycle=observer.tend,
        threads=threads,
        unix_s=time.time,
    )
    telemetry.health.last_cycle = lambda: host.last_cycle
    signals.hand_over(host)
    if endpoint is not None:
        endpoint.start()
        stack.callback(endpoint.server.stop)
    zookeeper.leadership.start()
    return host


class _ZooKeeper(NamedTuple):
    session: Session
    store: ZkStore
    leadership: Leadership
    pings: Pings


def _zookeeper(
    settings: Settings, stack: ExitStack, clock: Clock, inbox: Inbox, telemetry: _Telemetry
) -> _ZooKeeper:
    """Connect to ZooKeeper; the daemon does not compete for leadership yet."""
    metrics, health = telemetry.metrics, telemetry.health
    session = Session(build_client(settings, clock))
    health.session = lambda: _state_of(session)
    health.awaited = lambda: session.awaited
    listening = telemetry.http.address
    http = str(advertised_address(settings.http_advertise, listening, socket.gethostname()))
    if settings.http_tls_certfile is not None:
        http = f"https://{http}"
    _log.info(
        "starting",
        zookeeper=settings.zookeeper,
        http=str(listening),
        http_advertised=http,
        engine=settings.engine.value,
    )
    _announce(settings, metrics, telemetry.journal)
    leadership = Leadership(session, inbox, http=http)
    health.leader = leadership.leader_address
    store = ZkStore(
        session,
        inbox,
        controller_id=BrokerId(settings.controller_id),
        now_ms=_now_ms,
        leadership=leadership,
        latency=metrics.zookeeper_took,
        request_bytes=settings.request_bytes,
    )
    pings = Pings(session, metrics.zookeeper_took)
    # A daemon that waits for ZooKeeper or for a cluster is alive, though not ready.
    health.last_cycle = clock.now
    session.start(within_s=CONNECT_S)
    stack.callback(session.stop)
    stack.callback(store.stop)
    stack.callback(leadership.stop)
    telemetry.publisher.cluster = name = _cluster_name(settings, session)
    metrics.page.info({"cluster_name": name, "url": http if "://" in http else f"http://{http}"})
    pings.start()
    stack.callback(pings.stop)
    return _ZooKeeper(session, store, leadership, pings)


class _Brokers(NamedTuple):
    channels: BrokerChannels
    configs: TopicConfigQuery
    log_dirs: BrokerLogDirs
    reassignments: ClusterController


def _capacities(settings: Settings) -> Capacities:
    if settings.disk_capacities is None:
        return no_capacities
    return DiskCapacities(
        settings.disk_capacities, lambda why: _log.warning("disk_capacities_invalid", error=why)
    )


def _brokers(settings: Settings, stack: ExitStack, inbox: Inbox, session: Session) -> _Brokers:
    """Start the threads that connect to brokers; nothing is connected yet."""
    connections = connection_settings_of(settings)
    options = ChannelOptions(
        controller_id=BrokerId(settings.controller_id),
        connections=connections,
        may_send=lambda: session.lease.left_s > 0,
    )
    brokers = _Brokers(
        BrokerChannels(inbox, options),
        TopicConfigQuery(inbox, connections),
        BrokerLogDirs(inbox, connections, MonotonicClock(), _capacities(settings)),
        ClusterController(inbox, connections),
    )
    for part in brokers:
        part.start()
        stack.callback(part.stop)
    return brokers


def _latencies(
    settings: Settings, stack: ExitStack, clock: Clock, inbox: BrokerFollower, metrics: Metrics
) -> MeasuredLatencies:
    """Start the thread that measures what clients see; it sleeps until that is wanted."""
    probe = query = None
    if settings.governor_probe:
        probe = ProduceProbe(
            connection_settings_of(settings),
            ProbeTopicWrites(lambda: ZooKeeperConnection(settings)).provide,
            objective_s=settings.options().latency_objective_s,
            count=metrics.count_probe_record,
        )
        inbox.update_brokers = (*inbox.update_brokers, probe.update_brokers)
    url, objective = settings.governor_query_url, settings.governor_query_objective
    if settings.governor_query is not None and url is not None and objective is not None:
        query = PrometheusQuery(url.get_secret_value(), settings.governor_query, objective, clock)
    latencies = MeasuredLatencies(inbox, clock, probe, query)
    latencies.start()
    stack.callback(latencies.stop)
    return latencies


class _Telemetry(NamedTuple):
    metrics: Metrics
    health: Health
    journal: Journal
    publisher: StatusPublisher
    http: HttpServer
    survey: BrokerSurvey
    notifications: Delivery


def _telemetry(settings: Settings, stack: ExitStack, clock: Clock) -> _Telemetry:
    """Build and start what can answer before anything is known of the cluster."""
    metrics, health = Metrics(), Health(clock=clock)
    journal = Journal(settings.journal_dir)
    journal.start()
    stack.callback(journal.close)
    publisher = StatusPublisher(
        clock=clock,
        wall=_utc_now,
        engine=settings.engine.value,
        stalled_after_s=settings.stalled_after_s,
        journal=settings.journal_dir,
    )
    publisher.journal = lambda: journal.position
    connect = partial(OperatorClient, settings, connect_s=PAGE_CONNECT_S)
    survey = BrokerSurvey(settings, connect, clock, _utc_now)
    survey.start()
    stack.callback(survey.stop)
    http = build_http(
        settings,
        metrics=metrics,
        publisher=publisher,
        health=health,
        clock=clock,
        wall=_utc_now,
        audit=lambda fields: journal.append(_utc_now(), "steered", fields),
        survey=survey,
    )
    stack.callback(http.stop)
    http.start()
    notifications = Delivery(
        tuple(DeliveryQueue(target, metrics.count_notification) for target in _targets(settings)),
        frozenset(settings.notify_on.split(",")),
    )
    stack.callback(notifications.close)
    return _Telemetry(metrics, health, journal, publisher, http, survey, notifications)


def _targets(settings: Settings) -> Iterator[Target]:
    cluster = settings.cluster_name or settings.zookeeper
    if settings.notify_webhook is not None:
        yield Webhook(settings.notify_webhook.get_secret_value(), cluster)
    if settings.notify_slack is not None:
        yield Slack(settings.notify_slack.get_secret_value(), cluster)
    if settings.notify_exec is not None:
        yield ExecHook(settings.notify_exec, cluster)


def _announce(settings: Settings, metrics: Metrics, journal: Journal) -> None:
    version, engine = installed_version(), settings.engine.value
    metrics.build.info({"version": version, "engine": engine})
    started = {
        "version": version,
        "engine": engine,
        "controller_id": settings.controller_id,
        "zookeeper": settings.zookeeper,
    }
    journal.append(_utc_now(), "daemon_started", started)


def _cluster_name(settings: Settings, session: Session) -> str:
    """Return the cluster's name for people: that of the settings, the chroot, or its id."""
    chroot = session.client.chroot.strip("/")
    return settings.cluster_name or chroot or session.cluster_id or settings.zookeeper


def _state_of(session: Session) -> SessionStatus:
    if session.is_connected:
        return SessionStatus.CONNECTED
    return SessionStatus.LOST if session.is_lost else SessionStatus.SUSPENDED


def _utc_now() -> datetime:
    return datetime.now(tz=UTC)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
