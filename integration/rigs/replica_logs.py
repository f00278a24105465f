"""
What the brokers' disks hold of one partition, for the report of a record that is missing.

Read from the files of every replica on this machine, without the brokers: what a leader shows to
consumers is what has to be explained. Only file system and record format are believed, no tool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    ConfigResource,
    ResourceType,
)
from kafka.errors import KafkaError as RecordError
from kafka.record import MemoryRecords

from integration.rigs.cluster import QUIET

_ANSWERED_WITHIN_S: Final = 10.0
_SHOWN_BATCHES: Final = 3
"""Of each end of a log."""
_SHOWN_GAPS: Final = 20
_LAST_SEQUENCE: Final = 2**31 - 1
"""After it a producer counts from 0 again."""


class Batch(NamedTuple):
    """The header of a record batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    """-1: not from an idempotent producer."""
    producer_epoch: int
    base_sequence: int
    last_sequence: int

    def __str__(self) -> str:
        """Return it in a few words."""
        return (
            f"{self.base_offset} to {self.last_offset} (leader epoch {self.leader_epoch}, producer "
            f"{self.producer_id} epoch {self.producer_epoch}, "
            f"sequences {self.base_sequence} to {self.last_sequence})"
        )


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The log of one replica as its files have it."""

    start_offset: int
    """Where consumers may begin; the first segment may begin before it."""
    high_watermark: int | None
    """As it was last checkpointed; None: never."""
    leader_epochs: tuple[tuple[int, int], ...]
    """The cache of leader epochs: each with the offset at which it began."""
    batches: tuple[Batch, ...]
    offsets: Mapping[int, int]
    """Where the keys are that were looked for."""

    @classmethod
    def read(cls, directory: Path, keys: Collection[int]) -> ReplicaLog:
        """Read the log in a replica's directory, and look for records with these keys."""
        segments = sorted(directory.glob("*.log"))
        batches: list[Batch] = []
        wanted = {str(key).encode(): key for key in keys}
        offsets: dict[int, int] = {}
        for segment in segments:
            for batch in MemoryRecords(segment.read_bytes()):
                batches.append(
                    Batch(
                        batch.base_offset,
                        batch.last_offset,
                        batch.leader_epoch,
                        batch.producer_id,
                        batch.producer_epoch,
                        batch.base_sequence,
                        batch.last_sequence,
                    )
                )
                for record in batch:
                    if record.key in wanted:
                        offsets[wanted[record.key]] = record.offset
        first = int(segments[0].stem) if segments else 0
        checkpointed = _checkpoint(directory.parent / "log-start-offset-checkpoint")
        watermarks = _checkpoint(directory.parent / "replication-offset-checkpoint")
        epochs = _rows(directory / "leader-epoch-checkpoint")
        return cls(
            start_offset=max(first, checkpointed.get(directory.name, 0)),
            high_watermark=watermarks.get(directory.name),
            leader_epochs=tuple((int(epoch), int(start)) for epoch, start in epochs),
            batches=tuple(batches),
            offsets=offsets,
        )

    def gaps(self) -> Iterator[str]:
        """
        Give in words where offsets or a producer's sequences are skipped.

        A first sequence above 0 at the very beginning of a producer means that the leader took a
        later batch of it and never had the earlier one: where it knows nothing of a producer, a
        broker from 2.5 to 4.4 takes any sequence (KAFKA-15591).
        """
        next_offset = self.batches[0].base_offset if self.batches else 0
        next_sequences: dict[tuple[int, int], int] = {}
        for batch in self.batches:
            if batch.base_offset != next_offset:
                yield f"offsets {next_offset} to {batch.base_offset - 1} are in no batch"
            next_offset = batch.last_offset + 1
            if batch.base_sequence < 0:
                continue  # no idempotent producer, or the end of a transaction
            producer = (batch.producer_id, batch.producer_epoch)
            due = next_sequences.get(producer, 0)
            if batch.base_sequence != due:
                yield (
                    f"before offset {batch.base_offset} sequence {due} of producer "
                    f"{batch.producer_id} epoch {batch.producer_epoch} was due, and "
                    f"{batch.base_sequence} came"
                    + ("" if producer in next_sequences else ": its first batch is not there")
                )
            last = batch.last_sequence
            next_sequences[producer] = 0 if last == _LAST_SEQUENCE else last + 1

    def describe(self, lost: Mapping[int, int]) -> Iterator[str]:
        """Give in lines what the log has at its ends and in place of lost records, by key."""
        yield (
            f"log start offset {self.start_offset}, "
            f"high watermark {self.high_watermark}, "
            f"leader epochs {', '.join(f'{e} from {o}' for e, o in self.leader_epochs) or 'none'}"
        )
        yield f"{len(self.batches)} batches: {'; '.join(map(str, self._shown(lost.values())))}"
        yield f"skipped: {'; '.join(islice(self.gaps(), _SHOWN_GAPS)) or 'nothing'}"
        found = (
            f"{key} at {self.offsets[key]}" if key in self.offsets else f"{key} nowhere"
            for key in lost
        )
        yield f"keys: {', '.join(found)}"

    def _shown(self, offsets: Collection[int]) -> list[Batch]:
        """Return the first and the last batches, and those at some offsets."""
        ends = {*self.batches[:_SHOWN_BATCHES], *self.batches[-_SHOWN_BATCHES:]}
        return [
            batch
            for batch in self.batches
            if batch in ends or any(batch.base_offset <= o <= batch.last_offset for o in offsets)
        ]


def describe_partition(
    bootstrap_servers: str,
    partition: tuple[str, int],
    lost: Mapping[int, int],
    *,
    security: Mapping[str, str],
) -> Iterator[str]:
    """
    Give in lines what the cluster says of a partition and what its replicas' logs hold.

    A part that cannot be had is named, as the other parts may explain enough.

    Args:
        bootstrap_servers: Where to begin.
        partition: Topic and number.
        lost: The offsets at which records were acknowledged that are missing, by key.
        security: librdkafka's security settings.
    """
    settings = {"bootstrap.servers": bootstrap_servers, **security, **QUIET}
    admin = AdminClient(settings)
    topic, number = partition
    try:
        metadata = admin.list_topics(topic, timeout=_ANSWERED_WITHIN_S)
        found = metadata.topics[topic].partitions[number]
        yield f"leader {found.leader}, replicas {found.replicas}, ISR {found.isrs}"
        yield f"consumers see offsets {_visible(settings, partition)}"
        brokers = sorted(metadata.brokers)
    except (KafkaException, KeyError) as error:
        yield f"the cluster says nothing of it: {error!r}"
        return
    for broker in brokers:
        try:
            directories = _log_directories(admin, broker)
        except KafkaException as error:
            yield f"broker {broker}: its log directories are unknown: {error}"
            continue
        for directory in directories:
            name = f"{topic}-{number}"
            # A log that is being deleted may have what is missing.
            for log in sorted([*directory.glob(name), *directory.glob(f"{name}.*")]):
                yield f"broker {broker}, {log}"
                yield from (f"  {line}" for line in _described(log, lost))


def _described(log: Path, lost: Mapping[int, int]) -> list[str]:
    try:
        return list(ReplicaLog.read(log, lost).describe(lost))
    except (OSError, RecordError) as error:
        return [f"cannot be read: {error!r}"]


def _visible(settings: Mapping[str, str | int | float | bool], partition: tuple[str, int]) -> str:
    consumer = Consumer({**settings, "group.id": "audit"})
    try:
        first, end = consumer.get_watermark_offsets(
            TopicPartition(*partition), timeout=_ANSWERED_WITHIN_S
        )
    finally:
        consumer.close()
    return f"{first} to {end - 1}"


def _log_directories(admin: AdminClient, broker: int) -> list[Path]:
    """Return a broker's log directories that are on this machine."""
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    answers = admin.describe_configs([resource], request_timeout=_ANSWERED_WITHIN_S)
    settings = answers[resource].result(timeout=2 * _ANSWERED_WITHIN_S)
    listed = next(
        (settings[name].value for name in ("log.dirs", "log.dir") if settings[name].value), ""
    )
    return [Path(name) for name in str(listed).split(",") if Path(name).is_dir()]


def _checkpoint(file: Path) -> dict[str, int]:
    """Return the offsets of a checkpoint file, by the name of the replica's directory."""
    return {f"{topic}-{number}": int(offset) for topic, number, offset in _rows(file)}


def _rows(file: Path) -> list[list[str]]:
    """Return the rows of one of the brokers' checkpoint files, none where there is no file."""
    try:
        _version, _count, *rows = file.read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ValueError):
        return []
    return [row.split() for row in rows]
