"""
The laws: what holds in every reachable state, and in what was written and sent on the way to it.

They are those of ``tests.sim.rules`` that concern one partition, stated for the abstract cluster.
A law returns a sentence where it is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.explore import production as p
from tests.explore.alter_laws import entries_handed, replicas_max, step_begun
from tests.explore.brokers import DURING_DELETE, Broker
from tests.explore.control_laws import settings_kept, step_decided
from tests.explore.production import RETRY_TIMER
from tests.explore.system import PARTITION, STATE_PATH, TOPIC, TOPIC_PATH, System
from tests.explore.topic_laws import logs_deleted, topic_laws
from tests.explore.zookeeper import Znode

DEAD = Broker(-1)
Asked = tuple[Any, Any]
"""A request of a leader, and what it was answered; None: nothing yet."""
EPOCHS_MAX = 60
"""More leader epochs, and more controller epochs, than any history of a shape needs."""


def broken(system: System) -> str | None:
    """Judge what happened since the last call, and the state; return the first broken law."""
    found = next(_broken(system), None)
    system.sent.clear()
    system.news.clear()
    system.zookeeper.written.clear()
    return found


def _broken(system: System) -> Iterator[str]:  # noqa: C901, PLR0912 - one law each
    written = {path: (session, old, new) for session, path, old, new in system.zookeeper.written}
    if system.shape.asks is not None:
        _note_states(system)
    if system.news:
        yield from _news(system)
    if system.sent:
        yield from _sent(system)
    if STATE_PATH in written:
        asked = list(_asked(system))
        for session, path, old, new in system.zookeeper.written:
            if path == STATE_PATH:
                yield from _state_written(system, session, old, new, asked)
    if TOPIC_PATH in written:
        for session, path, old, new in system.zookeeper.written:
            if path == TOPIC_PATH and old is not None and new is not None:
                yield from _topic_written(system, session, old, new)
    if p.paths.CONTROLLER_EPOCH in written:
        _, old, new = written[p.paths.CONTROLLER_EPOCH]
        if old is not None and new is not None and int(new.data) <= int(old.data):
            yield "the controller epoch does not rise"
        if new is not None and int(new.data) > EPOCHS_MAX:
            yield "the controller epoch rises without end"
    specs = [path for path in written if path.startswith(f"{p.paths.REASSIGNMENTS}/t/")]
    for path in specs:
        assignment = system.assignment()
        is_moving = assignment is not None and assignment.is_reassigning
        if is_moving and system.zookeeper.get(path) is None:
            yield f"the record of the reassignment ended while {assignment} is in flight"
        first, state = system.shape.target[0], system.state()
        is_led = not system.shape.elects or state is None or state.leader == first
        if system.zookeeper.get(path) is None and not is_led:
            yield f"the record ended, and {first}, the first replica of its target, does not lead"
    if system.zookeeper.written:
        yield from topic_laws(system)
        yield from settings_kept(system)
    yield from _nothing_lost(system)
    yield from _strong(system)
    yield from _logs_known(system)
    yield from _counted(system)
    yield from _led(system)


def _led(system: System) -> Iterator[str]:
    """When nothing but a timer is left, a leader that is known to be dead has a successor."""
    state = system.state()
    if state is None or system.brokers.get(state.leader, DEAD).is_alive:
        return
    for daemon in system.daemons:
        view = None if daemon is None else daemon.reactor.view
        if daemon is None or view is None or not view.tenure.accepted_by_broker:
            continue
        known = view.cluster.brokers
        is_refused = RETRY_TIMER in daemon.reactor._timers
        if state.leader in known or is_refused or not any(m in known for m in state.isr):
            continue
        if next(system.actors(), None) is None:
            yield f"leader {state.leader} is known to be dead, and {state.isr} has a live member"


# --- data --------------------------------------------------------------------------------------


def _news(system: System) -> Iterator[str]:  # noqa: C901, PLR0912 - one kind each
    for item in system.news:
        match item:
            case ("acknowledged", number, offset):
                log = system.brokers[number].logs[PARTITION]
                known = system.committed
                if offset < len(known):
                    if log.records[offset] != known[offset]:
                        yield f"two leaders acknowledged offset {offset}"
                elif log.records[: len(known)] != known:
                    yield f"leader {number} acknowledges a record and lacks {known}"
                else:
                    system.committed = log.records[: offset + 1]
            case ("leads", _, _, epoch, replicas):
                if epoch >= system.serving[0]:
                    system.serving = (epoch, replicas)
            case ("answered", request, answer):
                yield from _answered(system, request.request, answer)
            case ("handed", number, entries):
                yield from entries_handed(system, number, entries)
            case ("resigned", number):
                yield from _resigned(system, number)
            case ("deleted", number, _, epoch):
                if epoch == DURING_DELETE:
                    yield from logs_deleted(system, number)
                state = system.state()
                if epoch != DURING_DELETE and state is not None and number in state.isr:
                    yield f"broker {number} deletes the log of a member of the ISR {state.isr}"


def _resigned(system: System, number: int) -> Iterator[str]:
    """
    Judge that no replica which a daemon knows to have lost its log is left to Kafka's.

    Where the last one in sync lost it, no record is left to lose.
    """
    daemon, state = system.daemons[number], system.state()
    if daemon is None or state is None or not system.committed:
        return
    if not any(_is_complete(system, member) for member in state.isr):
        return
    view = daemon.reactor.view
    for member in state.isr if view.tenure.accepted_by_broker else ():
        if member in view.cluster.brokers and _is_known_lost(system, view, member):
            yield f"the role is given back, and ISR member {member} is known to have lost its log"


def _nothing_lost(system: System) -> Iterator[str]:
    """Every member of the ISR whose disk did not fail has every acknowledged record."""
    state, committed = system.state(), system.committed
    if state is None or not committed:
        return
    for member in state.isr:
        broker = system.brokers[member]
        if PARTITION in broker.lost:
            continue
        log = broker.logs.get(PARTITION)
        if log is None or log.records[: len(committed)] != committed:
            yield f"ISR member {member} lacks acknowledged records {committed}: it has {log}"


def _strong(system: System) -> Iterator[str]:
    """
    Every member of the ISR has what any leader counts as replicated (Kafka's ``StrongIsr``).

    A former leader that has not heard of its successor counts as well. Where nothing is promised
    any more, nothing is compared.
    """
    state = system.state()
    if state is None or not system.committed:
        return
    for leader in system.brokers.values():
        if not leader.leads(PARTITION) or PARTITION in leader.lost:
            continue
        log = leader.logs[PARTITION]
        replicated = log.records[: log.high_watermark]
        for member in state.isr:
            broker = system.brokers[member]
            copy = broker.logs.get(PARTITION)
            if PARTITION not in broker.lost and (copy is None or not copy.holds(replicated)):
                yield f"leader {leader.id} counts {replicated} as replicated, {member} has {copy}"


def _logs_known(system: System) -> Iterator[str]:
    """
    Each log on a disk is assigned, or recorded as an orphan; a deleted one is assigned until then.

    Kafka's controller forgets a deletion that it did not send. A topic is deleted in steps.
    """
    assignment = system.assignment()
    if assignment is None or system.shape.has_forgotten_logs:
        return
    for number, broker in system.brokers.items():
        if PARTITION in broker.logs and number not in assignment.replicas:
            yield from _forgotten(system, number)


def _counted(system: System) -> Iterator[str]:
    """
    A leader waits for every member of the ISR that ZooKeeper has for its leader epoch.

    Else it acknowledges records that a member lacks, which may be elected.
    """
    state = system.state()
    leader = None if state is None else system.brokers.get(state.leader)
    if leader is None or not leader.leads(PARTITION) or leader.asks is None:
        return
    replica = leader.hosted[PARTITION]
    if replica.leader_epoch == state.leader_epoch and not set(state.isr) <= replica.counted:
        yield f"leader {leader.id} counts {sorted(replica.counted)}, the ISR is {state.isr}"


# --- what leaders ask for ----------------------------------------------------------------------


def _note_states(system: System) -> None:
    """Note the states that were written."""
    for _, path, _, new in system.zookeeper.written:
        if path == STATE_PATH and new is not None:
            state: Any = p.read_state(new)  # type: ignore[arg-type]
            system.states[state.version] = (state.leader, state.leader_epoch, tuple(state.isr))


def _asked(system: System) -> Iterator[Asked]:
    """Yield the requests that a daemon had in the last step, each with the answer or None."""
    for daemon in system.daemons:
        if daemon is not None and daemon.endpoint is not None:
            for waiting in daemon.endpoint.waiting.values():
                yield waiting.request, None
    for item in system.news:
        match item:
            case ("answered", request, answer):
                yield request.request, answer
            case _:
                pass


def _is_isr_alone(before: Any, after: Any) -> bool:
    """Return whether a write changes nothing but the ISR."""
    kept = (after.leader, after.leader_epoch, after.controller_epoch)
    return kept == (before.leader, before.leader_epoch, before.controller_epoch)


def _isr_written(
    system: System, session: int, before: Any, after: Any, asked: Sequence[Asked]
) -> Iterator[str]:
    """
    Judge a daemon's write of an ISR without another leader epoch.

    A broker that lost its log and is still registered, or is back since the last read, cannot be
    told from one in sync; from then on no request may admit it that is older (KIP-903).
    """
    causes = [
        (request, answer)
        for request, answer in asked
        for change in request.changes
        if (request.broker, change.leader_epoch, change.partition_epoch)
        == (after.leader, before.leader_epoch, before.version)
        and set(change.isr) == set(after.isr)
    ]
    if not causes:
        yield f"an ISR is written that no leader asked for: {before} to {after}"
        return
    if all(a is not None and any(r.error for r in a.results) for _, a in causes):
        yield f"a refused request changes {before} to {after}: {causes}"
    for daemon in system.daemons:
        if daemon is None or daemon.store.session != session:
            continue
        view: Any = daemon.reactor.view
        known = view.cluster.brokers.get(after.leader)
        if known is None or all(request.broker_epoch != known.epoch for request, _ in causes):
            yield f"a request of a former registration changes {before} to {after}: {causes}"
        for member in set(after.isr) - set(before.isr):
            if _is_known_lost(system, view, member):
                yield f"replica {member} lost its log and is admitted: {before} to {after}"


def _answered(system: System, request: Any, answer: Any) -> Iterator[str]:
    """Judge an answer: it says what ZooKeeper has, or had at the version that it names."""
    present = system.state()
    for change, result in zip(request.changes, answer.results, strict=False):
        told = (result.leader, result.leader_epoch, tuple(result.isr))
        if result.partition_epoch == present.version:
            known: Any = (present.leader, present.leader_epoch, tuple(present.isr))
        else:
            known = system.states.get(result.partition_epoch)
        if told != known:
            yield f"a leader is told {result}, and ZooKeeper had {known}"
        is_former = change.leader_epoch < present.leader_epoch
        is_newer = change.leader_epoch < result.leader_epoch or request.broker != result.leader
        match result.error:
            case p.kafka_errors.NONE if is_newer or set(change.isr) != set(result.isr):
                yield f"{change} is confirmed as {result}"
            case p.kafka_errors.FENCED_LEADER_EPOCH if not is_former and (
                request.broker == present.leader
            ):
                yield f"{change} is fenced, and the state is {present}"
            case p.kafka_errors.INVALID_UPDATE_VERSION if change.partition_epoch >= present.version:
                yield f"{change} is called older than {present}"
            case _:
                pass


# --- requests ----------------------------------------------------------------------------------


def _sent(system: System) -> Iterator[str]:  # noqa: C901 - one law each
    epoch = int(system.data(p.paths.CONTROLLER_EPOCH) or b"0")
    state = system.state()
    for number, broker_epoch, request in system.sent:
        if request.controller_epoch != epoch:
            continue  # sent by a deposed controller; brokers fence it once they know the newer one
        if isinstance(request, p.LeaderAndIsr):
            for sent in request.states:
                if state is None:
                    yield "LeaderAndIsr of a partition that has no state"
                    continue
                if sent.leader_epoch > state.leader_epoch:
                    yield f"LeaderAndIsr sends leader epoch {sent.leader_epoch}, not durable"
                if sent.is_new and number in sent.isr and system.committed:
                    yield f"LeaderAndIsr calls ISR member {number} new"
        if isinstance(request, p.StopReplica):
            for stop in request.states:
                if stop.delete and stop.leader_epoch != DURING_DELETE:
                    current = broker_epoch == system.brokers[number].epoch
                    yield from _stopped(system, number, stop, is_current=current)


def _stopped(system: System, number: int, stop: Any, *, is_current: bool) -> Iterator[str]:
    state, assignment = system.state(), system.assignment()
    if not is_current or state is None or assignment is None:
        return
    if number in state.isr:
        yield f"the daemon deletes replica {number}, which is in the ISR {state.isr}"
    hosted = system.brokers[number].hosted.get(PARTITION)
    is_old = number in assignment.adding_replicas and (
        hosted is None or hosted.leader_epoch <= stop.leader_epoch
    )
    if is_old:
        return
    if number in assignment.target_replicas:
        yield f"the daemon deletes replica {number}, which is to stay: {assignment}"
    epoch, replicas = system.serving
    if number in replicas:
        yield (
            f"the daemon deletes replica {number}, but the leader of epoch {epoch} counts it "
            f"among {replicas}"
        )


# --- znodes ------------------------------------------------------------------------------------


def _state_written(  # noqa: C901 - one law each
    system: System, session: int, old: Znode | None, new: Znode | None, asked: Sequence[Asked]
) -> Iterator[str]:
    if new is None:
        return
    after: Any = p.read_state(new)  # type: ignore[arg-type]
    before: Any = None if old is None else p.read_state(old)  # type: ignore[arg-type]
    if not after.isr:
        yield "an ISR is empty"
    if after.leader != -1 and after.leader not in after.isr:
        yield f"leader {after.leader} is not in the ISR {after.isr}"
    if before is None:
        return
    brokers = {b.session: b.id for b in system.brokers.values()}
    if session in brokers:
        by_controller = after.leader_epoch == before.leader_epoch + 1
        as_asked = system.shape.asks is not None and _is_isr_alone(before, after)
        if not (by_controller or as_asked) and (
            after.leader != brokers[session] or after.leader_epoch != before.leader_epoch
        ):
            yield f"broker {brokers[session]} changes more than the ISR: {before} to {after}"
        return
    if system.shape.asks is not None and _is_isr_alone(before, after):
        yield from _isr_written(system, session, before, after, asked)
        return
    yield from _of_topic(system, session)
    epoch = int(system.data(p.paths.CONTROLLER_EPOCH) or b"0")
    if after.controller_epoch != epoch:
        yield f"a state has controller epoch {after.controller_epoch}, the present one is {epoch}"
    if after.leader_epoch != before.leader_epoch + 1:
        yield f"a controller raises the leader epoch {before.leader_epoch} to {after.leader_epoch}"
    assignment = system.assignment()
    if not set(after.isr) <= set(assignment.replicas) | set(before.isr):
        yield f"the ISR {after.isr} has a member that is no replica of {assignment}"
    if not set(after.isr) <= set(before.isr):
        yield f"a controller adds to the ISR: {before.isr} to {after.isr}"
    yield from _copies_kept(system, session, before, after)


def _of_topic(system: System, session: int) -> Iterator[str]:
    """Judge that a daemon writes the state of the topic that it read, not of a later one."""
    view, node = system.view_of(session), system.zookeeper.get(TOPIC_PATH)
    known = None if view is None else view.topics.by_name.get(TOPIC)
    if known is not None and node is not None and known.czxid != node.czxid:
        yield f"a state of topic {known.czxid:#x} is written to topic {node.czxid:#x}"


def _copies_kept(system: System, session: int, before: Any, after: Any) -> Iterator[str]:
    """
    No complete live copy leaves for one that the writer knows to be lost.

    A broker that lost its log and is still registered, or is back since the last read, cannot be
    told from one in sync: Kafka's protocol promises nothing then.
    """
    view = system.view_of(session)
    if view is None:
        return
    if after.leader not in {-1, before.leader, *view.cluster.brokers}:
        yield f"broker {after.leader} is elected, and is known to be dead"
    if after.leader_epoch > EPOCHS_MAX:
        yield f"the leader epoch rises without end: {after.leader_epoch}"
    shape, dropped = system.shape, set(system.assignment().removing_replicas)
    floor = min(shape.min_isr, len(shape.target))
    if dropped & set(before.isr) - set(after.isr) and len(after.isr) < floor:
        yield f"a step drops {dropped}: {after.isr} is below min.insync.replicas {floor}"
    live = {b.id for b in system.brokers.values() if b.is_alive}
    if shape.tolerates and dropped & set(before.isr) & live - set(after.isr):
        tolerated = {*shape.tolerates} & {*shape.before} & {*shape.target}
        lacking = len(tolerated - live.intersection(before.isr))
        needed = min(len(shape.before) - lacking, len(shape.target))
        if len(live.intersection(after.isr)) < needed:
            yield f"a step drops {dropped}: {after.isr} has fewer good copies than {needed}"
    good = [m for m in before.isr if m in live and _is_complete(system, m)]
    if good and all(_is_known_lost(system, view, m) for m in after.isr):
        yield f"the ISR {after.isr} keeps no complete copy, and {good} had one"
    if good and after.leader in live and _is_known_lost(system, view, after.leader):
        yield f"leader {after.leader} lost its log, and {good} of the ISR had the records"
    if all(PARTITION in system.brokers[m].lost for m in after.isr):
        system.committed = ()


def _is_known_lost(system: System, view: Any, number: int) -> bool:
    """Return whether a replica lost its log before a registration that was read."""
    broker = system.brokers[number]
    known = view.cluster.brokers.get(number)
    if PARTITION not in broker.lost:
        return False
    return known is None or (broker.is_alive and known.epoch == broker.epoch)


def _is_complete(system: System, number: int) -> bool:
    """Return whether a broker has every acknowledged record, and did not lose its log."""
    broker, committed = system.brokers[number], system.committed
    log = broker.logs.get(PARTITION)
    if log is None or PARTITION in broker.lost:
        return False
    return log.records[: len(committed)] == committed


def _topic_written(system: System, session: int, old: Znode, new: Znode) -> Iterator[str]:
    before: Any = p.read_topic(old).partitions[0]  # type: ignore[union-attr, arg-type]
    after: Any = p.read_topic(new).partitions.get(0)  # type: ignore[union-attr, arg-type]
    if after is None:
        yield "a topic znode loses its partition"
        return
    if not set(after.adding_replicas) | set(after.removing_replicas) <= set(after.replicas):
        yield f"adding and removing replicas are no replicas: {after}"
    if not after.target_replicas or not after.origin_replicas:
        yield f"an assignment has no target or no origin: {after}"
    limit = replicas_max(system.shape)
    if len(after.target_replicas) > limit:
        yield f"{len(after.target_replicas)} replicas serve or copy, at most {limit} may: {after}"
    state, is_kafka = system.state(), session in {b.session for b in system.brokers.values()}
    # Kafka's controller takes what it was adding out of the ISR in its next write (U1, U3): a
    # broker that dies between the two leaves it there.
    excused = set(before.adding_replicas) if is_kafka else set()
    if not set(state.isr) - excused <= set(after.replicas):
        yield f"the assignment {after} lacks a member of the ISR {state.isr}"
    if is_kafka:
        yield from step_begun(system, before, after)
        return  # Kafka's controller forgets the deletions that it could not send
    yield from step_decided(system, session, before, after)
    for gone in set(before.replicas) - set(after.replicas):
        yield from _forgotten(system, gone)


def _forgotten(system: System, number: int) -> Iterator[str]:
    has_log = PARTITION in system.brokers[number].logs
    orphan = f"{p.paths.ORPHANS}/{number}/"
    is_recorded = any(path.startswith(orphan) for path in system.zookeeper.nodes)
    if has_log and not is_recorded:
        yield f"replica {number} is not assigned, and its log neither deleted nor recorded"
