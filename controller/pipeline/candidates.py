"""Replicas that may move, and changes of a partition's replicas."""

from __future__ import annotations

from typing import NamedTuple


class Candidate(NamedTuple):
    """A partition of which one replica may move."""

    topic: int
    partition: int
    size: int
    replicas: tuple[int, ...]
    """Indices of brokers."""
    position: int
    """The replica that may move."""


class Change(NamedTuple):
    """A partition with other replicas, or another order of them."""

    topic: int
    partition: int
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def moved(offer: Candidate, broker: int) -> Change:
    """Return the change that puts the candidate on another broker."""
    after = list(offer.replicas)
    after[offer.position] = broker
    return Change(offer.topic, offer.partition, offer.size, offer.replicas, tuple(after))
