"""Tests of ``controller.doctor.environment_checks``."""

from __future__ import annotations

from controller.core.model import TopicPartition
from controller.doctor.environment_checks import cruise_control
from controller.doctor.findings import Severity
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found


def test_traces_of_cruise_control_are_a_remark() -> None:
    """By the topics it keeps its samples in; it may be long gone."""
    built = SnapshotBuilder(1).partition(tp(), (1,))
    assert found(cruise_control, built) == []
    built.partition(TopicPartition("__CruiseControlMetrics", 0), (1,))
    (finding,) = cruise_control(built.build())
    assert finding.subject == "__CruiseControlMetrics"
    assert finding.severity is Severity.INFO
    assert "auto.stop.external.agent" in finding.evidence
