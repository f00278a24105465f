"""
A plan as Kafka's own tool writes it: ``/admin/reassign_partitions`` (``ReassignPartitionsZNode``).

``/admin/reassign_partitions_queue`` has the same format, and submitted requests have such entries.
Entries are judged one by one: an entry that is refused does not affect the others. Whether the
topic, partition, brokers and directories exist is not known here. ``log_dirs`` (KIP-113) lists for
each replica an absolute path, or "any".
``original_replicas`` (KIP-236) is accepted; only approved requests are compared with it. Any other
unknown key would be ignored silently: in an entry it refuses the entry, beside the entries it makes
the node unreadable.

Invariant: an accepted entry has a valid topic name, at least one replica, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controller.core.model import LogDirs, Replicas, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import NO_DIRS, LegacyPlan, NamedDirs, listed_dirs
from controller.znodes import json_documents as documents
from controller.znodes.paths import valid_topic

_ENTRY_KEYS: Final = frozenset({"topic", "partition", "replicas", "log_dirs", "original_replicas"})

Refusals = list[tuple[str, str]]
"""(entry as text, reason)."""


class JudgedEntries(NamedTuple):
    """The valid entries, in order, and why the others are refused."""

    replicas: dict[TopicPartition, Replicas]
    originals: dict[TopicPartition, Replicas]
    """The ``original_replicas`` of those that name them."""
    refused: Refusals
    log_dirs: dict[TopicPartition, LogDirs]
    """Of those that name any."""


def judge_entries(listed: Iterable[object]) -> JudgedEntries:
    """Judge entries one by one."""
    entries: dict[TopicPartition, Replicas] = {}
    originals: dict[TopicPartition, Replicas] = {}
    log_dirs: dict[TopicPartition, LogDirs] = {}
    contradicted: set[TopicPartition] = set()
    refused: Refusals = []
    for item in listed:
        read = _entry(item)
        if isinstance(read, str):
            refused.append((documents.excerpt(item), read))
            continue
        partition, replicas, original, named = read
        if original is not None:
            originals.setdefault(partition, original)
        known = entries.get(partition)
        is_same = known == replicas and log_dirs.get(partition, ()) == named
        if is_same and partition not in contradicted:
            continue
        if known is not None or partition in contradicted:
            if known is not None:
                refused.append((_text(partition, known), _contradiction(partition)))
            refused.append((_text(partition, replicas), _contradiction(partition)))
            contradicted.add(partition)
            entries.pop(partition, None)
            log_dirs.pop(partition, None)
            continue
        entries[partition] = replicas
        if named:
            log_dirs[partition] = named
    originals = {p: originals[p] for p in originals if p in entries}
    return JudgedEntries(entries, originals, refused, log_dirs)


def unknown_key(document: documents.Document, known: frozenset[str]) -> str | None:
    """Return what is wrong with the keys of an object."""
    unknown = sorted(document.keys() - known)
    return f"the key {documents.excerpt(unknown[0])} is not known" if unknown else None


def _entry(  # noqa: PLR0911 - one return per reason
    item: object,
) -> tuple[TopicPartition, Replicas, Replicas | None, LogDirs] | str:
    if not documents.is_object(item):
        return "an entry is an object with topic, partition and replicas"
    unknown = unknown_key(item, _ENTRY_KEYS)
    if unknown is not None:
        return unknown
    topic, partition = item.get("topic"), item.get("partition")
    if not documents.is_text(topic) or not valid_topic(topic):
        return f"{documents.excerpt(topic)} is not a topic name"
    if not documents.is_int(partition):
        return f"{documents.excerpt(partition)} is not a partition number"
    replicas = documents.read_replicas(item.get("replicas"))
    if isinstance(replicas, str):
        return replicas
    log_dirs = documents.read_log_dirs(item.get("log_dirs"), replicas) if "log_dirs" in item else ()
    if isinstance(log_dirs, str):
        return log_dirs
    original = documents.read_replicas(item.get("original_replicas"))
    return (
        TopicPartition(topic, partition),
        replicas,
        None if isinstance(original, str) else original,
        log_dirs,
    )


def _text(partition: TopicPartition, replicas: Replicas) -> str:
    return documents.excerpt(
        {"topic": partition.topic, "partition": partition.partition, "replicas": replicas}
    )


def _contradiction(partition: TopicPartition) -> str:
    return f"{partition} is listed more than once with different replicas or directories"


_PLAN_KEYS: Final = frozenset({"version", "partitions"})


def decode_legacy_plan(data: bytes, version: ZkVersion, czxid: Zxid) -> LegacyPlan:
    """Decode a plan; ``refused`` and ``unreadable`` say what is wrong with it."""
    document = documents.read_document(data)
    judged = document if isinstance(document, str) else judge_plan(document)
    if isinstance(judged, str):
        return LegacyPlan({}, version, czxid, unreadable=judged, raw=data)
    return LegacyPlan(
        judged.replicas, version, czxid, tuple(judged.refused), log_dirs=judged.log_dirs
    )


def judge_plan(
    document: documents.Document, *, besides: frozenset[str] = frozenset()
) -> JudgedEntries | str:
    """
    Judge the entries of a plan, or return why the document as a whole is none.

    Args:
        document: The content of the node, or of a file of the same format.
        besides: Keys that may stand beside Kafka's own, because the caller reads them.

    """
    problem = documents.version_problem(document, (1,), absent=1)
    if problem is not None:
        return problem
    unknown = unknown_key(document, _PLAN_KEYS | besides)
    if unknown is not None:
        return unknown
    listed = document.get("partitions")
    if not documents.is_list(listed):
        return f"partitions is not a list but {documents.excerpt(listed)}"
    return judge_entries(listed)


def encode_legacy_plan(
    entries: Mapping[TopicPartition, Replicas],
    log_dirs: NamedDirs = NO_DIRS,
) -> bytes:
    """Encode a plan: the target replicas of each partition, with Kafka's own keys only."""
    listed = [plan_entry(p, replicas, log_dirs.get(p, ())) for p, replicas in entries.items()]
    return documents.write_document({"version": 1, "partitions": listed})


def plan_entry(
    partition: TopicPartition, replicas: Replicas, log_dirs: LogDirs
) -> documents.Document:
    """Return an entry as plans list it; without ``log_dirs`` where it names none."""
    named = {"log_dirs": listed_dirs(replicas, log_dirs)} if log_dirs else {}
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": replicas,
        **named,
    }
