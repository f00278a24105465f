"""
The id of the cluster that given brokers belong to, by librdkafka.

It is the only question of a command that begins with addresses of brokers and not with ZooKeeper.
What else librdkafka could answer, and why it does not: ``docs/decisions/0037``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception

from controller.brokers.endpoints import Security
from controller.errors import BrokerUnreachableError

WITHIN_S: Final = 30.0
RECONNECT_MS: Final = 2_000
"""
Between two connections to one broker.

librdkafka tries a refused password again and again; ours are given up before the second time.
"""


def cluster_id_of(bootstrap_servers: str, security: Security, *, within_s: float = WITHIN_S) -> str:
    """
    Return the id of the cluster that brokers belong to.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT]``.
        security: TLS and SASL settings.
        within_s: How long to wait for an answer.

    Raises:
        BrokerUnreachableError: no broker answers, or one refuses the login.

    """
    said: list[KafkaError] = []

    def is_passing(error: BaseException) -> bool:
        return isinstance(error, KafkaException) and not _refusals(said)

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "reconnect.backoff.ms": RECONNECT_MS,
        **client_settings(security),
    }
    deadline = time.monotonic() + within_s
    try:
        client = AdminClient(settings, error_cb=said.append)
        for attempt in Retrying(
            retry=retry_if_exception(is_passing),
            stop=lambda _: time.monotonic() >= deadline,
            reraise=True,
        ):
            with attempt:
                # Shortly at first: what brokers say is seen only in between.
                patience_s = 2.0 ** (attempt.retry_state.attempt_number - 1)
                left_s = max(0.0, deadline - time.monotonic())
                try:
                    # describe_cluster waits for a broker that is the controller: in a tenure, none.
                    found = client.list_topics(timeout=min(patience_s, left_s))
                finally:
                    client.poll(0)
        return str(found.cluster_id)
    except KafkaException as error:
        because = [*_refusals(said), *said, *error.args]
        reason = because[0].str() if because else str(error)
        raise BrokerUnreachableError(f"{bootstrap_servers} does not answer: {reason}") from error


def _refusals(said: Iterable[KafkaError]) -> list[KafkaError]:
    """Return the errors that refuse a login."""
    code = KafkaError._AUTHENTICATION  # noqa: SLF001 - public, in spite of its name
    return [error for error in said if error.code() == code]


def client_settings(security: Security) -> dict[str, str | bool]:
    """Return the security settings under librdkafka's names."""
    tls = security.tls
    wanted = {
        "security.protocol": security.security_protocol,
        "ssl.ca.location": tls.cafile,
        "ssl.certificate.location": tls.certfile,
        "ssl.key.location": tls.keyfile or tls.certfile,
        "ssl.key.password": None if tls.password is None else tls.password.reveal(),
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.sasl_username,
        "sasl.password": security.password(),
    }
    found: dict[str, str | bool] = {k: str(v) for k, v in wanted.items() if v is not None}
    if not tls.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found
