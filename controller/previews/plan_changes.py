"""What a plan changes, in words: partitions, refused entries, conflicts with requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.core import model
from controller.core.requests.submissions import NO_DIRS, NamedDirs
from controller.previews.entries import Entry
from controller.previews.plan_files import document_of
from controller.units import ids, names_text


def rollback_of(entries: Iterable[Entry], log_dirs: NamedDirs = NO_DIRS) -> dict[str, object]:
    """Return the plan that restores the original replicas, with directories where known."""
    return document_of({e.partition: e.original for e in entries if e.original}, log_dirs)


def factor_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Describe which partitions get another replication factor."""
    found: dict[tuple[int, int], list[model.TopicPartition]] = {}
    for entry in entries:
        before = entry.settled
        if before is not None and len(before) != len(entry.target):
            found.setdefault((len(before), len(entry.target)), []).append(entry.partition)
    for (before_n, after_n), partitions in sorted(found.items()):
        verb = "rises" if after_n > before_n else "falls"
        count = model.count_text(len(partitions), "partition")
        yield (
            f"the replication factor of {count} {verb} from {before_n} to {after_n}: "
            f"{names_text(partitions)}"
        )


def changes_of(
    entries: Iterable[Entry], relocated: Mapping[model.TopicPartition, model.Replicas]
) -> Iterable[str]:
    """Describe the changes of a plan; relocated replicas move to other directories of brokers."""
    for entry in entries:
        now = entry.assignment
        if now is None:
            continue
        moved = relocated.get(entry.partition, ())
        if now.replicas == entry.target and not now.is_reassigning and not moved:
            yield f"{entry.partition}: is at {ids(entry.target)} already"
            continue
        added = [r for r in entry.target if r not in now.replicas]
        dropped = [r for r in now.replicas if r not in entry.target]
        parts = [f"adds {ids(added)}"] if added else []
        parts += [f"drops {ids(dropped)}"] if dropped else []
        parts += [f"changes directories on {ids(moved)}"] if moved else []
        what = ", ".join(parts) or "changes the order"
        yield f"{entry.partition}: {ids(now.replicas)} -> {ids(entry.target)} ({what})"


@dataclass(frozen=True, slots=True)
class PlanValidation:
    """The result of checking the entries of a plan."""

    problems: tuple[tuple[Entry, str], ...] = ()
    """Entries that would be refused, with the reason."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Topics with unknown settings, with the reason. Their entries would not be accepted."""
    tight: Mapping[str, int] = field(default_factory=dict)
    """Topics of which partitions fall to as many replicas as min.insync.replicas, with that."""

    def lines(self) -> Iterator[str]:
        """Describe the entries that would be refused or not accepted, and the topics to note."""
        for entry, why in self.problems:
            yield f"{entry.partition} would be refused: {why}"
        yield from self.topic_lines()

    def topic_lines(self) -> Iterator[str]:
        """Describe the topics with unknown settings, and those without a replica to spare."""
        for topic, why in self.unknown.items():
            yield (
                f"{topic}: min.insync.replicas cannot be read from here; its entries are accepted "
                f"only once the daemon can read it: {why}"
            )
        for topic, least in self.tight.items():
            yield (
                f"{topic}: partitions would have {least} replicas, as many as min.insync.replicas: "
                "while one of them is out of sync, producers with acks=all fail"
            )


@dataclass(frozen=True, slots=True)
class Conflict:
    """Partitions of a plan that another request is reassigning."""

    request: model.RequestId
    entries: tuple[Entry, ...]
    is_refused: bool
    """Whether the entries would be refused, because the other request has another route.

    Otherwise they supersede it.
    """

    def __str__(self) -> str:
        number = model.count_text(len(self.entries), "partition")
        partitions = names_text(entry.partition for entry in self.entries)
        request = model.request_text(self.request)
        if self.is_refused:
            return f"would be refused: {number} of {request}, which has another route: {partitions}"
        return f"would supersede {number} of {request}: {partitions}"

    def superseded_text(self) -> str:
        """Describe what is superseded once the plan is written."""
        return str(self).replace("would supersede", "supersedes", 1)

    def document(self) -> dict[str, object]:
        """Return the conflict for ``--json``."""
        return {
            "request": self.request,
            "would": "be_refused" if self.is_refused else "supersede",
            "partitions": [str(e.partition) for e in self.entries],
        }


def conflicts_of(entries: Iterable[Entry], route: model.Route | None) -> list[Conflict]:
    """
    Find the requests that are reassigning partitions of a plan.

    Its route is None for the queue, which supersedes requests of any route.
    """
    found: dict[tuple[model.RequestId, bool], list[Entry]] = {}
    for entry in entries:
        spec = entry.spec
        if spec is None:
            continue
        is_other = route is not None and spec.route is not route
        if is_other or spec.target != entry.target:
            found.setdefault((spec.request, is_other), []).append(entry)
    return [Conflict(name, tuple(some), refused) for (name, refused), some in found.items()]
