"""Checks of what we work in: eligibility, daemons, notifications, sizes and permissions."""

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
"""A controller deletes them within a second or so."""
OPEN_ACL: Final = ("world:anyone:cdrwa",)


def eligibility(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what forbids being the controller here; telling it what to move may be possible."""
    view = ClusterView(Options(controller_id=snapshot.controller_id))
    view.brokers = dict(snapshot.znodes.brokers)
    view.guards = snapshot.znodes.guards
    view.topics = {
        name: Topic(dict(t.partitions), t.version, t.czxid, t.topic_id)
        for name, t in snapshot.znodes.topics.items()
    }
    is_delegable = not delegated_refusals(view)
    for reason in native_refusals(view):
        yield Finding(
            "native_refused",
            Severity.INFO if is_delegable else Severity.CRITICAL,
            "the cluster",
            reason,
            "the daemon will not be the controller here; "
            + (
                "the delegated engine tells the cluster's own what to move"
                if is_delegable
                else "nor can it tell the cluster's own what to move"
            ),
        )


def mixed_protocols(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers that register differently: a rolling upgrade that has not ended."""
    modern = sorted(b.id for b in snapshot.znodes.brokers.values() if b.has_features)
    if modern and len(modern) < len(snapshot.znodes.brokers):
        yield Finding(
            "mixed_protocols",
            Severity.WARNING,
            "broker " + ",".join(map(str, modern)),
            "registered with features (inter-broker protocol 2.7 or later), the others without",
            "finish the rolling restart, or take it back",
        )


def daemons(snapshot: Snapshot) -> Iterator[Finding]:
    """Find work that nobody does, and a leader that does not answer."""
    znodes = snapshot.znodes
    work = len(znodes.specs) + (0 if znodes.legacy is None else len(znodes.legacy.entries))
    if not znodes.daemons:
        yield Finding(
            "no_daemon",
            Severity.CRITICAL if work else Severity.INFO,
            LEADER,
            f"no reassigner leads; {work} reassignments are recorded or planned",
            "start one with `reassigner run`",
        )
        return
    if snapshot.daemon_problem is not None:
        yield Finding(
            "silent_daemon",
            Severity.WARNING,
            znodes.daemons[0] or LEADER,
            f"the leading daemon does not answer: {snapshot.daemon_problem}",
            "look at its log; ZooKeeper still sees its session",
        )
    for reason in snapshot.daemon_refusals:
        yield Finding(
            "daemon_refused",
            Severity.CRITICAL,
            znodes.daemons[0] or LEADER,
            f"the leading daemon cannot work: {reason}",
            "where brokers refuse its requests: allow its principal ClusterAction on the cluster; "
            "it tries again every five minutes, or when it is restarted",
        )
    if len(znodes.daemons) > 1:
        addresses = ", ".join(d or "unreadable" for d in znodes.daemons)
        yield Finding(
            "several_daemons",
            Severity.INFO,
            LEADER,
            f"{len(znodes.daemons)} daemons run: {addresses}",
            "nothing: the first leads, the others stand by",
        )
    shared = {d for d in znodes.daemons if d is not None and znodes.daemons.count(d) > 1}
    for address in sorted(shared):
        yield Finding(
            "shared_address",
            Severity.WARNING,
            address,
            "several daemons say that they answer there",
            "set `http_advertise` of each to an address by which it can be reached",
        )


def unreachable_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find registered brokers that the daemon cannot reach while it is the controller."""
    for broker, why in sorted(snapshot.unreachable.items()):
        yield Finding(
            "unreachable_broker",
            Severity.CRITICAL,
            f"broker {broker}",
            f"it is registered, and the daemon that is the controller cannot reach it: {why}",
            "repair the network between them, or stop one of the two: what the controller has to "
            "send waits",
        )


def notifications(snapshot: Snapshot) -> Iterator[Finding]:
    """Find directories of notifications that nobody works off."""
    for path, count in sorted(snapshot.znodes.notifications.items()):
        if count > NOTIFICATIONS_MAX:
            yield Finding(
                "notifications_pile_up",
                Severity.WARNING,
                path,
                f"{count} nodes wait to be processed",
                "look whether the cluster has a controller and what its log says",
            )


def large_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes and listings that come near what ZooKeeper takes."""
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
    """Find znodes of ours that do not have the permissions of Kafka's."""
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
