"""The id of the cluster that brokers belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from controller.brokers.cluster_ids import client_settings, cluster_id_of
from controller.brokers.connection_settings import Security
from controller.credentials import ClientTls, Password
from controller.errors import BrokerUnreachableError


def test_settings_have_librdkafkas_names() -> None:
    """What is not set is not mentioned."""
    assert client_settings(Security()) == {"security.protocol": "PLAINTEXT"}
    strict = Security(
        security_protocol="SASL_SSL",
        tls=ClientTls(cafile=Path("/ca.pem"), check_hostname=False),
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="ann",
        sasl_password=Password("sasl_password", SecretStr("secret")),
    )
    assert client_settings(strict) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }


def test_brokers_that_do_not_answer_are_reported() -> None:
    """With where they were looked for, and in time."""
    with pytest.raises(BrokerUnreachableError, match=r"does not answer: .*refused"):
        cluster_id_of("127.0.0.1:1", Security(), within_s=0.5)
