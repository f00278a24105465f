"""A store that writes and reads nothing, for tests of the calls that it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.core.model import RequestId, TopicPartition, ZkVersion
from controller.core.pacing.throttle_settings import Entity
from controller.reactor.ports import (
    Check,
    Committed,
    Operation,
    Rejected,
    SetData,
    WriteError,
    ZnodeFamily,
)


class NotingStore:
    """Notes the requested reads; refuses every write to some paths."""

    def __init__(self) -> None:
        """Begin with nothing refused."""
        self.znodes: list[ZnodeFamily] = []
        self.entities: list[Entity] = []
        self.refused: dict[str, WriteError] = {}
        """The error of every operation on a path."""

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Refuse a multi at its first operation on such a path."""
        return [self._written(multi) for multi in multis]

    def _written(self, multi: Sequence[Operation]) -> Committed | Rejected:
        for index, operation in enumerate(multi):
            if operation.path in self.refused:
                return Rejected(index, self.refused[operation.path])
        return Committed()

    def read(self, znode: ZnodeFamily) -> None:
        """Note it."""
        self.znodes.append(znode)

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Note them."""
        self.entities += entities

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def read_submissions(self, names: Sequence[str]) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def read_accepted(self, request: RequestId) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def begin_tenure(self) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def claim_controller(self, *, at_once: bool = False) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def resign_controller(self) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError


class VersionedStore(NotingStore):
    """Replaces znodes as ZooKeeper does: at the version expected, a multi as a whole."""

    def __init__(self, versions: Mapping[str, ZkVersion]) -> None:
        """Begin with znodes at these versions."""
        super().__init__()
        self.versions = dict(versions)
        self.written: list[Sequence[Operation]] = []
        """The multis that changed something."""
        self.commits = 0
        """Round trips."""

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Refuse a multi at its first operation that expects another version."""
        self.commits += 1
        return [self._written(multi) for multi in multis]

    def _written(self, multi: Sequence[Operation]) -> Committed | Rejected:
        for index, op in enumerate(multi):
            if isinstance(op, Check | SetData) and self.versions[op.path] != op.version:
                return Rejected(index, WriteError.BAD_VERSION)
        written = [op for op in multi if isinstance(op, SetData)]
        for operation in written:
            self.versions[operation.path] = ZkVersion(operation.version + 1)
        if written:
            self.written.append(multi)
        return Committed()
