"""``verify``: compare a plan, or a request by its id, with what is; in Kafka's own tool's words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.cli.exits import Exit
from controller.cli.plan_files import STANDING_OF, Entry, Plan, Standing, look
from controller.cli.ports import OperatorPort
from controller.cli.report_text import entry_document, ids, refusal_document, say, say_json
from controller.cli.request_standing import exit_of_standing, stand_of, standing_lines
from controller.core.model import RequestId, TopicPartition


def verify_plan(operator: OperatorPort, plan: Plan, *, as_json: bool) -> Exit:
    """Compare a plan with the topic znodes, and with what became of those it did not reach."""
    entries = _with_fates(operator, look(operator, plan))
    if as_json:
        say_json({"entries": [entry_document(e) for e in entries]})
    else:
        say("Status of partition reassignment:")
        for entry in entries:
            say(verdict_line(entry))
    if any(e.standing is Standing.REFUSED for e in entries):
        return Exit.ERROR
    if any(e.standing.is_open for e in entries):
        return Exit.IN_PROGRESS
    return Exit.CANCELLED if any(e.standing.is_cancelled for e in entries) else Exit.DONE


def verify_request(operator: OperatorPort, request: RequestId, *, as_json: bool) -> Exit:
    """
    Say how far a request has come.

    Raises:
        PlanInvalidError: nothing is known of it.

    """
    standing = stand_of(operator, request)
    if as_json:
        say_json(
            {
                "request": request,
                "partitions": standing.counts(),
                "entries": [entry_document(e) for e in standing.entries],
                "refused": [refusal_document(r) for r in standing.refused],
                "endings": [
                    {"partition": str(e.partition), "fate": e.fate.value, "detail": e.detail}
                    for e in standing.endings
                ],
            }
        )
    else:
        say("Status of partition reassignment:")
        for entry in standing.entries:
            if entry.standing is Standing.DONE or entry.standing.is_open:
                say(verdict_line(entry))
        for line in standing_lines(standing):
            say(line)
        say(f"Request {request}: {standing.sentence()}")
    return exit_of_standing(standing)


def _with_fates(operator: OperatorPort, entries: list[Entry]) -> list[Entry]:
    """Tell what was called off from what was turned down, where anything is kept of it."""
    missing = {e.partition for e in entries if e.standing is Standing.REFUSED}
    if not missing:
        return entries
    targets = {e.partition: e.target for e in entries}
    found: dict[TopicPartition, Standing] = {}
    for history in operator.read_history().values():
        ended = [e for e in history.endings if e.partition in missing and e.fate in STANDING_OF]
        if not ended:
            continue
        asked = {(a.partition, a.target) for a in operator.read_accepted(history.request)}
        for ending in ended:
            if (ending.partition, targets[ending.partition]) in asked:
                found[ending.partition] = STANDING_OF[ending.fate]
    return list(_replaced(entries, found))


def _replaced(entries: list[Entry], found: dict[TopicPartition, Standing]) -> Iterable[Entry]:
    for entry in entries:
        known = found.get(entry.partition) if entry.standing is Standing.REFUSED else None
        yield entry if known is None else replace(entry, standing=known)


def verdict_line(entry: Entry) -> str:  # noqa: PLR0911 - one return per verdict
    """Word where an entry stands, as Kafka's own tool does."""
    if entry.standing is Standing.DONE:
        return f"Reassignment of partition {entry.partition} is completed."
    if entry.standing is Standing.ROLLING_BACK:
        return (
            f"Reassignment of partition {entry.partition} was cancelled and is still in progress."
        )
    if entry.standing.is_open:
        return f"Reassignment of partition {entry.partition} is still in progress."
    if entry.assignment is None:
        return f"There is no partition {entry.partition}."
    if entry.standing is not Standing.REFUSED:
        return f"Reassignment of partition {entry.partition} was {_word(entry.standing)}."
    if entry.assignment.is_reassigning:
        return (
            f"Partition {entry.partition} is being reassigned to "
            f"{ids(entry.assignment.target_replicas)} rather than {ids(entry.target)}."
        )
    return (
        f"There is no active reassignment of partition {entry.partition}, but replica set is "
        f"{ids(entry.assignment.replicas)} rather than {ids(entry.target)}."
    )


def _word(standing: Standing) -> str:
    return standing.value.replace("_", " ")
