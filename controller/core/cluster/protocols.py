"""
The inter-broker protocol that the requests of a tenure follow.

Kafka's controller follows its own protocol: during a rolling upgrade, that of the broker which
happens to be the controller. Here it is the lowest one of the live brokers. All brokers have to be
sent the ids of topics, or none: a follower that has an id fetches by it, and a leader whose
metadata lack the id refuses that.

Brokers are queried for it (``DescribeConfigs``) before a claim, and when they restart. One that
does not answer does not count. Where none answers, the ids that topics have are sent, which brokers
accept whatever their protocol; no topic gets one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.cluster.model import (
    BEFORE_FEATURES,
    WITH_ISR_REQUESTS,
    WITH_RECOVERY,
    WITH_SENT_IDS,
    WITH_STORED_IDS,
    KnownSettings,
    LiveBroker,
    is_protocol_at_least,
    parse_protocol,
)
from controller.core.model import START, Instant
from controller.core.view import ClusterView

UNKNOWN: Final = "2.8"
"""Assumed where registrations carry features and no broker says its protocol."""
PATIENCE_S: Final = 3.0
"""How long a claim waits for a broker that is queried for its protocol, in seconds."""


def protocol_of(view: ClusterView) -> str:
    """Return the lowest inter-broker protocol of the live brokers, as far as it is known."""
    if not all(broker.has_features for broker in view.cluster.brokers.values()):
        return BEFORE_FEATURES
    return min(_known_protocols(view), key=parse_protocol, default=UNKNOWN)


def _known_settings(view: ClusterView) -> Iterator[tuple[LiveBroker, KnownSettings]]:
    """Yield live brokers with what is known of their settings in their present registration."""
    for broker in view.cluster.brokers.values():
        known = view.cluster.broker_settings.get(broker.id)
        if known is not None and known.epoch == broker.epoch:
            yield broker, known


def _known_protocols(view: ClusterView) -> list[str]:
    return [known.protocol for _, known in _known_settings(view) if known.protocol is not None]


def awaited_until(view: ClusterView) -> Instant:
    """Return until when a claim waits for brokers that are being queried for it."""
    requests = (
        Instant(known.requested_at + PATIENCE_S)
        for broker, known in _known_settings(view)
        if broker.has_features and not known.is_known
    )
    return max(requests, default=START)


def leaders_write_isr(view: ClusterView) -> bool:
    """Return whether leaders write the ISR to ZooKeeper, so that it may change at any time."""
    return not is_protocol_at_least(view.tenure.protocol, WITH_ISR_REQUESTS)


def sends_ids(view: ClusterView) -> bool:
    """Return whether requests of this tenure carry the ids of topics."""
    return is_protocol_at_least(view.tenure.protocol, WITH_SENT_IDS)


def assigns_ids(view: ClusterView) -> bool:
    """Return whether a topic without an id gets one in this tenure."""
    return is_protocol_at_least(view.tenure.protocol, WITH_STORED_IDS) and bool(
        _known_protocols(view)
    )


def marks_recovery(view: ClusterView) -> bool:
    """Return whether an unclean election marks the partition as recovering."""
    return is_protocol_at_least(view.tenure.protocol, WITH_RECOVERY)
