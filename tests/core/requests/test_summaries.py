"""The outcome of a request says of its bytes only what is known."""

from __future__ import annotations

from controller.core.core_settings import Options
from controller.core.cycle import apply, observe
from controller.core.model import Instant, ReassignmentSpec, RequestId, Route, ZkVersion
from controller.core.reassignments.records import DONE, SpecEndedRecord, SpecsRead
from controller.core.requests.completion import summary_of
from controller.core.view import ClusterView
from tests.core.builders import replicas, tp

NAME = RequestId("request_0000000001")
NOW = Instant(1000.0)


def inherited(entries: int) -> ClusterView:
    """Return a view that read one open reassignment of a request with so many entries."""
    view = ClusterView(Options())
    spec = ReassignmentSpec(replicas(2, 3), replicas(1, 2), NAME, Route.REQUEST, ZkVersion(0))
    observe(view, SpecsRead({tp(): spec}, {}), NOW)
    view.requests.by_id[NAME].total = entries
    return view


def ended(view: ClusterView) -> int | None:
    """End the reassignment, and return the bytes of the outcome."""
    view.reassignments.by_partition[tp()].part_way = True
    view.disks_process.sizes[tp()] = 30
    apply(view, SpecEndedRecord(tp(), ZkVersion(0), NAME, DONE), NOW)
    return summary_of(view, NAME, NOW).moved_bytes


def test_bytes_of_partitions_that_another_process_ended_are_not_left_out() -> None:
    """The sum of the others would look like the whole."""
    view = inherited(entries=2)
    assert ended(view) is None
    assert view.requests.by_id[NAME].done_elsewhere == 1


def test_bytes_are_known_where_this_process_saw_every_end() -> None:
    """Also of a request that it took over."""
    view = inherited(entries=1)
    assert ended(view) == 30
    assert view.requests.by_id[NAME].is_inherited
