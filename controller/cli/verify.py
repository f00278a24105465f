"""``verify``: compare a plan with what is, in the words of Kafka's own tool."""

from __future__ import annotations

from controller.cli.exits import Exit
from controller.cli.plans import Entry, Plan, Standing, look
from controller.cli.reports import entry_document, ids, say, say_json
from controller.cli.surroundings import OperatorPort


def verify_plan(operator: OperatorPort, plan: Plan, *, as_json: bool) -> Exit:
    """Compare a plan with the topic znodes."""
    entries = look(operator, plan)
    if as_json:
        say_json({"entries": [entry_document(e) for e in entries]})
    else:
        say("Status of partition reassignment:")
        for entry in entries:
            say(verdict_line(entry))
    if any(e.standing is Standing.REFUSED for e in entries):
        return Exit.ERROR
    return Exit.IN_PROGRESS if any(e.standing.is_open for e in entries) else Exit.DONE


def verdict_line(entry: Entry) -> str:
    """Word where an entry stands, as Kafka's own tool does."""
    if entry.standing is Standing.DONE:
        return f"Reassignment of partition {entry.partition} is completed."
    if entry.standing.is_open:
        return f"Reassignment of partition {entry.partition} is still in progress."
    if entry.assignment is None:
        return f"There is no partition {entry.partition}."
    if entry.assignment.is_reassigning:
        return (
            f"Partition {entry.partition} is being reassigned to "
            f"{ids(entry.assignment.target_replicas)} rather than {ids(entry.target)}."
        )
    return (
        f"There is no active reassignment of partition {entry.partition}, but replica set is "
        f"{ids(entry.assignment.replicas)} rather than {ids(entry.target)}."
    )
