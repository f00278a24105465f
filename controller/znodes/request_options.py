"""
The options of a request, as members of a JSON object.

The request itself and its parts have the same members. A bad one makes the whole object unreadable:
without it, another request would be carried out than the one submitted.
"""

from __future__ import annotations

from typing import Final

from controller.core.submissions import PRIORITY_MAX, RequestOptions
from controller.znodes.json_documents import Document
from controller.znodes.json_members import Members
from controller.znodes.paths import is_reserved

OPTION_KEYS: Final = frozenset(
    {
        "reason",
        "requested_by",
        "approved",
        "approved_by",
        "priority",
        "step_size",
        "throttle",
        "log_dirs_throttle",
        "window",
        "max_partitions_in_flight",
        "atomic",
        "keep_leaders",
        "part_of",
        "parts",
    }
)


def read_options(document: Document) -> RequestOptions | str:
    """Read the options among the members of an object, or return what is wrong with one."""
    members = Members(document)
    part_of = members.request("part_of")
    if part_of is not None and is_reserved(part_of):
        members.wrong(f"part_of: {part_of} cannot be the id of a submitted request")
    options = RequestOptions(
        reason=members.text("reason"),
        requested_by=members.text("requested_by"),
        approved=members.digest("approved"),
        approved_by=members.text("approved_by"),
        priority=members.number("priority", -PRIORITY_MAX, PRIORITY_MAX) or 0,
        step_size=members.step_size("step_size"),
        throttle=members.rate("throttle"),
        log_dirs_throttle=members.rate("log_dirs_throttle"),
        window=members.window("window"),
        max_partitions_in_flight=members.number("max_partitions_in_flight"),
        atomic=members.flag("atomic"),
        keep_leaders=members.flag("keep_leaders"),
        part_of=part_of,
        parts=members.number("parts") or 1,
    )
    return options if members.problem is None else members.problem


def write_options(options: RequestOptions) -> dict[str, object]:
    """Return the options as members, without those that have their default."""
    members: dict[str, object] = {
        "reason": options.reason or None,
        "requested_by": options.requested_by or None,
        "approved": options.approved or None,
        "approved_by": options.approved_by or None,
        "priority": options.priority or None,
        "step_size": options.step_size,
        "throttle": options.throttle,
        "log_dirs_throttle": options.log_dirs_throttle,
        "window": None if options.window is None else str(options.window),
        "max_partitions_in_flight": options.max_partitions_in_flight,
        "atomic": options.atomic or None,
        "keep_leaders": options.keep_leaders or None,
        "part_of": options.part_of,
        "parts": options.parts if options.parts > 1 else None,
    }
    return {key: value for key, value in members.items() if value is not None}
