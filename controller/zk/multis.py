"""
Fenced multis: the loop's writes, led by checks of the daemon's right to write.

All multis of a commit are sent before the first answer is awaited. So are the parents of created
znodes: ZooKeeper handles a session's requests in order. What is written is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kazoo import exceptions

from controller import errors
from controller.core.core_settings import REQUEST_BYTES
from controller.core.model import ZkVersion
from controller.reactor import ports
from controller.zk.pending_calls import MultiRejected, PendingCall, answer, fill, multi_answer
from controller.zk.sessions import Session
from controller.znodes import paths

_OPERATION_BYTES: Final = 60
"""Upper bound of an operation besides its path and data (header, lengths, an ordinary ACL)."""

_MANY: Final = (f"{paths.TOPICS}/", f"{paths.OUTCOMES}/")
"""Parents of ever more directories: a memory of those that exist would only grow."""

_KAFKAS: Final = frozenset({"/brokers", "/config"})
_HELD_BY_KAFKA: Final = frozenset({"/brokers", "/config", paths.TOPICS})

Fence = tuple[ports.Check, ...]
"""Checks that lead a multi; none where there is no competitor."""


class Multis:
    """Commits for the loop, in requests of at most ``request_bytes``: see ``too_large``."""

    def __init__(self, session: Session, *, request_bytes: int = REQUEST_BYTES) -> None:
        self._session = session
        self._request_bytes = request_bytes
        self._known_parents: set[str] = set()

    def commit(
        self, fence: Fence, multis: Sequence[Sequence[ports.Operation]]
    ) -> list[ports.Committed | ports.Rejected]:
        """Write the multis; see ``Store.commit``."""
        if not self._session.is_connected:
            raise errors.CommitUnknownError("there is no connection to ZooKeeper")
        parents = [(p, self._session.client.create_async(p)) for p in self._missing_parents(multis)]
        pending = [
            too_large(multi, self._request_bytes) or self._send(fence, multi) for multi in multis
        ]
        try:
            for path, created in parents:
                self._await_parent(path, created)
            return [
                sent if isinstance(sent, ports.Rejected) else self._await_multi(fence, multi, sent)
                for multi, sent in zip(multis, pending, strict=True)
            ]
        except errors.SessionSuspendedError as error:
            raise errors.CommitUnknownError(str(error)) from error

    def _send(self, fence: Fence, multi: Sequence[ports.Operation]) -> PendingCall:
        transaction = self._session.client.transaction()
        fill(transaction, (*fence, *multi), self._session.acls)
        pending: PendingCall = transaction.commit_async()
        return pending

    def _await_multi(
        self, fence: Fence, multi: Sequence[ports.Operation], pending: PendingCall
    ) -> ports.Committed | ports.Rejected:
        try:
            multi_answer(pending, self._session.timeout_s)
        except MultiRejected as refused:
            index = refused.index - len(fence)
            if index < 0:
                path = fence[refused.index].path
                raise errors.ControllerMovedError(f"{path} moved on: {refused.reason}") from refused
            if refused.error is ports.WriteError.NO_NODE:
                self._known_parents.difference_update(_ancestors_of_created(multi))
            return ports.Rejected(index, refused.error)
        return ports.Committed()

    # --- parents ---------------------------------------------------------------------------------

    def _missing_parents(self, multis: Iterable[Iterable[ports.Operation]]) -> list[str]:
        """Return the parents that may not exist yet, each before its children."""
        wanted = dict.fromkeys(path for multi in multis for path in _ancestors_of_created(multi))
        return [path for path in wanted if path not in self._known_parents]

    def _await_parent(self, path: str, created: PendingCall) -> None:
        try:
            answer(created, self._session.timeout_s)
        except exceptions.NodeExistsError:
            pass
        except exceptions.KazooException:
            return  # The multi that needs it is refused with its own reason.
        if not path.startswith(_MANY):
            self._known_parents.add(path)


def _ancestors_of_created(multi: Iterable[ports.Operation]) -> Iterator[str]:
    for operation in multi:
        if isinstance(operation, ports.Create | ports.CreateSequential):
            yield from ancestors(operation.path)


def ancestors(path: str) -> Iterator[str]:
    """Yield the parents of a znode that the daemon may create, the highest first."""
    parts = path.split("/")
    for depth in range(2, len(parts)):
        parent = "/".join(parts[:depth])
        # Only Kafka creates these: a topic znode that the daemon created after its deletion would
        # be an empty topic.
        if parent not in _KAFKAS and parent.rpartition("/")[0] not in _HELD_BY_KAFKA:
            yield parent


def too_large(
    multi: Sequence[ports.Operation], request_bytes: int = REQUEST_BYTES
) -> ports.Rejected | None:
    """Reject a multi that would make ZooKeeper close the connection; name its largest operation."""
    sizes = [len(op.path) + len(getattr(op, "data", b"")) + _OPERATION_BYTES for op in multi]
    if sum(sizes) <= request_bytes:
        return None
    return ports.Rejected(sizes.index(max(sizes)), ports.WriteError.TOO_LARGE)


def epoch_check(version: ZkVersion) -> ports.Check:
    """Return the check that this daemon still leads the daemons."""
    return ports.Check(paths.EPOCH, version)


def claim_check(version: ZkVersion) -> ports.Check:
    """Return the check that this daemon still has the controller role."""
    return ports.Check(paths.CONTROLLER_EPOCH, version)
