"""Tests of ``controller.telemetry.metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Refusal,
    RefusalReason,
)
from controller.core.reassignments.records import (
    AlterResult,
    ReassignmentsAltered,
    SpecEndedRecord,
    SpecRecord,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import Change
from controller.core.requests.records import RefusalRecord
from controller.core.role.records import (
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    UpdateMetadataAnswered,
)
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.telemetry.metrics import Measurements, Metrics
from controller.telemetry.phase_changes import EnteredPhase
from controller.telemetry.rpc_names import error_name
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, a_goal, a_view

EPOCH = ControllerEpoch(9)
ONE, EPOCH_OF_ONE = BrokerId(1), BrokerEpoch(101)
CHANGE = EnteredPhase(
    partition=tp(),
    phase="A2",
    before="pending",
    seconds=2.0,
    cause="",
    step=1,
    request=REQUEST,
    replicas=(),
    adding_replicas=(),
    removing_replicas=(),
    leader=None,
    isr=(),
    leader_epoch=None,
    controller_epoch=None,
    zk_version=None,
)


class Measured:
    """Measurements and what they led to."""

    def __init__(self) -> None:
        """Begin at zero, at Unix time 123."""
        self.metrics = Metrics()
        self.measurements = Measurements(self.metrics, lambda: 123.0)

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        """Return a sample."""
        return self.metrics.registry.get_sample_value(f"reassigner_{name}", dict(labels or {}))


def test_a_tenure_is_counted_from_claim_to_end() -> None:
    """One claim, one resignation, and the gauge between them."""
    seen, view = Measured(), a_view(1).view
    seen.measurements.event(ControllerClaimed(EPOCH), view, had_tenure=False)
    assert seen.value("claims_total") == 1
    assert seen.value("tenure_held") == 1
    assert seen.value("controller_epoch") == 9
    view.tenure.held = None
    seen.measurements.event(Deposed("moved"), view, had_tenure=True)
    seen.measurements.event(Deposed("moved"), view, had_tenure=False)
    assert seen.value("resignations_total") == 1
    assert seen.value("tenure_held") == 0


def test_leading_and_failed_claims_are_counted() -> None:
    """A daemon that leads and cannot claim is visible."""
    seen, view = Measured(), a_view(1, epoch=None).view
    seen.measurements.event(LeadershipGained(), view, had_tenure=False)
    seen.measurements.event(ClaimFailed("race"), view, had_tenure=False)
    assert seen.value("leader") == 1
    assert seen.value("claim_failures_total") == 1


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (LeaderAndIsr(EPOCH, (), ()), "leader_and_isr"),
        (UpdateMetadata(EPOCH, (), ()), "update_metadata"),
        (StopReplica(EPOCH, ()), "stop_replica"),
    ],
)
def test_requests_are_in_flight_until_answered(request_: BrokerRequest, kind: str) -> None:
    """The gauge of a broker that does not answer stays up."""
    seen, view = Measured(), a_view(1).view
    seen.measurements.count_request(ONE, request_)
    assert seen.value("rpcs_sent_total", {"broker": "1", "kind": kind}) == 1
    assert seen.value("effects_inflight", {"broker": "1"}) == 1
    answer = UpdateMetadataAnswered(ONE, EPOCH_OF_ONE, 0, took_s=0.25)
    seen.measurements.event(answer, view, had_tenure=True)
    labels = {"broker": "1", "kind": "update_metadata"}
    assert seen.value("rpc_seconds_count", labels) == 1
    assert seen.value("rpc_seconds_sum", labels) == 0.25
    assert seen.value("effects_inflight", {"broker": "1"}) == 0


def test_errors_of_requests_and_of_partitions_are_counted_by_name() -> None:
    """An unknown code does not become a label of its own."""
    seen, view = Measured(), a_view(1).view
    stopped = StopReplicaResult(tp(), LeaderEpoch(1), True, 12345)  # noqa: FBT003 - in the order of the protocol
    result = LeaderAndIsrResult(tp(), LeaderEpoch(1), 56)
    for event in (
        LeaderAndIsrAnswered(ONE, EPOCH_OF_ONE, 0, (result, result), resent=False),
        StopReplicaAnswered(ONE, EPOCH_OF_ONE, 77, (stopped,), resent=False),
    ):
        seen.measurements.event(event, view, had_tenure=True)
    errors = {
        ("leader_and_isr", "kafka_storage_error"): 2,
        ("stop_replica", "stale_broker_epoch"): 1,
        ("stop_replica", "other"): 1,
    }
    for (kind, error), count in errors.items():
        labels = {"broker": "1", "kind": kind, "error": error}
        assert seen.value("rpc_errors_total", labels) == count
    assert error_name(12345) == "other"


def test_broker_that_has_the_epoch_already_is_no_error() -> None:
    """An alert must not fire at each claim."""
    seen, view = Measured(), a_view(1).view
    known = LeaderAndIsrResult(tp(), LeaderEpoch(1), 11)
    answer = LeaderAndIsrAnswered(ONE, EPOCH_OF_ONE, 0, (known,), resent=False)
    seen.measurements.event(answer, view, had_tenure=True)
    labels = {"broker": "1", "kind": "leader_and_isr", "error": "stale_controller_epoch"}
    assert seen.value("rpc_errors_total", labels) is None


def test_alter_requests_are_counted_by_result() -> None:
    """Each partition once, the time once for each request."""
    seen, view = Measured(), a_view(1).view
    results = tuple(
        AlterResult(tp(number), (ONE,), error) for number, error in enumerate((0, 0, 85, 12345))
    )
    seen.measurements.event(ReassignmentsAltered(results, ONE, 0.25), view, had_tenure=True)
    late = ReassignmentsAltered((AlterResult(tp(0), (ONE,), 7),), None, 60.0)
    seen.measurements.event(late, view, had_tenure=True)
    counted = {"accepted": 2, "no_reassignment_in_progress": 1, "request_timed_out": 1, "other": 1}
    for result, count in (counted | {"not_controller": 0}).items():
        assert seen.value("orders_total", {"result": result}) == count
    assert seen.value("order_seconds_count") == 2
    assert seen.value("order_seconds_sum") == 60.25


def test_unregistered_broker_has_no_labels() -> None:
    """They would be unbounded."""
    seen, view = Measured(), a_view(1, 2).view
    seen.measurements.forget_brokers(view)
    seen.measurements.count_request(ONE, StopReplica(EPOCH, ()))
    del view.cluster.brokers[ONE]
    seen.measurements.forget_brokers(view)
    assert seen.value("effects_inflight", {"broker": "1"}) is None


def test_end_of_a_tenure_clears_requests_in_flight() -> None:
    """The channels are closed."""
    seen, view = Measured(), a_view(1).view
    seen.measurements.count_request(ONE, StopReplica(EPOCH, ()))
    view.tenure.held = None
    seen.measurements.event(Deposed("moved"), view, had_tenure=True)
    assert seen.value("effects_inflight", {"broker": "1"}) is None


def test_phases_are_timed_and_steps_counted() -> None:
    """The duration is of the phase that ended."""
    seen = Measured()
    seen.measurements.phase(CHANGE)
    seen.measurements.phase(replace(CHANGE, before="A2", seconds=None))
    assert seen.value("phase_seconds_sum", {"phase": "pending"}) == 2
    assert seen.value("phase_seconds_count", {"phase": "A2"}) is None
    assert seen.value("steps_total") == 1
    assert seen.value("last_progress_timestamp_seconds") == 123


def test_acceptances_ends_and_refusals_are_counted() -> None:
    """A change of the target is not another acceptance."""
    seen = Measured()
    spec = a_goal((4,))
    refusal = Refusal(REQUEST, "t-0", RefusalReason.UNKNOWN_BROKER, "no")
    seen.measurements.count_change(
        Change(
            (
                SpecRecord(tp(0), replace(spec, version=None)),
                SpecRecord(tp(1), spec),
                SpecEndedRecord(tp(2), None, REQUEST, "done"),
                RefusalRecord((refusal, refusal)),
            )
        )
    )
    assert seen.value("accepted_total") == 1
    assert seen.value("ended_total") == 1
    assert seen.value("refusals_total", {"reason": "unknown_broker"}) == 2
