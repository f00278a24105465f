"""
The settings of the daemon and of the command line: one frozen value, validated once.

The unit is part of a field's name; the name people write leaves it out (``tenure_linger_s`` is
``--tenure-linger``, ``REASSIGNER_TENURE_LINGER`` and ``tenure_linger`` in the file). Where values
come from is ``setting_sources``; nothing is read or connected here.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from controller.core.controls import QueueOrder
from controller.core.options import (
    REQUEST_BYTES,
    EngineName,
    ForeignMoves,
    LegacyMode,
    Options,
    TenurePolicy,
    UnderMinIsr,
)
from controller.setting_values import (
    OCCASIONS,
    TOKEN_MIN,
    HttpAddress,
    connect_string,
    host_names,
    long_enough,
    occasions,
    parse_address,
    parse_advertised,
    parse_step_size,
    web_address,
)

ENVIRONMENT_PREFIX: Final = "REASSIGNER_"


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class SecurityProtocol(StrEnum):
    """Kafka's names for how a listener is secured."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """SASL mechanisms of Kafka listeners."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    GSSAPI = "GSSAPI"


JUTE_MAXBUFFER: Final = 0xFFFFF
"""ZooKeeper's own default of ``jute.maxbuffer``."""

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Settings(BaseSettings):
    """Every setting; ``docs/reference/configuration.md`` is generated from this class."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=True)

    zookeeper: Annotated[str, AfterValidator(connect_string)] = Field(
        description="The cluster's ZooKeeper, HOST:PORT[,HOST:PORT][/chroot]."
    )
    zookeeper_session_timeout_s: Annotated[float, Field(ge=1, le=600, allow_inf_nan=False)] = Field(
        10.0,
        description="ZooKeeper session timeout: how long the role outlives a dead daemon. The "
        "servers may grant another (`minSessionTimeout`, `maxSessionTimeout`), which counts.",
    )
    zookeeper_jute_maxbuffer: Annotated[int, Field(ge=JUTE_MAXBUFFER, le=1 << 30)] = Field(
        JUTE_MAXBUFFER,
        description="jute.maxbuffer in bytes, where it is raised on all ZooKeeper servers and all "
        "brokers: it bounds a topic's znode, a plan's, and what the daemon writes at once.",
    )
    zookeeper_auth_scheme: str | None = Field(
        None, description="ZooKeeper authentication scheme, for example digest."
    )
    zookeeper_auth_credential: SecretStr | None = Field(
        None, description="Credential of that scheme, for example user:password."
    )
    zookeeper_sasl_mechanism: Literal["DIGEST-MD5", "GSSAPI"] | None = Field(
        None, description="SASL towards ZooKeeper; use the principal the brokers use."
    )
    zookeeper_sasl_username: str | None = Field(None, description="User name for DIGEST-MD5.")
    zookeeper_sasl_password: SecretStr | None = Field(None, description="Password for DIGEST-MD5.")
    zookeeper_sasl_service: str = Field(
        "zookeeper", description="Service part of ZooKeeper's Kerberos principal."
    )
    zookeeper_sasl_principal: str | None = Field(
        None, description="Our Kerberos principal; the ticket cache's own when left out."
    )
    zookeeper_tls: bool = Field(default=False, description="Connect to ZooKeeper by TLS.")
    zookeeper_tls_cafile: Path | None = Field(
        None, description="Certificates that may sign ZooKeeper's (PEM)."
    )
    zookeeper_tls_certfile: Path | None = Field(
        None, description="Our certificate towards ZooKeeper (PEM)."
    )
    zookeeper_tls_keyfile: Path | None = Field(
        None, description="The private key of that certificate (PEM)."
    )
    zookeeper_tls_password: SecretStr | None = Field(None, description="Password of that key.")
    zookeeper_tls_check_hostname: bool = Field(
        default=True, description="Whether ZooKeeper's certificate must name its host."
    )

    engine: EngineName = Field(
        EngineName.AUTO,
        description="native (the daemon is the controller), delegated (the cluster's controller "
        "moves, asked by us) or auto.",
    )
    foreign_moves: ForeignMoves = Field(
        ForeignMoves.WAIT,
        description="Under the delegated engine, while others move partitions: wait for them, run "
        "beside them, refuse what is submitted, or adopt theirs.",
    )
    controller_id: Annotated[int, Field(ge=0, le=2_147_483_647)] = Field(
        1_000_000, description="Our id as a controller; never the id of a broker."
    )
    tenure: TenurePolicy = Field(
        TenurePolicy.ON_DEMAND,
        description="on_demand holds the controller role while there is work, permanent always.",
    )
    tenure_linger_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        30.0, description="How long the role is kept after the last work, under on_demand."
    )
    legacy_mode: LegacyMode = Field(
        LegacyMode.ABSORB,
        description="absorb lists only partitions in flight in /admin/reassign_partitions, mirror "
        "every unfinished one.",
    )

    annotate_legacy: bool = Field(
        default=False,
        description="Write original_replicas into /admin/reassign_partitions (KIP-236). Dangerous: "
        "should the daemon die, Kafka 2.3 deletes such a node unprocessed, and Kafka 3.9 leaves it "
        "and notices no later one until the controller moves.",
    )

    step_size: Annotated[int | Literal["all"], BeforeValidator(parse_step_size)] = Field(
        1, description='Replicas added per step, or "all" for a single jump (KAFKA-6794).'
    )
    max_partitions_in_flight: Count = Field(100, description="Partitions with a step under way.")
    max_incoming_per_broker: Count = Field(10, description="Replicas one broker copies at once.")
    max_outgoing_per_broker: Count = Field(
        10, description="Partitions one broker serves copies of at once."
    )
    adaptive: bool = Field(
        default=False,
        description="Begin with a quarter of max_partitions_in_flight and approach it, or halve, "
        "as the cluster bears it.",
    )
    slow_answer_s: Seconds = Field(
        5.0,
        description="adaptive: a broker that takes longer to answer the controller is strained.",
    )
    under_min_isr: UnderMinIsr = Field(
        UnderMinIsr.WAIT,
        description="While partitions outside the work are below min.insync.replicas: wait begins "
        "no step that copies, warn only tells of them, ignore does not look.",
    )
    size_refresh_s: Seconds = Field(
        60.0, description="How often brokers are asked for the sizes of the partitions in work."
    )
    copy_refresh_s: Seconds = Field(
        10.0, description="How often brokers are asked how much of the running copies they hold."
    )
    max_bytes_in_flight: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Bytes being copied at once, as far as sizes are known; no limit without."
    )
    max_leader_moves_per_broker_per_second: Count = Field(
        50, description="Leaderships one broker loses or gains by steps within a second."
    )
    order: QueueOrder = Field(
        QueueOrder.SUBMITTED,
        description="Which waiting partition of a request goes first: submitted, small_first, "
        "large_first or most_useful_first (the one that frees the fullest broker).",
    )
    outcomes_kept: Count = Field(200, description="Ended requests whose outcome is kept.")
    stop_replica_timeout_s: Seconds = Field(
        60.0,
        description="How long a dropped replica's acknowledgement is awaited before it becomes an "
        "orphan.",
    )
    config_refresh_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = Field(
        60.0,
        description="How old topic settings may be that a decision rests on. Those in use are read "
        "again at half this age; older ones count as unknown, and what needs them waits. Settings "
        "that throttles stand in are read again this often.",
    )
    preferred_election: bool = Field(
        default=True, description="Elect the preferred leader when a reassignment has ended."
    )
    preferred_elections_per_second: Count = Field(
        20, description="Most preferred elections in one second."
    )
    auto_leader_rebalance: bool = Field(
        default=False,
        description="Elect preferred leaders during long tenures as Kafka's controller does with "
        "`auto.leader.rebalance.enable` (native engine).",
    )
    leader_imbalance_per_broker_percentage: Annotated[int, Field(ge=0, le=100)] = Field(
        10,
        description="A broker's preferred leaders are elected when it does not lead more than this "
        "percentage of the partitions that prefer it.",
    )
    leader_imbalance_check_interval_s: Seconds = Field(
        300.0, description="How often that is checked, the first time this long after the claim."
    )
    stalled_after_s: Seconds = Field(
        300.0, description="A partition that does not come on for so long counts as stalled."
    )

    security_protocol: SecurityProtocol = Field(
        SecurityProtocol.PLAINTEXT, description="How the brokers' listener is secured."
    )
    ssl_cafile: Path | None = Field(
        None, description="Certificates that may sign a broker's (PEM)."
    )
    ssl_certfile: Path | None = Field(None, description="Our certificate towards brokers (PEM).")
    ssl_keyfile: Path | None = Field(None, description="The private key of that certificate (PEM).")
    ssl_password: SecretStr | None = Field(None, description="Password of that key.")
    ssl_check_hostname: bool = Field(
        default=True, description="Whether a broker's certificate must name its host."
    )
    sasl_mechanism: SaslMechanism | None = Field(None, description="SASL towards brokers.")
    sasl_username: str | None = Field(None, description="User name for PLAIN and SCRAM.")
    sasl_password: SecretStr | None = Field(None, description="Password for PLAIN and SCRAM.")
    control_plane_listener: str | None = Field(
        None, description="control.plane.listener.name of the brokers, if they have one."
    )
    inter_broker_listener: str | None = Field(
        None, description="inter.broker.listener.name, if it is not the first that fits."
    )

    http: Annotated[HttpAddress, BeforeValidator(parse_address)] = Field(
        HttpAddress("127.0.0.1", 8095),
        description="Where /metrics, /healthz, /readyz and /status are served; port 0 takes a free "
        "one.",
    )
    http_advertise: Annotated[HttpAddress | None, BeforeValidator(parse_advertised)] = Field(
        None,
        description="Where commands reach that server, published in ZooKeeper; without a port, the "
        "one listened on. Without it what `http` says, the machine's host name for 0.0.0.0.",
    )
    http_hosts: Annotated[str | None, AfterValidator(host_names)] = Field(
        None,
        description="More names under which clients address that server, comma-separated; * for "
        "any. Addresses, names without a dot, local ones (.svc, .local, .internal), the machine's "
        "own and that of `http_advertise` need no entry. Other names are refused: a web site could "
        "point one of its own here and read the page.",
    )
    http_token: Annotated[SecretStr | None, AfterValidator(long_enough)] = Field(
        None,
        description="With it the status page can pause, resume and cancel, for whoever types it "
        f"there; at least {TOKEN_MIN} characters. Without it the page only shows.",
    )
    reports_dir: Path | None = Field(
        None,
        description="Directory with a directory for each report of `pipeline report`, which the "
        "status page links and serves.",
    )
    notify_webhook: Annotated[SecretStr | None, AfterValidator(web_address)] = Field(
        None, description="Where notifications are posted as JSON (http or https)."
    )
    notify_slack: Annotated[SecretStr | None, AfterValidator(web_address)] = Field(
        None, description="An incoming webhook of Slack, or of what takes the same."
    )
    notify_exec: Path | None = Field(
        None, description="A program that is run for each notification, JSON on standard input."
    )
    notify_on: Annotated[str, AfterValidator(occasions)] = Field(
        ",".join(OCCASIONS), description="What is notified, of " + ", ".join(OCCASIONS) + "."
    )
    journal_dir: Path = Field(Path("./journal"), description="Directory of the journal.")
    log_format: LogFormat = Field(LogFormat.JSON, description="json or console.")
    log_level: LogLevel = Field(LogLevel.INFO, description="debug, info, warning or error.")

    def __init__(self, *sources: PydanticBaseSettingsSource) -> None:
        """Read the sources, the first of which wins."""
        super().__init__(_build_sources=(sources, {}))

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_stray_bool(cls, value: object, info: ValidationInfo) -> object:
        """Refuse what pydantic would quietly take: a truth value for a number, an empty text."""
        wanted = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and wanted is not bool:
            raise PydanticCustomError("stray_bool", "must not be true or false")
        if value == "":
            raise PydanticCustomError("empty", "must not be empty")
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if (self.zookeeper_auth_scheme is None) != (self.zookeeper_auth_credential is None):
            raise _about("zookeeper_auth_scheme", "needs zookeeper_auth_credential and vice versa")
        if self.zookeeper_sasl_mechanism == "DIGEST-MD5" and not (
            self.zookeeper_sasl_username and self.zookeeper_sasl_password
        ):
            raise _about("zookeeper_sasl_mechanism", "DIGEST-MD5 needs a user name and a password")
        is_sasl = self.security_protocol.value.startswith("SASL")
        if is_sasl and self.sasl_mechanism is None:
            raise _about("security_protocol", f"{self.security_protocol} needs sasl_mechanism")
        if self.sasl_mechanism not in (None, SaslMechanism.GSSAPI) and not (
            self.sasl_username and self.sasl_password
        ):
            raise _about(
                "sasl_mechanism", f"{self.sasl_mechanism} needs a user name and a password"
            )
        return self

    @property
    def request_bytes(self) -> int:
        """The largest request to ZooKeeper: below ``jute.maxbuffer``, as sizes are estimates."""
        return self.zookeeper_jute_maxbuffer - (JUTE_MAXBUFFER - REQUEST_BYTES)

    def options(self) -> Options:
        """Return what the core decides by."""
        return Options(
            engine=self.engine,
            foreign_moves=self.foreign_moves,
            controller_id=self.controller_id,
            step_size=None if self.step_size == "all" else self.step_size,
            tenure=self.tenure,
            tenure_linger_s=self.tenure_linger_s,
            legacy_mode=self.legacy_mode,
            max_partitions_in_flight=self.max_partitions_in_flight,
            max_incoming_per_broker=self.max_incoming_per_broker,
            max_outgoing_per_broker=self.max_outgoing_per_broker,
            adaptive=self.adaptive,
            slow_answer_s=self.slow_answer_s,
            under_min_isr=self.under_min_isr,
            size_refresh_s=self.size_refresh_s,
            copy_refresh_s=self.copy_refresh_s,
            max_bytes_in_flight=self.max_bytes_in_flight,
            max_leader_moves_per_broker_per_second=self.max_leader_moves_per_broker_per_second,
            order=self.order,
            annotate_legacy=self.annotate_legacy,
            outcomes_kept=self.outcomes_kept,
            stop_replica_timeout_s=self.stop_replica_timeout_s,
            config_refresh_s=self.config_refresh_s,
            request_bytes=self.request_bytes,
            preferred_election=self.preferred_election,
            preferred_elections_per_second=self.preferred_elections_per_second,
            auto_leader_rebalance=self.auto_leader_rebalance,
            leader_imbalance_per_broker_percentage=self.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_s=self.leader_imbalance_check_interval_s,
        )


def _about(field: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(
        "belongs_together", "{message}", {"message": message, "field": field}
    )


def name_of(field: str) -> str:
    """Return the name people write: the field without its unit."""
    return field.removesuffix("_s")


def flag_of(field: str) -> str:
    """Return the command-line option of a field."""
    return "--" + name_of(field).replace("_", "-")


def variable_of(field: str) -> str:
    """Return the environment variable of a field."""
    return ENVIRONMENT_PREFIX + name_of(field).upper()


def is_secret(info: FieldInfo) -> bool:
    """Whether the field must never be shown, nor be given on a command line."""
    return "SecretStr" in str(info.annotation)
