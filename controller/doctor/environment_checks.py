"""Checks of the environment: eligibility, daemons, other tools, notifications, znodes' limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.cached_znodes import Topic
from controller.core.controllership.eligibility import delegated_refusals, native_refusals
from controller.core.options import Options
from controller.core.view import ClusterView
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import KAFKA_ROOTS, LEADER

NOTIFICATIONS_MAX: Final = 100
"""More than this are a backlog: a controller deletes each within about a second."""
OPEN_ACL: Final = ("world:anyone:cdrwa",)


def eligibility(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what forbids the native engine here; the delegated engine may be possible."""
    view = ClusterView(Options(controller_id=snapshot.controller_id))
    view.cluster.brokers = dict(snapshot.znodes.brokers)
    view.session.guards = snapshot.znodes.guards
    view.session.topics = {name: Topic.of(t) for name, t in snapshot.znodes.topics.items()}
    is_delegable = not delegated_refusals(view)
    for reason in native_refusals(view):
        yield Finding(
            "native_refused",
            Severity.INFO if is_delegable else Severity.CRITICAL,
            "the cluster",
            reason,
            "the native engine is not possible here; "
            + (
                "the delegated engine is: the cluster's own controller reassigns"
                if is_delegable
                else "neither is the delegated engine"
            ),
        )


def endpoint_modes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find which modes of the controller endpoint the listeners permit, from protocol 2.7 on."""
    brokers = list(snapshot.znodes.brokers.values())
    if not any(b.has_features for b in brokers):
        return
    shared = set.intersection(*({e.listener for e in b.endpoints} for b in brokers))
    private = sorted(shared) if all(len(b.endpoints) > 1 for b in brokers) else []
    plain = {
        e.listener for e in brokers[0].endpoints if not e.security_protocol.endswith("SSL")
    } & shared
    modes = []
    if private:
        modes.append(f"private under one of {', '.join(private)} that clients do not use")
    else:
        modes.append("not private: brokers have one listener, which clients use as well")
    if plain:
        modes.append(f"public under {', '.join(sorted(plain))}")
    else:
        modes.append("not public: every common listener has TLS, or there is none")
    yield Finding(
        "endpoint_modes",
        Severity.INFO,
        "the cluster",
        "; ".join(modes),
        "set controller_endpoint to run the native engine here (docs/guide/engines.md)",
    )


def mixed_protocols(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers of different inter-broker protocols: an unfinished rolling upgrade."""
    modern = sorted(b.id for b in snapshot.znodes.brokers.values() if b.has_features)
    if modern and len(modern) < len(snapshot.znodes.brokers):
        yield Finding(
            "mixed_protocols",
            Severity.WARNING,
            "broker " + ",".join(map(str, modern)),
            "registered with features (inter-broker protocol 2.7 or later), the others without",
            "finish the rolling upgrade, or revert it",
        )


def daemons(snapshot: Snapshot) -> Iterator[Finding]:
    """Find work without a daemon, and a leading daemon that does not answer."""
    znodes = snapshot.znodes
    work = len(znodes.specs) + (0 if znodes.legacy is None else len(znodes.legacy.entries))
    if not znodes.daemons:
        yield Finding(
            "no_daemon",
            Severity.CRITICAL if work else Severity.INFO,
            LEADER,
            f"no daemon leads; {work} reassignments are recorded or planned",
            "start one with `reassigner run`",
        )
        return
    if snapshot.daemon_problem is not None:
        yield Finding(
            "silent_daemon",
            Severity.WARNING,
            znodes.daemons[0] or LEADER,
            f"the leading daemon does not answer: {snapshot.daemon_problem}",
            "examine its log; its ZooKeeper session is alive",
        )
    for reason in snapshot.daemon_refusals:
        yield Finding(
            "daemon_refused",
            Severity.CRITICAL,
            znodes.daemons[0] or LEADER,
            f"the leading daemon cannot work: {reason}",
            "where brokers refuse its requests: grant its principal ClusterAction on the cluster; "
            "it tries again every five minutes, or when it is restarted",
        )
    if len(znodes.daemons) > 1:
        addresses = ", ".join(d or "unreadable" for d in znodes.daemons)
        yield Finding(
            "several_daemons",
            Severity.INFO,
            LEADER,
            f"{len(znodes.daemons)} daemons run: {addresses}",
            "nothing to do: the first leads, the others are standbys",
        )
    shared = {d for d in znodes.daemons if d is not None and znodes.daemons.count(d) > 1}
    for address in sorted(shared):
        yield Finding(
            "shared_address",
            Severity.WARNING,
            address,
            "several daemons advertise this address",
            "set `http_advertise` of each to an address by which it can be reached",
        )


def unreachable_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find registered brokers that the daemon cannot reach while it is the controller."""
    for broker, why in sorted(snapshot.unreachable.items()):
        yield Finding(
            "unreachable_broker",
            Severity.CRITICAL,
            f"broker {broker}",
            f"it is registered, and the daemon, the present controller, cannot reach it: {why}",
            "repair the network between them, or stop one of the two: the controller's requests "
            "to the broker wait",
        )


def unguarded_disks(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers whose disks a copy could fill, as their free space is unknown."""
    for broker, why in sorted(snapshot.unguarded.items()):
        yield Finding(
            "unguarded_disks",
            Severity.WARNING,
            f"broker {broker}",
            f"its free space is unknown: {why}",
            "allow the daemon Describe on the cluster; for brokers before Kafka 3.3, give their "
            "capacities in the file disk_capacities",
        )


def notifications(snapshot: Snapshot) -> Iterator[Finding]:
    """Find directories of notifications that no controller processes."""
    for path, count in sorted(snapshot.znodes.notifications.items()):
        if count > NOTIFICATIONS_MAX:
            yield Finding(
                "notifications_pile_up",
                Severity.WARNING,
                path,
                f"{count} notifications wait to be processed",
                "check that the cluster has a controller, and examine its log",
            )


def large_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes and listings of more than half the size that ZooKeeper takes."""
    for path, size in sorted(snapshot.znodes.sizes.items()):
        if size > snapshot.jute_maxbuffer // 2:
            yield Finding(
                "large_znode",
                Severity.WARNING,
                path,
                f"{size} bytes; ZooKeeper takes {snapshot.jute_maxbuffer} at most (jute.maxbuffer)",
                "raise jute.maxbuffer on ZooKeeper servers and brokers, and here "
                "zookeeper_jute_maxbuffer, or use fewer partitions per topic",
            )


def permissions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes of the reassigner with other permissions than Kafka's."""
    acls = snapshot.znodes.acls
    kafka = next((acls[p] for p in KAFKA_ROOTS if p in acls and acls[p] != OPEN_ACL), OPEN_ACL)
    for path, acl in sorted(acls.items()):
        if path in KAFKA_ROOTS or acl == kafka:
            continue
        yield Finding(
            "different_acl",
            Severity.WARNING,
            path,
            f"permissions {' '.join(acl)}; Kafka's own znodes have {' '.join(kafka)}",
            "set the same permissions, or authenticate the daemon as the brokers do",
        )


CRUISE_CONTROL_TOPICS: Final = (
    "__CruiseControlMetrics",
    "__KafkaCruiseControlModelTrainingSamples",
    "__KafkaCruiseControlPartitionMetricSamples",
)
"""The topics of Cruise Control's samples, as configured by default."""


def cruise_control(snapshot: Snapshot) -> Iterator[Finding]:
    """Find traces of Cruise Control, which cancels the reassignments of others by default."""
    traces = [topic for topic in CRUISE_CONTROL_TOPICS if topic in snapshot.znodes.topics]
    if traces:
        yield Finding(
            "cruise_control",
            Severity.INFO,
            ", ".join(traces),
            "Cruise Control works on this cluster, or once did: when it begins reassignments, it "
            "cancels those of other tools, unless auto.stop.external.agent=false",
            "let only one of the two reassign partitions at a time; see docs/guide/coexistence.md",
        )
