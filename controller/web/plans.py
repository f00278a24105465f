"""Plans as the status page drafts and previews them: values, and the port to what submits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from controller.core.model import (
    NO_DIRS,
    BrokerId,
    NamedDirs,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.requests.submissions import RequestOptions


class PlacedPlan(NamedTuple):
    """The target replicas of partitions, and the log directories that entries name."""

    entries: Mapping[TopicPartition, Replicas]
    log_dirs: NamedDirs = NO_DIRS
    note: str | None = None
    """What was taken of a text that has more than a plan."""


class PreviewTable(NamedTuple):
    """One table of a forecast."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """What a plan would do; long lists are cut, counts are not."""

    entries: int
    refused: int
    """Entries that would be refused."""
    summary: Sequence[str] = ()
    problems: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    changes: Sequence[str] = ()
    tables: Sequence[PreviewTable] = ()
    waits: Sequence[str] = ()
    notes: Sequence[str] = ()


class Plans(Protocol):
    """Drafts, previews and submits plans, as the commands do; all may raise ControllerError."""

    def drain(self, broker: BrokerId) -> PlacedPlan:
        """Propose a plan that moves all replicas off a broker."""
        ...

    def parse(self, text: str) -> PlacedPlan:
        """Read a plan in the format of Kafka's tool."""
        ...

    def preview(self, plan: PlacedPlan, options: RequestOptions) -> PlanPreview:
        """Return what a plan would do."""
        ...

    def submit(self, plan: PlacedPlan, options: RequestOptions) -> RequestId:
        """Submit a plan; return the id of the request."""
        ...
