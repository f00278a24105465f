"""
Check a plan: its changes, the entries that would be refused, and conflicts with requests.

Entries are checked with the daemon's own function. The daemon checks each entry again when it
accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.core import model
from controller.core.core_settings import Options
from controller.core.requests.acceptance import PlanEntry, refusal_of
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import Entry
from controller.zk.operator_client import OperatorClient
from controller.znodes.paths import reassignment_path

_PREVIEW: Final = model.RequestId("preview")


@dataclass(frozen=True, slots=True)
class PlanValidation:
    """The result of checking the entries of a plan."""

    problems: tuple[tuple[Entry, str], ...] = ()
    """Entries that would be refused, with the reason."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Topics with unknown settings, with the reason. Their entries would not be accepted."""

    def lines(self) -> Iterator[str]:
        """Describe the entries that would be refused or not accepted."""
        for entry, why in self.problems:
            yield f"{entry.partition} would be refused: {why}"
        yield from self.unknown_lines()

    def unknown_lines(self) -> Iterator[str]:
        """Describe the topics with unknown settings."""
        for topic, why in self.unknown.items():
            yield (
                f"{topic}: min.insync.replicas cannot be read from here; its entries are accepted "
                f"only once the daemon can read it: {why}"
            )


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
    )
