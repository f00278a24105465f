"""
Check the entries of a plan with the daemon's own function.

The daemon checks each entry again when it accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controller.core import model
from controller.core.core_settings import Options
from controller.core.requests.entry_checks import PlanEntry, refusal_of
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import Entry
from controller.previews.plan_changes import PlanValidation
from controller.znodes.paths import reassignment_path

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

_PREVIEW: Final = model.RequestId("preview")


def validate(
    operator: OperatorClient, entries: Sequence[Entry], queries: ClusterQueries
) -> PlanValidation:
    """
    Check entries as the daemon does when it accepts them.

    Brokers are asked for the effective min.insync.replicas of all topics at once.
    """
    plan = [entry.partition for entry in entries]
    topics = operator.partitions.topics(p.topic for p in plan)
    brokers = operator.cluster.brokers()
    known = {n: t for n, t in topics.items() if isinstance(t, model.TopicAssignment)}
    least = queries.query_min_insync(queries.settings, brokers.values(), known) if known else {}
    view = ClusterView(Options())
    view.cluster.brokers = dict(brokers)
    view.deletions_session.markers = operator.partitions.deletions()
    view.pacing_process.controls = operator.requests.controls()
    view.topics.by_name = {n: Topic.of(t) for n, t in known.items()}
    view.topics.unreadable = {n: t for n, t in topics.items() if isinstance(t, str)}
    view.reassignments.unreadable_specs = {
        reassignment_path(p): g
        for p, g in operator.partitions.specs(plan).items()
        if isinstance(g, str)
    }
    view.topics.configs = {
        n: model.TopicConfig(m, unclean_leader_election=False)
        for n, m in least.items()
        if isinstance(m, int)
    }
    found = ((e, refusal_of(view, PlanEntry(_PREVIEW, e.partition, e.target))) for e in entries)
    return PlanValidation(
        tuple((entry, refusal.detail) for entry, refusal in found if refusal is not None),
        {n: m for n, m in sorted(least.items()) if isinstance(m, str)},
        dict(sorted(_tight(entries, least))),
    )


def _tight(entries: Sequence[Entry], least: Mapping[str, int | str]) -> Iterator[tuple[str, int]]:
    """Yield the topics of which partitions fall to as many replicas as min.insync.replicas."""
    for entry in entries:
        count, settled = len(entry.target), entry.settled
        falls = settled is not None and len(settled) > count
        if falls and count > 1 and least.get(entry.partition.topic) == count:
            yield entry.partition.topic, count
