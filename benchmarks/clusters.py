"""
Made-up clusters to plan for: skewed, with a hot broker, empty new ones and broken rack spread.

The same seed makes the same cluster. What is skewed and how much stands in ``Shape``; sizes are
log-normal by topic and by partition, topics differ in their number of partitions by a power law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

GIB: Final = 1 << 30
FULLEST: Final = 0.95
"""The largest fill of a volume."""
LARGEST_TOPIC: Final = 8.0
"""Where the power law of topics is cut off, in units of its scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a made-up cluster looks like."""

    brokers: int
    racks: int
    partitions: int
    topics: int
    replication_factor: int = 3
    topic_spread: float = 1.0
    """Standard deviation of the logarithm of a topic's typical size."""
    size_spread: float = 0.7
    """The same of partitions within a topic."""
    typical_bytes: int = GIB
    broker_spread: float = 0.15
    """The same of how much brokers attract replicas."""
    topic_skew: float = 0.3
    """The same for single topics."""
    empty: int = 3
    """New brokers that hold nothing yet."""
    hot: float = 1.6
    """How much more than others the hot broker attracts."""
    violations: float = 0.01
    """Share of the partitions with two replicas in one rack."""
    directories: int = 1
    """Log directories of each broker, on volumes of their own."""
    directory_spread: float = 0.4
    """Standard deviation of the logarithm of how much directories attract replicas."""
    large: float = 1.0
    """How many times as large every second machine of a rack is."""
    typical_rate: int = 0
    """Bytes per second that producers write to a typical partition; 0: rates are unknown."""
    rate_spread: float = 1.0
    """Standard deviation of the logarithm of a topic's typical rate, which is independent of its
    size; partitions within a topic differ by ``size_spread``."""


SHAPES: Final[Mapping[str, Shape]] = {
    "S": Shape(brokers=30, racks=3, partitions=10_000, topics=300),
    "M": Shape(brokers=100, racks=5, partitions=100_000, topics=1_500),
    "L": Shape(brokers=300, racks=6, partitions=333_333, topics=5_000),
    "X": Shape(brokers=500, racks=6, partitions=1_000_000, topics=10_000),
    "J": Shape(brokers=30, racks=3, partitions=10_000, topics=300, directories=4),
}
RATED: Final[Mapping[str, Shape]] = {
    name: replace(SHAPES[name], large=2.0, typical_rate=100_000) for name in "SMLX"
}
"""The same with rates, and with machines of two sizes."""


@dataclass(frozen=True, slots=True)
class MadeCluster:
    """A cluster as arrays: ``replicas[p]`` are the broker ids of partition ``p``."""

    racks: tuple[str, ...]
    """By broker; ids begin with 1."""
    topics: tuple[str, ...]
    topic: Any
    """Of each partition, an index into ``topics``."""
    partition: Any
    """Its number within the topic."""
    size: Any
    replicas: Any
    directory: Any
    """Of each replica, the index of its log directory."""
    volume: Any
    """Bytes of the volumes of each broker, by directory."""
    capacity: Any
    """Of each broker, relative to the smallest."""
    bytes_in: Any = None
    """Bytes per second that producers write to each partition; None: unknown."""
    bytes_out: Any = None
    """The same of what consumers fetch."""


def make_cluster(shape: Shape, seed: int) -> MadeCluster:
    """Make a cluster."""
    rng = np.random.default_rng(seed)
    racks = np.arange(shape.brokers) % shape.racks
    topic, partition = _partitions(rng, shape)
    log_size = rng.normal(0.0, shape.topic_spread, shape.topics)[topic]
    log_size += rng.normal(0.0, shape.size_spread, len(topic))
    size = np.maximum(1, (shape.typical_bytes * np.exp(log_size)).astype(np.int64))
    pull = rng.normal(0.0, shape.broker_spread, shape.brokers)
    old = shape.brokers - shape.empty
    pull[rng.integers(old)] += np.log(shape.hot)
    pull[old:] = -np.inf
    keys = pull + rng.normal(0.0, shape.topic_skew, (shape.topics, shape.brokers))
    replicas = _placed(rng, shape, keys, topic, racks)
    directory, volume = _directories(rng, shape, size, replicas)
    # Independent of all that is drawn above, so that a seed keeps its cluster.
    apart = np.random.default_rng([seed, 1])
    is_large = np.arange(shape.brokers) // shape.racks % 2 == 1
    return MadeCluster(
        tuple(f"rack-{r}" for r in racks),
        tuple(f"topic-{t:05d}" for t in range(shape.topics)),
        topic,
        partition,
        size,
        replicas + 1,
        directory,
        volume,
        np.where(is_large, shape.large, 1.0),
        *(_rates(apart, shape, topic) for _ in range(2)),
    )


def _rates(rng: np.random.Generator, shape: Shape, topic: Any) -> Any:
    if not shape.typical_rate:
        return None
    log_rate = rng.normal(0.0, shape.rate_spread, shape.topics)[topic]
    log_rate += rng.normal(0.0, shape.size_spread, len(topic))
    return (shape.typical_rate * np.exp(log_rate)).astype(np.int64)


def _directories(rng: np.random.Generator, shape: Shape, size: Any, replicas: Any) -> Any:
    """Choose directories by weight; the volumes of a broker are of one size, and none is full."""
    pull = rng.normal(0.0, shape.directory_spread, (shape.brokers, shape.directories))
    directory = np.argmax(
        pull[replicas] + rng.gumbel(size=(*replicas.shape, pull.shape[1])), axis=2
    )
    used = np.zeros(pull.shape, dtype=np.int64)
    np.add.at(used, (replicas, directory), np.broadcast_to(size[:, None], replicas.shape))
    fullest = used.max(axis=1) / FULLEST
    volume = np.maximum(fullest, 2 * used.sum() / used.size).astype(np.int64)
    return directory, np.repeat(volume[:, None], shape.directories, axis=1)


def _partitions(rng: np.random.Generator, shape: Shape) -> tuple[Any, Any]:
    weights = np.minimum(rng.pareto(1.5, shape.topics) + 0.1, LARGEST_TOPIC)
    counts = np.maximum(1, np.floor(weights / weights.sum() * shape.partitions)).astype(np.int64)
    most = np.argsort(-counts, kind="stable")
    rest = int(shape.partitions - counts.sum())
    if rest > 0:
        counts += np.bincount(rng.integers(shape.topics, size=rest), minlength=shape.topics)
    for n in range(-rest):
        counts[most[n % max(1, len(most) // 10)]] -= 1
    topic = np.repeat(np.arange(shape.topics), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return topic, np.arange(len(topic)) - first


def _placed(rng: np.random.Generator, shape: Shape, keys: Any, topic: Any, racks: Any) -> Any:
    """Choose brokers by weight (Gumbel keys), one rack after the other; break a few on purpose."""
    placed = np.empty((len(topic), shape.replication_factor), dtype=np.int64)
    broken = rng.random(len(topic)) < shape.violations
    for begin in range(0, len(topic), 10_000):
        rows = slice(begin, min(begin + 10_000, len(topic)))
        score = keys[topic[rows]] + rng.gumbel(size=(rows.stop - rows.start, shape.brokers))
        index = np.arange(rows.stop - rows.start)
        for position in range(shape.replication_factor):
            best = np.argmax(score, axis=1)
            placed[rows, position] = best
            score[index, best] = -np.inf
            same = racks[None, :] == racks[best][:, None]
            spread = shape.racks >= shape.replication_factor
            taken = same & ~broken[rows][:, None] if spread else same & False
            score[taken] = -np.inf
    return placed
