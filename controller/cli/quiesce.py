"""
``quiesce``: end all work of the reassigner, and say when nothing of it is left in the cluster.

The daemon carries it out; what is left is read from ZooKeeper, with or without a daemon.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from controller.actions import work_control
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.findings_text import EACH_MAX, finding_lines, finding_tables
from controller.cli.list_requests import request_document
from controller.cli.options import command, flag, option
from controller.cli.output import Exit, print_note, write_json
from controller.cli.request_state import read_request
from controller.cli.submitting import LEADERLESS_S
from controller.cli.terminal_tables import Words
from controller.core.pacing.controls import AT_ONCE, Quiesce
from controller.doctor.findings import Finding
from controller.errors import InvalidInputError
from controller.previews.holds import quiesce_line
from controller.units import MS_PER_S, parse_duration

if TYPE_CHECKING:
    from controller.settings import Settings
    from controller.zk.operator_client import OperatorClient

LOOK_S: Final = 2.0


@command("dry_run", "all_rows", "as_json")
def quiesce(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    *,
    deadline: str | None = option(
        "DURATION",
        "Roll back what has not ended after this time, for example 30m. Default: no deadline.",
    ),
    cancel: bool = flag("--cancel", "Roll back at once what has begun."),
    wait: bool = flag("--wait", "Wait until nothing is left."),
    export: Path | None = option(
        "FILE",
        "Write the outcomes of all requests, and how far the journal is written, as JSON. "
        "Default: none.",
    ),
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
) -> Exit:
    """
    End all work until `reassigner resume`, and say what is left.

    Example: reassigner quiesce --deadline 30m --wait --zookeeper zk1:2181/kafka

    New reassignments are refused, and what has not begun is cancelled. What has begun ends, or is
    rolled back at the deadline. Throttles are restored and the controller role is given up.
    Repeated, it changes the deadline and says what is left now. Exit code: 0 ready, 1 error, 2 not
    ready.
    """
    if cancel and deadline is not None:
        raise InvalidInputError("--cancel needs no --deadline: what has begun is rolled back now")
    after_s = options.parse(parse_duration, "--deadline", deadline)
    due = None if after_s is None else context.wall_ms() + int(after_s * MS_PER_S)
    new = Quiesce(
        reason, context.requested_by(requested_by), context.wall_ms(), AT_ONCE if cancel else due
    )
    settings = context.settings()
    with context.connect(settings) as operator:
        found = work_control.quiesce(operator, new, dry_run=context.dry_run)
        context.await_shown(operator)
        missing = work_control.left_of_work(operator, settings.controller_id)
        if wait and not context.dry_run:
            missing = _await(context, operator, settings, missing)
        if export is not None:
            write_json(export, _exported(context, operator, found, missing), indent=2)
    document = {
        "quiesce": asdict(found),
        "ready": not missing,
        "missing": [asdict(f) for f in missing],
    }
    is_preview = context.dry_run and found.since_ms == new.since_ms
    head = [quiesce_line(found, is_preview=is_preview)]
    end = [] if missing else [work_control.READY]
    lines = finding_lines(missing, None if context.all_rows else EACH_MAX)
    tables = chain(map(Words, head), finding_tables(missing), (Words(t, "green") for t in end))
    context.print_change(document, chain(head, lines, end), tables)
    return Exit.IN_PROGRESS if missing else Exit.DONE


def _await(
    context: CommandContext, operator: OperatorClient, settings: Settings, missing: list[Finding]
) -> list[Finding]:
    """Return what is left when all is done, no daemon leads for a while, or at Ctrl-C."""
    shown, led_at = "", context.now()
    try:
        while missing and context.now() - led_at < LEADERLESS_S:
            counts = Counter(finding.check for finding in missing)
            text = ", ".join(f"{count} {check}" for check, count in counts.items())
            if text != shown:
                shown = text
                print_note(f"left: {text}")
            if operator.cluster.leader_address() is not None:
                led_at = context.now()
            context.sleep(LOOK_S)
            missing = work_control.left_of_work(operator, settings.controller_id)
    except KeyboardInterrupt:
        print_note("Interrupted; the quiesce continues.")
    return missing


def _exported(
    context: CommandContext, operator: OperatorClient, found: Quiesce, missing: list[Finding]
) -> dict[str, Any]:
    """Return what is known of requests, all of which ends with ZooKeeper, and of the journal."""
    status = context.status_of_leader(operator) or {}
    requests = (read_request(operator, name) for name in operator.outcomes.histories())
    return {
        "version": 1,
        "exported_ms": context.wall_ms(),
        "cluster_id": operator.cluster.cluster_id(),
        "quiesce": asdict(found),
        "ready": not missing,
        "missing": [asdict(f) for f in missing],
        "journal": status.get("journal"),
        "requests": [request_document(request) for request in requests],
    }
