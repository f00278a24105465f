"""
``explain``: one partition, by ZooKeeper and by the leading daemon if it answers; or a topic.

ZooKeeper has the assignment and the target (``partition_facts``). The daemon adds the phase, the
blocked reason, and the steps to come under its settings. Of a topic, the partitions are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from controller.cli.context import CommandContext, query_leader
from controller.cli.options import argument, command
from controller.cli.output import print_note
from controller.cli.partition_facts import PartitionFacts, PartitionStanding, read_facts
from controller.cli.request_state import outcome_line, refusal_document
from controller.cli.status_text import (
    beside_words,
    copy_words,
    pace_words,
    partition_state,
    reason_words,
)
from controller.cli.terminal_tables import Column, Fields, Listing, Name, Paragraph, Part, Words
from controller.core import model
from controller.core.model import ReassignmentSpec, TopicPartition
from controller.core.reason_kinds import COPYING
from controller.core.reassignments.model import Orphan
from controller.doctor.findings import why_orphaned
from controller.errors import InvalidInputError
from controller.telemetry.advice import (
    PHASE_MEANINGS,
    advice_for,
    governed_words,
    phase_of,
    remedy_for,
    wait_word,
)
from controller.telemetry.json_values import step_document
from controller.units import ids, show_bytes, show_rate, show_throttle, show_time
from controller.znodes.paths import parse_topic_partition, valid_topic

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


WORDS: Final = {
    PartitionStanding.MOVING: "being reassigned",
    PartitionStanding.WAITING: "to be reassigned, no step is in flight",
    PartitionStanding.NOT_ACCEPTED: "in the plan, not accepted yet",
    PartitionStanding.FOREIGN: "being reassigned by another client: the daemon has no record of it",
    PartitionStanding.IDLE: "not being reassigned",
}

STYLES: Final = {
    "not live": "red",
    "refused": "yellow",
    "orphan": "yellow",
    "blocked": "yellow",
    "held up": "yellow",
    "waiting": "yellow",
    "STALLED": "red",
    "what to do": "bold",
}
"""Styles of rows on a terminal."""


@command("as_json")
def explain(
    context: CommandContext,
    partitions: list[str] = argument(
        "TOPIC-PARTITION|TOPIC",
        "Partitions; a single one also as two words. Of topics, their partitions are listed.",
        default=...,
    ),
) -> None:
    """
    Explain the state of partitions, why they are blocked, and the remedy; or list those of topics.

    Example: reassigner explain orders-7 --zookeeper zk1:2181/kafka

    Reads ZooKeeper, and queries the leading daemon if there is one. Of a topic (`reassigner explain
    orders`) it lists replicas, leader, ISR and target of each partition. Exit code: 0 explained, 1
    error, or an unknown partition or topic.
    """
    settings = context.settings()
    if _are_topics(partitions):
        with context.connect(settings) as operator:
            _list_partitions(context, operator, partitions)
        return
    named = _parse(partitions)
    step_size = settings.options().step_size
    with context.connect(settings) as operator:
        found = [_explain(context, operator, partition) for partition in named]
    for why_not in dict.fromkeys(e.why_not for e in found if e.why_not is not None):
        if not context.as_json:
            print_note(f"reassigner: by ZooKeeper alone: {why_not}")
    documents = (e.document(step_size) for e in found)
    context.print_result(
        lambda: next(documents) if len(found) == 1 else {"partitions": list(documents)},
        chain.from_iterable(e.lines(step_size) for e in found),
        chain.from_iterable(e.screen(step_size) for e in found),
    )


def _are_topics(words: Sequence[str]) -> bool:
    """Return whether words are names of topics; a number after a single one is of a partition."""
    if words[1:] and words[1].isdigit():
        return False
    return all(valid_topic(word) and parse_topic_partition(word) is None for word in words)


def _list_partitions(
    context: CommandContext, operator: OperatorClient, topics: Sequence[str]
) -> None:
    """List the partitions of topics, with what is recorded of their reassignments."""
    found = operator.partitions.topics(dict.fromkeys(topics))
    rows = []
    for name, topic in found.items():
        if topic is None:
            raise InvalidInputError(f"there is no topic {name}")
        if not isinstance(topic, model.TopicAssignment):
            raise InvalidInputError(f"the topic znode of {name} cannot be decoded: {topic}")
        rows += [
            (TopicPartition(name, number), assignment)
            for number, assignment in sorted(topic.partitions.items())
        ]
    states = operator.partitions.states(partition for partition, _ in rows)
    specs = operator.partitions.specs(operator.partitions.reassigned_partitions(found))
    listed = [_row(p, now, states.get(p), specs.get(p)) for p, now in rows]
    example = f"`reassigner explain {rows[0][0]}` explains one." if rows else "It has no partition."
    columns: Sequence[Column[Mapping[str, Any]]] = (
        Column("partition", lambda r: Name(_name(r))),
        Column("replicas", lambda r: ids(r["replicas"])),
        Column("leader", _leader_text, is_number=True),
        Column("ISR", lambda r: Words(ids(r["isr"]), "" if _is_in_sync(r) else "yellow")),
        Column("target", lambda r: ids(r["target_replicas"] or ())),
        Column("request", lambda r: Name(r["request"] or "")),
    )
    context.print_result(
        lambda: {"partitions": listed},
        chain(map(_line, listed), [example]),
        [Listing(columns=columns, rows=listed), Paragraph(example)],
    )


def _row(
    partition: TopicPartition,
    now: model.PartitionAssignment,
    state: model.PartitionState | str | None,
    spec: ReassignmentSpec | str | None,
) -> dict[str, Any]:
    known = state if isinstance(state, model.PartitionState) else None
    recorded = spec if isinstance(spec, ReassignmentSpec) else None
    target = now.target_replicas if recorded is None else recorded.target
    is_moving = recorded is not None or now.is_reassigning
    return {
        **partition._asdict(),
        "replicas": list(now.replicas),
        "leader": None if known is None else known.leader,
        "isr": [] if known is None else list(known.isr),
        "target_replicas": list(target) if is_moving else None,
        "request": None if recorded is None else recorded.request,
    }


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _leader_text(row: Mapping[str, Any]) -> str:
    return "none" if row["leader"] in {None, model.NO_LEADER} else str(row["leader"])


def _is_in_sync(row: Mapping[str, Any]) -> bool:
    return set(row["replicas"]) <= set(row["isr"])


def _line(row: Mapping[str, Any]) -> str:
    words = f"{_name(row)}: replicas {ids(row['replicas'])}, leader {_leader_text(row)}"
    words += f", ISR {ids(row['isr']) or 'empty'}"
    if row["target_replicas"] is not None:
        words += f", target {ids(row['target_replicas'])}"
    return words + (f" ({row['request']})" if row["request"] else "")


def _parse(words: Sequence[str]) -> list[TopicPartition]:
    """Parse partitions; two words are one partition if the second one is its number."""
    if len(words) == 2 and words[1].isdigit():  # noqa: PLR2004 - as above
        words = ["-".join(words)]
    found = []
    for word in words:
        partition = parse_topic_partition(word)
        if partition is None:
            raise InvalidInputError(
                f"{word!r} is not a partition: write TOPIC-PARTITION or TOPIC PARTITION"
            )
        found.append(partition)
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one partition."""

    facts: PartitionFacts
    live: Mapping[str, Any] | None
    """What the leading daemon knows of it."""
    why_not: str | None
    """Why it is not known."""

    @property
    def headline(self) -> str:
        """The state in a sentence."""
        facts, moved = self.facts, self._moved()
        is_begun = facts.has_moved if moved is None else bool(moved.get("begun"))
        if facts.standing is PartitionStanding.WAITING and is_begun:
            return f"{facts.partition} is being reassigned, between two steps"
        return f"{facts.partition} is {WORDS[facts.standing]}"

    def _moved(self) -> Mapping[str, Any] | None:
        return None if self.live is None else self.live["reassignment"]

    def _steps(self, step_size: int | None) -> list[Mapping[str, Any]]:
        if self.live is not None and self._moved() is not None:
            return list(self.live["steps_to_come"])
        return list(map(step_document, self.facts.steps(step_size)))

    def _step_lines(self, step_size: int | None) -> Iterator[str]:
        return _step_lines(self._steps(step_size), self._moved(), step_size)

    def document(self, step_size: int | None) -> dict[str, Any]:
        """Return it for ``--json``."""
        return _document(self.facts, self.live, self._steps(step_size), self.why_not)

    def lines(self, step_size: int | None) -> Iterator[str]:
        """Describe it in lines."""
        rows = _rows(self.facts, self.live)
        yield self.headline
        yield from (f"  {name:<12}{words}" for name, words in rows)
        yield from self._step_lines(step_size)

    def screen(self, step_size: int | None) -> Iterator[Part]:
        """Describe it on a terminal."""
        rows = _rows(self.facts, self.live)
        return _screen(self.headline, rows, self._step_lines(step_size))


def _explain(
    context: CommandContext, operator: OperatorClient, partition: TopicPartition
) -> Explanation:
    facts = read_facts(operator, partition)
    live, problem = query_leader(
        operator, lambda address, http: context.fetch_explanation(address, http, partition)
    )
    why_not = "no reassigner leads" if problem is None else str(problem)
    return Explanation(facts, live, why_not if live is None else None)


# --- text --------------------------------------------------------------------------------------


def _screen(
    headline: str, rows: Iterable[tuple[str, str]], step_lines: Iterable[str]
) -> Iterator[Part]:
    yield Paragraph(headline, "bold")
    yield Fields(((name, Words(words, STYLES.get(name, ""))) for name, words in rows), indent=2)
    yield from map(Paragraph, step_lines)


def _rows(facts: PartitionFacts, live: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield from _recorded_rows(facts)
    moved = None if live is None else live["reassignment"]
    if moved is not None:
        yield from _live_rows(moved)
    refused = None if live is None else live["not_accepted_because"]
    if refused is not None:
        yield from _wait_rows(refused, advice_for(refused["by"]))


def _recorded_rows(facts: PartitionFacts) -> Iterator[tuple[str, str]]:
    assignment, state, spec = facts.assignment, facts.state, facts.spec
    changing = [
        f"{word} {ids(replicas)}"
        for word, replicas in (
            ("adding", assignment.adding_replicas),
            ("removing", assignment.removing_replicas),
        )
        if replicas
    ]
    yield "replicas", ids(assignment.replicas) + (f" ({', '.join(changing)})" if changing else "")
    if isinstance(state, model.PartitionState):
        leader = "none" if state.leader == model.NO_LEADER else str(state.leader)
        yield "leader", f"{leader}, leader epoch {state.leader_epoch}"
        yield "ISR", ids(state.isr)
    else:
        yield "state", "there is none" if state is None else f"cannot be decoded: {state}"
    concerned = dict.fromkeys((*assignment.replicas, *(facts.target or ())))
    dead = [r for r in concerned if r not in facts.live]
    if dead:
        yield "not live", f"broker {ids(dead)}"
    yield from (("evacuated", f"broker {b}: {words}") for b, words in facts.evacuated.items())
    if isinstance(spec, ReassignmentSpec):
        yield "original", "unknown" if spec.original is None else ids(spec.original)
        yield "request", f"{spec.request} ({spec.route.value})"
        yield from (("log dir", f"{path} of broker {broker}") for broker, path in spec.log_dirs)
    elif spec is not None:
        yield "record", f"cannot be decoded: {spec}"
    if facts.target is not None:
        yield "target", ids(facts.target)
    if facts.is_being_deleted:
        awaited = [r for r in assignment.replicas if r not in facts.live]
        waits = f", which waits for broker {ids(awaited)}" if awaited else ""
        yield "topic", f"is queued for deletion{waits}"
    for orphan in facts.orphans:
        yield "orphan", _orphan_words(orphan, facts.live)
    if facts.refusal is not None:
        refusal = facts.refusal
        yield "refused", f"{refusal.entry} of {refusal.request}: {refusal.detail}"
    if facts.outcome is not None:
        yield "ended", f"{facts.outcome.request}: {outcome_line(facts.outcome)}"


def _orphan_words(orphan: Orphan | str, live: frozenset[model.BrokerId]) -> str:
    if isinstance(orphan, str):
        return f"a record cannot be decoded: {orphan}"
    there = "live" if orphan.broker in live else "not live"
    why = why_orphaned(orphan.reason)
    return f"broker {orphan.broker} ({there}) may still hold an old copy, as {why}"


def _live_rows(moved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    meaning = PHASE_MEANINGS.get(moved["phase"], "")
    words, label = phase_of(moved), moved["phase"]
    yield "phase", f"{words} since {show_time(moved['phase_since'])} ({label}: {meaning})"
    yield "step", f"{moved['step']} of {moved['steps']}"
    yield from _byte_rows(moved)
    if moved["blocked_on"] is not None:
        is_begun, advice = bool(moved.get("begun")), remedy_for(moved)
        yield from _wait_rows(moved["blocked_on"], advice, stalled=moved["stalled"], begun=is_begun)
        if beside_words(moved):
            yield "state", beside_words(moved)
        return
    if moved.get("state") == COPYING:
        yield "state", partition_state(moved)
    if moved["stalled"]:
        yield "STALLED", f"without progress since {show_time(moved['phase_since'])}"
        advice = remedy_for(moved, model.BlockedBy.REPLICA_NOT_IN_ISR)
        if moved.get("state") == COPYING and advice is not None:
            yield "what to do", advice


def _byte_rows(moved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    volume, copies = moved.get("bytes"), moved.get("copies") or ()
    if volume is not None:
        copied, left = show_bytes(volume["moved"]), show_bytes(volume["remaining"])
        pace = f", {pace_words(moved)}" if copies else ""
        yield "bytes", f"{copied} copied, {left} left, in all steps{pace}"
    for copy in copies:
        read = f", read {show_time(copy['read_at'])}" if copy.get("read_at") else ""
        yield "copy", copy_words(copy) + read
    wanted, in_force = moved.get("throttle"), moved.get("throttle_bytes_per_s")
    if in_force is not None:
        yield "throttle", f"{show_rate(in_force)} per broker, in force"
    elif wanted is not None:
        yield "throttle", f"{show_throttle(wanted)}, not in force now"
    for governed in moved.get("governed") or ():
        yield "governed", governed_words(governed["broker"], governed)


def _wait_rows(
    blocked: Mapping[str, Any], advice: str | None, *, stalled: bool = False, begun: bool = False
) -> Iterator[tuple[str, str]]:
    word = wait_word(blocked["by"], begun=begun)
    yield word, reason_words(blocked) + (", STALLED" if stalled else "")
    if advice is not None:
        yield "what to do", advice


def _step_lines(
    steps: Sequence[Mapping[str, Any]], moved: Mapping[str, Any] | None, step_size: int | None
) -> Iterator[str]:
    if not steps:
        return
    size = "all" if step_size is None else step_size
    how = "" if moved is not None else f", at step size {size}"
    yield f"  steps to come{how}, if nothing changes:"
    first = moved["step"] + 1 if moved is not None else 1
    for number, step in enumerate(steps, first):
        parts = [
            f"{word} {ids(replicas)}"
            for word, replicas in (("add", step["adding"]), ("drop", step["dropping"]))
            if replicas
        ]
        yield f"    {number}. {ids(step['target'])}: {', '.join(parts) or 'order only'}"


# --- JSON --------------------------------------------------------------------------------------


def _document(
    facts: PartitionFacts,
    live: Mapping[str, Any] | None,
    steps: Sequence[Mapping[str, Any]],
    why_not: str | None,
) -> dict[str, Any]:
    assignment, state, refusal, outcome = (
        facts.assignment,
        facts.state,
        facts.refusal,
        facts.outcome,
    )
    known = state if isinstance(state, model.PartitionState) else None
    spec = facts.spec if isinstance(facts.spec, ReassignmentSpec) else None
    original = None if spec is None else spec.original
    moved = None if live is None else live["reassignment"]
    blocked = None if live is None else live["not_accepted_because"]
    advice = None if blocked is None else advice_for(blocked["by"])
    if moved is not None:
        blocked = moved["blocked_on"]
        advice = None if blocked is None else remedy_for(moved)
    return {
        "topic": facts.partition.topic,
        "partition": facts.partition.partition,
        "standing": facts.standing.value,
        "state": None if moved is None else moved.get("state"),
        "replicas": list(assignment.replicas),
        "adding_replicas": list(assignment.adding_replicas),
        "removing_replicas": list(assignment.removing_replicas),
        "leader": None if known is None else known.leader,
        "isr": None if known is None else list(known.isr),
        "state_problem": state if isinstance(state, str) else None,
        "record_problem": facts.spec if isinstance(facts.spec, str) else None,
        "original_replicas": None if original is None else list(original),
        "target_replicas": None if facts.target is None else list(facts.target),
        "request": None if spec is None else spec.request,
        "route": None if spec is None else spec.route.value,
        "topic_is_being_deleted": facts.is_being_deleted,
        "evacuated": {str(broker): words for broker, words in facts.evacuated.items()},
        "orphans": [
            {"problem": o} if isinstance(o, str) else {"broker": o.broker, "reason": o.reason}
            for o in facts.orphans
        ],
        "last_refusal": None
        if refusal is None
        else {"request": refusal.request, **refusal_document(refusal)},
        "last_ending": None
        if outcome is None
        else {"request": outcome.request, "fate": outcome.fate.value, "detail": outcome.detail},
        "steps_to_come": steps,
        "blocked_on": blocked,
        "what_to_do": advice,
        "daemon": live,
        "daemon_problem": why_not,
    }
