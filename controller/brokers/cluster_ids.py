"""
The id of the cluster that given brokers belong to, by librdkafka.

It is the only question of a command that begins with addresses of brokers and not with ZooKeeper.
What else librdkafka could answer, and why it does not: ``docs/decisions/0037``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from controller.brokers.connection_settings import Security
from controller.errors import BrokerUnreachableError

WITHIN_S: Final = 30.0
LOOK_S: Final = 0.02
"""Between two looks at what brokers say meanwhile."""
LOGIN_PAUSE_MS: Final = 1_000
"""
Between two logins at one broker; librdkafka turns to another broker after half of it.

By default it would try a refused password at all brokers every 50 ms.
"""


def cluster_id_of(bootstrap_servers: str, security: Security, *, within_s: float = WITHIN_S) -> str:
    """
    Return the id of the cluster that brokers at ``HOST:PORT[,HOST:PORT]`` belong to.

    Raises:
        BrokerUnreachableError: no broker answers, or they refuse the login.
    """
    said: list[KafkaError] = []
    found: Future[str] = Future()

    def query() -> None:
        try:
            # describe_cluster would wait for a broker that is the controller: in a tenure, none is.
            found.set_result(str(client.list_topics(timeout=within_s).cluster_id))
        except KafkaException as error:
            found.set_exception(error)

    try:
        settings: dict[str, str | int] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        if security.sasl_mechanism is not None:  # each connection may be a refused login
            settings["reconnect.backoff.ms"] = LOGIN_PAUSE_MS
        client = AdminClient({**settings, **client_settings(security)}, error_cb=said.append)
        # Left behind after refusals: librdkafka repeats logins, and cannot be interrupted.
        thread = threading.Thread(target=query, name="cluster id", daemon=True)
        thread.start()
        refusals_max = len(bootstrap_servers.split(","))
        while thread.is_alive() and len(_refusals(said)) < refusals_max:
            client.poll(LOOK_S)
        if found.done():
            return found.result()
        problem = _refusals(said)[0]
    except KafkaException as error:
        problem = (_refusals(said) or said or error.args)[0]
    raise BrokerUnreachableError(f"{bootstrap_servers} does not answer: {problem.str()}")


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
