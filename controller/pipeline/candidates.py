"""What the cluster offers the planner: single replicas that may move, and what becomes of them."""

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
    """Which replica is offered."""


class Change(NamedTuple):
    """A partition whose replicas are to be others, or in another order."""

    topic: int
    partition: int
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def moved(offer: Candidate, broker: int) -> Change:
    """Return the change that puts the offered replica on another broker."""
    after = list(offer.replicas)
    after[offer.position] = broker
    return Change(offer.topic, offer.partition, offer.size, offer.replicas, tuple(after))
