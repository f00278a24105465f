"""
Replication throttles in ``/config/topics/T`` and ``/config/brokers/B`` (dynamic settings).

Kafka's tool and others write them; no controller removes them. Only these keys are read.
"""

from __future__ import annotations

from typing import Final

from controller.znodes.json_documents import excerpt, is_object, is_text, read_document
from controller.znodes.paths import parse_number

TOPIC_KEYS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
BROKER_KEYS: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
EVERYTHING: Final[frozenset[int]] = frozenset({-1})
"""Stands for ``*``, every replica of the topic; compared by identity."""


def decode_throttles(data: bytes) -> dict[str, str] | str:
    """Decode the throttles of a topic or broker from its settings."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    config = document.get("config", {})
    if not is_object(config):
        return f"config is not an object but {excerpt(config)}"
    return {
        key: value
        for key in (*TOPIC_KEYS, *BROKER_KEYS)
        if is_text(value := config.get(key)) and value
    }


def throttled_partitions(value: str) -> frozenset[int]:
    """Read the partitions of a list like ``0:101,1:102``; what is no partition is left out."""
    if value.strip() == "*":
        return EVERYTHING
    numbers = (parse_number(entry.partition(":")[0].strip()) for entry in value.split(","))
    return frozenset(n for n in numbers if n is not None)
