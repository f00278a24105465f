"""
Checks of a journal: whether each step that it has was one that the daemon may take.

Reads the ``phase`` lines alone. Invariant: no finding rests on a line that may be missing, as a
slow or full disk drops lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controller.core.model import TopicPartition
from controller.core.reassignments.phases import LABELS, LEGAL, RESETS
from controller.doctor.findings import Finding, critical, info

EXCLUDED: Final = frozenset({"B3", "B5"})
"""The phases in which the dropped replicas are out of the ISR."""
_STEPS: Final = frozenset((LABELS[b], LABELS[a]) for b, after in LEGAL.items() for a in after)
_RESETS: Final = frozenset((LABELS[b], LABELS[a]) for b, after in RESETS.items() for a in after)
"""No line of its own: the next one has the phase before or after it."""
_CHANGES: Final = _STEPS | {(b, a) for b, reset in _RESETS for r, a in _STEPS if r == reset}
ADVICE: Final = "keep the journal and ZooKeeper's transaction logs, and report a defect"


def journal_findings(directory: str, lines: Iterable[str]) -> Iterator[Finding]:
    """
    Return the steps in a daemon's journal that break a rule.

    Args:
        directory: The directory of the journal, for people.
        lines: All its lines, the oldest first.

    """
    known = _Known()
    checked = 0
    for line in _phase_lines(lines, known):
        checked += 1
        yield from _broken(line, known)
    evidence = f"{checked} changes of phase were checked"
    yield info("journal_checked", directory, evidence, "nothing")


@dataclass(slots=True)
class _Known:
    """What earlier lines of the present process show."""

    phases: dict[TopicPartition, str] = field(default_factory=dict)
    epochs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The version of the state's znode, and its leader epoch."""


def _phase_lines(lines: Iterable[str], known: _Known) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            content = json.loads(line)
        except ValueError:
            continue  # truncated by a full disk or a crash
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind in {"daemon_started", "journal_dropped"}:
            known.phases.clear()
        elif kind == "phase":
            yield content


def _broken(line: Mapping[str, Any], known: _Known) -> Iterator[Finding]:
    partition = TopicPartition(line["topic"], line["partition"])
    for rule in _broken_rules(partition, line, known):
        evidence = f"{line['at']}: {rule}"
        yield critical("journal", str(partition), evidence, ADVICE)
    known.phases[partition] = line["phase"]


def _broken_rules(
    partition: TopicPartition, line: Mapping[str, Any], known: _Known
) -> Iterator[str]:
    before, phase, last = line["before"], line["phase"], known.phases.get(partition)
    if (before, phase) not in _CHANGES:
        yield f"{phase} may not follow {before}"
    if last not in {None, before, "ended"} and (last, before) not in _RESETS:
        yield f"{before} may not follow {last}"
    yield from _broken_step(line) if phase in EXCLUDED or before in EXCLUDED else ()
    version, epoch = line["zk_version"], line["leader_epoch"]
    if version is not None and epoch is not None:
        former = known.epochs.get(partition, (version, epoch))
        # A lower version is that of a topic that was created again.
        if version >= former[0] and epoch < former[1]:
            yield f"the leader epoch fell from {former[1]} to {epoch}"
        known.epochs[partition] = version, epoch


def _broken_step(line: Mapping[str, Any]) -> Iterator[str]:
    """
    Judge what the native engine wrote with one multi.

    Other lines show topic and state as they were read, one after the other.
    """
    phase, isr, leader = line["phase"], set(line["isr"]), line["leader"]
    replicas, removing = set(line["replicas"]), set(line["removing_replicas"])
    if phase in EXCLUDED:
        if removing & {*isr, leader}:
            yield f"{phase}: {sorted(removing)} are to be dropped, the ISR is {line['isr']}"
        if leader not in {None, -1, *isr}:
            yield f"leader {leader} is not in the ISR {sorted(isr)}"
        if not isr <= replicas:
            yield f"ISR {sorted(isr)} is not within the replicas {sorted(replicas)}"
    lacking = set(line["adding_replicas"]) - removing - isr
    if phase == "B3" and lacking:
        yield f"replicas were excluded while {sorted(lacking)} are not in sync"
    if phase == "ended" and (removing or line["adding_replicas"]):
        yield "the reassignment ended, and the topic znode has replicas to add or remove"
