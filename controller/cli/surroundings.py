"""
What the verbs need of the outside, so that they can be driven without a cluster.

``Surroundings`` is built once, in ``app.main``, and handed down; no verb reaches for the
environment, a clock or a connection by itself.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from controller.core.events import Orphan
from controller.core.histories import Summary
from controller.core.model import (
    BrokerId,
    Goal,
    LegacyPlan,
    PartitionState,
    Replicas,
    RequestId,
    TopicAssignment,
    TopicPartition,
    Zxid,
)
from controller.errors import SessionSuspendedError, TransientError
from controller.setting_sources import load_settings
from controller.settings import Settings

HTTP_TIMEOUT_S: Final = 5.0
STATUS_BYTES_MAX: Final = 64 * 1024 * 1024


class OperatorPort(Protocol):
    """ZooKeeper as the verbs see it; ``zk.operator.Operator`` implements it."""

    def read_plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``."""
        ...

    def read_topics(self, names: Iterable[str]) -> Mapping[str, TopicAssignment | str | None]:
        """Return topic znodes."""
        ...

    def read_goals(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Goal | str | None]:
        """Return the daemon's records."""
        ...

    def live_brokers(self) -> frozenset[BrokerId]:
        """Return the registered brokers."""
        ...

    def read_outcome(self, request: RequestId) -> Summary | str | None:
        """Return how a request ended."""
        ...

    def leader_address(self) -> str | None:
        """Return where the leading daemon's HTTP server listens."""
        ...

    def create_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Write a plan where there is none."""
        ...

    def extend_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Add to the plan that is there."""
        ...


class InspectorPort(OperatorPort, Protocol):
    """ZooKeeper as ``explain`` reads it; ``zk.inspections.Inspector`` implements it."""

    def read_states(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState | str | None]:
        """Return leaders and ISRs."""
        ...

    def read_deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        ...

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records about a partition."""
        ...

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how the last requests ended, the newest first."""
        ...


Connect = Callable[[Settings], AbstractContextManager[OperatorPort]]


def fetch_status(address: str) -> Mapping[str, Any]:
    """
    Ask a daemon for its status document.

    Raises:
        TransientError: it does not answer, or not with one.

    """
    document = _fetch(address, "/status")
    if "in_flight" not in document:
        raise SessionSuspendedError(f"{address} is not a reassigner")
    return document


def fetch_explanation(address: str, partition: TopicPartition) -> Mapping[str, Any]:
    """
    Ask a daemon about a partition.

    Raises:
        TransientError: it does not answer, or does not know how to.

    """
    document = _fetch(address, f"/explain?partition={partition}")
    if "reassignment" not in document:
        raise SessionSuspendedError(f"{address} is not a reassigner")
    return document


def _fetch(address: str, path: str) -> Mapping[str, Any]:
    url = f"http://{address}{path}"
    try:
        with urllib.request.urlopen(url, timeout=HTTP_TIMEOUT_S) as response:
            document = json.loads(response.read(STATUS_BYTES_MAX))
    except urllib.error.HTTPError as error:
        said = error.read(200).decode(errors="replace").strip()
        raise SessionSuspendedError(f"{url} answers {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SessionSuspendedError(f"{url} does not answer: {reason}") from error
    if not isinstance(document, dict):
        raise SessionSuspendedError(f"{url} is not a reassigner")
    return document


def connect_operator(settings: Settings) -> AbstractContextManager[OperatorPort]:
    """Connect to ZooKeeper for one command."""
    from controller.zk.operator import Operator  # noqa: PLC0415 - help and errors need no ZooKeeper

    return Operator(settings)


def connect_inspector(settings: Settings) -> AbstractContextManager[InspectorPort]:
    """Connect to ZooKeeper to look around."""
    from controller.zk.inspections import Inspector  # noqa: PLC0415 - as above

    return Inspector(settings)


def run_daemon(settings: Settings) -> int:
    """Run the daemon until it is asked to stop; return its exit code."""
    from controller.daemon import run  # noqa: PLC0415 - only this verb needs the Kafka client

    return run(settings)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The outside of the command line."""

    environ: Mapping[str, str]
    connect: Connect = connect_operator
    inspect: Callable[[Settings], AbstractContextManager[InspectorPort]] = connect_inspector
    fetch: Callable[[str], Mapping[str, Any]] = fetch_status
    fetch_explanation: Callable[[str, TopicPartition], Mapping[str, Any]] = fetch_explanation
    run_daemon: Callable[[Settings], int] = run_daemon
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    is_terminal: Callable[[], bool] = field(default=lambda: False)

    def settings(self, options: Mapping[str, object], config: Path | None) -> Settings:
        """Load the settings; see ``setting_sources.load_settings``."""
        return load_settings(options, self.environ, config)

    def status_of_leader(self, operator: OperatorPort) -> Mapping[str, Any] | None:
        """Return the leader's status, None when it cannot be had just now."""
        address = operator.leader_address()
        if address is None:
            return None
        try:
            return self.fetch(address)
        except TransientError:
            return None
