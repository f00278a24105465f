"""
Checks of ``doctor --migration``: what keeps a cluster from its migration to KRaft, or hurts in it.

The KRaft controller reads the znodes once, while brokers run. What it finds then becomes the
metadata: throttles, replicas of reassignments, the ISR (``kafka.zk.ZkMigrationClient``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.cluster.model import is_protocol_at_least
from controller.core.role.eligibility import kraft_signs
from controller.doctor.broker_answers import Protocol
from controller.doctor.findings import Finding, critical, warning
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import LEADER, MIGRATION, PAUSES, topic_path

BRIDGE: Final = "3.9-IV0"
"""The inter-broker protocol of the release from which clusters are migrated."""


def migration_state(snapshot: Snapshot) -> Iterator[Finding]:
    """Find a migration that has begun."""
    for sign in () if snapshot.znodes.guards is None else kraft_signs(snapshot.znodes.guards):
        yield critical(
            "migration_begun",
            MIGRATION,
            sign,
            "complete the migration or revert it (docs/guide/kraft.md); no daemon works until then",
        )


def protocols(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers that cannot enter the migration."""
    for broker, answer in sorted(snapshot.protocols.items()):
        subject = f"broker {broker}"
        if not isinstance(answer, Protocol):
            yield warning(
                "protocol_unknown",
                subject,
                f"its inter-broker protocol is not known: {answer}",
                "make it reachable from here and grant DescribeConfigs on the cluster",
            )
        elif not is_protocol_at_least(answer.inter_broker, BRIDGE):
            first = "" if answer.is_bridge else "upgrade all brokers to Kafka 3.9.1 or later, then "
            yield critical(
                "protocol_too_low",
                subject,
                f"its inter-broker protocol is {answer.inter_broker}"
                + (", and its release is older than 3.9" if not answer.is_bridge else ""),
                f"{first}set inter.broker.protocol.version=3.9 and restart brokers one by one",
            )


def pending_deletions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find topics that are being deleted: they are not migrated, and their logs may stay."""
    for topic in sorted(snapshot.znodes.deletions):
        yield warning(
            "topic_deletion",
            topic,
            "its deletion is not complete",
            "wait for its end; start the dead brokers that have replicas of it",
        )


def missing_ids(snapshot: Snapshot) -> Iterator[Finding]:
    """Find topics without an id: the KRaft controller cannot read them."""
    for name, topic in sorted(snapshot.znodes.topics.items()):
        if topic.topic_id is None and name not in snapshot.znodes.deletions:
            yield critical(
                "no_topic_id",
                topic_path(name),
                "the topic has no id, and is not migrated without one",
                "restart the broker that is the controller, at inter-broker protocol 2.8 or later: "
                "a controller gives ids when it takes over",
            )


def missing_states(snapshot: Snapshot) -> Iterator[Finding]:
    """Find partitions without a state: all their replicas would count as in sync."""
    for partition, _ in snapshot.znodes.living():
        if partition not in snapshot.znodes.states:
            yield critical(
                "no_state",
                str(partition),
                "it has no readable leader and ISR: the migration would take all its replicas for "
                "in sync",
                "start a broker of its replicas, and see that the cluster has a controller",
            )


def unquiesced_daemon(snapshot: Snapshot) -> Iterator[Finding]:
    """Find a daemon that may begin new work at any time."""
    if snapshot.znodes.daemons and snapshot.znodes.quiesce is None:
        yield warning(
            "not_quiesced",
            PAUSES,
            f"a daemon runs ({LEADER}) and accepts new work",
            "run `reassigner quiesce`",
        )
