"""Which cluster brokers belong to: how they are asked; the answer is in ``integration``."""

from __future__ import annotations

import pytest

from controller.brokers.cluster_id import client_settings, cluster_id_of
from controller.brokers.endpoints import Security
from controller.errors import BrokerUnreachableError


def test_settings_are_told_in_librdkafkas_words() -> None:
    """What is not set is not mentioned."""
    assert client_settings(Security()) == {"security.protocol": "PLAINTEXT"}
    strict = Security(
        security_protocol="SASL_SSL",
        ssl_cafile="/ca.pem",
        ssl_check_hostname=False,
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="ann",
        sasl_plain_password="secret",  # noqa: S106 - an example
    )
    assert client_settings(strict) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }


def test_brokers_that_do_not_answer_are_told() -> None:
    """With where they were looked for, and in time."""
    with pytest.raises(BrokerUnreachableError, match="does not answer: "):
        cluster_id_of("127.0.0.1:1", Security(), within_s=0.5)
