"""
The environment of a command: settings, ZooKeeper, the daemon, brokers, clocks and the user.

``app.main`` builds one ``CommandContext``. Commands reach the outside only through it, so tests run
them without a cluster.
"""

from __future__ import annotations

import getpass
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from controller.cli.output import (
    NOTHING_WRITTEN,
    print_json,
    print_line,
    print_lines,
    print_note,
)
from controller.core.model import TopicPartition
from controller.errors import (
    ControllerError,
    RefusedError,
    SessionSuspendedError,
    TokenNeededError,
    TransientError,
)
from controller.previews.cluster_queries import (
    ClusterQueries,
    judge_settings,
    query_brokers,
    query_min_insync,
    query_protocols,
)
from controller.units import MS_PER_S

if TYPE_CHECKING:
    from controller.cli.terminal import Screen
    from controller.cli.terminal_tables import Part
    from controller.previews.cluster_queries import (
        JudgeSettings,
        QueryBrokers,
        QueryMinInsync,
        QueryProtocols,
    )
    from controller.settings import HttpAccess, Settings
    from controller.zk.operator_client import OperatorClient


NO_DAEMON: Final = "no reassigner leads: start one with `reassigner run`"
HTTP_TIMEOUT_S: Final = 5.0
STATUS_BYTES_MAX: Final = 64 * 1024 * 1024


def _fetch(address: str, access: HttpAccess, path: str, *, key: str) -> Mapping[str, Any]:
    """
    Return a JSON object of a daemon; one without ``key`` is not from a daemon.

    Raises:
        TransientError: the daemon does not answer, or the server is not a daemon.
        RefusedError: it refuses the request, for example without a token.

    """
    url = f"{address if '://' in address else f'http://{address}'}{path}"
    request = urllib.request.Request(url)  # noqa: S310 - http or https, as the daemon published it
    if access.token is not None:
        # Not sent again to where a redirect leads.
        token = access.token.get_secret_value()
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        # Reading the certificates takes processor time.
        is_tls = url.startswith("https:")
        tls = ssl.create_default_context(cafile=access.cafile) if is_tls else None
        with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S, context=tls) as response:  # noqa: S310 - as above
            document = json.loads(response.read(STATUS_BYTES_MAX))
    except urllib.error.HTTPError as error:
        said = error.read(200).decode(errors="replace").strip()
        if error.code == HTTPStatus.UNAUTHORIZED:
            sent = "without a token" if access.token is None else "with another token"
            raise TokenNeededError(
                f"{url} answers {error.code} {sent} (REASSIGNER_HTTP_TOKEN, or the setting "
                f"http_token): {said}"
            ) from error
        is_outage = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = SessionSuspendedError if is_outage else RefusedError
        raise kind(f"{url} answers {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SessionSuspendedError(f"{url} does not answer: {reason}") from error
    if not isinstance(document, dict):
        raise SessionSuspendedError(f"{url} is not a reassigner")
    if key not in document:
        raise SessionSuspendedError(f"{address} is not a reassigner")
    return document


def connect(settings: Settings) -> AbstractContextManager[OperatorClient]:
    """Return a connection to the ZooKeeper of the settings."""
    from controller.zk.operator_client import OperatorClient  # noqa: PLC0415 - `--help` needs no client

    return OperatorClient(settings)


def cluster_id_of(settings: Settings, bootstrap_servers: str) -> str:
    """Ask brokers for the id of their cluster."""
    from controller.brokers.cluster_ids import cluster_id_of as query  # noqa: PLC0415 - as above
    from controller.brokers.connection_settings import connection_settings_of  # noqa: PLC0415 - as above

    return query(bootstrap_servers, connection_settings_of(settings).security)


def run_daemon(settings: Settings) -> int:
    """Run the daemon until a signal stops it; return its exit code."""
    from controller.daemon import run  # noqa: PLC0415 - only `run` needs the Kafka client

    return run(settings)


def wall_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def name_of_user() -> str:
    """Return ``user@host``; an unknown user is ``unknown``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True, kw_only=True)
class CommandContext:
    """
    The access of one command to the outside, and the values of the options that many commands have.

    Tests replace the functions. ``options.command`` sets the values.
    """

    environ: Mapping[str, str]
    connect: Callable[[Settings], AbstractContextManager[OperatorClient]] = connect
    query_brokers: QueryBrokers = query_brokers
    judge_settings: JudgeSettings = judge_settings
    query_min_insync: QueryMinInsync = query_min_insync
    query_protocols: QueryProtocols = query_protocols
    cluster_id_of: Callable[[Settings, str], str] = cluster_id_of
    fetch: Callable[[str, HttpAccess], Mapping[str, Any]] = lambda address, access: _fetch(
        address, access, "/status", key="in_flight"
    )
    fetch_explanation: Callable[[str, HttpAccess, TopicPartition], Mapping[str, Any]] = (
        lambda address, access, partition: _fetch(
            address, access, f"/explain?partition={partition}", key="reassignment"
        )
    )
    run_daemon: Callable[[Settings], int] = run_daemon
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall_ms: Callable[[], int] = wall_ms
    name_of_user: Callable[[], str] = name_of_user
    is_terminal: Callable[[], bool] = field(default=lambda: False)
    zookeeper: str | None = None
    config: Path | None = None
    dry_run: bool = False
    timeout: float = 60.0
    """Seconds."""
    all_rows: bool = False
    verbose: bool = False
    as_json: bool = False

    def screen(self) -> Screen | None:
        """Return the terminal for tables; None if output goes elsewhere, or it cannot draw them."""
        if not self.is_terminal() or self.environ.get("TERM") == "dumb":
            return None
        from controller.cli.terminal import screen_of  # noqa: PLC0415 - lines of text are not drawn

        return screen_of(self.environ, all_rows=self.all_rows)

    def settings(self, **given: object) -> Settings:
        """Load the settings, with values of options; see ``setting_sources.load_settings``."""
        from controller.setting_sources import load_settings  # noqa: PLC0415 - as for ZooKeeper

        return load_settings({"zookeeper": self.zookeeper, **given}, self.environ, self.config)

    def connected(self) -> AbstractContextManager[OperatorClient]:
        """Connect to ZooKeeper."""
        return self.connect(self.settings())

    @contextmanager
    def inspected(self) -> Iterator[tuple[OperatorClient, ClusterQueries]]:
        """Connect to ZooKeeper to preview a plan, which also takes answers of brokers."""
        settings = self.settings()
        with self.connect(settings) as operator:
            yield operator, self.queries(settings)

    def queries(self, settings: Settings) -> ClusterQueries:
        """Return what a preview asks brokers and the daemon."""
        return ClusterQueries(
            settings=settings,
            status=self.status_of_leader,
            query_brokers=self.query_brokers,
            query_min_insync=self.query_min_insync,
            now=self.now,
            sleep=self.sleep,
            unix_s=lambda: self.wall_ms() / MS_PER_S,
        )

    def print_result(
        self,
        document: Callable[[], object],
        lines: Iterable[str],
        tables: Iterable[Part] | None = None,
    ) -> None:
        """
        Print a result as JSON, as tables on a terminal (if there are any), or as lines.

        Only what is printed is made, or taken from its iterator.
        """
        if self.as_json:
            print_json(document())
        elif tables is not None and (screen := self.screen()) is not None:
            screen.print(*tables)
        else:
            print_lines(lines)

    def print_change(
        self,
        document: Mapping[str, object],
        lines: Iterable[str],
        tables: Iterable[Part] | None = None,
    ) -> None:
        """Print what a command changed, or would change in a dry run."""
        self.print_result(lambda: {"dry_run": self.dry_run, **document}, lines, tables)
        if self.dry_run and not self.as_json:
            print_line(NOTHING_WRITTEN)

    def status_of_leader(self, operator: OperatorClient) -> Mapping[str, Any] | None:
        """Return the status of the leading daemon, None if it does not answer."""
        return query_leader(operator, self.fetch)[0]

    def await_shown(self, operator: OperatorClient) -> None:
        """Wait until the leading daemon shows what was changed, as the next command should."""
        if self.dry_run:
            return
        from controller.actions.work_control import await_shown  # noqa: PLC0415 - as above

        if not await_shown(
            operator, lambda: self.status_of_leader(operator), now=self.now, sleep=self.sleep
        ):
            print_note("Written; the daemon has not taken it in yet, see `reassigner status`.")

    def requested_by(self, name: str | None) -> str:
        """Return the value of ``--requested-by``, or the user."""
        return self.name_of_user() if name is None else name


def require_leader(operator: OperatorClient) -> str:
    """Return the address of the leading daemon; raise ``SessionSuspendedError`` without one."""
    address = operator.cluster.leader_address()
    if address is None:
        raise SessionSuspendedError(NO_DAEMON)
    return address


def query_leader(
    operator: OperatorClient, fetch: Callable[[str, HttpAccess], Mapping[str, Any]]
) -> tuple[Mapping[str, Any] | None, ControllerError | None]:
    """Ask the leading daemon; return its answer, or the error if there is a leader without one."""
    address = operator.cluster.leader_address()
    if address is None:
        return None, None
    try:
        return fetch(address, operator.http_access), None
    except (TransientError, RefusedError) as error:
        return None, error


def context_of(ctx: typer.Context) -> CommandContext:
    """Return the context that ``app.build_app`` gave to every command."""
    found = ctx.find_object(CommandContext)
    if found is None:
        raise TypeError("the command was not built by build_app")
    return found
