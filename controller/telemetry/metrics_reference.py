"""
Generate the reference of the metrics, ``docs/reference/metrics.md``.

``make reference`` writes the page; a test compares it with what is generated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from controller.core.model import BlockedBy, RefusalReason
from controller.core.phases import LABELS
from controller.reactor.ports import WriteError
from controller.telemetry.cluster_counts import UNNOTED
from controller.telemetry.gauges import BOUNDS, BYTE_STATES, PARTITION_STATES, REQUEST_STATES
from controller.telemetry.kafka_errors import ERROR_NAMES, ORDER_ERRORS, OTHER
from controller.telemetry.measurements import KIND_NAMES
from controller.telemetry.metrics import OPERATIONS, RESULTS, TARGETS, Metrics, SessionState
from controller.telemetry.progress import SLOTS

_HEAD: Final = """# Metrics

<!-- Made by `python -m controller.telemetry.metrics_reference`; do not edit. -->

`/metrics` serves them in Prometheus' text format. Every daemon exports all of them; what concerns
the work is zero, or absent, on a standby. Histograms have the usual `_bucket`, `_sum` and `_count`.

Labels are bounded: topics and partitions are in the log, the journal and the status page. Requests
appear by `slot`, a number from 0 on that an open request has and gives back when it has ended and
another needs it; `/status` says which request has which slot. Brokers appear by id.

Bytes come from DescribeLogDirs, asked every `copy_refresh` (running copies) and `size_refresh`
(everything in work). A partition counts as large as its largest replica.

| metric | type | labels | meaning |
|---|---|---|---|"""

LABEL_VALUES: Final = {
    "phase": tuple(LABELS.values()),
    "reason": (*(b.value for b in BlockedBy), UNNOTED),
    "reason of reassigner_refusals_total": tuple(r.value for r in RefusalReason),
    "slot": tuple(str(n) for n in range(SLOTS)),
    "state of reassigner_request_partitions": PARTITION_STATES,
    "state of reassigner_request_bytes and reassigner_bytes": BYTE_STATES,
    "state of reassigner_requests": REQUEST_STATES,
    "reassigner_zookeeper_session": tuple(s.value for s in SessionState),
    "bound": BOUNDS,
    "kind": KIND_NAMES,
    "error of reassigner_rpc_errors_total": (*ERROR_NAMES.values(), OTHER),
    "error of reassigner_write_rejections_total": tuple(e.value for e in WriteError),
    "operation": OPERATIONS,
    "part": ("decide", "commit", "send"),
    "target": TARGETS,
    "result of reassigner_notifications_total": RESULTS,
    "result of reassigner_orders_total": (*ORDER_ERRORS.values(), OTHER),
    "event": ("the classes of `controller/core/events.py`",),
    "broker": ("ids of registered brokers, and of those with a part in the work",),
}


class Described(NamedTuple):
    """One metric as it is documented."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


def described(metrics: Metrics) -> list[Described]:
    """Return every metric there is, by name."""
    found = []
    for family in metrics.registry.collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = metrics.labels_of(family)
        found.append(
            Described(family.name + suffix, family.type, labels, family.documentation.strip())
        )
    return sorted(found)


def reference() -> str:
    """Return the content of ``docs/reference/metrics.md``."""
    return "\n".join((_HEAD, *_lines())) + "\n"


def _lines() -> Iterator[str]:
    for metric in described(Metrics()):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.type} | {labels} | {metric.meaning} |"
    yield "\n## Values of labels\n"
    yield "| label | values |"
    yield "|---|---|"
    for label, values in LABEL_VALUES.items():
        yield f"| {label} | {', '.join(values)} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
