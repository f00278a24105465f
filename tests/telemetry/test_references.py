"""The references of metrics and journal say what the code does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.telemetry.metrics import Metrics
from docs.generate import journal, metrics

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize(
    ("name", "reference"),
    [("metrics", metrics.reference), ("journal", journal.reference)],
)
def test_reference_is_up_to_date(name: str, reference: Callable[[], str]) -> None:
    """`make reference` writes it anew."""
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == reference()


def test_every_metric_has_a_meaning_and_every_label_its_values() -> None:
    """Nothing is exported that the reference does not explain."""
    found = metrics.described(Metrics())
    assert len(found) > 60
    for metric in found:
        assert metric.meaning
        for label in metric.labels:
            values = metrics.LABEL_VALUES
            assert label in values or any(metric.name in key for key in values), label


def test_labels_are_known_without_samples() -> None:
    """A fresh daemon documents the same as one that works."""
    labels = {m.name: m.labels for m in metrics.described(Metrics())}
    assert labels["reassigner_rpc_seconds"] == ("broker", "kind")
    assert labels["reassigner_request_bytes"] == ("slot", "state")
    assert labels["reassigner_steps_total"] == ()
