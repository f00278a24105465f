"""Checks of what else may move partitions here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot

CRUISE_CONTROL_TOPICS: Final = (
    "__CruiseControlMetrics",
    "__KafkaCruiseControlModelTrainingSamples",
    "__KafkaCruiseControlPartitionMetricSamples",
)
"""What Cruise Control keeps its samples in, as it is configured by default."""


def cruise_control(snapshot: Snapshot) -> Iterator[Finding]:
    """Find traces of Cruise Control, which cancels the reassignments of others by default."""
    traces = [topic for topic in CRUISE_CONTROL_TOPICS if topic in snapshot.znodes.topics]
    if traces:
        yield Finding(
            "cruise_control",
            Severity.INFO,
            ", ".join(traces),
            "Cruise Control works on this cluster, or once did: it cancels the reassignments of "
            "others when it begins its own, unless auto.stop.external.agent=false",
            "let only one of the two move partitions at a time; see docs/guide/coexistence.md",
        )
