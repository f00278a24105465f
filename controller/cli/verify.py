"""``verify``: compare a plan, or a request by its id, with the cluster, in the words of Kafka."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from controller.actions.work_control import request_ids
from controller.cli import options, request_state
from controller.cli.context import CommandContext
from controller.cli.options import argument, command
from controller.cli.output import Exit, print_json, print_line, print_lines
from controller.core.model import RequestId, TopicPartition, request_text
from controller.previews.entries import STATE_OF_OUTCOME, Entry, EntryState, read_entries
from controller.previews.plan_files import Plan
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


@command("as_json")
def verify(
    context: CommandContext,
    what: str = argument(
        "PLAN.json|REQUEST", "The file of a plan, or the id of a request.", default=...
    ),
) -> Exit:
    """
    Compare a plan, or a request by its id, with the cluster.

    Example: reassigner verify plan.json --zookeeper zk1:2181/kafka

    A request that was completed is compared as well: it may have been undone or superseded since.
    Exit code: 0 all done, 1 a partition is neither done nor in progress, 2 in progress, 3 a request
    was refused or superseded in part, 4 cancelled or undone.
    """
    path = Path(what)
    is_file = path.exists() or path.suffix == ".json" or "/" in what
    plan = options.read_plan_argument(path).entries if is_file else None
    requests = [] if is_file else request_ids([what])
    with context.connected() as operator:
        if plan is not None:
            return verify_plan(operator, plan, as_json=context.as_json)
        return verify_request(operator, requests[0], as_json=context.as_json)


def verify_plan(operator: OperatorClient, plan: Plan, *, as_json: bool) -> Exit:
    """Compare a plan with the topic znodes, and with the outcomes of requests."""
    entries = _with_outcomes(operator, read_entries(operator, plan))
    if as_json:
        print_json({"entries": [e.document() for e in entries]})
    else:
        print_line("Status of partition reassignment:")
        for entry in entries:
            print_line(entry_line(entry))
    if any(e.state is EntryState.REFUSED for e in entries):
        return Exit.ERROR
    if any(e.state.is_open for e in entries):
        return Exit.IN_PROGRESS
    return Exit.CANCELLED if any(e.state.is_cancelled for e in entries) else Exit.DONE


def verify_request(operator: OperatorClient, request: RequestId, *, as_json: bool) -> Exit:
    """Print the state of a request."""
    state = request_state.compare(operator, request_state.read_request(operator, request))
    if as_json:
        print_json(
            {
                "request": request,
                "partitions": state.counts(),
                "entries": [e.document() for e in state.entries],
                "refused": [request_state.refusal_document(r) for r in state.history.refused],
                "endings": request_state.outcome_documents(state.history.endings),
                "changed_since": [
                    {"partition": str(p), "by": d.by, "in_progress": d.is_open}
                    for p, d in sorted(state.departed.items())
                ],
            }
        )
    else:
        print_line("Status of partition reassignment:")
        for entry in state.entries:
            departure = state.departed.get(entry.partition)
            if departure is not None:
                print_line(request_state.departure_line(entry, departure))
            elif entry.state is EntryState.DONE or entry.state.is_open:
                print_line(entry_line(entry))
        print_lines(request_state.problem_lines(state))
        print_line(f"{request_text(request)}: {state.sentence()}")
        if state.has_ended and state.total and not (state.entries or state.history.refused):
            print_line("Its entries are not kept; compare its plan: `reassigner verify PLAN.json`.")
    return request_state.exit_of_request(state)


def _with_outcomes(operator: OperatorClient, entries: list[Entry]) -> list[Entry]:
    """Replace ``REFUSED`` by the outcome of a request that had the entry."""
    missing = {e.partition for e in entries if e.state is EntryState.REFUSED}
    if not missing:
        return entries
    targets = {e.partition: e.target for e in entries}
    found: dict[TopicPartition, EntryState] = {}
    for history in operator.outcomes.histories().values():
        ended = [
            e for e in history.endings if e.partition in missing and e.fate in STATE_OF_OUTCOME
        ]
        if not ended:
            continue
        accepted = {
            (a.partition, a.target) for a in operator.outcomes.accepted_entries(history.request)
        }
        for outcome in ended:
            if (outcome.partition, targets[outcome.partition]) in accepted:
                found[outcome.partition] = STATE_OF_OUTCOME[outcome.fate]
    return [
        replace(e, state=found[e.partition])
        if e.state is EntryState.REFUSED and e.partition in found
        else e
        for e in entries
    ]


def entry_line(entry: Entry) -> str:  # noqa: PLR0911 - one return for each state
    """Describe the state of an entry as Kafka's tool does."""
    partition, now = entry.partition, entry.assignment
    if entry.state is EntryState.DONE:
        return f"Reassignment of partition {partition} is completed."
    if entry.state is EntryState.ROLLING_BACK:
        return f"Reassignment of partition {partition} was cancelled and is still in progress."
    if entry.state.is_open:
        return f"Reassignment of partition {partition} is still in progress."
    if now is None:
        return f"There is no partition {partition}."
    if entry.state is not EntryState.REFUSED:
        return f"Reassignment of partition {partition} was {entry.state.replace('_', ' ')}."
    if now.is_reassigning:
        return (
            f"Partition {partition} is being reassigned to {ids(now.target_replicas)} rather than "
            f"{ids(entry.target)}."
        )
    return (
        f"There is no active reassignment of partition {partition}, but replica set is "
        f"{ids(now.replicas)} rather than {ids(entry.target)}."
    )
