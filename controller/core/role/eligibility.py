"""
Whether the role of controller is safe in this cluster and has an effect; the choice of engine.

A wrong choice freezes the ISR of the whole cluster: leaders of protocol 2.7 and later query the
controller to change it, and without an endpoint the daemon does not answer. So anything unexpected
is a refusal with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, Instant, TopicPartition, ids
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.role.model import LASTING_REFUSALS
from controller.core.role.records import ClaimGuardsRead
from controller.core.view import ClusterView

WHOLE_S: Final = 45.0
"""
How long an added replica has the whole log before its leader has to have sent a request.

Longer than ``controller.socket.timeout.ms``, 30 s: the leader may have sent its request to a
former controller first, which hangs.
"""
CUT_OFF_S: Final = 120.0
"""The same of a leader that sent a request before in this tenure, and none since."""
UNMEASURED_S: Final = 900.0
"""
The same where brokers do not report sizes, from the begin of the copy on; not of leaders that sent
a request before.
"""
ACCEPTANCE_PATIENCE_S: Final = 30.0
"""How long a tenure may last without a broker that accepts an UpdateMetadata, in seconds."""


def native_refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against claiming ``/controller`` here; empty when there is none."""
    endpoint = view.options.endpoint
    reasons = list(_isr_change_evidence(view) if endpoint is None else _unreachable(view, endpoint))
    if view.options.engine is EngineName.AUTO and view.role.unreached is not None:
        reasons.append(view.role.unreached)
    if view.options.controller_id in view.cluster.brokers:
        reasons.append(
            f"controller id {view.options.controller_id} is the id of a broker: that broker would "
            "consider itself the controller"
        )
    return (*reasons, *_kraft(view))


def kraft_signs(guards: ClaimGuardsRead) -> Iterator[str]:
    """Yield the signs of a KRaft controller: the cluster is being migrated, or was."""
    if guards.migration is not None:
        yield f"/migration: {guards.migration}"
    if guards.controller_broker is not None and not guards.controller_is_ephemeral:
        yield "/controller is not an ephemeral znode: a KRaft controller holds it"
    if guards.kraft_controller_epoch >= 0:
        yield "/controller names a KRaft controller epoch: the cluster is being migrated"


def _isr_change_evidence(view: ClusterView) -> Iterator[str]:
    """Yield what shows that leaders send ISR changes to their controller, which are not served."""
    modern = sorted(b.id for b in view.cluster.brokers.values() if b.has_features)
    if modern:
        yield (
            f"broker {ids(modern)} runs inter-broker protocol 2.7 or later (its registration "
            "carries features): leaders would send their ISR changes to the controller"
        )
    with_id = sorted(name for name, t in view.topics.by_name.items() if t.topic_id is not None)
    if with_id:
        others = f" and {len(with_id) - 1} others carry" if len(with_id) > 1 else " carries"
        yield (
            f"topic {with_id[0]}{others} a topic id, which only inter-broker protocol 2.8 or "
            "later writes"
        )
    guards = view.role_session.guards
    if guards is not None and guards.feature_enabled:
        yield "/feature is enabled: the cluster runs inter-broker protocol 2.7 or later"


def _unreachable(view: ClusterView, endpoint: LiveBroker) -> Iterator[str]:
    """Yield why brokers would not find the endpoint, or clients would."""
    brokers = sorted(view.cluster.brokers.values(), key=lambda b: b.id)
    unlisted = [why for own in endpoint.endpoints for why in _listener_problems(brokers, own)]
    yield from unlisted
    single = [b.id for b in brokers if len(b.endpoints) == 1]
    if single and not unlisted and not view.options.serves_clients:
        yield (
            f"broker {ids(single)} has only the listener {endpoint.endpoints[0].listener}: clients "
            "would take the controller endpoint for a broker"
        )


def _listener_problems(brokers: Iterable[LiveBroker], own: Endpoint) -> Iterator[str]:
    """Yield why peers that use a listener of the endpoint would not find or understand it."""
    without = [b.id for b in brokers if all(e.listener != own.listener for e in b.endpoints)]
    if without:
        yield (
            f"broker {ids(without)} has no listener {own.listener}, under which peers would find "
            "the controller endpoint"
        )
    others = {
        e.security_protocol: b.id
        for b in brokers
        for e in b.endpoints
        if e.listener == own.listener and e.security_protocol != own.security_protocol
    }
    for protocol, broker in sorted(others.items()):
        yield (
            f"the listener {own.listener} of broker {broker} has the protocol {protocol}, and the "
            f"controller endpoint {own.security_protocol}: peers could not connect to it"
        )


def _kraft(view: ClusterView) -> Iterator[str]:
    guards = view.role_session.guards
    return iter(()) if guards is None else kraft_signs(guards)


def delegated_refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against delegating to the cluster's own controller."""
    reasons = tuple(_kraft(view))
    return reasons if view.role.undelegable is None else (*reasons, view.role.undelegable)


def choice_of(view: ClusterView) -> tuple[EngineName, str] | None:
    """
    Return the engine to work with and why; None where none is safe, or it cannot be chosen now.

    Delegated, it stays so: in a rolling restart a cluster looks different from moment to moment.
    """
    if not view.is_warm or view.options.engine is not EngineName.AUTO:
        return None
    native = native_refusals(view)
    if not native and view.role.engine is not EngineName.DELEGATED:
        why = "nothing shows inter-broker protocol 2.7 or later: leaders write ISR to ZooKeeper"
        if view.options.endpoint is not None:
            why = "the controller endpoint serves the brokers at any inter-broker protocol"
        return EngineName.NATIVE, why
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
    role = view.role
    return tuple(why for why in (role.rejected_by_brokers, role.unreached) if why is not None)


# --- the role without effect ---------------------------------------------------------------------


def refusal_by_brokers(view: ClusterView, now: Instant) -> str | None:
    """
    Return why a tenure has no effect because brokers refuse its requests, None if it has.

    Most refuse them, or none has accepted any for a while. Holding the role nevertheless would
    leave the cluster without a controller.
    """
    tenure = view.tenure
    if is_refused_by_most(view):
        refused = sorted(b for b in tenure.refusers if b in view.cluster.brokers)
        reasons = sorted({LASTING_REFUSALS[tenure.refusers[b]] for b in refused})
        return (
            f"{len(refused)} of {len(view.cluster.brokers)} live brokers refuse our requests as "
            f"the controller: {', '.join(reasons)}"
        )
    if (
        tenure.held is None
        or tenure.accepted_by_broker
        or now < tenure.held.since + ACCEPTANCE_PATIENCE_S
    ):
        return None
    return (
        f"none of {len(view.cluster.brokers)} live brokers accepted an UpdateMetadata within "
        f"{ACCEPTANCE_PATIENCE_S:.0f} s of the claim"
    )


def is_refused_by_most(view: ClusterView) -> bool:
    """Return whether most live brokers refuse the requests of this tenure."""
    live = view.cluster.brokers
    return 2 * sum(broker in live for broker in view.tenure.refusers) > len(live)


def silent_leaders(view: ClusterView, now: Instant) -> frozenset[BrokerId]:
    """Return the leaders that should have requested an ISR change, and sent nothing."""
    if view.options.endpoint is None or view.tenure.held is None:
        return frozenset()
    return frozenset(
        leader
        for partition, reassignment in view.reassignments.by_partition.items()
        if isinstance(reassignment.phase, phases.Syncing)
        and (leader := _requesting_leader(view, partition)) is not None
        and _is_overdue(view, partition, reassignment, view.calls.heard.get(leader), now)
    )


def unreached_reason(view: ClusterView, leaders: frozenset[BrokerId]) -> str:
    """Return the reason for which the role is given back."""
    own = view.options.endpoint
    where = "" if own is None else f" at {own.endpoints[0].host}:{own.endpoints[0].port}"
    return (
        f"broker {ids(sorted(leaders))} sent no request to the controller endpoint{where}, "
        "although an added replica has the whole log: it cannot change the ISR of what it leads"
    )


def _requesting_leader(view: ClusterView, partition: TopicPartition) -> BrokerId | None:
    """Return the live leader of a partition, if it sends the controller ISR changes."""
    state = view.leadership.states.get(partition)
    broker = None if state is None else view.cluster.brokers.get(state.leader)
    return broker.id if broker is not None and broker.has_features else None


def _is_overdue(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    heard: Instant | None,
    now: Instant,
) -> bool:
    if partition not in view.disks_process.copied:
        return heard is None and now >= reassignment.phase_since + UNMEASURED_S
    since = view.reassignments_tenure.whole_since.get(partition)
    if since is None:
        return False
    if heard is None:
        return now >= since + WHOLE_S
    return heard < since and now >= since + CUT_OFF_S
