"""
What the verbs need of the outside, so that they can be driven without a cluster.

``CommandContext`` is built once, in ``app.main``, and handed down; no verb reaches for the
environment, a clock or a connection by itself.
"""

from __future__ import annotations

import getpass
import json
import secrets
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controller.cli.ports import InspectorPort, OperatorPort
from controller.core.model import LiveBroker, RequestId, TopicPartition
from controller.doctor.snapshot import BrokerAnswers
from controller.errors import SessionSuspendedError, TransientError
from controller.setting_sources import load_settings
from controller.settings import Settings

HTTP_TIMEOUT_S: Final = 5.0
STATUS_BYTES_MAX: Final = 64 * 1024 * 1024

Connect = Callable[[Settings], AbstractContextManager[OperatorPort]]
AskBrokers = Callable[[Settings, Collection[LiveBroker], Collection[str]], BrokerAnswers]


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
    from controller.zk.operator_client import OperatorClient  # noqa: PLC0415 - help and errors need no ZooKeeper

    return OperatorClient(settings)


def connect_inspector(settings: Settings) -> AbstractContextManager[InspectorPort]:
    """Connect to ZooKeeper to look around."""
    from controller.zk.operator_client import OperatorClient  # noqa: PLC0415 - as above

    return OperatorClient(settings)


def ask_brokers(
    settings: Settings, brokers: Collection[LiveBroker], topics: Collection[str]
) -> BrokerAnswers:
    """Ask the brokers what they hold."""
    from controller.brokers.broker_survey import BrokerSurvey  # noqa: PLC0415 - as above
    from controller.brokers.connections import quiet_kafka  # noqa: PLC0415 - as above
    from controller.brokers.endpoints import listeners_of, security_of  # noqa: PLC0415 - as above

    quiet_kafka()
    return BrokerSurvey(security_of(settings), listeners_of(settings)).ask(brokers, topics)


def ask_min_insync(
    settings: Settings, brokers: Collection[LiveBroker], topics: Collection[str]
) -> Mapping[str, int | str]:
    """Ask any broker for the effective min.insync.replicas of topics; a text says why not."""
    from controller.brokers.broker_survey import BrokerSurvey  # noqa: PLC0415 - as above
    from controller.brokers.connections import quiet_kafka  # noqa: PLC0415 - as above
    from controller.brokers.endpoints import listeners_of, security_of  # noqa: PLC0415 - as above

    quiet_kafka()
    return BrokerSurvey(security_of(settings), listeners_of(settings)).min_insync(brokers, topics)


def cluster_id_of(settings: Settings, bootstrap_servers: str) -> str:
    """Ask brokers for the id of their cluster."""
    from controller.brokers.cluster_survey import cluster_id_of as ask  # noqa: PLC0415 - as above
    from controller.brokers.endpoints import security_of  # noqa: PLC0415 - as above

    return ask(bootstrap_servers, security_of(settings))


def run_daemon(settings: Settings) -> int:
    """Run the daemon until it is asked to stop; return its exit code."""
    from controller.daemon import run  # noqa: PLC0415 - only this verb needs the Kafka client

    return run(settings)


def wall_ms() -> int:
    """Return the present moment in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def name_of_user() -> str:
    """Return ``user@host``, as far as they can be known."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def new_request_id() -> RequestId:
    """Return an id that nobody else chooses, by which a person sees when it was chosen."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return RequestId(f"req-{moment}-{secrets.token_hex(3)}")


@dataclass(frozen=True, kw_only=True)
class CommandContext:
    """The outside of the command line."""

    environ: Mapping[str, str]
    connect: Connect = connect_operator
    inspect: Callable[[Settings], AbstractContextManager[InspectorPort]] = connect_inspector
    ask_brokers: AskBrokers = ask_brokers
    ask_min_insync: Callable[
        [Settings, Collection[LiveBroker], Collection[str]], Mapping[str, int | str]
    ] = ask_min_insync
    cluster_id_of: Callable[[Settings, str], str] = cluster_id_of
    fetch: Callable[[str], Mapping[str, Any]] = fetch_status
    fetch_explanation: Callable[[str, TopicPartition], Mapping[str, Any]] = fetch_explanation
    run_daemon: Callable[[Settings], int] = run_daemon
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall_ms: Callable[[], int] = wall_ms
    name_of_user: Callable[[], str] = name_of_user
    new_request_id: Callable[[], RequestId] = new_request_id
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
