"""Checks of the environment: eligibility, daemons, other tools, notifications, znodes' limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from controller.core.cluster.model import is_loopback
from controller.core.core_settings import EngineName, Options
from controller.core.model import BrokerId, count_text, ids
from controller.core.role.eligibility import delegated_refusals, native_refusals
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.doctor.findings import (
    CLIENTS_WAIT,
    Finding,
    Severity,
    critical,
    info,
    warning,
)
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import KAFKA_ROOTS, LEADER

NOTIFICATIONS_MAX: Final = 100
"""More than this are a backlog: a controller deletes each within about a second."""
OPEN_ACL: Final = ("world:anyone:cdrwa",)


def eligibility(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what forbids the native engine here; the delegated engine may be possible."""
    view = ClusterView(
        Options(
            controller_id=snapshot.controller_id,
            endpoint=snapshot.endpoint,
            serves_clients=snapshot.serves_clients,
        )
    )
    view.cluster.brokers = dict(snapshot.znodes.brokers)
    view.role_session.guards = snapshot.znodes.guards
    view.topics.by_name = {name: Topic.of(t) for name, t in snapshot.znodes.topics.items()}
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
    yield from _unreachable_address(snapshot)


def _unreachable_address(snapshot: Snapshot) -> Iterator[Finding]:
    """Find a controller endpoint that is advertised as this machine, with brokers on others."""
    if snapshot.endpoint is None:
        return
    own = snapshot.endpoint.endpoints[0]
    elsewhere = [
        f"broker {b.id} is at {e.host}"
        for b in sorted(snapshot.znodes.brokers.values(), key=lambda b: b.id)
        for e in b.endpoints
        if e.listener == own.listener and not is_loopback(e.host)
    ]
    if is_loopback(own.host) and elsewhere:
        yield warning(
            "endpoint_address",
            f"{own.host}:{own.port}",
            f"brokers on other machines cannot reach this address; {elsewhere[0]}",
            "set `endpoint_advertise` of each daemon to an address that brokers can reach",
        )


def endpoint_modes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find which modes of the controller endpoint the listeners permit, from protocol 2.7 on."""
    brokers = sorted(snapshot.znodes.brokers.values(), key=lambda b: b.id)
    if not any(b.has_features for b in brokers):
        return
    common = set.intersection(
        *({(e.listener, e.security_protocol) for e in b.endpoints} for b in brokers)
    )
    single = [b.id for b in brokers if len(b.endpoints) == 1]
    if not common:
        private = public = "not possible, no listener with one protocol is common to all brokers"
    else:
        private, public = _private(common, single), _public(common)
    is_configured = snapshot.endpoint is not None
    yield info(
        "endpoint_modes",
        "the cluster",
        f"private: {private}; public: {public}",
        "nothing to do: controller_endpoint is set"
        if is_configured
        else "optional: the delegated engine works without it; docs/guide/engines.md says when to "
        "set controller_endpoint",
    )


def clients_wait(snapshot: Snapshot) -> Iterator[Finding]:
    """Find that clients wait during tenures although the public endpoint is possible."""
    if snapshot.serves_clients or not _is_native(snapshot):
        return
    brokers = snapshot.znodes.brokers.values()
    registered = [{(e.listener, e.security_protocol) for e in b.endpoints} for b in brokers]
    common = set.intersection(*registered) if registered else set()
    able = {listener: protocol for listener, protocol in sorted(common) if protocol != "SSL"}
    if not able:
        return
    lines = [
        'controller_endpoint = "public"',
        'endpoint_listen = "0.0.0.0:9095"',
        'endpoint_advertise = "HOST OF THE DAEMON"',
        f'endpoint_listener = "{next(iter(able)) if len(able) == 1 else "LISTENER"}"',
    ]
    if "SASL_SSL" in able.values():
        lines += ['endpoint_certfile = "FILE"', 'endpoint_keyfile = "FILE"']
    which = "" if len(able) == 1 else f"; LISTENER is that of clients, of {', '.join(able)}"
    yield info(
        "clients_wait",
        "the cluster",
        CLIENTS_WAIT,
        f"set for each daemon, and start it again: {', '.join(lines)}{which}",
    )


def _is_native(snapshot: Snapshot) -> bool:
    """Return whether the native engine works here: as the leader says, else where it can."""
    if snapshot.engine is not None:
        return snapshot.engine is EngineName.NATIVE
    view = ClusterView(Options(controller_id=snapshot.controller_id, endpoint=snapshot.endpoint))
    view.cluster.brokers = dict(snapshot.znodes.brokers)
    view.role_session.guards = snapshot.znodes.guards
    view.topics.by_name = {name: Topic.of(t) for name, t in snapshot.znodes.topics.items()}
    return not native_refusals(view)


def _private(common: AbstractSet[tuple[str, str]], single: Sequence[BrokerId]) -> str:
    if single:
        return f"not possible, broker {ids(single)} has one listener, which clients use as well"
    names = ", ".join(sorted(listener for listener, _ in common))
    return f"possible under {names} (name one that clients do not use)"


def _public(common: AbstractSet[tuple[str, str]]) -> str:
    """Return the listeners whose clients can be served: their logins can be relayed."""
    names = [
        f"{listener} ({protocol}: needs endpoint_certfile and endpoint_keyfile)"
        if protocol == "SASL_SSL"
        else listener
        for listener, protocol in sorted(common)
        if protocol != "SSL"
    ]
    if names:
        return f"possible under {', '.join(names)}"
    return (
        "not possible, every common listener has SSL without SASL, and certificates of clients "
        "cannot be relayed"
    )


def mixed_protocols(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers of different inter-broker protocols: an unfinished rolling upgrade."""
    modern = sorted(b.id for b in snapshot.znodes.brokers.values() if b.has_features)
    if modern and len(modern) < len(snapshot.znodes.brokers):
        yield warning(
            "mixed_protocols",
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
            f"no daemon leads; recorded or planned: {count_text(work, 'reassignment')}",
            "start one with `reassigner run`",
        )
        return
    if snapshot.daemon_problem is not None:
        yield warning(
            "silent_daemon",
            znodes.daemons[0] or LEADER,
            f"the leading daemon does not answer: {snapshot.daemon_problem}",
            "set http_token or REASSIGNER_HTTP_TOKEN to a token that the daemon accepts (its "
            "http_tokens); without its answers some checks are left out"
            if snapshot.needs_token
            else "examine its log; its ZooKeeper session is alive",
        )
    for reason in snapshot.daemon_refusals:
        yield critical(
            "daemon_refused",
            znodes.daemons[0] or LEADER,
            f"the leading daemon cannot work: {reason}",
            "where brokers refuse its requests: grant its principal ClusterAction on the cluster; "
            "where they do not reach the controller endpoint: check its address, port and "
            "certificate; it tries again every five minutes, or when it is restarted",
        )
    if len(znodes.daemons) > 1:
        addresses = ", ".join(d or "unreadable" for d in znodes.daemons)
        yield info(
            "several_daemons",
            LEADER,
            f"{len(znodes.daemons)} daemons run: {addresses}",
            "nothing to do: the first leads, the others are standbys",
        )
    shared = {d for d in znodes.daemons if d is not None and znodes.daemons.count(d) > 1}
    for address in sorted(shared):
        yield warning(
            "shared_address",
            address,
            "several daemons advertise this address",
            "set `http_advertise` of each to an address by which it can be reached",
        )


def unreachable_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find registered brokers that the daemon cannot reach while it is the controller."""
    for broker, why in sorted(snapshot.unreachable.items()):
        yield critical(
            "unreachable_broker",
            f"broker {broker}",
            f"it is registered, and the daemon, the present controller, cannot reach it: {why}",
            "repair the network between them, or stop one of the two: the controller's requests "
            "to the broker wait",
        )


def unguarded_disks(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers whose disks a copy could fill, as their free space is unknown."""
    for broker, why in sorted(snapshot.unguarded.items()):
        yield warning(
            "unguarded_disks",
            f"broker {broker}",
            f"its free space is unknown: {why}",
            "allow the daemon Describe on the cluster; for brokers before Kafka 3.3, give their "
            "capacities in the file disk_capacities",
        )


def notifications(snapshot: Snapshot) -> Iterator[Finding]:
    """Find directories of notifications that no controller processes."""
    for path, count in sorted(snapshot.znodes.notifications.items()):
        if count > NOTIFICATIONS_MAX:
            yield warning(
                "notifications_pile_up",
                path,
                f"{count} notifications wait to be processed",
                "check that the cluster has a controller, and examine its log",
            )


def large_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes and listings of more than half the size that ZooKeeper takes."""
    for path, size in sorted(snapshot.znodes.sizes.items()):
        if size > snapshot.jute_maxbuffer // 2:
            yield warning(
                "large_znode",
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
        yield warning(
            "different_acl",
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
        yield info(
            "cruise_control",
            ", ".join(traces),
            "Cruise Control works on this cluster, or once did: when it begins reassignments, it "
            "cancels those of other tools, unless auto.stop.external.agent=false",
            "let only one of the two reassign partitions at a time; see docs/guide/coexistence.md",
        )
