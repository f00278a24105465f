"""
The entries of a plan: topic, partition and replicas, however the znode that holds them lists them.

Entries are judged one by one: what is wrong with one does not keep the others from being carried
out. Whether the topic, partition and brokers exist is not known here. ``log_dirs`` only as "any": a
place within a broker is that broker's business. ``original_replicas`` (KIP-236) is accepted and
ignored; any other unknown key is refused, as it would ask for something that is not going to
happen.

Invariant: an accepted entry has a valid topic name, at least one replica, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.model import Replicas, TopicPartition
from controller.znodes.json_documents import (
    Document,
    excerpt,
    is_int,
    is_list,
    is_object,
    is_text,
    read_replicas,
)
from controller.znodes.paths import valid_topic

_ENTRY_KEYS: Final = frozenset({"topic", "partition", "replicas", "log_dirs", "original_replicas"})

Refusals = list[tuple[str, str]]
"""(entry as text, reason)."""


def judge_entries(listed: Iterable[object]) -> tuple[dict[TopicPartition, Replicas], Refusals]:
    """Return the good entries, in order, and what was wrong with the others."""
    entries: dict[TopicPartition, Replicas] = {}
    contradicted: set[TopicPartition] = set()
    refused: Refusals = []
    for item in listed:
        read = _entry(item)
        if isinstance(read, str):
            refused.append((excerpt(item), read))
            continue
        partition, replicas = read
        known = entries.get(partition)
        if known == replicas and partition not in contradicted:
            continue
        if known is not None or partition in contradicted:
            if known is not None:
                refused.append((_text(partition, known), _contradiction(partition)))
            refused.append((_text(partition, replicas), _contradiction(partition)))
            contradicted.add(partition)
            entries.pop(partition, None)
            continue
        entries[partition] = replicas
    return entries, refused


def unknown_key(document: Document, known: frozenset[str]) -> str | None:
    """Return what is wrong with the keys of an object."""
    unknown = sorted(document.keys() - known)
    return f"the key {excerpt(unknown[0])} is not known" if unknown else None


def _entry(item: object) -> tuple[TopicPartition, Replicas] | str:
    if not is_object(item):
        return "an entry is an object with topic, partition and replicas"
    unknown = unknown_key(item, _ENTRY_KEYS)
    if unknown is not None:
        return unknown
    topic, partition = item.get("topic"), item.get("partition")
    if not is_text(topic) or not valid_topic(topic):
        return f"{excerpt(topic)} is not a topic name"
    if not is_int(partition):
        return f"{excerpt(partition)} is not a partition number"
    replicas = read_replicas(item.get("replicas"))
    if isinstance(replicas, str):
        return replicas
    problem = _log_dirs_problem(item, len(replicas))
    return (TopicPartition(topic, partition), replicas) if problem is None else problem


def _log_dirs_problem(item: Document, replicas: int) -> str | None:
    if "log_dirs" not in item:
        return None
    log_dirs = item["log_dirs"]
    if not is_list(log_dirs) or len(log_dirs) != replicas:
        return f"log_dirs is not a list as long as replicas but {excerpt(log_dirs)}"
    if any(log_dir != "any" for log_dir in log_dirs):
        return 'log directories cannot be chosen: log_dirs may only say "any"'
    return None


def _text(partition: TopicPartition, replicas: Replicas) -> str:
    return excerpt(
        {"topic": partition.topic, "partition": partition.partition, "replicas": replicas}
    )


def _contradiction(partition: TopicPartition) -> str:
    return f"{partition} is listed more than once with different replicas"
