"""
Throttles we set: ``/reassigner/throttles/<entity>``, what is ours and what stood there before.

The entity is the path; a slash in it is written as a colon.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.applied_throttles import AppliedThrottle
from controller.core.model import ZkVersion
from controller.znodes.json_documents import (
    excerpt,
    is_object,
    is_text,
    read_document,
    version_problem,
    write_document,
)
from controller.znodes.paths import parse_throttle_name


def decode_applied_throttle(name: str, data: bytes, version: ZkVersion) -> AppliedThrottle | str:  # noqa: PLR0911 - one return per reason
    """Decode a lease from the last component of its path and its content."""
    entity = parse_throttle_name(name)
    if entity is None:
        return f"{excerpt(name)} is neither a topic nor a broker"
    document = read_document(data)
    if isinstance(document, str):
        return document
    problem = version_problem(document, (1,))
    if problem is not None:
        return problem
    ours, before = _settings(document.get("ours")), _settings(document.get("before"))
    if isinstance(ours, str):
        return f"ours: {ours}"
    if isinstance(before, str):
        return f"before: {before}"
    if not ours.keys() <= before.keys():
        return "before does not say what stood where something is ours"
    set_by_us = {key: value for key, value in ours.items() if value is not None}
    if len(set_by_us) < len(ours):
        return "ours: a setting without a value"
    return AppliedThrottle(entity, set_by_us, before, version)


def encode_applied_throttle(lease: AppliedThrottle) -> bytes:
    """Encode what the path does not say (nor its version)."""
    return write_document(
        {
            "version": 1,
            "ours": dict(sorted(lease.ours.items())),
            "before": dict(sorted(lease.before.items())),
        }
    )


def _settings(value: object) -> Mapping[str, str | None] | str:
    if not is_object(value):
        return f"an object of settings was expected, not {excerpt(value)}"
    read: dict[str, str | None] = {}
    for key, setting in value.items():
        if not is_text(key) or not (setting is None or is_text(setting)):
            return f"{excerpt(key)}: {excerpt(setting)} is not a setting"
        read[key] = setting
    return read
