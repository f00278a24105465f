"""
Whether being this cluster's controller would be safe.

A wrong guess freezes the ISR of the whole cluster (leaders of protocol 2.7 and later ask the
controller to change it, and ours would not answer), so anything that does not fit is a refusal with
its reason.
"""

from __future__ import annotations

from controller.core.gates import ids
from controller.core.view import ClusterView


def native_refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against claiming ``/controller`` here; empty when there is none."""
    reasons: list[str] = []
    modern = sorted(b.id for b in view.brokers.values() if b.has_features)
    if modern:
        reasons.append(
            f"broker {ids(modern)} runs inter-broker protocol 2.7 or later (its registration "
            "carries features): leaders would send their ISR changes to the controller"
        )
    with_id = sorted(name for name, topic in view.topics.items() if topic.topic_id is not None)
    if with_id:
        reasons.append(
            f"topic {with_id[0]} and {len(with_id) - 1} others carry a topic id, which only "
            "inter-broker protocol 2.8 or later writes"
            if len(with_id) > 1
            else f"topic {with_id[0]} carries a topic id, which only inter-broker protocol 2.8 or "
            "later writes"
        )
    if view.options.controller_id in view.brokers:
        reasons.append(
            f"controller id {view.options.controller_id} is the id of a broker: that broker would "
            "take itself for the controller"
        )
    guards = view.guards
    if guards is None:
        return tuple(reasons)
    if guards.feature_enabled:
        reasons.append("/feature is enabled: the cluster runs inter-broker protocol 2.7 or later")
    if guards.migration is not None:
        reasons.append(f"/migration: {guards.migration}")
    if guards.controller_broker is not None and not guards.controller_is_ephemeral:
        reasons.append("/controller is not an ephemeral znode: a KRaft controller holds it")
    if guards.kraft_controller_epoch >= 0:
        reasons.append("/controller names a KRaft controller epoch: the cluster is being migrated")
    return tuple(reasons)
