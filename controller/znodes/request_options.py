"""
The options of a request, as members of a JSON object.

The request itself and its parts have the same members. A bad one makes the whole object unreadable:
without it, another request would be carried out than the one submitted.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from controller.core.requests.submissions import PRIORITY_MAX, RequestOptions, Window
from controller.znodes.json_documents import Document
from controller.znodes.json_members import Members
from controller.znodes.paths import is_reserved

OPTION_KEYS: Final = frozenset(option.name for option in fields(RequestOptions))


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
    given = ((option, getattr(options, option.name)) for option in fields(options))
    return {
        option.name: str(value) if isinstance(value, Window) else value
        for option, value in given
        if value != option.default
    }
