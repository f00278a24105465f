"""
Eligibility: whether the role of controller is safe in this cluster, and the choice of engine.

A wrong choice freezes the ISR of the whole cluster (leaders of protocol 2.7 and later ask the
controller to change it, and ours would not answer), so anything unexpected is a refusal with its
reason.
"""

from __future__ import annotations

from controller.core.options import EngineName
from controller.core.partition.gates import ids
from controller.core.view import ClusterView


def native_refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against claiming ``/controller`` here; empty when there is none."""
    reasons: list[str] = []
    modern = sorted(b.id for b in view.cluster.brokers.values() if b.has_features)
    if modern:
        reasons.append(
            f"broker {ids(modern)} runs inter-broker protocol 2.7 or later (its registration "
            "carries features): leaders would send their ISR changes to the controller"
        )
    with_id = sorted(
        name for name, topic in view.session.topics.items() if topic.topic_id is not None
    )
    if with_id:
        reasons.append(
            f"topic {with_id[0]} and {len(with_id) - 1} others carry a topic id, which only "
            "inter-broker protocol 2.8 or later writes"
            if len(with_id) > 1
            else f"topic {with_id[0]} carries a topic id, which only inter-broker protocol 2.8 or "
            "later writes"
        )
    if view.options.controller_id in view.cluster.brokers:
        reasons.append(
            f"controller id {view.options.controller_id} is the id of a broker: that broker would "
            "consider itself the controller"
        )
    guards = view.session.guards
    if guards is not None and guards.feature_enabled:
        reasons.append("/feature is enabled: the cluster runs inter-broker protocol 2.7 or later")
    return (*reasons, *_kraft(view))


def _kraft(view: ClusterView) -> tuple[str, ...]:
    """Return the signs of a KRaft controller: the cluster is being migrated, or was."""
    guards, reasons = view.session.guards, []
    if guards is None:
        return ()
    if guards.migration is not None:
        reasons.append(f"/migration: {guards.migration}")
    if guards.controller_broker is not None and not guards.controller_is_ephemeral:
        reasons.append("/controller is not an ephemeral znode: a KRaft controller holds it")
    if guards.kraft_controller_epoch >= 0:
        reasons.append("/controller names a KRaft controller epoch: the cluster is being migrated")
    return tuple(reasons)


def delegated_refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against delegating to the cluster's own controller."""
    reasons = _kraft(view)
    return reasons if view.role.undelegable is None else (*reasons, view.role.undelegable)


def choice_of(view: ClusterView) -> tuple[EngineName, str] | None:
    """
    Return the engine to work with and why; None where none is safe, or it cannot be chosen now.

    Once delegated it stays delegated: during a rolling restart a cluster looks different from one
    moment to the next.
    """
    wanted = view.options.engine
    if not view.is_warm:
        return None
    if wanted is not EngineName.AUTO:
        return None
    native = native_refusals(view)
    if not native and view.role.engine is not EngineName.DELEGATED:
        return (
            EngineName.NATIVE,
            "nothing shows inter-broker protocol 2.7 or later: leaders write ISR to ZooKeeper",
        )
    if delegated_refusals(view):
        return None
    return EngineName.DELEGATED, native[0] if native else "it was chosen before"


def refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against working on this cluster with the configured engine."""
    match view.options.engine:
        case EngineName.NATIVE:
            return (*native_refusals(view), *_rejections(view))
        case EngineName.DELEGATED:
            return delegated_refusals(view)
        case EngineName.AUTO:
            native = native_refusals(view)
            delegated = delegated_refusals(view) if native else ()
            if not native:
                return _rejections(view)
            return (*native, *(d for d in delegated if d not in native)) if delegated else ()


def _rejections(view: ClusterView) -> tuple[str, ...]:
    """Return why brokers refuse requests; the role is claimed again only after a back-off."""
    return () if view.role.rejected_by_brokers is None else (view.role.rejected_by_brokers,)
