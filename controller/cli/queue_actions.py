"""
``queue``: what is to start as capacity allows (``/admin/reassign_partitions_queue``, KIP-236).

Entries leave the queue as they start. While the znode exists no other is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from controller.cli.exits import Exit
from controller.cli.pause_text import pause_lines
from controller.cli.plan_files import Entry, Plan, document_of, look
from controller.cli.plan_preview import (
    AskMinInsync,
    Conflict,
    Judged,
    changes_of,
    check_enabled,
    conflict_documents,
    conflicts_of,
    judge,
    judged_document,
    judged_lines,
    rollback_of,
)
from controller.cli.ports import InspectorPort, OperatorPort
from controller.cli.report_text import ids, listed, say, say_json, tell
from controller.core.model import TopicPartition
from controller.core.requests.queue import queue_request_id
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import QUEUE


def add_to_queue(
    operator: InspectorPort, plan: Plan, ask: AskMinInsync, *, dry_run: bool, as_json: bool
) -> Exit:
    """
    Write a plan into the queue.

    Raises:
        ReassignmentConflictError: there is a queue already, or new work is disabled.

    """
    check_enabled(operator)
    if operator.read_queue() is not None:
        raise ReassignmentConflictError(
            f"{QUEUE} exists already: wait until its entries have started, or see "
            "`reassigner queue list`"
        )
    before = look(operator, plan)
    conflicts = conflicts_of(before, None)
    if dry_run:
        judged = judge(operator, before, ask)
        _preview(plan, before, judged, conflicts, as_json=as_json)
        return Exit.REFUSED if judged.problems else Exit.DONE
    for line in (*map(str, conflicts), *pause_lines(operator.read_controls().pauses)):
        tell(f"Note: {line}")
    request = queue_request_id(operator.create_queue(plan))
    rollback = rollback_of(before)
    if as_json:
        say_json({"request": request, "queued": len(plan), "rollback": rollback})
    else:
        say(f"Queued as {request}: {listed(plan)}")
        if operator.leader_address() is None:
            tell("No reassigner leads just now; one that starts takes it up.")
    return Exit.DONE


def _preview(
    plan: Plan,
    before: list[Entry],
    judged: Judged,
    conflicts: Sequence[Conflict],
    *,
    as_json: bool,
) -> None:
    """Print what would change, what would be refused and whose work would be taken over."""
    if as_json:
        say_json(
            {
                "dry_run": True,
                "plan": document_of(plan),
                **judged_document(judged),
                "conflicts": conflict_documents(conflicts),
            }
        )
        return
    for line in changes_of(before):
        say(line)
    for line in judged_lines(judged):
        say(line)
    for conflict in conflicts:
        say(str(conflict))
    say("Nothing was written.")


def generate_queue(operator: OperatorPort, plan: Plan) -> Exit:
    """Print what is and what would be queued, as Kafka's own tool prints a proposal."""
    say("Current partition replica assignment")
    say(json.dumps(rollback_of(look(operator, plan)), separators=(",", ":")))
    say("\nProposed partition reassignment configuration")
    say(json.dumps(document_of(plan), separators=(",", ":")))
    return Exit.DONE


def list_queue(operator: OperatorPort, *, as_json: bool) -> Exit:
    """Print what waits in the queue."""
    queue = operator.read_queue()
    if as_json:
        say_json(
            {
                "request": None if queue is None else queue_request_id(queue.czxid),
                "unreadable": None if queue is None else queue.unreadable,
                "partitions": [] if queue is None else document_of(queue.entries)["partitions"],
            }
        )
    elif queue is None:
        say("The queue is empty.")
    elif queue.unreadable is not None:
        say(f"The queue cannot be understood: {queue.unreadable}")
    else:
        say(f"{len(queue.entries)} partitions wait in the queue ({queue_request_id(queue.czxid)}):")
        for partition, target in queue.entries.items():
            say(f"{partition} -> {ids(target)}")
    return Exit.DONE if queue is None else Exit.IN_PROGRESS


def remove_from_queue(
    operator: OperatorPort,
    partitions: Sequence[TopicPartition],
    *,
    dry_run: bool = False,
    as_json: bool,
) -> Exit:
    """Take entries out of the queue; what is not in it has started, or never was."""
    if dry_run:
        queue = operator.read_queue()
        taken = frozenset(partitions) & (queue.entries.keys() if queue else frozenset())
    else:
        taken = operator.take_from_queue(partitions)
    missing = [p for p in partitions if p not in taken]
    if as_json:
        found = {"removed": sorted(map(str, taken)), "not_queued": list(map(str, missing))}
        say_json({"dry_run": dry_run, **found})
    else:
        if taken:
            say(f"Removed from the queue: {listed(sorted(taken))}")
        if missing:
            say(f"Not in the queue, or started already: {listed(missing)}")
        if dry_run:
            say("Nothing was written.")
    return Exit.REFUSED if missing else Exit.DONE


def clear_queue(operator: OperatorPort, *, dry_run: bool = False, as_json: bool) -> Exit:
    """Take everything out of the queue."""
    queue = operator.read_queue() if dry_run else operator.clear_queue()
    entries = {} if queue is None else queue.entries
    if as_json:
        removed = [str(p) for p in entries]
        say_json({"dry_run": dry_run, "removed": removed, "not_queued": []})
        return Exit.DONE
    if queue is None:
        say("The queue is empty already.")
    else:
        say(f"Removed from the queue: {listed(entries) or 'what could not be understood'}")
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE
