"""
Which cluster brokers belong to, asked of whoever answers first.

For a command that is told of brokers and of a ZooKeeper and has to know that they go together.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from controller.brokers.endpoints import Security
from controller.errors import BrokerUnreachableError

WITHIN_S: Final = 30.0


def cluster_id_of(bootstrap_servers: str, security: Security, *, within_s: float = WITHIN_S) -> str:
    """
    Ask brokers for the id of their cluster.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT]``.
        security: TLS and SASL settings.
        within_s: How long to wait for an answer.

    Raises:
        BrokerUnreachableError: none of them answers.

    """
    try:
        client = AdminClient(
            {"bootstrap.servers": bootstrap_servers, "log_level": 0, **client_settings(security)}
        )
        # describe_cluster would wait for a broker that is the controller, and in a tenure none is.
        return str(client.list_topics(timeout=within_s).cluster_id)
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        raise BrokerUnreachableError(f"{bootstrap_servers} does not answer: {reason}") from error


def client_settings(security: Security) -> dict[str, str | bool]:
    """Return the settings in librdkafka's words."""
    wanted = {
        "security.protocol": security.security_protocol,
        "ssl.ca.location": security.ssl_cafile,
        "ssl.certificate.location": security.ssl_certfile,
        "ssl.key.location": security.ssl_keyfile,
        "ssl.key.password": security.ssl_password,
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.sasl_plain_username,
        "sasl.password": security.sasl_plain_password,
    }
    found: dict[str, str | bool] = {k: v for k, v in wanted.items() if v is not None}
    if not security.ssl_check_hostname:
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found
