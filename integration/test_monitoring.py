"""Dashboards and rules on a real Prometheus that scrapes real daemons while partitions move."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import Daemons, await_end, fill, plan_of
from integration.rigs.prometheus import PROGRAM, Prometheus
from integration.rigs.waiting import eventually
from tests.deploy.dashboards import DASHBOARDS, queries
from tests.deploy.exported import FOREIGN, exported, filled_in, selectors

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed")

QUIET: Final = frozenset(
    {
        "reassigner_notifications_total",
        "reassigner_order_seconds_bucket",
        "reassigner_orders_total",
        "reassigner_broker_governed_bytes_per_second",
        "reassigner_broker_latency_seconds",
        "reassigner_governed_partitions_in_flight",
        "reassigner_latency_objective_seconds",
        "reassigner_objective_missed_seconds_total",
        "reassigner_rpc_errors_total",
        "reassigner_stalled_partitions",
        "reassigner_write_rejections_total",
    }
)
"""Series that are above zero, or there, only under another engine, or where all is not well."""


@pytest.fixture
def watched(daemons: Daemons, tmp_path: Path) -> Iterator[tuple[Daemon, Prometheus]]:
    """Give a daemon that asks for sizes often, its standby, and who scrapes both."""
    timing = ("--copy-refresh", "1", "--size-refresh", "2", "--tenure-linger", "1")
    # The others wait: some are blocked for a while.
    options = (*timing, "--max-partitions-in-flight", "2")
    leader = daemons.start(*options)
    standby = daemons.start(*options)
    prometheus = Prometheus(tmp_path / "prometheus", [leader, standby])
    prometheus.start()
    yield leader, prometheus
    prometheus.stop()
    prometheus.port.close()


def test_every_panel_shows_something_while_partitions_move(
    cluster: Cluster,
    make_topic: MakeTopic,
    watched: tuple[Daemon, Prometheus],
    tmp_path: Path,
) -> None:
    """
    A throttled move with a refused entry: each query of each dashboard had an answer at some time.

    And every rule could be evaluated, without an alert but the one about the refusal.
    """
    daemon, prometheus = watched
    partitions = range(4)
    topic = make_topic(dict.fromkeys(partitions, (1, 2, 3)), {"min.insync.replicas": "2"})
    fill(cluster, [(topic, n) for n in partitions])
    targets = {(topic, n): (3, 4, 5) for n in partitions}
    since = time.time()
    connect = ("--zookeeper", cluster.zookeeper_connect)
    assert run_reassigner("throttle", "2MB", *connect).code == 0
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of(targets | {("no-such-topic", 0): (1, 2, 3)})))
    said = run_reassigner("execute", str(plan), *connect)
    assert said.code == 3, said.stdout
    live = _live_series(daemon)
    await_end(cluster, targets, within_s=240)
    eventually(lambda: prometheus.value("sum(increase(reassigner_ended_total[5m]))"), within_s=20)
    until = time.time()

    assert set(exported()) - live == set()
    for name in DASHBOARDS:
        for query in map(filled_in, queries(name)):
            series = {series for series, _ in selectors(query)}
            assert series - live - FOREIGN == set(), query
            if not series & QUIET:
                assert prometheus.was_seen(query, since, until), f"{name}: {query}"
            else:
                prometheus.query("query", query=query)
    rules = [rule for group in prometheus.query("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    alerts = prometheus.query("alerts")["alerts"]
    firing = {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}
    assert firing == {"ReassignerRefused"}


def _live_series(daemon: Daemon) -> set[str]:
    """Return the names of what a daemon exports, of histograms every part."""
    code, text = daemon.get("/metrics")
    assert code == 200
    names: set[str] = set()
    for family in text_string_to_metric_families(text):
        match family.type:
            case "counter":
                names.add(f"{family.name}_total")
            case "histogram":
                names |= {f"{family.name}{part}" for part in ("_bucket", "_sum", "_count")}
            case "info":
                names.add(f"{family.name}_info")
            case _:
                names.add(family.name)
    return names
