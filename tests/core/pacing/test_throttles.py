"""Throttles are set before the first copy, stand as long as they are needed, and leave no trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.cycle import observe, take_due
from controller.core.effects import ReadEntityConfigs
from controller.core.model import (
    BlockedBy,
    BrokerId,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.controls import THROTTLE, UNTHROTTLED, Controls, Limits, RequestLimits
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    AppliedThrottlesRead,
    ControlsRead,
    EntityConfigsRead,
)
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    MOVE_RATE,
    AppliedThrottle,
    Entity,
    EntityConfig,
)
from controller.core.pacing.throttles import CHANGES_MAX, follow_throttles
from controller.core.reassignments.records import SpecRecord
from controller.core.records import Change
from controller.core.requests.model import Request
from controller.core.requests.submissions import RequestOptions
from controller.core.role.invalidation import invalidate
from controller.core.role.records import BrokersRead, ClaimGuardsRead
from tests.core.builders import broker, replicas, tp
from tests.core.pacing.throttle_rigs import REQUEST, ThrottleRig

OTHER = RequestId("request_0000000002")
ORDERS = "topics/orders"
GUARDS = ClaimGuardsRead(
    controller_broker=BrokerId(1),
    controller_is_ephemeral=True,
    kraft_controller_epoch=-1,
    feature_enabled=False,
    migration=None,
)


def orders(partition: int = 0) -> TopicPartition:
    """Return a partition of the topic."""
    return tp(partition, "orders")


def rig(**settings: dict[str, str]) -> ThrottleRig:
    """Return a rig that is warm, with these settings of ``topics/orders`` and of brokers."""
    made = ThrottleRig()
    for name, values in settings.items():
        entity = ORDERS if name == "orders" else f"brokers/{name.removeprefix('broker')}"
        made.settings[Entity(entity)] = EntityConfig(values, ZkVersion(3))
    made.begin()
    return made


def rates(text: str) -> dict[str, str]:
    """Return both rates of a broker."""
    return {LEADER_RATE: text, FOLLOWER_RATE: text}


def test_lists_and_rates_are_set_for_sources_and_targets() -> None:
    """Leaders list every replica from before, followers only what has to be copied."""
    made = rig()
    made.want({orders(0): (1, 2, 4), orders(2): (5, 3, 2)}, throttle=1000)
    assert made.values(ORDERS) == {
        LEADER_REPLICAS: "0:1,0:2,0:3,2:1,2:2,2:3",
        FOLLOWER_REPLICAS: "0:4,2:5",
    }
    for broker_id in range(1, 6):
        assert made.values(f"brokers/{broker_id}") == rates("1000")
    assert made.values("brokers/6") == {}
    assert made.gate(orders(0)) is None


def test_moves_are_limited_on_the_brokers_whose_directories_are_named() -> None:
    """Beside the copies, or without a throttle for these."""
    named = ((BrokerId(2), "/data/1"), (BrokerId(4), "/data/2"))
    for throttle, copies in ((1000, rates("1000")), (None, {})):
        made = rig()
        made.want({orders(): (1, 2, 4)}, throttle=throttle, moves=500, log_dirs=named)
        assert made.values("brokers/1") == copies
        for broker_id in (2, 4):
            assert made.values(f"brokers/{broker_id}") == copies | {MOVE_RATE: "500"}
        made.end(orders())
        assert made.values("brokers/2") == {}


def test_throttle_of_moves_ends_before_that_of_copies() -> None:
    """Other requests still copy under theirs."""
    made = rig()
    made.want({orders(0): (1, 2, 4)}, throttle=1000)
    log_dirs = ((BrokerId(2), "/data/1"),)
    made.want({orders(1): (1, 2, 3)}, throttle=None, request=OTHER, moves=5, log_dirs=log_dirs)
    assert made.values("brokers/2") == rates("1000") | {MOVE_RATE: "5"}
    made.end(orders(1))
    assert made.values("brokers/2") == rates("1000")
    made.end(orders(0))
    assert made.values("brokers/2") == {}


def test_throttle_of_moves_that_an_operator_set_is_kept() -> None:
    """Also when ours would end."""
    made = rig(broker2={MOVE_RATE: "7"})
    made.want({orders(): (1, 2, 3)}, moves=5, log_dirs=((BrokerId(2), "/data/1"),))
    assert made.values("brokers/2") == rates("1000000") | {MOVE_RATE: "7"}
    made.end(orders())
    assert made.values("brokers/2") == {MOVE_RATE: "7"}


def test_no_step_begins_before_its_throttle_stands() -> None:
    """Once copies run, a throttle comes too late."""
    made = rig()
    made.forbidden.add(Entity(ORDERS))
    made.want({orders(): (1, 2, 4)})
    blocked = made.gate(orders())
    assert blocked is not None
    assert blocked.by is BlockedBy.THROTTLE
    assert "topics/orders" in blocked.detail
    assert "no_auth" in blocked.detail
    made.forbidden.clear()
    made.refresh(6.0)
    assert made.gate(orders()) is None


def test_write_that_is_forbidden_is_not_tried_again_at_once() -> None:
    """Permissions do not change within milliseconds."""
    made = rig()
    made.forbidden.add(Entity(ORDERS))
    made.want({orders(): (1, 2, 4)})
    made.refresh(1.0)
    assert (
        sum(isinstance(w, AppliedThrottleRecord) and w.lease.entity == ORDERS for w in made.writes)
        == 1
    )


def test_settings_that_cannot_be_read_hold_the_step_with_their_reason() -> None:
    """Full speed is no answer to garbage."""
    made = ThrottleRig()
    made.settings[Entity(ORDERS)] = "not JSON"
    made.begin()
    made.want({orders(): (1, 2, 4)})
    blocked = made.gate(orders())
    assert blocked is not None
    assert "not JSON" in blocked.detail
    made.settings[Entity(ORDERS)] = EntityConfig({}, ZkVersion(9))
    made.refresh(6.0)
    assert made.gate(orders()) is None


def test_settings_that_turn_unreadable_do_not_hold_up_what_is_throttled() -> None:
    """They were right when last read, and the next write is conditional on their version."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    stood = made.view.pacing_leadership.entity_configs[Entity(ORDERS)]
    observe(made.view, EntityConfigsRead({Entity(ORDERS): "not JSON"}), made.now)
    made.settle()
    assert made.view.pacing_leadership.entity_configs[Entity(ORDERS)] == stood
    assert made.gate(orders()) is None


def test_request_without_throttle_waits_for_nothing_and_reads_nothing() -> None:
    """Most requests have none."""
    made = rig()
    made.want({orders(): (1, 2, 4)}, throttle=None)
    assert made.gate(orders()) is None
    assert made.reads == []
    assert made.writes == []


def test_nothing_is_rewritten_when_a_partition_ends_before_the_others() -> None:
    """A plan of thousands of partitions would else rewrite its topics thousands of times."""
    made = rig()
    made.want({orders(n): (1, 2, 4) for n in range(4)})
    written = len(made.writes)
    made.end(orders(0), orders(1), orders(2))
    assert len(made.writes) == written
    assert "0:4" in made.values(ORDERS)[FOLLOWER_REPLICAS]


def test_everything_is_as_before_when_the_last_partition_ended() -> None:
    """Settings that were not changed from outside are removed, and so are the records."""
    made = rig(orders={"retention.ms": "1000"})
    made.want({orders(0): (1, 2, 4), orders(1): (1, 2, 5)})
    made.end(orders(0), orders(1))
    assert made.values(ORDERS) == {"retention.ms": "1000"}
    assert all(made.values(f"brokers/{n}") == {} for n in range(1, 8))
    assert made.view.pacing_process.applied_throttles == {}
    assert made.view.pacing_leadership.entity_configs == {}


def test_a_topic_without_open_partitions_loses_its_throttle_while_the_request_continues() -> None:
    """A lease lasts as long as the topic needs it, not as the request lasts."""
    made = ThrottleRig(topics={"orders": 1, "payments": 1})
    made.begin()
    made.want({orders(): (1, 2, 4), tp(0, "payments"): (1, 2, 5)})
    made.end(orders())
    assert made.values(ORDERS) == {}
    assert made.values("topics/payments") != {}
    assert made.values("brokers/4") == {}
    assert made.values("brokers/1") == rates("1000000")


def test_rate_of_a_broker_is_the_lowest_of_the_requests_that_concern_it() -> None:
    """Its setting cannot distinguish requests."""
    made = rig()
    made.want({orders(0): (1, 2, 4)}, throttle=5000)
    made.want({orders(1): (1, 2, 5)}, throttle=700, request=OTHER)
    assert made.values("brokers/1") == rates("700")
    assert made.values("brokers/4") == rates("5000")
    made.end(orders(1))
    assert made.values("brokers/1") == rates("5000")


def test_live_change_of_the_rate_rewrites_brokers_only() -> None:
    """Lists do not depend on it."""
    made = rig()
    made.want({orders(0): (1, 2, 4)}, throttle=5000)
    made.writes.clear()
    limits = Limits(requests={REQUEST: RequestLimits(throttle=9000)})
    made.view.pacing_process.controls = Controls(limits=limits)
    made.change_controls()
    assert made.values("brokers/4") == rates("9000")
    written = [w.lease.entity for w in made.writes if isinstance(w, AppliedThrottleRecord)]
    assert sorted(written) == [f"brokers/{n}" for n in range(1, 5)]
    made.end(orders(0))
    assert made.values("brokers/4") == {}


def test_throttle_for_all_is_that_of_requests_without_their_own() -> None:
    """``reassigner throttle`` sets it; the request's own goes first."""
    made = rig()
    made.view.pacing_process.controls = Controls(throttle=300)
    made.want({orders(0): (1, 2, 4)}, throttle=None)
    made.want({orders(1): (1, 2, 5)}, throttle=800, request=OTHER)
    assert made.values("brokers/4") == rates("300")
    assert made.values("brokers/5") == rates("800")
    made.view.pacing_process.controls = Controls()
    made.change_controls()
    assert made.values("brokers/4") == {}
    assert made.values("brokers/5") == rates("800")


def test_a_rate_of_the_operator_stays_and_is_reported() -> None:
    """It was there first; what he wants is not ours to know."""
    made = rig(broker4={LEADER_RATE: "77"})
    made.want({orders(): (1, 2, 4)}, throttle=1000)
    assert made.values("brokers/4") == {LEADER_RATE: "77", FOLLOWER_RATE: "1000"}
    assert made.view.pacing_leadership.kept_throttles == {
        Entity("brokers/4"): (f"{LEADER_RATE}=77",)
    }
    assert made.gate(orders()) is None
    made.end(orders())
    assert made.values("brokers/4") == {LEADER_RATE: "77"}


def test_every_replica_of_the_operator_stays() -> None:
    """A list that names all needs nothing added, and nothing taken out at the end."""
    made = rig(orders={FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"})
    made.want({orders(): (1, 2, 4)})
    assert made.values(ORDERS) == {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"}
    assert Entity(ORDERS) not in made.view.pacing_process.applied_throttles
    assert made.gate(orders()) is None
    made.end(orders())
    assert made.values(ORDERS) == {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"}


def test_list_of_the_operator_is_added_to_and_given_back_in_his_order() -> None:
    """What was there comes first and stays as it was."""
    made = rig(orders={FOLLOWER_REPLICAS: "3:7,0:4"})
    made.want({orders(0): (1, 2, 4), orders(1): (1, 2, 5)})
    assert made.values(ORDERS)[FOLLOWER_REPLICAS] == "3:7,0:4,1:5"
    made.end(orders(0), orders(1))
    assert made.values(ORDERS) == {FOLLOWER_REPLICAS: "3:7,0:4"}


def test_what_others_add_meanwhile_stays() -> None:
    """Only what we added is taken out."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    made.operator_sets(ORDERS, **{FOLLOWER_REPLICAS: "0:4,3:6", "retention.ms": "5"})
    made.end(orders())
    assert made.values(ORDERS) == {FOLLOWER_REPLICAS: "3:6", "retention.ms": "5"}


def test_a_rate_that_was_changed_from_outside_is_left_alone_at_the_end() -> None:
    """It is his now."""
    made = rig()
    made.want({orders(): (1, 2, 4)}, throttle=1000)
    made.operator_sets("brokers/4", **{FOLLOWER_RATE: "5"})
    made.end(orders())
    assert made.values("brokers/4") == {FOLLOWER_RATE: "5"}
    assert Entity("brokers/4") not in made.view.pacing_process.applied_throttles


def test_a_throttle_that_was_cleared_from_outside_is_set_again() -> None:
    """The stock tool's ``--verify`` clears those of all brokers when it sees nothing moving."""
    made = rig()
    made.want({orders(): (1, 2, 4)}, throttle=1000)
    made.operator_sets("brokers/4", **{FOLLOWER_RATE: None, LEADER_RATE: None})
    made.operator_sets(ORDERS, **{FOLLOWER_REPLICAS: None})
    made.refresh(made.view.options.config_refresh_s)
    assert made.values("brokers/4") == rates("1000")
    assert made.values(ORDERS)[FOLLOWER_REPLICAS] == "0:4"


def test_rejected_write_is_decided_anew_on_what_stands_there() -> None:
    """A change from outside between our read and our write is kept."""
    made = rig()
    made.want({orders(0): (1, 2, 4)})
    made.operator_sets(ORDERS, **{"retention.ms": "5"})
    made.want({orders(1): (1, 2, 5)}, request=OTHER)
    assert made.values(ORDERS)["retention.ms"] == "5"
    assert made.values(ORDERS)[FOLLOWER_REPLICAS] == "0:4,1:5"


def test_dead_broker_gets_its_rate_when_it_is_back() -> None:
    """It copies nothing before, and nothing waits for it."""
    made = rig()
    alive = {BrokerId(n): broker(n) for n in range(1, 8)}
    observe(made.view, BrokersRead({b: r for b, r in alive.items() if b != 3}), made.now)
    made.want({orders(): (1, 2, 4)}, throttle=1000)
    assert made.gate(orders()) is None
    assert made.values("brokers/3") == {}
    observe(made.view, BrokersRead(alive), made.now)
    assert made.gate(orders()) is not None
    made.settle()
    assert made.values("brokers/3") == rates("1000")
    made.end(orders())
    assert made.values("brokers/3") == {}


def left_by_a_crash() -> ThrottleRig:
    """Return a cluster where broker 5 has a leased rate beside a setting of the operator."""
    made = ThrottleRig()
    made.settings[Entity("brokers/5")] = EntityConfig({**rates("9"), "x": "y"}, ZkVersion(4))
    lease = AppliedThrottle(
        Entity("brokers/5"), rates("9"), dict.fromkeys(rates("9")), ZkVersion(0)
    )
    made.applied_throttles = {Entity("brokers/5"): lease}
    return made


def test_leases_left_by_a_crash_are_lifted_outside_a_tenure() -> None:
    """No reassignment needs them; their removal needs no controller role."""
    made = left_by_a_crash()
    made.view.tenure.held = None
    made.view.topics.listed = frozenset()
    assert not made.view.is_warm
    made.begin()
    assert made.values("brokers/5") != {"x": "y"}
    warm = made.view
    warm.topics.listed = frozenset(warm.topics.by_name)
    warm.requests_session.legacy_read = warm.reassignments_leadership.orphans_read = (
        warm.requests_session.cancellation_read
    ) = warm.requests_session.queue_read = True
    warm.requests_session.kill_switch = False
    warm.deletions_session.markers = warm.requests_session.submissions_listed = frozenset()
    warm.role_session.guards = GUARDS
    assert warm.is_warm
    made.change_controls()
    assert made.values("brokers/5") == {"x": "y"}
    assert warm.pacing_process.applied_throttles == {}


def test_leases_are_not_lifted_before_the_goals_are_known() -> None:
    """After a restart nothing seems to need them; that is only because nothing was read."""
    made = left_by_a_crash()
    made.view.reassignments_leadership.specs_read = False
    made.begin()
    assert made.writes == []


def test_leases_are_not_lifted_while_the_throttle_for_all_was_never_understood() -> None:
    """It may be what they are for: copies that are under way would go at full speed."""
    made = left_by_a_crash()
    made.view.pacing_process.controls_known = False
    observe(made.view, ControlsRead(Controls(unreadable={THROTTLE: "not JSON"})), made.now)
    made.begin()
    assert made.writes == []
    observe(made.view, ControlsRead(Controls()), made.now)
    made.settle()
    assert made.values("brokers/5") == {"x": "y"}


def test_leases_of_a_deleted_topic_end_without_touching_its_settings() -> None:
    """Writing them would bring settings of a topic to life that is gone."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    del made.settings[Entity(ORDERS)]
    made.end(orders())
    assert Entity(ORDERS) not in made.settings
    assert Entity(ORDERS) not in made.view.pacing_process.applied_throttles
    ended = [
        w for w in made.writes if isinstance(w, AppliedThrottleEndedRecord) and w.entity == ORDERS
    ]
    assert ended[-1].values is None


def test_throttle_is_not_abandoned_because_of_a_read_that_our_own_write_overtook() -> None:
    """The read shows the settings as the former topic's deletion left them: none."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    late = EntityConfigsRead({Entity(ORDERS): EntityConfig({}, None)})
    assert made.values(ORDERS)
    observe(made.view, late, made.now)
    made.end(orders())
    assert made.values(ORDERS) == {}
    assert Entity(ORDERS) not in made.view.pacing_process.applied_throttles


def test_way_back_throttles_what_was_dropped_and_serves_from_what_was_added() -> None:
    """A rollback copies too, in the other direction."""
    made = rig()
    made.want({orders(): (4, 5, 3)})
    moved = replace(made.view.topics.by_name["orders"].partitions[0], replicas=replicas(2, 3, 4))
    made.view.topics.by_name["orders"].partitions[0] = moved
    spec = made.view.reassignments.by_partition[orders()].spec
    back = replace(
        spec,
        target=replicas(1, 2, 3),
        cancelled_by=RequestId("cancel-1"),
        abandoned=frozenset(replicas(4, 5)),
    )
    made.apply(SpecRecord(orders(), back))
    assert made.gate(orders()) is not None
    made.settle()
    assert made.gate(orders()) is None
    assert "0:1" in made.values(ORDERS)[FOLLOWER_REPLICAS]
    assert "0:4" in made.values(ORDERS)[LEADER_REPLICAS]
    made.end(orders())
    assert made.values(ORDERS) == {}


def test_goal_that_comes_while_its_topic_is_found_right_is_not_overlooked() -> None:
    """The list was right for what was known when it was looked at."""
    made = rig()
    made.want({orders(0): (1, 2, 4)})
    made.view.pacing_process.participants.note(Entity(ORDERS))
    decision = follow_throttles(made.view, take_due(made.view), made.now)
    spec = replace(
        made.view.reassignments.by_partition[orders(0)].spec, target=replicas(1, 2, 6), version=None
    )
    made.apply(SpecRecord(orders(1), spec))
    for change in decision.changes:
        made.commit(change)
    assert made.gate(orders(1)) is not None
    made.settle()
    assert made.gate(orders(1)) is None
    assert "1:6" in made.values(ORDERS)[FOLLOWER_REPLICAS]


def test_many_topics_are_set_in_several_turns() -> None:
    """A turn must not last longer than the claim does without us."""
    made = ThrottleRig(topics={f"t{n}": 1 for n in range(CHANGES_MAX * 2)})
    made.begin()
    made.want({tp(0, f"t{n}"): (1, 2, 4) for n in range(CHANGES_MAX * 2)})
    assert all(made.values(f"topics/t{n}") for n in range(CHANGES_MAX * 2))
    made.end(*list(made.view.reassignments.by_partition))
    made.want({tp(0, f"t{n}"): (1, 2, 4) for n in range(CHANGES_MAX * 2)}, request=OTHER)
    assert all(made.gate(p) is None for p in made.view.reassignments.by_partition)


def test_reassignment_that_others_began_is_not_throttled() -> None:
    """The client that started it chose its throttle."""
    made = rig()
    made.view.pacing_process.controls = Controls(throttle=300)
    made.want({orders(0): (1, 2, 4)}, throttle=None)
    spec = replace(
        made.view.reassignments.by_partition[orders(0)].spec, route=Route.FOREIGN, version=None
    )
    made.apply(SpecRecord(orders(1), spec))
    made.settle()
    assert made.gate(orders(1)) is None
    assert "1:4" not in made.values(ORDERS)[FOLLOWER_REPLICAS]


def test_every_read_is_requested_once() -> None:
    """What is being read is not asked for in each turn again."""
    made = rig()
    made.view.pacing_process.controls = Controls(throttle=300)
    made.want({orders(0): (1, 2, 4)})
    assert len(made.reads) == len(set(made.reads))
    made.view.pacing_process.participants.note(Entity("brokers/7"))
    effects = follow_throttles(made.view, take_due(made.view), made.now).effects
    assert not any(isinstance(e, ReadEntityConfigs) for e in effects)


def turned(made: ThrottleRig, throttle: int, request: RequestId = REQUEST) -> None:
    """Set a request's throttle live."""
    limits = Limits(requests={request: RequestLimits(throttle=throttle)})
    made.view.pacing_process.controls = replace(made.view.pacing_process.controls, limits=limits)
    made.change_controls()


def test_lifting_the_throttle_of_a_request_restores_every_setting() -> None:
    """``reassigner throttle none --request``: neither lists nor rates stay while it copies on."""
    made = rig(orders={"retention.ms": "1000"})
    made.want({orders(0): (1, 2, 4), orders(1): (1, 2, 5)}, throttle=5000)
    turned(made, UNTHROTTLED)
    assert made.values(ORDERS) == {"retention.ms": "1000"}
    assert all(made.values(f"brokers/{n}") == {} for n in range(1, 8))
    assert made.view.pacing_process.applied_throttles == {}
    assert made.gate(orders(0)) is None
    turned(made, 700)
    assert made.values("brokers/4") == rates("700")
    assert "0:4" in made.values(ORDERS)[FOLLOWER_REPLICAS]


def test_lifted_throttle_holds_against_the_throttle_for_all() -> None:
    """None is not "as all": the operator wants this request at full speed."""
    made = rig()
    made.view.pacing_process.controls = Controls(throttle=300)
    made.want({orders(0): (1, 2, 4)}, throttle=None)
    assert made.values("brokers/4") == rates("300")
    turned(made, UNTHROTTLED)
    assert made.values("brokers/4") == {}
    assert made.values(ORDERS) == {}


def test_lifting_one_request_takes_its_partitions_off_the_lists_of_a_shared_topic() -> None:
    """A broker's rate may stay for another request: listed, its replicas would still obey it."""
    made = rig(orders={FOLLOWER_REPLICAS: "7:7"})
    made.want({orders(0): (1, 2, 4)}, throttle=5000)
    made.want({orders(1): (1, 2, 4)}, throttle=700, request=OTHER)
    assert made.values("brokers/4") == rates("700")
    turned(made, UNTHROTTLED, OTHER)
    assert made.values(ORDERS) == {
        LEADER_REPLICAS: "0:1,0:2,0:3",
        FOLLOWER_REPLICAS: "7:7,0:4",
    }
    assert made.values("brokers/4") == rates("5000")
    written = len(made.writes)
    made.refresh(600.0)
    assert len(made.writes) == written
    made.end(orders(0))
    assert made.values(ORDERS) == {FOLLOWER_REPLICAS: "7:7"}
    assert made.view.pacing_process.applied_throttles == {}


def test_lifting_one_request_narrows_a_list_that_covers_every_replica() -> None:
    """``*`` would hold what has no throttle any more."""
    made = rig(orders={LEADER_REPLICAS: "7:7"})
    made.want({orders(0): (1, 2, 4)}, throttle=5000)
    made.want({orders(1): (1, 2, 4)}, throttle=700, request=OTHER)
    entity = Entity(ORDERS)
    lease = made.view.pacing_process.applied_throttles[entity]
    whole = {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}
    made.view.pacing_process.applied_throttles[entity] = replace(lease, ours=whole)
    config = EntityConfig(whole, ZkVersion(9))
    made.settings[entity] = made.view.pacing_leadership.entity_configs[entity] = config
    turned(made, UNTHROTTLED, OTHER)
    assert made.values(ORDERS) == {
        LEADER_REPLICAS: "7:7,0:1,0:2,0:3",
        FOLLOWER_REPLICAS: "0:4",
    }
    made.end(orders(0))
    assert made.values(ORDERS) == {LEADER_REPLICAS: "7:7"}


def test_the_gate_says_which_throttle_is_being_set() -> None:
    """Until the write is made, or found not to be needed."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    made.view.pacing_process.participants.note(Entity(ORDERS))
    blocked = made.gate(orders())
    assert blocked is not None
    assert blocked.detail == "the throttle of topics/orders is being set"


@pytest.mark.parametrize(
    ("others", "rest"), [({}, None), ({FOLLOWER_REPLICAS: "3:7"}, "3:7")], ids=["ours", "theirs"]
)
def test_a_list_with_nothing_of_ours_left_is_as_others_set_it(
    others: dict[str, str], rest: str | None
) -> None:
    """The throttle of one request is taken away, and what is left of the other copies nothing."""
    made = rig(orders=others)
    made.want({orders(0): (2, 1, 3)})
    made.want({orders(1): (1, 2, 5)}, request=OTHER)
    assert "1:5" in made.values(ORDERS)[FOLLOWER_REPLICAS]
    limits = Limits(requests={OTHER: RequestLimits(throttle=UNTHROTTLED)})
    made.view.pacing_process.controls = Controls(limits=limits)
    made.change_controls()
    assert made.values(ORDERS).get(FOLLOWER_REPLICAS) == rest
    assert "0:1" in made.values(ORDERS)[LEADER_REPLICAS]


def test_a_turn_writes_no_more_settings_than_its_limit() -> None:
    """A turn must not last longer than the claim does without us."""
    topics = {f"t{n}": 1 for n in range(CHANGES_MAX + 10)}
    made = ThrottleRig(topics=topics)
    made.begin()
    observe(
        made.view,
        EntityConfigsRead({Entity(f"topics/{t}"): EntityConfig({}, ZkVersion(0)) for t in topics}),
        made.now,
    )
    made.view.requests.by_id[REQUEST] = Request(
        Route.REQUEST, made.now, options=RequestOptions(throttle=5)
    )
    for topic in topics:
        spec = ReassignmentSpec(replicas(1, 2, 4), replicas(1, 2, 3), REQUEST, Route.REQUEST)
        made.apply(SpecRecord(tp(0, topic), spec))
    decision = follow_throttles(made.view, take_due(made.view), made.now)
    assert len(decision.changes) == CHANGES_MAX


def test_a_lease_in_doubt_is_as_it_is_read() -> None:
    """The setting was changed from outside; the rest only we write."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    known = dict(made.view.pacing_process.applied_throttles)
    made.view.pacing_leadership.unconfirmed_throttles.add(Entity(ORDERS))
    observe(made.view, AppliedThrottlesRead({}), made.now)
    assert known.keys() - made.view.pacing_process.applied_throttles.keys() == {ORDERS}


def test_a_lease_that_is_written_is_in_doubt_no_more() -> None:
    """A read that began before the write does not take it back."""
    made = rig()
    made.want({orders(0): (1, 2, 4)})
    before = dict(made.view.pacing_process.applied_throttles)
    made.operator_sets(ORDERS, **{"retention.ms": "5"})
    made.want({orders(1): (1, 2, 5)}, request=OTHER)
    written = made.view.pacing_process.applied_throttles[Entity(ORDERS)]
    assert written != before[Entity(ORDERS)]
    observe(made.view, AppliedThrottlesRead(before), made.now)
    assert made.view.pacing_process.applied_throttles[Entity(ORDERS)] == written


def test_a_rate_that_others_set_over_ours_is_reported_while_it_replaces_ours() -> None:
    """The copies obey it; the operator learns why the rate of the request does not hold."""
    made = rig()
    made.want({orders(): (1, 2, 4)}, throttle=1000)
    assert made.view.pacing_leadership.kept_throttles == {}
    made.operator_sets("brokers/4", **{LEADER_RATE: "77", FOLLOWER_RATE: "77"})
    made.refresh(made.view.options.config_refresh_s)
    assert made.view.pacing_leadership.kept_throttles == {
        Entity("brokers/4"): (f"{LEADER_RATE}=77", f"{FOLLOWER_RATE}=77")
    }
    made.operator_sets("brokers/4", **{LEADER_RATE: "1000", FOLLOWER_RATE: "1000"})
    made.refresh(made.view.options.config_refresh_s)
    assert made.view.pacing_leadership.kept_throttles == {}


@pytest.mark.parametrize(
    ("theirs", "replaces"),
    [("0:4", True), ("0:4,3:7", True), ("*", True)],
    ids=["the same", "more", "every replica"],
)
def test_a_list_of_others_that_names_every_wanted_replica_is_reported(
    theirs: str, *, replaces: bool
) -> None:
    """Nothing of it is ours, so nothing of it is removed in the end."""
    made = rig(orders={FOLLOWER_REPLICAS: theirs})
    made.want({orders(): (1, 2, 4)})
    kept = made.view.pacing_leadership.kept_throttles.get(Entity(ORDERS), ())
    assert (kept == (f"{FOLLOWER_REPLICAS}={theirs}",)) == replaces


@pytest.mark.parametrize(
    ("theirs", "replaces"),
    [("0:4,3:7", False), ("*", True), (" * ", True)],
    ids=["more", "every replica", "every replica, with blanks"],
)
def test_a_list_that_others_extend_is_ours_until_it_covers_every_replica(
    theirs: str, *, replaces: bool
) -> None:
    """Our entries in a longer list still hold; in a list of all replicas none is ours."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    made.operator_sets(ORDERS, **{FOLLOWER_REPLICAS: theirs})
    made.refresh(made.view.options.config_refresh_s)
    kept = made.view.pacing_leadership.kept_throttles.get(Entity(ORDERS), ())
    assert kept == ((f"{FOLLOWER_REPLICAS}={theirs}",) if replaces else ())


def test_a_long_list_of_others_is_reported_by_its_beginning() -> None:
    """It may name thousands of replicas."""
    theirs = ",".join(["0:4", *(f"{n}:7" for n in range(1, 100))])
    made = rig(orders={FOLLOWER_REPLICAS: theirs})
    made.want({orders(): (1, 2, 4)})
    (kept,) = made.view.pacing_leadership.kept_throttles[Entity(ORDERS)]
    assert kept == f"{FOLLOWER_REPLICAS}={theirs[:60]}"


def test_a_written_setting_is_expected_at_the_version_that_the_write_leaves() -> None:
    """The next write is a compare-and-set on it, and an older read does not replace it."""
    made = rig()
    made.want({orders(0): (1, 2, 4)})
    entity = Entity(ORDERS)
    assert made.view.pacing_leadership.entity_configs[entity] == made.settings[entity]
    assert made.view.pacing_process.applied_throttles[entity].version == 0
    stood = made.view.pacing_leadership.entity_configs[entity]
    observe(made.view, EntityConfigsRead({entity: EntityConfig({}, ZkVersion(0))}), made.now)
    assert made.view.pacing_leadership.entity_configs[entity] == stood
    made.want({orders(1): (1, 2, 5)}, request=OTHER)
    assert made.view.pacing_leadership.entity_configs[entity] == made.settings[entity]
    assert made.view.pacing_process.applied_throttles[entity].version == 1
    newest = EntityConfig({"retention.ms": "5"}, ZkVersion(9))
    observe(made.view, EntityConfigsRead({entity: newest}), made.now)
    assert made.view.pacing_leadership.entity_configs[entity] == newest


def test_a_rejected_throttle_is_read_at_once_and_decided_again() -> None:
    """Another client changed the settings, or another daemon the record."""
    made = rig()
    made.want({orders(): (1, 2, 4)})
    (written,) = [
        w for w in made.writes if isinstance(w, AppliedThrottleRecord) and w.lease.entity == ORDERS
    ]
    assert invalidate(made.view, Change((written,))) == [ReadEntityConfigs((Entity(ORDERS),))]
    assert Entity(ORDERS) in made.view.pacing_process.participants.unsettled
    assert made.gate(orders()) is not None


def test_a_refusal_is_forgotten_once_the_throttle_is_written() -> None:
    """A later wait for the same throttle has another reason."""
    made = rig()
    made.forbidden.add(Entity(ORDERS))
    made.want({orders(0): (1, 2, 4)})
    assert list(made.view.pacing_leadership.throttle_refusals) == [ORDERS]
    made.forbidden.clear()
    made.refresh(6.0)
    assert made.view.pacing_leadership.throttle_refusals == {}


def test_no_step_begins_before_the_applied_throttles_are_read() -> None:
    """Which of them hold is not known at the begin of a tenure."""
    made = rig()
    made.want({orders(0): (1, 2, 4)})
    assert made.gate(orders(0)) is None
    made.view.pacing_leadership.applied_throttles_read = False
    blocked = made.gate(orders(0))
    assert blocked is not None
    assert blocked.detail == "the applied throttles are being read"
