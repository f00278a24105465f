"""The participating topics and brokers follow the reassignments that begin and end."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.core.cycle import observe
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.model import Participants, participant_of
from controller.core.pacing.throttle_settings import FOLLOWER_REPLICAS, Entity
from controller.core.topics.records import TopicsRead
from tests.core.builders import replicas, tp
from tests.core.pacing.throttle_rigs import ThrottleRig

ORDERS = tp(0, "orders")
GOAL = ReassignmentSpec(replicas(4, 2, 5), replicas(1, 2, 3), RequestId("r1"), Route.REQUEST)


def test_stake_is_the_same_from_the_first_step_to_the_last() -> None:
    """Else each step would rewrite the lists."""
    first = participant_of(GOAL, PartitionAssignment(replicas(1, 2, 3)))
    during = participant_of(GOAL, PartitionAssignment(replicas(1, 2, 3, 4), replicas(4)))
    between = participant_of(GOAL, PartitionAssignment(replicas(2, 3, 4)))
    assert first == during == between
    assert first.sources == replicas(1, 2, 3)
    assert first.receivers == replicas(4, 5)


def test_dropped_original_receives_on_the_way_back() -> None:
    """It is copied again; what is still in place is not."""
    back = replace(GOAL, target=replicas(1, 2, 3), abandoned=frozenset(replicas(4, 5)))
    participant = participant_of(back, PartitionAssignment(replicas(2, 3, 4)))
    assert participant.receivers == replicas(1)
    assert set(participant.sources) == set(replicas(1, 2, 3, 4, 5))


def test_original_that_is_just_being_dropped_receives_on_the_way_back() -> None:
    """Its exclusion may be under way: then it goes, and is copied again."""
    back = replace(GOAL, target=replicas(1, 2, 3), abandoned=frozenset(replicas(4, 5)))
    dropping = PartitionAssignment(replicas(2, 3, 4, 1), replicas(4), replicas(1))
    assert participant_of(back, dropping).receivers == replicas(1)


def test_unknown_originals_are_those_that_are_not_being_added() -> None:
    """Another client began it before our request."""
    spec = replace(GOAL, original=None)
    participant = participant_of(spec, PartitionAssignment(replicas(1, 2, 4), replicas(4)))
    assert participant.sources == replicas(1, 2)
    assert participant.receivers == replicas(4, 5)


SPECS = st.builds(
    lambda target, request: replace(
        GOAL, target=tuple(BrokerId(b) for b in target), request=RequestId(request)
    ),
    st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True),
    st.sampled_from(["r1", "r2"]),
)
MOVES = st.lists(st.tuples(st.integers(0, 4), st.none() | SPECS), max_size=30)


@given(MOVES)
def test_counts_equal_those_of_what_is_open(
    moves: list[tuple[int, ReassignmentSpec | None]],
) -> None:
    """However reassignments came, changed and went."""
    participants, open_goals = Participants(), dict[int, ReassignmentSpec]()
    for number, spec in moves:
        if spec is None:
            participants.drop(tp(number))
            open_goals.pop(number, None)
        else:
            participants.put(tp(number), spec, None)
            open_goals[number] = spec
    fresh = Participants()
    for number, spec in open_goals.items():
        fresh.put(tp(number), spec, None)
    assert participants.requests == fresh.requests
    assert participants.topics == fresh.topics


def test_the_end_of_one_of_many_changes_no_throttle() -> None:
    """Only the last of its request changes what has to stand."""
    participants = Participants()
    for number in range(3):
        participants.put(tp(number), GOAL, None)
    participants.unsettled.clear()
    participants.drop(tp(0))
    participants.drop(tp(1))
    assert participants.unsettled == {}
    participants.drop(tp(2))
    assert set(participants.unsettled) == {Entity("topics/t")} | {
        Entity(f"brokers/{n}") for n in range(1, 6)
    }


def test_cancelled_move_between_directories_stays_throttled_until_it_is_stopped() -> None:
    """Without its throttle it would end before the broker is asked to stop it."""
    participants = Participants()
    moved = replace(GOAL, target=replicas(1, 2, 3), log_dirs=((BrokerId(2), "/data/b"),))
    participants.put(tp(0), moved, None)
    participants.put(tp(0), moved.rolled_back(replicas(1, 2, 3), RequestId("c")), None)
    assert participants.movers == {Entity("brokers/2"): {RequestId("r1"): 1}}
    participants.drop(tp(0))
    assert participants.movers == {}


def test_newer_note_is_not_settled_by_an_older_look() -> None:
    """What was decided on may be of yesterday."""
    participants = Participants()
    participants.note(Entity("topics/t"))
    seen = participants.unsettled[Entity("topics/t")]
    participants.note(Entity("topics/t"))
    assert not participants.settle(Entity("topics/t"), seen)
    assert Entity("topics/t") in participants.unsettled


def test_replica_that_others_removed_meanwhile_is_listed_as_a_receiver() -> None:
    """It was to stay, and is copied again now."""
    made = ThrottleRig()
    made.begin()
    made.want({ORDERS: (4, 2, 3)})
    assert made.values("topics/orders")[FOLLOWER_REPLICAS] == "0:4"
    moved = {
        **made.view.topics.by_name["orders"].partitions,
        0: PartitionAssignment(replicas(1, 3)),
    }
    read = TopicsRead({"orders": TopicAssignment(moved, ZkVersion(1), Zxid(1))})
    observe(made.view, read, made.now)
    assert made.gate(ORDERS) is not None
    made.settle()
    assert made.values("topics/orders")[FOLLOWER_REPLICAS] == "0:2,0:4"


def test_replica_that_others_removed_is_listed_though_its_topic_was_in_doubt_then() -> None:
    """The read that ends the doubt says the same again, and nothing is counted anew by it."""
    made = ThrottleRig()
    made.begin()
    made.want({ORDERS: (4, 2, 3)})
    topic = made.view.topics.by_name["orders"]
    topic.invalidate(1)
    moved = {**topic.partitions, 0: PartitionAssignment(replicas(1, 3))}
    read = {"orders": TopicAssignment(moved, ZkVersion(1), Zxid(1))}
    observe(made.view, TopicsRead(read, read_generation=0), made.now)
    assert made.view.topics.assignment(ORDERS) is None
    observe(made.view, TopicsRead(read, read_generation=1), made.now)
    assert made.view.topics.assignment(ORDERS) == moved[0]
    assert made.gate(ORDERS) is not None
    made.settle()
    assert made.values("topics/orders")[FOLLOWER_REPLICAS] == "0:2,0:4"
