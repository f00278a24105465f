"""Recordings are judged: what simulated daemons write passes, and what they may not write fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import pytest

from controller.core.core_settings import Options
from controller.core.model import TopicPartition
from controller.reactor.ports import Check, CreateSequential, Delete
from controller.znodes import paths
from tests.sim.builders import ids
from tests.sim.histories import is_finished, reactors
from tests.sim.recorded import LEAVING_S, RecordedRun
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, AnyOperation, Make, Put, Transaction

PARTITION = TopicPartition("t", 0)
TOPIC = paths.topic_path("t")
STATE = paths.state_path(PARTITION)
SPEC = paths.reassignment_path(PARTITION)


class Recorded(NamedTuple):
    """One transaction, as a transaction log has it."""

    zxid: int
    session: int
    at_s: float
    operations: tuple[AnyOperation, ...]


@cache
def recording() -> tuple[Recorded, ...]:
    """Return what ZooKeeper recorded of a reassignment from [1, 2, 3] to [3, 4, 5]."""
    world = World(1)
    found = list(_present(world, "/"))

    def record(transaction: Transaction) -> None:
        operations = tuple(_logged(transaction))
        found.append(Recorded(transaction.zxid, transaction.session, world.now, operations))

    world.zookeeper.listeners.append(record)
    world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=2)
    world.add_daemon(reactors(Options(step_size=1)))
    world.settle()
    world.run_for(40.0)
    world.submit_request({PARTITION: ids([3, 4, 5])})
    world.run_until(lambda: is_finished(world), within_s=600.0)
    return tuple(found)


def _present(world: World, path: str) -> Iterable[Recorded]:
    """Yield transactions that make what a world begins with."""
    for name in world.zookeeper.children(path) or ():
        child = f"{path.rstrip('/')}/{name}"
        znode = world.zookeeper.get(child)
        assert znode is not None
        owner = znode.ephemeral_owner
        make = Make(child, znode.data, ephemeral=owner != NO_SESSION)
        yield Recorded(znode.mzxid, owner, 0.0, (make, *[Put(child, znode.data)] * znode.version))
        yield from _present(world, child)


def _logged(transaction: Transaction) -> Iterable[AnyOperation]:
    """Yield operations as ZooKeeper logs them: with the names that it gave."""
    made = [w.path for w in transaction.written if w.before is None]
    for operation in transaction.operations:
        if isinstance(operation, CreateSequential) or (
            isinstance(operation, Make) and operation.sequential
        ):
            (path,) = (p for p in made if p.startswith(operation.path))
            yield Make(path, operation.data, getattr(operation, "ephemeral", False))
        else:
            yield operation


def violations(
    recorded: Iterable[Recorded], session_ends: Mapping[int, float] = MappingProxyType({})
) -> tuple[list[str], int]:
    """Return the first line of each broken rule, and how often rules were applied."""
    run = RecordedRun(step_size=1)
    run.session_ends |= session_ends
    found = [broken for one in recorded for broken in run.replay(*one)]
    return [broken.partition("\n")[0] for broken in found], run.checks


def test_a_simulated_run_passes() -> None:
    """Also the writes of Kafka's controllers and brokers, and of operators."""
    found, checks = violations(recording())
    assert found == []
    assert checks > 100


Tamper = Callable[[tuple[AnyOperation, ...]], tuple[AnyOperation, ...]]


def _put(path: str, **members: object) -> Tamper:
    """Return what changes members of a znode that a transaction writes."""

    def changed(operation: AnyOperation) -> AnyOperation:
        if isinstance(operation, Check | Delete) or operation.path != path:
            return operation
        content = {**json.loads(operation.data), **members}
        return Put(path, json.dumps(content).encode())

    return lambda operations: tuple(changed(op) for op in operations)


def _without_claim(operations: tuple[AnyOperation, ...]) -> tuple[AnyOperation, ...]:
    return tuple(op for op in operations if not isinstance(op, Check))


def _ending(operations: tuple[AnyOperation, ...]) -> tuple[AnyOperation, ...]:
    return *operations, Delete(SPEC, None)


def _extended(number: str) -> Tamper:
    """Return what adds a partition to the first step."""
    return _put(TOPIC, partitions={"0": [1, 2, 3, 4], number: [1, 2]})


TAMPERED: Mapping[str, tuple[str, Tamper, str]] = {
    "epoch kept": (STATE, _put(STATE, leader_epoch=0), "leader epoch 0 instead of"),
    "ISR of one": (STATE, _put(STATE, isr=[3], leader=3), "good copies [1, 2] left the ISR"),
    "leader outside the ISR": (STATE, _put(STATE, leader=2, isr=[1, 3]), "leader 2 is not in ISR"),
    "no ISR": (STATE, _put(STATE, leader=-1, isr=[]), "empty ISR"),
    "no claim": (SPEC, _without_claim, "written without a check of the claim"),
    "ended on the way": (TOPIC, _ending, "our record ended while the topic znode says"),
    "partition lost": (TOPIC, _put(TOPIC, partitions={}, adding_replicas={}), "lost partition"),
    "partition of another topic": (TOPIC, _extended("7"), "a partition that the topic does not"),
    "all at once": (
        TOPIC,
        _put(TOPIC, partitions={"0": [1, 2, 3, 4, 5]}, adding_replicas={"0": [4, 5]}),
        "at most 4 are allowed",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_write_that_no_daemon_may_make_is_found(name: str) -> None:
    """Each time the first such write of a daemon is another one."""
    path, tamper, why = TAMPERED[name]
    assert why in found_with(path, tamper)[0]


def test_a_partition_that_a_client_may_have_asked_for_is_permitted() -> None:
    """The log does not show what clients ask for."""
    assert found_with(TOPIC, _extended("1")) == []


@pytest.mark.parametrize("lost", [1, 2])
def test_a_replica_may_leave_the_isr_where_its_broker_lost_a_log_directory(lost: int) -> None:
    """The broker does not say in ZooKeeper which logs are offline."""
    found = found_with(STATE, _put(STATE, isr=[2, 3], leader=2), lost_directory=lost)
    assert len(found) == lost - 1, found
    assert all("good copies [1] left the ISR" in one for one in found)


@pytest.mark.parametrize("left_after_s", [1.0, 100.0])
def test_a_replica_may_leave_the_isr_where_its_broker_shuts_down(left_after_s: float) -> None:
    """It announces that in a request; its session ends soon afterwards."""
    found = found_with(STATE, _put(STATE, isr=[2, 3], leader=2), left_after_s=left_after_s)
    assert len(found) == (left_after_s > LEAVING_S), found


def found_with(
    path: str,
    tamper: Tamper,
    lost_directory: int | None = None,
    left_after_s: float | None = None,
) -> list[str]:
    """
    Return the violations where the first write of a daemon to a znode is another one.

    Args:
        path: The znode.
        tamper: Changes the operations of the transaction.
        lost_directory: A broker that notifies of a lost log directory before.
        left_after_s: When the session of broker 1 ends, in seconds after that.

    """
    whole = recording()
    (daemon,) = {
        r.session
        for r in whole
        if r.session != NO_SESSION and any(o.path == paths.EPOCH for o in r.operations)
    }
    at = next(
        n
        for n, r in enumerate(whole)
        if r.session == daemon
        and any(o.path == path and not isinstance(o, Check | Delete) for o in r.operations)
    )
    tampered = whole[at]._replace(operations=tamper(whole[at].operations))
    before = whole[:at]
    if lost_directory is not None:
        before += (_directory_lost(whole, lost_directory, before[-1]),)
    left = {} if left_after_s is None else {_session_of(whole, 1): tampered.at_s + left_after_s}
    return violations([*before, tampered], left)[0]


def _session_of(whole: Iterable[Recorded], broker: int) -> int:
    path = f"{paths.BROKER_IDS}/{broker}"
    return next(r.session for r in whole if any(o.path == path for o in r.operations))


def _directory_lost(whole: Iterable[Recorded], broker: int, last: Recorded) -> Recorded:
    """Return the notification of a broker, after the last transaction."""
    event = Make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000", b"{}")
    return Recorded(last.zxid, _session_of(whole, broker), last.at_s, (event,))
