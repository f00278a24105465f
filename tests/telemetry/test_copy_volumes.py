"""Bytes moved and remaining follow from assignments, ISR and the sizes of logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.core.core_settings import EngineName
from controller.core.model import Blocked, BlockedBy, BrokerId, TopicPartition
from controller.core.reassignments.phases import AwaitingController, Syncing
from controller.core.view import ClusterView
from controller.telemetry.copy_volumes import BrokerVolume, RequestVolume, Volumes, volumes_of
from tests.core.builders import replicas, tp
from tests.telemetry.builders import (
    NOW,
    REQUEST,
    ViewBuilder,
    a_view,
    partition_state,
    run_to_end,
)


def volumes(
    view: ClusterView, held: Mapping[TopicPartition, Mapping[BrokerId, int]] | None = None
) -> Volumes:
    """Count what there is to copy, some of it held already."""
    return run_to_end(volumes_of(view, lambda partition: (held or {}).get(partition, {})))


def of_request(
    view: ClusterView, held: Mapping[TopicPartition, Mapping[BrokerId, int]] | None = None
) -> RequestVolume:
    """Count what there is to copy of the request, not by broker or step."""
    return replace(volumes(view, held).requests[REQUEST], to_brokers=Counter(), steps=0)


def two_to_copy(engine: EngineName) -> ViewBuilder:
    """Return a partition on (1, 2, 3) that is to go to (1, 4, 5), 4 being copied."""
    built = a_view(1, 2, 3, 4, 5)
    built.view.role.engine = engine
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), state=partition_state(1, (1, 2, 3)))
    built.with_reassignment(tp(), (1, 4, 5), Syncing(), step=1)
    built.view.disks_process.sizes[tp()] = 1000
    return built


def test_replicas_out_of_sync_remain(engine: EngineName) -> None:
    """Target replicas that must still be copied, in flight or pending."""
    found = volumes(two_to_copy(engine).view).requests
    to_brokers = Counter({BrokerId(4): 1000, BrokerId(5): 1000})
    assert found == {
        REQUEST: RequestVolume(remaining=2000, known=1, steps=2, to_brokers=to_brokers)
    }


@pytest.mark.parametrize(("step_size", "steps"), [(1, 3), (2, 2), (3, 2), (None, 1)])
def test_steps_to_come(step_size: int | None, steps: int) -> None:
    """The one in flight, and those which add the other replicas."""
    built = a_view(1, 2, 3, 4, 5, 6)
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), state=partition_state(1, (1, 2, 3)))
    built.with_reassignment(tp(), (4, 5, 6), Syncing(), step=1)
    view = built.view
    view.options = replace(view.options, step_size=step_size)
    assert volumes(view).requests[REQUEST].steps == steps


def test_order_alone_is_a_step() -> None:
    """It copies nothing, but it takes some time."""
    built = a_view(1, 2, 3)
    built.with_partition(tp(), (1, 2, 3), state=partition_state(1, (1, 2, 3)))
    built.with_reassignment(tp(), (3, 2, 1), Syncing())
    assert volumes(built.view).requests[REQUEST].steps == 1


def test_part_of_a_copy_counts_as_moved(engine: EngineName) -> None:
    """As reported by the broker, and never more than the size."""
    view = two_to_copy(engine).view
    held = {tp(): {BrokerId(4): 300}}
    assert of_request(view, held) == RequestVolume(moved=300, remaining=1700, known=1)
    more = {tp(): {BrokerId(4): 5000}}
    assert of_request(view, more) == RequestVolume(moved=1000, remaining=1000, known=1)


def test_replica_in_the_isr_is_moved(engine: EngineName) -> None:
    """Only an added one: others were never copied."""
    built = two_to_copy(engine)
    built.with_partition(tp(), (1, 3, 4), state=partition_state(1, (1, 3, 4)))
    assert of_request(built.view) == RequestVolume(moved=1000, remaining=1000, known=1)


def test_partition_of_unknown_size_is_counted_apart(engine: EngineName) -> None:
    """Its bytes are unknown."""
    built = two_to_copy(engine)
    built.with_partition(tp(1), (1, 2, 3)).with_reassignment(tp(1), (4, 5, 1))
    assert volumes(built.view).requests[REQUEST].unknown == 1


def test_ended_partitions_stay_moved(engine: EngineName) -> None:
    """The total does not shrink while a request makes progress."""
    view = two_to_copy(engine).view
    view.requests.by_id[REQUEST].moved_bytes = 7000
    volume = volumes(view).requests[REQUEST]
    assert (volume.moved, volume.remaining) == (7000, 2000)


def test_partitions_that_ended_without_a_size_are_counted(engine: EngineName) -> None:
    """Without open partitions, too; they are not part of an estimate."""
    view = two_to_copy(engine).view
    view.requests.by_id[REQUEST].uncounted = 3
    assert of_request(view) == RequestVolume(0, 2000, 1, uncounted=3)
    view.reassignments.by_partition.clear()
    assert of_request(view) == RequestVolume(uncounted=3)


def test_brokers_have_incoming_and_outgoing_volumes(engine: EngineName) -> None:
    """Now and in all, with the routes of the copies."""
    found = volumes(two_to_copy(engine).view, {tp(): {BrokerId(4): 300}})
    assert found.brokers == {
        1: BrokerVolume(outgoing=1),
        2: BrokerVolume(out_remaining=1000),
        3: BrokerVolume(out_remaining=1000),
        4: BrokerVolume(incoming=1, in_remaining=700),
        5: BrokerVolume(in_remaining=1000),
    }
    assert found.routes == {(1, 4): 1}


def test_a_replica_in_sync_is_no_copy_any_more() -> None:
    """Though its step waits for another replica."""
    state = partition_state(1, (1, 2, 3))
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    view = built.with_reassignment(tp(), (1, 3), Syncing(), original=(1, 2), step=1).view
    view.reassignments.by_partition[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "2 is dead")
    found = volumes(view)
    assert found.brokers == {b: BrokerVolume() for b in (1, 2, 3)}
    assert found.routes == {}


def test_without_original_replicas_only_the_remainder_is_known() -> None:
    """Copied replicas look like old ones."""
    built = a_view(1, 2, 3, 4)
    built.with_partition(tp(), (1, 2), state=partition_state(1, (1, 2)))
    built.with_reassignment(tp(), (1, 4), original=None)
    built.view.disks_process.sizes[tp()] = 10
    assert of_request(built.view) == RequestVolume(moved=0, remaining=10, known=1)


def test_requested_copies_are_on_their_route() -> None:
    """They count against the limits; no limit counts those of another client."""
    built = two_to_copy(EngineName.DELEGATED).with_partition(tp(), (1, 2, 3))
    reassignment = built.view.reassignments.by_partition[tp()]
    reassignment.phase = AwaitingController(replicas(1, 2, 3, 4), NOW)
    assert volumes(built.view).routes == {(1, 4): 1}
    built.with_partition(tp(), (1, 2, 3, 5), adding=(5,), state=partition_state(-1, (1, 2, 3)))
    reassignment.phase = Syncing()
    assert volumes(built.view).routes == {}
