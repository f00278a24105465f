"""
A blocked partition reports its reason, since when, and the end of the wait.

Each test takes away what a step needs, on real brokers, and reads the reason where operators read
it: the status, the log, the metrics. Then it gives back what was taken, and the plan ends.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.operator_actions import said
from integration.rigs.plans import Daemons, await_end, await_tenure, copies_held, plan_of, submit
from integration.rigs.plans_under_load import removing
from integration.rigs.running_daemons import strike
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

STALLED_S = 2
_LONG_COPY = 20
"""Records that a held copy consists of: it takes as long as the commands that are run meanwhile."""


def start(daemons: Daemons, *options: str) -> Daemon:
    """Start a daemon with ``stalled_after`` of two seconds."""
    daemon = daemons.start("--tenure", "permanent", "--stalled-after", str(STALLED_S), *options)
    await_tenure(daemon)
    return daemon


def waits(daemon: Daemon, topic: str, partition: int = 0) -> dict[str, Any] | None:
    """Return what a partition waits for, as the status says it."""
    status = daemon.status()
    for row in (*status["in_flight"], *status["waiting"]):
        if (row["topic"], row["partition"]) == (topic, partition):
            blocked = row["blocked_on"]
            assert blocked is None or isinstance(blocked, dict)
            return blocked
    return None


def await_wait(
    daemon: Daemon, topic: str, by: str, partition: int = 0, *, within_s: float = 40
) -> dict[str, Any]:
    """Wait until the status says that a partition waits for this."""

    def found() -> dict[str, Any] | None:
        blocked = waits(daemon, topic, partition)
        return blocked if blocked is not None and blocked["by"] == by else None

    blocked = eventually(
        found,
        within_s=within_s,
        what=lambda: f"{topic}-{partition} waits for {by}: {waits(daemon, topic, partition)}",
    )
    assert blocked is not None
    return blocked


def await_copying(daemon: Daemon, topic: str, partition: int = 0) -> None:
    """Wait until a partition copies; that is its state, and nothing that it waits for."""

    def state() -> tuple[str, object]:
        found = (p for p in daemon.status()["in_flight"] if p["topic"] == topic)
        row = next((p for p in found if p["partition"] == partition), None)
        return ("", None) if row is None else (row["state"], row["blocked_on"])

    eventually(
        lambda: state() == ("copying", None),
        within_s=40,
        what=lambda: f"{topic}-{partition} copies: {state()}",
    )
    assert "replica_not_in_isr" not in daemon.status()["blocked"]


def await_metric(daemon: Daemon, name: str, reason: str, value: int) -> None:
    """Wait until a metric has a value for a reason."""
    line = f'reassigner_{name}{{reason="{reason}"}} {float(value)}'
    eventually(lambda: line in daemon.get("/metrics")[1], within_s=20, what=line)


def lines(daemon: Daemon, event: str, reason: str) -> list[dict[str, Any]]:
    """Return the log's lines of an event about a reason."""
    parsed = (json.loads(x) for x in daemon.log.read_text().splitlines() if x[:1] == "{")
    return [x for x in parsed if x.get("event") == event and x.get("by") == reason]


def explained(cluster: Cluster, partition: str) -> dict[str, Any]:
    """Return what ``explain`` says of a partition."""
    result = run_reassigner(
        "explain", partition, "--zookeeper", cluster.zookeeper_connect, "--json"
    )
    assert result.code == 0, result.stdout
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def test_partitions_behind_a_full_limit_are_blocked_and_not_stalled(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """One is in flight, the other waits for it: it is blocked but never stalled."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets = {(topic, 0): (1, 3), (topic, 1): (1, 4)}
    daemon = start(daemons, "--max-partitions-in-flight", "1")
    with copies_held(cluster, targets):
        submit(cluster, plan_of(targets))
        await_copying(daemon, topic, 0)
        blocked = await_wait(daemon, topic, "limit", 1)
        assert blocked["detail"] == "1 partition is in flight"
        assert datetime.fromisoformat(blocked["since"]).tzinfo is not None
        await_metric(daemon, "blocked_partitions", "limit", 1)
        await_metric(daemon, "stalled_partitions", "replica_not_in_isr", 1)
        await_metric(daemon, "stalled_partitions", "limit", 0)
        line = lines(daemon, "blocked", "limit")[0]
        assert line["partitions"] == 1
        assert line["sample"][0].startswith(f"{topic}-1: 1 partition is in flight since ")
        document = explained(cluster, f"{topic}-1")
        assert document["blocked_on"]["by"] == "limit"
        assert document["steps_to_come"] == [
            {"target": [1, 2, 4], "adding": [4], "dropping": []},
            {"target": [1, 4], "adding": [], "dropping": [2]},
        ]
        daemon.kill()
        alone = explained(cluster, f"{topic}-0")
        assert alone["daemon"] is None
        assert alone["daemon_problem"]
        assert (alone["standing"], alone["adding_replicas"]) == ("moving", [3])
        daemon.start()
    await_end(cluster, targets, within_s=60)
    await_metric(daemon, "blocked_partitions", "limit", 0)


def judge_reported(cluster: Cluster, daemon: Daemon, topic: str, partition: int, by: str) -> None:
    """See that status, ``explain``, the log and the metrics give one reason for a partition."""
    document = await_wait(daemon, topic, by, partition)
    assert datetime.fromisoformat(document["since"]).tzinfo is not None
    assert explained(cluster, f"{topic}-{partition}")["blocked_on"] == document
    await_metric(daemon, "blocked_partitions", by, 1)
    logged = eventually(lambda: lines(daemon, "blocked", by), within_s=20, what=f"{by} is logged")
    assert logged[-1]["sample"][0].startswith(f"{topic}-{partition}: {document['detail']} since ")


@pytest.mark.usefixtures("nothing_turned")
def test_every_reason_is_shown_in_status_explain_log_and_metric(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A dead broker, the limit, the kill switch: each with words and instant; a copy is no wait."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    targets = {(topic, 0): (1, 3), (topic, 1): (1, 4), (topic, 2): (1, 5)}
    daemon = start(daemons, "--max-partitions-in-flight", "2")
    with copies_held(cluster, targets, records=_LONG_COPY):
        submit(cluster, plan_of(targets))
        await_copying(daemon, topic, 1)
        judge_reported(cluster, daemon, topic, 2, "limit")
        strike(cluster, 4)
        judge_reported(cluster, daemon, topic, 1, "broker_dead")
        await_copying(daemon, topic, 0)
        assert explained(cluster, f"{topic}-0")["state"] == "copying"
        assert "reassigner_copying_partitions 1.0" in daemon.get("/metrics")[1]
        said(cluster, "disable", "--reason", "incident 42")
        judge_reported(cluster, daemon, topic, 2, "kill_switch")
        await_metric(daemon, "stalled_partitions", "kill_switch", 0)
        await_metric(daemon, "blocked_partitions", "limit", 0)
        cluster.start_brokers(4)
        said(cluster, "enable")
    await_end(cluster, targets, within_s=90)
    assert lines(daemon, "blocked", "replica_not_in_isr") == []
    for by in ("replica_not_in_isr", "broker_dead", "limit", "kill_switch"):
        await_metric(daemon, "blocked_partitions", by, 0)


def test_a_drop_that_would_leave_too_few_in_sync_waits_with_its_reason(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The dropped replica is dead when a source dies: the drop waits until that source is back."""
    topic = make_topic({0: (1, 2, 3)}, {"min.insync.replicas": "3"})
    targets = {(topic, 0): (3, 4, 5)}
    daemon = start(daemons, "--step-size", "1", "--under-min-isr", "ignore")
    with copies_held(cluster, targets, records=_LONG_COPY) as release:
        strike(cluster, 2)
        eventually(lambda: cluster.isr(topic, 0) == {1, 3}, within_s=30)
        submit(cluster, plan_of(targets))
        await_copying(daemon, topic)
        assert removing(cluster, topic) == {0: [2]}
        strike(cluster, 1)
        eventually(lambda: cluster.isr(topic, 0) == {3}, within_s=30)
        release()
        judge_reported(cluster, daemon, topic, 0, "min_insync_replicas")
        assert cluster.isr(topic, 0) == {3, 4}
        assert removing(cluster, topic) == {0: [2]}
        cluster.start_brokers(1, 2)
    await_end(cluster, targets, within_s=90)


def test_a_dead_target_is_named(cluster: Cluster, make_topic: MakeTopic, daemons: Daemons) -> None:
    """It dies while it copies; the step waits for it, stalls, and continues when it is back."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (1, 4)}
    daemon = start(daemons)
    with copies_held(cluster, targets):
        submit(cluster, plan_of(targets))
        await_copying(daemon, topic)
        cluster.brokers[4].kill()
        assert await_wait(daemon, topic, "broker_dead")["detail"] == "broker 4 is not live"
        await_metric(daemon, "stalled_partitions", "broker_dead", 1)
        eventually(lambda: lines(daemon, "blocked", "broker_dead"), within_s=20)
        cluster.start_brokers(4)
    await_end(cluster, targets, within_s=60)
    eventually(lambda: lines(daemon, "unblocked", "broker_dead"), within_s=20)
    assert daemon.status()["stalled"] == {}


def test_a_dead_leader_is_named(cluster: Cluster, make_topic: MakeTopic, daemons: Daemons) -> None:
    """The only replica is gone: nothing can be copied before its broker is back."""
    topic = make_topic({0: (2,)})
    targets = {(topic, 0): (3,)}
    daemon = start(daemons)
    cluster.brokers[2].kill()
    eventually(lambda: cluster.leader(topic, 0) is None, within_s=20)
    submit(cluster, plan_of(targets))
    blocked = await_wait(daemon, topic, "no_leader")
    assert blocked["detail"] == "it has no leader: no member of its ISR (2) is live"
    await_metric(daemon, "blocked_partitions", "no_leader", 1)
    await_metric(daemon, "stalled_partitions", "no_leader", 1)
    assert lines(daemon, "stalled", "no_leader")[0]["topic"] == topic
    cluster.start_brokers(2)
    await_end(cluster, targets, within_s=60)
    eventually(lambda: lines(daemon, "goes_on", "no_leader"), within_s=20)


def test_settings_that_may_not_be_read_are_reported_with_the_brokers_reason(tmp_path: Path) -> None:
    """An ACL forbids it: nothing begins before an operator takes that away."""
    options = ClusterOptions(
        brokers=3,
        broker=BrokerOptions(
            extra={
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "allow.everyone.if.no.acl.found": "true",
            }
        ),
    )
    with Cluster.running(options) as cluster:
        cluster.create_topic("closed", {0: (1, 2)})
        forbid = _acl(AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
        allow = _acl(AclOperation.ALL, AclPermissionType.ALLOW)
        for future in cluster.admin.create_acls([allow, forbid]).values():
            future.result(timeout=30)
        daemons = Daemons(cluster, tmp_path)
        try:
            daemon = start(daemons)
            targets = {("closed", 0): (1, 3)}
            submit(cluster, plan_of(targets))
            blocked = eventually(
                lambda: (
                    found
                    if (found := waits(daemon, "closed")) and "error 29" in found["detail"]
                    else None
                ),
                within_s=30,
                what=lambda: f"the broker's refusal is reported: {daemon.status()}",
            )
            assert blocked is not None
            assert blocked["by"] == "config_unknown"
            assert daemon.status()["partitions"]["undecided"] == 1
            await_metric(daemon, "blocked_partitions", "config_unknown", 1)
            eventually(lambda: lines(daemon, "blocked", "config_unknown"), within_s=20)
            for deleted in cluster.admin.delete_acls([_filter()]).values():
                deleted.result(timeout=30)
            await_end(cluster, targets, within_s=60)
        finally:
            daemons.close()


def _acl(operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        "closed",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        operation,
        permission,
    )


def _filter() -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        "closed",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE_CONFIGS,
        AclPermissionType.DENY,
    )
