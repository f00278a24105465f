"""
``/admin/reassign_partitions``: a plan as Kafka's own tool writes it (``ReassignPartitionsZNode``).

The same format stands in ``/admin/reassign_partitions_queue``. Entries are judged one by one
(``plan_entries``); an unknown key beside them makes the whole node unreadable, as it would ask for
something that is not going to happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.core.model import LegacyPlan, Replicas, TopicPartition, ZkVersion, Zxid
from controller.znodes.json_documents import (
    excerpt,
    is_list,
    read_document,
    version_problem,
    write_document,
)
from controller.znodes.plan_entries import judge_entries, unknown_key

_PLAN_KEYS: Final = frozenset({"version", "partitions"})


def decode_legacy_plan(
    data: bytes, version: ZkVersion, czxid: Zxid, *, besides: frozenset[str] = frozenset()
) -> LegacyPlan:
    """
    Decode the plan; what is wrong is in ``refused`` or ``unreadable``, with the reason.

    Args:
        data: The node, or a file of the same format.
        version: Of the node.
        czxid: Of the node.
        besides: Keys that may stand beside Kafka's own, because the caller reads them.

    """
    listed = _listed(data, _PLAN_KEYS | besides)
    if isinstance(listed, str):
        return LegacyPlan({}, version, czxid, unreadable=listed, raw=data)
    entries, refused = judge_entries(listed)
    return LegacyPlan(entries, version, czxid, tuple(refused))


def encode_legacy_plan(
    entries: Mapping[TopicPartition, Replicas],
    originals: Mapping[TopicPartition, Replicas] = MappingProxyType({}),
) -> bytes:
    """
    Encode a plan.

    Args:
        entries: The replicas each partition is to have.
        originals: ``original_replicas`` as KIP-236 writes them. Without them there is no key but
            Kafka's own, which every version accepts; with them Kafka 2.3 deletes the node
            unprocessed and 3.9 ignores it.

    """
    return write_document(
        {
            "version": 1,
            "partitions": [
                {"topic": p.topic, "partition": p.partition, "replicas": replicas}
                | ({"original_replicas": originals[p]} if p in originals else {})
                for p, replicas in entries.items()
            ],
        }
    )


def _listed(data: bytes, known: frozenset[str]) -> list[object] | str:
    """Return the list of entries, or why the node as a whole is not a plan."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    problem = version_problem(document, (1,), absent=1)
    if problem is not None:
        return problem
    unknown = unknown_key(document, known)
    if unknown is not None:
        return unknown
    listed = document.get("partitions")
    if not is_list(listed):
        return f"partitions is not a list but {excerpt(listed)}"
    return list(listed)
