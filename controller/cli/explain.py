"""
``explain``: one partition, by ZooKeeper and by the leading daemon if it answers.

ZooKeeper has the assignment and the target. The daemon adds the phase, the blocked reason, and the
steps to come under its settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from controller.cli import options
from controller.cli.context import CommandContext, context_of, query_leader
from controller.cli.exits import Exit
from controller.cli.output import print_json, print_lines, print_note
from controller.cli.partition_facts import (
    PartitionFacts,
    PartitionStanding,
    gather,
    named_partition,
)
from controller.cli.request_state import outcome_line
from controller.cli.status_text import state_words, wait_words
from controller.cli.tables import fields, paragraph
from controller.core import model
from controller.core.blocked_reasons import COPYING
from controller.core.reassignments.model import Orphan
from controller.telemetry.advice import PHASE_MEANINGS, advice_for
from controller.telemetry.partition_documents import step_document
from controller.units import ids
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
    "waits for": "yellow",
    "STALLED": "red",
    "what to do": "bold",
}
"""Styles of rows on a terminal."""


def explain(
    ctx: typer.Context,
    partition: Annotated[
        list[str], typer.Argument(metavar="TOPIC-PARTITION", help="Partition, as one word or two.")
    ],
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """
    Explain the state of a partition, why it is blocked, and the remedy.

    Example: reassigner explain orders-7 --zookeeper zk1:2181/kafka

    Reads ZooKeeper, and queries the leading daemon if there is one. Exit code: 0 explained, 1 error
    or unknown partition.
    """
    context = context_of(ctx)
    named = named_partition(partition)
    settings = context.settings({"zookeeper": zookeeper}, config)
    with context.connect(settings) as operator:
        size = settings.options().step_size
        explain_partition(context, operator, named, step_size=size, as_json=as_json)
    raise typer.Exit(Exit.DONE)


def explain_partition(
    context: CommandContext,
    operator: OperatorClient,
    partition: model.TopicPartition,
    *,
    step_size: int | None,
    as_json: bool,
) -> None:
    """Print everything known about a partition."""
    facts = gather(operator, partition)
    live, why_not = query_leader(
        operator, lambda address, http: context.fetch_explanation(address, http, partition)
    )
    if live is None:
        why_not = why_not or "no reassigner leads"
    if as_json:
        print_json(_document(facts, live, why_not, step_size))
        return
    if why_not is not None:
        print_note(f"reassigner: by ZooKeeper alone: {why_not}")
    screen = context.screen()
    if screen is not None:
        screen.print(*_screen(facts, live, step_size))
    else:
        print_lines(_lines(facts, live, step_size))


# --- text --------------------------------------------------------------------------------------


def _lines(
    facts: PartitionFacts, live: Mapping[str, Any] | None, step_size: int | None
) -> Iterator[str]:
    yield f"{facts.partition} is {WORDS[facts.standing]}"
    yield from (f"  {name:<12}{words}" for name, words in _rows(facts, live))
    yield from _step_lines(facts, live, step_size)


def _screen(
    facts: PartitionFacts, live: Mapping[str, Any] | None, step_size: int | None
) -> Iterator[RenderableType]:
    """Return the same for a terminal; what prevents progress is coloured, with its remedy."""
    yield paragraph(f"{facts.partition} is {WORDS[facts.standing]}", "bold")
    yield fields(((n, Text(w, STYLES.get(n, ""))) for n, w in _rows(facts, live)), indent=2)
    for line in _step_lines(facts, live, step_size):
        yield paragraph(line)


def _rows(facts: PartitionFacts, live: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield from _recorded_rows(facts)
    moved = None if live is None else live["reassignment"]
    if moved is not None:
        yield from _live_rows(moved)
    refused = None if live is None else live["not_accepted_because"]
    if refused is not None:
        yield from _wait_rows(refused, stalled=False)


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
    if isinstance(spec, model.ReassignmentSpec):
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
    return f"broker {orphan.broker} ({there}) may still have an old log: {orphan.reason}"


def _live_rows(moved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    meaning = PHASE_MEANINGS.get(moved["phase"], "")
    yield "phase", f"{moved['phase']}: {meaning} (since {moved['phase_since']})"
    yield "step", f"{moved['step']} of {moved['steps']}"
    if moved["blocked_on"] is not None:
        yield from _wait_rows(moved["blocked_on"], stalled=moved["stalled"])
        return
    if moved.get("state") == COPYING:
        yield "state", state_words(moved)
    if moved["stalled"]:
        yield "STALLED", f"without progress since {moved['phase_since']}"
        advice = advice_for(model.BlockedBy.REPLICA_NOT_IN_ISR)
        if moved.get("state") == COPYING and advice is not None:
            yield "what to do", advice


def _wait_rows(blocked: Mapping[str, Any], *, stalled: bool) -> Iterator[tuple[str, str]]:
    yield "waits for", wait_words(blocked) + (", STALLED" if stalled else "")
    advice = advice_for(blocked["by"])
    if advice is not None:
        yield "what to do", advice


def _step_lines(
    facts: PartitionFacts,
    live: Mapping[str, Any] | None,
    step_size: int | None,
) -> Iterator[str]:
    moved = None if live is None else live["reassignment"]
    steps = _steps(facts, live, moved, step_size)
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


def _steps(
    facts: PartitionFacts,
    live: Mapping[str, Any] | None,
    moved: Mapping[str, Any] | None,
    step_size: int | None,
) -> list[Mapping[str, Any]]:
    if live is not None and moved is not None:
        return list(live["steps_to_come"])
    return list(map(step_document, facts.steps(step_size)))


# --- JSON --------------------------------------------------------------------------------------


def _document(
    facts: PartitionFacts,
    live: Mapping[str, Any] | None,
    why_not: str | None,
    step_size: int | None,
) -> dict[str, Any]:
    assignment, state, spec = facts.assignment, facts.state, facts.spec
    known = state if isinstance(state, model.PartitionState) else None
    moved = None if live is None else live["reassignment"]
    blocked = None if live is None else live["not_accepted_because"]
    if moved is not None:
        blocked = moved["blocked_on"]
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
        "record_problem": spec if isinstance(spec, str) else None,
        "original_replicas": list(spec.original)
        if isinstance(spec, model.ReassignmentSpec) and spec.original is not None
        else None,
        "target_replicas": None if facts.target is None else list(facts.target),
        "request": spec.request if isinstance(spec, model.ReassignmentSpec) else None,
        "route": spec.route.value if isinstance(spec, model.ReassignmentSpec) else None,
        "topic_is_being_deleted": facts.is_being_deleted,
        "orphans": [
            {"problem": o} if isinstance(o, str) else {"broker": o.broker, "reason": o.reason}
            for o in facts.orphans
        ],
        "last_refusal": None
        if facts.refusal is None
        else {
            "request": facts.refusal.request,
            "entry": facts.refusal.entry,
            "reason": facts.refusal.reason.value,
            "detail": facts.refusal.detail,
        },
        "last_ending": None
        if facts.outcome is None
        else {
            "request": facts.outcome.request,
            "fate": facts.outcome.fate.value,
            "detail": facts.outcome.detail,
        },
        "steps_to_come": _steps(facts, live, moved, step_size),
        "blocked_on": blocked,
        "what_to_do": None if blocked is None else advice_for(blocked["by"]),
        "daemon": live,
        "daemon_problem": why_not,
    }
