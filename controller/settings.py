"""
The settings of the daemon and of the command line: one frozen value, validated once.

The unit is part of a field's name but not of the setting's name: ``tenure_linger_s`` is
``--tenure-linger``, ``REASSIGNER_TENURE_LINGER`` and ``tenure_linger`` in the file.
``setting_sources`` collects the values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from inspect import getsource
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from controller.core.core_settings import (
    REQUEST_BYTES,
    EngineName,
    ForeignMoves,
    LegacyMode,
    Options,
    TenurePolicy,
)
from controller.core.model import MinFree
from controller.core.pacing.controls import QueueOrder, UnderMinIsr
from controller.credentials import Password
from controller.setting_values import (
    SASL_SERVED,
    TOKEN_MIN,
    HttpAddress,
    NotificationKind,
    connect_string,
    display_name,
    host_names,
    long_enough,
    occasions,
    parse_address,
    parse_advertised,
    parse_min_free,
    parse_optional_address,
    parse_rate,
    parse_step_size,
    parse_throttle_setting,
    sasl_mechanisms,
    web_address,
)

ENVIRONMENT_PREFIX: Final = "REASSIGNER_"


LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"]


class EndpointMode(StrEnum):
    """The peers that may find the controller endpoint."""

    OFF = "off"
    PRIVATE = "private"
    """Brokers, by a listener that clients do not use."""
    PUBLIC = "public"
    """Clients as well."""


IN_FILES: Final = (
    "zookeeper_auth_credential",
    "zookeeper_sasl_password",
    "zookeeper_tls_password",
    "ssl_password",
    "sasl_password",
)
"""Secrets that may be in a file, which the setting with ``_file`` names."""

JUTE_MAXBUFFER: Final = 0xFFFFF
"""ZooKeeper's default of ``jute.maxbuffer``."""

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class HttpAccess(NamedTuple):
    """The token for the HTTP server of a daemon, and the authorities of its certificate."""

    token: SecretStr | None = None
    cafile: Path | None = None


class Settings(BaseModel):
    """
    Every setting, with its description below it.

    ``docs/reference/configuration.md`` and the help of ``run`` are generated from this class.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    zookeeper: Annotated[str, AfterValidator(connect_string)]
    """The cluster's ZooKeeper, HOST:PORT[,HOST:PORT][/chroot]."""
    cluster_name: Annotated[str | None, AfterValidator(display_name)] = None
    """Name of the cluster on the status page, in metrics and in notifications. By default the
    chroot of `zookeeper`, or the cluster's id; in notifications all of `zookeeper`."""
    zookeeper_session_timeout_s: Annotated[float, Field(ge=1, le=600, allow_inf_nan=False)] = 10.0
    """ZooKeeper session timeout: how long the controller role outlives a dead daemon. The servers
    may grant another (`minSessionTimeout`, `maxSessionTimeout`)."""
    zookeeper_jute_maxbuffer: Annotated[int, Field(ge=JUTE_MAXBUFFER, le=1 << 30)] = JUTE_MAXBUFFER
    """jute.maxbuffer in bytes, if it is raised on all ZooKeeper servers and all brokers: the limit
    for the znode of a topic or plan and for one write."""
    zookeeper_auth_scheme: str | None = None
    """ZooKeeper authentication scheme, for example digest."""
    zookeeper_auth_credential: SecretStr | None = None
    """Credential of that scheme, for example user:password."""
    zookeeper_auth_credential_file: Path | None = None
    """File with that credential, read again at each connection."""
    zookeeper_sasl_mechanism: Literal["DIGEST-MD5", "GSSAPI"] | None = None
    """SASL mechanism for ZooKeeper; use the principal of the brokers."""
    zookeeper_sasl_username: str | None = None
    """User name for DIGEST-MD5."""
    zookeeper_sasl_password: SecretStr | None = None
    """Password for DIGEST-MD5."""
    zookeeper_sasl_password_file: Path | None = None
    """File with that password, read again at each connection."""
    zookeeper_sasl_service: str = "zookeeper"
    """Service part of ZooKeeper's Kerberos principal."""
    zookeeper_sasl_principal: str | None = None
    """The client's Kerberos principal; by default that of the ticket cache."""
    zookeeper_tls: bool = False
    """Connect to ZooKeeper with TLS."""
    zookeeper_tls_cafile: Path | None = None
    """CA certificates for ZooKeeper's certificate (PEM)."""
    zookeeper_tls_certfile: Path | None = None
    """Client certificate for ZooKeeper (PEM)."""
    zookeeper_tls_keyfile: Path | None = None
    """Private key of that certificate (PEM)."""
    zookeeper_tls_password: SecretStr | None = None
    """Password of that key."""
    zookeeper_tls_password_file: Path | None = None
    """File with that password, read again at each connection."""
    zookeeper_tls_check_hostname: bool = True
    """Verify the host name in ZooKeeper's certificate."""

    engine: EngineName = EngineName.AUTO
    """native (the daemon is the controller), delegated (the cluster's own controller carries out
    the steps) or auto."""
    foreign_moves: ForeignMoves = ForeignMoves.WAIT
    """With the delegated engine, during foreign reassignments: wait for their end, run beside them,
    refuse submissions, or adopt them."""
    require_approval: bool = False
    """Accept only approved plans (`execute --approved`). Other requests, the plan in
    /admin/reassign_partitions and the queue are refused."""
    controller_id: Annotated[int, Field(ge=0, le=2_147_483_647)] = 1_000_000
    """The daemon's id as the controller, the same for all daemons of a cluster; never the id of a
    broker."""
    tenure: TenurePolicy = TenurePolicy.ON_DEMAND
    """When to hold the controller role: on_demand (while work exists) or permanent."""
    tenure_linger_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 30.0
    """With on_demand: seconds to keep the controller role after the last work."""
    legacy_mode: LegacyMode = LegacyMode.ABSORB
    """Content of /admin/reassign_partitions: partitions in flight (absorb) or every unfinished one
    (mirror)."""

    step_size: Annotated[int | Literal["all"], BeforeValidator(parse_step_size)] = 1
    """Replicas to add per step, or "all" for a single step (KAFKA-6794)."""
    max_partitions_in_flight: Count = 100
    """Limit of partitions in flight."""
    max_incoming_per_broker: Count = 10
    """Limit of replicas that one broker copies."""
    max_outgoing_per_broker: Count = 10
    """Limit of partitions from which one broker serves copies."""
    throttle: Annotated[int | Literal["auto"] | None, BeforeValidator(parse_throttle_setting)] = (
        None
    )
    """Replication throttle of requests without one of their own, in bytes per second and broker:
    a rate, or auto, which follows what producers see. `reassigner throttle` overrides it."""
    latency_objective_s: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 0.5
    """With a throttle auto: the 99th percentile of acknowledgements (acks=all) that copies must not
    make producers exceed."""
    throttle_min: Annotated[int, BeforeValidator(parse_rate), Field(ge=1)] = 5_000_000
    """The least rate of a throttle auto, in bytes per second and broker: it begins with this rate
    and returns to it where nothing is measured any more."""
    throttle_max: Annotated[int, BeforeValidator(parse_rate), Field(ge=1)] = 1_000_000_000
    """The highest rate of a throttle auto, in bytes per second and broker. The rates of a daemon
    that is dead stay at most this high."""
    governor_probe: bool = True
    """While a throttle is auto, measure acknowledgements with small records to the topic
    __reassigner_probe, which the daemon creates. Without it, the throttle follows the other
    signals."""
    governor_query: Annotated[str | None, Field(max_length=10_000)] = None
    """PromQL expression of a latency that a throttle auto keeps below `governor_query_objective`,
    beside the acknowledgements of the probe. Its result is a scalar or an instant vector; the label
    broker names the broker that an element concerns, and elements without it concern all."""
    governor_query_url: Annotated[SecretStr | None, AfterValidator(web_address)] = None
    """Prometheus, or a server with its HTTP API, that `governor_query` is sent to: http or https,
    with a path prefix, a user and a password where they are needed."""
    governor_query_objective: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """Objective for the result of `governor_query`, in the unit of the query."""
    under_min_isr: UnderMinIsr = UnderMinIsr.WAIT
    """While other partitions are below min.insync.replicas: wait (begin no step whose copies could
    harm them), warn (only report them) or ignore."""
    size_refresh_s: Seconds = 60.0
    """Interval at which brokers are queried for sizes of partitions."""
    copy_refresh_s: Seconds = 10.0
    """Interval at which brokers are queried for the progress of copies."""
    max_bytes_in_flight: Annotated[int, Field(ge=1)] | None = None
    """Limit of bytes being copied, as far as sizes are known; by default none."""
    min_free: Annotated[MinFree | None, BeforeValidator(parse_min_free)] = MinFree(share=0.02)
    """Space that copies leave free in each log directory: bytes, or a percentage of its volume. A
    copy that would take more waits. Below half of it, copies that are not in sync are taken back.
    With none, disks are not guarded."""
    disk_capacities: Path | None = None
    """File with the capacities of log directories, for brokers before Kafka 3.3, which do not
    report their free space: TOML or JSON, a table for each broker id (or default) with the bytes of
    each directory. It is read again when it changes."""
    max_leader_moves_per_broker_per_second: Count = 50
    """Limit of leaderships that one broker gains or loses by steps per second."""
    order: QueueOrder = QueueOrder.SUBMITTED
    """Order of the pending partitions of a request: submitted, small_first, large_first or
    most_useful_first (those that free the fullest broker)."""
    outcomes_kept: Count = 200
    """Number of outcomes of ended requests to keep."""
    stop_replica_timeout_s: Seconds = 60.0
    """Time for a broker to acknowledge that a dropped replica fetches no more, and as long for its
    deletion; after it, the replica is recorded as an orphan."""
    config_refresh_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60.0
    """Maximum age of topic settings in a decision. Settings in use are read again at half this age;
    older ones count as unknown, and partitions that need them wait. Settings that contain throttles
    are read again at this interval."""
    preferred_election: bool = True
    """Elect the preferred leader after a reassignment, except where a plan of Kafka's tool, its API
    or its znode changes only the order of replicas. `reassigner leaders` elects in any case."""
    preferred_elections_per_second: Count = 20
    """Limit of preferred leader elections per second."""
    auto_leader_rebalance: bool = False
    """Elect preferred leaders during a tenure, as Kafka's controller does with
    `auto.leader.rebalance.enable` (native engine)."""
    leader_imbalance_per_broker_percentage: Annotated[int, Field(ge=0, le=100)] = 10
    """Elect the preferred leaders of a broker if it does not lead more than this percentage of the
    partitions of which it is the preferred leader."""
    leader_imbalance_check_interval_s: Seconds = 300.0
    """Interval of that check; the first is one interval after the claim."""
    stalled_after_s: Seconds = 300.0
    """Report a partition as stalled after this long without progress."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    """Security protocol of the brokers' listener."""
    ssl_cafile: Path | None = None
    """CA certificates for the brokers' certificates (PEM)."""
    ssl_certfile: Path | None = None
    """Client certificate for brokers (PEM)."""
    ssl_keyfile: Path | None = None
    """Private key of that certificate (PEM)."""
    ssl_password: SecretStr | None = None
    """Password of that key."""
    ssl_password_file: Path | None = None
    """File with that password, read again at each connection."""
    ssl_check_hostname: bool = True
    """Verify the host name in a broker's certificate."""
    sasl_mechanism: SaslMechanism | None = None
    """SASL mechanism for brokers."""
    sasl_service: str = "kafka"
    """Service part of the brokers' Kerberos principal (GSSAPI)."""
    sasl_username: str | None = None
    """User name for PLAIN and SCRAM."""
    sasl_password: SecretStr | None = None
    """Password for PLAIN and SCRAM."""
    sasl_password_file: Path | None = None
    """File with that password, read again at each connection."""
    control_plane_listener: str | None = None
    """The brokers' control.plane.listener.name, if it is set."""
    inter_broker_listener: str | None = None
    """The brokers' inter.broker.listener.name; by default the first listener with the security
    protocol."""

    controller_endpoint: EndpointMode = EndpointMode.OFF
    """Serve what brokers ask of their controller while the native engine has the role: off, private
    (the daemon is listed only under the listener that brokers use among themselves, and clients use
    another one) or public (clients see the daemon and ask it: it answers as the controller, and
    relays everything else to a broker). Needed by the native engine from inter-broker protocol 2.7
    on."""
    endpoint_listen: Annotated[HttpAddress | None, BeforeValidator(parse_optional_address)] = None
    """Address of the controller endpoint, HOST:PORT; port 0 takes a free one. It is needed unless
    `controller_endpoint` is off."""
    endpoint_advertise: Annotated[HttpAddress | None, BeforeValidator(parse_advertised)] = None
    """Address at which brokers reach the controller endpoint; without a port, that of
    `endpoint_listen`. By default `endpoint_listen`, or the machine's host name for 0.0.0.0."""
    endpoint_listener: str | None = None
    """Name of the brokers' listener under which the endpoint is listed, by default
    control_plane_listener, inter_broker_listener or the name of the security protocol. Its security
    protocol is `security_protocol`. With `controller_endpoint = public` also two names with a comma
    between them, that of brokers and that of clients; both need the same protocol, mechanisms and
    users."""

    endpoint_certfile: Path | None = None
    """Certificate of the endpoint (PEM), for `endpoint_advertise` and signed by an authority that
    the brokers trust. It is read again when it changes."""
    endpoint_keyfile: Path | None = None
    """Private key of that certificate (PEM)."""
    endpoint_password: SecretStr | None = None
    """Password of that key."""
    endpoint_cafile: Path | None = None
    """CA certificates that verify the certificates of peers (PEM). All peers then have to present
    one, with `controller_endpoint = public` clients as well."""
    endpoint_sasl_mechanisms: Annotated[str, AfterValidator(sasl_mechanisms)] = Field(
        ",".join(SASL_SERVED),
        description="SASL mechanisms by which brokers may authenticate with `controller_endpoint = "
        "private`: " + ", ".join(SASL_SERVED) + ".",
    )
    endpoint_users: Path | None = None
    """File with the users of the brokers and their passwords, a line USER:PASSWORD for each, which
    others must not be able to read; names are ASCII. It is read again when it changes. Only with
    `controller_endpoint = private`."""
    endpoint_principals: str | None = None
    """Principals that may act as brokers with `controller_endpoint = private`, separated by
    semicolons, as in Kafka's `super.users`: User:kafka, or User:CN=kafka,O=Example for the whole
    subject of a certificate; ssl.principal.mapping.rules are not applied. By default all users of
    `endpoint_users`."""

    http: Annotated[HttpAddress, BeforeValidator(parse_address)] = HttpAddress("127.0.0.1", 8095)
    """Address of the HTTP server (/metrics, /healthz, /readyz, /status); port 0 takes a free
    one."""
    http_advertise: Annotated[HttpAddress | None, BeforeValidator(parse_advertised)] = None
    """Address of that server for commands, published in ZooKeeper; without a port, that of `http`.
    By default the address of `http`, or the machine's host name for 0.0.0.0."""
    http_hosts: Annotated[str | None, AfterValidator(host_names)] = None
    """Host names that clients may use for that server, comma-separated; * for any. IP addresses,
    names without a dot, local names (.svc, .local, .internal), the machine's own and that of
    `http_advertise` are always allowed. Others are refused, as a web site could point its own name
    to the server and read the page."""
    http_tls_certfile: Path | None = None
    """Certificate of that server, with its chain (PEM); it is read again when it changes. Without
    it the server speaks plain HTTP."""
    http_tls_keyfile: Path | None = None
    """Private key of that certificate (PEM, not encrypted)."""
    http_tls_cafile: Path | None = None
    """CA certificates with which commands verify the server's certificate (PEM); by default those
    of the system."""
    http_tokens: Path | None = None
    """File with the tokens that the server accepts: TOML, a table for each name with role (read or
    operate) and sha256 or token. It is read again when it changes. With tokens, all paths but
    /metrics and the probes need one; without, the page is read-only."""
    http_token: Annotated[SecretStr | None, AfterValidator(long_enough)] = Field(
        None,
        description="Token that commands send to the leading daemon; the daemon accepts its own "
        f"with the role operate. At least {TOKEN_MIN} characters.",
    )
    insecure_http: bool = False
    """Allow `http` to be an address other than loopback without TLS and tokens."""
    reports_dir: Path | None = None
    """Directory whose subdirectories are reports of `pipeline report`, which the status page links
    and serves."""
    notify_webhook: Annotated[SecretStr | None, AfterValidator(web_address)] = None
    """URL to which notifications are posted as JSON (http or https)."""
    notify_slack: Annotated[SecretStr | None, AfterValidator(web_address)] = None
    """URL of an incoming webhook of Slack or a compatible service."""
    notify_exec: Path | None = None
    """Program to run for each notification, with JSON on standard input."""
    notify_on: Annotated[str, AfterValidator(occasions)] = Field(
        ",".join(NotificationKind),
        description="Occasions of notifications: " + ", ".join(NotificationKind) + ".",
    )
    journal_dir: Path = Path("./journal")
    """Directory of the journal."""
    log_format: LogFormat = "auto"
    """Format of log lines: json, console, or auto, which is console on a terminal and json
    elsewhere."""
    log_level: LogLevel = "info"
    """Least level to log: debug, info, warning or error."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_stray_bool(cls, value: object, info: ValidationInfo) -> object:
        """Refuse values that pydantic would accept: a boolean for a number, an empty text."""
        wanted = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and wanted is not bool:
            raise PydanticCustomError("stray_bool", "must not be true or false")
        if value == "":
            raise PydanticCustomError("empty", "must not be empty")
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        problems = chain(
            self._of_endpoint(), self._of_its_peers(), self._of_governor(), self._of_access()
        )
        for field, why in problems:
            context = {"message": why, "field": field}
            raise PydanticCustomError("belongs_together", "{message}", context)
        return self

    def _of_endpoint(self) -> Iterator[tuple[str, str]]:
        """Yield settings of the endpoint that do not go together, each with what is wrong."""
        mode, protocol = self.controller_endpoint, self.security_protocol
        is_public, needy = mode is EndpointMode.PUBLIC, "controller_endpoint"
        listeners = (self.endpoint_listener or "one").split(",")
        if not all(name.strip() for name in listeners) or len(listeners) > 1 + is_public:
            most = "at most two listeners" if is_public else "one listener"
            yield "endpoint_listener", f"names {most}"
        if mode is EndpointMode.OFF:
            return
        has_key = self.endpoint_certfile is not None and self.endpoint_keyfile is not None
        if self.endpoint_listen is None:
            yield needy, "needs endpoint_listen"
        if protocol.endswith("SSL") and not has_key:
            yield needy, f"needs endpoint_certfile and endpoint_keyfile with {protocol}"
        if is_public and protocol == "SSL":
            why = "public is not available with SSL: certificates of clients cannot be relayed"
            yield needy, why
        if not is_public and protocol.startswith("SASL") and self.endpoint_users is None:
            yield needy, f"private needs endpoint_users with {protocol}"

    def _of_its_peers(self) -> Iterator[tuple[str, str]]:
        """Yield the same for those who may ask the endpoint."""
        has_certificates = self.security_protocol == "SSL" and self.endpoint_cafile is not None
        is_authenticated = has_certificates or self.security_protocol.startswith("SASL")
        if self.controller_endpoint is EndpointMode.PUBLIC:
            for name in ("endpoint_users", "endpoint_principals"):
                if getattr(self, name) is not None:
                    yield name, "has no effect with public: brokers authenticate all peers"
        elif self.controller_endpoint is EndpointMode.PRIVATE:
            if has_certificates and self.endpoint_principals is None:
                why = "needs endpoint_principals: any certificate of these authorities is accepted"
                yield "endpoint_cafile", why
            if self.endpoint_principals is not None and not is_authenticated:
                why = "needs SASL, or SSL with endpoint_cafile: no peer would authenticate"
                yield "endpoint_principals", why

    def _of_governor(self) -> Iterator[tuple[str, str]]:
        """Yield the same for the query of the governor."""
        names = ("governor_query", "governor_query_url", "governor_query_objective")
        missing = [name for name in names if getattr(self, name) is None]
        if 0 < len(missing) < len(names):
            given = next(name for name in names if name not in missing)
            yield given, f"needs {' and '.join(missing)}"

    def _of_access(self) -> Iterator[tuple[str, str]]:
        """Yield the same for ZooKeeper, brokers and the HTTP server."""
        for name in IN_FILES:
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                yield f"{name}_file", f"cannot be given together with {name}"
        credential = self.password("zookeeper_auth_credential")
        if (self.zookeeper_auth_scheme is None) != (credential is None):
            yield "zookeeper_auth_scheme", "needs zookeeper_auth_credential and vice versa"
        if self.zookeeper_sasl_mechanism == "DIGEST-MD5" and not (
            self.zookeeper_sasl_username and self.password("zookeeper_sasl_password")
        ):
            yield "zookeeper_sasl_mechanism", "DIGEST-MD5 needs a user name and a password"
        if self.security_protocol.startswith("SASL") and self.sasl_mechanism is None:
            yield "security_protocol", f"{self.security_protocol} needs sasl_mechanism"
        if self.sasl_mechanism not in (None, "GSSAPI") and not (
            self.sasl_username and self.password("sasl_password")
        ):
            yield "sasl_mechanism", f"{self.sasl_mechanism} needs a user name and a password"
        if (self.http_tls_certfile is None) != (self.http_tls_keyfile is None):
            yield "http_tls_certfile", "needs http_tls_keyfile and vice versa"
        if self.throttle_min > self.throttle_max:
            yield "throttle_min", "is above throttle_max"

    def password(self, name: str) -> Password | None:
        """Return a password that a setting holds, or a file; None where there is none."""
        value, file = getattr(self, name), getattr(self, f"{name}_file")
        return None if value is None and file is None else Password(name, value, file)

    @property
    def http_access(self) -> HttpAccess:
        """What a command needs to ask the leading daemon."""
        return HttpAccess(self.http_token, self.http_tls_cafile)

    @property
    def request_bytes(self) -> int:
        """The largest request to ZooKeeper: below ``jute.maxbuffer``, as sizes are estimates."""
        return self.zookeeper_jute_maxbuffer - (JUTE_MAXBUFFER - REQUEST_BYTES)

    def options(self) -> Options:
        """Return the options of the core: those settings that have the name of one."""
        same = {f.name: getattr(self, f.name) for f in fields(Options) if hasattr(self, f.name)}
        return Options(**{**same, "step_size": None if self.step_size == "all" else self.step_size})


@cache
def descriptions() -> Mapping[str, str]:
    """
    Return the description of each field: the docstring below it, without line breaks.

    They are read when they are shown: reading them takes longer than making the class.
    """
    found = {name: about.description or "" for name, about in Settings.model_fields.items()}
    (defined,) = ast.parse(getsource(Settings)).body
    for statement, below in pairwise(defined.body if isinstance(defined, ast.ClassDef) else ()):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def name_of(field: str) -> str:
    """Return the name of a setting: the field without its unit."""
    return field.removesuffix("_s")


def flag_of(field: str) -> str:
    """Return the command-line option of a field."""
    return "--" + name_of(field).replace("_", "-")


def variable_of(field: str) -> str:
    """Return the environment variable of a field."""
    return ENVIRONMENT_PREFIX + name_of(field).upper()


def is_secret(info: FieldInfo) -> bool:
    """Return whether a field must not be shown or be given on a command line."""
    return "SecretStr" in str(info.annotation)
